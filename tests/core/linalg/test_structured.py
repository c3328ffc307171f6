"""Low-rank, Kronecker and Toeplitz matrices against their dense forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from credo.core.errors import DataError, NotPositiveDefinite
from credo.core.linalg import Kronecker, LowRank, Toeplitz

properties = settings(max_examples=25, deadline=None)
reals = st.floats(-3, 3)
rng = np.random.default_rng(0)


def random_spd(n: int, ridge: float = 0.5) -> np.ndarray:
    half = rng.normal(size=(n, n))
    return half @ half.T / n + ridge * np.eye(n)


@given(
    arrays(np.float64, 7, elements=st.floats(0.1, 5)),
    arrays(np.float64, (7, 3), elements=reals),
    arrays(np.float64, (3, 3), elements=reals),
    arrays(np.float64, (7, 2), elements=reals),
    st.booleans(),
)
@properties
def test_low_rank_equals_dense(diag, basis, half, b, identity):
    core = np.eye(3) if identity else half @ half.T + 0.1 * np.eye(3)
    dense = np.diag(diag) + basis @ core @ basis.T
    a = LowRank(jnp.asarray(diag), jnp.asarray(basis), None if identity else jnp.asarray(core))
    assert_allclose(a.to_dense(), dense, rtol=1e-10, atol=1e-10)
    assert_allclose(a.diagonal(), np.diag(dense), rtol=1e-10)
    assert_allclose(a.log_determinant(), np.linalg.slogdet(dense)[1], rtol=1e-9, atol=1e-9)
    want = scipy.stats.multivariate_normal(cov=dense, allow_singular=True).logpdf(b[:, 0])
    assert_allclose(a.log_evidence(jnp.asarray(b[:, 0])), want, rtol=1e-8, atol=1e-8)
    for v in (b, b[:, 0]):
        assert_allclose(a.matmul(jnp.asarray(v)), dense @ v, rtol=1e-9, atol=1e-9)
        assert_allclose(a.solve(jnp.asarray(v)), np.linalg.solve(dense, v), rtol=1e-7, atol=1e-9)


def test_low_rank_with_a_singular_core_and_under_jit_and_grad():
    diag, basis = jnp.asarray(rng.uniform(1, 2, 7)), jnp.asarray(rng.normal(size=(7, 3)))
    u, b = rng.normal(size=(3, 1)), jnp.asarray(rng.normal(size=7))
    a = LowRank(diag, basis, jnp.asarray(u @ u.T))
    dense = np.diag(diag) + basis @ u @ u.T @ basis.T
    assert_allclose(a.solve(b), np.linalg.solve(dense, b), rtol=1e-8)
    full = LowRank(diag, basis)
    assert_allclose(jax.jit(LowRank.solve)(full, b), full.solve(b), rtol=1e-12)
    gradient = jax.jit(jax.grad(lambda m: m.log_evidence(b)))(full).basis
    inverse = np.linalg.inv(full.to_dense())
    alpha = inverse @ b
    assert_allclose(gradient, (np.outer(alpha, alpha) - inverse) @ basis, rtol=1e-8, atol=1e-10)


def test_low_rank_refuses_a_negative_diagonal():
    with pytest.raises(NotPositiveDefinite, match="capacitance"):
        LowRank(jnp.asarray([-1.0, 1.0]), jnp.asarray([[2.0], [0.0]])).solve(jnp.ones(2))


FACTORS = [random_spd(2), random_spd(3), random_spd(4)]


@pytest.mark.parametrize(("count", "columns"), [(1, ()), (3, ()), (3, (2,))])
def test_kronecker_equals_dense(count, columns):
    factors = FACTORS[:count]
    dense = factors[0]
    for f in factors[1:]:
        dense = np.kron(dense, f)
    a = Kronecker(tuple(jnp.asarray(f) for f in factors))
    n = len(dense)
    v = rng.normal(size=(n, *columns))
    assert a.size == n
    assert_allclose(a.to_dense(), dense, rtol=1e-12)
    assert_allclose(a.matmul(jnp.asarray(v)), dense @ v, rtol=1e-10, atol=1e-12)
    assert_allclose(a.solve(jnp.asarray(v)), np.linalg.solve(dense, v), rtol=1e-9, atol=1e-11)
    assert_allclose(a.log_determinant(), np.linalg.slogdet(dense)[1], rtol=1e-10)
    shifted = dense + 0.3 * np.eye(n)
    assert_allclose(a.solve_shifted(jnp.asarray(v), 0.3), np.linalg.solve(shifted, v), rtol=1e-9, atol=1e-11)
    assert_allclose(a.log_determinant_shifted(0.3), np.linalg.slogdet(shifted)[1], rtol=1e-10)


def test_kronecker_gradients_are_exact_with_repeated_and_zero_eigenvalues():
    factors = (jnp.eye(3), jnp.ones((2, 2)))  # eigenvalues 1, 1, 1 and 2, 0
    b = jnp.asarray(rng.normal(size=6))

    def fast(factors, noise):
        a = Kronecker(factors)
        return -0.5 * b @ a.solve_shifted(b, noise) - 0.5 * a.log_determinant_shifted(noise)

    def dense(factors, noise):
        a = jnp.kron(*factors) + noise * jnp.eye(6)
        return -0.5 * b @ jnp.linalg.solve(a, b) - 0.5 * jnp.linalg.slogdet(a)[1]

    got, want = jax.jit(jax.grad(fast, (0, 1)))(factors, 0.3), jax.jit(jax.grad(dense, (0, 1)))(factors, 0.3)
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert_allclose(g, w, rtol=1e-9, atol=1e-11)


def test_kronecker_refuses_what_is_not_square_or_not_definite():
    with pytest.raises(DataError, match=r"square factors, found shapes \[\(2, 3\)\]"):
        Kronecker((jnp.ones((2, 3)),))
    with pytest.raises(NotPositiveDefinite, match="Kronecker factor 1"):
        Kronecker((jnp.eye(2), -jnp.eye(2))).log_determinant()


@given(st.floats(0.2, 4), st.floats(0.05, 2), st.floats(0.1, 10), arrays(np.float64, (9, 2), elements=reals))
@properties
def test_toeplitz_equals_dense(lengthscale, noise, variance, v):
    column = variance * np.exp(-np.arange(9) / lengthscale)
    column[0] += noise
    dense = scipy.linalg.toeplitz(column)
    a = Toeplitz(jnp.asarray(column))
    assert_allclose(a.to_dense(), dense)
    assert_allclose(a.log_determinant(), np.linalg.slogdet(dense)[1], rtol=1e-9, atol=1e-9)
    for x in (v, v[:, 0]):
        assert_allclose(a.matmul(jnp.asarray(x)), dense @ x, rtol=1e-9, atol=1e-9)
        assert_allclose(a.solve(jnp.asarray(x)), scipy.linalg.solve_toeplitz(column, x), rtol=1e-8, atol=1e-9)


def test_toeplitz_long_oscillating_and_of_size_one():
    lags = np.arange(500)
    column = np.cos(0.3 * lags) * np.exp(-lags / 50)
    column[0] += 0.1
    b = rng.normal(size=500)
    a = Toeplitz(jnp.asarray(column))
    dense = scipy.linalg.toeplitz(column)
    assert_allclose(a.solve(jnp.asarray(b)), np.linalg.solve(dense, b), rtol=1e-8, atol=1e-10)
    assert_allclose(a.log_determinant(), np.linalg.slogdet(dense)[1], rtol=1e-9)
    one = Toeplitz(jnp.asarray([4.0]))
    assert_allclose(one.solve(jnp.asarray([2.0])), [0.5])
    assert_allclose(one.matmul(jnp.asarray([2.0])), [8.0])
    assert_allclose(one.log_determinant(), np.log(4.0))


def test_toeplitz_gradient_equals_dense():
    column, b = jnp.asarray(np.exp(-np.arange(9.0)) + 0.5 * np.eye(9)[0]), jnp.asarray(rng.normal(size=9))

    def fast(c, b):
        return b @ Toeplitz(c).solve(b) + Toeplitz(c).log_determinant()

    def dense(c, b):
        m = Toeplitz(c).to_dense()
        return b @ jnp.linalg.solve(m, b) + jnp.linalg.slogdet(m)[1]

    got, want = jax.jit(jax.grad(fast, (0, 1)))(column, b), jax.jit(jax.grad(dense, (0, 1)))(column, b)
    for g, w in zip(got, want, strict=True):
        assert_allclose(g, w, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("column", [[1.0, 2.0, 0.0], [-1.0, 0.0, 0.0], [1.0, np.nan, 0.0], [1.0, 1.0, 1.0]])
def test_toeplitz_refuses_what_is_not_positive_definite(column):
    a = Toeplitz(jnp.asarray(column))
    with pytest.raises(NotPositiveDefinite, match="Toeplitz matrix"):
        a.log_determinant()
    with pytest.raises(NotPositiveDefinite, match=r"add noise to column\[0\]"):
        a.solve(jnp.ones(3))
    with pytest.raises(eqx.EquinoxRuntimeError, match="Toeplitz matrix"):
        eqx.filter_jit(Toeplitz.log_determinant)(a)
