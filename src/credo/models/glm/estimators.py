"""Point estimates of a generalized linear model: maximum likelihood, ridge, lasso.

ML      û = argmax log p(y | u)
ridge   û = argmax log p(y, u)                     the center of Laplace's approximation
lasso   û = argmax log p(y, ψ, b | w) - ‖w‖₁/s     proximal Newton steps. Lee, Sun & Saunders (2014)

Where classes can be told apart without error the likelihood has no maximum: it rises forever along some direction,
which shows as a curvature that has vanished there. Albert & Anderson (1984).
"""

import warnings

import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array
from credo.core.checks import ArrayLike
from credo.core.errors import NotConvergedWarning
from credo.core.pytrees import changed
from credo.models.glm.belief import GLM
from credo.models.glm.newton import MAX_STEPS, GaussianPrior, NewtonResult, Rows, climb, gram, height, start
from credo.models.glm.predictions import WeightLaw
from credo.models.linear.priors import LaplacePrior

VANISHED = 1e-6
"""The share of the curvature at the start below which a direction has no maximum."""
COLLINEAR = 1e-12
FAR = 12.0
"""So far from its start, on a log scale, a number of the likelihood has no maximum."""
SWEEPS = 200


def maximum_likelihood(belief: GLM, *data: ArrayLike, **options: ArrayLike) -> GLM:
    """The most likely numbers as a point; says so where the likelihood has no maximum."""
    ready, rows, top = _most_likely(belief, data, options)
    direction = _flat_direction(ready, rows, top)
    if direction is not None:
        warnings.warn(direction, NotConvergedWarning, stacklevel=5)
    return ready.at(rows.likelihood, WeightLaw(top.u, None))


def maximum_log_likelihood(belief: GLM, *data: ArrayLike, **options: ArrayLike) -> tuple[float, int]:
    """The highest log likelihood, and how many numbers were fitted."""
    _, _, top = _most_likely(belief, data, options)
    return float(top.value), top.u.shape[0]


def _most_likely(
    belief: GLM, data: tuple[ArrayLike, ...], options: dict[str, ArrayLike]
) -> tuple[GLM, Rows, NewtonResult]:
    ready = changed(belief.told(*data), law=None, found=None)
    rows = ready.statistics(*data, **options)
    k = rows.likelihood.size + rows.design.shape[1] * rows.width
    return ready, rows, climb(GaussianPrior.nothing(k), rows, belief.intercept is not None)


def _flat_direction(belief: GLM, rows: Rows, top: NewtonResult) -> str | None:
    """What to say where the likelihood has no single maximum; None where it has one."""
    s, c = rows.likelihood.size, rows.width
    first = start(rows, belief.intercept is not None, np.zeros(top.u.shape))
    information, names = gram(rows.design, rows.weights), _names(belief, rows)
    curvature = rows.likelihood.terms(rows.z(first), rows.y)[2][:, s:, s:]
    typical = np.mean(np.abs(np.einsum("n,naa->a", rows.weights, curvature))) / rows.weights.sum()
    scale = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    if values[0] < COLLINEAR * values[-1]:
        which = _leading(np.repeat(vectors[:, 0], c), names[s:])
        return (
            f"the likelihood has no single maximum: the features are collinear or outnumber the rows (mostly {which}); "
            "drop some, or condition with a prior"
        )
    # The curvature in every direction, in units of what the rows tell about it at the start.
    root = np.kron(vectors / np.sqrt(values) / scale[:, None], np.eye(c))
    values, vectors = np.linalg.eigh(root.T @ top.precision[s:, s:] @ root / typical)
    if values[0] < VANISHED:
        direction = (root @ vectors[:, 0]) * np.repeat(scale, c)
        direction *= np.sign(direction @ ((top.u - first)[s:] * np.repeat(scale, c)))
        return (
            f"the likelihood has no maximum: it rises as {_leading(direction, names[s:], signed=True)} go to infinity "
            "(some outcomes are predicted without error); condition with a prior, or use MAP"
        )
    far = np.flatnonzero(np.abs(top.u - first)[:s] > FAR)
    if len(far):
        return f"the likelihood has no maximum: {names[far[0]]} went to its bound; condition with a prior, or use MAP"
    if not bool(top.converged):
        return f"the maximum was not reached in {int(top.steps)} steps; standardize the features, or use a prior"
    return None


