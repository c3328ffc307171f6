"""Forecasts from the law of the latest state, with how the forecasts of different times covary."""

from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.predictive import Normal
from credo.models.lds.kalman import StateLaw
from credo.models.structural.base import variance_of
from credo.models.structural.univariate_kalman import SeriesSystem


def forecast(system: SeriesSystem, noise: Float[Array, ""] | None, state: StateLaw | None, steps: int) -> Normal:
    """The next outcomes; noise is aleatoric, doubt about the state epistemic."""
    mean, covariance = moments(system, state, steps)
    own = namespace(mean, noise).broadcast_to(variance_of(noise), (steps,))
    return Normal(mean, own, covariance.diagonal().clip(0.0), covariance)


def moments(
    system: SeriesSystem, state: StateLaw | None, steps: int
) -> tuple[Float[Array, " steps"], Float[Array, "steps steps"]]:
    """Means and covariance of the next outcomes without noise.

    zₜ₊ₖ ~ N(Fᵏm, Pₖ) with Pₖ = FPₖ₋₁Fᵀ + Q, and Cov(zₜ₊ₖ, zₜ₊ⱼ) = F^(k-j) Pⱼ for j < k. Without a state the first of
    them is at the start.
    """
    xp = namespace(system, state)
    f, q, h = system.transition, xp.diag(system.noise), system.emission
    m, p = (system.mean, system.covariance) if state is None else state
    means, rows = [], []
    earlier = xp.zeros((len(f), 0))
    for k in range(steps):
        if k or state is not None:
            m, p = f @ m, f @ p @ f.T + q
        weights = h[k] if h.ndim == 2 else h
        # Column j is Cov(zₜ₊ₖ, the outcome at t + j).
        earlier = xp.concatenate([f @ earlier, (p @ weights)[:, None]], axis=1)
        means.append(weights @ m)
        rows.append(xp.concatenate([weights @ earlier, xp.zeros(steps - k - 1)]))
    lower = xp.stack(rows)
    return xp.stack(means), lower + lower.T - xp.diag(xp.diagonal(lower))
