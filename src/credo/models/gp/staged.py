"""Learning the hyperparameters of a Gaussian process.

The evidence has several local maxima (Rasmussen & Williams 2006, §5.4.1) and each look at it costs O(n³).
`Staged` looks for them on a part of the rows, where a look is cheap, and climbs the best on all rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from credo.core import params
from credo.core.belief import Belief
from credo.core.device import blas_threads
from credo.core.errors import NotPositiveDefinite
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner
from credo.infer.optimize import DIVERGED, Optimum, flat_directions
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.evidence import Priors
from credo.models.gp.hyperpriors import TYPICAL_NOISE

DIFFERENCE = 0.05
"""The step of the finite differences that measure curvature, in unconstrained units."""

ROUGHLY = 1e-5
"""The gain of a step, relative to the height, that ends a climb on a part of the rows."""

STRIDE = 0.3
"""The first step of a second climb, in unconstrained units."""
SHORTER = 0.5
"""By how much lengthscales are shorter where it begins, in unconstrained units."""
FAR = 2.0
"""How far from its start a number must be to be suspected of running away, in unconstrained units."""

NOISES = (1e-6, 1e-4, 1e-2, 1.0)
"""Shares of the typical noise that are tried where there was less."""

APART = 0.1
"""Maxima whose heights differ by less are taken for the same."""
CLEARLY = 4.0
"""By how many standard errors a lower maximum must predict what is left out better than the highest to be taken."""

STEPS = (0.02, 1.0)
"""The shortest and the longest first step from a maximum on fewer rows."""


@dataclass(frozen=True)
class Staged(Learner):
    """Short climbs from several starts on a few random rows; the best goes on with more, at last with all.

    A maximum on a third of the rows is near that on all, and a look at it costs a thirtieth. Where looks are cheap
    anyway, all climbs are on all rows.
    `using=Evidence(starts=…)` climbs from every start on all rows, and reports every local maximum.
    """

    needs: ClassVar[type] = GP

    starts: int = 3
    rows: int = 256
    """The rows that starts are tried on."""
    short: int = 8
    """The steps of a short climb."""
    max_steps: int = 200
    tolerance: float = 1e-3
    gain: float = 1e-6
    deadline: float = np.inf
    """When climbs end where they are highest, by `time.perf_counter`."""

    def learn(self, belief: GP, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the maximum found."""
        climb = Evidence(
            self.starts, max_steps=self.max_steps, tolerance=self.tolerance, gain=self.gain, deadline=self.deadline
        )
        sizes = self.sizes(statistics.n)
        if len(sizes) == 1:
            with blas_threads(sizes[0]):
                fine = changed(climb, tolerance=self.tolerance / 10, gain=self.gain / 100)
                return noise_free(fine.learn(belief, statistics, fixed, priors, seed))
        order = np.random.default_rng(seed).permutation(statistics.n)
        part = statistics.subset(np.sort(order[: sizes[0]]))
        one = changed(climb, starts=1, flat=False)
        with blas_threads(sizes[0]):
            learned = changed(climb, max_steps=self.short, flat=False).learn(belief, part, fixed, priors, seed)
            learned = changed(one, gain=ROUGHLY).learn(learned.belief, part, fixed, priors, seed)
        rows = part
        for n in sizes[1:]:
            stride = typical_steps(learned, rows, fixed, priors, n)
            rows = statistics if n == statistics.n else statistics.subset(np.sort(order[:n]))
            with blas_threads(n):
                gain = self.gain if n == statistics.n else ROUGHLY
                start = _noise_of_more(learned.belief, rows, fixed, priors)
                learned = changed(one, stride=stride, gain=gain).learn(start, rows, fixed, priors, seed)
        again = _second_look(belief, learned, statistics, fixed)
        if again is not None:
            with blas_threads(statistics.n):
                second = changed(one, stride=STRIDE).learn(again, statistics, fixed, priors, seed)
            learned = _better(learned, second, statistics)
        plateaus = flat(belief, learned, part, fixed, priors)
        path = " to ".join(str(n) for n in sizes)
        notes = [
            *learned.notes,
            f"{self.starts} short climbs on a part of the rows; the best went on: {path} rows",
        ]
        return noise_free(learned._replace(at_bound=learned.at_bound | plateaus, notes=notes))

    def sizes(self, n: int) -> list[int]:
        """How many rows are climbed on, stage by stage."""
        sizes = [self.rows]
        while 3 * sizes[-1] < 0.6 * n:
            sizes.append(3 * sizes[-1])
        return [*sizes, n] if n > 1.5 * sizes[-1] else [n]


def _noise_of_more(belief: GP, rows: Rows, fixed: Sequence[str], priors: Priors) -> GP:
    """The belief with noise for more rows than it has learned from, where that was next to none.

    Rows that have a twin in inputs and outcome need no noise. The next twins may disagree, and from there no climb
    comes back: the evidence is a wall.
    """
    slots = params.layout(belief, fixed)
    vector = np.asarray(params.to_vector(belief, slots))
    noise = [s.start for s in slots if s.path == "noise"]
    levels = TYPICAL_NOISE * rows.cut()[1].var() * np.array(NOISES)
    if not noise or not np.exp(vector[noise[0]]) < levels[0]:
        return belief
    objective = Evidence().objective(belief, slots, rows, priors)
    tried = [vector, *(np.where(np.arange(len(vector)) == noise[0], np.log(level), vector) for level in levels)]
    return params.from_vector(belief, slots, max(tried, key=objective.value))


