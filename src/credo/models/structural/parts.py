"""The parts: level, trend, season, cycle, autoregression, regression.

A variance of None stands for 0: `Level(None)` is a constant, `Trend(None)` a smooth trend, `Trend(None, None)` a
straight line, `Seasonal(12, variance=None)` a pattern that repeats exactly.
Durbin & Koopman (2012), "Time series analysis by state space methods", section 3.2; Harvey (1989), section 2.3.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float, Inexact

from credo.core.arrays import Array, Numeric, as_float, namespace
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.params import positive, unit_interval
from credo.models.structural.base import WIDE, Number, Part, SeriesScales, as_number, stationary, variance_of
from credo.models.structural.univariate_kalman import SeriesSystem


class Level(Part):
    """A level that wanders: μₜ = μₜ₋₁ + ηₜ, ηₜ ~ N(0, variance)."""

    variance: Float[Array, ""] | None = positive(1.0)

    @property
    def states(self) -> tuple[str, ...]:
        """The level."""
        return ("level",)

    def system(self, scales: SeriesScales) -> SeriesSystem:
        """It starts anywhere near the series: N(mean of the outcomes, (10 standard deviations)²)."""
        one, wide = np.ones(1), (WIDE * scales.spread) ** 2
        return SeriesSystem(np.eye(1), variance_of(self.variance) * one, one, scales.center * one, wide * np.eye(1))

    def initial(self, scales: SeriesScales) -> dict[str, Number]:
        """A third of what the series changes by from time to time."""
        return {"variance": scales.step**2 / 3}

    def typical(self, scales: SeriesScales) -> dict[str, Number]:
        """A tenth of the changes from time to time."""
        return {"variance": 0.1 * scales.step**2}


class Trend(Part):
    """A level with a slope: μₜ = μₜ₋₁ + βₜ₋₁ + ηₜ, βₜ = φβₜ₋₁ + ζₜ, η ~ N(0, variance), ζ ~ N(0, slope).

    The local linear trend. With `damped` the slope fades, φ = `damping` < 1, and forecasts level off.
    """

    variance: Float[Array, ""] | None = positive(1.0)
    slope: Float[Array, ""] | None = positive(1.0)
    damping: Float[Array, ""] | None = unit_interval(None)

    def __init__(self, variance: Numeric | None = 1.0, slope: Numeric | None = 1.0, damped: Numeric | None = False):
        self.variance, self.slope = as_number(variance), as_number(slope)
        self.damping = None if damped is False else as_number(0.9 if damped is True else damped)

    @property
    def states(self) -> tuple[str, ...]:
        """Level and slope."""
        return ("level", "slope")

    def system(self, scales: SeriesScales) -> SeriesSystem:
        """The level starts as that of `Level`, the slope as N(0, (typical change from time to time)²)."""
        xp = namespace(self, scales)
        first, second = np.eye(2)
        phi = 1.0 if self.damping is None else self.damping
        noise = xp.stack([variance_of(self.variance), variance_of(self.slope)])
        start = xp.diag((WIDE * scales.spread) ** 2 * first + scales.step**2 * second)
        transition = np.asarray([[1.0, 1.0], [0.0, 0.0]]) + phi * np.diag(second)
        return SeriesSystem(transition, noise, first, scales.center * first, start)

    def initial(self, scales: SeriesScales) -> dict[str, Number]:
        """A slope that changes little."""
        return {"variance": scales.step**2 / 4, "slope": scales.step**2 / 1000, "damping": 0.9}

    def typical(self, scales: SeriesScales) -> dict[str, Number]:
        """A tenth of the changes from time to time, and a thousandth of them for the slope."""
        return {"variance": 0.1 * scales.step**2, "slope": 1e-3 * scales.step**2}


class Seasonal(Part):
    """A pattern that repeats every `period` steps and may change slowly.

    Without `harmonics` a value for each place in the period, together zero up to noise: γₜ = -Σ_{j<period} γₜ₋ⱼ + ωₜ.
    With them a sum of that many waves of frequencies λⱼ = 2πj/period, whose coefficients wander:
    γₜ = Σⱼ γⱼₜ, (γⱼ, γ*ⱼ)ₜ = rotation(λⱼ)(γⱼ, γ*ⱼ)ₜ₋₁ + N(0, variance·I); the period may then be any number.
    """

    period: float = eqx.field(static=True)
    harmonics: int | None = eqx.field(static=True)
    variance: Float[Array, ""] | None = positive(1.0)

    def __init__(self, period: int | float, harmonics: int | None = None, variance: Numeric | None = 1.0):
        if harmonics is None:
            check_count(period, "period", least=2)
        else:
            check_count(harmonics, "harmonics")
            if not np.isfinite(period) or 2 * harmonics > period:
                raise DataError(f"{harmonics} harmonics need a period of at least {2 * harmonics}, found {period:g}")
        self.period = float(period)
        self.harmonics = None if harmonics is None else int(harmonics)
        self.variance = as_number(variance)

    @property
    def name(self) -> str:
        """Seasonal with its period."""
        return f"seasonal({self.period:g})"

    @property
    def states(self) -> tuple[str, ...]:
        """The latest values of the pattern, or the waves."""
        if self.harmonics is None:
            return tuple(f"{i} ago" for i in range(int(self.period) - 1))
        return tuple(f"wave {j}{mark}" for j in range(1, self.harmonics + 1) for mark in ("", "*"))[: self._waves()]

    def _waves(self) -> int:
        assert self.harmonics is not None
        return 2 * self.harmonics - (2 * self.harmonics == self.period)

    def system(self, scales: SeriesScales) -> SeriesSystem:
        """Every state starts as N(0, variance of the series)."""
        transition, noise, weights = self._dummies() if self.harmonics is None else self._rotations()
        n = len(weights)
        start = scales.spread**2 * np.eye(n)
        return SeriesSystem(transition, variance_of(self.variance) * noise, weights, np.zeros(n), start)

    def _dummies(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = int(self.period) - 1
        transition = np.eye(n, k=-1)
        transition[0] = -1.0
        return transition, np.eye(n)[0], np.eye(n)[0]

    def _rotations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        assert self.harmonics is not None
        n = self._waves()
        transition = np.zeros((n, n))
        for j in range(self.harmonics):
            turn = 2 * np.pi * (j + 1) / self.period
            rotation = np.asarray([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
            at = slice(2 * j, min(2 * j + 2, n))
            transition[at, at] = rotation[: at.stop - at.start, : at.stop - at.start]
        weights = np.zeros(n)
        weights[::2] = 1.0
        return transition, np.ones(n), weights

    def initial(self, scales: SeriesScales) -> dict[str, Number]:
        """A pattern that changes little."""
        return {"variance": scales.step**2 / 1000}

    def typical(self, scales: SeriesScales) -> dict[str, Number]:
        """A thousandth of the changes from time to time."""
        return {"variance": 1e-3 * scales.step**2}


class Cycle(Part):
    """Waves whose length and height change: (ψ, ψ*)ₜ = damping · rotation(2π/period) (ψ, ψ*)ₜ₋₁ + N(0, variance·I).

    Stationary: it starts from what it is in the long run. Harvey (1989), section 2.3.3.
    """

    period: Float[Array, ""] = positive(8.0, low=2.0)
    variance: Float[Array, ""] = positive(1.0)
    damping: Float[Array, ""] = unit_interval(0.95)

    @property
    def states(self) -> tuple[str, ...]:
        """The wave and its companion, a quarter of a period apart."""
        return ("wave", "wave*")

    def system(self, scales: SeriesScales) -> SeriesSystem:
        """It starts as N(0, variance/(1 - damping²))."""
        xp = namespace(self)
        turn = 2 * np.pi / self.period
        transition = self.damping * (xp.cos(turn) * np.eye(2) + xp.sin(turn) * np.asarray([[0.0, 1.0], [-1.0, 0.0]]))
        start = self.variance / (1 - self.damping**2) * np.eye(2)
        return SeriesSystem(transition, self.variance * np.ones(2), np.eye(2)[0], np.zeros(2), start)

    def initial(self, scales: SeriesScales) -> dict[str, Number]:
        """The period as given, waves of the height of the series."""
        return {"variance": scales.spread**2 * 0.1}

    def typical(self, scales: SeriesScales) -> dict[str, Number]:
        """Waves as high as the series."""
        return {"variance": 0.1 * scales.spread**2}


class AR(Part):
    """A stationary autoregression: uₜ = Σᵢ φᵢ uₜ₋ᵢ + εₜ, ε ~ N(0, variance).

    What is learned are the partial autocorrelations r = 2·partial - 1 in (-1, 1), from which the coefficients φ follow
    by the recursion of Durbin and Levinson; every such choice is stationary. Barndorff-Nielsen & Schou (1973).
    """

    partial: Float[Array, " p"] = unit_interval()
    variance: Float[Array, ""] = positive(1.0)

    def __init__(self, order: int = 1, coefficients: Numeric | None = None, variance: Numeric = 1.0):
        check_count(order, "order")
        if coefficients is None:
            partial = np.concatenate([[0.75], np.full(int(order) - 1, 0.5)])
        else:
            partial = (1 + partials(np.atleast_1d(np.asarray(coefficients, dtype=float)))) / 2
            if len(partial) != order:
                raise DataError(f"AR({order}) needs {order} coefficients, found {len(partial)}")
        self.partial, self.variance = partial, as_float(variance)

    @property
    def name(self) -> str:
        """AR and its order."""
        return f"ar({len(self.partial)})"

    @property
    def states(self) -> tuple[str, ...]:
        """The latest values."""
        return tuple(f"{i} ago" for i in range(len(self.partial)))

    @property
    def coefficients(self) -> Inexact[Array, " p"]:
        """φ₁…φ_p."""
        r = 2 * self.partial - 1
        phi = r[:1]
        for k in range(1, len(r)):
            phi = namespace(r).concatenate([phi - r[k] * phi[::-1], r[k : k + 1]])
        return phi

    def system(self, scales: SeriesScales) -> SeriesSystem:
        """It starts from what it is in the long run."""
        p = len(self.partial)
        first = np.eye(p)[0]
        transition, noise = np.eye(p, k=-1) + first[:, None] * self.coefficients, self.variance * first
        return SeriesSystem(transition, noise, first, np.zeros(p), stationary(transition, noise))

    def initial(self, scales: SeriesScales) -> dict[str, Number]:
        """Half of the changes from time to time."""
        return {"variance": scales.step**2 / 2}

    def typical(self, scales: SeriesScales) -> dict[str, Number]:
        """A third of the changes from time to time."""
        return {"variance": scales.step**2 / 3}


def partials(coefficients: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
    """The partial autocorrelations of an autoregression, by the recursion of Durbin and Levinson backwards."""
    phi, found = coefficients, []
    while len(phi):
        r = phi[-1]
        if not abs(r) < 1:
            raise DataError(f"the coefficients {coefficients.tolist()} are not those of a stationary autoregression")
        found.append(r)
        phi = (phi[:-1] + r * phi[:-1][::-1]) / (1 - r**2)
    return np.asarray(found[::-1])


class Regression(Part):
    """What inputs xₜ add: βᵀxₜ, with coefficients β that do not change.

    The data bring the inputs, `condition(y, inputs=X)`; forecasts need theirs. β is a state without noise that starts
    as N(0, (10 · spread of the series / spread of the input)²), so it is integrated over. Beside a level or a
    trend inputs count from their mean.
    """

    names: tuple[str, ...] | None = eqx.field(static=True, default=None)

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return self.names or ()

    def system(self, scales: SeriesScales) -> SeriesSystem:
        """β stays as it is."""
        d = len(self.states)
        start = namespace(scales).diag((WIDE * scales.spread / scales.inputs[:d]) ** 2)
        return SeriesSystem(np.eye(d), np.zeros(d), np.ones(d), np.zeros(d), start)
