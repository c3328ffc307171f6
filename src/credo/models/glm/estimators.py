"""Point estimates of a generalized linear model: maximum likelihood, ridge, lasso.

ML      û = argmax log p(y | u)
ridge   û = argmax log p(y, u)                     the center of Laplace's approximation
lasso   û = argmax log p(y, ψ, b | w) - ‖w‖₁/s     proximal Newton steps. Lee, Sun & Saunders (2014)

Where classes can be told apart without error the likelihood has no maximum: it rises forever along some direction,
which shows as a curvature that has vanished there. Albert & Anderson (1984).
"""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array
from credo.core.checks import ArrayLike
from credo.core.errors import NotConvergedWarning
from credo.models.glm.belief import GLM
from credo.models.glm.newton import (
    MAX_STEPS,
    GaussianPrior,
    NewtonResult,
    Rows,
    climb,
    height,
    row_terms,
    size_of,
    split,
    start,
)
from credo.models.glm.predictions import WeightLaw
from credo.models.linear.priors import LaplacePrior

VANISHED = 1e-6
"""The share of the curvature at the start below which a direction has no maximum."""
COLLINEAR = 1e-12
FAR = 12.0
"""So far from its start, on a log scale, a number of the likelihood has no maximum."""
SWEEPS = 200


def maximum_likelihood(belief: GLM, *data: ArrayLike, **options: ArrayLike) -> Any:
    """The most likely numbers as a point; says so where the likelihood has no maximum."""
    ready, rows, top = _most_likely(belief, data, options)
    direction = _flat_direction(ready, rows, top)
    if direction is not None:
        warnings.warn(direction, NotConvergedWarning, stacklevel=5)
    return ready.at(rows.likelihood, WeightLaw(jnp.asarray(top.u), None))


def maximum_log_likelihood(belief: GLM, *data: ArrayLike, **options: ArrayLike) -> tuple[float, int]:
    """The highest log likelihood, and how many numbers were fitted."""
    _, _, top = _most_likely(belief, data, options)
    return float(top.value), top.u.shape[0]


def _most_likely(
    belief: GLM, data: tuple[ArrayLike, ...], options: dict[str, ArrayLike]
) -> tuple[Any, Rows, NewtonResult]:
    ready = belief.told(*data)._with(law=None, found=None)
    rows = ready.statistics(*data, **options)
    k = size_of(rows.likelihood) + rows.design.shape[1] * rows.width
    return ready, rows, climb(GaussianPrior.nothing(k), rows, belief.intercept is not None)


def _flat_direction(belief: GLM, rows: Rows, top: NewtonResult) -> str | None:
    """What to say where the likelihood has no single maximum; None where it has one."""
    s, c = size_of(rows.likelihood), rows.width
    first = start(rows, belief.intercept is not None, jnp.zeros(top.u.shape))
    gram, typical = (np.asarray(v) for v in _information(rows, first))
    names = _names(belief, rows)
    scale = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    values, vectors = np.linalg.eigh(gram / np.outer(scale, scale))
    if values[0] < COLLINEAR * values[-1]:
        which = _leading(np.repeat(vectors[:, 0], c), names[s:])
        return (
            f"the likelihood has no single maximum: the features are collinear or outnumber the rows (mostly {which}); "
            "drop some, or condition with a prior"
        )
    # The curvature in every direction, in units of what the rows tell about it at the start.
    root = np.kron(vectors / np.sqrt(values) / scale[:, None], np.eye(c))
    values, vectors = np.linalg.eigh(root.T @ np.asarray(top.precision)[s:, s:] @ root / typical)
    if values[0] < VANISHED:
        direction = (root @ vectors[:, 0]) * np.repeat(scale, c)
        direction *= np.sign(direction @ (np.asarray(top.u - first)[s:] * np.repeat(scale, c)))
        return (
            f"the likelihood has no maximum: it rises as {_leading(direction, names[s:], signed=True)} go to infinity "
            "(some outcomes are predicted without error); condition with a prior, or use MAP"
        )
    far = np.flatnonzero(np.abs(np.asarray(top.u - first))[:s] > FAR)
    if len(far):
        return f"the likelihood has no maximum: {names[far[0]]} went to its bound; condition with a prior, or use MAP"
    if not bool(top.converged):
        return f"the maximum was not reached in {int(top.steps)} steps; standardize the features, or use a prior"
    return None


@eqx.filter_jit
def _information(rows: Rows, u: Float[Array, " k"]) -> tuple[Float[Array, "q q"], Float[Array, ""]]:
    """Σ wᵢ φ̃ᵢφ̃ᵢᵀ, and the mean curvature of a row at u."""
    gram = (rows.design * rows.weights[:, None]).T @ rows.design
    psi, weights = split(rows, u)
    eta = rows.design @ weights + rows.offset[:, None]
    _, _, curvature = row_terms(rows.likelihood, psi, eta, rows.y, rows.weights)
    s = psi.shape[0]
    return gram, jnp.mean(jnp.diagonal(jnp.abs(jnp.sum(curvature[:, s:, s:], axis=0)))) / jnp.sum(rows.weights)


