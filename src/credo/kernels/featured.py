"""The kernel of a finite basis, k(x, z) = φ(x)ᵀ S φ(z): a linear model seen as a Gaussian process."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from credo.core.arrays import Array
from credo.kernels.base import Kernel


class FromFeatures(Kernel):
    """k(x, z) = φ(x)ᵀ S φ(z) for weights ~ N(0, S).  Rasmussen & Williams (2006), eq. 2.12.

    `features` maps rows (n, d) to rows (n, p): any of `credo.models.features`, or a function written with JAX.
    `covariance` is S: a number, p variances, or p × p.
    """

    features: Callable[[Float[Array, "n d"]], Float[Array, "n p"]]
    covariance: Float[Array, "..."] = eqx.field(converter=lambda v: jnp.asarray(v, dtype=float), default=1.0)

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Φ S Ψᵀ."""
        return self._weighted(self.features(x)) @ self.features(z).T

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """φ(xᵢ)ᵀ S φ(xᵢ)."""
        phi = self.features(x)
        return (self._weighted(phi) * phi).sum(1)

    def _weighted(self, phi: Float[Array, "n p"]) -> Float[Array, "n p"]:
        return phi @ self.covariance if self.covariance.ndim == 2 else phi * self.covariance

    def scaled(self, factor: Any) -> Kernel:
        """factor · S."""
        return FromFeatures(self.features, self.covariance * factor)

    def formula(self) -> str:
        """φᵀSφ."""
        return f"{getattr(self.features, '__name__', type(self.features).__name__)}ᵀ·S·"
