"""Predictions from the rows that covary with the query."""

import numpy as np
import pytest

from credo.errors import DataError
from credo.kernels import RBF
from credo.models.gp import GP, Local

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, size=(40, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=40)
QUERIES = np.vstack([RNG.uniform(-3, 3, size=(7, 2)), [[50.0, 50.0]]])
GP0 = GP(RBF(0.7, 1.3), 0.4, 0.07)


def test_it_is_the_exact_posterior_of_the_rows_it_sees():
    after = GP0.condition(X, Y, using=Local(0.2))
    p, used = after.predict(QUERIES), after.used(QUERIES)
    for i, x in enumerate(QUERIES):
        near = GP0.kernel(x[None], X)[0] >= 0.2
        assert near.sum() == used[i]
        if near.any():
            wanted = GP0.condition(X[near], Y[near]).predict(x[None])
            np.testing.assert_allclose([p.mean[i], p.epistemic[i]], [wanted.mean[0], wanted.epistemic[0]], rtol=1e-8)
    assert used[-1] == 0 and p.mean[-1] == pytest.approx(0.4) and p.epistemic[-1] == pytest.approx(1.3)


def test_without_a_cutoff_it_is_exact():
    exact, local = GP0.condition(X, Y).predict(QUERIES), GP0.condition(X, Y, using=Local(0.0)).predict(QUERIES)
    np.testing.assert_allclose(local.mean, exact.mean, rtol=1e-8)
    np.testing.assert_allclose(local.epistemic, exact.epistemic, rtol=1e-8, atol=1e-12)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(DataError, match="cutoff"):
        Local(-1.0)
    with pytest.raises(DataError, match="lower cutoff"):
        GP0.condition(X, Y, using=Local(2.0))
