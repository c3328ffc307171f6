"""The automatic statistician: which kernel suits the data?

`search_kernel` walks greedily through sums and products of base kernels (`grammar.py`): it begins with the best of
the base kernels, tries every step from the best so far, and stops when none improves the score, after `depth`
rounds, or when its time is up. Each kernel is fitted by climbing evidence × hyperpriors, as `learn` does, and scored
by

    "bic"        log p(y | X, θ̂) - ½ k log n          k hyperparameters; Schwarz (1978)
    "evidence"   log ∫ p(y | X, θ) p(θ) dθ             by Laplace's approximation around θ̂

Duvenaud et al. (2013); Lloyd et al. (2014), "Automatic construction and natural-language description of
nonparametric regression models".
"""

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from credo.core import params
from credo.core.arrays import as_float
from credo.core.checks import input_names
from credo.core.device import blas_threads
from credo.core.errors import DataError, NotConverged, NotConvergedWarning
from credo.core.pytrees import changed
from credo.infer.hyper.laplace import laplace_evidence
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED, DIVERGED, Optimum, maximize
from credo.infer.priors import LogScalePenalty
from credo.infer.progress import Progress
from credo.kernels import RBF
from credo.kernels.dotproduct import Linear
from credo.kernels.periodic import CenteredPeriodic
from credo.kernels.pullback import FAMILIES
from credo.models.gp import grammar
from credo.models.gp.belief import GP
from credo.models.gp.components import Decomposition, decompose
from credo.models.gp.data import Rows
from credo.models.gp.evidence import EvidenceObjective, NumpyModel
from credo.models.gp.hyperpriors import default_priors, scales_of
from credo.models.gp.means import Constant
from credo.models.noise import KnownNoise

SEARCH_ROWS = 250
"""The rows on which kernels are compared."""
LEARN_ROWS = 2000
"""The rows from which the numbers of the kernel that was found are learned."""
FIRST_STEPS, STEPS = 12, 60
CLIMBED = 4
"""How many kernels of a round are climbed to the end; the others are left where a short climb took them."""
WORTH = 1.0
"""What one more number must improve the score by, in nats; less is a tie."""
WALK, LEARN = 0.7, 0.85
"""When the walk, and the last fit, must be over: shares of the time. Conditioning on all rows comes after."""


class Search(NamedTuple):
    """What `search_kernel` found."""

    belief: GP
    """Conditioned on all rows."""
    formula: str
    """The kernel with its numbers."""
    structure: str
    """The kernel without its numbers."""
    score: float
    """By the criterion, on the rows that were searched on."""
    history: list[tuple[str, float]]
    """Every kernel tried with its score: round by round, the best of each first."""
    log_evidence: float
    """log p(y | X) of all rows, at the numbers that were learned."""
    parameters: int
    """How many numbers were learned or chosen."""
    finished: bool
    """Whether the search ended by itself, and not because the time was up."""

    def components(self, x: object = None) -> Decomposition:
        """The additive parts of the function, at x or at the data."""
        return decompose(self.belief, x)

    def sentences(self, **options: Any) -> list[str]:
        """A sentence for each part; `options` are those of `describe`."""
        from credo.models.gp.description import describe

        return describe(self.belief, **options)


class _Found(NamedTuple):
    gp: GP
    score: float
    choices: int
    residual: np.ndarray

    @property
    def numbers(self) -> int:
        return len(params.layout(self.gp)) + self.choices


def search_kernel(
    x: object,
    y: object,
    *,
    seconds: Any = 60.0,
    depth: int = 4,
    base: Sequence[Any] | None = None,
    criterion: str = "bic",
    progress: Any = None,
    seed: int = 0,
) -> Search:
    """The kernel, a sum of products of base kernels, that suits the data best, and the belief with it.

    Args:
        x: inputs, shape (n, d).
        y: outcomes, shape (n,).
        seconds: the time that it may take. It is looked at within fits too, and at least one kernel is fitted.
        depth: rounds of steps after the first.
        base: the kernels to build from; None is RBF, Linear and CenteredPeriodic.
        criterion: what decides; see the module.
        progress: True shows a line on the terminal; a function is called with the share of the time that has gone
            and the kernel being tried.
        seed: of the rows that are searched on, where there are more than 250.
    """
    begin = time.perf_counter()
    if not float(seconds) > 0:
        raise DataError(f"seconds is the time the search may take and must be positive, found {seconds}")
    if criterion not in ("bic", "evidence"):
        raise DataError(f"criterion must be 'bic' or 'evidence', found {criterion!r}")
    bases = _check_base(base)
    rows = x if isinstance(x, Rows) else GP(RBF()).statistics(x, y)
    if rows.n < 4:
        raise DataError(f"a search for a kernel needs at least 4 rows with an outcome, found {rows.n}")
    names = input_names(x) if hasattr(x, "columns") else [f"x{i}" for i in range(rows.x.shape[1])]
    with Progress(progress) as show:

        def say(text: str) -> None:
            show(min((time.perf_counter() - begin) / float(seconds), 1.0), text)

        work = _Work(rows, criterion, seed, begin + WALK * float(seconds))
        with blas_threads(1):  # threads that wait for each other cost more than small matrices
            best, history, finished = _walk(work, bases, depth, names, say)
        say("learning its numbers on all rows")
        learned, log_evidence = refine(best.gp, rows, begin + LEARN * float(seconds), seed)
    belief = learned.condition_on(rows)
    belief = belief.named(names) if hasattr(x, "columns") else belief
    formula, shape = learned.kernel.formula(), grammar.structure(learned.kernel, names)
    return Search(belief, formula, shape, best.score, history, log_evidence, best.numbers, finished)


