"""Random Fourier features: a stationary kernel as a product of finitely many random cosines.

    k(x, z) = s² E[cos(ωᵀ(x - z))] ≈ φ(x)ᵀφ(z),    ω₁ … ω_m from the spectral measure

paired:  φ(x) = s √(1/m) [cos(ωᵢᵀx), sin(ωᵢᵀx)],   2m columns, φ(x)ᵀφ(x) = s² exactly
phases:  φ(x) = s √(2/m) cos(ωᵢᵀx + bᵢ),           m columns, bᵢ uniform on [0, 2π)

Rahimi & Recht (2007), "Random features for large-scale kernel machines"; Sutherland & Schneider (2015), "On the error
of random Fourier features", for the bounds and for why the paired form is the better one.
"""

import math

import equinox as eqx
import jax.random as jr
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
from credo.kernels.base import Kernel
from credo.kernels.spectral import spectral_measure


class RandomFeatures(eqx.Module):
    """φ with φ(x)ᵀφ(z) ≈ k(x, z): paired cosines and sines where there are no phases."""

    frequencies: Float[Array, "m d"]
    phases: Float[Array, " m"] | None
    amplitude: Float[Array, ""]
    """s², the variance of the kernel."""

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The rows φ(xᵢ)."""
        m, d = self.frequencies.shape
        if x.shape[-1] != d:
            raise DataError(f"these random features are of {d} columns, found inputs with {x.shape[-1]}")
        xp, angles = namespace(self, x), x @ self.frequencies.T
        if self.phases is not None:
            return xp.sqrt(2.0 * self.amplitude / m) * xp.cos(angles + self.phases)
        return xp.sqrt(self.amplitude / m) * xp.concatenate([xp.cos(angles), xp.sin(angles)], axis=1)

    def size(self, d: int) -> int:
        """The number of columns p of φ: m with phases, 2m paired; the inputs must have the d it was made for."""
        m, own = self.frequencies.shape
        if d != own:
            raise DataError(f"these random features are of {own} columns, found {d}")
        return 2 * m if self.phases is None else m


def random_features(
    kernel: Kernel, m: int, d: int, *, paired: bool = True, orthogonal: bool = False, seed: int = 0
) -> RandomFeatures:
    """Features of m random frequencies for a stationary kernel of d columns.

    `orthogonal` draws the frequencies in orthogonal blocks, each still from the spectral measure, which lowers the
    variance of the approximation; it needs a single kernel of a distance (RBF, Matérn, rational quadratic).
    Yu, Suresh, Choromanski, Holtmann-Rice & Kumar (2016), "Orthogonal random features".
    """
    _check(m)
    k_frequencies, k_phases = jr.split(jr.key(seed))
    mass, law = spectral_measure(kernel, d)
    draw = law.sample_orthogonal if orthogonal else law.sample
    phases = None if paired else jr.uniform(k_phases, (m,), maxval=2 * math.pi)
    return RandomFeatures(draw(k_frequencies, m), phases, mass)


def feature_error_probability(
    kernel: Kernel, m: int, epsilon: float, diameter: float, d: int, paired: bool = True
) -> float:
    """A bound on P(sup |φ(x)ᵀφ(z) - k(x, z)| ≥ ε) over a set of this diameter, for m independent frequencies.

        paired:  β (σℓ/ε)^{2d/(d+2)} exp(-mε²/(4(d+2)α))
                 β = ((d/2)^{-d/(d+2)} + (d/2)^{2/(d+2)}) 2^{(6d+2)/(d+2)}
        phases:  β (σℓ/ε)^{2d/(d+1)} exp(-mε²/(32(d+1)α'))
                 β = (d^{-d/(d+1)} + d^{1/(d+1)}) 2^{(5d+1)/(d+1)} 3^{d/(d+1)}

    for s² = 1 (ε is divided by s² otherwise), ℓ the diameter, σ² = E‖ω‖², α = min(1, v + ε/3) and
    α' = min(1, (v + ½)/4 + ε/6), where v bounds the variance of cos(ωᵀτ). Sutherland & Schneider (2015), propositions
    1 and 2, who count columns (2m and m) and correct claim 1 of Rahimi & Recht (2007). Where ε > σℓ the set is
    enlarged until ε = σℓ. Their step E[sup ‖∇error‖²] ≤ σ² (3σ² with phases) is taken over as published.
    """
    _check(m)
    log_constant, rate = _bound(kernel, epsilon, diameter, d, paired)
    return math.exp(min(0.0, log_constant - m * rate))


def features_needed(kernel: Kernel, epsilon: float, delta: float, diameter: float, d: int, paired: bool = True) -> int:
    """The fewest frequencies for which `feature_error_probability` promises an error below ε but for probability δ."""
    if not 0 < delta < 1:
        raise DataError(f"delta must be a probability strictly between 0 and 1, found {delta!r}")
    log_constant, rate = _bound(kernel, epsilon, diameter, d, paired)
    m = max(1, math.ceil((log_constant - math.log(delta)) / rate))
    return m if math.exp(log_constant - m * rate) <= delta else m + 1  # the last digit of the division


def _bound(kernel: Kernel, epsilon: float, diameter: float, d: int, paired: bool) -> tuple[float, float]:
    """(a, b): the probability is at most exp(a - b m)."""
    if not (0 < epsilon < math.inf and 0 < diameter < math.inf):
        raise DataError(f"epsilon and diameter must be positive numbers, found {epsilon!r} and {diameter!r}")
    mass, law = spectral_measure(kernel, d)
    e, moment, spread = float(epsilon) / float(mass), float(law.second_moment()), law.spread()
    if not math.isfinite(moment):
        raise DataError(
            f"{kernel.formula()} has frequencies of infinite variance (its functions are not differentiable), so the "
            "uniform bound says nothing; use a smoother kernel (Matern32 or smoother)"
        )
    log_ratio = max(0.0, math.log(math.sqrt(moment) * diameter / e)) if moment > 0 else 0.0
    if paired:
        rate = e * e / (4 * (d + 2) * min(1.0, spread + e / 3))
        return _log_beta(d, paired) + 2 * d / (d + 2) * log_ratio, rate
    rate = e * e / (32 * (d + 1) * min(1.0, (spread + 0.5) / 4 + e / 6))
    return _log_beta(d, paired) + 2 * d / (d + 1) * log_ratio, rate


def _log_beta(d: int, paired: bool) -> float:
    if paired:
        shape = (d / 2) ** (-d / (d + 2)) + (d / 2) ** (2 / (d + 2))
        return math.log(shape) + (6 * d + 2) / (d + 2) * math.log(2)
    shape = d ** (-d / (d + 1)) + d ** (1 / (d + 1))
    return math.log(shape) + (5 * d + 1) / (d + 1) * math.log(2) + d / (d + 1) * math.log(3)


def _check(m: int) -> None:
    if isinstance(m, bool) or m < 1:
        raise DataError(f"m, the number of frequencies, must be a whole number of at least 1, found {m!r}")
