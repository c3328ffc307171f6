"""Trajectories: the leapfrog is reversible, a tree turns where recursion says so, and transitions keep the law."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from credo.infer.mcmc.adaptation import StepSizeAndMetric
from credo.infer.mcmc.hmc import Point, RandomNumbers, State, hmc, leapfrog
from credo.infer.mcmc.nuts import _grow, nuts

SCALE = jnp.asarray([1.0, 0.5])


def density(u):
    """A banana: not normal, so that errors of the energy are of both signs; its first coordinate is normal."""
    return -0.5 * u[0] ** 2 - 0.5 * ((u[1] - 0.5 * u[0] ** 2) / 0.6) ** 2


def exact(n, seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    return jnp.asarray(np.stack([a, 0.5 * a**2 + 0.6 * rng.normal(size=n)], axis=1))


@pytest.mark.parametrize("root", [SCALE, jnp.asarray([[1.0, 0.0], [0.4, 0.7]])], ids=["diagonal", "dense"])
@pytest.mark.parametrize("kind", ["nuts", "shallow", "hmc"])
def test_a_transition_keeps_the_law(kind, root):
    """Draws of the law are draws of the law after one transition, however long the steps are."""
    steps, n = StepSizeAndMetric(jnp.asarray(0.9), root), 20_000

    @eqx.filter_jit
    def move(u, random):
        def one(u, random):
            state = State.at(density, u, steps)
            return hmc(density, state, steps, random, 3) if kind == "hmc" else nuts(density, state, steps, random)

        return jax.vmap(one)(u, random)

    before = exact(n, 0)
    random = RandomNumbers.draw(np.random.default_rng(1), n, 2, 6, deepest=2 if kind == "shallow" else 6)
    after, about = move(before, random)
    u = np.asarray(after.position)
    assert np.mean(np.abs(u - np.asarray(before)).max(1) > 0.1) > 0.25  # they moved
    assert 0.2 < float(about.acceptance.mean()) < 0.99  # not all steps are good
    first, rest = u[:, 0], (u[:, 1] - 0.5 * u[:, 0] ** 2) / 0.6
    for z in (first, rest):
        assert stats.kstest(z, "norm").pvalue > 1e-4
        assert abs(np.mean(z**2) - 1) < 4.5 * np.sqrt(2 / n)
    assert abs(np.corrcoef(first, rest)[0, 1]) < 4.5 / np.sqrt(n)
    np.testing.assert_allclose(after.log_density, jax.vmap(density)(after.position), rtol=1e-10, atol=1e-12)
    slopes = jax.vmap(lambda v: steps.slope(density, v)[1])(after.position)
    np.testing.assert_allclose(after.gradient, slopes, rtol=1e-9, atol=1e-10)


def test_the_leapfrog_returns_where_it_came_from():
    def slope(x):
        return jax.value_and_grad(density)(x)

    x, q = jnp.asarray([0.3, -0.2]), jnp.asarray([1.0, 0.5])
    value, gradient = slope(x)
    point = Point(x, q, gradient, value)
    there = leapfrog(slope, point, 0.3)
    back = leapfrog(slope, there, -0.3)
    np.testing.assert_allclose(back.x, x, rtol=1e-12)
    np.testing.assert_allclose(back.q, q, rtol=1e-12)
    errors = [float(leapfrog(slope, point, e).energy - point.energy) for e in (0.02, 0.01)]
    assert errors[0] / errors[1] == pytest.approx(8.0, rel=0.1)  # one step is wrong by O(ε³)


@pytest.mark.parametrize("step", [0.1, 0.35, 0.8, -0.35])
def test_a_branch_turns_where_recursion_says_so(step):
    """Against the definition: every aligned stretch of 2, 4, 8 … points is checked when its last point is there."""

    def slope(x):
        return -0.5 * x @ x, -x

    def turned(q):
        rho = q.sum(0) - 0.5 * (q[0] + q[-1])
        return rho @ q[0] <= 0 or rho @ q[-1] <= 0

    depth = 4
    for seed in range(5):
        x, q = np.random.default_rng(seed).normal(size=(2, 3))
        edge = Point(jnp.asarray(x), jnp.asarray(q), *reversed(slope(jnp.asarray(x))))
        branch = _grow(
            slope, edge, jnp.asarray(step), edge.energy, jnp.asarray(depth), jnp.zeros((6, 2, 3)), jnp.asarray(0.4)
        )
        point, momenta, size = edge, [], None
        for n in range(2**depth):
            point = leapfrog(slope, point, step)
            momenta.append(np.asarray(point.q))
            lengths = [2**j for j in range(1, depth + 1) if (n + 1) % 2**j == 0]
            if any(turned(np.array(momenta[-length:])) for length in lengths):
                size = n + 1
                break
        assert bool(branch.turns) == (size is not None)
        assert int(branch.size) == (size or 2**depth)
        np.testing.assert_allclose(branch.total, np.sum(momenta, axis=0), rtol=1e-10)


def test_one_uniform_number_chooses_among_all_points():
    """Each point of a branch is chosen with a probability that is its share of the weights."""

    def slope(x):
        return -0.5 * jnp.sum(jnp.square(x)), -x

    x = jnp.asarray([-1.5, 0.3])
    edge = Point(x, jnp.asarray([1.2, 0.1]), *reversed(slope(x)))
    step, n = 0.4, 20_000

    @eqx.filter_jit
    def chosen(luck):
        def one(v):
            return _grow(slope, edge, jnp.asarray(step), edge.energy, jnp.asarray(2), jnp.zeros((4, 2, 2)), v).chosen.x[
                0
            ]

        return jax.vmap(one)(luck)

    point, places, weights = edge, [], []
    for _ in range(4):
        point = leapfrog(slope, point, step)
        places.append(float(point.x[0]))
        weights.append(float(jnp.exp(edge.energy - point.energy)))
    assert max(weights) > 1.02 * min(weights)
    luck = jnp.asarray((np.arange(n) + 0.5) / n)  # a grid: shares are exact up to its spacing
    found = np.asarray(chosen(luck))
    for place, weight in zip(places, weights, strict=True):
        share = np.mean(np.abs(found - place) < 1e-9)
        assert share == pytest.approx(weight / sum(weights), abs=5 / n)


def test_a_trajectory_that_falls_off_is_divergent():
    def cliff(u):
        return jnp.where(u[0] > 1.0, -1e8 * u[0] ** 2, -0.5 * u[0] ** 2)

    steps = StepSizeAndMetric(jnp.asarray(0.5), jnp.ones(1))
    state = State.at(cliff, jnp.asarray([0.9]), steps)
    random = RandomNumbers(jnp.asarray([3.0]), jnp.full((5, 3), 0.3))
    after, about = nuts(cliff, state, steps, random)
    assert bool(about.divergent)
    assert float(after.position[0]) <= 1.0
