"""What a campaign is about (`Problem`) and what it has seen (`Observations`): all that a suggestion follows from."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.decide.campaign.trial import FAILED, Outcome, Trial
from credo.decide.space import Boolean, Categorical, Space
from credo.decide.space.as_json import JSON
from credo.decide.space.parameters import Point

if TYPE_CHECKING:
    from credo.decide.acquisition import Acquisition

N = TypeVar("N", float, np.ndarray)
VALUE = "value"
"""The name of the objective where there is one and it was not given a name."""

BY_NAME = (
    "ExpectedImprovement",
    "NoisyExpectedImprovement",
    "ProbabilityOfImprovement",
    "UpperConfidenceBound",
    "MaxValueEntropySearch",
    "KnowledgeGradient",
    "Thompson",
    "ExpectedHypervolumeImprovement",
)
"""Acquisitions that a record can name; others are given as objects, for as long as the client lives."""

_SIGNS = {"maximize": 1.0, "minimize": -1.0}
_BOUND = re.compile(r"\s*(<=|>=)\s*(\S+)\s*")


@dataclass(frozen=True)
class Bound:
    """An outcome that must stay on one side of a limit: "temperature" "<= 80"."""

    name: str
    at_most: bool
    limit: float

    @classmethod
    def parse(cls, name: str, text: object) -> "Bound":
        """From text such as "<= 80"."""
        match = _BOUND.fullmatch(text) if isinstance(text, str) else None
        limit = as_float(match.group(2)) if match else np.nan
        if match is None or not np.isfinite(limit):
            raise DataError(f'the constraint on {name!r} must be text such as "<= 80" or ">= 0.5", found {text!r}')
        return cls(name, match.group(1) == "<=", limit)

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.limit!r}"

    def slack(self, value: N) -> N:
        """How far the value is on the right side: negative where the bound is broken."""
        return self.limit - value if self.at_most else value - self.limit


@dataclass(frozen=True)
class Problem:
    """The space, the goals and the settings of a campaign."""

    space: Space
    objectives: tuple[str, ...] = (VALUE,)
    signs: tuple[float, ...] = (1.0,)
    """1 for an objective to be maximized, -1 for one to be minimized."""
    constraints: tuple[Bound, ...] = ()
    noise: float | str | None = None
    """The variance of the outcomes, "learn", or None: as the model sees fit."""
    fidelity: str | None = None
    """The parameter that makes a trial cheap and rough (low) or dear and true (high)."""
    initial: int = 5
    """How many points of a Sobol sequence come before the model has a say."""
    acquisition: "Acquisition | str | None" = None
    seed: int = 0

    @classmethod
    def of(
        cls,
        space: Space,
        goal: str | Mapping[str, str] = "maximize",
        outcome_constraints: Mapping[str, object] | None = None,
        noise: object = None,
        fidelity: str | None = None,
        initial: int | None = None,
        acquisition: "Acquisition | str | None" = None,
        seed: int = 0,
    ) -> "Problem":
        """Checked, from what people write."""
        if not isinstance(space, Space):
            raise DataError(f'a campaign takes a Space such as Space({{"x": Real(0, 1)}}), found {space!r}')
        if not isinstance(outcome_constraints, Mapping | None):
            raise DataError(f'outcome_constraints are such as {{"heat": "<= 80"}}, found {outcome_constraints!r}')
        goals = {VALUE: goal} if isinstance(goal, str) else dict(goal) if isinstance(goal, Mapping) else {}
        wrong = {name: sense for name, sense in goals.items() if not isinstance(sense, str) or sense not in _SIGNS}
        if wrong or not goals:
            raise DataError(f'goal must be "maximize", "minimize" or a dict of such by name, found {goal!r}')
        bounds = tuple(Bound.parse(name, text) for name, text in (outcome_constraints or {}).items())
        shared = sorted({*goals, *(bound.name for bound in bounds)} & set(space.names))
        if shared:
            raise DataError(f"{', '.join(shared)} is both a parameter and an outcome; give one of them another name")
        initial = min(max(2 * len(space.names), 5), 20) if initial is None else initial
        check_count(initial, "initial")
        check_count(seed, "seed", 0)
        if fidelity is not None:
            _check_fidelity(space, fidelity)
        if isinstance(acquisition, str):
            _named(acquisition)
        signs = tuple(_SIGNS[sense] for sense in goals.values())
        settings = (_checked_noise(noise), fidelity, int(initial), acquisition, int(seed))
        return cls(space, tuple(goals), signs, bounds, *settings)

    @property
    def goal(self) -> dict[str, str]:
        """ "maximize" or "minimize" by the name of the objective."""
        return {n: "maximize" if s > 0 else "minimize" for n, s in zip(self.objectives, self.signs, strict=True)}

    @property
    def fidelity_column(self) -> int | None:
        """The encoded column that is the fidelity."""
        space = self.space
        return None if self.fidelity is None else space.owners.index(space.names.index(self.fidelity))

    @property
    def chosen_acquisition(self) -> "Acquisition | None":
        """The acquisition as an object; None leaves it to the engine."""
        return _named(self.acquisition) if isinstance(self.acquisition, str) else self.acquisition

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The names of all that is measured: objectives, then constrained outcomes that are not objectives."""
        return self.objectives + tuple(b.name for b in self.constraints if b.name not in self.objectives)

    def to_json(self) -> JSON:
        """The settings, without the space; an acquisition that is not a name is left out."""
        return {
            "goal": self.goal,
            "outcome_constraints": {bound.name: str(bound) for bound in self.constraints},
            "noise": self.noise,
            "fidelity": self.fidelity,
            "initial": self.initial,
            "acquisition": self.acquisition if isinstance(self.acquisition, str) else None,
            "seed": self.seed,
        }

    def differences(self, space: JSON, settings: JSON) -> list[str]:
        """In which ways a campaign on record, as JSON, is not about this problem."""
        lasting = ("goal", "outcome_constraints", "fidelity")
        now = {name: value for name, value in self.to_json().items() if name in lasting}
        then = {name: settings.get(name) for name in lasting}
        return [*_differences(then, now), *_differences(space, self.space.to_json())]

    def check_outcome(
        self,
        value: object = None,
        failed: str | None = None,
        noise: object = None,
        cost: object = None,
        who: str = "the result",
    ) -> Outcome:
        """What was told, checked: finite numbers for the outcomes, or the reason of a failure."""
        extra = {"noise": check_amount(noise, "noise"), "cost": check_amount(cost, "cost")}
        if failed is not None:
            if value is not None:
                raise DataError(f"{who} has both a value and failed={failed!r}; give one of them")
            return Outcome(None, str(failed) or "no reason given", **extra)
        names = self.outcomes
        if not isinstance(value, Mapping):
            if len(names) > 1:
                raise DataError(f"{who} needs a dict with {', '.join(names)}, found {value!r}")
            value = {names[0]: value}
        unknown = sorted(set(map(str, value)) - set(names))
        missing = [name for name in names if name not in value]
        if unknown or missing:
            found = f"found {', '.join(map(str, value))}" if value else "found none"
            raise DataError(f"{who} must have values for {', '.join(names)} (None if not measured), {found}")
        values = {name: _number(value[name], name, who, len(names) > 1) for name in names}
        if all(v is None for v in values.values()):
            raise DataError(f"{who} has no value at all; tell failed='reason' if the experiment gave none")
        return Outcome(values, None, **extra)


