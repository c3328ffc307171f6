"""The values of a policy: V = r_π + γ P_π V, by sparse elimination or by sweeps with bounds."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from credo.core.errors import DataError, NotConverged
from credo.decide.mdp.bounds import EPS
from credo.decide.mdp.model import MDP, Vector
from credo.decide.mdp.transitions import bare, product

DIRECT = 2000
"""States up to which elimination is taken; random graphs fill up beyond."""
MOST_SWEEPS = 200_000


def chain(world: MDP, policy: np.ndarray, width: int = 0) -> tuple[Any, Vector]:
    """P_π as a csr_array (s, s), and r_π; rows that are known to have the same width are copied as a table."""
    s, a = world.shape
    rows = np.arange(s)
    if policy.ndim == 1:
        chosen = rows * a + policy
        reward = world.rewards.ravel()[chosen]
        if width:
            tables = (each.reshape(-1, width) for each in (world.indices, world.probs))
            index, prob = (table.take(chosen, axis=0).ravel() for table in tables)
            return bare(prob, index, world.indptr[: s + 1], (s, s)), reward
        return world.matrix[chosen], reward
    mix = sp.csr_array((policy.ravel(), np.arange(s * a), np.arange(0, s * a + 1, a)), shape=(s, s * a))
    return sp.csr_array(mix @ world.matrix), (policy * world.rewards).sum(axis=1)


def evaluate(world: MDP, policy: np.ndarray, using: str | None = None, tolerance: float = 1e-10) -> Vector:
    """V of a policy; see `MDP.evaluate`."""
    if using not in (None, "direct", "iterative"):
        raise DataError(f"using must be 'direct' or 'iterative', found {using!r}")
    step, reward = chain(world, policy)
    if world.discount == 1:
        demand_end(step, world, policy)
    if using == "direct" or (using is None and world.shape[0] <= DIRECT):
        return direct(step, reward, world.discount)
    if world.discount == 1:
        return _sweep_to_end(step, reward, tolerance)
    found = sweep(step, reward, world, np.zeros(len(reward)), tolerance, MOST_SWEEPS)
    return np.where(world.terminal, 0.0, found.middle)


def direct(step: Any, reward: Vector, discount: float, transpose: bool = False) -> Vector:
    """(I - γP)⁻¹ r with one refinement."""
    system = sp.csc_array(sp.eye_array(len(reward)) - discount * step)
    factor = splu(system)
    how, matrix = ("T", system.T) if transpose else ("N", system)
    value = factor.solve(reward, trans=how)
    return value + factor.solve(reward - matrix @ value, trans=how)


class Swept(NamedTuple):
    """V_π is between value + low and value + high."""

    value: Vector
    low: float
    high: float
    sweeps: int

    @property
    def certain(self) -> Vector:
        """The values, moved as far as the bounds are sure of."""
        sure = self.low if self.low > 0 else self.high if self.high < 0 else 0.0
        return self.value + sure if sure else self.value

    @property
    def middle(self) -> Vector:
        """The middle of the bounds."""
        return self.value + (self.low + self.high) / 2


def sweep(step: Any, reward: Vector, world: MDP, value: Vector, tolerance: float, most: int) -> Swept:
    """V ← r + γPV until the bounds on V_π are within the tolerance or rounding."""
    gamma = world.discount
    k = gamma / (1 - gamma)
    ends, done = world.has_ends, 0
    goal = max(tolerance, 4 * (k + 1) * EPS * (float(np.abs(reward).max()) + float(np.abs(value).max())))
    while True:
        done += 1
        backed = product(step, value)
        backed *= gamma
        backed += reward
        change = backed - value
        low, high = float(change.min()), float(change.max())
        if ends:
            low, high = min(low, 0.0), max(high, 0.0)
        if k * (high - low) / 2 <= goal or done >= most:
            return Swept(backed, k * low, k * high, done)
        value = backed


def _sweep_to_end(step: Any, reward: Vector, tolerance: float) -> Vector:
    """γ = 1: the change after a sweep times the expected steps to the end bounds the error."""
    left, value = np.ones(len(reward)), np.zeros(len(reward))
    remaining = np.zeros(len(reward))
    for _ in range(MOST_SWEEPS):
        remaining += left
        backed = reward + step @ value
        left = step @ left
        change = float(np.abs(backed - value).max())
        value = backed
        mass = float(left.max())
        if mass < 0.5 and change * float(remaining.max()) / (1 - mass) <= tolerance:
            return value
    raise NotConverged(f"the policy's values did not settle in {MOST_SWEEPS:,} sweeps; pass using='direct'")


def demand_end(step: Any, world: MDP, policy: np.ndarray) -> None:
    """With γ = 1 a policy has values only if it surely comes to an end."""
    s = world.shape[0]
    over = world.ends[np.arange(s), policy] if policy.ndim == 1 else (policy * world.ends).sum(axis=1)
    seen = over > 0
    while True:
        more = ((step @ seen.astype(float)) > 0) & ~seen
        if not more.any():
            break
        seen |= more
    if not seen.all():
        raise DataError(
            f"with discount = 1 a policy must surely come to an end, but this one does not from state "
            f"{int(np.argmin(seen))}; choose a discount below 1"
        )


def occupancy(world: MDP, policy: np.ndarray, start: Vector) -> Vector:
    """(I - γP_πᵀ)⁻¹ start."""
    step, _ = chain(world, policy)
    if world.discount == 1:
        demand_end(step, world, policy)
    begin = np.where(world.terminal, 0.0, start)
    if world.shape[0] <= DIRECT:
        return np.where(world.terminal, 0.0, direct(step, begin, world.discount, transpose=True))
    visits, now, back = begin.copy(), begin, sp.csr_array(step.T)
    while now.sum() > 1e-14 * visits.sum() * (1 - min(world.discount, 1 - 1e-6)):
        now = world.discount * (back @ now)
        visits += now
    return np.where(world.terminal, 0.0, visits)
