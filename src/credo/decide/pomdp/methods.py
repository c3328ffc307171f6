"""The methods that `credo.solve(pomdp, using=…)` takes, and the limits under which they work.

SARSOP: Kurniawati, Hsu & Lee (2008). HSVI: Smith & Simmons (2005). PBVI: Pineau, Gordon & Thrun (2003). Perseus: Spaan
& Vlassis (2005). QMDP: Littman, Cassandra & Kaelbling (1995). Fast informed bound: Hauskrecht (2000). Incremental
pruning: Cassandra, Littman & Zhang (1997).
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

import numpy as np

from credo.core.checks import check_count
from credo.core.errors import NotConvergedWarning
from credo.decide.mdp.problem import Planner, Problem
from credo.decide.pomdp.model import POMDP

if TYPE_CHECKING:
    from credo.decide.pomdp.plan import AlphaPlan

HORIZON = "solve(horizon=…)"
Start: TypeAlias = "AlphaPlan | None"
"""A plan to go on from."""


class Limits(NamedTuple):
    """When to stop."""

    gap: float = 1e-3
    """upper - lower at the start, relative to the larger of their sizes."""
    seconds: float | None = None
    memory: float = 1.0e9
    """Bytes that vectors and the tree may take; trials then go on from a smaller tree, while that helps."""
    progress: Callable[[float, float, float], None] | None = None
    """Called now and then with the lower bound, the upper bound, and the seconds used."""
    least: float = 1e-6
    """Smaller values count as zero, to which no gap would be small."""

    def within(self, pomdp: POMDP) -> "Limits":
        """Those for a problem, where a millionth of the largest reward counts as zero."""
        return self._replace(least=1e-6 * float(np.abs(pomdp.rewards).max()))

    def closed(self, lower: float, upper: float) -> bool:
        """Whether the bounds are as close as asked for."""
        return upper - lower <= self.gap * max(abs(lower), abs(upper), self.least)


def warn_stopped(reason: str, lower: float, upper: float, remedy: str) -> None:
    """Says that a plan is not what was asked for, and why."""
    between = f"{reason}: the value of the start is between {lower:.6g} and {upper:.6g}"
    warnings.warn(f"{between}; {remedy}", NotConvergedWarning, stacklevel=3)


@dataclass(frozen=True)
class POMDPPlanner(Planner[POMDP]):
    """Planners of worlds whose state is hidden."""

    problems: ClassVar[type[Problem]] = POMDP
    heeds: ClassVar[tuple[str, ...]] = ()
    """Which options of `solve` it heeds, beside horizon= and progress=."""

    @abstractmethod
    def plan(self, pomdp: POMDP, limits: Limits, horizon: int | None = None, start: Start = None) -> "AlphaPlan":
        """The plan found within the limits."""

    def solve(self, world: POMDP, tolerance: float, start: object = None) -> "AlphaPlan":
        """The plan whose gap is within the tolerance."""
        return self.plan(world, Limits(gap=tolerance))


class PointBased(POMDPPlanner):
    """Backups at beliefs that are reached, α-vectors below and a sawtooth above."""

    heeds: ClassVar[tuple[str, ...]] = ("gap", "seconds", "memory", "start")

    def plan(self, pomdp: POMDP, limits: Limits, horizon: int | None = None, start: Start = None) -> "AlphaPlan":
        """By the one kernel, with these settings."""
        from credo.decide.pomdp.point_based import solve_points

        return solve_points(pomdp, self, limits, start)


@dataclass(frozen=True)
class SARSOP(PointBased):
    """Successively approximated reachable space under optimal policies: trials guided by the gap at the start."""


@dataclass(frozen=True)
class HSVI(PointBased):
    """Heuristic search: trials to where the gap is larger than its discounted share."""


@dataclass(frozen=True)
class PBVI(PointBased):
    """Sweeps of backups over a set of beliefs that doubles by random walks."""

    beliefs: int = 500

    def __post_init__(self) -> None:
        check_count(self.beliefs, "beliefs")


@dataclass(frozen=True)
class Perseus(PointBased):
    """Backups at beliefs drawn from a random walk, until each is improved."""

    beliefs: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.beliefs, "beliefs")
        check_count(self.seed, "seed", 0)


@dataclass(frozen=True)
class QMDP(POMDPPlanner):
    """As if the state were seen from the next step on; its value is an upper bound."""

    def plan(self, pomdp: POMDP, limits: Limits, horizon: int | None = None, start: Start = None) -> "AlphaPlan":
        """One vector for each action, Q of the MDP."""
        from credo.decide.pomdp.bounds import plan_of_bound, qmdp

        return plan_of_bound(pomdp, qmdp(pomdp), "QMDP")


@dataclass(frozen=True)
class FIB(POMDPPlanner):
    """The fast informed bound: as if the state were seen one step later; its value is an upper bound."""

    def plan(self, pomdp: POMDP, limits: Limits, horizon: int | None = None, start: Start = None) -> "AlphaPlan":
        """One vector for each action."""
        from credo.decide.pomdp.bounds import fib, plan_of_bound

        return plan_of_bound(pomdp, fib(pomdp), "fast informed bound")


@dataclass(frozen=True)
class ValueIteration(POMDPPlanner):
    """Exact value iteration by incremental pruning: the whole value function, for small problems."""

    answers: ClassVar[tuple[str, ...]] = ("solve", HORIZON)

    max_steps: int = 10_000
    max_vectors: int = 5_000
    heeds: ClassVar[tuple[str, ...]] = ("gap", "seconds")

    def __post_init__(self) -> None:
        check_count(self.max_steps, "max_steps")
        check_count(self.max_vectors, "max_vectors")

    def plan(self, pomdp: POMDP, limits: Limits, horizon: int | None = None, start: Start = None) -> "AlphaPlan":
        """Backups of all vectors until the gap is closed, or for the horizon."""
        from credo.decide.pomdp.exact import value_iteration

        return value_iteration(pomdp, self, limits, horizon)
