"""Several points at once, scored jointly by quasi-Monte Carlo with base normals that stay the same.

With f₁ … f_q one of s joint draws at the q points (and b = `best`, or the best of the draw at the rows seen):

    BatchExpectedImprovement        E (maxⱼ fⱼ - b)₊                           Ginsbourger et al. (2010)
    BatchNoisyExpectedImprovement   E (maxⱼ fⱼ - max f at the rows seen)₊      Letham et al. (2019)
    BatchUpperConfidenceBound       E maxⱼ (μⱼ + β√(π/2) |fⱼ - μⱼ|)            Wilson et al. (2017)

Points that are pending take part in every draw; improvement is counted beyond theirs.

To be climbed, the maxima are softened at a temperature τ that is small beside the doubt about the function,

    (maxⱼ vⱼ)₊ → τ log(1 + Σⱼ exp(vⱼ/τ)),    whose logarithm is about maxⱼ vⱼ/τ where no draw improves:

a slope that leads back, where the score itself is flat at zero.  After Ament et al. (2023).
"""

from typing import ClassVar, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, as_float, namespace, special
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.decide.acquisition.base import Directed, deviation
from credo.decide.acquisition.checks import (
    Beliefs,
    Points,
    check_draws,
    check_number,
    demand_covariance,
    demand_inputs,
    maybe_array,
    table_or_none,
)
from credo.decide.acquisition.improvement import ExpectedImprovement
from credo.decide.acquisition.joint_draws import Baseline, baseline, root_of, stacked
from credo.decide.acquisition.normal_tails import log_softplus

B = TypeVar("B", bound="Batch")
NEVER = -1e30
"""A height that is never the largest; -inf would have no slope in the temperature."""


class Batch(Directed):
    """A score of q points together: x has shape (b, q, d), one score for each of the b sets."""

    q: int = eqx.field(static=True)
    draws: int = eqx.field(static=True, default=128, kw_only=True)
    temperature: Float[Array, ""] = eqx.field(converter=as_float, default=1e-2, kw_only=True)
    """τ in standard deviations of the function at the points."""
    baseline: Baseline | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self) -> None:
        check_count(self.q, "q")
        check_draws(self.draws)
        check_number(self.temperature, "temperature", 1e-12)

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "Batch":
        """With the base normals, and the function drawn at the pending points."""
        return self.drawn(belief, seed, pending)

    def drawn(self: B, belief: Beliefs, seed: int, pending: Points, size: int = 0, **known: Array | None) -> B:
        """With the draws: `known` are the rows that may be the best, of which `size` are kept, or the incumbent."""
        more = table_or_none(pending, "pending")
        draws = baseline(belief, self.maximize, self.draws, self.q, size, seed, pending=more, **known)
        return changed(self, baseline=draws)

    def joint(self, belief: Beliefs, x: Float[Array, "b q d"]) -> tuple[Array, Array, Array, Baseline]:
        """Mean (b, q) and deviations (b, s, q) of the draws of ±f, the temperature (b,), and the draws elsewhere."""
        if x.ndim != 3 or x.shape[1] != self.q:
            raise DataError(
                f"{type(self).__name__}(q={self.q}) scores sets of {self.q} points: x must have shape "
                f"(b, {self.q}, d), found {tuple(x.shape)}; for one set pass x[None]"
            )
        base = self.baseline
        if base is None:
            raise DataError(f"{type(self).__name__} has no base normals yet; call prepared(belief) first")

        known = demand_covariance(belief, type(self).__name__)

        def of_one(points: Float[Array, "q d"]) -> tuple[Array, Array, Array]:
            covariance = known.covariance(points, points)
            half = base.explained(known, points)
            root = root_of(known, points, covariance - half.T @ half)
            spread = deviation(namespace(covariance).trace(covariance) / self.q)
            return self.turned(known.predict(points).mean), base.normals @ half + base.fresh @ root.T, spread

        mean, deviations, spread = stacked(of_one, x)
        return mean, deviations, self.temperature * spread, base


