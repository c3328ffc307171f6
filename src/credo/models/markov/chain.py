"""A finite Markov chain whose transition probabilities are known: its structure, its long run, its paths.

Norris (1997), "Markov Chains", chapter 1; Levin & Peres (2017), "Markov Chains and Mixing Times", chapters 1 and 4.
"""

import itertools
import warnings
from collections.abc import Iterable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray
from scipy.special import xlogy

from credo.core.arrays import Array, as_float
from credo.core.checks import ArrayLike, check_probabilities, check_table
from credo.core.errors import DataError, RepairedWarning
from credo.core.padding import bucket
from credo.models.markov import counting, long_run, structure
from credo.models.markov.counting import Names, show
from credo.models.markov.long_run import expected_sums, stationary_of
from credo.models.markov.structure import StateClass


class MarkovChain(eqx.Module):
    """P(xₜ₊₁ = j | xₜ = i) = transition[i, j] for k states.

    `states` names them (0 … k - 1 where it is None); `start` is where the chain begins, a state or probabilities.
    """

    transition: Float[np.ndarray, "k k"] = eqx.field(converter=as_float)
    start: Float[np.ndarray, " k"] | None
    states: Names = eqx.field(static=True)

    def __init__(self, transition: ArrayLike, states: object = None, start: object = None) -> None:
        table = check_table(transition, "transition")
        k, columns = table.shape
        if k != columns:
            raise DataError(f"transition must be square, one row and one column for each state, found {table.shape}")
        self.states = counting.name_states(k if states is None else states)
        if len(self.states) != k:
            raise DataError(f"states must name the {k} states of transition, found {len(self.states)} names")
        self.transition = _check_rows(table, self.states)
        self.start = None if start is None else _distribution(start, self.states)

    @classmethod
    def fit(
        cls, sequences: ArrayLike, order: int = 1, states: object = None, *, learn_start: bool = False
    ) -> "MarkovChain":
        """Maximum likelihood: P̂ᵢⱼ = nᵢⱼ/Σⱼ nᵢⱼ from the transitions in one or several sequences.

        For `order` > 1 the states of the chain are the tuples of `order` successive states. The data say nothing
        about a state that is never left: its row is uniform and a `RepairedWarning` names it. A belief that does
        not need to invent it is `MarkovSequence`. With `learn_start` the chain begins as the sequences did, by
        relative frequencies; those shorter than `order` say nothing of that.
        """
        names = counting.observed_states(sequences) if states is None else counting.name_states(states)
        o = counting.check_order(order, len(names), least=1)
        counts = counting.count_transitions(counting.encode(sequences, names), len(names), o)
        visits = counts.sum(1, keepdims=True)
        table, labels = unfold(np.where(visits > 0, counts / np.maximum(visits, 1), 1 / len(names)), names, o)
        unseen = [labels[i] for i in np.flatnonzero(visits == 0)]
        if unseen:
            warnings.warn(
                f"nothing follows {show(unseen)} in the sequences: uniform probabilities are taken; "
                "MarkovSequence says how uncertain they are",
                RepairedWarning,
                stacklevel=2,
            )
        start = None
        if learn_start:
            codes, lengths = counting.encode(sequences, names)
            begins = (np.cumsum(lengths) - lengths)[lengths >= o]
            if not len(begins):
                raise DataError(f"no sequence has {o} states: how they begin cannot be learned; choose a lower order")
            rows = counting.context_index(codes[begins[:, None] + np.arange(o)], len(names))
            start = np.bincount(rows, minlength=len(labels)) / len(rows)
        return cls(table, labels, start)

    # ── structure

    def classes(self) -> tuple[StateClass, ...]:
        """The communicating classes, closed (recurrent) ones first."""
        return tuple(StateClass(self._names(part.members), part.closed, part.period) for part in self._parts())

    @property
    def is_irreducible(self) -> bool:
        """Whether every state can be reached from every state."""
        return len(self._parts()) == 1

    def period(self, state: object = None) -> int:
        """The greatest common divisor of the times at which the chain can be back in `state`; 0 where it can not.

        Without a state, the least common multiple over the closed classes: the period of Pᵗ in the long run.
        """
        if state is None:
            return int(np.lcm.reduce([part.period for part in self._closed()]))
        i = counting.index_of(state, self.states)
        return next(part.period for part in self._parts() if i in part.members)

    @property
    def is_aperiodic(self) -> bool:
        """Whether all recurrent states have period one."""
        return self.period() == 1

    @property
    def is_ergodic(self) -> bool:
        """Irreducible and aperiodic: for some t all entries of Pᵗ are positive."""
        return self.is_irreducible and self.is_aperiodic

    # ── the long run

    def stationary(self, all: bool = False) -> Float[np.ndarray, "*c k"]:
        """The distribution π = πP; with `all`, one for each closed class, of which all others are mixtures.

        By elimination of states without subtractions: each entry has a small relative error.
        """
        closed = self._closed()
        if len(closed) > 1 and not all:
            found = "; ".join(f"{{{show(self._names(part.members))}}}" for part in closed)
            raise DataError(
                f"the chain has {len(closed)} closed classes, and a stationary distribution on each: {found}; "
                "stationary(all=True) gives them"
            )
        p = self.transition
        out = np.zeros((len(closed), len(p)))
        for row, part in zip(out, closed, strict=True):
            row[part.members] = stationary_of(p[np.ix_(part.members, part.members)])
        return out if all else out[0]

    def balance_gap(self) -> float:
        """maxᵢⱼ |πᵢPᵢⱼ - πⱼPⱼᵢ|: how far the flows between two states are from being in balance."""
        flow = self.stationary()[:, None] * self.transition
        return float(np.abs(flow - flow.T).max())

    def is_reversible(self, tolerance: float = 1e-12) -> bool:
        """Detailed balance, πᵢPᵢⱼ = πⱼPⱼᵢ up to `tolerance`: the stationary chain looks the same backwards."""
        return self.balance_gap() <= tolerance

    def reversed(self) -> "MarkovChain":
        """The stationary chain run backwards, P̂ᵢⱼ = πⱼPⱼᵢ/πᵢ."""
        if not self.is_irreducible:
            raise DataError(
                f"only an irreducible chain can be run backwards, found {len(self._parts())} communicating classes; "
                "see .classes()"
            )
        pi = self.stationary()
        if pi.min() <= 0:
            state = self.states[int(np.argmin(pi))]
            raise DataError(f"the stationary probability of {state!r} is below 1e-308: it has no past to return to")
        flow = pi[:, None] * self.transition
        return MarkovChain(flow.T / flow.sum(0)[:, None], self.states)

    def mixing_time(self, epsilon: ArrayLike = 0.25) -> int:
        """The least t with maxᵢ TV(Pᵗ(i, ·), π) ≤ ε. Levin & Peres (2017), section 4.5."""
        bound = float(epsilon)
        if not 0 < bound < 1:
            raise DataError(f"epsilon must lie strictly between 0 and 1, found {epsilon}")
        if not self.is_ergodic:
            why = f"its period is {self.period()}" if self.is_irreducible else "it is reducible"
            raise DataError(f"only an ergodic chain forgets where it started, found that {why}; see .classes()")
        return long_run.mixing_steps(self.transition, self.stationary(), bound)

    def relaxation_time(self) -> float:
        """1/(1 - |λ₂|) for the second-largest eigenvalue modulus |λ₂|; infinite where the start is never forgotten.

        Good to |λ₂|'s rounding: about ten digits at 10⁵ steps, none at 10¹⁵. Levin & Peres (2017), section 12.1.
        """
        if len(self._closed()) > 1 or not self.is_aperiodic:
            return float("inf")
        gap = 1 - long_run.second_modulus(self.transition)
        return 1 / gap if gap > 0 else float("inf")

    # ── from a start to a target

    def distribution(self, t: int, start: object = None) -> Float[np.ndarray, " k"]:
        """The probabilities of the states after t steps, start · Pᵗ; see `simulate` for `start`."""
        steps = counting.check_whole(t, "t", 0, "whole number of steps")
        return long_run.advance(self._start(start), self.transition, steps)

    def hitting_times(self, target: ArrayLike) -> Float[np.ndarray, " k"]:
        """The expected steps from each state to `target` (a state, or several): h = 1 + Ph outside of it, 0 in it.

        Infinite from where it may never be reached. Norris (1997), theorem 1.3.5.
        """
        single = counting.is_state(target, self.states) or isinstance(target, str) or not isinstance(target, Iterable)
        goal = np.zeros(len(self.states), dtype=bool)
        goal[[counting.index_of(s, self.states, "target") for s in ([target] if single else target)]] = True
        if not goal.any():
            raise DataError("target is empty; pass a state or several")
        p = self.transition
        sure = structure.surely_reaching(p, goal)
        away = np.flatnonzero(sure & ~goal)
        out = np.where(sure, 0.0, np.inf)
        leaving = p[np.ix_(away, goal.nonzero()[0])].sum(1)
        out[away] = expected_sums(p[np.ix_(away, away)], leaving, np.ones((len(away), 1)))[:, 0]
        return out

    def absorption(self) -> Float[np.ndarray, "k c"]:
        """The probabilities of ending in each closed class (the columns, as in `classes`), from each state."""
        p, closed = self.transition, self._closed()
        out = np.zeros((len(p), len(closed)))
        for column, part in enumerate(closed):
            out[part.members, column] = 1.0
        passing = np.flatnonzero(out.sum(1) == 0)
        entering = np.stack([p[np.ix_(passing, part.members)].sum(1) for part in closed], axis=1)
        out[passing] = expected_sums(p[np.ix_(passing, passing)], entering.sum(1), entering)
        return out

    # ── paths

    def simulate(self, n: int, *, seed: int = 0, start: object = None, chains: int = 1) -> np.ndarray:
        """Paths of n states by name, shape (n,), or (chains, n) for several.

        `start` is a state or probabilities; where it is None, the chain's own, else the stationary distribution.
        """
        length, paths = counting.check_whole(n, "n", 1), counting.check_whole(chains, "chains", 1)
        first, steps = _cumulative(self._start(start)), _cumulative(self.transition)
        codes = np.asarray(_paths(jr.key(seed), first, steps, bucket(length), paths))[:, :n]
        return counting.names_array(self.states)[codes if chains > 1 else codes[0]]

    def log_prob(self, sequences: ArrayLike) -> float:
        """log p of one or several sequences: Σₜ log P(xₜ, xₜ₊₁), and log start(x₁) where the chain has a start."""
        encoded = counting.encode(sequences, self.states)
        counts = counting.count_transitions(encoded, len(self.states), 1)
        total = float(xlogy(counts, self.transition).sum())
        if self.start is not None:
            with np.errstate(divide="ignore"):
                total += float(np.log(self.start[encoded.first]).sum())
        return total

    # ── inside

    def _parts(self) -> tuple[structure.Part, ...]:
        return structure.communicating(self.transition)

    def _closed(self) -> list[structure.Part]:
        return [part for part in self._parts() if part.closed]

    def _names(self, members: Int[np.ndarray, " n"]) -> Names:
        return tuple(self.states[i] for i in members)

    def _start(self, start: object) -> np.ndarray:
        if start is not None:
            return _distribution(start, self.states)
        if self.start is not None:
            return self.start
        if len(self._closed()) > 1:
            raise DataError(f"start is missing, and the chain has no single long run; pass one of {show(self.states)}")
        return self.stationary()


