"""Worlds without a discount that come to an end: stochastic shortest paths.

Values exist where every policy surely ends, or where some policy ends from every state and going on for ever costs
without bound. Bertsekas & Tsitsiklis (1991), "An analysis of stochastic shortest path problems".
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool

from credo.core.errors import DataError
from credo.decide.mdp.bellman import EPS, Ruler, chain, direct
from credo.decide.mdp.graph import reached, successors
from credo.decide.mdp.model import MDP, Policy, Table, Vector, best
from credo.decide.mdp.plan import DiscountedPlan, verdict
from credo.decide.mdp.policy_iteration import Improved, PolicyIteration, howard
from credo.decide.mdp.problem import Planner


def lasting(world: MDP) -> Bool[np.ndarray, "s a"]:
    """The pairs of state and action with which one can go on for ever."""
    stays = world.ends == 0
    matrix = world.matrix
    while True:
        outside = (~stays.any(axis=1)).astype(float)
        kept = stays & ((matrix @ outside).reshape(world.shape) == 0)
        if np.array_equal(kept, stays):
            return kept
        stays = kept


def check_ends(world: MDP) -> bool:
    """Refuses worlds whose values may be infinite; True where every policy ends."""
    for_ever = lasting(world)
    if not for_ever.any():
        return True
    can_end = reached(sp.csr_array(successors(world).T), np.asarray((world.ends > 0).any(axis=1)))
    remedy = "choose a discount below 1, a horizon, or criterion='average'"
    if not can_end.all():
        raise DataError(
            f"with discount = 1 every state must be able to come to an end, but state {int(np.argmin(can_end))} "
            f"cannot; {remedy}"
        )
    free = for_ever & (world.rewards >= 0)
    if free.any():
        s, a = (int(i) for i in np.argwhere(free)[0])
        raise DataError(
            f"with discount = 1 going on for ever must cost something, but action {a} in state {s} can be part of it "
            f"and pays {world.rewards[s, a]:g}; {remedy}"
        )
    return False


def solve_undiscounted(world: MDP, using: Planner | None, tolerance: float) -> DiscountedPlan:
    """Policy iteration from a policy that ends."""
    every = check_ends(world)
    found = _improve(world, using.max_steps if isinstance(using, PolicyIteration) else PolicyIteration().max_steps)
    certificate = _surely(world, found.value, found.q) if every else _verified(world, found)
    notes = () if np.isfinite(certificate) else ("the optimum could not be certified: actions tie within rounding",)
    policy, value = np.argmax(found.q, axis=1), np.where(world.terminal, 0.0, found.value)
    how = (certificate, found.iterations, verdict(certificate, tolerance))
    return DiscountedPlan(world, policy, *how, "policy iteration", value, notes=notes)


def _improve(world: MDP, max_steps: int) -> Improved:
    ruler, nothing = Ruler(world), np.zeros(world.shape[0])
    evaluate = lambda policy, last: direct(*chain(world, policy), 1.0)  # noqa: E731
    return howard(_homeward(world), nothing, evaluate, world.backup, lambda v: 8 * ruler.rounding(v), max_steps)


def _homeward(world: MDP) -> Policy:
    """A policy that ends: an action that may end or come nearer to where that is possible."""
    near = world.ends > 0
    policy = np.argmax(near, axis=1)
    done = near.any(axis=1)
    matrix = world.matrix
    while not done.all():
        nearer = (matrix @ done.astype(float)).reshape(world.shape) > 0
        new = nearer.any(axis=1) & ~done
        policy[new] = np.argmax(nearer[new], axis=1)
        done |= new
    return policy


def _surely(world: MDP, value: Vector, q: Table) -> float:
    """‖TV - V‖ times the longest expected time that any policy takes: u ≥ 1 + P_a u for all actions."""
    timed = world.altered(np.ones(world.shape), 1.0)
    longest = _improve(timed, 1000).value
    short = float(np.max(best(timed.backup(longest)) - longest, initial=0.0)) + Ruler(timed).rounding(longest)
    residual = float(np.abs(best(q) - value).max()) + Ruler(world).rounding(value)
    return residual * float(longest.max()) / (1 - short) if short < 0.5 else np.inf


def _verified(world: MDP, found: Improved) -> float:
    """The least ε such that V + εh is above all its backups, h = expected time to the end of the policy.

    Then V - εh ≤ V_π ≤ V* ≤ V + εh.
    """
    (value, policy, q, _), live = found, ~world.terminal
    time = direct(chain(world, policy)[0], live.astype(float), 1.0)
    noise = Ruler(world).rounding(value) + EPS * float(np.abs(value).max())
    gain = (time[:, None] - (world.matrix @ time).reshape(world.shape))[live]
    gap = (value[:, None] - q)[live]
    helps = gain > 0.5
    least = float(np.max((noise - gap[helps]) / gain[helps], initial=noise))
    if (gap[~helps] + least * np.minimum(gain[~helps], 0.0) < noise).any():
        return float("inf")
    lower = float(np.max((value - q[np.arange(len(value)), policy])[live], initial=0.0)) + noise
    return max(least, lower) * float(time.max()) * (1 + 1e-9)
