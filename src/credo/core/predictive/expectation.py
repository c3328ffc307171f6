"""Expectations under a prediction: exact for classes, sums for counts, panels of Gauss-Legendre for real outcomes.

Scores and losses ask for the same few integrals of a prediction Y:

    expectation   E[f(Y)]
    shortfall     E[(a - Y)₊]      how far, on average, the outcome falls below a
    distance      E|Y - a|
    spread        ½ E|Y - Y′|      half of Gini's mean difference

Closed forms are used where they exist; a mixture is integrated component by component, so that narrow and far
apart components are each seen at their own scale.
"""

import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special, stats
from jaxtyping import Array, Float

from credo.core.predictive import (
    Bernoulli,
    Categorical,
    DirichletMultinomial,
    Laplace,
    LogNormal,
    Mixture,
    MultivariateT,
    Normal,
    Predictive,
    StudentT,
)
from credo.core.predictive.real import student_cdf
from credo.core.special import log_beta

PANELS = 16
"""Panels between two breaks, 16 nodes each."""

REACH = 20.0
"""Integrals reach sinh(20) ≈ 2·10⁸ half interquartile ranges into the tails."""

SUPPORT = 4096
"""How many counts are summed; where the spread is wider, in strides."""

Classes = Bernoulli | Categorical


def alone(prediction: Predictive) -> Predictive:
    """The prediction with each outcome on its own: a vector outcome as its coordinates."""
    if isinstance(prediction, MultivariateT | DirichletMultinomial):
        return prediction.marginals
    return prediction.marginal()


def per_row(prediction: Predictive, ask: Callable[[Predictive, Array], Array], y: Array) -> Array:
    """ask(prediction, y), where a prediction of a single outcome is asked about every y."""
    if prediction.shape == ():
        return jax.vmap(lambda value: ask(prediction, value))(y)
    return ask(prediction, y)


def over_components(prediction: Mixture, ask: Callable[[Predictive], Array]) -> Array:
    """Σₖ wₖ ask(componentₖ)."""
    each = jnp.concatenate([jax.vmap(ask)(part) for part in prediction.parts])
    return jnp.tensordot(prediction.weights, each, 1)


def anchors(prediction: Predictive) -> Any:
    """What `expectation` needs to know of a prediction before it knows the function: compute it once for many."""
    if isinstance(prediction, Categorical | Bernoulli):
        return ()
    if isinstance(prediction, Mixture):
        return tuple(jax.vmap(anchors)(part) for part in prediction.parts)
    return _support(prediction) if prediction.discrete else _center_and_scale(prediction)


def expectation(
    prediction: Predictive, function: Callable[[Array], Array], split: Any = None, known: Any = None
) -> Array:
    """E[f(Y)] for an elementwise f of outcomes, one number per query.

    For a real outcome ∫ f(y) p(y) dy on y = median + s·sinh(t), s half the interquartile range. `split` is where
    f has a kink or a jump (one value per query): there the panels are broken, and the rule stays accurate.
    `known` are the `anchors` of the prediction.
    """
    if isinstance(prediction, Categorical | Bernoulli):
        probs = prediction.probs
        values = [function(jnp.full(prediction.shape, float(k))) for k in range(probs.shape[-1])]
        return jnp.sum(probs * jnp.stack(values, axis=-1), axis=-1)
    known = anchors(prediction) if known is None else known
    if isinstance(prediction, Mixture):
        each = [
            jax.vmap(lambda part, its: expectation(part, function, split, its))(part, its)
            for part, its in zip(prediction.parts, known, strict=True)
        ]
        return jnp.tensordot(prediction.weights, jnp.concatenate(each), 1)
    if prediction.discrete:
        points, masses, _ = known
        return _sum_nodes(lambda y, mass: mass * function(y), points, masses)
    center, scale = known
    at = center if split is None else jnp.broadcast_to(jnp.asarray(split, float), center.shape)
    # A prediction without doubt is a point: its integral is the value there.
    point = scale == 0
    points, weights = _line(center, jnp.where(point, 1.0, scale), at)

    def at_node(y: Array, weight: Array) -> Array:
        density = jnp.exp(prediction.log_prob(y))
        return jnp.where(density > 0, weight * density * function(y), 0.0)

    return jnp.where(point, function(center), _sum_nodes(at_node, points, weights))


