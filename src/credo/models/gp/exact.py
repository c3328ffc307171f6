"""Exact inference: the numbers behind `GP`.

With K = k(X, X) + diag(noise) = LLᵀ, r = y - m(X) and α = K⁻¹r:

    mean*  = m(x*) + k(x*, X) α
    cov*   = k(x*, x*) - V*ᵀV*,    V* = L⁻¹ k(X, x*)
    log p  = -½ rᵀα - Σ log Lᵢᵢ - n/2 log 2π

Rasmussen & Williams (2006), algorithm 2.1. Under `jit` everything stays in XLA. Outside it, on a CPU, factorizations
and triangular solves go to LAPACK, and predictions in chunks, in bounded memory.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, is_traced, put_all
from credo.core.device import aligned_empty
from credo.core.linalg import factorize, gaussian_log_evidence, lapack, solve, solve_lower
from credo.core.linalg.factor import REMEDY
from credo.core.padding import bucket, by_bucket, pad_rows
from credo.kernels import Kernel
from credo.models.gp.data import Rows, pack
from credo.models.gp.means import Mean

CHUNK = 2**22
"""The entries of k(x*, X) that exist at a time."""

TILE = 512
"""The rows and columns of k(X, X) that are computed at a time."""

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


def on_host(*values: object) -> bool:
    """Whether LAPACK does it: nothing is traced, and this is a CPU."""
    return not is_traced(values) and jax.default_backend() == "cpu"


def covariance(prior: GPPrior, rows: Rows) -> Float[Array, "c c"]:
    """k(X, X) + diag(noise), rows of the identity where there is padding."""
    k = prior.kernel.gram(rows.x, rows.x)
    both = rows.mask[:, None] & rows.mask[None, :]
    noise = jnp.where(rows.mask, prior.noise * rows.scale + rows.extra, 1.0)
    return jnp.where(both, k, 0.0) + jnp.diag(noise)


def residual(prior: GPPrior, rows: Rows) -> Float[Array, " c"]:
    """y - m(X), zero on padding."""
    return jnp.where(rows.mask, rows.y - prior.mean(rows.x), 0.0)


def condition(prior: GPPrior, rows: Rows) -> tuple[Cholesky, Bool[Array, ""] | bool]:
    """The posterior after `rows`, and whether the covariance was positive definite."""
    if not on_host(prior, rows):
        return _condition(prior, rows)
    x, noise = np.asarray(rows.x), float(prior.noise) * np.asarray(rows.scale) + np.asarray(rows.extra)
    size, n = len(x), rows.n

    def fill(out: np.ndarray) -> None:
        """k(X, X) + diag(noise) left of the diagonal, tile by tile: a matrix of 20 000 rows exists once."""
        for i in range(0, size, TILE):
            a = slice(i, min(i + TILE, size))
            for j in range(0, i + 1, TILE):
                b = slice(j, min(j + TILE, size))
                out[a, b] = gram(prior.kernel, x[a], x[b])
        out[n:] = 0.0
        np.fill_diagonal(out, np.where(np.arange(size) < n, out.diagonal() + noise, 1.0))

    root = aligned_empty((size, size))
    _, ok = lapack.factor_inplace(root, fill, np.asarray(rows.mask, dtype=float))
    return _solved(root, prior, rows), ok


@eqx.filter_jit
def _condition(prior: GPPrior, rows: Rows) -> tuple[Cholesky, Bool[Array, ""]]:
    factor = factorize(covariance(prior, rows), rows.mask)
    return Cholesky(factor.root, solve(factor.root, residual(prior, rows))), factor.ok


def _solved(root: np.ndarray, prior: GPPrior, rows: Rows) -> Cholesky:
    r = np.where(rows.mask, np.asarray(rows.y) - prior.mean.on_host(rows.x), 0.0)
    return Cholesky(*put_all(root, lapack.solve_factored(root, r)))


@eqx.filter_jit
def gram(kernel: Kernel, x: Array | np.ndarray, z: Array | np.ndarray) -> Float[Array, "a b"]:
    """k(x, z), compiled."""
    return kernel.gram(jnp.asarray(x), jnp.asarray(z))


def evidence(prior: GPPrior, rows: Rows) -> Float[Array, ""]:
    """log p(y | X); traceable."""
    return gaussian_log_evidence(covariance(prior, rows), residual(prior, rows), rows.mask)


def evidence_after(prior: GPPrior, seen: Rows, solved: Cholesky, rows: Rows) -> Float[Array, ""]:
    """log p(y | X, what was seen), by the chain rule."""
    cross = jnp.where(seen.mask[:, None], prior.kernel.gram(seen.x, rows.x), 0.0)
    half = solve_lower(solved.root, cross)
    mean = cross.T @ solved.alpha
    both = rows.mask[:, None] & rows.mask[None, :]
    reduced = covariance(prior, rows) - jnp.where(both, half.T @ half, 0.0)
    return gaussian_log_evidence(reduced, jnp.where(rows.mask, residual(prior, rows) - mean, 0.0), rows.mask)


# -- more rows ---------------------------------------------------------------------------------------------------


def extend(prior: GPPrior, rows: Rows, solved: Cholesky, n: int) -> tuple[Cholesky, bool]:
    """The posterior after `rows`, of which the first n were solved before, in O(n²).

    [[L, 0], [Wᵀ, M]] with W = L⁻¹k(X, X'), MMᵀ = K' - WᵀW.
    """
    old, (size, total) = np.asarray(solved.root), (rows.capacity, rows.n)
    k = total - n
    new = pack(*(v[n:] for v in rows.cut()), size=1 << (k - 1).bit_length())
    cross, corner = (np.asarray(v)[:k] for v in _borders(prior, rows.x, new))
    w = np.zeros((k, len(old)))
    w[:, :n] = cross[:, :n]
    lapack.solve_rows_inplace(old, w)
    inner = np.empty((k, k))
    _, ok = lapack.factor_inplace(inner, lambda out: np.copyto(out, corner[:, :k] - w @ w.T), np.ones(k))
    root = aligned_empty((size, size))
    root[n:], root[:n, n:] = 0.0, 0.0
    np.fill_diagonal(root[n:, n:], 1.0)
    root[:n, :n], root[n:total, :n], root[n:total, n:total] = old[:n, :n], w[:, :n], inner
    return _solved(root, prior, rows), ok


@eqx.filter_jit
def _borders(prior: GPPrior, x: Float[Array, "c d"], new: Rows) -> tuple[Float[Array, "b c"], Float[Array, "b b"]]:
    """k(X', X) and K'."""
    return prior.kernel.gram(new.x, x), covariance(prior, new)


# -- predictions -------------------------------------------------------------------------------------------------


class Latent(NamedTuple):
    """The function at the queries: mean and variance."""

    mean: Float[Array, " m"]
    variance: Float[Array, " m"]


def predict(prior: GPPrior, seen: Rows | None, solved: Cholesky | None, x: Array | np.ndarray) -> Latent:
    """The function at each of the rows x, on its own."""
    if seen is not None and solved is not None and on_host(prior, seen, solved, x):
        return _predict_on_host(prior, seen, solved, np.asarray(x))
    return Latent(*by_bucket(_latent, x, prior, seen, solved))


@eqx.filter_jit
def _latent(x: Float[Array, "m d"], prior: GPPrior, seen: Rows | None, solved: Cholesky | None) -> Latent:
    if seen is None or solved is None:
        return Latent(prior.mean(x), prior.kernel.diagonal(x))
    mean, variance, cross = _pieces(prior, seen, solved.alpha, x)
    return Latent(mean, jnp.maximum(variance - jnp.square(solve_lower(solved.root, cross.T)).sum(0), 0.0))


@eqx.filter_jit
def _pieces(
    prior: GPPrior, seen: Rows, alpha: Float[Array, " c"], x: Float[Array, "m d"]
) -> tuple[Float[Array, " m"], Float[Array, " m"], Float[Array, "m c"]]:
    """mean*, k(x*, x*) and k(x*, X), zero on padding."""
    cross = jnp.where(seen.mask[None, :], prior.kernel.gram(x, seen.x), 0.0)
    return prior.mean(x) + cross @ alpha, prior.kernel.diagonal(x), cross


def _predict_on_host(prior: GPPrior, seen: Rows, solved: Cholesky, x: np.ndarray) -> Latent:
    m, c = x.shape[0], seen.capacity
    root = np.asarray(solved.root)
    many = m >= 2 * c  # then inverting the triangle once pays
    triangle = lapack.invert_triangle(root) if many else root
    size = min(bucket(m), max(bucket(CHUNK // c), 16))
    work = np.empty((size, c))
    mean, variance = np.empty(m), np.empty(m)
    for start in range(0, m, size):
        part = x[start : start + size]
        k = len(part)
        mu, diagonal, cross = _pieces(prior, seen, solved.alpha, pad_rows(part, size))
        np.copyto(work, np.asarray(cross))
        (lapack.multiply_rows_inplace if many else lapack.solve_rows_inplace)(triangle, work)
        explained = np.einsum("ij,ij->i", work, work)
        mean[start : start + k] = np.asarray(mu)[:k]
        variance[start : start + k] = np.maximum(np.asarray(diagonal) - explained, 0.0)[:k]
    return Latent(*put_all(mean, variance))


@eqx.filter_jit
def joint(
    prior: GPPrior, seen: Rows | None, solved: Cholesky | None, x: Float[Array, "m d"], z: Float[Array, "q d"]
) -> Float[Array, "m q"]:
    """The posterior covariance of the function between two sets of queries."""
    k = prior.kernel.gram(x, z)
    if seen is None or solved is None:
        return k
    left = jnp.where(seen.mask[:, None], prior.kernel.gram(seen.x, x), 0.0)
    right = jnp.where(seen.mask[:, None], prior.kernel.gram(seen.x, z), 0.0)
    return k - solve_lower(solved.root, left).T @ solve_lower(solved.root, right)


@eqx.filter_jit
def leave_one_out(rows: Rows, solved: Cholesky) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """Mean and variance of each outcome given all others: yᵢ - αᵢ/[K⁻¹]ᵢᵢ and 1/[K⁻¹]ᵢᵢ.

    Rasmussen & Williams (2006), eq. 5.12. [K⁻¹]ᵢᵢ is the squared length of column i of L⁻¹.
    """
    half = solve_lower(solved.root, jnp.eye(rows.capacity))
    precision = jnp.square(half).sum(0)
    return rows.y - solved.alpha / precision, 1.0 / precision
