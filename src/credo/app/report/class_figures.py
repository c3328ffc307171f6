"""The report's pictures of classes."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from credo.app import plots
from credo.app.report.class_checks import consistent, stated_of
from credo.app.report.figures import data_uri
from credo.app.report.responses import responses
from credo.app.scoring import bins_for
from credo.app.workflow import Result
from credo.core.predictive import Bernoulli, Categorical
from credo.evaluate.calibration import Reliability, reliability
from credo.models.glm import GLM

Classes = Bernoulli | Categorical
MOST_PANELS = 6


def color(i: int) -> str:
    """The colour of class i."""
    return plots.CLASSES[i % len(plots.CLASSES)]


def hero(result: Result, prediction: Classes) -> tuple[str, str]:
    """The probabilities of the test rows with the doubt about them, and a caption."""
    return _two(result, prediction) if isinstance(prediction, Bernoulli) else _several(result, prediction)


def _two(result: Result, prediction: Classes) -> tuple[str, str]:
    belief = result.chosen.belief
    assert isinstance(belief, GLM)
    p, levels = np.asarray(prediction.probs)[:, 1], result.prepared.levels
    order = np.argsort(p, kind="stable")
    shown = order[plots.some(len(order), 250)]
    draws = responses(belief, result.x_test.to_numpy()[shown])
    low, high = np.quantile(draws, (0.025, 0.975), axis=0)
    at, y = np.arange(len(shown)) + 1, result.y_test[shown]
    ax = plots.new_axes(9.6, 3.6)
    ax.fill_between(at, low, high, color=plots.BLUE, alpha=0.25, linewidth=0, label="95 % of the doubt about it")
    ax.plot(at, p[shown], color=plots.BLUE, linewidth=1.8, label=f"probability of “{levels[1]}”")
    for value, mark in ((1, plots.ORANGE), (0, plots.INK)):
        here = y == value
        place = 1.09 if value else -0.09
        ax.plot(at[here], np.full(here.sum(), place), "|", color=mark, markersize=9, markeredgewidth=1.6)
    ax.set_ylim(-0.15, 1.15)
    ends = (f"was {levels[0]}", "0", "0.5", "1", f"was {levels[1]}")
    ax.set_yticks([-0.09, 0, 0.5, 1, 1.09], ends)
    plots.legend(ax, loc="center left")
    plots.tidy(ax, "test rows, in the order of the prediction")
    part = f"{len(shown)} of the {len(order)} test rows" if len(shown) < len(order) else f"All {len(order)} test rows"
    said = (
        f"{part}; the model had not seen them. The ticks show what each row was: they should thicken above on the "
        "right and below on the left. The band is ignorance (epistemic): it shrinks with more rows."
    )
    return data_uri(ax.figure), said


def _several(result: Result, prediction: Classes) -> tuple[str, str]:
    probs, y, levels = np.asarray(prediction.probs), result.y_test.astype(int), result.prepared.levels
    order = np.lexsort((-probs[np.arange(len(y)), y], y))
    shown = order[plots.some(len(order), 400)]
    ax = plots.new_axes(9.6, 3.6)
    base = np.zeros(len(shown))
    for k, level in enumerate(levels):
        height = probs[shown, k]
        ax.bar(np.arange(len(shown)), height, bottom=base, width=1.0, color=color(k), linewidth=0, label=level)
        base = base + height
    starts = np.flatnonzero(np.diff(y[shown], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(shown)], strict=True):
        if start:
            ax.axvline(start - 0.5, color="white", linewidth=2.5)
        text = f"was {levels[y[shown[start]]]}"
        if end - start >= 0.04 * len(shown):
            ax.text((start + end - 1) / 2, 1.02, text, ha="center", va="bottom", fontsize=8.5, color=plots.INK)
    ax.set(xlim=(-0.5, len(shown) - 0.5), ylim=(0, 1.1), xticks=[], yticks=[0, 0.5, 1])
    plots.tidy(ax, "test rows, by what they were", "probability", grid="")
    ax.legend(
        frameon=False,
        fontsize=8.5,
        labelcolor=plots.INK,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        title_fontsize=8.5,
    )
    part = f"{len(shown)} of the {len(order)} test rows" if len(shown) < len(order) else f"All {len(order)} test rows"
    return data_uri(ax.figure), (
        f"{part}; the model had not seen them. Each is a bar whose colours are the probabilities of the classes: every "
        "block should be mostly of the colour of its class."
    )


def reliability_diagram(diagram: Reliability, ax: Axes | None = None, names: tuple[str, str] = ("", "")) -> Axes:
    """Stated probability against how often it happened, with what chance allows (grey) and Wilson's intervals."""
    ax = ax or plots.new_axes(4.4, 4.2)
    low, high = consistent(diagram)
    ax.plot([0, 1], [0, 1], color=plots.GREY, linewidth=1, linestyle="--")
    half = 0.018
    for i, (at, bottom, top) in enumerate(zip(diagram.stated, low, high, strict=True)):
        label = "expected by chance" if i == 0 else None
        ax.fill_between([at - half, at + half], bottom, top, color=plots.GREY, alpha=0.3, linewidth=0, label=label)
    spread = np.stack([diagram.observed - diagram.lower, diagram.upper - diagram.observed])
    ax.errorbar(
        diagram.stated,
        diagram.observed,
        np.maximum(spread, 0.0),
        fmt="o-",
        color=plots.BLUE,
        markersize=5,
        linewidth=1.4,
        elinewidth=1.1,
        capsize=2.5,
        label="observed, 95 % interval",
    )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_aspect("equal")
    return plots.tidy(ax, *names, grid="both")


