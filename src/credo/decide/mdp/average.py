"""The reward per step in the long run: g + h(s) = maxₐ r(s, a) + Σ P(s' | s, a) h(s').

For any h, min (Th - h) ≤ g* ≤ max (Th - h): these bounds are the certificate. Puterman (1994), sections 8.5 and 8.6.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from credo.core.errors import DataError
from credo.decide.mdp.bounds import EPS
from credo.decide.mdp.evaluation import DIRECT, chain
from credo.decide.mdp.model import MDP, Vector, best
from credo.decide.mdp.plan import AveragePlan
from credo.decide.mdp.policy_iteration import PolicyIteration
from credo.decide.mdp.value_iteration import ValueIteration

MOST_SWEEPS = 50_000
KEEP = 0.5
"""Of each sweep, the part that stays: with it no chain is periodic."""


def solve_average(world: MDP, using: Any, tolerance: float) -> AveragePlan:
    """Policy iteration for small worlds whose policies have one closed class, else relative value iteration."""
    if world.has_ends:
        raise DataError("the average reward needs a world that goes on for ever, but this one has terminal states")
    if not (using is None or isinstance(using, PolicyIteration | ValueIteration)):
        raise DataError(
            f"for the average reward use PolicyIteration() or ValueIteration(), found {type(using).__name__}"
        )
    bias, steps, method = np.zeros(world.shape[0]), 0, "relative value iteration"
    if isinstance(using, PolicyIteration) or (using is None and world.shape[0] <= DIRECT):
        found = _improve(world)
        if found is not None:
            bias, steps, method = *found, "policy iteration"
    bias, sweeps = _sweep(world, bias, tolerance)
    low, high, policy = _gain(world, bias)
    certificate = (high - low) / 2
    if certificate > tolerance and _closed(chain(world, policy)[0]) > 1:
        raise DataError(
            "the average reward depends on where one begins: the best policy has several closed classes of states; "
            f"found gains between {low:g} and {high:g}; solve the classes one by one, or take a discount near 1"
        )
    status = "converged" if certificate <= tolerance else "stopped"
    gain = (low + high) / 2
    return AveragePlan(world, gain, bias - bias[0], policy, certificate, steps + sweeps, status, method)


def _gain(world: MDP, bias: Vector) -> tuple[float, float, np.ndarray]:
    """Bounds on g*, widened by rounding, and the greedy policy."""
    q = world.rewards + (world.matrix @ bias).reshape(world.shape)
    change = best(q) - bias
    terms = int(np.diff(world.indptr).max()) + 4
    slack = terms * EPS * (float(np.abs(world.rewards).max()) + 2 * float(np.abs(bias).max()))
    return float(change.min()) - slack, float(change.max()) + slack, np.argmax(q, axis=1)


def _sweep(world: MDP, bias: Vector, tolerance: float) -> tuple[Vector, int]:
    """h ← h + (1 - keep)(Th - h), less its value in state 0, until the bounds are within the tolerance."""
    matrix = world.matrix
    last = np.inf
    for done in range(1, MOST_SWEEPS + 1):
        change = best(world.rewards + (matrix @ bias).reshape(world.shape)) - bias
        span = float(change.max() - change.min())
        if span <= tolerance:
            return bias, done
        if done % 1000 == 0:
            if span > 0.999 * last:
                return bias, done
            last = span
        bias = bias + (1 - KEEP) * change
        bias = bias - bias[0]
    return bias, MOST_SWEEPS


def _improve(world: MDP) -> tuple[Vector, int] | None:
    """Howard's iteration; None as soon as a policy has several closed classes."""
    rows, s = np.arange(world.shape[0]), world.shape[0]
    policy = np.argmax(world.rewards, axis=1)
    bias = np.zeros(s)
    for done in range(1, 1000):
        step, reward = chain(world, policy)
        if _closed(step) > 1:
            return None
        # The column of h(0), which is zero, holds the gain.
        system = sp.lil_array(sp.eye_array(s) - step)
        system[:, [0]] = np.ones((s, 1))
        solved = splu(sp.csc_array(system)).solve(reward)
        bias = np.concatenate([[0.0], solved[1:]])
        q = world.rewards + (world.matrix @ bias).reshape(world.shape)
        greedy = np.argmax(q, axis=1)
        slack = 1e-12 * (1 + float(np.abs(bias).max()))
        improved = np.where(q[rows, greedy] > q[rows, policy] + slack, greedy, policy)
        if np.array_equal(improved, policy):
            return bias, done
        policy = improved
    return bias, done


def _closed(step: Any) -> int:
    """How many closed classes a chain has."""
    count, label = connected_components(step, directed=True, connection="strong")
    row = np.repeat(np.arange(step.shape[0]), np.diff(step.indptr))
    leaving = label[row] != label[step.indices]
    return count - len(np.unique(label[row[leaving]]))
