"""Methods that sweep over states: value iteration, Gauss-Seidel, prioritized sweeping.

Puterman (1994), sections 6.3 and 6.6; Moore & Atkeson (1993), "Prioritized sweeping", Machine Learning 13.
"""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from credo.decide.mdp.bellman import Ruler
from credo.decide.mdp.graph import Levels, levels, successors
from credo.decide.mdp.model import MDP, Vector, best
from credo.decide.mdp.plan import AVERAGE, HORIZON, DiscountedPlan, MDPPlanner, finish
from credo.decide.mdp.transitions import bare

QUANTUM = 64
"""States by which ranges that are updated together differ."""


@dataclass(frozen=True)
class ValueIteration(MDPPlanner):
    """V ← maxₐ r + γPV for all states at once, moved by what the bounds are sure of, until V* is pinned down.

    For a horizon it is backward induction, for the average reward relative value iteration.
    """

    answers: ClassVar[tuple[str, ...]] = ("solve", HORIZON, AVERAGE)

    max_steps: int = 100_000

    def solve(self, world: MDP, tolerance: float, start: Vector | None = None) -> DiscountedPlan:
        """Sweeps until the certificate is within the tolerance."""
        ruler = Ruler(world)
        v = np.zeros(world.shape[0]) if start is None else start
        for done in range(1, self.max_steps + 1):
            q = world.backup(v)
            backed = best(q)
            found = ruler.measure(v, backed)
            if found.certificate <= tolerance or np.array_equal(backed, v) or done == self.max_steps:
                break
            v = np.where(world.terminal, 0.0, backed + found.low) if found.low else backed
        return finish(world, v, tolerance, done, "value iteration", q)


@dataclass(frozen=True)
class GaussSeidel(MDPPlanner):
    """Value iteration that uses new values at once, in the order of distance from where the rewards are.

    All states of the same distance are updated together, so that values travel all the way in one sweep.
    """

    max_steps: int = 100_000

    def solve(self, world: MDP, tolerance: float, start: Vector | None = None) -> DiscountedPlan:
        """Sweeps until the change is small enough, then the certificate is computed."""
        blocks = Ordered(world, levels(world))
        ruler = Ruler(world)
        v = blocks.begin(start)
        target = tolerance / ruler.factor / 2 if ruler.factor else tolerance
        done, change = 0, np.inf
        while done < self.max_steps and change > max(target, 2 * ruler.rounding(v)):
            change, done = 0.0, done + 1
            for low, high in itertools.pairwise(blocks.bounds.tolist()):
                new = blocks.update(v, low, high)
                change = max(change, float(np.abs(new - v[low:high]).max(initial=0.0)))
                v[low:high] = new
        return finish(world, blocks.back(v), tolerance, done, "Gauss-Seidel")


@dataclass(frozen=True)
class PrioritizedSweeping(MDPPlanner):
    """Updates the states with the largest Bellman errors, and looks again only at those that lead to them.

    States within a `share` of the largest error are updated together.
    """

    share: float = 0.25
    max_steps: int = 10_000_000

    def solve(self, world: MDP, tolerance: float, start: Vector | None = None) -> DiscountedPlan:
        """Rounds until all errors are small enough; `iterations` counts backups in sweeps over all states."""
        s, a = world.shape
        matrix, ruler = world.matrix, Ruler(world)
        leading = sp.csr_array(successors(world).T)
        v = np.zeros(s) if start is None else start.copy()
        error = best(world.backup(v)) - v
        target = tolerance / (ruler.factor + 1) / 2
        backups = 0
        for _ in range(self.max_steps):
            size = np.abs(error)
            largest = float(size.max(initial=0.0))
            if largest <= max(target, 2 * ruler.rounding(v)):
                break
            chosen = np.flatnonzero(size > self.share * largest)
            v[chosen] += error[chosen]
            touched = np.unique(np.concatenate([leading[chosen].indices, chosen]))
            rows = (touched[:, None] * a + np.arange(a)).ravel()
            q = world.rewards[touched] + (world.discount * (matrix[rows] @ v)).reshape(-1, a)
            error[touched] = best(q) - v[touched]
            backups += len(touched)
        return finish(world, v, tolerance, 1 + backups // s, "prioritized sweeping")


class Ordered:
    """A world with its states in the order of their levels; any range of them is updated without copying rows."""

    def __init__(self, world: MDP, found: Levels) -> None:
        s, a = world.shape
        self.order, self.bounds, self.actions, self.discount = found.order, found.bounds, a, world.discount
        place = np.empty(s, dtype=world.indices.dtype)
        place[self.order] = np.arange(s, dtype=world.indices.dtype)
        matrix = world.matrix[(self.order[:, None] * a + np.arange(a)).ravel()]
        self.indptr, self.indices, self.probs = matrix.indptr, place[matrix.indices], matrix.data * world.discount
        # Rows beyond the last are empty.
        self.indptr = np.concatenate([self.indptr, np.full(QUANTUM * a, self.indptr[-1])])
        self.frames: dict[int, sp.csr_array] = {}
        self.rewards = world.rewards[self.order]
        low = float(world.rewards.min(initial=0.0))
        self.pessimist = min(low / (1 - world.discount), 0.0) if world.discount < 1 else 0.0
        self.terminal = world.terminal[self.order]

    def begin(self, value: Vector | None) -> Vector:
        """Values in this order: those given, or none that is too high, lest places not yet seen look attractive."""
        if value is not None:
            return value[self.order].copy()
        return np.where(self.terminal, 0.0, self.pessimist)

    def back(self, value: Vector) -> Vector:
        """Values in the order of the world."""
        out = np.empty_like(value)
        out[self.order] = value
        return out

    def update(self, value: Vector, low: int, high: int) -> Float[np.ndarray, " block"]:
        """maxₐ r + γPV of the states low … high - 1."""
        a = self.actions
        # Offsets into the arrays of the whole world: the product reads only these rows. A few more than needed, so that
        # there are few sizes: making a matrix takes longer than multiplying a small one.
        size = -(-(high - low) // QUANTUM) * QUANTUM * a
        if size not in self.frames:
            self.frames[size] = bare(self.probs, self.indices, self.indptr[: size + 1], (size, len(value)))
        frame = self.frames[size]
        frame.indptr = self.indptr[low * a : low * a + size + 1]
        return best(self.rewards[low:high] + (frame @ value)[: (high - low) * a].reshape(high - low, a))
