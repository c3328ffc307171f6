"""Expectations under a prediction: exact for classes, sums for counts, panels of Gauss-Legendre for real outcomes.

Scores and losses ask for the same few integrals of a prediction Y:

    expectation   E[f(Y)]
    shortfall     E[(a - Y)₊]      how far, on average, the outcome falls below a
    distance      E|Y - a|
    spread        ½ E|Y - Y′|      half of Gini's mean difference

Closed forms are used where they exist; a mixture is integrated component by component, so that narrow and far
apart components are each seen at their own scale. Closed forms of concrete predictions are computed in NumPy; a rule
is compiled once for each kind and shape of prediction.
"""

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy import special
from jaxtyping import Float

from credo.core.arrays import Array, Numeric, is_traced
from credo.core.predictive import Bernoulli, Laplace, LogNormal, Mixture, Normal, Predictive, StudentT
from credo.core.predictive.base import Marginals
from credo.core.predictive.classes import Classes
from credo.core.predictive.mixtures import FEW
from credo.core.predictive.real import student_cdf
from credo.core.special import log_beta

PANELS = 16
"""Panels between two breaks, 16 nodes each."""

REACH = 20.0
"""Integrals reach sinh(20) ≈ 2·10⁸ half interquartile ranges into the tails."""

SUPPORT = 4096
"""How many counts are summed; where the spread is wider, in strides."""

Numbers = Array | np.ndarray | np.floating
Anchors = Any  # of a mixture a tuple of its parts', of counts and real outcomes arrays: nested as the prediction is


def alone(prediction: Predictive) -> Predictive:
    """The prediction with each outcome on its own: a vector outcome as its coordinates."""
    return prediction.marginals if isinstance(prediction, Marginals) else prediction.marginal()


def per_row(prediction: Predictive, ask: Callable[[Predictive, Array], Array], y: Array) -> Array:
    """ask(prediction, y), where a prediction of a single outcome is asked about every y."""
    return ask(prediction, y) if prediction.shape else jax.vmap(lambda value: ask(prediction, value))(y)


def anchors(prediction: Predictive) -> Anchors:
    """What `expectation` needs to know of a prediction before it knows the function: compute it once for many."""
    if isinstance(prediction, Classes):
        return ()
    if isinstance(prediction, Mixture) and _by_component(prediction):
        return tuple(jax.vmap(anchors)(part) for part in prediction.parts)
    return _support(prediction) if prediction.discrete else _center_and_scale(prediction)


def expectation(
    prediction: Predictive, function: Callable[[Array], Array], split: Numeric | None = None, known: Anchors = None
) -> Array:
    """E[f(Y)] for an elementwise f of outcomes, one number per query.

    For a real outcome ∫ f(y) p(y) dy on y = median + s·sinh(t), s half the interquartile range. `split` is where
    f has a kink or a jump (one value per query): there the panels are broken, and the rule stays accurate.
    `known` are the `anchors` of the prediction.
    """
    if isinstance(prediction, Classes):
        probs = prediction.probs
        values = [function(jnp.full(prediction.shape, float(k))) for k in range(probs.shape[-1])]
        return jnp.sum(probs * jnp.stack(values, axis=-1), axis=-1)
    known = anchors(prediction) if known is None else known
    if isinstance(prediction, Mixture) and _by_component(prediction):
        each = [
            jax.vmap(lambda part, its: expectation(part, function, split, its))(part, its)
            for part, its in zip(prediction.parts, known, strict=True)
        ]
        return prediction.average(jnp.concatenate(each))
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


