"""What a part of a structural time series is: states of its own, and what they add to the outcome.

    zₜ = F zₜ₋₁ + qₜ,  qₜ ~ N(0, diag(q)),     contribution hᵀzₜ

Parts are independent of each other, so their sum is one linear Gaussian model with blocks on the diagonal.
Harvey (1989), "Forecasting, structural time series models and the Kalman filter", chapter 2.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, TypeAlias

import equinox as eqx
import numpy as np
from jaxtyping import Float, Inexact

from credo.core.arrays import Array, Numeric, as_float, namespace
from credo.core.belief import Belief
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.models.structural.univariate_kalman import SeriesSystem

if TYPE_CHECKING:
    from credo.models.structural.belief import Structural
    from credo.models.structural.series import Series

Number: TypeAlias = Float[Array, ""] | float

WIDE = 10.0
"""The start of a level is this many standard deviations of the series wide."""

LOOSE = 3.0
"""Standard deviation of the log of a variance before any data: a factor of 20 either way."""

DOUBLINGS = 24
"""Sums 2²⁴ terms: exact for roots up to 1 - 10⁻⁶."""


class SeriesScales(eqx.Module):
    """How large the numbers of a series are: parts take from it where states start and where learning begins."""

    center: Float[Array, ""]
    """The mean of the outcomes."""
    spread: Float[Array, ""]
    """Their standard deviation."""
    step: Float[Array, ""]
    """The root mean square of the change from one time to the next."""
    inputs: Float[Array, " d"]
    """The standard deviation of each input."""
    middles: Float[Array, " d"]
    """The mean of each input."""

    @classmethod
    def of(cls, y: np.ndarray, inputs: np.ndarray) -> "SeriesScales":
        """From the outcomes, NaN where they are missing, and the inputs."""
        seen = y[~np.isnan(y)]
        spread = float(seen.std()) if len(seen) > 1 else 0.0
        spread = spread or (abs(float(seen[0])) if len(seen) else 0.0) or 1.0
        change = np.diff(y)
        change = change[~np.isnan(change)]
        step = float(np.sqrt(np.mean(change**2))) if len(change) else 0.0
        widths = inputs.std(axis=0)
        heights = np.abs(inputs).max(axis=0, initial=0.0)
        widths = np.where(widths > 1e-12 * heights, widths, np.where(heights > 0, heights, 1.0))
        center = float(seen.mean()) if len(seen) else 0.0
        middles = inputs.mean(axis=0) if len(inputs) else np.zeros(inputs.shape[1])
        return cls(*(np.asarray(v, dtype=float) for v in (center, spread, step or spread, widths, middles)))


class Part(Belief):
    """A part of a structural time series. `a + b` is the model whose outcome is the sum of both and of noise.

    A part is a belief: that of the model with no other part. What is learned from it is a `Structural`.
    """

    @property
    def name(self) -> str:
        """What the part is called among the components."""
        return type(self).__name__.lower()

    @property
    @abstractmethod
    def states(self) -> tuple[str, ...]:
        """The names of its states."""

    @abstractmethod
    def system(self, scales: SeriesScales) -> SeriesSystem:
        """Its matrices, and the law of its state at the first time; also of complex numbers (`learning`)."""

    def initial(self, scales: SeriesScales) -> dict[str, Number]:
        """The numbers by field at which learning begins; what is None is not learned."""
        return {}

    def typical(self, scales: SeriesScales) -> dict[str, Number]:
        """For every learnable variance by field a value that would not surprise."""
        return {}

    def adapt(self, scales: SeriesScales) -> "Part":
        """The part with the numbers at which learning begins."""
        found = {field: as_float(v) for field, v in self.initial(scales).items() if getattr(self, field) is not None}
        return changed(self, **found)

    # ------------------------------------------------------------------ as a belief

    def told(self, *data: object) -> "Structural":
        """The model with no other part."""
        from credo.models.structural.belief import Structural

        return Structural(self)

    def statistics(self, y: ArrayLike, inputs: ArrayLike | None = None, missing: bool = False) -> "Series":
        """Those of the model with no other part, as all that follows."""
        return self.told().statistics(y, inputs, missing)

    def condition_on(self, statistics: "Series") -> "Structural":
        """The law of the state after the series."""
        return self.told().condition_on(statistics)

    def evidence_of(self, statistics: "Series") -> Float[Array, ""]:
        """log p(y₁…y_T)."""
        return self.told().evidence_of(statistics)

    def predict(self, steps: int = 1, inputs: ArrayLike | None = None) -> Predictive:
        """Not before any data."""
        return self.told().predict(steps, inputs)

    def __add__(self, other: object) -> "Structural":
        """The model of both parts together."""
        from credo.models.structural.belief import Structural

        if isinstance(other, Structural):
            return Structural(self, *other.parts, noise=other.noise, start=other.start, log=other.log)
        if not isinstance(other, Part):
            raise DataError(f"a part of a structural model can be added to a part, found {type(other).__name__}")
        return Structural(self, other)

    def __repr__(self) -> str:
        from credo.models.structural.describe import describe_part

        return describe_part(self)


def as_number(value: Numeric | None) -> Array | None:
    """A learnable number as an array; None stays None."""
    return None if value is None else as_float(value)


def variance_of(value: Inexact[Array, ""] | None) -> Inexact[Array, ""]:
    """A variance that may be None: what does not change has variance 0."""
    return np.zeros(()) if value is None else value


def stationary(transition: Inexact[Array, "n n"], noise: Inexact[Array, " n"]) -> Inexact[Array, "n n"]:
    """P = FPFᵀ + diag(q) for a stable F, as the sum Σ FᵏQ(Fᵏ)ᵀ by doubling. Anderson & Moore (1979), section 6.7."""
    power, total = transition, namespace(transition, noise).diag(noise)
    for _ in range(DOUBLINGS):
        total = total + power @ total @ power.T
        power = power @ power
    return 0.5 * (total + total.T)
