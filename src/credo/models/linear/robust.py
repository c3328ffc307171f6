"""Noise with heavy tails: the mode by iteratively reweighted least squares, and Laplace's approximation around it.

Student-t and Laplace noise are scale mixtures of Gaussians, ε | τ ~ N(0, s²/τ), so EM alternates a weighted
ridge regression with the expected precision of each row (Lange, Little & Taylor 1989):

    Student-t   τᵢ/s² = (ν + 1)/(νs² + rᵢ²)        information κ = (ν + 1)/(ν + 3) /s²
    Laplace     τᵢ/s² = 1/(s |rᵢ|)                 information κ = 1/s²

A row of weight wᵢ has scale s/√wᵢ; weight zero is padding. The curvature is the expected information P₁ = P₀ + κ Φ̃ᵀWΦ̃: always positive definite, and free of θ, so the
gradient of the approximate evidence is exact with θ held at the mode.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy import stats
from jaxtyping import Array, Float

from credo.core.linalg import factorize, log_determinant, solve
from credo.models.linear.priors import LaplaceNoise, StudentTNoise
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


def find_mode(
    m0: Float[Array, " q"], p0: Float[Array, "q q"], noise: Any, rows: Rows
) -> tuple[Float[Array, " q"], Float[Array, ""]]:
    """The posterior mode by EM, from the least-squares start; and how many steps it took."""
    phi, y, w = rows.design, rows.y, rows.weights

    def weighted(precision: Array) -> Array:
        scaled = phi * (w * precision)[:, None]
        root = factorize(p0 + phi.T @ scaled).root
        return m0 + solve(root, scaled.T @ (y - phi @ m0))

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


@eqx.filter_jit
def robust_posterior(
    m0: Float[Array, " q"], p0: Float[Array, "q q"], noise: Any, rows: Rows
) -> tuple[Float[Array, " q"], Float[Array, "q q"]]:
    """Mode and root of the expected-information precision."""
    mean, _ = find_mode(m0, p0, noise, rows)
    gram = rows.design.T @ (rows.design * rows.weights[:, None])
    return mean, factorize(p0 + information(noise) * gram).root


def robust_evidence(
    m0: Float[Array, " q"], p0: Float[Array, "q q"], noise: StudentTNoise | LaplaceNoise, rows: Rows
) -> Float[Array, ""]:
    """log p(y | θ̂) + log p(θ̂) + ½ q log 2π - ½ log|P₁|: Laplace's approximation."""
    held = jax.lax.stop_gradient((m0, p0, noise, rows))
    mean = jax.lax.stop_gradient(find_mode(*held)[0])
    real = rows.weights > 0
    w = jnp.where(real, rows.weights, 1.0)
    residual = jnp.sqrt(w) * (rows.y - rows.design @ mean)
    gram = rows.design.T @ (rows.design * rows.weights[:, None])
    prior, posterior = factorize(p0), factorize(p0 + information(noise) * gram)
    change = mean - m0
    value = (
        jnp.sum(jnp.where(real, log_likelihood(noise, residual) + 0.5 * jnp.log(w), 0.0))
        - 0.5 * change @ p0 @ change
        + 0.5 * log_determinant(prior.root)
        - 0.5 * log_determinant(posterior.root)
    )
    return jnp.where(prior.ok & posterior.ok, value, -jnp.inf)
