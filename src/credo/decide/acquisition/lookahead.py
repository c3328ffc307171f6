"""One step ahead: what the belief would be after an outcome at x, and how much better one could then act.

An outcome at x moves the mean at a along a line, μ'(a) = μ(a) + b(a) Z with Z ~ N(0, 1) and

    b(a) = cov(f(a), f(x)) / √(σ²(x) + σₙ²(x)),        Var'(a) = Var(a) - b(a)²

    KnowledgeGradient          E max_a μ'(a) - max_a μ(a)           Frazier, Powell & Dayanik (2009)
    ExpectedVarianceReduction  Σ_a b(a)²                            Cohn (1996); Seo, Wallat, Graepel & Obermayer (2000)
    InformationDirected        -(E f* - μ(x))² / I(f(x); y)         Russo & Van Roy (2014)
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Bool, Float

from credo.core.arrays import Array, put
from credo.core.checks import ArrayLike, check_count, check_table
from credo.core.errors import DataError
from credo.core.padding import pad_rows
from credo.decide.acquisition.base import SMALLEST, Acquisition, Directed, Positive, deviation
from credo.decide.acquisition.checks import demand_covariance, demand_inputs, table_or_none
from credo.decide.acquisition.information import KnowsMaxima, information
from credo.decide.acquisition.joint_draws import promising
from credo.decide.acquisition.normal_tails import log_improvement

Lines = Float[Array, " k"]
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

    def prepared(self, belief: Any, *, seed: int = 0, pending: ArrayLike = None) -> "KnowledgeGradient":
        """With the rows that were seen as reference points, where there are no others."""
        demand_covariance(belief, "KnowledgeGradient")
        if self.at is not None:
            return self
        rows = demand_inputs(belief, "give reference points, KnowledgeGradient(at=points)")
        kept = rows[promising(belief, rows, self.maximize)[: self.rows]]
        mask = put(np.arange(self.rows) < len(kept))
        return self.filled(at=put(pad_rows(kept, self.rows)), mask=mask)

    def climb(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Its logarithm."""
        if self.at is None:
            raise DataError("KnowledgeGradient has no reference points yet; call prepared(belief) first, or give at=")
        prediction, there = belief.predict(x), belief.predict(self.at)
        known = jnp.ones(len(self.at), bool) if self.mask is None else self.mask
        spread = jnp.maximum(prediction.epistemic, SMALLEST)
        outcome = deviation(spread + prediction.aleatoric)
        slopes = belief.covariance(self.at, x).T / outcome[:, None]
        heights = jnp.broadcast_to(self.turned(there.mean), slopes.shape)
        heights = jnp.concatenate([heights, self.turned(prediction.mean)[:, None]], axis=1)
        slopes = jnp.concatenate([slopes, (spread / outcome)[:, None]], axis=1)
        return jax.vmap(log_expected_rise, (0, 0, None))(heights, slopes, jnp.append(known, True))


def log_expected_rise(heights: Lines, slopes: Lines, mask: Bool[Array, " k"]) -> Float[Array, ""]:
    """log of E maxᵢ (aᵢ + bᵢ Z) - maxᵢ aᵢ, exactly, with a = `heights` and b = `slopes`.

    Between neighbours of the upper envelope, which meet at c, the slope jumps by Δb, and the rise is the sum of
    Δb h(-|c|), h(z) = φ(z) + z Φ(z).  Frazier et al. (2009), eq. 14. A line is part of the envelope if it overtakes
    the last of the flatter ones before the first of the steeper ones overtakes it.
    """
    run = slopes[:, None] - slopes[None, :]
    drop = heights[None, :] - heights[:, None]
    equal = jnp.abs(run) <= 1e-13 * jnp.abs(slopes).max(where=mask, initial=0.0)
    first = jnp.arange(len(slopes))
    lower = (drop > 0) | ((drop == 0) & (first[None, :] < first[:, None]))
    hidden = (equal & lower & mask[None, :]).any(1) | ~mask
    crossing = drop / jnp.where(equal, 1.0, run)  # where line i meets line j
    others = ~equal & ~hidden[None, :]
    begin = jnp.max(jnp.where(others & (run > 0), crossing, -jnp.inf), axis=1)
    end = jnp.min(jnp.where(others & (run < 0), crossing, jnp.inf), axis=1)
    top = ~hidden & (begin < end)
    order = jnp.argsort(jnp.where(top, slopes, jnp.inf))
    a, b, neighbours = heights[order], slopes[order], top[order][1:]  # the lines of the envelope come first
    jump = jnp.where(neighbours, b[1:] - b[:-1], 1.0)
    where = jnp.where(neighbours, (a[:-1] - a[1:]) / jump, 0.0)
    terms = jnp.where(neighbours, jnp.log(jump) + log_improvement(-jnp.abs(where)), -jnp.inf)
    rises = neighbours.any()
    return jnp.where(rises, logsumexp(jnp.where(rises, terms, 0.0)), NOTHING)


class ExpectedVarianceReduction(Acquisition):
    """Σ_a cov(f(x), f(a))²/(σ²(x) + σₙ²(x)): by how much an outcome at x lowers the variances at the points a.

    Transductive: it looks where knowledge is needed, which need not be where it is missing.

    Args:
        at: the points that matter, shape (p, d).
        weights: how much each of them matters; None: all alike.
    """

    at: Float[Array, "p d"]
    weights: Float[Array, " p"]

    def __init__(self, at: Any, weights: Any = None):
        self.at = jnp.asarray(check_table(at, "at"))
        self.weights = jnp.ones(len(self.at)) if weights is None else jnp.asarray(weights, float)
        if self.weights.shape != (len(self.at),) or bool(jnp.any(~(self.weights >= 0))):
            raise DataError(f"weights must be {len(self.at)} numbers that are not negative, one for each point of at")

    def prepared(self, belief: Any, *, seed: int = 0, pending: ArrayLike = None) -> "ExpectedVarianceReduction":
        """Itself; the belief must know how function values covary."""
        demand_covariance(belief, "ExpectedVarianceReduction")
        return self

    def __call__(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The sum of the reductions, in squared units of the outcomes."""
        prediction = belief.predict(x)
        between = jnp.square(belief.covariance(self.at, x))
        return self.weights @ between / jnp.maximum(prediction.epistemic + prediction.aleatoric, SMALLEST)


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

    def __call__(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Minus the squared regret for each nat."""
        return -jnp.exp(-self.climb(belief, x))

    def climb(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """log I(f(x); y) - 2 log(E f* - μ(x)): it has the same order."""
        prediction = belief.predict(x)
        gain = jnp.maximum(information(prediction), SMALLEST)
        regret = self.drawn().mean() - self.turned(prediction.mean)
        # A mean above the average draw has no regret left; the floor is far below what a draw can resolve.
        return jnp.log(gain) - 2 * jnp.log(jnp.maximum(regret, 1e-9 * deviation(prediction.epistemic)))
