"""Special functions against SciPy, and where SciPy's own cancel against exact sums."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special as sp

from credo.core.special import log_beta, log_binomial, log_rising

A = jnp.asarray([1e-12, 0.3, 1.0, 7.9, 8.1, 120.0, 3e4])


def test_log_rising_agrees_with_scipy_and_with_sums():
    for n in (0.0, 0.5, 1.0, 4.0, 37.5, 1e5):
        np.testing.assert_allclose(
            log_rising(A, jnp.asarray(n)), sp.gammaln(A + n) - sp.gammaln(A), rtol=1e-12, atol=1e-9
        )
    for a in (1e-9, 0.7, 1e6, 1e12, 1e18):
        want = math.fsum(math.log(a + j) for j in range(25))
        np.testing.assert_allclose(log_rising(jnp.asarray(a), jnp.asarray(25.0)), want, rtol=1e-14)
    np.testing.assert_array_equal(log_rising(A, jnp.asarray(0.0)), np.zeros(7))


def test_log_rising_has_the_digamma_as_its_gradient():
    slope = jax.vmap(jax.grad(lambda a: log_rising(a, jnp.asarray(3.0))))(A[1:])
    np.testing.assert_allclose(slope, sp.digamma(A[1:] + 3) - sp.digamma(A[1:]), rtol=1e-10)


def test_log_beta_and_log_binomial_agree_with_scipy():
    a, b = jnp.meshgrid(A, A)
    np.testing.assert_allclose(log_beta(a, b), sp.betaln(a, b), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(log_beta(A, jnp.asarray(1.0)), -np.log(A), rtol=1e-14, atol=1e-14)  # SciPy: 1e-11
    n, k = jnp.asarray([0.0, 5.0, 40.0, 1000.0]), jnp.asarray([0.0, 2.0, 40.0, 321.0])
    want = [math.log(math.comb(int(i), int(j))) for i, j in zip(n, k, strict=True)]
    np.testing.assert_allclose(log_binomial(n, k), want, rtol=1e-13, atol=1e-13)
