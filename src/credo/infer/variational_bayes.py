"""`VariationalBayes`: the law of hidden variables z and parameters θ that is nearest to the posterior, as a product.

    q(z) q(θ) = argmax E_q[log p(x, z, θ) - log q],    log p(x) ≥ that bound (ELBO)

by turns: q(θ) is conjugate given the expected statistics of z, and those follow from q(θ). No step lowers the bound,
which is checked; where a belief can, turns are extrapolated as in `EM`, and kept if the bound gains. Components that
share the rows of one kind are a maximum that no step leaves, so pairs are merged as long as the bound gains by it (Ueda
& Ghahramani 2002). A belief with these (`HasConjugateLaws`) is averaged over draws from q. Attias (2000), "A
variational Bayesian framework for graphical models"; Beal (2003).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.random as jr
import numpy as np

from credo.core import params
from credo.core.abilities import HasConjugateLaws
from credo.core.arrays import host
from credo.core.checks import ArrayLike, check_count
from credo.core.errors import DataError, NotMonotone
from credo.infer.em import LONGEST, ROUNDING, WIDER
from credo.infer.learning import Learned, LocalOptimum
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED, DIVERGED, STOPPED
from credo.infer.progress import Progress, Show

TRIALS = 3
"""Mergers that are climbed from before it is said that none helps."""


class VariationalClimb(NamedTuple):
    """What came of one starting point: q, and the bound at every step."""

    q: Any
    """What is believed of the parameters; `expected` are the statistics it was made of."""
    bounds: tuple[float, ...]
    status: str


@dataclass(frozen=True)
class VariationalBayes(Learner):
    """The product of laws of hidden variables and parameters that is nearest to the posterior.

    A product knows nothing of how the two hang together, so it is too sure of both: on a few dozen rows 95 % intervals
    were seen to hold 85 %. Gibbs sampling (`PathGibbs`, `MixtureGibbs`) draws both together, and takes longer.

    Args:
        starts: starting points; one where the belief's was given.
        max_steps: passes over the data from each start.
        tolerance: a climb ends when a step gains less than this, relative to 100 + the gain so far: it has no units.
        members: beliefs drawn from q over which `condition` averages.
        progress: True for a bar, or a function of the share done and a text.
    """

    needs: ClassVar[type] = HasConjugateLaws
    integrates: ClassVar[bool] = True

    starts: int = 4
    max_steps: int = 2000
    tolerance: float | int = 1e-7
    members: int = 32
    progress: bool | Show = False

    def learn(
        self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Mapping[str, object], seed: int
    ) -> Learned:
        """The belief at the mean of q; `log_evidence` is the bound (ELBO)."""
        best, climbs = self._best(belief, statistics, fixed, priors, seed)
        optima = [
            LocalOptimum(c.bounds[-1], _numbers(belief.center_of(c.q).canonical()), c.status, 1)
            for c in sorted(climbs, key=lambda climb: -climb.bounds[-1])
        ]
        notes = [
            f"variational Bayes: {c.status} after {len(c.bounds) - 1} steps, ELBO {c.bounds[-1]:.7g}" for c in climbs
        ]
        notes.append("the product of laws is too sure where rows are few, and does not see that: use Gibbs sampling")
        return Learned(belief.center_of(best.q).canonical(), best.status, best.bounds[-1], optima, {}, notes)

    def condition(self, belief: Any, *data: ArrayLike, seed: int = 0, **options: Any) -> Any:
        """The belief after the data, averaged over members drawn from q."""
        check_count(self.members, "members")
        prepared, statistics = belief.prepare(*data, **options)
        best, _ = self._best(prepared, statistics, (), {}, seed)
        return prepared.averaged(host(prepared.drawn_from(jr.split(jr.key(seed), self.members), best.q)), statistics)

    def settle(self, belief: Any, statistics: Any) -> VariationalClimb:
        """`climb`, and then mergers of hidden kinds for as long as the bound gains by one of them."""
        found = self.climb(belief, statistics)
        while found.status != DIVERGED:
            pairs = belief.merged(found.q.expected)
            # A step from each tells which are worth a climb.
            heights = [float(host(belief.improve(each, statistics))[2]) for each in pairs]
            for i in sorted(range(len(pairs)), key=lambda i: -heights[i])[:TRIALS]:
                after = self.climb(belief, statistics, pairs[i])
                if after.bounds[-1] > found.bounds[-1] + self.tolerance * 100:
                    found = VariationalClimb(after.q, (*found.bounds, after.bounds[-1]), after.status)
                    break
            else:
                break
        return found

    def climb(self, belief: Any, statistics: Any, expected: Any = None) -> VariationalClimb:
        """From one belief, or expected statistics: q, and the bound on log p(x) at every step on the way."""
        expected = self._first(belief, statistics) if expected is None else expected
        bounds: list[float] = []
        status, turns, longest = STOPPED, [expected], WIDER
        for _ in range(int(self.max_steps)):
            q, expected, bound = host(belief.improve(expected, statistics))
            bounds.append(float(bound))
            if not np.isfinite(bounds[-1]):
                return VariationalClimb(q, (-np.inf,), DIVERGED)
            if len(bounds) > 1:
                gain, size = bounds[-1] - bounds[-2], 1 + abs(bounds[-2])
                if gain < -ROUNDING * size and statistics.complete:
                    raise NotMonotone(
                        f"a step of variational Bayes lowered the bound from {bounds[-2]:.12g} to {bounds[-1]:.12g}, "
                        f"which it cannot: {type(belief).__name__} has a bug"
                    )
                if gain <= self.tolerance * (100 + bounds[-2] - bounds[0]):
                    status = CONVERGED
                    break
            turns.append(expected)
            guess = belief.extrapolated(tuple(turns), longest) if len(turns) == 3 else None
            if guess is not None and len(bounds) < self.max_steps:
                ahead = host(belief.improve(guess[0], statistics))
                higher = bool(ahead[2] >= bounds[-1])
                if higher:
                    (q, expected), bounds = ahead[:2], [*bounds, float(ahead[2])]
                longest = _allowed(longest, reached=guess[1] == longest, higher=higher)
            turns = [expected] if len(turns) == 3 else turns
        return VariationalClimb(q, tuple(bounds), status)

    def _first(self, belief: Any, statistics: Any) -> Any:
        """Expected statistics at the belief's own parameters."""
        begun = belief.begin(statistics)
        if begun is not None:
            return begun
        found = belief.expect_side_by_side([belief], statistics)
        return host(_expect(belief, statistics))[0] if found is None else found[0][0]

    def _best(
        self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Mapping[str, object], seed: int
    ) -> tuple[VariationalClimb, list[VariationalClimb]]:
        refuse(fixed, priors)
        check_count(self.starts, "starts")
        check_count(self.max_steps, "max_steps")
        others = (belief.restart(statistics, seed + i) for i in range(1, int(self.starts)))
        begin = [belief, *(each for each in others if each is not None)]
        climbs: list[VariationalClimb] = []
        with Progress(self.progress) as show:
            for i, each in enumerate(begin):
                climbs.append(self.settle(each, statistics))
                show((i + 1) / len(begin), f"ELBO {climbs[-1].bounds[-1]:.6g}")
        return max(climbs, key=lambda c: c.bounds[-1]), climbs


def _allowed(longest: float, *, reached: bool, higher: bool) -> float:
    """How far the next guess may lead, after one that reached the limit or not, and was higher or refused."""
    if not higher:
        return max(longest / WIDER, WIDER)
    return min(longest * WIDER, LONGEST) if reached else longest


_expect = eqx.filter_jit(lambda belief, statistics: belief.expect(statistics))


def _numbers(belief: Any) -> dict[str, np.ndarray]:
    return {path: np.asarray(value) for path, value in params.learnable(belief).items()}


def refuse(fixed: Sequence[str], priors: Mapping[str, object]) -> None:
    """`DataError` where something is to be held, or has a prior of another kind."""
    if fixed or priors:
        raise DataError(
            "variational Bayes and Gibbs sampling integrate over all parameters under the model's own priors, found "
            f"{', '.join([*fixed, *priors])}; use credo.infer.NUTS() to hold some, or for other priors"
        )