def shortfall(prediction: Predictive, threshold: Any) -> Array:
    """E[(a - Y)₊] at a = `threshold`.

    With z = (a - mean)/scale: Normal σ(zΦ(z) + φ(z)); Student-t s(zF(z) + f(z)(ν + z²)/(ν - 1)), infinite for
    ν ≤ 1; Laplace b(z₊ + ½e^(-|z|)); LogNormal aΦ(z) - E[Y]Φ(z - σ) with z of log a.
    """
    a = jnp.asarray(threshold, float)
    match prediction:
        case Normal():
            return normal_shortfall(a - prediction.mean, prediction.std)
        case StudentT():
            df = jnp.where(prediction.df > 1, prediction.df, 2.0)
            z = (a - prediction.mean) / prediction.scale
            unit = z * student_cdf(z, df) + stats.t.pdf(z, df) * (df + z**2) / (df - 1)
            return jnp.where(prediction.df > 1, prediction.scale * unit, jnp.inf)
        case Laplace():
            z = (a - prediction.mean) / prediction.scale
            return prediction.scale * (jnp.maximum(z, 0.0) + 0.5 * jnp.exp(-jnp.abs(z)))
        case LogNormal():
            return _lognormal_shortfall(prediction, a)
        case Mixture():
            return over_components(prediction, lambda part: shortfall(part, a))
        case _:
            return expectation(prediction, lambda y: jnp.maximum(a - y, 0.0), split=a)


def normal_shortfall(difference: Array, std: Array) -> Array:
    """E[(a - Y)₊] for a Normal with a - mean = `difference`; (a - mean)₊ where the standard deviation is zero."""
    point = std == 0
    sd = jnp.where(point, 1.0, std)
    z = difference / sd
    unit = z * stats.norm.cdf(z) + stats.norm.pdf(z)
    return jnp.where(point, jnp.maximum(difference, 0.0), sd * unit)


def _lognormal_shortfall(prediction: LogNormal, a: Array) -> Array:
    point, some = prediction.scale == 0, a > 0
    sd = jnp.where(point, 1.0, prediction.scale)
    z = (jnp.log(jnp.where(some, a, 1.0)) - prediction.location) / sd
    below = a * stats.norm.cdf(z) - prediction.mean * stats.norm.cdf(z - sd)
    return jnp.where(point, jnp.maximum(a - prediction.mean, 0.0), jnp.where(some, jnp.maximum(below, 0.0), 0.0))


def distance(prediction: Predictive, point: Any) -> Array:
    """E|Y - a| = 2 E[(a - Y)₊] + E[Y] - a."""
    a = jnp.asarray(point, float)
    return 2 * shortfall(prediction, a) + prediction.mean - a


def spread(prediction: Predictive) -> Array:
    """½ E|Y - Y′| = ∫ F(1 - F) dy for two independent outcomes of the same prediction.

    Normal σ/√π; LogNormal E[Y] erf(σ/2); Laplace ¾b; Student-t 2s√ν/(ν - 1) · B(½, ν - ½)/B(½, ν/2)²; mixtures of
    Normals from the pairs' differences. Jordan, Krüger & Lerch (2019), appendix A; Grimit et al. (2006).
    """
    match prediction:
        case Bernoulli():
            return prediction.variance
        case Normal():
            return prediction.std / jnp.sqrt(jnp.pi)
        case LogNormal():
            return prediction.mean * special.erf(0.5 * prediction.scale)
        case Laplace():
            return 0.75 * prediction.scale
        case StudentT():
            df = jnp.where(prediction.df > 1, prediction.df, 2.0)
            half = jnp.asarray(0.5)
            unit = 2 * jnp.sqrt(df) / (df - 1) * jnp.exp(log_beta(half, df - 0.5) - 2 * log_beta(half, df / 2))
            return jnp.where(prediction.df > 1, prediction.scale * unit, jnp.inf)
        case Mixture() if all(isinstance(part, Normal) for part in prediction.parts):
            return _spread_of_normals(prediction)
        case _ if prediction.discrete:
            points, masses, stride = _support(prediction)
            # The average of F over the whole numbers of a stride.
            F = jnp.cumsum(masses, axis=0) - masses + masses * (stride + 1) / (2 * stride)
            return jnp.sum(F * (1 - F), axis=0) * stride
        case _:
            center, scale = _center_and_scale(prediction)
            panels = 4 * PANELS if isinstance(prediction, Mixture) else PANELS
            points, weights = _line(center, scale, center, panels)

            def at_node(y: Array, weight: Array) -> Array:
                F = prediction.cdf(y)
                return weight * F * (1 - F)

            return _sum_nodes(at_node, points, weights)


