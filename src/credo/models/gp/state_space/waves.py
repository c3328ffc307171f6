"""Periodic kernels as sums of waves, k(τ) = Σⱼ wⱼ cos(ωⱼ τ): how many, and how much of each.

Solin & Särkkä (2014), "Explicit link between periodic covariance functions and state space models".
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.kernels import Kernel
from credo.kernels.periodic import CenteredPeriodic, Cosine, Periodic

HARMONICS = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""How many waves a periodic kernel may be: few numbers, so that few programs are compiled."""


def waves_of(kernel: Cosine | Periodic, harmonics: int) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Variances and angular frequencies of the waves: k(τ) = Σⱼ wⱼ cos(ωⱼ τ)."""
    rate = 2.0 * jnp.pi / one_value(kernel, "period")
    if isinstance(kernel, Cosine):
        return kernel.amplitude().reshape(1), rate.reshape(1)
    centered = isinstance(kernel, CenteredPeriodic)
    weights = bessel_weights(1.0 / jnp.square(one_value(kernel, "lengthscale")), harmonics, centered)
    return kernel.amplitude() * weights, rate * jnp.arange(harmonics + 1)


def bessel_weights(z: Float[Array, ""], harmonics: int, centered: bool = False) -> Float[Array, " k"]:
    """w₀ = e^{-z} I₀(z) and wⱼ = 2 e^{-z} Iⱼ(z): exp(-z + z cos θ) = Σⱼ wⱼ cos jθ, j = 0, …, `harmonics`.

    Where `centered`, w₀ = 0 and the others sum to one.

    The ratios ρⱼ = Iⱼ/Iⱼ₋₁ = 1/(2j/z + ρⱼ₊₁) downwards, which is stable. Solin & Särkkä (2014), eq. 26; DLMF 10.33.
    """
    orders = jnp.arange(1, harmonics + 17)

    def down(after: jax.Array, j: jax.Array) -> tuple[jax.Array, jax.Array]:
        ratio = jnp.divide(z, 2.0 * j + z * after)
        return ratio, ratio

    _, ratios = jax.lax.scan(down, jnp.zeros(()), orders, reverse=True)
    relative = jnp.cumprod(ratios)
    if centered:
        return jnp.concatenate([jnp.zeros(1), relative[:harmonics] / relative.sum()])
    constant = 1.0 / (1.0 + 2.0 * relative.sum())
    return constant * jnp.concatenate([jnp.ones(1), 2.0 * relative[:harmonics]])


def harmonics_of(lengthscale: float, negligible: float, centered: bool) -> int:
    """How many waves have all but a share `negligible` of a periodic kernel of this lengthscale."""
    weights = 2.0 * scipy.special.ive(np.arange(HARMONICS[-1] + 64), lengthscale**-2)
    left = np.cumsum(weights[::-1])[::-1]  # of order j and above
    for count in HARMONICS:
        if left[count + 1] <= negligible * (left[1] if centered else 1.0):
            return count
    raise DataError(
        f"a periodic kernel with lengthscale {lengthscale:.3g} needs more than {HARMONICS[-1]} waves as a state space "
        "model; give it a longer lengthscale, or condition exactly (without using=)"
    )


def one_value(kernel: Kernel, name: str) -> Float[Array, ""]:
    """A number of a kernel of one input."""
    value = jnp.asarray(kernel.number(name))
    if value.size != 1:
        raise DataError(
            f"StateSpace is for functions of one input, found {type(kernel).__name__} with {value.size} values "
            f"of {name}"
        )
    return value.reshape(())
