"""Tables of values inside compiled loops: one row for each experiment and state, updated in place.

A row holds the values of all actions, table after table where an agent has several, and then how often each action was
taken. XLA turns the updates of one step into a single scatter, as no two experiments share a row.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from credo.infer.schedules import Schedule

Numbers = Float[Array, " g"]
Whole = Int[Array, " g"]
Flags = Bool[Array, " g"]
On = Flags | None
Table = Float[Array, " n"]


class Move(NamedTuple):
    """What happened in one step of every experiment, and the uniform numbers of that step."""

    s: Whole
    a: Whole
    r: Numbers
    s2: Whole
    """The successor; where the episode has ended, any state."""
    done: Flags
    cut: Flags
    """The episode is broken off: the agent begins anew, but the world would have gone on."""
    a2: Whole
    """The next action, for agents that learn from it."""
    u: Float[Array, "k g"]
    t: Int[Array, ""]


class TableShape(NamedTuple):
    """The shape of the tables."""

    experiments: int
    states: int
    actions: int
    tables: int

    @property
    def width(self) -> int:
        """Entries of a row."""
        return (self.tables + 1) * self.actions

    def row(self, table: Table, s: Whole) -> Float[Array, "g w"]:
        """The rows of these states."""
        at = jnp.arange(self.experiments, dtype=jnp.int32) * self.states + s
        return table.reshape(-1, self.width).at[at].get(mode="promise_in_bounds")

    def values(self, row: Float[Array, "g w"]) -> Float[Array, "g a"]:
        """The values to act on: the mean of the tables."""
        a = self.actions
        if self.tables == 1:
            return row[:, :a]
        return sum((row[:, k * a : (k + 1) * a] for k in range(self.tables)), jnp.zeros(())) / self.tables

    def visits(self, row: Float[Array, "g w"]) -> Float[Array, "g a"]:
        """How often each action was taken."""
        return row[:, self.tables * self.actions :]

    def place(self, s: Whole, column: Whole) -> Whole:
        """Where an entry is in the flat table."""
        experiment = jnp.arange(self.experiments, dtype=jnp.int32)
        return (experiment * self.states + s) * self.width + column

    def get(self, table: Table, s: Whole, column: Whole) -> Numbers:
        """Entries of rows."""
        return table.at[self.place(s, column)].get(mode="promise_in_bounds")

    def put(self, table: Table, s: Whole, column: Whole, value: Numbers) -> Table:
        """The table with other entries."""
        return table.at[self.place(s, column)].set(value, unique_indices=True, mode="promise_in_bounds")

    def nudge(
        self, table: Table, s: Whole, a: Whole, target: Numbers, rate: Schedule, which: Whole | int = 0, on: On = None
    ) -> Table:
        """Q(s, a) ← Q(s, a) + rate(n) (target - Q(s, a)) and n ← n + 1, where `on` holds."""
        column, counter = which * self.actions + a, self.tables * self.actions + a
        old, seen = self.get(table, s, column), self.get(table, s, counter)
        new, more = old + rate(seen) * (target - old), seen + 1
        if on is not None:
            new, more = jnp.where(on, new, old), jnp.where(on, more, seen)
        return self.put(self.put(table, s, column, new), s, counter, more)
