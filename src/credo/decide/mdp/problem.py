"""What `credo.solve` is about: a problem, the planners that suit a question about it, and the plan that comes out."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, SupportsFloat, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from credo.core.errors import DataError
from credo.core.method import Method
from credo.infer.progress import Show


class Problem(eqx.Module):
    """What `solve` takes: worlds in which to plan."""

    @abstractmethod
    def question(self, horizon: int | None, criterion: str, effort: "Effort") -> "Question":
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
class Planner(Method, ABC, Generic[P]):
    """A method of planning: what `using=` of `solve` names."""

    problems: ClassVar[type[Problem]]
    """What it plans in."""
    answers: ClassVar[tuple[str, ...]] = ("solve",)
    """The questions that it can answer, by their `Question.verb`."""

    @abstractmethod
    def solve(self, world: P, tolerance: float, start: Float[np.ndarray, "..."] | None = None) -> Plan[P]:
        """The plan of a world; iterations begin from the values `start`."""

    def serves(self, subject: object, verb: str) -> bool:
        """Whether it can answer such a question about the problem."""
        return isinstance(subject, self.problems) and verb in self.answers

    def needs_of(self, subject: object, verb: str) -> str:
        """In words."""
        return f"it answers {' and '.join(self.answers)} of {self.problems.__name__}"


class Effort(NamedTuple):
    """How far planning shall go where it may not get to the end; None is the default of the problem."""

    gap: SupportsFloat | None = None
    seconds: SupportsFloat | None = None
    memory: SupportsFloat | None = None
    start: Plan | None = None
    progress: Show | bool | None = None

    def refuse(self, problem: str, remedy: str) -> None:
        """An error where something was asked for that such a problem does not take."""
        given = [f"{name}=" for name, value in self._asdict().items() if value is not None]
        if given:
            raise DataError(f"{problem} does not take {', '.join(given)}; {remedy}")


class Question(NamedTuple):
    """What is asked about a problem, how a planner that suits (None: any) answers, and what a reader should know."""

    verb: str
    answer: Callable[[Planner | None, float], Plan]
    notes: tuple[str, ...] = ()
    tolerance: float | None = 1e-6
    """Its default; None where the plan is not solved to one."""
