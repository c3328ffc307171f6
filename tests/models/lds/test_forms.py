"""Other forms of the same filter, its gradient, and where it settles."""

from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from credo.models.lds.kalman import FilterInputs, StateLaw, SystemMatrices, kalman_filter, kalman_smoother
from credo.models.lds.parallel import parallel_filter, parallel_smoother
from credo.models.lds.riccati import steady_state
from credo.models.lds.score import log_likelihood
from credo.models.lds.square_root import root_filter, root_smoother

T = 6


def problem(oracle, seed, vary=None, singular=False):
    rng = np.random.default_rng(seed)
    steps = SystemMatrices(*(jnp.asarray(a) for a in oracle.matrices(rng, t=vary, singular=singular)))
    seen = rng.uniform(size=(T, 2)) < 0.7
    x = np.where(seen, rng.normal(size=(T, 2)), 0.0)
    first = np.array([False, False, False, False, True, False])
    start = StateLaw(jnp.asarray(rng.normal(size=2)), jnp.asarray([[0.7, 0.2], [0.2, 0.5]]))
    return start, steps, jnp.asarray(x), jnp.asarray(seen), jnp.asarray(first)


@eqx.filter_jit
def three(given):
    plain, (rooted, roots), scanned = kalman_filter(given), root_filter(given), parallel_filter(given)
    return (
        (plain, kalman_smoother(given, plain)),
        (rooted, root_smoother(given, rooted, roots)),
        (scanned, parallel_smoother(given, scanned)),
    )


def test_square_root_and_parallel_equal_the_covariance_form(oracle):
    before = StateLaw(jnp.ones(2), 0.3 * jnp.eye(2))
    start, steps, x, seen, first = problem(oracle, 3, T)
    steps = SystemMatrices(*(a[3:] for a in steps[:6]))
    plain, *others = three(FilterInputs(start, steps, x[3:], seen[3:], first[3:], before))
    for other in others:
        for want, got in zip(jax.tree.leaves(plain), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12)


def test_the_square_root_keeps_digits_that_the_covariance_loses():
    """Two nearly equal, nearly exact observations of two states: variances of 0.04 and 2.5e-19."""
    noise = 1e-18
    h = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-8]])
    steps = SystemMatrices.of(jnp.eye(2), jnp.eye(2), jnp.asarray(h), noise * jnp.eye(2))
    x = jnp.zeros((T, 2))
    seen = jnp.zeros((T, 2), bool).at[0].set(True)
    given = FilterInputs(StateLaw(jnp.zeros(2), jnp.eye(2)), steps, x, seen, jnp.zeros(T, bool))
    _, roots = eqx.filter_jit(root_filter)(given)
    rows = [[Fraction(v) for v in row] for row in h.tolist()]
    a, b, d = (sum(r[i] * r[j] for r in rows) / Fraction(noise) for i, j in ((0, 0), (0, 1), (1, 1)))
    determinant, trace = (a + 1) * (d + 1) - b * b, a + d + 2
    found = np.linalg.svd(np.asarray(roots[0]), compute_uv=False) ** 2
    np.testing.assert_allclose(np.prod(found), float(1 / determinant), rtol=1e-6)
    np.testing.assert_allclose(np.sum(found), float(trace / determinant), rtol=1e-6)


@eqx.filter_jit
def slopes(arguments, seen, first, directions):
    """The gradient by hand along some directions, and by forward differentiation of the filter."""

    def direct(start, steps, x, before):
        return kalman_filter(FilterInputs(start, steps, x, seen, first, before)).log_likelihood

    def by_hand(start, steps, x, before):
        return log_likelihood(FilterInputs(start, steps, x, seen, first, before))

    gradient = jax.grad(by_hand, argnums=(0, 1, 2, 3))(*arguments)
    inner = jax.tree.map(lambda g, d: jnp.sum(g * d), gradient, directions)
    leaves, tree = jax.tree.flatten(directions)
    one = jnp.eye(len(leaves))
    tangents = [one[i].reshape(-1, *[1] * leaf.ndim) * leaf for i, leaf in enumerate(leaves)]
    each = jax.vmap(lambda t: jax.jvp(direct, arguments, t)[1])(jax.tree.unflatten(tree, tangents))
    return jnp.stack(jax.tree.leaves(inner)), each


@pytest.mark.parametrize(("vary", "singular"), [(None, False), (None, True), (T, False)])
def test_the_gradient_by_hand(oracle, vary, singular):
    start, steps, x, seen, first = problem(oracle, 5, vary, singular)
    before = StateLaw(jnp.ones(2), 0.3 * jnp.eye(2))
    arguments = (start, steps, x, before)
    rng = np.random.default_rng(0)
    directions = jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape)), arguments)

    def even(a):
        return 0.5 * (a + jnp.swapaxes(a, -1, -2))

    d_start, d_steps, d_x, d_before = directions
    d_steps = d_steps._replace(
        process_noise=even(d_steps.process_noise), observation_noise=even(d_steps.observation_noise)
    )
    d_start, d_before = (d._replace(covariance=even(d.covariance)) for d in (d_start, d_before))
    got, want = slopes(arguments, seen, first, (d_start, d_steps, d_x, d_before))
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


def test_the_steady_state_solves_riccatis_equation(oracle):
    _, steps, *_ = problem(oracle, 1)
    found = steady_state(steps)
    f, q, h, r = (np.asarray(a) for a in steps[:4])
    want = scipy.linalg.solve_discrete_are(f.T, h.T, q, r)
    assert bool(found.converged)
    np.testing.assert_allclose(found.covariance, want, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.gain, want @ h.T @ np.linalg.inv(h @ want @ h.T + r), rtol=1e-9, atol=1e-12)


def test_a_state_that_grows_unseen_has_no_steady_state(oracle):
    _, steps, *_ = problem(oracle, 1)
    unseen = steps._replace(transition=2.0 * jnp.eye(2), emission=jnp.zeros((2, 2)))
    assert not bool(steady_state(unseen).converged)
