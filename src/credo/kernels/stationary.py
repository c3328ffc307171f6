"""Stationary kernels: k(x, z) = s² κ(r²) of a scaled distance r.

    r² = (x - z)ᵀ M (x - z),    M = diag(ℓ)⁻² + ΛᵀΛ

One ℓ is isotropic, one for each column (`ard=True`) automatic relevance determination, and `projection` = Λ the
full metric of Vivarelli & Williams (1999), "Discovering hidden features with Gaussian processes regression".
κ is a function of r² with its derivative written by hand, so that gradients at coincident points, where √ has
none, are right and finite. Rasmussen & Williams (2006), §4.2 and §5.1.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.core.linalg import cholesky
from credo.core.params import positive, real
from credo.kernels.base import Amplified, Amplitude, ConstantVariance, InputScales, start, with_one_each
from credo.kernels.measures import Elliptical, Mixing, Spectrum

M = TypeVar("M", bound="Metric")


@jax.custom_jvp
def squared_distances(x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """‖xᵢ - zⱼ‖², from differences: coincident points are at distance zero exactly.

    The derivative goes through matrix products, |x|² + |z|² - 2xᵀz, where rounding does no harm.
    """
    total = jnp.zeros((x.shape[0], z.shape[0]), x.dtype)
    for k in range(x.shape[1]):  # unrolled: XLA fuses the sum with whatever follows
        total = total + jnp.square(x[:, k, None] - z[None, :, k])
    return total


@squared_distances.defjvp
def _squared_distances_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Float[Array, "n m"], Float[Array, "n m"]]:
    (x, z), (dx, dz) = primals, tangents
    change = (x * dx).sum(1)[:, None] + (z * dz).sum(1)[None, :] - x @ dz.T - dx @ z.T
    return squared_distances(x, z), 2.0 * change


@jax.custom_jvp
def root(squared: Array) -> Array:
    """√s with derivative zero at s = 0, where the product with the derivative of s is wanted, and is zero.

    The value is a plain √: with `jnp.where` around it, XLA's CPU compiler (jaxlib 0.10.2) has been seen to fuse it
    with exp and a transpose into a wrong number.
    """
    return jnp.sqrt(squared)


@root.defjvp
def _root_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (squared,), (change,) = primals, tangents
    slope = jnp.where(squared > 0, 0.5 / jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)
    return root(squared), slope * change


class Metric(Amplified):
    """A kernel with lengthscales: it sees x/ℓ, followed by Λx where there is a projection."""

    lengthscale: Float[Array, "*d"] | None = positive(None, unset=1.0)
    variance: Amplitude = positive(None, unset=1.0)
    projection: Float[Array, "q d"] | None = real(None)
    ard: bool = eqx.field(default=False, static=True, kw_only=True)
    """Whether `learn` gives each column a lengthscale of its own."""
    rank: int = eqx.field(default=0, static=True, kw_only=True)
    """The rows of Λ that `learn` adds to the metric."""
    symbols: ClassVar[tuple[tuple[str, str], ...]] = (("ℓ", "lengthscale"), ("Λ", "projection"))

    def __check_init__(self) -> None:
        if self.lengthscale is not None and jnp.ndim(self.lengthscale) > 1:
            raise DataError(
                f"{type(self).__name__} needs one lengthscale or one for each column, "
                f"found shape {jnp.shape(self.lengthscale)}; for a full metric give projection="
            )

    def embed(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        """Rows whose Euclidean distance is r."""
        length = self.number("lengthscale")
        d, own = x.shape[-1], jnp.shape(length)
        if own not in ((), (d,)):
            raise DataError(
                f"{type(self).__name__} has {own[0]} lengthscales for inputs with {d} columns; "
                "give one for all or one for each, or use .on(columns)"
            )
        scaled = x / length
        return scaled if self.projection is None else jnp.concatenate([scaled, x @ self.projection.T], axis=-1)

    def adapt(self: M, scales: InputScales) -> M:
        """ℓ = √d standard deviations of a column (their typical distance), s² = the variance of the outcomes."""
        d = len(scales.spread)
        typical = scales.spread * np.sqrt(d)
        out = start(self, lengthscale=typical if self.ard else np.exp(np.log(typical).mean()), variance=scales.variance)
        if self.rank:
            out = start(out, projection=np.random.default_rng(0).normal(size=(self.rank, d)) * 0.1 / typical)
        return with_one_each(out, d) if self.ard else out


class Stationary(Metric, ConstantVariance):
    """k(x, z) = s² κ(r²)."""

    is_stationary = True

    @abstractmethod
    def profile(self, squared: Array) -> Array:
        """κ(r²), with κ(0) = 1."""

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """s² κ(r²) of two points."""
        difference = self.embed((x - z)[None, :])[0]
        return self.amplitude() * self.profile(jnp.square(difference).sum())

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² κ(r²) for all pairs."""
        return self.amplitude() * self.profile(squared_distances(self.embed(x), self.embed(z)))

    def spectral_measure(self, d: int) -> Spectrum:
        """ω = Lω' with LLᵀ = M, since r² = ‖Lᵀτ‖², for a frequency ω' of κ."""
        law, shape = self.mixing()
        if law is None:
            return super().spectral_measure(d)
        rows = self.embed(jnp.eye(d))
        root = rows if self.projection is None else cholesky(rows @ rows.T, "the metric of the kernel")
        return self.amplitude(), Elliptical(root, None if shape is None else jnp.asarray(shape), law)

    def mixing(self) -> tuple[Mixing | None, Float[Array, ""] | float | None]:
        """What scales the normal frequencies of κ, with its shape; (None, None) where it is not known."""
        return None, None


