"""The sparse tables of problem files, filled in the order of the lines: the last word on a cell counts."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int


class SparseTable:
    """Numbers of (rows, columns) as they were said, the last word counting; zero where nothing was."""

    def __init__(self, rows: int, columns: int) -> None:
        self.shape = (rows, columns)
        self.kind = np.int32 if (rows + 1) * columns < 2**31 else np.int64
        self.said: list[tuple[np.ndarray, np.ndarray]] = []
        self.cleared = np.zeros(rows, np.int32)
        """How much had been said when a row was begun anew."""

    def clear(self, rows: Int[np.ndarray, " n"]) -> None:
        """What was said of these rows does not count any more."""
        self.cleared[rows] = len(self.said)

    def say(self, rows: np.ndarray | int, columns: np.ndarray | int, values: np.ndarray | float) -> None:
        """These cells, of rows and columns that broadcast together, hold these values."""
        where = np.atleast_1d(rows * self.shape[1] + columns).astype(self.kind)
        full = np.empty(where.shape)
        full[...] = values
        keys, numbers = where.ravel(), full.ravel()
        if np.ndim(rows) and (self.cleared[rows] == len(self.said)).all():  # they are zero already
            keys, numbers = keys[numbers != 0], numbers[numbers != 0]
        self.said.append((keys, numbers))

    def matrix(self) -> sp.csr_array:
        """(rows, columns), sparse."""
        if not self.said:
            return sp.csr_array(self.shape)
        rows, columns = self.shape
        keys, values = (np.concatenate(each) for each in zip(*self.said, strict=True))
        turns = np.repeat(np.arange(len(self.said), dtype=np.int32), [len(k) for k, _ in self.said])
        counts = turns >= self.cleared[keys // columns]
        keys, values = keys[counts], values[counts]
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        last = np.append(keys[1:] != keys[:-1], True)[: len(keys)]
        keys, values = keys[last], values[order[last]]
        indptr = np.searchsorted(keys, np.arange(rows + 1, dtype=self.kind) * columns).astype(np.int32)
        found = sp.csr_array((values, keys % columns, indptr), shape=self.shape)
        found.eliminate_zeros()
        return found
