"""The report of classes: how often the model is right, what its probabilities are worth, what decisions cost."""

import numpy as np

from credo.app.fit.costs import zero_one
from credo.app.fit.scores import bins_for
from credo.app.fit.tables import Result
from credo.app.plots import classes as draw
from credo.app.plots.classes import Classes
from credo.app.plots.regions import decision_regions
from credo.app.plots.style import data_uri, some
from credo.app.report import tables
from credo.app.report.class_checks import ClassChecks, check_classes
from credo.app.report.numbers import part_of
from credo.app.report.page import Block, Cell, Figure, Row, Section, Table, Text
from credo.app.report.words import beyond_and_rival, count, doubt, number, percent
from credo.core.abilities import DrawsMeans
from credo.core.predictive import Bernoulli, Categorical
from credo.decide.losses import CostMatrix

MOST_PANELS = 6


def parts(result: Result, costs: CostMatrix | None, text: str) -> tables.Parts:
    """What the report of classes says in its own words; `text` are the costs as they were given."""
    prediction = result.predict(result.test)
    assert isinstance(prediction, Bernoulli | Categorical)
    checks, levels = check_classes(result, prediction), result.prepared.levels
    python = ["model.levels, prediction.probs, prediction.entropy(), prediction.aleatoric, prediction.epistemic"]
    if costs is not None:
        python += ["", f"credo.decide(prediction, credo.losses.CostMatrix({costs.costs.tolist()})).action"]
    two = len(levels) == 2
    return tables.Parts(
        headline=_headline(result, checks),
        tiles=_tiles(result, checks),
        warnings=_warnings(result, checks),
        predictions=_predictions(result, prediction),
        checks=[_calibration(result, prediction, checks)],
        what=lambda effect: f"the probability of “{effect.outcome or levels[1]}”",
        amount=lambda change: f"{100 * change:.0f} points" if change >= 0.01 else f"{100 * change:.1f} points",
        change=f"the probability of {f'“{levels[1]}”' if two else 'the class in brackets'}",
        along=f"P({levels[1]})" if two else "probability",
        captions=("a probability", "Predicted probabilities"),
        decision=[_decision(result, prediction, costs or zero_one(levels), costs is None)],
        options=f' --costs "{text}"' if text else "",
        python=python,
    )


def _headline(result: Result, checks: ClassChecks) -> list[str]:
    """What was learned, in three sentences."""
    scores, target, n = result.chosen.scores, result.model.target, len(result.y_test)
    right, loss = scores["accuracy"], scores["nlpd"]
    said = (
        f"We name the right class of {target} in {percent(right)} of {count(n, 'row')} that the model had not seen, "
        f"against {percent(checks.usual_right)} for always saying “{checks.usual}”, the most frequent."
    )
    if loss >= checks.shares_loss:
        said += (
            f" Its probabilities are no better than the shares of the classes (log loss {number(loss)} against "
            f"{number(checks.shares_loss)}): the columns of this table say little about {target}."
        )
    elif right <= checks.usual_right:
        said += (
            f" Its probabilities are worth more than that says: log loss {number(loss)}, against "
            f"{number(checks.shares_loss)} for stating the shares of the classes."
        )
    return [said, doubt(checks.noise), _verdict(checks)]


def _verdict(checks: ClassChecks) -> str:
    """Whether the probabilities can be believed."""
    low, high = checks.chance
    said = (
        f"Stated probabilities were off by {number(checks.diagram.error)} on average (expected calibration error; "
        f"{number(low)} to {number(high)} can be chance on so many rows)"
    )
    if checks.off > 0:
        return f"{said}: the model is too sure of itself. Move its probabilities towards even before you rely on them."
    if checks.off < 0:
        return f"{said}: the model is more careful than it needs to be."
    if checks.diagram.error > high:
        return f"{said}: more than chance explains. See below where they are off."
    return f"{said}: they can be taken at face value."


def _tiles(result: Result, checks: ClassChecks) -> tuple[tuple[str, str, str], ...]:
    scores, levels = result.chosen.scores, result.prepared.levels
    scale = "0.25 is a coin's" if len(levels) == 2 else f"0 is best, {checks.parts.uncertainty:.2f} for the shares"
    usual = f"“{checks.usual}” every time: {percent(checks.usual_right)}"
    return (
        ("right class", percent(scores["accuracy"]), usual),
        ("log loss", number(scores["nlpd"]), f"stating the shares: {number(checks.shares_loss)}"),
        ("Brier score", number(scores["brier"]), scale),
        ("calibration error", number(scores["ece"]), f"chance gives up to {number(checks.chance[1])}"),
        ("doubt that is noise", percent(checks.noise), "the rest is ignorance"),
    )


def _warnings(result: Result, checks: ClassChecks) -> list[str]:
    """What a careful reader should know before using the model."""
    said, surprise = [], result.chosen.scores["nlpd"]
    if surprise >= checks.shares_loss:
        said.append(
            f"The chosen model does not beat the baseline: the shares of the classes, whatever the row, give the test "
            f"rows as much probability (log loss {number(checks.shares_loss)}, the model {number(surprise)})."
        )
    said += beyond_and_rival(checks.outside, checks.rival)
    n, levels = len(result.y_test), result.prepared.levels
    seen = np.bincount(result.prepared.y.astype(int), minlength=len(levels))
    rare = [f"“{level}” ({count(int(c), 'row')})" for level, c in zip(levels, seen, strict=True) if c < 10]
    if rare:
        said.append(f"Few rows are of {', '.join(rare)}: what is said about so rare a class is mostly prior belief.")
    if n < 50:
        said.append(f"The test has only {count(n, 'row')}: its scores are rough.")
    return said + list(result.notes)


