"""The Gaussian log evidence and its gradient against SciPy, the formula and automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from credo.core.errors import DataError, NotPositiveDefinite
from credo.core.linalg import gaussian_log_evidence

rng = np.random.default_rng(0)
SIZES = [7, 300]  # XLA, LAPACK


def problem(n: int) -> tuple[jax.Array, jax.Array]:
    x = rng.uniform(0, 5, n)
    return jnp.asarray(np.exp(-np.abs(x[:, None] - x)) + 0.1 * np.eye(n)), jnp.asarray(rng.normal(size=n))


@jax.jit
def by_autodiff(k, r):
    root = jnp.linalg.cholesky(k)
    white = jax.scipy.linalg.solve_triangular(root, r, lower=True)
    return -0.5 * white @ white - jnp.log(jnp.diagonal(root)).sum() - 0.5 * len(r) * jnp.log(2 * jnp.pi)


@pytest.mark.parametrize("n", SIZES)
def test_value_is_the_log_density(n):
    k, r = problem(n)
    want = scipy.stats.multivariate_normal(cov=np.asarray(k)).logpdf(r)
    assert_allclose(gaussian_log_evidence(k, r), want, rtol=1e-10)
    assert_allclose(jax.jit(gaussian_log_evidence)(k, r), want, rtol=1e-10)


@pytest.mark.parametrize("n", SIZES)
def test_gradient_is_the_formula_and_that_of_autodiff(n):
    k, r = problem(n)
    value, (by_k, by_r) = jax.jit(jax.value_and_grad(gaussian_log_evidence, (0, 1)))(k, r)
    inverse = np.linalg.inv(k)
    alpha = inverse @ r
    assert_allclose(value, by_autodiff(k, r), rtol=1e-10)
    assert_allclose(by_k, 0.5 * (np.outer(alpha, alpha) - inverse), rtol=1e-8, atol=1e-9)
    assert_allclose(by_r, -alpha, rtol=1e-8, atol=1e-9)
    assert np.array_equal(by_k, by_k.T)
    want = jax.jit(jax.grad(by_autodiff))(k, r)
    assert_allclose(by_k, 0.5 * (want + want.T), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("n", SIZES)
def test_gradient_chains_through_a_kernel(n):
    x, y = jnp.asarray(rng.uniform(0, 5, n)), jnp.asarray(rng.normal(size=n))

    def evidence(log, f):
        lengthscale, noise = jnp.exp(log)
        k = jnp.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2) + noise * jnp.eye(n)
        return 3.0 * f(k, y - lengthscale)

    log = jnp.asarray([0.1, -1.0])
    got = jax.jit(jax.grad(lambda p: evidence(p, gaussian_log_evidence)))(log)
    assert_allclose(got, jax.jit(jax.grad(lambda p: evidence(p, by_autodiff)))(log), rtol=1e-8)


@pytest.mark.parametrize("n", SIZES)
def test_vmap_over_either_argument(n):
    k, r = problem(n)
    stack = jnp.stack([k, 2 * k, -k])
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(gaussian_log_evidence), (0, None)))(stack, r)
    assert_allclose(values[:2], [gaussian_log_evidence(k, r), gaussian_log_evidence(2 * k, r)], rtol=1e-12)
    assert_allclose(gradients[1], jax.grad(gaussian_log_evidence)(2 * k, r), rtol=1e-10, atol=1e-12)
    assert values[2] == -np.inf
    assert np.array_equal(gradients[2], np.zeros((n, n)))
    residuals = jnp.stack([r, -2 * r])
    values = jax.vmap(gaussian_log_evidence, (None, 0))(k, residuals)
    assert_allclose(values, [gaussian_log_evidence(k, s) for s in residuals], rtol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_padding_changes_nothing(n):
    k, r = problem(n)
    mask = rng.uniform(size=n) < 0.6
    real = np.ix_(mask, mask)
    rubbish_k = jnp.asarray(np.where(np.outer(mask, mask), k, np.nan))
    rubbish_r = jnp.asarray(np.where(mask, r, np.inf))
    call = jax.value_and_grad(gaussian_log_evidence, (0, 1))
    for evaluate in (call, jax.jit(call)):
        value, (by_k, by_r) = evaluate(rubbish_k, rubbish_r, jnp.asarray(mask))
        want, (want_k, want_r) = call(k[real], r[mask])
        assert_allclose(value, want, rtol=1e-12)
        assert_allclose(by_k[real], want_k, rtol=1e-9, atol=1e-11)
        assert_allclose(by_r[mask], want_r, rtol=1e-9, atol=1e-11)
        assert np.count_nonzero(np.asarray(by_k)[~np.outer(mask, mask)]) == 0
        assert np.count_nonzero(by_r[~mask]) == 0
    assert_allclose(gaussian_log_evidence(rubbish_k, rubbish_r, jnp.asarray(mask)), want, rtol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_padding_does_not_change_the_jitter_either(n):
    singular, r = 1e-8 * jnp.ones((n, n)) - 1e-17 * jnp.eye(n), 1e-4 * jnp.ones(n)
    want = gaussian_log_evidence(singular, r)
    padded = jnp.zeros((n + 20, n + 20)).at[:n, :n].set(singular)
    got = gaussian_log_evidence(padded, jnp.zeros(n + 20).at[:n].set(r), jnp.arange(n + 20) < n)
    assert np.isfinite(want)
    assert_allclose(got, want, rtol=1e-7)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("flaw", ["indefinite", "nan"])
def test_failure_raises_outside_and_backs_off_inside(n, flaw):
    k, r = problem(n)
    bad = k.at[0, 1].set(9.0).at[1, 0].set(9.0) if flaw == "indefinite" else k.at[2, 2].set(jnp.nan)
    with pytest.raises(NotPositiveDefinite, match="covariance"):
        gaussian_log_evidence(bad, r)
    assert jax.jit(gaussian_log_evidence)(bad, r) == -np.inf
    value, gradients = jax.value_and_grad(gaussian_log_evidence, (0, 1))(bad, r)
    assert value == -np.inf
    assert all(np.array_equal(g, np.zeros_like(g)) for g in gradients)


def test_bad_residual_is_named():
    k, r = problem(7)
    with pytest.raises(DataError, match="residual has entries that are NaN"):
        gaussian_log_evidence(k, r.at[3].set(jnp.nan))
    assert jax.jit(gaussian_log_evidence)(k, r.at[3].set(jnp.nan)) == -np.inf
