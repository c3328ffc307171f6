"""Kernels from kernels: sums, products, powers, exponentials, polynomials.

Every operation here keeps a kernel positive semi-definite. Bishop (2006), eq. 6.13-6.22.

A product has one amplitude: those of its factors are taken out and multiplied, so that no two numbers say the
same thing to `learn`.
"""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array, as_float, is_traced, namespace
from credo.core.errors import DataError
from credo.core.params import ABSENT, is_absent, positive
from credo.core.pytrees import changed
from credo.kernels.base import Amplitude, Composite, InputScales, Kernel, Wrapped, show, show_scaled, start
from credo.kernels.elementary import Constant
from credo.kernels.measures import Spectrum, convolution, mixture, series

SERIES_TAIL = 1e-17
LONGEST_SERIES = 60


class Elementwise(Composite):
    """A function of the values of other kernels, entry by entry; a member says which with `value`."""

    @abstractmethod
    def value(self, *k: Array) -> Array:
        """The function of their values."""

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Of the matrices, entry by entry."""
        return self.value(*(k.gram(x, z) for k in self.children))

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Of the variances."""
        return self.value(*(k.diagonal(x) for k in self.children))


class Sum(Elementwise):
    """k₁(x, z) + k₂(x, z) + …: independent functions added."""

    parts: tuple[Kernel, ...]

    @classmethod
    def of_terms(cls, *kernels: object) -> "Sum":
        """The sum, flat; a number is a constant kernel."""
        terms: list[Kernel] = []
        for k in kernels:
            if isinstance(k, int | float | np.ndarray | jax.Array):
                k = Constant(as_float(k))
            if not isinstance(k, Kernel):
                raise DataError(f"a kernel can be added to a kernel or a number, found {type(k).__name__}")
            terms += k.terms
        return cls(tuple(terms))

    @property
    def terms(self) -> tuple[Kernel, ...]:
        """The kernels that are added."""
        return self.parts

    def value(self, *k: Array) -> Array:
        """Σ kᵢ."""
        return sum(k[1:], start=k[0])

    def spectral_measure(self, d: int) -> Spectrum:
        """A mixture."""
        return mixture([k.spectral_measure(d) for k in self.parts])

    def adapt(self, scales: InputScales) -> "Sum":
        """Each term explains an equal share of the variance."""
        share = scales._replace(variance=scales.variance / len(self.parts))
        return Sum(tuple(k.adapt(share) for k in self.parts))

    def scaled(self, factor: ArrayLike) -> Kernel:
        """Every term multiplied."""
        return Sum(tuple(k.scaled(factor) for k in self.parts))

    def formula(self) -> str:
        """k₁ + k₂."""
        return " + ".join(k.formula() for k in self.parts)


class Product(Elementwise):
    """s² k₁(x, z) k₂(x, z) …: what both factors allow. Make it with `*`, which sorts out the amplitudes."""

    factors: tuple[Kernel, ...]
    variance: Amplitude = positive(None, unset=1.0)

    def amplitude(self) -> Float[Array, ""]:
        """s², one where a factor (a sum) has the amplitudes."""
        return np.ones(()) if is_absent(self.variance) else self.number("variance")

    def split_variance(self) -> tuple[Amplitude, Kernel]:
        """(s², Π kᵢ)."""
        return self.variance, changed(self, variance=ABSENT)

    def value(self, *k: Array) -> Array:
        """s² Π kᵢ."""
        return math.prod(k[1:], start=k[0] * self.amplitude())

    def spectral_measure(self, d: int) -> Spectrum:
        """A convolution."""
        mass, law = convolution([k.spectral_measure(d) for k in self.factors])
        return self.amplitude() * mass, law

    def adapt(self, scales: InputScales) -> "Product":
        """The amplitude explains the variance, where it is the product's own."""
        one = scales._replace(variance=1.0)
        has_own = not is_absent(self.variance)
        parts = tuple(k.adapt(scales if not has_own and i == 0 else one) for i, k in enumerate(self.factors))
        return start(changed(self, factors=parts), variance=scales.variance)

    def scaled(self, factor: ArrayLike) -> Kernel:
        """factor · k."""
        if is_absent(self.variance):
            return changed(self, factors=(self.factors[0].scaled(factor), *self.factors[1:]))
        return changed(self, variance=self.amplitude() * factor)

    def formula(self) -> str:
        """s² · k₁ × k₂."""
        inside = " × ".join(f"({k.formula()})" if len(k.terms) > 1 else k.formula() for k in self.factors)
        return show_scaled(self.variance, inside)


def product(*kernels: Kernel) -> Product:
    """k₁k₂…, flat, with one amplitude: its own, or those of the terms where a factor is a sum."""
    factors: list[Kernel] = []
    amplitudes = []
    for kernel in kernels:
        amplitude, bare = kernel.split_variance()
        factors += bare.factors if isinstance(bare, Product) else (bare,)
        amplitudes += [] if isinstance(amplitude, tuple) else [amplitude]
    known = [amplitude for amplitude in amplitudes if amplitude is not None]
    own = math.prod(known[1:], start=known[0]) if known else None
    sums = [i for i, k in enumerate(factors) if len(k.terms) > 1]
    if not sums:
        return Product(tuple(factors), own if amplitudes else ABSENT)
    factors.insert(0, factors.pop(sums[0]))  # the sum leads: its terms have the amplitudes
    if own is not None:
        factors[0] = factors[0].scaled(own)
    return Product(tuple(factors), ABSENT)


