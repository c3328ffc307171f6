"""The verb: `solve(problem, using=method)`, and the choice of a method by the structure of the world."""

from typing import Any

import equinox as eqx
import numpy as np

from credo.core.errors import DataError
from credo.decide.mdp.average import solve_average
from credo.decide.mdp.evaluation import DIRECT
from credo.decide.mdp.graph import levels
from credo.decide.mdp.horizon import backward_induction
from credo.decide.mdp.model import MDP, Vector
from credo.decide.mdp.plan import Plan
from credo.decide.mdp.policy_iteration import ModifiedPolicyIteration, PolicyIteration
from credo.decide.mdp.undiscounted import solve_undiscounted
from credo.decide.mdp.wavefront import Wavefront

DEEP = 40
"""So many levels between rewards and the farthest state make values travel far."""


class Automatic(eqx.Module):
    """Policy iteration for small worlds, a wavefront where values travel far, else modified policy iteration."""

    def solve(self, world: MDP, tolerance: float, value: Vector | None = None) -> Plan:
        """Looks at the size, then at the distances from where the rewards are."""
        s = world.shape[0]
        if s <= DIRECT:
            return PolicyIteration().solve(world, tolerance, value)
        if not world.has_ends and (world.rewards != world.rewards.flat[0]).mean() > 0.5:
            # Rewards everywhere: nothing has to travel.
            return ModifiedPolicyIteration().solve(world, tolerance, value)
        found = levels(world)
        depth = len(found.bounds)
        if depth > max(DEEP, s // 4):
            # Nearly a line: elimination does not fill up.
            return PolicyIteration("direct").solve(world, tolerance, value)
        if depth > DEEP:
            return Wavefront().along(world, found, tolerance, value)
        return ModifiedPolicyIteration().solve(world, tolerance, value)


def solve(
    problem: Any, using: Any = None, tolerance: Any = 1e-6, *, horizon: Any = None, criterion: str = "discounted"
) -> Any:
    """The best policy of a problem, its values, and a certificate of how far they may be from the truth.

    Args:
        problem: an MDP, or any problem with a method `solve_with(using, tolerance)`.
        using: a method; None chooses by the structure of the world.
        tolerance: of ‖V - V*‖∞.
        horizon: for so many steps, instead of for ever.
        criterion: "discounted", or "average" for the reward per step in the long run.

    Returns:
        a `Plan`; a `HorizonPlan` where there is a horizon; an `AveragePlan` for the average reward.
    """
    bound = float(tolerance)
    if not bound > 0:
        raise DataError(f"tolerance must be positive, found {tolerance}")
    if hasattr(problem, "solve_with"):
        return problem.solve_with(using, bound)
    if not isinstance(problem, MDP):
        if hasattr(using, "solve"):
            return using.solve(problem, bound)
        raise DataError(f"solve takes an MDP or a problem with solve_with, found {type(problem).__name__}")
    if criterion not in ("discounted", "average"):
        raise DataError(f"criterion must be 'discounted' or 'average', found {criterion!r}")
    if horizon is not None:
        if criterion == "average":
            raise DataError(
                "horizon and criterion='average' exclude each other; the average is over infinitely many steps"
            )
        return _with_notes(backward_induction(problem, horizon), bound)
    if using is not None and not hasattr(using, "solve"):
        raise DataError(f"using must be a method such as PolicyIteration(), found {using!r}")
    if criterion == "average":
        return _with_notes(solve_average(problem, using, bound), bound)
    if problem.discount == 1:
        return _with_notes(solve_undiscounted(problem, using, bound), bound)
    return _with_notes((using or Automatic()).solve(problem, bound), bound)


def _with_notes(plan: Any, tolerance: float) -> Any:
    """Adds what a reader should know."""
    notes = list(plan.notes)
    world = plan.world
    if world.start is not None:
        lost = int((~world.reachable()).sum())
        if lost:
            first = int(np.argmin(world.reachable()))
            notes.append(f"{lost} of {world.shape[0]} states cannot be reached from the start, such as state {first}")
    if plan.certificate > tolerance:
        notes.append(f"the certificate {plan.certificate:.2g} is above the tolerance {tolerance:.2g}")
    object.__setattr__(plan, "notes", tuple(notes))  # the plan is ours, and nobody has seen it yet
    return plan
