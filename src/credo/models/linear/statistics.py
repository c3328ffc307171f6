"""What a linear model keeps of its data: sums that add, in one pass, in bounded memory.

With design rows φ̃ᵢ = (1, φ(xᵢ)), weights wᵢ and outcomes yᵢ measured from a reference:

    gram = Σ wᵢ φ̃ᵢ φ̃ᵢᵀ,   cross = Σ wᵢ φ̃ᵢ yᵢ,   square = Σ wᵢ yᵢ²,   n,   Σ log wᵢ.

They are computed in NumPy; while tracing, in JAX.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import add, sub
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, as_float, is_traced, namespace
from credo.core.checks import ArrayLike, check_positive, check_table, check_vector, column_names
from credo.core.errors import DataError
from credo.models.features import Affine, Features

BLOCK = 2**25
"""Bytes of design matrix held at a time: what does not fit the cache need not fit the memory."""


class Statistics(eqx.Module):
    """Sufficient statistics of a linear model with Gaussian noise; they add, and they subtract."""

    n: Float[Array, ""] = eqx.field(converter=as_float)
    log_weight: Float[Array, ""] = eqx.field(converter=as_float)
    gram: Float[Array, "p p"] = eqx.field(converter=as_float)
    cross: Float[Array, " p"] = eqx.field(converter=as_float)
    square: Float[Array, ""] = eqx.field(converter=as_float)

    def __add__(self, other: "Statistics") -> "Statistics":
        return jax.tree.map(add, self, other)

    def __sub__(self, other: "Statistics") -> "Statistics":
        return jax.tree.map(sub, self, other)

    @property
    def width(self) -> int:
        """How many weights there are."""
        return self.gram.shape[0]

    def residual(self, weights: Float[Array, "*s p"]) -> Float[Array, "*s"]:
        """Σ wᵢ (yᵢ - φ̃ᵢᵀθ)²."""
        return self.square - 2 * weights @ self.cross + (weights @ self.gram * weights).sum(-1)

    def scaled(self, scales: Float[Array, " p"]) -> "Statistics":
        """Those of the columns times `scales`."""
        gram = scales[:, None] * self.gram * scales
        return Statistics(self.n, self.log_weight, gram, scales * self.cross, self.square)

    def of_columns(self, which: Bool[np.ndarray, " p"]) -> "Statistics":
        """Those of some of the columns."""
        return Statistics(self.n, self.log_weight, self.gram[np.ix_(which, which)], self.cross[which], self.square)


class Rows(eqx.Module):
    """The rows themselves, for noise models without sufficient statistics; padding has weight zero."""

    design: Float[Array, "n p"] = eqx.field(converter=as_float)
    y: Float[Array, " n"] = eqx.field(converter=as_float)
    weights: Float[Array, " n"] = eqx.field(converter=as_float)

    @property
    def width(self) -> int:
        """How many weights there are."""
        return self.design.shape[1]

    def summed(self) -> Statistics:
        """The sums of the rows."""
        weighted, real = self.design * self.weights[:, None], self.weights > 0
        return Statistics(
            real.sum(), np.zeros(()), weighted.T @ self.design, weighted.T @ self.y, self.weights @ self.y**2
        )

    def __add__(self, other: "Rows") -> "Rows":
        return jax.tree.map(lambda a, b: namespace(a, b).concatenate([a, b]), self, other)


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
    data: tuple[ArrayLike, ...], weights: ArrayLike, columns: int | Sequence[str] | None, finite: bool = True
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
        columns, empty = columns or column_names(item[0]) or chunk.x.shape[1], False
        yield chunk
    if empty:
        raise DataError("the iterable of chunks was empty; a generator can be used only once: pass a fresh one")


def design(features: Features, x: Float[Array, "n d"], intercept: bool) -> Float[Array, "n q"]:
    """The design matrix Φ̃: feature rows, with a column of ones in front where there is an intercept."""
    phi = features(x)
    if not intercept:
        return phi
    xp = namespace(phi)
    return xp.concatenate([xp.ones((phi.shape[0], 1)), phi], axis=1)


def moments(phi: ArrayLike, y: ArrayLike, weights: ArrayLike, intercept: bool) -> Statistics:
    """The statistics of one block of feature rows; the column of ones is never formed."""
    xp = namespace(phi, y, weights)
    n = phi.shape[0]
    w, log_weight = (xp.ones(n), np.zeros(())) if weights is None else (weights, xp.log(weights).sum())
    # root.T @ root with the very same array is a symmetric rank-k update in NumPy: half the work.
    root = phi if weights is None else phi * xp.sqrt(weights)[:, None]
    weighted_y = y if weights is None else w * y
    with np.errstate(all="ignore"):  # what is not finite shows in the sums
        gram = root.T @ root
        column, cross = xp.stack([w, weighted_y]) @ phi
    if intercept:
        gram = xp.block([[xp.reshape(w.sum(), (1, 1)), column[None, :]], [column[:, None], gram]])
        cross = xp.concatenate([xp.reshape(weighted_y.sum(), (1,)), cross])
    return Statistics(np.asarray(float(n)), log_weight, gram, cross, weighted_y @ y)


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
            y = chunk.y[cut] - reference
            part = moments(features(chunk.x[cut]), y, w, intercept)
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
    sums = Statistics(total.n, total.log_weight, full_gram, full_cross, weight * y_variance)
    return Affine(shift=shift, scale=scale), offset + y_mean, y_variance, sums


def _scaled_only(
    total: Statistics, pilot: np.ndarray | None, scale: np.ndarray, offset: float, y_mean: float, y_variance: float
) -> tuple[Affine, float, float, Statistics]:
    gram, cross = total.gram, total.cross
    back = np.zeros(len(scale)) if pilot is None else pilot
    weight, column = gram[0, 0], gram[0, 1:]
    raw_gram = gram[1:, 1:] + np.outer(back, column) + np.outer(column, back) + weight * np.outer(back, back)
    raw_cross = cross[1:] + back * cross[0] + offset * (column + weight * back)
    raw_square = float(total.square) + 2 * offset * cross[0] + weight * offset**2
    size = np.sqrt(np.diag(raw_gram) / weight)
    size = np.where(size > 0, size, 1.0)
    statistics = Statistics(total.n, total.log_weight, raw_gram, raw_cross, raw_square).scaled(1 / size)
    return Affine(shift=np.zeros(len(size)), scale=size), 0.0, y_variance + (offset + y_mean) ** 2, statistics


def _pilot(x: ArrayLike) -> np.ndarray | None:
    """The means of a sample of rows, where they dwarf the spread; None where sums about zero are as good."""
    sample = x[:: max(1, x.shape[0] // 512)]
    with np.errstate(all="ignore"):  # what is not finite shows in the sums
        mean, spread = sample.mean(0), sample.std(0)
    return mean if np.any(np.abs(mean) > 10 * spread) else None


def _check_finite(statistics: Statistics, chunk: Chunk) -> None:
    if not is_traced(statistics) and not np.all(np.isfinite(statistics.gram)):
        chunk.verify()
        raise DataError("the squares of the features overflow; rescale X so that its values are below 1e150")
