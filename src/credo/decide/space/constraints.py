"""Constraints between parameters: linear inequalities, also written as text, and any test of a point.

    LinearConstraint({"a": 1, "b": 2}, at_most=5)    "a + 2*b <= 5"    Check(lambda point: point["a"] != 3, "not three")

A parameter that does not exist at a point counts 0 in a sum.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from credo.core.errors import DataError
from credo.decide.space.parameters import Parameter, Point, plainly, real_number

RELATIVE = 1e-9
"""A sum may exceed its bound b by this part of |b| …"""
ROUNDING = 1e-13
"""… and by this part of the largest sum of |aᵢ vᵢ|, which is what encoding and decoding can cost."""


@dataclass(frozen=True)
class LinearConstraint:
    """at_least ≤ Σᵢ aᵢ vᵢ ≤ at_most, with v the values of numeric parameters in natural units; either side may be None.

    `coefficients` maps names to the aᵢ. Both sides equal make an equation, e.g. for parts of a mixture.
    """

    coefficients: Any
    at_most: Any = None
    at_least: Any = None

    def __post_init__(self) -> None:
        given = dict(self.coefficients) if isinstance(self.coefficients, tuple) else self.coefficients
        if not isinstance(given, Mapping):
            raise DataError(f'a linear constraint takes coefficients such as {{"a": 1.0, "b": 2.0}}, found {given!r}')
        pairs = tuple((name, _finite(a, f"the coefficient of {name!r}")) for name, a in given.items())
        object.__setattr__(self, "coefficients", tuple((name, a) for name, a in pairs if a != 0))
        for side in ("at_most", "at_least"):
            if getattr(self, side) is not None:
                object.__setattr__(self, side, _finite(getattr(self, side), side))
        if not self.coefficients:
            raise DataError("a linear constraint must name at least one parameter with a coefficient that is not 0")
        if self.at_most is None and self.at_least is None:
            raise DataError("a linear constraint needs at_most or at_least, found neither")
        if self.at_most is not None and self.at_least is not None and self.at_least > self.at_most:
            raise DataError(
                f"a linear constraint cannot be at least {plainly(self.at_least)} and at most {plainly(self.at_most)}"
            )

    def __str__(self) -> str:
        terms: list[str] = []
        for name, a in self.coefficients:
            sign = ("- " if terms else "-") if a < 0 else ("+ " if terms else "")
            terms.append(sign + (name if abs(a) == 1 else f"{plainly(abs(a))}*{name}"))
        total = " ".join(terms)
        if self.at_most == self.at_least and self.at_most is not None:
            return f"{total} == {plainly(self.at_most)}"
        if self.at_most is None:
            return f"{total} >= {plainly(self.at_least or 0.0)}"
        below = "" if self.at_least is None else f"{plainly(self.at_least)} <= "
        return f"{below}{total} <= {plainly(self.at_most)}"


@dataclass(frozen=True)
class Check:
    """Any test of a point: `function(point)` is True where the point may be tried. JSON keeps only the `name`."""

    function: Any
    name: Any

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise DataError(f"Check takes a function of a point first, found {self.function!r}")
        if not isinstance(self.name, str) or not self.name:
            raise DataError(f"Check takes a name as text, found {self.name!r}")

    def __str__(self) -> str:
        return self.name

    def holds(self, point: Point) -> bool:
        """Whether the point passes; an answer that is not a truth value, or an exception, is a `DataError`."""
        try:
            answer = self.function(dict(point))
        except Exception as error:
            raise DataError(f"the check {self.name!r} failed at {point}: {type(error).__name__}: {error}") from error
        if not isinstance(answer, bool | np.bool_):
            raise DataError(f"the check {self.name!r} must answer True or False, found {answer!r} at {point}")
        return bool(answer)


Constraint = LinearConstraint | Check
Matrices = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Terms = tuple[dict[str, float], float]
"""A sum: coefficients by name, and a constant."""


def as_constraint(given: object, parameters: Mapping[str, Parameter]) -> Constraint:
    """A constraint, or the text of one, checked against the parameters it names."""
    constraint = parse(given) if isinstance(given, str) else given
    if isinstance(constraint, Check):
        return constraint
    if not isinstance(constraint, LinearConstraint):
        hint = "; give it a name with Check(function, name)" if callable(constraint) else ""
        raise DataError(
            f'a constraint is LinearConstraint(…), Check(…) or text such as "a + 2*b <= 5", found {given!r}{hint}'
        )
    for name, _ in constraint.coefficients:
        if name not in parameters:
            raise DataError(
                f"the constraint {constraint} names {name!r}, which is not a parameter; "
                f"there are {', '.join(parameters)}"
            )
        if parameters[name].bounds is None:
            raise DataError(f"the constraint {constraint} names {name!r}, whose values are not numbers; use Check")
    return constraint


def parse(text: str) -> LinearConstraint:
    """A linear constraint from text: names, numbers, + - * / and <=, >= or ==, e.g. "1 <= a + 2*b <= 5"."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.Compare):
            raise _refusal(text, "it compares nothing")
        sides = [_sum(side, text) for side in (tree.left, *tree.comparators)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, DataError):
            raise
        raise _refusal(text, "it is not an expression") from None
    kinds = {type(op) for op in tree.ops}
    if not kinds <= {ast.LtE, ast.GtE, ast.Eq}:
        raise _refusal(text, "compare with <=, >= or ==")
    if len(sides) == 2:
        names = list(dict.fromkeys([*sides[0][0], *sides[1][0]]))
        difference = {name: sides[0][0].get(name, 0.0) - sides[1][0].get(name, 0.0) for name in names}
        low = high = sides[1][1] - sides[0][1]
    else:
        if len(sides) > 3 or len(kinds) > 1 or kinds == {ast.Eq} or sides[0][0] or sides[2][0]:
            raise _refusal(text, "a double bound is a number, <=, a sum, <=, a number")
        difference = sides[1][0]
        low, high = sorted([sides[0][1] - sides[1][1], sides[2][1] - sides[1][1]])
        if (sides[0][1] > sides[2][1]) != (kinds == {ast.GtE}) and low != high:
            raise _refusal(text, "no number is between its bounds")
    if not any(difference.values()):
        raise _refusal(text, "it does not depend on any parameter")
    double = len(sides) == 3 or kinds == {ast.Eq}
    at_most, at_least = (
        (high if double or kinds == {ast.LtE} else None),
        (low if double or kinds == {ast.GtE} else None),
    )
    try:
        return LinearConstraint(difference, at_most, at_least)
    except DataError as error:
        raise _refusal(text, str(error)) from None


