"""The rows that a Gaussian process has seen."""

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, Numeric, as_float, is_traced, namespace
from credo.core.checks import check_positive, check_vector
from credo.core.chunks import Chunks
from credo.core.device import usable_memory
from credo.core.errors import DataError
from credo.core.padding import bucket, pad_rows
from credo.kernels import Kernel

AGREE, BY_CHANCE = 0.5, 0.01
"""Most rows with the same inputs have the same outcome, of any two others less than this share: they were copied."""
COPIES = 4
"""Of the rows exist while they are learned from: in another order, in a tree (measured with 10⁷ rows)."""
FEWEST = 32
"""Rows are padded to at least so many: a program less for data that grow, where padding costs next to nothing."""


class Rows(eqx.Module):
    """Inputs, outcomes and noise of n rows.

    The noise variance of row i is `scale[i]`·(the model's) + `extra[i]`. Rows for a compiled program may be `padded`,
    so that growing data reuse it: then `mask` says which of them are real.
    """

    x: Float[Array, "c d"]
    y: Float[Array, " c"]
    scale: Float[Array, " c"]
    extra: Float[Array, " c"]
    mask: Bool[Array, " c"] | None
    """None: all of them."""

    @property
    def n(self) -> int:
        """The number of rows that are not padding; a mask must not be traced."""
        return self.x.shape[0] if self.mask is None else int(np.asarray(self.mask).sum())

    @property
    def real(self) -> Bool[Array, " c"]:
        """Which rows are not padding."""
        return namespace(self.x).ones(self.x.shape[0], bool) if self.mask is None else self.mask

    def columns(self) -> tuple[Array, Array, Array, Array]:
        """(x, y, scale, extra)."""
        return self.x, self.y, self.scale, self.extra

    def cut(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(x, y, scale, extra) without the padding, in NumPy."""
        x, y, scale, extra = (np.asarray(v)[: self.n] for v in self.columns())
        return x, y, scale, extra

    def padded(self) -> "Rows":
        """The same rows, padded to a bucket."""
        length = bucket(max(self.n, FEWEST))
        return from_columns((pad_rows(v, length) for v in self.cut()), np.arange(length) < self.n)

    def subset(self, index: np.ndarray) -> "Rows":
        """Some of the rows."""
        return from_columns(v[index] for v in self.cut())

    def at_most(self, n: int, seed: int) -> "Rows":
        """All rows, or n of them at random: which ones depends on what they say, not on the order they stand in."""
        if self.n <= n:
            return self
        x, *rest = (np.asarray(each) for each in self.cut())
        sorted_rows = np.lexsort([*rest[::-1], *x.T[::-1]])
        return self.subset(sorted_rows[np.sort(np.random.default_rng(seed).choice(self.n, n, replace=False))])

    def without_copies(self) -> "Rows":
        """Each row once: what is learned from must not hold records that were copied.

        Where outcomes are real numbers, two rows with the same inputs and outcome are one measurement, written down
        twice. Believed to be two they say that there is no noise, the more so the less there is: their evidence has
        no upper bound. Outcomes of few values agree by chance, and all rows stay.
        """
        x, y = self.cut()[:2]
        if len(np.unique(y)) == len(y):
            return self
        order = np.lexsort([y, *x.T])
        twins = np.all(x[order[1:]] == x[order[:-1]], axis=1)
        copies = twins & (y[order[1:]] == y[order[:-1]])
        kept = np.sort(order[np.append(True, ~copies)])
        counts = np.unique(y[kept], return_counts=True)[1]
        agree, pairs = np.sum(counts * (counts - 1.0)), len(kept) * (len(kept) - 1.0)
        # One pair more: of a few rows nobody knows how often two agree.
        if not copies.any() or copies.sum() < AGREE * twins.sum() or agree + 2.0 > BY_CHANCE * pairs:
            return self
        return self.subset(kept)

    def __add__(self, other: "Rows") -> "Rows":
        """The rows of both, those of `self` first."""
        traced = is_traced(self, other)
        both = (self.columns(), other.columns()) if traced else (self.cut(), other.cut())
        xp = namespace(both)
        mask = xp.concatenate([self.real, other.real]) if traced and not self.mask is other.mask is None else None
        return from_columns((xp.concatenate(pair) for pair in zip(*both, strict=True)), mask)


def copies_left_out(count: int) -> list[str]:
    """What is said of rows that `without_copies` has left out."""
    return [f"{count:,} rows are copies of others, in inputs and outcome: learned from without them"] if count else []


def masked(mask: Bool[Array, " c"] | None, values: Float[Array, "c *m"], fill: float = 0.0) -> Float[Array, "c *m"]:
    """The values, and `fill` for rows that are padding."""
    if mask is None:
        return values
    return namespace(mask, values).where(mask.reshape(-1, *(1,) * (values.ndim - 1)), values, fill)


def from_columns(columns: Iterable[Array], mask: Bool[Array, " c"] | None = None) -> Rows:
    """Rows of x, y, scale and extra."""
    x, y, scale, extra = columns
    return Rows(x, y, scale, extra, mask)


def pack(x: Numeric, y: Numeric, scale: Numeric, extra: Numeric) -> Rows:
    """Rows of checked numbers."""
    return from_columns(as_float(v) for v in (x, y, scale, extra))


def read(
    kernel: Kernel,
    data: Sequence[object],
    columns: int | None,
    weights: object = None,
    noise: object = None,
    errors: object = None,
) -> Rows:
    """The rows of X and y as users have them; rows whose y is NaN are missing and left out.

    Args:
        kernel: what reads the inputs.
        data: X and y.
        columns: the number of columns that is expected, if it is known already.
        weights: the model's noise variance is divided by them.
        noise: the noise variance of each row, instead of the model's.
        errors: the standard error of each row, beside the model's noise; zero for a row that has none.
    """
    if len(data) != 2:
        raise DataError(
            f"a Gaussian process is conditioned on X and y, or on chunks of them; found {len(data)} argument(s)"
        )
    check_memory(data[0])
    x = kernel.encode(data[0], "X", columns)
    n = x.shape[0]
    y, present = read_outcomes(data[1], n)
    if weights is not None and noise is not None:
        raise DataError("give weights or noise for the rows, not both: a weight divides the model's noise variance")
    scale: Array = np.ones(n)
    extra: Array = np.zeros(n)
    if weights is not None:
        scale = 1.0 / check_positive(weights, "weights", n)
    if noise is not None:
        scale, extra = np.zeros(n), check_positive(noise, "noise", n)
    if errors is not None:
        if noise is not None:
            raise DataError("give errors or noise for the rows, not both: errors add to the model's noise")
        extra = check_vector(errors, "errors", n) ** 2
        if not is_traced(errors) and np.min(np.asarray(errors, dtype=float), initial=0.0) < 0:
            raise DataError(f"errors must not be negative, found {np.min(np.asarray(errors, dtype=float)):g}")
    rows = pack(x, y, scale, extra)
    return rows if present is None else rows.subset(present)


def is_chunked(data: object) -> bool:
    """Whether data are (X, y) tuples one after the other, as `credo.core.chunks` reads them from disk."""
    pairs = isinstance(data, list | tuple) and len(data) > 0 and all(isinstance(each, tuple) for each in data)
    return pairs or isinstance(data, Chunks | Iterator)


def gather(chunks: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
    """X and y of all chunks: a process keeps its rows, and nothing as large as their number times another."""
    tables: list[np.ndarray] = []
    outcomes: list[np.ndarray] = []
    n = 0
    for i, chunk in enumerate(chunks):
        if not isinstance(chunk, tuple) or len(chunk) != 2:
            raise DataError(f"chunk {i} of a Gaussian process must be a tuple (X, y), found {type(chunk).__name__}")
        tables.append(np.atleast_1d(np.asarray(chunk[0])))
        outcomes.append(np.atleast_1d(np.asarray(chunk[1])))
        if len(tables[-1]) != len(outcomes[-1]) or tables[-1].shape[1:] != tables[0].shape[1:]:
            shapes = f"{tables[-1].shape} and {outcomes[-1].shape}, after X{tables[0].shape}"
            raise DataError(f"chunk {i} must have X and y of one length and all columns, found {shapes}")
        n += len(tables[-1])
        check_memory(np.broadcast_to(0.0, (n, *tables[0].shape[1:])))
    if not tables:
        raise DataError("there are no chunks; a generator can be used only once: pass a fresh one")
    return np.concatenate(tables), np.concatenate(outcomes)


def check_memory(x: object) -> None:
    """`DataError` where so many rows, and what is made of them, do not fit into memory."""
    shape = getattr(x, "shape", ()) or (0,)
    n, d = shape[0], prod(shape[1:])
    need, there = COPIES * 8.0 * n * (d + 3), usable_memory()
    if need > there:
        k = int(np.ceil(need / max(there, 1.0)))
        raise DataError(
            f"{n:,} rows of {d} columns take about {1e-9 * need:,.1f} GB to learn from, this process may use "
            f"{1e-9 * there:,.1f} GB; take a part of them, X[::{k}] and y[::{k}] if their order says nothing"
        )


def read_outcomes(y: object, n: int) -> tuple[Array, np.ndarray | None]:
    """y as a checked vector and which of it is there (None: all)."""
    if is_traced(y):
        return check_vector(y, "y", n), None
    try:
        values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y, dtype=float)
    except (TypeError, ValueError):
        return check_vector(y, "y", n), None  # which says what is wrong
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    missing = np.isnan(values) if values.ndim == 1 else np.zeros(0, bool)
    if not missing.any() or missing.all():
        return check_vector(y, "y", n), None
    return check_vector(np.where(missing, 0.0, values), "y", n), ~missing
