"""The parts of the report that only classes have."""

import numpy as np

from credo.app.costs import zero_one
from credo.app.report import class_figures, class_words, figures, words
from credo.app.report.class_checks import ClassChecks, check_classes
from credo.app.report.effects import curves, effects
from credo.app.report.fill import Page
from credo.app.workflow import Result
from credo.core.predictive import Bernoulli, Categorical
from credo.decide.losses import CostMatrix

Classes = Bernoulli | Categorical


def class_page(result: Result, costs: CostMatrix | None, text: str) -> Page:
    """What the template for classes needs; `text` is `--costs` as it was given."""
    prediction = result.predict(result.test)
    assert isinstance(prediction, Bernoulli | Categorical)
    checks, levels = check_classes(result, prediction), result.prepared.levels
    ranked = effects(result)
    picture, caption = class_figures.hero(result, prediction)
    what = f"“{levels[1]}”" if len(levels) == 2 else "the class in brackets"
    return {
        "headline": class_words.headline(result, checks),
        "tiles": _tiles(result, checks),
        "warnings": class_words.warnings(result, checks),
        "hero": picture,
        "hero_caption": caption,
        "calibration": class_figures.calibration(checks.diagram, levels),
        "each_class": class_figures.each_class(result, prediction),
        "histogram": class_figures.histogram(result, prediction),
        "verdict": class_words.verdict(checks),
        "parts": [
            ("reliability (0 is best)", words.number(checks.parts.reliability)),
            ("resolution (larger is better)", words.number(checks.parts.resolution)),
            ("uncertainty (of the classes)", words.number(checks.parts.uncertainty)),
            ("Brier score", words.number(checks.parts.score)),
        ],
        "parts_words": class_words.parts(checks),
        "effects": figures.effects(ranked, f"the probability of {what}") if len(ranked) > 1 else "",
        "effect_words": words.effects(
            ranked, lambda e: f"the probability of “{e.outcome or levels[1]}”", class_words.points
        ),
        "partial": figures.partial(curves(result, ranked), _axis(levels), levels) if ranked else "",
        "decision": decision(result, prediction, costs or zero_one(levels), costs is None),
        "costs": text,
        "levels": levels,
    }


def _axis(levels: tuple[str, ...]) -> str:
    return f"P({levels[1]})" if len(levels) == 2 else "probability"


def _tiles(result: Result, checks: ClassChecks) -> list[tuple[str, str, str]]:
    scores, levels = result.chosen.scores, result.prepared.levels
    scale = "0.25 is a coin's" if len(levels) == 2 else f"0 is best, {checks.parts.uncertainty:.2f} for the shares"
    return [
        (
            "right class",
            words.percent(scores["accuracy"]),
            f"“{checks.usual}” every time: {words.percent(checks.usual_right)}",
        ),
        ("log loss", words.number(scores["nlpd"]), f"stating the shares: {words.number(checks.shares_loss)}"),
        ("Brier score", words.number(scores["brier"]), scale),
        ("calibration error", words.number(scores["ece"]), f"chance gives up to {words.number(checks.chance[1])}"),
        ("doubt that is noise", words.percent(checks.noise), "the rest is ignorance"),
    ]


def decision(result: Result, prediction: Classes, costs: CostMatrix, plain: bool) -> Page:
    """What to do about the test rows, and what it would have cost."""
    y, levels = result.y_test.astype(int), result.prepared.levels
    table, names = np.asarray(costs.table), costs.names or ()
    best = np.asarray(costs.bayes_action(prediction))
    shares = np.bincount(result.y_train.astype(int), minlength=len(levels)) / len(result.y_train)
    always = int(np.argmin(table @ shares))
    ways = {"acting on the probabilities": best}
    if names == levels and not plain:
        ways["acting as if the most probable class were true"] = np.asarray(prediction.probs).argmax(axis=1)
    ways[f"always “{names[always]}”"] = np.full(len(y), always)
    means = {name: float(np.mean(table[action, y])) for name, action in ways.items()}
    expected = float(np.mean(np.asarray(costs.expected_loss(prediction, best))))
    met = [[int(np.sum((best == a) & (y == k))) for k in range(len(levels))] for a in range(len(table))]
    return {
        "words": class_words.decision(means, expected, plain),
        "figure": figures.decision(means),
        "plain": plain,
        "rows": [
            {
                "name": name,
                "cells": [(met[a][k], f"{table[a, k]:g}", name == levels[k]) for k in range(len(levels))],
                "total": sum(met[a]),
            }
            for a, name in enumerate(names)
        ],
    }
