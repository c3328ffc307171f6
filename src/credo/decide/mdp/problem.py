"""What `credo.solve` is about: a problem, the planners that suit a question about it, and the plan that comes out."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from credo.core.errors import DataError


class Problem(eqx.Module):
    """What `solve` takes: worlds in which to plan."""

    @abstractmethod
    def question(self, horizon: int | None, criterion: str) -> "Question":
        """What is asked with these options; without a horizon it is for ever."""


P = TypeVar("P", bound=Problem)


class Plan(eqx.Module, Generic[P]):
    """What `solve` returns, of every kind of problem: what to do, and how far its value may be from the optimum.

    `status` is "converged" where the certificate is within the tolerance, else "stopped".
    """

    world: P
    policy: Int[np.ndarray, "..."]
    certificate: float = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    """Sweeps over all states, or improvements for policy iteration."""
    status: str = eqx.field(static=True)
    method: str = eqx.field(static=True)
    notes: tuple[str, ...] = eqx.field(static=True, default=(), kw_only=True)


@dataclass(frozen=True)
class Planner(ABC, Generic[P]):
    """A method of planning: what `using=` of `solve` names."""

    @abstractmethod
    def solve(self, world: P, tolerance: float, start: Float[np.ndarray, "..."] | None = None) -> Plan[P]:
        """The plan of a world; iterations begin from the values `start`."""


class Question(NamedTuple):
    """What is asked about a problem, in words; which planners can answer; and how one of them (None: any) does."""

    about: str
    planners: tuple[type[Planner], ...]
    answer: Callable[[Planner | None, float], Plan]
    notes: tuple[str, ...] = ()

    def check(self, using: object) -> Planner | None:
        """The planner, or an error that lists those that would do."""
        if using is None or (isinstance(using, Planner) and isinstance(using, self.planners)):
            return using
        found = f"the class {using.__name__}, which is yet to be called" if isinstance(using, type) else repr(using)
        known = ", ".join(f"{each.__name__}()" for each in self.planners)
        raise DataError(f"using must be a planner for {self.about}, which are {known}; found {found}")
