"""Draws of the future of a `StateSpaceModel`: against the linear model's own, and its forecasts."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from credo.core.predictive import Poisson
from credo.errors import DataError
from credo.models.lds import LDS
from credo.models.nonlinear import Particles, StateSpaceModel

from .conftest import H, M, P, Q, R

STEPS, DRAWS = 4, 300
TURN = np.array([[0.9, 0.3], [-0.2, 0.8]])


def turn(z, u):
    return jnp.asarray(TURN) @ z


def look(z, u):
    return jnp.asarray(H) @ z


@pytest.fixture(scope="module")
def model():
    return StateSpaceModel(turn, look, Q, R, M, P)


def many(belief, **options):
    """Draws of states and outcomes side by side, shape (draws, steps, 4)."""
    return np.stack([np.hstack(belief.simulate(STEPS, seed=seed, **options)) for seed in range(DRAWS)])


def test_moments_are_those_of_the_linear_system(model, rng):
    """From the beginning, and after data: means, and covariances over states, outcomes and times."""
    lds = LDS(TURN, Q, H, R, M, P)
    x = rng.normal(size=(5, 2))
    for ours, theirs in ((model, lds), (model.condition(x), lds.condition(x))):
        a, b = (many(each).reshape(DRAWS, -1) for each in (ours, theirs))
        se = np.sqrt((a.var(0) + b.var(0)) / DRAWS)
        assert np.all(np.abs(a.mean(0) - b.mean(0)) < 4.5 * se)
        pa, pb = ((each - each.mean(0))[:, :, None] * (each - each.mean(0))[:, None] for each in (a, b))
        se = np.sqrt((pa.var(0) + pb.var(0)) / DRAWS)
        assert np.all(np.abs(pa.mean(0) - pb.mean(0)) < 4.5 * se)


def test_a_cloud_goes_on_from_its_particles(model, rng):
    after = model.condition(rng.normal(size=(5, 2)), using=Particles(400, seed=3))
    draws = many(after)[:, :, 2:]
    want = after.predict(STEPS)
    se = draws.std(0) / np.sqrt(DRAWS)
    assert np.all(np.abs(draws.mean(0) - want.mean) < 4.5 * np.sqrt(se**2 + np.asarray(want.epistemic) / 400))
    states, outcomes = after.simulate(STEPS, seed=1)
    assert states.shape == outcomes.shape == (STEPS, 2)
    np.testing.assert_array_equal(states, after.simulate(STEPS, seed=1)[0])
    assert not np.array_equal(states, after.simulate(STEPS, seed=2)[0])


def test_inputs_drive_it_and_outcomes_may_be_counts():
    own = StateSpaceModel(
        observe=lambda z, u: Poisson(jnp.exp(z) + u),
        transition_sample=lambda key, z, u: z + u + 0.01 * jr.normal(key, z.shape),
        start_mean=[0.0],
        start_covariance=[[0.0]],
    )
    states, outcomes = own.simulate(6, inputs=np.array([0.0, 1.0, 1.0, 0.0, 0.0, 0.5]))
    np.testing.assert_allclose(states[:, 0], [0.0, 1.0, 2.0, 2.0, 2.0, 2.5], atol=0.1)
    assert outcomes.shape == (6, 1) and np.all(outcomes == np.round(outcomes))


def test_what_cannot_be_drawn_is_refused(model):
    blind = StateSpaceModel(turn, None, Q, None, M, P, log_likelihood=lambda x, z, u: -jnp.sum((x - z) ** 2))
    with pytest.raises(DataError, match="no observe"):
        blind.simulate(2)
    dim = StateSpaceModel(turn, look, Q, None, M, P, log_likelihood=lambda x, z, u: -jnp.sum((x - z) ** 2))
    with pytest.raises(DataError, match="needs observation_noise"):
        dim.simulate(2)
    with pytest.raises(DataError, match="row for each of the 3 steps, found 2"):
        model.simulate(3, inputs=np.zeros(2))
    with pytest.raises(DataError, match="n must be a whole number of at least 1"):
        model.simulate(0)
    wild = StateSpaceModel(lambda z, u: jnp.exp(z + 10), look, Q, R, M, P)
    with pytest.raises(DataError, match="not finite"):
        wild.simulate(9)


def test_it_is_printed_in_one_line(model):
    def sine(z, u):
        return jnp.sin(z)

    plain = StateSpaceModel(sine, sine, 0.1, 0.2, 0.0, 1.0)
    assert repr(plain) == "StateSpaceModel(1 state, 1 output; step=sine, observe=sine; by Extended)"
    after = plain.condition([0.3, 0.2])
    mean, std = float(after.state.mean[0]), float(np.sqrt(after.state.covariance[0, 0]))
    assert str(after).endswith(f"by Extended; state {mean:.3g} ± {std:.2g})")
