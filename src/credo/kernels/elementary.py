"""The simplest kernels: a constant, white noise, a finite basis, and a function of yours."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array, as_float, is_traced, namespace
from credo.core.errors import DataError
from credo.core.params import ABSENT, positive
from credo.kernels.base import Amplitude, ConstantVariance, InputScales, Kernel, show, start
from credo.kernels.measures import Spectrum, Zero


class OneVariance(ConstantVariance):
    """What a constant and white noise share: a product leaves them their amplitude."""

    variance: Float[Array, ""] | None = positive(None, unset=1.0)
    is_stationary = True
    is_isotropic = True

    def split_variance(self) -> tuple[Amplitude, Kernel]:
        """(ABSENT, k)."""
        return ABSENT, self


class Constant(OneVariance):
    """k = s²: an unknown constant."""

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² everywhere."""
        variance = self.number("variance")
        return namespace(variance, x, z).broadcast_to(variance, (x.shape[0], z.shape[0]))

    def spectral_measure(self, d: int) -> Spectrum:
        """ω = 0."""
        return self.number("variance"), Zero(d)

    def adapt(self, scales: InputScales) -> "Constant":
        """s² = the variance of the outcomes."""
        return start(self, variance=scales.variance)

    def formula(self) -> str:
        """s²."""
        variance = self.number("variance")
        return f"{'s' if is_traced(variance) else show(np.sqrt(variance))}²"


class White(OneVariance):
    """k = s² where x = z and 0 elsewhere: a value of its own at every place.

    Rows with equal inputs share it; what differs between repeated measurements is the model's `noise`.
    """

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² [x = z]."""
        variance = self.number("variance")
        same = x[:, None, 0] == z[None, :, 0]
        for k in range(1, x.shape[1]):
            same = same & (x[:, None, k] == z[None, :, k])
        return namespace(same, variance).where(same, variance, 0.0)

    def spectral_measure(self, d: int) -> Spectrum:
        """None: refused."""
        raise DataError(
            f"{self.formula()} has no spectral measure: all frequencies alike, infinitely many; "
            "leave it out of the kernel and add its variance to the model's noise"
        )

    def adapt(self, scales: InputScales) -> "White":
        """s² = a tenth of the variance of the outcomes."""
        return start(self, variance=scales.variance / 10)


class FromFeatures(Kernel):
    """k(x, z) = φ(x)ᵀ S φ(z) for weights ~ N(0, S).  Rasmussen & Williams (2006), eq. 2.12.

    `features` maps rows (n, d) to rows (n, p): any of `credo.models.features`, or a function written with JAX.
    `covariance` is S: a number, p variances, or p × p.
    """

    features: Callable[[Float[Array, "n d"]], Float[Array, "n p"]]
    covariance: Float[Array, "..."] = eqx.field(converter=as_float, default=1.0)
    compiled = True

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Φ S Ψᵀ."""
        return self._weighted(self.features(x)) @ self.features(z).T

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """φ(xᵢ)ᵀ S φ(xᵢ)."""
        phi = self.features(x)
        return (self._weighted(phi) * phi).sum(1)

    def _weighted(self, phi: Float[Array, "n p"]) -> Float[Array, "n p"]:
        return phi @ self.covariance if self.covariance.ndim == 2 else phi * self.covariance

    def scaled(self, factor: ArrayLike) -> Kernel:
        """factor · S."""
        return FromFeatures(self.features, self.covariance * factor)

    def formula(self) -> str:
        """φᵀSφ."""
        return f"{getattr(self.features, '__name__', type(self.features).__name__)}ᵀ·S·"


class Custom(Kernel):
    """A kernel from a plain function k(x, z) of two rows, written with `jax.numpy`; see `check_kernel`.

    Learnable numbers, if any, are given by name and passed on: `Custom(f, scale=2.0)` calls f(x, z, scale=…);
    each is positive.
    """

    function: Callable[..., Array] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    numbers: Float[Array, " p"] | None = positive(None)
    compiled = True

    def __init__(self, function: Callable[..., Array], **numbers: float):
        self.function = function
        self.names = tuple(numbers)
        self.numbers = as_float(list(numbers.values())) if numbers else None

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """f(x, z)."""
        return jnp.asarray(self.function(x, z, **self._named()), dtype=float).reshape(())

    def _named(self) -> dict[str, Array]:
        return {} if self.numbers is None else dict(zip(self.names, self.numbers, strict=True))

    def formula(self) -> str:
        """The function's name with its numbers."""
        inside = ", ".join(f"{name}={show(value)}" for name, value in self._named().items())
        return f"{getattr(self.function, '__name__', 'k')}({inside})"
