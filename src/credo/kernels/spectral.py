"""Bochner's theorem: a stationary kernel is the Fourier transform of a measure of frequencies.

    k(x, z) = s² E[cos(ωᵀ(x - z))] = ∫ S(ω) exp(iωᵀ(x - z)) dω,    S = s² p,    ω angular

`spectral_measure` turns a kernel into its mass s² and the law p, which can be sampled and, where it has one, gives
its density. The rules of the algebra: a sum of kernels is a mixture of laws, a product a sum of independent
frequencies, and a kernel of x/ℓ has frequencies ω/ℓ.  Rasmussen & Williams (2006), §4.2.1.
"""

import math
from functools import singledispatch
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core.arrays import is_traced
from credo.core.checks import check_table
from credo.core.errors import DataError
from credo.core.linalg import cholesky
from credo.kernels.algebra import Exponentiated, PolynomialOf, Power, Product, Scaled, Sum
from credo.kernels.base import Kernel
from credo.kernels.elementary import Constant, White
from credo.kernels.inputs import OnColumns
from credo.kernels.matern import Matern
from credo.kernels.measures import (
    Convolution,
    Elliptical,
    Harmonics,
    Measure,
    Mixture,
    Pair,
    Placed,
    Repeated,
    SignedNormal,
    Zero,
)
from credo.kernels.periodic import Cosine, LocallyPeriodic, Periodic, SpectralMixture, per_column
from credo.kernels.stationary import RBF, Exponential, Matern32, Matern52, Metric, RationalQuadratic

Spectrum = tuple[Float[Array, ""], Measure]
"""The mass s² and the law of the frequencies."""

SERIES_TAIL = 1e-17
LONGEST_SERIES = 60


def spectral_density(kernel: Kernel, frequencies: Any) -> Float[Array, " m"]:
    """S(ω) at the rows of a table of angular frequencies: ∫ S(ω) exp(iωᵀτ) dω = k(τ), of total mass s².

    RBF: s² N(ω; 0, M), with M the metric; Matérn: a multivariate t with 2ν degrees of freedom;
    rational quadratic: a normal with a gamma variance.  Rasmussen & Williams (2006), eq. 4.11 and 4.15.
    """
    rows = jnp.asarray(check_table(frequencies, "frequencies"))
    mass, law = spectral_measure(kernel, rows.shape[1])
    return mass * law.density(rows)


def sample_frequencies(key: PRNGKeyArray, kernel: Kernel, m: int, d: int) -> Float[Array, "m d"]:
    """m independent frequencies from S/s², the normalised spectral measure of a kernel of d columns."""
    return spectral_measure(kernel, d)[1].sample(key, m)


def spectral_measure(kernel: Kernel, d: int) -> Spectrum:
    """(s², p): k(x, z) = s² E[cos(ωᵀ(x - z))] with ω ~ p, for a stationary kernel of d columns."""
    if isinstance(d, bool) or d < 1:
        raise DataError(f"a spectral measure needs d, the number of input columns, to be at least 1, found {d!r}")
    return _measure(kernel, d)


@singledispatch
def _measure(kernel: Kernel, d: int) -> Spectrum:
    if kernel.is_stationary:
        raise DataError(
            f"the spectral measure of {kernel.formula()} is not known to credo; "
            "use a stationary kernel that is built from the ones in credo.kernels by sums and products"
        )
    raise DataError(
        f"{kernel.formula()} is not stationary, so Bochner's theorem gives it no spectral measure; "
        "use inducing points, or a stationary kernel such as RBF, Matern52 or SpectralMixture"
    )


@_measure.register
def _(kernel: White, d: int) -> Spectrum:
    raise DataError(
        f"{kernel.formula()} has no spectral measure: all frequencies alike, infinitely many; "
        "leave it out of the kernel and add its variance to the model's noise"
    )


@_measure.register
def _(kernel: Constant, d: int) -> Spectrum:
    return kernel.number("variance"), Zero(d)


@_measure.register
def _(kernel: RBF, d: int) -> Spectrum:
    return kernel.amplitude(), Elliptical(_root(kernel, d), None, "normal")


@_measure.register
def _(kernel: RationalQuadratic, d: int) -> Spectrum:
    return kernel.amplitude(), Elliptical(_root(kernel, d), kernel.alpha, "gamma")


@_measure.register
def _(kernel: Exponential, d: int) -> Spectrum:
    return kernel.amplitude(), Elliptical(_root(kernel, d), jnp.asarray(0.5), "student")


@_measure.register
def _(kernel: Matern32, d: int) -> Spectrum:
    return kernel.amplitude(), Elliptical(_root(kernel, d), jnp.asarray(1.5), "student")


@_measure.register
def _(kernel: Matern52, d: int) -> Spectrum:
    return kernel.amplitude(), Elliptical(_root(kernel, d), jnp.asarray(2.5), "student")


