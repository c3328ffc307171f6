import numpy as np

from credo.core.predictive import LogNormal, Normal
from credo.evaluate import naive
from credo.evaluate.backtesting import outcomes_after, score_forecasts
from credo.evaluate.scores import crps


def test_the_obvious_forecast_and_its_scores():
    y = np.asarray([1.0, 5, 2, 6, 3, np.nan, 4, 8, 9, 9])
    found, unit = naive(y, 6, 3, period=2)
    # Before the first origin: 2 - 1, 6 - 5, 3 - 2; the gap says nothing.
    assert unit == 1.0
    np.testing.assert_array_equal(found.origins, [5, 6, 7, 8])
    # The gap is carried over from two steps earlier.
    np.testing.assert_array_equal(found.mean[0], [3, 6, 3])
    np.testing.assert_allclose(found.std[0], [1, 1, np.sqrt(2)])
    np.testing.assert_array_equal(outcomes_after(y, np.asarray([5, 8]), 3), [[4, 8, 9], [9, np.nan, np.nan]])
    np.testing.assert_allclose(found.scores.by_horizon[0].mae, np.mean([1, 2, 5, 1]))


def test_scores_are_those_of_the_library(rng):
    mean, std, y = rng.normal(size=(5, 2)), rng.uniform(1, 2, (5, 2)), rng.normal(size=(5, 2))
    y[4, 1] = np.nan
    found = score_forecasts(mean, std, y, 2.0)
    known = ~np.isnan(y)
    want = crps(Normal(mean[known], std[known] ** 2, np.zeros(9)), y[known])
    np.testing.assert_allclose(found.crps, want)
    np.testing.assert_allclose(found.mase, np.nanmean(np.abs(y - mean)) / 2)
    inside = np.abs(y - mean)[known] < 1.959964 * std[known]
    np.testing.assert_allclose(found.covered[1], inside.mean())
    assert [row.forecasts for row in found.by_horizon] == [5, 4]


def test_scores_of_logarithms_are_those_of_the_library(rng):
    mean, std, y = rng.normal(size=8), rng.uniform(0.2, 1, size=8), np.exp(rng.normal(size=8))
    p = LogNormal(mean, std**2, np.zeros_like(std))
    found = score_forecasts(*(each.reshape(4, 2) for each in (mean, std, y)), 2.0, log=True)
    np.testing.assert_allclose(found.mae, np.abs(y - np.asarray(p.median)).mean(), rtol=1e-12)
    np.testing.assert_allclose(found.crps, np.asarray(crps(p, y, pointwise=True)).mean(), rtol=1e-10)
    low, high = p.interval(0.95)
    np.testing.assert_allclose(found.covered[-1], np.mean((low <= y) & (y <= high)))
