"""What a mixture keeps of its data: rows, which of their cells were seen, what each counts for and is measured with."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core.arrays import Array, is_traced, namespace
from credo.core.checks import LARGEST_SQUARED, ArrayLike, check_array, check_positive, check_table, check_vector
from credo.core.chunks import Tables
from credo.core.errors import DataError
from credo.models.densities import Observed
from credo.models.sequences import check_seen

START = 20_000
"""So many rows of a source that is read in chunks choose the starting points."""
T = TypeVar("T")


class Rows(eqx.Module):
    """A table; rows that miss the same cells are neighbours."""

    x: Float[Array, "n d"]
    """0 where it was not seen."""
    seen: Bool[Array, "n d"]
    weights: Float[Array, " n"]
    noise: Float[Array, "n d d"] | None
    """The covariance of each row's own noise."""
    complete: bool = eqx.field(static=True)
    """Whether each row was seen in full or not at all."""
    origin: Any = None
    """The belief before its starting point was chosen, for other ones."""

    @property
    def observed(self) -> Observed:
        """As densities take them."""
        return Observed(self.x, self.seen, None, self.complete, self.noise)

    def parts(self) -> "Iterator[Rows]":
        """Itself."""
        yield self

    def some(self) -> "Rows":
        """Itself."""
        return self

    def cut(self, chosen: "slice | np.ndarray") -> "Rows":
        """Some of the rows."""
        noise = None if self.noise is None else self.noise[chosen]
        return Rows(self.x[chosen], self.seen[chosen], self.weights[chosen], noise, self.complete, self.origin)


class Streamed(eqx.Module):
    """A table that is read a chunk at a time, each time that it is needed."""

    source: Iterable[Any] = eqx.field(static=True)
    missing: bool = eqx.field(static=True)
    columns: int | None = eqx.field(static=True)
    complete: bool = eqx.field(static=True, default=False)
    origin: Any = None

    def parts(self) -> Iterator[Rows]:
        """The chunks, checked."""
        empty = True
        for chunk in self.source:
            x, weights = chunk if isinstance(chunk, tuple) else (chunk, None)
            yield read(x, self.columns, self.missing, weights)
            empty = False
        if empty:
            raise DataError("x gives no chunk: there is nothing to learn from")

    def some(self) -> Rows:
        """Rows from all chunks, to choose starting points from."""
        rng, kept = np.random.default_rng(0), []
        for part in self.parts():
            n = len(part.x)
            kept.append(part if n <= START // 4 else part.cut(np.sort(rng.choice(n, START // 4, replace=False))))
            if len(kept) > 16:  # as many of each chunk, however many there are
                kept = [each.cut(slice(None, None, 2)) for each in kept]
        x, seen, weights = (np.concatenate([getattr(each, n) for each in kept]) for n in ("x", "seen", "weights"))
        return Rows(x, seen, weights, None, all(each.complete for each in kept), self.origin)


def read(
    x: ArrayLike,
    columns: int | None = None,
    missing: bool = False,
    weights: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    in_order: bool = False,
) -> Rows:
    """Checked rows, in the order of `grouped` unless they are to stay `in_order`.

    Args:
        x: a table (n, d), or a vector for one column.
        columns: how many are expected, where that is known.
        missing: whether NaN is a cell that was not seen; otherwise it is an error.
        weights: a row of weight w counts as w rows.
        noise: variances (n,), (n, d) or covariances (n, d, d) of what was added to each row when it was measured.
    """
    if is_traced(x):
        n = x.shape[0]
        return Rows(x, namespace(x).ones(x.shape, bool), np.ones(n), None, True)
    table = _table(x, columns)
    n, d = table.shape
    seen = check_seen(table, missing)
    whole = bool(seen.all())
    table = table if whole else np.where(seen, table, 0.0)
    if np.abs(table).max() >= LARGEST_SQUARED:
        raise DataError(f"x contains {np.abs(table).max():g}, the square of which is no number; use larger units")
    complete = whole or bool(np.all(seen.all(1) | ~seen.any(1)))
    w = np.ones(n) if weights is None else _weights(weights, n)
    rows = Rows(table, seen, w, None if noise is None else _noise(noise, n, d), complete)
    return rows if whole or in_order else rows.cut(grouped(seen))


def grouped(seen: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, " n"]:
    """An order of the rows in which those that miss the same cells are neighbours."""
    packed = np.ascontiguousarray(np.packbits(seen, axis=1))
    return np.argsort(packed.view([("", packed.dtype)] * packed.shape[1])[:, 0], kind="stable")


def _table(x: ArrayLike, columns: int | None) -> np.ndarray:
    flat = len(getattr(x, "shape", ())) == 1 or (isinstance(x, list | tuple) and x and not hasattr(x[0], "__len__"))
    if flat:
        x = np.asarray(x.to_numpy() if hasattr(x, "to_numpy") else x)
        x = (x if x.dtype.kind == "f" and len(x) else check_vector(x, "x"))[:, None]
    table = check_table(x, "x", finite=False)
    if columns is not None and table.shape[1] != columns:
        raise DataError(
            f"x must have {columns} columns, as the mixture has, found {table.shape[1]}; a row is a table [row]"
        )
    return np.asarray(table)


def _weights(weights: ArrayLike, n: int) -> np.ndarray:
    found = np.asarray(check_vector(weights, "weights", n))
    if np.any(found < 0) or not np.any(found > 0):
        raise DataError(f"weights must be ≥ 0 and not all 0, found a smallest of {found.min():g}")
    return found


def _noise(noise: ArrayLike, n: int, d: int) -> Float[np.ndarray, "n d d"]:
    found = np.asarray(check_array(noise, "noise"), dtype=float)
    if found.shape == (n,) and d == 1:
        found = np.asarray(check_positive(found, "noise"))[:, None]
    if found.shape not in ((n, d), (n, d, d)):
        raise DataError(
            f"noise must hold variances ({n}, {d}) or covariances ({n}, {d}, {d}) of the rows, found {found.shape}"
        )
    full = found[:, :, None] * np.eye(d) if found.ndim == 2 else found
    values = found if found.ndim == 2 else np.linalg.eigvalsh(0.5 * (full + full.swapaxes(1, 2)))
    if not np.all(np.isfinite(values)) or np.any(values < -1e-9 * (1 + np.abs(values).max())):
        row = int(np.argmin(values.min(axis=1)))
        raise DataError(f"noise must be ≥ 0 (covariances: no negative eigenvalue), found {values.min():g} at row {row}")
    return full


def is_stream(x: object) -> bool:
    """Whether x is to be read a chunk at a time."""
    if isinstance(x, Iterator):
        raise DataError(
            "x is an iterator, which ends after one pass; pass what can be gone through again, as tables(…)"
        )
    chunks = isinstance(x, list | tuple) and len(x) > 0 and getattr(x[0], "ndim", 0) == 2
    return (
        chunks
        or isinstance(x, Tables)
        or (isinstance(x, Iterable) and not hasattr(x, "__len__") and not hasattr(x, "__array__"))
    )
