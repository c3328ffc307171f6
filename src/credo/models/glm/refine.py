"""Where Laplace's approximation of a generalized linear model fails, it is seen, and a better normal law takes over.

    E[u] - û ≈ -½ H⁻¹ ∂log|H|/∂u

is how far the mean of the posterior is from its mode, to first order: Tierney & Kadane (1986), "Accurate approximations
for posterior moments and marginal densities". Where classes are nearly separable it is several standard deviations:
the likelihood is flat on one side of the mode and steep on the other, the curvature at the mode tells the flat side
only, and predictions become far too unsure. The normal law N(m, P⁻¹) of the highest ELBO then fits much better. Under
it every row's z = (ψ, η) is normal, too, so that its expected log likelihood, gradient gᵢ and curvature hᵢ are sums
over a few nodes, and the ELBO is climbed by natural gradients: Newton steps with the expectations for the values,

    P ← Λ + Σᵢ Aᵢᵀ E[hᵢ] Aᵢ,    m ← m + P⁻¹ (E[∇ log p(u)] + Σᵢ Aᵢᵀ E[gᵢ])

shortened until they gain. Opper & Archambeau (2009); Khan & Lin (2017), "Conjugate-computation variational inference".
"""

import dataclasses
import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.device import blas_threads
from credo.core.errors import NotConvergedWarning
from credo.core.linalg import factorize, inverse
from credo.core.pytrees import changed
from credo.infer.importance_sampling import psis_notes
from credo.infer.laplace import occam
from credo.infer.posterior import NormalApproximation
from credo.models.glm.newton import GaussianPrior, Rows, assemble, log_det_gradient, spreads
from credo.models.glm.predictions import around_classes, class_nodes, normal_nodes
from credo.models.likelihoods.base import Likelihood, Terms
from credo.models.linear.priors import Isotropic

if TYPE_CHECKING:
    from credo.models.glm.belief import GLM

SKEWED = 0.7
"""How many standard deviations the mean of a number may be from its mode."""
MOST = 1024
"""The most numbers whose law is sought by optimization without being asked for."""
STEPS, STILL, SHORTEST = 100, 1e-4, 0.02
"""The most steps; a gain of the ELBO that is none; the shortest step."""
LEVELS, ROUGH = 30, 0.3
"""The most precisions tried, and the gain that is none while they are."""
CLASS_NODES = 64
"""Of the predictors of several classes, in each row."""
NODES = 2**18
"""Nodes of rows that are held in memory together."""


def skewness(belief: "GLM", conditioned: "GLM", rows: Rows) -> float:
    """The largest |E[u] - û|/sd of a number, to first order."""
    law = conditioned.normal_law()
    covariance = law[1] @ law[1].T
    shift = -0.5 * covariance @ log_det_gradient(belief.before(rows), rows, law[0], covariance)
    return float(np.abs(shift / np.sqrt(np.diagonal(covariance))).max(initial=0.0))


def refined(belief: "GLM", conditioned: "GLM", rows: Rows) -> "GLM":
    """`conditioned`, `belief` after the rows by Laplace's approximation; or a better one where that is poor."""
    worst = skewness(belief, conditioned, rows)
    if not worst > SKEWED:
        return conditioned
    center, root = conditioned.normal_law()
    if len(center) > MOST:
        warnings.warn(
            f"the posterior is skewed (its mean is about {worst:.1f} standard deviations from its mode; classes "
            "that are nearly separable, perhaps): Laplace's approximation is too unsure. Give a tighter prior, or "
            "condition with using=credo.infer.Variational('lowrank') or NUTS()",
            NotConvergedWarning,
            stacklevel=4,
        )
        return conditioned
    prior = belief.before(rows)
    at = Law.of(rows, center, inverse(factorize(root @ root.T).root))
    assert at is not None
    return given(belief, prior, rows, *best_normal(prior, rows, at))


def given(belief: "GLM", prior: GaussianPrior, rows: Rows, best: "Law", elbo: float) -> "GLM":
    """The belief with this law, and what its importance weights say of it."""
    law = NormalApproximation(belief.target(rows).space, best.center, factorize(best.covariance).root, np.asarray(elbo))
    belief = changed(belief, likelihood=rows.likelihood)
    return belief.given(dataclasses.replace(law, notes=psis_notes(law, lambda u: log_densities(prior, rows, u))))


class Law(NamedTuple):
    """N(center, precision⁻¹), and the expected terms of the rows under it."""

    center: Float[Array, " k"]
    precision: Float[Array, "k k"]
    covariance: Float[Array, "k k"]
    rows: Terms
    entropy: float

    @classmethod
    def of(cls, rows: Rows, center: Array, precision: Array) -> "Law | None":
        """None where it is no law, or not finite."""
        factor = factorize(precision)
        if not factor.ok:
            return None
        covariance = inverse(factor.root)
        terms = expected_rows(rows, center, covariance)
        entropy = float(occam(factor.root)) + 0.5 * len(center)
        return cls(center, precision, covariance, terms, entropy) if np.isfinite(terms[0]) else None

    def stepped(self, rows: Rows, gradient: Array, curvature: Array, length: float) -> "Law | None":
        """A natural gradient step: half way to the expected curvature, which a whole one would overshoot."""
        precision = self.precision + 0.5 * length * (curvature - self.precision)
        factor = factorize(precision)
        return Law.of(rows, self.center + length * inverse(factor.root) @ gradient, precision) if factor.ok else None

    def elbo(self, prior: GaussianPrior, likelihood: Likelihood) -> Terms:
        """E[log p(y, u)] + H[q], the expected gradient and curvature."""
        value, slope, full = _expected_prior(prior, likelihood, self.center, self.covariance)
        return self.rows[0] + value + self.entropy, self.rows[1] + slope, self.rows[2] + full


