"""Integrals over the hyperparameters of populations that share a Beta distribution.

The density is written in coordinates (u, v) on the whole plane, u = logit μ and v = log(s/c), where μ is the
mean and s the strength of the population distribution Beta(μs, (1 - μ)s). It is smooth and dies out at
least exponentially on all sides, so the trapezoidal rule over a box that holds its mass converges faster
than any power of the step: Trefethen & Weideman (2014), "The exponentially convergent trapezoidal rule".
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.padding import bucket, pad_rows
from credo.core.special import log_rising, softplus
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

    successes: Float[Array, " r"]
    trials: Float[Array, " r"]
    log_orders: Float[Array, ""]


class HyperPrior(eqx.Module):
    """μ ~ Beta(a, b) and p(s) = c/(c + s)², whose median is c: log(s/c) is logistic."""

    a: Float[Array, ""]
    b: Float[Array, ""]
    c: Float[Array, ""]

    @property
    def log_beta(self) -> Array:
        """log B(a, b)."""
        return special.gammaln(self.a) + special.gammaln(self.b) - special.gammaln(self.a + self.b)

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


def log_likelihood(u: Array, log_strength: Array, counts: PopulationCounts) -> Array:
    """Σₖ log B(μs + n₁ₖ, (1 - μ)s + n₀ₖ)/B(μs, (1 - μ)s): what the data say of one pair (u, log s)."""
    a = jnp.exp(log_strength - softplus(-u))
    b = jnp.exp(log_strength - softplus(u))
    return jnp.sum(
        log_rising(a, counts.successes)
        + log_rising(b, counts.trials - counts.successes)
        - log_rising(jnp.exp(log_strength), counts.trials)
    )


def _log_density(points: Array, prior: HyperPrior, counts: PopulationCounts) -> Array:
    """The log density at points (u, v) in rows, shape (i, j, 2), one row at a time."""

    def at(point: Array) -> Array:
        u, v = jnp.clip(point, -FAR, FAR)
        return prior.log_density(u, v) + log_likelihood(u, v + jnp.log(prior.c), counts)

    return jax.lax.map(jax.vmap(at), points)


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
    ones, trials = jnp.sum(counts.successes), jnp.sum(counts.trials)
    u0 = jnp.log(ones + prior.a) - jnp.log(trials - ones + prior.b)
    starts = jnp.stack([jnp.full((9, 9), u0), jnp.linspace(-30.0, 30.0, 81).reshape(9, 9)], axis=-1)
    start = starts.reshape(81, 2)[jnp.argmax(_log_density(starts, prior, counts))]
    ahead = jnp.asarray([-1.0, 0.0, 1.0])
    pattern = jnp.stack(jnp.meshgrid(ahead, ahead, indexing="ij"), axis=-1)

    def step(_: object, state: tuple[Array, Array]) -> tuple[Array, Array]:
        point, size = state
        best = jnp.argmax(_log_density(point + size * pattern, prior, counts))
        return point + size * pattern.reshape(9, 2)[best], jnp.where(best == 4, size / 2, size * 1.5)

    mode, _ = jax.lax.fori_loop(0, SEARCH_STEPS, step, (start, jnp.asarray(1.0)))
    distance = jnp.logspace(-6.0, 2.0, 129)
    axes = jnp.asarray([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 0.0]])
    values = _log_density(mode + axes[:, None] * distance[:, None], prior, counts)
    fallen = values[:4] < values[4, 0] - 0.5
    reach = distance[jnp.argmax(fallen[::2] | fallen[1::2], axis=1)]
    return mode, reach


def _grid(chart: Chart, k: int, prior: HyperPrior, counts: PopulationCounts) -> tuple[Array, Array, Array]:
    """k × k points over the box: the steps of t, the points (u, v), and the log density in t at them."""
    t = jnp.linspace(chart.box[:, 0], chart.box[:, 1], k)
    steps = jnp.stack(jnp.meshgrid(t[:, 0], t[:, 1], indexing="ij"), axis=-1)
    points = chart.mode + chart.scale * jnp.sinh(steps)
    log_stretch = jnp.sum(jnp.log(chart.scale * jnp.cosh(steps)), axis=-1)
    return t, points, _log_density(points, prior, counts) + log_stretch


def _enclose(prior: HyperPrior, counts: PopulationCounts) -> Chart:
    """The chart whose box holds the density down to e^-DEPTH of its highest: shrunk from far too wide."""
    mode, scale = _locate(prior, counts)

    def shrink(_: object, box: Array) -> Array:
        t, _points, values = _grid(Chart(mode, scale, box), BOX_GRID, prior, counts)
        high = values > values.max() - DEPTH
        step = t[1] - t[0]
        inside = jnp.stack([high.any(axis=1), high.any(axis=0)], axis=1)
        low = jnp.min(jnp.where(inside, t, jnp.inf), axis=0) - step
        return jnp.stack([low, jnp.max(jnp.where(inside, t, -jnp.inf), axis=0) + step], axis=1)

    widest = jnp.asarray([[-WIDEST, WIDEST], [-WIDEST, WIDEST]])
    return Chart(mode, scale, jax.lax.fori_loop(0, BOX_STEPS, shrink, widest))


def _integrate(chart: Chart, k: int, prior: HyperPrior, counts: PopulationCounts) -> Integral:
    """The trapezoidal rule with 2k - 1 points a side, and the rule with every second of them as nodes."""
    t, points, values = _grid(chart, 2 * k - 1, prior, counts)
    log_cell = jnp.sum(jnp.log(t[1] - t[0]))
    fine = special.logsumexp(values) + log_cell
    coarse = values[::2, ::2]
    error = jnp.abs(special.logsumexp(coarse) + jnp.log(4.0) + log_cell - fine)
    border = 1 - jnp.exp(special.logsumexp(values[1:-1, 1:-1]) + log_cell - fine)
    u, v = jnp.moveaxis(points[::2, ::2].reshape(-1, 2), 1, 0)
    mean = jnp.clip(jax.nn.sigmoid(u), 1e-300, 1 - 2.0**-53)  # a probability of 1 would leave no Beta
    nodes = Hyperparameters(mean, prior.c * jnp.exp(v), jax.nn.softmax(coarse.ravel()))
    return Integral(fine - prior.log_beta, error, border, nodes)


_enclose_compiled = eqx.filter_jit(_enclose)
_integrate_compiled = eqx.filter_jit(_integrate)


def integrate_traced(prior: HyperPrior, counts: PopulationCounts) -> Integral:
    """The integral with a fixed number of nodes, for use under jit, vmap and grad.

    The chart is a constant to the gradient: the integral does not depend on it.
    """
    chart = _enclose(*jax.lax.stop_gradient((prior, counts)))
    return _integrate(chart, NODES, prior, counts)


def integrate(prior: HyperPrior, counts: PopulationCounts) -> Integral:
    """The integral with as many nodes as it needs: doubled until twice finer ones agree.

    Populations are padded to a bucket with such that have no trials and so add nothing.
    """
    r = bucket(counts.trials.shape[0])
    successes, trials = (jnp.asarray(pad_rows(np.asarray(x), r)) for x in (counts.successes, counts.trials))
    counts = PopulationCounts(successes, trials, counts.log_orders)
    chart, k = _enclose_compiled(prior, counts), NODES
    while True:
        result = _integrate_compiled(chart, k, prior, counts)
        if np.asarray(result.error) < TOLERANCE or k >= MOST_NODES:
            return result
        k = 2 * k - 1
