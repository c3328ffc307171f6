"""Integrals over the hyperparameters of populations that share a Beta distribution.

The density is written in coordinates (u, v) on the whole plane, u = logit μ and v = log(s/c), where μ is the
mean and s the strength of the population distribution Beta(μs, (1 - μ)s). It is smooth and dies out at
least exponentially on all sides, so the trapezoidal rule over a box that holds its mass converges faster
than any power of the step: Trefethen & Weideman (2014), "The exponentially convergent trapezoidal rule".
"""

from typing import NamedTuple

import equinox as eqx
import numpy as np
import scipy.special
from jaxtyping import Float

from credo.core.arrays import Array, as_float, held, is_traced, namespace, special
from credo.core.loops import over_nodes, while_loop
from credo.core.special import log_beta, log_rising, softplus
from credo.models.conjugate.base import Statistics

DEPTH = 26.0
"""The box holds every point whose density is more than e^-26 of the highest."""
WIDEST = 18.0
BOX_GRID, BOX_STEPS = 17, 5
SEARCH_STEPS = 100
FAR = 200.0
NODES, MOST_NODES = 33, 129
TOLERANCE = 1e-7


class PopulationCounts(Statistics):
    """Successes and trials of each of r populations, and the log number of orders they can come in."""

    successes: Float[Array, " r"] = eqx.field(converter=as_float)
    trials: Float[Array, " r"] = eqx.field(converter=as_float)
    log_orders: Float[Array, ""] = eqx.field(converter=as_float)


class HyperPrior(eqx.Module):
    """μ ~ Beta(a, b) and p(s) = c/(c + s)², whose median is c: log(s/c) is logistic."""

    a: Float[Array, ""]
    b: Float[Array, ""]
    c: Float[Array, ""]

    def log_density(self, u: Array, v: Array) -> Array:
        """log p(u, v) + log B(a, b), with the Jacobians of u = logit μ and v = log(s/c)."""
        return -self.a * softplus(-u) - self.b * softplus(u) + v - 2 * softplus(v)


class Hyperparameters(eqx.Module):
    """Weighted values of the mean μ and the strength s of the population distribution."""

    mean: Float[Array, " g"]
    strength: Float[Array, " g"]
    weights: Float[Array, " g"]


class Integral(NamedTuple):
    """log ∫ p(data | u, v) p(u, v), the error of the nodes against twice finer ones, the mass at the border."""

    log_evidence: Array
    error: Array
    border: Array
    nodes: Hyperparameters


def log_likelihood(u: Float[Array, "*g"], log_strength: Float[Array, "*g"], counts: PopulationCounts) -> Array:
    """Σₖ log B(μs + n₁ₖ, (1 - μ)s + n₀ₖ)/B(μs, (1 - μ)s): what the data say of pairs (u, log s)."""
    xp = namespace(u, log_strength, counts)
    a, b, s = (xp.exp(log_strength - less)[..., None] for less in (softplus(-u), softplus(u), 0.0))
    rising = log_rising(a, counts.successes) + log_rising(b, counts.trials - counts.successes)
    return (rising - log_rising(s, counts.trials)).sum(-1)


def log_likelihood_slope(u: Array, log_strength: Array, counts: PopulationCounts) -> Float[np.ndarray, "2"]:
    """Its gradient by (u, log s), from ∂ log Γ(a + n)/Γ(a) = ψ(a + n) - ψ(a)."""
    mu, s = scipy.special.expit(u), np.exp(log_strength)
    pairs = ((mu * s, counts.successes), ((1 - mu) * s, counts.trials - counts.successes), (s, counts.trials))
    by_a, by_b, by_s = ((scipy.special.digamma(a + n) - scipy.special.digamma(a)).sum() for a, n in pairs)
    return np.asarray([s * mu * (1 - mu) * (by_a - by_b), s * (mu * by_a + (1 - mu) * by_b - by_s)])


def _log_density(points: Float[Array, "*g 2"], prior: HyperPrior, counts: PopulationCounts) -> Float[Array, "*g"]:
    """The log density at points (u, v), some at a time."""
    xp = namespace(points, prior, counts)

    def at(u: Array, v: Array) -> Array:
        return prior.log_density(u, v) + log_likelihood(u, v + xp.log(prior.c), counts)

    flat = xp.clip(points.reshape(-1, 2), -FAR, FAR)
    return over_nodes(xp, at, (flat[:, 0], flat[:, 1]), len(counts.trials)).reshape(points.shape[:-1])


class Chart(NamedTuple):
    """The coordinates of the rule: (u, v) = mode + scale·sinh(t), fine at the mode and far-reaching in the tails."""

    mode: Float[Array, "2"]
    scale: Float[Array, "2"]
    box: Float[Array, "2 2"]
    """Where the mass is: the lower and upper end of each t."""


