"""A diagonal plus a matrix of low rank, A = D + U C Uᵀ, without ever forming A.

The covariance of factor analysis, of Bayesian linear regression seen from the data, and of every
inducing-point Gaussian process.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core.linalg import factor


class LowRank(eqx.Module):
    """A = D + U C Uᵀ: D = `diag` > 0 (n), U = `basis` (n × k), C = `core` (k × k), the identity if None.

    With R = U chol(C) and the capacitance matrix S = I + RᵀD⁻¹R, whose eigenvalues are at least 1,

        A⁻¹ = D⁻¹ - D⁻¹R S⁻¹ RᵀD⁻¹   (matrix inversion lemma)
        log|A| = log|D| + log|S|      (determinant lemma)

    in O(nk²). Rasmussen & Williams (2006), appendix A.3.
    """

    diag: Float[Array, "n"]
    basis: Float[Array, "n k"]
    core: Float[Array, "k k"] | None = None

    def matmul(self, v: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
        """A v."""
        inner = self.basis.T @ v
        return _rows(self.diag, v) + self.basis @ (inner if self.core is None else self.core @ inner)

    def solve(self, b: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
        """A⁻¹ b."""
        scaled, capacitance = self._capacitance()
        return _rows(1.0 / self.diag, b) - scaled @ factor.solve(capacitance, scaled.T @ b)

    def log_determinant(self) -> Float[Array, ""]:
        """log |A|."""
        return jnp.log(self.diag).sum() + factor.log_determinant(self._capacitance()[1])

    def log_evidence(self, residual: Float[Array, "n"]) -> Float[Array, ""]:
        """log N(residual | 0, A), the solve and the determinant from one factorization."""
        scaled, capacitance = self._capacitance()
        quadratic = jnp.sum(residual**2 / self.diag) - factor.quadratic(capacitance, scaled.T @ residual)
        log_determinant = jnp.log(self.diag).sum() + factor.log_determinant(capacitance)
        return -0.5 * (quadratic + log_determinant + len(residual) * np.log(2.0 * np.pi))

    def diagonal(self) -> Float[Array, "n"]:
        """The diagonal of A."""
        return self.diag + jnp.square(self._root()).sum(1)

    def to_dense(self) -> Float[Array, "n n"]:
        """A as a matrix, for small n and for tests."""
        root = self._root()
        return jnp.diag(self.diag) + root @ root.T

    def _root(self) -> Float[Array, "n k"]:
        """R with RRᵀ = U C Uᵀ."""
        return self.basis if self.core is None else self.basis @ factor.cholesky(self.core, "core")

    def _capacitance(self) -> tuple[Float[Array, "n k"], Float[Array, "k k"]]:
        """D⁻¹R and the Cholesky factor of S."""
        root = self._root()
        scaled = root / self.diag[:, None]
        s = jnp.eye(root.shape[1], dtype=root.dtype) + root.T @ scaled
        return scaled, factor.cholesky(s, "the capacitance matrix I + RᵀD⁻¹R")


def _rows(weights: Float[Array, "n"], v: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
    """diag(weights) v."""
    return weights * v if v.ndim == 1 else weights[:, None] * v
