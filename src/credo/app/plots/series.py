"""Pictures of series: hidden states, where a series goes from here, its parts, and how forecasts would have done."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from credo.app.plots.style import (
    BLUE,
    CLASSES,
    GREEN,
    GREY,
    INK,
    LINE,
    ORANGE,
    SKY,
    band,
    legend,
    new_axes,
    panels,
    tidy,
)
from credo.core.arrays import Numeric
from credo.core.errors import DataError
from credo.core.predictive import Predictive

if TYPE_CHECKING:
    from credo.evaluate.backtesting import Backtest

MOST_DOTS = 150
"""Longer series are lines without dots."""
When = Numeric | None
"""Times, or none: counted from 0."""


def states(
    states: Numeric, x: Numeric, at: When = None, names: Sequence[str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """A series over a background whose colours are the hidden states.

    Args:
        states: probabilities (t, k), each time's colours as high as they are probable, from the bottom up; or a path
            of state numbers (t,).
        x: the series, shape (t,), or (t, d) with a line for each column.
        at: the times, 0 … t - 1 by default.
        names: of the states, for the legend.
        ax: where to draw; by default a new figure.
    """
    ax = ax or new_axes(8.6, 3.2)
    series = np.asarray(x, dtype=float)
    series = series[:, None] if series.ndim == 1 else series
    when = _times(at, len(series))
    probs = _probabilities(states, len(series))
    labels = [f"state {j}" for j in range(probs.shape[1])] if names is None else [str(name) for name in names]
    if len(labels) != probs.shape[1]:
        raise DataError(f"names must have one for each of {probs.shape[1]} states, found {len(labels)}")
    background = ax.twinx()
    background.set_zorder(ax.get_zorder() - 1)
    ax.patch.set_visible(False)
    background.set(ylim=(0, 1), yticks=[])
    background.spines[:].set_visible(False)
    edges, tops = _edges(when), np.cumsum(probs, axis=1)
    for j, label in enumerate(labels):
        low = tops[:, j - 1] if j else np.zeros(len(tops))
        color = CLASSES[j % len(CLASSES)]
        background.stairs(tops[:, j], edges, baseline=low, fill=True, color=color, alpha=0.3, linewidth=0)
        ax.fill_between([], [], color=color, alpha=0.3, linewidth=0, label=label)
    _line(ax, when, series)
    ax.set_xlim(edges[0], edges[-1])
    legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=min(len(labels), 6), borderaxespad=0.2)
    return tidy(ax, grid="")


def forecast(
    prediction: Predictive,
    past: Numeric,
    at: When = None,
    ahead: When = None,
    *,
    ax: Axes | None = None,
    level: float = 0.95,
) -> Axes:
    """A series and what is predicted next, with the central intervals of 50 % and of probability `level`.

    Args:
        prediction: of the next steps, shape (m,).
        past: the series, shape (t,); NaN is a gap.
        at: the times of the past, 0 … t - 1 by default.
        ahead: the times of the prediction; by default they go on in steps of the last one.
        ax: where to draw; by default a new figure.
        level: probability of the wider band.
    """
    ax = ax or new_axes(8.6, 3.2)
    series = np.asarray(past, dtype=float)
    if series.ndim == 2 and series.shape[1] == 1:
        series = series[:, 0]
    if series.ndim != 1 or np.asarray(prediction.mean).ndim != 1:
        raise DataError(
            f"past and prediction must be of one series, found shapes {series.shape} and "
            f"{np.asarray(prediction.mean).shape}; draw one column at a time"
        )
    when = _times(at, len(series))
    if ahead is None:
        stride = when[-1] - when[-2] if len(when) > 1 else 1
        ahead = when[-1] + stride * np.arange(1, len(prediction) + 1)
    _line(ax, when, series[:, None], "observed")
    for width, color, alpha in ((level, SKY, 0.3), (0.5, BLUE, 0.35)):
        low, high = (np.asarray(end) for end in prediction.interval(width))
        band(ax, np.asarray(ahead), low, high, color=color, alpha=alpha, label=f"{width:.0%} of futures")
    ax.plot(np.asarray(ahead), np.asarray(prediction.mean), color=BLUE, linewidth=1.6, label="forecast")
    ax.axvline(when[-1], color=LINE, linewidth=1.0, linestyle="--")
    legend(ax, loc="best")
    return tidy(ax)


def parts(parts: Mapping[str, Predictive], at: When = None, ahead: int = 0, *, level: float = 0.95) -> Figure:
    """Each part of a series with its doubt, such as `Structural.components` gives; the last `ahead` steps are grey."""
    figure, axes = panels(len(parts), 2.1, across=1, sharex=True)
    for ax, (name, part) in zip(axes, parts.items(), strict=True):
        when = _times(at, len(part))
        low, high = (np.asarray(end) for end in part.interval(level))
        band(ax, when, low, high, color=SKY, alpha=0.4)
        ax.plot(when, np.asarray(part.median), color=BLUE, linewidth=1.3)
        if ahead:
            ax.axvspan(when[-ahead - 1], when[-1], color=GREY, alpha=0.1, linewidth=0)
        tidy(ax, "", name)
    return figure


def backtest(tests: "Mapping[str, Backtest]", unit: str = "step") -> Figure:
    """The error of forecasts by how far ahead, and how often the intervals of the first of them held."""
    from credo.evaluate.backtesting import LEVELS

    figure, (left, right) = panels(2, 3.4)
    for (name, test), color in zip(tests.items(), (BLUE, GREY, GREEN), strict=False):
        rows = test.scores.by_horizon
        left.plot([r.steps for r in rows], [r.mae for r in rows], ".-", color=color, linewidth=1.6, label=name)
    left.set_ylim(bottom=0)
    legend(left, loc="best")
    rows = next(iter(tests.values())).scores.by_horizon
    for i, (level, color) in enumerate(zip(LEVELS, (GREEN, ORANGE), strict=True)):
        right.axhline(level, color=color, linewidth=1, linestyle="--")
        shares = [r.covered[i] for r in rows]
        right.plot([r.steps for r in rows], shares, ".-", color=color, linewidth=1.6, label=f"{level:.0%} intervals")
    right.set_ylim(0, 1.03)
    right.yaxis.set_major_formatter(PercentFormatter(1.0))
    legend(right, loc="lower right")
    for ax, label in ((left, "mean absolute error"), (right, "outcomes inside")):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        tidy(ax, f"{unit}s ahead", label)
    return figure


def _line(ax: Axes, when: np.ndarray, series: np.ndarray, label: str | None = None) -> None:
    dots = "." if len(series) <= MOST_DOTS else ""
    for j, column in enumerate(series.T):
        style = ("-", "--", ":", "-.")[j % 4]
        ax.plot(when, column, style, marker=dots, color=INK, linewidth=1.0, markersize=3.5, label=label)


def _times(at: When, n: int) -> Any:
    when = np.arange(n) if at is None else np.asarray(at)
    if when.shape != (n,):
        raise DataError(f"at must have one time for each of {n} rows, found shape {when.shape}")
    return when


def _probabilities(states: Numeric, n: int) -> np.ndarray:
    given = np.asarray(states)
    if len(given) != n:
        raise DataError(f"states must have a row for each of {n} rows of x, found {len(given)}")
    if given.ndim == 1:
        return np.eye(int(given.max()) + 1)[given.astype(int)]
    return given


def _edges(when: np.ndarray) -> np.ndarray:
    """The borders between times; a time lies in the middle of its own stretch."""
    if len(when) < 2:
        return np.asarray([when[0] - 0.5, when[0] + 0.5])
    middle = when[:-1] + (when[1:] - when[:-1]) / 2
    first, last = when[0] - (middle[0] - when[0]), when[-1] + (when[-1] - middle[-1])
    return np.concatenate([[first], middle, [last]])
