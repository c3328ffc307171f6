"""Data as networks like them, whatever their units, and the same whatever the order of their rows and columns.

Inputs less their median, over their interquartile range as a standard deviation; far values smoothly clipped,

    z / √(1 + (z/3)²),

for a network that has seen ±2 must not be asked about 40. Holzmüller, Grinsztajn & Steinwart (2024), "Better by
default". Columns are put in the order of how they go with y, and turned to go up with it, y so that its longer tail is
above: initial values that are drawn at random then meet the same columns.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace

FAR = 3.0


class Scaling(eqx.Module):
    """Shifts, scales, order and signs."""

    center: Float[Array, " d"]
    spread: Float[Array, " d"]
    order: Array
    """Places of the columns in the order in which the networks see them."""
    sign: Float[Array, " d"]
    """Of the columns in that order."""
    shift: Float[Array, ""]
    scale: Float[Array, ""]
    """Of the outcomes; below zero where they are turned."""
    untouched: bool = eqx.field(static=True, default=False)
    """Whether inputs stay as they are."""

    @classmethod
    def unit(cls, d: int) -> "Scaling":
        """Everything as it is."""
        return cls(np.zeros(d), np.ones(d), np.arange(d), np.ones(d), np.asarray(0.0), np.asarray(1.0))

    @classmethod
    def of(cls, x: Float[Array, "n d"], y: Float[Array, " n"], numbers: bool, untouched: bool = False) -> "Scaling":
        """From the data; outcomes other than numbers stay as they are, and inputs where they are `untouched`."""
        xp = namespace(x, y)
        low, center, high = xp.quantile(x, np.asarray([0.25, 0.5, 0.75]), axis=0)
        deviation = xp.sqrt(xp.mean((x - center) ** 2, axis=0))
        # Rounding makes the spread of a constant column tiny instead of zero.
        least = 1e-12 * xp.abs(center) + 1e-290
        spread = xp.where(high - low > least, (high - low) / 1.349, xp.where(deviation > least, deviation, 1.0))
        shift, scale = xp.zeros(()), xp.ones(())
        if numbers:
            shift = y.mean()
            away = y - shift
            width = xp.sqrt(xp.mean(away**2))
            turned = xp.where(xp.mean((away / xp.where(width > 0, width, 1.0)) ** 3) < 0, -1.0, 1.0)
            scale = turned * xp.where(width > 1e-12 * xp.abs(shift) + 1e-290, width, 1.0)
        if untouched:
            d = x.shape[1]
            return cls(np.zeros(d), np.ones(d), np.arange(d), np.ones(d), shift, scale, True)
        plain = cls(center, spread, np.arange(x.shape[1]), np.ones(x.shape[1]), shift, scale)
        together = ((y - shift) / scale - ((y - shift) / scale).mean()) @ plain.inputs(x)
        order = xp.argsort(-xp.abs(together), stable=True)
        sign = xp.where(together < 0, -1.0, 1.0)[order]
        return cls(center, spread, order, sign, shift, scale)

    def inputs(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Rows as networks see them."""
        if self.untouched:
            return x
        z = (x - self.center) / self.spread
        z = z / namespace(z).sqrt(1 + (z / FAR) ** 2)
        return z[:, self.order] * self.sign

    def outcomes(self, y: Float[Array, " n"]) -> Float[Array, " n"]:
        """Outcomes as networks see them."""
        return (y - self.shift) / self.scale

    def rows(self, x: Float[Array, "n d"], y: Float[Array, " n"]) -> tuple[Array, Array]:
        """Both, in an order of the rows that is their own."""
        z, t = self.inputs(x), self.outcomes(y)
        order = namespace(z, t).lexsort((*z.T, t))
        return z[order], t[order]
