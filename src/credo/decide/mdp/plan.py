"""What `solve` returns: values, the policy, and how far the values may be from the truth."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from credo.decide.mdp.bounds import Bounds, Ruler
from credo.decide.mdp.model import MDP, Table, Vector, best


class Plan(eqx.Module):
    """The solution of a discounted (or surely ending) world.

    ‖value - V*‖∞ ≤ certificate, with rounding counted; following `policy` loses at most twice that. `status` is
    "converged" where the certificate is within the tolerance, else "stopped".
    """

    world: MDP
    value: Float[np.ndarray, " s"]
    policy: Int[np.ndarray, " s"]
    certificate: float = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    """Sweeps over all states, or improvements for policy iteration."""
    status: str = eqx.field(static=True)
    method: str = eqx.field(static=True)
    notes: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def q(self) -> Table:
        """Q(s, a) of these values."""
        return self.world.backup(self.value)

    @property
    def advantage(self) -> Table:
        """Q(s, a) - maxₐ Q(s, a): what an action loses against the best one; zero for the best."""
        q = self.q
        return q - q.max(axis=1, keepdims=True)

    def start_value(self, start: Any = None) -> float:
        """The value averaged over where episodes begin."""
        return float(self.world._start(start) @ self.value)


class HorizonPlan(eqx.Module):
    """The solution for a given number of steps: value[t] and policy[t] when t steps are done; value[T] is zero."""

    world: MDP
    value: Float[np.ndarray, "t_and_1 s"]
    policy: Int[np.ndarray, "t s"]
    certificate: float = eqx.field(static=True)
    """Rounding only: the recursion is exact."""
    steps: int = eqx.field(static=True)
    status: str = eqx.field(static=True, default="converged")
    method: str = eqx.field(static=True, default="backward induction")
    notes: tuple[str, ...] = eqx.field(static=True, default=())

    def q(self, t: int) -> Table:
        """Q(s, a) when t steps are done."""
        return self.world.backup(self.value[t + 1])


class AveragePlan(eqx.Module):
    """The solution for the reward per step in the long run: |gain - g*| ≤ certificate; bias is zero in state 0."""

    world: MDP
    gain: float = eqx.field(static=True)
    bias: Float[np.ndarray, " s"]
    policy: Int[np.ndarray, " s"]
    certificate: float = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    status: str = eqx.field(static=True)
    method: str = eqx.field(static=True)
    notes: tuple[str, ...] = eqx.field(static=True, default=())


def finish(world: MDP, value: Vector, tolerance: float, steps: int, method: str, q: Table | None = None) -> Plan:
    """The plan of values: one more backup gives the bounds, the policy, and values in the middle of the bounds."""
    q = world.backup(value) if q is None else q
    backed = best(q)
    found = Ruler(world).measure(value, backed)
    return plan_of(world, backed, np.argmax(q, axis=1), found, tolerance, steps, method)


def plan_of(
    world: MDP, backed: Vector, policy: np.ndarray, found: Bounds, tolerance: float, steps: int, method: str
) -> Plan:
    """The plan of values that have been backed up and measured."""
    final = np.where(world.terminal, 0.0, backed + found.shift)
    status = "converged" if found.certificate <= tolerance else "stopped"
    return Plan(world, final, policy, found.certificate, steps, status, method)
