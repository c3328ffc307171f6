"""Improvement over the best so far, and the chance that a constraint is met.

With f(x) ~ N(μ, σ²), incumbent `best`, margin ξ and z = (μ - best - ξ)/σ:

    PI(x) = P(f(x) > best + ξ)       = Φ(z)                       Kushner (1964)
    EI(x) = E(f(x) - best - ξ)₊      = σ (φ(z) + z Φ(z))          Mockus (1975); Jones, Schonlau & Welch (1998)
    NEI(x) = E EI(x | f at the rows seen), where noise hides which of them is best    Letham et al. (2019)

`climb` is the logarithm, finite and with a slope wherever the score itself is too small for floating point.
"""

from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, as_float, host, namespace, special
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.decide.acquisition.base import Acquisition, Directed, Positive, deviation
from credo.decide.acquisition.checks import (
    Beliefs,
    Points,
    Predicts,
    check_draws,
    check_number,
    demand_covariance,
    demand_inputs,
    maybe_array,
    single,
    table_or_none,
)
from credo.decide.acquisition.joint_draws import Baseline, baseline
from credo.decide.acquisition.normal_tails import log_cdf, log_improvement

NO_ROWS = "give the value to be beaten, e.g. ExpectedImprovement(best=1.3)"


class Improving(Directed, Positive):
    """A score that asks by how much a point beats `best`; None: the largest mean at the rows seen."""

    best: Float[Array, ""] | None = eqx.field(converter=maybe_array, default=None)
    xi: Float[Array, ""] = eqx.field(converter=as_float, default=0.0)

    def __check_init__(self) -> None:
        check_number(self.best, "best")
        check_number(self.xi, "xi")

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "Improving":
        """With the incumbent filled in, where `best` is None."""
        return self.against(belief, None, seed, pending)

    def against(self, belief: Beliefs, keep: np.ndarray | None, seed: int, pending: Points) -> "Improving":
        """`prepared`, the incumbent being one of the rows in `keep` (None: of all)."""
        return changed(self, best=self.incumbent(belief, keep))

    def incumbent(self, belief: Beliefs, keep: np.ndarray | None = None) -> Float[Array, ""]:
        """`best`, or the best mean at the rows in `keep` (None: at all)."""
        if self.best is not None:
            return self.best
        inputs = demand_inputs(belief, NO_ROWS)
        rows = inputs if keep is None else inputs[keep]
        return self.turned(np.max(self.turned(host(single(belief).predict(rows).mean))))

    def gap(self, belief: Beliefs, x: Float[Array, "m d"]) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """z = (μ - best - ξ)/σ and σ; `best` is in the units of the outcomes, whichever way is good."""
        if self.best is None:
            raise DataError(f"{type(self).__name__} does not know what to beat; call prepared(belief), or {NO_ROWS}")
        mean, std = self.moments(belief, x)
        return (mean - self.turned(self.best) - self.xi) / std, std


class ProbabilityOfImprovement(Improving):
    """Φ((μ - best - ξ)/σ): how likely x is better by more than ξ.

    Args:
        best: the outcome to be beaten; None: the best mean at the rows that were seen.
        xi: by how much it must be beaten to count.
        maximize: False where small outcomes are good.
    """

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Its logarithm."""
        return log_cdf(self.gap(belief, x)[0])


class ExpectedImprovement(Improving):
    """σ (φ(z) + z Φ(z)), z = (μ - best - ξ)/σ: the improvement that is expected, none counting as zero.

    Args:
        best: the outcome to be beaten; None: the best mean at the rows that were seen.
        xi: by how much it must be beaten to count.
        maximize: False where small outcomes are good.
    """

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """log σ + log(φ(z) + z Φ(z))."""
        z, std = self.gap(belief, x)
        return namespace(std).log(std) + log_improvement(z)


class LogExpectedImprovement(ExpectedImprovement):
    """log EI as the score itself. Ament et al. (2023)."""

    scale: ClassVar[str] = "log"


class NoisyExpectedImprovement(Improving):
    """EI averaged over joint draws of f at the rows seen (and pending): under noise nobody knows which is best.

    Each draw is a noise-free data set, so each term is EI in closed form.  Letham, Karrer, Ottoni & Bakshy (2019).

    Args:
        draws: how many quasi-random draws, an even number.
        rows: the rows that may be the best one; where more were seen, those of the largest mean + 2 std.
        xi: by how much it must be beaten to count.
        maximize: False where small outcomes are good.
    """

    draws: int = eqx.field(static=True, default=64, kw_only=True)
    rows: int = eqx.field(static=True, default=64, kw_only=True)
    baseline: Baseline | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self) -> None:
        check_draws(self.draws)
        check_count(self.rows, "rows")
        if self.best is not None:
            raise DataError("NoisyExpectedImprovement draws what is to be beaten; use ExpectedImprovement(best=…)")

    def against(
        self, belief: Beliefs, keep: np.ndarray | None, seed: int, pending: Points
    ) -> "NoisyExpectedImprovement":
        """With f drawn at the rows in `keep` (None: all) and at the pending ones."""
        inputs = demand_inputs(belief, "use ExpectedImprovement(best=…)")
        rows = inputs if keep is None else inputs[keep]
        more = table_or_none(pending, "pending")
        drawn = baseline(belief, self.maximize, self.draws, 0, self.rows, seed, rows=rows, pending=more)
        return changed(self, baseline=drawn)

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Its logarithm."""
        if self.baseline is None:
            raise DataError("NoisyExpectedImprovement has no draws yet; call prepared(belief) first")
        mean, std = self.moments(belief, x)
        half = self.baseline.explained(demand_covariance(belief, "a joint draw"), x)
        left = deviation(std**2 - (half**2).sum(0))
        given = mean + self.baseline.normals @ half
        z = (given - self.baseline.best[:, None] - self.xi) / left
        return namespace(left).log(left) + special(z).logsumexp(log_improvement(z), axis=0) - np.log(self.draws)


