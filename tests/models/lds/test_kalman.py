"""The Kalman filter and smoother against dense conditioning, statsmodels and themselves."""

import equinox as eqx
import jax
import numpy as np
import pytest

from credo.models.lds.kalman import FilterInputs, StateLaw, SystemMatrices, kalman_filter, kalman_smoother

T = 6


def both(given):
    filtered = kalman_filter(given)
    return filtered, kalman_smoother(given, filtered)


compiled = eqx.filter_jit(both)


def run(mean, covariance, steps, x, first=None, before=None):
    seen = ~np.isnan(x)
    first = np.zeros(len(x), bool) if first is None else first
    rows = (np.where(seen, x, 0.0), seen, first)
    inputs = FilterInputs(StateLaw(mean, covariance), SystemMatrices(*steps), *rows, before)
    known = both(inputs)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), known, compiled(inputs))
    return known


def moments(smoothed):
    return smoothed.mean, smoothed.covariance


def start(rng, n=2):
    a = rng.normal(size=(n, n))
    return rng.normal(size=n), a @ a.T + 0.1 * np.eye(n)


def missing(rng, x):
    x = np.where(rng.uniform(size=x.shape) < 0.3, np.nan, x)
    x[2] = np.nan
    return x


CASES = ["plain", "missing", "varying", "singular", "all missing", "exact", "wide", "constant"]


@pytest.mark.parametrize("case", CASES)
def test_against_dense_conditioning(case, oracle):
    rng = np.random.default_rng(CASES.index(case))
    mean, covariance = start(rng)
    steps = oracle.matrices(rng, t=T if case == "varying" else None, singular=case == "singular")
    x = rng.normal(size=(T, 2))
    if case == "singular":
        covariance = np.diag([0.5, 0.0])
    if case in ("missing", "varying"):
        x = missing(rng, x)
    if case == "all missing":
        x[:] = np.nan
    f, q, h, r, *levels = steps
    if case == "exact":
        steps = (f, q, h, 0 * r, *levels)
    if case == "wide":
        covariance = 1e6 * np.eye(2)
    if case == "constant":
        steps = (np.eye(2), 0 * q, h, r, *levels)
    filtered, smoothed = run(mean, covariance, steps, x)
    total, sigma, log_p = oracle.given(mean, covariance, steps, x)
    np.testing.assert_allclose(filtered.log_likelihood, log_p, rtol=1e-9, atol=1e-12)
    for got, want in zip(moments(smoothed), oracle.blocks(total, sigma, T)[:2], strict=True):
        np.testing.assert_allclose(np.asarray(got)[: len(want)], want, atol=1e-10)
    before = 0.0
    for i in range(T):
        mu, sigma, log_p = oracle.given(mean, covariance, steps, x, until=i)
        want_mean, want_covariance, _ = oracle.blocks(mu, sigma, T)
        np.testing.assert_allclose(filtered.mean[i], want_mean[i], atol=1e-10)
        np.testing.assert_allclose(filtered.covariance[i], want_covariance[i], atol=1e-10)
        np.testing.assert_allclose(filtered.increments[i], log_p - before, atol=1e-9)
        before = log_p


def test_several_sequences_are_independent(oracle):
    rng = np.random.default_rng(7)
    mean, covariance = start(rng)
    steps = oracle.matrices(rng)
    x = missing(rng, rng.normal(size=(T, 2)))
    first = np.array([True, False, False, False, True, False])
    filtered, smoothed = run(mean, covariance, steps, x, first)
    parts = [oracle.given(mean, covariance, steps, part) for part in (x[:4], x[4:])]
    np.testing.assert_allclose(filtered.log_likelihood, sum(part[2] for part in parts), rtol=1e-10)
    np.testing.assert_allclose(smoothed.mean, np.concatenate([p[0].reshape(-1, 2) for p in parts]), atol=1e-10)


def test_a_filter_goes_on_where_another_ended(oracle):
    rng = np.random.default_rng(8)
    mean, covariance = start(rng)
    steps = oracle.matrices(rng)
    x = rng.normal(size=(2 * T, 2))
    whole, _ = run(mean, covariance, steps, x)
    half, _ = run(mean, covariance, steps, x[:T])
    rest, _ = run(mean, covariance, steps, x[T:], before=StateLaw(half.mean[-1], half.covariance[-1]))
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(rest), strict=True):
        np.testing.assert_allclose(np.asarray(a)[T:], b, atol=1e-12)


@pytest.mark.parametrize(("n", "p"), [(3, 1), (10, 9)])
def test_other_sizes(n, p, oracle):
    rng = np.random.default_rng(n)
    mean, covariance = start(rng, n)
    steps = oracle.matrices(rng, n, p)
    x = np.where(rng.uniform(size=(3, p)) < 0.2, np.nan, rng.normal(size=(3, p)))
    filtered, smoothed = run(mean, covariance, steps, x)
    total, sigma, log_p = oracle.given(mean, covariance, steps, x)
    np.testing.assert_allclose(filtered.log_likelihood, log_p, rtol=1e-9)
    for got, want in zip(moments(smoothed), oracle.blocks(total, sigma, 3)[:2], strict=True):
        np.testing.assert_allclose(np.asarray(got)[: len(want)], want, atol=1e-9)
