"""A belief state: probabilities of the hidden state, which actions and observations move by Bayes' rule.

b'(s') = P(o | a, s') Σ P(s' | s, a) b(s) / P(o | b, a).  Kaelbling, Littman & Cassandra (1998), section 3.3. It is the
filter of a hidden Markov model whose transitions the actions choose.
"""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.predictive import Categorical
from credo.core.predictive.classes import entropy_of
from credo.decide.pomdp.model import POMDP


class Seen(NamedTuple):
    """What was done and what was seen then, as numbers."""

    action: int
    observation: int


class BeliefState(Belief[Seen]):
    """What is known of the hidden state.

    belief = pomdp.belief()
    belief = belief.condition("listen", "tiger-left")
    belief["tiger-left"], belief.entropy, belief.predict("listen").probs
    """

    pomdp: POMDP
    probs: Float[np.ndarray, " s"]

    def statistics(self, action: Hashable, observation: Hashable) -> Seen:
        """The numbers of an action and of an observation, from their names or numbers."""
        return Seen(self.pomdp.action(action), self.pomdp.observation(observation))

    def condition_on(self, statistics: Seen) -> "BeliefState":
        """Bayes' rule."""
        joint = self._joint(statistics)
        total = joint.sum()
        if not total > 0:
            seen = self.pomdp.observation_names[statistics.observation]
            did = self.pomdp.action_names[statistics.action]
            raise DataError(f"the observation {seen!r} is impossible after the action {did!r} under this belief")
        return BeliefState(self.pomdp, joint / total)

    def evidence_of(self, statistics: Seen) -> Float[Array, ""]:
        """log P(o | b, a)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._joint(statistics).sum()))

    def log_evidence_of(self, statistics: Seen) -> Float[Array, ""]:
        """As it is: sparse sums are not compiled."""
        return self.evidence_of(statistics)

    def after(self, action: Hashable) -> "BeliefState":
        """The belief after an action of which nothing was seen yet."""
        return BeliefState(self.pomdp, self.probs @ self.pomdp.transitions[self.pomdp.action(action)])

    def predict(self, action: Hashable) -> Categorical:
        """What will be seen after an action: P(o | b, a), in the order of `pomdp.observation_names`.

        Its doubt is epistemic as far as knowing the next state would take it away.
        """
        k = self.pomdp.action(action)
        shows, states = self.pomdp.observations[k], self.after(k).probs
        rows = np.zeros(len(states))
        np.add.at(rows, np.repeat(np.arange(len(states)), np.diff(shows.indptr)), -shows.data * np.log(shows.data))
        return Categorical(states @ shows, states @ rows)

    def reward(self, action: Hashable) -> float:
        """What the action is expected to pay, Σ b(s) r(s, a)."""
        return float(self.probs @ self.pomdp.rewards[:, self.pomdp.action(action)])

    @property
    def entropy(self) -> float:
        """-Σ b(s) log b(s): how little is known of the state."""
        return float(entropy_of(self.probs))

    @property
    def mode(self) -> Hashable:
        """The name of the most probable state."""
        return self.pomdp.state_names[int(np.argmax(self.probs))]

    def __getitem__(self, state: Hashable) -> float:
        """The probability of a state, by its name or number."""
        return float(self.probs[self.pomdp.state(state)])

    def _joint(self, seen: Seen) -> Float[np.ndarray, " s"]:
        """P(s', o | b, a)."""
        after = self.probs @ self.pomdp.transitions[seen.action]
        return after * self.pomdp.observations[seen.action][:, [seen.observation]].toarray().ravel()
