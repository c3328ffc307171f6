"""`learn` and `fit`: choosing what is not integrated over, then Bayes' rule.

    learn    θ̂ = argmax_θ log p(data | θ) + log p(θ)        type-II maximum likelihood, MAP-II with `priors`
    fit      learn, then condition

`using` names the method: `Evidence()` climbs the log evidence by gradient from several starts; a belief may
prefer another (`Linear` has MacKay's fixed point). MacKay (1992), "Bayesian interpolation".
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array
from credo.core.belief import Belief, warned
from credo.core.checks import check_count
from credo.core.errors import DataError, NotConverged, NotConvergedWarning
from credo.core.method import check_using
from credo.infer.averaging import Integrated
from credo.infer.method import Approximation, Learner, Solver
from credo.infer.optimize import CONVERGED, DIVERGED, STOPPED, Optimum, at_bound, flat_directions, maximize
from credo.infer.priors import Priors
from credo.infer.progress import Progress

B = TypeVar("B", bound=Belief)


class LocalOptimum(NamedTuple):
    """One local maximum of the evidence: the hyperparameters there and how many starts found it."""

    log_evidence: float
    values: Mapping[str, Array]
    status: str
    found: int


class Learned(NamedTuple):
    """What `learn(..., report=True)` returns: the belief, and how it was found."""

    belief: Any
    status: str
    """"converged", "stopped" (out of steps) or "diverged" (nowhere finite)."""
    log_evidence: float
    """Log evidence plus log prior at the optimum."""
    optima: list[LocalOptimum]
    """Every local maximum found, the highest first."""
    at_bound: dict[str, str]
    """Hyperparameters that ran to a bound, or on to a plateau before it, and to which."""
    notes: list[str]
    """What the method has to say in words, e.g. which features were pruned."""
    conditioned: Belief | None = None
    """The belief after the data, where the method has conditioned it already."""
    doubts: tuple[str, ...] = ()
    """Why not to trust it, and what to do: each is a `NotConvergedWarning`."""


def learned_together(belief: Any, parts: Mapping[str, Learned], head: str) -> Learned:
    """A belief of parts that were learned on their own: evidences add; of optima, each of one part, none are kept.

    `parts` are by what notes call them, `head` is the path of the parts in the belief.
    """
    each = list(parts.values())
    return Learned(
        belief,
        max((part.status for part in each), key=(CONVERGED, STOPPED, DIVERGED).index),
        sum(part.log_evidence for part in each),
        [],
        {f"{head}.{i}.{path}": side for i, part in enumerate(each) for path, side in part.at_bound.items()},
        [f"{name}: {note}" for name, part in parts.items() for note in part.notes],
        doubts=tuple(doubt for part in each for doubt in part.doubts),
    )


@dataclass(frozen=True)
class Evidence(Learner):
    """Gradient ascent on the log evidence (L-BFGS-B) from several starts."""

    starts: int = 4
    spread: float = 1.5
    """Standard deviation of the random starts around the first, in unconstrained units."""
    max_steps: int = 200
    tolerance: float = 1e-5
    """A climb ends where no slope is larger."""
    gain: float = 1e-14
    """A climb ends after a step that gains less than this times the height."""
    stride: Any = 1.0
    """The length of the first step, in unconstrained units; one for all coordinates or one for each."""
    flat: bool = True
    """Whether to look for directions without a maximum."""
    deadline: float = np.inf
    """When climbs end where they are highest, by `time.perf_counter`."""

    def learn(self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest maximum found."""
        slots = params.layout(belief, fixed)
        return self.climb(self.objective(belief, slots, statistics, priors), belief, slots, priors, seed)

    def climb(
        self,
        objective: Any,
        belief: Any,
        slots: params.Layout,
        priors: Priors,
        seed: int,
        least: Mapping[str, float] = MappingProxyType({}),
    ) -> Learned:
        """The belief at the highest maximum of any objective of its unconstrained numbers; `least` are the smallest

        values of positive numbers, by path.
        """
        first = np.asarray(params.to_vector(belief, slots))
        lower, upper = params.bounds(slots, first)
        for s in slots:
            if s.path in least:
                lower[s.start : s.stop] = np.log(least[s.path])
        first = np.maximum(first, lower)
        noise = np.random.default_rng(seed).normal(size=(max(self.starts, 1), len(first))) * self.spread
        noise[0] = 0.0
        stops = (self.max_steps, self.tolerance, self.gain, self.stride)
        stop = None if np.isinf(self.deadline) else lambda: time.perf_counter() > self.deadline
        with Progress(None, "climbing the evidence") as say:

            def starts() -> Iterator[np.ndarray]:
                for i, start in enumerate(first + noise):
                    say(i / len(noise), f"climbing the evidence, start {i + 1} of {len(noise)}")
                    yield start

            optima = maximize(objective.value_and_grad, starts(), lower, upper, *stops, stop)
        learned = summarize(belief, slots, optima, lower, upper)
        if learned.status == DIVERGED or not self.flat:
            return learned
        names = params.coordinate_names(slots)
        free = [i for s in slots if s.path not in priors for i in range(s.start, s.stop)]  # a prior is never flat
        flat = flat_directions(objective.value, optima[0], lower, upper, free)
        return learned._replace(at_bound=learned.at_bound | {names[i]: side for i, side in flat})

    def objective(self, belief: Any, slots: params.Layout, statistics: Any, priors: Priors) -> Any:
        """What is climbed: the belief's own way of computing it, or `Objective`."""
        return belief.objective(slots, statistics, priors) or Objective(belief, slots, statistics, priors)


