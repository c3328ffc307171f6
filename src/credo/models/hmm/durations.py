"""Explicit durations: how long a state lasts has a law of its own, instead of the geometric one.

A state that is entered stays τ = 1 … D steps with probability d(τ), then another one follows (a semi-Markov chain).
With the age e of the visit as part of the state it is an HMM again, on k·D states with tied densities:

    h(e) = d(e)/Σ_{τ≥e} d(τ),    (i, e) → (j, 1) with h_i(e) A_ij,    (i, e) → (i, e + 1) with 1 - h_i(e)

where A is the law of the next state, another one. Yu (2010), "Hidden semi-Markov models".
"""

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


class Tied(IsConjugate[object, object]):
    """Components in groups of `ages` neighbours that are the same: number s is number s // ages of `density`."""

    ages: int = eqx.field(static=True)
    density: Density

    def __init__(self, density: Density, ages: int):
        self.k = None if density.k is None else density.k * ages
        self.columns, self.ages, self.density = density.columns, ages, density

    def resized(self, k: int, columns: int) -> "Tied":
        """The same, where the numbers agree."""
        if k % self.ages:
            raise DataError(f"states must be a multiple of the {self.ages} ages, found {k}")
        return Tied(self.density.resized(k // self.ages, columns), self.ages)

    def able(self, ability: type) -> bool:
        """What the density can do."""
        return self.density.able(ability)

    def check(self, data: Observed) -> None:
        """As the density does."""
        self.density.check(data)

    def adapt(self, data: Observed, *, seed: int = 0) -> "Tied":
        """As the density does."""
        return Tied(self.density.adapt(data, seed=seed), self.ages)

    def log_prob(self, data: Observed) -> Float[Array, "n s"]:
        """That of the density, for every age."""
        return self._repeated(self.density.log_prob(data))

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """That of the density, whatever the age."""
        return self.density.sample(key, which // self.ages, inputs)

    def predictive(self, probs: Float[Array, "n s"], inputs: Inputs = None) -> Predictive:
        """That of the density, with the probabilities of all ages."""
        return self.density.predictive(self._summed(probs), inputs)

    def expected_statistics(self, data: Observed, weight: Float[Array, "n s"]) -> object:
        """Those of the density, with the weights of all ages."""
        return self._conjugate.expected_statistics(data, self._summed(weight))

    def maximize(self, statistics: object) -> "Tied":
        """That of the density."""
        return Tied(self._conjugate.maximize(statistics), self.ages)

    def log_prior(self) -> Float[Array, ""]:
        """That of the density."""
        return self._conjugate.log_prior()

    def draw_statistics(self, key: PRNGKeyArray, data: Observed, which: Int[Array, " n"]) -> object:
        """Those of the density, whatever the age."""
        return self._conjugate.draw_statistics(key, data, which // self.ages)

    def draw(self, key: PRNGKeyArray, statistics: object) -> "Tied":
        """That of the density."""
        return Tied(self._conjugate.draw(key, statistics), self.ages)

    def variational_posterior(self, statistics: object) -> object:
        """That of the density."""
        return self._conjugate.variational_posterior(statistics)

    def expected_log_prob(self, q: object, data: Observed) -> Float[Array, "n s"]:
        """That of the density, for every age."""
        return self._repeated(self._conjugate.expected_log_prob(q, data))

    def expected_statistics_under(self, q: object, data: Observed, weight: Float[Array, "n s"]) -> object:
        """Those of the density, with the weights of all ages."""
        return self._conjugate.expected_statistics_under(q, data, self._summed(weight))

    def kl_to_prior(self, q: object) -> Float[Array, ""]:
        """That of the density."""
        return self._conjugate.kl_to_prior(q)

    def posterior_mean(self, q: object) -> "Tied":
        """That of the density."""
        return Tied(self._conjugate.posterior_mean(q), self.ages)

    @property
    def _conjugate(self) -> Any:
        """The density as what `able` says it is."""
        return self.density

    def _repeated(self, table: Float[Array, "n k"]) -> Float[Array, "n s"]:
        return table.repeat(self.ages, axis=1)

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
