"""A given number of steps: backward induction, Vₜ = maxₐ r + γ P Vₜ₊₁ from V_T = 0. Puterman (1994), section 4.5."""

from typing import Any

import numpy as np

from credo.core.errors import DataError
from credo.decide.mdp.bounds import Ruler
from credo.decide.mdp.model import MDP, best
from credo.decide.mdp.plan import HorizonPlan


def backward_induction(world: MDP, horizon: Any) -> HorizonPlan:
    """Values and actions when t = 0 … T - 1 of `horizon` steps are done; any discount up to one."""
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise DataError(f"horizon must be a whole number of steps ≥ 1, found {horizon!r}")
    t, s = int(horizon), world.shape[0]
    value, policy = np.zeros((t + 1, s)), np.zeros((t, s), dtype=int)
    ruler, matrix, error = Ruler(world), world.matrix, 0.0
    for i in range(t - 1, -1, -1):
        q = world.rewards + (world.discount * (matrix @ value[i + 1])).reshape(world.shape)
        value[i], policy[i] = best(q), np.argmax(q, axis=1)
        error = ruler.rounding(value[i + 1]) + world.discount * error
    return HorizonPlan(world, value, policy, error, t)
