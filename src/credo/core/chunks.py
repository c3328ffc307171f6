"""Data that do not fit in memory, a chunk at a time: memory-mapped arrays and Parquet files.

    belief.condition(chunks("sales.parquet", target="revenue"))
    belief.condition(chunks(X_memmap, y_memmap))

Any iterable of (X, y) or (X, y, weights) tuples serves as well; what `chunks` returns can be gone through
more than once.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from credo.core.arrays import Array
from credo.core.errors import DataError, FileError

ROWS = 65_536


class ArrayChunks:
    """Slices of a table and its outcomes; memory-mapped arrays are read as they are reached."""

    def __init__(self, x: Array, y: Array, rows: int):
        if len(x) != len(y):
            raise DataError(f"X and y must have the same number of rows, found {len(x)} and {len(y)}")
        self.x, self.y, self.rows = x, y, rows

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        for start in range(0, len(self.x), self.rows):
            cut = slice(start, start + self.rows)
            yield self.x[cut], self.y[cut]


class ParquetChunks:
    """Batches of rows of a Parquet file."""

    def __init__(self, path: Path, target: str, columns: Sequence[str] | None, rows: int):
        from pyarrow import parquet

        if not path.is_file():
            raise FileError(f"there is no file {path}")
        names = parquet.ParquetFile(path).schema_arrow.names
        missing = [c for c in (target, *(columns or ())) if c not in names]
        if missing:
            raise DataError(f"{path.name} has no column {missing[0]!r}; its columns are {', '.join(names)}")
        self.path, self.target, self.rows = path, target, rows
        self.columns = list(columns) if columns is not None else [c for c in names if c != target]

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        from pyarrow import parquet

        with parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(batch_size=self.rows, columns=[*self.columns, self.target]):
                x = np.column_stack([batch.column(c).to_numpy(zero_copy_only=False) for c in self.columns])
                yield x, batch.column(self.target).to_numpy(zero_copy_only=False)


def chunks(
    source: Array | str | os.PathLike[str],
    y: Array | None = None,
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    rows: int = ROWS,
) -> ArrayChunks | ParquetChunks:
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
        return ParquetChunks(Path(source), target, columns, rows)
    if y is None:
        raise DataError("give the outcomes beside the table: chunks(X, y)")
    return ArrayChunks(source, y, rows)