def _as_belief(value: object) -> Predicts:
    if isinstance(value, Predicts):
        return value
    found = type(value).__name__
    raise DataError(f"Feasibility takes a belief first, found {found}; e.g. Feasibility(gp_of_the_temperature, 80.0)")


class Feasibility(Positive):
    """P(g(x) ≤ threshold), or ≥, for another outcome g with a belief of its own.

    For classes and counts it is the probability of the outcome: `Feasibility(classifier, 0.5, at_most=False)` is the
    probability of class 1.

    Args:
        belief: about the outcome that is constrained.
        threshold: its limit.
        at_most: whether it must stay below, or else above.
        with_noise: whether the outcome with its noise must satisfy it, instead of the function.
    """

    belief: Predicts = eqx.field(converter=_as_belief)
    threshold: Float[Array, ""] = eqx.field(converter=as_float)
    at_most: bool = eqx.field(static=True, default=True)
    with_noise: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        check_number(self.threshold, "threshold")

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The logarithm of the probability; the belief that is optimized is not looked at."""
        prediction = self.belief.predict(x)
        if prediction.discrete:
            reached = prediction.cdf(self.threshold)
            xp = namespace(reached)
            return xp.log(xp.maximum(reached if self.at_most else 1 - reached, 1e-300))
        spread = prediction.epistemic + prediction.aleatoric if self.with_noise else prediction.epistemic
        gap = self.threshold - prediction.mean
        return log_cdf((gap if self.at_most else -gap) / deviation(spread))


class Constrained(Positive):
    """An acquisition times the probability that every constraint is met, added up as logarithms.

    A score that may be negative is made positive by log(1 + eᵃ) first, as González et al. (2016) do.
    The incumbent is the best of the rows that are more likely feasible than not; while there is none, feasibility alone
    is sought. Schonlau, Welch & Jones (1998); Gardner et al. (2014).

    Args:
        acquisition: any score.
        feasibilities: a `Feasibility`, or several.
    """

    acquisition: Acquisition
    feasibilities: tuple[Feasibility, ...]
    found: Bool[Array, ""]
    """Whether a feasible row was seen."""

    def __init__(self, acquisition: Acquisition, feasibilities: Feasibility | Sequence[Feasibility]):
        listed = feasibilities if isinstance(feasibilities, list | tuple) else ()
        several = (feasibilities,) if isinstance(feasibilities, Feasibility) else tuple(listed)
        if not several or not all(isinstance(one, Feasibility) for one in several):
            raise DataError("Constrained takes an acquisition and one or more Feasibility, e.g. Feasibility(gp, 80.0)")
        self.acquisition, self.feasibilities, self.found = acquisition, several, np.asarray(True)

    @property
    def scale(self) -> str:  # type: ignore[override]
        """A positive score, or the logarithm of one."""
        return "log" if self.acquisition.scale == "log" else "positive"

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "Constrained":
        """With the incumbent chosen among the rows that are likely feasible."""
        inner = self.acquisition
        if not isinstance(inner, Improving) or inner.best is not None:
            return changed(self, acquisition=inner.prepared(belief, seed=seed, pending=pending))
        inputs = demand_inputs(belief, NO_ROWS)
        keep = host(self.log_feasible(inputs)) > np.log(0.5)
        ready = inner.against(belief, keep if keep.any() else None, seed, pending)
        return changed(self, acquisition=ready, found=np.asarray(keep.any()))

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """log score + Σ log P(feasible)."""
        score = self.acquisition.log_positive(belief, x)
        return namespace(score, self.found).where(self.found, score, 0.0) + self.log_feasible(x)

    def log_feasible(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Σ log P(feasible)."""
        return sum((one.climb(one.belief, x) for one in self.feasibilities), np.zeros(len(x)))