def evidence_of(belief: Any, statistics: Any) -> Float[Array, ""]:
    """log p(data | θ)."""
    return belief.evidence_of(statistics)


class Objective(NamedTuple):
    """log p(data | θ), or another score, + log p(θ) as a function of the unconstrained vector."""

    belief: Any
    slots: params.Layout
    statistics: Any
    priors: Priors
    score: Callable[[Any, Any], Array] = evidence_of

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient."""
        value, gradient = _objective(vector, *self)
        return float(value), np.asarray(gradient)

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self.value_and_grad(vector)[0]


@eqx.filter_jit
def _objective(
    vector: Float[Array, " k"] | np.ndarray,
    belief: Any,
    slots: params.Layout,
    statistics: Any,
    priors: Any,
    score: Callable[[Any, Any], Array],
) -> tuple[Array, Array]:
    def log_joint(u: Array) -> Array:
        candidate = params.from_vector(belief, slots, u)
        own = candidate.log_prior_of_parameters()
        return score(candidate, statistics) + own + params.log_prior(candidate, priors)

    return jax.value_and_grad(log_joint)(vector)


def summarize(
    belief: Any,
    slots: params.Layout,
    optima: Sequence[Optimum],
    lower: np.ndarray,
    upper: np.ndarray,
    notes: Sequence[str] = (),
) -> Learned:
    """`Learned` from a method's optima in unconstrained coordinates."""
    best, names = optima[0], params.coordinate_names(slots)
    described = [LocalOptimum(o.value, params.natural_values(slots, o.vector), o.status, o.found) for o in optima]
    bounds = {names[i]: side for i, side in at_bound(best.vector, lower, upper)}
    chosen = params.from_vector(belief, slots, best.vector)
    return Learned(chosen, best.status, best.value, described, bounds, list(notes))


def learn(
    belief: B,
    *data: object,
    using: object = None,
    fixed: Iterable[str] = (),
    priors: Mapping[str, object] | Literal[False] | None = None,
    seed: int = 0,
    report: bool = False,
    **options: object,
) -> Any:
    """The belief whose hyperparameters maximize evidence × prior.

    Args:
        belief: the belief to start from; where it has not been told, its scales and starting values are
            chosen from the data.
        data: what `belief.condition` takes.
        using: the method; None is the belief's own choice, usually `Evidence()`.
        fixed: paths of numbers that stay as they are, e.g. `["noise"]`; the name of a part holds all of it.
        priors: densities by path, e.g. `{"noise": numpyro.distributions.LogNormal(0, 1)}`: MAP-II. They replace
            the model's own default for that path (`{"noise": None}` takes it away); False is none at all, type-II ML.
        seed: of the random starts.
        report: return `Learned`, with every local optimum, instead of the belief alone.
        options: what else `belief.condition` takes, e.g. `weights=`.
    """
    learned, _ = prepare_and_learn(belief, data, using, fixed, priors, seed, options, verb="learn")
    if isinstance(learned.belief, Belief):
        learned = learned._replace(belief=learned.belief.returned())
    return learned if report else learned.belief


def fit(
    belief: B,
    *data: object,
    using: object = None,
    fixed: Iterable[str] = (),
    priors: Mapping[str, object] | Literal[False] | None = None,
    seed: int = 0,
    report: bool = False,
    **options: object,
) -> Any:
    """`learn`, then `condition`, in one pass over the data; the arguments are those of `learn`.

    Where data are few some beliefs are averaged over their hyperparameters (`HyperImportance`, see there), which
    `using=Evidence()`, or the family's own learner, does not do.
    """
    data = belief.gathered(*data) if isinstance(belief, Belief) else data
    learned, statistics = prepare_and_learn(belief, data, using, fixed, priors, seed, options)
    if learned.conditioned is not None and (isinstance(using, Learner) or not isinstance(using, Solver)):
        conditioned = learned.conditioned
    elif isinstance(using, Solver):  # also where the family's own learner has conditioned, in its own form
        chosen = learned.belief.mode if isinstance(learned.belief, Integrated) else learned.belief
        conditioned = using.conclude(chosen, statistics, data, options)
    else:
        conditioned = learned.belief.condition_on(statistics)
    warned(conditioned)
    return learned._replace(belief=conditioned) if report else conditioned


