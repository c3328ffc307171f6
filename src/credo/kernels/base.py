"""What a kernel is: a covariance k(x, z) of the values of a function at two points.

A kernel writes `of`, its two-point form, or `gram`, the matrix of many; each gives the other. `gram` serves arrays of
either library; a kernel that is written for JAX alone says so (`compiled`). Models ask for `between` and `variance_at`:
NumPy's arrays wherever the numbers are known. A frozen pytree with its numbers in natural units.

    k1 + k2, k1 * k2, 2.0 * k, k**2, k.exp()        algebra, in `algebra.py`
    k.on(0, 2), k.warp(g)                           of some columns, of g(x)

Rasmussen & Williams (2006), chapter 4.
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core import params
from credo.core.arrays import Array, as_float, host, is_traced, namespace
from credo.core.checks import check_table
from credo.core.errors import DataError
from credo.core.padding import bucket, pad_rows
from credo.core.params import ABSENT, is_absent
from credo.core.pytrees import changed, plain_methods
from credo.kernels.measures import Spectrum

K = TypeVar("K", bound="Kernel")
W = TypeVar("W", bound="Wrapped")

Amplitude = Float[Array, ""] | tuple[()] | None
"""s²; None until it is given or adapted, ABSENT where it belongs to a product around the kernel."""

LARGE = 2**20
"""The entries of a matrix from which on it is compiled, and so many at a time: NumPy does not fuse."""


class InputScales(NamedTuple):
    """What the data say about sensible starting values."""

    center: np.ndarray
    """The mean of each input column."""
    spread: np.ndarray
    """The standard deviation of each input column; 1 for a constant one."""
    span: np.ndarray
    """The range of each input column; 1 for a constant one."""
    variance: float
    """The variance of the outcomes that the kernel is to explain."""

    @classmethod
    def of(cls, x: np.ndarray, variance: float) -> "InputScales":
        """The scales of a table of inputs and of outcomes with this variance."""
        spread, span = x.std(0), np.ptp(x, axis=0)
        varies = (span > 0) & (spread > 1e-12 * np.abs(x).max(0, initial=0.0))
        return cls(x.mean(0), np.where(varies, spread, 1.0), np.where(varies, span, 1.0), variance)

    def on(self, columns: tuple[int, ...]) -> "InputScales":
        """The scales of some of the columns."""
        where = list(columns)
        return InputScales(self.center[where], self.spread[where], self.span[where], self.variance)


class Kernel(eqx.Module):
    """A symmetric positive semi-definite function k(x, z) of two points."""

    __getattribute__ = plain_methods

    is_stationary: ClassVar[bool] = False
    """Whether k(x, z) depends on x - z only."""
    is_isotropic: ClassVar[bool] = False
    """Whether k(x, z) depends on the distance ‖x - z‖ only, however many columns there are."""
    compiled: ClassVar[bool] = False
    """Whether it is written for JAX alone, and not for arrays of either library."""

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """k(x, z) of two points."""
        return self.gram(x[None], z[None])[0, 0]

    @abstractmethod
    def formula(self) -> str:
        """The kernel as people write it, e.g. `2.1² · RBF(ℓ=0.8)`."""

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """The matrix of k(xᵢ, zⱼ)."""
        return jax.vmap(lambda a: jax.vmap(lambda b: self.of(a, b))(z))(x)

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """The variances k(xᵢ, xᵢ)."""
        return jax.vmap(lambda a: self.of(a, a))(x)

    def between(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """`gram`, NumPy's array where all numbers are known; compiled for a bucket where it must be or is worth it."""
        if is_traced(self, x, z):
            return self.gram(x, z)
        kernel, x, z = host((self, x, z))
        n, m = len(x), len(z)
        if not (kernel.compiled or n * m > LARGE):
            return host(kernel.gram(x, z))
        out, columns = np.empty((n, m)), pad_rows(z, bucket(m))
        step = max(LARGE // len(columns), 16)
        for i in range(0, n, step):
            rows = x[i : i + step]
            out[i : i + step] = np.asarray(_gram(kernel, pad_rows(rows, bucket(len(rows))), columns))[: len(rows), :m]
        return out

    def variance_at(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """`diagonal`, as `between` is `gram`."""
        if is_traced(self, x):
            return self.diagonal(x)
        kernel, x = host((self, x))
        if not kernel.compiled:
            return host(kernel.diagonal(x))
        return np.asarray(_diagonal(kernel, pad_rows(x, bucket(len(x)))))[: len(x)]

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """What users have (tables; for kernels on them strings, sets, graphs) as checked rows of float64."""
        return check_table(x, name, columns)

    def adapt(self: K, scales: InputScales) -> K:
        """The kernel with every number that nobody has given set to a start that suits the data."""
        return self

    def scaled(self, factor: ArrayLike) -> "Kernel":
        """factor · k."""
        from credo.kernels.algebra import Scaled

        return Scaled(self, as_float(factor))

    def number(self, name: str) -> Array:
        """The number of a field: itself, or what it means while nobody has given it."""
        return params.meaning(self, name)

    def split_variance(self) -> "tuple[Amplitude, Kernel]":
        """(s², k/s²): the amplitude that `scaled` would set, taken out, or (ABSENT, k) where there is none to take."""
        return ABSENT, self

    @property
    def terms(self) -> "tuple[Kernel, ...]":
        """The kernels whose sum this is; itself unless it is a sum."""
        return (self,)

    @property
    def inside(self) -> "dict[str, Kernel]":
        """The kernels that it is made of, by path."""
        found: dict[str, Kernel] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            parts = enumerate(value) if isinstance(value, tuple) else [("", value)]
            found |= {f"{field.name}.{i}".rstrip("."): k for i, k in parts if isinstance(k, Kernel)}
        return found

    def spectral_measure(self, d: int) -> Spectrum:
        """(s², p): k(x, z) = s² E[cos(ωᵀ(x - z))] with ω ~ p, for a stationary kernel of d columns."""
        if self.is_stationary:
            raise DataError(
                f"the spectral measure of {self.formula()} is not known to credo; "
                "use a stationary kernel that is built from the ones in credo.kernels by sums and products"
            )
        raise DataError(
            f"{self.formula()} is not stationary, so Bochner's theorem gives it no spectral measure; "
            "use inducing points, or a stationary kernel such as RBF, Matern52 or SpectralMixture"
        )

    def __call__(self, x: object, z: object = None) -> Float[Array, "n m"]:
        """The matrix of k(xᵢ, zⱼ) for tables x and z (z = x if it is not given)."""
        rows = self.encode(x, "x")
        return self.between(rows, rows if z is None else self.encode(z, "z", rows.shape[1]))

    def on(self, *columns: int) -> "Kernel":
        """This kernel of the given input columns only."""
        from credo.kernels.inputs import OnColumns

        return OnColumns(self, columns)

    def warp(self, function: Callable[[Array], Array]) -> "Kernel":
        """k(g(x), g(z)) for a function g of a row."""
        from credo.kernels.inputs import OfFunction

        return OfFunction(self, function)

    def after(self, network: Any) -> "Kernel":
        """k(g(x; w), g(z; w)) for a network g, an equinox module, with weights w to be learned: a deep kernel."""
        from credo.kernels.inputs import OfNetwork

        return OfNetwork.around(self, network)

    def exp(self) -> "Kernel":
        """exp(k(x, z))."""
        from credo.kernels.algebra import Exponentiated

        return Exponentiated(self)

    def __add__(self, other: object) -> "Kernel":
        from credo.kernels.algebra import Sum

        return Sum.of_terms(self, other)

    def __radd__(self, other: object) -> "Kernel":
        from credo.kernels.algebra import Sum

        return self if isinstance(other, int) and other == 0 else Sum.of_terms(other, self)

    def __mul__(self, other: object) -> "Kernel":
        from credo.kernels.algebra import product

        return product(self, other) if isinstance(other, Kernel) else self.scaled(_amplitude(other))

    def __rmul__(self, other: object) -> "Kernel":
        return self.scaled(_amplitude(other))

    def __pow__(self, exponent: int) -> "Kernel":
        from credo.kernels.algebra import Power

        return Power(self, exponent)

    def __repr__(self) -> str:
        return self.formula()


class Amplified(Kernel):
    """What kernels with one amplitude s² share; it is ABSENT where it belongs to a product around the kernel."""

    variance: eqx.AbstractVar[Amplitude]
    symbols: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The numbers that the formula shows, each as (symbol, field)."""

    def amplitude(self) -> Float[Array, ""]:
        """s², one where the amplitude belongs to a product around this kernel."""
        return np.ones(()) if is_absent(self.variance) else self.number("variance")

    def scaled(self, factor: ArrayLike) -> Kernel:
        """factor · k."""
        return changed(self, variance=self.amplitude() * factor)

    def split_variance(self) -> tuple[Amplitude, Kernel]:
        """(s², k/s²)."""
        return self.variance, changed(self, variance=ABSENT)

    def formula(self) -> str:
        """s² · Name(…)."""
        whole = params.settled(self)
        numbers = {symbol: getattr(whole, name) for symbol, name in self.symbols}
        shown = {symbol: value for symbol, value in numbers.items() if not is_absent(value)}
        return show_scaled(self.variance, show_call(type(self).__name__, **shown))


class ConstantVariance(Amplified):
    """What kernels of one variance everywhere share: k(x, x) = s²."""

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """s²."""
        amplitude = self.amplitude()
        return namespace(amplitude, x).broadcast_to(amplitude, x.shape[:1])


class Composite(Kernel):
    """What kernels made of others share."""

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """As the first of them reads them."""
        return self.children[0].encode(x, name, columns)

    @property
    def children(self) -> tuple[Kernel, ...]:
        """The kernels that it is made of."""
        return tuple(self.inside.values())

    @property
    def is_stationary(self) -> bool:  # type: ignore[override]
        """Where all of them are."""
        return all(k.is_stationary for k in self.children)

    @property
    def is_isotropic(self) -> bool:  # type: ignore[override]
        """Where all of them are, and it looks at nothing else."""
        return self.is_stationary and all(k.is_isotropic for k in self.children)

    @property
    def compiled(self) -> bool:  # type: ignore[override]
        """Where any of them is."""
        return any(k.compiled for k in self.children)


class Wrapped(Composite):
    """What kernels made of one other kernel share: starts are chosen by the one inside."""

    kernel: eqx.AbstractVar[Kernel]

    def adapt(self: W, scales: InputScales) -> W:
        """As the kernel inside."""
        return changed(self, kernel=self.kernel.adapt(scales))

    def _inside(self) -> str:
        text = self.kernel.formula()
        return f"({text})" if any(c in text for c in "+×·") else text


@eqx.filter_jit
def _gram(kernel: Kernel, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
    return kernel.gram(x, z)


@eqx.filter_jit
def _diagonal(kernel: Kernel, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    return kernel.diagonal(x)


def _amplitude(value: object) -> Float[Array, ""]:
    try:
        factor = as_float(value)
    except (TypeError, ValueError):
        raise DataError(f"a kernel can be multiplied by a number or a kernel, found {type(value).__name__}") from None
    if factor.ndim or not (is_traced(factor) or float(factor) > 0):
        raise DataError(f"a kernel can be multiplied by one positive number, found {value!r}")
    return factor


def start(kernel: K, **values: ArrayLike) -> K:
    """The kernel with the given numbers where it has none."""
    chosen = {name: as_float(v) for name, v in values.items() if getattr(kernel, name) is None}
    return changed(kernel, **chosen) if chosen else kernel


def with_one_each(kernel: K, d: int) -> K:
    """The kernel with a lengthscale for each of d columns."""
    length = kernel.number("lengthscale")
    return changed(kernel, lengthscale=namespace(length).full(d, length)) if np.ndim(length) == 0 else kernel


def show(value: ArrayLike | None, digits: int = 3) -> str:
    """A number of a formula; a short vector in brackets; a long, large or traced one by its shape."""
    if value is None or is_traced(value):
        return "?"
    array = np.asarray(value, dtype=float)
    if array.ndim == 0:
        return f"{float(array):.{digits}g}"
    if array.ndim > 1 or array.size > 8:
        return f"array{list(array.shape)}"
    return "[" + ", ".join(f"{v:.{digits}g}" for v in array) + "]"


def show_call(name: str, **numbers: ArrayLike | None) -> str:
    """`Name(ℓ=0.8, p=1)`; numbers that are None are left out."""
    inside = ", ".join(f"{key}={show(value)}" for key, value in numbers.items() if value is not None)
    return f"{name}({inside})" if inside else name


def show_scaled(variance: Amplitude, text: str) -> str:
    """`2.1² · text`: the standard deviation, squared, in front; nothing for a variance of one."""
    if variance is None or isinstance(variance, tuple) or (not is_traced(variance) and float(variance) == 1.0):
        return text
    return f"{'s' if is_traced(variance) else show(np.sqrt(variance))}² · {text}"