def unfold(table: Float[np.ndarray, "r k"], states: Names, order: int) -> tuple[np.ndarray, Names]:
    """The chain on tuples of `order` ≥ 1 states, (a, b) → (b, c), from the probabilities of c after (a, b)."""
    if order == 1:
        return table, states
    r, k = table.shape
    if r * r > counting.LARGEST_TABLE:
        raise DataError(f"a chain of order {order} on {k} states has {r:,} × {r:,} transitions; choose a lower order")
    out, rows = np.zeros((r, r)), np.arange(r)[:, None]
    out[rows, (rows * k) % r + np.arange(k)] = table
    return out, tuple(itertools.product(states, repeat=order))


def _check_rows(table: np.ndarray, states: Names) -> np.ndarray:
    if np.any(table < 0):
        i, j = np.argwhere(table < 0)[0]
        raise DataError(
            f"transition must hold probabilities, found {table[i, j]:g} from {states[i]!r} to {states[j]!r}"
        )
    sums = table.sum(1)
    wrong = np.abs(sums - 1) > 1e-8
    if wrong.any():
        i = np.argmax(wrong)
        hint = "; its columns do: pass the transpose" if np.allclose(table.sum(0), 1) else "; divide each by its sum"
        raise DataError(
            f"the rows of transition must sum to 1, found row {i} ({states[i]!r}) with sum {sums[i]:.9g}{hint}"
        )
    return table / sums[:, None]


