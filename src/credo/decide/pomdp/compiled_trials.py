"""The trials of `trials.py` for problems where they take seconds: the same steps, compiled, over arrays that grow.

numba is imported with this module alone.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from credo.decide.pomdp import compiled_steps as steps
from credo.decide.pomdp.compiled_steps import (
    BRANCH,
    CLOCK,
    ENTRY,
    FULL,
    NODE,
    NODES,
    PAIR,
    POOL,
    STATE,
    VALUES,
    VECTOR,
    VECTORS,
    Arrays,
)
from credo.decide.pomdp.mixed_observability import Blocks
from credo.decide.pomdp.trials import TINY, Children, Draws, Point, Vector

GROWING = {NODES: ("nodes", "branches"), POOL: ("where", "weight"), VECTORS: ("vectors",), VALUES: ("values",)}
"""The arrays that a count says how full they are; those of one count are of one length."""
LARGE, SLACK = 3e7, 1.1
"""Arrays of more bytes grow by this factor in place of doubling."""


class CompiledTrials:
    """Both bounds of a POMDP, and the beliefs they were tightened at; see `trials.Trials`."""

    root = 0

    def __init__(self, blocks: Blocks, blind: list[tuple[Vector, int]], informed: Float[np.ndarray, "n a"]) -> None:
        n, actions = blocks.rewards.shape
        matrices = [*blocks.transitions, *blocks.observations]
        states, nodes = np.full(n, -1, dtype=STATE), np.zeros(1 << 12, dtype=NODE)
        states["corner"], states["scratch"], states["moved"] = informed.max(axis=1), np.nan, 0
        states["block"], states["size"] = blocks.first[blocks.block], blocks.sizes[blocks.block]
        pairs = np.zeros((n + 1, actions), dtype=PAIR)
        pairs["reward"][:n], pairs["informed"][:n] = blocks.rewards, informed
        ends = np.cumsum([0] + [matrix.nnz for matrix in matrices])
        for k, matrix in enumerate(matrices):
            pairs["moves" if k < actions else "shows"][:, k % actions] = ends[k] + matrix.indptr
        entries = np.empty(ends[-1], dtype=ENTRY)
        entries["to"] = np.concatenate([matrix.indices for matrix in matrices])
        entries["p"] = np.concatenate([matrix.data for matrix in matrices])
        nodes["bucket"] = -1
        self.m = Arrays(
            states,
            pairs,
            entries,
            nodes,
            np.zeros((len(nodes), actions), dtype=BRANCH),
            np.zeros(1 << 16, dtype=np.int32),
            np.zeros(1 << 16),
            np.zeros(1 << 10, dtype=VECTOR),
            np.zeros(1 << 16),
            np.zeros(6, dtype=np.int64),
            blocks.observations[0].shape[1],
            float(blocks.discount),
            TINY * max(float(np.ptp(informed)), float(np.abs(informed).max()), 1e-300),
        )
        self.first = blocks.first
        for alpha, action in blind:
            for k, (first, end) in enumerate(pairwise(blocks.first)):
                self.adopt_vector(k, alpha[first:end], action)
        self.node(blocks.home, blocks.start)
        steps.see(self.m, self.root)

    def trial(self, width: float, draws: Draws | None = None) -> Sequence[int]:
        """One way down and back up, again with longer arrays where they were too short."""
        while True:
            path = steps.trial(self.m, width, np.empty(0) if draws is None else draws)
            if not self._make_room():
                return path

    def backup(self, node: int) -> None:
        """Tightens both bounds at a node by looking one step ahead."""
        steps.backup(self.m, node)
        while self._make_room():
            steps.backup(self.m, node)

    def see(self, node: int) -> None:
        """Takes notice of what came since the node was last looked at."""
        steps.see(self.m, node)

    def children(self, node: int, action: int) -> Children:
        """What follows an action, the bounds of the beliefs that it leads to up to date."""
        while not steps.grow(self.m, node, action):
            self._make_room()
        m, branch = self.m, self.m.branches[node, action]
        begin, end = int(branch["begin"]), int(branch["end"])
        nodes, seen = m.where[begin:end].tolist(), m.where[end : 2 * end - begin].tolist()
        return Children(float(branch["reward"]), seen, m.weight[begin:end].copy(), nodes)

    def adopt_vector(self, k: int, alpha: Vector, action: int) -> None:
        """Takes over a vector that is a lower bound."""
        counts, m = self.m.counts, self.m
        while counts[VECTORS] == len(self.m.vectors) or counts[VALUES] + len(alpha) > len(self.m.values):
            self._make_room(True)
        counts[CLOCK] += 1
        steps.add_vector(self.m, int(self.first[k]), np.ascontiguousarray(alpha), action)
        if m.counts[NODES]:
            steps.see(self.m, self.root)

    def adopt_point(self, k: int, belief: Vector, value: float) -> None:
        """Takes over an upper bound of a belief."""
        node = self.node(k, belief)
        self.m.counts[CLOCK] += 1
        if value < self.m.nodes[node]["upper"]:
            self.m.nodes["upper"][node] = value
            steps.add_point(self.m, node)
        steps.see(self.m, self.root)

    def node(self, k: int, belief: Vector) -> int:
        """The node of a belief, new or known."""
        while self.m.counts[POOL] + len(belief) > len(self.m.where) or self.m.counts[NODES] == len(self.m.nodes):
            self._make_room(True)
        m, support, first = self.m, np.flatnonzero(belief), int(self.first[k])
        if 2 * len(support) >= len(belief):  # as `expand` keeps it
            support = np.arange(len(belief))
        begin = int(m.counts[POOL])
        m.where[begin : begin + len(support)] = first + support
        m.weight[begin : begin + len(support)] = belief[support]
        return int(steps.add_node(m, first, begin, begin + len(support)))

    def _make_room(self, need: bool = False) -> bool:
        """Longer arrays where they are nearly full (or all, if none is), if something did not fit."""
        counts = self.m.counts
        if not (counts[FULL] or need):
            return False
        counts[FULL] = 0
        lengths = {count: len(getattr(self.m, names[0])) for count, names in GROWING.items()}
        more = {count: SLACK if self._bytes(count) * length > LARGE else 2.0 for count, length in lengths.items()}
        full = [count for count, length in lengths.items() if more[count] * counts[count] > length] or list(GROWING)
        for count in full:
            self._resize(count, int(lengths[count] * more[count]))
        if NODES in full:
            steps.rehash(self.m)
        return True

    def _resize(self, count: int, length: int) -> None:
        """In place: no moment at which memory holds both."""
        for name in GROWING[count]:
            array = getattr(self.m, name)
            array.resize((length, *array.shape[1:]), refcheck=False)

    def _bytes(self, count: int) -> int:
        """Of an entry of the arrays of a count."""
        return sum(getattr(self.m, name)[:1].nbytes for name in GROWING[count])

    def forget(self) -> None:
        """Leaves the vectors, the points and the root: other beliefs are found again when they are needed."""
        steps.forget(self.m)
        for count in (NODES, POOL):
            self._resize(count, 2 * int(self.m.counts[count]) + 1000)
        steps.rehash(self.m)

    def bounds(self, node: int) -> tuple[float, float]:
        """As a node remembers them."""
        return float(self.m.nodes[node]["lower"]), float(self.m.nodes[node]["upper"])

    def action(self, node: int) -> int:
        """Of the vector that is best at a node."""
        return int(self.m.vectors[self.m.nodes[node]["vector"]]["action"])

    def uppers(self, node: int) -> Float[np.ndarray, " a"]:
        """Upper bounds of the actions at a node, perhaps stale."""
        return self.m.branches["q"][node].copy()

    @property
    def lower(self) -> float:
        """At the start."""
        return self.bounds(self.root)[0]

    @property
    def upper(self) -> float:
        """At the start."""
        return self.bounds(self.root)[1]

    @property
    def size(self) -> int:
        """Bytes that are in use."""
        m = self.m
        used = sum(int(m.counts[count]) * self._bytes(count) for count in GROWING)
        return used + m.states.nbytes + m.pairs.nbytes + m.entries.nbytes

    def vectors(self) -> list[tuple[Float[np.ndarray, "v m"], Int[np.ndarray, " v"]]]:
        """Of each block: the vectors over its states, and their actions."""
        m, out = self.m, []
        for first, end in pairwise(self.first.tolist()):
            records = m.vectors[list(self._chain(int(m.states[first]["vector"]), m.vectors))]
            alphas = m.values[records["begin"][:, None] + np.arange(end - first)]
            out.append((alphas, records["action"].copy()))
        return out

    @property
    def corners(self) -> Vector:
        """The upper bounds of beliefs that are sure of a state."""
        return self.m.states["corner"].copy()

    def points(self) -> list[Point]:
        """The other beliefs whose upper bounds are kept: the block, the belief inside it, the bound."""
        m, out = self.m, []
        for k, (first, end) in enumerate(pairwise(self.first.tolist())):
            for j in self._chain(int(m.states[first]["point"]), m.nodes):
                part = slice(m.nodes[j]["begin"], m.nodes[j]["end"])
                belief = np.zeros(end - first)
                belief[m.where[part] - first] = m.weight[part]
                out.append((k, belief, float(m.nodes[j]["upper"])))
        return out

    def _chain(self, newest: int, records: np.ndarray) -> Iterator[int]:
        """A linked list, the newest first."""
        while newest >= 0:
            yield newest
            newest = int(records[newest]["older"])
