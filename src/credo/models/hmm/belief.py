"""`HMM`: a chain of hidden states, each of which shows an outcome of its own kind.

    z₁ ~ start,    p(zₜ₊₁ = j | zₜ = i) = Pᵢⱼ,    xₜ ~ p(x | zₜ; θ)

A belief about where the chain is: `condition` filters, `predict` forecasts, `learn` finds start, P and θ by EM, by
gradient (`Evidence()`), or integrates over them (`VariationalBayes()`, `PathGibbs()`). Rabiner (1989), "A tutorial on
hidden Markov models"; Murphy (2012), chapter 17.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from credo.core import params
from credo.core.abilities import HasConjugateLaws
from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.belief import Belief, Integration
from credo.core.checks import ArrayLike, check_count, check_probabilities
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.params import simplex
from credo.core.predictive import Predictive
from credo.core.pytrees import changed, plain_methods
from credo.core.scan import is_short, run, scan
from credo.core.text import counted, plain, rounded
from credo.infer.em import EM
from credo.infer.learning import Evidence
from credo.infer.mcmc.stacked import conditioned_one_by_one
from credo.infer.method import Learner
from credo.models.densities import Density, Gaussian, HasStatistics, Observed
from credo.models.densities.base import require
from credo.models.densities.normal import NormalDensity
from credo.models.hmm import learning, passes
from credo.models.hmm.learning import Expected, observed
from credo.models.hmm.passes import push
from credo.models.markov.chain import MarkovChain
from credo.models.markov.counting import Names, name_states
from credo.models.sequences import Sequences, names_of, next_row, read, read_ahead, require_outcomes

T = TypeVar("T")


class States(NamedTuple):
    """What the filter says of each row."""

    probs: Float[Array, "t k"]
    """p(zₜ | x₁…xₜ)."""
    increments: Float[Array, " t"]
    """log p(xₜ | x₁…xₜ₋₁)."""
    first: Bool[Array, " t"]
    """Where a sequence begins."""
    law: Float[Array, " k"]
    """p(zₜ) there."""
    transition: Float[Array, "k k"]

    @property
    def predicted(self) -> Float[Array, "t k"]:
        """p(zₜ | x₁…xₜ₋₁), before the outcome is known."""
        xp = namespace(self)
        return xp.where(self.first[:, None], self.law, xp.roll(self.probs, 1, axis=0) @ self.transition)

    @property
    def log_likelihood(self) -> Float[Array, ""]:
        """log p(x₁…x_T)."""
        return self.increments.sum()


class HMM(Belief, HasConjugateLaws):
    """A hidden Markov model with k states.

    Args:
        states: their number, or their names.
        emission: what a state shows, any of `credo.models.densities`; what it does not know is learned.
        start: P(z₁), shape (k,); None is learned.
        transition: P, shape (k, k), rows sum to one; None is learned. Zeros are kept: that transition is impossible.
        prior: concentration of the Dirichlet laws of start and rows; 1 is none, and EM then maximum likelihood.
        sticky: pseudo-transitions from each state to itself, for states that last.

    Data are a table (T, d), a vector (T,) for one column, or a list of those, or one table with `lengths`. A single row
    (d,), or a number, is the next outcome. NaN is an outcome that was not observed where `missing=True`.

    A belief that has been conditioned knows `state`, the law of the latest hidden state, and goes on from there; where
    several sequences are given, each begins anew. `filter`, `smooth`, `viterbi`, `pairs` and `sample_paths` look at
    sequences from their beginning unless `continued=True`.
    """

    from_data: ClassVar[tuple[str, ...]] = ("state",)

    emission: Density
    state: Float[Array, " k"] | None
    """p(zₜ | x₁…xₜ) of the latest outcome, None before the first."""
    states: Names = eqx.field(static=True)
    named: tuple[str, ...] | None = eqx.field(static=True)
    """What the columns of x are called, where there are several."""
    prior: float = eqx.field(static=True)
    sticky: float = eqx.field(static=True)
    start: Float[Array, " k"] | None = simplex()
    transition: Float[Array, "k k"] | None = simplex()

    __getattribute__ = plain_methods

    def __init__(
        self,
        states: object,
        emission: object = None,
        start: ArrayLike | None = None,
        transition: ArrayLike | None = None,
        *,
        prior: float | int = 1.0,
        sticky: float | int = 0.0,
        state: ArrayLike | None = None,
    ) -> None:
        self.states, self.named = name_states(states), None
        k = len(self.states)
        emission = Gaussian() if emission is None else emission
        if not isinstance(emission, Density):
            raise DataError(f"emission must be one of credo.models.densities, found {type(emission).__name__}")
        columns = 1 if emission.columns is None else emission.columns
        self.emission = emission if emission.k is None else emission.resized(k, columns)
        self.start = None if start is None else check_probabilities(start, "start", (k,))
        self.transition = None if transition is None else check_probabilities(transition, "transition", (k, k))
        self.prior, self.sticky = float(prior), float(sticky)
        if not (np.isfinite(self.prior) and self.prior > 0 and np.isfinite(self.sticky) and self.sticky >= 0):
            raise DataError(f"prior must be > 0 and sticky ≥ 0, found {prior!r} and {sticky!r}")
        self.state = None if state is None else check_probabilities(state, "state", (k,))

    # -- what every belief does -----------------------------------------------------------------------------

    def told(self, *data: ArrayLike) -> "HMM":
        """The belief that knows the names of its columns."""
        return changed(self, named=names_of(data[0])) if data and self.named is None else self

    def statistics(
        self, x: ArrayLike, lengths: ArrayLike | None = None, *, inputs: ArrayLike | None = None, missing: bool = False
    ) -> Sequences:
        """The sequences, checked and in one table."""
        if inputs is not None and not self.emission.uses_inputs:
            raise DataError(
                "nothing here depends on inputs: neither the transitions of an HMM nor its emission, "
                f"{type(self.emission).__name__}; leave them out, or use models.hmm.InputHMM or a Regression() emission"
            )
        data = read(x, lengths, inputs, missing, self.emission.columns, self.named)
        self.emission.check(_real_rows(data))
        return data

    def prepare(self, *data: ArrayLike, **options: Any) -> tuple["HMM", Sequences]:
        """With a starting point from the data where there is none; what is learned is of whole sequences."""
        found = require_outcomes(self.statistics(*data, **options))
        blank = changed(self.unconditioned(), emission=self.emission.resized(len(self.states), found.x.shape[1]))
        found = changed(found, origin=blank)
        _warn_of_constants(blank, found)
        return blank._started(found, 0), found

    def _started(self, data: Sequences, seed: int) -> "HMM":
        emission = self.emission.adapt(_real_rows(data), seed=seed)
        fresh = learning.fresh_chain(len(self.states), seed)
        start, transition = (b if a is None else a for a, b in zip((self.start, self.transition), fresh, strict=True))
        return changed(self, emission=emission, start=start, transition=transition)

    def condition(self, *data: ArrayLike, using: object = None, **options: Any) -> Any:
        """The belief after more outcomes: `state` is the law of the latest hidden state (the filter).

        A single row, or a number, is the next outcome of the sequence.
        """
        alone = using is None and len(data) == 1 and self.state is not None and "lengths" not in options
        row = next_row(self.emission.columns, data[0]) if alone else None
        if row is None or not np.isfinite(row).all():
            return super().condition(*data, using=using, **options)
        return self._after(row, **options)

    def _after(self, row: np.ndarray, missing: bool = False, inputs: ArrayLike | None = None) -> "HMM":
        """The belief after the next outcome, all of which was seen."""
        driven = None if inputs is None else np.asarray(inputs, dtype=float).reshape(1, -1)
        data = Observed(row[None], np.ones((1, len(row)), bool), driven, complete=True)
        self.emission.check(data)
        assert self.state is not None and self.transition is not None
        prior, log_b = self.state @ self.transition, self.emission.log_prob(data)[0]
        with np.errstate(all="ignore"):
            state, _ = passes.update(prior, log_b, namespace(prior, log_b))
        return changed(self, state=state)

    def condition_on(self, statistics: Sequences) -> "HMM":
        """The filter, of which the last law is kept."""
        data = statistics.trimmed()
        return changed(self, state=_run(passes.latest_state, self, data, data.real))

    def evidence_of(self, statistics: Sequences) -> Float[Array, ""]:
        """log p(x), the sum over all paths; its gradient costs one backward pass."""
        law, transition = self._law_and_transition(statistics)
        return learning.log_likelihood(law, transition, self._log_b(statistics), statistics.first, statistics.real)

    def log_evidence_of(self, statistics: Sequences) -> Float[Array, ""]:
        """`evidence_of`, compiled where rows are many."""
        data = statistics.trimmed()
        return _run(learning.log_likelihood, self, data, data.real)

    def log_evidences_of(self, beliefs: Sequence["HMM"], statistics: Sequences) -> Float[Array, " b"]:
        """The chains of the beliefs as the last axis of one pass, where rows are few."""
        if not is_short(len(statistics.real)):
            return super().log_evidences_of(beliefs, statistics)
        data = statistics.trimmed()
        chains = [each._law_and_transition(data) for each in beliefs]
        return learning.log_likelihoods(chains, [each.emission for each in beliefs], data)

    def predict(self, steps: int = 1, *, inputs: ArrayLike | None = None) -> Predictive:
        """The next `steps` outcomes, each on its own: the law of the state, pushed through P, mixes the emissions.

        `inputs` are those of the steps, shape (steps, c), where the emission has some.
        """
        driven = read_ahead(steps, inputs)
        return self.require_parameters().emission.predictive(self.forecast(steps), driven)

    def forecast(self, steps: int = 1) -> Float[Array, "m k"]:
        """p(zₜ₊₁), …, p(zₜ₊steps): the law of the hidden state at the next steps."""
        check_count(steps, "steps")
        start, transition = self._chain
        law = start if self.state is None else self.state @ transition
        return scan(lambda p, _, transition: (push(transition, p), p), law, np.arange(steps), given=(transition,))[1]

    # -- looking at whole sequences -------------------------------------------------------------------------

    def filter(self, *data: ArrayLike, continued: bool = False, **options: Any) -> States:
        """p(zₜ | x₁…xₜ), its prediction before xₜ, and log p(xₜ | x₁…xₜ₋₁), for every row."""
        hmm, found = self._look(data, options, continued)
        probs, increments = (_cut(each, found) for each in _run(passes.filter_states, hmm, found))
        return States(probs, increments, _cut(found.first, found), *hmm._law_and_transition(found))

    def smooth(self, *data: ArrayLike, lag: int | None = None, continued: bool = False, **options: Any) -> passes.Table:
        """p(zₜ | x₁…x_T), or with a `lag` p(zₜ | x₁…xₜ₊lag), for every row."""
        hmm, found = self._look(data, options, continued)
        if lag is None:
            return _cut(_run(passes.smoothed_states, hmm, found), found)
        check_count(lag, "lag", 0)
        return _cut(_run(passes.lagged_states, hmm, found, int(lag)), found)

    def viterbi(self, *data: ArrayLike, continued: bool = False, **options: Any) -> Int[Array, " t"]:
        """The most probable path as a whole, as indices of states."""
        hmm, found = self._look(data, options, continued)
        return _cut(_run(passes.most_likely_states, hmm, found), found)

    def pairs(self, *data: ArrayLike, continued: bool = False, **options: Any) -> Float[Array, "s k k"]:
        """p(zₜ = i, zₜ₊₁ = j | x₁…x_T) for t = 1 … T - 1 of one sequence."""
        hmm, found = self._look(data, options, continued)
        if not found.alone:
            raise DataError("pairs are of one sequence, found several; pass one at a time")
        return _run(passes.pair_probs, hmm, found)[: found.rows - 1]

    def sample_paths(
        self, *data: ArrayLike, n: int = 1, seed: int = 0, continued: bool = False, **options: Any
    ) -> Int[Array, "n t"]:
        """n paths from p(z₁…z_T | x₁…x_T)."""
        check_count(n, "n")
        hmm, found = self._look(data, options, continued)
        return host(_drawn(passes.sampled_paths, hmm, found, jr.key(seed), n))[:, : found.rows]

    def simulate(
        self, n: int, *, seed: int = 0, inputs: ArrayLike | None = None
    ) -> tuple[Int[Array, " n"], Float[Array, "n d"]]:
        """The next n hidden states and outcomes, drawn together; from the beginning where nothing was seen yet."""
        check_count(n, "n")
        driven = read_ahead(n, inputs)
        return host(_simulated(jr.key(seed), self, self.forecast(1)[0], n, driven))

    def chain(self) -> MarkovChain:
        """The chain of the hidden states, for what is known of those: stationary law, mixing, times of passage."""
        return MarkovChain(np.asarray(self.require_parameters().transition), self.states)

    # -- learning -------------------------------------------------------------------------------------------

    def learner(self, priors: Mapping[str, object]) -> Learner:
        """EM; the gradient where there are priors of another kind, or a likelihood without an M-step."""
        # One sequence has one beginning, of which the start is always surer than sure: no word about that.
        return Evidence(flat=False) if priors or not self.emission.able(HasStatistics) else EM()

    def integration(self, statistics: Sequences) -> Integration | None:
        """Over all its numbers, where every transition is possible: one best setting of a dozen outcomes is too bold.

        The density of log odds has a factor p for each probability, as one pseudo-count more has in EM.
        """
        emission, possible = self.emission.to_integrate(), np.all(self.start) and np.all(self.transition)
        if emission is None or not possible:
            return None
        firm = changed(self, emission=emission)
        units = {f"emission.{path}": unit for path, unit in emission.units().items()}
        return Integration(statistics.rows, firm=firm, units=units, climber=changed(firm, prior=self.prior + 1))

    def expect(self, statistics: Sequences) -> tuple[Expected, Float[Array, ""]]:
        """The E-step of Baum-Welch."""
        return learning.expect(*self._law_and_transition(statistics), self.emission, statistics)

    def expect_side_by_side(
        self, beliefs: Sequence["HMM"], statistics: Sequences
    ) -> list[tuple[Expected, Float[Array, ""]]] | None:
        """`expect` of several HMMs in one pass, where hundreds of passes over so few rows take less than a second."""
        if is_traced(beliefs, statistics) or not is_short(2 * len(statistics.real)):
            return None
        data = statistics.trimmed()
        chains = [each._law_and_transition(data) for each in beliefs]
        return learning.expect_side_by_side(chains, [each.emission for each in beliefs], data)

    def maximize(self, expected: Expected, fixed: tuple[str, ...] = ()) -> "HMM":
        """The M-step of Baum-Welch, with the priors' pseudo-counts."""
        start, transition = learning.maximize_chain(*self._chain, expected, self.prior, self.sticky)
        held = learning.whole_emission_held(tuple(fixed), self.emission)
        return changed(
            self,
            start=self.start if "start" in fixed else start,
            transition=self.transition if "transition" in fixed else transition,
            emission=self.emission if held else require(self.emission, HasStatistics).maximize(expected.emission),
        )

    def log_prior_of_parameters(self) -> Float[Array, ""]:
        """log p(start) + log p(P) + log p(θ) up to a constant."""
        chain = learning.log_prior_of_chain(*self._chain, self.prior, self.sticky)
        shown = self.emission
        return chain + (require(shown, HasStatistics).log_prior() if shown.able(HasStatistics) else 0.0)

    def restart(self, statistics: Sequences, seed: int) -> "HMM | None":
        """Another starting point for what was not given; None where all was."""
        origin = statistics.origin
        if origin is None or set(params.learnable(origin)) == set(params.learnable(self)):
            return None
        return params.replace(self, params.learnable(origin._started(statistics, seed)))

    def improve(self, expected: Expected, statistics: Sequences) -> tuple[Any, Expected, Float[Array, ""]]:
        """A step of variational Bayes, see `bayes`."""
        from credo.models.hmm import bayes  # which needs `HMM`

        return bayes.improve(self, expected, statistics)

    def center_of(self, q: Any) -> "HMM":
        """The HMM at the mean of q."""
        from credo.models.hmm import bayes

        return bayes.center(self, q)

    def drawn_from(self, keys: jax.Array, q: Any) -> "HMM":
        """HMMs drawn from q."""
        from credo.models.hmm import bayes

        return bayes.drawn_from(keys, self, q)

    def averaged(self, drawn: "HMM", statistics: Sequences) -> Belief:
        """The average over drawn HMMs, each after the data."""
        from credo.models.hmm import bayes

        return conditioned_one_by_one(bayes.DrawnHMM, drawn, statistics)

    # -- parts ----------------------------------------------------------------------------------------------

    def require_parameters(self) -> "HMM":
        """Itself, if its numbers are known; otherwise an error that says which are not."""
        unknown = self._unknown()
        if unknown:
            raise DataError(
                f"the {', '.join(unknown)} of the HMM {'are' if len(unknown) > 1 else 'is'} not known yet; learn from "
                "data with credo.fit(hmm, x), or give the numbers"
            )
        return self

    @property
    def _chain(self) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
        """(start, transition), which are known."""
        self.require_parameters()
        assert self.start is not None and self.transition is not None
        return self.start, self.transition

    def _law_and_transition(self, data: Sequences) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
        """p(z) at the first row of each sequence, and P."""
        start, transition = self._chain
        return start if self.state is None or not data.alone else self.state @ transition, transition

    def _log_b(self, data: Sequences) -> Float[Array, "t k"]:
        return self.emission.log_prob(observed(data))

    def _look(self, data: tuple[ArrayLike, ...], options: dict[str, Any], continued: bool) -> tuple["HMM", Sequences]:
        hmm = self.require_parameters() if continued else self.require_parameters().unconditioned()
        return hmm, hmm.statistics(*data, **options)

    def _unknown(self) -> list[str]:
        """What is neither given nor learned."""
        unknown = [name for name in ("start", "transition") if getattr(self, name) is None]
        return unknown + ["emission"] * (self.emission.k is None or not params.learnable(self.emission))

    def __repr__(self) -> str:
        """`HMM(3 states, Gaussian emission in 2 columns; stays 0.92 0.95 0.88; now state 2 with 0.97)`."""
        columns = self.emission.columns
        shown = f"{type(self.emission).__name__} emission"
        shown += "" if columns is None else f" in {counted(columns, 'column')}"
        said = [f"{counted(len(self.states), 'state')}, {shown}"]
        if self._unknown():
            said.append(f"{', '.join(self._unknown())} not known yet")
        transition, state = plain(self.transition, 2), plain(self.state, 1)
        if transition is not None:
            said.append(f"stays {rounded(np.diagonal(transition))}")
        if state is not None:
            said.append(f"now state {self.states[int(state.argmax())]} with {state.max():.2f}")
        return f"{type(self).__name__}({'; '.join(said)})"