def shortfall(prediction: Predictive, threshold: Numeric) -> Numbers:
    """E[(a - Y)₊] at a = `threshold`.

    With z = (a - mean)/scale: Normal σ(zΦ(z) + φ(z)); Student-t s(zF(z) + f(z)(ν + z²)/(ν - 1)), infinite for
    ν ≤ 1; Laplace b(z₊ + ½e^(-|z|)); LogNormal aΦ(z) - E[Y]Φ(z - σ) with z of log a.
    """
    xp = _library(prediction, threshold)
    a = xp.asarray(threshold, float)
    match prediction:
        case Normal():
            mean, sd = _moments(prediction)
            return normal_shortfall(a - mean, sd)
        case StudentT():
            (mean, scale), df = _moments(prediction), xp.asarray(prediction.df)
            known, z = xp.where(df > 1, df, 2.0), (a - mean) / scale
            log_pdf = -_log_beta(known / 2, 0.5) - 0.5 * xp.log(known) - 0.5 * (known + 1) * xp.log1p(z**2 / known)
            unit = z * _student_cdf(z, known) + xp.exp(log_pdf) * (known + z**2) / (known - 1)
            return xp.where(df > 1, scale * unit, xp.inf)
        case Laplace():
            scale = xp.asarray(prediction.scale)
            z = (a - xp.asarray(prediction.mean)) / scale
            return scale * (xp.maximum(z, 0.0) + 0.5 * xp.exp(-xp.abs(z)))
        case LogNormal():
            location, sd = _moments(prediction.log)
            mean = xp.exp(location + 0.5 * sd**2)
            point, some = sd == 0, a > 0
            sd = xp.where(point, 1.0, sd)
            z = (xp.log(xp.where(some, a, 1.0)) - location) / sd
            below = a * _special(z).ndtr(z) - mean * _special(z).ndtr(z - sd)
            return xp.where(point, xp.maximum(a - mean, 0.0), xp.where(some, xp.maximum(below, 0.0), 0.0))
        case _:
            return _shortfall_by_rule(prediction, jnp.asarray(a))


@eqx.filter_jit
def _shortfall_by_rule(prediction: Predictive, a: Array) -> Array:
    if isinstance(prediction, Mixture) and _by_component(prediction):
        return prediction.average(prediction.each(lambda part: jnp.asarray(shortfall(part, a))))
    return expectation(prediction, lambda y: jnp.maximum(a - y, 0.0), split=a)


def normal_shortfall(difference: Numbers, std: Numbers) -> Numbers:
    """E[(a - Y)₊] for a Normal with a - mean = `difference`; (a - mean)₊ where the standard deviation is zero."""
    xp = _library(difference, std)
    point = std == 0
    sd = xp.where(point, 1.0, std)
    z = difference / sd
    unit = z * _special(z).ndtr(z) + xp.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return xp.where(point, xp.maximum(difference, 0.0), sd * unit)


def distance(prediction: Predictive, point: Numeric) -> Numbers:
    """E|Y - a| = 2 E[(a - Y)₊] + E[Y] - a."""
    xp = _library(prediction, point)
    a = xp.asarray(point, float)
    return 2 * xp.asarray(shortfall(prediction, a)) + xp.asarray(prediction.mean) - a


def spread(prediction: Predictive) -> Numbers:
    """½ E|Y - Y′| = ∫ F(1 - F) dy for two independent outcomes of the same prediction.

    Normal σ/√π; LogNormal E[Y] erf(σ/2); Laplace ¾b; Student-t 2s√ν/(ν - 1) · B(½, ν - ½)/B(½, ν/2)²; mixtures of
    Normals from the pairs' differences. Jordan, Krüger & Lerch (2019), appendix A; Grimit et al. (2006).
    """
    xp = _library(prediction)
    match prediction:
        case Bernoulli():
            return prediction.variance
        case Normal():
            return _moments(prediction)[1] / np.sqrt(np.pi)
        case LogNormal():
            location, scale = _moments(prediction.log)
            return xp.exp(location + 0.5 * scale**2) * _special(scale).erf(0.5 * scale)
        case Laplace():
            return 0.75 * xp.asarray(prediction.scale)
        case StudentT():
            given = xp.asarray(prediction.df)
            df = xp.where(given > 1, given, 2.0)
            unit = 2 * xp.sqrt(df) / (df - 1) * xp.exp(_log_beta(df - 0.5, 0.5) - 2 * _log_beta(df / 2, 0.5))
            return xp.where(given > 1, _moments(prediction)[1] * unit, xp.inf)
        case _:
            return _spread_by_rule(prediction)


@eqx.filter_jit
def _spread_by_rule(prediction: Predictive) -> Array:
    if isinstance(prediction, Mixture) and all(isinstance(part, Normal) for part in prediction.parts):
        return _spread_of_normals(prediction)
    if prediction.discrete:
        _, masses, stride = _support(prediction)
        # The average of F over the whole numbers of a stride.
        F = jnp.cumsum(masses, axis=0) - masses + masses * (stride + 1) / (2 * stride)
        return jnp.sum(F * (1 - F), axis=0) * stride
    center, scale = _center_and_scale(prediction)
    points, weights = _line(center, scale, center, 4 * PANELS if isinstance(prediction, Mixture) else PANELS)

    def at_node(y: Array, weight: Array) -> Array:
        F = prediction.cdf(y)
        return weight * F * (1 - F)

    return _sum_nodes(at_node, points, weights)


