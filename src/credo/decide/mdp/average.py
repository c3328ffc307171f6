"""The reward per step in the long run: g + h(s) = maxₐ r(s, a) + Σ P(s' | s, a) h(s').

For any h, min (Th - h) ≤ g* ≤ max (Th - h): these bounds are the certificate. Puterman (1994), sections 8.5 and 8.6.
"""

from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from credo.core.errors import DataError
from credo.decide.mdp.bellman import DIRECT, EPS, chain
from credo.decide.mdp.model import MDP, Policy, Table, Vector, best
from credo.decide.mdp.plan import AveragePlan, verdict
from credo.decide.mdp.policy_iteration import PolicyIteration, howard
from credo.decide.mdp.problem import Planner

MAX_SWEEPS = 50_000
KEEP = 0.5
"""Of each sweep, the part that stays: with it no chain is periodic."""


class SeveralClasses(Exception):
    """A policy whose chain has several closed classes, and so no one gain."""


def solve_average(world: MDP, using: Planner | None, tolerance: float) -> AveragePlan:
    """Policy iteration for small worlds whose policies have one closed class, else relative value iteration."""
    if world.has_ends:
        raise DataError("the average reward needs a world that goes on for ever, but this one has terminal states")
    bias, steps, method = np.zeros(world.shape[0]), 0, "relative value iteration"
    if isinstance(using, PolicyIteration) or (using is None and world.shape[0] <= DIRECT):
        try:
            bias, steps = _improve(world, using if isinstance(using, PolicyIteration) else PolicyIteration())
            method = "policy iteration"
        except SeveralClasses:
            pass
    bias, sweeps = _sweep(world, bias, tolerance)
    low, high, policy = _gain(world, bias)
    certificate = (high - low) / 2
    if certificate > tolerance and _closed(chain(world, policy)[0]) > 1:
        raise DataError(
            "the average reward depends on where one begins: the best policy has several closed classes of states; "
            f"found gains between {low:g} and {high:g}; solve the classes one by one, or take a discount near 1"
        )
    status, gain = verdict(certificate, tolerance), (low + high) / 2
    return AveragePlan(world, policy, certificate, steps + sweeps, status, method, bias - bias[0], gain)


def _backup(world: MDP, bias: Vector) -> Table:
    """r + P h."""
    return world.rewards + (world.matrix @ bias).reshape(world.shape)


def _gain(world: MDP, bias: Vector) -> tuple[float, float, Policy]:
    """Bounds on g*, widened by rounding, and the greedy policy."""
    q = _backup(world, bias)
    change = best(q) - bias
    terms = int(np.diff(world.indptr).max()) + 4
    slack = terms * EPS * (float(np.abs(world.rewards).max()) + 2 * float(np.abs(bias).max()))
    return float(change.min()) - slack, float(change.max()) + slack, np.argmax(q, axis=1)


def _sweep(world: MDP, bias: Vector, tolerance: float) -> tuple[Vector, int]:
    """h ← h + (1 - keep)(Th - h), less its value in state 0, until the bounds are within the tolerance."""
    last = np.inf
    for done in range(1, MAX_SWEEPS + 1):
        change = best(_backup(world, bias)) - bias
        span = float(change.max() - change.min())
        if span <= tolerance:
            return bias, done
        if done % 1000 == 0:
            if span > 0.999 * last:
                return bias, done
            last = span
        bias = bias + (1 - KEEP) * change
        bias = bias - bias[0]
    return bias, MAX_SWEEPS


def _improve(world: MDP, using: PolicyIteration) -> tuple[Vector, int]:
    """Howard's iteration from the policy that earns most at once."""
    s = world.shape[0]

    def evaluate(policy: Policy, last: Vector) -> Vector:
        step, reward = chain(world, policy)
        if _closed(step) > 1:
            raise SeveralClasses
        # The column of h(0), which is zero, holds the gain.
        system = sp.lil_array(sp.eye_array(s) - step)
        system[:, [0]] = np.ones((s, 1))
        solved = splu(sp.csc_array(system)).solve(reward)
        return np.concatenate([[0.0], solved[1:]])

    def rounding(bias: Vector) -> float:
        return 1e-12 * (1 + float(np.abs(bias).max()))

    first, backup = np.argmax(world.rewards, axis=1), partial(_backup, world)
    found = howard(first, np.zeros(s), evaluate, backup, rounding, using.max_steps)
    return found.value, found.iterations


def _closed(step: sp.csr_array) -> int:
    """How many closed classes a chain has."""
    count, label = connected_components(step, directed=True, connection="strong")
    row = np.repeat(np.arange(step.shape[0]), np.diff(step.indptr))
    leaving = label[row] != label[step.indices]
    return count - len(np.unique(label[row[leaving]]))
