"""Newton's method for generalized linear models.

The unknowns are u = (ψ, vec W): the likelihood's own numbers, unconstrained, and the weights, η = Φ̃W + offset. With
zᵢ = (ψ, ηᵢ) and each row's gradient gᵢ and curvature hᵢ in z, the data contribute

    Σᵢ wᵢ Aᵢᵀgᵢ,    Σᵢ wᵢ AᵢᵀhᵢAᵢ,    Aᵢ = ∂zᵢ/∂u

so that a step costs one weighted Φ̃ᵀDΦ̃. Steps are damped (Levenberg-Marquardt) until they gain: monotone, whatever the
curvature. For canonical links this is iteratively reweighted least squares. What is concrete is computed in NumPy, a
block of rows at a time, large tables from the mode of an eighth of their rows; what is traced, in JAX.
"""

import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, is_traced, put
from credo.core.device import blas_threads
from credo.core.linalg import factorize, lapack, solve, solve_lower
from credo.core.padding import bucket, pad_rows
from credo.models.likelihoods import ClosedForm, Likelihood
from credo.models.likelihoods.base import Numbers

MAX_STEPS = 100
TOLERANCE = 1e-6
"""The mode is reached with a step shorter than this many posterior standard deviations."""
SHORT = 1e-8
"""After a step so short the curvature is not computed again; the next would be about its square."""
SHORT_LARGE = 1e-3
"""`SHORT` for large tables."""
ROUGH = 0.3
"""`SHORT` for some of the rows, from whose mode the others start."""
SLACK = 1e-12
"""A step may lose this share of the height: rounding."""
LARGE = 2**20
"""Entries of a table that is large."""
BLOCK = 2**11
"""Rows that fit the cache together."""
PILOT, ENOUGH = 2**10, 32
"""Some of the rows are an eighth of them, but at least so many, and so many for each unknown."""

Terms = tuple[Numbers, Numbers, Numbers]
"""A log density, its gradient, and its curvature, the negative Hessian."""


class Rows(NamedTuple):  # not of Equinox, which makes an object of each method looked up: a climb looks up thousands
    """What a generalized linear model keeps of its data; padding has weight zero."""

    design: Float[Numbers, "n q"]
    y: Float[Numbers, " n"]
    weights: Float[Numbers, " n"]
    offset: Float[Numbers, " n"]
    likelihood: Likelihood

    def __add__(self, other: "Rows") -> "Rows":  # type: ignore[override]
        return self._each(lambda a, b: jnp.concatenate([a, b]), other)

    def _each(self, change: Callable[..., Numbers], *others: "Rows") -> "Rows":
        design, y, weights, offset = map(change, *(rows[:4] for rows in (self, *others)))
        return Rows(design, y, weights, offset, self.likelihood)

    @property
    def width(self) -> int:
        """c, the number of linear predictors."""
        return self.likelihood.width

    @property
    def is_large(self) -> bool:
        """Whether a look at all the rows takes long."""
        return self.design.size >= LARGE

    def on_host(self) -> "Rows":
        """The same rows in NumPy."""
        return self._each(np.asarray)

    def some(self, n: int) -> "Rows":
        """n of the rows, at random."""
        return self.cut(np.sort(np.random.default_rng(0).choice(len(self.y), n, replace=False)))

    def cut(self, chosen: slice | np.ndarray) -> "Rows":
        """Some of the rows."""
        return self._each(operator.itemgetter(chosen))

    def blocks(self) -> Iterator["Rows"]:
        """The rows a block at a time; all together where they are JAX's."""
        if not isinstance(self.design, np.ndarray) or len(self.y) <= BLOCK:
            yield self
            return
        for i in range(0, len(self.y), BLOCK):
            yield self.cut(slice(i, i + BLOCK))

    def eta(self, weights: Numbers) -> Numbers:
        """Φ̃W + offset."""
        return self.design @ weights + self.offset[:, None]


