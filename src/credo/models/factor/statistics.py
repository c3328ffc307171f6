"""What factor models keep of rows: moments of those seen in full, and those seen in part as they are.

Two sets add: moments merge (Chan, Golub & LeVeque, 1983), rows stand one below the other. A table of any length whose
rows are complete is d × d numbers.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, namespace
from credo.core.checks import LARGEST_SQUARED, ArrayLike, check_positive, check_table
from credo.core.chunks import Chunks
from credo.core.errors import DataError
from credo.models.conjugate.normal import Moments

Columns = Sequence[str] | None
BLOCK = 2048
"""So many rows at a time."""


class Rows(eqx.Module):
    """Rows seen in full by their moments (None: there are none), rows seen in part with their weights."""

    moments: Moments | None
    x: Float[Array, "m d"]
    """Rows seen in part, 0 where they were not."""
    seen: Bool[Array, "m d"]
    weights: Float[Array, " m"]

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return self.x.shape[1]

    @property
    def count(self) -> Float[Array, ""]:
        """How many rows show something, by weight."""
        return self.weights.sum() + (0.0 if self.moments is None else self.moments.count)

    @property
    def partial(self) -> int:
        """How many rows were seen in part."""
        return self.x.shape[0]

    def __add__(self, other: "Rows") -> "Rows":
        xp = namespace(self, other)
        both = [each.moments for each in (self, other) if each.moments is not None]
        moments = None if not both else both[0] if len(both) == 1 else both[0] + both[1]
        parts = ((getattr(self, name), getattr(other, name)) for name in ("x", "seen", "weights"))
        return Rows(moments, *(xp.concatenate(pair) for pair in parts))

    def rescaled(self, center: Float[Array, " d"], scale: Float[Array, " d"]) -> "Rows":
        """Of (x - center)/scale."""
        x, moments = np.where(self.seen, (self.x - center) / scale, 0.0), self.moments
        if moments is not None:
            squares = moments.squares / scale / np.reshape(scale, (-1, 1))
            moments = Moments(moments.count, (moments.mean - center) / scale, squares)
        return Rows(moments, x, self.seen, self.weights)

    def pairwise(self) -> Moments:
        """Moments of each pair of columns from the rows that show both, made positive semi-definite: a start.

        Without rows seen in part they are the moments themselves.
        """
        if not self.partial:
            assert self.moments is not None
            return self.moments
        whole = 0.0 if self.moments is None else self.moments.count
        weighed = self.weights[:, None] * self.seen
        each = weighed.sum(0) + whole
        if np.any(each == 0):
            raise DataError(f"column {int(np.argmin(each))} of x has no value that was observed; leave it out")
        sums = (weighed * self.x).sum(0) + (0.0 if self.moments is None else whole * self.moments.mean)
        mean = sums / each
        y = np.where(self.seen, self.x - mean, 0.0)
        squares = (self.weights[:, None] * y).T @ y
        pairs = weighed.T @ self.seen + whole
        if self.moments is not None:
            gap = self.moments.mean - mean
            squares = squares + self.moments.squares + whole * np.outer(gap, gap)
        covariance = np.where(pairs > 0, squares / np.maximum(pairs, 1e-300), 0.0)
        scale = np.sqrt(np.maximum(covariance.diagonal(), 1e-300))
        values, vectors = np.linalg.eigh(covariance / scale / scale[:, None])
        fixed = (vectors * np.maximum(values, 0.0)) @ vectors.T * scale * scale[:, None]
        return Moments(self.count, mean, self.count * fixed)


def read(x: ArrayLike, weights: ArrayLike | None, missing: bool, columns: int | Columns) -> Rows:
    """The rows of a table, or of an iterable of tables (chunks, a generator), read once.

    Args:
        x: a table (n, d), or tables one after the other; of pairs, as `credo.core.chunks` has them, the first.
        weights: how often each row counts.
        missing: whether NaN means that an entry was not observed; otherwise it is an error.
        columns: how many are expected, or their names.
    """
    if isinstance(x, Chunks) or (isinstance(x, Iterable) and not _is_table(x)):
        if weights is not None:
            raise DataError(
                "weights are for one table, found chunks; weigh the rows of each chunk by conditioning on it"
            )
        total: Rows | None = None
        for part in x:
            found = _read_table(part[0] if isinstance(part, tuple) else part, None, missing, columns)
            total, columns = found if total is None else total + found, found.columns
        if total is None:
            raise DataError("x must hold at least one chunk, found none")
        return total
    return _read_table(x, weights, missing, columns)


def _is_table(x: Any) -> bool:
    return hasattr(x, "shape") or hasattr(x, "columns") or hasattr(x, "__dataframe__") or isinstance(x, list | tuple)


def _read_table(x: ArrayLike, weights: ArrayLike | None, missing: bool, columns: int | Columns) -> Rows:
    try:
        table = check_table(x, "x", columns, finite=not missing)
    except DataError as error:
        if "contains NaN" in str(error):
            raise DataError(f"{error}, or pass missing=True to treat NaN as not observed") from None
        raise
    if not missing:
        w = None if weights is None else check_positive(weights, "weights", len(table))
        return Rows(_moments(table, w), *_nothing(table))
    seen = seen_of(table)
    w = np.ones(len(table)) if weights is None else np.asarray(check_positive(weights, "weights", len(table)))
    whole, some = seen.all(1), seen.any(1) & ~seen.all(1)
    moments = _moments(table[whole], None if weights is None else w[whole]) if whole.any() else None
    return Rows(moments, np.where(seen[some], table[some], 0.0), seen[some], w[some])


def seen_of(table: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, "n d"]:
    """Which entries are not NaN; infinity, and what is next to it, is refused."""
    large = np.abs(table) >= LARGEST_SQUARED
    if large.any():
        row, column = np.argwhere(large)[0]
        raise DataError(
            f"x contains {table[row, column]:g} at row {row}, column {column}, the square of which is no number; use "
            "larger units, or drop it"
        )
    return ~np.isnan(table)


def _nothing(table: Float[Array, "n d"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    d = table.shape[1]
    return np.zeros((0, d)), np.zeros((0, d), bool), np.zeros(0)


def _moments(table: Float[Array, "n d"], w: Float[Array, " n"] | None) -> Moments:
    """Count, mean and squares, a block of rows at a time, so that the centred ones stay in the cache."""
    xp = namespace(table, w)
    mean = table.mean(0) if w is None else w @ table / w.sum()
    squares = xp.zeros((table.shape[1],) * 2)
    for start in range(0, len(table), BLOCK):
        centred = table[start : start + BLOCK] - mean
        if w is not None:
            centred = xp.sqrt(w[start : start + BLOCK, None]) * centred
        squares = squares + centred.T @ centred
    return Moments(np.asarray(float(len(table))) if w is None else w.sum(), mean, squares)