@dataclass(frozen=True)
class Observations:
    """The results so far, in the order in which they were told; nan where something is not known."""

    points: tuple[Point, ...]
    rows: Float[np.ndarray, "n d"]
    """The points, encoded."""
    numbers: Int[np.ndarray, " n"]
    """The numbers of the trials."""
    values: Float[np.ndarray, "n k"]
    """The objectives as told, not turned round for minimization."""
    constraints: Float[np.ndarray, "n c"]
    """The constrained outcomes, as told."""
    failed: Bool[np.ndarray, " n"]
    noise: Float[np.ndarray, " n"]
    """The variance of a row's values: as told with it, or the problem's."""
    costs: Float[np.ndarray, " n"]
    fidelity: Float[np.ndarray, " n"]
    """From 0 to 1, the fidelity that counts; 1 where the problem has none."""
    warm: Bool[np.ndarray, " n"]
    """Whether the row comes from an earlier campaign or table rather than from this problem."""
    why: tuple[JSON | None, ...]
    """What the suggestion of the point said."""

    @classmethod
    def of(cls, problem: Problem, trials: Sequence[Trial]) -> "Observations":
        """From trials that are told, in the order of telling."""
        bounded = tuple(bound.name for bound in problem.constraints)
        noise = problem.noise if isinstance(problem.noise, float) else None
        points = tuple(trial.point for trial in trials)
        rows = problem.space.encode(points)
        column = problem.fidelity_column
        return cls(
            points,
            rows,
            np.array([trial.number for trial in trials], int),
            _columns(trials, problem.objectives),
            _columns(trials, bounded),
            np.array([trial.state == FAILED for trial in trials], bool),
            np.array([noise if trial.noise is None else trial.noise for trial in trials], float),
            np.array([trial.cost for trial in trials], float),
            np.ones(len(trials)) if column is None else rows[:, column],
            np.array([trial.source not in (None, "added") for trial in trials], bool),
            tuple(trial.why for trial in trials),
        )

    def __len__(self) -> int:
        return len(self.points)

    def __add__(self, later: "Observations") -> "Observations":
        pairs = [(getattr(self, field.name), getattr(later, field.name)) for field in fields(self)]
        joined: list[Any] = [a + b if isinstance(a, tuple) else np.concatenate([a, b]) for a, b in pairs]
        return Observations(*joined)

    def since(self, start: int) -> "Observations":
        """The results from that row on."""
        return Observations(*(getattr(self, field.name)[start:] for field in fields(self)))

    def feasible(self, problem: Problem) -> Bool[np.ndarray, " n"]:
        """The rows that did not fail and whose measured outcomes keep all bounds."""
        kept = [bound.slack(self.constraints[:, i]) >= 0 for i, bound in enumerate(problem.constraints)]
        return np.logical_and.reduce([~self.failed, *kept])

    def incumbent(self, problem: Problem) -> int | None:
        """The row of the best feasible value of the first objective, seen at the fidelity that counts."""
        score = np.where(self.feasible(problem) & ~self.warm, problem.signs[0] * self.values[:, 0], np.nan)
        score = np.where(self.fidelity >= 1.0, score, np.nan)
        return None if np.isnan(score).all() else int(np.nanargmax(score))


