"""Pictures of a table that nobody has asked anything of: clusters, what sets them apart, gaps, odd rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from credo.app.plots.regions import MARKS
from credo.app.plots.style import (
    BLUE,
    CLASSES,
    GREY,
    INK,
    PAGE,
    RED,
    legend,
    names,
    new_axes,
    panels,
    say,
    some,
    tidy,
    title,
)

if TYPE_CHECKING:
    from credo.app.explore.clusters import Trial
    from credo.app.explore.gaps import Gaps

MOST_COLUMNS = 24
WORDS = {"full": "columns that covary within a cluster", "diagonal": "columns independent within a cluster"}


def scatter(
    x: np.ndarray, y: np.ndarray, labels: np.ndarray, odd: np.ndarray, called: Sequence[str], *, ax: Axes | None = None
) -> Axes:
    """Rows over two columns, a colour and a mark for each cluster, rings around odd rows."""
    ax = ax or new_axes(PAGE, 4.2)
    shown = some(len(x))
    for k in range(int(labels.max()) + 1):
        here = shown[labels[shown] == k]
        look: dict[str, Any] = {"color": CLASSES[k % len(CLASSES)], "marker": MARKS[k % len(MARKS)]}
        ax.plot(
            x[here],
            y[here],
            linestyle="",
            markersize=4.5,
            alpha=0.75,
            markeredgewidth=0,
            label=f"cluster {k + 1}",
            **look,
        )
    if odd.any():
        ax.plot(x[odd], y[odd], "o", markersize=10, markerfacecolor="none", markeredgecolor=INK, label="odd")
    legend(ax, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return tidy(ax, called[0], called[1], grid="both")


def profile(values: np.ndarray, columns: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """How far each cluster (a column) is from all rows in each column of the table (a row), in standard deviations."""
    d, k = values.shape
    ax = ax or new_axes(PAGE, 0.9 + 0.3 * d)
    ax.imshow(values, cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto")
    for i in range(d):
        for j in range(k):
            if np.isfinite(values[i, j]) and abs(values[i, j]) >= 0.05:
                color = "white" if abs(values[i, j]) > 1.2 else INK
                say(ax, j, i, f"{values[i, j]:+.1f}", ha="center", va="center", color=color)
    names(ax, columns, "y")
    ax.set_xticks(np.arange(k), [f"cluster {j + 1}" for j in range(k)])
    ax.xaxis.tick_top()
    tidy(ax, grid="")
    ax.spines[:].set_visible(False)
    return ax


def sizes(trials: "Sequence[Trial]", *, ax: Axes | None = None) -> Axes:
    """ICL of each number of clusters, less is better, and the one that was chosen."""
    ax = ax or new_axes(PAGE, 2.6)
    best = min(trials, key=lambda trial: trial.icl)
    for i, shape in enumerate(dict.fromkeys(trial.shape for trial in trials)):
        own = [trial for trial in trials if trial.shape == shape]
        ax.plot(
            [t.k for t in own],
            [t.icl - best.icl for t in own],
            "o-",
            color=CLASSES[i],
            markersize=4,
            label=WORDS[shape],
        )
    ax.plot(best.k, 0.0, "o", markersize=11, markerfacecolor="none", markeredgecolor=INK)
    ax.set_xticks(sorted({trial.k for trial in trials}))
    legend(ax, loc="upper right")
    return tidy(ax, "clusters", "ICL behind the best")


def gaps(found: "Gaps", rows: int) -> Figure:
    """Left the share of cells missing in each column, right which are missing together, and how often."""
    columns = sorted(found.columns, key=lambda name: -found.columns[name])[:MOST_COLUMNS]
    figure, (left, right) = panels(2, 1.1 + 0.26 * len(columns), across=2, sharey=True)
    left.barh(np.arange(len(columns)), [100 * found.columns[name] / rows for name in columns], color=BLUE, height=0.7)
    names(left, columns, "y")
    left.invert_yaxis()
    tidy(left, "% missing", grid="x")
    for j, (together, _) in enumerate(found.patterns):
        at = [i for i, name in enumerate(columns) if name in together]
        right.plot(np.full(len(columns), j), np.arange(len(columns)), "s", color=GREY, alpha=0.25, markersize=8)
        right.plot(np.full(len(at), j), at, "s", color=RED, markersize=8)
    right.set_xticks(np.arange(len(found.patterns)), [f"{count:,}" for _, count in found.patterns])
    right.set_xlim(-0.6, max(len(found.patterns), 5) - 0.4)
    tidy(right, "rows with these cells missing together", grid="")
    title(right, "commonest patterns")
    return figure


def oddness(score: np.ndarray, odd: np.ndarray, *, ax: Axes | None = None) -> Axes:
    """The scores of all rows in order against those that chance would give as many rows, both as -log₁₀."""
    ax = ax or new_axes(PAGE, 3.2)
    order = np.argsort(score, kind="stable")
    n = len(score)
    chance = -np.log10((np.arange(n) + 0.5) / n)
    found = -np.log10(np.maximum(score[order], 1e-300))
    shown = np.unique(np.concatenate([np.arange(min(n, 500)), some(n)]))
    marked = odd[order][shown]
    ax.plot([0, chance[0]], [0, chance[0]], color=GREY, linewidth=1.0, label="as chance would have it")
    ax.plot(chance[shown][~marked], found[shown][~marked], "o", color=BLUE, markersize=3.5, label="rows")
    if marked.any():
        ax.plot(chance[shown][marked], found[shown][marked], "o", color=RED, markersize=5, label="odd rows")
        last, (low, high) = np.inf, ax.get_ylim()
        for place in shown[marked][:8]:
            if last - found[place] > 0.06 * (high - low):  # names that do not cover each other
                say(ax, chance[place], found[place], f"row {order[place] + 1}", xytext=(-6, 2), ha="right")
                last = found[place]
    legend(ax, loc="upper left")
    return tidy(ax, "oddness expected by chance (-log₁₀ of the probability)", "oddness found", grid="both")
