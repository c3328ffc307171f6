"""α-vectors: a value function V(b) = maxᵢ αᵢ·b over beliefs, each vector with the action it begins with.

Vectors may live on a block of the states: a reachable belief lies in one block where some of the state is seen
(mixed observability; Ong, Png, Hsu & Lee 2010), and a vector says nothing of beliefs outside of its own.
"""

from collections.abc import Sequence

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from credo.core.errors import DataError

INSIDE = 1 - 1e-9
"""The mass that a belief must have in a block to be in it."""


class AlphaVectors(eqx.Module):
    """Vectors in the order of their blocks; each block's are a table of (its vectors, its states)."""

    actions: Int[np.ndarray, " n"]
    """The action of each vector."""
    values: Float[np.ndarray, " total"]
    """The tables of all blocks, one after the other."""
    counts: Int[np.ndarray, " k"]
    """How many vectors each block has."""
    indptr: Int[np.ndarray, " k_and_1"]
    """Where the states of each block begin."""
    states: Int[np.ndarray, " m"]
    """The states of all blocks; blocks may overlap."""
    size: int = eqx.field(static=True)
    """How many states there are in all."""

    @classmethod
    def dense(cls, table: Float[np.ndarray, "n s"], actions: Int[np.ndarray, " n"]) -> "AlphaVectors":
        """Vectors over all states."""
        return cls.of_blocks([np.arange(table.shape[1])], [table], [actions], table.shape[1])

    @classmethod
    def of_blocks(
        cls,
        blocks: Sequence[np.ndarray],
        tables: Sequence[np.ndarray],
        actions: Sequence[np.ndarray],
        size: int,
    ) -> "AlphaVectors":
        """Vectors (n, m) over the m states of each block."""
        flat = np.concatenate([np.asarray(t, dtype=float).ravel() for t in tables])
        indptr = np.concatenate([[0], np.cumsum([len(b) for b in blocks])])
        counts = np.array([len(t) for t in tables])
        return cls(np.concatenate(actions).astype(int), flat, counts, indptr, np.concatenate(blocks), size)

    def __len__(self) -> int:
        """How many vectors."""
        return len(self.actions)

    @property
    def tables(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """States (m,), values (n, m) and actions (n,) of each block."""
        out, at, first = [], 0, 0
        for k, count in enumerate(self.counts.tolist()):
            own = self.states[self.indptr[k] : self.indptr[k + 1]]
            table = self.values[at : at + count * len(own)].reshape(count, len(own))
            out.append((own, table, self.actions[first : first + count]))
            at, first = at + table.size, first + count
        return out

    @property
    def table(self) -> Float[np.ndarray, "n s"]:
        """All vectors over all states; -inf outside of a vector's block."""
        out, first = np.full((len(self), self.size), -np.inf), 0
        for own, values, actions in self.tables:
            out[first : first + len(actions), own] = values
            first += len(actions)
        return out

    def best(self, beliefs: sp.csr_array) -> tuple[Float[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """maxᵢ αᵢ·b and which vector it is, for each row."""
        n = beliefs.shape[0]
        value, which = np.full(n, -np.inf), np.full(n, -1)
        owner = np.repeat(np.arange(len(self.counts)), np.diff(self.indptr))
        inside = beliefs @ sp.csr_array(
            (np.ones(len(owner)), (self.states, owner)), shape=(self.size, len(self.counts))
        )
        mass = sp.csc_array(inside)
        first = 0
        for k, (own, table, actions) in enumerate(self.tables):
            column = slice(mass.indptr[k], mass.indptr[k + 1])
            rows = mass.indices[column][mass.data[column] >= INSIDE]
            if len(rows) and len(actions):
                chosen = beliefs[rows] if len(own) == self.size else beliefs[rows][:, own]
                scores = chosen @ table.T
                at = scores.argmax(axis=1)
                top = scores[np.arange(len(rows)), at]
                better = top > value[rows]
                value[rows[better]], which[rows[better]] = top[better], first + at[better]
            first += len(actions)
        if (which < 0).any():
            raise DataError("a belief is spread over states that are never possible together; the plan has none for it")
        return value, which
