"""Laplace's approximation of a generalized linear model's evidence, and the precision of the weights that it favours.

    log Z = log p(y, û | α) + k/2 log 2π - ½ log|H|

With Σ = H⁻¹, t = ∂log|H|/∂u at the mode û, and δ = -½Σt, how far the posterior's mean is from its mode,

    ∂log Z/∂log αⱼ = ½ [nⱼ - αⱼ Σᵢ (Σᵢᵢ + ŵᵢ² + 2δᵢŵᵢ)]        (classes: with their coupling C between)

over the nⱼ weights i that share αⱼ: two passes over the rows. It vanishes where αⱼ = γⱼ/Σᵢ(ŵᵢ² + 2δᵢŵᵢ), with γⱼ the
number of weights that the data determine: MacKay's fixed point, for which the log likelihood may stand as a parabola
around the current u. Newton steps of u between, it needs a pass for each, and the gradient polishes what it finds.
MacKay (1992), "The evidence framework applied to classification networks"; Rasmussen & Williams (2006), §5.5.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, host, namespace
from credo.core.device import blas_threads
from credo.core.linalg import factorize, inverse, solve, solve_lower
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI
from credo.infer.laplace import occam
from credo.infer.learning import Evidence, Learned
from credo.infer.optimize import CONVERGED, DIVERGED
from credo.infer.priors import LogScalePenalty, Priors
from credo.models.glm.newton import (
    TOLERANCE,
    GaussianPrior,
    Rows,
    ascend,
    climb,
    height,
    log_det_gradient,
    pilot_size,
    start,
)
from credo.models.likelihoods.base import Terms
from credo.models.linear.priors import Isotropic

if TYPE_CHECKING:
    from credo.models.glm.belief import GLM

ROUNDS, INNER = 8, 20
"""Of MacKay's fixed point between passes over the rows, and under one parabola, the most."""
NEAR, STILL = 0.3, 1e-4
"""δ is worth a pass once log α moves less than the first; less than the second is a fixed point."""


def evidence(prior: GaussianPrior, rows: Rows, intercept: bool) -> Float[Array, ""]:
    """Laplace's evidence with its exact gradient: a Newton step of length zero carries how û depends on the prior."""
    if namespace(prior, rows) is np:
        top = climb(prior, rows, intercept)
        factor = factorize(top.precision)
        return np.where(factor.ok, top.value + occam(factor.root), -np.inf)
    held = jax.tree.map(jax.lax.stop_gradient, (prior, rows))
    found = ascend(partial(height, *held), start(rows, intercept, held[0].mean), TOLERANCE)
    u, precision = jax.lax.stop_gradient((found.u, found.precision))
    factor = factorize(precision)
    slope = prior.terms(rows.likelihood, u)[1]
    moved = solve(jax.lax.stop_gradient(factor.root), slope - jax.lax.stop_gradient(slope))
    value, _, precision = height(prior, rows, u + moved)
    at_mode = factorize(precision)
    return jnp.where(factor.ok & at_mode.ok, value + occam(at_mode.root), -jnp.inf)


