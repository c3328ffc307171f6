"""Bellman's update that looks, once it can, only at the actions that may still be best.

Let D = V' - V. From V to V', Q of one action gains on that of another by at most γ(max D - min D); where episodes may
end, zero counts among the D. An action that was behind the best by more than that is behind still: without it the
update is as exact as before. After MacQueen (1967), Operations Research 15; Puterman (1994), section 6.7.
"""

from typing import Any

import numpy as np
from jaxtyping import Int

from credo.decide.mdp.bounds import Ruler
from credo.decide.mdp.evaluation import chain
from credo.decide.mdp.model import MDP, Table, Vector, best
from credo.decide.mdp.transitions import product

REACH = 2.0
"""Spans of the last change by which an action must be behind to be struck off; twice as many each time that values have
moved by more."""
SHARE = 0.25
"""The part of all pairs of state and action that may be in question for a list of them to be worth its while."""


class Shortlist:
    """The update of one world, the policy that it found last, and the actions that are in question."""

    def __init__(self, world: MDP, ruler: Ruler) -> None:
        s, a = world.shape
        self.world, self.ruler = world, ruler
        self.matrix, self.rewards, self.gamma = world.matrix, world.rewards, world.discount
        self.first = np.arange(0, s * a, a)
        """The first pair of each state."""
        self.policy = np.zeros(0, dtype=int)
        self.step: Any = None
        """P of the policy; `reward` is what it pays."""
        self.reward = np.zeros(0)
        self.reach, self.short = REACH, False
        self.latest: tuple[Table, Vector, Vector] | None = None
        """Q, V and TV of an update of all actions, to make the list of."""

    def plain(self, value: Vector) -> Vector:
        """maxₐ Q of all actions; the policy stays what it was."""
        return best(self._q(value))

    def update(self, value: Vector) -> tuple[Vector, float]:
        """maxₐ Q, and the part of the states that changed their action for a better one."""
        if self.short:
            if self._holds(value):
                return self._update_short(value)
            self.reach *= 2
        return self._update_all(value)

    def hold(self) -> tuple[Any, Vector]:
        """P and r of the policy, to sweep with it; from here on actions that cannot be best are left out."""
        if self.step is None:
            self.step, self.reward = chain(self.world, self.policy, self.ruler.width)
        if self.latest is not None:
            self._shorten(*self.latest)
            self.latest = None
        return self.step, self.reward

    def _q(self, value: Vector) -> Table:
        if value[0] == 0 and not value.any():
            return self.rewards
        q = product(self.matrix, value)
        q *= self.gamma
        q = q.reshape(self.rewards.shape)
        q += self.rewards
        return q

    def _update_all(self, value: Vector) -> tuple[Vector, float]:
        q = self._q(value)
        backed, changed = best(q), 1.0
        if self.step is None:
            self.policy = np.argmax(q, axis=1)
        else:
            states = np.flatnonzero(q.ravel()[self.first + self.policy] < backed)
            changed = self._change(states, np.argmax(q[states], axis=1))
        self.short, self.latest = False, (q, value, backed)
        return backed, changed

    def _shorten(self, q: Table, value: Vector, backed: Vector) -> None:
        """Strikes off what is behind by the margin, if little remains."""
        change = backed - value
        margin = self.reach * float(change.max() - change.min())
        near = q > (backed - margin)[:, None]
        if self.ruler.ends:
            near[self.world.terminal] = False
        self.short = margin > 0 and int(np.count_nonzero(near)) - len(backed) <= SHARE * q.size
        if not self.short:
            return
        pairs = np.flatnonzero(near)
        states = pairs // q.shape[1]
        twice = states[1:] == states[:-1]
        contested = np.append(twice, False) | np.append(False, twice)  # where there is more than one
        self.states, self.pairs = states[contested], pairs[contested]
        self.rows, self.prizes = self.matrix[self.pairs], self.rewards.ravel()[self.pairs]
        self.base, self.margin = value, margin

    def _holds(self, value: Vector) -> bool:
        """Whether values are so near to those of the list that nothing is missing from it."""
        moved = value - self.base
        low, high = float(moved.min()), float(moved.max())
        if self.ruler.ends:
            low, high = min(low, 0.0), max(high, 0.0)
        # Four values of Q with their rounding, and rows that sum to one up to 1e-14.
        slack = 100 * max(self.ruler.rounding(value), self.ruler.rounding(self.base))
        return self.gamma * (high - low) + slack < self.margin

    def _update_short(self, value: Vector) -> tuple[Vector, float]:
        backed = product(self.step, value)
        backed *= self.gamma
        backed += self.reward
        q = self.prizes + self.gamma * product(self.rows, value)
        found = np.flatnonzero(q > backed[self.states])
        if not len(found):
            return backed, 0.0
        found = found[np.lexsort((-q[found], self.states[found]))]
        states, place = np.unique(self.states[found], return_index=True)
        found = found[place]  # of several in one state the best
        backed[states] = q[found]
        return backed, self._change(states, self.pairs[found] - self.first[states])

    def _change(self, states: Int[np.ndarray, " n"], actions: Int[np.ndarray, " n"]) -> float:
        """Other actions in some states; the part of all states that these are."""
        m = self.ruler.width
        self.policy[states] = actions
        if m and len(states):
            chosen = self.first[states] + actions
            self.step.indices.reshape(-1, m)[states] = self.world.indices.reshape(-1, m)[chosen]
            self.step.data.reshape(-1, m)[states] = self.world.probs.reshape(-1, m)[chosen]
            self.reward[states] = self.rewards.ravel()[chosen]
        elif len(states):
            self.step, self.reward = chain(self.world, self.policy)
        return len(states) / len(self.policy)
