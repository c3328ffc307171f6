"""Pictures of series: the past and the forecast with its bands, the parts, and how forecasts would have done."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from credo.app.forecast import Forecasted
from credo.app.forecast_backtest import LEVELS
from credo.app.plots import BLUE, GREEN, GREY, INK, ORANGE, SKY, legend, tidy
from credo.core.predictive import Predictive

RECENT = 5
"""The lower picture shows this many horizons of the past."""


def plot_series(result: Forecasted) -> Figure:
    """The series and its forecast with the central intervals of 50 % and 95 %; below it the recent past again."""
    n, ahead = len(result.series.y), result.horizon
    recent = RECENT * ahead
    both = n > 1.5 * recent
    figure = Figure(figsize=(9.6, 6.4 if both else 3.8), layout="constrained")
    for i, ax in enumerate(figure.subplots(1 + both, 1, squeeze=False)[:, 0]):
        begin = n - recent if both and i else 0
        forecast_axes(ax, result, begin)
        if i == 0:
            legend(ax, loc="best")
    return figure


def forecast_axes(ax: Axes, result: Forecasted, begin: int = 0) -> Axes:
    """The series from step `begin` on and its forecast."""
    calendar, y = result.series.calendar, result.series.y
    n = len(y)
    past, future = calendar.times(np.arange(begin, n)), calendar.times(np.arange(n - 1, n + result.horizon))
    ax.plot(past, y[begin:], color=INK, linewidth=1.0, marker="." if n - begin <= 150 else "", markersize=3.5)
    ax.lines[-1].set_label("observed")
    fan(ax, future[1:], result.forecast)
    ax.axvline(future[0], color="#c4cad1", linewidth=1.0, linestyle="--")
    return tidy(ax, "", result.series.target)


def fan(ax: Axes, at: Any, prediction: Predictive) -> None:
    """The mean of a forecast, and its central intervals one in the other."""
    for level, color, alpha in ((0.95, SKY, 0.3), (0.5, BLUE, 0.35)):
        lower, upper = (np.asarray(end) for end in prediction.interval(level))
        ax.fill_between(at, lower, upper, color=color, alpha=alpha, linewidth=0, label=f"{level:.0%} of futures")
    ax.plot(at, np.asarray(prediction.mean), color=BLUE, linewidth=1.6, label="forecast")


def plot_parts(result: Forecasted, parts: dict[str, Predictive]) -> Figure:
    """Each part with 95 % of the doubt about it, over the past and the forecast."""
    n = len(result.series.y)
    at = result.series.calendar.times(np.arange(n + result.horizon))
    figure = Figure(figsize=(9.6, 2.1 * len(parts)), layout="constrained")
    axes = figure.subplots(len(parts), 1, squeeze=False, sharex=True)[:, 0]
    for ax, (name, part) in zip(axes, parts.items(), strict=True):
        lower, upper = (np.asarray(end) for end in part.interval(0.95))
        ax.fill_between(at, lower, upper, color=SKY, alpha=0.4, linewidth=0)
        ax.plot(at, np.asarray(part.median), color=BLUE, linewidth=1.3)
        ax.axvspan(at[n - 1], at[-1], color=GREY, alpha=0.1, linewidth=0)
        tidy(ax, "", name)
    return figure


def plot_backtest(result: Forecasted) -> Figure:
    """The error by how far ahead, against the obvious forecast; and how often intervals held."""
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows, plain = result.chosen.backtest.scores.by_horizon, result.naive.scores.by_horizon
    for found, color, name in ((plain, GREY, obvious(result)), (rows, BLUE, result.model.name)):
        left.plot([r.steps for r in found], [r.mae for r in found], ".-", color=color, linewidth=1.6, label=name)
    left.set_ylim(bottom=0)
    legend(left, loc="best")
    tidy(left, f"{result.series.calendar.unit}s ahead", "mean absolute error")
    for i, (level, color) in enumerate(zip(LEVELS, (GREEN, ORANGE), strict=True)):
        right.axhline(level, color=color, linewidth=1, linestyle="--")
        shares = [r.covered[i] for r in rows]
        right.plot([r.steps for r in rows], shares, ".-", color=color, linewidth=1.6, label=f"{level:.0%} intervals")
    right.set_ylim(0, 1.03)
    right.yaxis.set_major_formatter(PercentFormatter(1.0))
    legend(right, loc="lower right")
    tidy(right, f"{result.series.calendar.unit}s ahead", "outcomes inside")
    for ax in (left, right):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def obvious(result: Forecasted) -> str:
    """What the forecast is called that the model is compared with."""
    return "as a season ago" if result.model.season > 1 else "as the last one"
