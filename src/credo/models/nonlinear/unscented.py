"""The unscented Kalman filter: functions are evaluated at a few points with the mean and covariance of the state."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core.errors import DataError
from credo.models.nonlinear.assumed import AssumedGaussian, Moments
from credo.models.nonlinear.model import scaled_root


class Unscented(AssumedGaussian):
    """2n + 1 points m and m ± √(n + λ) Lᵢ, with LLᵀ = P and λ = α²(n + κ) - n.

    The weights are 1/(2(n + λ)) and, of the middle, λ/(n + λ) for means and 1 - α² + β more for covariances. Right to
    the second order of f, where `Extended` is to the first, and no derivatives are taken. By default (α = 1, β = 0,
    κ = 1) no weight is negative and covariances stay positive definite; the popular α = 10⁻³ divides differences by
    10⁻⁶, which costs six digits. Julier & Uhlmann (2004); Wan & van der Merwe (2000).

    Args:
        alpha: how far from the mean the points lie.
        beta: 2 suits a Gaussian state where alpha is small.
        kappa: n + kappa is the squared distance of the points at alpha = 1; 3 - n matches fourth moments.
    """

    alpha: float = eqx.field(static=True)
    beta: float = eqx.field(static=True)
    kappa: float = eqx.field(static=True)

    def __init__(self, alpha: Any = 1.0, beta: Any = 0.0, kappa: Any = 1.0) -> None:
        self.alpha, self.beta, self.kappa = float(alpha), float(beta), float(kappa)
        if not 0 < self.alpha < np.inf:
            raise DataError(f"alpha must be a positive number, found {alpha!r}")
        if not (np.isfinite(self.beta) and np.isfinite(self.kappa)):
            raise DataError(f"beta and kappa must be finite, found {beta!r} and {kappa!r}")

    def moments(
        self, function: Callable[[Array], Array], mean: Float[Array, " n"], covariance: Float[Array, "n n"]
    ) -> Moments:
        """Weighted sums over the points."""
        n = mean.shape[0]
        if n + self.kappa <= 0:
            raise DataError(f"kappa must be greater than minus the {n} numbers of the state, found {self.kappa:g}")
        square = self.alpha**2 * (n + self.kappa)
        outer = 1 / (2 * square)
        middle = 1 - n / square
        free = jnp.diagonal(covariance) > 0
        root, ok = scaled_root(covariance, free)
        spread = jnp.sqrt(square) * jnp.where(free[:, None], root, 0.0)
        x = jnp.concatenate([jnp.zeros((n, 1)), spread, -spread], axis=1)
        values = jax.vmap(function, in_axes=1, out_axes=1)(mean[:, None] + x)
        # Around the middle's value, which loses no digits where its weight is large.
        center = values[:, 0] + outer * (values[:, 1:] - values[:, :1]).sum(1)
        weights = np.full(2 * n + 1, outer)
        weights[0] = middle + 1 - self.alpha**2 + self.beta
        return Moments(center, x, values - center[:, None], jnp.diag(jnp.asarray(weights)), ok)
