"""Real numbers with a Gaussian spread: unknown mean, and unknown mean and variance."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.special
from jaxtyping import Float, PRNGKeyArray, PyTree

from credo.core.arrays import Array, as_float, is_traced, namespace, special
from credo.core.checks import ArrayLike, check_vector
from credo.core.errors import DataError
from credo.core.params import positive, real
from credo.core.predictive import Interval, Normal, StudentT
from credo.core.special import log_rising
from credo.models.conjugate.base import Conjugate, Statistics, central_interval, check_parameter, check_parameters


class NormalParameters(NamedTuple):
    """The mean and the variance of a Gaussian (numbers, draws, or their intervals)."""

    mean: PyTree[Array]
    variance: PyTree[Array]


class Moments(Statistics):
    """Count n, mean x̄ and centred squares Σ(xᵢ - x̄)², of vectors Σ(xᵢ - x̄)(xᵢ - x̄)ᵀ: no cancellation.

    Two sets merge by n = n₁ + n₂, δ = x̄₂ - x̄₁, x̄ = x̄₁ + δ n₂/n, S = S₁ + S₂ + δδᵀ n₁n₂/n.
    Chan, Golub & LeVeque (1983).
    """

    count: Float[Array, ""] = eqx.field(converter=as_float)
    mean: Float[Array, "*d"] = eqx.field(converter=as_float)
    squares: Float[Array, "..."] = eqx.field(converter=as_float)

    @classmethod
    def of(cls, values: ArrayLike) -> "Moments":
        """The statistics of a vector, or of the rows of a table."""
        rows = as_float(values)
        centred = rows - rows.mean(0)
        return cls(np.asarray(float(len(rows))), rows.mean(0), centred.T @ centred)

    def __add__(self, other: "Moments") -> "Moments":
        n, delta = self.count + other.count, other.mean - self.mean
        squares = self.squares + other.squares + outer(delta) * self.count * other.count / n
        return Moments(n, self.mean + delta * other.count / n, squares)


def outer(vector: Float[Array, "*d"]) -> Float[Array, "..."]:
    """vvᵀ, the square of a number."""
    return vector[..., None] * vector if vector.ndim else vector**2


class NormalKnownVariance(Conjugate):
    """yᵢ ~ N(θ, noise), θ ~ N(mean, variance); `noise` is the known variance of an observation.

    Posterior precision 1/variance + n/noise. Murphy (2012), section 4.6.1.
    """

    mean: Float[Array, ""] = real(0.0)
    variance: Float[Array, ""] = positive(1.0)
    noise: Float[Array, ""] = positive(1.0)

    def __check_init__(self) -> None:
        check_parameter(self.mean, "mean", above=-np.inf, remedy="pass a finite number")
        check_parameters(self, "variance", "noise")

    @property
    def estimate(self) -> Float[Array, ""]:
        """The mean of θ."""
        return self.mean

    @property
    def strength(self) -> Float[Array, ""]:
        """noise/variance: how many observations say as much about θ as the belief does."""
        return self.noise / self.variance

    def statistics(self, y: ArrayLike) -> Moments:
        """Count, mean and centred sum of squares."""
        return Moments.of(check_vector(y))

    def condition_on(self, statistics: Moments) -> "NormalKnownVariance":
        """The mean moves towards x̄ by the share n/(n + strength)."""
        n = statistics.count
        total = self.noise + n * self.variance
        gain = n * self.variance / total
        mean = self.mean + gain * (statistics.mean - self.mean)
        return NormalKnownVariance(mean, self.variance * self.noise / total, self.noise)

    def evidence_of(self, statistics: Moments) -> Array:
        """log N(y | mean·1, noise·I + variance·11ᵀ), from the statistics."""
        n, xp = statistics.count, namespace(self, statistics)
        total = self.noise + n * self.variance
        return -0.5 * (
            n * xp.log(2 * np.pi * self.noise)
            + xp.log1p(n * self.variance / self.noise)
            + statistics.squares / self.noise
            + n * (statistics.mean - self.mean) ** 2 / total
        )

    def predict(self) -> Normal:
        """The next observation: N(mean, noise + variance)."""
        return Normal(self.mean, self.noise, self.variance)

    def predict_at(self, theta: Float[Array, ""]) -> Normal:
        """N(θ, noise)."""
        return Normal(theta, self.noise, np.zeros(()))

    def mode(self) -> Array:
        """The mode of θ is its mean."""
        return self.mean

    def log_prob(self, theta: ArrayLike) -> Array:
        """log N(θ | mean, variance)."""
        return log_normal(as_float(theta), self.mean, self.variance)

    def credible_interval(self, level: ArrayLike = 0.95) -> Interval:
        """The central interval that holds θ with probability `level`."""
        return Normal(self.mean, np.zeros(()), self.variance).interval(level)

    def _most_likely(self, statistics: Moments) -> Array:
        return statistics.mean

    def _draw_parameters(self, key: PRNGKeyArray) -> Array:
        return self.mean + jnp.sqrt(self.variance) * jr.normal(key)


class NormalInverseGamma(Conjugate):
    """yᵢ ~ N(μ, σ²), σ² ~ InverseGamma(shape, scale), μ | σ² ~ N(mean, σ²/strength).

    With κ = strength, a = shape, b = scale: κₙ = κ + n, mₙ = m + n(x̄ - m)/κₙ, aₙ = a + n/2,
    bₙ = b + S/2 + κn(x̄ - m)²/2κₙ. Murphy (2007), "Conjugate Bayesian analysis of the Gaussian", section 6.
    """

    mean: Float[Array, ""] = real(0.0)
    strength: Float[Array, ""] = positive(1.0)
    shape: Float[Array, ""] = positive(1.0)
    scale: Float[Array, ""] = positive(1.0)

    def __check_init__(self) -> None:
        check_parameter(self.mean, "mean", above=-np.inf, remedy="pass a finite number")
        check_parameters(self, "strength", "shape", "scale")

    @property
    def estimate(self) -> NormalParameters:
        """E[μ] = mean and E[σ²] = scale/(shape - 1), infinite for shape ≤ 1."""
        heavy, xp = self.shape <= 1, namespace(self)
        variance = xp.where(heavy, np.inf, self.scale / xp.where(heavy, 1.0, self.shape - 1))
        return NormalParameters(self.mean, variance)

    def statistics(self, y: ArrayLike) -> Moments:
        """Count, mean and centred sum of squares."""
        return Moments.of(check_vector(y))

    def _updated_scale(self, statistics: Moments) -> Array:
        share = self.strength * statistics.count / (self.strength + statistics.count)
        return self.scale + 0.5 * (statistics.squares + share * (statistics.mean - self.mean) ** 2)

    def condition_on(self, statistics: Moments) -> "NormalInverseGamma":
        """The parameters (mₙ, κₙ, aₙ, bₙ)."""
        n = statistics.count
        total = self.strength + n
        mean = self.mean + n / total * (statistics.mean - self.mean)
        return NormalInverseGamma(mean, total, self.shape + 0.5 * n, self._updated_scale(statistics))

    def evidence_of(self, statistics: Moments) -> Array:
        """log Γ(aₙ)/Γ(a) + a log b - aₙ log bₙ + ½ log κ/κₙ - n/2 log 2π."""
        n, scale, xp = statistics.count, self._updated_scale(statistics), namespace(self, statistics)
        return (
            log_rising(self.shape, 0.5 * n)
            - self.shape * xp.log(scale / self.scale)
            - 0.5 * n * xp.log(2 * np.pi * scale)
            - 0.5 * xp.log1p(n / self.strength)
        )

    def predict(self) -> StudentT:
        """The next observation: t with 2a degrees of freedom, squared scale b/a (noise) + b/aκ (the mean's)."""
        noise = self.scale / self.shape
        return StudentT(2 * self.shape, self.mean, noise, noise / self.strength)

    def predict_at(self, theta: NormalParameters) -> Normal:
        """N(μ, σ²)."""
        return Normal(theta.mean, theta.variance, np.zeros(()))

    def mode(self) -> NormalParameters:
        """The joint mode of (μ, σ²): (mean, scale/(shape + 3/2))."""
        return NormalParameters(self.mean, self.scale / (self.shape + 1.5))

    def log_prob(self, theta: ArrayLike) -> Array:
        """log p(μ, σ²) of a pair (mean, variance)."""
        mean, variance = (as_float(value) for value in theta)
        xp = namespace(self, mean, variance)
        return (
            log_normal(mean, self.mean, variance / self.strength)
            + self.shape * xp.log(self.scale)
            - special(self.shape).gammaln(self.shape)
            - (self.shape + 1) * xp.log(variance)
            - self.scale / variance
        )

    def credible_interval(self, level: ArrayLike = 0.95) -> NormalParameters:
        """The central intervals of the mean (Student-t) and of the variance (inverse gamma), each on its own."""
        spread = self.scale / (self.shape * self.strength)
        mean = StudentT(2 * self.shape, self.mean, np.zeros(()), spread).interval(level)
        return NormalParameters(mean, inverse_gamma_interval(self.shape, self.scale, level))

    def _most_likely(self, statistics: Moments) -> NormalParameters:
        if not is_traced(statistics) and not statistics.squares > 0:
            raise DataError(
                "the likelihood has no maximum: all values are equal and the variance would be 0; "
                "condition on them and use .estimate"
            )
        return NormalParameters(statistics.mean, statistics.squares / statistics.count)

    def _draw_parameters(self, key: PRNGKeyArray) -> NormalParameters:
        k_variance, k_mean = jr.split(key)
        variance = self.scale / jr.gamma(k_variance, self.shape)
        return NormalParameters(self.mean + jnp.sqrt(variance / self.strength) * jr.normal(k_mean), variance)


def inverse_gamma_interval(shape: Array, scale: Array, level: ArrayLike) -> Interval:
    """The central interval of InverseGamma(shape, scale)."""
    return central_interval(lambda q: scale / scipy.special.gammainccinv(shape, q), level)


def log_normal(value: Array, mean: Array, variance: Array) -> Array:
    """log N(value | mean, variance)."""
    return -0.5 * (namespace(variance).log(2 * np.pi * variance) + (value - mean) ** 2 / variance)
