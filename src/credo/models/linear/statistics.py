"""What a linear model keeps of its data: sums that add, in one pass, in bounded memory.

With design rows φ̃ᵢ = (1, φ(xᵢ)), weights wᵢ and outcomes yᵢ measured from a reference:

    gram = Σ wᵢ φ̃ᵢ φ̃ᵢᵀ,   cross = Σ wᵢ φ̃ᵢ yᵢ,   square = Σ wᵢ yᵢ²,   n,   Σ log wᵢ.

They are computed in NumPy, whose BLAS is faster than XLA's on a CPU; while tracing, in JAX.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, is_traced
from credo.core.checks import ArrayLike, check_positive, check_table, check_vector
from credo.core.errors import DataError
from credo.core.padding import by_bucket
from credo.models.features import Affine, Features

BLOCK = 2**25
"""Bytes of design matrix held at a time: what does not fit the cache need not fit the memory."""


class Statistics(eqx.Module):
    """Sufficient statistics of a linear model with Gaussian noise; they add, and they subtract."""

    n: Float[Array, ""]
    log_weight: Float[Array, ""]
    gram: Float[Array, "p p"]
    cross: Float[Array, " p"]
    square: Float[Array, ""]

    def __add__(self, other: "Statistics") -> "Statistics":
        return jax.tree.map(jnp.add, self, other)

    def __sub__(self, other: "Statistics") -> "Statistics":
        return jax.tree.map(jnp.subtract, self, other)

    def residual(self, weights: Float[Array, " p"]) -> Float[Array, ""]:
        """Σ wᵢ (yᵢ - φ̃ᵢᵀθ)²."""
        return self.square - 2 * weights @ self.cross + weights @ self.gram @ weights


class Rows(eqx.Module):
    """The rows themselves, for noise models without sufficient statistics; padding has weight zero."""

    design: Float[Array, "n p"]
    y: Float[Array, " n"]
    weights: Float[Array, " n"]

    def __add__(self, other: "Rows") -> "Rows":
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), self, other)


Seen = Statistics | Rows
"""What is kept of data."""


class Chunk(NamedTuple):
    """A block of checked rows."""

    x: Array
    y: Array
    weights: Array | None
    verify: Callable[[], object]
    """Raises where x is not finite; `read_chunks(finite=False)` leaves that to whoever sums over x."""


def read_chunks(
    data: tuple[ArrayLike, ...], weights: ArrayLike, columns: int | None, finite: bool = True
) -> Iterator[Chunk]:
    """The data as checked chunks: one for a table and its outcomes, many for an iterable of (X, y) pairs."""

    def checked(x: ArrayLike, y: ArrayLike, w: ArrayLike, of: str = "") -> Chunk:
        table = check_table(x, f"X{of}", columns, finite)
        n = table.shape[0]
        each = None if w is None else check_positive(w, f"weights{of}", n)
        return Chunk(table, check_vector(y, f"y{of}", n), each, partial(check_table, x, f"X{of}"))

    if len(data) == 2:
        yield checked(data[0], data[1], weights)
        return
    if len(data) != 1 or not isinstance(data[0], Iterable) or hasattr(data[0], "shape"):
        raise DataError(
            f"a linear model is conditioned on X and y, or on one iterable of (X, y) chunks; found {len(data)} argument"
            f"{'s' * (len(data) != 1)}"
        )
    if weights is not None:
        raise DataError("weights go with a table; for chunks yield (X, y, weights)")
    empty = True
    for i, item in enumerate(data[0]):
        if not isinstance(item, tuple) or len(item) not in (2, 3):
            raise DataError(f"chunk {i} must be a tuple (X, y) or (X, y, weights), found {type(item).__name__}")
        chunk = checked(item[0], item[1], item[2] if len(item) == 3 else None, f" of chunk {i}")
        columns, empty = chunk.x.shape[1], False
        yield chunk
    if empty:
        raise DataError("the iterable of chunks was empty; a generator can be used only once: pass a fresh one")


@eqx.filter_jit
def _expand(features: Features, x: Array) -> Array:
    return features(x)


def expand(features: Features, x: Array | np.ndarray) -> Any:
    """φ(x), compiled once per bucket of rows; NumPy where x is."""
    if is_traced(x, features):
        return features(jnp.asarray(x))
    if isinstance(features, Affine) and features.is_identity:
        return x
    phi = by_bucket(lambda rows, f: _expand(f, rows), x, features)
    return phi if is_traced(phi) else np.asarray(phi)


def design(features: Features, x: Array | np.ndarray, intercept: bool) -> Array:
    """The design matrix Φ̃: feature rows, with a column of ones in front where there is an intercept."""
    phi = expand(features, x)
    if not intercept:
        return phi
    xp = jnp if is_traced(phi) else np
    return xp.concatenate([xp.ones((phi.shape[0], 1)), phi], axis=1)


def moments(phi: ArrayLike, y: ArrayLike, weights: ArrayLike, intercept: bool) -> Statistics:
    """The statistics of one block of feature rows; the column of ones is never formed."""
    xp = jnp if is_traced(phi, y, weights) else np
    n = phi.shape[0]
    w, log_weight = (xp.ones(n), 0.0) if weights is None else (weights, xp.log(weights).sum())
    # root.T @ root with the very same array is a symmetric rank-k update in NumPy: half the work.
    root = phi if weights is None else phi * xp.sqrt(weights)[:, None]
    weighted_y = y if weights is None else w * y
    with np.errstate(all="ignore"):  # what is not finite shows in the sums
        gram = root.T @ root
        column, cross = xp.stack([w, weighted_y]) @ phi
    if intercept:
        gram = xp.block([[xp.reshape(w.sum(), (1, 1)), column[None, :]], [column[:, None], gram]])
        cross = xp.concatenate([xp.reshape(weighted_y.sum(), (1,)), cross])
    values = (float(n), log_weight, gram, cross, weighted_y @ y)
    return Statistics(*(jnp.asarray(v, dtype=float) for v in values))


def collect(features: Features, chunks: Iterable[Chunk], reference: ArrayLike, intercept: bool) -> Statistics:
    """The statistics of all chunks under fixed features, block by block; y is measured from `reference`."""
    total: Statistics | None = None
    for chunk in chunks:
        width = features.size(chunk.x.shape[1])
        # Features that copy are expanded a block at a time; the identity needs no copy at all.
        whole = is_traced(chunk) or (isinstance(features, Affine) and features.is_identity)
        step = chunk.x.shape[0] if whole else max(1, BLOCK // (8 * max(width, 1)))
        for start in range(0, chunk.x.shape[0], step):
            cut = slice(start, start + step)
            w = None if chunk.weights is None else chunk.weights[cut]
            y = chunk.y[cut] - (reference if is_traced(chunk, reference) else np.asarray(reference))
            part = moments(expand(features, chunk.x[cut]), y, w, intercept)
            _check_finite(part, chunk)
            total = part if total is None else total + part
    assert total is not None  # read_chunks refuses empty data
    return total


def collect_standardized(chunks: Iterable[Chunk], intercept: bool) -> tuple[Affine, float, float, Statistics]:
    """`Affine` features adapted to the data, the mean and variance of y, and the statistics under them: one pass.

    Sums are taken about the means of the first chunk, so that large offsets (years, temperatures in kelvin)
    do not cancel, and moved to the overall means at the end.
    """
    total: Statistics | None = None
    for chunk in chunks:
        if total is None:
            pilot = _pilot(chunk.x)
            offset = float(chunk.y.mean())
        x = chunk.x if pilot is None else chunk.x - pilot
        part = moments(x, chunk.y - offset, chunk.weights, True)
        _check_finite(part, chunk)
        total = part if total is None else total + part
    assert total is not None
    gram, cross, square = np.asarray(total.gram), np.asarray(total.cross), float(total.square)
    weight = gram[0, 0]
    x_mean, y_mean = gram[0, 1:] / weight, cross[0] / weight
    centred = gram[1:, 1:] - weight * np.outer(x_mean, x_mean)
    variance = np.maximum(np.diag(centred) / weight, 0.0)
    floor = 1e-24 * (np.diag(gram)[1:] / weight)
    scale = np.where(variance > floor, np.sqrt(variance), 1.0)
    shift = x_mean if pilot is None else x_mean + pilot
    y_variance = max(square / weight - y_mean**2, 0.0)
    p = len(scale)
    if not intercept:
        # Without an intercept columns are scaled, not shifted, and y keeps its origin.
        return _scaled_only(total, pilot, scale, offset, y_mean, y_variance)
    full_gram = np.zeros((p + 1, p + 1))
    full_gram[0, 0] = weight
    full_gram[1:, 1:] = centred / np.outer(scale, scale)
    full_cross = np.concatenate([[0.0], (cross[1:] - x_mean * cross[0]) / scale])
    sums = (jnp.asarray(v) for v in (full_gram, full_cross, weight * y_variance))
    return Affine(shift=shift, scale=scale), offset + y_mean, y_variance, Statistics(total.n, total.log_weight, *sums)


def _scaled_only(
    total: Statistics, pilot: np.ndarray | None, scale: np.ndarray, offset: float, y_mean: float, y_variance: float
) -> tuple[Affine, float, float, Statistics]:
    gram, cross = np.asarray(total.gram), np.asarray(total.cross)
    back = np.zeros(len(scale)) if pilot is None else pilot
    weight, column = gram[0, 0], gram[0, 1:]
    raw_gram = gram[1:, 1:] + np.outer(back, column) + np.outer(column, back) + weight * np.outer(back, back)
    raw_cross = cross[1:] + back * cross[0] + offset * (column + weight * back)
    raw_square = float(total.square) + 2 * offset * cross[0] + weight * offset**2
    size = np.sqrt(np.diag(raw_gram) / weight)
    size = np.where(size > 0, size, 1.0)
    sums = (jnp.asarray(v) for v in (raw_gram / np.outer(size, size), raw_cross / size, raw_square))
    statistics = Statistics(total.n, total.log_weight, *sums)
    return Affine(shift=np.zeros(len(size)), scale=size), 0.0, y_variance + (offset + y_mean) ** 2, statistics


def _pilot(x: ArrayLike) -> np.ndarray | None:
    """The means of a sample of rows, where they dwarf the spread; None where sums about zero are as good."""
    sample = x[:: max(1, x.shape[0] // 512)]
    with np.errstate(all="ignore"):  # what is not finite shows in the sums
        mean, spread = sample.mean(0), sample.std(0)
    return mean if np.any(np.abs(mean) > 10 * spread) else None


def _check_finite(statistics: Statistics, chunk: Chunk) -> None:
    if not is_traced(statistics) and not bool(np.all(np.isfinite(np.asarray(statistics.gram)))):
        chunk.verify()
        raise DataError("the squares of the features overflow; rescale X so that its values are below 1e150")
