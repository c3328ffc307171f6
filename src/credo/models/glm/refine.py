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

import warnings
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.errors import NotConvergedWarning
from credo.core.linalg import factorize, inverse
from credo.infer.importance_sampling import psis_notes
from credo.infer.laplace import occam
from credo.infer.posterior import NormalApproximation
from credo.models.glm.newton import GaussianPrior, Rows, assemble, log_det_gradient, spreads
from credo.models.glm.predictions import normal_nodes
from credo.models.likelihoods.base import Terms

if TYPE_CHECKING:
    from credo.models.glm.belief import GLM

SKEWED = 0.7
"""How many standard deviations the mean of a number may be from its mode."""
MOST = 256
"""The most numbers whose law is sought by optimization without being asked for."""
STEPS, STILL, SHORTEST = 100, 1e-3, 1e-3
"""The most steps; a gain of the ELBO that is none; the shortest step."""
NODES = 2**18
"""Nodes of rows that are held in memory together."""


def skewness(belief: "GLM", conditioned: "GLM", rows: Rows) -> Float[Array, " k"]:
    """(E[u] - û)/sd of every number, to first order."""
    law = conditioned.normal_law()
    covariance = law[1] @ law[1].T
    shift = -0.5 * covariance @ log_det_gradient(belief.before(rows), rows, law[0], covariance)
    return shift / np.sqrt(np.diagonal(covariance))


def refined(belief: "GLM", conditioned: "GLM", rows: Rows) -> "GLM":
    """`conditioned`, `belief` after the rows by Laplace's approximation; or a better one where that is poor."""
    worst = float(np.abs(skewness(belief, conditioned, rows)).max(initial=0.0))
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
    center, precision, elbo = best_normal(prior, rows, center, inverse(factorize(root @ root.T).root))
    root = factorize(inverse(factorize(precision).root)).root
    space = belief.target(rows).space
    law = NormalApproximation(space, center, root, np.asarray(elbo))
    notes = psis_notes(law, lambda u: log_densities(prior, rows, u))
    return conditioned.given(NormalApproximation(space, center, root, law.log_evidence, notes))


def best_normal(
    prior: GaussianPrior, rows: Rows, center: Float[Array, " k"], precision: Float[Array, "k k"]
) -> tuple[Array, Array, float]:
    """The center and the precision of the normal law of the highest ELBO, and the ELBO."""
    at = _elbo(prior, rows, center, precision)
    assert at is not None
    length = 1.0
    for _ in range(STEPS):
        elbo, gradient, curvature = at
        new = (1 - length) * precision + length * curvature
        factor = factorize(new)
        there = None
        if factor.ok:
            moved = center + length * inverse(factor.root) @ gradient
            there = _elbo(prior, rows, moved, new)
        if there is not None and there[0] > elbo:
            at, center, precision, length = there, moved, new, min(1.0, 2 * length)
            if there[0] - elbo < STILL * length:
                break
        elif length < SHORTEST:
            break
        else:
            length /= 2
    return center, precision, float(at[0])


def _elbo(prior: GaussianPrior, rows: Rows, center: Array, precision: Array) -> Terms | None:
    """E[log p(y, u)] + H[q] under N(center, precision⁻¹), the expected gradient and curvature; None if not finite."""
    factor = factorize(precision)
    covariance = inverse(factor.root)
    value, slope, full = _expected_prior(prior, rows, center, covariance)
    weights, nodes = normal_nodes(rows.likelihood.size + rows.width)
    size = max(NODES // len(nodes), 1)
    for i in range(0, len(rows.y), size):
        block = rows.cut(slice(i, i + size))
        # A law that is nearly a point in some direction of z has a factor that rounding may make complex.
        values, vectors = np.linalg.eigh(spreads(block, covariance))
        half = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        z = block.z(center)[:, None, :] + nodes @ half.swapaxes(-1, -2)
        each = [np.einsum("s,ns...->n...", weights, v) for v in rows.likelihood.terms(z, block.y[:, None])]
        more_slope, more = assemble(block, each[1], each[2])
        value, slope, full = value + block.weights @ each[0], slope + more_slope, full + more
    entropy = occam(factor.root) + 0.5 * len(center)
    return (value + entropy, slope, full) if np.isfinite(value) else None


def _expected_prior(prior: GaussianPrior, rows: Rows, center: Array, covariance: Array) -> Terms:
    """The expected terms of log p(u)."""
    likelihood, s = rows.likelihood, rows.likelihood.size
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