def outcome_nodes(prediction: Predictive, n: int) -> tuple[Float[Array, "n *m"], Float[Array, "n *m"]]:
    """Outcomes and their weights, Σ w f(y) ≈ E[f(Y)], for an f that is dear to evaluate.

    All classes, all counts where they are few; for real outcomes n Gauss-Hermite nodes z pushed through the
    quantile function, y = F⁻¹(Φ(z)), which for a Normal is the Gauss-Hermite rule itself.
    """
    if isinstance(prediction, Categorical | Bernoulli):
        weights = jnp.moveaxis(prediction.probs, -1, 0)
        classes = jnp.arange(weights.shape[0], dtype=float).reshape(-1, *[1] * len(prediction.shape))
        return jnp.broadcast_to(classes, weights.shape), weights
    if prediction.discrete and not isinstance(prediction, Mixture):
        low, high = prediction.quantile(jnp.asarray([1e-9, 1 - 1e-9]))
        many = int(jnp.max(high - low)) + 1
        if many <= 16 * n:
            steps = jnp.arange(many, dtype=float).reshape(-1, *[1] * len(prediction.shape))
            counts = low + steps
            masses = _masses(prediction, counts)
            return counts, masses / jnp.sum(masses, axis=0)
    z, w = np.polynomial.hermite_e.hermegauss(n)
    levels = jnp.clip(special.ndtr(jnp.asarray(z)), 1e-300, 1 - 1e-16)
    outcomes = prediction.quantile(levels)
    weights = jnp.asarray(w / w.sum()).reshape(-1, *[1] * len(prediction.shape))
    return outcomes, jnp.broadcast_to(weights, outcomes.shape)


@eqx.filter_jit
def _masses(prediction: Predictive, counts: Array) -> Array:
    return jnp.exp(jax.vmap(prediction.log_prob)(counts))


def _spread_of_normals(prediction: Mixture) -> Array:
    """½ Σᵢⱼ wᵢwⱼ E|Yᵢ - Yⱼ| with Yᵢ - Yⱼ ~ N(μᵢ - μⱼ, σᵢ² + σⱼ²), one i at a time."""
    means = jnp.concatenate([part.mean for part in prediction.parts])
    variances = jnp.concatenate([part.variance for part in prediction.parts])

    def against_all(one: tuple[Array, Array, Array]) -> Array:
        weight, mean, variance = one
        difference = mean - means
        both = 2 * normal_shortfall(difference, jnp.sqrt(variance + variances)) - difference
        return weight * jnp.tensordot(prediction.weights, both, 1)

    return 0.5 * jnp.sum(jax.lax.map(against_all, (prediction.weights, means, variances)), axis=0)


def _center_and_scale(prediction: Predictive) -> tuple[Array, Array]:
    low, middle, high = prediction.quantile(jnp.asarray([0.25, 0.5, 0.75]))
    return middle, (high - low) / 2


@eqx.filter_jit
def _line(center: Array, scale: Array, split: Array, panels: int = PANELS) -> tuple[Array, Array]:
    """Nodes and weights for ∫ g(y) dy on y = center + scale·sinh(t), in panels broken at the center and at `split`."""
    x, w = np.polynomial.legendre.leggauss(16)
    edges = np.arange(panels) / panels
    unit = jnp.asarray((edges[:, None] + (x + 1) / (2 * panels)).ravel()).reshape(-1, *[1] * center.ndim)
    mass = jnp.asarray(np.tile(w / (2 * panels), panels)).reshape(-1, *[1] * center.ndim)
    at = jnp.arcsinh((split - center) / scale)
    reach = jnp.maximum(REACH, jnp.abs(at) + 1)
    ends = [-reach, jnp.minimum(at, 0.0), jnp.maximum(at, 0.0), reach]
    pieces = list(itertools.pairwise(ends))
    t = jnp.concatenate([low + (high - low) * unit for low, high in pieces])
    weights = jnp.concatenate([(high - low) * mass for low, high in pieces])
    return center + scale * jnp.sinh(t), weights * scale * jnp.cosh(t)


@eqx.filter_jit
def _support(prediction: Predictive) -> tuple[Array, Array, Array]:
    """Counts around the mean, the probability of the stride that each stands for, and the stride."""
    reach = 30 * prediction.std + 30
    low = jnp.maximum(jnp.floor(prediction.mean - reach), 0.0)
    stride = jnp.maximum(jnp.ceil((prediction.mean + reach - low + 1) / SUPPORT), 1.0)
    steps = jnp.arange(SUPPORT, dtype=float).reshape(-1, *[1] * low.ndim)
    points = low + stride * steps + jnp.floor(stride / 2)
    log_p = jax.lax.map(prediction.log_prob, points, batch_size=256)
    masses = jnp.where(jnp.isfinite(log_p), jnp.exp(log_p), 0.0)
    return points, masses / jnp.sum(masses, axis=0), stride


def _sum_nodes(term: Callable[[Array, Array], Array], points: Array, weights: Array) -> Array:
    return jnp.sum(jax.lax.map(lambda node: term(*node), (points, weights), batch_size=64), axis=0)
