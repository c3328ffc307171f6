"""Pictures of predicted classes beside what came: probabilities row by row, and whether they can be believed."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from credo.app.plots.style import (
    BLUE,
    CLASSES,
    GREY,
    INK,
    ORANGE,
    PAGE,
    RED,
    band,
    legend,
    new_axes,
    panels,
    some,
    tidy,
)
from credo.core.predictive import Bernoulli, Categorical
from credo.evaluate.calibration import chance_shares, reliability
from credo.evaluate.ranking import RankingCurve, precision_recall_curve, roc_curve

Classes = Bernoulli | Categorical
Levels = tuple[str, ...]


def probabilities(
    prediction: Classes, y: np.ndarray, levels: Levels, draws: np.ndarray | None = None, *, ax: Axes | None = None
) -> Axes:
    """The probabilities of rows, and what each row was (`y` numbers the `levels`).

    Of two classes the probability of the second in its order, with the middle 95 % of `draws` of it, shape (s, n), as a
    band, and ticks for what each row was. Of several, a bar for each row whose colours are the classes.
    """
    ax = ax or new_axes(PAGE, 3.6)
    return (_two if len(levels) == 2 else _several)(ax, np.asarray(prediction.probs), y.astype(int), levels, draws)


def _two(ax: Axes, probs: np.ndarray, y: np.ndarray, levels: Levels, draws: np.ndarray | None) -> Axes:
    order = np.argsort(probs[:, 1], kind="stable")
    shown = order[some(len(order), 250)]
    at = np.arange(len(shown)) + 1
    if draws is not None:
        ends = np.quantile(draws[:, shown], (0.025, 0.975), axis=0)
        band(ax, at, *ends, label="95 % of the doubt about it")
    ax.plot(at, probs[shown, 1], color=BLUE, linewidth=1.8, label=f"probability of “{levels[1]}”")
    for value, mark, place in ((1, ORANGE, 1.09), (0, INK, -0.09)):
        here = y[shown] == value
        ax.plot(at[here], np.full(here.sum(), place), "|", color=mark, markersize=9, markeredgewidth=1.6)
    ax.set_ylim(-0.15, 1.15)
    ends = (f"was {levels[0]}", "0", "0.5", "1", f"was {levels[1]}")
    ax.set_yticks([-0.09, 0, 0.5, 1, 1.09], ends, parse_math=False)
    legend(ax, loc="center left")
    return tidy(ax, "test rows, in the order of the prediction")


def _several(ax: Axes, probs: np.ndarray, y: np.ndarray, levels: Levels, draws: np.ndarray | None) -> Axes:
    order = np.lexsort((-probs[np.arange(len(y)), y], y))
    shown = order[some(len(order), 400)]
    base = np.zeros(len(shown))
    for k, level in enumerate(levels):
        color = CLASSES[k % len(CLASSES)]
        height = probs[shown, k]
        ax.bar(np.arange(len(shown)), height, bottom=base, width=1.0, color=color, linewidth=0, label=level)
        base = base + height
    starts = np.flatnonzero(np.diff(y[shown], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(shown)], strict=True):
        if start:
            ax.axvline(start - 0.5, color="white", linewidth=2.5)
        if end - start >= 0.04 * len(shown):
            said, middle = f"was {levels[y[shown[start]]]}", (start + end - 1) / 2
            ax.text(middle, 1.02, said, ha="center", va="bottom", fontsize=8.5, color=INK, parse_math=False)
    ax.set(xlim=(-0.5, len(shown) - 0.5), ylim=(0, 1.1), xticks=[], yticks=[0, 0.5, 1])
    legend(ax, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return tidy(ax, "test rows, by what they were", "probability", grid="")


def reliability_diagram(
    prediction: Classes,
    y: np.ndarray,
    label: int | None = None,
    *,
    bins: int = 10,
    ax: Axes | None = None,
    labels: tuple[str, str] = ("stated", "observed"),
) -> Axes:
    """Stated probability against how often it happened, with what chance allows (grey) and Wilson's intervals.

    Of the second of two classes, the most probable of several, or that of number `label`; see `evaluate.reliability`.
    """
    alone, diagram = ax is None, reliability(prediction, y, bins, label=label)
    ax = ax or new_axes(4.4, 4.2)
    low, high = chance_shares(diagram.counts, diagram.stated)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    for i, (at, bottom, top) in enumerate(zip(diagram.stated, low, high, strict=True)):
        said = "expected by chance" if i == 0 else None
        band(ax, [at - 0.018, at + 0.018], bottom, top, color=GREY, alpha=0.3, label=said)
    spread = np.stack([diagram.observed - diagram.lower, diagram.upper - diagram.observed])
    ax.errorbar(
        diagram.stated,
        diagram.observed,
        np.maximum(spread, 0.0),
        fmt="o-",
        color=BLUE,
        markersize=5,
        linewidth=1.4,
        elinewidth=1.1,
        capsize=2.5,
        label="observed, 95 % interval",
    )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_aspect("equal")
    if alone:
        legend(ax, loc="upper left")
    return tidy(ax, *labels, grid="both")


def each_class(prediction: Classes, y: np.ndarray, levels: Levels, bins: int = 10) -> Figure:
    """A reliability diagram of each class against the rest."""
    figure, axes = panels(len(levels), 3.2, sharey=True, sharex=True)
    for k, (ax, level) in enumerate(zip(axes, levels, strict=True)):
        labels = f"probability of “{level}”", "how often it was" if k % 3 == 0 else ""
        reliability_diagram(prediction, y, k, bins=bins, ax=ax, labels=labels)
    return figure


def stated(prediction: Classes, y: np.ndarray, levels: Levels, *, ax: Axes | None = None) -> Axes:
    """How often each probability was stated, and what the rows were; of several classes, that of the most probable."""
    ax = ax or new_axes(4.9, 3.2)
    probs = np.asarray(prediction.probs)
    if len(levels) == 2:
        said, shown = f"probability of “{levels[1]}”", probs[:, 1]
        groups = [(f"was {levels[k]}", y == k, CLASSES[k]) for k in (0, 1)]
    else:
        right = probs.argmax(axis=1) == y
        said, shown = "probability of the most probable class", probs.max(axis=1)
        groups = [("right", right, BLUE), ("wrong", ~right, RED)]
    called, masks, colors = zip(*groups, strict=True)
    ax.hist(
        [shown[mask] for mask in masks],
        bins=list(np.linspace(0, 1, 21)),
        stacked=True,
        color=colors,
        label=called,
        edgecolor="white",
        linewidth=0.6,
    )
    ax.set_xlim(0, 1)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    legend(ax, loc="best")
    return tidy(ax, said, "test rows")


def novelty(values: np.ndarray, *, ax: Axes | None = None) -> Axes:
    """How surprising inputs are, `belief.novelty(x)`: level for rows like those seen, high on the left for others."""
    ax = ax or new_axes(4.9, 3.0)
    ax.hist(values, bins=list(np.linspace(0, 1, 21)), color=BLUE, edgecolor="white", linewidth=0.6)
    ax.axhline(len(values) / 20, color=INK, linewidth=1.0, linestyle="--", label="rows like those seen")
    ax.set_xlim(0, 1)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    legend(ax, loc="best")
    return tidy(ax, "novelty", "rows")


def roc(
    prediction: Classes, y: np.ndarray, label: int | None = None, *, ax: Axes | None = None, level: float = 0.95
) -> Axes:
    """Hits against false alarms at every threshold, with a band; see `evaluate.roc_curve`."""
    ax, curve = ax or new_axes(4.4, 4.2), roc_curve(prediction, y, label, level)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", label="chance")
    return _ranking(
        ax, curve, level, "area", "false alarms: share of the others", "hits: share of the class", "lower right"
    )


def precision_recall(
    prediction: Classes, y: np.ndarray, label: int | None = None, *, ax: Axes | None = None, level: float = 0.95
) -> Axes:
    """Precision against recall at every threshold, with a band; see `evaluate.precision_recall_curve`."""
    ax, curve = ax or new_axes(4.4, 4.2), precision_recall_curve(prediction, y, label, level)
    ax.axhline(curve.share, color=GREY, linewidth=1, linestyle="--", label="chance")
    said = "recall: share of the class that is found", "precision: share of the found that is right"
    return _ranking(ax, curve, level, "mean precision", *said, "lower left")


def _ranking(ax: Axes, curve: RankingCurve, level: float, what: str, across: str, up: str, corner: str) -> Axes:
    band(ax, curve.grid, curve.lower, curve.upper, label=f"{100 * level:g} % band")
    ends = f"{curve.area_lower:.2f} to {curve.area_upper:.2f}"
    ax.plot(curve.x, curve.y, color=BLUE, linewidth=1.8, label=f"{what} {curve.area:.2f} ({ends})")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_aspect("equal")
    legend(ax, loc=corner)
    return tidy(ax, across, up, grid="both")
