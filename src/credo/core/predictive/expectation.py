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
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, PyTree

from credo.core.arrays import Array, Numeric, as_float, host, namespace, special
from credo.core.loops import counts_near, over_nodes, quiet
from credo.core.predictive import Bernoulli, Laplace, LogNormal, Mixture, Normal, Predictive, StudentT
from credo.core.predictive.base import Marginals, size_of
from credo.core.predictive.classes import Classes
from credo.core.predictive.mixtures import FEW, of_stack
from credo.core.predictive.real import student_cdf, student_log_density
from credo.core.special import log_beta

PANELS = 16
"""Panels between two breaks, 16 nodes each."""

REACH = 20.0
"""Integrals reach sinh(20) ≈ 2·10⁸ half interquartile ranges into the tails."""

Anchors: TypeAlias = PyTree[Array]
"""Of a mixture those of its parts: nested as the prediction is."""


def alone(prediction: Predictive) -> Predictive:
    """The prediction with each outcome on its own: a vector outcome as its coordinates."""
    return prediction.marginals if isinstance(prediction, Marginals) else prediction.marginal()


def per_row(prediction: Predictive) -> Predictive:
    """The prediction with rows: that of a single outcome has one, and can be asked about a vector of them."""
    return prediction if prediction.shape else prediction[None]


def anchors(prediction: Predictive) -> Anchors:
    """What `expectation` needs to know of a prediction before it knows the function: compute it once for many."""
    if isinstance(prediction, Classes):
        return ()
    if isinstance(prediction, Mixture) and _by_component(prediction):
        return tuple(of_stack(anchors, part) for part in prediction.parts)
    return _support(prediction) if prediction.discrete else _center_and_scale(prediction)


def expectation(
    prediction: Predictive,
    function: Callable[[Array], Array],
    split: Numeric | None = None,
    known: Anchors | None = None,
) -> Array:
    """E[f(Y)] for an elementwise f of outcomes, one number per query.

    For a real outcome ∫ f(y) p(y) dy on y = median + s·sinh(t), s half the interquartile range. `split` is where
    f has a kink or a jump (one value per query): there the panels are broken, and the rule stays accurate.
    `known` are the `anchors` of the prediction.
    """
    xp, size = namespace(prediction, split, known), size_of(prediction)

    def value(y: Array) -> Array:
        return host(function(y))

    if isinstance(prediction, Classes):
        probs = prediction.probs
        each = [probs[..., k] * value(np.full(prediction.shape, float(k))) for k in range(probs.shape[-1])]
        return namespace(each).stack(each).sum(0)
    known = anchors(prediction) if known is None else known
    if isinstance(prediction, Mixture) and _by_component(prediction):
        parts = [
            of_stack(lambda part, its: expectation(part, function, split, its), part, its)
            for part, its in zip(prediction.parts, known, strict=True)
        ]
        return prediction.average(namespace(parts).concatenate(parts))
    if prediction.discrete:
        points, masses, _ = known
        term = quiet(lambda y, mass: xp.where(mass > 0, mass * value(y), 0.0))
        return over_nodes(xp, term, (points, masses), size).sum(0)
    center, scale = known
    # A prediction without doubt is a point: its integral is the value there.
    point = scale == 0
    scale = xp.where(point, 1.0, scale)

    @quiet
    def integrand(y: Array) -> Array:
        density = xp.exp(prediction.log_prob(y))
        return density * value(xp.where(density > 0, y, center))

    found = _integrate(integrand, center, scale, size, split=center if split is None else as_float(split))
    return namespace(found).where(point, value(center), found)


