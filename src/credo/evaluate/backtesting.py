"""How good forecasts would have been: from every origin in the held-out end of a series, against the obvious forecast.

The parameters are those learned before the first origin; from then on the model only conditions on what it sees. The
obvious forecast (seasonal naive) is the outcome one season earlier, without a season the last one, with the spread of
its own errors before the first origin.
Hyndman & Athanasopoulos (2021), "Forecasting: principles and practice", sections 5.2, 5.8, 5.10.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from credo.core.predictive import LogNormal, Normal
from credo.evaluate.scores import crps
from credo.models.lds.forecast import outcomes_ahead
from credo.models.lds.kalman import StateLaw
from credo.models.structural import Structural
from credo.models.structural.univariate_kalman import SeriesSystem

MOST_ORIGINS = 60
LEVELS = (0.5, 0.95)


class Horizon(NamedTuple):
    """The scores of forecasts so many steps ahead."""

    steps: int
    forecasts: int
    mae: float
    crps: float
    covered: tuple[float, ...]
    """The share of outcomes in the central intervals of `LEVELS`."""


class Scores(NamedTuple):
    """All forecasts of one method."""

    mase: float
    """Mean absolute error, in units of that of the naive forecast one step ahead before the first origin."""
    mae: float
    crps: float
    covered: tuple[float, ...]
    by_horizon: tuple[Horizon, ...]


class Backtest(NamedTuple):
    """The forecasts from all origins: row i from the end of step `origins[i]`, column h for h + 1 steps ahead."""

    origins: np.ndarray
    mean: np.ndarray
    """of the outcome, or of its logarithm where the model is of those; as `std`"""
    std: np.ndarray
    outcome: np.ndarray
    """NaN where there was none, or the series had ended."""
    scores: Scores


def origins_of(n: int, train: int, most: int = MOST_ORIGINS) -> np.ndarray:
    """The last steps known at each origin: from the end of the training part to the last but one, evenly thinned."""
    every = np.arange(train - 1, n - 1)
    return every if len(every) <= most else every[np.unique(np.linspace(0, len(every) - 1, most).astype(int))]


def outcomes_after(y: np.ndarray, origins: np.ndarray, horizon: int) -> np.ndarray:
    """What came after each origin."""
    at = origins[:, None] + 1 + np.arange(horizon)
    return np.where(at < len(y), y[np.minimum(at, len(y) - 1)], np.nan)


def backtest(
    belief: Structural, y: np.ndarray, train: int, horizon: int, *, inputs: np.ndarray | None = None, unit: float = 1.0
) -> Backtest:
    """Forecasts of a belief that has seen nothing and whose numbers were learned on the first `train` steps.

    `unit` is that of MASE: the error that `naive` returns.
    """
    after = belief.condition(y, inputs=inputs, missing=True)
    assert after.past is not None and after.scales is not None
    filtered = after.filter()
    system, noise = after.system(after.past.inputs, after.scales), float(after.noise)
    origins = origins_of(len(y), train)
    mean, std = np.full((len(origins), horizon), np.nan), np.full((len(origins), horizon), np.nan)
    for i, origin in enumerate(origins):
        reach = min(horizon, len(y) - 1 - int(origin))
        state = StateLaw(filtered.mean[origin], filtered.covariance[origin])
        matrices = _after(system, int(origin) + 1, reach).matrices(np.asarray(noise))
        told, doubt, _ = outcomes_ahead(*matrices, state, reach, joint=False)
        mean[i, :reach], std[i, :reach] = told[:, 0], np.sqrt(noise + doubt[:, 0])
    outcome = outcomes_after(y, origins, horizon)
    return Backtest(origins, mean, std, outcome, score_forecasts(mean, std, outcome, unit, belief.log))


def _after(system: SeriesSystem, begin: int, count: int) -> SeriesSystem:
    """The matrices of `count` steps from `begin` on."""
    return system if system.emission.ndim == 1 else system._replace(emission=system.emission[begin : begin + count])


def naive(y: np.ndarray, train: int, horizon: int, *, period: int = 1) -> tuple[Backtest, float]:
    """The obvious forecast from the same origins, and its mean absolute error one step ahead before the first.

    h steps ahead the outcome k = ⌈h/period⌉ seasons ago, with standard deviation √k times that of the errors of one.
    """
    lag = period if train > period + 1 else 1
    known = _carried(y, lag)
    errors = y[lag:train] - known[: train - lag]
    errors = errors[~np.isnan(errors)]
    unit, spread = float(np.mean(np.abs(errors))), float(np.sqrt(np.mean(errors**2)))
    origins = origins_of(len(y), train)
    ahead = np.arange(1, horizon + 1)
    seasons = -(-ahead // lag)
    mean = known[np.maximum(origins[:, None] + ahead - lag * seasons, 0)]
    std = np.broadcast_to(spread * np.sqrt(seasons), mean.shape)
    outcome = outcomes_after(y, origins, horizon)
    unit = unit or float(np.nanstd(y))
    return Backtest(origins, mean, np.asarray(std), outcome, score_forecasts(mean, std, outcome, unit)), unit


def _carried(y: np.ndarray, lag: int) -> np.ndarray:
    """The series with gaps filled by the value one season earlier, as often as needed."""
    out = y.copy()
    for i in range(lag, len(out)):
        if np.isnan(out[i]):
            out[i] = out[i - lag]
    first = out[~np.isnan(out)][0]
    return np.where(np.isnan(out), first, out)


def score_forecasts(mean: np.ndarray, std: np.ndarray, outcome: np.ndarray, unit: float, log: bool = False) -> Scores:
    """The scores of forecasts in rows of origins and columns of horizons.

    With `log`, mean and std are those of the logarithm. What is compared with the outcome is the median, for which
    the expected absolute error is smallest.
    """
    known = ~np.isnan(outcome) & ~np.isnan(mean)
    error = np.full(mean.shape, np.nan)
    surprise = error.copy()
    z = error.copy()
    m, s, y = mean[known], np.maximum(np.asarray(std)[known], 1e-300), outcome[known]
    error[known] = np.abs(y - (np.exp(m) if log else m))
    told = (LogNormal if log else Normal)(m, s**2, np.zeros_like(m))
    surprise[known] = np.asarray(crps(told, y, pointwise=True))
    z[known] = np.abs((np.log(y) if log else y) - m) / s
    inside = [np.where(known, z <= _half_width(level), np.nan) for level in LEVELS]
    rows = [
        Horizon(
            h + 1,
            int(known[:, h].sum()),
            float(np.nanmean(error[:, h])),
            float(np.nanmean(surprise[:, h])),
            tuple(float(np.nanmean(each[:, h])) for each in inside),
        )
        for h in range(mean.shape[1])
        if known[:, h].any()
    ]
    mae = float(np.nanmean(error))
    covered = tuple(float(np.nanmean(each)) for each in inside)
    return Scores(mae / unit, mae, float(np.nanmean(surprise)), covered, tuple(rows))


def _half_width(level: float) -> float:
    return float(ndtri(0.5 + level / 2))
