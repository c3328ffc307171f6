"""A periodic kernel without its constant part: functions that repeat and are zero on average over a period.

`Periodic` allows any level besides the shape that repeats, so that in a sum with a trend both say the same, and in a
product with one it becomes a trend itself. Lloyd et al. (2014), "Automatic construction and natural-language
description of nonparametric regression models", appendix A.
"""

import jax.numpy as jnp
from jax.scipy.special import i0e
from jaxtyping import Float

from credo.core.arrays import Array
from credo.kernels.base import Kernel
from credo.kernels.measures import Spectrum
from credo.kernels.periodic import Periodic, per_column


class CenteredPeriodic(Periodic):
    """κ = (exp(-2 sin²(π(x - z)/p)/ℓ²) - c)/(1 - c), c = e^(-1/ℓ²) I₀(1/ℓ²) its mean over a period.

    Tends to cos(2π(x - z)/p) as ℓ grows. With several columns the exponents are added and c is a product.
    """

    def level(self, x: Float[Array, "... d"]) -> Float[Array, ""]:
        """c, for inputs with the columns of x."""
        length = jnp.broadcast_to(per_column(self, "lengthscale", x), x.shape[-1:])
        return i0e(1.0 / jnp.square(length)).prod()

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² (κ - c)/(1 - c) for all pairs."""
        level = self.level(x)
        return (super().gram(x, z) - self.amplitude() * level) / (1.0 - level)

    def spectral_measure(self, d: int) -> Spectrum:
        """Refused: without the harmonic of frequency zero the law is not that of `Periodic`."""
        return Kernel.spectral_measure(self, d)
