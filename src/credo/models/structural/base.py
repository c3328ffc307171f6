"""What a part of a structural time series is: states of its own, and what they add to the outcome.

    zₜ = F zₜ₋₁ + qₜ,  qₜ ~ N(0, diag(q)),     contribution hᵀzₜ

Parts are independent of each other, so their sum is one linear Gaussian model with blocks on the diagonal.
Harvey (1989), "Forecasting, structural time series models and the Kalman filter", chapter 2.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, is_traced, put
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.pytrees import changed

if TYPE_CHECKING:
    from credo.models.structural.belief import Structural
    from credo.models.structural.series import Series

Number: TypeAlias = Float[Array | np.ndarray, ""] | float

WIDE = 10.0
"""The start of a level is this many standard deviations of the series wide."""

LOOSE = 3.0
"""Standard deviation of the log of a variance before any data: a factor of 20 either way."""

DOUBLINGS = 24
"""Sums 2²⁴ terms: exact for roots up to 1 - 10⁻⁶."""


class SeriesScales(eqx.Module):
    """How large the numbers of a series are: parts take from it where states start and where learning begins."""

    center: Float[Array | np.ndarray, ""]
    """The mean of the outcomes."""
    spread: Float[Array | np.ndarray, ""]
    """Their standard deviation."""
    step: Float[Array | np.ndarray, ""]
    """The root mean square of the change from one time to the next."""
    inputs: Float[Array | np.ndarray, " d"]
    """The standard deviation of each input."""

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
        return cls(*(np.asarray(v, dtype=float) for v in (center, spread, step or spread, widths)))


class Block(NamedTuple):
    """The matrices of one part."""

    transition: Float[Array, "n n"]
    """F"""
    noise: Float[Array, " n"]
    """The variances q of what is new in each state at each time."""
    weights: Float[Array, " n"]
    """h; for a regression the inputs of each time take its place."""
    mean: Float[Array, " n"]
    """of the state at the first time"""
    covariance: Float[Array, "n n"]


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
    def block(self, scales: SeriesScales) -> Block:
        """Its matrices, and the law of its state at the first time."""

    def initial(self, scales: SeriesScales) -> dict[str, Number]:
        """The numbers by field at which learning begins; what is None is not learned."""
        return {}

    def typical(self, scales: SeriesScales) -> dict[str, Number]:
        """For every learnable variance by field a value that would not surprise."""
        return {}

    def adapt(self, scales: SeriesScales) -> "Part":
        """The part with the numbers at which learning begins."""
        found = {field: put(v) for field, v in self.initial(scales).items() if getattr(self, field) is not None}
        return changed(self, **found)

    # ------------------------------------------------------------------ as a belief

    def told(self, *data: Any) -> "Structural":
        """The model with no other part."""
        from credo.models.structural.belief import Structural

        return Structural(self)

    def statistics(self, *data: Any, **options: Any) -> "Series":
        """Those of the model with no other part, as all that follows."""
        return self.told().statistics(*data, **options)

    def prepare(self, *data: Any, **options: Any) -> "tuple[Structural, Series]":
        """With the numbers at which learning begins."""
        return self.told().prepare(*data, **options)

    def condition_on(self, statistics: "Series") -> "Structural":
        """The law of the state after the series."""
        return self.told().condition_on(statistics)

    def evidence_of(self, statistics: "Series") -> Float[Array, ""]:
        """log p(y₁…y_T)."""
        return self.told().evidence_of(statistics)

    def predict(self, steps: int = 1, **options: Any) -> Predictive:
        """Not before any data."""
        return self.told().predict(steps, **options)

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


def variance_of(value: Any) -> Float[Array, ""]:
    """A variance that may be None: what does not change has variance 0."""
    return jnp.zeros(()) if value is None else jnp.asarray(value)


def as_number(value: Any) -> Any:
    """A learnable number as an array; None stays None, and what is traced stays as it is."""
    return value if value is None or is_traced(value) else put(np.asarray(value, dtype=float))


def stationary(transition: Float[Array, "n n"], noise: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """P = FPFᵀ + Q for a stable F, as the sum Σ FᵏQ(Fᵏ)ᵀ by doubling. Anderson & Moore (1979), section 6.7."""
    power, total = transition, noise
    for _ in range(DOUBLINGS):
        total = total + power @ total @ power.T
        power = power @ power
    return 0.5 * (total + total.T)
