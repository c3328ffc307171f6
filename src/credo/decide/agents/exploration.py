"""How an agent chooses among actions whose values it is unsure of.

Each rule turns one uniform number u into an action: compiled, for the rows q (g, a) and visits n (g, a) of g
experiments at once, and in plain Python for one. Ties are broken at random: the first of the best actions, counted
from a random one around the circle. Sutton & Barto (2018), chapter 2.
"""

import bisect
import itertools
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import SupportsFloat

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from credo.core.errors import DataError
from credo.decide.agents.schedules import ConstantSchedule, Schedule, as_schedule

Rows = Float[Array, "g a"]
Time = Int[Array, ""] | int
Choose = Callable[[list[float], list[int], float, int], int]
Expect = Callable[[list[float], list[int], int], float]


class Exploration(eqx.Module):
    """A rule π(a | s) from values and visits of the actions in a state, and the time t."""

    @abstractmethod
    def choose(self, q: Rows, n: Rows, u: Float[Array, " g"], t: Time) -> Int[Array, " g"]:
        """An action for each experiment."""

    @abstractmethod
    def expect(self, q: Rows, n: Rows, t: Time) -> Float[Array, " g"]:
        """Σₐ π(a | s) Q(s, a)."""

    @abstractmethod
    def chooser(self) -> Choose:
        """`choose` for one experiment in plain Python: (q, n, u, t) → action."""

    @abstractmethod
    def expecter(self) -> Expect:
        """`expect` for one experiment in plain Python: (q, n, t) → value."""


class EpsilonGreedy(Exploration):
    """With probability εₜ any action, else the best one.

    Every action is tried for ever where Σ εₜ = ∞, and the rule becomes greedy where εₜ → 0 ("greedy in the limit with
    infinite exploration"). Singh, Jaakkola, Littman & Szepesvári (2000).
    """

    epsilon: Schedule

    def __init__(self, epsilon: Schedule | float = 0.1) -> None:
        self.epsilon = as_schedule(epsilon, "epsilon")
        if float(self.epsilon(0)) > 1:
            raise DataError(f"epsilon must be a probability, found {float(self.epsilon(0)):g} at the start")

    def choose(self, q: Rows, n: Rows, u: Float[Array, " g"], t: Time) -> Int[Array, " g"]:
        """u < ε: any; the rest of u breaks ties."""
        epsilon = self.epsilon(t)
        a = q.shape[1]
        greedy = u >= epsilon
        rest = jnp.where(greedy, (u - epsilon) / (1 - epsilon), u / epsilon)
        turn = jnp.minimum((rest * a).astype(jnp.int32), a - 1)
        return jnp.where(greedy, first_best(q, turn), turn)

    def expect(self, q: Rows, n: Rows, t: Time) -> Float[Array, " g"]:
        """(1 - ε) max Q + ε mean Q."""
        epsilon = self.epsilon(t)
        return (1 - epsilon) * jnp.max(q, axis=1) + epsilon * jnp.mean(q, axis=1)

    def chooser(self) -> Choose:
        """The same in plain Python."""
        epsilon_at = self.epsilon.function()
        fixed = epsilon_at(0) if isinstance(self.epsilon, ConstantSchedule) else None

        def choose(q: list[float], n: list[int], u: float, t: int) -> int:
            epsilon = epsilon_at(t) if fixed is None else fixed
            if u < epsilon:
                return min(int(u / epsilon * len(q)), len(q) - 1)
            top = max(q)
            if q.count(top) == 1:
                return q.index(top)
            return first_of(q, top, (u - epsilon) / (1 - epsilon))

        return choose

    def expecter(self) -> Expect:
        """The same in plain Python."""
        epsilon_at = self.epsilon.function()

        def expect(q: list[float], n: list[int], t: int) -> float:
            epsilon = epsilon_at(t)
            return (1 - epsilon) * max(q) + epsilon * (sum(q) / len(q))

        return expect


class Greedy(EpsilonGreedy):
    """The best action, always: explores only as far as optimistic values make it."""

    def __init__(self) -> None:
        self.epsilon = ConstantSchedule(0.0)


