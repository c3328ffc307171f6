"""Markov decision processes: worlds that are known, and the best way to act in them.

world = MDP.from_drawing("S..G", slip=0.2)
plan = solve(world)
plan.value, plan.policy, plan.certificate
"""

from credo.decide.mdp.linear_program import LinearProgram
from credo.decide.mdp.model import MDP
from credo.decide.mdp.paths import Paths
from credo.decide.mdp.plan import AveragePlan, DiscountedPlan, HorizonPlan
from credo.decide.mdp.policy_iteration import ModifiedPolicyIteration, PolicyIteration
from credo.decide.mdp.problem import Plan, Planner, Problem
from credo.decide.mdp.solving import Automatic, solve
from credo.decide.mdp.value_iteration import GaussSeidel, PrioritizedSweeping, ValueIteration
from credo.decide.mdp.wavefront import Wavefront

__all__ = [
    "MDP",
    "Automatic",
    "AveragePlan",
    "DiscountedPlan",
    "GaussSeidel",
    "HorizonPlan",
    "LinearProgram",
    "ModifiedPolicyIteration",
    "Paths",
    "Plan",
    "Planner",
    "PolicyIteration",
    "PrioritizedSweeping",
    "Problem",
    "ValueIteration",
    "Wavefront",
    "solve",
]
