"""MacKay's fixed point for the precision of the weights and the noise, and pruning under ARD.

With posterior covariance Σ = P₁⁻¹, mean m, and γᵢ = 1 - αᵢΣᵢᵢ the number of weights that the data determine:

    α ← (Σγᵢ + 2(a - 1))/(Σmᵢ² + 2b)      shared;  one for each i under ARD
    σ² ← (‖y - Φ̃m‖² + 2b')/(n - γ + 2(a' + 1))

for hyperpriors α ~ Gamma(a, b), σ² ~ InverseGamma(a', b') (none: the terms are absent). Fixed points are
stationary points of evidence × prior, as gradient ascent finds them, in a tenth of the steps. All that is
needed of the data is `Statistics`. MacKay (1992); Tipping (2001) §2; Bishop (2006) eq. 3.92, 3.95.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from credo.core import params
from credo.core.errors import DataError, NotPositiveDefinite
from credo.infer.learn import Learned, summarize
from credo.infer.optimize import CONVERGED, STOPPED, Optimum, distinct
from credo.models.linear.belief import Linear
from credo.models.linear.priors import ARD, Isotropic
from credo.models.linear.statistics import Statistics

LOG_CAP = 23.0
"""A precision that grows by e²³ over its start belongs to a feature that is not there."""


class _Hyperprior(NamedTuple):
    """a - 1 and b of a Gamma on the precision, a + 1 and b of an inverse Gamma on the variance; zeros for none."""

    count: float = 0.0
    sum: float = 0.0


class FixedPoint(NamedTuple):
    """MacKay's fixed-point iteration, from several starts."""

    starts: int = 2
    spread: float = 3.0
    max_steps: int = 1000
    tolerance: float = 1e-7
    """Relative change of the hyperparameters (of those not pruned) at which it stops."""

    @staticmethod
    def serves(belief: Any, priors: Mapping[str, Any]) -> bool:
        """Whether the belief and the hyperpriors have the form that the fixed point needs."""
        if (
            not isinstance(belief, Linear)
            or not isinstance(belief.prior, Isotropic | ARD)
            or not hasattr(belief.noise, "ndim")
        ):
            return False
        kinds = {"prior.precision": "Gamma", "noise": "InverseGamma"}
        return all(type(prior).__name__ == kinds.get(path) for path, prior in priors.items())

    def learn(
        self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Mapping[str, Any], seed: int
    ) -> Learned:
        """The belief at the best fixed point found."""
        if not self.serves(belief, priors):
            raise DataError(
                "FixedPoint needs Linear with an Isotropic or ARD prior, a noise variance, and Gamma (precision) or "
                "InverseGamma (noise) hyperpriors; use Evidence() instead"
            )
        slots = params.layout(belief, fixed)
        rng = np.random.default_rng(seed)
        precision = np.atleast_1d(np.asarray(belief.prior.precision, dtype=float))
        noise = float(belief.noise)
        ends = []
        for start in range(max(self.starts, 1)):
            jump = np.exp(self.spread * rng.normal(size=2)) if start else np.ones(2)
            free = {s.path for s in slots}
            begin = precision * (jump[0] if "prior.precision" in free else 1.0)
            ends.append(
                self._iterate(belief, statistics, free, priors, begin, noise * (jump[1] if "noise" in free else 1.0))
            )
        u0 = np.asarray(params.to_vector(belief, slots))
        lower, upper = params.bounds(slots, u0)
        optima = []
        for alpha, variance, status, steps in ends:
            values = {"prior.precision": alpha.reshape(belief.prior.precision.shape), "noise": np.asarray(variance)}
            at = params.replace(belief, {s.path: values[s.path] for s in slots})
            value = float(at.log_evidence_of(statistics)) + float(params.log_prior(at, priors))
            optima.append(Optimum(np.asarray(params.to_vector(at, slots)), value, status, steps))
        learned = summarize(belief, slots, distinct(optima), lower, upper)
        return self._report_pruning(learned, precision)

    def _iterate(
        self,
        belief: Linear,
        statistics: Statistics,
        free: set[str],
        priors: Mapping[str, Any],
        alpha: np.ndarray,
        variance: float,
    ) -> tuple[np.ndarray, float, str, int]:
        gram, cross = np.asarray(statistics.gram), np.asarray(statistics.cross)
        square, n = float(statistics.square), float(statistics.n)
        offset = 0 if belief.intercept is None else 1
        q = len(cross)
        constant = 0.0 if belief.intercept is None else 1 / float(belief.intercept.variance)
        on_precision, on_noise = _hyperprior(priors.get("prior.precision"), -1.0), _hyperprior(priors.get("noise"), 1.0)
        cap = alpha * np.exp(LOG_CAP)
        shared = len(alpha) == 1
        active = np.ones(q, dtype=bool)
        for step in range(1, self.max_steps + 1):
            full = np.empty(q)
            full[:offset], full[offset:] = constant, alpha if not shared else alpha[0]
            keep = np.flatnonzero(active)
            mean, covariance = _posterior(gram[np.ix_(keep, keep)], cross[keep], full[keep], variance)
            gamma = 1 - full[keep] * np.diag(covariance)
            residual = max(square - 2 * mean @ cross[keep] + mean @ gram[np.ix_(keep, keep)] @ mean, 0.0)
            weights, determined = mean[offset:], gamma[offset:]
            new_alpha, new_variance = alpha.copy(), variance
            if "prior.precision" in free:
                if shared:
                    top, bottom = determined.sum() + 2 * on_precision.count, weights @ weights + 2 * on_precision.sum
                    new_alpha[0] = top / max(bottom, top / cap[0]) if top > 0 else cap[0]
                else:
                    which = keep[offset:] - offset
                    top, bottom = determined + 2 * on_precision.count, weights**2 + 2 * on_precision.sum
                    proposal = np.maximum(top, 1e-300) / np.maximum(bottom, 1e-300)
                    new_alpha[which] = np.minimum(proposal, cap[which])
                    if on_precision.sum == 0:
                        active[offset:] &= new_alpha < cap * np.exp(-3.0)
                        new_alpha[~active[offset:]] = cap[~active[offset:]]
            if "noise" in free:
                new_variance = (residual + 2 * on_noise.sum) / max(n - gamma.sum() + 2 * on_noise.count, 1e-8 * n)
                new_variance = max(new_variance, 1e-14 * square / n)
            moving = active[offset:] if not shared else np.ones(1, dtype=bool)
            change = np.max(np.abs(np.log(new_alpha[moving] / alpha[moving])), initial=0.0)
            change = max(change, abs(np.log(new_variance / variance)))
            alpha, variance = new_alpha, new_variance
            if change < self.tolerance:
                return alpha, variance, CONVERGED, step
        return alpha, variance, STOPPED, self.max_steps

    def _report_pruning(self, learned: Learned, start: np.ndarray) -> Learned:
        if not isinstance(learned.belief.prior, ARD):
            return learned
        pruned = [int(i) for i in np.flatnonzero(pruned_features(learned.belief, start))]
        # A pruned feature has run to its cap by design: that is the answer, not a warning.
        quiet = {name: side for name, side in learned.at_bound.items() if not name.startswith("prior.precision")}
        names = learned.belief.features.names([f"x{i}" for i in range(len(start))]) if len(pruned) else []
        said = (
            [f"pruned {len(pruned)} of {len(start)} features: {', '.join(names[i] for i in pruned)}"] if pruned else []
        )
        return learned._replace(at_bound=quiet, notes=learned.notes + said)


def pruned_features(belief: Linear, start: np.ndarray | float) -> np.ndarray:
    """Which features ARD has switched off, given the precision that learning started from."""
    return np.asarray(belief.prior.precision) >= 0.99 * np.asarray(start) * np.exp(LOG_CAP)


def _hyperprior(prior: Any, shift: float) -> _Hyperprior:
    if prior is None:
        return _Hyperprior()
    return _Hyperprior(float(prior.concentration) + shift, float(prior.rate))


def _posterior(
    gram: np.ndarray, cross: np.ndarray, precision: np.ndarray, variance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the weights, through LAPACK's Cholesky and its inverse."""
    matrix = gram / variance
    matrix[np.diag_indices_from(matrix)] += precision
    root, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1, clean=0)
    if failed:
        raise NotPositiveDefinite(
            "the posterior precision is not positive definite while learning; standardize the features or give the "
            "precision a hyperprior"
        )
    mean, _ = lapack.dpotrs(root, cross / variance, lower=1)
    covariance, _ = lapack.dpotri(root, lower=1, overwrite_c=1)
    return mean, covariance