def shortfall(prediction: Predictive, threshold: Numeric) -> Array:
    """E[(a - Y)₊] at a = `threshold`.

    With z = (a - mean)/scale: Normal σ(zΦ(z) + φ(z)); Student-t s(zF(z) + f(z)(ν + z²)/(ν - 1)), infinite for
    ν ≤ 1; Laplace b(z₊ + ½e^(-|z|)); LogNormal aΦ(z) - E[Y]Φ(z - σ) with z of log a.
    """
    xp, a = namespace(prediction, threshold), as_float(threshold)
    match prediction:
        case Normal():
            return normal_shortfall(a - prediction.mean, prediction.std)
        case StudentT():
            z, df = (a - prediction.mean) / prediction.scale, xp.where(prediction.df > 1, prediction.df, 2.0)
            tail = xp.exp(student_log_density(z, df)) * (df + z**2) / (df - 1)
            return xp.where(prediction.df > 1, prediction.scale * (z * student_cdf(z, df) + tail), xp.inf)
        case Laplace():
            z = (a - prediction.mean) / prediction.scale
            return prediction.scale * (xp.maximum(z, 0.0) + 0.5 * xp.exp(-xp.abs(z)))
        case LogNormal():
            mean, ndtr = prediction.mean, special(prediction, a).ndtr
            point, some = prediction.scale == 0, a > 0
            sd = xp.where(point, 1.0, prediction.scale)
            z = (xp.log(xp.where(some, a, 1.0)) - prediction.location) / sd
            below = xp.maximum(a * ndtr(z) - mean * ndtr(z - sd), 0.0)
            return xp.where(point, xp.maximum(a - mean, 0.0), xp.where(some, below, 0.0))
        case Mixture() if _by_component(prediction):
            return prediction.average(prediction.each(lambda part: shortfall(part, a), a))
        case _:
            return expectation(prediction, lambda y: namespace(a, y).maximum(a - y, 0.0), split=a)


def normal_shortfall(difference: Array, std: Array) -> Array:
    """E[(a - Y)₊] for a Normal with a - mean = `difference`; (a - mean)₊ where the standard deviation is zero."""
    xp = namespace(difference, std)
    point = std == 0
    sd = xp.where(point, 1.0, std)
    z = difference / sd
    unit = z * special(z).ndtr(z) + xp.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return xp.where(point, xp.maximum(difference, 0.0), sd * unit)


def distance(prediction: Predictive, point: Numeric) -> Array:
    """E|Y - a| = 2 E[(a - Y)₊] + E[Y] - a."""
    a = as_float(point)
    return 2 * shortfall(prediction, a) + prediction.mean - a


def spread(prediction: Predictive) -> Array:
    """½ E|Y - Y′| = ∫ F(1 - F) dy for two independent outcomes of the same prediction.

    Normal σ/√π; LogNormal E[Y] erf(σ/2); Laplace ¾b; Student-t 2s√ν/(ν - 1) · B(½, ν - ½)/B(½, ν/2)²; mixtures of
    Normals from the pairs' differences. Jordan, Krüger & Lerch (2019), appendix A; Grimit et al. (2006).
    """
    xp = namespace(prediction)
    match prediction:
        case Bernoulli():
            return prediction.variance
        case Normal():
            return prediction.std / np.sqrt(np.pi)
        case LogNormal():
            return prediction.mean * special(prediction).erf(0.5 * prediction.scale)
        case Laplace():
            return 0.75 * prediction.scale
        case StudentT():
            df, half = xp.where(prediction.df > 1, prediction.df, 2.0), xp.asarray(0.5)
            unit = 2 * xp.sqrt(df) / (df - 1) * xp.exp(log_beta(df - 0.5, half) - 2 * log_beta(df / 2, half))
            return xp.where(prediction.df > 1, prediction.scale * unit, xp.inf)
        case Mixture() if all(isinstance(part, Normal) for part in prediction.parts):
            return _spread_of_normals(prediction)
    if prediction.discrete:
        _, masses, stride = _support(prediction)
        # The average of F over the whole numbers of a stride.
        F = masses.cumsum(0) - masses + masses * (stride + 1) / (2 * stride)
        return (F * (1 - F)).sum(0) * stride

    def integrand(y: Array) -> Array:
        F = prediction.cdf(y)
        return F * (1 - F)

    return integrate(prediction, integrand)


def integrate(prediction: Predictive, integrand: Callable[[Array], Array]) -> Array:
    """∫ g(y) dy on one grid that suits the prediction, four times finer for a mixture."""
    panels = 4 * PANELS if isinstance(prediction, Mixture) else PANELS
    return _integrate(integrand, *_center_and_scale(prediction), size_of(prediction), panels=panels)


def _by_component(prediction: Mixture) -> bool:
    """Whether components are integrated one by one; counts of many components lie on one grid for all."""
    return not prediction.discrete or prediction.weights.shape[0] <= FEW