class BatchExpectedImprovement(Batch):
    """E (maxⱼ fⱼ - best - ξ)₊ over q points jointly.

    Args:
        q: the number of points of a set.
        best: the outcome to be beaten; None: the best mean at the rows that were seen.
        xi: by how much it must be beaten to count.
        draws: quasi-random draws, an even number.
        temperature: of the soft maxima that `climb` uses, in standard deviations of the function.
        maximize: False where small outcomes are good.
    """

    best: Float[Array, ""] | None = eqx.field(converter=maybe_array, default=None)
    xi: Float[Array, ""] = eqx.field(converter=as_float, default=0.0)

    def __check_init__(self) -> None:
        check_number(self.best, "best")
        check_number(self.xi, "xi")

    scale: ClassVar[str] = "positive"

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "BatchExpectedImprovement":
        """With the incumbent, the base normals, and the function drawn at the pending points."""
        best = ExpectedImprovement(self.best, maximize=self.maximize).incumbent(belief)
        return self.drawn(belief, seed, pending, best=self.turned(best))

    def __call__(self, belief: Beliefs, x: Float[Array, "b q d"]) -> Float[Array, " b"]:
        """The expected improvement of each set, in the units of the outcomes."""
        mean, deviations, _, base = self.joint(belief, x)
        top = (mean[:, None, :] + deviations).max(-1)
        return namespace(top, self).maximum(top - base.best - self.xi, 0.0).mean(-1)

    def climb(self, belief: Beliefs, x: Float[Array, "b q d"]) -> Float[Array, " b"]:
        """log of E τ log(1 + Σⱼ exp((fⱼ - best - ξ)/τ))."""
        mean, deviations, tau, base = self.joint(belief, x)
        gaps = mean[:, None, :] + deviations - base.best[:, None] - self.xi
        each = log_softplus(special(gaps).logsumexp(gaps / tau[:, None, None], axis=-1))
        return namespace(tau).log(tau) + special(each).logsumexp(each, axis=-1) - np.log(self.draws)


class BatchNoisyExpectedImprovement(BatchExpectedImprovement):
    """E (maxⱼ fⱼ - max f at the rows seen - ξ)₊ over q points jointly: under noise the best row is not known.

    Args:
        q: the number of points of a set.
        xi: by how much it must be beaten to count.
        draws: quasi-random draws, an even number.
        rows: the rows that may be the best one; where more were seen, those of the largest mean + 2 std.
        temperature: of the soft maxima that `climb` uses, in standard deviations of the function.
        maximize: False where small outcomes are good.
    """

    rows: int = eqx.field(static=True, default=64, kw_only=True)

    def __check_init__(self) -> None:
        check_count(self.rows, "rows")
        if self.best is not None:
            raise DataError("BatchNoisyExpectedImprovement draws what is to be beaten; use BatchExpectedImprovement")

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "BatchNoisyExpectedImprovement":
        """With the base normals, and the function drawn at the rows seen and at the pending points."""
        rows = demand_inputs(belief, "use BatchExpectedImprovement(q, best=…)")
        return self.drawn(belief, seed, pending, self.rows, rows=rows)


class BatchUpperConfidenceBound(Batch):
    """E maxⱼ (μⱼ + β√(π/2) |fⱼ - μⱼ|): for one point it is μ + β σ; near points do not count twice.

    Args:
        q: the number of points of a set.
        beta: the width of the bound in standard deviations.
        draws: quasi-random draws, an even number.
        temperature: of the soft maxima that `climb` uses, in standard deviations of the function.
        maximize: False where small outcomes are good.
    """

    beta: Float[Array, ""] = eqx.field(converter=as_float, default=2.0)

    def __check_init__(self) -> None:
        check_number(self.beta, "beta", 0.0)

    def __call__(self, belief: Beliefs, x: Float[Array, "b q d"]) -> Float[Array, " b"]:
        """The bound of each set and of the pending points, in the units of the outcomes."""
        heights, _ = self.heights(belief, x)
        return heights.max(-1).mean(-1)

    def climb(self, belief: Beliefs, x: Float[Array, "b q d"]) -> Float[Array, " b"]:
        """The same with soft maxima."""
        heights, tau = self.heights(belief, x)
        return tau * special(heights).logsumexp(heights / tau[:, None, None], axis=-1).mean(-1)

    def heights(self, belief: Beliefs, x: Float[Array, "b q d"]) -> tuple[Array, Array]:
        """μ + β√(π/2) |f - μ| at the points and at the pending ones, shape (b, s, q + r), and the temperature."""
        mean, deviations, tau, base = self.joint(belief, x)
        xp, width = namespace(mean, self), self.beta * np.sqrt(np.pi / 2)
        own = mean[:, None, :] + width * abs(deviations)
        there = xp.where(base.mask, base.mean + width * abs(base.deviations), NEVER)
        return xp.concatenate([own, xp.broadcast_to(there, (len(x), *there.shape))], axis=-1), tau