class GaussianPrior(eqx.Module):
    """What is believed of u before the rows: N(mean, precision⁻¹); ψ has the likelihood's own prior while `fresh`."""

    mean: Float[Numbers, " k"]
    precision: Float[Numbers, "k k"]
    log_scale: Float[Numbers, ""]
    """The log of the normal density at its mean."""
    fresh: bool = eqx.field(static=True, default=True)

    @classmethod
    def nothing(cls, k: int) -> "GaussianPrior":
        """No prior: maximum likelihood."""
        return cls(jnp.zeros(k), jnp.zeros((k, k)), jnp.zeros(()), False)

    def log_prob(self, likelihood: Likelihood, u: Float[Array, " k"]) -> Float[Array, ""]:
        """log p(u)."""
        gap = u - self.mean
        own = _own(likelihood, u[: size_of(likelihood)]) if self.fresh else 0.0
        return self.log_scale - 0.5 * gap @ self.precision @ gap + own

    def on_host(self) -> "GaussianPrior":
        """The same in NumPy."""
        mean, precision, log_scale = (np.asarray(v) for v in (self.mean, self.precision, self.log_scale))
        return GaussianPrior(mean, precision, log_scale, self.fresh)


def prior_terms(prior: GaussianPrior, likelihood: Likelihood, u: Float[Numbers, " k"]) -> Terms:
    """log p(u), its gradient, and its curvature."""
    pull = prior.precision @ (u - prior.mean)
    value, gradient, curvature = prior.log_scale - 0.5 * (u - prior.mean) @ pull, -pull, prior.precision
    s = size_of(likelihood)
    if not (s and prior.fresh):
        return value, gradient, curvature
    if not isinstance(u, np.ndarray):
        own, slope, bend = _own_terms(likelihood, u[:s])
        return value + own, gradient.at[:s].add(slope), curvature.at[:s, :s].add(bend)
    own, slope, bend = (np.asarray(v) for v in _own_terms_compiled(likelihood, put(u[:s])))
    k = len(u) - s
    return value + own, gradient + np.pad(slope, (0, k)), curvature + np.pad(bend, (0, k))


def _own(likelihood: Likelihood, psi: Float[Array, " s"]) -> Float[Array, ""]:
    """log p(ψ), under the likelihood's own prior."""
    slots = params.layout(likelihood)
    if not slots:
        return jnp.zeros(())
    return params.from_vector(likelihood, slots, psi).log_prior() + params.log_jacobian(slots, psi)


def _own_terms(likelihood: Likelihood, psi: Float[Array, " s"]) -> Terms:
    of = partial(_own, likelihood)
    return of(psi), jax.grad(of)(psi), -jax.hessian(of)(psi)


_own_terms_compiled = eqx.filter_jit(_own_terms)


def size_of(likelihood: Likelihood) -> int:
    """s, how many unconstrained numbers the likelihood has of its own."""
    slots = () if isinstance(likelihood, ClosedForm) else params.layout(likelihood)
    return slots[-1].stop if slots else 0


def split(rows: Rows, u: Float[Numbers, " k"]) -> tuple[Numbers, Numbers]:
    """ψ and W."""
    s = size_of(rows.likelihood)
    return u[:s], u[s:].reshape(rows.design.shape[1], rows.width)


@eqx.filter_jit
def start(rows: Rows, intercept: bool, mean: Float[Array, " k"]) -> Float[Array, " k"]:
    """Where a climb begins: the prior mean, but for ψ and the constant term, which the outcomes suggest."""
    likelihood, constant = rows.likelihood.started(rows.y, rows.weights)
    slots = params.layout(likelihood)
    s = size_of(likelihood)
    u = mean if not slots else mean.at[:s].set(_unconstrained(likelihood, slots))
    if intercept and not likelihood.vector:
        exposure = jnp.sum(rows.weights * jnp.exp(rows.offset)) / jnp.sum(rows.weights)
        u = u.at[s].set(constant - jnp.log(exposure))
    return u


def _unconstrained(likelihood: Likelihood, slots: params.Layout) -> Array:
    values = params.learnable(likelihood)
    return jnp.concatenate([jnp.ravel(params.bijector(s.constraint).inverse(values[s.path])) for s in slots])


# -- the height, its gradient and its curvature ------------------------------------------------------------------


