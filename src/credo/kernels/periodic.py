"""Kernels of functions that repeat: exactly, for a while, as one wave, or as a mixture of waves.

A function of period p is a function of the point (cos 2πx/p, sin 2πx/p) on a circle, and sums of squared sines
are squared distances there, so that n points need n sines and not n².

MacKay (1998), "Introduction to Gaussian processes"; Rasmussen & Williams (2006), §4.2 and §5.4.3.
"""

from typing import ClassVar, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array, held, namespace, special
from credo.core.errors import DataError
from credo.core.params import positive
from credo.core.pytrees import changed
from credo.kernels.base import Amplitude, ConstantVariance, InputScales, Kernel, show_call, start, with_one_each
from credo.kernels.measures import Convolution, Elliptical, Harmonics, Pair, SignedNormal, Spectrum, mixture
from credo.kernels.stationary import squared_distances

P = TypeVar("P", bound="Periodic")

CYCLES = 5.0
"""How many periods the data are taken to span before anything is learned."""


def per_column(kernel: Kernel, name: str, x: Array) -> Array:
    """The number `name` of a kernel, checked to be one for all columns of x or one for each."""
    value = kernel.number(name)
    if np.shape(value) not in ((), (x.shape[-1],)):
        raise DataError(
            f"{type(kernel).__name__} has {name} of shape {np.shape(value)} for inputs with {x.shape[-1]} columns; "
            "give one for all or one for each, or use .on(columns)"
        )
    return value


def _each(kernel: Kernel, name: str, d: int) -> Float[Array, " d"]:
    """The number `name` for each of d columns."""
    value = per_column(kernel, name, np.zeros((1, d)))
    return namespace(value).broadcast_to(value, (d,))


def _one_or_each(values: np.ndarray) -> np.ndarray | np.floating:
    """A scalar for one column: lengths in different units are not shared between columns."""
    return values if len(values) > 1 else values[0]


