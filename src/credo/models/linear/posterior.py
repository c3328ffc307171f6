"""The algebra of a linear model: Bayes' rule, evidence, predictions and leave-one-out on q × q matrices.

θ ~ N(m, P⁻¹) with P = LLᵀ; `unit` is σ², or 1 where it is unknown and P is in units of it. See `belief`
for the formulas.
"""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.linalg import Factor, factorize, inverse, log_determinant, quadratic, solve, solve_lower
from credo.core.predictive import Normal, Predictive, StudentT
from credo.models.linear.statistics import Rows, Statistics
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


class Conditioned(NamedTuple):
    """The weights after data, how probable those were, and the factorization of P₁."""

    weights: Weights
    log_evidence: Float[Array, ""]
    """-inf where the factorization fails: an optimizer backs off from it."""
    factor: Factor


def condition(now: Weights, unit: Float[Array, ""], statistics: Statistics) -> Conditioned:
    """P₁ = P₀ + G/σ², m₁ = m₀ + P₁⁻¹(c - Gm₀)/σ², and log N(y | Φ̃m₀, σ²W⁻¹ + Φ̃P₀⁻¹Φ̃ᵀ), or the Student-t that
    remains when σ² is integrated out.
    """
    assert now.root is not None
    xp = namespace(now, unit, statistics)
    factor = factorize(now.precision + statistics.gram / unit)
    change = solve(factor.root, statistics.cross - statistics.gram @ now.mean) / unit
    mean = now.mean + change
    misfit = xp.maximum(statistics.residual(mean), 0.0) / unit + ((change @ now.root) ** 2).sum()
    occam = 0.5 * (log_determinant(now.root) - log_determinant(factor.root) + statistics.log_weight)
    if now.noise is None:
        noise, value = None, occam - 0.5 * (misfit + statistics.n * xp.log(2 * np.pi * unit))
    else:
        noise, value = now.noise.updated(statistics.n, misfit), occam + now.noise.log_evidence(statistics.n, misfit)
    return Conditioned(Weights(mean, factor.root, noise), xp.where(factor.ok, value, -np.inf), factor)


class Slopes(NamedTuple):
    """The log evidence, and its derivatives by the diagonal of P₀ and by the number of the noise that is learned."""

    value: Float[Array, ""]
    precision: Float[Array, " q"]
    noise: Float[Array, ""]


def evidence_slopes(now: Weights, unit: Float[Array, ""], statistics: Statistics) -> Slopes:
    """∂/∂αᵢ = ½(1/αᵢ - Σᵢᵢ - mᵢ²) and ∂/∂σ² = ½(‖y - Φ̃m₁‖²_W/σ² + γ - n)/σ², with m = m₁ - m₀.

    Where σ² ~ IG(a, b) is unknown, mᵢ² is times E[1/σ²] = a₁/b₁, and ∂/∂b = a/b - a₁/b₁.
    """
    after, value, factor = condition(now, unit, statistics)
    change = after.mean - now.mean
    if now.noise is None or after.noise is None:
        by_precision, determined = slopes_of(now, factor, change)
        residual = statistics.residual(after.mean)
        return Slopes(value, by_precision, 0.5 * (residual / unit + determined - statistics.n) / unit)
    expected = 1 / after.noise.parameter
    return Slopes(value, slopes_of(now, factor, change * expected**0.5)[0], 1 / now.noise.parameter - expected)


def slopes_of(now: Weights, factor: Factor, change: Float[Array, " q"]) -> tuple[Float[Array, " q"], Float[Array, ""]]:
    """½(1/αᵢ - Σᵢᵢ - mᵢ²) with Σ = P₁⁻¹, and γ = q - tr ΣP₀, the number of weights that the data determine."""
    covariance, precision = inverse(factor.root), now.precision
    by_precision = 0.5 * (1 / precision.diagonal() - covariance.diagonal() - change**2)
    return by_precision, len(change) - (covariance * precision).sum()


def latent(weights: Weights, phi: Float[Array, "m q"]) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """φ̃ᵀm and φ̃ᵀP⁻¹φ̃ for every row."""
    mean = phi @ weights.mean
    return mean, np.zeros(mean.shape) if weights.root is None else quadratic(weights.root, phi.T)


def latent_covariance(weights: Weights, phi: Float[Array, "m q"], psi: Float[Array, "k q"]) -> Float[Array, "m k"]:
    """Φ̃P⁻¹Ψ̃ᵀ."""
    if weights.root is None:
        return namespace(phi).zeros((phi.shape[0], psi.shape[0]))
    return solve_lower(weights.root, phi.T).T @ solve_lower(weights.root, psi.T)


def leave_one_out(after: Weights, unit: Float[Array, ""], rows: Rows, reference: Float[Array, ""]) -> Predictive:
    """Each row predicted from the others: the row is divided out of the posterior `after` all of them."""
    mean, variance = latent(after, rows.design)
    noise, residual = unit / rows.weights, rows.y - mean
    kept = 1 - variance / noise
    without = reference + rows.y - residual / kept
    if after.noise is None:
        return Normal(without, noise, variance / kept)
    others = after.noise.updated(np.asarray(-1.0), -rows.weights * residual**2 / kept)
    s2 = others.parameter
    return StudentT(2 * others.shape + np.zeros(without.shape), without, s2 * noise, s2 * variance / kept)