def _sum(node: ast.expr, text: str) -> Terms:
    """An expression as coefficients and a constant."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return {}, _finite(node.value, "a number")
    if isinstance(node, ast.Name):
        return {node.id: 1.0}, 0.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return _scaled(_sum(node.operand, text), -1.0 if isinstance(node.op, ast.USub) else 1.0)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        left, right = _sum(node.left, text), _sum(node.right, text)
        if isinstance(node.op, ast.Add | ast.Sub):
            right = _scaled(right, -1.0 if isinstance(node.op, ast.Sub) else 1.0)
            names = dict.fromkeys([*left[0], *right[0]])
            return {k: left[0].get(k, 0.0) + right[0].get(k, 0.0) for k in names}, left[1] + right[1]
        if isinstance(node.op, ast.Mult):
            if left[0] and right[0]:
                raise _refusal(text, "it multiplies two parameters, which is not linear; use Check")
            return _scaled(right, left[1]) if not left[0] else _scaled(left, right[1])
        if right[0] or right[1] == 0:
            raise _refusal(text, "it divides by a parameter or by zero")
        return {k: a / right[1] for k, a in left[0].items()}, left[1] / right[1]
    raise _refusal(text, f"it has {ast.unparse(node)!r}")


def _scaled(terms: Terms, factor: float) -> Terms:
    return {k: factor * a for k, a in terms[0].items()}, factor * terms[1]


def _refusal(text: str, why: str) -> DataError:
    shown = text if len(text) <= 80 else text[:80] + "…"
    return DataError(
        f"cannot read the constraint {shown!r}: {why}; "
        'it may have names, numbers, + - * / and one of <=, >=, ==, e.g. "a + 2*b <= 5"'
    )


def _finite(value: object, label: str) -> float:
    return real_number(value, f"{label} of a linear constraint")


def matrix(constraints: Sequence[Constraint], parameters: Sequence[Parameter]) -> Matrices:
    """The linear constraints as low ≤ A v ≤ high, with what rounding may add to each: (A, low, high, tolerance)."""
    linear = [c for c in constraints if isinstance(c, LinearConstraint)]
    index = {parameter.name: i for i, parameter in enumerate(parameters)}
    a = np.zeros((len(linear), len(parameters)))
    for row, constraint in zip(a, linear, strict=True):
        for name, coefficient in constraint.coefficients:
            row[index[name]] = coefficient
    low = np.array([-np.inf if c.at_least is None else c.at_least for c in linear])
    high = np.array([np.inf if c.at_most is None else c.at_most for c in linear])
    largest = np.array([max(map(abs, parameter.bounds or (0.0,))) for parameter in parameters])
    sides = np.where(np.isfinite(low), np.abs(low), 0), np.where(np.isfinite(high), np.abs(high), 0)
    return a, low, high, RELATIVE * np.maximum(*sides) + ROUNDING * (np.abs(a) @ largest)
