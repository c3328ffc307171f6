"""The evidence of kernel interpolation, exactly and by Lanczos' quadrature, with its gradient (`ski.py`).

    log p = -½ [n log 2π + Σ log Dᵢ + log |I + AK| + Σ rᵢ²/Dᵢ - cᵀΣc],   β = c - AΣc
    ∂/∂K = ½ (ββᵀ - A + AΣA),    ∂/∂Dᵢ = -½ [1/Dᵢ - (wᵢᵀΣwᵢ + eᵢ²)/Dᵢ²],    e = r - Wu

Where the variance of the noise is the model's alone, A, c and the squares are sums that are computed once: a look costs
the same whatever n. From the kernel at the differences of nodes JAX pulls back to the hyperparameters.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.errors import NotPositiveDefinite
from credo.core.linalg import demand, factorize, log_determinant, plus_diagonal, solve_lower
from credo.models.gp import exact
from credo.models.gp.data import Rows
from credo.models.gp.large.iterative import conjugate_gradients, log_determinant_parts
from credo.models.gp.large.kernel_numbers import numbers_of, pull_numbers
from credo.models.gp.large.lattice import Lattice
from credo.models.gp.large.low_rank import Moments

if TYPE_CHECKING:
    from credo.models.gp.large.ski import SKIGP

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


def sums(lattice: Lattice, x: Array, u: Array, r: Array, d: Array, real: Array) -> Moments:
    """What rows say, each counting u times."""
    total = (u * r * r).sum(), namespace(d).log(d).sum(), 0.0 * real.sum(), real.sum()
    return Moments(lattice.bands(x, u), lattice.spread(x, u * r), *total)


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


def log_evidence(lattice: Lattice, table: Float[Array, " t"], moments: Moments) -> Float[Array, ""]:
    """log p(y)."""
    return _log_evidence(moments, dense_posterior(lattice, table, moments))


def _log_evidence(moments: Moments, dense: DensePosterior) -> Float[Array, ""]:
    fit = moments.squares - moments.cross @ dense.mean
    return -0.5 * (moments.n * np.log(2 * np.pi) + moments.log_noise + dense.log_determinant + fit)


class SKIObjective:
    """log p(y | X, θ) + log p(θ) of the unconstrained vector, with its gradient."""

    def __init__(self, belief: "SKIGP", slots: Any, rows: Rows, priors: dict[str, Any]):
        x, _, self._scale, self._extra = rows.cut()
        self._about = belief.unconditioned(), slots, dict(priors)
        belief.check_inside(x)
        self._lattice, self._x, self._tolerance = belief.lattice, x, belief.method.tolerance
        self._r = np.asarray(exact.residual(belief.prior, rows))[: rows.n]
        self._once = None if np.any(self._extra) else self._sums(self._scale, 1.0 / self._scale)
        self._exactly = belief.exactly

    def _sums(self, d: np.ndarray, u: np.ndarray) -> Moments:
        return sums(self._lattice, self._x, u, self._r, d, np.ones(len(d)))

    def _both(self, noise: float) -> tuple[Moments, Moments]:
        """The sums, and those in which each row counts scale/D², as the slopes of the first do."""
        if self._once is not None:
            one = self._once
            log_noise = one.log_noise + len(self._x) * np.log(noise)
            zero = np.zeros(())
            now = Moments(one.gram / noise, one.cross / noise, one.squares / noise, log_noise, zero, one.n)
            return now, jax.tree.map(lambda v: v / noise, now)
        d = noise * self._scale + self._extra
        return self._sums(d, 1.0 / d), self._sums(d, self._scale / d**2)

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self.value_and_grad(vector)[0]

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient; (-inf, 0) where it is not finite."""
        table, noise, log_prior = (np.asarray(v) for v in numbers_of(vector, *self._about))
        none = -np.inf, np.zeros_like(vector)
        try:
            value, by_table, by_noise = self._look(table, float(noise))
        except NotPositiveDefinite:
            return none
        slope = np.asarray(pull_numbers(vector, *self._about, by_table, np.asarray(by_noise)))
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return none
        return value + float(log_prior), slope

    def evidence(self, belief: "SKIGP") -> tuple[float, np.ndarray, float]:
        """log p(y | X) of the belief as it is, and its slopes."""
        return self._look(np.asarray(belief.known_table()), float(belief.noise_variance()))

    def _look(self, table: np.ndarray, noise: float) -> tuple[float, np.ndarray, float]:
        now, by = self._both(noise)
        by_log_noise = float((self._scale / (noise * self._scale + self._extra)).sum())
        if not self._exactly:
            return self._iterative(table, noise, now, by, by_log_noise)
        dense = dense_posterior(self._lattice, table, now)
        u, gram, covariance = (np.asarray(v) for v in (dense.mean, dense.gram, dense.covariance))
        beta = now.cross - gram @ u
        slope = 0.5 * (np.outer(beta, beta) - gram + gram @ covariance @ gram)
        told = float((self._lattice.banded(covariance) * by.gram).sum())
        by_noise = -0.5 * (by_log_noise - told - self._errors(u, by))
        return float(_log_evidence(now, dense)), self._lattice.pull_matrix(slope), by_noise

    def _errors(self, u: np.ndarray, by: Moments) -> float:
        """Σ e² scale/D²."""
        return float(by.squares - 2.0 * by.cross @ u + u @ self._lattice.multiply(by.gram)(u))

    def _iterative(
        self, table: np.ndarray, noise: float, now: Moments, by: Moments, by_log_noise: float
    ) -> tuple[float, np.ndarray, float]:
        kernel, gram = self._lattice.convolve(table), self._lattice.multiply(np.asarray(now.gram))
        beta = conjugate_gradients(kernel, gram, np.asarray(now.cross)[:, None], self._tolerance)
        u = kernel(beta)[:, 0]
        d, w = noise * self._scale + self._extra, self._lattice.sparse(self._x)
        root = 1.0 / np.sqrt(d)
        slope, determinant, told = 0.5 * self._lattice.pull_products(beta, np.ones(1)), 0.0, 0.0

        def times(v: np.ndarray) -> np.ndarray:
            return root * (w @ kernel(w.T @ (root * v)))

        for part in log_determinant_parts(times, len(d), PROBES, STEPS, 0):
            determinant += part.value
            seen = w.T @ (root[:, None] * part.vectors)
            slope -= 0.5 * self._lattice.pull_products(seen, part.weights)
            back = root[:, None] * (w @ kernel(seen))
            told += float((part.weights * ((self._scale / d)[:, None] * part.vectors * back).sum(0)).sum())
        fit = now.squares - now.cross @ u
        value = -0.5 * (now.n * np.log(2 * np.pi) + now.log_noise + determinant + fit)
        return float(value), slope, -0.5 * (by_log_noise - told - self._errors(u, by))
