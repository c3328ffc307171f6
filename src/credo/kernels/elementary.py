"""The simplest kernels: a constant, white noise, and a function of yours."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array, is_traced
from credo.core.errors import DataError
from credo.core.params import positive
from credo.kernels.base import InputScales, Kernel, show, show_scaled, start
from credo.kernels.measures import Spectrum, Zero


class Constant(Kernel):
    """k = s²: an unknown constant."""

    variance: Float[Array, ""] | None = positive(None, unset=1.0)
    is_stationary = True

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² everywhere."""
        return jnp.broadcast_to(self.number("variance"), (x.shape[0], z.shape[0]))

    def spectral_measure(self, d: int) -> Spectrum:
        """ω = 0."""
        return self.number("variance"), Zero(d)

    def adapt(self, scales: InputScales) -> "Constant":
        """s² = the variance of the outcomes."""
        return start(self, variance=scales.variance)

    def scaled(self, factor: ArrayLike) -> Kernel:
        """factor · s²."""
        return Constant(self.number("variance") * factor)

    def formula(self) -> str:
        """s²."""
        variance = self.number("variance")
        return f"{'s' if is_traced(variance) else show(np.sqrt(variance))}²"


class White(Kernel):
    """k = s² where x = z and 0 elsewhere: a value of its own at every place.

    Rows with equal inputs share it; what differs between repeated measurements is the model's `noise`.
    """

    variance: Float[Array, ""] | None = positive(None, unset=1.0)
    is_stationary = True

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """s² [x = z]."""
        return jnp.where(jnp.all(x == z), self.number("variance"), 0.0)

    def spectral_measure(self, d: int) -> Spectrum:
        """None: refused."""
        raise DataError(
            f"{self.formula()} has no spectral measure: all frequencies alike, infinitely many; "
            "leave it out of the kernel and add its variance to the model's noise"
        )

    def adapt(self, scales: InputScales) -> "White":
        """s² = a tenth of the variance of the outcomes."""
        return start(self, variance=scales.variance / 10)

    def scaled(self, factor: ArrayLike) -> Kernel:
        """factor · s²."""
        return White(self.number("variance") * factor)

    def formula(self) -> str:
        """s² · White."""
        return show_scaled(self.variance, "White")


class Custom(Kernel):
    """A kernel from a plain function k(x, z) of two rows, written with `jax.numpy`; see `check_kernel`.

    Learnable numbers, if any, are given by name and passed on: `Custom(f, scale=2.0)` calls f(x, z, scale=…);
    each is positive.
    """

    function: Callable[..., Array] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    numbers: Float[Array, " p"] | None = positive(None)

    def __init__(self, function: Callable[..., Array], **numbers: float):
        self.function = function
        self.names = tuple(numbers)
        self.numbers = jnp.asarray(list(numbers.values()), dtype=float) if numbers else None

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """f(x, z)."""
        return jnp.asarray(self.function(x, z, **self._named()), dtype=float).reshape(())

    def _named(self) -> dict[str, Array]:
        return {} if self.numbers is None else dict(zip(self.names, self.numbers, strict=True))

    def formula(self) -> str:
        """The function's name with its numbers."""
        inside = ", ".join(f"{name}={show(value)}" for name, value in self._named().items())
        return f"{getattr(self.function, '__name__', 'k')}({inside})"
