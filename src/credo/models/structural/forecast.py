"""Forecasts from the law of the latest state, with how the forecasts of different times covary."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from credo.core.arrays import is_traced, put
from credo.core.predictive import Normal
from credo.models.lds.kalman import StateLaw, SystemMatrices


def forecast(system: SystemMatrices, start: StateLaw, state: StateLaw | None, steps: int) -> Normal:
    """The next outcomes; noise is aleatoric, doubt about the state epistemic."""
    mean, noise, covariance = moments(system, start, state, steps)
    doubt = covariance.diagonal().clip(0.0)
    into = jnp.asarray if is_traced(mean, covariance) else put
    return Normal(*(into(a) for a in (mean, noise, doubt, covariance)))


def moments(system: SystemMatrices, start: StateLaw, state: StateLaw | None, steps: int) -> tuple[Any, Any, Any]:
    """Means, noise and covariance of the next outcomes without noise; NumPy's, unless they are traced.

    zₜ₊ₖ ~ N(Fᵏm, Pₖ) with Pₖ = FPₖ₋₁Fᵀ + Q, and Cov(zₜ₊ₖ, zₜ₊ⱼ) = F^(k-j) Pⱼ for j < k. Without a state the first of
    them is at the start.
    """
    xp: Any = jnp if is_traced(system, start, state) else np
    f, q, h, r = (xp.asarray(a) for a in system[:4])
    m, p = (xp.asarray(a) for a in (start if state is None else state))
    means, rows = [], []
    earlier = xp.zeros((f.shape[0], 0))
    for k in range(steps):
        if k or state is not None:
            m, p = f @ m, f @ p @ f.T + q
        weights = h[k, 0] if h.ndim == 3 else h[0]
        # Column j is Cov(zₜ₊ₖ, the outcome at t + j).
        earlier = xp.concatenate([f @ earlier, (p @ weights)[:, None]], axis=1)
        means.append(weights @ m)
        rows.append(xp.concatenate([weights @ earlier, xp.zeros(steps - k - 1)]))
    lower = xp.stack(rows)
    covariance = lower + lower.T - xp.diag(xp.diagonal(lower))
    return xp.stack(means), xp.broadcast_to(r[0, 0], (steps,)), covariance
