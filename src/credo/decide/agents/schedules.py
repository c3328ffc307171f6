"""Numbers that fall with time: learning rates and shares of exploration, and whether they fall as they should.

Stochastic approximation converges where Σ εₜ = ∞ (it can get anywhere) and Σ εₜ² < ∞ (its noise averages out).
Robbins & Monro (1951), "A stochastic approximation method"; for Q-learning Tsitsiklis (1994).
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx

from credo.core.errors import DataError


class RobbinsMonro(NamedTuple):
    """Whether a schedule fulfils the two conditions, and what that means."""

    sum_diverges: bool
    squares_converge: bool
    says: str

    @property
    def holds(self) -> bool:
        """Both conditions."""
        return self.sum_diverges and self.squares_converge


class Schedule(eqx.Module):
    """A number for each time t = 0, 1, 2, …; for learning rates, t counts the visits of a state and action."""

    @abstractmethod
    def __call__(self, t: Any) -> Any:
        """The number at time t, or at an array of times."""

    @abstractmethod
    def check(self) -> RobbinsMonro:
        """Whether Σ εₜ = ∞ and Σ εₜ² < ∞."""

    @abstractmethod
    def function(self) -> Callable[[float], float]:
        """The same as a plain function of a plain number, for loops in Python."""


class Polynomial(Schedule):
    """εₜ = scale/(1 + t/τ)^power: Robbins & Monro's conditions hold just where 1/2 < power ≤ 1.

    Even-Dar & Mansour (2003), "Learning rates for Q-learning", recommend powers near 0.77.
    """

    power: float
    scale: float
    tau: float

    def __init__(self, power: Any = 0.8, scale: Any = 1.0, tau: Any = 1.0) -> None:
        self.power = _number(power, "power", least=0.0)
        self.scale = _number(scale, "scale", least=0.0)
        self.tau = _number(tau, "tau", least=1e-300)

    def __call__(self, t: Any) -> Any:
        """scale/(1 + t/τ)^power."""
        return self.scale / (1 + t / self.tau) ** self.power

    def function(self) -> Callable[[float], float]:
        """The same for a plain number."""
        power, scale, tau = self.power, self.scale, self.tau
        return lambda t: scale / (1 + t / tau) ** power

    def check(self) -> RobbinsMonro:
        """1/2 < power ≤ 1, by comparison with ∫ t^-power."""
        grows, falls = self.power <= 1 and self.scale > 0, self.power > 0.5 or self.scale == 0
        if not grows:
            return RobbinsMonro(
                False,
                falls,
                f"power {self.power:g} > 1: the numbers fall so fast that their sum is finite, and learning may stop "
                "short of the answer; take 1/2 < power ≤ 1",
            )
        if not falls:
            return RobbinsMonro(
                True,
                False,
                f"power {self.power:g} ≤ 1/2: the numbers fall so slowly that noise does not average out, and values "
                "keep moving; take 1/2 < power ≤ 1",
            )
        return RobbinsMonro(True, True, f"power {self.power:g}: the sum is infinite and that of squares is finite")


class Harmonic(Polynomial):
    """εₜ = scale/(1 + t/τ): with scale = τ = 1 values are averages of their targets."""

    def __init__(self, scale: Any = 1.0, tau: Any = 1.0) -> None:
        super().__init__(1.0, scale, tau)

    def function(self) -> Callable[[float], float]:
        """Without the power, which costs more than the rest."""
        scale, tau = self.scale, self.tau
        return lambda t: scale / (1 + t / tau)


class Constant(Schedule):
    """εₜ = value: never forgets to adapt, never settles."""

    value: float

    def __init__(self, value: Any) -> None:
        self.value = _number(value, "value", least=0.0)

    def __call__(self, t: Any) -> Any:
        """The value, whatever the time."""
        return self.value + 0.0 * t

    def function(self) -> Callable[[float], float]:
        """The same for a plain number."""
        value = self.value
        return lambda t: value

    def check(self) -> RobbinsMonro:
        """Σ εₜ² is infinite."""
        if self.value == 0:
            return RobbinsMonro(False, True, "a constant of zero learns nothing")
        return RobbinsMonro(
            True,
            False,
            f"the constant {self.value:g} does not fall: values keep moving with the noise, which suits a world that "
            "changes; to converge take Polynomial(0.8)",
        )


class Exponential(Schedule):
    """εₜ = least + (scale - least)·2^(-t/half): common in practice, but its sum is finite where `least` is zero."""

    scale: float
    half: float
    least: float

    def __init__(self, scale: Any = 1.0, half: Any = 1000.0, least: Any = 0.0) -> None:
        self.scale = _number(scale, "scale", least=0.0)
        self.half = _number(half, "half", least=1e-300)
        self.least = _number(least, "least", least=0.0)

    def __call__(self, t: Any) -> Any:
        """least + (scale - least)·2^(-t/half)."""
        return self.least + (self.scale - self.least) * 2.0 ** (-t / self.half)

    def function(self) -> Callable[[float], float]:
        """The same for a plain number."""
        least, span, half = self.least, self.scale - self.least, self.half
        return lambda t: least + span * 2.0 ** (-t / half)

    def check(self) -> RobbinsMonro:
        """A geometric series."""
        if self.least > 0:
            return Constant(self.least).check()
        return RobbinsMonro(
            False,
            True,
            f"the numbers halve every {self.half:g}: their sum is finite, and learning may stop short of the answer; "
            "take Polynomial(0.8), or give `least`",
        )


def as_schedule(given: Any, name: str) -> Schedule:
    """A schedule as it is, a number as a constant."""
    if isinstance(given, Schedule):
        return given
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise DataError(f"{name} must be a number or a schedule such as Polynomial(0.8), found {given!r}")
    return Constant(given)


def _number(given: Any, name: str, least: float) -> float:
    try:
        value = float(given)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be a number, found {given!r}") from None
    if not least <= value < float("inf"):
        raise DataError(f"{name} must be a finite number ≥ {least:g}, found {given!r}")
    return value
