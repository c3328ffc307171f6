"""Longitude and latitude in degrees: what is a place on the Earth, and where longitudes jump."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
from credo.kernels.manifolds import on_unit_sphere
from credo.models.features import Features

EMPTY = 90.0
"""Degrees of longitude without places, at which the turn may be cut open."""


class InSpace(Features):
    """Longitude and latitude as points of the unit sphere, which has no seam; further columns as they are."""

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The three coordinates in space, and the rest."""
        return namespace(x).concatenate([on_unit_sphere(x[:, :2]), x[:, 2:]], axis=1)

    def size(self, d: int) -> int:
        """One column more."""
        return d + 1

    def names(self, inputs: Sequence[str]) -> list[str]:
        """X, Y and Z: towards 0° and 90° on the equator, and towards the north pole."""
        return ["X", "Y", "Z", *inputs[2:]]


def around_the_turn(x: Float[np.ndarray, "n d"]) -> bool:
    """Whether places lie all around: no `EMPTY` degrees of longitude are without one."""
    return bool(_gaps(x)[1].max() < EMPTY)


def _gaps(x: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """All longitudes in order, and how far it is from each to the next one."""
    ordered = np.unique(x[:, 0] % 360.0)
    return ordered, np.diff(ordered, append=ordered[0] + 360.0)


def shifted_longitudes(x: Float[np.ndarray, "n d"], west: float) -> Float[np.ndarray, "n d"]:
    """The same places with longitudes in [west, west + 360), where they are not there yet, moved by whole turns.

    Turns, not remainders: a place that is shifted in two ways into one window has the same number, to the last bit.
    """
    inside = (x[:, 0] >= west) & (x[:, 0] <= west + 360.0)
    turns = np.where(inside, 0.0, np.floor((x[:, 0] - west) / 360.0))
    return np.column_stack([x[:, 0] - 360.0 * turns, x[:, 1:]])


def unwrapped_longitudes(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Places on both sides of 180° with longitudes that do not jump there, if a quarter of the turn has no places."""
    ordered, gaps = _gaps(x)
    if gaps.max() < EMPTY or np.ptp(x[:, 0]) <= 360.0 - gaps.max() + 1e-9:
        return x
    empty = int(np.argmax(gaps))
    west = float(ordered[empty] + gaps[empty] / 2) % 360.0  # amid what is empty: no place is at the edge of the window
    return shifted_longitudes(x, west - 360.0 * (west > gaps[empty] / 2))


def check_lonlat(x: np.ndarray, name: str) -> None:
    """`DataError` where rows cannot be longitude and latitude."""
    if x.shape[1] < 2 or np.abs(x[:, 1]).max(initial=0.0) > 90 or np.abs(x[:, 0]).max(initial=0.0) > 360:
        raise DataError(
            f"{name} must be longitude and latitude in degrees, in this order, found values up to "
            f"{np.abs(x).max(0)[:2].tolist()}; for plane coordinates leave out lonlat"
        )
