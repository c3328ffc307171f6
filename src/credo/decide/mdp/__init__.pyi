"""Markov decision processes: worlds that are known, and the best way to act in them."""

from credo.decide.mdp.linear_program import LinearProgram as LinearProgram
from credo.decide.mdp.model import MDP as MDP
from credo.decide.mdp.paths import Paths as Paths
from credo.decide.mdp.plan import AveragePlan as AveragePlan
from credo.decide.mdp.plan import DiscountedPlan as DiscountedPlan
from credo.decide.mdp.plan import HorizonPlan as HorizonPlan
from credo.decide.mdp.policy_iteration import ModifiedPolicyIteration as ModifiedPolicyIteration
from credo.decide.mdp.policy_iteration import PolicyIteration as PolicyIteration
from credo.decide.mdp.problem import Plan as Plan
from credo.decide.mdp.problem import Planner as Planner
from credo.decide.mdp.problem import Problem as Problem
from credo.decide.mdp.solving import Automatic as Automatic
from credo.decide.mdp.solving import solve as solve
from credo.decide.mdp.value_iteration import GaussSeidel as GaussSeidel
from credo.decide.mdp.value_iteration import PrioritizedSweeping as PrioritizedSweeping
from credo.decide.mdp.value_iteration import ValueIteration as ValueIteration
from credo.decide.mdp.wavefront import Wavefront as Wavefront