class Scaled(Wrapped, Elementwise):
    """s² k(x, z), for a kernel without an amplitude of its own. Make it with `2.0 * k`."""

    kernel: Kernel
    variance: Float[Array, ""] = positive()

    def value(self, *k: Array) -> Array:
        """s² k."""
        return self.variance * k[0]

    def spectral_measure(self, d: int) -> Spectrum:
        """s² times the mass."""
        mass, law = self.kernel.spectral_measure(d)
        return self.variance * mass, law

    def adapt(self, scales: InputScales) -> "Scaled":
        """The kernel inside at variance one; the factor is the user's."""
        return Scaled(self.kernel.adapt(scales._replace(variance=1.0)), self.variance)

    def scaled(self, factor: ArrayLike) -> Kernel:
        """factor · s² k."""
        return Scaled(self.kernel, self.variance * factor)

    def split_variance(self) -> tuple[Amplitude, Kernel]:
        """(s², k)."""
        return self.variance, self.kernel

    def formula(self) -> str:
        """s² · k."""
        return show_scaled(self.variance, self._inside())


class Power(Wrapped, Elementwise):
    """k(x, z)^p for a whole number p."""

    kernel: Kernel
    exponent: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not isinstance(self.exponent, int) or self.exponent < 1:
            raise DataError(f"a kernel can be raised to a whole power of at least 1, found {self.exponent!r}")

    def value(self, *k: Array) -> Array:
        """k^p."""
        return k[0] ** self.exponent

    def spectral_measure(self, d: int) -> Spectrum:
        """A convolution with itself."""
        return convolution([self.kernel.spectral_measure(d)] * self.exponent)

    def adapt(self, scales: InputScales) -> "Power":
        """The p-th power explains the variance."""
        return Power(self.kernel.adapt(scales._replace(variance=scales.variance ** (1 / self.exponent))), self.exponent)

    def formula(self) -> str:
        """(k)^p."""
        return f"{self._inside()}^{self.exponent}"


class Exponentiated(Wrapped, Elementwise):
    """exp(k(x, z)). Make it with `k.exp()`."""

    kernel: Kernel

    def value(self, *k: Array) -> Array:
        """exp k."""
        return namespace(k[0]).exp(k[0])

    def spectral_measure(self, d: int) -> Spectrum:
        """Of exp(k) = Σ kⁱ/i!, cut where the rest is lost to rounding."""
        mass, law = self.kernel.spectral_measure(d)
        if is_traced(mass):
            raise DataError("the spectral measure of exp(k) needs a kernel with known numbers; compute it outside jit")
        s2, n = float(mass), 1
        while n < LONGEST_SERIES and (n < s2 or s2**n * math.exp(-s2) / math.factorial(n) > SERIES_TAIL):
            n += 1
        if n == LONGEST_SERIES:
            raise DataError(
                f"exp(k) with k(x, x) = {s2:.3g} has too long a series; use a kernel with a smaller variance"
            )
        return series((mass, law), [as_float(1 / math.factorial(i)) for i in range(n)], d)

    def adapt(self, scales: InputScales) -> "Exponentiated":
        """The exponential explains the variance."""
        return Exponentiated(self.kernel.adapt(scales._replace(variance=float(np.log1p(scales.variance)))))

    def formula(self) -> str:
        """exp(k)."""
        return f"exp({self.kernel.formula()})"


class PolynomialOf(Wrapped, Elementwise):
    """Σᵢ cᵢ k(x, z)ⁱ with coefficients cᵢ ≥ 0."""

    kernel: Kernel
    coefficients: Float[Array, " p"] = eqx.field(converter=as_float)

    def __check_init__(self) -> None:
        c = self.coefficients
        if c.ndim != 1 or not len(c) or not (is_traced(c) or bool(np.all(c >= 0))):
            raise DataError(f"the coefficients of a polynomial of a kernel must be ≥ 0, found {show(c)}")

    def value(self, *k: Array) -> Array:
        """Σ cᵢ kⁱ."""
        out = 0.0 * k[0]
        for i in reversed(range(len(self.coefficients))):  # Horner
            out = out * k[0] + self.coefficients[i]
        return out

    def spectral_measure(self, d: int) -> Spectrum:
        """The series."""
        return series(self.kernel.spectral_measure(d), list(self.coefficients), d)

    def formula(self) -> str:
        """c₀ + c₁ k + c₂ k^2."""
        inside = self._inside()
        powers = ["", f" · {inside}", *(f" · {inside}^{i}" for i in range(2, len(self.coefficients)))]
        return " + ".join(f"{show(c)}{p}" for c, p in zip(self.coefficients, powers, strict=False))
