"""Numbers that fall with time: learning rates and shares of exploration, and whether they fall as they should.

Stochastic approximation converges where Σ εₜ = ∞ (it can get anywhere) and Σ εₜ² < ∞ (its noise averages out).
Robbins & Monro (1951), "A stochastic approximation method"; for Q-learning Tsitsiklis (1994).
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple, SupportsFloat

import equinox as eqx

from credo.core.errors import DataError

Numbers = Any
"""A number, or an array of numbers, of NumPy or JAX."""


def _number(given: SupportsFloat) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        raise DataError(f"a schedule is made of numbers, found {given!r}") from None


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

    formula: eqx.AbstractClassVar[Callable[..., Numbers]]
    """The number at time t, or at an array of times, from the fields in their order."""

    def __check_init__(self) -> None:
        for name, value in zip((field.name for field in fields(self)), self.numbers, strict=True):
            least = 1e-300 if name in ("tau", "half") else 0.0
            if not least <= value < float("inf"):
                raise DataError(f"{name} must be a finite number ≥ {least:g}, found {value!r}")

    @abstractmethod
    def check(self) -> RobbinsMonro:
        """Whether Σ εₜ = ∞ and Σ εₜ² < ∞."""

    @property
    def numbers(self) -> list[Numbers]:
        """The fields in their order."""
        return [getattr(self, field.name) for field in fields(self)]

    def __call__(self, t: Numbers) -> Numbers:
        """The number at time t, or at an array of times."""
        return self.formula(t, *self.numbers)

    def function(self) -> Callable[[int], float]:
        """The same for loops in Python, which have no time for the lookup of fields."""
        formula, numbers = self.formula, self.numbers
        return lambda t: formula(t, *numbers)


class PolynomialDecay(Schedule):
    """εₜ = scale/(1 + t/τ)^power: Robbins & Monro's conditions hold just where 1/2 < power ≤ 1.

    Even-Dar & Mansour (2003), "Learning rates for Q-learning", recommend powers near 0.77.
    """

    power: float = eqx.field(default=0.8, converter=_number)
    scale: float = eqx.field(default=1.0, converter=_number)
    tau: float = eqx.field(default=1.0, converter=_number)

    @staticmethod
    def formula(t: Numbers, power: Numbers, scale: Numbers, tau: Numbers) -> Numbers:
        """scale/(1 + t/τ)^power."""
        return scale / (1 + t / tau) ** power

    def check(self) -> RobbinsMonro:
        """1/2 < power ≤ 1, by comparison with ∫ t^-power."""
        grows, falls = self.power <= 1 and self.scale > 0, self.power > 0.5 or self.scale == 0
        says = ": the sum is infinite and that of squares is finite"
        if not grows:
            says = " > 1: the numbers fall so fast that their sum is finite, and learning may stop short of the answer"
        elif not falls:
            says = " ≤ 1/2: the numbers fall so slowly that noise does not average out, and values keep moving"
        remedy = "" if grows and falls else "; take 1/2 < power ≤ 1"
        return RobbinsMonro(grows, falls, f"power {self.power:g}{says}{remedy}")


class Harmonic(PolynomialDecay):
    """εₜ = scale/(1 + t/τ): with scale = τ = 1 values are averages of their targets."""

    def __init__(self, scale: SupportsFloat = 1.0, tau: SupportsFloat = 1.0) -> None:
        self.power, self.scale, self.tau = 1.0, _number(scale), _number(tau)

    @staticmethod
    def formula(t: Numbers, power: Numbers, scale: Numbers, tau: Numbers) -> Numbers:
        """Without the power, which costs more than the rest."""
        return scale / (1 + t / tau)


class ConstantSchedule(Schedule):
    """εₜ = value: never forgets to adapt, never settles."""

    value: float = eqx.field(converter=_number)

    @staticmethod
    def formula(t: Numbers, value: Numbers) -> Numbers:
        """The value, whatever the time."""
        return value + 0.0 * t

    def check(self) -> RobbinsMonro:
        """Σ εₜ² is infinite."""
        if self.value == 0:
            return RobbinsMonro(False, True, "a constant of zero learns nothing")
        says = f"the constant {self.value:g} does not fall: values keep moving with the noise"
        remedy = "which suits a world that changes; to converge take PolynomialDecay(0.8)"
        return RobbinsMonro(True, False, f"{says}, {remedy}")


class ExponentialDecay(Schedule):
    """εₜ = least + (scale - least)·2^(-t/half): common in practice, but its sum is finite where `least` is zero."""

    scale: float = eqx.field(default=1.0, converter=_number)
    half: float = eqx.field(default=1000.0, converter=_number)
    least: float = eqx.field(default=0.0, converter=_number)

    @staticmethod
    def formula(t: Numbers, scale: Numbers, half: Numbers, least: Numbers) -> Numbers:
        """least + (scale - least)·2^(-t/half)."""
        return least + (scale - least) * 2.0 ** (-t / half)

    def check(self) -> RobbinsMonro:
        """A geometric series."""
        if self.least > 0:
            return ConstantSchedule(self.least).check()
        says = f"the numbers halve every {self.half:g}: their sum is finite, and learning may stop short of the answer"
        return RobbinsMonro(False, True, f"{says}; take PolynomialDecay(0.8), or give `least`")


def as_schedule(given: object, name: str) -> Schedule:
    """A schedule as it is, a number as a constant."""
    if isinstance(given, Schedule):
        return given
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise DataError(f"{name} must be a number or a schedule such as PolynomialDecay(0.8), found {given!r}")
    return ConstantSchedule(given)
