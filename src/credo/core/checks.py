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

LARGEST_SQUARED = 1e153
LARGEST_EXACT_INTEGER = 2**53


def column_names(x: ArrayLike) -> list[str] | None:
    """The column names of a data frame, or None where there are none."""
    columns = getattr(x, "column_names", None) or getattr(x, "columns", None)
    return None if columns is None or callable(columns) else [str(c) for c in columns]


def input_names(x: ArrayLike, known: Sequence[str] | None = None) -> list[str]:
    """The column names of a data frame in the order of those `known`, or these, or x0, x1, … for a table without."""
    named = column_names(by_name(x, known)) or known
    if named:
        return list(named)
    shape = getattr(x, "shape", None) or as_numpy(x, "X").shape
    return [f"x{i}" for i in range(shape[1] if len(shape) == 2 else 0)]


def by_name(x: ArrayLike, names: Sequence[str] | None, name: str = "X") -> ArrayLike:
    """The table with its columns in the order of `names`, by which a belief knows its inputs: frames go by name.

    Arrays go by place, and so do frames where no names were learned (x0, x1, … stand for none).
    """
    found = column_names(x)
    if names is None or found is None or found == list(names) or not all(isinstance(c, str) for c in _labels(x)):
        return x
    missing, unknown = [c for c in names if c not in found], [c for c in found if c not in names]
    if not missing and not unknown and len(set(found)) == len(found):
        order = [found.index(c) for c in names]
        return x.iloc[:, order] if hasattr(x, "iloc") else x.select([found[i] for i in order])
    if all(c in (f"x{i}", str(i)) for i, c in enumerate(names)):
        return x
    parts = {"missing": missing, "unknown": unknown, "twice": sorted({c for c in found if found.count(c) > 1})}
    said = "; ".join(f"{what} {_listed(which)}" for what, which in parts.items() if which)
    raise DataError(
        f"{name} must have the columns that the belief knows by name ({_listed(names)}), in any order: found {said}; "
        f"rename them, or pass an array whose columns are in that order"
    )


def _labels(x: ArrayLike) -> Sequence[object]:
    return list(getattr(x, "column_names", None) or x.columns)


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def check_table(x: ArrayLike, name: str = "X", columns: int | Sequence[str] | None = None, finite: bool = True) -> Any:
    """A table of shape (n, d) in float64, n ≥ 1 and d ≥ 1, every value finite.

    `columns` is the d that is expected, if it is known already, or the names of the columns (`by_name`).
    `finite=False` leaves it to the caller to notice a value that is not finite, where a sum will show it anyway.
    """
    if columns is not None and not isinstance(columns, int):
        x, columns = by_name(x, columns, name), len(columns)
    if is_traced(x):
        _check_rank(name, x.shape, 2)
        table = x
    else:
        raw = as_numpy(x, name)
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
        raw = as_numpy(y, name)
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
    raw = as_numpy(values, name)
    table = np.asarray(check_table(raw, name) if raw.ndim == 2 else check_vector(raw, name))
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
        good = not isinstance(value, bool) and value == int(value) and least <= value <= LARGEST_EXACT_INTEGER
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise DataError(f"{name} must be a whole number of at least {least}, found {value!r}")


def check_real(value: Any, name: str, least: float | int = -np.inf, most: float | int = np.inf) -> float:
    """The value as a plain number: one that is finite and lies between `least` and `most`, else `DataError`."""
    try:
        found = float("x") if isinstance(value, str | bytes) else float(np.asarray(value, dtype=float).reshape(()))
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{name} must be a number, found {value!r}") from None
    if not (np.isfinite(found) and least <= found <= most):
        range_ = "be a finite number" if least == -np.inf else f"be a finite number of at least {least:g}"
        range_ = range_ if most == np.inf else f"lie between {least:g} and {most:g}"
        raise DataError(f"{name} must {range_}, found {value!r}")
    return found


def check_array(value: Any, name: str) -> np.ndarray:
    """The value as an array of numbers or truth values, of any shape, else `DataError`."""
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be an array of numbers, found rows of different lengths") from None
    if found.dtype.kind not in "biuf":
        raise DataError(f"{name} must be an array of numbers, found {_kind(value)}")
    return found


def _check_rank(name: str, shape: tuple[int, ...], rank: int) -> None:
    if len(shape) != rank:
        expected = "a table of shape (n, d)" if rank == 2 else "a vector of shape (n,)"
        remedy = {
            (2, 1): f"; for one feature pass {name}[:, None], for one row {name}[None, :]",
            (2, 0): f"; pass [[{name}]] for a single number",
            (1, 0): f"; pass [{name}] for a single number",
            (1, 2): "; pass one column of it, or have a belief for each: credo.models.gp.Independent([belief, …])",
        }.get((rank, len(shape)), "")
        raise DataError(f"{name} must be {expected}, found shape {shape}{remedy}")
    if 0 in shape:
        what = "no rows" if shape[0] == 0 else "no columns"
        raise DataError(f"{name} is empty: it has {what} (shape {shape}); at least one is needed")


def as_numpy(x: ArrayLike, name: str) -> np.ndarray:
    """What people have as an array of NumPy's, whatever it holds; ragged, masked and sparse tables are refused."""
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
    # The sum of finite values that can be squared is one, unless they are many: look closer only where it is not.
    with np.errstate(all="ignore"):
        suspicious = not abs(values.sum()) < LARGEST_SQUARED
    if suspicious and not np.isfinite(values).all():
        bad = np.argwhere(~np.isfinite(values))
        where = tuple(int(i) for i in bad[0])
        what = "NaN" if np.isnan(values[where]) else "infinity"
        raise DataError(
            f"{name} contains {what} at {_place(where, names)} ({len(bad)} such value{'s' * (len(bad) > 1)}); "
            "drop or impute the missing rows"
        )
    if suspicious and np.abs(values).max() >= LARGEST_SQUARED:
        where = tuple(int(i) for i in np.argwhere(np.abs(values) >= LARGEST_SQUARED)[0])
        raise DataError(
            f"{name} contains {values[where]:g} at {_place(where, names)}, the square of which is no number; "
            "use larger units, or drop it"
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
