"""One step ahead: what the belief would be after an outcome at x, and how much better one could then act.

An outcome at x moves the mean at a along a line, μ'(a) = μ(a) + b(a) Z with Z ~ N(0, 1) and

    b(a) = cov(f(a), f(x)) / √(σ²(x) + σₙ²(x)),        Var'(a) = Var(a) - b(a)²

    KnowledgeGradient          E max_a μ'(a) - max_a μ(a)           Frazier, Powell & Dayanik (2009)
    ExpectedVarianceReduction  Σ_a b(a)²                            Cohn (1996); Seo, Wallat, Graepel & Obermayer (2000)
    InformationDirected        -(E f* - μ(x))² / I(f(x); y)         Russo & Van Roy (2014)
"""

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, Numeric, namespace, special
from credo.core.checks import check_array, check_count, check_table
from credo.core.errors import DataError
from credo.core.padding import pad_rows
from credo.core.pytrees import changed
from credo.decide.acquisition.base import SMALLEST, Acquisition, Directed, Positive, deviation
from credo.decide.acquisition.checks import Beliefs, Points, demand_covariance, demand_inputs, single, table_or_none
from credo.decide.acquisition.information import KnowsMaxima, information
from credo.decide.acquisition.joint_draws import promising
from credo.decide.acquisition.normal_tails import log_improvement

Lines = Float[Array, "m k"]
NOTHING = -1e30
"""The logarithm of a knowledge gradient that is exactly zero."""


