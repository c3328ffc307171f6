"""Whether matrices can be those of a linear dynamical system; `DataError` says what is wrong."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, is_traced
from credo.core.errors import DataError

MATRICES = ("transition", "process_noise", "emission", "observation_noise", "control", "feedthrough", "offset")
"""What may differ from time to time."""

ASYMMETRY = 1e-8
NEGATIVE = 1e-10
"""Eigenvalues down to this share of the largest, below zero, are rounding."""


class Varying(eqx.Module):
    """A matrix or vector for each time; it is taken as known."""

    values: Float[Array, "t ..."]

    @property
    def ndim(self) -> int:
        """The rank with the axis of time."""
        return self.values.ndim


def matrix(value: Any, name: str, shape: tuple[int, ...]) -> Any:
    """An array of this shape, or a `Varying` with one for each time; None and what is traced as they are."""
    if value is None or is_traced(value) or isinstance(value, Varying):
        return value
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"{name} must hold numbers, found {type(value).__name__}") from None
    if array.ndim == 0 and all(k == 1 for k in shape):
        array = array.reshape(shape)
    rank = len(shape)
    if array.shape[-rank:] != shape or array.ndim > rank + 1 or (array.ndim > rank and not len(array)):
        each = ", ".join(["T", *(str(k) for k in shape)])
        raise DataError(f"{name} must have shape {shape}, or ({each}) with one for each time, found {array.shape}")
    if not np.isfinite(array).all():
        raise DataError(f"{name} must be finite, found {array[~np.isfinite(array)][0]}")
    return array if array.ndim == rank else Varying(array)


def covariance(value: Any, name: str, size: int) -> Any:
    """`matrix` that is symmetric without a negative eigenvalue."""
    checked = matrix(value, name, (size, size))
    if checked is None or is_traced(checked):
        return checked
    if isinstance(checked, Varying):
        return Varying(check_semidefinite(np.asarray(checked.values), name))
    return check_semidefinite(np.asarray(checked), name)


def check_semidefinite(array: np.ndarray, name: str) -> np.ndarray:
    """The symmetric part of a covariance, or of each; `DataError` where more than rounding is left, or is negative."""
    turned, size = np.swapaxes(array, -1, -2), np.abs(array).max(initial=0.0)
    skew = np.abs(array - turned).max(initial=0.0)
    if skew > ASYMMETRY * size:
        raise DataError(f"{name} must be symmetric, found entries that differ by {skew:g}; pass ½(A + Aᵀ)")
    even = 0.5 * array + 0.5 * turned
    least = float(np.linalg.eigvalsh(even).min())
    if least < -NEGATIVE * size:
        raise DataError(
            f"{name} must be a covariance (positive semi-definite), found the smallest eigenvalue {least:.3g}; "
            "check its signs, or add to its diagonal"
        )
    return even


def is_singular(value: Any) -> bool:
    """Whether a covariance has no inverse."""
    array = np.asarray(value.values if isinstance(value, Varying) else value)
    values = np.linalg.eigvalsh(array)
    return bool(np.any(values[..., 0] <= 1e-14 * values[..., -1]))
