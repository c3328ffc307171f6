"""Vectors with a Gaussian spread: unknown mean and covariance, the normal-inverse-Wishart distribution."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy import special
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, as_float, is_traced
from credo.core.checks import ArrayLike, check_table, check_vector
from credo.core.errors import DataError
from credo.core.linalg import cholesky, factorize, log_determinant, quadratic, solve_lower
from credo.core.params import positive, positive_definite, real
from credo.core.predictive import Interval, MultivariateT, StudentT
from credo.core.special import log_rising
from credo.models.conjugate.base import Conjugate, Statistics, check_parameter
from credo.models.conjugate.known import MultivariateNormal
from credo.models.conjugate.normal import NormalParameters, inverse_gamma_interval


class GaussianParameters(NamedTuple):
    """The mean vector and the covariance matrix of a Gaussian, or draws of them."""

    mean: Any
    covariance: Any


class Scatter(Statistics):
    """Count n, mean x̄ and scatter matrix Σ(xᵢ - x̄)(xᵢ - x̄)ᵀ; two sets merge as `Moments` do."""

    count: Float[Array, ""] = eqx.field(converter=as_float)
    mean: Float[Array, " d"] = eqx.field(converter=as_float)
    scatter: Float[Array, "d d"] = eqx.field(converter=as_float)

    @classmethod
    def of(cls, x: ArrayLike) -> "Scatter":
        """The statistics of a table."""
        rows = jnp.asarray(x)
        mean = jnp.mean(rows, axis=0)
        return cls(jnp.asarray(float(rows.shape[0])), mean, (rows - mean).T @ (rows - mean))

    def __add__(self, other: "Scatter") -> "Scatter":
        n = self.count + other.count
        delta = other.mean - self.mean
        scatter = self.scatter + other.scatter + jnp.outer(delta, delta) * self.count * other.count / n
        return Scatter(n, self.mean + delta * other.count / n, scatter)


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
        self.scale = jnp.eye(d) if scale is None else as_float(check_table(scale, "scale"))
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
        excess = self.df - self._d - 1
        heavy = excess <= 0
        return GaussianParameters(self.mean, jnp.where(heavy, jnp.inf, self.scale / jnp.where(heavy, 1.0, excess)))

    def statistics(self, x: ArrayLike) -> Scatter:
        """Count, mean and scatter matrix."""
        table = check_table(x)
        if table.shape[1] != self._d:
            raise DataError(f"X must have {self._d} columns as the mean of the belief has, found {table.shape[1]}")
        return Scatter.of(table)

    def _updated_scale(self, statistics: Scatter) -> Array:
        share = self.strength * statistics.count / (self.strength + statistics.count)
        delta = statistics.mean - self.mean
        return self.scale + statistics.scatter + share * jnp.outer(delta, delta)

    def condition_on(self, statistics: Scatter) -> "NormalInverseWishart":
        """The parameters (mₙ, κₙ, νₙ, Ψₙ)."""
        n = statistics.count
        total = self.strength + n
        mean = self.mean + n / total * (statistics.mean - self.mean)
        return NormalInverseWishart(mean, total, self.df + n, self._updated_scale(statistics))

    def evidence_of(self, statistics: Scatter) -> Array:
        """log Γ_d(νₙ/2)/Γ_d(ν/2) + ν/2 log|Ψ| - νₙ/2 log|Ψₙ| + d/2 log κ/κₙ - nd/2 log π."""
        n, d = statistics.count, self._d
        before = log_determinant(factorize(self.scale).root)
        after = log_determinant(factorize(self._updated_scale(statistics)).root)
        return (
            jnp.sum(log_rising(0.5 * (self.df - jnp.arange(d)), 0.5 * n))
            + 0.5 * self.df * (before - after)
            - 0.5 * n * (after + d * jnp.log(jnp.pi))
            - 0.5 * d * jnp.log1p(n / self.strength)
        )

    def predict(self) -> MultivariateT:
        """The next vector: t with ν - d + 1 degrees of freedom and scale matrix Ψ(1 + 1/κ)/(ν - d + 1)."""
        df = self.df - self._d + 1
        noise = self.scale / df
        return MultivariateT(df, self.mean, noise, noise / self.strength)

    def predict_at(self, theta: GaussianParameters) -> MultivariateNormal:
        """N(μ, Σ)."""
        return MultivariateNormal(jnp.asarray(jnp.inf), theta.mean, theta.covariance, jnp.zeros_like(theta.covariance))

    def mode(self) -> GaussianParameters:
        """The joint mode of (μ, Σ): (mean, scale/(df + d + 2))."""
        return GaussianParameters(self.mean, self.scale / (self.df + self._d + 2))

    def log_prob(self, theta: ArrayLike) -> Array:
        """log p(μ, Σ) of one pair (mean, covariance)."""
        mean, covariance = (jnp.asarray(value, float) for value in theta)
        d, df = self._d, self.df
        root, root_scale = factorize(covariance).root, factorize(self.scale).root
        log_det = log_determinant(root)
        log_gaussian = -0.5 * (
            d * jnp.log(2 * jnp.pi / self.strength) + log_det + self.strength * quadratic(root, mean - self.mean)
        )
        log_wishart = (
            0.5 * df * log_determinant(root_scale)
            - 0.5 * df * d * jnp.log(2.0)
            - special.multigammaln(0.5 * df, d)
            - 0.5 * (df + d + 1) * log_det
            - 0.5 * jnp.sum(solve_lower(root, root_scale) ** 2)  # tr(Ψ Σ⁻¹)
        )
        return log_gaussian + log_wishart

    def credible_interval(self, level: ArrayLike = 0.95) -> NormalParameters:
        """The central intervals of each mean (Student-t) and of each variance Σᵢᵢ (inverse gamma)."""
        df = self.df - self._d + 1
        diagonal = jnp.diagonal(self.scale)
        spread = diagonal / (df * self.strength)
        mean: Interval = StudentT(jnp.full(self._d, df), self.mean, jnp.zeros_like(spread), spread).interval(level)
        return NormalParameters(mean, inverse_gamma_interval(df / 2, diagonal / 2, level))

    def _most_likely(self, statistics: Scatter) -> GaussianParameters:
        if not is_traced(statistics) and np.linalg.matrix_rank(np.asarray(statistics.scatter)) < self._d:
            raise DataError(
                f"the likelihood has no maximum: the {int(statistics.count)} rows span fewer than {self._d} dimensions "
                "and the covariance would be singular; condition on them and use .estimate"
            )
        return GaussianParameters(statistics.mean, statistics.scatter / statistics.count)

    def _draw_parameters(self, key: PRNGKeyArray) -> GaussianParameters:
        """Bartlett's decomposition: Σ = BBᵀ, B = L A⁻ᵀ with Ψ = LLᵀ and AAᵀ ~ Wishart(I, ν)."""
        k_chi, k_lower, k_mean = jr.split(key, 3)
        d = self._d
        chi = jnp.sqrt(2 * jr.gamma(k_chi, 0.5 * (self.df - jnp.arange(d))))
        bartlett = jnp.tril(jr.normal(k_lower, (d, d)), -1) + jnp.diag(chi)
        root = solve_lower(bartlett, factorize(self.scale).root.T).T
        mean = self.mean + root @ jr.normal(k_mean, (d,)) / jnp.sqrt(self.strength)
        return GaussianParameters(mean, root @ root.T)
