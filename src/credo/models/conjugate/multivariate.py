"""Vectors with a Gaussian spread: unknown mean and covariance, the normal-inverse-Wishart distribution."""

from typing import NamedTuple

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, as_float, is_traced, namespace, special
from credo.core.checks import ArrayLike, check_table, check_vector
from credo.core.errors import DataError
from credo.core.linalg import cholesky, factorize, log_determinant, quadratic, solve_lower
from credo.core.params import positive, positive_definite, real
from credo.core.predictive import MultivariateT, StudentT
from credo.core.special import LOG_2PI, log_rising
from credo.models.conjugate.base import Conjugate, check_parameter
from credo.models.conjugate.known import MultivariateNormal
from credo.models.conjugate.matrix import draw_root
from credo.models.conjugate.normal import Moments, NormalParameters, inverse_gamma_interval, outer


class GaussianParameters(NamedTuple):
    """The mean vector and the covariance matrix of a Gaussian, or draws of them."""

    mean: Float[Array, "*n d"]
    covariance: Float[Array, "*n d d"]


class NormalInverseWishart(Conjugate):
    """xᵢ ~ N(μ, Σ), Σ ~ InverseWishart(scale, df), μ | Σ ~ N(mean, Σ/strength), in d dimensions.

    With κ = strength, ν = df > d - 1, Ψ = scale: κₙ = κ + n, νₙ = ν + n, mₙ = m + n(x̄ - m)/κₙ,
    Ψₙ = Ψ + S + κn(x̄ - m)(x̄ - m)ᵀ/κₙ. By default df = d + 2, so that E[Σ] = scale = I. `learn` leaves
    df alone: its range depends on d. Murphy (2012), section 4.6.3.
    """

    df: Float[Array, ""] = eqx.field(converter=as_float)
    mean: Float[Array, " d"] = real()
    strength: Float[Array, ""] = positive()
    scale: Float[Array, "d d"] = positive_definite()

    def __init__(
        self, mean: ArrayLike, strength: ArrayLike = 1.0, df: ArrayLike = None, scale: ArrayLike = None
    ) -> None:
        center = check_vector(mean, "mean")
        d = center.shape[0]
        self.mean = as_float(center)
        self.strength = as_float(strength)
        self.df = as_float(d + 2.0 if df is None else df)
        self.scale = np.eye(d) if scale is None else as_float(check_table(scale, "scale"))
        check_parameter(self.strength, "strength")
        check_parameter(self.df, "df", above=d - 1.0, remedy=f"for {d} dimensions pass e.g. {d + 2}")
        if self.scale.shape != (d, d):
            raise DataError(f"scale must have shape ({d}, {d}) as mean has {d} entries, found {self.scale.shape}")
        if not is_traced(self.scale):
            cholesky(self.scale, "scale")

    @property
    def _d(self) -> int:
        return self.mean.shape[0]

    @property
    def estimate(self) -> GaussianParameters:
        """E[μ] = mean and E[Σ] = scale/(df - d - 1), infinite for df ≤ d + 1."""
        excess, xp = self.df - self._d - 1, namespace(self)
        heavy = excess <= 0
        return GaussianParameters(self.mean, xp.where(heavy, np.inf, self.scale / xp.where(heavy, 1.0, excess)))

    def statistics(self, x: ArrayLike) -> Moments:
        """Count, mean and scatter matrix."""
        table = check_table(x)
        if table.shape[1] != self._d:
            raise DataError(f"X must have {self._d} columns as the mean of the belief has, found {table.shape[1]}")
        return Moments.of(table)

    def _updated_scale(self, statistics: Moments) -> Array:
        share = self.strength * statistics.count / (self.strength + statistics.count)
        return self.scale + statistics.squares + share * outer(statistics.mean - self.mean)

    def condition_on(self, statistics: Moments) -> "NormalInverseWishart":
        """The parameters (mₙ, κₙ, νₙ, Ψₙ)."""
        n = statistics.count
        total = self.strength + n
        mean = self.mean + n / total * (statistics.mean - self.mean)
        return NormalInverseWishart(mean, total, self.df + n, self._updated_scale(statistics))

    def evidence_of(self, statistics: Moments) -> Array:
        """log Γ_d(νₙ/2)/Γ_d(ν/2) + ν/2 log|Ψ| - νₙ/2 log|Ψₙ| + d/2 log κ/κₙ - nd/2 log π."""
        n, d, xp = statistics.count, self._d, namespace(self, statistics)
        before = log_determinant(factorize(self.scale).root)
        after = log_determinant(factorize(self._updated_scale(statistics)).root)
        return (
            log_rising(0.5 * (self.df - np.arange(d)), 0.5 * n).sum()
            + 0.5 * self.df * (before - after)
            - 0.5 * n * (after + d * np.log(np.pi))
            - 0.5 * d * xp.log1p(n / self.strength)
        )

    def predict(self) -> MultivariateT:
        """The next vector: t with ν - d + 1 degrees of freedom and scale matrix Ψ(1 + 1/κ)/(ν - d + 1)."""
        df = self.df - self._d + 1
        noise = self.scale / df
        return MultivariateT(df, self.mean, noise, noise / self.strength)

    def predict_at(self, theta: GaussianParameters) -> MultivariateNormal:
        """N(μ, Σ)."""
        return MultivariateNormal(np.asarray(np.inf), theta.mean, theta.covariance, np.zeros(theta.covariance.shape))

    def mode(self) -> GaussianParameters:
        """The joint mode of (μ, Σ): (mean, scale/(df + d + 2))."""
        return GaussianParameters(self.mean, self.scale / (self.df + self._d + 2))

    def log_prob(self, theta: ArrayLike) -> Array:
        """log p(μ, Σ) of one pair (mean, covariance)."""
        mean, covariance = (as_float(value) for value in theta)
        d, df = self._d, self.df
        root, root_scale = factorize(covariance).root, factorize(self.scale).root
        log_det = log_determinant(root)
        log_gaussian = -0.5 * (
            d * (LOG_2PI - namespace(self).log(self.strength))
            + log_det
            + self.strength * quadratic(root, mean - self.mean)
        )
        log_wishart = (
            0.5 * df * log_determinant(root_scale)
            - 0.5 * df * d * np.log(2.0)
            - special(df).multigammaln(0.5 * df, d)
            - 0.5 * (df + d + 1) * log_det
            - 0.5 * (solve_lower(root, root_scale) ** 2).sum()  # tr(Ψ Σ⁻¹)
        )
        return log_gaussian + log_wishart

    def credible_interval(self, level: ArrayLike = 0.95) -> NormalParameters:
        """The central intervals of each mean (Student-t) and of each variance Σᵢᵢ (inverse gamma)."""
        df, diagonal, zeros = self.df - self._d + 1, self.scale.diagonal(), np.zeros(self._d)
        mean = StudentT(df + zeros, self.mean, zeros, diagonal / (df * self.strength)).interval(level)
        return NormalParameters(mean, inverse_gamma_interval(df / 2, diagonal / 2, level))

    def _most_likely(self, statistics: Moments) -> GaussianParameters:
        if not is_traced(statistics) and np.linalg.matrix_rank(statistics.squares) < self._d:
            raise DataError(
                f"the likelihood has no maximum: the {int(statistics.count)} rows span fewer than {self._d} dimensions "
                "and the covariance would be singular; condition on them and use .estimate"
            )
        return GaussianParameters(statistics.mean, statistics.squares / statistics.count)

    def _draw_parameters(self, key: PRNGKeyArray) -> GaussianParameters:
        k_covariance, k_mean = jr.split(key)
        root = draw_root(k_covariance, self.df[None], self.scale[None])[0]
        mean = self.mean + root @ jr.normal(k_mean, (self._d,)) / self.strength**0.5
        return GaussianParameters(mean, root @ root.T)