class Periodic(ConstantVariance):
    """κ = exp(-2 Σₖ sin²(π(xₖ - zₖ)/pₖ)/ℓₖ²): functions that repeat after p.  MacKay (1998), eq. 47.

    ℓ has no unit: it says how smooth the shape is that repeats, smooth where it is large.
    """

    lengthscale: Float[Array, "*d"] = positive(1.0, low=1e-2, high=1e3)
    variance: Amplitude = positive(None, unset=1.0)
    period: Float[Array, "*p"] | None = positive(None, unset=1.0)
    ard: bool = eqx.field(default=False, static=True, kw_only=True)
    """Whether `learn` gives each column a lengthscale of its own."""
    is_stationary = True
    symbols: ClassVar[tuple[tuple[str, str], ...]] = (("p", "period"), ("ℓ", "lengthscale"))

    def embed(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        """Rows whose squared Euclidean distance is 4 Σₖ sin²(π(xₖ - zₖ)/pₖ)/ℓₖ²."""
        length = per_column(self, "lengthscale", x)
        angle = 2.0 * np.pi * x / per_column(self, "period", x)
        xp = namespace(angle, length)
        return xp.concatenate([xp.cos(angle) / length, xp.sin(angle) / length], axis=-1)

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² exp(-r²/2) of the distances between embedded rows."""
        here = held(z[:1].sum(0))  # angles from nearby: far from zero, as in dates, they lose digits
        squared = squared_distances(self.embed(x - here), self.embed(z - here))
        return self.amplitude() * namespace(squared).exp(-0.5 * squared)

    def spectral_measure(self, d: int) -> Spectrum:
        """Harmonics of 1/p."""
        rate = _each(self, "lengthscale", d) ** -2.0
        return self.amplitude(), Harmonics(2.0 * np.pi / _each(self, "period", d), rate)

    def adapt(self: P, scales: InputScales) -> P:
        """p = a fifth of the range of a column, one for each, s² = the variance of the outcomes."""
        out = start(self, period=_one_or_each(scales.span / CYCLES), variance=scales.variance)
        return with_one_each(out, len(scales.span)) if self.ard else out


class LocallyPeriodic(Periodic):
    """κ = exp(-2 Σₖ sin²(π(xₖ - zₖ)/pₖ)/ℓₖ² - Σₖ (xₖ - zₖ)²/2λₖ²), λ = `decay`: a shape that repeats and drifts.

    Periodic × RBF, with one distance for both.  Rasmussen & Williams (2006), eq. 5.16.
    """

    decay: Float[Array, "*q"] | None = positive(None, unset=1.0)
    symbols = (*Periodic.symbols, ("λ", "decay"))

    def embed(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        """Points on circles, followed by x/λ."""
        parts = [super().embed(x), x / per_column(self, "decay", x)]
        return namespace(parts).concatenate(parts, axis=-1)

    def spectral_measure(self, d: int) -> Spectrum:
        """Harmonics, blurred by a normal law of width 1/λ."""
        mass, law = super().spectral_measure(d)
        return mass, Convolution((law, Elliptical(jnp.diag(1.0 / _each(self, "decay", d)), None, "normal")))

    def adapt(self, scales: InputScales) -> "LocallyPeriodic":
        """As `Periodic`, and λ = the range of a column."""
        return start(super().adapt(scales), decay=_one_or_each(scales.span))


class CenteredPeriodic(Periodic):
    """κ = (exp(-2 sin²(π(x - z)/p)/ℓ²) - c)/(1 - c), c = e^(-1/ℓ²) I₀(1/ℓ²) its mean over a period.

    Functions that repeat and are zero on average over a period: `Periodic` allows any level besides, so that in a sum
    with a trend both say the same, and in a product with one it becomes a trend itself. Tends to cos(2π(x - z)/p) as ℓ
    grows. With several columns the exponents are added and c is a product. Lloyd et al. (2014), "Automatic
    construction and natural-language description of nonparametric regression models", appendix A.
    """

    def level(self, d: int) -> Float[Array, ""]:
        """c, for inputs with d columns."""
        rate = _each(self, "lengthscale", d) ** -2.0
        return special(rate).i0e(rate).prod()

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² (κ - c)/(1 - c) for all pairs."""
        level = self.level(x.shape[1])
        return (super().gram(x, z) - self.amplitude() * level) / (1.0 - level)

    def spectral_measure(self, d: int) -> Spectrum:
        """Refused: without the harmonic of frequency zero the law is not that of `Periodic`."""
        return Kernel.spectral_measure(self, d)


class Cosine(ConstantVariance):
    """κ = cos(2π Σₖ (xₖ - zₖ)/pₖ): one plane wave of unknown phase and height, a kernel of rank two.

    With one p its crests lie across the diagonal; for a wave along each column multiply `Cosine().on(k)`.
    """

    period: Float[Array, "*p"] | None = positive(None, unset=1.0)
    variance: Amplitude = positive(None, unset=1.0)
    is_stationary = True
    symbols = (("p", "period"),)

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² (cos a cos b + sin a sin b) of the phases a and b."""
        here = held(z[:1].sum(0))
        return self.amplitude() * _waves(self._phase(x - here), self._phase(z - here))

    def _phase(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        return 2.0 * np.pi * (x / per_column(self, "period", x)).sum(-1)

    def spectral_measure(self, d: int) -> Spectrum:
        """± one frequency."""
        return self.amplitude(), Pair(2.0 * np.pi / _each(self, "period", d))

    def adapt(self, scales: InputScales) -> "Cosine":
        """p = a fifth of the range of a column, one for each, s² = the variance of the outcomes."""
        return start(self, period=_one_or_each(scales.span / CYCLES), variance=scales.variance)


class SpectralMixture(Kernel):
    """k = Σ_q w_q Πₖ exp(-2π² τₖ² v_qk) cos(2π τₖ μ_qk), τ = x - z: waves of frequency μ_q, drifting at a rate √v_q.

    Enough components come as close as wanted to any stationary kernel: w_q, μ_q and v_q are the weights, means and
    variances of a mixture of Gaussians for its spectrum. Before `adapt` has seen data there are `components` of them
    for inputs that span 1. Wilson & Adams (2013), "Gaussian process kernels for pattern discovery and
    extrapolation", eq. 12.
    """

    weights: Float[Array, " k"] | None = positive(None)
    means: Float[Array, "k d"] | None = positive(None)
    variances: Float[Array, "k d"] | None = positive(None)
    components: int = eqx.field(default=4, static=True, kw_only=True)
    """How many waves `adapt` makes, where none are given."""
    is_stationary = True

    def __check_init__(self) -> None:
        shapes = [np.shape(v) for v in (self.weights, self.means, self.variances) if v is not None]
        if not shapes:
            if self.components < 1:
                raise DataError(f"SpectralMixture needs at least 1 component, found components={self.components}")
            return
        if len(shapes) < 3:
            raise DataError("SpectralMixture needs weights, means and variances, found only some; give all or none")
        if len(shapes[0]) != 1 or len(shapes[1]) != 2 or shapes[1] != shapes[2] or shapes[0][0] != shapes[1][0]:
            raise DataError(f"SpectralMixture needs weights (k,), means and variances (k, d), found {shapes}")

    def spectrum(self, d: int) -> tuple[Float[Array, " k"], Float[Array, "k d"], Float[Array, "k d"]]:
        """Weights, means and variances, for inputs with d columns."""
        if self.weights is None or self.means is None or self.variances is None:
            return self._starts(np.ones(d), 1.0)
        if self.means.shape[1] != d:
            raise DataError(
                f"SpectralMixture has frequencies for {self.means.shape[1]} columns, found inputs with {d}; "
                "give one for each, or use .on(columns)"
            )
        return self.weights, self.means, self.variances

    def _starts(self, span: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Frequencies from a quarter of a cycle to eight over the span, each as wide as half of itself."""
        means = np.geomspace(0.25, 8.0, self.components)[:, None] / span / np.sqrt(len(span))
        weights = np.full(self.components, variance / self.components)
        return weights, means, np.square(means / 2)

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """The sum over waves of an RBF kernel times cosines."""
        weights, means, variances = self.spectrum(x.shape[1])
        here, xp = held(z[:1].sum(0)), namespace(x, z, self)
        x, z = 2.0 * np.pi * (x - here), 2.0 * np.pi * (z - here)
        total = xp.zeros((x.shape[0], z.shape[0]))
        for w, mean, width in zip(weights, means, xp.sqrt(variances), strict=True):
            wave = w * xp.exp(-0.5 * squared_distances(x * width, z * width))
            for k in range(x.shape[1]):
                wave = wave * _waves(x[:, k] * mean[k], z[:, k] * mean[k])
            total = total + wave
        return total

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Σ w."""
        total = self.spectrum(x.shape[1])[0].sum()
        return namespace(total, x).broadcast_to(total, x.shape[:1])

    def spectral_measure(self, d: int) -> Spectrum:
        """The mixture of normal laws."""
        weights, means, variances = self.spectrum(d)
        centers, deviations = 2.0 * np.pi * means, 2.0 * np.pi * namespace(variances).sqrt(variances)
        return mixture([(w, SignedNormal(c, s)) for w, c, s in zip(weights, centers, deviations, strict=True)])

    def adapt(self, scales: InputScales) -> "SpectralMixture":
        """Waves from a quarter of a cycle to eight over the range of the data, which share the variance."""
        if self.weights is not None:
            return self
        return SpectralMixture(*self._starts(scales.span, scales.variance), components=self.components)

    def scaled(self, factor: ArrayLike) -> Kernel:
        """Every weight multiplied."""
        if self.weights is None:
            return super().scaled(factor)
        return changed(self, weights=self.weights * factor)

    def formula(self) -> str:
        """SpectralMixture(w=…, μ=…, v=…)."""
        if self.weights is None:
            return f"SpectralMixture({self.components})"
        return show_call("SpectralMixture", w=self.weights, μ=self.means, v=self.variances)


def _waves(a: Float[Array, " n"], b: Float[Array, " m"]) -> Float[Array, "n m"]:
    """cos(aᵢ - bⱼ), with n + m cosines instead of nm."""
    xp = namespace(a, b)
    return xp.cos(a)[:, None] * xp.cos(b)[None, :] + xp.sin(a)[:, None] * xp.sin(b)[None, :]
