"""Inputs, or the columns of other features, shifted and scaled."""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from credo.models.features.base import Features, Numbers, check_columns, check_numbers, numbers, table


class Affine(Features):
    """The inputs themselves, φ(x) = (x - shift) / scale.

    `adapt` takes the mean and the standard deviation of each column; until then shift = 0 and scale = 1.
    Columns that do not vary get scale 1.
    """

    shift: Float[Array, "*d"] | None
    scale: Float[Array, "*d"] | None

    def __init__(self, shift: Numbers | None = None, scale: Numbers | None = None):
        self.shift = numbers("Affine", "shift", shift)
        self.scale = numbers("Affine", "scale", scale)

    def __check_init__(self) -> None:
        check_numbers("Affine", "shift", self.shift, (0, 1))
        check_numbers("Affine", "scale", self.scale, (0, 1), positive=True)

    @property
    def is_identity(self) -> bool:
        """Whether the inputs pass through as they are."""
        return self.shift is None and self.scale is None

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """The rows (xᵢ - shift) / scale."""
        return _standardized("Affine", x, self.shift, self.scale)

    def size(self, d: int) -> int:
        """One column for each input."""
        return d

    def names(self, inputs: Sequence[str]) -> list[str]:
        """The names of the inputs."""
        return list(inputs)

    def adapt(self, x: Num[Array | np.ndarray, "n d"]) -> "Affine":
        """Mean and standard deviation of x, where none were given."""
        shift, scale = _moments("Affine", x, self.shift, self.scale)
        return dataclasses.replace(self, shift=shift, scale=scale)


class Standardize(Features):
    """The columns of other features, shifted and scaled: φ(x) = (φ'(x) - shift) / scale.

    `adapt` adapts the inner features and then takes the mean and the standard deviation of their columns, so
    that one prior variance means the same for all weights. Columns that do not vary get scale 1.
    """

    features: Features
    shift: Float[Array, "*p"] | None
    scale: Float[Array, "*p"] | None

    def __init__(self, features: Features, shift: Numbers | None = None, scale: Numbers | None = None):
        self.features = features
        self.shift = numbers("Standardize", "shift", shift)
        self.scale = numbers("Standardize", "scale", scale)

    def __check_init__(self) -> None:
        check_numbers("Standardize", "shift", self.shift, (0, 1))
        check_numbers("Standardize", "scale", self.scale, (0, 1), positive=True)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The rows (φ'(xᵢ) - shift) / scale."""
        return _standardized("Standardize", self.features(x), self.shift, self.scale)

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

    def adapt(self, x: Num[Array | np.ndarray, "n d"]) -> "Standardize":
        """The inner features adapted to x, then the moments of their columns, where none were given."""
        inner = self.features.adapt(x)
        columns = inner(jnp.asarray(table("Standardize", x)))
        shift, scale = _moments("Standardize", columns, self.shift, self.scale)
        return dataclasses.replace(self, features=inner, shift=shift, scale=scale)


def _standardized(
    owner: str, columns: Float[Array, "n p"], shift: Array | None, scale: Array | None
) -> Float[Array, "n p"]:
    """(columns - shift) / scale, where None is 0 and 1."""
    if shift is not None:
        check_columns(owner, "shift", shift, 0, columns.shape[1])
        columns = columns - shift
    if scale is not None:
        check_columns(owner, "scale", scale, 0, columns.shape[1])
        columns = columns / scale
    return columns


def _moments(
    owner: str, x: Num[Array | np.ndarray, "n p"], shift: Array | None, scale: Array | None
) -> tuple[Array, Array]:
    """The mean and the standard deviation of each column, or what was given."""
    rows = table(owner, x)
    if shift is None:
        shift = jnp.asarray(rows.mean(0))
    if scale is None:
        deviation = rows.std(0)
        # Rounding makes the deviation of a constant column tiny instead of zero, so look at its range; and a
        # deviation that underflows cannot be divided by.
        varies = np.ptp(rows, axis=0) > 8 * np.finfo(float).eps * np.abs(rows).max(0)
        varies &= deviation > np.sqrt(np.finfo(float).tiny)
        scale = jnp.asarray(np.where(varies, deviation, 1.0))
    return shift, scale
