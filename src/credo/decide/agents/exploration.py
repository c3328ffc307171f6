"""How an agent chooses among actions whose values it is unsure of.

A rule says π(a | s): compiled, for the rows q (g, a) and visits n (g, a) of g experiments at once, and in plain Python
for one. A uniform number u then picks the action at which the cumulative probabilities pass it. Sutton & Barto (2018),
chapter 2.
"""

import bisect
import itertools
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import SupportsFloat

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int

from credo.core.checks import check_array, check_real
from credo.core.errors import DataError
from credo.infer.schedules import ConstantSchedule, Schedule, as_schedule

Rows = Float[Array, "g a"]
States = Int[Array, " g"]
Time = Int[Array, ""] | int
Plain = Callable[[list[float], list[int], int, int], list[float]]
"""(q, n, t, s) → π(a | s) of all actions."""


class Exploration(eqx.Module):
    """A rule π(a | s) from values and visits of the actions in a state, and the time t."""

    @abstractmethod
    def probabilities(self, q: Rows, n: Rows, t: Time, s: States) -> Rows:
        """π(a | s) for each experiment."""

    @abstractmethod
    def plain(self) -> Plain:
        """The same for one experiment in plain Python."""

    def check(self, states: int, actions: int) -> None:
        """`DataError` where the rule is not one for so many states and actions."""

    def choose(self, q: Rows, n: Rows, u: Float[Array, " g"], t: Time, s: States) -> Int[Array, " g"]:
        """An action for each experiment: by the inverse of the cumulative probabilities."""
        total = jnp.cumsum(self.probabilities(q, n, t, s), axis=1)
        passed = jnp.sum((total <= (u * total[:, -1])[:, None]).astype(jnp.int32), axis=1)
        return jnp.minimum(passed, q.shape[1] - 1).astype(jnp.int32)

    def expect(self, q: Rows, n: Rows, t: Time, s: States) -> Float[Array, " g"]:
        """Σₐ π(a | s) Q(s, a)."""
        return jnp.sum(self.probabilities(q, n, t, s) * q, axis=1)

    def chooser(self) -> Callable[[list[float], list[int], float, int, int], int]:
        """`choose` for one experiment in plain Python: (q, n, u, t, s) → action."""
        plain, accumulate, pick = self.plain(), itertools.accumulate, bisect.bisect_right

        def choose(q: list[float], n: list[int], u: float, t: int, s: int) -> int:
            total = list(accumulate(plain(q, n, t, s)))
            return min(pick(total, u * total[-1]), len(q) - 1)

        return choose

    def expecter(self) -> Callable[[list[float], list[int], int, int], float]:
        """`expect` for one experiment in plain Python: (q, n, t, s) → value."""
        plain = self.plain()
        return lambda q, n, t, s: sum(p * v for p, v in zip(plain(q, n, t, s), q, strict=True))


class EpsilonGreedy(Exploration):
    """With probability εₜ any action, else the best one, or one of the best.

    Every action is tried for ever where Σ εₜ = ∞, and the rule becomes greedy where εₜ → 0 ("greedy in the limit with
    infinite exploration"). Singh, Jaakkola, Littman & Szepesvári (2000).
    """

    epsilon: Schedule

    def __init__(self, epsilon: Schedule | float = 0.1) -> None:
        self.epsilon = as_schedule(epsilon, "epsilon")
        if float(self.epsilon(0)) > 1:
            raise DataError(f"epsilon must be a probability, found {float(self.epsilon(0)):g} at the start")

    def probabilities(self, q: Rows, n: Rows, t: Time, s: States) -> Rows:
        """ε/a, and 1 - ε shared by the best."""
        epsilon = self.epsilon(t)
        return epsilon / q.shape[1] + (1 - epsilon) * _shared(q)

    def plain(self) -> Plain:
        """The same in plain Python."""
        epsilon_at = self.epsilon.function()

        def plain(q: list[float], n: list[int], t: int, s: int) -> list[float]:
            epsilon, top = epsilon_at(t), max(q)
            least = epsilon / len(q)
            most = least + (1 - epsilon) / q.count(top)
            return [most if value == top else least for value in q]

        return plain


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

    def probabilities(self, q: Rows, n: Rows, t: Time, s: States) -> Rows:
        """exp(Q/temperature), normalized; below 1e-300 it is zero for all that matters, and 0/0 must not be."""
        weights = jnp.exp((q - jnp.max(q, axis=1, keepdims=True)) / jnp.maximum(self.temperature(t), 1e-300))
        return weights / jnp.sum(weights, axis=1, keepdims=True)

    def plain(self) -> Plain:
        """The same in plain Python."""
        temperature_at, exp = self.temperature.function(), math.exp

        def plain(q: list[float], n: list[int], t: int, s: int) -> list[float]:
            top, heat = max(q), max(temperature_at(t), 1e-300)
            weights = [exp((value - top) / heat) for value in q]
            total = sum(weights)
            return [weight / total for weight in weights]

        return plain


