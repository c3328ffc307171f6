"""Exact inference: the numbers behind `GP`.

With K = k(X, X) + diag(noise) = LLᵀ, r = y - m(X) and α = K⁻¹r:

    mean*  = m(x*) + k(x*, X) α
    cov*   = k(x*, x*) - V*ᵀV*,    V* = L⁻¹ k(X, x*)
    log p  = -½ rᵀα - Σ log Lᵢᵢ - n/2 log 2π

Rasmussen & Williams (2006), algorithm 2.1. Numbers that are known stay NumPy's and are worked on by LAPACK; what is
traced stays in XLA, where rows may be padded.
"""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, is_traced, namespace
from credo.core.device import physical_memory
from credo.core.errors import DataError
from credo.core.linalg import factorize, gaussian_log_evidence, inverse, plus_diagonal, solve, solve_lower
from credo.core.linalg.factor import REMEDY
from credo.core.padding import pad_rows
from credo.kernels import Kernel
from credo.models.gp.data import Rows, from_columns, masked
from credo.models.gp.means import Mean

CHUNK = 2**22
"""The entries of k(x*, X) that exist at a time."""

NOT_DEFINITE = f"the covariance of the outcomes is not positive definite or not finite. {REMEDY}"


class GPPrior(NamedTuple):
    """What is believed before data: the covariance of the function, its mean, and the noise variance."""

    kernel: Kernel
    mean: Mean
    noise: Float[Array, ""]


class Cholesky(eqx.Module):
    """The Cholesky factor L of the covariance of what was seen, and α."""

    root: Float[Array, "c c"]
    alpha: Float[Array, " c"]

    def padded(self, length: int) -> "Cholesky":
        """With rows of the identity for rows that are padding."""
        n = len(self.alpha)
        root = np.eye(length)
        root[:n, :n] = self.root
        return Cholesky(root, pad_rows(self.alpha, length))


def covariance(prior: GPPrior, rows: Rows) -> Float[Array, "c c"]:
    """k(X, X) + diag(noise); of padding whatever: a factorization that knows the mask does not look at it."""
    n = len(rows.x)
    if 16.0 * n * n > physical_memory():
        raise DataError(
            f"the covariance matrix of {n:,} rows takes {8e-9 * n * n:,.0f} GB, and its factor as much; credo.fit(gp, "
            "X, y) chooses an approximation, and condition takes one, e.g. using=Neighbours()"
        )
    return plus_diagonal(prior.kernel.between(rows.x, rows.x), prior.noise * rows.scale + rows.extra)


def residual(prior: GPPrior, rows: Rows) -> Float[Array, " c"]:
    """y - m(X), zero on padding."""
    return masked(rows.mask, rows.y - prior.mean.at(rows.x))


def condition(prior: GPPrior, rows: Rows) -> tuple[Cholesky, Bool[Array, ""]]:
    """The posterior after `rows`, and whether the covariance was positive definite."""
    factor = factorize(covariance(prior, rows), rows.mask)
    return Cholesky(factor.root, solve(factor.root, residual(prior, rows))), factor.ok


def extend(prior: GPPrior, rows: Rows, solved: Cholesky, n: int) -> tuple[Cholesky, Bool[Array, ""]]:
    """The posterior after `rows`, of which the first n were solved before, in O(n²).

    [[L, 0], [Wᵀ, M]] with W = L⁻¹k(X, X'), MMᵀ = K' - WᵀW.
    """
    old, new = solved.root[:n, :n], from_columns(v[n:] for v in rows.columns())
    w = solve_lower(old, prior.kernel.between(rows.x[:n], new.x))
    corner = factorize(covariance(prior, new) - w.T @ w)
    xp = namespace(w, corner.root)
    root = xp.block([[old, xp.zeros_like(w)], [w.T, corner.root]])
    return Cholesky(root, solve(root, residual(prior, rows))), corner.ok


def evidence(prior: GPPrior, rows: Rows) -> Float[Array, ""]:
    """log p(y | X)."""
    return gaussian_log_evidence(covariance(prior, rows), residual(prior, rows), rows.mask)


def evidence_after(prior: GPPrior, seen: Rows, solved: Cholesky, rows: Rows) -> Float[Array, ""]:
    """log p(y | X, what was seen), by the chain rule."""
    cross = masked(seen.mask, prior.kernel.between(seen.x, rows.x))
    half = solve_lower(solved.root, cross)
    unexplained = residual(prior, rows) - cross.T @ solved.alpha
    return gaussian_log_evidence(covariance(prior, rows) - half.T @ half, unexplained, rows.mask)


# -- predictions -------------------------------------------------------------------------------------------------


class Latent(NamedTuple):
    """The function at the queries: mean and variance."""

    mean: Float[Array, " m"]
    variance: Float[Array, " m"]


def predict(prior: GPPrior, seen: Rows | None, solved: Cholesky | None, x: Float[Array, "m d"]) -> Latent:
    """The function at each of the rows x, on its own; of many that are known some at a time, in bounded memory."""
    if seen is None or solved is None:
        return Latent(prior.mean.at(x), prior.kernel.variance_at(x))
    size = max(CHUNK // len(seen.x), 16)
    if len(x) <= size or is_traced(prior, seen, solved, x):
        return _predict(prior, seen, solved, x)
    parts = [_predict(prior, seen, solved, x[i : i + size]) for i in range(0, len(x), size)]
    return Latent(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _predict(prior: GPPrior, seen: Rows, solved: Cholesky, x: Float[Array, "m d"]) -> Latent:
    cross = masked(seen.mask, prior.kernel.between(x, seen.x).T)
    half = solve_lower(solved.root, cross)
    variance = prior.kernel.variance_at(x) - (half * half).sum(0)
    return Latent(prior.mean.at(x) + cross.T @ solved.alpha, namespace(variance).maximum(variance, 0.0))


def joint(
    prior: GPPrior, seen: Rows | None, solved: Cholesky | None, x: Float[Array, "m d"], z: Float[Array, "q d"]
) -> Float[Array, "m q"]:
    """The posterior covariance of the function between two sets of queries."""
    k = prior.kernel.between(x, z)
    if seen is None or solved is None:
        return k
    left, right = (solve_lower(solved.root, masked(seen.mask, prior.kernel.between(seen.x, v))) for v in (x, z))
    return k - left.T @ right


def leave_one_out(rows: Rows, solved: Cholesky) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """Mean and variance of each outcome given all others: yᵢ - αᵢ/[K⁻¹]ᵢᵢ and 1/[K⁻¹]ᵢᵢ.

    Rasmussen & Williams (2006), eq. 5.12.
    """
    precision = inverse(solved.root).diagonal()
    return rows.y - solved.alpha / precision, 1.0 / precision
