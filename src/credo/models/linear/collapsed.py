"""Scale mixtures under Gaussian noise: given the scales of the weights the posterior is Gaussian, so it is integrated.

With θ | S ~ N(0, S²), S diagonal, G and c the sums of `Statistics`, and Ã = I + SGS/σ², never worse conditioned for
scales that vanish:

    log p(y | S) = -½ (n log 2πσ² + log|Ã| + (Σwy² - cᵀSÃ⁻¹Sc/σ²)/σ²) + ½ Σ log w
    θ | y, S ~ N(SÃ⁻¹Sc/σ², SÃ⁻¹S)

or, with σ² ~ InverseGamma(a, b) and scales in units of σ, the Student-t that remains. Chains then move in the scales
only, where there is no funnel. Murphy (2012), §7.6.
"""

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array
from credo.core.linalg import factorize, log_determinant, solve_lower, solve_upper
from credo.models.linear.statistics import Statistics
from credo.models.noise import InverseGamma, Noise


def _parts(
    scales: Float[Array, " q"], unit: Float[Array, ""], statistics: Statistics
) -> tuple[Float[Array, "q q"], Float[Array, " q"], Float[Array, ""], Array]:
    """The root L of Ã, L⁻¹Sc/σ², the misfit Σwy²/σ² - |L⁻¹Sc/σ|², and whether Ã could be factorized."""
    gram = scales[:, None] * statistics.gram * scales / unit
    factor = factorize(jnp.eye(len(scales)) + gram)
    half = solve_lower(factor.root, scales * statistics.cross) / unit
    return factor.root, half, jnp.maximum(statistics.square / unit - half @ half, 0.0), factor.ok


def evidence(noise: Noise, scales: Float[Array, " q"], statistics: Statistics) -> Float[Array, ""]:
    """log p(y | S)."""
    root, _, misfit, ok = _parts(scales, noise.unit, statistics)
    value = 0.5 * (statistics.log_weight - log_determinant(root))
    if isinstance(noise, InverseGamma):
        value = value + noise.log_evidence(statistics.n, misfit)
    else:
        value = value - 0.5 * (misfit + statistics.n * jnp.log(2 * jnp.pi * noise.variance))
    return jnp.where(ok, value, -jnp.inf)


def draw(
    key: PRNGKeyArray, noise: Noise, scales: Float[Array, " q"], statistics: Statistics
) -> tuple[Float[Array, " q"], Float[Array, ""]]:
    """θ and σ² from their law given the scales."""
    k_noise, k_theta = jr.split(key)
    root, half, misfit, _ = _parts(scales, noise.unit, statistics)
    z = jr.normal(k_theta, scales.shape)
    if not isinstance(noise, InverseGamma):
        return scales * solve_upper(root, half + z), noise.variance
    new = noise.updated(statistics.n, misfit)
    variance = new.scale / jr.gamma(k_noise, new.shape)
    return scales * solve_upper(root, half + jnp.sqrt(variance) * z), variance