def log_prob_of_row(likelihood: Likelihood, z: Float[Array, " a"], y: Float[Array, ""]) -> Float[Array, ""]:
    """log p(y | z) for one row's z = (ψ, η)."""
    slots = params.layout(likelihood)
    s = size_of(likelihood)
    own = params.from_vector(likelihood, slots, z[:s]) if slots else likelihood
    return own.log_prob(z[s:] if own.vector else z[s], y)


def row_terms(
    likelihood: Likelihood,
    psi: Float[Numbers, " s"],
    eta: Float[Numbers, "n c"],
    y: Float[Numbers, " n"],
    w: Float[Numbers, " n"],
) -> Terms:
    """The log likelihood, and each row's weighted gradient and curvature in z."""
    if isinstance(likelihood, ClosedForm):
        value, gradient, curvature = likelihood.terms(eta[:, 0], y)
        return w @ value, (w * gradient)[:, None], (w * curvature)[:, None, None]
    if not isinstance(eta, np.ndarray):
        return _differentiated(likelihood, psi, eta, y, w)
    n = len(y)
    padded = (put(pad_rows(v, bucket(n))) for v in (eta, y, w))
    value, gradient, curvature = (np.asarray(v) for v in _differentiated_compiled(likelihood, put(psi), *padded))
    return value, gradient[:n], curvature[:n]


def _differentiated(likelihood: Likelihood, psi: Array, eta: Array, y: Array, w: Array) -> Terms:
    z = jnp.concatenate([jnp.broadcast_to(psi, (eta.shape[0], psi.shape[0])), eta], axis=1)

    def row(z: Array, y: Array, w: Array) -> Terms:
        def height(v: Array) -> Array:
            return w * log_prob_of_row(likelihood, v, y)

        return height(z), jax.grad(height)(z), -jax.hessian(height)(z)

    value, gradient, curvature = jax.vmap(row)(z, y, w)
    return jnp.sum(value), gradient, curvature


_differentiated_compiled = eqx.filter_jit(_differentiated)


def gram(design: Numbers, h: Numbers) -> Numbers:
    """Φ̃ᵀ diag(h) Φ̃; in NumPy as a symmetric product where h allows it, which is half the work."""
    if not isinstance(design, np.ndarray) or h.min() < 0:
        return design.T @ (design * h[:, None])
    half = design * np.sqrt(h)[:, None]
    return half.T @ half


def assemble(design: Numbers, gradient: Numbers, curvature: Numbers, s: int) -> tuple[Numbers, Numbers]:
    """Σ Aᵢᵀgᵢ and Σ AᵢᵀhᵢAᵢ, in NumPy where the design is."""
    xp = np if isinstance(design, np.ndarray) else jnp
    q, c = design.shape[1], gradient.shape[1] - s
    slope = xp.concatenate([gradient[:, :s].sum(0), (design.T @ gradient[:, s:]).reshape(-1)])
    blocks = {(a, b): gram(design, curvature[:, s + a, s + b]) for a in range(c) for b in range(a, c)}
    grid = [[blocks[min(a, b), max(a, b)] for b in range(c)] for a in range(c)]
    full = xp.stack([xp.stack(line) for line in grid]).transpose(2, 0, 3, 1).reshape(q * c, q * c)
    if not s:
        return slope, full
    cross = xp.stack([(design.T @ curvature[:, j, s:]).reshape(-1) for j in range(s)])
    return slope, xp.block([[curvature[:, :s, :s].sum(0), cross], [cross.T, full]])


def height(prior: GaussianPrior, rows: Rows, u: Float[Numbers, " k"]) -> Terms:
    """log p(y, u), its gradient and its curvature; in NumPy where the rows are."""
    psi, weights = split(rows, u)
    value, slope, full = prior_terms(prior, rows.likelihood, u)
    for block in rows.blocks():
        part, gradient, curvature = row_terms(block.likelihood, psi, block.eta(weights), block.y, block.weights)
        more_slope, more = assemble(block.design, gradient, curvature, psi.shape[0])
        value, slope, full = value + part, slope + more_slope, full + more
    return value, slope, full


# -- the climb ---------------------------------------------------------------------------------------------------


