"""The plan of a POMDP: α-vectors that say what to do at every belief, between two bounds on the value of the start."""

import os
import warnings
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from credo.core.checks import check_count
from credo.core.errors import DataError, NotConvergedWarning
from credo.decide.mdp.problem import Plan
from credo.decide.pomdp.belief import BeliefState
from credo.decide.pomdp.model import POMDP
from credo.decide.pomdp.sampling import Filter, Simulator
from credo.decide.pomdp.vectors import AlphaVectors

if TYPE_CHECKING:
    import networkx as nx

FADED = 1e-8
"""Episodes are followed until a reward is worth so much less, or the state is terminal."""
LONGEST, MISSED = 10_000, 1e-4
"""Steps at most where nobody said how many, and what a reward may still be worth then without a warning."""
TOGETHER = 2_000_000
"""Beliefs times states that are simulated at once."""


class Returns(NamedTuple):
    """Discounted returns of simulated episodes."""

    mean: float
    standard_error: float
    returns: Float[np.ndarray, " n"]


class Run(NamedTuple):
    """One simulated episode: before each step the belief and the hidden state, then what was done, seen and earned."""

    beliefs: Float[np.ndarray, "t_and_1 s"]
    states: Int[np.ndarray, " t_and_1"]
    actions: Int[np.ndarray, " t"]
    observations: Int[np.ndarray, " t"]
    rewards: Float[np.ndarray, " t"]


class AlphaPlan(Plan[POMDP]):
    """What to do at every belief that can be reached: the action of the vector that is largest there.

    The optimal value of the start lies between `lower` and `upper`; `policy` holds the action of each vector, and
    `certificate` is upper - lower. Plans of a horizon have vectors for each of the steps that follow in `later`.
    """

    vectors: AlphaVectors
    lower: float = eqx.field(static=True)
    upper: float = eqx.field(static=True)
    later: tuple[AlphaVectors, ...] = ()
    """Of a horizon: the vectors when 1, 2, … steps are done."""
    above: Any = None
    """What bounds the value from above at any belief, by `value(belief)`; None where only the start is bounded."""

    @property
    def gap(self) -> float:
        """upper - lower, relative to the larger of their sizes."""
        return (self.upper - self.lower) / (max(abs(self.lower), abs(self.upper)) or 1.0)

    def act(self, belief: Any = None, t: int = 0) -> Hashable:
        """The name of the action to take at a belief, when t steps of a horizon are done."""
        _, which = self._at(t).best(self._row(belief))
        return self.world.action_names[int(self._at(t).actions[which[0]])]

    def value(self, belief: Any = None, t: int = 0) -> float:
        """What is earned from a belief on, at least (by QMDP and FIB: at most); maxᵢ αᵢ·b."""
        return float(self._at(t).best(self._row(belief))[0][0])

    def simulate(self, n: int = 1000, *, seed: int = 0, steps: int | None = None) -> Returns:
        """Discounted returns of n episodes that follow the plan, with the standard error of their mean."""
        check_count(n, "n")
        world, returns = self.world, []
        together = max(1, TOGETHER // world.shape[0])
        for first in range(0, n, together):
            returns.append(self._episodes(min(together, n - first), seed + first, self._steps(steps)))
        each = np.concatenate(returns)
        error = float(each.std(ddof=1) / np.sqrt(n)) if n > 1 else np.inf
        return Returns(float(each.mean()), error, each)

    def run(self, steps: int = 30, *, seed: int = 0) -> Run:
        """One episode with everything that happened in it."""
        check_count(steps, "steps")
        world, draws = self.world, Simulator(self.world, seed)
        states, belief = draws.begin(1), world.belief()
        beliefs, where, done = [belief.probs], [int(states[0])], []
        for t in range(steps if not self.later else min(steps, 1 + len(self.later))):
            if draws.terminal[states[0]]:
                break
            action = world.action(self.act(belief, t if self.later else 0))
            states, seen, paid = draws.step(states, np.array([action]))
            belief = belief.condition(action, int(seen[0]))
            beliefs.append(belief.probs)
            where.append(int(states[0]))
            done.append((action, int(seen[0]), float(paid[0])))
        actions, seen_all, rewards = zip(*done, strict=True) if done else ((), (), ())
        columns = np.array(actions, dtype=int), np.array(seen_all, dtype=int), np.array(rewards, dtype=float)
        return Run(np.array(beliefs), np.array(where), *columns)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes the vectors as `.policy` (APPL's XML) or `.alpha` (pomdp-solve's text); of the first step alone."""
        from credo.decide.pomdp.policy_files import write

        return write(self, Path(path))

    def graph(self, depth: int = 5) -> "nx.DiGraph":
        """The policy as a graph: nodes are vectors reached from the start, edges say what is seen on the way."""
        from credo.decide.pomdp.policy_graph import policy_graph

        check_count(depth, "depth", 0)
        if self.later:
            raise DataError(f"the graph is of a plan for ever, found one of {1 + len(self.later)} steps; use act(…, t)")
        return policy_graph(self, depth)

    # ── inside

    def _at(self, t: int) -> AlphaVectors:
        if not 0 <= t <= len(self.later):
            what = f"steps 0 to {len(self.later)}" if self.later else "t = 0: it is for ever"
            raise DataError(f"the plan has {what}, found t = {t}")
        return self.vectors if t == 0 else self.later[t - 1]

    def _row(self, belief: Any) -> sp.csr_array:
        given = belief.probs if isinstance(belief, BeliefState) else self.world.start if belief is None else belief
        return sp.csr_array(self.world.distribution(given, "belief")[None])

    def _steps(self, steps: int | None) -> int:
        if steps is not None:
            check_count(steps, "steps")
        if self.later:
            return min(steps or LONGEST, 1 + len(self.later))
        if steps is not None:
            return int(steps)
        gamma = self.world.discount
        return LONGEST if gamma == 1 else 1 if gamma == 0 else min(LONGEST, int(np.log(FADED) / np.log(gamma)) + 1)

    def _episodes(self, n: int, seed: int, steps: int) -> Float[np.ndarray, " n"]:
        world, draws, rule = self.world, Simulator(self.world, seed), Filter(self.world)
        states, total = draws.begin(n), np.zeros(n)
        beliefs = sp.csr_array(np.repeat(world.start[None], n, axis=0))
        running = np.flatnonzero(~draws.terminal[states])
        states, beliefs = states[running], beliefs[running]
        for t in range(steps):
            if not len(running):
                break
            vectors = self._at(t if self.later else 0)
            actions = vectors.actions[vectors.best(beliefs)[1]]
            states, seen, paid = draws.step(states, actions)
            total[running] += world.discount**t * paid
            on = ~draws.terminal[states]
            if not on.any():
                break
            running, states = running[on], states[on]
            beliefs = rule.update(beliefs[np.flatnonzero(on)], actions[on], seen[on])
        else:
            if steps == LONGEST and not self.later and world.discount**steps > MISSED:
                left = f"when a reward still counts {world.discount**steps:.2g} of its size"
                remedy = "their mean leaves out what follows; give more steps="
                warnings.warn(f"episodes were cut off after {steps} steps, {left}: {remedy}", NotConvergedWarning, 3)
        return total