@dataclass(frozen=True)
class Best:
    """The best point, what was seen there, and what the model believes of it."""

    point: Point
    value: float
    mean: float
    interval: tuple[float, float]
    """(low, high), 95 %."""
    trial: int
    """The number of the trial."""


def as_float(value: Any) -> float:
    """The value as a number, nan where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def check_amount(value: object, name: str) -> float | None:
    """A finite number that is not negative, or None."""
    if value is None:
        return None
    number = np.nan if isinstance(value, str | bool) else as_float(value)
    if not (np.isfinite(number) and number >= 0):
        raise DataError(f"{name} must be a number of at least 0, found {value!r}")
    return number


def _differences(then: object, now: object, path: Sequence[str] = ()) -> Iterator[str]:
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*then, *now]):
            yield from _differences(then.get(key), now.get(key), (*path, str(key)))
    elif then != now:
        yield f"{'.'.join(path)} was {then!r} and is {now!r}"


def _checked_noise(noise: object) -> float | str | None:
    if isinstance(noise, str) and noise != "learn":
        raise DataError(f'noise must be a variance, "learn" or None, found {noise!r}')
    return noise if isinstance(noise, str) else check_amount(noise, "noise")


def _named(name: str) -> "Acquisition":
    """The acquisition of that name, as it is on record."""
    from credo.decide import acquisition

    names = {each: getattr(acquisition, each) for each in BY_NAME}
    if name not in names:
        raise DataError(f"acquisition must be one of {', '.join(names)} or an object of such a class, found {name!r}")
    return names[name]()


def _check_fidelity(space: Space, name: str) -> None:
    if not isinstance(name, str) or name not in space.names:
        raise DataError(f"fidelity must name a parameter of the space, found {name!r}; there are {space.names}")
    parameter = space[name]
    if isinstance(parameter, Boolean | Categorical) or parameter.when:
        raise DataError(f"the fidelity {name!r} must be a real, integer or ordinal parameter that always exists")


def _number(value: Any, name: str, who: str, may_miss: bool) -> float | None:
    if value is None and may_miss:
        return None
    try:
        number = float("x") if isinstance(value, str | bool | bytes) else float(value)
    except (TypeError, ValueError):
        said = f"the {name} of {who} must be a number, found {value!r}"
        raise DataError(f"{said}; tell failed='reason' if none") from None
    if not np.isfinite(number):
        raise DataError(f"the {name} of {who} is {number}; tell failed='reason' for an experiment that gave no number")
    return number


def _columns(trials: Sequence[Trial], names: Sequence[str]) -> Float[np.ndarray, "n k"]:
    rows = [[(trial.values or {}).get(name) for name in names] for trial in trials]
    return np.array(rows, float).reshape(len(trials), len(names))
