"""A world that can be drawn from in a few operations: alias tables of where actions lead.

A uniform number u picks one of m slots of equal width; a slot holds two outcomes and the share of the first. Drawing
takes the same time however many successors there are. Walker (1977); Vose (1991).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int

from credo.core.errors import DataError
from credo.decide.mdp import MDP

Whole = Int[Array, " g"]
Numbers = Float[Array, " g"]
END = -1
"""The successor where an episode ends inside an action; entering a terminal state s is written -2 - s."""


class Tables(NamedTuple):
    """Slots of all pairs of state and action, s·a + k for action k of state s, and slots of the starts."""

    slots: Float[np.ndarray, "sa m 4"]
    """The share of the first outcome, the two outcomes, and the expected reward."""
    starts: Float[np.ndarray, "k 3"]
    states: int
    actions: int

    def outcome(self) -> Callable[[int, int, float], tuple[int, float]]:
        """(s, a, u) → (successor, or below zero where the episode ends; reward) in plain Python."""
        m, actions = self.slots.shape[1], self.actions
        rows = self.slots.reshape(-1, 4).tolist()

        def draw(s: int, a: int, u: float) -> tuple[int, float]:
            x = u * m
            j = min(int(x), m - 1)
            share, first, second, reward = rows[(s * actions + a) * m + j]
            return int(first if x - j < share else second), reward

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
    index, prob = world.padded()
    m = index.shape[2]
    codes = np.where(world.terminal[index], -2 - index, index).reshape(s * a, m).astype(float)
    p = prob.reshape(s * a, m)
    if world.has_ends:
        ends = np.where(world.terminal[:, None], 1.0, world.ends).reshape(s * a, 1)
        codes, p = np.concatenate([codes, np.full((s * a, 1), END)], axis=1), np.concatenate([p, ends], axis=1)
    share, other = alias(p)
    rewards = np.repeat(world.rewards.reshape(s * a, 1), p.shape[1], axis=1)
    slots = np.stack([share, codes, np.take_along_axis(codes, other, axis=1), rewards], axis=2)
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

    slots: Float[Array, "n 4"]
    starts: Float[Array, "k 3"]

    @classmethod
    def of(cls, tables: Tables) -> "Compiled":
        """On the device."""
        return cls(jnp.asarray(tables.slots.reshape(-1, 4)), jnp.asarray(tables.starts))

    def outcome(self, row: Whole, m: int, u: Numbers) -> tuple[Whole, Numbers]:
        """Successors and rewards for the rows s·a + k."""
        slot, found = _drawn(self.slots, row * m, m, u)
        return found, slot[:, 3]

    def begin(self, u: Numbers) -> Whole:
        """Where episodes begin."""
        m = self.starts.shape[0]
        if m == 1:
            return jnp.broadcast_to(self.starts[0, 1].astype(jnp.int32), u.shape)
        return _drawn(self.starts, 0, m, u)[1]


def _drawn(table: Float[Array, "n c"], first: Whole | int, m: int, u: Numbers) -> tuple[Float[Array, "g c"], Whole]:
    """The slots that u picks among the m from `first` on, and the outcomes that it picks there."""
    x = u * m
    j = jnp.minimum(x.astype(jnp.int32), m - 1)
    slot = table.at[first + j].get(mode="promise_in_bounds")
    return slot, jnp.where(x - j < slot[:, 0], slot[:, 1], slot[:, 2]).astype(jnp.int32)