def _locate(prior: HyperPrior, counts: PopulationCounts) -> tuple[Array, Array]:
    """The mode of the density, and how far from it in each coordinate the density falls by a factor e^-½.

    A search on a shrinking 3 × 3 pattern, from the pooled mean and the best strength beside it: it needs no
    derivatives, which take long to compile, and the rule does not need the mode to many digits.
    """
    xp, ones, trials = namespace(prior, counts), counts.successes.sum(), counts.trials.sum()
    u0 = xp.log(ones + prior.a) - xp.log(trials - ones + prior.b)
    starts = xp.stack([xp.full(81, u0), xp.linspace(-30.0, 30.0, 81)], axis=-1)
    start = starts[_log_density(starts, prior, counts).argmax()]
    pattern = xp.stack(xp.meshgrid(np.arange(-1.0, 2.0), np.arange(-1.0, 2.0), indexing="ij"), axis=-1).reshape(9, 2)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        point, size, steps = state
        best = _log_density(point + size * pattern, prior, counts).argmax()
        return point + size * pattern[best], xp.where(best == 4, size / 2, size * 1.5), steps + 1

    mode, _, _ = while_loop(lambda state: state[2] < SEARCH_STEPS, step, (start, xp.asarray(1.0), xp.asarray(0)))
    distance = xp.logspace(-6.0, 2.0, 129)
    axes = np.asarray([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 0.0]])
    values = _log_density(mode + axes[:, None] * distance[:, None], prior, counts)
    fallen = values[:4] < values[4, 0] - 0.5
    return mode, distance[(fallen[::2] | fallen[1::2]).argmax(1)]


def _grid(chart: Chart, k: int, prior: HyperPrior, counts: PopulationCounts) -> tuple[Array, Array, Array]:
    """k × k points over the box: the steps of t, the points (u, v), and the log density in t at them."""
    xp = namespace(chart)
    t = xp.linspace(chart.box[:, 0], chart.box[:, 1], k)
    steps = xp.stack(xp.meshgrid(t[:, 0], t[:, 1], indexing="ij"), axis=-1)
    points = chart.mode + chart.scale * xp.sinh(steps)
    log_stretch = xp.log(chart.scale * xp.cosh(steps)).sum(-1)
    return t, points, _log_density(points, prior, counts) + log_stretch


def _enclose(prior: HyperPrior, counts: PopulationCounts) -> Chart:
    """The chart whose box holds the density down to e^-DEPTH of its highest: shrunk from far too wide."""
    mode, scale = _locate(prior, counts)
    xp = namespace(mode)

    def shrink(state: tuple[Array, Array]) -> tuple[Array, Array]:
        box, steps = state
        t, _, values = _grid(Chart(mode, scale, box), BOX_GRID, prior, counts)
        high = values > values.max() - DEPTH
        inside = xp.stack([high.any(1), high.any(0)], axis=1)
        low, top = xp.where(inside, t, np.inf).min(0), xp.where(inside, t, -np.inf).max(0)
        return xp.stack([low - (t[1] - t[0]), top + (t[1] - t[0])], axis=1), steps + 1

    widest = xp.asarray([[-WIDEST, WIDEST], [-WIDEST, WIDEST]])
    return Chart(mode, scale, while_loop(lambda state: state[1] < BOX_STEPS, shrink, (widest, xp.asarray(0)))[0])


def _integrate(chart: Chart, k: int, prior: HyperPrior, counts: PopulationCounts) -> Integral:
    """The trapezoidal rule with 2k - 1 points a side, and the rule with every second of them as nodes."""
    t, points, values = _grid(chart, 2 * k - 1, prior, counts)
    xp, functions = namespace(values), special(values)
    log_cell = xp.log(t[1] - t[0]).sum()
    fine = functions.logsumexp(values) + log_cell
    coarse = values[::2, ::2]
    error = abs(functions.logsumexp(coarse) + np.log(4.0) + log_cell - fine)
    border = 1 - xp.exp(functions.logsumexp(values[1:-1, 1:-1]) + log_cell - fine)
    u, v = points[::2, ::2].reshape(-1, 2).T
    mean = xp.clip(functions.expit(u), 1e-300, 1 - 2.0**-53)  # a probability of 1 would leave no Beta
    nodes = Hyperparameters(mean, prior.c * xp.exp(v), functions.softmax(coarse.ravel()))
    return Integral(fine - log_beta(prior.a, prior.b), error, border, nodes)


def integrate(prior: HyperPrior, counts: PopulationCounts) -> Integral:
    """The integral with as many nodes as it needs, doubled until twice finer ones agree; while tracing, with a fixed
    number.

    The chart is a constant to the gradient: the integral does not depend on it.
    """
    chart, k = _enclose(*held((prior, counts))), NODES
    while True:
        result = _integrate(chart, k, prior, counts)
        if is_traced(result) or result.error < TOLERANCE or k >= MOST_NODES:
            return result
        k = 2 * k - 1