class LaplaceObjective:
    """log Z + log p(α) of log α, with its gradient; each climb of u starts from the last."""

    def __init__(self, belief: "GLM", slots: params.Layout, rows: Rows, priors: Priors):
        self._about = (belief, slots, dict(priors))
        self._rows, self._intercept = rows, belief.intercept is not None
        q, c = rows.design.shape[1], rows.width
        self._rest = belief.without(q, rows.likelihood)
        """The prior of all but the weights."""
        self._first, p = rows.likelihood.size + self._intercept * c, q - self._intercept
        self._group = np.zeros(p, int) if slots[0].stop == 1 else np.arange(p)
        """Which α the weights of each feature have; weights begin at `first` in u."""
        self._coupling = rows.likelihood.coupling
        self._log_det = float(np.linalg.slogdet(self._coupling)[1])
        self._start: Array | None = None
        """Where climbs begin: always the same for a likelihood with numbers of its own, which may have other modes."""
        self._best, self.mode = -np.inf, np.zeros(0)
        """The highest value so far, û there, and the terms of all but the weights' prior."""
        self._there: Terms | None = None

    @property
    def has_weights(self) -> bool:
        """Whether there is any weight but the constant term."""
        return len(self._group) > 0

    def value_and_grad(self, vector: Array) -> tuple[float, Array]:
        """The objective and its gradient."""
        with blas_threads(self._rows.design.shape[1]):  # a second thread would wait at every block of rows
            start = self._mode_for(vector) if self._start is None else self._start
            top = ascend(lambda u: self._joint(vector, u, height(self._rest, self._rows, u)), start, TOLERANCE)
            self._start = self._start if self._rows.likelihood.size else top.u
            factor = factorize(top.precision)
            value = float(top.value + occam(factor.root))
            if not (factor.ok and np.isfinite(value)):
                return -np.inf, np.zeros_like(vector)
            covariance = inverse(factor.root)
            bend = log_det_gradient(self._rest, self._rows, top.u, covariance)
        counts, squares, spread = self._sums(top.u, covariance, bend)
        slope = 0.5 * (counts - np.exp(vector) * (squares + spread))
        if self._about[2]:
            log_prior, more = self._log_prior(vector)
            value, slope = value + float(log_prior), slope + more
        if value > self._best:
            self._best, self.mode = value, np.asarray(top.u)
            self._there = self._joint(vector, top.u, top[1:4], -1.0)
        return value, slope

    def _log_prior(self, vector: Array) -> tuple[float, Array]:
        """log p(α) and its gradient by log α."""
        prior = self._about[2]["prior.precision"]
        if isinstance(prior, LogScalePenalty):
            return prior.on_host(vector.shape)(np.asarray(vector))
        value, slope = host(_log_prior(vector, *self._about))
        return float(value), slope

    def value(self, vector: Array) -> float:
        """Without log p(α), and with a parabola at the best mode for the likelihood: enough to see where it is flat."""
        assert self._there is not None
        value, gradient, precision = self._joint(vector, self.mode, self._there)
        factor = factorize(precision)
        half = solve_lower(factor.root, gradient)
        return float(value + 0.5 * half @ half + occam(factor.root))

    def fixed_point(self, vector: Array) -> Array:
        """log α at MacKay's fixed point, first of some of the rows where they are many, or `vector`."""
        rows, first, bend = self._rows, vector, None
        n = pilot_size(rows, self._first + len(self._group))
        if n < len(rows.y):
            belief, slots, priors = self._about
            few = LaplaceObjective(belief, slots, rows.some(n), priors)
            vector, u = few.fixed_point(vector), few._start
        else:
            u = self._mode_for(vector)
        with blas_threads(rows.design.shape[1]):
            for _ in range(ROUNDS):
                found = None if u is None else self._settle(vector, u, height(self._rest, rows, u), bend)
                if found is None:
                    return first
                new, u, covariance = found
                moved, vector = float(np.abs(new - vector).max()), new
                if bend is None and moved < NEAR:
                    bend = log_det_gradient(self._rest, rows, u, covariance)
                elif moved < STILL:
                    break
        self._start = u
        return vector

    def _settle(self, vector: Array, u: Array, rest: Terms, bend: Array | None) -> tuple[Array, Array, Array] | None:
        """The fixed point, the mode and the covariance under a parabola around u; None where it has none."""
        for _ in range(INNER):
            _, gradient, precision = self._joint(vector, u, rest)
            factor = factorize(precision)
            if not (factor.ok and np.isfinite(rest[0])):
                return None
            covariance = inverse(factor.root)
            there = u + covariance @ gradient
            counts, squares, spread = self._sums(there, covariance, bend)
            determined = counts - np.exp(vector) * spread
            if not (np.all(determined > 0) and np.all(squares > 0)):
                return None
            last, vector = vector, np.log(determined / squares)
            if np.abs(vector - last).max() < 0.1 * STILL:
                break
        return vector, there, covariance

    def _mode_for(self, vector: Array) -> Array:
        belief, slots, _ = self._about
        return climb(params.from_vector(belief, slots, vector).before(self._rows), self._rows, self._intercept).u

    def _joint(self, vector: Array, u: Array, terms: Terms, sign: float = 1.0) -> Terms:
        """The terms with, or with sign -1 without, the prior of the weights, N(0, (αC)⁻¹) of each feature."""
        each, c = np.exp(vector)[self._group], len(self._coupling)
        w = u[self._first :].reshape(-1, c)
        pull = each[:, None] * (w @ self._coupling)
        value = 0.5 * (np.sum(c * (vector[self._group] - LOG_2PI) + self._log_det) - np.sum(pull * w))
        slope, full = terms[1].copy(), terms[2].copy()
        slope[self._first :] -= sign * pull.ravel()
        full[self._first :, self._first :] += sign * np.kron(np.diag(each), self._coupling)
        return terms[0] + sign * value, slope, full

    def _sums(self, u: Array, covariance: Array, bend: Array | None) -> tuple[Array, Array, Array]:
        """Of the weights that share an α: how many they are, Σ(w + 2δ)ᵀCw and Σ tr CΣ."""
        c, p = len(self._coupling), len(self._group)
        w = u[self._first :].reshape(p, c)
        variance = covariance[self._first :, self._first :].reshape(p, c, p, c)
        shift = 0.0 if bend is None else -0.5 * (covariance @ bend)[self._first :].reshape(p, c)
        squares = ((w + 2 * shift) * (w @ self._coupling)).sum(1)
        spread = np.einsum("jajb,ab->j", variance, self._coupling)
        counts, squares, spread = (np.bincount(self._group, v) for v in (np.full(p, float(c)), squares, spread))
        return counts, squares, spread


