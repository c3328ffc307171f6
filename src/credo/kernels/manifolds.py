"""Kernels of functions on the circle, the torus and the sphere: any kernel of the Euclidean space around them.

    circle    x ↦ p/2π (cos 2πx/p, sin 2πx/p)                      torus    a circle for each column
    sphere    (λ, φ) ↦ R (cos φ cos λ, cos φ sin λ, sin φ)         longitude and latitude in degrees

Distances are chords, which are arcs where they are short, and lengthscales have the unit of p, or of R. A kernel of a
Euclidean space is positive semi-definite on any of its subsets, whatever its smoothness; with arcs in place of chords
most kernels are not. Space × time, and other products of domains, are products: `OnSphere(Matern32()).on(0, 1) *
Exponential().on(2)`.  Gneiting (2013), "Strictly and non-strictly positive definite functions on spheres".
"""

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array, namespace
from credo.core.checks import check_real
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.kernels.base import Amplitude, InputScales, Kernel, show
from credo.kernels.inputs import Mapped

EARTH = 6371.0088
"""The mean radius of the Earth, in km."""
EACH = 9
"""Points along each column of the box from which scales on a manifold are found."""


class Manifold(Mapped):
    """A kernel of the space that a manifold lies in."""

    kernel: eqx.AbstractVar[Kernel]
    is_stationary = False  # not in the coordinates of the rows

    def mapped_scales(self, scales: InputScales) -> InputScales:
        """Those of a box as wide as the rows; the same for all columns, since directions mean nothing there."""
        d = len(scales.spread)
        reach = np.sqrt(3.0) * ((2 * np.arange(EACH) + 1) / EACH - 1)
        box = np.stack(np.meshgrid(*[c + s * reach for c, s in zip(scales.center, scales.spread, strict=True)]), -1)
        rows = np.asarray(self.map(box.reshape(-1, d)))
        q = rows.shape[1]
        apart = np.sqrt(rows.var(0).sum() / q) or 1.0
        return InputScales(rows.mean(0), np.full(q, apart), np.full(q, np.ptp(rows, axis=0).max()), scales.variance)

    def adapt(self, scales: InputScales) -> "Manifold":
        """As the kernel inside, from the scales of the mapped rows."""
        return changed(self, kernel=self.kernel.adapt(self.mapped_scales(scales)))

    def scaled(self, factor: ArrayLike) -> Kernel:
        """factor · k."""
        return changed(self, kernel=self.kernel.scaled(factor))

    def split_variance(self) -> tuple[Amplitude, Kernel]:
        """Of the kernel inside."""
        variance, bare = self.kernel.split_variance()
        return variance, changed(self, kernel=bare)

    @property
    def terms(self) -> tuple[Kernel, ...]:
        """The terms of the kernel inside, on the same manifold."""
        parts = self.kernel.terms
        return tuple(changed(self, kernel=k) for k in parts) if len(parts) > 1 else (self,)


class OnCircle(Manifold):
    """A kernel of functions that repeat after `period` along every column: on a circle, of two columns on a torus.

    `OnCircle(Matern32(), 360.0)` is once differentiable in an angle; `Periodic` is the RBF kernel on the circle.
    """

    kernel: Kernel
    period: float = eqx.field(static=True, default=360.0)

    def __check_init__(self) -> None:
        check_real(self.period, "period", np.finfo(float).tiny)

    def map(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        """A circle of circumference p for each column."""
        xp, radius = namespace(x), self.period / (2.0 * np.pi)
        return radius * xp.concatenate([xp.cos(x / radius), xp.sin(x / radius)], axis=-1)

    def formula(self) -> str:
        """k on a circle."""
        return f"{self._inside()}∘circle({show(self.period)})"


class OnSphere(Manifold):
    """A kernel of functions of longitude and latitude, in degrees; lengthscales are chords in the unit of the radius.

    The default radius is that of the Earth in kilometres.
    """

    kernel: Kernel
    radius: float = eqx.field(static=True, default=EARTH)

    def __check_init__(self) -> None:
        check_real(self.radius, "radius", np.finfo(float).tiny)

    def map(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        """Points in space."""
        if x.shape[-1] != 2:
            raise DataError(
                f"OnSphere takes longitude and latitude, found {x.shape[-1]} columns; choose two with .on(…)"
            )
        return self.radius * on_unit_sphere(x)

    def formula(self) -> str:
        """k on a sphere."""
        return f"{self._inside()}∘sphere({show(self.radius, 4)})"


def on_unit_sphere(x: Float[Array, "n 2"]) -> Float[Array, "n 3"]:
    """Longitude and latitude, in degrees, as points in space."""
    xp = namespace(x)
    angle = x * (np.pi / 180.0)
    east, north = angle[..., 0], angle[..., 1]
    level = xp.cos(north)
    return xp.stack([level * xp.cos(east), level * xp.sin(east), xp.sin(north)], axis=-1)