def outcome_nodes(prediction: Predictive, n: int) -> tuple[Float[Array, "n *m"], Float[Array, "n *m"]]:
    """Outcomes and their weights, Σ w f(y) ≈ E[f(Y)], for an f that is dear to evaluate.

    All classes, all counts where they are few; for real outcomes n Gauss-Hermite nodes z pushed through the
    quantile function, y = F⁻¹(Φ(z)), which for a Normal is the Gauss-Hermite rule itself.
    """
    xp, axes = namespace(prediction), [1] * len(prediction.shape)
    if isinstance(prediction, Classes):
        weights = xp.moveaxis(prediction.probs, -1, 0)
        classes = np.arange(weights.shape[0], dtype=float).reshape(-1, *axes)
        return xp.broadcast_to(classes, weights.shape), weights
    if prediction.discrete:
        low, high = prediction.quantile([1e-9, 1 - 1e-9])
        many = int((high - low).max()) + 1
        if many <= 16 * n:
            counts = low + np.arange(many, dtype=float).reshape(-1, *axes)
            masses = xp.exp(prediction.log_prob(counts))
            return counts, masses / masses.sum(0)
    z, w = np.polynomial.hermite_e.hermegauss(n)
    outcomes = prediction.quantile(np.clip(special().ndtr(z), 1e-300, 1 - 1e-16))
    return outcomes, xp.broadcast_to((w / w.sum()).reshape(-1, *axes), outcomes.shape)


def _spread_of_normals(prediction: Mixture) -> Array:
    """½ Σᵢⱼ wᵢwⱼ E|Yᵢ - Yⱼ| with Yᵢ - Yⱼ ~ N(μᵢ - μⱼ, σᵢ² + σⱼ²), a few i at a time."""
    xp, components = namespace(prediction), -1 - len(prediction.shape)
    means, variances = (prediction.each(ask) for ask in (lambda p: p.mean, lambda p: p.variance))
    shares = xp.broadcast_to(prediction.shares(means), means.shape)

    def against_all(weight: Array, mean: Array, variance: Array) -> Array:
        difference = xp.expand_dims(mean, components) - means
        both = 2 * normal_shortfall(difference, xp.sqrt(xp.expand_dims(variance, components) + variances)) - difference
        return weight * (shares * both).sum(components)

    return 0.5 * over_nodes(xp, against_all, (shares, means, variances), means.size).sum(0)


def _center_and_scale(prediction: Predictive) -> tuple[Array, Array]:
    low, middle, high = prediction.quantile([0.25, 0.5, 0.75])
    return middle, (high - low) / 2


def _integrate(
    integrand: Callable[[Array], Array],
    center: Array,
    scale: Array,
    size: int,
    *,
    split: Array | None = None,
    panels: int = PANELS,
) -> Array:
    """∫ g(y) dy on y = center + scale·sinh(t), in panels of Gauss-Legendre nodes, broken at center and `split`."""
    xp = namespace(center, scale, split)
    at = xp.arcsinh((center - center if split is None else split - center) / scale)
    reach = xp.maximum(REACH, xp.abs(at) + 1)
    pieces = list(itertools.pairwise([-reach, xp.minimum(at, 0.0), xp.maximum(at, 0.0), reach]))

    def term(unit: Array, mass: Array) -> Array:
        each = []
        for low, high in pieces:
            t = low + (high - low) * unit
            each.append(integrand(center + scale * xp.sinh(t)) * (high - low) * mass * scale * xp.cosh(t))
        return each[0] + each[1] + each[2]

    x, w = np.polynomial.legendre.leggauss(16)
    unit = (np.arange(panels)[:, None] / panels + (x + 1) / (2 * panels)).ravel()
    mass = np.tile(w / (2 * panels), panels)
    nodes = tuple(values.reshape(-1, *[1] * at.ndim) for values in (unit, mass))
    return over_nodes(xp, term, nodes, size).sum(0)


def _support(prediction: Predictive) -> tuple[Array, Array, Array]:
    """Counts around the mean, the probability of the stride that each stands for, and the stride."""
    xp, (points, stride) = namespace(prediction), counts_near(prediction.mean, prediction.std)
    masses = xp.exp(over_nodes(xp, prediction.log_prob, (points,), size_of(prediction)))
    return points, masses / masses.sum(0), stride
