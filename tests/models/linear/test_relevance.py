"""ARD by coordinate ascent: against a dumb fixed point, the dense formulas, and the evidence that JAX computes."""

import numpy as np
import pytest

import credo
from credo.errors import NotPositiveDefinite
from credo.models.linear import ARD, FixedPoint, Linear, Statistics
from credo.models.linear.relevance import Relevance


def make(n, d, overlap, seed=0):
    """Every fourth of d features matters; neighbours correlate by `overlap`."""
    rng = np.random.default_rng(seed)
    covariance = overlap ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    x = rng.multivariate_normal(np.zeros(d), covariance, size=n)
    return x, x @ np.where(np.arange(d) % 4 == 0, rng.normal(size=d), 0.0) + rng.normal(size=n)


def mackay(gram, cross, square, n, precision, variance, steps):
    """α ← γ/m², σ² ← RSS/(n - γ), without any pruning; the first coordinate is the intercept and stays."""
    for _ in range(steps):
        covariance = np.linalg.inv(gram / variance + np.diag(precision))
        mean = covariance @ cross / variance
        gamma = 1 - precision * np.diag(covariance)
        residual = square - 2 * mean @ cross + mean @ gram @ mean
        variance = residual / (n - gamma.sum())
        precision[1:] = np.minimum(gamma[1:] / mean[1:] ** 2, 1e10)
    return precision, variance


def sums(gram, cross):
    """Statistics with these sums; Σy² is large enough for a misfit that is positive."""
    return Statistics(0.0, 0.0, gram, cross, 1e3)


def height(gram, cross, precision):
    """½ (log|P₀| - log|P₁| + cᵀP₁⁻¹c), the dumb way."""
    full = gram + np.diag(precision)
    return 0.5 * (np.log(precision).sum() - np.linalg.slogdet(full)[1] + cross @ np.linalg.solve(full, cross))


@pytest.mark.parametrize("overlap", [0.0, 0.95])
def test_reaches_the_fixed_point_of_mackay(overlap):
    belief, statistics = Linear(prior=ARD()).prepare(*make(200, 12, overlap))
    learned = FixedPoint(price=0.0).learn(belief, statistics, (), {}, 0)
    found = [np.asarray(v) for v in (statistics.gram, statistics.cross, statistics.square, statistics.n)]
    start = np.concatenate([[1 / float(belief.intercept.variance)], np.asarray(belief.prior.precision)])
    precision, variance = mackay(*found, start, float(belief.noise), 3000)
    on = precision[1:] < 1e6
    assert 0 < on.sum() < 12
    np.testing.assert_allclose(np.asarray(learned.belief.prior.precision)[on], precision[1:][on], rtol=1e-5)
    np.testing.assert_allclose(float(learned.belief.noise), variance, rtol=1e-6)
    assert np.all(np.asarray(learned.belief.prior.precision)[~on] > 1e6)


@pytest.mark.parametrize(("n", "d", "overlap"), [(200, 12, 0.95), (60, 40, 0.5), (100, 40, 0.99)])
def test_no_precision_can_be_improved(n, d, overlap):
    learned = credo.learn(Linear(prior=ARD()), *make(n, d, overlap), using=FixedPoint(price=0.0), report=True)
    assert learned.status == "converged"
    _, statistics = Linear(prior=ARD()).prepare(*make(n, d, overlap))
    best = learned.belief
    variance, alpha = float(best.noise), np.asarray(best.prior.precision)
    gram, cross = np.asarray(statistics.gram) / variance, np.asarray(statistics.cross) / variance
    full = np.concatenate([[1 / float(best.intercept.variance)], alpha])
    top = height(gram, cross, full)
    for i in range(d):
        for factor in (0.5, 0.9, 1.1, 2.0, 1e-9):  # the last switches a feature that is off back on
            other = full.copy()
            other[i + 1] *= factor
            assert height(gram, cross, other) <= top + 1e-7


def test_reported_evidence_is_the_models():
    learned = credo.learn(Linear(prior=ARD()), *make(200, 12, 0.5), report=True)
    _, statistics = Linear(prior=ARD()).prepare(*make(200, 12, 0.5))
    np.testing.assert_allclose(learned.log_evidence, float(learned.belief.log_evidence_of(statistics)), rtol=1e-10)


def test_two_copies_of_a_feature_do_not_switch_each_other_off():
    x, y = make(200, 12, 0.0)
    x[:, 1] = x[:, 0]
    learned = credo.learn(Linear(prior=ARD()), x, y, report=True)
    pair = np.asarray(learned.belief.prior.precision)[:2]
    assert learned.status == "converged" and pair.min() < 1e3


def test_a_feature_that_never_varies_is_switched_off():
    x, y = make(200, 12, 0.0)
    x[:, 1] = 3.0
    learned = credo.learn(Linear(prior=ARD()), x, y, report=True)
    assert float(learned.belief.prior.precision[1]) > 1e8


@pytest.mark.parametrize("changes", [[(1, 5.0)], [(1, np.inf)], [(1, np.inf), (2, 0.3), (1, 2.0)], [(0, 1e-3)]])
def test_rank_one_changes_agree_with_a_fresh_factorization(changes):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 5))
    gram, cross = root.T @ root, rng.normal(size=5)
    at = Relevance(sums(gram, cross), 1.0, np.ones(5))
    for i, value in changes:
        at._set(i, value, *at._alone(i))
    fresh = Relevance(sums(gram, cross), 1.0, at.precision)
    np.testing.assert_allclose(at.mean, fresh.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(at.covariance, fresh.covariance, rtol=1e-9, atol=1e-12)
    on = np.isfinite(at.precision)
    part = gram[np.ix_(on, on)] + np.diag(at.precision[on])
    np.testing.assert_allclose(fresh.covariance[np.ix_(on, on)], np.linalg.inv(part), rtol=1e-9)
    want = height(gram[np.ix_(on, on)], cross[on], at.precision[on]) - 0.5e3
    np.testing.assert_allclose(fresh.log_evidence, want, rtol=1e-10)


def test_one_at_a_time_never_lowers_the_evidence():
    x, y = make(60, 40, 0.9)
    statistics = Statistics(60.0, 0.0, x.T @ x, x.T @ y, y @ y)
    at = Relevance(statistics, 1.0, np.ones(40))
    heights = []
    for _ in range(60):
        at = Relevance(statistics, 1.0, at.precision)
        heights.append(at.log_evidence)
        at.move(np.arange(40), np.full(40, 1e12), 1e-9, together=False)
    gains = np.diff(heights)
    assert np.all(gains > -1e-9) and gains[0] > 1.0 and gains[-1] < 1e-4


def test_exact_interpolation_ends_with_a_warning_not_an_error():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(15, 30))
    y = rng.normal(size=15)
    twice = np.vstack([x, x]), np.concatenate([y, y])
    for prior in (None, ARD()):
        with pytest.warns(credo.errors.NotConvergedWarning, match="noise ran"):
            belief = credo.fit(Linear(prior=prior), *twice, using=FixedPoint(price=0.0))
        np.testing.assert_allclose(belief.predict(x).mean, y, atol=1e-3)


def test_a_matrix_that_is_no_precision_is_refused():
    with pytest.raises(NotPositiveDefinite, match="not positive definite while learning"):
        Relevance(sums(-np.eye(3), np.ones(3)), 1.0, np.full(3, 0.5))
