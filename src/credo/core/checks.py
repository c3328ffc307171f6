"""From what people have (lists, NumPy, pandas, polars, anything with `__array__`) to checked float64.

Public entry points call `check_table`, `check_vector` and `check_labels`; inside, code trusts its inputs.
Arrays that are being traced by JAX pass through with their shape checked only: their values do not exist yet.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from credo.core.arrays import is_traced
from credo.core.errors import DataError

ArrayLike = Any
"""Whatever `check_table` and `check_vector` accept."""

LARGEST_EXACT_INTEGER = 2**53


def column_names(x: ArrayLike) -> list[str] | None:
    """The column names of a data frame, or None where there are none."""
    columns = getattr(x, "columns", None)
    return None if columns is None or callable(columns) else [str(c) for c in columns]


def input_names(x: ArrayLike) -> list[str]:
    """The column names of a data frame, or x0, x1, … for a table without."""
    named = column_names(x)
    if named is not None:
        return named
    shape = getattr(x, "shape", None) or np.shape(x)
    return [f"x{i}" for i in range(shape[1] if len(shape) == 2 else 0)]


def check_table(x: ArrayLike, name: str = "X", columns: int | None = None, finite: bool = True) -> Any:
    """A table of shape (n, d) in float64, n ≥ 1 and d ≥ 1, every value finite.

    `columns` is the d that is expected, if it is known already. `finite=False` leaves it to the caller to notice
    a value that is not finite, where a sum over the table will show it anyway.
    """
    if is_traced(x):
        _check_rank(name, x.shape, 2)
        table = x
    else:
        raw = _to_numpy(x, name)
        _check_rank(name, raw.shape, 2)
        table = _to_float(raw, name, column_names(x), finite)
    if columns is not None and table.shape[1] != columns:
        raise DataError(
            f"{name} must have {columns} columns, as the data the belief was conditioned on, "
            f"found {table.shape[1]}; pass the same columns in the same order"
        )
    return table


def check_vector(y: ArrayLike, name: str = "y", length: int | None = None) -> Any:
    """A vector of shape (n,) in float64, n ≥ 1, every value finite; a single column is taken as a vector."""
    if is_traced(y):
        _check_rank(name, y.shape, 1)
        vector = y
    else:
        raw = _to_numpy(y, name)
        if raw.ndim == 2 and raw.shape[1] == 1:
            raw = raw[:, 0]
        _check_rank(name, raw.shape, 1)
        vector = _to_float(raw, name, None)
    if length is not None and len(vector) != length:
        raise DataError(f"{name} must have one value per row: {length} are expected, found {len(vector)}")
    return vector


def check_positive(values: ArrayLike, name: str, length: int | None = None) -> Any:
    """A vector whose values are all greater than zero (variances, weights)."""
    vector = check_vector(values, name, length)
    if not is_traced(vector) and np.any(vector <= 0):
        row = int(np.argmax(vector <= 0))
        raise DataError(f"{name} must be positive, found {vector[row]:g} at row {row}; drop such rows or correct them")
    return vector


def check_counts(y: ArrayLike, name: str = "y", below: int | None = None) -> Any:
    """Whole numbers ≥ 0 (and < `below`, if given), as float64: counts, or class indices."""
    vector = check_vector(y, name)
    if not is_traced(vector):
        wrong = (vector < 0) | (vector != np.round(vector))
        if below is not None:
            wrong |= vector >= below
        if wrong.any():
            row = int(np.argmax(wrong))
            expected = "whole numbers ≥ 0" if below is None else f"whole numbers from 0 to {below - 1}"
            raise DataError(f"{name} must hold {expected}, found {vector[row]:g} at row {row}")
    return vector


def check_probabilities(values: ArrayLike, name: str, shape: tuple[int, ...] | None = None) -> Any:
    """Probabilities whose last axis sums to one, brought to do so up to rounding; of a shape, where it is given."""
    if is_traced(values):
        return values
    table = np.asarray(check_table(values, name) if np.ndim(values) == 2 else check_vector(values, name))
    if shape is not None and table.shape != shape:
        raise DataError(f"{name} must hold probabilities of shape {shape}, found shape {table.shape}")
    sums = table.sum(axis=-1, keepdims=True)
    if not (np.all(table >= 0) and np.allclose(sums, 1.0, rtol=0, atol=1e-8)):
        raise DataError(
            f"{name} must hold probabilities ≥ 0 that sum to 1, found sums {np.round(sums[..., 0], 6).tolist()} and a "
            f"smallest entry of {float(table.min()):g}; divide by the sum"
        )
    return table / sums


def check_count(value: Any, name: str, least: int = 1) -> None:
    """`DataError` unless the value is a whole number of at least `least`."""
    try:
        good = not isinstance(value, bool) and value == int(value) and value >= least
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise DataError(f"{name} must be a whole number of at least {least}, found {value!r}")


def _check_rank(name: str, shape: tuple[int, ...], rank: int) -> None:
    if len(shape) != rank:
        expected = "a table of shape (n, d)" if rank == 2 else "a vector of shape (n,)"
        remedy = {
            (2, 1): f"; for one feature pass {name}[:, None], for one row {name}[None, :]",
            (2, 0): f"; pass [[{name}]] for a single number",
            (1, 0): f"; pass [{name}] for a single number",
            (1, 2): "; pass one column of it",
        }.get((rank, len(shape)), "")
        raise DataError(f"{name} must be {expected}, found shape {shape}{remedy}")
    if 0 in shape:
        what = "no rows" if shape[0] == 0 else "no columns"
        raise DataError(f"{name} is empty: it has {what} (shape {shape}); at least one is needed")


def _to_numpy(x: ArrayLike, name: str) -> np.ndarray:
    if x is None:
        raise DataError(f"{name} is missing: found None, expected numbers")
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise DataError(f"{name} has masked entries; fill them or drop their rows")
    if isinstance(x, str | bytes | dict | set):
        raise DataError(f"{name} must be numbers in rows, found {_kind(x)}")
    if hasattr(x, "todense"):
        raise DataError(
            f"{name} is a sparse matrix, found {type(x).__name__}; pass {name}.toarray() if it fits in memory"
        )
    if hasattr(x, "to_numpy"):
        return np.asarray(x.to_numpy())
    if isinstance(x, Sequence) and not isinstance(x, np.ndarray):
        widths = [len(row) for row in x if isinstance(row, Sequence) and not isinstance(row, str)]
        if widths and (len(widths) != len(x) or len(set(widths)) > 1):
            row = next((i for i, r in enumerate(x) if not isinstance(r, Sequence) or len(r) != widths[0]), 0)
            raise DataError(f"{name} is ragged: row {row} does not have {widths[0]} values as row 0 has")
    try:
        return np.asarray(x)
    except (ValueError, TypeError) as error:
        raise DataError(f"{name} cannot be read as an array of numbers, found {_kind(x)}: {error}") from None


def _to_float(raw: np.ndarray, name: str, names: list[str] | None, finite: bool = True) -> np.ndarray:
    if raw.dtype.kind == "c":
        raise DataError(
            f"{name} has complex numbers (Complex data not supported); pass real and imaginary parts as columns"
        )
    if raw.dtype.kind in "mM":
        raise DataError(f"{name} holds dates or durations; convert them to numbers, e.g. days since the first one")
    if raw.dtype.kind in "OUS":
        raw = _objects_to_float(raw, name, names)
    largest = LARGEST_EXACT_INTEGER
    if raw.dtype.kind in "iu" and raw.size and (int(raw.max()) > largest or int(raw.min()) < -largest):
        where = tuple(int(i) for i in np.argwhere((raw > largest) | (raw < -largest))[0])
        raise _too_large(name, raw[where], where, names)
    values = np.asarray(raw, dtype=np.float64)
    if not finite:
        return values
    # The sum is finite iff all values are, unless it overflows: look closer only then.
    with np.errstate(all="ignore"):
        suspicious = not np.isfinite(values.sum())
    if suspicious and not np.isfinite(values).all():
        bad = np.argwhere(~np.isfinite(values))
        where = tuple(int(i) for i in bad[0])
        what = "NaN" if np.isnan(values[where]) else "infinity"
        raise DataError(
            f"{name} contains {what} at {_place(where, names)} ({len(bad)} such value{'s' * (len(bad) > 1)}); "
            "drop or impute the missing rows"
        )
    return values


def _objects_to_float(raw: np.ndarray, name: str, names: list[str] | None) -> np.ndarray:
    out = np.empty(raw.shape, dtype=np.float64)
    for where, value in np.ndenumerate(raw):
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_EXACT_INTEGER:
            raise _too_large(name, value, where, names)
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            raise DataError(
                f"{name} contains a missing value at {_place(where, names)}; drop or impute the missing rows"
            )
        if isinstance(value, str | bytes):
            raise DataError(
                f"{name} contains text at {_place(where, names)}: {value!r}; "
                "encode categories as numbers, or let `credo fit` read the table"
            )
        try:
            out[where] = float(value)
        except (TypeError, ValueError):
            raise DataError(
                f"{name} contains {_kind(value)} at {_place(where, names)} where a number is expected: "
                f"argument must be a string or a number, found {value!r}"
            ) from None
    return out


def _too_large(name: str, value: object, where: tuple[int, ...], names: list[str] | None) -> DataError:
    return DataError(
        f"{name} has an integer too large to be exact in float64: {value} at {_place(where, names)}; "
        "is it an identifier? drop the column, or rescale it"
    )


def _place(where: tuple[int, ...], names: list[str] | None) -> str:
    if len(where) == 1:
        return f"row {where[0]}"
    return f"row {where[0]}, column {repr(names[where[1]]) if names else where[1]}"


def _kind(x: object) -> str:
    return f"a {type(x).__name__}"
