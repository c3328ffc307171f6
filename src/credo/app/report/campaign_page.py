"""`render_campaign`: a campaign as one HTML page that needs nothing else, neither network nor script."""

import numpy as np

import credo
from credo.app import campaign_plots as pictures
from credo.app.campaign_desk import goals, written
from credo.app.campaign_model import held, noise_of, slices
from credo.app.importance import importances
from credo.app.plots import new_axes
from credo.app.report import campaign_words as words
from credo.app.report.figures import data_uri
from credo.app.report.fill import Page, fill
from credo.decide.campaign import Best, Campaign, Observations, Problem
from credo.decide.campaign.advice import front, predicted_optimum
from credo.decide.campaign.model import Model
from credo.decide.campaign.surrogate import Surrogate
from credo.decide.space.parameters import Point

MOST_ROWS = 300
MOST_REASONS = 20


def render_campaign(campaign: Campaign, *, command: str = "") -> str:
    """The page. `command` is shown for reproduction."""
    problem, seen = campaign.problem, campaign.observations()
    model = campaign.model() if np.isfinite(seen.values).all(axis=1).any() else None
    best = advice = None
    if model is not None and len(problem.signs) == 1:
        best, advice = campaign.best(), campaign.advice()
    came_true = np.zeros(0, bool) if model is None else held(problem, seen, noise_of(model.objectives[0]))
    page = {
        "title": campaign.name,
        "name": campaign.name,
        "goals": goals(problem),
        "where": campaign.storage.where,
        "headline": words.headline(campaign, best, advice),
        "tiles": words.tiles(campaign, best, advice),
        "warnings": words.warnings(campaign, best, came_true),
        "trust": words.trust(came_true),
        "best_so_far": data_uri(pictures.plot_best(campaign, new_axes(9.6, 3.6)).figure) if len(seen) else "",
        "parallel": data_uri(pictures.plot_parallel(campaign).figure) if _is_wide(problem, seen) else "",
        "space": repr(problem.space),
        "constraints": _constraints(problem, seen, best),
        "failures": _failures(campaign),
        "trials": _trials(campaign),
        "outcomes": problem.outcomes,
        "names": problem.space.names,
        "seed": problem.seed,
        "command": command,
        "version": credo.__version__,
        "front": _front(campaign) if len(problem.signs) > 1 else None,
    }
    return fill("campaign.html", page | _learned(problem, seen, model, best))


def _is_wide(problem: Problem, seen: Observations) -> bool:
    return len(problem.space.names) > 1 and bool(np.isfinite(seen.values[:, 0]).any())


def _learned(problem: Problem, seen: Observations, model: Model | None, best: Best | None) -> Page:
    """What the model says: importance, slices, the predicted optimum; nothing without a value."""
    if model is None:
        return {"importance": [], "slices": [], "through": "", "optimum": []}
    found, order = [], list(problem.space.names)
    for surrogate, name in zip(model.objectives, problem.objectives, strict=True):

        def mean(rows: np.ndarray, surrogate: Surrogate = surrogate) -> np.ndarray:
            return np.asarray(surrogate.belief.predict(rows).mean)

        shares = importances(problem.space, mean)
        ax = pictures.plot_importance(shares, new_axes(9.6, 0.9 + 0.34 * len(shares)))
        found.append({"name": name, "words": words.importance(shares, name), "figure": data_uri(ax.figure)})
        if not found[1:]:
            order = [each.name for each in sorted(shares, key=lambda each: -each.total)]
    point, which = _center(problem, seen, best)
    curves = slices(problem, model, point, order)
    drawn = [
        {"name": name, "figure": data_uri(pictures.plot_slices(each, seen, name, i))}
        for i, (name, each) in enumerate(zip(problem.objectives, curves, strict=True))
    ]
    optimum: list[str] = []
    if len(problem.signs) == 1:
        optimum = words.optimum(problem, *predicted_optimum(problem, model))
    return {"importance": found, "slices": drawn, "through": which, "optimum": optimum}


def _center(problem: Problem, seen: Observations, best: Best | None) -> tuple[Point, str]:
    """The point that slices go through: the best, or the most balanced one on the front (Nash's product)."""
    if best is not None:
        return best.point, "the best point"
    rows = front(problem, seen)
    if not len(rows):
        rows = np.flatnonzero(np.isfinite(seen.values).all(axis=1))
    turned = seen.values[rows] * np.asarray(problem.signs)
    worst, reach = turned.min(axis=0), np.ptp(turned, axis=0)
    gains = np.prod((turned - worst) / np.where(reach > 0, reach, 1.0) + 1e-3, axis=1)
    row = rows[int(np.argmax(gains))]
    return seen.points[row], f"trial {seen.numbers[row]}, a compromise on the front"


def _front(campaign: Campaign) -> Page:
    problem, seen = campaign.problem, campaign.observations()
    rows = [
        {
            "number": int(seen.numbers[i]),
            "point": [written(seen.points[i].get(name)) for name in problem.space.names],
            "values": [written(float(value)) for value in seen.values[i]],
        }
        for i in front(problem, seen)
    ]
    figure = data_uri(pictures.plot_front(campaign).figure) if len(problem.signs) == 2 and rows else ""
    return {"rows": rows, "figure": figure, "objectives": problem.objectives}


def _constraints(problem: Problem, seen: Observations, best: Best | None) -> list[Page]:
    out = []
    for i, bound in enumerate(problem.constraints):
        values = seen.constraints[:, i]
        known = np.isfinite(values)
        kept = int((bound.slack(values[known]) >= 0).sum())
        at = next((k for k, n in enumerate(seen.numbers) if best is not None and n == best.trial), None)
        out.append(
            {
                "name": bound.name,
                "limit": f"{'≤' if bound.at_most else '≥'} {bound.limit:g}",
                "kept": f"{kept} of {int(known.sum())}",
                "best": "–" if at is None or not known[at] else written(float(values[at])),
                "broken": at is not None and bool(bound.slack(values[at]) < 0),
            }
        )
    return out


def _failures(campaign: Campaign) -> list[Page]:
    """Reasons, the most frequent first, and the trials that gave them."""
    reasons: dict[str, list[int]] = {}
    for trial in campaign.trials:
        if trial.state == "failed":
            reasons.setdefault(str(trial.reason), []).append(trial.number)
    ranked = sorted(reasons.items(), key=lambda item: -len(item[1]))[:MOST_REASONS]
    return [{"reason": reason, "trials": ", ".join(map(str, numbers))} for reason, numbers in ranked]


def _trials(campaign: Campaign) -> Page:
    problem, trials = campaign.problem, campaign.trials
    rows = [
        {
            "number": trial.number,
            "state": trial.state,
            "point": [written(trial.point.get(name)) for name in problem.space.names],
            "values": [written((trial.values or {}).get(name)) for name in problem.outcomes],
            "why": campaign.explain(trial),
        }
        for trial in trials[-MOST_ROWS:]
    ]
    return {"rows": rows, "total": len(trials)}
