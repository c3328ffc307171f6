"""The warm-up: windows, the metric, the step size by dual averaging, running moments."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from credo.infer.mcmc.adaptation import DualAveraging, RunningMoments, StepSizeAndMetric, adapt, window_ends
from credo.infer.mcmc.hmc import RandomNumbers, State
from credo.infer.mcmc.nuts import nuts


def test_windows_double_and_leave_the_end_to_the_step_size():
    assert window_ends(1000).tolist() == [20, 60, 140, 300, 900]
    assert window_ends(200).tolist() == [20, 60, 150]
    for number in range(30):
        ends = window_ends(number)
        assert np.all(np.diff(ends) > 0) and (len(ends) == 0 or ends[-1] <= number)


def test_warm_up_learns_the_metric_and_the_acceptance():
    root = jnp.asarray([[2.0, 0.0], [18.0, 3.0]])  # deviations 2 and 18.2, correlation 0.99

    def normal(u):
        z = jnp.linalg.solve(root, u)
        return -0.5 * z @ z

    def move(state, tuning, random):
        state, about = nuts(normal, state, tuning, random)
        return state, about.acceptance

    @eqx.filter_jit
    def tuned(key):
        random, more = (jax.vmap(lambda k: RandomNumbers.draw(k, 2, 10))(jr.split(k, 1000)) for k in jr.split(key))
        first = StepSizeAndMetric(jnp.ones(()), jnp.eye(2))
        state, tuning = adapt(lambda u, s: State.at(normal, u, s), move, jnp.ones(2), first, random, 0.8)
        _, rates = jax.lax.scan(lambda s, c: move(s, tuning, c), state, more)
        return tuning, rates.mean()

    tuning, rate = tuned(jr.key(0))
    found = tuning.inverse_mass_matrix_root
    np.testing.assert_allclose(found @ found.T, root @ root.T, rtol=0.25)
    assert 0.7 < float(rate) < 0.95


def test_dual_averaging_finds_where_the_acceptance_is_as_asked():
    averaging = DualAveraging.around(jnp.ones(2))  # two step sizes at once
    for _ in range(400):
        # 80 % are accepted at ε = 0.669 and at 0.223.
        averaging = averaging.after(jnp.exp(-jnp.exp(averaging.log_step) / jnp.asarray([3.0, 1.0])), 0.8)
    np.testing.assert_allclose(np.exp(averaging.log_average), -np.log(0.8) * np.array([3.0, 1.0]), rtol=0.05)


@pytest.mark.parametrize("diagonal", [False, True])
def test_running_moments_are_those_of_all_draws(diagonal):
    """One by one (Welford) and in blocks (Chan)."""
    x = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 5.0, 0.1] + 100.0
    moments = RunningMoments.empty(jnp.zeros(3) if diagonal else jnp.zeros((3, 3)))
    for row in x:
        moments = moments.add(jnp.asarray(row))
    covariance = np.cov(x.T)
    np.testing.assert_allclose(moments.mean, x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.scatter / 49, np.diag(covariance) if diagonal else covariance, rtol=1e-8)
    blocks = RunningMoments.of(x[:20]).merge(RunningMoments.of(x[20:]))
    np.testing.assert_allclose(blocks.scatter / 49, covariance, rtol=1e-10)
