"""Kernels from kernels: sums, products, powers, exponentials, polynomials.

Every operation here keeps a kernel positive semi-definite. Bishop (2006), eq. 6.13-6.22.

A product has one amplitude: those of its factors are taken out and multiplied, so that no two numbers say the
same thing to `learn`.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core.errors import DataError
from credo.core.params import positive
from credo.kernels.base import Kernel, Scales, Wrapped, show, show_scaled, start
from credo.kernels.elementary import Constant


class Sum(Kernel):
    """k₁(x, z) + k₂(x, z) + …: independent functions added."""

    parts: tuple[Kernel, ...]

    @classmethod
    def of_terms(cls, *kernels: Any) -> "Sum":
        """The sum, flat; a number is a constant kernel."""
        terms: list[Kernel] = []
        for k in kernels:
            if isinstance(k, int | float | np.ndarray | jax.Array):
                k = Constant(jnp.asarray(k))
            if not isinstance(k, Kernel):
                raise DataError(f"a kernel can be added to a kernel or a number, found {type(k).__name__}")
            terms += k.terms
        return cls(tuple(terms))

    @property
    def terms(self) -> tuple[Kernel, ...]:
        """The kernels that are added."""
        return self.parts

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """Σ kᵢ(x, z)."""
        return sum((k.of(x, z) for k in self.parts), start=jnp.zeros(()))

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Σ Kᵢ."""
        return sum((k.gram(x, z) for k in self.parts[1:]), start=self.parts[0].gram(x, z))

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Σ kᵢ(x, x)."""
        return sum((k.diagonal(x) for k in self.parts[1:]), start=self.parts[0].diagonal(x))

    def encode(self, x: Any, name: str = "X", columns: int | None = None) -> Any:
        """As the first term reads them."""
        return self.parts[0].encode(x, name, columns)

    def adapt(self, scales: Scales) -> "Sum":
        """Each term explains an equal share of the variance."""
        share = scales._replace(variance=scales.variance / len(self.parts))
        return Sum(tuple(k.adapt(share) for k in self.parts))

    def scaled(self, factor: Float[Array, ""]) -> Kernel:
        """Every term multiplied."""
        return Sum(tuple(k.scaled(factor) for k in self.parts))

    @property
    def is_stationary(self) -> bool:
        """Where every term is."""
        return all(k.is_stationary for k in self.parts)

    def formula(self) -> str:
        """k₁ + k₂."""
        return " + ".join(k.formula() for k in self.parts)


class Product(Kernel):
    """s² k₁(x, z) k₂(x, z) …: what both factors allow. Make it with `*`, which sorts out the amplitudes."""

    factors: tuple[Kernel, ...]
    variance: Float[Array, ""] | None = positive(1.0)

    def amplitude(self) -> Float[Array, ""]:
        """s², one where a factor (a sum) has the amplitudes."""
        return jnp.ones(()) if self.variance is None else self.variance

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """s² Π kᵢ(x, z)."""
        out = self.amplitude()
        for k in self.factors:
            out = out * k.of(x, z)
        return out

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² K₁ ∘ K₂."""
        out = self.factors[0].gram(x, z) * self.amplitude()
        for k in self.factors[1:]:
            out = out * k.gram(x, z)
        return out

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """s² Π kᵢ(x, x)."""
        out = self.factors[0].diagonal(x) * self.amplitude()
        for k in self.factors[1:]:
            out = out * k.diagonal(x)
        return out

    def encode(self, x: Any, name: str = "X", columns: int | None = None) -> Any:
        """As the first factor reads them."""
        return self.factors[0].encode(x, name, columns)

    def adapt(self, scales: Scales) -> "Product":
        """The amplitude explains the variance, where it is the product's own."""
        one = scales._replace(variance=1.0)
        has_own = self.variance is not None
        parts = tuple(k.adapt(scales if not has_own and i == 0 else one) for i, k in enumerate(self.factors))
        return start(dataclasses.replace(self, factors=parts), variance=scales.variance)

    def scaled(self, factor: Float[Array, ""]) -> Kernel:
        """factor · k."""
        if self.variance is None:
            return Product((self.factors[0].scaled(factor), *self.factors[1:]), None)
        return dataclasses.replace(self, variance=self.variance * factor)

    def split_variance(self) -> tuple[Any, Kernel]:
        """(s², Π kᵢ)."""
        return self.variance, dataclasses.replace(self, variance=None)

    @property
    def is_stationary(self) -> bool:
        """Where every factor is."""
        return all(k.is_stationary for k in self.factors)

    def formula(self) -> str:
        """s² · k₁ × k₂."""
        inside = " × ".join(f"({k.formula()})" if len(k.terms) > 1 else k.formula() for k in self.factors)
        return show_scaled(self.variance, inside)


