"""Cells of an unbounded lattice, each a Gaussian: what many returns say of the elevation there.

Returns zᵢ ~ N(h, σ²/wᵢ) of one cell are as good as their number n, W = Σw, z̄ = Σwz/W, S = Σw(z - z̄)² and Σ log w:

    log p(z | h) = log N(z̄ | h, σ²/W) - ½((n - 1) log 2πσ² + log W - Σ log w + S/σ²)

and two sets of returns are added without looking at them again. Only cells with returns are kept, in the order of their
keys (south to north, west to east), so that the lattice has no edge. Four by four cells make one of the next level.
"""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from credo.core.arrays import Array, namespace

SPAN = 2**31
"""Columns of the lattice; rows, too."""
SHARE = 4
"""So many cells, along each side, make one of the next level."""
COLUMNS = 7
COUNT, WEIGHT, MEAN, SCATTER, LOG_WEIGHT, X, Y = range(COLUMNS)
"""The statistics of a cell; x and y are the weighted middle of its returns."""

Index = Int[Array, "*m"]


def key_of(ix: Index, iy: Index) -> Index:
    """One number for a cell; keys are in the order of rows, then columns."""
    return (iy + SPAN // 2) * SPAN + ix + SPAN // 2


def place_of(key: Index) -> tuple[Index, Index]:
    """Column and row of a cell."""
    return key % SPAN - SPAN // 2, key // SPAN - SPAN // 2


def parent_of(key: Index, level: int = 1) -> Index:
    """The cell of a higher level that holds this one."""
    ix, iy = place_of(key)
    share = SHARE**level
    return key_of(ix // share, iy // share)


class Cells(eqx.Module):
    """Cells with returns, and the statistics of each."""

    key: Int[Array, " n"]
    table: Float[Array, "n 7"]

    @classmethod
    def none(cls) -> "Cells":
        """Before any returns."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros((0, COLUMNS)))

    @classmethod
    def of(
        cls,
        key: Int[np.ndarray, " r"],
        points: Float[np.ndarray, "r 3"],
        weight: Float[np.ndarray, " r"],
    ) -> "Cells":
        """The cells of returns: each return is one of its own, and they are pooled."""
        own, inside = np.unique(key, return_inverse=True)
        (x, y, z), one = points.T, np.ones(len(key))
        table = np.column_stack([one, weight, z, 0.0 * one, np.log(weight), x, y])
        return cls(own, pooled(table, inside.reshape(-1), len(own)))

    def find(self, key: Int[Array, "*m"]) -> tuple[Int[Array, "*m"], Array]:
        """Where cells stand here, and whether they do."""
        xp = namespace(self.key, key)
        n = self.key.shape[0]
        if not n:
            return xp.zeros(key.shape, int), xp.zeros(key.shape, bool)
        at = xp.minimum(xp.searchsorted(self.key, key), n - 1)
        return at, self.key[at] == key

    def coarser(self) -> "Cells":
        """The cells of the next level."""
        key, group = np.unique(parent_of(self.key), return_inverse=True)
        return Cells(key, pooled(np.asarray(self.table), group.reshape(-1), len(key)))


class Merged(NamedTuple):
    """The cells of two sets of returns."""

    cells: Cells
    new: Int[np.ndarray, " k"]
    """Before which of the old cells new ones were put."""


def pooled(table: Float[np.ndarray, "n 7"], group: Int[np.ndarray, " n"], groups: int) -> Float[np.ndarray, "g 7"]:
    """The statistics of all cells of each group together."""
    out = np.zeros((groups, COLUMNS))
    for name in (COUNT, WEIGHT, LOG_WEIGHT):
        out[:, name] = np.bincount(group, table[:, name], minlength=groups)
    weight = table[:, WEIGHT]
    for name in (MEAN, X, Y):
        out[:, name] = np.bincount(group, weight * table[:, name], minlength=groups) / out[:, WEIGHT]
    between = weight * np.square(table[:, MEAN] - out[group, MEAN])
    out[:, SCATTER] = np.bincount(group, table[:, SCATTER] + between, minlength=groups)
    return out


def merged(first: Cells, second: Cells) -> Merged:
    """All returns of both."""
    at = np.searchsorted(first.key, second.key)
    _, there = first.find(second.key)
    new = at[~there]
    table = np.insert(first.table, new, np.zeros((len(new), COLUMNS)), axis=0)
    key = np.insert(first.key, new, second.key[~there])
    touched = np.searchsorted(key, second.key)
    table[touched[~there]] = second.table[~there]
    both = touched[there]
    pair = np.arange(len(both))
    table[both] = pooled(np.concatenate([table[both], second.table[there]]), np.tile(pair, 2), len(both))
    return Merged(Cells(key, table), new)
