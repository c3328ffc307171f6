"""Many climbs at once, against SciPy's L-BFGS-B."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from credo.decide.batched_lbfgs import HISTORY, _two_loops, ascend


def valley(x):
    """Rosenbrock's function, upside down."""
    return -(100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(1)


@eqx.filter_jit
def climb_valley(starts, lower, upper):
    return ascend(valley, starts, lower, upper, max_turns=600)


@pytest.mark.parametrize("high", [2.0, 0.7])
def test_the_valley_inside_and_at_the_wall(high, rng):
    d = 4
    lower, upper = np.full(d, -2.0), np.full(d, high)
    tops = climb_valley(rng.uniform(-2, high, size=(6, d)), lower, upper)
    np_valley = lambda x: float(-valley(x[None])[0])  # noqa: E731
    known = [
        optimize.minimize(np_valley, x0, method="L-BFGS-B", bounds=[(-2, high)] * d, tol=1e-14).fun
        for x0 in rng.uniform(-2, high, size=(10, d))
    ]
    assert tops.settled.all()
    assert np.all((tops.x >= lower) & (tops.x <= upper))
    np.testing.assert_allclose(tops.value.max(), -min(known), atol=1e-8)


def test_each_climb_is_as_if_alone(rng):
    lower, upper = np.full(3, -2.0), np.full(3, 2.0)
    starts = rng.uniform(-2, 2, size=(4, 3))
    together = climb_valley(starts, lower, upper)
    for i in range(4):
        alone = climb_valley(np.repeat(starts[i : i + 1], 4, axis=0), lower, upper)
        np.testing.assert_array_equal(alone.x[0], together.x[i])


def test_a_coordinate_without_room_stays():
    lower, upper = np.array([-2.0, 0.3, -2.0]), np.array([2.0, 0.3, 2.0])
    tops = climb_valley(np.array([[1.0, 0.3, -1.0]] * 2), lower, upper)
    assert np.all(np.asarray(tops.x)[:, 1] == 0.3)
    rest = optimize.minimize(lambda v: float(-valley(np.array([[v[0], 0.3, v[1]]]))[0]), [1.0, -1.0], tol=1e-14)
    np.testing.assert_allclose(tops.value[0], -rest.fun, atol=1e-8)


def test_where_the_function_is_not_finite_it_turns_back():
    def cliff(x):
        inside = x[:, 0] < 0.6
        return jnp.where(inside, jnp.log(jnp.where(inside, 0.6 - x[:, 0], 1.0)) + 5 * x[:, 0], jnp.nan)

    tops = eqx.filter_jit(lambda s: ascend(cliff, s, jnp.zeros(1), jnp.ones(1)))(jnp.array([[0.1], [0.9]]))
    np.testing.assert_allclose(tops.x[0], 0.4, atol=1e-6)
    assert tops.value[1] == -np.inf


def test_two_loops_are_the_bfgs_matrix(rng):
    """H = VᵀH₀V + ρssᵀ, step by step, as a dense matrix."""
    d, curvature = 5, rng.normal(size=(5, 5))
    curvature = curvature @ curvature.T + np.eye(5)
    moves = rng.normal(size=(HISTORY, 1, d))
    bends = moves @ curvature
    s, y = moves[:, 0], bends[:, 0]
    h = np.eye(d) * (s[0] @ y[0]) / (y[0] @ y[0])
    for si, yi in zip(s[::-1], y[::-1], strict=True):
        v = np.eye(d) - np.outer(yi, si) / (si @ yi)
        h = v.T @ h @ v + np.outer(si, si) / (si @ yi)
    slope = rng.normal(size=(1, d))
    found, known = _two_loops(jnp.asarray(slope), jnp.asarray(moves), jnp.asarray(bends), jnp.ones((1, d), bool))
    assert bool(known[0])
    np.testing.assert_allclose(found[0], h @ slope[0], rtol=1e-8)
