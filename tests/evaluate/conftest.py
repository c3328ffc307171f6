"""A user's own belief: Bayesian linear regression with known noise, in thirty lines."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from credo.core.belief import Belief
from credo.core.checks import check_table, check_vector
from credo.core.params import positive
from credo.core.predictive import Normal


class KnownNoise(Belief):
    """w ~ N(mean, precision⁻¹), y = xᵀw + ε, ε ~ N(0, noise)."""

    mean: Float[Array, " d"]
    precision: Float[Array, "d d"]
    noise: Float[Array, ""] = positive(1.0)

    @classmethod
    def prior(cls, d: int, variance: float = 1.0, noise: float = 1.0) -> "KnownNoise":
        return cls(jnp.zeros(d), jnp.eye(d) / variance, noise)

    def statistics(self, *data: Any, **options: Any) -> Any:
        x, y = data
        table = check_table(x, "X")
        return jnp.asarray(table), jnp.asarray(check_vector(y, "y", table.shape[0]))

    def condition_on(self, statistics: Any) -> "KnownNoise":
        x, y = statistics
        precision = self.precision + x.T @ x / self.noise
        mean = jnp.linalg.solve(precision, self.precision @ self.mean + x.T @ y / self.noise)
        return KnownNoise(mean, precision, self.noise)

    def evidence_of(self, statistics: Any) -> jax.Array:
        x, y = statistics
        covariance = x @ jnp.linalg.solve(self.precision, x.T) + self.noise * jnp.eye(len(y))
        return jax.scipy.stats.multivariate_normal.logpdf(y, x @ self.mean, covariance)

    def predict(self, *x: Any, **options: Any) -> Normal:
        table = jnp.asarray(check_table(x[0], "X"))
        latent = jnp.sum(table * jnp.linalg.solve(self.precision, table.T).T, axis=1)
        return Normal(table @ self.mean, jnp.full(table.shape[0], self.noise), latent)


class WithLikelihood(KnownNoise):
    """The same, with its maximum likelihood on offer."""

    def maximum_log_likelihood(self, x: Any, y: Any) -> tuple[float, int]:
        w = np.linalg.lstsq(x, y, rcond=None)[0]
        best = eqx.tree_at(lambda b: b.mean, self, jnp.asarray(w))
        v = float(self.noise)
        residual = np.asarray(y - x @ np.asarray(best.mean))
        return float(-0.5 * len(y) * np.log(2 * np.pi * v) - 0.5 * residual @ residual / v), x.shape[1]


@pytest.fixture(scope="session")
def Regression() -> type[KnownNoise]:
    return KnownNoise


@pytest.fixture(scope="session")
def RegressionWithLikelihood() -> type[WithLikelihood]:
    return WithLikelihood


@pytest.fixture(scope="session")
def line() -> tuple[np.ndarray, np.ndarray]:
    """60 rows of y = 0.5 - 2 x₁ + ε, with a column of ones and a column that does nothing."""
    rng = np.random.default_rng(7)
    x = np.column_stack([np.ones(60), rng.normal(size=(60, 2))])
    return x, x @ [0.5, -2.0, 0.0] + 0.5 * rng.normal(size=60)
