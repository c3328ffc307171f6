"""Priors of the numbers that are learned: densities, and penalties on the scale on which learning is free.

Any object with `log_prob` is a prior, numpyro's distributions among them. A `Penalty` is climbed as it stands, so that
its mode is that of θ in natural units; to integrate over θ, `as_densities` gives the density that is as wide on the
free scale u (log θ, log-odds, or θ itself).
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array, as_float, namespace
from credo.core.params import Prior as Prior
from credo.core.params import Priors as Priors
from credo.core.pytrees import plain_methods

OnHost = Callable[[np.ndarray], tuple[float, np.ndarray]]


class LogNormal(eqx.Module):
    """A prior of a positive number by its mode: log θ ~ N(log mode + spread², spread²), densest at θ = mode."""

    mode: Float[Array, "*k"]
    spread: Float[Array, ""]

    def __init__(self, mode: ArrayLike | Sequence[float], spread: ArrayLike = 1.0):
        self.mode, self.spread = as_float(mode), as_float(spread)

    def log_prob(self, value: Array) -> Array:
        """The log density in natural units."""
        xp = namespace(value, self)
        z = (xp.log(value / self.mode) - self.spread**2) / self.spread
        return -0.5 * z**2 - xp.log(value * self.spread) - 0.5 * np.log(2 * np.pi)


class Penalty(eqx.Module):
    """A log density of u = u(θ), up to a constant, that learning adds to the evidence without a Jacobian."""

    __getattribute__ = plain_methods

    @abstractmethod
    def log_prob(self, value: Array) -> Array:
        """The penalty at θ, zero at its mode."""

    @property
    @abstractmethod
    def log_mass(self) -> Array:
        """log ∫ exp(log_prob) du, for one number."""

    @abstractmethod
    def log_slope(self, value: Array) -> Array:
        """log |dθ/du| at θ."""


class PenaltyDensity(eqx.Module):
    """The normalized density of θ whose u has the density of a `Penalty`: p(θ) = exp(log_prob(θ))/mass · |du/dθ|."""

    __getattribute__ = plain_methods

    penalty: Penalty

    def log_prob(self, value: Array) -> Array:
        """The log density of θ."""
        return self.penalty.log_prob(value) - self.penalty.log_mass - self.penalty.log_slope(value)


def as_densities(priors: Priors) -> dict[str, Prior]:
    """The priors to integrate over: penalties as densities, densities as they are."""
    return {path: PenaltyDensity(prior) if isinstance(prior, Penalty) else prior for path, prior in priors.items()}


class LogScalePenalty(Penalty):
    """What a positive number typically is: a penalty ½(log(θ/mode)/spread)², with a spread for either side."""

    mode: Float[Array, "*k"]
    below: Float[Array, ""]
    above: Float[Array, ""]

    def __init__(self, mode: ArrayLike, spread: ArrayLike | tuple[float, float]):
        below, above = spread if isinstance(spread, tuple) else (spread, spread)
        self.mode, self.below, self.above = (as_float(v) for v in (mode, below, above))

    def log_prob(self, value: Array) -> Array:
        """-½(log(θ/mode)/spread)², up to a constant."""
        xp = namespace(value, self)
        z = xp.log(value / self.mode)
        return -0.5 * xp.square(z / xp.where(z < 0, self.below, self.above))

    @property
    def log_mass(self) -> Float[Array, ""]:
        """log ∫ exp(log_prob) d log θ, for one number."""
        return namespace(self).log(0.5 * (self.below + self.above) * np.sqrt(2 * np.pi))

    def log_slope(self, value: Array) -> Array:
        """log θ: θ = eᵘ."""
        return namespace(value).log(value)

    def on_host(self, shape: tuple[int, ...] | None = None) -> OnHost:
        """Σ log_prob as a function of log θ, with its gradient, in NumPy."""
        each = self.mode if shape is None else np.broadcast_to(self.mode, shape)
        mode, below, above = np.log(np.ravel(each)), float(self.below), float(self.above)

        def penalty(logs: np.ndarray) -> tuple[float, np.ndarray]:
            z = logs - mode
            spread = np.where(z < 0, below, above)
            return -0.5 * float(np.sum((z / spread) ** 2)), -z / spread**2

        return penalty


class NormalPenalty(Penalty):
    """What a real number typically is: a penalty ½((θ - center)/spread)²."""

    center: Float[Array, "..."]
    spread: Float[Array, "..."]

    def __init__(self, center: ArrayLike, spread: ArrayLike):
        self.center, self.spread = as_float(center), as_float(spread)

    def log_prob(self, value: Array) -> Array:
        """-½((θ - center)/spread)², up to a constant."""
        return -0.5 * ((value - self.center) / self.spread) ** 2

    @property
    def log_mass(self) -> Array:
        """log ∫ exp(log_prob) dθ, for each number."""
        return namespace(self).log(self.spread * np.sqrt(2 * np.pi))

    def on_host(self, shape: tuple[int, ...]) -> OnHost:
        """Σ log_prob as a function of θ, flat, with its gradient, in NumPy."""
        center, spread = (np.broadcast_to(v, shape).ravel() for v in (self.center, self.spread))

        def penalty(values: np.ndarray) -> tuple[float, np.ndarray]:
            z = (values - center) / spread
            return -0.5 * float(z @ z), -z / spread

        return penalty

    def log_slope(self, value: Array) -> Array:
        """Zero: θ = u."""
        return 0.0 * value


class LogitPenalty(Penalty):
    """What a number in (0, 1) typically is: a penalty ½((logit θ - logit mode)/spread)²."""

    mode: Float[Array, "*k"]
    spread: Float[Array, ""]

    def __init__(self, mode: ArrayLike, spread: ArrayLike):
        self.mode, self.spread = as_float(mode), as_float(spread)

    def log_prob(self, value: Array) -> Array:
        """-½((logit θ - logit mode)/spread)², up to a constant."""
        xp = namespace(value, self)
        u, center = (xp.log(v) - xp.log1p(-v) for v in (value, self.mode))
        return -0.5 * ((u - center) / self.spread) ** 2

    @property
    def log_mass(self) -> Float[Array, ""]:
        """log ∫ exp(log_prob) d logit θ, for one number."""
        return namespace(self).log(self.spread * np.sqrt(2 * np.pi))

    def log_slope(self, value: Array) -> Array:
        """log θ(1 - θ)."""
        xp = namespace(value)
        return xp.log(value) + xp.log1p(-value)

    def on_host(self) -> OnHost:
        """Σ log_prob as a function of logit θ, with its gradient, in NumPy."""
        mode, spread = np.ravel(self.mode), float(self.spread)
        center = np.log(mode) - np.log1p(-mode)

        def penalty(odds: np.ndarray) -> tuple[float, np.ndarray]:
            z = (odds - center) / spread
            return -0.5 * float(np.sum(z**2)), -z / spread

        return penalty
