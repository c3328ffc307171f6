"""Parameters with a list of values: levels in an order, choices without one, and true or false."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
from credo.decide.space.parameters import Parameter, Value


@dataclass(frozen=True)
class _Listed(Parameter):
    """One of a list of values; its number is its position."""

    listed: ClassVar[str] = ""
    """The field that holds the list, where there is one."""

    @property
    def options(self) -> tuple[Value, ...]:
        """The values, in order."""
        return getattr(self, self.listed)

    @property
    def count(self) -> int:
        return len(self.options)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.listed:
            return
        key, given = self.listed, getattr(self, self.listed)
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence | np.ndarray):
            raise DataError(f"{self.label}: {key} must be a list of values, found {given!r}")
        plain = tuple(_scalar(value, f"{self.label}: {key}") for value in given)
        if not plain:
            raise DataError(f"{self.label}: {key} is empty; give at least one value")
        if len(set(plain)) < len(plain):
            twice = next(value for i, value in enumerate(plain) if value in plain[:i])
            raise DataError(f"{self.label}: {key} has {twice!r} twice")
        object.__setattr__(self, key, plain)

    def check(self, value: object) -> Value:
        plain = value.item() if isinstance(value, np.generic) else value
        for option in self.options:
            if isinstance(plain, bool) == isinstance(option, bool) and _same(plain, option):
                return option
        choices = ", ".join(map(repr, self.options[:20])) + (", …" if len(self.options) > 20 else "")
        raise DataError(f"{self.label} must be one of {choices}, found {plain!r}")

    def numbers(self, values: Sequence[object]) -> np.ndarray:
        """The positions of the values in the list."""
        position: dict[object, float] = {option: float(i) for i, option in enumerate(self.options)}
        kinds = set(map(type, self.options))
        # True == 1 as a key: only types that cannot be taken for one another are looked up directly
        if (bool in kinds and len(kinds) > 1) or not set(map(type, values)) <= kinds:
            values = [self.check(value) for value in values]
        try:
            return np.asarray([position[value] for value in values], dtype=float)
        except KeyError as error:
            self.check(error.args[0])
            raise

    def values(self, numbers: np.ndarray) -> list[Value]:
        options = self.options
        return [options[i] for i in numbers.astype(int).tolist()]

    def columns(self, numbers: np.ndarray) -> np.ndarray:
        return (numbers / max(self.count - 1, 1))[:, None]

    def read(self, columns: Array) -> Array:
        xp = namespace(columns)
        return xp.clip(xp.round(columns[:, 0] * (self.count - 1)), 0, self.count - 1)

    def spread(self, u: np.ndarray) -> np.ndarray:
        return np.minimum(np.floor(u * self.count), self.count - 1.0)

    def near(self, number: float) -> list[float]:
        return [float(step) for step in (number - 1, number + 1) if 0 <= step < self.count]

    @property
    def bounds(self) -> tuple[float, float] | None:
        plain = [float(option) for option in self.options if not isinstance(option, str)]
        return (min(plain), max(plain)) if len(plain) == self.count else None

    def natural(self, columns: Array) -> Array:
        xp = namespace(columns)
        steps = xp.arange(self.count, dtype=float)
        return xp.interp(columns[:, 0] * (self.count - 1), steps, xp.asarray(self.options, dtype=float))


@dataclass(frozen=True)
class Ordinal(_Listed):
    """One of several levels in an order, e.g. Ordinal(["low", "medium", "high"])."""

    levels: Any
    kind: ClassVar[str] = "ordinal"
    listed: ClassVar[str] = "levels"


@dataclass(frozen=True)
class Boolean(_Listed):
    """True or False."""

    kind: ClassVar[str] = "boolean"

    @property
    def options(self) -> tuple[Value, ...]:
        """False, then True."""
        return (False, True)


@dataclass(frozen=True)
class Categorical(_Listed):
    """One of several choices without an order, one column each."""

    choices: Any
    kind: ClassVar[str] = "choice"
    listed: ClassVar[str] = "choices"

    @property
    def width(self) -> int:
        """One column per choice."""
        return len(self.choices)

    @property
    def bounds(self) -> None:
        """None: choices have no order."""
        return None

    def columns(self, numbers: np.ndarray) -> np.ndarray:
        """1 at the choice, 0 elsewhere."""
        return (numbers[:, None] == np.arange(self.width)).astype(float)

    def read(self, columns: Array) -> Array:
        """The choice with the largest column."""
        return namespace(columns).argmax(columns, axis=1).astype(float)

    def near(self, number: float) -> list[float]:
        """All other choices."""
        return [float(i) for i in range(self.width) if i != number]


def _scalar(value: object, label: str) -> Value:
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, str | bool | int | float) or (isinstance(plain, float) and not math.isfinite(plain)):
        raise DataError(f"{label} must be text, finite numbers or truth values, found {plain!r}; name it with text")
    return plain


def _same(a: object, b: object) -> bool:
    return isinstance(a, str | bool | int | float) and isinstance(a, str) == isinstance(b, str) and a == b
