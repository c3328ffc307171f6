"""Pictures of campaigns: the best so far, the model along each parameter, what matters, all trials at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from credo.app.plots.style import BLUE, GREEN, GREY, INK, LINE, ORANGE, PAGE, RED, band, legend, names, new_axes, tidy
from credo.decide.campaign import Campaign, Observations, Problem
from credo.decide.campaign.model_slices import Slice, center
from credo.decide.campaign.model_slices import slices as along
from credo.decide.campaign.sensitivity import Importance
from credo.decide.pareto import hypervolume, non_dominated, reference_point
from credo.decide.space.parameters import Point

SHADES = "viridis"


def best(campaign: Campaign, *, ax: Axes | None = None) -> Axes:
    """Each result and the best so far, in the order of telling; failed trials are crosses at the edge.

    With several objectives: the hypervolume of the Pareto front so far.
    """
    problem, seen = campaign.problem, campaign.observations()
    ax = ax or new_axes()
    turn = np.arange(1, len(seen) + 1)
    good = seen.feasible(problem) & np.isfinite(seen.values).all(axis=1)
    if len(problem.signs) > 1:
        ax.step(turn, _volumes(problem, seen, good), where="post", color=BLUE, linewidth=1.8, label="front so far")
        name = "hypervolume"
    else:
        name, values = problem.objectives[0], seen.values[:, 0]
        bad = np.isfinite(values) & ~good
        ax.plot(turn[good], values[good], "o", color=GREY, markersize=4.5, label="trial")
        ax.plot(turn[bad], values[bad], "o", color=ORANGE, markersize=4.5, mfc="none", label="breaks a constraint")
        if not bad.any():
            ax.lines[-1].remove()
        scores = np.where(good, problem.signs[0] * values, -np.inf)
        top = np.maximum.accumulate(scores) if len(scores) else scores
        reached = np.isfinite(top)
        ax.step(turn[reached], problem.signs[0] * top[reached], where="post", color=BLUE, linewidth=1.8, label="best")
    if seen.failed.any():
        at = turn[seen.failed]
        ax.plot(at, np.full(len(at), 0.02), "x", color=RED, transform=ax.get_xaxis_transform(), label="failed")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(ax, loc="best")
    return tidy(ax, "trials told", name)


def _volumes(problem: Problem, seen: Observations, good: np.ndarray) -> np.ndarray:
    """The hypervolume after each row."""
    if not good.any():
        return np.zeros(len(seen))
    turned = seen.values * np.asarray(problem.signs)
    origin = reference_point(turned[good])
    out, front = [], np.zeros((0, turned.shape[1]))
    for row, counts in zip(turned, good, strict=True):
        if counts:
            front = np.concatenate([front, row[None]])
            front = front[non_dominated(front)]
        out.append(hypervolume(front, origin) if len(front) else 0.0)
    return np.asarray(out)


def slices(campaign: Campaign, column: int = 0, *, point: Point | None = None) -> Figure:
    """The believed objective along each parameter through one point, and below it where the acquisition looks next.

    Dots are trials, which lie elsewhere in the other parameters. `column` numbers the objective; the point is the best
    one by default, of several objectives the most balanced one on the front.
    """
    problem, model = campaign.problem, campaign.model()
    through = center(campaign)[0] if point is None else point
    return slice_panels(along(problem, model, through, list(problem.space.names))[column], campaign, column)


def slice_panels(curves: Sequence[Slice], campaign: Campaign, column: int = 0) -> Figure:
    """`slices` that are there already."""
    seen, name = campaign.observations(), campaign.problem.objectives[column]
    across = min(3, len(curves))
    down = -(-len(curves) // across)
    figure = Figure(figsize=(PAGE, 3.3 * down), layout="constrained")
    grid = figure.subplots(2 * down, across, squeeze=False, height_ratios=[3, 1] * down)
    for ax in grid.ravel():
        ax.set_visible(False)
    for i, each in enumerate(curves):
        top, bottom = grid[2 * (i // across), i % across], grid[2 * (i // across) + 1, i % across]
        _slice(top, each, seen, seen.values[:, column])
        _score(bottom, each)
        tidy(top, "", name if i % across == 0 else "")
        tidy(bottom, each.parameter.name, "look next" if i % across == 0 else "")
        bottom.set(ylim=(0, 1.08), yticks=[], visible=True)
        bottom.set_xlim(top.get_xlim())
        top.tick_params(labelbottom=False)
        top.set_visible(True)
    return figure


def _slice(ax: Axes, each: Slice, seen: Observations, values: np.ndarray) -> None:
    there = [k for k, point in enumerate(seen.points) if each.parameter.name in point and np.isfinite(values[k])]
    at = [seen.points[k][each.parameter.name] for k in there]
    if each.numeric:
        band(ax, each.at, each.lower, each.upper, each.mean, alpha=0.22)
        ax.plot(at, values[there], ".", color=INK, markersize=4, alpha=0.5)
        ax.axvline(each.here, color=GREEN, linewidth=1.0, linestyle="--")
        _numeric_axis(ax, each)
        return
    places = np.arange(len(each.at))
    ax.errorbar(places, each.mean, [each.mean - each.lower, each.upper - each.mean], fmt="o", color=BLUE, capsize=3)
    ax.plot([each.at.index(value) + 0.15 for value in at], values[there], ".", color=INK, markersize=4, alpha=0.5)
    ax.axvline(each.at.index(each.here), color=GREEN, linewidth=1.0, linestyle="--")
    ax.set_xticks(places, [])
    ax.set_xlim(-0.6, len(places) - 0.4)


def _score(ax: Axes, each: Slice) -> None:
    if each.numeric:
        ax.fill_between(each.at, 0, each.score, color=ORANGE, alpha=0.45, linewidth=0)
        _numeric_axis(ax, each)
        return
    ax.bar(np.arange(len(each.at)), each.score, color=ORANGE, alpha=0.6, width=0.5)
    names(ax, each.at)


def _numeric_axis(ax: Axes, each: Slice) -> None:
    if getattr(each.parameter, "log", False):
        ax.set_xscale("log")
    ax.set_xlim(each.at[0], each.at[-1])


def importance(shares: Sequence[Importance], *, ax: Axes | None = None) -> Axes:
    """What each parameter explains of the variation over the space: by itself (strong), with interactions (pale)."""
    rows = sorted(shares, key=lambda each: each.total)
    ax = ax or new_axes(7.0, 0.9 + 0.34 * len(rows))
    places = range(len(rows))
    ax.barh(places, [each.total for each in rows], color=BLUE, alpha=0.3, height=0.6, label="with interactions")
    ax.barh(places, [each.alone for each in rows], color=BLUE, height=0.6, label="by itself")
    names(ax, [each.name for each in rows], "y")
    for i, each in enumerate(rows):
        ax.text(each.total, i, f" {each.total:.0%}", va="center", fontsize=8.5, color=INK)
    ax.set_xlim(0, 1.12 * max(1e-9, *(each.total for each in rows)))
    ax.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    legend(ax, loc="lower right")
    return tidy(ax, "share of the variance of the believed function over the space", grid="x")


def parallel(campaign: Campaign, column: int = 0, *, ax: Axes | None = None) -> Axes:
    """Every trial as a line through its parameters, coloured by an objective: bright is good; dashed red failed."""
    problem, seen = campaign.problem, campaign.observations()
    space, sign = problem.space, problem.signs[column]
    ax = ax or new_axes(PAGE, 3.6)
    values = seen.values[:, column]
    known = values[np.isfinite(values)]
    scale = Normalize(*((known.min(), known.max()) if len(known) else (0.0, 1.0)))
    shades = colormaps[SHADES if sign > 0 else f"{SHADES}_r"]
    heights = np.asarray([_heights(problem, point) for point in seen.points]).reshape(len(seen), len(space.names))
    for k in np.argsort(np.where(np.isfinite(values), sign * values, -np.inf), kind="stable"):
        there = np.isfinite(values[k])
        style: dict[str, Any] = {"color": shades(scale(values[k]))} if there else {"color": RED, "linestyle": "--"}
        ax.plot(heights[k], linewidth=1.2, alpha=0.75 if there else 0.4, **style)
    for i, parameter in enumerate(space.parameters):
        ax.axvline(i, color=LINE, linewidth=1)
        for height, text in _ends(parameter):
            ax.annotate(
                text,
                (i, height),
                (3, 0),
                textcoords="offset points",
                fontsize=7.5,
                color=INK,
                va="center",
                parse_math=False,
            )
    ax.set_xticks(range(len(space.names)), list(space.names), parse_math=False)
    ax.set(yticks=[], ylim=(-0.05, 1.05), xlim=(-0.2, len(space.names) - 0.4))
    bar = ax.figure.colorbar(ScalarMappable(scale, shades), ax=ax, pad=0.01)
    bar.set_label(problem.objectives[column], fontsize=9, color=INK, parse_math=False)
    tidy(ax, grid="")
    ax.spines[["left", "bottom"]].set_visible(False)
    return ax


def _heights(problem: Problem, point: Point) -> list[float]:
    """Where a point crosses the axis of each parameter, from 0 to 1; nan where it does not exist."""
    out = []
    for parameter in problem.space.parameters:
        if parameter.name not in point:
            out.append(np.nan)
            continue
        number = parameter.numbers([point[parameter.name]])
        few = parameter.kind not in ("real", "integer")
        out.append(float(number[0] / max((parameter.count or 2) - 1, 1) if few else parameter.columns(number)[0, 0]))
    return out


def _ends(parameter: Any) -> list[tuple[float, str]]:
    """The labels along an axis: the bounds, or the options."""
    if parameter.kind in ("real", "integer"):
        return [(0.0, f"{parameter.low:g}"), (1.0, f"{parameter.high:g}")]
    count = int(parameter.count)
    options = parameter.values(np.arange(count, dtype=float))
    return [(i / max(count - 1, 1), str(options[i])) for i in (range(count) if count <= 8 else (0, count - 1))]


def front(campaign: Campaign, *, ax: Axes | None = None) -> Axes:
    """Two objectives against each other, and the trials that no other beats in both."""
    problem, seen = campaign.problem, campaign.observations()
    ax = ax or new_axes(5.4, 4.2)
    good = seen.feasible(problem) & np.isfinite(seen.values).all(axis=1)
    values = seen.values[:, :2]
    ax.plot(*values[good].T, "o", color=GREY, markersize=4.5, label="trial")
    if good.any():
        top = values[good][non_dominated(seen.values[good] * np.asarray(problem.signs))]
        top = top[np.argsort(top[:, 0])]
        edge: Any = "pre" if problem.signs[0] > 0 else "post"
        ax.step(*top.T, where=edge, color=BLUE, linewidth=1.0, alpha=0.6)
        ax.plot(*top.T, "o", color=BLUE, markersize=5.5, label="Pareto front")
    legend(ax, loc="best")
    senses = ["larger" if sign > 0 else "smaller" for sign in problem.signs]
    labels = [f"{name} ({sense} is better)" for name, sense in zip(problem.objectives, senses, strict=True)]
    return tidy(ax, labels[0], labels[1], grid="both")
