"""Noise with heavy tails: the mode by iteratively reweighted least squares, and Laplace's approximation around it.

Student-t and Laplace noise are scale mixtures of Gaussians, ε | τ ~ N(0, s²/τ), so EM alternates a weighted
ridge regression with the expected precision of each row, `row_precision` (Lange, Little & Taylor 1989): it never climbs
down, but crawls at the end, where Newton's step is nearly exact; so the better of both is taken. A row of weight wᵢ has
scale s/√wᵢ; weight zero is padding.

The curvature is the expected information P₁ = P₀ + κ Φ̃ᵀWΦ̃, κ the noise's `information`: always positive definite,
and free of θ, so the gradient of the approximate evidence is exact with θ held at the mode.
"""

from functools import partial

import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, held, namespace
from credo.core.linalg import Factor, factorize, log_determinant, solve
from credo.core.loops import while_loop
from credo.models.linear.posterior import Slopes, Weights, slopes_of
from credo.models.linear.statistics import Rows
from credo.models.noise import HeavyTailed

MAX_STEPS, BLURRED_STEPS = 500, 300
"""Of the last blur of the noise, and of those before."""
TOLERANCE = 1e-10
LENGTHS = 0.5 ** np.arange(8.0)
"""Of Newton's step."""

State = tuple[Array, Array, Array]


def find_mode(now: Weights, noise: HeavyTailed, rows: Rows) -> Float[Array, " q"]:
    """The posterior mode by EM and Newton from the least-squares start."""
    phi, y, w, precision = rows.design, rows.y, rows.weights, now.precision
    xp, row_precision = namespace(now, noise, rows), noise.row_precision

    def ridge(bends: Array, slopes: Array, center: Array) -> Array:
        """center - (P₀ + Φᵀ diag(bends) Φ)⁻¹ ∇, with the gradient ∇ of the loss there from the slopes of the rows."""
        gradient = precision @ (center - now.mean) - phi.T @ slopes
        return center - solve(factorize(precision + phi.T @ (phi * bends[:, None])).root, gradient)

    def losses(means: Array, blur: float) -> Array:
        """Up to a constant, -log p(y, θ) of each row of means."""
        off = means - now.mean
        rows_lost = noise.row_loss(xp.sqrt(w) * (y - means @ phi.T), blur)[0]
        return 0.5 * ((off @ precision) * off).sum(-1) + xp.where(w > 0, rows_lost, 0.0).sum(-1)

    def unfinished(state: State, most: int) -> Array:
        _, change, step = state
        return (change > TOLERANCE) & (step < most)

    def step(state: State, blur: float) -> State:
        mean, _, steps = state
        residual = y - phi @ mean
        scaled = xp.sqrt(w) * residual
        precisions = w * row_precision(scaled, blur)
        em = ridge(precisions, precisions * residual, mean)
        newton = ridge(w * noise.row_loss(scaled, blur)[1], precisions * residual, mean)
        tried = xp.concatenate([em[None], mean + LENGTHS[:, None] * (newton - mean)])
        new = tried[xp.argmin(losses(tried, blur))]
        change = xp.max(xp.abs(new - mean)) / (1e-12 + xp.max(xp.abs(new)))
        return new, change, steps + 1

    flat = w * noise.information
    mean = ridge(flat, flat * (y - phi @ now.mean), now.mean)
    sharper = mean
    for blur in noise.blurs:
        going = partial(unfinished, most=MAX_STEPS if blur == noise.blurs[-1] else BLURRED_STEPS)
        found = while_loop(going, partial(step, blur=blur), (sharper, xp.asarray(np.inf), xp.asarray(0)))[0]
        mean, sharper = found, found + (found - mean) / 10  # the path is linear in the blur while no row leaves it
    return mean


def _curvature(now: Weights, noise: HeavyTailed, rows: Rows) -> Factor:
    gram = rows.design.T @ (rows.design * rows.weights[:, None])
    return factorize(now.precision + noise.information * gram)


def robust_posterior(now: Weights, noise: HeavyTailed, rows: Rows) -> tuple[Weights, Bool[Array, ""]]:
    """N(θ̂, P₁⁻¹) at the mode θ̂, and whether P₁ could be factorized."""
    curvature = _curvature(now, noise, rows)
    return Weights(find_mode(now, noise, rows), curvature.root), curvature.ok


def robust_evidence(now: Weights, noise: HeavyTailed, rows: Rows) -> Float[Array, ""]:
    """log p(y | θ̂) + log p(θ̂) + ½ q log 2π - ½ log|P₁|: Laplace's approximation."""
    return _laplace(now, noise, rows)[0]


def _laplace(
    now: Weights, noise: HeavyTailed, rows: Rows
) -> tuple[Float[Array, ""], Float[Array, " q"], Float[Array, " n"], Factor]:
    """The approximate evidence, the mode, the residuals there in units of the rows' weights, and the curvature."""
    assert now.root is not None
    xp = namespace(now, noise, rows)
    mean = held(find_mode(*held((now, noise, rows))))
    real = rows.weights > 0
    w = xp.where(real, rows.weights, 1.0)
    residual = xp.sqrt(w) * (rows.y - rows.design @ mean)
    log_rows = xp.where(real, noise.log_prob(residual) + 0.5 * xp.log(w), 0.0)
    curvature = _curvature(now, noise, rows)
    log_prior = log_determinant(now.root) - (((mean - now.mean) @ now.root) ** 2).sum()
    value = log_rows.sum() + 0.5 * (log_prior - log_determinant(curvature.root))
    return xp.where(curvature.ok, value, -np.inf), mean, residual, curvature


def robust_slopes(now: Weights, noise: HeavyTailed, rows: Rows) -> Slopes:
    """As for Gaussian noise, and ∂/∂s = (Σᵢ (τᵢrᵢ² - 1) + γ)/s for the scale s, τᵢ the precision of row i."""
    value, mean, residual, curvature = _laplace(now, noise, rows)
    by_precision, determined = slopes_of(now, curvature, mean - now.mean)
    each = np.where(rows.weights > 0, noise.row_precision(residual) * residual**2 - 1, 0.0)
    return Slopes(value, by_precision, (each.sum() + determined) / noise.parameter)
