"""Waves."""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Float, Num

from credo.core.arrays import Array, Numeric, is_traced, namespace
from credo.models.features.base import Features, check_columns, given, numbers, span, whole


class Fourier(Features):
    """sin(2πkx/period) and cos(2πkx/period) for k = 1..order, along every input.

    `period` is one number for all inputs or one for each. `adapt` takes the range of the data, so that the
    waves are orthogonal over evenly spread inputs; the fit then returns to its start at the end of the data,
    so give the period when it is known (365.25 days) or a longer one when nothing repeats.
    """

    order: int = eqx.field(static=True)
    period: Float[Array, "*d"] | None

    def __init__(self, order: int = 5, period: Numeric | None = None):
        self.order = whole("Fourier", "order", order, least=1)
        self.period = numbers("Fourier", "period", period, positive=True)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """sin and cos for k = 1, then k = 2, ...; first of the first input, then of the second, ..."""
        period = given("Fourier", "period", self.period, "period=...")
        n, d = x.shape
        check_columns("Fourier", "period", period, 0, d)
        xp = namespace(x, period)
        angle = 2 * np.pi * np.arange(1, self.order + 1) * (x / period)[..., None]
        return xp.stack([xp.sin(angle), xp.cos(angle)], axis=-1).reshape(n, self.size(d))

    def size(self, d: int) -> int:
        """2·order for each input."""
        return 2 * self.order * d

    def names(self, inputs: Sequence[str]) -> list[str]:
        """Such as sin(2π·1·time/365.25)."""
        if self.period is None or is_traced(self.period):
            periods = ["period"] * len(inputs)
        else:
            check_columns("Fourier", "period", self.period, 0, len(inputs))
            periods = [f"{p:g}" for p in np.broadcast_to(self.period, (len(inputs),))]
        return [
            f"{wave}(2π·{k}·{name}/{period})"
            for name, period in zip(inputs, periods, strict=True)
            for k in range(1, self.order + 1)
            for wave in ("sin", "cos")
        ]

    @property
    def ready(self) -> bool:
        """Whether the period is known."""
        return self.period is not None

    def adapt(self, x: Num[Array | np.ndarray, "n d"]) -> "Fourier":
        """The range of each column as its period (1 for a constant column), where none was given."""
        if self.period is not None:
            return self
        low, high = span("Fourier", x).T
        return dataclasses.replace(self, period=high - low)