def _second_look(start: GP, learned: Learned, rows: Rows, fixed: Sequence[str]) -> GP | None:
    """Where a second climb should begin, if finer structure may have been missed; None where nothing hints at it.

    Few rows cannot tell a rough function from noise, nor an input that matters little from one that does not matter:
    at the endless lengthscale that they give it the slope is zero, and more rows do not call it back. They might from
    near where it began; and where there is little noise from shorter lengthscales and less noise.
    """
    slots = params.layout(learned.belief, fixed)
    noise = [i for s in slots if s.path == "noise" for i in range(s.start, s.stop)]
    first, vector = (np.asarray(params.to_vector(b, slots)) for b in (start, learned.belief))
    lengths = [i for s in slots if s.path.endswith("lengthscale") for i in range(s.start, s.stop)]
    given_up = [i for i in lengths if vector[i] > first[i] + FAR]
    quiet = bool(noise) and np.exp(vector[noise[0]]) <= TYPICAL_NOISE * rows.cut()[1].var()
    if not given_up and not (lengths and quiet):
        return None
    again = vector.copy()
    if quiet:
        again[lengths] -= SHORTER
        again[noise] -= np.log(3.0)  # what they explain was noise before
    again[given_up] = first[given_up] + 1.0
    return params.from_vector(learned.belief, slots, again)


def _better(one: Learned, other: Learned, rows: Rows) -> Learned:
    """The higher of two maxima, unless the lower predicts each row from all others clearly better.

    The evidence believes the model; where that is wrong (noise that is not the same everywhere, say) its maxima can
    differ little in height and much in what they predict. Rasmussen & Williams (2006), §5.4.2; the standard error of
    the difference is that of Vehtari, Gelman & Gabry (2017), "Practical Bayesian model evaluation using LOO".
    """
    high, low = sorted((one, other), key=lambda each: each.log_evidence, reverse=True)
    if not high.log_evidence - low.log_evidence > APART:
        return high
    y = rows.cut()[1]
    try:
        left_out = [np.asarray(each.belief.condition_on(rows).leave_one_out().log_prob(y)) for each in (low, high)]
    except NotPositiveDefinite:  # a maximum with next to no noise, where the evidence had its jitter
        return high
    gain = left_out[0] - left_out[1]
    if not gain.sum() > CLEARLY * np.sqrt(len(gain)) * gain.std(ddof=1):
        return high
    note = (
        f"of two maxima of the evidence the lower ({low.log_evidence:.6g}, not {high.log_evidence:.6g}) was taken: "
        f"it predicts rows that are left out better, by {gain.sum():.4g} in log density"
    )
    return low._replace(notes=[*low.notes, note])


def typical_steps(learned: Learned, rows: Rows, fixed: Sequence[str], priors: Priors, n: int) -> np.ndarray:
    """How far each coordinate is likely to move with n rows: a standard deviation, from the curvature on fewer."""
    slots = params.layout(learned.belief, fixed)
    vector = np.asarray(params.to_vector(learned.belief, slots))
    objective = Evidence().objective(learned.belief, slots, rows, priors)
    with blas_threads(rows.n):
        _, here = objective.value_and_grad(vector)
        moved = [objective.value_and_grad(vector + DIFFERENCE * e)[1] for e in np.eye(len(vector))]
    curvature = np.array([(here[i] - g[i]) / DIFFERENCE for i, g in enumerate(moved)]) * n / rows.n
    return np.clip(1.0 / np.sqrt(np.maximum(curvature, 1e-12)), *STEPS)


def flat(start: Belief, learned: Learned, rows: Rows, fixed: Sequence[str], priors: Priors) -> dict[str, str]:
    """Directions without a maximum, among those that were gone far, looked for where a look is cheap: on few rows."""
    slots = params.layout(learned.belief, fixed)
    vector = np.asarray(params.to_vector(learned.belief, slots))
    far = np.abs(vector - np.asarray(params.to_vector(start, slots))) > FAR
    free = [i for s in slots if s.path not in priors for i in range(s.start, s.stop) if far[i]]
    if learned.status == DIVERGED or not free:
        return {}
    objective = Evidence().objective(learned.belief, slots, rows, priors)
    here = Optimum(vector, objective.value(vector), learned.status, 0)
    names = params.coordinate_names(slots)
    with blas_threads(rows.n):
        found = flat_directions(objective.value, here, *params.bounds(slots, vector), free)
    return {names[i]: side for i, side in found}


def noise_free(learned: Learned) -> Learned:
    """Noise at its lower bound is not a failure: the outcomes of a simulator have none. Said in a note."""
    if learned.at_bound.get("noise") != "lower":
        return learned
    rest = {name: side for name, side in learned.at_bound.items() if name != "noise"}
    note = "the noise ran to its lower bound: the outcomes are fitted exactly, as those of a computation would be"
    return learned._replace(at_bound=rest, notes=[*learned.notes, note])
