"""Pictures of sequences whose state is hidden: which state when, and where a series goes from here."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from credo.app.forecast_plots import fan
from credo.app.plots import CLASSES, INK, legend, new_axes, tidy
from credo.core.arrays import Numeric
from credo.core.errors import DataError
from credo.core.predictive import Predictive

MOST_DOTS = 300
"""Longer series are lines without dots."""

When = Numeric | None
"""Times, or none: counted from 0."""


def plot_states(
    x: Numeric, states: Numeric, at: When = None, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """A series over a background whose colours are the hidden states.

    Args:
        x: the series, shape (t,), or (t, d) with a line for each column.
        states: probabilities (t, k), each time's colours as high as they are probable, from the bottom up; or a path
            of state numbers (t,).
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


def plot_forecast(
    past: Numeric, prediction: Predictive, at: When = None, ahead: When = None, ax: Axes | None = None
) -> Axes:
    """A series and what is predicted next, with the central intervals of 50 % and 95 %.

    Args:
        past: the series, shape (t,); NaN is a gap.
        prediction: of the next steps, shape (m,).
        at: the times of the past, 0 … t - 1 by default.
        ahead: the times of the prediction; by default they go on in steps of the last one.
        ax: where to draw; by default a new figure.
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
    steps = len(prediction)
    if ahead is None:
        stride = when[-1] - when[-2] if len(when) > 1 else 1
        ahead = when[-1] + stride * np.arange(1, steps + 1)
    _line(ax, when, series[:, None], "observed")
    fan(ax, np.asarray(ahead), prediction)
    ax.axvline(when[-1], color="#c4cad1", linewidth=1.0, linestyle="--")
    legend(ax, loc="best")
    return tidy(ax)


def _line(ax: Axes, when: np.ndarray, series: np.ndarray, label: str | None = None) -> None:
    dots = "." if len(series) <= MOST_DOTS else ""
    for j, column in enumerate(series.T):
        style = ("-", "--", ":", "-.")[j % 4]
        ax.plot(when, column, style, marker=dots, color=INK, linewidth=1.0, markersize=3.5, label=label)


def _times(at: When, n: int) -> np.ndarray:
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
