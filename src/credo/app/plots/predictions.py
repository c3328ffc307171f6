"""Pictures of predictions beside what came: bands along an input, errors, calibration."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from credo.app.plots.style import (
    BLUE,
    GREY,
    INK,
    LINE,
    MOST_BARS,
    ORANGE,
    RED,
    SKY,
    band,
    deviations,
    legend,
    names,
    new_axes,
    some,
    tidy,
)
from credo.core.arrays import Numeric
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.evaluate.calibration import chance_shares, pit

if TYPE_CHECKING:
    from credo.models.linear import Linear


def bands(
    prediction: Predictive, x: Numeric, y: Numeric | None = None, *, ax: Axes | None = None, level: float = 0.95
) -> Axes:
    """The predicted mean along x with its doubt: ignorance alone, and ignorance and noise together.

    The inner band is mean ± z √epistemic, the outer one the central interval of probability `level`. `y` are outcomes.
    """
    ax = ax or new_axes()
    where = np.asarray(x)
    if where.ndim != 1 or len(where) != len(prediction):
        raise DataError(f"x must be a vector with one entry per prediction ({len(prediction)}), found {where.shape}")
    order = np.argsort(where, kind="stable")
    at, mean = where[order], np.asarray(prediction.mean)[order]
    lower, upper = (np.asarray(end)[order] for end in prediction.interval(level))
    ignorance = deviations(level) * np.sqrt(np.asarray(prediction.epistemic)[order])
    band(ax, at, lower, upper, color=SKY, alpha=0.28, label=f"{level:.0%} of outcomes")
    band(ax, at, mean - ignorance, mean + ignorance, alpha=0.38, label="doubt about the mean")
    ax.plot(at, mean, color=BLUE, linewidth=1.5, label="predicted mean")
    if y is not None:
        shown = some(len(at))
        outcomes = np.asarray(y, dtype=float)[order]
        ax.plot(at[shown], outcomes[shown], ".", color=INK, markersize=4, alpha=0.65, label="observed")
    legend(ax, loc="best")
    return tidy(ax)


def calibration(prediction: Predictive, y: Numeric, *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """How often outcomes fell into the central intervals, against how often they should.

    The grey band holds `level` of what chance gives to a calibrated prediction (binomial, interval by interval).
    """
    ax = ax or new_axes(4.4, 4.0)
    depth = np.abs(2 * pit(prediction, y) - 1)
    levels = np.linspace(0.01, 0.99, 99)
    observed = (depth[:, None] <= levels).mean(axis=0)
    band(ax, levels, *chance_shares(len(depth), levels, level), color=GREY, alpha=0.22, label="expected by chance")
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    ax.plot(levels, observed, color=BLUE, linewidth=1.8, label="observed")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_aspect("equal")
    legend(ax, loc="upper left")
    return tidy(ax, "probability of the interval", "share of outcomes inside", grid="both")


def residuals(prediction: Predictive, y: Numeric, *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """Observed minus predicted, against the prediction; lines are the ends of the central interval."""
    ax = ax or new_axes(5.6, 4.0)
    mean, outcomes, lower, upper = _beside(prediction, y, level)
    order = np.argsort(mean)[some(len(mean))]
    ax.axhline(0, color=LINE, linewidth=1)
    ax.plot(mean[order], (outcomes - mean)[order], ".", color=BLUE, markersize=5, alpha=0.6)
    ax.plot(mean[order], (upper - mean)[order], color=ORANGE, linewidth=1.2, label=f"{level:.0%} interval")
    ax.plot(mean[order], (lower - mean)[order], color=ORANGE, linewidth=1.2)
    legend(ax, loc="best")
    return tidy(ax, "predicted", "observed - predicted", grid="both")


def observed_against_predicted(
    prediction: Predictive, y: Numeric, *, ax: Axes | None = None, level: float = 0.95
) -> Axes:
    """Outcomes against predicted means with their intervals; a perfect prediction lies on the line."""
    ax = ax or new_axes(4.4, 4.0)
    mean, outcomes, lower, upper = _beside(prediction, y, level)
    shown = some(len(mean), 300)
    ax.vlines(outcomes[shown], lower[shown], upper[shown], color=SKY, linewidth=1, alpha=0.45)
    ax.plot(outcomes[shown], mean[shown], ".", color=BLUE, markersize=5, alpha=0.8)
    ends = [min(outcomes.min(), mean.min()), max(outcomes.max(), mean.max())]
    ax.plot(ends, ends, color=GREY, linewidth=1, linestyle="--")
    return tidy(ax, "observed", f"predicted, with {level:.0%} interval", grid="both")


def _beside(prediction: Predictive, y: Numeric, level: float) -> tuple[np.ndarray, ...]:
    mean, outcomes = np.asarray(prediction.mean), np.asarray(y, dtype=float)
    if len(outcomes) != len(mean):
        raise DataError(f"y must have one value per prediction: {len(mean)}, found {len(outcomes)}")
    return mean, outcomes, *(np.asarray(end) for end in prediction.interval(level))


def coefficients(belief: "Linear", *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """The belief about each weight: mean and central interval, the largest first (at most 25, no intercept)."""
    called, about = belief.coefficient_names(), belief.coefficients()
    mean = np.asarray(about.mean)
    # A weight without spread is a point: its interval is the point itself.
    lower, upper = (np.where(np.isnan(end), mean, end) for end in map(np.asarray, about.interval(level)))
    keep = np.asarray([i for i, name in enumerate(called) if not (i == 0 and name == "intercept")], dtype=int)
    order = keep[np.argsort(-np.abs(mean[keep]))][:MOST_BARS]
    return intervals(mean[order], lower[order], upper[order], [called[i] for i in order], ax=ax, label="weight")


def intervals(
    mean: Numeric, lower: Numeric, upper: Numeric, called: Sequence[str], *, ax: Axes | None = None, label: str = ""
) -> Axes:
    """Named numbers with their intervals, from top to bottom; grey where the interval holds zero."""
    ax = ax or new_axes(7.0, 0.9 + 0.3 * len(called))
    ax.axvline(0, color=LINE, linewidth=1)
    rows = [np.asarray(each, dtype=float)[::-1] for each in (mean, lower, upper)]
    for place, (middle, low, high) in enumerate(zip(*rows, strict=True)):
        color = GREY if low <= 0 <= high else (BLUE if middle > 0 else RED)
        ax.plot([low, high], [place, place], color=color, linewidth=2.2, alpha=0.6, solid_capstyle="round")
        ax.plot([middle], [place], "o", color=color, markersize=5)
    names(ax, list(called)[::-1], "y")
    ax.set_ylim(-0.6, len(called) - 0.4)
    return tidy(ax, label, grid="x")
