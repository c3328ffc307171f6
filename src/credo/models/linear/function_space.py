"""The function-space view of a linear model: the same posterior through n × n matrices instead of q × q.

    K = Φ̃P₀⁻¹Φ̃ᵀ + σ²W⁻¹,   mean* = m₀(x*) + k*ᵀK⁻¹(y - m₀(X)),   var* = k** - k*ᵀK⁻¹k*

cheaper when there are more features than rows, and the bridge to Gaussian processes.
Rasmussen & Williams (2006), eq. 2.12.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core.abilities import PredictsJointly
from credo.core.belief import Belief
from credo.core.checks import check_table
from credo.core.errors import DataError
from credo.core.linalg import cholesky, gaussian_log_evidence, solve, solve_lower
from credo.core.predictive import Normal
from credo.infer.method import Solver
from credo.models.linear.belief import Linear
from credo.models.linear.posterior import latent_covariance
from credo.models.linear.statistics import design


@dataclass(frozen=True)
class FunctionSpace(Solver):
    """The inference method: `linear.condition(X, y, using=FunctionSpace())`."""

    needs: ClassVar[type] = Linear

    def serves(self, subject: Any, verb: str) -> bool:
        """Linear models whose noise is Gaussian and of known variance."""
        known = isinstance(subject, Linear) and not (subject.is_robust or subject.noise_law.integrated)
        return known and super().serves(subject, verb)

    def needs_of(self, subject: Any, verb: str) -> str:
        """Such a model."""
        return "it needs Linear with Gaussian noise of known variance"

    def condition(self, belief: Any, *data: Any, **options: Any) -> "LinearFunction":
        """The posterior over functions."""
        return LinearFunction.of(belief, *data, **options)

    def conclude(self, belief: Any, statistics: Any, data: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """The posterior over functions under the hyperparameters that were chosen."""
        return self.condition(belief, *data, **options)


class LinearFunction(Belief, PredictsJointly):
    """A linear model conditioned in function space: it keeps the data instead of the weights."""

    linear: Linear
    design: Float[Array, "n q"]
    residual: Float[Array, " n"]
    noise: Float[Array, " n"]
    root: Float[Array, "n n"]
    alpha: Float[Array, " n"]

    @classmethod
    def of(cls, linear: Any, *data: Any, weights: Any = None, noise: Any = None) -> "LinearFunction":
        """The posterior after X and y from an unconditioned `Linear` with Gaussian noise of known variance."""
        phi, residual, row_noise = _arrays(linear, data, weights, noise)
        return cls._from(linear, phi, residual, row_noise)

    @classmethod
    def _from(cls, linear: Linear, phi: Array, residual: Array, noise: Array) -> "LinearFunction":
        root = cholesky(linear_gram(linear, phi, phi) + jnp.diag(noise), "the covariance of the outcomes")
        return cls(linear, phi, residual, noise, root, solve(root, residual))

    def statistics(self, *data: Any, weights: Any = None, noise: Any = None) -> tuple[Array, Array, Array]:
        """Design matrix, y minus the prior mean, and the noise variance of each row."""
        return _arrays(self.linear, data, weights, noise)

    def condition_on(self, statistics: tuple[Array, Array, Array]) -> "LinearFunction":
        """The posterior after all rows, old and new."""
        joined = [
            jnp.concatenate(pair) for pair in zip((self.design, self.residual, self.noise), statistics, strict=True)
        ]
        return self._from(self.linear, *joined)

    def evidence_of(self, statistics: tuple[Array, Array, Array]) -> Float[Array, ""]:
        """log p(y_new | y_old), by the chain rule."""
        phi, residual, noise = statistics
        cross = solve_lower(self.root, linear_gram(self.linear, self.design, phi))
        covariance = linear_gram(self.linear, phi, phi) + jnp.diag(noise) - cross.T @ cross
        mean = linear_gram(self.linear, phi, self.design) @ self.alpha
        return gaussian_log_evidence(covariance, residual - mean)

    def predict(self, x: Any, *, joint: bool = False) -> Normal:
        """The same numbers as the weight-space view."""
        phi = jnp.asarray(design(self.linear.features, check_table(x, "X"), self.linear.intercept is not None))
        m0 = self.linear._now(phi.shape[1]).mean
        cross = linear_gram(self.linear, self.design, phi)
        mean = phi @ m0 + self.linear.reference + cross.T @ self.alpha
        half = solve_lower(self.root, cross)
        covariance = linear_gram(self.linear, phi, phi) - half.T @ half
        latent = jnp.maximum(jnp.diag(covariance), 0.0)
        noise = jnp.broadcast_to(self.linear.noise_variance(), mean.shape)
        return Normal(mean, noise, latent, covariance if joint else None)


def linear_gram(linear: Linear, phi: Float[Array, "n q"], psi: Float[Array, "m q"]) -> Float[Array, "n m"]:
    """Φ̃P₀⁻¹Ψ̃ᵀ."""
    return latent_covariance(linear._now(phi.shape[1]), phi, psi)


def _arrays(linear: Linear, data: tuple[Any, ...], weights: Any, noise: Any) -> tuple[Array, Array, Array]:
    if len(data) != 2:
        raise DataError(f"the function-space view takes X and y, found {len(data)} arguments")
    (chunk,) = linear._chunks(data, weights, noise)
    phi = jnp.asarray(design(linear.features, chunk.x, linear.intercept is not None))
    m0 = linear._now(phi.shape[1]).mean
    w = np.ones(phi.shape[0]) if chunk.weights is None else chunk.weights
    return phi, jnp.asarray(chunk.y) - linear.reference - phi @ m0, linear.noise_variance() / jnp.asarray(w)
