"""The space of an experiment: what can be varied, when it exists, and which combinations are allowed.

    Space({"rate": Real(1e-5, 1e-1, log=True), "optimizer": Categorical(["adam", "sgd"]),
           "momentum": Real(0, 1, when={"optimizer": "sgd"})}, constraints=["momentum + 2*rate <= 1"])

A *point* is a dict of the parameters that exist there. A *row* is its encoding, `space.width` numbers in [0, 1]:
one column for a real, integer, ordinal or boolean parameter and one per choice for a categorical one. A parameter
that does not exist is 0.5, or all zero for a categorical one, so that points which differ in nothing are one row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, Numeric, namespace
from credo.core.checks import check_array, check_count, check_vector
from credo.core.errors import DataError
from credo.decide.space import as_json, sampling
from credo.decide.space.as_json import JSON, Checks
from credo.decide.space.choices import Boolean, Ordinal
from credo.decide.space.conditions import Rule, active, resolve, rules
from credo.decide.space.constraints import Check, Constraint, LinearConstraint, Matrices, as_constraint, matrix
from credo.decide.space.parameters import Integer, Parameter, Real, Value, plainly

Rows = Float[np.ndarray, "n D"]
Columns = list[Array]
"""Of each parameter, an entry for each row."""


@dataclass(frozen=True, init=False, repr=False)
class Space:
    """Parameters by name and the constraints between them; two spaces that say the same are equal."""

    parameters: tuple[Parameter, ...]
    constraints: tuple[Constraint, ...]

    def __init__(self, parameters: object, constraints: str | Constraint | Iterable[object] = ()) -> None:
        """From a mapping of names to parameters, or a list of parameters that have a `name`.

        `constraints` is a list of `LinearConstraint`, `Check` or text such as "a + 2*b <= 5".
        """
        resolved = resolve(_named(parameters), lambda name: f"the condition of parameter {name!r}")
        several = isinstance(constraints, Iterable) and not isinstance(constraints, str | LinearConstraint | Check)
        given: list[Any] = list(constraints) if several else [constraints]  # type: ignore[arg-type]
        by_name = {parameter.name: parameter for parameter in resolved}
        object.__setattr__(self, "parameters", resolved)
        object.__setattr__(self, "constraints", tuple(as_constraint(c, by_name) for c in given))

    @classmethod
    def box(cls, low: Numeric, high: Numeric, names: Sequence[str] | None = None) -> "Space":
        """The continuous box low ≤ x ≤ high; without names the parameters are x0, x1, …"""
        lows, highs = np.atleast_1d(check_array(low, "low")), np.atleast_1d(check_array(high, "high"))
        if names is not None and not isinstance(names, list | tuple):
            raise DataError(f"names must be a list of the names of the parameters, found {names!r}")
        length = len(names) if names is not None else max(lows.size, highs.size)
        lows = check_vector(np.broadcast_to(lows, length) if lows.size == 1 else lows, "low", length)
        highs = check_vector(np.broadcast_to(highs, length) if highs.size == 1 else highs, "high", length)
        called = list(names) if names is not None else [f"x{i}" for i in range(length)]
        return cls([Real(a, b, name=name) for name, a, b in zip(called, lows.tolist(), highs.tolist(), strict=True)])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        return tuple(parameter.name for parameter in self.parameters)

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """The columns of each parameter in a row."""
        ends = np.cumsum([parameter.width for parameter in self.parameters]).tolist()
        return tuple(slice(end - p.width, end) for p, end in zip(self.parameters, ends, strict=True))

    @property
    def width(self) -> int:
        """The number of columns of a row."""
        return self.columns[-1].stop

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """What each column holds: "real", "integer", "ordinal", "boolean" or "choice"."""
        return tuple(parameter.kind for parameter in self.parameters for _ in range(parameter.width))

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """The position of the parameter that each column belongs to."""
        return tuple(i for i, parameter in enumerate(self.parameters) for _ in range(parameter.width))

    @property
    def is_continuous(self) -> bool:
        """Whether every parameter is real (constraints or not)."""
        return all(parameter.count is None for parameter in self.parameters)

    @cached_property
    def is_finite(self) -> bool:
        """Whether there are finitely many points: no parameter is real."""
        return all(parameter.count is not None for parameter in self.parameters)

    def __getitem__(self, name: str) -> Parameter:
        if name not in self.names:
            raise DataError(f"{name!r} is not a parameter of the space; there are {', '.join(self.names)}")
        return self.parameters[self.names.index(name)]

    def check(self, point: object) -> dict[str, Value]:
        """The point with plain Python values in the order of the space, or a `DataError` that names what is wrong.

        None stands for absent. Whether the constraints allow the point is what `feasible` says.
        """
        if not isinstance(point, Mapping):
            raise DataError(f"a point is a dict of parameter names and values, found {point!r}")
        for name in point:
            if name not in self.names:
                raise DataError(f"{name!r} is not a parameter of the space; there are {', '.join(self.names)}")
        checked: dict[str, Value] = {}
        for i, _ in self._rules:
            parameter = self.parameters[i]
            exists = all(other in checked and checked[other] in values for other, values in parameter.when)
            value = point.get(parameter.name)
            if exists and value is None:
                raise DataError(f"the point lacks {parameter.label}{_condition(parameter)}")
            if not exists and value is not None:
                raise DataError(f"{parameter.label} does not exist at this point{_condition(parameter)}; leave it out")
            if exists:
                checked[parameter.name] = parameter.check(value)
        return {name: checked[name] for name in self.names if name in checked}

    def encode(self, points: Iterable[object]) -> Rows:
        """The rows of points, which are checked."""
        if not isinstance(points, Iterable) or isinstance(points, Mapping | str | bytes):
            raise DataError(f"points must be a list of points, found {points!r}")
        given: list[Any] = list(points)
        try:
            found = self._numbers(given)
            good = sum(map(len, given)) == sum(int(mask.sum()) for mask in found[1])
        except (DataError, LookupError, TypeError, ValueError):
            good = False
        if not good:  # slowly, to say what is wrong, or that absent values were written as None
            found = self._numbers([self._checked(point, row) for row, point in enumerate(given)])
        return self._rows(*found)

    def decode(self, rows: Numeric) -> list[dict[str, Value]]:
        """The points nearest to rows: whole numbers, choices and bounds are respected, constraints are not."""
        numbers, exists = self._read(self._as_rows(rows))
        columns = [p.values(np.asarray(v)) for p, v in zip(self.parameters, numbers, strict=True)]
        points = [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]
        for name, mask in zip(self.names, exists, strict=True):
            for i in np.flatnonzero(~np.asarray(mask)):
                del points[i][name]
        return points

    def exists(self, rows: Rows) -> Bool[np.ndarray, "n D"]:
        """Whether the parameter of each column exists at each row."""
        found = self._read(rows)[1]
        return np.stack([found[i] for i in self.owners], axis=1)

    def snap(self, rows: Numeric) -> Rows:
        """The rows of the points nearest to rows; what is real and in [0, 1] stays as it is."""
        given = self._as_rows(rows)
        numbers, exists = self._read(given)
        out = self._rows(numbers, exists)
        for parameter, columns, mask in zip(self.parameters, self.columns, exists, strict=True):
            if parameter.count is None:
                out[mask, columns] = given[mask, columns]
        return out

    def sample(self, n: int, *, seed: int = 0, skip: int = 0) -> list[dict[str, Value]]:
        """Points skip, …, skip + n - 1 of a scrambled Sobol sequence, of which the constraints keep what they allow.

        Where they allow less than one in a hundred, the sequence goes on with a hit-and-run walk inside the linear
        ones. `DataError` where no point can be found.
        """
        return self.decode(self.sample_rows(n, seed=seed, skip=skip))

    def sample_rows(self, n: int, *, seed: int = 0, skip: int = 0) -> Rows:
        """The rows of `sample`."""
        for name, value in (("n", n), ("seed", seed), ("skip", skip)):
            check_count(value, name, least=0)
        return sampling.sample_rows(self, int(n), int(seed), int(skip))

    def feasible(self, points: Iterable[object]) -> Bool[np.ndarray, " n"]:
        """Whether the constraints allow each point."""
        return self.feasible_rows(self.encode(points))

    def feasible_rows(self, rows: Numeric) -> Bool[np.ndarray, " n"]:
        """Whether the constraints allow the point nearest to each row."""
        return self._allowed(self.snap(rows))

    def _allowed(self, snapped: np.ndarray) -> np.ndarray:
        good = np.asarray(self._violation(snapped) == 0)
        checks = [constraint for constraint in self.constraints if isinstance(constraint, Check)]
        if checks and good.any():
            points = self.decode(snapped[good])
            good[good] = [all(check.holds(point) for check in checks) for point in points]
        return good

    def linear(self, rows: Float[Array, "n D"]) -> Float[Array, " n"]:
        """How far rows are from the linear constraints: Σ max(0, Σᵢ aᵢ vᵢ - b), in natural units; can be traced.

        Whole numbers and levels are not rounded. 0 where the sums are within their bounds, up to rounding.
        """
        return self._violation(rows)

    def neighbours(self, point: object) -> list[dict[str, Value]]:
        """The allowed points that differ in one discrete parameter and in what it brings into existence.

        Every other choice of a categorical; ± 1 and ± 10 % of the range of an integer; the levels next to an ordinal.
        A parameter that comes into existence starts in the middle of its range, or at its first choice.
        """
        start = self.check(point)
        row = self.encode([start])
        moved = []
        for parameter, columns in zip(self.parameters, self.columns, strict=True):
            if parameter.name in start:
                for number in parameter.near(float(parameter.numbers([start[parameter.name]])[0])):
                    moved.append(row.copy())
                    moved[-1][:, columns] = parameter.columns(np.array([number]))
        if not moved:
            return []
        rows = self.snap(np.concatenate(moved))
        real = {p.name for p in self.parameters if p.count is None}
        found = self.decode(rows[self.feasible_rows(rows)])
        # a real number keeps its last digit
        return [{k: start[k] if k in real and k in start else v for k, v in p.items()} for p in found]

    def table(self, points: Iterable[object]) -> dict[str, list[Value | None]]:
        """The points as columns, None where a parameter does not exist."""
        checked = [self._checked(point, row) for row, point in enumerate(points)]
        return {name: [point.get(name) for point in checked] for name in self.names}

    def to_json(self) -> JSON:
        """What `from_json` reads back exactly; of a `Check` only its name is kept."""
        out: JSON = {"parameters": {p.name: as_json.parameter_to_json(p) for p in self.parameters}}
        if self.constraints:
            out["constraints"] = [as_json.constraint_to_json(constraint) for constraint in self.constraints]
        return out

    @overload
    @classmethod
    def from_json(cls, source: object, checks: Checks | None = None, extra: Literal[False] = False) -> "Space": ...

    @overload
    @classmethod
    def from_json(
        cls, source: object, checks: Checks | None = None, *, extra: Literal[True]
    ) -> tuple["Space", JSON]: ...

    @classmethod
    def from_json(
        cls, source: object, checks: Checks | None = None, extra: bool = False
    ) -> "Space | tuple[Space, JSON]":
        """The space in a dict, in JSON text or in a file.

        `checks` gives the functions of `Check` constraints by name. Other keys than parameters and constraints are
        refused or, with `extra`, returned untouched beside the space.
        """
        parameters, constraints, others = as_json.read(as_json.load(source), checks or {}, extra)
        space = cls(parameters, constraints)
        return (space, others) if extra else space

    def __repr__(self) -> str:
        columns = f"{self.width} column" + "s" * (self.width != 1)
        wide = max(map(len, self.names))
        lines = [f"  {p.name:<{wide}}  {_described(p)}{_condition(p)}" for p in self.parameters]
        lines += [f"  subject to {constraint}" for constraint in self.constraints]
        return "\n".join([f"Space of {len(self.names)} parameter{'s' * (len(self.names) != 1)}, {columns}", *lines])

    def _checked(self, point: object, row: int) -> dict[str, Value]:
        try:
            return self.check(point)
        except DataError as error:
            raise DataError(f"point {row}: {error}") from None

    def _numbers(self, given: Sequence[Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The number of each parameter at each point, and whether it exists there."""
        numbers = [np.zeros(len(given)) for _ in self.parameters]
        exists = [np.ones(len(given), dtype=bool) for _ in self.parameters]
        for i, parents in self._rules:
            parameter, there = self.parameters[i], given
            for parent, allowed in parents:
                exists[i] &= exists[parent] & np.isin(numbers[parent], allowed)
            if parents:
                there = [given[j] for j in np.flatnonzero(exists[i]).tolist()]
            numbers[i][exists[i]] = parameter.numbers([point[parameter.name] for point in there])
        return numbers, exists

    def _as_rows(self, rows: Numeric) -> np.ndarray:
        found = check_array(rows, "rows").astype(float)
        if found.ndim != 2 or found.shape[1] != self.width:
            raise DataError(f"rows must have shape (n, {self.width}), one encoded point each, found {found.shape}")
        if np.isnan(found).any():
            raise DataError("rows must be numbers in [0, 1], found NaN")
        return np.clip(found, 0.0, 1.0)

    def _read(self, rows: Float[Array, "n D"]) -> tuple[Columns, Columns]:
        """The number of each parameter at each row and whether it exists there; NumPy or JAX."""
        numbers = [p.read(rows[:, columns]) for p, columns in zip(self.parameters, self.columns, strict=True)]
        return numbers, active(self._rules, numbers)

    def _rows(self, numbers: Sequence[Array], exists: Sequence[Array]) -> np.ndarray:
        out = np.empty((len(numbers[0]), self.width))
        for parameter, columns, number, mask in zip(self.parameters, self.columns, numbers, exists, strict=True):
            out[:, columns] = 0.0 if parameter.kind == "choice" else 0.5
            out[mask, columns] = parameter.columns(np.asarray(number[mask]))
        return out

    @cached_property
    def _rules(self) -> tuple[Rule, ...]:
        return rules(self.parameters)

    @cached_property
    def _linear(self) -> Matrices:
        return matrix(self.constraints, self.parameters)

    def _violation(self, rows: Float[Array, "n D"]) -> Float[Array, " n"]:
        xp = namespace(rows)
        a, low, high, slack = self._linear
        involved = np.flatnonzero(np.any(a != 0, axis=0))
        if not involved.size:
            return xp.zeros(rows.shape[0])
        _, exists = self._read(rows)
        values = [exists[i] * self.parameters[i].natural(rows[:, self.columns[i]]) for i in involved]
        total = xp.stack(values, axis=1) @ a[:, involved].T
        over = xp.maximum(total - high, low - total)
        return xp.sum(xp.where(over > slack, over, 0.0), axis=1)