class KnowledgeGradient(Directed, Positive):
    """E max_a μ'(a) - max_a μ(a), over a in the reference points and x itself: what one more outcome is worth.

    Args:
        at: the reference points, shape (p, d); None: the rows that were seen.
        rows: of the rows that were seen, those of the largest mean + 2 std that are kept.
        maximize: False where small outcomes are good.
    """

    at: Float[Array, "p d"] | None = eqx.field(converter=lambda v: table_or_none(v, "at"), default=None)
    mask: Bool[Array, " p"] | None = None
    rows: int = eqx.field(static=True, default=64)

    def __check_init__(self) -> None:
        check_count(self.rows, "rows")

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "KnowledgeGradient":
        """With the rows that were seen as reference points, where there are no others."""
        demand_covariance(belief, "KnowledgeGradient")
        if self.at is not None:
            return self
        rows = demand_inputs(belief, "give reference points, KnowledgeGradient(at=points)")
        kept = rows[promising(belief, rows, self.maximize)[: self.rows]]
        return changed(self, at=pad_rows(kept, self.rows), mask=np.arange(self.rows) < len(kept))

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Its logarithm."""
        if self.at is None:
            raise DataError("KnowledgeGradient has no reference points yet; call prepared(belief) first, or give at=")
        known = demand_covariance(belief, "KnowledgeGradient")
        prediction, there = known.predict(x), known.predict(self.at)
        xp = namespace(prediction, there, self.mask)
        mask = np.ones(len(self.at), bool) if self.mask is None else self.mask
        spread = xp.maximum(prediction.epistemic, SMALLEST)
        outcome = deviation(spread + prediction.aleatoric)
        slopes = known.covariance(self.at, x).T / outcome[:, None]
        heights = xp.broadcast_to(self.turned(there.mean), slopes.shape)
        heights = xp.concatenate([heights, self.turned(prediction.mean)[:, None]], axis=1)
        slopes = xp.concatenate([slopes, (spread / outcome)[:, None]], axis=1)
        return log_expected_rise(heights, slopes, xp.append(mask, True))


def log_expected_rise(heights: Lines, slopes: Lines, mask: Bool[Array, " k"]) -> Float[Array, " m"]:
    """log of E maxᵢ (aᵢ + bᵢ Z) - maxᵢ aᵢ of each row, exactly, with a = `heights` and b = `slopes`.

    Between neighbours of the upper envelope, which meet at c, the slope jumps by Δb, and the rise is the sum of
    Δb h(-|c|), h(z) = φ(z) + z Φ(z).  Frazier et al. (2009), eq. 14. A line is part of the envelope if it overtakes
    the last of the flatter ones before the first of the steeper ones overtakes it.
    """
    xp = namespace(heights, slopes, mask)
    run = slopes[:, :, None] - slopes[:, None, :]
    drop = heights[:, None, :] - heights[:, :, None]
    steepest = xp.where(mask, xp.abs(slopes), 0.0).max(1)
    equal = xp.abs(run) <= 1e-13 * steepest[:, None, None]
    first = np.arange(slopes.shape[1])
    lower = (drop > 0) | ((drop == 0) & (first[None, :] < first[:, None]))
    hidden = (equal & lower & mask).any(2) | ~mask
    crossing = drop / xp.where(equal, 1.0, run)  # where line i meets line j
    others = ~equal & ~hidden[:, None, :]
    begin = xp.where(others & (run > 0), crossing, -np.inf).max(2)
    end = xp.where(others & (run < 0), crossing, np.inf).min(2)
    top = ~hidden & (begin < end)
    order = xp.argsort(xp.where(top, slopes, np.inf), axis=1)  # the lines of the envelope come first
    a, b, kept = (xp.take_along_axis(v, order, axis=1) for v in (heights, slopes, top))
    neighbours = kept[:, 1:]
    jump = xp.where(neighbours, b[:, 1:] - b[:, :-1], 1.0)
    where = xp.where(neighbours, (a[:, :-1] - a[:, 1:]) / jump, 0.0)
    terms = xp.where(neighbours, xp.log(jump) + log_improvement(-xp.abs(where)), -np.inf)
    rises = neighbours.any(1)
    return xp.where(rises, special(terms).logsumexp(xp.where(rises[:, None], terms, 0.0), axis=1), NOTHING)


class ExpectedVarianceReduction(Acquisition):
    """Σ_a cov(f(x), f(a))²/(σ²(x) + σₙ²(x)): by how much an outcome at x lowers the variances at the points a.

    Transductive: it looks where knowledge is needed, which need not be where it is missing.

    Args:
        at: the points that matter, shape (p, d).
        weights: how much each of them matters; None: all alike.
    """

    at: Float[Array, "p d"]
    weights: Float[Array, " p"]

    def __init__(self, at: Numeric, weights: Numeric | None = None):
        self.at = check_table(at, "at")
        self.weights = np.ones(len(self.at)) if weights is None else check_array(weights, "weights").astype(float)
        if self.weights.shape != (len(self.at),) or not np.all(self.weights >= 0):
            raise DataError(f"weights must be {len(self.at)} numbers that are not negative, one for each point of at")

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "ExpectedVarianceReduction":
        """Itself; the belief must know how function values covary."""
        demand_covariance(belief, "ExpectedVarianceReduction")
        return self

    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The sum of the reductions, in squared units of the outcomes."""
        known = demand_covariance(belief, "ExpectedVarianceReduction")
        prediction, between = known.predict(x), known.covariance(self.at, x)
        doubt = prediction.epistemic + prediction.aleatoric
        return self.weights @ between**2 / namespace(doubt).maximum(doubt, SMALLEST)


class InformationDirected(KnowsMaxima):
    """-(E f* - μ(x))² / I(f(x); y): little regret for every nat that is learned.

    E f* is the average of draws of the maximum.  Russo & Van Roy (2014), "Learning to optimize via
    information-directed sampling".

    Args:
        draws: of the maximum f*.
        at: the points over which the maximum is taken, shape (p, d).
        method: `gumbel`, cheap and for any belief, or `functions`: maxima of drawn functions.
        maxima: of ±f, instead of draws.
        maximize: False where small outcomes are good.
    """

    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Minus the squared regret for each nat."""
        score = self.climb(belief, x)
        return -namespace(score).exp(-score)

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """log I(f(x); y) - 2 log(E f* - μ(x)): it has the same order."""
        prediction = single(belief).predict(x)
        xp = namespace(prediction, self.maxima)
        gain = xp.maximum(information(prediction), SMALLEST)
        regret = self.drawn().mean() - self.turned(prediction.mean)
        # A mean above the average draw has no regret left; the floor is far below what a draw can resolve.
        return xp.log(gain) - 2 * xp.log(xp.maximum(regret, 1e-9 * deviation(prediction.epistemic)))
