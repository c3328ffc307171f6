"""Markov decision processes: a world of states in which actions pay and lead on.

Puterman (1994), "Markov Decision Processes", chapters 2 and 6; Bertsekas (2012), "Dynamic Programming and Optimal
Control", volume II.
"""

import functools
from collections.abc import Callable, Hashable, Iterable
from typing import Any, SupportsFloat

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.decide.mdp import transitions as rows_from
from credo.decide.mdp.paths import Paths, simulate
from credo.decide.mdp.problem import Problem, Question

Vector = Float[np.ndarray, " s"]
Table = Float[np.ndarray, "s a"]
Policy = Int[np.ndarray, " s"] | Float[np.ndarray, "s a"]
"""An action for each state, or probabilities of the actions."""
Names = Iterable[Hashable]
Step = Callable[..., Iterable[tuple]]
DISCOUNT = 0.99
"""Where none is given."""


class MDP(Problem):
    """States s, actions a, P(s' | s, a), expected rewards r(s, a) and a discount γ.

        world = MDP(transitions, rewards, discount=0.99)

    `transitions` is (s, a, s'), or a list with a scipy.sparse matrix (s, s') for each action; `rewards` is (s,), (s, a)
    or (s, a, s'). States named by `terminal` end the episode: nothing is earned in or after them, their value is zero.
    `start` is a state or probabilities. Inside, successors are kept in compressed sparse rows, s·a + k for action k of
    state s, and rewards as their expectation; what a row lacks to one is the probability that the episode ends.
    """

    indptr: Int[np.ndarray, " rows"]
    indices: Int[np.ndarray, " n"]
    probs: Float[np.ndarray, " n"]
    rewards: Float[np.ndarray, "s a"]
    ends: Float[np.ndarray, "s a"]
    """The probability that the episode is over after an action; one in terminal states."""
    terminal: Bool[np.ndarray, " s"]
    start: Float[np.ndarray, " s"] | None
    cells: Int[np.ndarray, "s 2"] | None
    """Row and column of each state of a gridworld."""
    discount: float = eqx.field(static=True)
    states: tuple[Hashable, ...] | None = eqx.field(static=True)
    actions: tuple[Hashable, ...] | None = eqx.field(static=True)

    def __init__(
        self,
        transitions: ArrayLike,
        rewards: ArrayLike,
        discount: SupportsFloat = DISCOUNT,
        *,
        terminal: ArrayLike = None,
        start: ArrayLike = None,
        states: Names | None = None,
        actions: Names | None = None,
        ends: ArrayLike = None,
        cells: ArrayLike = None,
    ) -> None:
        self.discount = float(discount)
        if not 0 <= self.discount <= 1:
            raise DataError(f"discount must lie between 0 and 1, found {discount}")
        given = np.shape(rewards)
        rows = rows_from.rows_of(transitions, given[1] if len(given) == 2 else None)
        s, a = rows.states, rows.actions
        self.terminal = rows_from.check_terminal(terminal, s)
        over = np.zeros((s, a)) if ends is None else np.asarray(ends, dtype=float)
        if over.shape != (s, a) or not (over >= 0).all() or not (over <= 1 + rows_from.SUM_TOLERANCE).all():
            raise DataError(f"ends must be probabilities of the shape (s, a) = {(s, a)}, found {over.shape}")
        paid = rows_from.rewards_of(rewards, rows)
        matrix = rows_from.check_probabilities(rows, np.where(self.terminal[:, None], 0.0, over), self.terminal)
        self.rewards = np.where(self.terminal[:, None], 0.0, paid) if self.terminal.any() else paid
        self.ends = np.where(self.terminal[:, None], 1.0, over)
        kind = np.int32 if max(matrix.nnz, s * a) < 2**31 - 1 else np.int64  # half of the memory to read
        self.indptr, self.indices = (each.astype(kind, copy=False) for each in (matrix.indptr, matrix.indices))
        self.probs = matrix.data
        self.states, self.actions = _names(states, s, "states"), _names(actions, a, "actions")
        self.cells = None if cells is None else np.asarray(cells, dtype=int)
        self.start = None if start is None else self.distribution(start)

    @classmethod
    def from_function(cls, states: Names, actions: Names, step: Step, discount: SupportsFloat = DISCOUNT) -> "MDP":
        """The world of `step(s, a) -> [(probability, s', reward, done), …]`; `done` may be left out."""
        from credo.decide.mdp.sources import from_function

        return from_function(states, actions, step, discount)

    @classmethod
    def from_gymnasium(cls, env: Any, discount: SupportsFloat = DISCOUNT) -> "MDP":
        """The world of a gymnasium environment, or of its name, that has a table of probabilities `env.unwrapped.P`."""
        from credo.decide.mdp.sources import from_gymnasium

        return from_gymnasium(env, discount)

    @classmethod
    def from_drawing(
        cls,
        text: str,
        *,
        slip: SupportsFloat = 0.2,
        step_reward: SupportsFloat = 0.0,
        discount: SupportsFloat = DISCOUNT,
        goal: SupportsFloat = 1.0,
        trap: SupportsFloat = -1.0,
    ) -> "MDP":
        """A gridworld from its drawing; see `credo.decide.mdp.sources` for the signs."""
        from credo.decide.mdp.sources import from_drawing

        return from_drawing(text, float(slip), float(step_reward), discount, float(goal), float(trap))

    # ── what is in it

    @property
    def shape(self) -> tuple[int, int]:
        """How many states and actions."""
        s, a = self.rewards.shape
        return s, a

    @property
    def matrix(self) -> sp.csr_array:
        """P(s' | s, a) as sparse rows (s·a, s), without the probability that the episode ends."""
        s, a = self.shape
        return rows_from.bare(self.probs, self.indices, self.indptr, (s * a, s))

    @property
    def has_ends(self) -> bool:
        """Whether an episode may end."""
        return bool(self.ends.any())

    def altered(self, rewards: ArrayLike, discount: SupportsFloat) -> "MDP":
        """The same transitions with other rewards and another discount."""
        ends = np.where(self.terminal[:, None], 0.0, self.ends)
        return MDP(self.matrix, rewards, discount, ends=ends, terminal=self.terminal, start=self.start)

    def padded(self) -> tuple[Int[np.ndarray, "s a m"], Float[np.ndarray, "s a m"]]:
        """Successors and their probabilities as arrays, filled up with the state itself at probability zero."""
        s, a = self.shape
        lengths = np.diff(self.indptr)
        m = max(int(lengths.max(initial=0)), 1)
        index = np.repeat(np.arange(s, dtype=np.int32), a * m).reshape(s * a, m)
        prob = np.zeros((s * a, m))
        row = np.repeat(np.arange(s * a), lengths)
        column = np.arange(len(self.indices)) - np.repeat(self.indptr[:-1], lengths)
        index[row, column], prob[row, column] = self.indices, self.probs
        return index.reshape(s, a, m), prob.reshape(s, a, m)

    def reachable(self, start: ArrayLike = None) -> Bool[np.ndarray, " s"]:
        """Which states some policy can get to from the start; all, where there is none."""
        begin = self.start if start is None else self.distribution(start)
        if begin is None:
            return np.ones(self.shape[0], dtype=bool)
        from credo.decide.mdp.graph import reached, successors

        return reached(successors(self), begin > 0)

    # ── Bellman's equations

    def backup(self, value: ArrayLike) -> Table:
        """Q(s, a) = r(s, a) + γ Σ P(s' | s, a) V(s')."""
        v = np.asarray(value, dtype=float)
        if v.shape != (self.shape[0],):
            raise DataError(f"values must be a vector of {self.shape[0]} states, found the shape {v.shape}")
        q = rows_from.product(self.matrix, v).reshape(self.shape)
        q *= self.discount
        q += self.rewards
        return q

    def greedy(self, value: ArrayLike) -> Int[np.ndarray, " s"]:
        """The actions that maximize Q of these values; the first of several."""
        return np.argmax(self.backup(value), axis=1)

    def evaluate(self, policy: ArrayLike, method: str | None = None, tolerance: SupportsFloat = 1e-10) -> Vector:
        """V of a policy, V = r_π + γ P_π V; `policy` is an action for each state or probabilities (s, a).

        `method` is "direct" (sparse LU) or "iterative" (sweeps until the bounds on V are within `tolerance`); None
        takes what suits the size.
        """
        from credo.decide.mdp.bellman import evaluate

        return evaluate(self, self.policy(policy), method, float(tolerance))

    def occupancy(self, policy: ArrayLike, start: ArrayLike = None) -> Vector:
        """Expected discounted visits, d = Σₜ γᵗ P(sₜ = s): then Σ d(s) r_π(s) is the value of the start.

        Terminal states are left out, as nothing happens in them.
        """
        from credo.decide.mdp.bellman import occupancy

        return occupancy(self, self.policy(policy), self.begin(start))

    def simulate(self, policy: ArrayLike, steps: int, *, n: int = 1, start: ArrayLike = None, seed: int = 0) -> Paths:
        """n episodes of at most so many steps under a policy; see `credo.decide.mdp.paths.Paths`."""
        return simulate(self, self.policy(policy), steps, n, self.begin(start), seed)

    def question(self, horizon: int | None, criterion: str) -> Question:
        """The planners that suit the horizon, the criterion and the discount."""
        from credo.decide.mdp.solving import question

        return question(self, horizon, criterion)

    # ── checks

    def begin(self, start: ArrayLike = None) -> Vector:
        """Probabilities of where episodes begin: those given, or the world's own."""
        if start is not None:
            return self.distribution(start)
        if self.start is not None:
            return self.start
        raise DataError("start is missing, and the world has none; pass a state or probabilities")

    def distribution(self, start: ArrayLike) -> Vector:
        """Probabilities of the states from a state (its number or name) or from probabilities."""
        s = self.shape[0]
        if self.states is not None and isinstance(start, str | tuple) and start in self.states:
            start = self.states.index(start)
        given = np.asarray(start)
        if given.ndim == 0 and given.dtype.kind in "iu" and 0 <= int(given) < s:
            out = np.zeros(s)
            out[int(given)] = 1.0
            return out
        if given.shape != (s,) or given.dtype.kind not in "fiu":
            raise DataError(f"start must be a state from 0 to {s - 1} or {s} probabilities, found {start!r}")
        probs = given.astype(float)
        if not (probs >= 0).all() or abs(probs.sum() - 1) > rows_from.SUM_TOLERANCE:
            raise DataError(f"start must hold probabilities that sum to 1, found the sum {probs.sum():.9g}")
        return probs

    def policy(self, policy: ArrayLike) -> Policy:
        """An action for each state as integers, or probabilities (s, a), checked."""
        s, a = self.shape
        given = np.asarray(policy)
        if given.shape == (s,) and given.dtype.kind in "iu":
            if given.size and (given.min() < 0 or given.max() >= a):
                raise DataError(f"policy must hold actions from 0 to {a - 1}, found {given.min()} to {given.max()}")
            return given.astype(np.int64)
        if given.shape == (s, a) and given.dtype.kind in "fiu":
            off = np.abs(given.sum(axis=1) - 1)
            if not (given >= 0).all() or not (off <= rows_from.SUM_TOLERANCE).all():
                raise DataError(f"policy must hold probabilities that sum to 1, found a row off by {off.max():.3g}")
            return given.astype(float)
        raise DataError(f"policy must be {s} actions or probabilities of the shape {(s, a)}, found {given.shape}")


def best(q: Table) -> Vector:
    """maxₐ Q(s, a), column by column, which is faster than a reduction over a short axis."""
    return functools.reduce(np.maximum, (q[:, k] for k in range(q.shape[1]))) if q.shape[1] <= 16 else q.max(axis=1)


def _names(names: Names | None, n: int, what: str) -> tuple[Hashable, ...] | None:
    if names is None:
        return None
    found = tuple(names)
    if len(found) != n:
        raise DataError(f"{what} must name all {n}, found {len(found)} names")
    return found
