"""Methods that improve policies: Howard's policy iteration, exact, and modified policy iteration.

Howard (1960); Puterman & Shin (1978), Management Science 24; Puterman (1994), sections 6.4 and 6.5.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from credo.decide.mdp.bellman import DIRECT, Ruler, chain, direct, sweep
from credo.decide.mdp.model import MDP, Policy, Table, Vector, best
from credo.decide.mdp.plan import AVERAGE, UNDISCOUNTED, DiscountedPlan, MDPPlanner, finish


@dataclass(frozen=True)
class PolicyIteration(MDPPlanner):
    """Evaluate the policy, improve it, until nothing improves: finitely many steps, each at least as good.

    `evaluation` is "direct", "iterative", or None for what suits the size. An action is changed only for one that is
    better by more than rounding, so that it cannot go round in circles.
    """

    answers: ClassVar[tuple[str, ...]] = ("solve", AVERAGE, UNDISCOUNTED)

    evaluation: str | None = None
    max_steps: int = 1000

    def solve(self, world: MDP, tolerance: float, start: Vector | None = None) -> DiscountedPlan:
        """Improvements until the policy is optimal."""
        v = np.zeros(world.shape[0]) if start is None else start
        ruler = Ruler(world)

        def evaluate(policy: Policy, last: Vector) -> Vector:
            step, reward = chain(world, policy)
            if self.evaluation == "direct" or (self.evaluation is None and world.shape[0] <= DIRECT):
                return np.where(world.terminal, 0.0, direct(step, reward, world.discount))
            return sweep(step, reward, world, last, tolerance * (1 - world.discount) / 4, 100_000).certain

        found = howard(world.greedy(v), v, evaluate, world.backup, lambda v: 8 * ruler.rounding(v), self.max_steps)
        return finish(world, found.value, tolerance, found.iterations, "policy iteration", found.q)


@dataclass(frozen=True)
class ModifiedPolicyIteration(MDPPlanner):
    """Bellman's update, then sweeps with the policy held fixed, which look at one action instead of all.

    They go on until the policy's own bounds are closer than those of all actions by a factor of ten at least, and of
    much more once few states change their action; at most `sweeps` times.
    """

    sweeps: int = 60
    max_steps: int = 20_000

    def solve(self, world: MDP, tolerance: float, start: Vector | None = None) -> DiscountedPlan:
        """Improvements until the certificate is within the tolerance."""
        ruler, first = Ruler(world), np.arange(world.shape[0]) * world.shape[1]
        v = np.zeros(world.shape[0]) if start is None else start
        # At first nearly all actions change: three plain sweeps are better than evaluating what they are.
        total = min(3, self.max_steps - 1) if start is None else 0
        for _ in range(total):
            v = best(world.backup(v))
        policy = np.zeros(world.shape[0], dtype=int)
        while True:
            q = world.backup(v)
            backed, total = best(q), total + 1
            found = ruler.measure(v, backed)
            if found.certificate <= tolerance or total >= self.max_steps or np.array_equal(backed, v):
                return finish(world, v, tolerance, total, "modified policy iteration", q)
            better = np.flatnonzero(q.ravel()[first + policy] < backed)
            policy[better] = np.argmax(q[better], axis=1)
            goal = max(found.certificate * min(0.1, 0.3 * len(better) / len(policy)), tolerance / 2)
            swept = sweep(*chain(world, policy, ruler.width), world, backed + found.low, goal, self.sweeps)
            v, total = swept.certain, total + swept.sweeps


class Improved(NamedTuple):
    """Where Howard's iteration ended."""

    value: Vector
    policy: Policy
    q: Table
    iterations: int


def howard(
    policy: Policy,
    value: Vector,
    evaluate: Callable[[Policy, Vector], Vector],
    backup: Callable[[Vector], Table],
    rounding: Callable[[Vector], float],
    max_steps: int,
) -> Improved:
    """Values of the policy (from the last ones), and better actions where they are better by more than rounding."""
    rows, done = np.arange(len(policy)), 0
    while True:
        value, done = evaluate(policy, value), done + 1
        q = backup(value)
        greedy = np.argmax(q, axis=1)
        better = q[rows, greedy] > q[rows, policy] + rounding(value)
        if done >= max_steps or not better.any():
            return Improved(value, policy, q, done)
        policy = np.where(better, greedy, policy)