def _names(belief: GLM, rows: Rows) -> list[str]:
    own = params.coordinate_names(params.layout(rows.likelihood))
    weights = (["intercept"] if belief.intercept is not None else []) + belief.features.names(belief.inputs or ())
    if rows.likelihood.vector:
        weights = [f"{name}[{label}]" for name in weights for label in (belief.classes or ())[:-1]]
    return own + weights


def _leading(direction: Array, names: list[str], signed: bool = False) -> str:
    largest = np.max(np.abs(direction))
    chosen = [i for i in np.argsort(-np.abs(direction))[:3] if abs(direction[i]) > 0.3 * largest]
    return ", ".join((("+" if direction[i] > 0 else "-") if signed else "") + names[i] for i in chosen)


def posterior_mode(belief: GLM, *data: ArrayLike, **options: ArrayLike) -> GLM:
    """The mode of u as a point; under a Laplace prior weights that do not matter are exactly zero."""
    ready = belief.told(*data)
    rows = ready.statistics(*data, **options)
    intercept = belief.intercept is not None
    if not isinstance(belief.prior, LaplacePrior) or belief.law is not None:
        top = climb(ready.before(rows), rows, intercept)
        return ready.at(rows.likelihood, WeightLaw(top.u, None))
    q, c, s = rows.design.shape[1], rows.width, rows.likelihood.size
    price = np.zeros(s + q * c)
    price[s + intercept * c :] = 1 / float(belief.prior.scale)
    u, done = _lasso(ready.without(q, rows.likelihood), rows, price, start(rows, intercept, np.zeros(len(price))))
    if not done:
        warnings.warn(
            "the lasso did not reach its tolerance; standardize the features", NotConvergedWarning, stacklevel=4
        )
    return ready.at(rows.likelihood, WeightLaw(u, None))


def _lasso(before: GaussianPrior, rows: Rows, price: Float[Array, " k"], u: Array) -> tuple[Array, bool]:
    """Proximal Newton steps, halved until they gain; coordinate descent solves each quadratic model."""

    def objective(u: Array) -> float:
        value = float(height(before, rows, u)[0] - price @ np.abs(u))
        return value if np.isfinite(value) else -np.inf

    for _ in range(MAX_STEPS):
        value, slope, curvature = height(before, rows, u)
        ridge = 1e-10 * np.max(np.abs(np.diagonal(curvature)))
        aim = _coordinates(u, slope, curvature + ridge * np.eye(len(u)), price)
        # The whole step by itself: where a weight became zero it is to be exactly that.
        steps = [aim, *(u + 0.5**i * (aim - u) for i in range(1, 12))]
        new = next((step for step in steps if objective(step) > value - price @ np.abs(u)), u)
        change, u = np.max(np.abs(new - u)) / (1e-12 + np.max(np.abs(new))), new
        if change <= 1e-10:
            return u, True
    return u, False


def _coordinates(u: Array, slope: Array, curvature: Array, price: Array) -> Array:
    """argmax of slopeᵀ(v - u) - ½(v - u)ᵀH(v - u) - priceᵀ|v|, one coordinate at a time."""
    v, pull, h = u.copy(), slope.copy(), np.diagonal(curvature)
    for _ in range(SWEEPS):
        moved = 0.0
        for j in range(len(v)):
            target = h[j] * v[j] + pull[j]
            change = np.sign(target) * max(abs(target) - price[j], 0.0) / h[j] - v[j]
            if change:
                v[j] += change
                pull -= change * curvature[j]
                moved = max(moved, abs(change) * np.sqrt(h[j]))
        if moved <= 1e-12:
            break
    return v