def prepare_and_learn(
    belief: Belief,
    data: tuple[object, ...],
    using: object,
    fixed: Iterable[str],
    priors: Mapping[str, object] | Literal[False] | None,
    seed: int,
    options: dict[str, object],
    say: Callable[[Learned], None] | None = None,
    verb: str = "fit",
) -> tuple[Learned, Any]:
    """What `learn` and `fit` share: how it was learned, and the statistics of the data, which were read once.

    `say` speaks of what went wrong; None warns as credo does.
    """
    if not isinstance(belief, Belief):
        raise DataError(
            f"learn and fit take a belief first, found {type(belief).__name__}; e.g. credo.fit(credo.Linear(), X, y)"
        )
    data = belief.gathered(*data)
    belief = (belief.mode if isinstance(belief, Integrated) else belief).told(*data)
    method: Any = None if using is None else check_using(using, belief, verb)
    check_count(seed, "seed", 0)
    held = params.expand_paths(belief, fixed)
    given = params.check_priors(belief, priors or {})
    prepared, statistics = belief.prepare(*data, **options)
    # What the user fixed stays as given, whatever `prepare` would have chosen from the data.
    prepared = params.replace(prepared, {path: params.learnable(belief)[path] for path in held})
    chosen = prepared.choose(statistics) if using is None else None
    if chosen is not None:
        method = chosen[0]
    if isinstance(method, Solver):
        if not method.learns:
            return Learned(prepared, CONVERGED, float("nan"), [], {}, ["it depends on no hyperparameters"]), statistics
        prepared, statistics = method.adapt(prepared, statistics)
        method = method if isinstance(method, Learner) else None
    elif isinstance(method, Approximation) and (own := prepared.by(method)) is not None:
        prepared, method = own, None
    elif isinstance(method, Approximation):
        from credo.infer.hyper.draws import _OverDraws  # which needs `Learned`

        method = _OverDraws(method)
    if not params.layout(prepared, held):
        value = float(prepared.log_evidence_of(statistics))
        return Learned(prepared, CONVERGED, value, [], {}, ["there was nothing to learn"]), statistics
    from credo.infer.hyper.importance import HyperImportance, choose_integration  # which needs `Learned`

    defaults = {} if priors is False else prepared.default_priors(statistics)
    merged = {path: prior for path, prior in (defaults | given).items() if prior is not None and path not in held}
    if method is None and verb == "fit" and priors is not False:
        method = choose_integration(prepared, statistics, held)
    if isinstance(method, HyperImportance):
        method = method.under(prepared, statistics, given)
    learner = method or prepared.learner(merged) or Evidence()
    looked_at, left_out = prepared.learned_from(statistics)
    try:
        learned = learner.learn(prepared, looked_at, held, merged, seed)
    except MemoryError as error:
        raise DataError(
            f"memory ended while learning from these data by {type(learner).__name__}; learn from a part of the rows, "
            "or name a method that keeps less of them"
        ) from error
    learned = learned._replace(notes=[*([] if chosen is None else [chosen[1]]), *learned.notes, *left_out])
    (say or _speak_up)(learned)
    return learned, statistics


def _speak_up(learned: Learned) -> None:
    if learned.status == DIVERGED:
        raise NotConverged(
            "the evidence is not finite at any starting point; check the scale of the data, or start from other "
            "hyperparameters"
        )
    if learned.status == STOPPED:
        remedy = (learned.belief.learner({}) or Evidence()).longer()
        warnings.warn(
            f"learning stopped before it converged (log evidence {learned.log_evidence:.6g}); "
            f"raise max_steps of the method, e.g. using={remedy}, or fix some hyperparameters",
            NotConvergedWarning,
            stacklevel=4,
        )
    for doubt in learned.doubts:
        warnings.warn(doubt, NotConvergedWarning, stacklevel=4)
    for name, side in learned.at_bound.items():
        warnings.warn(
            f"{name} ran towards its {side} bound: the data alone do not determine it; "
            f"hold it (fixed=[{name.split('[')[0]!r}]), give it a prior (priors={{...}}) or simplify the model",
            NotConvergedWarning,
            stacklevel=4,
        )
