"""Data that do not fit in memory, a chunk at a time: memory-mapped arrays and Parquet files.

    belief.condition(chunks("sales.parquet", target="revenue"))
    belief.condition(chunks(X_memmap, y_memmap))

Any iterable of (X, y) or (X, y, weights) tuples serves as well; what `chunks` returns can be gone through
more than once.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from credo.core.arrays import Array
from credo.core.errors import DataError, FileError

ROWS = 65_536


class Chunks:
    """Tables with their outcomes, read as they are reached, each time that one goes through them."""

    def __init__(self, read: Callable[[], Iterator[tuple[Array, Array]]]):
        self.read = read

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        return self.read()


def chunks(
    source: Array | str | os.PathLike[str],
    y: Array | None = None,
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    rows: int = ROWS,
) -> Chunks:
    """The rows of a table, `rows` at a time.

    Args:
        source: an array (memory-mapped or not) with `y` beside it, or the path of a Parquet file.
        y: the outcomes, for an array.
        target: the column of outcomes, for a file.
        columns: the columns of inputs, for a file; all others by default.
        rows: the size of a chunk.
    """
    if rows < 1:
        raise DataError(f"rows must be at least 1, found {rows}")
    if isinstance(source, str | os.PathLike):
        if target is None:
            raise DataError("name the column of outcomes: chunks(path, target=...)")
        return _of_file(Path(source), target, columns, rows)
    if y is None:
        raise DataError("give the outcomes beside the table: chunks(X, y)")
    if len(source) != len(y):
        raise DataError(f"X and y must have the same number of rows, found {len(source)} and {len(y)}")
    cuts = [slice(start, start + rows) for start in range(0, len(source), rows)]
    return Chunks(lambda: ((source[cut], y[cut]) for cut in cuts))


def tables(
    source: Array | str | os.PathLike[str], *, columns: Sequence[str] | None = None, rows: int = ROWS
) -> "Tables":
    """The rows of a table without outcomes, `rows` at a time, for beliefs about rows as a whole (`Mixture`).

    Args:
        source: an array (memory-mapped or not), or the path of a Parquet file.
        columns: of a file; all by default.
        rows: the size of a chunk.
    """
    if rows < 1:
        raise DataError(f"rows must be at least 1, found {rows}")
    if not isinstance(source, str | os.PathLike):
        cuts = [slice(start, start + rows) for start in range(0, len(source), rows)]
        return Tables(lambda: (source[cut] for cut in cuts))
    names = _names_of(Path(source), columns or ())
    inputs = list(columns) if columns is not None else names
    return Tables(lambda: (x for x, _ in _read(Path(source), inputs, inputs[0], rows)))


class Tables:
    """Tables, read as they are reached, each time that one goes through them."""

    def __init__(self, read: Callable[[], Iterator[Array]]):
        self.read = read

    def __iter__(self) -> Iterator[Array]:
        return self.read()


def _of_file(path: Path, target: str, columns: Sequence[str] | None, rows: int) -> Chunks:
    names = _names_of(path, (target, *(columns or ())))
    inputs = list(columns) if columns is not None else [c for c in names if c != target]
    return Chunks(lambda: _read(path, inputs, target, rows))


def _names_of(path: Path, wanted: Sequence[str]) -> list[str]:
    """The columns of a Parquet file, which has those that are wanted."""
    from pyarrow import parquet

    if not path.is_file():
        raise FileError(f"there is no file {path}")
    names = list(parquet.ParquetFile(path).schema_arrow.names)
    missing = [c for c in wanted if c not in names]
    if missing:
        raise DataError(f"{path.name} has no column {missing[0]!r}; its columns are {', '.join(names)}")
    return names


def _read(path: Path, inputs: list[str], target: str, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=rows, columns=list(dict.fromkeys([*inputs, target]))):
            x = np.column_stack([batch.column(c).to_numpy(zero_copy_only=False) for c in inputs])
            yield x, batch.column(target).to_numpy(zero_copy_only=False)
