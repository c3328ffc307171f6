"""The variogram: how unlike two measurements are, by the distance between them.

    γ(h) = ½ E (y(s) - y(s'))²,   |s - s'| = h           a model with kernel k and nugget:  k(0) - k(h) + nugget

The empirical one is half the mean square of the differences of all pairs in a class of distances (Matheron), or from
the mean root of the absolute differences, which a few outliers do not change (`robust`; Cressie & Hawkins 1980).
Cressie (1993), "Statistics for spatial data", §2.4.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from credo.core.checks import check_count, check_table, check_vector
from credo.core.errors import DataError

MOST = 2000
"""Of more points so many, chosen at random, give the pairs."""


class Variogram(NamedTuple):
    """Half the mean squared difference of measurements, in classes of distance."""

    distance: Float[np.ndarray, " b"]
    """The mean distance of the pairs of each class."""
    gamma: Float[np.ndarray, " b"]
    pairs: Int[np.ndarray, " b"]
    learned: tuple[Float[np.ndarray, " c"], Float[np.ndarray, " c"]] | None = None
    """Distances and γ of the model."""


def empirical_variogram(
    points: object,
    values: object,
    *,
    classes: int = 15,
    most: float | int | None = None,
    robust: bool = False,
    seed: int = 0,
) -> Variogram:
    """The variogram of measurements, of distances up to `most` (None: a third of the widest, or the shortest).

    Points on the Earth are given in space: `OnSphere(kernel).map(points)`.
    """
    check_count(classes, "classes")
    x = np.asarray(check_table(points, "points"))
    y = np.asarray(check_vector(values, "values", len(x)))
    if len(x) < 3:
        raise DataError(f"a variogram needs three points or more, found {len(x)}")
    from scipy.spatial.distance import pdist

    some = np.random.default_rng(seed).permutation(len(x))[:MOST]
    distance, difference = pdist(x[some]), pdist(y[some, None])
    reach = max(distance.max() / 3.0, distance.min()) if most is None else float(most)
    if not reach > 0:
        raise DataError(f"all points are at one place, or most={most} is not a positive distance")
    near = distance <= reach
    if not near.any():
        raise DataError(f"no two points are within most={most} of each other, the nearest are {distance.min():g} apart")
    distance, difference = distance[near], difference[near]
    which = np.minimum((distance / reach * classes).astype(int), classes - 1)
    pairs = np.bincount(which, minlength=classes)
    there = pairs > 0
    n = pairs[there]
    if robust:
        roots = np.bincount(which, np.sqrt(difference), classes)[there] / n
        gamma = 0.5 * roots**4 / (0.457 + 0.494 / n)
    else:
        gamma = 0.5 * np.bincount(which, difference**2, classes)[there] / n
    return Variogram(np.bincount(which, distance, classes)[there] / n, gamma, n)
