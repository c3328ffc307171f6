"""Bellman's equations: how far values are from the optimum, and the values of a policy.

With Δ = TV - V and rows that sum to one, TV + γ/(1-γ)·min Δ ≤ V* ≤ TV + γ/(1-γ)·max Δ; where episodes may end, zero
counts among the Δ. MacQueen (1966); Porteus (1971); Puterman (1994), theorem 6.6.3. The values of a policy,
V = r_π + γ P_π V, are found by sparse elimination or by sweeps with the same bounds.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from credo.core.errors import DataError, NotConverged
from credo.decide.mdp.graph import reached
from credo.decide.mdp.model import MDP, Policy, Vector
from credo.decide.mdp.transitions import bare, product

EPS = float(np.finfo(float).eps)
DIRECT = 2000
"""States up to which elimination is taken; random graphs fill up beyond."""
MAX_SWEEPS = 200_000


class Bounds(NamedTuple):
    """Values TV + shift are within `certificate` of the optimum."""

    shift: float
    certificate: float
    low: float
    """The certain part of the shift: the bound on the side of zero, or 0 where the bounds have different signs."""


class Ruler:
    """Measures values of one world; knows how much rounding there may be."""

    def __init__(self, world: MDP) -> None:
        self.gamma = world.discount
        self.ends = world.has_ends
        longest = int(np.diff(world.indptr).max(initial=0))
        self.terms = longest + 4
        rows = len(world.indptr) - 1
        self.width = longest if longest * rows == len(world.indices) else 0
        """The length of the rows where all have the same, so that they are a table, else 0."""
        self.scale = float(np.abs(world.rewards).max(initial=0.0))
        modulus = self.gamma * (1 + self.terms * EPS)
        self.factor = modulus / (1 - modulus) if modulus < 1 else np.inf

    def rounding(self, value: Vector) -> float:
        """A bound on the error of TV in floating point: the terms of a sum, each rounded."""
        largest = max(float(value.max(initial=0.0)), -float(value.min(initial=0.0)))
        return self.terms * EPS * (self.scale + self.gamma * largest)

    def measure(self, value: Vector, backed: Vector) -> Bounds:
        """The bounds from V and TV."""
        low, high = _span(backed - value, self.ends)
        k = self.factor
        slack = (k + 1) * self.rounding(value)
        # Rows that sum to one up to rounding move a shift a little.
        slack += 2 * self.terms * EPS * (abs(low) + abs(high)) * k * (k + 1)
        shift = k * (low + high) / 2
        return Bounds(shift, k * (high - low) / 2 + slack + 2 * EPS * abs(shift), k * _certain(low, high))


def _span(change: Vector, ends: bool) -> tuple[float, float]:
    """The least and the largest change; zero counts among them where episodes may end."""
    low, high = float(change.min(initial=np.inf)), float(change.max(initial=-np.inf))
    return (min(low, 0.0), max(high, 0.0)) if ends else (low, high)


def _certain(low: float, high: float) -> float:
    return low if low > 0 else high if high < 0 else 0.0


def chain(world: MDP, policy: Policy, width: int = 0) -> tuple[sp.csr_array, Vector]:
    """P_π (s, s), and r_π; rows that are known to have the same width are copied as a table."""
    s, a = world.shape
    if policy.ndim == 1:
        chosen = np.arange(s) * a + policy
        reward = world.rewards.ravel()[chosen]
        if width:
            tables = (each.reshape(-1, width) for each in (world.indices, world.probs))
            index, prob = (table.take(chosen, axis=0).ravel() for table in tables)
            return bare(prob, index, world.indptr[: s + 1], (s, s)), reward
        return world.matrix[chosen], reward
    mix = sp.csr_array((policy.ravel(), np.arange(s * a), np.arange(0, s * a + 1, a)), shape=(s, s * a))
    return sp.csr_array(mix @ world.matrix), (policy * world.rewards).sum(axis=1)


def evaluate(world: MDP, policy: Policy, method: str | None = None, tolerance: float = 1e-10) -> Vector:
    """V of a policy; see `MDP.evaluate`."""
    if method is not None and not (isinstance(method, str) and method in ("direct", "iterative")):
        raise DataError(f"method must be 'direct' or 'iterative', found {method!r}")
    step, reward = chain(world, policy)
    if world.discount == 1:
        demand_end(step, world, policy)
    if method == "direct" or (method is None and world.shape[0] <= DIRECT):
        return direct(step, reward, world.discount)
    if world.discount == 1:
        return _sweep_to_end(step, reward, tolerance)
    found = sweep(step, reward, world, np.zeros(len(reward)), tolerance, MAX_SWEEPS)
    return np.where(world.terminal, 0.0, found.value + (found.low + found.high) / 2)


def direct(step: sp.csr_array, reward: Vector, discount: float, transpose: bool = False) -> Vector:
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
        return self.value + _certain(self.low, self.high)


def sweep(step: sp.csr_array, reward: Vector, world: MDP, value: Vector, tolerance: float, max_steps: int) -> Swept:
    """V ← r + γPV until the bounds on V_π are within the tolerance or rounding."""
    gamma, ends, done = world.discount, world.has_ends, 0
    k = gamma / (1 - gamma)
    goal = max(tolerance, 4 * (k + 1) * EPS * (float(np.abs(reward).max()) + float(np.abs(value).max())))
    while True:
        done += 1
        backed = product(step, value)
        backed *= gamma
        backed += reward
        low, high = _span(backed - value, ends)
        if k * (high - low) / 2 <= goal or done >= max_steps:
            return Swept(backed, k * low, k * high, done)
        value = backed


def _sweep_to_end(step: sp.csr_array, reward: Vector, tolerance: float) -> Vector:
    """γ = 1: the change after a sweep times the expected steps to the end bounds the error."""
    left, value = np.ones(len(reward)), np.zeros(len(reward))
    remaining = np.zeros(len(reward))
    for _ in range(MAX_SWEEPS):
        remaining += left
        backed = reward + step @ value
        left = step @ left
        change = float(np.abs(backed - value).max())
        value = backed
        mass = float(left.max())
        if mass < 0.5 and change * float(remaining.max()) / (1 - mass) <= tolerance:
            return value
    raise NotConverged(f"the policy's values did not settle in {MAX_SWEEPS:,} sweeps; pass method='direct'")


def demand_end(step: sp.csr_array, world: MDP, policy: Policy) -> None:
    """With γ = 1 a policy has values only if it surely comes to an end."""
    s = world.shape[0]
    over = world.ends[np.arange(s), policy] if policy.ndim == 1 else (policy * world.ends).sum(axis=1)
    seen = reached(sp.csr_array(step.T), over > 0)
    if not seen.all():
        raise DataError(
            f"with discount = 1 a policy must surely come to an end, but this one does not from state "
            f"{int(np.argmin(seen))}; choose a discount below 1"
        )


def occupancy(world: MDP, policy: Policy, start: Vector) -> Vector:
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
