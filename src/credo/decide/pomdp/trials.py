"""Trials through the beliefs that can be reached, and backups along them: the kernel of point-based planning, readable.

    lower bound    V(b) = max over vectors α of the block: α·b
    upper bound    V̄(b) = Σ b(s) u(s) + min over points i: (v_i - Σ b_i(s) u(s)) minₛ b(s) / b_i(s)      (sawtooth)

A trial goes down from the start, by the action whose upper bound is best and to the observation where most of the gap
lies, until the gap is small enough for its depth; on the way back every belief is backed up. What makes it cheap:

- vectors and points belong to a block of states (`mixed_observability`), and equal beliefs are one node;
- a node remembers the last vector and the last point that it has seen, and looks only at newer ones;
- upper bounds of actions may be stale, they stay valid: only the best action is refreshed, until it stays the best;
- the action of a backup is chosen from the children's remembered values, and only its vector is assembled; where
  nothing is gained, one more action is tried.

A vector is dropped where another is at least as good in every state of the block, never because no node needs it: its
successors count on it. Smith & Simmons (2005); Kurniawati, Hsu & Lee (2008).
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from credo.decide.pomdp.mixed_observability import Blocks

Vector = Float[np.ndarray, " m"]
Draws = Float[np.ndarray, " t"]
Point = tuple[int, Vector, float]
"""A block, a belief inside it, an upper bound of its value."""

TINY = 1e-10
"""Gains below this share of the range of values are rounding."""
ALIKE = 10
"""Beliefs that agree in so many decimals are the same."""
LEAST = 0.5 * 10.0**-ALIKE
"""What is less likely is left out of a belief: a state of 1e-60 would halve what a point tells of the next belief."""
DEEPEST = 400
"""Steps of a trial: γ⁴⁰⁰ is below 1e-8 at γ = 0.955, and a longer path costs more than it tells."""


class Children(NamedTuple):
    """What follows an action at a node: its reward, and the nodes that observations lead to, with probabilities."""

    reward: float
    observations: list[int]
    probabilities: Vector
    nodes: list[Any]


class Node:
    """A belief that can be reached, with its bounds and what it has seen."""

    __slots__ = ("belief", "block", "branches", "lower", "q", "seen_point", "seen_vector", "upper")

    def __init__(self, block: "Block", belief: Vector) -> None:
        self.block, self.belief = block, belief
        self.q = belief @ block.informed
        """Upper bounds of the actions, perhaps stale."""
        self.lower, self.upper = -np.inf, float(self.q.max())
        self.seen_vector, self.seen_point = -1, -1
        self.branches: dict[int, Children] = {}


class Moves:
    """What an action does to beliefs of a block: dense, over the states that it leads to."""

    __slots__ = ("after", "emission", "rewards", "symbols", "targets", "transition")

    def __init__(self, blocks: Blocks, rows: slice, action: int) -> None:
        moves = blocks.transitions[action][rows.start : rows.stop]
        self.targets = np.unique(moves.indices)
        self.transition = moves[:, self.targets].toarray()
        emission = blocks.observations[action][self.targets].toarray()
        self.symbols = np.flatnonzero(emission.any(axis=0))
        self.emission = emission[:, self.symbols]
        self.after = []
        """For each symbol: rows among the targets, the block they are in, places inside it."""
        for column in self.emission.T:
            inside = np.flatnonzero(column)
            states = self.targets[inside]
            k = int(blocks.block[states[0]])
            self.after.append((inside, k, states - blocks.first[k]))
        self.rewards = blocks.rewards[rows, action]


class Block:
    """States among which beliefs stay, the vectors below them and the points above."""

    def __init__(self, blocks: Blocks, k: int, informed: Float[np.ndarray, "n a"]) -> None:
        self.rows = slice(int(blocks.first[k]), int(blocks.first[k + 1]))
        self.moves = [Moves(blocks, self.rows, a) for a in range(blocks.rewards.shape[1])]
        self.informed = informed[self.rows]
        self.corners = self.informed.max(axis=1)
        m = self.rows.stop - self.rows.start
        self.vectors, self.actions, self.born = np.empty((0, m)), np.empty(0, dtype=int), np.empty(0, dtype=int)
        self.points, self.values, self.noted = np.empty((0, m)), np.empty(0), np.empty(0, dtype=int)
        self.last_vector, self.last_point = -1, 0
        """When the newest came."""
        self.owner: list[Node] = []
        self.drops = np.empty(0)
        """How far each point lies below the plane through the corners."""

    def add_vector(self, alpha: Vector, action: int, now: int) -> bool:
        """Adds a vector unless an old one is at least as good everywhere; drops those that it makes useless."""
        if (self.vectors >= alpha).all(axis=1).any():
            return False
        keep = ~(self.vectors <= alpha).all(axis=1)
        self.last_vector = now
        self.vectors = np.vstack([self.vectors[keep], alpha])
        self.actions, self.born = np.append(self.actions[keep], action), np.append(self.born[keep], now)
        return True

    def best(self, belief: Vector) -> int:
        """Which vector is best at a belief."""
        return int(np.argmax(self.vectors @ belief))

    def add_point(self, node: Node, now: int) -> None:
        """Notes the upper bound of a node, in place of what was noted before."""
        self.last_point = now
        if np.count_nonzero(node.belief) == 1:
            self.corners[np.argmax(node.belief)] = node.upper
            self.noted[:] = now  # the plane moved: every point is news again
            self.values = np.array([each.upper for each in self.owner])
        else:
            if node in self.owner:
                old = self.owner.index(node)
                del self.owner[old]
                self.points, self.values = np.delete(self.points, old, 0), np.delete(self.values, old)
                self.noted = np.delete(self.noted, old)
            self.owner.append(node)
            self.points, self.values = np.vstack([self.points, node.belief]), np.append(self.values, node.upper)
            self.noted = np.append(self.noted, now)
        self.drops = self.values - self.points @ self.corners


class Trials:
    """Both bounds of a POMDP, and the beliefs they were tightened at.

    Args:
        blocks: the problem.
        blind: vectors over all its states that are lower bounds, with their actions.
        informed: upper bounds of Q(s, a).
    """

    def __init__(self, blocks: Blocks, blind: list[tuple[Vector, int]], informed: Float[np.ndarray, "n a"]) -> None:
        self.discount = blocks.discount
        self.blocks = [Block(blocks, k, informed) for k in range(len(blocks.first) - 1)]
        self.clock = 0
        self.tiny = TINY * max(float(np.ptp(informed)), float(np.abs(informed).max()), 1e-300)
        self.nodes: dict[tuple[int, bytes], Node] = {}
        for alpha, action in blind:
            self.clock += 1
            for block in self.blocks:
                block.add_vector(alpha[block.rows], action, self.clock)
        self.root = self.node(blocks.home, blocks.start)
        self.see(self.root)

    # ── bounds at a node

    def node(self, k: int, belief: Vector) -> Node:
        """The node of a belief, new or known."""
        key = (k, np.round(belief, ALIKE).tobytes())
        if key not in self.nodes:
            self.nodes[key] = Node(self.blocks[k], belief)
        return self.nodes[key]

    def see(self, node: Node) -> None:
        """Takes notice of the vectors and points that came since it was last here."""
        block, b = node.block, node.belief
        if block.last_vector > node.seen_vector:
            fresh = int(np.searchsorted(block.born, node.seen_vector, side="right"))
            values = block.vectors[fresh:] @ b
            node.lower, node.seen_vector = max(node.lower, float(values.max())), block.last_vector
        if block.last_point > node.seen_point:
            plane = float(block.corners @ b)
            fresh = int(np.searchsorted(block.noted, node.seen_point, side="right"))
            points = block.points[fresh:]
            share = np.divide(b, points, out=np.full(points.shape, np.inf), where=points > 0).min(axis=1)
            drop = float((block.drops[fresh:] * share).min(initial=0.0))
            node.upper, node.seen_point = min(node.upper, plane + drop), block.last_point

    def best(self, node: Node) -> int:
        """The action whose upper bound is best: stale bounds are refreshed until the best one is not stale."""
        fresh: set[int] = set()
        while (a := int(np.argmax(node.q))) not in fresh:
            after = self.children(node, a)
            value = after.reward + self.discount * float(after.probabilities @ [child.upper for child in after.nodes])
            node.q[a] = min(float(node.q[a]), value)
            fresh.add(a)
        return a

    def children(self, node: Node, action: int) -> Children:
        """What follows an action, the bounds of the beliefs that it leads to up to date."""
        if action not in node.branches:
            moves = node.block.moves[action]
            joint = (node.belief @ moves.transition)[:, None] * moves.emission
            probabilities = joint.sum(axis=0)
            shown = np.flatnonzero(probabilities > 0)
            nodes = []
            for o in shown:
                inside, k, places = moves.after[o]
                belief, share = np.zeros(len(self.blocks[k].corners)), joint[inside, o] / probabilities[o]
                belief[places] = np.where(share < LEAST, 0.0, share)
                nodes.append(self.node(k, belief / belief.sum()))
            reward = float(node.belief @ moves.rewards)
            node.branches[action] = Children(reward, moves.symbols[shown].tolist(), probabilities[shown], nodes)
        for child in node.branches[action].nodes:
            self.see(child)
        return node.branches[action]

    # ── backups

    def backup(self, node: Node) -> None:
        """Tightens both bounds at a node by looking one step ahead."""
        self.clock += 1
        self.best(node)
        upper = min(node.upper, float(node.q.max()))
        if upper < node.upper - self.tiny:
            node.upper = upper
            node.block.add_point(node, self.clock)
        if not self.improve(node) and node.upper - node.lower > self.tiny:
            # Nothing came of the actions that were tried: the most promising of the others is tried, too.
            others = [a for a in range(len(node.q)) if a not in node.branches and node.q[a] > node.lower]
            if others:
                self.children(node, max(others, key=node.q.__getitem__))
                self.improve(node)

    def improve(self, node: Node) -> bool:
        """Adds the vector of the action that is best by the children's remembered values, if it gains something."""

        def value(action: int) -> float:
            after = node.branches[action]
            return after.reward + self.discount * float(after.probabilities @ [child.lower for child in after.nodes])

        action = max(sorted(node.branches), key=value)
        alpha = self.vector(node, action)
        self.see(node)
        gains = float(alpha @ node.belief) > node.lower + self.tiny
        if gains and node.block.add_vector(alpha, action, self.clock):
            self.see(node)
            return True
        return False

    def vector(self, node: Node, action: int) -> Vector:
        """α(s) = r(s, a) + γ Σ P(s' | s, a) Σ P(o | a, s') α_o(s'), α_o best at the child; the inner sum first."""
        moves, after = node.block.moves[action], self.children(node, action)
        known = dict(zip(after.observations, after.nodes, strict=True))
        ahead = np.zeros(len(moves.targets))
        for o, column, (inside, k, places) in zip(moves.symbols.tolist(), moves.emission.T, moves.after, strict=True):
            block = self.blocks[k]
            # Not seen from here: any vector is a lower bound.
            best = block.best(known[o].belief) if o in known else len(block.vectors) - 1
            ahead[inside] += column[inside] * block.vectors[best][places]
        return moves.rewards + self.discount * (moves.transition @ ahead)

    # ── ways through the beliefs

    def trial(self, width: float, draws: Draws | None = None) -> list[Node]:
        """One way down and back up; the gap allowed at depth t is width γ⁻ᵗ. With draws: a random walk, no backups."""
        node, path, allowed = self.root, [], width
        self.see(node)
        for t in range(DEEPEST if draws is None else len(draws) // 2):
            path.append(node)
            allowed /= self.discount
            after = self.children(node, self.best(node) if draws is None else int(draws[2 * t] * len(node.q)))
            if draws is None:
                gaps = np.array([child.upper - child.lower for child in after.nodes])
                excess = after.probabilities * (gaps - allowed)
                o = int(np.argmax(excess))
                if excess[o] <= 0:
                    break
            else:
                o = min(int(np.searchsorted(np.cumsum(after.probabilities), draws[2 * t + 1])), len(after.nodes) - 1)
            node = after.nodes[o]
        if draws is None:
            for each in reversed(path):
                self.backup(each)
        return path

    # ── what came out

    def bounds(self, node: Node) -> tuple[float, float]:
        """As a node remembers them."""
        return node.lower, node.upper

    def action(self, node: Node) -> int:
        """Of the vector that is best at a node."""
        return int(node.block.actions[node.block.best(node.belief)])

    def uppers(self, node: Node) -> Float[np.ndarray, " a"]:
        """Upper bounds of the actions at a node, perhaps stale."""
        return node.q

    @property
    def lower(self) -> float:
        """At the start."""
        return self.root.lower

    @property
    def upper(self) -> float:
        """At the start."""
        return self.root.upper

    def vectors(self) -> list[tuple[Float[np.ndarray, "v m"], Int[np.ndarray, " v"]]]:
        """Of each block: the vectors over its states, and their actions."""
        return [(block.vectors, block.actions) for block in self.blocks]

    @property
    def corners(self) -> Vector:
        """The upper bounds of beliefs that are sure of a state."""
        return np.concatenate([block.corners for block in self.blocks])

    def points(self) -> list[Point]:
        """The other beliefs whose upper bounds are kept: the block, the belief inside it, the bound."""
        return [(k, node.belief, node.upper) for k, block in enumerate(self.blocks) for node in block.owner]

    def adopt_vector(self, k: int, alpha: Vector, action: int) -> None:
        """Takes over a vector that is a lower bound."""
        self.clock += 1
        self.blocks[k].add_vector(alpha, action, self.clock)
        self.see(self.root)

    def adopt_point(self, k: int, belief: Vector, value: float) -> None:
        """Takes over an upper bound of a belief."""
        self.clock += 1
        node = self.node(k, belief)
        if value < node.upper:
            node.upper = value
            node.block.add_point(node, self.clock)
        self.see(self.root)

    def forget(self) -> None:
        """Leaves the vectors, the points and the root: other beliefs are found again when they are needed."""
        kept = {id(self.root), *(id(node) for block in self.blocks for node in block.owner)}
        self.nodes = {key: node for key, node in self.nodes.items() if id(node) in kept}
        for node in self.nodes.values():
            node.branches.clear()

    @property
    def size(self) -> int:
        """Bytes of beliefs and vectors, roughly."""
        return sum(b.vectors.nbytes + b.points.nbytes for b in self.blocks) + len(self.nodes) * 2000
