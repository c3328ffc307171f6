"""The verb: `solve(problem, using=planner)`, and the planners that suit each question about an MDP."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, SupportsFloat

import numpy as np

from credo.core.checks import check_count, check_real
from credo.core.errors import DataError
from credo.core.method import check_using
from credo.decide.mdp.average import solve_average
from credo.decide.mdp.bellman import DIRECT, Ruler
from credo.decide.mdp.graph import levels
from credo.decide.mdp.model import MDP, Vector, best
from credo.decide.mdp.plan import AVERAGE, HORIZON, UNDISCOUNTED, DiscountedPlan, HorizonPlan, MDPPlanner
from credo.decide.mdp.policy_iteration import ModifiedPolicyIteration, PolicyIteration
from credo.decide.mdp.problem import Effort, Plan, Planner, Problem, Question
from credo.decide.mdp.undiscounted import solve_undiscounted
from credo.decide.mdp.wavefront import Wavefront
from credo.infer.progress import Show

DEEP = 40
"""So many levels between rewards and the farthest state make values travel far."""


def solve(
    problem: Problem,
    using: Planner | None = None,
    tolerance: SupportsFloat | None = None,
    *,
    horizon: int | None = None,
    criterion: str = "discounted",
    gap: SupportsFloat | None = None,
    seconds: SupportsFloat | None = None,
    memory: SupportsFloat | None = None,
    start: Plan | None = None,
    progress: Show | bool | None = None,
) -> Any:
    """The best policy of a problem, its values, and a certificate of how far they may be from the truth.

    Args:
        problem: an MDP or a POMDP.
        using: a planner; None chooses by the structure of the world.
        tolerance: of ‖V - V*‖∞ of an MDP; 1e-6 where none is given.
        horizon: for so many steps, instead of for ever.
        criterion: "discounted", or "average" for the reward per step in the long run.
        gap: of a POMDP, between the bounds at the start, relative to their size; 1e-3 where none is given.
        seconds: of a POMDP: what is found by then is the plan.
        memory: of a POMDP: bytes that vectors and beliefs may take, 1e9 where none are given.
        start: a plan of the same POMDP to go on from.
        progress: of a POMDP: True for a bar with both bounds, a function of the share done and a text, False for none.

    Returns:
        a `DiscountedPlan`; a `HorizonPlan` where there is a horizon; an `AveragePlan` for the average reward; an
        `AlphaPlan` of a POMDP.
    """
    if not isinstance(problem, Problem):
        raise DataError(f"solve takes an MDP or a POMDP, found {type(problem).__name__}")
    bound = None if tolerance is None else check_real(tolerance, "tolerance")
    if bound is not None and not bound > 0:
        raise DataError(f"tolerance must be positive, found {tolerance}")
    question = problem.question(horizon, criterion, Effort(gap, seconds, memory, start, progress))
    if bound is not None and question.tolerance is None:
        raise DataError(f"{type(problem).__name__} does not take tolerance=; it is solved to a relative gap=")
    bound = bound or question.tolerance or 0.0
    plan = question.answer(None if using is None else check_using(using, problem, question.verb), bound)
    notes = [*plan.notes, *question.notes]
    if question.tolerance is not None and plan.certificate > bound:
        notes.append(f"the certificate {plan.certificate:.2g} is above the tolerance {bound:.2g}")
    return replace(plan, notes=tuple(notes))


@dataclass(frozen=True)
class Automatic(MDPPlanner):
    """Policy iteration for small worlds, a wavefront where values travel far, else modified policy iteration."""

    def solve(self, world: MDP, tolerance: float, start: Vector | None = None) -> DiscountedPlan:
        """Looks at the size, then at the distances from where the rewards are."""
        s = world.shape[0]
        if s <= DIRECT:
            return PolicyIteration().solve(world, tolerance, start)
        if not world.has_ends and (world.rewards != world.rewards.flat[0]).mean() > 0.5:
            # Rewards everywhere: nothing has to travel.
            return ModifiedPolicyIteration().solve(world, tolerance, start)
        found = levels(world)
        depth = len(found.bounds)
        if depth > max(DEEP, s // 4):
            # Nearly a line: elimination does not fill up.
            return PolicyIteration("direct").solve(world, tolerance, start)
        if depth > DEEP:
            return Wavefront().along(world, found, tolerance, start)
        return ModifiedPolicyIteration().solve(world, tolerance, start)


def question(world: MDP, horizon: int | None, criterion: str) -> Question:
    """What is asked about an MDP; see `solve`."""
    if not isinstance(criterion, str) or criterion not in ("discounted", "average"):
        raise DataError(f"criterion must be 'discounted' or 'average', found {criterion!r}")
    if horizon is not None and criterion == "average":
        raise DataError("horizon and criterion='average' exclude each other; the average is over infinitely many steps")
    seen = world.reachable()
    lost = f"{(~seen).sum()} of {len(seen)} states cannot be reached from the start, such as state {np.argmin(seen)}"
    notes = () if seen.all() else (lost,)
    if horizon is not None:
        check_count(horizon, "horizon")
        return Question(HORIZON, lambda *_: backward_induction(world, int(horizon)), notes)
    if criterion == "average":
        return Question(AVERAGE, partial(solve_average, world), notes)
    if world.discount == 1:
        return Question(UNDISCOUNTED, partial(solve_undiscounted, world), notes)
    return Question("solve", lambda using, bound: (using or Automatic()).solve(world, bound), notes)


def backward_induction(world: MDP, horizon: int) -> HorizonPlan:
    """Value iteration for so many steps: Vₜ = maxₐ r + γ P Vₜ₊₁ from V_T = 0. Puterman (1994), section 4.5."""
    s = world.shape[0]
    value, policy = np.zeros((horizon + 1, s)), np.zeros((horizon, s), dtype=int)
    ruler, error = Ruler(world), 0.0
    for i in range(horizon - 1, -1, -1):
        q = world.backup(value[i + 1])
        value[i], policy[i] = best(q), np.argmax(q, axis=1)
        error = ruler.rounding(value[i + 1]) + world.discount * error
    return HorizonPlan(world, policy, error, horizon, "converged", "backward induction", value)