@dataclass(frozen=True)
class KernelSearch(Learner):
    """`search_kernel` as a method of `fit`: the kernel of the belief is replaced by the one that is found."""

    needs: ClassVar[type] = GP

    seconds: float = 60.0
    depth: int = 4

    def learn(self, belief: GP, statistics: Rows, fixed: Sequence[str], priors: object, seed: int) -> Learned:
        """The belief with the kernel that was found; hyperpriors are the search's own."""
        if fixed or isinstance(belief.noise, KnownNoise) or not isinstance(belief.mean, Constant):
            raise DataError(
                "KernelSearch finds the kernel and numbers of a GP with a constant mean and one noise variance; leave "
                "fixed=, the mean and the noise out, or take the mean off y"
            )
        found = search_kernel(statistics, None, seconds=self.seconds, depth=self.depth, seed=seed)
        known = found.belief.named(belief.inputs) if belief.inputs else found.belief
        if not found.finished:
            warnings.warn(
                f"the search for a kernel ended when its {self.seconds:g} s were up; raise seconds to go on",
                NotConvergedWarning,
                stacklevel=4,
            )
        notes = [f"{len(found.history)} kernels were tried"]
        return Learned(known.unconditioned(), CONVERGED, found.log_evidence, [], {}, notes, known)


def refine(gp: GP, rows: Rows, deadline: float = np.inf, seed: int = 0) -> tuple[GP, float]:
    """The belief with its numbers climbed from where they are on (at most 2000 of) the rows; log p(y | X) of those.

    It is what `learn` does from one start, in time: `deadline` is one of `time.perf_counter`.
    """
    scales, center = scales_of(gp.kernel, rows)
    start = changed(gp.unconditioned(), mean=gp.mean.adapt(rows.cut()[0], scales, center))
    part = rows.at_most(LEARN_ROWS, seed)
    priors = search_priors(start, part)
    climb = Evidence(1, max_steps=2 * STEPS, tolerance=1e-3, flat=False, deadline=deadline)
    with blas_threads(part.n):
        learned = climb.learn(start, part, [], priors, seed)
    if learned.status == DIVERGED:
        raise NotConverged("the evidence is not finite at the starting values; check the scale of the data")
    return learned.belief, learned.log_evidence - float(params.log_prior(learned.belief, priors))


def search_priors(gp: GP, rows: Rows) -> dict[str, LogScalePenalty]:
    """The default hyperpriors, but none of periods.

    The search starts periods at peaks of the periodogram and holds them in a range.
    """
    return {path: prior for path, prior in default_priors(gp, rows).items() if not path.endswith(".period")}


# -- the walk --------------------------------------------------------------------------------------------------------


class Climbed(NamedTuple):
    """Where a climb of the evidence of a kernel has come to."""

    gp: GP
    """Where it began."""
    slots: params.Layout
    priors: dict[str, LogScalePenalty]
    objective: EvidenceObjective
    top: Optimum

    def laplace(self) -> float:
        """log ∫ p(y, θ) dθ over log θ; directions in which the density does not fall count as wide as a factor e²."""
        sizes = {s.path: s.stop - s.start for s in self.slots}
        log_mass = sum(sizes[p] * float(v.log_mass) for p, v in self.priors.items() if p in sizes)
        return laplace_evidence(self.objective.value_and_grad, self.top.vector, least=0.25) - log_mass