def _names(belief: GLM, rows: Rows) -> list[str]:
    own = params.coordinate_names(params.layout(rows.likelihood))
    weights = (["intercept"] if belief.intercept is not None else []) + belief.features.names(belief.inputs or ())
    if rows.likelihood.vector:
        weights = [f"{name}[{label}]" for name in weights for label in (belief.classes or ())[:-1]]
    return own + weights


def _leading(direction: np.ndarray, names: list[str], signed: bool = False) -> str:
    largest = np.max(np.abs(direction))
    chosen = [i for i in np.argsort(-np.abs(direction))[:3] if abs(direction[i]) > 0.3 * largest]
    return ", ".join((("+" if direction[i] > 0 else "-") if signed else "") + names[i] for i in chosen)


def posterior_mode(belief: GLM, *data: ArrayLike, **options: ArrayLike) -> Any:
    """The mode of u as a point; under a Laplace prior weights that do not matter are exactly zero."""
    ready = belief.told(*data)
    rows = ready.statistics(*data, **options)
    intercept = belief.intercept is not None
    if not isinstance(belief.prior, LaplacePrior) or belief.law is not None:
        top = climb(ready.before(rows), rows, intercept)
        return ready.at(rows.likelihood, WeightLaw(jnp.asarray(top.u), None))
    q, c, s = rows.design.shape[1], rows.width, size_of(rows.likelihood)
    price = np.zeros(s + q * c)
    price[s + intercept * c :] = 1 / float(belief.prior.scale)
    u, done = _lasso(ready._without(q, rows.likelihood), rows, jnp.asarray(price), intercept)
    if not bool(done):
        warnings.warn(
            "the lasso did not reach its tolerance; standardize the features", NotConvergedWarning, stacklevel=4
        )
    return ready.at(rows.likelihood, WeightLaw(u, None))


@eqx.filter_jit
def _lasso(before: GaussianPrior, rows: Rows, price: Float[Array, " k"], intercept: bool) -> tuple[Array, Array]:
    """Proximal Newton steps, halved until they gain; coordinate descent solves each quadratic model."""
    State = tuple[Array, Array, Array]

    def objective(u: Array) -> Array:
        return height(before, rows, u)[0] - price @ jnp.abs(u)

    def step(state: State) -> State:
        u, _, count = state
        _, slope, curvature = height(before, rows, u)
        ridge = 1e-10 * jnp.max(jnp.abs(jnp.diagonal(curvature)))
        aim = _coordinates(u, slope, curvature + ridge * jnp.eye(u.shape[0]), price)
        lengths = 0.5 ** jnp.arange(12.0)
        values = jax.lax.map(lambda t: objective(u + t * (aim - u)), lengths)
        best = jnp.argmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))
        gains = values[best] > objective(u)
        new = jnp.where(gains, jnp.where(best == 0, aim, u + lengths[best] * (aim - u)), u)
        return new, jnp.max(jnp.abs(new - u)) / (1e-12 + jnp.max(jnp.abs(new))), count + 1

    def unfinished(state: State) -> Array:
        _, change, count = state
        return (change > 1e-10) & (count < MAX_STEPS)

    u = start(rows, intercept, before.mean)
    u, change, _ = jax.lax.while_loop(unfinished, step, (u, jnp.asarray(jnp.inf), jnp.asarray(0)))
    return u, change <= 1e-10


def _coordinates(u: Array, slope: Array, curvature: Array, price: Array) -> Array:
    """argmax of slopeᵀ(v - u) - ½(v - u)ᵀH(v - u) - priceᵀ|v|, one coordinate at a time."""

    def visit(j: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        v, pull, moved = state
        h = curvature[j, j]
        target = h * v[j] + pull[j]
        new = jnp.sign(target) * jnp.maximum(jnp.abs(target) - price[j], 0.0) / h
        change = new - v[j]
        return v.at[j].add(change), pull - change * curvature[j], jnp.maximum(moved, jnp.abs(change) * jnp.sqrt(h))

    def sweep(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        v, pull, _, count = state
        v, pull, moved = jax.lax.fori_loop(0, u.shape[0], visit, (v, pull, jnp.zeros(())))
        return v, pull, moved, count + 1

    def unfinished(state: tuple[Array, Array, Array, Array]) -> Array:
        return (state[2] > 1e-12) & (state[3] < SWEEPS)

    first = (u, slope, jnp.asarray(jnp.inf), jnp.asarray(0))
    return jax.lax.while_loop(unfinished, sweep, first)[0]
