"""Methods that improve policies: Howard's policy iteration, exact, and modified policy iteration.

Howard (1960); Puterman & Shin (1978), Management Science 24; Puterman (1994), sections 6.4 and 6.5.
"""

import equinox as eqx
import numpy as np

from credo.decide.mdp.bounds import Ruler
from credo.decide.mdp.evaluation import DIRECT, chain, direct, sweep
from credo.decide.mdp.model import MDP, Table, Vector
from credo.decide.mdp.plan import Plan, finish, plan_of
from credo.decide.mdp.shortlist import Shortlist


class PolicyIteration(eqx.Module):
    """Evaluate the policy, improve it, until nothing improves: finitely many steps, each at least as good.

    `evaluation` is "direct", "iterative", or None for what suits the size. An action is changed only for one that is
    better by more than rounding, so that it cannot go round in circles.
    """

    evaluation: str | None = eqx.field(static=True, default=None)
    most: int = eqx.field(static=True, default=1000)

    def solve(self, world: MDP, tolerance: float, value: Vector | None = None) -> Plan:
        """Improvements until the policy is optimal."""
        v = np.zeros(world.shape[0]) if value is None else value
        policy = world.greedy(v)
        for done in range(1, self.most + 1):
            v = self.evaluate(world, policy, v, tolerance)
            q = world.backup(v)
            improved = improve(world, policy, q, v)
            if done == self.most or np.array_equal(improved, policy):
                break
            policy = improved
        return finish(world, v, tolerance, done, "policy iteration", q)

    def evaluate(self, world: MDP, policy: np.ndarray, value: Vector, tolerance: float) -> Vector:
        """V of the policy, from the last one where it is iterated."""
        step, reward = chain(world, policy)
        if self.evaluation == "direct" or (self.evaluation is None and world.shape[0] <= DIRECT):
            return np.where(world.terminal, 0.0, direct(step, reward, world.discount))
        finer = tolerance * (1 - world.discount) / 4
        return sweep(step, reward, world, value, finer, 100_000).certain


class ModifiedPolicyIteration(eqx.Module):
    """Bellman's update, then sweeps with the policy held fixed, which look at one action instead of all.

    They go on until the policy's own bounds are closer than those of all actions by a factor of ten at least, and of
    much more once few states change their action; at most `sweeps` times. The update leaves out the actions that cannot
    be best any more; see `credo.decide.mdp.shortlist`.
    """

    sweeps: int = eqx.field(static=True, default=60)
    most: int = eqx.field(static=True, default=20_000)

    def solve(self, world: MDP, tolerance: float, value: Vector | None = None) -> Plan:
        """Improvements until the certificate is within the tolerance."""
        ruler = Ruler(world)
        actions = Shortlist(world, ruler)
        v = np.zeros(world.shape[0]) if value is None else value
        # At first nearly all actions change: three plain sweeps are better than evaluating what they are.
        total = min(3, self.most - 1) if value is None else 0
        for _ in range(total):
            v = actions.plain(v)
        while True:
            backed, changed = actions.update(v)
            found = ruler.measure(v, backed)
            total += 1
            if found.certificate <= tolerance or total >= self.most or np.array_equal(backed, v):
                break
            v = backed + found.low
            goal = max(found.certificate * min(0.1, 0.3 * changed), tolerance / 2)
            swept = sweep(*actions.hold(), world, v, goal, self.sweeps)
            v, total = swept.certain, total + swept.sweeps
        return plan_of(world, backed, actions.policy, found, tolerance, total, "modified policy iteration")


def improve(world: MDP, policy: np.ndarray, q: Table, value: Vector) -> np.ndarray:
    """The greedy policy, where it is better than the old one by more than rounding."""
    rows = np.arange(len(policy))
    slack = 8 * Ruler(world).rounding(value)
    greedy = np.argmax(q, axis=1)
    return np.where(q[rows, greedy] > q[rows, policy] + slack, greedy, policy)