class SoftmaxExploration(Exploration):
    """π(a | s) ∝ exp(Q(s, a)/temperature)."""

    temperature: Schedule

    def __init__(self, temperature: Schedule | float = 1.0) -> None:
        self.temperature = as_schedule(temperature, "temperature")
        if not float(self.temperature(0)) > 0:
            raise DataError("temperature must be positive; for none take Greedy()")

    def _weights(self, q: Rows, t: Time) -> Rows:
        # Below 1e-300 the temperature is zero for all that matters, and 0/0 must not be.
        return jnp.exp((q - jnp.max(q, axis=1, keepdims=True)) / jnp.maximum(self.temperature(t), 1e-300))

    def choose(self, q: Rows, n: Rows, u: Float[Array, " g"], t: Time) -> Int[Array, " g"]:
        """By the inverse of the cumulative probabilities."""
        total = jnp.cumsum(self._weights(q, t), axis=1)
        passed = jnp.sum((total <= (u * total[:, -1])[:, None]).astype(jnp.int32), axis=1)
        return jnp.minimum(passed, q.shape[1] - 1).astype(jnp.int32)

    def expect(self, q: Rows, n: Rows, t: Time) -> Float[Array, " g"]:
        """Σ π Q."""
        weights = self._weights(q, t)
        return jnp.sum(weights * q, axis=1) / jnp.sum(weights, axis=1)

    def chooser(self) -> Choose:
        """The same in plain Python."""
        temperature_at, exp = self.temperature.function(), math.exp

        def choose(q: list[float], n: list[int], u: float, t: int) -> int:
            top, heat = max(q), max(temperature_at(t), 1e-300)
            total = list(itertools.accumulate(exp((value - top) / heat) for value in q))
            return min(bisect.bisect_right(total, u * total[-1]), len(q) - 1)

        return choose

    def expecter(self) -> Expect:
        """The same in plain Python."""
        temperature_at, exp = self.temperature.function(), math.exp

        def expect(q: list[float], n: list[int], t: int) -> float:
            top, heat = max(q), max(temperature_at(t), 1e-300)
            weights = [exp((value - top) / heat) for value in q]
            return sum(w * value for w, value in zip(weights, q, strict=True)) / sum(weights)

        return expect


class UCB(Exploration):
    """argmaxₐ Q(s, a) + c √(log(1 + n(s))/n(s, a)), actions that were never tried first.

    Auer, Cesa-Bianchi & Fischer (2002). `c` is in the units of the values.
    """

    c: float

    def __init__(self, c: SupportsFloat = 1.0) -> None:
        self.c = float(c)
        if not 0 <= self.c < float("inf"):
            raise DataError(f"c must be a finite number ≥ 0, found {c!r}")

    def _scores(self, q: Rows, n: Rows) -> Rows:
        visits = jnp.log1p(jnp.sum(n, axis=1, keepdims=True))
        return jnp.where(n > 0, q + self.c * jnp.sqrt(visits / jnp.maximum(n, 1)), jnp.inf)

    def choose(self, q: Rows, n: Rows, u: Float[Array, " g"], t: Time) -> Int[Array, " g"]:
        """The best bound; u breaks ties."""
        a = q.shape[1]
        return first_best(self._scores(q, n), jnp.minimum((u * a).astype(jnp.int32), a - 1))

    def expect(self, q: Rows, n: Rows, t: Time) -> Float[Array, " g"]:
        """Q of the first action with the best bound."""
        chosen = jnp.argmax(self._scores(q, n), axis=1)
        return jnp.take_along_axis(q, chosen[:, None], axis=1)[:, 0]

    def _score_list(self, q: list[float], n: list[int]) -> list[float]:
        visits = math.log1p(sum(n))
        return [value + self.c * math.sqrt(visits / k) if k else math.inf for value, k in zip(q, n, strict=True)]

    def chooser(self) -> Choose:
        """The same in plain Python."""
        scores_of = self._score_list

        def choose(q: list[float], n: list[int], u: float, t: int) -> int:
            scores = scores_of(q, n)
            return first_of(scores, max(scores), u)

        return choose

    def expecter(self) -> Expect:
        """The same in plain Python."""
        scores_of = self._score_list

        def expect(q: list[float], n: list[int], t: int) -> float:
            scores = scores_of(q, n)
            return q[scores.index(max(scores))]

        return expect


def first_best(q: Rows, turn: Int[Array, " g"]) -> Int[Array, " g"]:
    """The first of the largest entries of each row, counted from `turn` around the circle."""
    a = q.shape[1]
    ahead = jnp.arange(a, dtype=jnp.int32)[None, :] - turn[:, None]
    ahead = jnp.where(ahead < 0, ahead + a, ahead)
    place = jnp.min(jnp.where(q == jnp.max(q, axis=1)[:, None], ahead, a - 1), axis=1) + turn
    return jnp.where(place >= a, place - a, place).astype(jnp.int32)


def first_of(q: list[float], top: float, u: float) -> int:
    """The same in plain Python; `top` is the largest entry, and u gives the turn."""
    turn = min(int(u * len(q)), len(q) - 1)
    rotated = q[turn:] + q[:turn]
    return (rotated.index(top) + turn) % len(q)


def check_exploration(given: object, name: str = "explore") -> Exploration:
    """The rule, or an error that says what one is."""
    if not isinstance(given, Exploration):
        raise DataError(f"{name} must be a rule such as EpsilonGreedy(0.1), found {given!r}")
    return given
