"""Scale mixtures under Gaussian noise: given the scales of the weights the posterior is Gaussian, so it is integrated.

θ = Sz with S diagonal and z ~ N(0, I): a linear model of the columns times S, whose precision I + SGS/σ² is never worse
conditioned for scales that vanish. With σ² ~ InverseGamma(a, b) the scales are in units of σ. Chains then move in the
scales only, where there is no funnel. Murphy (2012), §7.6.
"""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array
from credo.core.linalg import solve_upper
from credo.models.linear.posterior import Conditioned, Weights, condition
from credo.models.linear.statistics import Statistics
from credo.models.noise import InverseGamma, Noise


def given_scales(noise: Noise, scales: Float[Array, " q"], statistics: Statistics) -> Conditioned:
    """z = S⁻¹θ after the data, and log p(y | S)."""
    standard = Weights(np.zeros(len(scales)), np.eye(len(scales)), noise if isinstance(noise, InverseGamma) else None)
    return condition(standard, noise.unit, statistics.scaled(scales))


def draw(
    key: PRNGKeyArray, noise: Noise, scales: Float[Array, " q"], statistics: Statistics
) -> tuple[Float[Array, " q"], Float[Array, ""]]:
    """θ and σ² from their law given the scales."""
    k_noise, k_theta = jr.split(key)
    after, _, factor = given_scales(noise, scales, statistics)
    z = solve_upper(factor.root, jr.normal(k_theta, scales.shape))
    if after.noise is None:
        return scales * (after.mean + z), noise.variance
    variance = after.noise.scale / jr.gamma(k_noise, after.noise.shape)
    return scales * (after.mean + jnp.sqrt(variance) * z), variance
