"""The algebra of a linear model: Bayes' rule, evidence, predictions and leave-one-out on q × q matrices.

θ ~ N(m, P⁻¹) with P = LLᵀ; `noise` is σ², or 1 where it is unknown and P is in units of it. See `belief`
for the formulas.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool, Float

from credo.core.arrays import Array
from credo.core.linalg import factorize, log_determinant, solve, solve_lower
from credo.core.predictive import Normal, Predictive, StudentT
from credo.models.linear.statistics import Statistics
from credo.models.noise import InverseGamma

NOT_DEFINITE = (
    "the posterior precision is not positive definite: features that are collinear, or of very different scale, under "
    "a prior that is too wide; use credo.fit, which standardizes them, or a larger prior precision"
)


class Weights(eqx.Module):
    """The belief about θ = (b - reference, w): a Gaussian by its mean and the Cholesky root of its precision.

    With unknown `noise` the precision is in units of it. Without a root the weights are a point estimate.
    """

    mean: Float[Array, " q"]
    root: Float[Array, "q q"] | None
    noise: InverseGamma | None = None

    @property
    def precision(self) -> Float[Array, "q q"]:
        """P = LLᵀ."""
        assert self.root is not None
        return self.root @ self.root.T


@eqx.filter_jit
def posterior(now: Weights, noise: Float[Array, ""], statistics: Statistics) -> tuple[Weights, Bool[Array, ""]]:
    """P₁ = P₀ + G/σ², m₁ = m₀ + P₁⁻¹(c - Gm₀)/σ²; and whether P₁ could be factorized."""
    precision = now.precision
    factor = factorize(precision + statistics.gram / noise)
    change = solve(factor.root, statistics.cross - statistics.gram @ now.mean) / noise
    mean = now.mean + change
    misfit = jnp.maximum(statistics.residual(mean), 0.0) + change @ precision @ change
    return Weights(mean, factor.root, None if now.noise is None else now.noise.updated(statistics.n, misfit)), factor.ok


def evidence(now: Weights, noise: Float[Array, ""], statistics: Statistics) -> Float[Array, ""]:
    """log N(y | Φ̃m₀, σ²W⁻¹ + Φ̃P₀⁻¹Φ̃ᵀ), or the Student-t that remains when σ² is integrated out.

    -inf where a factorization fails: an optimizer backs off from it.
    """
    assert now.root is not None
    precision = now.precision
    factor = factorize(precision + statistics.gram / noise)
    change = solve(factor.root, statistics.cross - statistics.gram @ now.mean) / noise
    misfit = jnp.maximum(statistics.residual(now.mean + change), 0.0) / noise + change @ precision @ change
    occam = 0.5 * (log_determinant(now.root) - log_determinant(factor.root) + statistics.log_weight)
    half_n = statistics.n / 2
    if now.noise is None:
        value = occam - 0.5 * misfit - half_n * jnp.log(2 * jnp.pi * noise)
    else:
        value = occam + now.noise.log_evidence(statistics.n, misfit)
    return jnp.where(factor.ok, value, -jnp.inf)


@eqx.filter_jit
def latent(weights: Weights, phi: Float[Array, "m q"]) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """φ̃ᵀm and φ̃ᵀP⁻¹φ̃ for every row."""
    mean = phi @ weights.mean
    if weights.root is None:
        return mean, jnp.zeros_like(mean)
    return mean, jnp.sum(solve_lower(weights.root, phi.T) ** 2, axis=0)


@eqx.filter_jit
def latent_covariance(weights: Weights, phi: Float[Array, "m q"], psi: Float[Array, "k q"]) -> Float[Array, "m k"]:
    """Φ̃P⁻¹Ψ̃ᵀ."""
    if weights.root is None:
        return jnp.zeros((phi.shape[0], psi.shape[0]))
    return solve_lower(weights.root, phi.T).T @ solve_lower(weights.root, psi.T)


@eqx.filter_jit
def leave_one_out(
    after: Weights, noise: Float[Array, ""], phi: Float[Array, "n q"], y: Float[Array, " n"], w: Float[Array, " n"]
) -> Predictive:
    """Each row predicted from the others: the row is divided out of the posterior `after` all of them."""
    mean, variance = latent(after, phi)
    row_noise = noise / w
    kept = 1 - variance / row_noise
    residual = y - mean
    without = y - residual / kept
    if after.noise is None:
        return Normal(without, row_noise, variance / kept)
    others = after.noise.updated(jnp.asarray(-1.0), -w * residual**2 / kept)
    s2 = others.parameter
    return StudentT(jnp.broadcast_to(2 * others.shape, y.shape), without, s2 * row_noise, s2 * variance / kept)