def _warn_of_constants(hmm: HMM, data: Sequences) -> None:
    """Columns that never vary say nothing of the spread that the states are to have."""
    if not isinstance(hmm.emission, NormalDensity) or hmm.emission.covariance is not None or not hmm.emission.weak:
        return
    x, seen = data.x[: data.rows], data.seen[: data.rows]
    top, bottom = np.where(seen, x, -np.inf).max(axis=0), np.where(seen, x, np.inf).min(axis=0)
    still = [str(j) if hmm.named is None else hmm.named[j] for j in np.flatnonzero(top == bottom)]
    if still:
        warnings.warn(
            f"column {', '.join(still)} of x is constant: how far outcomes spread is not learned from it, and what is "
            "predicted is the prior's guess around a spread of 1; give the emission a prior= or a covariance, or leave "
            "the column out",
            NotConvergedWarning,
            stacklevel=5,
        )


def _run(one_pass: Callable[..., T], hmm: HMM, data: Sequences, *rest: object) -> T:
    """A pass over the data: in NumPy where rows are few, else one program for each shape, whatever the numbers."""
    data = data.trimmed()
    return run(_over_rows, len(data.real), one_pass, hmm, data, *rest)


def _over_rows(one_pass: Callable[..., T], hmm: HMM, data: Sequences, *rest: object) -> T:
    return one_pass(*hmm._law_and_transition(data), hmm._log_b(data), data.first, *rest)


_drawn = eqx.filter_jit(_over_rows)


@eqx.filter_jit
def _simulated(
    key: PRNGKeyArray, hmm: HMM, law: Float[Array, " k"], n: int, inputs: Float[Array, "n c"] | None
) -> tuple[Int[Array, " n"], Float[Array, "n d"]]:
    """n states from a law of the first one, and what they show."""
    k_first, k_rest, k_shown = jr.split(key, 3)
    log_p = jnp.log(jnp.asarray(hmm._chain[1]))

    def step(z: jax.Array, key: PRNGKeyArray) -> tuple[jax.Array, jax.Array]:
        return jr.categorical(key, log_p[z]), z

    _, path = jax.lax.scan(step, jr.categorical(k_first, jnp.log(law)), jr.split(k_rest, n))
    return path, hmm.emission.sample(k_shown, path, inputs)


def _real_rows(data: Sequences) -> Observed:
    """The rows that are not padding."""
    n = data.rows
    return Observed(data.x[:n], data.seen[:n], None if data.inputs is None else data.inputs[:n], data.complete)


def _cut(values: Array, data: Sequences) -> Array:
    return values[: data.rows]
