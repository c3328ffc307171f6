"""The extended Kalman filter: functions are replaced by their tangents at the mean."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credo.models.nonlinear.assumed import AssumedGaussian, Moments


class Extended(AssumedGaussian):
    """f(z) ≈ f(m) + J(z - m) with J the Jacobian at the mean m, by automatic differentiation.

    Exact for linear functions, good where they bend little over a standard deviation of the state, and the fastest.
    Särkkä & Svensson (2023), algorithm 7.4.
    """

    def moments(
        self, function: Callable[[Array], Array], mean: Float[Array, " n"], covariance: Float[Array, "n n"]
    ) -> Moments:
        """f(m), and JPJᵀ as columns I, J with weights P."""
        slope = jax.jacfwd(function)(mean)
        return Moments(function(mean), jnp.eye(mean.shape[0]), slope, covariance, jnp.asarray(True))
