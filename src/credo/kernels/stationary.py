"""Stationary kernels: k(x, z) = s² κ(r²) of a scaled distance r.

    r² = (x - z)ᵀ M (x - z),    M = diag(ℓ)⁻² + ΛᵀΛ

One ℓ is isotropic, one for each column (`ard=True`) automatic relevance determination, and `projection` = Λ the
full metric of Vivarelli & Williams (1999), "Discovering hidden features with Gaussian processes regression".
κ is a function of r² with its derivative written by hand (`slope`), so that gradients at coincident points, where √
has none, are right and finite. Rasmussen & Williams (2006), §4.2 and §5.1.
"""

import warnings
from abc import abstractmethod
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, as_float, held, is_traced, namespace
from credo.core.errors import DataError, MisfitWarning
from credo.core.linalg import cholesky
from credo.core.params import positive, real
from credo.kernels.base import Amplified, Amplitude, ConstantVariance, InputScales, start, with_one_each
from credo.kernels.measures import Elliptical, Mixing, Spectrum

M = TypeVar("M", bound="Metric")

TOGETHER = 1e-20
"""Up to this r² points are one: the derivative of r by anything is nothing there, and its rounding is not."""
UNLIKE = 1e4
"""Spreads of two columns that differ by more are in unlike units; of pixels, in like ones, they differ by hundreds."""


