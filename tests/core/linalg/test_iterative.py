"""Conjugate gradients, the pivoted Cholesky preconditioner and Lanczos quadrature, against dense answers."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from numpy.testing import assert_allclose

from credo.core import linalg
from credo.core.errors import NotConverged, NotConvergedWarning, NotPositiveDefinite

N = 120
rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, N))
KERNEL = np.exp(-0.5 * (x[:, None] - x) ** 2)
NOISE = 0.01
A = jnp.asarray(KERNEL + NOISE * np.eye(N))
b = jnp.asarray(rng.normal(size=(N, 3)))


def matmul(v):
    return A @ v


@pytest.mark.parametrize(("rhs", "scale"), [(b, 1.0), (b[:, 0], 1e-9), (b[:, 0], 1e9)])
def test_conjugate_gradients_meet_their_tolerance_at_any_scale(rhs, scale):
    solution = linalg.conjugate_gradients(lambda v: scale * matmul(v), rhs, rtol=1e-10)
    assert solution.status == "converged"
    assert 0 < int(solution.steps) <= 1000
    residual = np.abs(rhs - scale * A @ solution.value).max(0) / np.abs(rhs).max(0)
    assert np.all(residual <= 1e-10)
    assert_allclose(solution.value * scale, np.linalg.solve(A, rhs), rtol=1e-6, atol=1e-6)


def test_preconditioner_saves_steps():
    left = linalg.pivoted_cholesky(jnp.diagonal(jnp.asarray(KERNEL)), lambda i: jnp.asarray(KERNEL)[:, i], 15)
    apply = linalg.lowrank_preconditioner(left, NOISE)
    dense = np.linalg.inv(left @ left.T + NOISE * np.eye(N))
    assert_allclose(apply(b[:, 0]), dense @ b[:, 0], rtol=1e-8, atol=1e-8)
    plain = linalg.conjugate_gradients(matmul, b[:, 0])
    helped = linalg.conjugate_gradients(matmul, b[:, 0], preconditioner=apply)
    assert helped.status == plain.status == "converged"
    assert int(helped.steps) < int(plain.steps) / 3
    assert_allclose(helped.value, np.linalg.solve(A, b[:, 0]), rtol=1e-5, atol=1e-5)


def test_gradient_through_the_solve_also_with_a_preconditioner_that_depends_on_the_matrix():
    rhs = b[:, 0]

    def loss(noise, rhs):
        apply = linalg.lowrank_preconditioner(jnp.asarray(KERNEL[:, :1]), noise)
        kernel = jnp.asarray(KERNEL)
        solution = linalg.conjugate_gradients(lambda v: kernel @ v + noise * v, rhs, apply, rtol=1e-11)
        return rhs @ solution.value

    by_noise, by_rhs = jax.jit(jax.grad(loss, (0, 1)))(jnp.asarray(0.5), rhs)
    alpha = np.linalg.solve(KERNEL + 0.5 * np.eye(N), rhs)
    assert_allclose(by_noise, -alpha @ alpha, rtol=1e-8)
    assert_allclose(by_rhs, 2 * alpha, rtol=1e-7, atol=1e-8)


def test_zero_right_hand_side_has_solution_zero():
    solution = linalg.conjugate_gradients(matmul, jnp.zeros(N))
    assert solution.status == "converged"
    assert_allclose(solution.value, 0.0)


def test_stopping_early_warns_outside_jit_and_is_a_status_inside():
    with pytest.warns(NotConvergedWarning, match=r"stopped after 3 steps .* raise max_steps \(now 3\)"):
        solution = linalg.conjugate_gradients(matmul, b[:, 0], max_steps=3)
    assert solution.status == "stopped"
    assert np.isfinite(solution.value).all()
    inside = jax.jit(lambda r: linalg.conjugate_gradients(matmul, r, max_steps=3))(b[:, 0])
    assert inside.status == "stopped"


def test_breakdown_is_an_error_outside_jit_and_not_nan_inside():
    with pytest.raises(NotConverged, match="broke down"):
        linalg.conjugate_gradients(lambda v: jnp.zeros_like(v), b[:, 0])
    inside = jax.jit(lambda r: linalg.conjugate_gradients(lambda v: jnp.zeros_like(v), r))(b[:, 0])
    assert inside.status == "stopped"
    assert np.isfinite(inside.value).all()


def test_pivoted_cholesky_is_exact_at_full_rank_and_greedy_before():
    def left(rank):
        return np.asarray(linalg.pivoted_cholesky(jnp.diagonal(A), lambda i: A[:, i], rank))

    assert_allclose(left(N) @ left(N).T, A, rtol=1e-8, atol=1e-10)
    errors = [np.trace(np.asarray(A) - left(k) @ left(k).T) for k in (1, 5, 10, 20)]
    assert np.all(np.diff(errors) < 0)
    best = np.sort(np.linalg.eigvalsh(A))[: N - 10].sum()
    assert best <= errors[2] < 3 * best
    # The reference: the same greedy choice by Schur complements of the dense matrix.
    rest, want = np.array(A), np.zeros((N, 5))
    for k in range(5):
        i = np.argmax(np.diag(rest))
        want[:, k] = rest[:, i] / np.sqrt(rest[i, i])
        rest = rest - np.outer(want[:, k], want[:, k])
    assert_allclose(left(5), want, rtol=1e-9, atol=1e-11)


def test_pivoted_cholesky_of_an_exhausted_matrix_has_zero_columns():
    u = jnp.asarray(rng.normal(size=(10, 2)))
    low = u @ u.T
    left = linalg.pivoted_cholesky(jnp.diagonal(low), lambda i: low[:, i], 5)
    assert_allclose(left @ left.T, low, rtol=1e-8, atol=1e-10)
    assert_allclose(left[:, 2:], 0.0)


def test_lanczos_log_determinant_is_within_its_standard_error():
    want = np.linalg.slogdet(A)[1]
    estimate = jax.jit(lambda k: linalg.lanczos_log_determinant(k, matmul, N, probes=64, steps=80))(jr.key(0))
    assert 0 < float(estimate.standard_error) < 0.05 * abs(want)
    assert abs(float(estimate.value) - want) < 4.5 * float(estimate.standard_error)


def test_lanczos_standard_error_is_the_spread_of_the_estimate():
    keys = jr.split(jr.key(1), 40)
    many = jax.jit(jax.vmap(lambda k: linalg.lanczos_log_determinant(k, matmul, N, probes=16, steps=40)))(keys)
    spread, claimed = np.std(many.value, ddof=1), np.sqrt(np.mean(np.square(many.standard_error)))
    assert 0.6 < spread / claimed < 1.6  # 40 draws: the ratio has a standard error of about 0.12


def test_lanczos_is_exact_when_signs_cannot_matter():
    diagonal = jnp.asarray(rng.uniform(0.5, 4, 10))
    estimate = linalg.lanczos_log_determinant(jr.key(2), lambda v: diagonal * v, 10, probes=4, steps=20)
    assert_allclose(estimate.value, np.log(diagonal).sum(), rtol=1e-9)
    assert float(estimate.standard_error) < 1e-9
    few = jnp.asarray([2.0] * 6 + [3.0] * 4)  # the Krylov space is exhausted after two steps
    estimate = linalg.lanczos_log_determinant(jr.key(3), lambda v: few * v, 10, probes=4, steps=8)
    assert_allclose(estimate.value, np.log(few).sum(), rtol=1e-9)


def test_lanczos_refuses_indefinite_matrices_and_a_single_probe():
    with pytest.raises(NotPositiveDefinite, match="size 10"):
        linalg.lanczos_log_determinant(jr.key(4), lambda v: -v, 10)
    with pytest.raises(ValueError, match="probes must be at least 2"):
        linalg.lanczos_log_determinant(jr.key(5), lambda v: v, 10, probes=1)
