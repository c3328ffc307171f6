"""`InputHMM`: a hidden chain whose start and transitions depend on inputs, the input-output HMM.

    p(z₁ = j | u₁) = softmax_j(S ûᵢ),    p(zₜ = j | zₜ₋₁ = i, uₜ) = softmax_j(Vᵢ ûₜ),    xₜ ~ p(x | zₜ, uₜ; θ)

with û = (standardized u, 1). The passes are those of `HMM` with a matrix for each time. EM: the E-step finds the pairs
ξₜ(i, j), the M-step is a softmax regression for each row i with the weights ξₜ(i, ·), of which Newton steps are taken.
Bengio & Frasconi (1995), "An input output HMM architecture".
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core import params
from credo.core.abilities import HasExpectations
from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, check_count, check_real
from credo.core.errors import DataError
from credo.core.params import constant, real
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.core.scan import run, scan
from credo.core.text import counted, plain
from credo.infer.em import EM
from credo.infer.learning import Evidence
from credo.infer.method import Learner
from credo.models.densities import Density, Gaussian, HasStatistics, Observed
from credo.models.densities.base import require
from credo.models.hmm.learning import observed, whole_emission_held
from credo.models.hmm.passes import RELATIVE, Filtered, Marks, Table, _ratio, furthest, most, update
from credo.models.markov.counting import Names, name_states
from credo.models.sequences import Sequences, begins_of, ends_of, names_of, read, read_ahead, require_outcomes

Matrices = Float[Array, "t k k"]
NEWTON = 2
"""Newton steps in each M-step: EM need not climb to the top of what it climbs again."""
STAY = 1.5
"""The log odds with which a chain begins to stay where it is."""


class Paths(NamedTuple):
    """What the filter says of each row."""

    probs: Table
    """p(zₜ | x₁…xₜ)."""
    increments: Float[Array, " t"]
    """log p(xₜ | x₁…xₜ₋₁)."""


class ExpectedPaths(NamedTuple):
    """Where sequences begin, how states follow at each time, what was put in there, and what they show."""

    starts: Table
    pairs: Matrices
    design: Float[Array, "t h"]
    emission: object


class InputHMM(Belief[Sequences], HasExpectations[Sequences, ExpectedPaths]):
    """A hidden Markov model whose transitions, and whose start, depend on inputs.

    Args:
        states: their number, or their names.
        emission: what a state shows, any of `credo.models.densities`; `Regression` looks at the inputs, too.
        ridge: the precision of the weights, of standardized inputs, under their normal prior.

    Data are as those of `HMM`, with `inputs=`, a row for each of x's; `predict`, `forecast` and `simulate` take those
    of the steps ahead.
    """

    from_data: ClassVar[tuple[str, ...]] = ("state",)

    emission: Density
    state: Float[Array, " k"] | None
    """p(zₜ | x₁…xₜ) of the latest outcome, None before the first."""
    states: Names = eqx.field(static=True)
    named: tuple[str, ...] | None = eqx.field(static=True)
    """What the columns of x are called, where there are several."""
    ridge: float = eqx.field(static=True)
    center: Float[Array, " c"] | None = constant()
    scale: Float[Array, " c"] | None = constant()
    start: Float[Array, "k h"] | None = real()
    """S, the constant last."""
    transition: Float[Array, "k k h"] | None = real()
    """V: from the first axis to the second."""

    def __init__(self, states: object, emission: object = None, *, ridge: float | int = 0.1) -> None:
        self.states, self.named = name_states(states), None
        emission = Gaussian() if emission is None else emission
        if not isinstance(emission, Density):
            raise DataError(f"emission must be one of credo.models.densities, found {type(emission).__name__}")
        self.emission, self.state = emission, None
        self.ridge = check_real(ridge, "ridge", 1e-12)
        self.center = self.scale = self.start = self.transition = None

    # -- what every belief does -----------------------------------------------------------------------------

    def told(self, *data: ArrayLike) -> "InputHMM":
        """The belief that knows the names of its columns."""
        return changed(self, named=names_of(data[0])) if data and self.named is None else self

    def statistics(
        self, x: ArrayLike, lengths: ArrayLike | None = None, *, inputs: ArrayLike = None, missing: bool = False
    ) -> Sequences:
        """The sequences with their inputs, checked and in one table."""
        if inputs is None:
            raise DataError("an InputHMM needs inputs=, a row for each of x's; without any, use credo.HMM")
        data = read(x, lengths, inputs, missing, self.emission.columns, self.named)
        assert data.inputs is not None
        if self.center is not None and data.inputs.shape[1] != len(self.center):
            raise DataError(f"inputs must have {len(self.center)} columns, found {data.inputs.shape[1]}")
        self.emission.check(_real_rows(data))
        return data

    def prepare(self, *data: ArrayLike, **options: Any) -> tuple["InputHMM", Sequences]:
        """With a starting point from the data."""
        found = require_outcomes(self.statistics(*data, **options))
        assert found.inputs is not None
        k, rows = len(self.states), np.asarray(found.inputs)[: found.rows]
        spread = rows.std(0)
        blank = changed(self.unconditioned(), emission=self.emission.resized(k, found.x.shape[1]))
        if self.center is None:
            blank = changed(blank, center=rows.mean(0), scale=np.where(spread > 0, spread, 1.0))
        return blank._started(found, 0), changed(found, origin=blank)

    def _started(self, data: Sequences, seed: int) -> "InputHMM":
        k, h = len(self.states), data.inputs.shape[1] + 1  # type: ignore[union-attr]
        weights = np.zeros((k, k, h)) + 0.3 * bool(seed) * np.random.default_rng(seed).normal(size=(k, k, h))
        weights[:, :, -1] += STAY * np.eye(k)
        start = np.zeros((k, h)) if self.start is None else self.start
        transition = weights if self.transition is None else self.transition
        emission = self.emission.adapt(_real_rows(data), seed=seed)
        return changed(self, emission=emission, start=start, transition=transition)

    def condition_on(self, statistics: Sequences) -> "InputHMM":
        """The filter, of which the last law is kept."""
        data = statistics.trimmed()
        return changed(self, state=run(_latest, len(data.real), self, data))

    def evidence_of(self, statistics: Sequences) -> Float[Array, ""]:
        """log p(x | u), the sum over all paths."""
        return _filtered(self, statistics).log_likelihood(statistics.real)

    def log_evidence_of(self, statistics: Sequences) -> Float[Array, ""]:
        """`evidence_of`, compiled where rows are many."""
        data = statistics.trimmed()
        return run(_log_likelihood, len(data.real), self, data)

    def predict(self, steps: int = 1, *, inputs: ArrayLike = None) -> Predictive:
        """The next `steps` outcomes, each on its own, given the inputs of the steps, shape (steps, c)."""
        return self.emission.predictive(self.forecast(steps, inputs=inputs), read_ahead(steps, inputs))

    def forecast(self, steps: int = 1, *, inputs: ArrayLike = None) -> Float[Array, "m k"]:
        """p(zₜ₊₁), …, p(zₜ₊steps) given the inputs of the steps."""
        start, matrices = self._ahead(steps, inputs)
        laws = [start[0] if self.state is None else self.state @ matrices[0]]
        for matrix in matrices[1:]:
            laws.append(laws[-1] @ matrix)
        return namespace(laws).stack(laws)

    def simulate(self, n: int, *, inputs: ArrayLike = None, seed: int = 0) -> tuple[Int[Array, " n"], Array]:
        """The next n hidden states and outcomes, drawn together, given the inputs of the steps."""
        start, matrices = self._ahead(n, inputs)
        levels, path = np.random.default_rng(seed).random(n), list[int]()
        for u, matrix in zip(levels, matrices, strict=True):
            begun = start[0] if self.state is None else self.state @ matrix
            law = matrix[path[-1]] if path else begun
            path.append(min(int((np.cumsum(law) <= u).sum()), len(law) - 1))
        return np.array(path), host(self.emission.sample(jr.key(seed), np.array(path), read_ahead(n, inputs)))

    # -- looking at whole sequences -------------------------------------------------------------------------

    def filter(self, *data: ArrayLike, **options: Any) -> Paths:
        """p(zₜ | x₁…xₜ) and log p(xₜ | x₁…xₜ₋₁) for every row, from the beginning of each sequence."""
        hmm, found = self._look(data, options)
        probs, increments = run(_filtered, len(found.real), hmm, found)
        return Paths(probs[: found.rows], increments[: found.rows])

    def smooth(self, *data: ArrayLike, **options: Any) -> Table:
        """p(zₜ | x₁…x_T) for every row."""
        hmm, found = self._look(data, options)
        return run(_smoothed, len(found.real), hmm, found)[: found.rows]

    def viterbi(self, *data: ArrayLike, **options: Any) -> Int[Array, " t"]:
        """The most probable path as a whole, as indices of states."""
        hmm, found = self._look(data, options)
        return run(_best_path, len(found.real), hmm, found)[: found.rows]

    def chain_at(self, inputs: ArrayLike) -> tuple[Table, Matrices]:
        """p(z₁ | u) and p(zₜ | zₜ₋₁, u) at each row of inputs."""
        table = np.asarray(inputs, dtype=float)
        return self._chain(table[:, None] if table.ndim == 1 else table)

    # -- learning -------------------------------------------------------------------------------------------

    def learner(self, priors: Mapping[str, object]) -> Learner:
        """EM; the gradient where there are priors of another kind, or an emission without an M-step."""
        return Evidence(flat=False) if priors or not self.emission.able(HasStatistics) else EM()

    def expect(self, statistics: Sequences) -> tuple[ExpectedPaths, Float[Array, ""]]:
        """The E-step."""
        data, xp = statistics, namespace(self, statistics)
        filtered, (_, matrices) = _filtered(self, data), self._laws(data)
        gamma = _smooth(matrices, filtered.probs, data.first)
        before, inside = filtered.probs[:-1], ~data.first[1:, None]
        raised = xp.where(inside, _ratio(gamma[1:], xp.einsum("ti,tij->tj", before, matrices[1:]), xp), 0.0)
        pairs = before[:, :, None] * matrices[1:] * raised[:, None, :]
        pairs = xp.concatenate([xp.zeros_like(matrices[:1]), pairs])
        gamma = xp.where(data.real[:, None], gamma, 0.0)
        starts = xp.where(begins_of(data.first)[:, None], gamma, 0.0)
        shown = require(self.emission, HasStatistics).expected_statistics(observed(data), gamma)
        expected = ExpectedPaths(starts, pairs, self._design(data.inputs), shown)
        return expected, filtered.log_likelihood(data.real)

    def expect_side_by_side(
        self, beliefs: Sequence["InputHMM"], statistics: Sequences
    ) -> list[tuple[ExpectedPaths, Float[Array, ""]]] | None:
        """`expect` in NumPy where rows are few."""
        data = statistics.trimmed()
        if is_traced(beliefs, statistics) or len(data.real) == len(statistics.real) > 512:
            return None
        return [each.expect(data) for each in beliefs]

    def maximize(self, expected: ExpectedPaths, fixed: tuple[str, ...] = ()) -> "InputHMM":
        """Newton steps of the softmax regressions, and the M-step of the emission."""
        (_, _, design, shown), held = expected, whole_emission_held(tuple(fixed), self.emission)
        xp = namespace(self, expected)
        start, weights = self._weights
        if "start" not in fixed:
            start = climbed(start, design, expected.starts, self.ridge)
        if "transition" not in fixed:
            rows = [climbed(weights[i], design, expected.pairs[:, i], self.ridge) for i in range(len(weights))]
            weights = xp.stack(rows)
        emission = self.emission if held else require(self.emission, HasStatistics).maximize(shown)
        return changed(self, start=start, transition=weights, emission=emission)

    def log_prior_of_parameters(self) -> Float[Array, ""]:
        """-½ ridge (|S|² + |V|²) + log p(θ)."""
        start, weights = self._weights
        own = require(self.emission, HasStatistics).log_prior() if self.emission.able(HasStatistics) else 0.0
        return -0.5 * self.ridge * ((start**2).sum() + (weights**2).sum()) + own

    def restart(self, statistics: Sequences, seed: int) -> "InputHMM | None":
        """Another starting point; None where it has been learned already."""
        origin = statistics.origin
        if origin is None or set(params.learnable(origin)) == set(params.learnable(self)):
            return None
        return origin._started(statistics, seed)

    # -- parts ----------------------------------------------------------------------------------------------

    def _look(self, data: tuple[ArrayLike, ...], options: dict[str, Any]) -> tuple["InputHMM", Sequences]:
        """Before any data, and whole sequences."""
        self._weights  # noqa: B018 (says what is missing)
        hmm = self.unconditioned()
        return hmm, hmm.statistics(*data, **options).trimmed()

    @property
    def _weights(self) -> tuple[Float[Array, "k h"], Float[Array, "k k h"]]:
        if self.start is None or self.transition is None:
            raise DataError("the InputHMM is not known yet; learn it with credo.fit(hmm, x, inputs=u)")
        return self.start, self.transition

    def _design(self, inputs: Float[Array, "t c"] | None) -> Float[Array, "t h"]:
        """(standardized u, 1)."""
        assert inputs is not None and self.center is not None and self.scale is not None
        xp = namespace(inputs, self.center)
        return xp.concatenate([(inputs - self.center) / self.scale, xp.ones((len(inputs), 1))], axis=1)

    def _chain(self, inputs: Float[Array, "t c"] | None) -> tuple[Table, Matrices]:
        start, weights = self._weights
        design = self._design(inputs)
        xp = namespace(design, start, weights)
        return softmax(design @ start.T), softmax(xp.einsum("th,ijh->tij", design, weights))

    def _laws(self, data: Sequences) -> tuple[Table, Matrices]:
        """p(z) where a sequence begins at each row, and P at each row; one sequence goes on from `state`."""
        start, matrices = self._chain(data.inputs)
        if self.state is None or not data.alone:
            return start, matrices
        xp = namespace(start, self.state)
        return xp.concatenate([(self.state @ matrices[0])[None], start[1:]]), matrices

    def _ahead(self, steps: int, inputs: ArrayLike) -> tuple[Table, Matrices]:
        check_count(steps, "steps")
        if inputs is None:
            raise DataError(f"inputs must be given for the {steps} steps ahead: transitions depend on them")
        return self._chain(read_ahead(steps, inputs))

    def __repr__(self) -> str:
        """`InputHMM(3 states, 1 input, Gaussian emission; now state 2 with 0.97)`."""
        said = [counted(len(self.states), "state")]
        said += [] if self.center is None else [counted(len(self.center), "input")]
        text, state = f"{', '.join(said)}, {type(self.emission).__name__} emission", plain(self.state, 1)
        text += "; not known yet" if self.transition is None else ""
        text += "" if state is None else f"; now state {self.states[int(state.argmax())]} with {state.max():.2f}"
        return f"{type(self).__name__}({text})"


def softmax(eta: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """Probabilities along the last axis."""
    xp = namespace(eta)
    raised = xp.exp(eta - eta.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def climbed(
    weights: Float[Array, "k h"], design: Float[Array, "t h"], counts: Float[Array, "t k"], ridge: float
) -> Float[Array, "k h"]:
    """Newton steps up Σₜ countsₜ · log softmax(V ûₜ) - ½ ridge |V|², each halved until it does not fall."""
    xp, (k, h) = namespace(weights, design, counts), weights.shape

    def height(v: Array) -> Array:
        eta = design @ v.T
        top = eta.max(1, keepdims=True)
        log_p = eta - top - xp.log(xp.exp(eta - top).sum(1, keepdims=True))
        return (counts * log_p).sum() - 0.5 * ridge * (v**2).sum()

    total = counts.sum(1)
    for _ in range(NEWTON):
        p = softmax(design @ weights.T)
        slope = (counts - total[:, None] * p).T @ design - ridge * weights
        own = xp.einsum("t,tj,ta,tb->jab", total, p, design, design)
        mixed = xp.einsum("t,tj,tl,ta,tb->jalb", total, p, p, design, design)
        bend = xp.einsum("jl,jab->jalb", np.eye(k), own) - mixed
        step = xp.linalg.solve(bend.reshape(k * h, k * h) + ridge * np.eye(k * h), slope.ravel()).reshape(k, h)
        tries = [weights + share * step for share in (1.0, 0.5, 0.25, 0.0625, 0.0)]
        best = xp.argmax(xp.stack([height(each) for each in tries]))
        weights = xp.stack(tries)[best]
    return weights


# -- the passes, with a matrix for each time --------------------------------------------------------------------------


def _push(matrix: Array, law: Array) -> Array:
    return (matrix * law[:, None]).sum(0)


def _filtered(hmm: InputHMM, data: Sequences) -> Filtered:
    log_b = hmm.emission.log_prob(observed(data))
    start, matrices = hmm._laws(data)
    xp = namespace(log_b, start, matrices)

    def step(alpha: Array, x: tuple[Array, ...]) -> tuple[Array, Filtered]:
        row, begins, start, matrix = x
        found = Filtered(*update(xp.where(begins, start, _push(matrix, alpha)), row, xp))
        return found.probs, found

    xs = (log_b, begins_of(data.first), start, matrices)
    return scan(step, xp.asarray(start[0]), xs, lambda x: x[2], floor=RELATIVE)[1]


def _smooth(matrices: Matrices, filtered: Table, first: Marks) -> Table:
    xp = namespace(matrices, filtered, first)

    def step(gamma: Array, x: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        alpha, ends, following = x
        back = alpha * _push(following.swapaxes(0, 1), _ratio(gamma, _push(following, alpha), xp))
        gamma = xp.where(ends, alpha, back / back.sum(axis=0))
        return gamma, gamma

    xs = (filtered, ends_of(first), xp.concatenate([matrices[1:], matrices[:1]]))
    return scan(step, filtered[-1], xs, lambda x: x[0], reverse=True, floor=RELATIVE)[1]


def _latest(hmm: InputHMM, data: Sequences) -> Float[Array, " k"]:
    return _filtered(hmm, data).probs[data.real.sum() - 1]


def _log_likelihood(hmm: InputHMM, data: Sequences) -> Float[Array, ""]:
    return _filtered(hmm, data).log_likelihood(data.real)


def _smoothed(hmm: InputHMM, data: Sequences) -> Table:
    return _smooth(hmm._laws(data)[1], _filtered(hmm, data).probs, data.first)


def _best_path(hmm: InputHMM, data: Sequences) -> Int[Array, " t"]:
    """Viterbi."""
    log_b, (start, matrices) = hmm.emission.log_prob(observed(data)), hmm._laws(data)
    xp = namespace(log_b, start, matrices)
    log_p = xp.log(matrices)

    def forth(delta: Array, x: tuple[Array, ...]) -> tuple[Array, Array]:
        row, begins, start, log_p = x
        score = xp.where(begins, start, furthest(log_p, delta)) + row
        score = score - score.max(axis=0)
        return score, score

    scores = scan(forth, xp.asarray(log_b[0]), (log_b, begins_of(data.first), xp.log(start), log_p), lambda x: x[0])[1]

    def back(state: Array, x: tuple[Array, ...]) -> tuple[Array, Array]:
        delta, ends, following = x
        chosen = xp.take_along_axis(following, xp.broadcast_to(state, (len(delta), 1, *state.shape)), axis=1)[:, 0]
        state = most(xp.where(ends, delta, delta + chosen))
        return state, state

    xs = (scores, ends_of(data.first), xp.concatenate([log_p[1:], log_p[:1]]))
    return scan(back, xp.zeros((), np.int32), xs, lambda x: most(x[0]), reverse=True)[1]


def _real_rows(data: Sequences) -> Observed:
    n = data.rows
    seen: Bool[np.ndarray, "n d"] = np.asarray(data.seen)[:n]
    return Observed(data.x[:n], seen, None if data.inputs is None else data.inputs[:n], data.complete)