def _distribution(start: ArrayLike, states: Names) -> np.ndarray:
    if counting.is_state(start, states):
        return (np.arange(len(states)) == counting.index_of(start, states)).astype(float)
    if isinstance(start, str) or np.ndim(start) == 0:
        raise DataError(f"start {start!r} is unknown; known are {show(states)}, or pass their probabilities")
    return check_probabilities(start, "start", (len(states),))


def _cumulative(probs: np.ndarray) -> np.ndarray:
    """Cumulative probabilities that end in exactly one, so that a state of probability zero is never drawn."""
    total = np.cumsum(probs, axis=-1)
    return total / total[..., -1:]


@eqx.filter_jit
def _paths(
    key: PRNGKeyArray, first: Float[Array, " k"], steps: Float[Array, "k k"], n: int, chains: int
) -> Int[jax.Array, "chains n"]:
    """Inverse-cdf sampling: the next state is the number of cumulative probabilities that are ≤ u."""

    def step(state: jax.Array, level: jax.Array) -> tuple[jax.Array, jax.Array]:
        following = jnp.sum(steps[state] <= level)
        return following, following

    def path(u: Float[jax.Array, " n"]) -> Int[jax.Array, " n"]:
        begin = jnp.sum(first <= u[0])
        return jnp.concatenate([begin[None], jax.lax.scan(step, begin, u[1:])[1]])

    return jax.vmap(path)(jr.uniform(key, (chains, n)))
