"""Kernels that change from place to place: a varying lengthscale, a random walk, a change of regime."""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array, is_traced, namespace, special
from credo.core.errors import DataError
from credo.core.params import given, positive, real
from credo.core.pytrees import changed
from credo.kernels.base import (
    Amplified,
    Amplitude,
    Composite,
    ConstantVariance,
    InputScales,
    Kernel,
    show_call,
    start,
    with_one_each,
)
from credo.kernels.periodic import per_column

G = TypeVar("G", bound="Gibbs")

STEEPEST = 50.0
"""The logarithm of the largest factor by which a log-linear lengthscale may differ from the one at the center."""


class Gibbs(ConstantVariance):
    """κ = Πₖ √(2ℓₖ(x)ℓₖ(z)/(ℓₖ²(x) + ℓₖ²(z))) exp(-Σₖ (xₖ - zₖ)²/(ℓₖ²(x) + ℓₖ²(z))): an RBF whose ℓ varies with x.

        ℓₖ(x) = ℓₖ exp(wᵀ(x - c))    w = `slope`, learned; c = `center`, the mean of the data
        ℓₖ(x) = ℓₖ g(x)ₖ             where a positive `function` g of a row is given, written with `jax.numpy`

    Gibbs (1997), "Bayesian Gaussian processes for regression and classification"; Rasmussen & Williams (2006),
    eq. 4.32.
    """

    lengthscale: Float[Array, "*d"] | None = positive(None, unset=1.0)
    variance: Amplitude = positive(None, unset=1.0)
    slope: Float[Array, " e"] | None = real(None)
    center: Float[Array, "*c"] | None = given(unset=0.0)
    function: Callable[[Array], Array] | None = eqx.field(default=None, static=True)
    ard: bool = eqx.field(default=False, static=True, kw_only=True)
    """Whether `learn` gives each column a lengthscale of its own."""
    symbols = (("ℓ", "lengthscale"), ("w", "slope"))

    @property
    def compiled(self) -> bool:  # type: ignore[override]
        """Where there is a function of yours."""
        return self.function is not None

    def __check_init__(self) -> None:
        if self.function is not None and self.slope is not None:
            raise DataError("Gibbs has a slope or a function for its lengthscale, found both; give one")

    def lengthscales(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """ℓₖ(x) for every row and column."""
        xp = namespace(self, x)
        length = xp.broadcast_to(per_column(self, "lengthscale", x), x.shape)
        if self.function is not None:
            values = jax.vmap(self.function)(x)
            return length * jnp.broadcast_to(values[:, None] if values.ndim == 1 else values, x.shape)
        if self.slope is None:
            return length
        moved = (x - per_column(self, "center", x)) @ per_column(self, "slope", x)
        return length * xp.exp(xp.clip(moved, -STEEPEST, STEEPEST))[:, None]

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² κ for all pairs, a column at a time."""
        a, b = self.lengthscales(x), self.lengthscales(z)
        xp = namespace(self, x, z)
        front, exponent = xp.ones((x.shape[0], z.shape[0])), xp.zeros((x.shape[0], z.shape[0]))
        for k in range(x.shape[1]):  # unrolled: XLA fuses all of it
            both = a[:, k, None] ** 2 + b[None, :, k] ** 2
            front = front * xp.sqrt(2.0 * a[:, k, None] * b[None, :, k] / both)
            exponent = exponent + (x[:, k, None] - z[None, :, k]) ** 2 / both
        return self.amplitude() * front * xp.exp(-exponent)

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """A table where the function, if there is one, gives positive lengthscales."""
        rows = super().encode(x, name, columns)
        if self.function is not None and not is_traced(rows, self.lengthscale):
            smallest = float(jnp.min(self.lengthscales(jnp.asarray(rows))))
            if not smallest > 0:
                raise DataError(f"the lengthscales of Gibbs must be positive, found {smallest:.3g} on {name}; use exp")
        return rows

    def adapt(self: G, scales: InputScales) -> G:
        """ℓ = √d standard deviations (1 beside a function of yours), the same everywhere; c = the mean."""
        d = len(scales.spread)
        out = start(self, variance=scales.variance, center=scales.center)
        if self.function is None:
            typical = scales.spread * np.sqrt(d)
            out = start(out, lengthscale=typical if self.ard else np.exp(np.log(typical).mean()), slope=np.zeros(d))
        out = start(out, lengthscale=1.0)
        return with_one_each(out, d) if self.ard else out


class Brownian(Amplified):
    """k = s²/2 (|x| + |z| - |x - z|), x and z measured from the `origin`: a random walk that starts there at zero.

    min(x, z) to the right of the origin, and another, independent walk to the left. One column.
    Rasmussen & Williams (2006), appendix B.2.1.
    """

    variance: Amplitude = positive(None, unset=1.0)
    origin: Float[Array, ""] | None = given(unset=0.0)
    symbols = (("origin", "origin"),)

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² min(|x|, |z|) on the same side of the origin, 0 across it."""
        a, b = self._walked(x)[:, None], self._walked(z)[None, :]
        xp = namespace(a, b)
        return self.amplitude() * xp.where(a * b > 0, xp.minimum(xp.abs(a), xp.abs(b)), 0.0)

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """s² |x|."""
        walked = self._walked(x)
        return self.amplitude() * namespace(walked).abs(walked)

    def _walked(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        if x.shape[1] != 1:
            raise DataError(f"Brownian is of one column, found inputs with {x.shape[1]}; use .on(column)")
        return x[:, 0] - self.number("origin")

    def adapt(self, scales: InputScales) -> "Brownian":
        """The origin is one range to the left of the mean, before the data; s² = their variance over their range."""
        if len(scales.span) != 1:
            raise DataError(f"Brownian is of one column, found inputs with {len(scales.span)}; use .on(column)")
        origin = scales.center[0] - scales.span[0]
        return start(self, origin=origin, variance=scales.variance / scales.span[0])


class ChangePoint(Composite):
    """k = σ(x) k₁(x, z) σ(z) + (1 - σ(x)) k₂(x, z) (1 - σ(z)): `first` k₁ gives way to `second` k₂.

    σ(x) = 1/(1 + exp((x - a)/w)) of one `column` falls from 1 to 0 around a = `location`, over a few `width`s w.
    Lloyd et al. (2014), "Automatic construction and natural-language description of nonparametric regression
    models".
    """

    first: Kernel
    second: Kernel
    location: Float[Array, ""] | None = real(None, unset=0.0)
    width: Float[Array, ""] | None = positive(None, unset=1.0)
    column: int = eqx.field(default=0, static=True, kw_only=True)
    is_stationary = False

    def __check_init__(self) -> None:
        for name in ("first", "second"):
            if not isinstance(getattr(self, name), Kernel):
                raise DataError(f"ChangePoint needs two kernels, found {type(getattr(self, name)).__name__} as {name}")
        if not isinstance(self.column, int) or self.column < 0:
            raise DataError(f"the column of ChangePoint must be a number from 0, found {self.column!r}")

    def weight(self, x: Float[Array, "*n d"]) -> Float[Array, "*n"]:
        """σ(x), how much of `first` is left."""
        if self.column >= x.shape[-1]:
            raise DataError(f"ChangePoint is on column {self.column}, found inputs with {x.shape[-1]} columns")
        past = (x[..., self.column] - self.number("location")) / self.number("width")
        return special(past).expit(-past)

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """σσᵀ ∘ K₁ + (1 - σ)(1 - σ)ᵀ ∘ K₂."""
        a, b = self.weight(x)[:, None], self.weight(z)[None, :]
        return a * b * self.first.gram(x, z) + (1.0 - a) * (1.0 - b) * self.second.gram(x, z)

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """σ² k₁(x, x) + (1 - σ)² k₂(x, x)."""
        a = self.weight(x)
        return a * a * self.first.diagonal(x) + (1.0 - a) ** 2 * self.second.diagonal(x)

    def adapt(self, scales: InputScales) -> "ChangePoint":
        """The change is at the mean of its column, over a twentieth of the range; both kernels adapt."""
        if self.column >= len(scales.span):
            raise DataError(f"ChangePoint is on column {self.column}, found inputs with {len(scales.span)} columns")
        out = changed(self, first=self.first.adapt(scales), second=self.second.adapt(scales))
        location, width = scales.center[self.column], scales.span[self.column] / 20
        return start(out, location=location, width=width)

    def scaled(self, factor: ArrayLike) -> Kernel:
        """Both kernels multiplied."""
        return changed(self, first=self.first.scaled(factor), second=self.second.scaled(factor))

    def formula(self) -> str:
        """ChangePoint(k₁ → k₂, x0=…)."""
        numbers = show_call("", **{f"x{self.column}": self.number("location"), "w": self.number("width")})[1:-1]
        return f"ChangePoint({self.first.formula()} → {self.second.formula()}, {numbers})"
