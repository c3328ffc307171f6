"""Inputs, or the columns of other features, shifted and scaled."""

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Float, Num

from credo.core.arrays import Array, Numeric
from credo.models.features.base import Features, check_columns, numbers, table

Weights = Float[np.ndarray, " n"] | None


class Scaled(Features):
    """Columns less `shift`, over `scale`; where `adapt` has not set them, None is 0 and 1."""

    shift: eqx.AbstractVar[Float[Array, "*d"] | None]
    scale: eqx.AbstractVar[Float[Array, "*d"] | None]

    def _set(self, shift: Numeric | None, scale: Numeric | None) -> None:
        owner = type(self).__name__
        self.shift, self.scale = numbers(owner, "shift", shift), numbers(owner, "scale", scale, positive=True)

    def _scaled(self, columns: Float[Array, "n p"]) -> Float[Array, "n p"]:
        for name, value in (("shift", self.shift), ("scale", self.scale)):
            if value is not None:
                check_columns(type(self).__name__, name, value, 0, columns.shape[1])
                columns = columns - value if name == "shift" else columns / value
        return columns

    @abstractmethod
    def adapt(self, x: Num[Array | np.ndarray, "n d"], weights: Weights = None) -> "Scaled":
        """Mean and standard deviation, where none were given; a row of weight w counts as w rows."""

    def _moments(self, x: Num[Array | np.ndarray, "n p"], weights: Weights) -> dict[str, Array]:
        """The mean and the standard deviation of each column, or what was given."""
        rows, shift, scale = table(type(self).__name__, x), self.shift, self.scale
        empty = rows.shape[1] == 0  # which np.average refuses
        mean = rows.mean(axis=0) if empty else np.average(rows, axis=0, weights=weights)
        if scale is None:
            squares = (rows - mean) ** 2
            deviation = np.sqrt(squares.mean(axis=0) if empty else np.average(squares, axis=0, weights=weights))
            # Rounding makes the deviation of a constant column tiny instead of zero, so look at its range; and a
            # deviation that underflows cannot be divided by.
            varies = np.ptp(rows, axis=0) > 8 * np.finfo(float).eps * np.abs(rows).max(0)
            varies &= deviation > np.sqrt(np.finfo(float).tiny)
            scale = np.where(varies, deviation, 1.0)
        return {"shift": mean if shift is None else shift, "scale": scale}


class Affine(Scaled):
    """The inputs themselves, φ(x) = (x - shift) / scale.

    `adapt` takes the mean and the standard deviation of each column; until then shift = 0 and scale = 1.
    Columns that do not vary get scale 1.
    """

    shift: Float[Array, "*d"] | None
    scale: Float[Array, "*d"] | None

    def __init__(self, shift: Numeric | None = None, scale: Numeric | None = None):
        self._set(shift, scale)

    @property
    def is_identity(self) -> bool:
        """Whether the inputs pass through as they are."""
        return self.shift is None and self.scale is None

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """The rows (xᵢ - shift) / scale."""
        return self._scaled(x)

    def size(self, d: int) -> int:
        """One column for each input."""
        return d

    def names(self, inputs: Sequence[str]) -> list[str]:
        """The names of the inputs."""
        return list(inputs)

    def adapt(self, x: Num[Array | np.ndarray, "n d"], weights: Weights = None) -> "Affine":
        """Mean and standard deviation of x, where none were given; a row of weight w counts as w rows."""
        return dataclasses.replace(self, **self._moments(x, weights))


class Standardize(Scaled):
    """The columns of other features, shifted and scaled: φ(x) = (φ'(x) - shift) / scale.

    `adapt` adapts the inner features and then takes the mean and the standard deviation of their columns, so
    that one prior variance means the same for all weights. Columns that do not vary get scale 1.
    """

    features: Features
    shift: Float[Array, "*p"] | None
    scale: Float[Array, "*p"] | None

    def __init__(self, features: Features, shift: Numeric | None = None, scale: Numeric | None = None):
        self.features = features
        self._set(shift, scale)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The rows (φ'(xᵢ) - shift) / scale."""
        return self._scaled(self.features(x))

    def size(self, d: int) -> int:
        """As many columns as the inner features."""
        return self.features.size(d)

    def names(self, inputs: Sequence[str]) -> list[str]:
        """The names of the inner columns."""
        return self.features.names(inputs)

    @property
    def ready(self) -> bool:
        """Whether the inner features are."""
        return self.features.ready

    def adapt(self, x: Num[Array | np.ndarray, "n d"], weights: Weights = None) -> "Standardize":
        """The inner features adapted to x, then the moments of their columns, where none were given."""
        inner = self.features.adapt(x)
        moments = self._moments(inner(table("Standardize", x)), weights)
        return dataclasses.replace(self, features=inner, **moments)
