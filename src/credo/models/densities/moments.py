"""Sums over rows that every Gaussian density needs, written so that a million rows pass through the cache once."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Bool, Float

from credo.core.arrays import Array, namespace
from credo.core.scan import Counter, repeat
from credo.models.conjugate.matrix import solve_triangles

S = TypeVar("S")

ROWS = 2048
"""So many rows at a time: their features stay in the cache."""

UNROLLED = 24
"""Sums of up to so many terms are written out, so that XLA makes one loop over (t, k) of them."""


def weighted_sums(
    weight: Float[Array, "t k"], features: Callable[..., Float[Array, "r f"]], *tables: Array
) -> Float[Array, "k f"]:
    """weightᵀ features(tables), block by block of rows: the table of features is never held as a whole."""
    t = weight.shape[0]
    blocks = t // ROWS
    split = blocks * ROWS

    def part(*block: Array) -> Array:
        return (features(*block[1:]).T @ block[0]).T  # faster in this order

    def step(total: Array, block: tuple[Array, ...]) -> tuple[Array, None]:
        return total + part(*block), None

    if blocks == 0 or namespace(weight, tables) is np:
        return part(weight, *tables)
    rows = tuple(a[:split].reshape(blocks, ROWS, *a.shape[1:]) for a in (weight, *tables))
    shape = jax.eval_shape(part, *(a[0] for a in rows))
    nothing: Array = jnp.zeros(shape.shape, shape.dtype)
    total = lax.scan(step, nothing, rows)[0]
    return total if split == t else total + part(*(a[split:] for a in (weight, *tables)))


def second_moments(y: Float[Array, "t q"], weight: Float[Array, "t k"]) -> Float[Array, "k q q"]:
    """Σₜ weightₜₖ yₜyₜᵀ, exactly symmetric."""
    q = y.shape[1]
    i, j = np.triu_indices(q)
    if namespace(y, weight) is np:
        return np.stack([_weighted_square(np.asarray(y), np.asarray(w)) for w in weight.T])
    sums = weighted_sums(weight, lambda rows: rows[:, i] * rows[:, j], y)
    where = np.zeros((q, q), int)
    where[i, j] = where[j, i] = np.arange(len(i))
    return sums[:, where]


def _weighted_square(y: Float[np.ndarray, "t q"], weight: Float[np.ndarray, " t"]) -> Float[np.ndarray, "q q"]:
    """Σ wₜyₜyₜᵀ; only the rows with weight are touched, which for classes are few."""
    rows = np.flatnonzero(weight)
    root = y[rows] * np.sqrt(weight[rows])[:, None]
    return root.T @ root  # the very same array: a symmetric rank-k update


def inverse_roots(root: Float[Array, "*b n n"]) -> Float[Array, "*b n n"]:
    """L⁻¹ of each lower triangular L."""
    xp = namespace(root)
    return xp.tril(solve_triangles(root, xp.broadcast_to(np.eye(root.shape[-1]), root.shape)))


def squared_distances(
    whiten: Float[Array, "g d d"], coefficients: Float[Array, "k d p"], x: Float[Array, "t d"], v: Float[Array, "t p"]
) -> Float[Array, "t k"]:
    """|Aₖ(xₜ - Mₖvₜ)|² with A = `whiten` lower triangular (k, or one for all) and M = `coefficients`: no solve."""
    xp, (d, p) = namespace(whiten, coefficients, x, v), coefficients.shape[1:]
    shift = whiten @ coefficients
    if xp is np:  # products of matrices; where all share one A, the rows are whitened once
        out = np.empty((len(x), len(shift)))
        z = x @ whiten[0].T
        for i, each in enumerate(shift):
            z = x @ whiten[i].T if i and len(whiten) > 1 else z
            e = z - v @ each.T
            np.einsum("ti,ti->t", e, e, out=out[:, i])
        return out
    if d * (d + 1) // 2 + d * p > UNROLLED:
        z = xp.einsum("kji,ti->tkj", whiten, x) - xp.einsum("kjp,tp->tkj", shift, v)
        return xp.square(z).sum(-1)
    whiten = xp.broadcast_to(whiten, (shift.shape[0], d, d))
    total = xp.zeros((x.shape[0], shift.shape[0]), x.dtype)
    for j in range(d):
        mean = sum((v[:, i, None] * shift[:, j, i] for i in range(1, p)), start=v[:, :1] * shift[:, j, 0])
        z = sum((x[:, i, None] * whiten[:, j, i] for i in range(j + 1)), start=-mean)
        total = total + z * z
    return total


def lengths(whiten: Float[Array, "k p p"], v: Float[Array, "n p"]) -> Float[Array, "n k"]:
    """|Rₖv|² of each row."""
    nothing = np.zeros((whiten.shape[0], v.shape[1], 1))
    return squared_distances(whiten, nothing, v, np.ones((v.shape[0], 1)))


def add_columns(term: Callable[..., Float[Array, "t k"]], d: int, *columns: Array) -> Float[Array, "t k"]:
    """Σⱼ term(column j of each of `columns`), which are split along their second axis."""
    if d <= UNROLLED // 2 or namespace(columns) is np:
        return sum((term(*(c[:, j] for c in columns)) for j in range(1, d)), start=term(*(c[:, 0] for c in columns)))
    stacked = tuple(jnp.moveaxis(c, 1, 0) for c in columns)
    first = term(*(c[0] for c in stacked))
    return lax.scan(lambda total, c: (total + term(*c), None), first, tuple(c[1:] for c in stacked))[0]


def condition_coordinates(
    mean: Float[Array, "... d"],
    covariance: Float[Array, "... d d"],
    x: Float[Array, "... d"],
    seen: Bool[Array, "... d"],
) -> tuple[Array, Array, Array, Array]:
    """log |Σₒₒ|, (x - μ)ₒᵀΣₒₒ⁻¹(x - μ)ₒ of the seen coordinates o, and the mean and covariance of all given them.

    One coordinate after the other: with g = Σ·ⱼ/Σⱼⱼ, μ ← μ + g(xⱼ - μⱼ) and Σ ← Σ - gΣⱼ·, as
    `Gaussian.draw_forward` does; it needs no factorization of its own for each row. Leading axes are broadcast.
    """
    xp, d = namespace(mean, covariance, x, seen), x.shape[-1]

    def step(j: Counter, state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        log_det, square, center, rest = state
        here = seen[..., j]
        variance = xp.where(here, rest[..., j, j], 1.0)
        residual = xp.where(here, x[..., j] - center[..., j], 0.0)
        gain = xp.where(here[..., None], rest[..., j], 0.0) / variance[..., None]
        return (
            log_det + xp.log(variance),
            square + residual**2 / variance,
            center + gain * residual[..., None],
            rest - gain[..., None] * rest[..., j, None, :],
        )

    shape = np.broadcast_shapes(mean.shape[:-1], covariance.shape[:-2], x.shape[:-1])
    state = (
        xp.zeros(shape),
        xp.zeros(shape),
        xp.broadcast_to(mean, (*shape, d)),
        xp.broadcast_to(covariance, (*shape, d, d)),
    )
    log_det, square, center, rest = repeat(d, step, state)
    known = seen[..., :, None] | seen[..., None, :]
    rest = xp.where(known, 0.0, 0.5 * (rest + rest.swapaxes(-1, -2)))
    return log_det, square, xp.where(seen, x, center), rest


def rows_at_once(k: int, d: int) -> int:
    """So many rows that (rows, k, d, d) fits in the cache."""
    return max(16, min(4096, 2**18 // (k * d**2)))


def by_rows(function: Callable[..., Array], k: int, columns: int, *tables: Array) -> Array:
    """function(rows of each table), some at a time where they are compiled."""
    if namespace(tables) is np:
        return function(*tables)
    return lax.map(lambda row: function(*(a[None] for a in row))[0], tables, batch_size=rows_at_once(k, columns))


def sum_blocks(function: Callable[..., S], begin: S, k: int, columns: int, *tables: Array) -> S:
    """begin + Σ function(rows of each table), some at a time where they are compiled; rows of zeros add nothing."""
    if namespace(begin, tables) is np:
        return jax.tree.map(np.add, begin, function(*tables))
    rows = min(len(tables[0]), rows_at_once(k, columns))
    padded = (jnp.pad(a, ((0, -len(a) % rows), (0, 0))) for a in tables)

    def add(total: S, block: tuple[Array, ...]) -> tuple[S, None]:
        return jax.tree.map(jnp.add, total, function(*block)), None

    return lax.scan(add, begin, tuple(a.reshape(-1, rows, a.shape[1]) for a in padded))[0]
