"""Priors of hyperparameters: densities against SciPy, and the same in NumPy with their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import norm

from credo.infer.priors import LogitPenalty, LogScalePenalty, NormalPenalty, as_densities

MODE = np.array([0.5, 1.0, 2.0, 0.7])
LOGS = np.log(MODE) + np.array([0.3, -0.2, 0.9, -1.1])
PRIORS = {
    "typical": LogScalePenalty(MODE, (1.0, 3.0)),
}


def test_a_typical_number_has_two_half_normals():
    prior = LogScalePenalty(2.0, (1.0, 3.0))
    grid = np.linspace(-9, 20, 20001)
    density = np.exp(np.asarray(prior.log_prob(jnp.exp(grid))) - float(prior.log_mass))
    np.testing.assert_allclose(np.trapezoid(density, grid), 1.0, rtol=1e-6)
    below = np.asarray(prior.log_prob(2.0 * jnp.exp(jnp.asarray([-1.5]))))
    np.testing.assert_allclose(below, norm.logpdf(-1.5) - norm.logpdf(0), rtol=1e-12)


@pytest.mark.parametrize("name", PRIORS)
def test_on_host_it_is_the_same_with_its_gradient(name):
    prior = PRIORS[name]
    logs = LOGS[: prior.mode.size]
    value, slope = prior.on_host()(logs)
    wanted = jax.value_and_grad(lambda v: prior.log_prob(jnp.exp(v)).sum())(jnp.asarray(logs))
    np.testing.assert_allclose(value, wanted[0], rtol=1e-12)
    np.testing.assert_allclose(slope, wanted[1], rtol=1e-10)
    np.testing.assert_allclose(slope, approx_fprime(logs, lambda v: prior.on_host()(v)[0], 1e-7), rtol=1e-5)


def free(name):
    """θ of u, as JAX knows it."""
    return {"log": jnp.exp, "logit": jax.nn.sigmoid, "real": lambda u: u}[name]


@pytest.mark.parametrize(
    ("prior", "scale"),
    [(LogScalePenalty(2.0, (1.0, 3.0)), "log"), (LogitPenalty(0.7, 1.5), "logit"), (NormalPenalty(0.4, 2.0), "real")],
)
def test_as_a_density_a_penalty_has_mass_one_and_its_mode_on_the_free_scale(prior, scale):
    grid = jnp.linspace(-12.0, 25.0, 20001)
    theta, slope = jax.vmap(jax.value_and_grad(free(scale)))(grid)
    inside = (theta > 0) & (theta < 1) if scale == "logit" else jnp.isfinite(theta)
    log_density = jnp.where(inside, as_densities({"a": prior})["a"].log_prob(theta) + jnp.log(slope), -jnp.inf)
    np.testing.assert_allclose(np.trapezoid(jnp.exp(log_density), grid), 1.0, rtol=1e-6)
    top = theta[jnp.argmax(log_density)]
    np.testing.assert_allclose(top, {"log": 2.0, "logit": 0.7, "real": 0.4}[scale], rtol=2e-3)