def best_scale(belief: "GLM", rows: Rows) -> "GLM":
    """The belief with one precision for all weights, and the normal law, of the highest ELBO.

    From a precision under which the posterior is nearly normal, it falls by a factor e at a time, each law the start of
    the next, as long as the ELBO rises; a parabola through the last three has the top.
    """

    def climbed(log_precision: float, at: Law) -> tuple[Law, float]:
        return best_normal(_scaled(belief, log_precision).before(rows), rows, at, gain=ROUGH)

    center, root = belief.at_mode(rows).normal_law()
    at = Law.of(rows, center, inverse(factorize(root @ root.T).root))
    assert at is not None and isinstance(belief.prior, Isotropic)
    place, heights = float(np.log(belief.prior.precision)), [-np.inf]
    while len(heights) < LEVELS:
        there, height = climbed(place, at)
        heights.append(height)
        if height < heights[-2]:
            break
        at, place = there, place - 1
    before, top, after = heights[-3:] if len(heights) > 3 else (heights[-1], heights[-1] + 1, heights[-1])
    place = place + 1 - 0.5 * (after - before) / (2 * top - after - before)
    chosen = _scaled(belief, place)
    prior = chosen.before(rows)
    return given(chosen, prior, rows, *best_normal(prior, rows, at))


def _scaled(belief: "GLM", log_precision: float) -> "GLM":
    return changed(belief, prior=Isotropic(np.exp(log_precision)))


def best_normal(prior: GaussianPrior, rows: Rows, at: Law, gain: float = STILL) -> tuple[Law, float]:
    """The normal law of the highest ELBO, from this one until a step gains less than `gain`; and the ELBO."""
    with blas_threads(len(at.center)):  # a second thread would wait at every product
        return _best_normal(prior, rows, at, gain)


def _best_normal(prior: GaussianPrior, rows: Rows, at: Law, gain: float) -> tuple[Law, float]:
    height, gradient, curvature = at.elbo(prior, rows.likelihood)
    length = 1.0
    for _ in range(STEPS):
        there = at.stepped(rows, gradient, curvature, length)
        if there is None or not (new := there.elbo(prior, rows.likelihood))[0] > height:
            if length < SHORTEST:
                break
            length /= 2
            continue
        gained, at, (height, gradient, curvature) = new[0] - height, there, new
        if gained < gain * length:
            break
        length = min(1.0, 2 * length)
    return at, float(height)


def expected_rows(rows: Rows, center: Array, covariance: Array) -> Terms:
    """Σᵢ E[log p(yᵢ | zᵢ)] and its expected gradient and curvature by u."""
    nothing: Terms = (np.zeros(()), np.zeros(()), np.zeros(()))
    value, slope, full = nothing
    classes, a = rows.likelihood.vector, rows.likelihood.size + rows.width
    weights, nodes = class_nodes(CLASS_NODES, a + 1) if classes else normal_nodes(a)
    size = max(NODES // len(nodes), 1)
    for i in range(0, len(rows.y), size):
        block = rows.cut(slice(i, i + size))
        z, spread = block.z(center), spreads(block, covariance)
        z = around_classes(z, spread, nodes) if classes else _around(z, spread, nodes)
        each = rows.likelihood.expected_terms(weights, z, block.y)
        more_slope, more = assemble(block, each[1], each[2])
        value, slope, full = value + block.weights @ each[0], slope + more_slope, full + more
    return value, slope, full


def _around(mean: Float[Array, "n a"], covariance: Float[Array, "n a a"], nodes: Array) -> Float[Array, "n s a"]:
    """Nodes of each row's z."""
    # A law that is nearly a point in some direction of z has a factor that rounding may make complex.
    values, vectors = np.linalg.eigh(covariance)
    half = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return mean[:, None, :] + nodes @ half.swapaxes(-1, -2)


def _expected_prior(prior: GaussianPrior, likelihood: Likelihood, center: Array, covariance: Array) -> Terms:
    """The expected terms of log p(u)."""
    s = likelihood.size
    quadratic = GaussianPrior(prior.mean, prior.precision, prior.log_scale, False)
    value, slope, full = quadratic.terms(likelihood, center)
    value = value - 0.5 * np.sum(prior.precision * covariance)
    if not (s and prior.fresh):
        return value, slope, full
    weights, nodes = normal_nodes(s)
    own = likelihood.own_terms(center[:s] + nodes @ factorize(covariance[:s, :s]).root.T)
    mean = [np.tensordot(weights, v, axes=1) for v in own]
    rest = (0, len(center) - s)
    return value + mean[0], slope + np.pad(mean[1], rest), full + np.pad(mean[2], rest)


def log_densities(prior: GaussianPrior, rows: Rows, u: Float[Array, "m k"]) -> Float[Array, " m"]:
    """log p(y, u) at many points."""
    likelihood, s, gap = rows.likelihood, rows.likelihood.size, u - prior.mean
    total = prior.log_scale - 0.5 * np.einsum("mk,mk->m", gap @ prior.precision, gap)
    if s and prior.fresh:
        total = total + likelihood.own_terms(u[:, :s])[0]
    own = likelihood.at(u[:, :s]) if s else likelihood
    weights = u[:, s:].reshape(len(u), -1, rows.width).transpose(1, 0, 2)
    size = max(NODES // len(u), 1)
    for i in range(0, len(rows.y), size):
        block = rows.cut(slice(i, i + size))
        eta = np.tensordot(block.design, weights, axes=1) + block.offset[:, None, None]
        total = total + block.weights @ own.log_prob(eta if own.vector else eta[..., 0], block.y[:, None])
    return total
