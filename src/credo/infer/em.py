"""`EM`: parameters of a model with hidden variables z, by turns of an expectation and a maximization.

    E    expected statistics of (x, z) under p(z | x, θₙ), and log p(x | θₙ) on the way
    M    θₙ₊₁ = argmax_θ E[log p(x, z | θ)] + log p(θ), in closed form

No step lowers log p(x | θ) + log p(θ). That is checked at every one of them: a fall is a bug in the model and raises
`NotMonotone`. Any belief with these four methods can be learned by `EM`:

    expect(statistics) -> (expected, log_likelihood)     the E-step; traceable
    maximize(expected, fixed) -> belief                  the M-step for what is not `fixed` (learnable paths); traceable
    log_prior_of_parameters() -> array                   log p(θ) as `maximize` sees it, 0 for maximum likelihood
    restart(statistics, seed) -> belief | None           another starting point; None where the user gave it

and, for few data, `expect_side_by_side` in NumPy: the climbs from all starts take their steps in turns.

Plain EM crawls where much is hidden. `accelerate` extrapolates two of its steps (SQUAREM, scheme S3) in the
unconstrained vector u of the learnable numbers, with r = u₁ - u₀ and v = (u₂ - u₁) - r:

    u' = u₀ - 2αr + α²v,    α = -‖r‖/‖v‖    (α = -1 is u₂, plain EM)

and takes u' only where the objective does not fall below that of u₁; else α goes half the way to -1, and so on. The
norms are of the numbers in natural units, each path relative to its largest: a probability on its way to 0 has a u on
its way to -∞, which would decide alone.

Dempster, Laird & Rubin (1977); Varadhan & Roland (2008), "Simple and globally convergent methods for accelerating the
convergence of any EM algorithm".
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.abilities import HasExpectations
from credo.core.arrays import Array, host
from credo.core.errors import DataError, NotMonotone
from credo.infer.learning import Learned, LocalOptimum
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED, DIVERGED, STOPPED, Optimum, distinct
from credo.infer.priors import Priors
from credo.infer.progress import Progress, Show

R = TypeVar("R")
Asking = Generator[HasExpectations, tuple[HasExpectations, float], R]
"""A part of a climb: it hands out a belief, and is told what follows by EM and the objective there."""

ROUNDING = 1e-9
"""A fall of the objective by this times (1 + its size) is rounding."""
WIDER, LONGEST = 4.0, 256.0
"""The longest -α allowed grows by the factor when it was reached and shrinks by it when it failed, up to a limit."""
PLAIN = 1.1
"""Nearer to plain EM than this, -α backs off to 1 itself."""


class Climb(NamedTuple):
    """What came of one starting point."""

    belief: HasExpectations
    objectives: tuple[float, ...]
    """log p(x | θ) + log p(θ) at every point that was taken, the start first; it never falls."""
    status: str
    steps: int
    """How often the E- and M-step were computed, proposals that were refused included."""

    @property
    def objective(self) -> float:
        """The objective at `belief`; -inf where the climb diverged."""
        return self.objectives[-1] if self.status != DIVERGED else -np.inf


@dataclass(frozen=True)
class EM(Learner):
    """Expectation maximization from several starts, accelerated.

    Args:
        starts: starting points, the belief itself and others from `belief.restart`; one where its start was given.
        max_steps: passes over the data from each start.
        tolerance: a climb ends when a step gains less than this, relative to 100 + the gain so far: it has no units.
        accelerate: whether steps are extrapolated (SQUAREM).
        progress: True for a bar, or a function of the share done and a text.
    """

    needs: ClassVar[type] = HasExpectations

    starts: int = 4
    max_steps: int = 200
    tolerance: float | int = 1e-6
    accelerate: bool = True
    progress: bool | Show = False

    def learn(
        self, belief: HasExpectations, statistics: object, fixed: Sequence[str], priors: Priors, seed: int
    ) -> Learned:
        """The belief at the highest maximum found; it can be learned again, and goes on where it was."""
        if priors:
            raise DataError(
                f"EM has the model's own priors, found priors for {', '.join(sorted(priors))}; give the prior to the "
                "belief, or learn with using=credo.infer.Evidence()"
            )
        held = tuple(params.expand_paths(belief, fixed))
        # None where the belief has its start from the user; what is fixed stays as it was.
        others = [belief.restart(statistics, seed + i) for i in range(1, int(self.starts))]
        same = {path: params.learnable(belief)[path] for path in held}
        begin = [belief, *(params.replace(each, same) for each in others if each is not None)]
        with Progress(self.progress) as show:
            return _summary(self._climbs(begin, statistics, held, show), held)

    def climb(self, belief: HasExpectations, statistics: object, fixed: Sequence[str] = ()) -> Climb:
        """EM from one belief: where it ends, and the objective at every step on the way."""
        return self._climbs([belief], statistics, tuple(fixed), lambda share, text: None)[0]

    def _climbs(
        self, begin: Sequence[HasExpectations], statistics: object, fixed: tuple[str, ...], show: Show
    ) -> list[Climb]:
        """The climbs from all starts, each a step at a time, so that their E-steps can run side by side."""
        ways = [self._way(_Path(each, fixed, int(self.max_steps))) for each in begin]
        asked = {i: next(way) for i, way in enumerate(ways)}
        ended: dict[int, Climb] = {}
        share, count = 0.0, 0
        while asked:
            answers = _steps(list(asked.values()), statistics, fixed)
            for i, answer in zip(list(asked), answers, strict=True):
                try:
                    asked[i] = ways[i].send(answer)
                except StopIteration as end:
                    ended[i] = end.value
                    del asked[i]
            count, best = count + 1, max(height for _, height in answers)
            share = max(share, len(ended) / len(ways), count / self.max_steps * (len(asked) > 0))
            show(min(share, 1.0), f"EM step {count}: {best:.6g}")
        return [ended[i] for i in range(len(ways))]

    def _way(self, path: "_Path") -> Asking[Climb]:
        """One climb."""
        if not (yield from path.begin()):
            return path.ended(DIVERGED)
        longest = WIDER
        while path.steps < path.most:
            before, height = path.here, path.objectives[-1]
            if not (yield from path.go(path.following)):
                return path.ended(DIVERGED)
            if path.objectives[-1] - height <= self.tolerance * (100 + height - path.objectives[0]):
                return path.ended(CONVERGED)
            if self.accelerate and path.steps < path.most:
                longest = yield from self._leap(path, before, longest)
        return path.ended(STOPPED)

    def _leap(self, path: "_Path", before: HasExpectations, longest: float) -> Asking[float]:
        """Tries an extrapolation of the last step and the one that follows; how long the next one may be."""
        ratio, (u, r, v) = _extrapolation(before, path.here, path.following, path.slots)
        alpha = min(ratio, longest) if np.isfinite(ratio) else longest
        reached = alpha == longest
        while alpha > PLAIN and path.steps < path.most:
            there = params.from_vector(path.here, path.slots, u + 2 * alpha * r + alpha**2 * v)
            if (yield from path.go(there, leap=True)):
                return min(longest * WIDER, LONGEST) if reached else longest
            longest, reached = max(longest / WIDER, WIDER), False
            alpha = (alpha + 1) / 2
        return longest


class _Path:
    """Where a climb is, what follows by EM from there, and the heights on the way."""

    def __init__(self, belief: HasExpectations, fixed: tuple[str, ...], most: int):
        self.here = self.following = host(belief)
        self.slots, self.most, self.steps = params.layout(belief, fixed), most, 0
        self.objectives: list[float] = []

    def begin(self) -> Asking[bool]:
        """What follows from the start; whether its objective is finite."""
        self.following, height = yield self.here
        self.objectives = [height]
        return bool(np.isfinite(height))

    def go(self, belief: HasExpectations, leap: bool = False) -> Asking[bool]:
        """Goes where EM leads, or leaps to a proposal if the objective does not fall; whether it went."""
        following, height = yield belief
        last = self.objectives[-1]
        self.steps += 1
        if not np.isfinite(height) or (leap and height < last):
            return False
        if height < last - ROUNDING * (1 + abs(last)):
            raise NotMonotone(
                f"step {self.steps} of EM lowered log likelihood + log prior from {last:.12g} to {height:.12g}, which "
                f"EM cannot: expect, maximize or log_prior_of_parameters of {type(belief).__name__} has a bug"
            )
        self.here, self.following = belief, following
        self.objectives.append(max(height, last))
        return True

    def ended(self, status: str) -> Climb:
        return Climb(self.here, tuple(self.objectives), status, self.steps)


def _steps(
    beliefs: Sequence[HasExpectations], statistics: object, fixed: tuple[str, ...]
) -> list[tuple[HasExpectations, float]]:
    """Each belief after one E- and M-step, and the objective before it."""
    with np.errstate(all="ignore"):  # an objective that is not finite is refused
        found = beliefs[0].expect_side_by_side(beliefs, statistics)
        if found is None:
            after = [host(_step(each, statistics, fixed)) for each in beliefs]
        else:
            after = [_maximized(each, *expected, fixed) for each, expected in zip(beliefs, found, strict=True)]
    return [(following, float(height)) for following, height in after]


@eqx.filter_jit
def _step(
    belief: HasExpectations, statistics: object, fixed: tuple[str, ...]
) -> tuple[HasExpectations, Float[Array, ""]]:
    """One program for all steps and starts."""
    return _maximized(belief, *belief.expect(statistics), fixed)


def _maximized(
    belief: HasExpectations, expected: object, log_likelihood: Float[Array, ""], fixed: tuple[str, ...]
) -> tuple[HasExpectations, Float[Array, ""]]:
    following = belief.maximize(expected, fixed)
    if fixed:
        before = params.learnable(belief)
        following = params.replace(following, {path: before[path] for path in fixed})
    return following, log_likelihood + belief.log_prior_of_parameters()


def _extrapolation(
    first: HasExpectations, second: HasExpectations, third: HasExpectations, slots: params.Layout
) -> tuple[float, Float[np.ndarray, "3 k"]]:
    """‖r‖/‖v‖, and (u₀, r, v); a number that is not finite (a probability of 0) stays where the last step had it."""
    u0, u1, u2 = (np.asarray(params.to_vector(each, slots)) for each in (first, second, third))
    with np.errstate(invalid="ignore"):  # -∞ of a probability of 0, less itself
        r, v = u1 - u0, u2 - 2 * u1 + u0
    moves = np.isfinite(r) & np.isfinite(v)
    vectors = np.stack([np.where(moves, u0, u2), np.where(moves, r, 0.0), np.where(moves, v, 0.0)])
    values = [params.learnable(each) for each in (first, second, third)]
    top = bottom = 0.0
    for slot in slots:
        a, b, c = (np.asarray(each[slot.path]) for each in values)
        scale = max(float(np.abs(c).max(initial=0.0)), np.finfo(float).tiny)
        with np.errstate(over="ignore", invalid="ignore"):  # a number that is next to nothing
            top, bottom = top + (((b - a) / scale) ** 2).sum(), bottom + (((c - 2 * b + a) / scale) ** 2).sum()
    with np.errstate(invalid="ignore"):
        return float(np.sqrt(top / bottom)) if bottom > 0 else np.inf, vectors


def _summary(climbs: Sequence[Climb], held: tuple[str, ...]) -> Learned:
    ranked = sorted((c._replace(belief=c.belief.canonical()) for c in climbs), key=lambda c: -c.objective)
    best = ranked[0]
    free = [{path: np.asarray(v) for path, v in params.learnable(c.belief).items() if path not in held} for c in ranked]
    places = [np.concatenate([np.zeros(0), *(np.ravel(v) for v in values.values())]) for values in free]
    optima = distinct([Optimum(p, c.objective, c.status, c.steps) for c, p in zip(ranked, places, strict=True)])
    described = [
        LocalOptimum(o.value, next(v for v, p in zip(free, places, strict=True) if p is o.vector), o.status, o.found)
        for o in optima
    ]
    notes = [
        f"EM{f', start {i} of {len(climbs)}' if len(climbs) > 1 else ''}: {c.status} after {c.steps} steps, "
        f"log likelihood + log prior {c.objectives[-1]:.7g}"
        for i, c in enumerate(climbs, 1)
    ]
    return Learned(best.belief, best.status, best.objective, described, {}, notes)
