"""The evidence of kernel interpolation, exactly and by Lanczos' quadrature, with its gradient (`ski.py`).

log p = -½ [n log 2π + Σ log Dᵢ + log |I + AK| + Σ rᵢ²/Dᵢ - cᵀΣc],   β = c - AΣc
∂/∂K = ½ (ββᵀ - A + AΣA)
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.linalg import demand, factorize, log_determinant, plus_diagonal, solve_lower
from credo.models.gp import exact
from credo.models.gp.large.iterative import conjugate_gradients, log_determinant_parts
from credo.models.gp.large.kernel_numbers import Look
from credo.models.gp.large.lattice import Lattice
from credo.models.gp.large.low_rank import Moments

PROBES, STEPS = 10, 60
"""Of the log determinant where nodes are many."""


class DensePosterior(NamedTuple):
    """The same by dense matrices: LLᵀ = K_UU, RRᵀ = I + LᵀAL, Σ = HHᵀ."""

    mean: Float[Array, " m"]
    half: Float[Array, "m m"]
    log_determinant: Float[Array, ""]
    gram: Float[Array, "m m"]

    @property
    def covariance(self) -> Float[Array, "m m"]:
        """Σ."""
        return self.half @ self.half.T


def dense_posterior(lattice: Lattice, table: Float[Array, " t"], moments: Moments) -> DensePosterior:
    """The values on the grid after the rows."""
    found = factorize(lattice.matrix(table))
    root = demand(found.root, found.ok, exact.NOT_DEFINITE)
    gram = lattice.dense(moments.gram)
    inner = root.T @ (gram @ root)
    whole = factorize(plus_diagonal(0.5 * (inner + inner.T), namespace(inner).ones(len(inner))))
    factor = demand(whole.root, whole.ok, exact.NOT_DEFINITE)
    half = solve_lower(factor, root.T).T
    return DensePosterior(half @ (half.T @ moments.cross), half, log_determinant(factor), gram)


def log_evidence(moments: Moments, mean: Float[Array, " m"], log_determinant: Any) -> Float[Array, ""]:
    """log p(y)."""
    fit = moments.squares - moments.cross @ mean
    return -0.5 * (moments.n * np.log(2 * np.pi) + moments.log_noise + log_determinant + fit)


def dense_slopes(lattice: Lattice, table: np.ndarray, look: Look) -> tuple[float, np.ndarray, float]:
    """log p(y), its slopes in the table, and what the rows say of that in the noise."""
    dense = dense_posterior(lattice, table, look.now)
    u, gram, covariance = (np.asarray(v) for v in (dense.mean, dense.gram, dense.covariance))
    beta = look.now.cross - gram @ u
    slope = 0.5 * (np.outer(beta, beta) - gram + gram @ covariance @ gram)
    told = float((lattice.banded(covariance) * look.by.gram).sum())
    value = float(log_evidence(look.now, dense.mean, dense.log_determinant))
    return (
        value,
        lattice.pull_matrix(slope),
        told + look.squared_errors(u, lattice.multiply(np.asarray(look.by.gram))(u)),
    )


def iterative_slopes(
    lattice: Lattice, table: np.ndarray, look: Look, tolerance: float
) -> tuple[float, np.ndarray, float]:
    """The same by conjugate gradients and Lanczos' quadrature."""
    now, kernel, w = look.now, lattice.convolve(table), lattice.sparse(look.x)
    beta = conjugate_gradients(
        kernel, lattice.multiply(np.asarray(now.gram)), np.asarray(now.cross)[:, None], tolerance
    )
    u, root = kernel(beta)[:, 0], 1.0 / np.sqrt(look.d)
    slope, determinant = 0.5 * lattice.pull_products(beta, np.ones(1)), 0.0
    told = look.squared_errors(u, lattice.multiply(np.asarray(look.by.gram))(u))

    def times(v: np.ndarray) -> np.ndarray:
        return root * (w @ kernel(w.T @ (root * v)))

    for part in log_determinant_parts(times, len(root), PROBES, STEPS, 0):
        determinant += part.value
        seen = w.T @ (root[:, None] * part.vectors)
        slope -= 0.5 * lattice.pull_products(seen, part.weights)
        back = root[:, None] * (w @ kernel(seen))
        told += float((part.weights * ((look.scale / look.d)[:, None] * part.vectors * back).sum(0)).sum())
    return float(log_evidence(now, u, determinant)), slope, told