def _predictions(result: Result, prediction: Classes) -> Section:
    """The probabilities of the test rows with the doubt about them."""
    belief, levels, draws = result.chosen.belief, result.prepared.levels, None
    if len(levels) == 2 and isinstance(belief, DrawsMeans):
        draws = belief.mean_draws(result.x_test.to_numpy()[:, None])
        said = (
            "The ticks show what each row was: they should thicken above on the right and below on the left. The band "
            "is ignorance (epistemic): it shrinks with more rows."
        )
    else:
        said = (
            "Each is a bar whose colours are the probabilities of the classes: every block should be mostly of the "
            "colour of its class."
        )
    every = np.arange(len(result.y_test))
    picture = Figure(
        data_uri(draw.probabilities(prediction, result.y_test, levels, draws)),
        f"Predicted probabilities of the classes of {result.model.target} for the test rows, and what each row was",
        f"{part_of(some(len(every), 250 if len(levels) == 2 else 400), every)} {said}",
    )
    blocks: list[Block] = [picture]
    if result.prepared.x.shape[1] == 2 and all(c.continuous for c in result.prepared.schema.columns):
        regions = decision_regions(result.model.belief, result.prepared.x, result.prepared.labels)
        said = "Colours are the most probable class, the surer the darker; points are the rows."
        blocks.append(Figure(data_uri(regions), "The most probable class over the two inputs", said, narrow=True))
    return Section("predictions", "Probabilities and their doubt", tuple(blocks))


def _calibration(result: Result, prediction: Classes, checks: ClassChecks) -> Section:
    levels, y, p = result.prepared.levels, result.y_test, checks.parts
    two = len(levels) == 2
    stated = f"probability of “{levels[1]}”" if two else "probability of the most probable class"
    happened = f"how often it was “{levels[1]}”" if two else "how often that was right"
    blocks: list[Block] = [
        Figure(
            data_uri(draw.reliability_diagram(prediction, y, bins=bins_for(len(y)), labels=(stated, happened))),
            "Reliability diagram: how often it happened against the stated probability",
            narrow=True,
        ),
        Text(
            (
                "Of the rows to which the model gives a probability of 80 %, 80 % should turn out so: points on the "
                "dashed line. Grey is what chance allows to a model that is right, the bars are 95 % intervals of what "
                "was observed.",
                _verdict(checks),
            )
        ),
        Figure(data_uri(draw.stated(prediction, y, levels)), "Histogram of the stated probabilities", narrow=True),
    ]
    if 2 < len(levels) <= MOST_PANELS:
        picture = data_uri(draw.each_class(prediction, y, levels, bins_for(len(y))))
        blocks += [
            Text(("Each class against the rest",), "heading"),
            Figure(picture, "Reliability diagram of each class"),
        ]
    names = ("reliability (0 is best)", "resolution (larger is better)", "uncertainty (of the classes)", "Brier score")
    cells = tuple(number(value) for value in (p.reliability, p.resolution, p.uncertainty, p.score))
    summed = "" if two else ", summed over the classes"
    blocks += [
        Text(("The Brier score, taken apart",), "heading"),
        Text((_brier(checks),)),
        Table(names, (Row(cells),), left=()),
        Text(
            (
                "Brier score = reliability - resolution + uncertainty (mean squared error of the "
                f"probabilities{summed}). The calibration error is the mean distance of the points from the line; with "
                "few rows it is never near zero, even for a model that is right.",
            ),
            "small",
        ),
    ]
    return Section("calibration", "Can its probabilities be trusted?", tuple(blocks))


def _brier(checks: ClassChecks) -> str:
    """What the parts of the Brier score say."""
    p = checks.parts
    told, lost = (part / p.uncertainty if p.uncertainty > 0 else 0.0 for part in (p.resolution, p.reliability))
    apart = f"the model tells apart {percent(told)} of it" if told > 0 else "the model tells none of it apart"
    return (
        f"Before anything is known about a row, its class is uncertain by {number(p.uncertainty)}; {apart}, and loses "
        f"{percent(lost)} by stating probabilities that do not match what happens."
    )


def _decision(result: Result, prediction: Classes, costs: CostMatrix, plain: bool) -> Section:
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
    rows = []
    for a, name in enumerate(names):
        met = [int(np.sum((best == a) & (y == k))) for k in range(len(levels))]
        cells = [
            Cell(str(n), "best" if name == level else "", "" if plain else f"at {table[a, k]:g}")
            for k, (n, level) in enumerate(zip(met, levels, strict=True))
        ]
        rows.append(Row((name, *cells, str(sum(met)))))
    return tables.decision(
        _costs(means, expected, plain),
        means,
        Text(("What was decided, and what was true",), "heading"),
        Table(("decided", *(f"was {level}" for level in levels), "rows"), tuple(rows)),
        Text((f"Test rows{'' if plain else ', with the cost of each'}; right decisions are bold.",), "small"),
    )


def _costs(costs: dict[str, float], expected: float, plain: bool) -> list[str]:
    """What acting in each way cost on the test rows."""
    (best_name, best), *others = costs.items()
    rule = "The best action has the smallest cost on average over the classes, weighted by their probability."
    if plain:
        rule = (
            "No costs were given, so every mistake costs one and the best action is the most probable class. Where "
            "mistakes differ in price, say so with --costs: the best action is then often another."
        )
    said = [
        rule,
        f"The model expected {best_name} to cost {number(expected)} a row; on the test rows it cost {number(best)}.",
    ]
    for name, value in others:
        if value > 0 and value != best:
            said.append(f"That is {tables.saving(best, value)} than {name} ({number(value)}).")
    return said
