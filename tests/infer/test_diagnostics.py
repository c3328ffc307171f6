"""Effective draws and R-hat against blackjax, and against chains whose answer is known."""

import numpy as np
import pytest
from blackjax import diagnostics as oracle
from scipy import stats

from credo.infer import diagnostics


def autoregressive(rho, shape, seed=0):
    rng = np.random.default_rng(seed)
    c, n, k = shape
    x = np.empty(shape)
    x[:, 0] = rng.normal(size=(c, k))
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=(c, k))
    return x


@pytest.mark.parametrize("rho", [0.9, 0.0, -0.5])
@pytest.mark.parametrize("n", [401])
def test_the_same_as_blackjax(rho, n):
    x = autoregressive(rho, (4, n, 3))
    x[:, :, 1] = np.round(x[:, :, 1], 1)  # ties
    x[0, :, 2] += 1.0  # chains that disagree
    rhat, bulk, tail = diagnostics.rank_statistics(x)
    even = x[:, : n - n % 2]
    np.testing.assert_allclose(rhat, oracle.rhat(even), rtol=1e-6)
    np.testing.assert_allclose(bulk, oracle.ess_bulk(even), rtol=0.02)
    np.testing.assert_allclose(tail, oracle.ess_tail(even), rtol=0.05)


def test_ranks_of_ties_are_shared():
    x = np.array([3.0, 1.0, 3.0, 2.0, 2.0, 3.0]).reshape(2, 3, 1)
    want = stats.norm.ppf((stats.rankdata(x.ravel()) - 0.375) / 6.25)
    np.testing.assert_allclose(diagnostics.normal_scores(x).ravel(), want, rtol=1e-12)


def test_an_autoregression_has_the_worth_that_theory_says():
    x = autoregressive(0.6, (8, 20_000, 4), 1)
    want = 8 * 20_000 * (1 - 0.6) / (1 + 0.6)
    np.testing.assert_allclose(diagnostics.effective_sample_size(x), want, rtol=0.1)


def test_what_never_moves_is_worth_nothing():
    x = autoregressive(0.0, (2, 100, 2))
    x[:, :, 1] = 3.0
    assert diagnostics.effective_sample_size(x)[1] == 0 and diagnostics.effective_sample_size(x)[0] > 50
