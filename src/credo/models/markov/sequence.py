"""A belief about a Markov chain that is only known by its sequences: a Dirichlet distribution for every row.

Given the memory of the last `order` states the next one is a die of its own, so Bayes' rule adds the counts of
transitions to the rows. MacKay & Peto (1995), "A hierarchical Dirichlet language model"; Murphy (2012), section 17.2.2.
"""

import itertools
from collections.abc import Iterable

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core.arrays import Array, as_float, host, is_traced, namespace
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.params import positive
from credo.core.predictive import Categorical, Interval
from credo.core.predictive.base import check_levels
from credo.core.pytrees import changed
from credo.core.special import log_rising
from credo.models.conjugate.base import Conjugate, Statistics, check_parameter
from credo.models.conjugate.binary import beta_interval
from credo.models.conjugate.categorical import expected_die, log_dirichlet
from credo.models.markov import counting
from credo.models.markov.chain import MarkovChain, unfold
from credo.models.markov.counting import Encoded, Names

UNKNOWN = -1
STARTS = ("uniform", "learned")


class TransitionCounts(Statistics):
    """How often each state followed each memory, and each past too short to be one; where the last sequence ended."""

    counts: Float[Array, "r k"] = eqx.field(converter=as_float)
    starts: Float[Array, "b k"] = eqx.field(converter=as_float)
    last: Int[Array, " o"]

    def __add__(self, other: "TransitionCounts") -> "TransitionCounts":
        return TransitionCounts(self.counts + other.counts, self.starts + other.starts, other.last)