class RBF(Stationary):
    """κ = exp(-r²/2): infinitely smooth functions.  Rasmussen & Williams (2006), eq. 4.9."""

    def profile(self, squared: Array) -> Array:
        """exp(-r²/2)."""
        return jnp.exp(-0.5 * squared)

    def mixing(self) -> tuple[Mixing, None]:
        """Nothing."""
        return "normal", None


class Exponential(Stationary):
    """κ = exp(-r), the Laplace or Ornstein-Uhlenbeck kernel, Matérn with ν = 1/2: continuous, rough functions.

    Rasmussen & Williams (2006), eq. 4.18.
    """

    def profile(self, squared: Array) -> Array:
        """exp(-r)."""
        return jnp.exp(-root(squared))

    def mixing(self) -> tuple[Mixing, float]:
        """Student-t with ν = 0.5."""
        return "student", 0.5


Matern12 = Exponential


class Matern32(Stationary):
    """κ = (1 + √3 r) exp(-√3 r): once differentiable functions.  Rasmussen & Williams (2006), eq. 4.17."""

    def profile(self, squared: Array) -> Array:
        """(1 + √3 r) exp(-√3 r)."""
        return _matern32(squared)

    def mixing(self) -> tuple[Mixing, float]:
        """Student-t with ν = 1.5."""
        return "student", 1.5


class Matern52(Stationary):
    """κ = (1 + √5 r + 5r²/3) exp(-√5 r): twice differentiable functions.  Rasmussen & Williams (2006), eq. 4.17."""

    def profile(self, squared: Array) -> Array:
        """(1 + √5 r + 5r²/3) exp(-√5 r)."""
        return _matern52(squared)

    def mixing(self) -> tuple[Mixing, float]:
        """Student-t with ν = 2.5."""
        return "student", 2.5


class RationalQuadratic(Stationary):
    """κ = (1 + r²/2α)^-α: RBF kernels of many lengthscales, mixed.  Rasmussen & Williams (2006), eq. 4.19."""

    alpha: Float[Array, ""] = positive(1.0, low=1e-3, high=1e5)
    symbols = (*Metric.symbols, ("α", "alpha"))

    def profile(self, squared: Array) -> Array:
        """(1 + r²/2α)^-α."""
        return jnp.exp(-self.alpha * jnp.log1p(0.5 * squared / self.alpha))

    def mixing(self) -> tuple[Mixing, Array]:
        """A gamma variable of shape α."""
        return "gamma", self.alpha


def _with_slope(profile: Callable[[Array], Array], slope: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """κ(r²) whose derivative is taken from the given κ'(r²)."""
    function = jax.custom_jvp(profile)
    function.defjvp(lambda at, change: (function(*at), slope(*at) * change[0]))
    return function


def _cubic(squared: Array) -> Array:
    r = root(3.0 * squared)
    return (1.0 + r) * jnp.exp(-r)


def _quintic(squared: Array) -> Array:
    r = root(5.0 * squared)
    return (1.0 + r + jnp.square(r) / 3.0) * jnp.exp(-r)


_matern32 = _with_slope(_cubic, lambda squared: -1.5 * jnp.exp(-root(3.0 * squared)))
_matern52 = _with_slope(_quintic, lambda squared: -(5.0 / 6.0) * _matern32(squared * 5.0 / 3.0))
