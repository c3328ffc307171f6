"""MacKay's fixed point for the precision of the weights and the noise.

With posterior covariance Σ = P₁⁻¹, mean m, and γᵢ = 1 - αᵢΣᵢᵢ the number of weights that the data determine:

    α ← (Σγᵢ + 2(a - 1))/(Σmᵢ² + 2b)      shared;  one for each i under ARD, see also `relevance`
    σ² ← (‖y - Φ̃m‖² + 2b')/(n - γ + 2(a' + 1))

for hyperpriors α ~ Gamma(a, b), σ² ~ InverseGamma(a', b') (none: the terms are absent). Fixed points are
stationary points of evidence × prior, as gradient ascent finds them, in a tenth of the steps. All that is
needed of the data is `Statistics`. MacKay (1992); Tipping (2001) §2; Bishop (2006) eq. 3.92, 3.95.

`EvidenceObjective` is for gradient ascent, with a gradient in closed form: noise that is integrated out, or has heavy
tails, and precisions that the fixed point does not know.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from credo.core import params
from credo.core.arrays import Array
from credo.core.device import blas_threads
from credo.core.errors import DataError, NotPositiveDefinite
from credo.core.gaussian import Gaussian
from credo.infer.learning import Learned, summarize
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED, STOPPED, Optimum, distinct
from credo.infer.priors import Priors
from credo.models.linear.belief import Linear
from credo.models.linear.posterior import evidence_slopes
from credo.models.linear.priors import ARD, Isotropic
from credo.models.linear.relevance import Relevance
from credo.models.linear.robust import robust_slopes
from credo.models.linear.statistics import Rows, Seen, Statistics
from credo.models.noise import Noise

LOG_CAP = 23.0
"""A precision that grows by e²³ over its start belongs to a feature that is not there."""

NEEDED = (
    "Linear with an Isotropic or ARD prior, a noise variance, and Gamma (precision) or InverseGamma (noise) hyperpriors"
)

PATIENCE = 10
"""So many steps that do not raise the evidence are an end: only rounding moves."""


@dataclass(frozen=True)
class FixedPoint(Learner):
    """MacKay's fixed-point iteration, from several starts."""

    needs: ClassVar[type] = Linear

    starts: int = 2
    spread: float = 3.0
    max_steps: int = 1000
    tolerance: float = 1e-7
    """Relative change of the hyperparameters (of those not pruned) at which it stops."""
    price: float = 2.0
    """Under ARD a feature stays if it raises the log evidence by more than this; with 0 everything stays that raises
    it at all, the type-II maximum. The evidence at the best precision flatters every feature a little, so some price
    is due; 2 nats, a Bayes factor of 7, were chosen by trial. They help where few features matter and hurt where
    many matter a little, which is what `Isotropic` is for."""

    def serves(self, subject: object, verb: str) -> bool:
        """Linear models of the form that it needs."""
        return self.applies(subject, {}) and super().serves(subject, verb)

    def needs_of(self, subject: object, verb: str) -> str:
        """Which form that is, or what to call instead."""
        return super().needs_of(subject, verb) if self.applies(subject, {}) else f"it needs {NEEDED}"

    @staticmethod
    def applies(belief: object, priors: Priors) -> bool:
        """Whether the belief and the hyperpriors have the form that the fixed point needs."""
        kinds = {"prior.precision": "Gamma", "noise": "InverseGamma"}
        return (
            isinstance(belief, Linear)
            and isinstance(belief.prior, Isotropic | ARD)
            and not isinstance(belief.noise, Noise)
            and all(type(prior).__name__ == kinds.get(path) for path, prior in priors.items())
        )

    def learn(self, belief: Linear, statistics: Statistics, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the best fixed point found."""
        if not self.applies(belief, priors):
            raise DataError(f"FixedPoint needs {NEEDED}; use Evidence() instead")
        slots = params.layout(belief, fixed)
        rng = np.random.default_rng(seed)
        precision = _precision(belief)
        noise = float(belief.noise)
        ends = []
        free = {s.path for s in slots}
        with blas_threads(len(statistics.cross)):
            for start in range(max(self.starts, 1)):
                jump = np.exp(self.spread * rng.normal(size=2)) if start else np.ones(2)
                begin = precision * (jump[0] if "prior.precision" in free else 1.0)
                variance = noise * (jump[1] if "noise" in free else 1.0)
                ends.append(self._iterate(belief, statistics, free, priors, begin, variance))
        u0 = np.asarray(params.to_vector(belief, slots))
        lower, upper = params.bounds(slots, u0)
        optima = []
        for alpha, variance, status, steps in ends:
            values = {
                "prior.precision": alpha.reshape(np.shape(params.learnable(belief)["prior.precision"])),
                "noise": np.asarray(variance),
            }
            at = params.replace(belief, {s.path: values[s.path] for s in slots})
            value = float(at.evidence_of(statistics)) + (float(params.log_prior(at, priors)) if priors else 0.0)
            optima.append(Optimum(np.asarray(params.to_vector(at, slots)), value, status, steps))
        learned = summarize(belief, slots, distinct(optima), lower, upper)
        return self._report_pruning(learned, precision)

    def _iterate(
        self,
        belief: Linear,
        statistics: Statistics,
        free: set[str],
        priors: Priors,
        alpha: np.ndarray,
        variance: float,
    ) -> tuple[np.ndarray, float, str, int]:
        square, n, q = float(statistics.square), float(statistics.n), statistics.width
        weights = np.arange(0 if belief.intercept is None else 1, q)
        counts, sums = _hyperprior(priors.get("prior.precision"), -1.0)
        noise_counts, noise_sums = _hyperprior(priors.get("noise"), 1.0)
        cap = _precision(belief) * np.exp(LOG_CAP)
        shared = len(alpha) == 1
        precision, full_cap = _diagonal(belief, alpha, q), _diagonal(belief, cap, q)
        coordinates = "prior.precision" in free and not shared and "prior.precision" not in priors
        together, highest, back, idle = True, -np.inf, (precision, variance), 0
        least = 1e-12 * square / n
        steps, change = 0, np.inf
        while change > self.tolerance and idle <= PATIENCE and steps < self.max_steps:
            steps, change = steps + 1, np.inf
            try:
                at = Relevance(statistics, variance, precision, self.price if coordinates else 0.0)
            except NotPositiveDefinite:
                # The features reproduce y exactly: no noise is too small for the evidence, but for arithmetic.
                if "noise" not in free or variance > 1e-6 * square / n:
                    raise
                least = variance = 10 * variance
                continue
            mean, determined = at.mean, at.determined
            if coordinates:
                if together and at.worth < highest:
                    together, (precision, variance) = False, back
                    continue
                idle = 0 if at.worth > highest else idle + 1
                highest, back = max(at.worth, highest), (precision, variance)
                change = at.move(weights, full_cap, self.tolerance, together)
                precision = at.precision
                if not together:
                    mean, determined = at.mean, at.determined
            elif "prior.precision" in free:
                top, bottom = determined[weights], mean[weights] ** 2
                top, bottom = (top.sum(keepdims=True), bottom.sum(keepdims=True)) if shared else (top, bottom)
                top, bottom = top + 2 * counts, bottom + 2 * sums
                new = np.where(top > 0, np.minimum(np.maximum(top, 0.0) / np.maximum(bottom, 1e-300), cap), cap)
                change = float(np.max(np.abs(np.log(new / precision[weights]))))
                precision[weights] = new
            else:
                change = 0.0
            if "noise" in free:
                residual = max(float(statistics.residual(mean)), 0.0)
                left = max(n - determined.sum() + 2 * noise_counts, 1e-8 * n)
                new_variance = max((residual + 2 * noise_sums) / left, least)
                change = max(change, abs(np.log(new_variance / variance)))
                variance = new_variance
                if variance <= least and change < 1e-3:  # nothing but rounding moves
                    change = 0.0
        status = STOPPED if change > self.tolerance and idle <= PATIENCE else CONVERGED
        learned = np.minimum(precision[weights], cap)
        return learned[:1] if shared else learned, variance, status, steps

    def _report_pruning(self, learned: Learned, start: np.ndarray) -> Learned:
        if not isinstance(learned.belief.prior, ARD):
            gone = bool(np.all(pruned_features(learned.belief, start)))
            return learned._replace(at_bound={"prior.precision": "upper"}) if gone else learned
        pruned = [int(i) for i in np.flatnonzero(pruned_features(learned.belief, start))]
        # A pruned feature has run to its cap by design: that is the answer, not a warning.
        quiet = {name: side for name, side in learned.at_bound.items() if not name.startswith("prior.precision")}
        names = learned.belief.features.names(learned.belief.inputs) if len(pruned) else []
        said = f"pruned {len(pruned)} of {len(start)} features: {', '.join(names[i] for i in pruned)}"
        return learned._replace(at_bound=quiet, notes=learned.notes + [said] * bool(pruned))


def pruned_features(belief: Linear, start: np.ndarray | float) -> np.ndarray:
    """Which features ARD has switched off, given the precision that learning started from."""
    return _precision(belief) >= 0.99 * np.asarray(start) * np.exp(LOG_CAP)


def _precision(belief: Linear) -> np.ndarray:
    """The precisions of the weights, a vector of one where they share it."""
    assert isinstance(belief.prior, Isotropic | ARD)
    return np.atleast_1d(np.asarray(belief.prior.precision))


@runtime_checkable
class _GammaLike(Protocol):
    """A Gamma or an inverse Gamma of any library."""

    concentration: Array
    rate: Array


def _hyperprior(prior: object, shift: float) -> tuple[float, float]:
    """a - 1 and b of a Gamma on the precision, a + 1 and b of an inverse Gamma on the variance; zeros for none."""
    return (float(prior.concentration) + shift, float(prior.rate)) if isinstance(prior, _GammaLike) else (0.0, 0.0)


def _diagonal(belief: Linear, alpha: np.ndarray, q: int) -> np.ndarray:
    """The prior precision of θ = (b, w), which is diagonal."""
    constant = [] if belief.intercept is None else [1 / float(belief.intercept.variance)]
    return np.concatenate([constant, np.broadcast_to(alpha, q - len(constant))])


class EvidenceObjective(NamedTuple):
    """log p(y | X, θ) and its gradient as functions of the unconstrained hyperparameters."""

    belief: Linear
    slots: params.Layout
    statistics: Seen

    @staticmethod
    def applies(belief: Linear, slots: params.Layout, priors: Priors) -> bool:
        """Whether all that is learned is the precision of independent weights and the noise, without hyperpriors."""
        known = {"prior.precision", "noise", "noise.scale", "noise.variance"}
        gaussian = isinstance(belief.prior, Isotropic | ARD | Gaussian)
        return gaussian and not priors and {slot.path for slot in slots} <= known

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The log evidence and its gradient: both numbers are positive, so ∂/∂u = θ ∂/∂θ."""
        values = params.natural_values(self.slots, vector)
        belief, statistics = params.replace(self.belief, values), self.statistics
        now = belief._now(statistics.width)
        if isinstance(statistics, Rows):
            value, by_precision, by_noise = robust_slopes(now, belief.noise, statistics)
        else:
            value, by_precision, by_noise = evidence_slopes(now, belief.noise_law.unit, statistics)
        own = by_precision[int(belief.intercept is not None) :]
        slopes = {path: own if path == "prior.precision" else by_noise for path in values}
        # A precision that all weights share gathers their slopes.
        parts = [np.ravel(v * (slopes[path] if np.ndim(v) else np.sum(slopes[path]))) for path, v in values.items()]
        return float(value), np.concatenate(parts)

    def value(self, vector: np.ndarray) -> float:
        """The log evidence."""
        return self.value_and_grad(vector)[0]