def _library(*values: object) -> ModuleType:
    """NumPy but where something is traced: the numbers of a prediction are JAX's, and cost nothing to look at."""
    return jnp if is_traced(*values) else np


def _by_component(prediction: Mixture) -> bool:
    """Whether components are integrated one by one; counts of many components lie on one grid for all."""
    return not prediction.discrete or prediction.weights.shape[0] <= FEW


def _moments(prediction: Normal | StudentT) -> tuple[Numbers, Numbers]:
    """Mean and scale: of a Normal the standard deviation."""
    xp, p = _library(prediction), prediction
    noise, latent = (p.noise, p.latent) if isinstance(p, StudentT) else (p.aleatoric, p.epistemic)
    return xp.asarray(p.mean), xp.sqrt(xp.asarray(noise) + xp.asarray(latent))


def _special(*values: object) -> ModuleType:
    """The special functions of either library."""
    return special if is_traced(*values) else scipy.special


def _student_cdf(z: Numbers, df: Numbers) -> Numbers:
    return student_cdf(jnp.asarray(z), jnp.asarray(df)) if is_traced(z, df) else scipy.special.stdtr(df, z)


def _log_beta(a: Numbers, b: float) -> Numbers:
    return log_beta(jnp.asarray(a), jnp.asarray(b)) if is_traced(a) else scipy.special.betaln(a, b)


def outcome_nodes(prediction: Predictive, n: int) -> tuple[Float[Array, "n *m"], Float[Array, "n *m"]]:
    """Outcomes and their weights, Σ w f(y) ≈ E[f(Y)], for an f that is dear to evaluate.

    All classes, all counts where they are few; for real outcomes n Gauss-Hermite nodes z pushed through the
    quantile function, y = F⁻¹(Φ(z)), which for a Normal is the Gauss-Hermite rule itself.
    """
    if isinstance(prediction, Classes):
        weights = jnp.moveaxis(prediction.probs, -1, 0)
        classes = jnp.arange(weights.shape[0], dtype=float).reshape(-1, *[1] * len(prediction.shape))
        return jnp.broadcast_to(classes, weights.shape), weights
    if prediction.discrete:
        low, high = prediction.quantile(jnp.asarray([1e-9, 1 - 1e-9]))
        many = int(jnp.max(high - low)) + 1
        if many <= 16 * n:
            counts = low + jnp.arange(many, dtype=float).reshape(-1, *[1] * len(prediction.shape))
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
    shares = jnp.broadcast_to(prediction.shares(means), means.shape)

    def against_all(one: tuple[Array, Array, Array]) -> Array:
        weight, mean, variance = one
        difference = mean - means
        both = 2 * normal_shortfall(difference, jnp.sqrt(variance + variances)) - difference
        return weight * jnp.sum(shares * both, axis=0)

    return 0.5 * jnp.sum(jax.lax.map(against_all, (shares, means, variances)), axis=0)


def _center_and_scale(prediction: Predictive) -> tuple[Array, Array]:
    low, middle, high = prediction.quantile(jnp.asarray([0.25, 0.5, 0.75]))
    return middle, (high - low) / 2


def _line(center: Array, scale: Array, split: Array, panels: int = PANELS) -> tuple[Array, Array]:
    """Nodes and weights for ∫ g(y) dy on y = center + scale·sinh(t), in panels broken at the center and at `split`."""
    x, w = np.polynomial.legendre.leggauss(16)
    edges = np.arange(panels) / panels
    unit = jnp.asarray((edges[:, None] + (x + 1) / (2 * panels)).ravel()).reshape(-1, *[1] * center.ndim)
    mass = jnp.asarray(np.tile(w / (2 * panels), panels)).reshape(-1, *[1] * center.ndim)
    at = jnp.arcsinh((split - center) / scale)
    reach = jnp.maximum(REACH, jnp.abs(at) + 1)
    pieces = list(itertools.pairwise([-reach, jnp.minimum(at, 0.0), jnp.maximum(at, 0.0), reach]))
    t = jnp.concatenate([low + (high - low) * unit for low, high in pieces])
    weights = jnp.concatenate([(high - low) * mass for low, high in pieces])
    return center + scale * jnp.sinh(t), weights * scale * jnp.cosh(t)


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
