"""Noise with heavy tails: the mode by iteratively reweighted least squares, and Laplace's approximation around it.

Student-t and Laplace noise are scale mixtures of Gaussians, ε | τ ~ N(0, s²/τ), so EM alternates a weighted
ridge regression with the expected precision of each row, `row_precision` (Lange, Little & Taylor 1989).
A row of weight wᵢ has scale s/√wᵢ; weight zero is padding.

The curvature is the expected information P₁ = P₀ + κ Φ̃ᵀWΦ̃, κ the noise's `information`: always positive definite,
and free of θ, so the gradient of the approximate evidence is exact with θ held at the mode.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from credo.core.arrays import Array
from credo.core.linalg import Factor, factorize, log_determinant, solve
from credo.models.linear.posterior import Weights
from credo.models.linear.statistics import Rows
from credo.models.noise import HeavyTailed

MAX_STEPS = 500
TOLERANCE = 1e-10


def find_mode(now: Weights, noise: HeavyTailed, rows: Rows) -> tuple[Float[Array, " q"], Float[Array, ""]]:
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
        new = weighted(noise.row_precision(jnp.sqrt(w) * (y - phi @ mean)))
        change = jnp.max(jnp.abs(new - mean)) / (1e-12 + jnp.max(jnp.abs(new)))
        return new, change, step + 1

    start = weighted(jnp.broadcast_to(noise.information, y.shape))
    mean, _, steps = jax.lax.while_loop(go_on, em, (start, jnp.asarray(jnp.inf), jnp.asarray(0.0)))
    return mean, steps


def _curvature(now: Weights, noise: HeavyTailed, rows: Rows) -> Factor:
    gram = rows.design.T @ (rows.design * rows.weights[:, None])
    return factorize(now.precision + noise.information * gram)


@eqx.filter_jit
def robust_posterior(now: Weights, noise: HeavyTailed, rows: Rows) -> tuple[Weights, Bool[Array, ""]]:
    """N(θ̂, P₁⁻¹) at the mode θ̂, and whether P₁ could be factorized."""
    mean, _ = find_mode(now, noise, rows)
    curvature = _curvature(now, noise, rows)
    return Weights(mean, curvature.root), curvature.ok


def robust_evidence(now: Weights, noise: HeavyTailed, rows: Rows) -> Float[Array, ""]:
    """log p(y | θ̂) + log p(θ̂) + ½ q log 2π - ½ log|P₁|: Laplace's approximation."""
    assert now.root is not None
    mean = jax.lax.stop_gradient(find_mode(*jax.lax.stop_gradient((now, noise, rows)))[0])
    real = rows.weights > 0
    w = jnp.where(real, rows.weights, 1.0)
    residual = jnp.sqrt(w) * (rows.y - rows.design @ mean)
    log_rows = jnp.where(real, noise.log_prob(residual) + 0.5 * jnp.log(w), 0.0)
    curvature = _curvature(now, noise, rows)
    change = mean - now.mean
    log_prior = 0.5 * log_determinant(now.root) - 0.5 * change @ now.precision @ change
    return jnp.where(curvature.ok, jnp.sum(log_rows) + log_prior - 0.5 * log_determinant(curvature.root), -jnp.inf)
