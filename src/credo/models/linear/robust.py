"""Noise with heavy tails: the mode by iteratively reweighted least squares, and Laplace's approximation around it.

Student-t and Laplace noise are scale mixtures of Gaussians, ε | τ ~ N(0, s²/τ), so EM alternates a weighted
ridge regression with the expected precision of each row (Lange, Little & Taylor 1989):

    Student-t   τᵢ/s² = (ν + 1)/(νs² + rᵢ²)        information κ = (ν + 1)/(ν + 3) /s²
    Laplace     τᵢ/s² = 1/(s |rᵢ|)                 information κ = 1/s²

A row of weight wᵢ has scale s/√wᵢ; weight zero is padding.

The curvature is the expected information P₁ = P₀ + κ Φ̃ᵀWΦ̃: always positive definite, and free of θ, so the
gradient of the approximate evidence is exact with θ held at the mode.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy import stats
from jaxtyping import Array, Bool, Float

from credo.core.linalg import Factor, factorize, log_determinant, solve
from credo.models.linear.posterior import Weights
from credo.models.linear.priors import StudentTNoise
from credo.models.linear.statistics import Rows

MAX_STEPS = 500
TOLERANCE = 1e-10


def row_precision(noise: Any, residual: Float[Array, " n"]) -> Float[Array, " n"]:
    """The expected precision of each row given its residual."""
    if isinstance(noise, StudentTNoise):
        return (noise.df + 1) / (noise.df * noise.scale**2 + residual**2)
    # |r| is kept away from zero, where the weight would be infinite: the row is then fitted exactly.
    return 1 / (noise.scale * jnp.maximum(jnp.abs(residual), 1e-8 * noise.scale))


def information(noise: Any) -> Float[Array, ""]:
    """The expected information about the location in one row."""
    if isinstance(noise, StudentTNoise):
        return (noise.df + 1) / (noise.df + 3) / noise.scale**2
    return 1 / noise.scale**2


def log_likelihood(noise: Any, residual: Float[Array, " n"]) -> Float[Array, " n"]:
    """log p(ε = residual)."""
    if isinstance(noise, StudentTNoise):
        return stats.t.logpdf(residual, noise.df, 0.0, noise.scale)
    return stats.laplace.logpdf(residual, 0.0, noise.scale)


def find_mode(now: Weights, noise: Any, rows: Rows) -> tuple[Float[Array, " q"], Float[Array, ""]]:
    """The posterior mode by EM from the least-squares start, and how many steps it took."""
    phi, y, w = rows.design, rows.y, rows.weights
    precision = now.precision

    def weighted(row_precision: Array) -> Array:
        scaled = phi * (w * row_precision)[:, None]
        root = factorize(precision + phi.T @ scaled).root
        return now.mean + solve(root, scaled.T @ (y - phi @ now.mean))

    def go_on(state: tuple[Array, Array, Array]) -> Array:
        _, change, step = state
        return (change > TOLERANCE) & (step < MAX_STEPS)

    def em(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        mean, _, step = state
        new = weighted(row_precision(noise, jnp.sqrt(w) * (y - phi @ mean)))
        change = jnp.max(jnp.abs(new - mean)) / (1e-12 + jnp.max(jnp.abs(new)))
        return new, change, step + 1

    start = weighted(jnp.broadcast_to(information(noise), y.shape))
    mean, _, steps = jax.lax.while_loop(go_on, em, (start, jnp.asarray(jnp.inf), jnp.asarray(0.0)))
    return mean, steps


def _curvature(now: Weights, noise: Any, rows: Rows) -> Factor:
    gram = rows.design.T @ (rows.design * rows.weights[:, None])
    return factorize(now.precision + information(noise) * gram)


@eqx.filter_jit
def robust_posterior(now: Weights, noise: Any, rows: Rows) -> tuple[Weights, Bool[Array, ""]]:
    """N(θ̂, P₁⁻¹) at the mode θ̂, and whether P₁ could be factorized."""
    mean, _ = find_mode(now, noise, rows)
    curvature = _curvature(now, noise, rows)
    return Weights(mean, curvature.root), curvature.ok


def robust_evidence(now: Weights, noise: Any, rows: Rows) -> Float[Array, ""]:
    """log p(y | θ̂) + log p(θ̂) + ½ q log 2π - ½ log|P₁|: Laplace's approximation."""
    assert now.root is not None
    mean = jax.lax.stop_gradient(find_mode(*jax.lax.stop_gradient((now, noise, rows)))[0])
    real = rows.weights > 0
    w = jnp.where(real, rows.weights, 1.0)
    residual = jnp.sqrt(w) * (rows.y - rows.design @ mean)
    log_rows = jnp.where(real, log_likelihood(noise, residual) + 0.5 * jnp.log(w), 0.0)
    curvature = _curvature(now, noise, rows)
    change = mean - now.mean
    log_prior = 0.5 * log_determinant(now.root) - 0.5 * change @ now.precision @ change
    return jnp.where(curvature.ok, jnp.sum(log_rows) + log_prior - 0.5 * log_determinant(curvature.root), -jnp.inf)
