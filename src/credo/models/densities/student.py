"""Student-t laws of the next row of a Gaussian density whose parameters are unknown: (M, Σ) integrated out.

With r = vᵀK⁻¹v, the doubt about Mv in units of the noise, and of c entries that were seen:

    all at once       x ~ t(ν - d + 1; Mv, Ψ(1 + r)/(ν - d + 1))
    column by column  xⱼ ~ t(2a; mⱼv, b(1 + r)/a)

Murphy (2012), sections 4.6.3.9 and 7.6.3.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core.arrays import Array, namespace, special
from credo.models.conjugate.matrix import MatrixNormalInverseWishart, log_determinants, roots
from credo.models.densities.gamma import NormalInverseGammas
from credo.models.densities.moments import (
    add_columns,
    by_rows,
    condition_coordinates,
    inverse_roots,
    lengths,
    squared_distances,
)

LARGE = 1e40
"""Products of seven factors below this are numbers."""


def log_student(
    half_df: Array, count: Array | float, log_det: Array, square: Array, doubt: Array
) -> Float[Array, "..."]:
    """log t of c entries: log Γ(h + c/2)/Γ(h) - ½(c log π + log|Ψ| + c log(1 + r)) - (h + c/2) log(1 + s/(1 + r)).

    h is half the degrees of freedom and s the squared distance by Ψ, of which the scale matrix is (1 + r)/2h times.
    """
    xp, gammaln = namespace(half_df, count, log_det, square, doubt), special(half_df, count).gammaln
    constant = gammaln(half_df + 0.5 * count) - gammaln(half_df)
    inside = count * np.log(np.pi) + log_det + count * xp.log1p(doubt)
    return constant - 0.5 * inside - (half_df + 0.5 * count) * xp.log1p(square / (1 + doubt))


def of_rows(
    q: MatrixNormalInverseWishart,
    y: Float[Array, "n d"],
    v: Float[Array, "n p"],
    seen: Bool[Array, "n d"],
    complete: bool,
) -> Float[Array, "n k"]:
    """log t of the seen entries of each row; what was not seen is left out of Ψ, the degrees of freedom stay."""
    (k, d, _), xp = q.mean.shape, namespace(q, y, v)
    half, doubt = 0.5 * xp.broadcast_to(q.df - d + 1, (k,)), lengths(inverse_roots(roots(q.precision)), v)
    if complete:
        root = roots(q.scale)
        square = squared_distances(inverse_roots(root), q.mean, y, v)
        value = log_student(half, float(d), log_determinants(root), square, doubt)
        return xp.where(seen[:, :1], value, 0.0)
    scale = xp.broadcast_to(q.scale, (k, d, d))

    def rows(y: Array, v: Array, seen: Array, doubt: Array) -> Array:
        mean = xp.einsum("kdp,np->nkd", q.mean, v)
        log_det, square, _, _ = condition_coordinates(mean, scale, y[:, None], seen[:, None])
        return log_student(half, 1.0 * seen.sum(1, keepdims=True), log_det, square, doubt)

    return by_rows(rows, k, d, y, v, seen, doubt)


def of_columns(
    q: NormalInverseGammas,
    y: Float[Array, "n d"],
    v: Float[Array, "n p"],
    seen: Bool[Array, "n d"],
    complete: bool,
) -> Float[Array, "n k"]:
    """Σ log t over the seen entries; one t of all of them where the columns share σ²."""
    (k, d, p), xp = q.mean.shape, namespace(q, y, v)
    alone = q.shape.shape[1] == d
    constant_input = p == 1 and namespace(v) is np and bool(np.all(v == 1))
    whiten = inverse_roots(roots(q.precision))

    def parts(m: Array, r: Array, y: Array) -> tuple[Array, Array]:
        """(y - m·v)² and the doubt of the mean."""
        if constant_input:
            return xp.square(y[:, None] - m[:, 0]), xp.square(r[:, 0, 0])
        mean = sum((v[:, i, None] * m[:, i] for i in range(1, p)), start=v[:, :1] * m[:, 0])
        return xp.square(y[:, None] - mean), lengths(r, v)

    if alone and constant_input and complete and xp is np:
        total: Array = _of_whole_rows(q, np.asarray(y), np.square(np.asarray(whiten)[:, :, 0, 0]))
        return np.where(seen[:, :1], total, 0.0)
    if alone:

        def column(m: Array, r: Array, y: Array, s: Array, a: Array, b: Array) -> Array:
            square, doubt = parts(m, r, y)
            value = log_student(a, 1.0, xp.log(2 * b), square / (2 * b), doubt)
            return value if complete else xp.where(s[:, None], value, 0.0)

        total = add_columns(column, d, q.mean, whiten, y, seen, q.shape, q.scale)
        return xp.where(seen[:, :1], total, 0.0) if complete else total

    def sums(m: Array, r: Array, y: Array, s: Array) -> Array:
        square, doubt = parts(m, r, y)
        here = s[:, None] & xp.ones((1, k), bool)
        each = (1.0 * here, xp.where(here, xp.log1p(doubt), 0.0), xp.where(here, square / (1 + doubt), 0.0))
        return xp.concatenate(each, axis=1)

    count, logs, square = xp.split(add_columns(sums, d, q.mean, whiten, y, seen), 3, axis=1)
    a, b = q.shape[:, 0], q.scale[:, 0]
    return log_student(a, count, count * xp.log(2 * b) + logs, square / (2 * b), xp.zeros(()))


def _of_whole_rows(
    q: NormalInverseGammas, y: Float[np.ndarray, "n d"], doubt: Float[np.ndarray, "k d"]
) -> Float[np.ndarray, "n k"]:
    """`of_columns` of rows without gaps: Σⱼ pⱼ log fⱼ with the same p in all columns is p log Πⱼ fⱼ, some at a time."""
    out = np.empty((len(y), len(q.mean)))
    nothing = np.zeros(1)
    for i, (mean, shape, scale, r) in enumerate(zip(q.mean[:, :, 0], q.shape, q.scale, doubt, strict=True)):
        constant = log_student(shape, 1.0, np.log(2 * scale), nothing, r).sum()
        factor = y - mean
        factor *= factor
        factor *= 1 / (2 * scale * (1 + r))
        if np.all(shape == shape[0]) and factor.max(initial=0.0) < LARGE:
            factor += 1.0
            out[:, i] = constant - (shape[0] + 0.5) * np.log(_multiplied(_multiplied(factor))).sum(1)
        else:
            out[:, i] = constant - np.log1p(factor) @ (shape + 0.5)
    return out


def _multiplied(factor: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n h"]:
    """Half as many columns of the same product: a logarithm costs as much as ten of these."""
    half = factor.shape[1] // 2
    if not half:
        return factor
    product = factor[:, :half] * factor[:, half : 2 * half]
    if factor.shape[1] % 2:
        product[:, 0] *= factor[:, -1]
    return product


def draws(
    rng: np.random.Generator,
    q: MatrixNormalInverseWishart | NormalInverseGammas,
    which: Int[np.ndarray, " n"],
    v: Float[np.ndarray, "n p"],
) -> Float[np.ndarray, "n d"]:
    """A row of each of the components `which`: normal, over the root of a gamma draw."""
    n, d = len(which), q.mean.shape[1]
    mean, z = np.einsum("ndp,np->nd", q.mean[which], v), rng.normal(size=(n, d))
    solved = np.linalg.solve(q.precision[which], v[:, None, :, None] if q.precision.ndim == 4 else v[..., None])
    doubt = (solved[..., 0] * (v[:, None] if q.precision.ndim == 4 else v)).sum(-1)
    if isinstance(q, NormalInverseGammas):
        shape, scale = q.shape[which], q.scale[which]
        return mean + np.sqrt((1 + doubt) * scale / rng.gamma(shape)) * z
    k = q.mean.shape[0]
    df, root = np.broadcast_to(q.df, (k,))[which], np.broadcast_to(roots(q.scale), (k, d, d))
    for i in np.unique(which):
        z[which == i] = z[which == i] @ root[i].T
    return mean + z * np.sqrt((1 + doubt) / rng.chisquare(df - d + 1))[:, None]