@eqx.filter_jit
def _log_prior(vector: Array, belief: "GLM", slots: params.Layout, priors: Priors) -> tuple[Array, Array]:
    """log p(α) and its gradient by log α."""
    return jax.value_and_grad(lambda v: params.log_prior(params.from_vector(belief, slots, v), priors))(vector)


@dataclass(frozen=True)
class LaplaceEvidence(Evidence):
    """MacKay's fixed point, and from there the gradient of Laplace's evidence; the belief comes conditioned.

    A precision without bound says that its weights are nothing: that is an answer, and a note.
    """

    def learn(self, belief: "GLM", statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest maximum found."""
        slots = params.layout(belief, fixed)
        objective = belief.objective(slots, statistics, priors)
        if objective is None:
            return super().learn(belief, statistics, fixed, priors, seed)
        if not objective.has_weights:
            learned = Learned(belief, CONVERGED, np.nan, [], {}, ["there are no weights to have a scale"])
        else:
            vector = params.to_vector(belief, slots)
            found = objective.fixed_point(vector)
            # The fixed point knows no log p(α), and without it may be at infinity.
            if priors and objective.value_and_grad(found)[0] < objective.value_and_grad(vector)[0]:
                found = vector
            learned = self.climb(objective, params.from_vector(belief, slots, found), slots, priors, seed)
        if learned.status == DIVERGED:
            return learned
        mode = objective.mode if statistics.is_large and len(objective.mode) else None
        after = self._concluded(belief, learned.belief, statistics, mode)
        log_evidence = after.weight_law().log_evidence
        assert log_evidence is not None
        learned = learned._replace(belief=changed(learned.belief, prior=after.prior))
        nothing = [name for name, side in learned.at_bound.items() if side == "upper"]
        return learned._replace(
            conditioned=after,
            log_evidence=float(log_evidence),
            at_bound={name: side for name, side in learned.at_bound.items() if side != "upper"},
            notes=[*learned.notes, *(f"{name} went to infinity: its weights are nothing" for name in nothing)],
        )

    def _concluded(self, start: "GLM", learned: "GLM", rows: Rows, near: Array | None) -> "GLM":
        """The belief after the rows; where Laplace's approximation is poor for several classes, so is its evidence."""
        from credo.models.glm.refine import SKEWED, best_scale, skewness

        many = rows.likelihood.vector and isinstance(learned.prior, Isotropic) and not rows.is_large
        if many and skewness(learned, learned.at_mode(rows), rows) > SKEWED:
            return best_scale(start, rows)
        return learned.condition_on(rows, near)
