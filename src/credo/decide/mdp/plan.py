"""Plans for Markov decision processes: values, the policy, and how far the values may be from the truth."""

from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.checks import ArrayLike
from credo.decide.mdp.bellman import Ruler
from credo.decide.mdp.model import MDP, Table, Vector, best
from credo.decide.mdp.problem import Plan, Planner, Problem

Q = Table | None


class DiscountedPlan(Plan[MDP]):
    """The solution of a discounted (or surely ending) world.

    ‖value - V*‖∞ ≤ certificate, with rounding counted; following `policy` loses at most twice that.
    """

    value: Float[np.ndarray, " s"]

    @property
    def q(self) -> Table:
        """Q(s, a) of these values."""
        return self.world.backup(self.value)

    @property
    def advantage(self) -> Table:
        """Q(s, a) - maxₐ Q(s, a): what an action loses against the best one; zero for the best."""
        q = self.q
        return q - q.max(axis=1, keepdims=True)

    def start_value(self, start: ArrayLike = None) -> float:
        """The value averaged over where episodes begin."""
        return float(self.world.begin(start) @ self.value)


class HorizonPlan(Plan[MDP]):
    """The solution for a given number of steps: value[t] and policy[t] when t steps are done; value[T] is zero.

    The recursion is exact: the certificate is rounding only.
    """

    value: Float[np.ndarray, "t_and_1 s"]

    def q(self, t: int) -> Table:
        """Q(s, a) when t steps are done."""
        return self.world.backup(self.value[t + 1])

    @property
    def first(self) -> DiscountedPlan:
        """What to do, and what it is worth, when no step is done."""
        reached = (self.certificate, self.iterations, self.status, self.method)
        return DiscountedPlan(self.world, self.policy[0], *reached, self.value[0])


class AveragePlan(Plan[MDP]):
    """The solution for the reward per step in the long run: |gain - g*| ≤ certificate; bias is zero in state 0."""

    bias: Float[np.ndarray, " s"]
    gain: float = eqx.field(static=True)


HORIZON, AVERAGE, UNDISCOUNTED = "solve(horizon=…)", "solve(criterion='average')", "solve with discount = 1"
"""Questions about an MDP that not every planner answers."""


class MDPPlanner(Planner[MDP]):
    """Planners of Markov decision processes."""

    problems: ClassVar[type[Problem]] = MDP


def verdict(certificate: float, tolerance: float) -> str:
    """The status of a plan."""
    return "converged" if certificate <= tolerance else "stopped"


def finish(world: MDP, value: Vector, tolerance: float, iterations: int, method: str, q: Q = None) -> DiscountedPlan:
    """The plan of values: one more backup gives the bounds, the policy, and values in the middle of the bounds."""
    q = world.backup(value) if q is None else q
    backed = best(q)
    found = Ruler(world).measure(value, backed)
    middle = np.where(world.terminal, 0.0, backed + found.shift)
    status = verdict(found.certificate, tolerance)
    return DiscountedPlan(world, np.argmax(q, axis=1), found.certificate, iterations, status, method, middle)
