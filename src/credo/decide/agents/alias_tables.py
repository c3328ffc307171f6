"""A world that can be drawn from in a few operations: alias tables of where actions lead.

A uniform number u picks one of m slots of equal width; a slot holds two outcomes and the share of the first. Drawing
takes the same time however many successors there are. Walker (1977); Vose (1991).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int

from credo.core.errors import DataError
from credo.decide.mdp import MDP
from credo.decide.mdp.outcomes import END, of_world

Whole = Int[Array, " g"]
Numbers = Float[Array, " g"]
Flags = Bool[Array, " g"]


class Tables(NamedTuple):
    """Slots of all pairs of state and action, s·a + k for action k of state s, and slots of the starts."""

    slots: Float[np.ndarray, "sa m 5"]
    """The share of the first outcome, the two successors and their rewards; `END` is the end inside an action, entering
    a terminal state s is written -2 - s."""
    starts: Float[np.ndarray, "k 3"]
    states: int
    actions: int

    def outcome(self) -> Callable[[int, int, float], tuple[int, float]]:
        """(s, a, u) → (successor, or below zero where the episode ends; reward) in plain Python."""
        m, actions = self.slots.shape[1], self.actions
        rows = self.slots.reshape(-1, 5).tolist()

        def draw(s: int, a: int, u: float) -> tuple[int, float]:
            x = u * m
            j = min(int(x), m - 1)
            share, first, second, one, other = rows[(s * actions + a) * m + j]
            return (int(first), one) if x - j < share else (int(second), other)

        return draw

    def begin(self) -> Callable[[float], int]:
        """u → the state where an episode begins, in plain Python."""
        m, rows = len(self.starts), self.starts.tolist()

        def draw(u: float) -> int:
            x = u * m
            j = min(int(x), m - 1)
            share, first, second = rows[j]
            return int(first if x - j < share else second)

        return draw


def tabulate(world: MDP) -> Tables:
    """The tables of a world; episodes begin anywhere that is not terminal where the world has no start."""
    s, a = world.shape
    found = of_world(world)
    begin = found.indptr(s * a)
    p, rewards = np.zeros((2, s * a, int(np.diff(begin).max())))
    codes = np.full(p.shape, float(END))
    at = found.row, np.arange(len(found.row)) - begin[found.row]
    enters = (found.following >= 0) & world.terminal[found.following]
    codes[at], p[at], rewards[at] = np.where(enters, -2 - found.following, found.following), found.probs, found.rewards
    share, other = alias(p)
    second = (np.take_along_axis(each, other, axis=1) for each in (codes, rewards))
    slots = np.stack([share, codes, next(second), rewards, next(second)], axis=2)
    where, chance = start_of(world)
    share, other = alias(chance[None, :])
    starts = np.stack([share[0], where, where[other[0]]], axis=1)
    return Tables(slots, starts.astype(float), s, a)


def start_of(world: MDP) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """The states where episodes begin, and their probabilities; terminal ones are left out."""
    given = np.ones(world.shape[0]) if world.start is None else world.start
    chance = np.where(world.terminal, 0.0, given)
    where = np.flatnonzero(chance)
    if not len(where):
        raise DataError("there is no state to begin in that is not terminal; give the world another start")
    return where, chance[where] / chance.sum()


def alias(prob: Float[np.ndarray, "r m"]) -> tuple[Float[np.ndarray, "r m"], Int[np.ndarray, "r m"]]:
    """The share that each slot keeps, and who has the rest: the poorest is filled up by the richest, m times."""
    r, m = prob.shape
    rows = np.arange(r)
    wealth = prob * (m / prob.sum(axis=1, keepdims=True))
    share, other = np.ones((r, m)), np.tile(np.arange(m), (r, 1))
    poor, rich = wealth.copy(), wealth.copy()
    for _ in range(m - 1):
        low, high = np.argmin(poor, axis=1), np.argmax(rich, axis=1)
        kept = np.minimum(poor[rows, low], 1.0)
        share[rows, low], other[rows, low] = kept, high
        rich[rows, high] = poor[rows, high] = rich[rows, high] - (1 - kept)
        # Last: where all are equal the poorest is the richest too.
        poor[rows, low], rich[rows, low] = np.inf, -np.inf
    return share, other


class Compiled(NamedTuple):
    """The tables inside a compiled program."""

    slots: Float[Array, "n 5"]
    starts: Float[Array, "k 3"]

    @classmethod
    def of(cls, tables: Tables) -> "Compiled":
        """On the device."""
        return cls(jnp.asarray(tables.slots.reshape(-1, 5)), jnp.asarray(tables.starts))

    def outcome(self, row: Whole, m: int, u: Numbers) -> tuple[Whole, Numbers]:
        """Successors and rewards for the rows s·a + k."""
        slot, first = _drawn(self.slots, row * m, m, u)
        return jnp.where(first, slot[:, 1], slot[:, 2]).astype(jnp.int32), jnp.where(first, slot[:, 3], slot[:, 4])

    def begin(self, u: Numbers) -> Whole:
        """Where episodes begin."""
        m = self.starts.shape[0]
        if m == 1:
            return jnp.broadcast_to(self.starts[0, 1].astype(jnp.int32), u.shape)
        slot, first = _drawn(self.starts, 0, m, u)
        return jnp.where(first, slot[:, 1], slot[:, 2]).astype(jnp.int32)


def _drawn(table: Float[Array, "n c"], begin: Whole | int, m: int, u: Numbers) -> tuple[Float[Array, "g c"], Flags]:
    """The slots that u picks among the m from `begin` on, and whether it picks the first of the two there."""
    x = u * m
    j = jnp.minimum(x.astype(jnp.int32), m - 1)
    slot = table.at[begin + j].get(mode="promise_in_bounds")
    return slot, x - j < slot[:, 0]