class _Work:
    """The rows that are searched on, and the fits on them."""

    def __init__(self, rows: Rows, criterion: str, seed: int, deadline: float):
        self.rows, self.criterion, self.deadline = rows.at_most(SEARCH_ROWS, seed), criterion, deadline
        self.template = GP(RBF()).in_units(self.rows)
        x, y, *_ = self.rows.cut()
        self.facts = grammar.Facts(x, y, _gaps(rows.cut()[0]))

    def time_is_up(self) -> bool:
        return time.perf_counter() > self.deadline

    def look(self, step: grammar.Step, noise: float) -> _Found | None:
        """Short climbs from every start, and the best of them."""
        tries: list[tuple[Climbed, int]] = []
        for kernel, choices in step.starts:
            gp = changed(self.template, kernel=kernel, noise=as_float(noise))
            tries.append((self.climb(gp, FIRST_STEPS), choices))
            if self.time_is_up():
                break
        return self._found(*max(tries, key=lambda t: t[0].top.value))

    def further(self, found: _Found) -> _Found:
        """The same kernel further up."""
        return self._found(self.climb(found.gp, STEPS), found.choices) or found

    def climb(self, gp: GP, steps: int) -> Climbed:
        """The highest point reached, in time."""
        slots, priors = params.layout(gp), search_priors(gp, self.rows)
        start = np.asarray(params.to_vector(gp, slots))
        lower, upper = params.bounds(slots, start)
        for slot in slots:
            if slot.path.endswith("period"):  # what is not seen twice is no period
                where = slice(slot.start, slot.stop)
                upper[where] = np.maximum(np.log(self.facts.span.max() / 2), start[where])
        objective = EvidenceObjective(NumpyModel(gp, slots, self.rows, priors))
        top = maximize(objective.value_and_grad, [start], lower, upper, steps, 1e-2, stop=self.time_is_up)[0]
        return Climbed(gp, slots, priors, objective, top)

    def _found(self, climbed: Climbed, choices: int) -> _Found | None:
        vector = climbed.top.vector
        if not np.isfinite(climbed.top.value):
            return None
        gp = params.from_vector(climbed.gp, climbed.slots, vector)
        return _Found(gp, self.score(climbed, choices), choices, climbed.objective.left_over(vector))

    def score(self, climbed: Climbed, choices: int) -> float:
        """By the criterion; a choice among places counts as a number."""
        k, n = len(climbed.top.vector) + choices, self.rows.n
        if self.criterion == "bic":
            return climbed.objective.log_evidence(climbed.top.vector) - 0.5 * k * np.log(n)
        return climbed.laplace() - 0.5 * choices * np.log(n)


def _walk(
    work: _Work, bases: Sequence[type], depth: int, names: Sequence[str], say: Callable[[str], None]
) -> tuple[_Found, list[tuple[str, float]], bool]:
    history: list[tuple[str, float]] = []
    tried: set[str] = set()
    best: _Found | None = None
    start_noise = 0.1 * float(work.facts.y.var()) or 1.0
    for _ in range(depth + 1):
        noise = start_noise if best is None else float(best.gp.noise_variance())
        steps: Iterable[grammar.Step] = grammar.first_steps(bases, work.facts)
        if best is not None:
            steps = grammar.next_steps(best.gp.kernel, best.choices, bases, work.facts, best.residual, noise)
        looked: list[tuple[str, _Found]] = []
        for step in steps:
            if step.key in tried:
                continue
            if work.time_is_up() and (looked or best is not None):
                break
            tried.add(step.key)
            shape = grammar.structure(step.starts[0][0], names)
            say(shape)
            found = work.look(step, noise)
            looked += [] if found is None else [(shape, found)]
        looked.sort(key=lambda pair: -pair[1].score)
        looked = [(shape, work.further(f) if i < CLIMBED else f) for i, (shape, f) in enumerate(looked)]
        history += [(shape, f.score) for shape, f in looked]
        round_ = [f for _, f in looked] + ([] if best is None else [best])
        if not round_:
            raise NotConverged("no base kernel could be fitted; check the scale of the data")
        leader = _leader(round_)
        if leader is best or work.time_is_up():
            return leader, history, not work.time_is_up()
        best = leader
    assert best is not None
    return best, history, True


def _leader(found: Sequence[_Found]) -> _Found:
    """The highest score; among those that are as good as it the one with the fewest numbers."""
    top = max(each.score for each in found)
    return min((f for f in found if f.score >= top - WORTH), key=lambda f: (f.numbers, -f.score))


# -- small things ----------------------------------------------------------------------------------------------------


def _check_base(base: Sequence[Any] | None) -> Sequence[type]:
    bases = (RBF, Linear, CenteredPeriodic) if base is None else tuple(base)
    for each in bases:
        if each not in FAMILIES:
            known = ", ".join(family.__name__ for family in FAMILIES)
            raise DataError(f"base must list kernel classes among {known}, found {each!r}")
    if not bases:
        raise DataError("base must list at least one kernel class, found none")
    return bases


def _gaps(x: np.ndarray) -> np.ndarray:
    """The median distance between neighbouring values of each column."""
    steps = [np.diff(np.unique(column)) for column in x.T]
    return np.asarray([np.median(s) if len(s) else 1.0 for s in steps])