class NewtonResult(NamedTuple):
    """Where Newton's method is: u, log p(y, u), gradient and curvature there, and its last step in deviations."""

    u: Numbers
    value: Numbers
    gradient: Numbers
    precision: Numbers
    damping: Numbers
    stride: Numbers
    done: Numbers
    steps: Numbers

    @property
    def converged(self) -> Numbers:
        """Whether the last step was short."""
        return self.stride < TOLERANCE


def ascend(height: Callable[[Numbers], Terms], u: Float[Numbers, " k"], short: float) -> NewtonResult:
    """From u to the top, until a step is `short`: a loop in NumPy, `lax.while_loop` where `height` is JAX's."""
    first = height(u)
    xp = np if isinstance(first[1], np.ndarray) else jnp

    def step(at: NewtonResult) -> NewtonResult:
        change, length, ok = propose(at.gradient, at.precision, at.damping)
        undamped = ok & (at.damping == 0.0)
        if xp is np and undamped and length < short:
            value = at.value + 0.5 * length**2
            return at._replace(u=at.u + change, value=value, stride=length**2, done=True, steps=at.steps + 1)
        there = height(at.u + change)
        good = ok & xp.isfinite(there[0]) & (there[0] >= at.value - SLACK * abs(at.value))
        value, gradient, precision = (xp.where(good, new, old) for new, old in zip(there, at[1:4], strict=True))
        calmer = xp.where(at.damping > 1e-3, at.damping / 10, 0.0)
        return NewtonResult(
            xp.where(good, at.u + change, at.u),
            value,
            gradient,
            precision,
            damping=xp.where(good, calmer, xp.maximum(10 * at.damping, 1e-2)),
            stride=xp.where(good & undamped, length, at.stride),
            done=good & undamped & (length < short),
            steps=at.steps + 1,
        )

    def unfinished(at: NewtonResult) -> Array:
        return ~at.done & (at.steps < MAX_STEPS)

    at = NewtonResult(u, *first, *(xp.asarray(v) for v in (0.0, np.inf, False, 0)))
    if xp is jnp:
        return jax.lax.while_loop(unfinished, step, at)
    while not at.done and at.steps < MAX_STEPS:
        at = step(at)
    return at


def propose(
    gradient: Float[Numbers, " k"], curvature: Float[Numbers, "k k"], damping: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """The step (H + λ diag H)⁻¹g, its length in standard deviations, and whether it could be computed."""
    xp = np if isinstance(gradient, np.ndarray) else jnp
    scale = abs(xp.diagonal(curvature))
    matrix = curvature + xp.diag(damping * xp.maximum(scale, 1e-8 * xp.max(scale)))
    if xp is jnp:
        factor = factorize(matrix)
        return solve(factor.root, gradient), jnp.linalg.norm(solve_lower(factor.root, gradient)), factor.ok
    root = np.empty_like(matrix)
    _, ok = lapack.factor_inplace(root, lapack.filled_with(matrix), np.ones(len(matrix)))
    if not ok:
        return np.zeros_like(gradient), np.inf, False
    return lapack.solve_factored(root, gradient), float(np.linalg.norm(lapack.solve_vector(root, gradient))), True


def climb(prior: GaussianPrior, rows: Rows, intercept: bool) -> NewtonResult:
    """The mode of log p(y, u); traceable."""
    if is_traced(prior, rows):
        return ascend(partial(height, prior, rows), start(rows, intercept, prior.mean), TOLERANCE)
    u = np.asarray(start(rows, intercept, prior.mean))
    with blas_threads(len(u)):  # a second thread would wait at every block of rows
        return _through_some(prior.on_host(), rows.on_host(), u, SHORT_LARGE if rows.is_large else SHORT)


def _through_some(prior: GaussianPrior, rows: Rows, u: np.ndarray, short: float) -> NewtonResult:
    """From u by way of the mode of some of the rows, where there are enough of them."""
    n = max(len(rows.y) // 8, PILOT, ENOUGH * len(u))
    if 2 * n <= len(rows.y):
        first = _through_some(prior, rows.some(n), u, ROUGH)
        # Without a prior some of the rows may be separable where all are not.
        if first.stride < ROUGH and np.max(np.abs(first.u - u)) < 100:
            u = first.u
    return ascend(partial(height, prior, rows), u, short)
