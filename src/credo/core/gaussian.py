"""The multivariate Gaussian and its algebra: closed under everything a linear model does.

Bishop (2006), section 2.3; Rasmussen & Williams (2006), appendix A.2.
"""

from collections.abc import Sequence
from typing import TypeAlias

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Float, Key

from credo.core import linalg
from credo.core.arrays import Array, host, namespace
from credo.core.errors import DataError
from credo.core.special import LOG_2PI

Index: TypeAlias = int | Sequence[int] | np.ndarray


class Gaussian(eqx.Module):
    """N(x | μ, Σ) = |2πΣ|^(-½) exp(-½ (x-μ)ᵀΣ⁻¹(x-μ)), with μ = `mean` and Σ = `covariance`.

    Σ may be singular for everything except the densities (`log_prob`, `entropy`, `kl`,
    `mutual_information`), which then see the jitter of `linalg.cholesky`.
    """

    mean: Float[Array, "d"]
    covariance: Float[Array, "d d"]

    @classmethod
    def standard(cls, d: int) -> "Gaussian":
        """N(0, I) in d dimensions."""
        return cls(np.zeros(d), np.eye(d))

    @classmethod
    def from_precision(cls, mean: Float[Array, "d"], precision: Float[Array, "d d"]) -> "Gaussian":
        """N(mean, precision⁻¹)."""
        return cls(mean, linalg.inverse(linalg.cholesky(precision, "precision")))

    @property
    def dimension(self) -> int:
        """The number of coordinates d."""
        return len(self.mean)

    @property
    def variance(self) -> Float[Array, "d"]:
        """The variance of each coordinate."""
        return namespace(self).diagonal(self.covariance)

    @property
    def std(self) -> Float[Array, "d"]:
        """The standard deviation of each coordinate."""
        return namespace(self).sqrt(self.variance)

    def marginal(self, index: Index) -> "Gaussian":
        """The distribution of x[index]: N(μ[index], Σ[index, index])."""
        i = self._index(index)
        return Gaussian(self.mean[i], self.covariance[np.ix_(i, i)])

    def conditional(self, index: Index, value: Float[Array, "k"]) -> "Gaussian":
        """The distribution of the other coordinates a, in their order, given x[index] = value.

        N(μₐ + Σₐᵦ Σᵦᵦ⁻¹ (value - μᵦ), Σₐₐ - Σₐᵦ Σᵦᵦ⁻¹ Σᵦₐ) with β = `index`.
        """
        b = self._index(index)
        a = np.setdiff1d(np.arange(self.dimension), b)
        root = linalg.cholesky(self.covariance[np.ix_(b, b)], "covariance of the given coordinates")
        half = linalg.solve_lower(root, self.covariance[np.ix_(b, a)])
        shift = linalg.solve_lower(root, value - self.mean[b])
        return Gaussian(
            self.mean[a] + half.T @ shift, linalg.symmetric_part(self.covariance[np.ix_(a, a)] - half.T @ half)
        )

    def observe(self, matrix: Float[Array, "m d"], value: Float[Array, "m"], noise: Float[Array, "m m"]) -> "Gaussian":
        """The posterior after y = Hx + e, e ~ N(0, R), with H = `matrix`, y = `value` and R = `noise`.

        K = ΣHᵀ(HΣHᵀ + R)⁻¹, mean μ + K(y - Hμ), covariance (I - KH)Σ(I - KH)ᵀ + KRKᵀ: the form of Joseph,
        a sum of two positive semi-definite terms, which rounding cannot make indefinite.
        """
        cross = matrix @ self.covariance
        root = linalg.cholesky(cross @ matrix.T + noise, "covariance of the observation")
        gain = linalg.solve(root, cross).T
        rest = np.eye(self.dimension, dtype=self.mean.dtype) - gain @ matrix
        covariance = rest @ self.covariance @ rest.T + gain @ noise @ gain.T
        return Gaussian(self.mean + gain @ (value - matrix @ self.mean), linalg.symmetric_part(covariance))

    def affine(self, matrix: Float[Array, "m d"], offset: Float[Array, "m"] | None = None) -> "Gaussian":
        """The distribution of Ax + b: N(Aμ + b, AΣAᵀ)."""
        mean = matrix @ self.mean
        covariance = linalg.symmetric_part(matrix @ self.covariance @ matrix.T)
        return Gaussian(mean if offset is None else mean + offset, covariance)

    def __add__(self, other: "Gaussian") -> "Gaussian":
        """The sum of independent variables: N(μ₁ + μ₂, Σ₁ + Σ₂)."""
        if self.dimension != other.dimension:
            raise DataError(
                f"Gaussians of dimension {self.dimension} and {other.dimension} cannot be added; "
                "use affine to bring them to one space"
            )
        return Gaussian(self.mean + other.mean, self.covariance + other.covariance)

    def product(self, other: "Gaussian") -> tuple["Gaussian", Float[Array, ""]]:
        """The product of the densities, normalized, and the log of its integral.

        N(x|a, A) N(x|b, B) = Z N(x|c, C) with S = A + B, c = a + A S⁻¹(b - a), C = A - A S⁻¹ A = A S⁻¹ B
        and Z = N(a | b, S); only S must be invertible.
        """
        posterior = self.observe(np.eye(self.dimension, dtype=self.mean.dtype), other.mean, other.covariance)
        return posterior, Gaussian(other.mean, self.covariance + other.covariance).log_prob(self.mean)

    def log_prob(self, x: Float[Array, "*n d"]) -> Float[Array, "*n"]:
        """log N(x | μ, Σ) at a point or at each row."""
        root = linalg.cholesky(self.covariance, "covariance")
        square = linalg.quadratic(root, (x - self.mean).T)
        return -0.5 * (square + linalg.log_determinant(root) + self.dimension * LOG_2PI)

    def entropy(self) -> Float[Array, ""]:
        """½ log |2πeΣ|, in nats."""
        return 0.5 * (self._log_determinant(self.covariance) + self.dimension * (1.0 + LOG_2PI))

    def kl(self, other: "Gaussian") -> Float[Array, ""]:
        """KL(self ‖ other) = ½ [tr(Σ₂⁻¹Σ₁) + (μ₂-μ₁)ᵀΣ₂⁻¹(μ₂-μ₁) - d + log |Σ₂|/|Σ₁|], in nats."""
        mine = linalg.cholesky(self.covariance, "covariance")
        theirs = linalg.cholesky(other.covariance, "covariance of the other Gaussian")
        trace = linalg.quadratic(theirs, mine).sum()
        distance = linalg.quadratic(theirs, other.mean - self.mean)
        ratio = linalg.log_determinant(theirs) - linalg.log_determinant(mine)
        return 0.5 * (trace + distance - self.dimension + ratio)

    def mutual_information(self, index_a: Index, index_b: Index) -> Float[Array, ""]:
        """I(x[a]; x[b]) = ½ log |Σₐₐ||Σᵦᵦ| / |Σ₍ₐᵦ₎₍ₐᵦ₎| for disjoint a and b, in nats."""
        a, b = self._index(index_a), self._index(index_b)
        if np.intersect1d(a, b).size:
            raise DataError(
                f"coordinates {np.intersect1d(a, b).tolist()} are in both sets; a variable has infinite mutual "
                "information with itself: give disjoint indices"
            )
        parts = [self._log_determinant(self.marginal(i).covariance) for i in (a, b, np.concatenate([a, b]))]
        return 0.5 * (parts[0] + parts[1] - parts[2])

    def sample(self, n: int = 1, *, seed: int = 0) -> Float[Array, "n d"]:
        """n draws; `draw` with a seed."""
        return self.draw(jr.key(seed), n)

    def draw(self, key: Key[Array, ""], n: int) -> Float[Array, "n d"]:
        """n draws μ + Lz with LLᵀ = Σ and z ~ N(0, I); a singular Σ gets the jitter of `linalg.cholesky`."""
        # Σ = 0 is a point mass, with no scale for a jitter to be relative to.
        xp, point = namespace(self), (self.covariance == 0).all()
        root = linalg.cholesky(xp.where(point, np.eye(self.dimension), self.covariance), "covariance")
        z = host(jr.normal(key, (n, self.dimension), self.mean.dtype))
        return self.mean + z @ xp.where(point, 0.0, root).T

    def draw_forward(self, key: Key[Array, ""], n: int) -> Float[Array, "n d"]:
        """n draws, one coordinate after the other from p(xᵢ | x₁…xᵢ₋₁), and no factorization.

        Having drawn xᵢ, condition the rest on it: μ ← μ + Σ·ᵢ(xᵢ - μᵢ)/Σᵢᵢ, Σ ← Σ - Σ·ᵢΣᵢ·/Σᵢᵢ. A coordinate
        without variance left is known and takes its conditional mean.
        """
        xp, d = namespace(self), self.dimension
        floor = d * np.finfo(self.mean.dtype).eps * self.variance
        z = host(jr.normal(key, (d, n), self.mean.dtype))
        means, covariance, values = xp.broadcast_to(self.mean, (n, d)), self.covariance, []
        for i in range(d):
            variance = covariance[i, i]
            free = variance > floor[i]
            value = means[:, i] + xp.where(free, xp.sqrt(xp.maximum(variance, 0.0)), 0.0) * z[i]
            gain = xp.where(free, covariance[:, i] / xp.where(free, variance, 1.0), 0.0)
            means = means + (value - means[:, i])[:, None] * gain
            covariance = covariance - gain[:, None] * covariance[i]
            values.append(value)
        return namespace(values).stack(values, axis=1)

    def _index(self, index: Index) -> np.ndarray:
        """The coordinates as non-negative integers, checked."""
        i = np.atleast_1d(np.asarray(index))
        d = self.dimension
        if i.ndim != 1 or not np.issubdtype(i.dtype, np.integer) or np.any((i < -d) | (i >= d)):
            raise DataError(f"index must name coordinates between 0 and {d - 1}, found {index!r}")
        if len(np.unique(i % d)) != len(i):
            raise DataError(f"index must name each coordinate once, found {index!r}")
        return i % d

    @staticmethod
    def _log_determinant(covariance: Float[Array, "k k"]) -> Float[Array, ""]:
        return linalg.log_determinant(linalg.cholesky(covariance, "covariance"))
