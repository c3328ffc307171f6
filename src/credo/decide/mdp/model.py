"""Markov decision processes: a world of states in which actions pay and lead on.

Puterman (1994), "Markov Decision Processes", chapters 2 and 6; Bertsekas (2012), "Dynamic Programming and Optimal
Control", volume II.
"""

import functools
import os
from collections.abc import Callable, Hashable, Iterable
from typing import Any, SupportsFloat

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from credo.core.checks import ArrayLike, check_array, check_real
from credo.core.errors import DataError
from credo.decide.mdp import transitions as rows_from
from credo.decide.mdp.outcomes import Outcomes, log_prob, of_transitions, with_ends
from credo.decide.mdp.paths import Paths, simulate
from credo.decide.mdp.problem import Effort, Problem, Question

Vector = Float[np.ndarray, " s"]
Table = Float[np.ndarray, "s a"]
Policy = Int[np.ndarray, " s"] | Float[np.ndarray, "s a"]
"""An action for each state, or probabilities of the actions."""
Names = Iterable[Hashable]
Step = Callable[..., Iterable[tuple]]
DISCOUNT = 0.99
"""Where none is given."""


class MDP(Problem):
    """States s, actions a, P(s' | s, a), rewards and a discount γ.

        world = MDP(transitions, rewards, discount=0.99)

    `transitions` is (s, a, s'), or a list with a scipy.sparse matrix (s, s') for each action; `rewards` is (s,), (s, a)
    or (s, a, s'). States named by `terminal` end the episode: nothing is earned in or after them, their value is zero.
    `start` is a state or probabilities. Inside, successors are kept in compressed sparse rows, s·a + k for action k of
    state s; what a row lacks to one is the probability that the episode ends. Plans follow from the expected rewards;
    simulations and agents are paid by p(s', r | s, a).
    """

    indptr: Int[np.ndarray, " rows"]
    indices: Int[np.ndarray, " n"]
    probs: Float[np.ndarray, " n"]
    rewards: Float[np.ndarray, "s a"]
    """r(s, a), their expectation."""
    ends: Float[np.ndarray, "s a"]
    """The probability that the episode is over after an action; one in terminal states."""
    terminal: Bool[np.ndarray, " s"]
    start: Float[np.ndarray, " s"] | None
    gambles: Outcomes | None
    """p(s', r | s, a) of the pairs that pay at random."""
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
        outcomes: Outcomes | None = None,
    ) -> None:
        self.discount = check_real(discount, "discount", 0, 1)
        given = None if isinstance(rewards, list | tuple) and any(map(sp.issparse, rewards)) else rewards
        pair = () if given is None else check_array(given, "rewards").shape
        rows = rows_from.rows_of(transitions, pair[1] if len(pair) == 2 else None)
        s, a = rows.states, rows.actions
        self.terminal = rows_from.check_terminal(terminal, s)
        over = np.zeros((s, a)) if ends is None else check_array(ends, "ends").astype(float)
        if over.shape != (s, a) or not (over >= 0).all() or not (over <= 1 + rows_from.SUM_TOLERANCE).all():
            raise DataError(f"ends must be probabilities of the shape (s, a) = {(s, a)}, found {over.shape}")
        paid, each = rows_from.rewards_of(rewards, rows)
        matrix = rows_from.check_probabilities(rows, np.where(self.terminal[:, None], 0.0, over), self.terminal)
        self.rewards = np.where(self.terminal[:, None], 0.0, paid) if self.terminal.any() else paid
        self.ends = np.where(self.terminal[:, None], 1.0, over)
        known = outcomes if each is None else with_ends(of_transitions(matrix, each), self.ends)
        self.gambles = None if known is None else known.random(self.terminal, a)
        kind = np.int32 if max(matrix.nnz, s * a) < 2**31 - 1 else np.int64  # half of the memory to read
        self.indptr, self.indices = (each.astype(kind, copy=False) for each in (matrix.indptr, matrix.indices))
        self.probs = matrix.data
        self.states, self.actions = _names(states, s, "states"), _names(actions, a, "actions")
        self.cells = None if cells is None else check_array(cells, "cells").astype(int)
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
    def read(cls, path: str | os.PathLike[str]) -> "MDP":
        """The world of an `.mdp` file in Cassandra's format; of a POMDP's file, that of somebody who sees the state."""
        from credo.decide.pomdp.model import POMDP

        return POMDP.read(path).mdp

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

        given = {"slip": slip, "step_reward": step_reward, "goal": goal, "trap": trap}
        numbers = {name: check_real(value, name) for name, value in given.items()}
        return from_drawing(text, discount=discount, **numbers)

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

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the largest reward that can be paid."""
        paid = self.rewards[~self.terminal].ravel()
        every = paid if self.gambles is None else np.concatenate([paid, self.gambles.rewards])
        return float(every.min(initial=np.inf)), float(every.max(initial=-np.inf))

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
        v = check_array(value, "values").astype(float)
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

        return evaluate(self, self.policy(policy), method, check_real(tolerance, "tolerance", 0))

    def occupancy(self, policy: ArrayLike, start: ArrayLike = None) -> Vector:
        """Expected discounted visits, d = Σₜ γᵗ P(sₜ = s): then Σ d(s) r_π(s) is the value of the start.

        Terminal states are left out, as nothing happens in them.
        """
        from credo.decide.mdp.bellman import occupancy

        return occupancy(self, self.policy(policy), self.begin(start))

    def simulate(self, policy: ArrayLike, steps: int, *, n: int = 1, start: ArrayLike = None, seed: int = 0) -> Paths:
        """n episodes of at most so many steps under a policy; see `credo.decide.mdp.paths.Paths`."""
        return simulate(self, self.policy(policy), steps, n, self.begin(start), seed)

    def log_prob(self, paths: Paths, policy: ArrayLike, start: ArrayLike = None) -> Float[np.ndarray, " n"]:
        """log p(episode | world, π) = log p(s₀) + Σₜ log π(aₜ | sₜ) + log p(sₜ₊₁, rₜ | sₜ, aₜ), of each episode."""
        return log_prob(self, paths, self.policy(policy), self.begin(start))

    def question(self, horizon: int | None, criterion: str, effort: Effort) -> Question:
        """The planners that suit the horizon, the criterion and the discount."""
        from credo.decide.mdp.solving import question

        effort.refuse("an MDP", "it is solved to tolerance=")
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
        given = check_array(start, "start")
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
        given = check_array(policy, "policy")
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
    found = tuple(names) if isinstance(names, Iterable) else ()
    if len(found) != n:
        raise DataError(f"{what} must name all {n}, found {len(found)} names")
    return found