def squared_distances(x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """‖xᵢ - zⱼ‖², from differences: coincident points are at distance zero exactly.

    The derivative goes through matrix products, |x|² + |z|² - 2xᵀz, where rounding does no harm.
    """
    return (_traced_distances if is_traced(x, z) else _distances)(x, z)


def _distances(x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
    xp = namespace(x, z)
    total = xp.zeros((x.shape[0], z.shape[0]), x.dtype)
    if xp is np:
        difference = np.empty_like(total)  # fresh pages for every column would take longer than its differences
        for k in range(x.shape[1]):
            np.subtract(x[:, k, None], z[None, :, k], out=difference)
            total += np.square(difference, out=difference)
        return total
    for k in range(x.shape[1]):  # unrolled: XLA fuses the sum with whatever follows
        difference = x[:, k, None] - z[None, :, k]
        total = total + difference * difference
    return total


@jax.custom_jvp
def _traced_distances(x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """Fused with what makes its arguments, XLA rounds a - b once, not twice: a point is then 1e-17 away from itself,

    where the slope of a rough kernel is 1e17. What rounding may be is zero.
    """
    total, size = _distances(x, z), (x * x).sum(1)[:, None] + (z * z).sum(1)[None, :]
    return jnp.where(total <= (4.0 * jnp.finfo(total.dtype).eps) ** 2 * size, 0.0, total)


@_traced_distances.defjvp
def _distances_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Float[Array, "n m"], Float[Array, "n m"]]:
    (x, z), (dx, dz) = primals, tangents
    here = held(z[:1])  # any point will do; from one nearby fewer digits are lost
    u, w = x - here, z - here
    change = (u * dx).sum(1)[:, None] + (w * dz).sum(1)[None, :] - u @ dz.T - dx @ w.T
    return _traced_distances(x, z), 2.0 * change


def root(squared: Array) -> Array:
    """√s with derivative zero at s = 0, where the product with the derivative of s is wanted, and is zero.

    The value is a plain √: with `jnp.where` around it, XLA's CPU compiler (jaxlib 0.10.2) has been seen to fuse it
    with exp and a transpose into a wrong number.
    """
    return (_traced_root if is_traced(squared) else np.sqrt)(squared)


_traced_root = jax.custom_jvp(jnp.sqrt)


@_traced_root.defjvp
def _root_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (squared,), (change,) = primals, tangents
    slope = jnp.where(squared > 0, 0.5 / jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)
    return _traced_root(squared), slope * change


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
        if self.lengthscale is not None and np.ndim(self.lengthscale) > 1:
            raise DataError(
                f"{type(self).__name__} needs one lengthscale or one for each column, "
                f"found shape {np.shape(self.lengthscale)}; for a full metric give projection="
            )

    def embed(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        """Rows whose Euclidean distance is r."""
        length = self.number("lengthscale")
        d, own = x.shape[-1], np.shape(length)
        if own not in ((), (d,)):
            raise DataError(
                f"{type(self).__name__} has {own[0]} lengthscales for inputs with {d} columns; "
                "give one for all or one for each, or use .on(columns)"
            )
        scaled = x / length
        if self.projection is None:
            return scaled
        return namespace(scaled, self.projection).concatenate([scaled, x @ self.projection.T], axis=-1)

    def adapt(self: M, scales: InputScales) -> M:
        """ℓ = √d standard deviations of a column (their typical distance), s² = the variance of the outcomes."""
        d = len(scales.spread)
        typical = scales.spread * np.sqrt(d)
        if not self.ard:
            self._warn_of_units(scales)
        out = start(self, lengthscale=typical if self.ard else np.exp(np.log(typical).mean()), variance=scales.variance)
        if self.rank:
            out = start(out, projection=np.random.default_rng(0).normal(size=(self.rank, d)) * 0.1 / typical)
        return with_one_each(out, d) if self.ard else out

    def _warn_of_units(self, scales: InputScales) -> None:
        """One lengthscale for columns in unlike units: distances are those of the widest alone."""
        varies = scales.spread[scales.spread < scales.span]  # a constant column has 1 for both
        if len(varies) and varies.max() > UNLIKE * varies.min():
            name = type(self).__name__
            warnings.warn(
                f"{name} has one lengthscale for inputs whose spreads differ by a factor of "
                f"{varies.max() / varies.min():.0e}: it cannot see the narrow ones; take {name}(ard=True), with a "
                "lengthscale for each, or give the columns in like units",
                MisfitWarning,
                stacklevel=2,
            )


class Stationary(Metric, ConstantVariance):
    """k(x, z) = s² κ(r²)."""

    is_stationary = True
    mixing: ClassVar[tuple[Mixing, float | str | None] | None] = None
    """What scales the normal frequencies of κ, with its shape or the field that has it; None where it is not known."""

    @property
    def is_isotropic(self) -> bool:  # type: ignore[override]
        """With one lengthscale, or equal ones, and no projection."""
        length = self.number("lengthscale")
        same = np.size(length) == 1 or (not is_traced(length) and bool(np.ptp(length) == 0))
        return same and self.projection is None

    @abstractmethod
    def profile(self, squared: Array) -> Array:
        """κ(r²), with κ(0) = 1."""

    @abstractmethod
    def slope(self, squared: Array) -> Array:
        """κ'(r²)."""

    def profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        """κ and κ', which may have an exponential in common."""
        return self.profile(squared), self.slope(squared)

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² κ(r²) for all pairs."""
        here = held(z[:1].sum(0))  # far from zero, derivatives of x/ℓ would lose the digits that distances need
        squared = squared_distances(self.embed(x - here), self.embed(z - here))
        traced = is_traced(squared, self)
        return self.amplitude() * (_kappa(self, squared) if traced else self.profile(squared))

    def spectral_measure(self, d: int) -> Spectrum:
        """ω = Lω' with LLᵀ = M, since r² = ‖Lᵀτ‖², for a frequency ω' of κ."""
        if self.mixing is None:
            return super().spectral_measure(d)
        law, shape = self.mixing
        shape = getattr(self, shape) if isinstance(shape, str) else shape
        rows = self.embed(np.eye(d))
        root = rows if self.projection is None else cholesky(rows @ rows.T, "the metric of the kernel")
        return self.amplitude(), Elliptical(root, None if shape is None else as_float(shape), law)


class RBF(Stationary):
    """κ = exp(-r²/2): infinitely smooth functions.  Rasmussen & Williams (2006), eq. 4.9."""

    mixing = ("normal", None)

    def profile(self, squared: Array) -> Array:
        """exp(-r²/2)."""
        return namespace(squared).exp(-0.5 * squared)

    def slope(self, squared: Array) -> Array:
        """-½ exp(-r²/2)."""
        return -0.5 * self.profile(squared)

    def profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        """κ and -½κ."""
        k = self.profile(squared)
        return k, -0.5 * k


class Exponential(Stationary):
    """κ = exp(-r), the Laplace or Ornstein-Uhlenbeck kernel, Matérn with ν = 1/2: continuous, rough functions.

    Rasmussen & Williams (2006), eq. 4.18.
    """

    mixing = ("student", 0.5)

    def profile(self, squared: Array) -> Array:
        """exp(-r)."""
        return namespace(squared).exp(-root(squared))

    def slope(self, squared: Array) -> Array:
        """-½ exp(-r)/r, given as 0 at r = 0, where it is infinite, and where r is but rounding (of Λx) away from it."""
        xp = namespace(squared)
        apart = squared > TOGETHER
        r = root(xp.where(apart, squared, 1.0))
        return xp.where(apart, -0.5 * xp.exp(-r) / r, 0.0)


Matern12 = Exponential


class Matern32(Stationary):
    """κ = (1 + √3 r) exp(-√3 r): once differentiable functions.  Rasmussen & Williams (2006), eq. 4.17."""

    mixing = ("student", 1.5)

    def profile(self, squared: Array) -> Array:
        """(1 + √3 r) exp(-√3 r)."""
        r = root(3.0 * squared)
        return (1.0 + r) * namespace(r).exp(-r)

    def slope(self, squared: Array) -> Array:
        """-3/2 exp(-√3 r)."""
        return -1.5 * namespace(squared).exp(-root(3.0 * squared))


class Matern52(Stationary):
    """κ = (1 + √5 r + 5r²/3) exp(-√5 r): twice differentiable functions.  Rasmussen & Williams (2006), eq. 4.17."""

    mixing = ("student", 2.5)

    def profile(self, squared: Array) -> Array:
        """(1 + √5 r + 5r²/3) exp(-√5 r)."""
        r = root(5.0 * squared)
        return (1.0 + r + r * r / 3.0) * namespace(r).exp(-r)

    def slope(self, squared: Array) -> Array:
        """-5/6 (1 + √5 r) exp(-√5 r)."""
        return self.profile_and_slope(squared)[1]

    def profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        """Both, from one exponential."""
        r = root(5.0 * squared)
        slope = (-5.0 / 6.0) * (1.0 + r) * (decay := namespace(r).exp(-r))
        return (5.0 / 3.0) * squared * decay - 1.2 * slope, slope


class RationalQuadratic(Stationary):
    """κ = (1 + r²/2α)^-α: RBF kernels of many lengthscales, mixed.  Rasmussen & Williams (2006), eq. 4.19."""

    alpha: Float[Array, ""] = positive(1.0, low=1e-3, high=1e5)
    symbols = (*Metric.symbols, ("α", "alpha"))
    mixing = ("gamma", "alpha")

    def profile(self, squared: Array) -> Array:
        """(1 + r²/2α)^-α."""
        xp = namespace(squared, self.alpha)
        return xp.exp(-self.alpha * xp.log1p(0.5 * squared / self.alpha))

    def slope(self, squared: Array) -> Array:
        """-½ (1 + r²/2α)^-(α + 1)."""
        return -0.5 * self.profile(squared) / (1.0 + 0.5 * squared / self.alpha)


@jax.custom_jvp
def _kappa(kernel: Stationary, squared: Array) -> Array:
    """κ(r²), whose derivative by r² is `slope`: at r = 0, where √ has none, it is right and finite."""
    return kernel.profile(squared)


@_kappa.defjvp
def _kappa_jvp(primals: tuple[Stationary, Array], tangents: tuple[Stationary, Array]) -> tuple[Array, Array]:
    (kernel, squared), (d_kernel, d_squared) = primals, tangents
    _, by_numbers = jax.jvp(lambda k: k.profile(squared), (kernel,), (d_kernel,))
    return _kappa(kernel, squared), kernel.slope(squared) * d_squared + by_numbers
