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
from jaxtyping import Array, Float

from credo.models.conjugate.base import Statistics, log_rising

DEPTH = 32.0
"""The box holds every point whose density is more than e^-32 of the highest."""
BOX_GRID, BOX_STEPS = 17, 20
NEWTON_STEPS = 60
NODES = 17
MOST_NODES = 129
TRACED_NODES = 33
TOLERANCE = 1e-9


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

    def log_density(self, u: Array, v: Array) -> Array:
        """log p(u, v), with the Jacobians of u = logit μ and v = log(s/c)."""
        log_mean, log_rest = -jax.nn.softplus(-u), -jax.nn.softplus(u)
        log_beta = self.a * log_mean + self.b * log_rest - special.betaln(self.a, self.b)
        return log_beta + v - 2 * jax.nn.softplus(v)


class Hyperparameters(eqx.Module):
    """Weighted values of the mean μ and the strength s of the population distribution."""

    mean: Float[Array, " g"]
    strength: Float[Array, " g"]
    weights: Float[Array, " g"]


class Integral(NamedTuple):
    """log ∫ p(data | u, v) p(u, v), the error of the nodes against twice finer ones, and the nodes."""

    log_evidence: Array
    error: Array
    outside: Array
    nodes: Hyperparameters


def log_likelihood(u: Array, log_strength: Array, counts: PopulationCounts) -> Array:
    """Σₖ log B(μs + n₁ₖ, (1 - μ)s + n₀ₖ)/B(μs, (1 - μ)s): what the data say of one pair (u, log s)."""
    a = jnp.exp(log_strength - jax.nn.softplus(-u))
    b = jnp.exp(log_strength - jax.nn.softplus(u))
    return jnp.sum(
        log_rising(a, counts.successes)
        + log_rising(b, counts.trials - counts.successes)
        - log_rising(jnp.exp(log_strength), counts.trials)
    )


def _log_density(point: Array, prior: HyperPrior, counts: PopulationCounts) -> Array:
    u, v = point
    return prior.log_density(u, v) + log_likelihood(u, v + jnp.log(prior.c), counts)


def _locate(prior: HyperPrior, counts: PopulationCounts) -> tuple[Array, Array]:
    """The mode of the density and its scale in each coordinate.

    Newton's method, damped until it ascends, from the pooled mean and the best strength beside it.
    """
    ones, trials = jnp.sum(counts.successes), jnp.sum(counts.trials)
    u0 = jnp.log(ones + prior.a) - jnp.log(trials - ones + prior.b)
    starts = jnp.stack([jnp.full(81, u0), jnp.linspace(-30.0, 30.0, 81)], axis=1)

    def density(point: Array) -> Array:
        return _log_density(point, prior, counts)

    def hessian(point: Array) -> Array:
        return jax.jacfwd(jax.grad(density))(point)

    def step(_: int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        point, damping = state
        values, vectors = jnp.linalg.eigh(-hessian(point))
        slope = vectors.T @ jax.grad(density)(point)
        move = vectors @ (slope / (jnp.abs(values) + damping))
        proposal = point + jnp.clip(move, -4.0, 4.0)
        better = density(proposal) >= density(point)
        return (
            jnp.where(better, proposal, point),
            jnp.where(better, damping / 10, jnp.minimum(damping * 30, 1e12)),
        )

    start = starts[jnp.argmax(jax.lax.map(density, starts))]
    mode, _ = jax.lax.fori_loop(0, NEWTON_STEPS, step, (start, jnp.asarray(1e-3)))
    curvature = jnp.maximum(jnp.abs(jnp.diagonal(hessian(mode))), 1e-6)
    return mode, 1 / jnp.sqrt(curvature)


def _grid(box: Array, k: int, prior: HyperPrior, counts: PopulationCounts) -> tuple[Array, Array, Array]:
    """The axes of a k × k grid over the box ((u_low, u_high), (v_low, v_high)) and the log density on it."""
    u, v = (jnp.linspace(low, high, k) for low, high in box)
    points = jnp.stack(jnp.meshgrid(u, v, indexing="ij"), axis=-1).reshape(-1, 2)
    values = jax.lax.map(lambda point: _log_density(point, prior, counts), points, batch_size=64)
    return u, v, values.reshape(k, k)


def _enclose(prior: HyperPrior, counts: PopulationCounts) -> Array:
    """The box that holds the density down to e^-DEPTH of its mode.

    A side that is still too high is moved out to twice its distance; one that is low enough is moved in to
    the last point of the grid that matters, plus one step.
    """
    mode, scale = _locate(prior, counts)
    top = _log_density(mode, prior, counts)

    def adjust(_: int, box: Array) -> Array:
        u, v, values = _grid(box, BOX_GRID, prior, counts)
        high = values > jnp.maximum(top, values.max()) - DEPTH
        return jnp.stack([_side(u, high.any(axis=1), mode[0]), _side(v, high.any(axis=0), mode[1])])

    start = jnp.stack([mode - 8 * scale, mode + 8 * scale], axis=1)
    return jax.lax.fori_loop(0, BOX_STEPS, adjust, start)


def _side(axis: Array, high: Array, center: Array) -> Array:
    step = axis[1] - axis[0]
    first = jnp.min(jnp.where(high, axis, center)) - step
    last = jnp.max(jnp.where(high, axis, center)) + step
    low = jnp.where(high[0], center - 2 * (center - axis[0]), first)
    return jnp.stack([low, jnp.where(high[-1], center + 2 * (axis[-1] - center), last)])


def _integrate(box: Array, k: int, prior: HyperPrior, counts: PopulationCounts) -> Integral:
    """The trapezoidal rule with 2k - 1 points a side, and the rule with every second of them as nodes."""
    u, v, values = _grid(box, 2 * k - 1, prior, counts)
    cell = (u[1] - u[0]) * (v[1] - v[0])
    fine = special.logsumexp(values) + jnp.log(cell)
    coarse = values[::2, ::2]
    error = jnp.abs(special.logsumexp(coarse) + jnp.log(4 * cell) - fine)
    inner = special.logsumexp(values[1:-1, 1:-1]) + jnp.log(cell)
    mean, log_strength = jnp.meshgrid(jax.nn.sigmoid(u[::2]), v[::2] + jnp.log(prior.c), indexing="ij")
    nodes = Hyperparameters(mean.ravel(), jnp.exp(log_strength).ravel(), jax.nn.softmax(coarse.ravel()))
    return Integral(fine, error, -jnp.expm1(inner - fine), nodes)


_enclose_compiled = eqx.filter_jit(_enclose)
_integrate_compiled = eqx.filter_jit(_integrate)


def integrate_traced(prior: HyperPrior, counts: PopulationCounts) -> Integral:
    """The integral with a fixed number of nodes, for use under jit, vmap and grad.

    The box is a constant to the gradient: the integral does not depend on it.
    """
    box = _enclose(*jax.lax.stop_gradient((prior, counts)))
    return _integrate(box, TRACED_NODES, prior, counts)


def integrate(prior: HyperPrior, counts: PopulationCounts) -> Integral:
    """The integral with as many nodes as it needs: doubled until twice finer ones agree."""
    box, k = _enclose_compiled(prior, counts), NODES
    while True:
        result = _integrate_compiled(box, k, prior, counts)
        if np.asarray(result.error) < TOLERANCE or k >= MOST_NODES:
            return result
        k = 2 * k - 1
