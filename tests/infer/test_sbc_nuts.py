"""Simulation-based calibration of NUTS: parameters from the prior have uniform ranks among the posterior's draws.

Ranks that were computed with a wrong model show that the tests can fail.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.scipy import stats

import credo
from credo.evaluate import simulation_based_calibration
from credo.infer import NUTS
from credo.models.linear import Intercept, Isotropic

REPLICATIONS, WRONG, BINS = 80, 60, 10
FALSE_ALARM = 1e-4
"""Of all parameters together: each has its share."""
SAMPLER = NUTS(chains=1, draws=99, warmup=200, thin=3, cores=1)

short = pytest.mark.filterwarnings("ignore:do not trust:credo.errors.NotConvergedWarning")  # as the chains are
pytestmark = [pytest.mark.slow, short]


def seed_of(key):
    return int(jr.randint(key, (), 0, 2**31 - 1))


def least(ranks):
    """The smallest p-value, as if there were one parameter only."""
    values = ranks.p_values(BINS).values()
    return min(values) * len(values)


# -- logistic regression ------------------------------------------------------------------------------------------

INPUTS = np.random.default_rng(8).normal(size=(30, 2))


def weights(key):
    return jr.normal(key, (3,)) * jnp.array([1.5, 1.0, 1.0])


def outcomes(key, w):
    return np.asarray(jr.bernoulli(key, jax.nn.sigmoid(w[0] + INPUTS @ w[1:]))).astype(int)


def logistic_draws(deviation):
    belief = credo.Logistic(
        prior=Isotropic(deviation**-2.0), intercept=Intercept(variance=jnp.asarray(1.5**2)), classes=(0, 1)
    )

    def draws(key, y):
        return belief.condition(INPUTS, y, using=SAMPLER, seed=seed_of(key)).found.values["weights"]

    return draws


def test_logistic_regression():
    ranks = simulation_based_calibration(weights, outcomes, logistic_draws(1.0), REPLICATIONS, seed=1)
    assert ranks.draws == 99 and ranks.ranks.shape == (REPLICATIONS, 3)
    assert least(ranks) > FALSE_ALARM


def test_a_wrong_prior_is_found():
    ranks = simulation_based_calibration(weights, outcomes, logistic_draws(1 / 3), WRONG, seed=1)
    assert least(ranks) < 1e-3 * FALSE_ALARM


# -- a hierarchy --------------------------------------------------------------------------------------------------

ERRORS = np.linspace(0.5, 1.5, 8)


def hierarchy(key):
    k_mean, k_spread, k_group = jr.split(key, 3)
    spread = jnp.exp(0.7 * jr.normal(k_spread))
    return {"group": jr.normal(k_group, (8,)), "mean": 2 * jr.normal(k_mean), "spread": spread}


def measurements(key, p):
    return p["mean"] + p["spread"] * p["group"] + ERRORS * jr.normal(key, (8,))


def log_joint(p, y, errors):
    prior = stats.norm.logpdf(p["mean"], 0, 2) + stats.norm.logpdf(p["group"]).sum()
    prior += stats.norm.logpdf(jnp.log(p["spread"]), 0, 0.7) - jnp.log(p["spread"])
    return prior + stats.norm.logpdf(y, p["mean"] + p["spread"] * p["group"], errors).sum()


def hierarchy_draws(factor):
    init = {"group": np.zeros(8), "mean": 0.0, "spread": 1.0}
    errors = jnp.asarray(factor * ERRORS)

    def draws(key, y):
        found = credo.condition(
            log_joint, init, data=(y, errors), constraints={"spread": "positive"}, using=SAMPLER, seed=seed_of(key)
        )
        return found.values

    return draws


def test_a_hierarchy():
    ranks = simulation_based_calibration(hierarchy, measurements, hierarchy_draws(1.0), REPLICATIONS, seed=2)
    assert len(ranks.names) == 10 and ranks.draws == 99
    assert least(ranks) > FALSE_ALARM


def test_wrong_errors_are_found():
    ranks = simulation_based_calibration(hierarchy, measurements, hierarchy_draws(1 / 3), WRONG, seed=2)
    assert least(ranks) < 1e-3 * FALSE_ALARM