def product(*kernels: Kernel) -> Product:
    """k₁k₂…, flat, with one amplitude: its own, or those of the terms where a factor is a sum."""
    factors: list[Kernel] = []
    variance: Any = None
    for kernel in kernels:
        own, bare = kernel.split_variance()
        factors += bare.factors if isinstance(bare, Product) else (bare,)
        if own is not None:
            variance = own if variance is None else variance * own
    sums = [i for i, k in enumerate(factors) if len(k.terms) > 1]
    if not sums:
        return Product(tuple(factors), variance)
    factors.insert(0, factors.pop(sums[0]))  # the sum leads: its terms have the amplitudes
    if variance is not None:
        factors[0] = factors[0].scaled(variance)
    return Product(tuple(factors), None)


class Scaled(Wrapped):
    """s² k(x, z), for a kernel without an amplitude of its own. Make it with `2.0 * k`."""

    kernel: Kernel
    variance: Float[Array, ""] = positive()

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """s² k(x, z)."""
        return self.variance * self.kernel.of(x, z)

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² K."""
        return self.variance * self.kernel.gram(x, z)

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """s² k(x, x)."""
        return self.variance * self.kernel.diagonal(x)

    def adapt(self, scales: Scales) -> "Scaled":
        """The kernel inside at variance one; the factor is the user's."""
        return Scaled(self.kernel.adapt(scales._replace(variance=1.0)), self.variance)

    def scaled(self, factor: Float[Array, ""]) -> Kernel:
        """factor · s² k."""
        return Scaled(self.kernel, self.variance * factor)

    def split_variance(self) -> tuple[Any, Kernel]:
        """(s², k)."""
        return self.variance, self.kernel

    def formula(self) -> str:
        """s² · k."""
        return show_scaled(self.variance, self._inside())


class Power(Wrapped):
    """k(x, z)^p for a whole number p."""

    kernel: Kernel
    exponent: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not isinstance(self.exponent, int) or self.exponent < 1:
            raise DataError(f"a kernel can be raised to a whole power of at least 1, found {self.exponent!r}")

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """k^p."""
        return self.kernel.of(x, z) ** self.exponent

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """K^p, entry by entry."""
        return self.kernel.gram(x, z) ** self.exponent

    def adapt(self, scales: Scales) -> "Power":
        """The p-th power explains the variance."""
        return Power(self.kernel.adapt(scales._replace(variance=scales.variance ** (1 / self.exponent))), self.exponent)

    def formula(self) -> str:
        """(k)^p."""
        return f"{self._inside()}^{self.exponent}"


class Exponentiated(Wrapped):
    """exp(k(x, z)). Make it with `k.exp()`."""

    kernel: Kernel

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """exp k."""
        return jnp.exp(self.kernel.of(x, z))

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """exp K, entry by entry."""
        return jnp.exp(self.kernel.gram(x, z))

    def adapt(self, scales: Scales) -> "Exponentiated":
        """The exponential explains the variance."""
        return Exponentiated(self.kernel.adapt(scales._replace(variance=float(np.log1p(scales.variance)))))

    def formula(self) -> str:
        """exp(k)."""
        return f"exp({self.kernel.formula()})"


class PolynomialOf(Wrapped):
    """Σᵢ cᵢ k(x, z)ⁱ with coefficients cᵢ ≥ 0."""

    kernel: Kernel
    coefficients: Float[Array, " p"] = eqx.field(converter=lambda c: jnp.asarray(c, dtype=float))

    def __check_init__(self) -> None:
        c = self.coefficients
        if c.ndim != 1 or not len(c) or not (isinstance(c, jax.core.Tracer) or bool(jnp.all(c >= 0))):
            raise DataError(f"the coefficients of a polynomial of a kernel must be ≥ 0, found {show(c)}")

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """Σ cᵢ kⁱ."""
        return self._value(self.kernel.of(x, z))

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Σ cᵢ Kⁱ, entry by entry."""
        return self._value(self.kernel.gram(x, z))

    def _value(self, k: Array) -> Array:
        out = jnp.zeros_like(k)
        for i in reversed(range(len(self.coefficients))):  # Horner
            out = out * k + self.coefficients[i]
        return out

    def formula(self) -> str:
        """c₀ + c₁ k + c₂ k^2."""
        inside = self._inside()
        powers = ["", f" · {inside}", *(f" · {inside}^{i}" for i in range(2, len(self.coefficients)))]
        return " + ".join(f"{show(c)}{p}" for c, p in zip(self.coefficients, powers, strict=False))