class UCB(Exploration):
    """argmaxₐ Q(s, a) + c √(log(1 + n(s))/n(s, a)), actions that were never tried first.

    Auer, Cesa-Bianchi & Fischer (2002). `c` is in the units of the values.
    """

    c: float

    def __init__(self, c: SupportsFloat = 1.0) -> None:
        self.c = check_real(c, "c", 0)

    def probabilities(self, q: Rows, n: Rows, t: Time, s: States) -> Rows:
        """One, shared by the actions with the best bound."""
        visits = jnp.log1p(jnp.sum(n, axis=1, keepdims=True))
        return _shared(jnp.where(n > 0, q + self.c * jnp.sqrt(visits / jnp.maximum(n, 1)), jnp.inf))

    def plain(self) -> Plain:
        """The same in plain Python."""
        c, sqrt = self.c, math.sqrt

        def plain(q: list[float], n: list[int], t: int, s: int) -> list[float]:
            visits = math.log1p(sum(n))
            bounds = [value + c * sqrt(visits / k) if k else math.inf for value, k in zip(q, n, strict=True)]
            top = max(bounds)
            share = 1 / bounds.count(top)
            return [share if bound == top else 0.0 for bound in bounds]

        return plain


class FixedPolicy(Exploration):
    """A given policy, whatever the values: an action for each state (s,), or probabilities (s, a).

    As `explore` of `SARSA` the values learned are Q^π; as `target` of `ExpectedSARSA` too, whatever acts.
    """

    policy: Int[np.ndarray | Array, " s"] | Float[np.ndarray | Array, "s a"]

    def __init__(self, policy: object) -> None:
        given = check_array(policy, "policy")
        whole, shares = given.dtype.kind in "iu" and given.ndim == 1, given.dtype.kind in "fiu" and given.ndim == 2
        good = whole or (shares and (given >= 0).all() and np.allclose(given.sum(axis=1), 1))
        if not good or not given.size or given.min() < 0:
            raise DataError(
                f"a policy is an action for each state, or probabilities (s, a) that sum to 1, found {given.dtype} of "
                f"the shape {given.shape}"
            )
        self.policy = given.astype(np.int64 if whole else float)

    def check(self, states: int, actions: int) -> None:
        """Whether it is a policy for so many states and actions."""
        fits = self.policy.shape == ((states, actions) if self.policy.ndim == 2 else (states,))
        if not fits or (self.policy.ndim == 1 and int(self.policy.max()) >= actions):
            raise DataError(
                f"policy must be {states} actions from 0 to {actions - 1} or probabilities of the shape "
                f"{(states, actions)}, found the shape {self.policy.shape} with entries up to {self.policy.max()}"
            )

    def probabilities(self, q: Rows, n: Rows, t: Time, s: States) -> Rows:
        """The rows of the policy."""
        chosen = jnp.asarray(self.policy)[s]
        return chosen if self.policy.ndim == 2 else (jnp.arange(q.shape[1]) == chosen[:, None]).astype(q.dtype)

    def plain(self) -> Plain:
        """The same in plain Python."""
        rows = self.policy.tolist()
        if self.policy.ndim == 2:
            return lambda q, n, t, s: rows[s]
        return lambda q, n, t, s: [float(a == rows[s]) for a in range(len(q))]


def _shared(q: Rows) -> Rows:
    """One in each row, shared by its largest entries."""
    best = (q == jnp.max(q, axis=1, keepdims=True)).astype(float)
    return best / jnp.sum(best, axis=1, keepdims=True)


def as_exploration(given: object, name: str = "explore") -> Exploration:
    """The rule, an array of actions or probabilities as a fixed policy, or an error that says what a rule is."""
    if isinstance(given, Exploration):
        return given
    if isinstance(given, list | tuple | np.ndarray | Array):
        return FixedPolicy(given)
    raise DataError(f"{name} must be a rule such as EpsilonGreedy(0.1), or a policy, found {given!r}")
