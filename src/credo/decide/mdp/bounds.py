"""How far values are from optimal ones, from one application of Bellman's operator.

With Δ = TV - V and rows that sum to one, TV + γ/(1-γ)·min Δ ≤ V* ≤ TV + γ/(1-γ)·max Δ; where episodes may end, zero
counts among the Δ. MacQueen (1966); Porteus (1971); Puterman (1994), theorem 6.6.3.
"""

from typing import Any, NamedTuple

import numpy as np

from credo.decide.mdp.model import Vector

EPS = float(np.finfo(float).eps)


class Bounds(NamedTuple):
    """Values TV + shift are within `certificate` of the optimum."""

    shift: float
    certificate: float
    low: float
    """The certain part of the shift: the bound on the side of zero, or 0 where the bounds have different signs."""


class Ruler:
    """Measures values of one world; knows how much rounding there may be."""

    def __init__(self, world: Any) -> None:
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
        change = backed - value
        low, high = float(change.min(initial=np.inf)), float(change.max(initial=-np.inf))
        if self.ends:
            low, high = min(low, 0.0), max(high, 0.0)
        k = self.factor
        slack = (k + 1) * self.rounding(value)
        # Rows that sum to one up to rounding move a shift a little.
        slack += 2 * self.terms * EPS * (abs(low) + abs(high)) * k * (k + 1)
        shift = k * (low + high) / 2
        certain = k * (low if low > 0 else high if high < 0 else 0.0)
        return Bounds(shift, k * (high - low) / 2 + slack + 2 * EPS * abs(shift), certain)
