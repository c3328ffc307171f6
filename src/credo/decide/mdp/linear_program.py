"""The optimal values as a linear program: the least V with V(s) ≥ r(s, a) + γ Σ P(s' | s, a) V(s').

Puterman (1994), section 6.9. HiGHS solves it, through SciPy.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from credo.core.errors import NotConverged
from credo.decide.mdp.bellman import evaluate
from credo.decide.mdp.model import MDP, Vector
from credo.decide.mdp.plan import DiscountedPlan, MDPPlanner, finish


@dataclass(frozen=True)
class LinearProgram(MDPPlanner):
    """min Σ V(s) subject to Bellman's inequalities; the policy that it finds is then evaluated exactly."""

    def solve(self, world: MDP, tolerance: float, start: Vector | None = None) -> DiscountedPlan:
        """One program; `start` is not used."""
        s, a = world.shape
        own = sp.csr_array((np.ones(s * a), np.repeat(np.arange(s), a), np.arange(s * a + 1)), shape=(s * a, s))
        unit = float(np.abs(world.rewards).max()) or 1.0  # the tolerances of HiGHS are absolute
        steps, paid = sp.csr_array(world.discount * world.matrix - own), -world.rewards.ravel() / unit
        found = linprog(np.ones(s), A_ub=steps, b_ub=paid, bounds=(None, None), method="highs")
        if found.status != 0:
            raise NotConverged(f"HiGHS found no solution of the linear program: {found.message}")
        policy = world.greedy(unit * found.x)
        return finish(world, evaluate(world, policy), tolerance, int(found.nit), "linear program")
