"""Pictures of Gaussian processes taken apart: the data with the fit and a forecast, and a panel for each part.

They follow the style of `plots.py`.
"""

import textwrap
from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from credo.app import plots
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.kernels import Kernel, OnColumns, Product
from credo.kernels.periodic import Periodic
from credo.models.gp.belief import GP
from credo.models.gp.components import Component, decompose, part_at
from credo.models.gp.description import Speaker
from credo.models.gp.search import Search

POINTS = 600
MOST_PANELS = 6


def plot_components(
    belief: Belief | Search,
    *,
    ahead: float = 0.25,
    target: str = "y",
    units: Mapping[str, str] | None = None,
    to_axis: Callable[[np.ndarray], np.ndarray] | None = None,
    width: float = 9.6,
) -> Figure:
    """The data with the fit and its 95 % band, and below a panel for each additive part with its sentence.

    Args:
        belief: a conditioned GP, or what `search_kernel` found.
        ahead: how far beyond the last value to forecast, as a share of the range; for one input.
        target: the name of what is predicted.
        units: of the inputs by name, as for `describe`.
        to_axis: turns values of the input into what the axis shows, e.g. dates; for one input.
        width: of the figure, in inches.
    """
    gp = belief.belief if isinstance(belief, Search) else belief
    if not isinstance(gp, GP):
        raise DataError(f"plot_components takes a GP or a Search, found {type(belief).__name__}")
    rows, _ = gp.conditioned()
    x, y, *_ = rows.cut()
    names = gp.inputs or tuple(f"x{i}" for i in range(x.shape[1]))
    at_data = decompose(gp)
    speaker = Speaker(names, dict(units or {}), x)
    shown = [p for p in at_data.parts if not p.is_mean][:MOST_PANELS]
    heights = [3.4, *([2.1] * len(shown))]
    figure = Figure(figsize=(float(width), sum(heights)), layout="constrained")
    axes = np.atleast_1d(figure.subplots(len(heights), 1, height_ratios=heights))
    change = to_axis or (lambda v: v)
    if x.shape[1] == 1:
        grid = _grid(x[:, 0], float(ahead))
        _fit(axes[0], gp, x[:, 0], y, grid, change, target)
    else:
        plots.observed_against_predicted(gp.predict(x), y, ax=axes[0])
    axes[0].set_title(f"{target}: the data and the whole function", fontsize=9.5, color=plots.INK, loc="left")
    level = next((i for i, part in enumerate(shown) if not _repeats(part.kernel)), -1)
    for i, (ax, part) in enumerate(zip(axes[1:], shown, strict=True)):
        _panel(ax, gp, part, x, names, float(ahead), change, i == level)
        ax.set_title(_wrapped(speaker.sentence(part)), fontsize=9.5, color=plots.INK, loc="left")
    if x.shape[1] == 1:
        for ax in axes[1:]:
            ax.sharex(axes[0])
        for ax in axes[:-1]:
            ax.tick_params(labelbottom=False)
            ax.set_xlabel("")
        axes[-1].set_xlabel(names[0], fontsize=9, color=plots.INK)
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
    target: str,
) -> None:
    prediction = gp.predict(grid[:, None])
    mean = np.asarray(prediction.mean)
    lower, upper = (np.asarray(end) for end in prediction.interval(0.95))
    at = change(grid)
    ax.fill_between(at, lower, upper, color=plots.SKY, alpha=0.3, linewidth=0, label="95 % of outcomes")
    ax.plot(at, mean, color=plots.BLUE, linewidth=1.2, label="predicted mean")
    some = plots.some(len(x))
    ax.plot(change(x[some]), y[some], ".", color=plots.INK, markersize=3, alpha=0.6, label="observed")
    _mark_end(ax, change(np.asarray([x.max()]))[0], bool(grid[-1] > x.max()))
    plots.legend(ax, loc="upper left", ncols=3)
    plots.tidy(ax, "", target)


def _mark_end(ax: Axes, end: float | np.datetime64, forecast: bool) -> None:
    if forecast:
        ax.axvline(end, color=plots.RED, linewidth=1.0, linestyle="--")  # type: ignore[arg-type]  # dates, too
        ax.annotate(
            "forecast",
            (end, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(5, -9),
            textcoords="offset points",
            fontsize=8.5,
            color=plots.RED,
        )


def _panel(
    ax: Axes,
    gp: GP,
    part: Component,
    x: np.ndarray,
    names: tuple[str, ...],
    ahead: float,
    change: Callable[[np.ndarray], np.ndarray],
    with_mean: bool,
) -> None:
    """One part along its input; the first that does not repeat is shown with the level, which is known only so."""
    columns = _columns(part.kernel, x.shape[1])
    typical = np.median(x, axis=0)
    if len(columns) > 2 or (len(columns) == 2 and min(np.ptp(x[:, c]) for c in columns) == 0):
        ax.plot(np.arange(len(part.mean)), np.sort(part.mean), color=plots.BLUE, linewidth=1.2)
        plots.tidy(ax, "rows, in order of this part", "")
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
    ax.fill_between(at, mean - 1.96 * std, mean + 1.96 * std, color=plots.BLUE, alpha=0.22, linewidth=0)
    ax.plot(at, mean, color=plots.BLUE, linewidth=1.2)
    if x.shape[1] == 1 and grid[-1] > x.max():
        ax.axvline(change(np.asarray([x.max()]))[0], color=plots.RED, linewidth=1.0, linestyle="--")
    plots.tidy(ax, names[column] if x.shape[1] > 1 else "", "")


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
    plots.tidy(ax, names[a], names[b], grid="")


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


def _wrapped(text: str, most: int = 106) -> str:
    return "\n".join(textwrap.wrap(text, most))
