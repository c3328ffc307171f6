"""Explicit durations: how long a state lasts has a law of its own, instead of the geometric one.

A state that is entered stays τ = 1 … D steps with probability d(τ), then another one follows (a semi-Markov chain).
With the age e of the visit as part of the state it is an HMM again, on k·D states with tied densities:

    h(e) = d(e)/Σ_{τ≥e} d(τ),    (i, e) → (j, 1) with h_i(e) A_ij,    (i, e) → (i, e + 1) with 1 - h_i(e)

where A is the law of the next state, another one. Yu (2010), "Hidden semi-Markov models".
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core.arrays import Array
from credo.core.checks import ArrayLike, check_probabilities
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.models.densities.base import Density, Inputs, IsConjugate, Observed
from credo.models.hmm.belief import HMM


def _of_density(name: str) -> Callable[..., Any]:
    """The density's own."""
    return lambda self, *args, **options: getattr(self.density, name)(*args, **options)


def _tied(name: str) -> Callable[..., Any]:
    """The density's own, with ages."""
    return lambda self, *args, **options: Tied(getattr(self.density, name)(*args, **options), self.ages)


class Tied(IsConjugate[object, object]):
    """Components in groups of `ages` neighbours that are the same: number s is number s // ages of `density`.

    What the density can do, it can: what is of rows or components is repeated for, or summed over, the ages.
    """

    ages: int = eqx.field(static=True)
    density: Any

    def __init__(self, density: Density, ages: int):
        self.k = None if density.k is None else density.k * ages
        self.columns, self.ages, self.density = density.columns, ages, density

    able, check, log_prior = (_of_density(name) for name in ("able", "check", "log_prior"))
    variational_posterior, kl_to_prior = (_of_density(name) for name in ("variational_posterior", "kl_to_prior"))
    adapt, maximize, draw, posterior_mean = (_tied(name) for name in ("adapt", "maximize", "draw", "posterior_mean"))

    @property
    def uses_inputs(self) -> bool:
        """Whether the density does."""
        return bool(self.density.uses_inputs)

    def resized(self, k: int, columns: int) -> "Tied":
        """The same, where the numbers agree."""
        if k % self.ages:
            raise DataError(f"states must be a multiple of the {self.ages} ages, found {k}")
        return Tied(self.density.resized(k // self.ages, columns), self.ages)

    def log_prob(self, data: Observed) -> Float[Array, "n s"]:
        """That of the density, for every age."""
        return self.density.log_prob(data).repeat(self.ages, axis=1)

    def expected_log_prob(self, q: object, data: Observed) -> Float[Array, "n s"]:
        """That of the density, for every age."""
        return self.density.expected_log_prob(q, data).repeat(self.ages, axis=1)

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """That of the density, whatever the age."""
        return self.density.sample(key, which // self.ages, inputs)

    def draw_statistics(self, key: PRNGKeyArray, data: Observed, which: Int[Array, " n"]) -> object:
        """Those of the density, whatever the age."""
        return self.density.draw_statistics(key, data, which // self.ages)

    def predictive(self, probs: Float[Array, "n s"], inputs: Inputs = None) -> Predictive:
        """That of the density, with the probabilities of all ages."""
        return self.density.predictive(self._summed(probs), inputs)

    def expected_statistics(self, data: Observed, weight: Float[Array, "n s"]) -> object:
        """Those of the density, with the weights of all ages."""
        return self.density.expected_statistics(data, self._summed(weight))

    def expected_statistics_under(self, q: object, data: Observed, weight: Float[Array, "n s"]) -> object:
        """Those of the density, with the weights of all ages."""
        return self.density.expected_statistics_under(q, data, self._summed(weight))

    def _summed(self, weight: Float[Array, "n s"]) -> Float[Array, "n k"]:
        return weight.reshape(weight.shape[0], -1, self.ages).sum(axis=-1)


def explicit_durations(hmm: HMM, durations: ArrayLike) -> HMM:
    """The HMM whose states last as `durations` say, on states (state, age): state s of it is s // D of `hmm`.

    Args:
        hmm: gives start, emission, and by its transition matrix which state follows, once a visit has ended: its
            diagonal does not count.
        durations: (k, D), the probabilities that a visit lasts 1 … D steps; rows sum to one.

    Names of states become (name, age). Learning keeps what is impossible impossible; `fixed=["start", "transition"]`
    holds the durations.
    """
    start_law, transition = hmm._chain
    k, ages = len(hmm.states), np.shape(durations)[-1]
    table = check_probabilities(durations, "durations", (k, ages))
    follows = np.asarray(transition) * (1 - np.eye(k))
    if np.any(follows.sum(1) <= 0):
        raise DataError(
            f"state {hmm.states[int(np.argmin(follows.sum(1)))]!r} is never left: once a visit ends another state must "
            "follow; give its row of the transition matrix an entry off the diagonal"
        )
    follows = follows / follows.sum(1, keepdims=True)
    left = np.cumsum(table[:, ::-1], axis=1)[:, ::-1]
    # An age that is never reached ends at once, which keeps its row a law.
    hazard = np.where(left > 0, table / np.where(left > 0, left, 1.0), 1.0)
    hazard[:, -1] = 1.0
    wide = np.zeros((k, ages, k, ages))
    wide[:, :, :, 0] = hazard[:, :, None] * follows[:, None, :]
    state, age = np.meshgrid(np.arange(k), np.arange(ages - 1), indexing="ij")
    wide[state, age, state, age + 1] = 1 - hazard[:, :-1]
    start = np.zeros((k, ages))
    start[:, 0] = np.asarray(start_law)
    return changed(
        hmm,
        emission=Tied(hmm.emission, ages),
        start=start.ravel(),
        transition=wide.reshape(k * ages, k * ages),
        states=tuple((name, e) for name in hmm.states for e in range(1, ages + 1)),
        state=None,
    )