def calibration(diagram: Reliability, levels: tuple[str, ...]) -> str:
    """The reliability diagram of the second class, or of the most probable of several."""
    said = f"probability of “{levels[1]}”" if len(levels) == 2 else "probability of the most probable class"
    happened = f"how often it was “{levels[1]}”" if len(levels) == 2 else "how often that was right"
    ax = reliability_diagram(diagram, None, (said, happened))
    plots.legend(ax, loc="upper left")
    return data_uri(ax.figure)


def each_class(result: Result, prediction: Classes) -> str:
    """Each class against the rest; nothing for two classes or too many."""
    levels = result.prepared.levels
    if not 2 < len(levels) <= MOST_PANELS:
        return ""
    across = min(3, len(levels))
    down = -(-len(levels) // across)
    figure = Figure(figsize=(9.6, 3.2 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharey=True, sharex=True).ravel()
    for k, level in enumerate(levels):
        diagram = reliability(prediction, result.y_test, bins_for(len(result.y_test)), label=k)
        reliability_diagram(
            diagram, grid[k], (f"probability of “{level}”", "how often it was" if k % across == 0 else "")
        )
    for ax in grid[len(levels) :]:
        ax.set_visible(False)
    return data_uri(figure)


def histogram(result: Result, prediction: Classes) -> str:
    """How often each probability was stated, and what the rows were."""
    stated, y, levels = stated_of(prediction), result.y_test, result.prepared.levels
    edges = np.linspace(0, 1, 21)
    if len(levels) == 2:
        groups: list[tuple[str, Any, str]] = [(f"was {levels[k]}", y == k, color(k)) for k in (0, 1)]
        said = f"probability of “{levels[1]}”"
    else:
        right = np.asarray(prediction.probs).argmax(axis=1) == y
        groups, said = (
            [("right", right, plots.BLUE), ("wrong", ~right, plots.RED)],
            "probability of the most probable class",
        )
    ax = plots.new_axes(4.9, 3.2)
    ax.hist(
        [stated[g] for _, g, _ in groups],
        bins=list(edges),
        stacked=True,
        color=[c for *_, c in groups],
        label=[name for name, *_ in groups],
        edgecolor="white",
        linewidth=0.6,
    )
    ax.set_xlim(0, 1)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    plots.legend(ax, loc="best")
    return data_uri(plots.tidy(ax, said, "test rows").figure)
