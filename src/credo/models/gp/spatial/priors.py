"""What is believed of a field before it is measured: kriging in its variants, as Gaussian processes.

| kriging | the mean |
| --- | --- |
| simple | a known number |
| ordinary | an unknown constant, of which nothing is known before |
| universal | an unknown plane, or surface of second degree, or any features of the coordinates |

"Nothing is known before" is a normal law a thousand times as wide as the measurements: weights sum to one to six
digits. Without a kernel a field has two scales, a rough long one and a smoother short one, Exponential + Matérn-3/2:
one kernel fits the short distances, of which there are most, and is wrong in gaps.
"""

from typing import Any

import numpy as np

from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.kernels import Exponential, InputScales, Kernel, Matern32, OnSphere
from credo.models.features import Affine, Features, Polynomial
from credo.models.gp.hyperpriors import variance_of
from credo.models.gp.means import Basis, Constant, Mean, as_mean
from credo.models.gp.spatial.longitudes import InSpace, around_the_turn

FLAT = 1e6
"""The prior variance of the weights of a trend, as a multiple of that of the measurements."""
SHORT = 8.0
"""By how much shorter than the typical distance the short scale begins."""
TRENDS = ("constant", "linear", "quadratic")


def trend_mean(trend: Any, x: np.ndarray, y: np.ndarray, coordinates: int, lonlat: bool) -> Mean:
    """The mean function: one of the words, a number that is known, features of the coordinates, or a `Mean`.

    A plane, or a surface, around the Earth is one of the coordinates in space: longitudes have a seam.
    """
    flat, columns = FLAT * variance_of(y), tuple(range(coordinates))
    plane: Features = Affine().after(InSpace()) if lonlat and around_the_turn(x) else Affine()
    if trend == "constant":
        return Constant(np.asarray(y.mean()), np.asarray(flat))
    if trend == "linear":
        features = plane.on(*columns)
    elif trend == "quadratic":
        features = Polynomial(2).after(plane).on(*columns)
    elif isinstance(trend, Features):
        features = trend.on(*columns)
    elif isinstance(trend, str):
        raise DataError(f"trend must be one of {', '.join(TRENDS)}, a number, features or a mean, found {trend!r}")
    else:
        return as_mean(trend)
    ready = features.adapt(x)
    p = ready.size(x.shape[1]) + 1
    return Basis(ready, np.append(y.mean(), np.zeros(p - 1)), np.full(p, flat))


def field_kernel(kernel: Kernel | None, x: np.ndarray, y: np.ndarray, anisotropic: bool, lonlat: bool) -> Kernel:
    """The kernel of the coordinates, with starts from the data for what nobody has given."""
    d = x.shape[1]
    if kernel is not None and not isinstance(kernel, Kernel):
        raise DataError(f"kernel must be one of credo.kernels, found {type(kernel).__name__}")
    if anisotropic and (kernel is not None or lonlat):
        raise DataError(
            "anisotropic is for the kernel that is chosen here, of plane coordinates; "
            "give yours as e.g. Matern32(ard=True, rank=1), and longitudes projected"
        )
    each = d != 2
    chosen = kernel or Exponential(ard=anisotropic or each, rank=int(anisotropic)) + Matern32(ard=anisotropic or each)
    if lonlat and sphere_of(chosen) is None:
        if d != 2:
            raise DataError(
                f"lonlat needs longitude and latitude alone, found {d} columns; "
                "give a kernel such as OnSphere(Matern32()).on(0, 1) * Exponential().on(2)"
            )
        chosen = OnSphere(chosen)
    ready = chosen.adapt(InputScales.of(x, variance_of(y)))
    return _two_scales(ready) if kernel is None else ready


def _two_scales(kernel: Any) -> Kernel:
    """The second of two terms begins at a short scale, so that the two are not one."""
    if isinstance(kernel, OnSphere):
        return changed(kernel, kernel=_two_scales(kernel.kernel))
    long, short = kernel.parts
    return long + changed(short, lengthscale=short.lengthscale / SHORT)


def sphere_of(kernel: Kernel) -> OnSphere | None:
    """The sphere that a kernel, or a part of it, lies on."""
    if isinstance(kernel, OnSphere):
        return kernel
    return next((found for part in kernel.inside.values() if (found := sphere_of(part)) is not None), None)