@_measure.register
def _(kernel: Matern, d: int) -> Spectrum:
    return kernel.amplitude(), Elliptical(_root(kernel, d), kernel.smoothness, "student")


@_measure.register
def _(kernel: Periodic, d: int) -> Spectrum:
    return kernel.amplitude(), _harmonics(kernel, d)


@_measure.register
def _(kernel: LocallyPeriodic, d: int) -> Spectrum:
    width = _each(kernel, "decay", d)
    return kernel.amplitude(), Convolution((_harmonics(kernel, d), Elliptical(jnp.diag(1.0 / width), None, "normal")))


@_measure.register
def _(kernel: Cosine, d: int) -> Spectrum:
    return kernel.amplitude(), Pair(2.0 * jnp.pi / _each(kernel, "period", d))


@_measure.register
def _(kernel: SpectralMixture, d: int) -> Spectrum:
    weights, means, variances = kernel.spectrum(d)
    centers, deviations = 2.0 * jnp.pi * means, 2.0 * jnp.pi * jnp.sqrt(variances)
    return _mixture([(w, SignedNormal(c, s)) for w, c, s in zip(weights, centers, deviations, strict=True)])


@_measure.register
def _(kernel: Sum, d: int) -> Spectrum:
    return _mixture([_measure(k, d) for k in kernel.parts])


@_measure.register
def _(kernel: Product, d: int) -> Spectrum:
    mass, law = _convolution([_measure(k, d) for k in kernel.factors])
    return kernel.amplitude() * mass, law


@_measure.register
def _(kernel: Scaled, d: int) -> Spectrum:
    mass, law = _measure(kernel.kernel, d)
    return kernel.variance * mass, law


@_measure.register
def _(kernel: Power, d: int) -> Spectrum:
    return _convolution([_measure(kernel.kernel, d)] * kernel.exponent)


@_measure.register
def _(kernel: PolynomialOf, d: int) -> Spectrum:
    return _series(_measure(kernel.kernel, d), list(kernel.coefficients), d)


@_measure.register
def _(kernel: Exponentiated, d: int) -> Spectrum:
    """exp(k) = Σ kⁱ/i!, cut where the rest is lost to rounding."""
    mass, law = _measure(kernel.kernel, d)
    if is_traced(mass):
        raise DataError("the spectral measure of exp(k) needs a kernel with known numbers; compute it outside jit")
    s2, terms = float(mass), 1
    while terms < LONGEST_SERIES and (terms < s2 or s2**terms * math.exp(-s2) / math.factorial(terms) > SERIES_TAIL):
        terms += 1
    if terms == LONGEST_SERIES:
        raise DataError(f"exp(k) with k(x, x) = {s2:.3g} has too long a series; use a kernel with a smaller variance")
    return _series((mass, law), [jnp.asarray(1 / math.factorial(i)) for i in range(terms)], d)


@_measure.register
def _(kernel: OnColumns, d: int) -> Spectrum:
    if max(kernel.columns) >= d:
        raise DataError(f"the kernel is on column {max(kernel.columns)}, found inputs with {d} columns")
    mass, law = _measure(kernel.kernel, len(kernel.columns))
    return mass, Placed(law, kernel.columns, d)


def _root(kernel: Metric, d: int) -> Float[Array, "d d"]:
    """L with LLᵀ = M, the metric: r² = ‖Lᵀτ‖², so that ω = Lω' for a frequency ω' of the kernel of r."""
    rows = kernel.embed(jnp.eye(d))
    return rows if kernel.projection is None else cholesky(rows @ rows.T, "the metric of the kernel")


def _each(kernel: Kernel, name: str, d: int) -> Float[Array, " d"]:
    """The number `name` for each of d columns."""
    return jnp.broadcast_to(per_column(kernel, name, jnp.zeros((1, d))), (d,))


def _harmonics(kernel: Periodic, d: int) -> Harmonics:
    return Harmonics(2.0 * jnp.pi / _each(kernel, "period", d), 1.0 / jnp.square(_each(kernel, "lengthscale", d)))


def _mixture(parts: list[Spectrum]) -> Spectrum:
    masses = jnp.stack([mass for mass, _ in parts])
    return masses.sum(), Mixture(masses, tuple(law for _, law in parts))


def _convolution(parts: list[Spectrum]) -> Spectrum:
    masses = jnp.stack([mass for mass, _ in parts])
    laws = [one for _, law in parts for one in (law.parts if isinstance(law, Convolution) else (law,))]
    moving = tuple(law for law in laws if not isinstance(law, Zero)) or (laws[0],)
    return masses.prod(), moving[0] if len(moving) == 1 else Convolution(moving)


def _series(base: Spectrum, coefficients: list[Array], d: int) -> Spectrum:
    """Σᵢ cᵢ kⁱ."""
    mass, law = base
    weights = jnp.stack([c * mass**i for i, c in enumerate(coefficients)])
    return weights.sum(), Zero(d) if len(coefficients) == 1 else Repeated(law, weights)
