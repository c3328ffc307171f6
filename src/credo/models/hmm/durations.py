"""Explicit durations: how long a state lasts has a law of its own, instead of the geometric one.

A state that is entered stays τ = 1 … D steps with probability d(τ), then another one follows (a semi-Markov chain).
With the age e of the visit as part of the state it is an HMM again, on k·D states with tied emissions:

    h(e) = d(e)/Σ_{τ≥e} d(τ),    (i, e) → (j, 1) with h_i(e) A_ij,    (i, e) → (i, e + 1) with 1 - h_i(e)

where A is the law of the next state, another one. Yu (2010), "Hidden semi-Markov models".
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from credo.core.arrays import put
from credo.core.checks import check_table
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.models.densities.base import Emission
from credo.models.hmm.belief import HMM


class Tied(Emission):
    """States in groups of `ages` neighbours that show the same: state s has the emission of s // ages."""

    states: int | None = eqx.field(static=True)
    columns: int | None = eqx.field(static=True)
    ages: int = eqx.field(static=True)
    emission: Emission

    def __init__(self, emission: Emission, ages: int):
        self.states = None if emission.states is None else emission.states * ages
        self.columns, self.ages, self.emission = emission.columns, ages, emission

    def for_states(self, states: int, columns: int) -> "Tied":
        """The same, where the numbers agree."""
        if states % self.ages:
            raise DataError(f"states must be a multiple of the {self.ages} ages, found {states}")
        return Tied(self.emission.for_states(states // self.ages, columns), self.ages)

    def check(self, x: np.ndarray, seen: np.ndarray) -> None:
        """As the emission does."""
        self.emission.check(x, seen)

    def prepare(self, x: np.ndarray, seen: np.ndarray, inputs: np.ndarray | None, seed: int) -> "Tied":
        """As the emission does."""
        return Tied(self.emission.prepare(x, seen, inputs, seed), self.ages)

    def _repeated(self, table: Float[Array, "t k"]) -> Float[Array, "t s"]:
        return jnp.repeat(table, self.ages, axis=1)

    def _summed(self, weight: Float[Array, "t s"]) -> Float[Array, "t k"]:
        return jnp.sum(weight.reshape(weight.shape[0], -1, self.ages), axis=-1)

    def log_prob(
        self, x: Float[Array, "t d"], seen: Bool[Array, "t d"], inputs: Any = None, *, complete: bool = False
    ) -> Float[Array, "t s"]:
        """That of the emission, for every age."""
        return self._repeated(self.emission.log_prob(x, seen, inputs, complete=complete))

    def expect(
        self,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        weight: Float[Array, "t s"],
        inputs: Any = None,
        *,
        complete: bool = False,
    ) -> Any:
        """Those of the emission, with the weights of all ages."""
        return self.emission.expect(x, seen, self._summed(weight), inputs, complete=complete)

    def maximize(self, statistics: Any) -> "Tied":
        """That of the emission."""
        return Tied(self.emission.maximize(statistics), self.ages)

    def log_prior(self) -> Float[Array, ""]:
        """That of the emission."""
        return self.emission.log_prior()

    def draw(self, key: PRNGKeyArray, statistics: Any) -> "Tied":
        """That of the emission."""
        return Tied(self.emission.draw(key, statistics), self.ages)

    def draw_statistics(
        self,
        key: PRNGKeyArray,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        states: Int[Array, " t"],
        inputs: Any = None,
        *,
        complete: bool = False,
    ) -> Any:
        """Those of the emission on the path without ages."""
        return self.emission.draw_statistics(key, x, seen, states // self.ages, inputs, complete=complete)

    def believe(self, statistics: Any) -> Any:
        """That of the emission."""
        return self.emission.believe(statistics)

    def expected_log_prob(
        self, q: Any, x: Float[Array, "t d"], seen: Bool[Array, "t d"], inputs: Any = None, *, complete: bool = False
    ) -> Float[Array, "t s"]:
        """That of the emission, for every age."""
        return self._repeated(self.emission.expected_log_prob(q, x, seen, inputs, complete=complete))

    def expect_under(
        self,
        q: Any,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        weight: Float[Array, "t s"],
        inputs: Any = None,
        *,
        complete: bool = False,
    ) -> Any:
        """Those of the emission, with the weights of all ages."""
        return self.emission.expect_under(q, x, seen, self._summed(weight), inputs, complete=complete)

    def divergence(self, q: Any) -> Float[Array, ""]:
        """That of the emission."""
        return self.emission.divergence(q)

    def center(self, q: Any) -> "Tied":
        """That of the emission."""
        return Tied(self.emission.center(q), self.ages)

    def sample(self, key: PRNGKeyArray, states: Int[Array, " t"], inputs: Any = None) -> Float[Array, "t d"]:
        """That of the emission on the path without ages."""
        return self.emission.sample(key, states // self.ages, inputs)

    def predictive(self, probs: Float[Array, "m s"], inputs: Any = None) -> Predictive:
        """That of the emission, with the probabilities of all ages."""
        return self.emission.predictive(self._summed(probs), inputs)


def explicit_durations(hmm: HMM, durations: Any) -> HMM:
    """The HMM whose states last as `durations` say, on states (state, age): state s of it is s // D of `hmm`.

    Args:
        hmm: gives start, emission, and by its transition matrix which state follows, once a visit has ended: its
            diagonal does not count.
        durations: (k, D), the probabilities that a visit lasts 1 … D steps; rows sum to one.

    Names of states become (name, age). Learning keeps what is impossible impossible; `fixed=["start", "transition"]`
    holds the durations.
    """
    model: Any = hmm.known()
    table = np.asarray(check_table(durations, "durations"))
    k, ages = len(hmm.states), table.shape[1]
    if table.shape[0] != k or np.any(table < 0) or not np.allclose(table.sum(1), 1.0, rtol=0, atol=1e-8):
        raise DataError(
            f"durations must have a row of probabilities that sum to 1 for each of {k} states, found shape "
            f"{table.shape} and sums {np.round(table.sum(1), 6).tolist()}"
        )
    follows = np.asarray(model.transition) * (1 - np.eye(k))
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
    start[:, 0] = np.asarray(model.start)
    return changed(
        hmm,
        emission=Tied(hmm.emission, ages),
        start=put(start.ravel()),
        transition=put(wide.reshape(k * ages, k * ages)),
        states=tuple((name, e) for name in hmm.states for e in range(1, ages + 1)),
        state=None,
    )
