"""What can be varied: the idea of a parameter, and those that are numbers in a range.

A value of a parameter is known by three names: the value itself ("adam", 0.3), its *number* (a real or whole value is
its own number, a level or choice is known by its position) and its *columns*, numbers in [0, 1] that a belief sees:
one column, linear or logarithmic between the bounds, or one per choice for a `Categorical`.
"""

import math
import numbers as abstract
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from credo.core.arrays import Array, namespace
from credo.core.errors import DataError

Value = float | int | str | bool
"""What a parameter can be."""
Point = Mapping[str, Value]
"""The values of parameters by name."""
LARGEST = 2**53
"""Whole numbers beyond it are not exact in float64."""
STRIDE = 0.1
"""The long step between neighbours of an integer, as a part of its range."""


@dataclass(frozen=True)
class Parameter(ABC):
    """One thing that can be varied.

    With `when={"other": value or [values]}` it exists only where the other has one of these values.
    """

    when: Any = field(default=None, kw_only=True)
    name: Any = field(default="", kw_only=True)
    kind: ClassVar[str]
    """What its columns hold: "real", "integer", "ordinal", "boolean" or "choice"."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise DataError(f"the name of a parameter must be text, found {self.name!r}")
        object.__setattr__(self, "when", _as_pairs(self.when, self.label))

    @property
    def label(self) -> str:
        """How errors call it."""
        return f"parameter {self.name!r}" if self.name else type(self).__name__

    @property
    def width(self) -> int:
        """The number of columns."""
        return 1

    @property
    @abstractmethod
    def count(self) -> int | None:
        """The number of values, None if there is a continuum."""

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float] | None:
        """The least and the largest value in natural units, None where values are not numbers."""

    @abstractmethod
    def check(self, value: object) -> Value:
        """The value as plain Python, or a `DataError` that names the parameter."""

    @abstractmethod
    def numbers(self, values: Sequence[object]) -> np.ndarray:
        """The numbers of checked or unchecked values."""

    def values(self, numbers: np.ndarray) -> list[Value]:
        """The values that have these numbers."""
        return numbers.tolist()

    @abstractmethod
    def columns(self, numbers: np.ndarray) -> np.ndarray:
        """The encoding of numbers, one row each."""

    @abstractmethod
    def read(self, columns: Array) -> Array:
        """The number nearest to each row of columns; takes NumPy and JAX arrays."""

    @abstractmethod
    def natural(self, columns: Array) -> Array:
        """The value in natural units, not rounded; takes NumPy and JAX arrays."""

    @abstractmethod
    def spread(self, u: np.ndarray) -> np.ndarray:
        """The numbers at quantiles u ∈ [0, 1) of the uniform (or log-uniform) distribution of the values."""

    def near(self, number: float) -> list[float]:
        """The numbers of its neighbours; a continuum has none."""
        return []


@dataclass(frozen=True)
class _Ranged(Parameter):
    """Numbers between two bounds: x = (v - low)/(high - low), or the same of logarithms."""

    low: Any
    high: Any
    log: Any = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for side in ("low", "high"):
            object.__setattr__(self, side, self._plain(getattr(self, side), f"{self.label}: {side}"))
        if not isinstance(self.log, bool):
            raise DataError(f"{self.label}: log must be True or False, found {self.log!r}")
        low, high = plainly(self.low), plainly(self.high)
        if not self.low < self.high:
            remedy = "leave a constant out of the space" if self.low == self.high else "swap them"
            raise DataError(f"{self.label}: low must be below high, found low={low} and high={high}; {remedy}")
        if self.log and self.low <= 0:
            raise DataError(f"{self.label}: log=True needs low > 0, found low={low}")
        if math.isinf(self.high - self.low):
            raise DataError(f"{self.label}: the range from {low} to {high} is too wide for float64")

    @abstractmethod
    def _plain(self, value: object, label: str) -> float | int: ...

    def check(self, value: object) -> Value:
        plain = self._plain(value, self.label)
        if not self.low <= plain <= self.high:
            low, high = plainly(self.low), plainly(self.high)
            raise DataError(f"{self.label} must be between {low} and {high}, found {plain!r}")
        return plain

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.low), float(self.high)

    def numbers(self, values: Sequence[object]) -> np.ndarray:
        """The values themselves, checked all at once; one by one where something is wrong, to say what."""
        if not set(map(type, values)) <= {float, int}:
            values = [self.check(value) for value in values]
        try:
            found = np.asarray(values, dtype=float)
        except OverflowError:
            found = np.asarray([self.check(value) for value in values])
        wrong = ~((found >= self.low) & (found <= self.high))
        if self.kind == "integer":
            wrong |= found != np.round(found)
        if wrong.any():
            self.check(values[int(np.argmax(wrong))])
        return found

    def columns(self, numbers: np.ndarray) -> np.ndarray:
        if self.log:
            x = (np.log(numbers) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            x = (numbers - self.low) / (self.high - self.low)
        return np.clip(np.where(numbers == self.high, 1.0, x), 0.0, 1.0)[:, None]

    def natural(self, columns: Array) -> Array:
        x = columns[:, 0]
        if self.log:
            return namespace(x).exp(math.log(self.low) + x * (math.log(self.high) - math.log(self.low)))
        return self.low + x * (self.high - self.low)


@dataclass(frozen=True)
class Real(_Ranged):
    """A real number in [low, high]; `log=True` where ratios matter (rates, concentrations)."""

    kind: ClassVar[str] = "real"

    @property
    def count(self) -> None:
        """None: there is a continuum."""
        return None

    def _plain(self, value: object, label: str) -> float:
        return real_number(value, label)

    def read(self, columns: Array) -> Array:
        """The value at x, the bounds exactly."""
        xp, x = namespace(columns), columns[:, 0]
        inside = xp.clip(self.natural(columns), self.low, self.high)
        return xp.where(x <= 0, self.low, xp.where(x >= 1, self.high, inside))

    def spread(self, u: np.ndarray) -> np.ndarray:
        """The value at u."""
        return np.asarray(self.read(u[:, None]))


@dataclass(frozen=True)
class Integer(_Ranged):
    """A whole number in {low, …, high}."""

    kind: ClassVar[str] = "integer"

    def _plain(self, value: object, label: str) -> int:
        found = real_number(value, label)
        if found != round(found) or abs(found) > LARGEST:
            raise DataError(f"{label} must be a whole number of at most 2⁵³, found {value!r}")
        return int(found)

    @property
    def count(self) -> int:
        """high - low + 1."""
        return int(self.high - self.low) + 1

    def values(self, numbers: np.ndarray) -> list[Value]:
        """As Python integers."""
        return numbers.astype(np.int64).tolist()

    def read(self, columns: Array) -> Array:
        """The nearest whole number."""
        xp = namespace(columns)
        return xp.clip(xp.round(self.natural(columns)), self.low, self.high)

    def spread(self, u: np.ndarray) -> np.ndarray:
        """Each whole number has the slice that rounds to it."""
        low, high = self.low - 0.5, self.high + 0.5
        at = low * (high / low) ** u if self.log else low + u * (high - low)
        return np.clip(np.round(at), self.low, self.high)

    def near(self, number: float) -> list[float]:
        """One up and down, and a tenth of the range up and down."""
        x = self.columns(np.array([number]))
        far = self.read(np.concatenate([x - STRIDE, x + STRIDE])).tolist()
        steps = {float(number - 1), float(number + 1), *far} - {float(number)}
        return sorted(step for step in steps if self.low <= step <= self.high)


def plainly(number: object) -> str:
    """A number as people write it, with every digit that it needs."""
    return repr(number).removesuffix(".0")


def _as_pairs(when: object, label: str) -> tuple[tuple[str, tuple[object, ...]], ...]:
    if when is None or (isinstance(when, tuple) and not when):
        return ()
    pairs = dict(when) if isinstance(when, tuple) else when
    if not isinstance(pairs, Mapping):
        raise DataError(f'{label}: when must be such as {{"other": value}}, found {when!r}')
    out = []
    for other, values in pairs.items():
        several = tuple(values) if isinstance(values, list | tuple | set | frozenset | np.ndarray) else (values,)
        if not several:
            raise DataError(f"{label}: when[{other!r}] is empty, so that it would never be active; give the values")
        out.append((other, several))
    return tuple(out)


def real_number(value: object, label: str) -> float:
    """A finite number as a float, or a `DataError` that begins with the label."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, abstract.Real):
        raise DataError(f"{label} must be a number, found {value!r}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise DataError(f"{label} must be finite, found {value!r}")
    return found
