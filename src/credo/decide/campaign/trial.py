"""A trial: one point of the space that somebody tries, and what came of it.

    pending ──tell──▶ done | failed          pending ──abandon──▶ abandoned ──tell──▶ done | failed

A pending trial is leased to a worker. When the lease runs out, the trial is offered again, and whoever tells first
is heard. What is done or failed stays so: telling the same again changes nothing, telling something else is refused.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from credo.core.errors import CredoError
from credo.decide.space.as_json import JSON
from credo.decide.space.parameters import Point

Hyper = Mapping[str, Sequence[float | int]]
"""Hyperparameters of a surrogate by path, as JSON."""

PENDING, DONE, FAILED, ABANDONED = "pending", "done", "failed", "abandoned"


class TrialError(CredoError, LookupError):
    """A trial that does not exist, or is no longer what the call takes it for."""


@dataclass(frozen=True)
class Outcome:
    """What came of a trial: values by name, or the reason why there are none."""

    values: Mapping[str, float | None] | None = None
    """Objectives and constrained outcomes; None for one that was not measured."""
    reason: str | None = None
    """Why the trial failed."""
    noise: float | None = None
    """The variance of the values, where it is known."""
    cost: float | None = None

    @property
    def state(self) -> str:
        """done or failed."""
        return DONE if self.reason is None else FAILED

    def repeats(self, other: "Outcome") -> bool:
        """Whether it says nothing that the other does not say."""
        extra = ((self.noise, other.noise), (self.cost, other.cost))
        same = (self.values, self.reason) == (other.values, other.reason)
        return same and all(mine is None or mine == theirs for mine, theirs in extra)

    def __str__(self) -> str:
        if self.reason is not None:
            return f"failed: {self.reason}"
        values = dict(self.values or {})
        if len(values) == 1:
            return str(next(iter(values.values())))
        return ", ".join(f"{name} = {value}" for name, value in values.items())


@dataclass(frozen=True)
class Suggestion:
    """A point to try next, and why: what the model expects there, and whether it is to exploit or to explore."""

    point: Point
    kind: str
    """design, exploit, explore, front or random."""
    reason: str = ""
    mean: float | None = None
    std: float | None = None
    value: float | None = None
    """The acquisition's score."""
    hyper: Sequence[Hyper] | None = None
    """The model's hyperparameters: where the next suggestion starts from."""

    def why(self) -> JSON:
        """All but the point, as JSON, without what is not known."""
        said = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "point"}
        unknown = (None, "", math.inf, -math.inf)
        return {name: value for name, value in said.items() if value not in unknown and value == value}


@dataclass(frozen=True)
class Trial:
    """A trial as it is on record."""

    number: int
    """From 1 on, in the order in which the campaign gave them out; what `tell` takes."""
    point: Point
    state: str
    values: Mapping[str, float | None] | None = None
    noise: float | None = None
    cost: float | None = None
    reason: str | None = None
    """Why it failed."""
    why: JSON | None = None
    """Why the point was suggested."""
    source: str | None = None
    """Where a result that nobody asked for comes from: "added", or the name of an earlier campaign."""
    worker: str | None = None
    created: float = 0.0
    """Seconds since 1970, as `finished`."""
    finished: float | None = None
    partials: tuple[tuple[float, float], ...] = field(default=())
    """(step, value) on the way, in the order of steps."""

    @property
    def told(self) -> bool:
        """Whether its outcome is known, a failure included."""
        return self.state in (DONE, FAILED)

    @property
    def outcome(self) -> Outcome:
        """What came of it, if it is told."""
        return Outcome(self.values, self.reason if self.state == FAILED else None, self.noise, self.cost)

    @property
    def value(self) -> float | None:
        """The value, where there is one objective."""
        return next(iter(self.values.values())) if self.values else None


def digest(point: Point) -> str:
    """The same for the same point, whatever the order of its names; 0.0 and -0.0 are the same."""
    plain = {name: value + 0.0 if isinstance(value, float) else value for name, value in point.items()}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