class MarkovSequence(Conjugate):
    """p(xₜ = j | r) = θᵣⱼ for each memory r of `order` states, θᵣ ~ Dirichlet(αᵣ), α = concentration + counts.

    Data are sequences of states: one, a list, or a table with one in each row. The first `order` states of a
    sequence have too short a past. With start="uniform" they count as 1/k each; with start="learned" the first state
    is a die of its own, the second one for each first state, and so on, under the same prior: p(x₁…x_order). Either way
    the evidence of beliefs of different order is about the same data. Order 0 is a die without memory.

    Attributes:
        concentration: the pseudo-counts of the prior: one number, one for each next state, or a (k^order, k) table.
        counts: the transitions seen so far; row r = Σⱼ xⱼ k^(order - 1 - j) for the memory x, the most recent last.
        last: the last `order` states of the last sequence, -1 where it was shorter.
        begun: how sequences began: a row for no past, one for each first state, …, 1 + k + … + k^(order - 1) in all.
    """

    counts: Float[Array, "r k"]
    last: Int[Array, " o"]
    begun: Float[Array, "b k"]
    start: str = eqx.field(static=True)
    states: Names = eqx.field(static=True)
    order: int = eqx.field(static=True)
    concentration: Float[Array, "..."] = positive()

    def __init__(
        self,
        states: object,
        order: int = 1,
        concentration: ArrayLike = 1.0,
        *,
        start: str = "uniform",
        counts: ArrayLike = None,
        last: ArrayLike = None,
        begun: ArrayLike = None,
    ) -> None:
        self.states = counting.name_states(states)
        k = len(self.states)
        self.order = counting.check_order(order, k, least=0)
        shape = (k**self.order, k)
        self.concentration = as_float(concentration)
        self.counts = np.zeros(shape) if counts is None else as_float(counts)
        self.last = np.full(self.order, UNKNOWN) if last is None else host(last)
        self.begun = np.zeros((counting.start_rows(k, self.order)[-1], k)) if begun is None else as_float(begun)
        if start not in STARTS:
            raise DataError(f'start must be "uniform" or "learned", found {start!r}')
        self.start = start
        if self.concentration.shape not in ((), (k,), shape):
            raise DataError(
                f"concentration must be one number, {k} of them (one for each state) or a table of shape {shape}, "
                f"found shape {self.concentration.shape}"
            )
        check_parameter(self.concentration, "concentration")

    @property
    def alpha(self) -> Float[Array, "r k"]:
        """α = concentration + counts, the parameters of the Dirichlet distribution of each row."""
        return self.concentration + self.counts

    @property
    def strength(self) -> Float[Array, " r"]:
        """Aᵣ = Σⱼ αᵣⱼ, how many (pseudo-)observations the belief about each row is worth."""
        return self.alpha.sum(-1)

    @property
    def estimate(self) -> Float[Array, "r k"]:
        """αᵣⱼ/Aᵣ, the expected table of transitions."""
        return self.alpha / self.strength[:, None]

    def statistics(self, sequences: ArrayLike, continued: bool = False) -> TransitionCounts:
        """The counts of transitions; with `continued`, the first sequence goes on where the last one ended."""
        codes, lengths = counting.encode(sequences, self.states)
        given = 0
        if continued:
            before = self.last[self.last != UNKNOWN]
            given = len(before)
            codes, lengths = np.concatenate([before, codes]), lengths + given * (np.arange(len(lengths)) == 0)
        whole = Encoded(codes, lengths)
        counts = counting.count_transitions(whole, len(self.states), self.order)
        starts = counting.count_starts(whole, len(self.states), self.order, given)
        tail = codes[len(codes) - min(self.order, int(lengths[-1])) :]
        last = np.concatenate([np.full(self.order - len(tail), UNKNOWN), tail])
        return TransitionCounts(counts, starts, last)

    def condition_on(self, statistics: TransitionCounts) -> "MarkovSequence":
        """Dirichlet(αᵣ + nᵣ) for each row."""
        seen, begun = self.counts + statistics.counts, self.begun + statistics.starts
        return changed(self, counts=seen, last=statistics.last, begun=begun)

    def evidence_of(self, statistics: TransitionCounts) -> Array:
        """Σᵣ log B(αᵣ + nᵣ)/B(αᵣ), of the starts too where they are learned, else 1/k each."""
        total = _log_evidence(self.alpha, statistics.counts)
        if self.start == "learned":
            return total + _log_evidence(self.start_alpha, statistics.starts)
        return total - statistics.starts.sum() * np.log(len(self.states))

    @property
    def start_alpha(self) -> Float[Array, "b k"]:
        """α of the dice of the first `order` states, see `begun`; the prior is that of the rows, or their mean."""
        prior = self.concentration
        return (prior if prior.ndim < 2 else prior.mean(0)) + self.begun

    def unconditioned(self) -> "MarkovSequence":
        """As before any data."""
        begun = np.zeros(self.begun.shape)
        return changed(self, counts=np.zeros(self.counts.shape), last=np.full(self.order, UNKNOWN), begun=begun)

    def predict(self, context: object = None) -> Categorical:
        """The next state after `context`, Categorical(αᵣ/Aᵣ); E[H[θᵣ]] = ψ(Aᵣ + 1) - Σⱼ αᵣⱼ/Aᵣ ψ(αᵣⱼ + 1).

        Args:
            context: the last `order` states, the most recent last, or a table of m such rows; for order 1 a state or
                a vector of m. None is where the last sequence ended; before any, with start="learned", the first state.
        """
        if context is None and self.start == "learned" and not is_traced(self.last) and np.any(self.last == UNKNOWN):
            memory = self.last[self.last != UNKNOWN]
            k = len(self.states)
            row = counting.start_rows(k, self.order)[len(memory)] + counting.context_index(memory, k)
            return expected_die(self.start_alpha[row])
        return expected_die(self.alpha[self._rows(context)])

    def predict_at(self, theta: Float[Array, "r k"], context: object = None) -> Categorical:
        """The next state after `context` where the probabilities are known."""
        return Categorical.certain(theta[self._rows(context)])

    def chain(self) -> MarkovChain:
        """The chain with the expected probabilities; for a higher order, on the tuples of `order` states.

        It begins as sequences are expected to where that is learned.
        """
        found = self._chain(np.asarray(self.estimate))
        if self.start == "uniform" or self.order == 0:
            return found
        alpha, k, law = np.asarray(self.start_alpha), len(self.states), np.ones(1)
        offsets = counting.start_rows(k, self.order)
        for low, high in itertools.pairwise(offsets):
            law = (law[:, None] * alpha[low:high] / alpha[low:high].sum(1, keepdims=True)).ravel()
        return changed(found, start=law)

    def sample_chains(self, n: int = 1, *, seed: int = 0) -> list[MarkovChain]:
        """n chains drawn from the belief: what is true of all of them is believed."""
        return [self._chain(table) for table in self.sample_parameters(n, seed=seed)]

    def mode(self) -> Float[Array, "r k"]:
        """(αᵣⱼ - 1)/(Aᵣ - k); there is no mode where an αᵣⱼ < 1 or all of a row are 1."""
        excess = self.strength - len(self.states)
        if not is_traced(excess) and not (np.all(self.alpha >= 1) and np.all(excess > 0)):
            raise DataError(
                "the belief has no mode: every row needs all alpha ≥ 1 and one > 1; use .estimate (the mean), "
                "or a concentration > 1"
            )
        return (self.alpha - 1) / excess[:, None]

    def log_prob(self, theta: ArrayLike) -> Array:
        """Σᵣ log Dirichlet(θᵣ | αᵣ) for a table θ of the shape of `counts`; -inf where a row is not a distribution."""
        return log_dirichlet(self.alpha, as_float(theta)).sum()

    def credible_interval(self, level: ArrayLike = 0.95) -> Interval:
        """The central intervals that each hold θᵣⱼ ~ Beta(αᵣⱼ, Aᵣ - αᵣⱼ) with probability `level`."""
        check_levels(level, "level")
        if len(self.states) == 1:
            return Interval(np.ones(self.alpha.shape), np.ones(self.alpha.shape))
        return beta_interval(self.alpha, self.strength[:, None] - self.alpha, level)

    def _most_likely(self, statistics: TransitionCounts) -> Array:
        """Relative frequencies; uniform for a row that the data do not visit."""
        visits, xp = statistics.counts.sum(-1, keepdims=True), namespace(statistics)
        return xp.where(visits > 0, statistics.counts / xp.maximum(visits, 1.0), 1 / len(self.states))

    def _draw_parameters(self, key: PRNGKeyArray) -> Array:
        return jr.dirichlet(key, self.alpha)

    def _chain(self, table: np.ndarray) -> MarkovChain:
        k = len(self.states)
        rows = np.broadcast_to(table, (k, k)) if self.order == 0 else table
        return MarkovChain(*unfold(rows / rows.sum(1, keepdims=True), self.states, max(self.order, 1)))

    def _rows(self, context: ArrayLike) -> Int[Array, "*m"]:
        """The row of the table for each context."""
        if context is None or self.order == 0:
            if not is_traced(self.last) and np.any(self.last == UNKNOWN):
                raise DataError(
                    f"context is missing: the belief has not seen {self.order} successive states yet; pass the states "
                    "that come before the one to predict"
                )
            return counting.context_index(self.last, len(self.states))
        if is_traced(context):
            codes = context[..., None] if self.order == 1 and context.ndim < 2 else context
        else:
            codes = self._codes(context)
        if codes.shape[-1] != self.order:
            raise DataError(
                f"context must hold the last {self.order} states, the most recent last, found {codes.shape[-1]}; "
                "for several contexts pass a table with one in each row"
            )
        return counting.context_index(codes, len(self.states))

    def _codes(self, context: object) -> np.ndarray:
        """Indices of states: (order,) for one context, (m, order) for several."""
        context = np.asarray(context).item() if getattr(context, "ndim", None) == 0 else context
        if self.order == 1 and counting.is_state(context, self.states):
            return np.array([counting.index_of(context, self.states)])
        if not isinstance(context, Iterable) or (isinstance(context, str) and self.order == 1):
            raise DataError(f"context {context!r} is not a state; known are {counting.show(self.states)}")
        codes, lengths = counting.encode(context, self.states, "context")
        if counting.is_single(context, self.states):
            return codes[:, None] if self.order == 1 else codes
        if len(set(lengths.tolist())) > 1:
            raise DataError(f"the rows of context must have {self.order} states each, found {lengths.tolist()}")
        return codes.reshape(len(lengths), -1)


def _log_evidence(alpha: Float[Array, "r k"], n: Float[Array, "r k"]) -> Array:
    """Σᵣ log B(αᵣ + nᵣ)/B(αᵣ)."""
    return (log_rising(alpha, n).sum(-1) - log_rising(alpha.sum(-1), n.sum(-1))).sum()
