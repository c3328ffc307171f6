"""Bayes by backprop: draws of weights, SciPy's divergence, and NUTS where the posterior is nearly what it looks for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from credo.core.errors import DataError, NotConverged
from credo.infer import NUTS
from credo.models.neural import BayesByBackprop, Neural
from credo.models.neural.mean_field import divergence, drawn
from credo.models.neural.network import Network

RNG = np.random.default_rng(4)


def test_pre_activations_are_as_those_of_drawn_weights():
    """Of one layer: means h M + m_b and variances h² S² + s_b², independent between rows."""
    network, many = Network((3, 2)), 20_000
    law, x = RNG.normal(size=(2, network.size)) * 0.5, RNG.normal(size=(1, 3))
    found = np.asarray(drawn(jax.random.key(0), network, law, np.repeat(x, many, axis=0)))
    theta = law[0] + np.exp(law[1]) * RNG.normal(size=(many, network.size))
    want = network(theta, x)[:, 0]
    for power in (1, 2):
        se = np.sqrt((found**power).var(0) / many + (want**power).var(0) / many)
        assert np.all(np.abs((found**power).mean(0) - (want**power).mean(0)) < 4.5 * se)
    still = drawn(jax.random.key(0), Network((3, 4, 2)), np.stack([np.ones(26), np.full(26, -40.0)]), x)
    np.testing.assert_allclose(still, Network((3, 4, 2))(np.ones(26), x), rtol=1e-9)


def test_the_divergence_is_the_mean_log_ratio():
    law, precision = np.array([[0.5, -1.0], [-0.3, 0.2]]), 0.7
    z = stats.norm.ppf((np.arange(40_000) + 0.5) / 40_000)[:, None]
    theta = law[0] + np.exp(law[1]) * z
    ratio = stats.norm(law[0], np.exp(law[1])).logpdf(theta) - stats.norm(0, precision**-0.5).logpdf(theta)
    np.testing.assert_allclose(divergence(jnp.asarray(law), jnp.asarray(precision)), ratio.mean(0).sum(), rtol=1e-3)


@pytest.mark.slow
def test_a_tiny_network_against_nuts():
    """Without hidden units the posterior is nearly normal, and of centred inputs nearly independent."""
    x = RNG.normal(size=(60, 1))
    y = 0.7 * x[:, 0] + 0.3 * RNG.normal(size=60)
    belief = Neural((), steps=3000)
    ours = belief.condition(x, y, using=BayesByBackprop(400)).members
    draws = np.asarray(belief.condition(x, y, using=NUTS(chains=2, draws=400, warmup=300)).members)
    assert np.all(np.abs(ours.mean(0) - draws.mean(0)) < 0.5 * draws.std(0))
    np.testing.assert_allclose(ours.std(0), draws.std(0), rtol=0.4)


def test_what_cannot_be_is_refused():
    import equinox as eqx

    own = Neural(network=eqx.nn.Linear(2, 2, key=jax.random.key(0)))
    with pytest.raises(DataError, match='is for layers=.* use Variational."meanfield"'):
        own.condition(RNG.normal(size=(9, 2)), RNG.normal(size=9), using=BayesByBackprop())
    with pytest.raises(NotConverged, match="training exploded; give a smaller step_size"):
        Neural((2,), steps=50, step_size=1e160).condition(np.ones((5, 1)), np.arange(5.0), using=BayesByBackprop())
