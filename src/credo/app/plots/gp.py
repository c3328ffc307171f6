"""Pictures of Gaussian processes taken apart: the data with the fit and a forecast, and a panel for each part."""

import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from credo.app.plots.predictions import observed_against_predicted
from credo.app.plots.style import BLUE, INK, PAGE, RED, SKY, band, deviations, legend, say, some, tidy, title
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.infer.averaging import Integrated
from credo.kernels import Kernel, OnColumns, Product
from credo.kernels.periodic import Periodic
from credo.models.gp.belief import GP
from credo.models.gp.components import Component, decompose, part_at
from credo.models.gp.description import Speaker
from credo.models.gp.search import Search

POINTS = 600
MOST_PANELS = 6


def components(
    belief: Belief | Search,
    *,
    ahead: float = 0.25,
    target: str = "y",
    units: Mapping[str, str] | None = None,
    to_axis: Callable[[np.ndarray], np.ndarray] | None = None,
    level: float = 0.95,
) -> Figure:
    """The data with the fit and its band, and below a panel for each additive part with its sentence.

    Args:
        belief: a conditioned GP, or what `search_kernel` found.
        ahead: how far beyond the last value to forecast, as a share of the range; for one input.
        target: the name of what is predicted.
        units: of the inputs by name, as for `describe`.
        to_axis: turns values of the input into what the axis shows, e.g. dates; for one input.
        level: probability of the bands.
    """
    gp = belief.belief if isinstance(belief, Search) else belief
    gp = gp.mode if isinstance(gp, Integrated) else gp
    if not isinstance(gp, GP):
        raise DataError(f"components takes a GP or a Search, found {type(belief).__name__}")
    rows, _ = gp.conditioned()
    x, y, *_ = rows.cut()
    names = gp.inputs or tuple(f"x{i}" for i in range(x.shape[1]))
    at_data = decompose(gp)
    speaker = Speaker(names, dict(units or {}), x)
    shown = [p for p in at_data.parts if not p.is_mean][:MOST_PANELS]
    heights = [3.4, *([2.1] * len(shown))]
    figure = Figure(figsize=(PAGE, sum(heights)), layout="constrained")
    axes = np.atleast_1d(figure.subplots(len(heights), 1, height_ratios=heights))
    change = to_axis or (lambda v: v)
    if x.shape[1] == 1:
        grid = _grid(x[:, 0], float(ahead))
        _fit(axes[0], gp, x[:, 0], y, grid, change, level)
        axes[0].set_ylabel(target, parse_math=False)
    else:
        observed_against_predicted(gp.predict(x), y, ax=axes[0], level=level)
    title(axes[0], f"{target}: the data and the whole function")
    lasting = next((i for i, part in enumerate(shown) if not _repeats(part.kernel)), -1)
    for i, (ax, part) in enumerate(zip(axes[1:], shown, strict=True)):
        _panel(ax, gp, part, x, names, float(ahead), change, i == lasting, deviations(level))
        title(ax, "\n".join(textwrap.wrap(speaker.sentence(part), 106)))
    if x.shape[1] == 1:
        for ax in axes[1:]:
            ax.sharex(axes[0])
        for ax in axes[:-1]:
            ax.tick_params(labelbottom=False)
            ax.set_xlabel("")
        tidy(axes[-1], names[0])
    return figure


def _grid(values: np.ndarray, ahead: float) -> np.ndarray:
    low, high = float(values.min()), float(values.max())
    return np.linspace(low, high + ahead * (high - low), POINTS)