def _named(parameters: object) -> list[Parameter]:
    pairs: list[tuple[object, object]]
    if isinstance(parameters, Mapping):
        pairs = list(parameters.items())
    elif isinstance(parameters, Sequence) and not isinstance(parameters, str):
        pairs = [(getattr(parameter, "name", ""), parameter) for parameter in parameters]
    else:
        raise DataError(f'a space takes parameters such as {{"x": Real(0, 1)}}, found {parameters!r}')
    out: list[Parameter] = []
    for i, (name, parameter) in enumerate(pairs):
        if not isinstance(parameter, Parameter):
            hint = f"; write {parameter.__name__}(…)" if isinstance(parameter, type) else ""
            raise DataError(f"parameter {name!r} must be Real, Integer, Categorical, …, found {parameter!r}{hint}")
        if not isinstance(name, str) or not name:
            raise DataError(f"parameter {i} needs a name, found {name!r}; pass a dict, or name=… to each")
        if name in (other for other, _ in pairs[:i]):
            raise DataError(f"there are two parameters named {name!r}; rename one")
        out.append(replace(parameter, name=name))
    if not pairs:
        raise DataError("a space needs at least one parameter, found none")
    return out


def _described(parameter: Parameter) -> str:
    if isinstance(parameter, Real | Integer):
        low, high = plainly(parameter.low), plainly(parameter.high)
        return f"{parameter.kind} from {low} to {high}" + (", log" if parameter.log else "")
    if isinstance(parameter, Boolean):
        return "True or False"
    listed = parameter.values(np.arange(min(parameter.count or 0, 12)))
    more = ", …" if (parameter.count or 0) > 12 else ""
    if isinstance(parameter, Ordinal):
        return "level " + " < ".join(map(repr, listed)) + more
    return "one of " + ", ".join(map(repr, listed)) + more


def _condition(parameter: Parameter) -> str:
    told = [f"{other} is {' or '.join(map(repr, values))}" for other, values in parameter.when]
    return f" (exists when {' and '.join(told)})" if told else ""
