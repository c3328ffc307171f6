"""Sequences as users have them, one after the other in one table: what every pass over time reads.

A sequence is a table (T, d), or a vector (T,) for one column. Several are a list of such, or one table with `lengths`.
A single row (d,), or a number, is the next outcome of a sequence.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, is_traced, namespace
from credo.core.checks import ArrayLike, by_name, check_count, check_table, check_vector, column_names
from credo.core.errors import DataError
from credo.core.padding import bucket, pad_rows
from credo.core.pytrees import changed
from credo.core.scan import is_short


class Sequences(eqx.Module):
    """Rows of all sequences, padded to a bucket; each row of padding is a sequence of its own that shows nothing."""

    x: Float[Array, "t d"]
    """Outcomes, 0 where they were not seen."""
    seen: Bool[Array, "t d"]
    first: Bool[Array, " t"]
    """Where a sequence begins."""
    real: Bool[Array, " t"]
    """Which rows are not padding."""
    inputs: Float[Array, "t c"] | None
    complete: bool = eqx.field(static=True)
    """Whether each row was seen in full or not at all."""
    alone: bool = eqx.field(static=True)
    """Whether there is one sequence, which may go on from where a belief is; several begin anew."""
    origin: Any = None
    """The belief before its starting point was chosen, for other ones."""

    @property
    def rows(self) -> int:
        """How many rows are not padding."""
        return int(np.count_nonzero(self.real))

    def trimmed(self) -> "Sequences":
        """Without padding, where rows are known and so few that nothing is compiled for them."""
        if is_traced(self.real) or not is_short(len(self.real)):
            return self
        n = self.rows
        inputs = None if self.inputs is None else self.inputs[:n]
        cut = {name: getattr(self, name)[:n] for name in ("x", "seen", "first", "real")}
        return changed(self, inputs=inputs, **cut)


def read(
    x: ArrayLike,
    lengths: ArrayLike | None = None,
    inputs: ArrayLike | None = None,
    missing: bool = False,
    columns: int | None = None,
    named: Sequence[str] | None = None,
) -> Sequences:
    """Checked sequences.

    Args:
        x: a table (T, d), a vector (T,), or a list, an iterator or a stack (n, T, d) of those; where the columns are
            known, also a row (d,) or a number.
        lengths: of the sequences in one table, in order; they add up to its rows.
        inputs: a table with a row for each of x's, or a list of those.
        missing: whether NaN means that an entry was not observed; otherwise it is an error.
        columns: how many are expected, where that is known.
        named: what they are called, where that is known: frames go by name.
    """
    x, inputs = one_by_one(x), one_by_one(inputs)
    if is_traced(x):
        raise DataError("sequences must be known before compilation, found a traced array; pass NumPy's")
    row = next_row(columns, x) if lengths is None else None
    if row is not None:
        x, inputs = row[None], None if inputs is None else np.reshape(inputs, (1, -1))
    table, sizes = _concatenated(x, "x", columns, named)
    sizes = sizes if lengths is None else _check_lengths(lengths, len(table), len(sizes))
    seen = check_seen(table, missing)
    n, whole = len(table), bool(seen.all())
    t = bucket(n)
    first = np.arange(t) >= n
    first[np.cumsum([0, *sizes[:-1]])] = True
    arrays = [table if whole else np.where(seen, table, 0.0), seen]
    if inputs is not None:
        driven, _ = _concatenated(inputs, "inputs", None)
        if len(driven) != n:
            raise DataError(f"inputs must have a row for each of x's {n}, found {len(driven)}")
        check_seen(driven, False, "inputs")
        arrays.append(driven)
    data, shown, *rest = (pad_rows(a, t) for a in arrays)
    complete = whole or bool(np.all(seen.all(axis=1) | ~seen.any(axis=1)))
    return Sequences(data, shown, first, np.arange(t) < n, rest[0] if rest else None, complete, len(sizes) == 1)


def read_ahead(steps: int, inputs: ArrayLike | None) -> Float[np.ndarray, "s c"] | None:
    """The inputs of the next steps, a row for each, as a table; a vector is one column."""
    check_count(steps, "steps")
    if inputs is None:
        return None
    table = check_vector(inputs, "inputs")[:, None] if np.ndim(inputs) == 1 else check_table(inputs, "inputs")
    if len(table) != steps:
        raise DataError(f"inputs must have a row for each of the {steps} steps, found {len(table)}")
    return np.asarray(table)


def require_outcomes(data: Sequences) -> Sequences:
    """The data, if they show anything to learn from."""
    if not np.any(data.seen):
        raise DataError("x has no entry that was observed: there is nothing to learn from")
    return data


def begins_of(first: Bool[Array, " t"]) -> Bool[Array, " t"]:
    """Which rows begin a sequence; the first one always does."""
    xp = namespace(first)
    return xp.concatenate([xp.ones(1, bool), first[1:]])


def ends_of(first: Bool[Array, " t"]) -> Bool[Array, " t"]:
    """Which rows are the last of a sequence: those before a first one."""
    xp = namespace(first)
    return xp.concatenate([first[1:], xp.ones(1, bool)])


def next_row(columns: int | None, x: object) -> np.ndarray | None:
    """x as one row of so many columns, if it is one: the next outcome of a sequence."""
    if isinstance(x, np.ndarray):
        return x.astype(float) if x.ndim == 1 and x.shape[0] == columns and x.dtype.kind in "fiub" else None
    if isinstance(x, float | int | np.floating | np.integer):
        return np.array([x], dtype=float) if columns == 1 else None
    if isinstance(x, list | tuple) and len(x) == columns and all(isinstance(v, float | int) for v in x):
        return np.array(x, dtype=float)
    return None


def one_by_one(x: Any) -> Any:
    """Sequences from an iterator, an array of arrays or one with an axis for them, as a list; else x as it is."""
    stacked = isinstance(x, np.ndarray) and (x.ndim == 3 or (x.ndim == 1 and _holds_arrays(x)))
    return list(x) if stacked or isinstance(x, Iterator) else x


def _holds_arrays(x: np.ndarray) -> bool:
    return x.dtype == object and len(x) > 0 and all(isinstance(each, np.ndarray) for each in x)


def is_list_of_sequences(x: object) -> bool:
    """Whether x is a Python list of arrays or tables: a list of lists of numbers is a table."""
    if not isinstance(x, list | tuple) or not len(x) or any(_depth(each) < 1 for each in x):
        return False
    return any(hasattr(each, "shape") or hasattr(each, "to_numpy") or _depth(each) >= 2 for each in x)


def _depth(value: ArrayLike) -> int:
    if hasattr(value, "shape"):
        return len(value.shape)
    return 1 + (_depth(value[0]) if len(value) else 0) if isinstance(value, list | tuple) else 0


def names_of(x: ArrayLike) -> tuple[str, ...] | None:
    """What the columns of the (first) sequence are called; None where they have no names."""
    found = column_names(x[0] if is_list_of_sequences(x) else x)
    return None if found is None or len(found) < 2 else tuple(found)


def _concatenated(
    x: ArrayLike, name: str, columns: int | None, named: Sequence[str] | None = None
) -> tuple[np.ndarray, list[int]]:
    """One table of all rows, and how many are of each sequence."""
    if not is_list_of_sequences(x):
        table = _one(by_name(x, named, name), name, columns)
        return table, [len(table)]
    named = names_of(x) if named is None else named
    parts = [_one(by_name(each, named, f"{name}[{i}]"), f"{name}[{i}]", columns) for i, each in enumerate(x)]
    widths = {part.shape[1] for part in parts}
    if len(widths) > 1:
        raise DataError(f"the sequences of {name} must have the same columns, found {sorted(widths)} of them")
    return np.concatenate(parts), [len(part) for part in parts]


def _one(x: ArrayLike, name: str, columns: int | None) -> np.ndarray:
    if _depth(x) == 1:
        raw = np.asarray(x.to_numpy() if hasattr(x, "to_numpy") else x)
        if raw.dtype == object or raw.dtype.kind in "OUSmMc" or len(raw) == 0:
            raw = check_vector(x, name)  # which says what is wrong
        x = raw[:, None]
    table = check_table(x, name, finite=False)
    if columns is not None and table.shape[1] != columns:
        remedy = "; for several sequences pass a list of them, or one table and lengths" if columns == 1 else ""
        raise DataError(f"{name} must have {columns} columns, as the emission has, found {table.shape[1]}{remedy}")
    return table


def _check_lengths(lengths: ArrayLike, rows: int, sequences: int) -> list[int]:
    if sequences > 1:
        raise DataError("lengths are for sequences in one table; a list of sequences has lengths of its own")
    values = np.asarray(check_vector(lengths, "lengths"))
    if np.any(values != np.round(values)) or np.any(values < 1):
        raise DataError(f"lengths must be whole numbers of at least 1, found {np.asarray(lengths).tolist()}")
    if values.sum() != rows:
        raise DataError(f"lengths must add up to the {rows} rows of x, found {int(values.sum())}")
    return [int(v) for v in values]


def check_seen(table: np.ndarray, missing: bool, name: str = "x") -> np.ndarray:
    """Which entries were seen; `DataError` for infinity, and for NaN unless `missing` says that it is no mistake."""
    seen = ~np.isnan(table)
    if not missing and not seen.all():
        row, column = np.argwhere(~seen)[0]
        remedy = "; pass missing=True to treat NaN as not observed" if name == "x" else ""
        raise DataError(f"{name} contains NaN at row {row}, column {column}{remedy}")
    if not np.isfinite(np.sum(table, where=seen) if missing else table.sum()) and np.isinf(table).any():
        row, column = np.argwhere(np.isinf(table))[0]
        raise DataError(f"{name} contains infinity at row {row}, column {column}; drop or correct the row")
    return seen
