"""What the agent always knows of a hidden state, found by itself: the finest partition with beliefs inside one block.

    s ~ s'   if some (block, action, observation) leads to both

The relation is a fixpoint: blocks that grow lead to more. A belief that begins inside a block stays inside blocks,
whatever is done and seen, so a plan keeps its vectors and bounds for each block alone: the mixed observability of Ong
et al. (2010), "Planning under uncertainty for robotic tasks with mixed observability", without being told the factors.
The start may be spread over many blocks; it then lies on a copy of its states, to which nothing leads.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components

from credo.decide.pomdp.model import entries_of


class Blocks(NamedTuple):
    """A POMDP whose states are sorted so that block k is first[k]:first[k + 1]; states out of reach are left out."""

    first: Int[np.ndarray, " k_and_1"]
    state: Int[np.ndarray, " n"]
    """Which state of the problem each one is; a copy of the start's has the number of the original."""
    transitions: Sequence[Any]
    """For each action a sparse (n, n)."""
    observations: Sequence[Any]
    """For each action a sparse (n, o), by the state that was reached."""
    rewards: Float[np.ndarray, "n a"]
    discount: float
    start: Float[np.ndarray, " m"]
    """Inside block `home`."""
    home: int

    @property
    def sizes(self) -> Int[np.ndarray, " k"]:
        """States of each block."""
        return np.diff(self.first)

    @property
    def block(self) -> Int[np.ndarray, " n"]:
        """In which block each state is."""
        return np.repeat(np.arange(len(self.first) - 1), self.sizes)


def blocks_of(
    transitions: Sequence[Any],
    observations: Sequence[Any],
    rewards: Float[np.ndarray, "s a"],
    discount: float,
    start: Float[np.ndarray, " s"],
) -> Blocks:
    """The states sorted by what is always known of them."""
    support = np.flatnonzero(start)
    copies, s = len(support), len(start)
    state = np.concatenate([support, np.arange(s)])
    moves = [_with_copies(matrix, support) for matrix in transitions]
    seen = [sp.csr_array(matrix)[state] for matrix in observations]
    reached = _reachable(moves, np.arange(copies))
    label = _partition(moves, seen, reached, copies)
    begins = np.arange(copies)
    originals = copies + support
    if reached[originals].all() and len(np.unique(label[originals])) == 1:
        # The start lies in one block anyway: without the copies it shares that block's vectors.
        begins, reached[:copies] = originals, False
    order = np.flatnonzero(reached)
    order = order[np.argsort(label[order], kind="stable")]
    names, sizes = np.unique(label[order], return_counts=True)
    place = np.empty(len(state), dtype=int)
    place[order] = np.arange(len(order))
    first = np.concatenate([[0], np.cumsum(sizes)])
    home = int(np.searchsorted(names, label[begins[0]]))
    belief = np.zeros(sizes[home])
    belief[place[begins] - first[home]] = start[support]
    return Blocks(
        first,
        state[order],
        [sp.csr_array(matrix[order][:, order]) for matrix in moves],
        [sp.csr_array(matrix[order]) for matrix in seen],
        np.ascontiguousarray(rewards[state[order]]),
        discount,
        belief,
        home,
    )


def _with_copies(matrix: Any, support: Int[np.ndarray, " c"]) -> Any:
    """Rows of the copies before those of the states; nothing leads to a copy."""
    matrix = sp.csr_array(matrix)
    rows = sp.vstack([matrix[support], matrix], format="csr")
    return sp.csr_array(
        (rows.data, rows.indices + len(support), rows.indptr), shape=(rows.shape[0], rows.shape[1] + len(support))
    )


def _reachable(moves: Sequence[Any], begins: Int[np.ndarray, " c"]) -> np.ndarray:
    reached = np.zeros(moves[0].shape[0], dtype=bool)
    reached[begins] = True
    while True:
        next_ = reached.copy()
        for matrix in moves:
            next_[matrix[np.flatnonzero(reached)].indices] = True
        if (next_ == reached).all():
            return reached
        reached = next_


def _partition(moves: Sequence[Any], seen: Sequence[Any], reached: np.ndarray, copies: int) -> Int[np.ndarray, " n"]:
    """The block of each state: connected components of states and (block, action, observation), until they stay."""
    n, o = len(reached), seen[0].shape[1]
    label = np.arange(n)
    label[:copies] = 0
    rows = np.flatnonzero(reached)
    while True:
        groups, known = np.unique(label[rows], return_inverse=True)
        gather = sp.csr_array((np.ones(len(rows)), (known, rows)), shape=(len(groups), n))
        causes, effects = [np.zeros(copies, dtype=int)], [np.arange(copies)]
        for a, (matrix, emission) in enumerate(zip(moves, seen, strict=True)):
            led = sp.coo_array(gather @ matrix)
            entry, at = entries_of(emission.indptr, led.col)
            causes.append(1 + (led.row[entry].astype(np.int64) * len(moves) + a) * o + emission.indices[at])
            effects.append(led.col[entry])
        names, cause = np.unique(np.concatenate(causes), return_inverse=True)
        effect = np.concatenate(effects)
        size = n + len(names)
        graph = sp.coo_array((np.ones(len(effect)), (effect, n + cause)), shape=(size, size))
        found = connected_components(graph, directed=False)[1][:n]
        if len(np.unique(found[rows])) == len(groups):
            return found
        label = found
