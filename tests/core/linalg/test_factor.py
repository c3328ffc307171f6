"""The Cholesky factor, its jitter policy, and its uses, against NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from credo.core import linalg
from credo.core.errors import NotPositiveDefinite

N = 6
squares = arrays(np.float64, (N, N), elements=st.floats(-3, 3))
vectors = arrays(np.float64, (N,), elements=st.floats(-3, 3))
properties = settings(max_examples=25, deadline=None)


def spd(half: np.ndarray, ridge: float = 0.5) -> np.ndarray:
    return half @ half.T + ridge * np.eye(len(half))


def random_spd(n: int, seed: int = 0) -> np.ndarray:
    return spd(np.random.default_rng(seed).normal(size=(n, n)) / np.sqrt(n))


@given(squares)
@properties
def test_factor_reproduces_the_matrix_without_jitter(half):
    a = spd(half)
    factor = linalg.factorize(jnp.asarray(a))
    assert bool(factor.ok)
    assert float(factor.jitter) == 0.0
    assert_allclose(factor.root, np.linalg.cholesky(a), rtol=1e-10, atol=1e-12)


@given(squares, squares, vectors)
@properties
def test_uses_of_a_factor(half, b, v):
    a = spd(half)
    root = linalg.cholesky(jnp.asarray(a))
    lower, inverse = np.linalg.cholesky(a), np.linalg.inv(a)
    for rhs in (v, b):
        tolerance = {"rtol": 1e-8, "atol": 1e-9 * (1 + np.abs(rhs).max())}
        assert_allclose(linalg.solve(root, jnp.asarray(rhs)), inverse @ rhs, **tolerance)
        assert_allclose(linalg.solve_lower(root, jnp.asarray(rhs)), np.linalg.solve(lower, rhs), **tolerance)
        assert_allclose(linalg.solve_upper(root, jnp.asarray(rhs)), np.linalg.solve(lower.T, rhs), **tolerance)
    assert_allclose(linalg.log_determinant(root), np.linalg.slogdet(a)[1], rtol=1e-9, atol=1e-9)
    assert_allclose(linalg.inverse(root), inverse, rtol=1e-8, atol=1e-9)
    assert_allclose(linalg.quadratic(root, jnp.asarray(v)), v @ inverse @ v, rtol=1e-8, atol=1e-9)
    columns = np.einsum("nm,nk,km->m", b, inverse, b)
    assert_allclose(linalg.quadratic(root, jnp.asarray(b)), columns, rtol=1e-8, atol=1e-9)


def test_large_concrete_matrices_go_through_lapack_and_agree_with_xla():
    a = jnp.asarray(random_spd(300))
    eager, traced = linalg.factorize(a), jax.jit(linalg.factorize)(a)
    assert_allclose(eager.root, traced.root, rtol=1e-11, atol=1e-13)
    assert_allclose(eager.root, np.linalg.cholesky(a), rtol=1e-11, atol=1e-13)
    assert np.array_equal(np.triu(eager.root, 1), np.zeros((300, 300)))
    inverse = linalg.inverse(eager.root)
    assert_allclose(inverse, np.linalg.inv(a), rtol=1e-9, atol=1e-11)
    assert np.array_equal(inverse, inverse.T)
    assert_allclose(jax.jit(linalg.inverse)(eager.root), inverse, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("n", [N, 300])
def test_singular_matrix_gets_the_smallest_jitter_that_works(n):
    singular = jnp.ones((n, n)) - 1e-11 * jnp.eye(n)
    scale = 1 - 1e-11
    for factor in (linalg.factorize(singular), jax.jit(linalg.factorize)(singular)):
        assert bool(factor.ok)
        jitter = float(factor.jitter)
        assert 1e-11 <= jitter <= 1e-10
        steps = np.log10(jitter / (n * np.finfo(float).eps * scale))
        assert abs(steps - round(steps)) < 1e-6  # first · 10^k
        assert_allclose(factor.root @ factor.root.T, singular + jitter * np.eye(n), atol=1e-13)


def test_jitter_is_relative_to_the_scale_and_larger_in_float32():
    ones = np.ones((N, N)) - 1e-9 * np.eye(N)  # indefinite by rounding-like amounts
    small = linalg.factorize(jnp.asarray(1e-12 * ones))
    assert bool(small.ok)
    assert 0 < float(small.jitter) <= 1e-18
    single = linalg.factorize(jnp.asarray(np.ones((N, N)) - 1e-5 * np.eye(N), jnp.float32))
    assert single.root.dtype == jnp.float32
    assert bool(single.ok)
    assert 1e-6 < float(single.jitter) <= 1e-3


@pytest.mark.parametrize("n", [N, 300])
@pytest.mark.parametrize("flaw", ["indefinite", "negative", "zero", "nan", "inf"])
def test_failure_is_a_status_and_never_nan(n, flaw):
    a = random_spd(n)
    if flaw == "indefinite":
        a[0, 1] = a[1, 0] = 10.0
    elif flaw == "negative":
        a = -a
    elif flaw == "zero":
        a = 0 * a
    else:
        a[n - 1, 2] = a[2, n - 1] = float(flaw)
    for factor in (linalg.factorize(jnp.asarray(a)), jax.jit(linalg.factorize)(jnp.asarray(a))):
        assert not bool(factor.ok)
        assert np.isfinite(factor.root).all()
        assert np.isfinite(factor.jitter)


def test_gradient_of_the_factor_equals_jax_own():
    a, w = jnp.asarray(random_spd(N)), jnp.asarray(np.random.default_rng(1).normal(size=(N, N)))

    def ours(m):
        return jnp.sum(w * linalg.factorize(m).root)

    def theirs(m):
        return jnp.sum(w * jnp.linalg.cholesky(m))

    want = jax.jit(jax.grad(theirs))(a)
    assert_allclose(jax.grad(ours)(a), want, rtol=1e-10, atol=1e-12)
    assert_allclose(jax.jit(jax.grad(ours))(a), want, rtol=1e-10, atol=1e-12)
    assert_allclose(jax.jit(jax.jacfwd(ours))(a), want, rtol=1e-10, atol=1e-12)


def test_gradient_where_jitter_was_needed_is_that_of_the_jittered_matrix():
    singular = jnp.ones((3, 3)) - 1e-9 * jnp.eye(3)
    factor = linalg.factorize(singular)
    assert float(factor.jitter) > 0
    got = jax.grad(lambda m: linalg.log_determinant(linalg.factorize(m).root))(singular)
    want = np.linalg.inv(np.asarray(singular) + float(factor.jitter) * np.eye(3))
    assert_allclose(got, want, rtol=1e-5)


def test_gradient_is_finite_where_the_branch_is_not_taken():
    bad = jnp.asarray(-np.eye(3))

    def guarded(m):
        factor = linalg.factorize(m)
        return jnp.where(factor.ok, linalg.log_determinant(factor.root), -jnp.inf)

    value, gradient = jax.value_and_grad(guarded)(bad)
    assert value == -np.inf
    assert np.array_equal(gradient, np.zeros((3, 3)))


def test_vmap_finds_a_jitter_for_each():
    batch = jnp.stack([jnp.eye(3), jnp.ones((3, 3)) - 1e-9 * jnp.eye(3), -jnp.eye(3)])
    factor = jax.vmap(linalg.factorize)(batch)
    assert factor.ok.tolist() == [True, True, False]
    assert float(factor.jitter[0]) == 0.0
    assert float(factor.jitter[1]) > 0.0
    assert_allclose(factor.root[0], np.eye(3))


@pytest.mark.parametrize("n", [N, 300])
def test_mask_makes_padding_of_the_identity_and_leaves_the_policy_alone(n):
    rng = np.random.default_rng(2)
    mask = rng.uniform(size=n) < 0.7
    full = np.where(np.outer(mask, mask), 1e-8 * random_spd(n), np.nan)
    for call in (linalg.factorize, jax.jit(linalg.factorize)):
        factor = call(jnp.asarray(full), jnp.asarray(mask))
        assert bool(factor.ok)
        assert float(factor.jitter) == 0.0
        assert_allclose(factor.root[np.ix_(mask, mask)], np.linalg.cholesky(full[np.ix_(mask, mask)]), rtol=1e-9)
        assert np.array_equal(factor.root[np.ix_(~mask, ~mask)], np.eye((~mask).sum()))
    singular = np.where(np.outer(mask, mask), 1e-8, 0.0) - 1e-17 * np.diag(mask)
    factor = linalg.factorize(jnp.asarray(singular), jnp.asarray(mask))
    assert bool(factor.ok)
    assert 0 < float(factor.jitter) <= 1e-14  # relative to the real rows, not to the padding's ones
    assert_allclose(np.diag(factor.root)[~mask], 1.0, rtol=0, atol=0)


@pytest.mark.parametrize("n", [N, 300])
def test_cholesky_says_what_is_wrong(n):
    a = random_spd(n)
    a[0, 1] = a[1, 0] = 10.0
    smallest = np.linalg.eigvalsh(a)[0]
    with pytest.raises(NotPositiveDefinite, match=rf"kernel matrix \({n} × {n}\) is not positive definite") as e:
        linalg.cholesky(jnp.asarray(a), "kernel matrix")
    assert f"{smallest:.3g}" in str(e.value)
    assert f"{1e-6 * np.diag(a).mean():.3g}" in str(e.value)
    assert "add noise" in str(e.value)
    a[2, 3] = a[3, 2] = np.nan
    with pytest.raises(NotPositiveDefinite, match=r"2 entries that are NaN or infinite, the first at \(2, 3\)"):
        linalg.cholesky(jnp.asarray(a))
    lopsided = random_spd(n)
    lopsided[n - 1, 0] += 0.1
    with pytest.raises(NotPositiveDefinite, match=r"not symmetric: .* differ by up to 0\.1"):
        linalg.cholesky(jnp.asarray(lopsided))


def test_cholesky_inside_jit_fails_at_run_time():
    compiled = eqx.filter_jit(lambda m: linalg.cholesky(m, "covariance"))
    assert_allclose(compiled(4 * jnp.eye(3)), 2 * np.eye(3))
    with pytest.raises(eqx.EquinoxRuntimeError, match=r"covariance \(3 × 3\) is not positive definite"):
        compiled(-jnp.eye(3))


def test_the_whitened_factor_and_the_inverse_from_the_inverse_root():
    from credo.core.linalg import factorize_whitened, inverse_root
    from credo.core.linalg.lapack import square_triangle

    rng = np.random.default_rng(0)
    a, half = rng.normal(size=(5, 5)), rng.uniform(0.5, 2.0, size=5)
    whitened = np.eye(5) + half[:, None] * (a @ a.T) * half
    root = factorize_whitened(a @ a.T, half).root
    np.testing.assert_allclose(root @ root.T, whitened, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(lambda v: factorize_whitened(v, half).root)(a @ a.T), root, atol=1e-12)
    np.testing.assert_allclose(inverse_root(root) @ root, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(
        np.tril(square_triangle(inverse_root(root))), np.tril(np.linalg.inv(whitened)), atol=1e-12
    )