def _fit(
    ax: Axes,
    gp: GP,
    x: np.ndarray,
    y: np.ndarray,
    grid: np.ndarray,
    change: Callable[[np.ndarray], np.ndarray],
    level: float,
) -> None:
    prediction, at = gp.predict(grid[:, None]), change(grid)
    band(ax, at, *prediction.interval(level), color=SKY, alpha=0.3, label=f"{level:.0%} of outcomes")
    ax.plot(at, np.asarray(prediction.mean), color=BLUE, linewidth=1.2, label="predicted mean")
    seen = some(len(x))
    ax.plot(change(x[seen]), y[seen], ".", color=INK, markersize=3, alpha=0.6, label="observed")
    legend(ax, loc="upper left", ncols=3)
    tidy(ax)
    if grid[-1] > x.max():
        mark_end(ax, change(np.asarray([x.max()]))[0], "forecast")


def mark_end(ax: Axes, end: Any, said: str) -> None:
    """A dashed line where what was seen ends, and what begins there."""
    ax.axvline(end, color=RED, linewidth=1.0, linestyle="--")
    say(ax, end, 1.0, said, xycoords=("data", "axes fraction"), xytext=(5, -9), color=RED)


def _panel(
    ax: Axes,
    gp: GP,
    part: Component,
    x: np.ndarray,
    names: tuple[str, ...],
    ahead: float,
    change: Callable[[np.ndarray], np.ndarray],
    with_mean: bool,
    reach: float,
) -> None:
    """One part along its input; the first that does not repeat is shown with the level, which is known only so."""
    columns = _columns(part.kernel, x.shape[1])
    typical = np.median(x, axis=0)
    if len(columns) > 2 or (len(columns) == 2 and min(np.ptp(x[:, c]) for c in columns) == 0):
        ax.plot(np.arange(len(part.mean)), np.sort(part.mean), color=BLUE, linewidth=1.2)
        tidy(ax, "rows, in order of this part")
        return
    if len(columns) == 2:
        _surface(ax, gp, part, x, columns, names)
        return
    (column,) = columns
    grid = _grid(x[:, column], ahead if x.shape[1] == 1 else 0.0)
    queries = np.tile(typical, (len(grid), 1))
    queries[:, column] = grid
    assert part.kernel is not None
    mean, std = part_at(gp, part.kernel, queries, with_mean)
    at = change(grid) if x.shape[1] == 1 else grid
    band(ax, at, mean - reach * std, mean + reach * std, mean, alpha=0.22, linewidth=1.2)
    if x.shape[1] == 1 and grid[-1] > x.max():
        ax.axvline(change(np.asarray([x.max()]))[0], color=RED, linewidth=1.0, linestyle="--")
    tidy(ax, names[column] if x.shape[1] > 1 else "")


def _surface(
    ax: Axes, gp: GP, part: Component, x: np.ndarray, columns: tuple[int, ...], names: tuple[str, ...]
) -> None:
    a, b = columns
    u, v = (np.linspace(x[:, c].min(), x[:, c].max(), 40) for c in columns)
    queries = np.tile(np.median(x, axis=0), (1600, 1))
    queries[:, a], queries[:, b] = (m.ravel() for m in np.meshgrid(u, v))
    assert part.kernel is not None
    mean, _ = part_at(gp, part.kernel, queries)
    drawn = ax.contourf(u, v, mean.reshape(40, 40), levels=12, cmap="viridis")
    ax.figure.colorbar(drawn, ax=ax, pad=0.01)
    ax.plot(x[:, a], x[:, b], ".", color="white", markersize=2, alpha=0.6)
    tidy(ax, names[a], names[b], grid="")


def _repeats(kernel: Kernel | None) -> bool:
    """Whether a term has a periodic factor."""
    if isinstance(kernel, OnColumns):
        return _repeats(kernel.kernel)
    if isinstance(kernel, Product):
        return any(_repeats(factor) for factor in kernel.factors)
    return isinstance(kernel, Periodic)


def _columns(kernel: Kernel | None, d: int) -> tuple[int, ...]:
    """The input columns that a term depends on."""
    if isinstance(kernel, OnColumns):
        return tuple(sorted(kernel.columns))
    if isinstance(kernel, Product):
        return tuple(sorted({c for factor in kernel.factors for c in _columns(factor, d)}))
    return tuple(range(d))
