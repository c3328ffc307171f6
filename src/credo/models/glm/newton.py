"""Newton's method for generalized linear models.

The unknowns are u = (ψ, vec W): the likelihood's own numbers, unconstrained, and the weights, η = Φ̃W + offset. With
zᵢ = (ψ, ηᵢ) and each row's gradient gᵢ and curvature hᵢ in z, the data contribute

    Σᵢ wᵢ Aᵢᵀgᵢ,    Σᵢ wᵢ AᵢᵀhᵢAᵢ,    Aᵢ = ∂zᵢ/∂u

so that a step costs one weighted Φ̃ᵀDΦ̃. Steps are damped (Levenberg-Marquardt) until they gain: monotone, whatever the
curvature. For canonical links this is iteratively reweighted least squares. Rows that are known are looked at a block
at a time, and large tables start from the mode of an eighth of their rows.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.device import blas_threads
from credo.core.linalg import factorize, solve_lower, solve_upper
from credo.core.padding import padded
from credo.models.likelihoods import Likelihood
from credo.models.likelihoods.base import Terms

MAX_STEPS = 100
TOLERANCE = 1e-6
"""The mode is reached with a step shorter than this many posterior standard deviations."""
SHORT = 1e-8
"""After a step so short the curvature is not computed again; the next would be about its square."""
SHORT_LARGE = 1e-3
"""`SHORT` for large tables."""
ROUGH = 0.3
"""`SHORT` for some of the rows, from whose mode the others start."""
NEAR = 1e-2
"""A step of so few standard deviations is taken, whatever it gains."""
SLACK = 1e-12
"""A step may lose this share of the height: rounding."""
LARGE = 2**20
"""Entries of a table that is large."""
BLOCK = 2**11
"""Rows that fit the cache together."""
PAIRS = 2**23
"""Products of two features of all rows that are held in memory together."""
PILOT, ENOUGH = 2**10, 32
"""Some of the rows are an eighth of them, but at least so many, and so many for each unknown."""


class Rows(NamedTuple):  # not of Equinox, which makes an object of each method looked up: a climb looks up thousands
    """What a generalized linear model keeps of its data; padding has weight zero."""

    design: Float[Array, "n q"]
    y: Float[Array, " n"]
    weights: Float[Array, " n"]
    offset: Float[Array, " n"]
    likelihood: Likelihood

    def __add__(self, other: "Rows") -> "Rows":  # type: ignore[override]
        join = namespace(self, other).concatenate
        design, y, weights, offset = (join(pair) for pair in zip(self[:4], other[:4], strict=True))
        return Rows(design, y, weights, offset, self.likelihood)

    @property
    def width(self) -> int:
        """c, the number of linear predictors."""
        return self.likelihood.width

    @property
    def is_large(self) -> bool:
        """Whether a look at all the rows takes long."""
        return self.design.size >= LARGE

    def padded(self) -> "Rows":
        """The rows up to the length of their bucket, for what is compiled."""
        if self.is_large or namespace(self) is jnp:
            return self
        design, y, weights, offset, _ = padded(*self[:4])
        return Rows(design, y, weights, offset, self.likelihood)

    def some(self, n: int) -> "Rows":
        """n of the rows, at random."""
        return self.cut(np.sort(np.random.default_rng(0).choice(len(self.y), n, replace=False)))

    def cut(self, chosen: slice | np.ndarray) -> "Rows":
        """Some of the rows."""
        return Rows(self.design[chosen], self.y[chosen], self.weights[chosen], self.offset[chosen], self.likelihood)

    def blocks(self) -> Iterator["Rows"]:
        """The rows a block at a time; all together where they are JAX's."""
        if not isinstance(self.design, np.ndarray) or len(self.y) <= BLOCK:
            yield self
            return
        for i in range(0, len(self.y), BLOCK):
            yield self.cut(slice(i, i + BLOCK))

    def z(self, u: Float[Array, " k"]) -> Float[Array, "n a"]:
        """(ψ, η) of every row."""
        xp, s = namespace(u, self), len(u) - self.design.shape[1] * self.width
        eta = self.design @ u[s:].reshape(self.design.shape[1], self.width) + self.offset[:, None]
        return xp.concatenate([xp.broadcast_to(u[:s], (len(eta), s)), eta], axis=1) if s else eta


class GaussianPrior(eqx.Module):
    """What is believed of u before the rows: N(mean, precision⁻¹); ψ has the likelihood's own prior while `fresh`."""

    mean: Float[Array, " k"]
    precision: Float[Array, "k k"]
    log_scale: Float[Array, ""]
    """The log of the normal density at its mean."""
    fresh: bool = eqx.field(static=True, default=True)

    @classmethod
    def nothing(cls, k: int) -> "GaussianPrior":
        """No prior: maximum likelihood."""
        return cls(np.zeros(k), np.zeros((k, k)), np.zeros(()), False)

    def terms(self, likelihood: Likelihood, u: Float[Array, " k"]) -> Terms:
        """log p(u), its gradient, and its curvature."""
        xp, s = namespace(self, u), likelihood.size
        pull = self.precision @ (u - self.mean)
        value, gradient, curvature = self.log_scale - 0.5 * (u - self.mean) @ pull, -pull, self.precision
        if not (s and self.fresh):
            return value, gradient, curvature
        own, slope, bend = likelihood.own_terms(u[:s])
        rest = (0, len(u) - s)
        return value + own, gradient + xp.pad(slope, rest), curvature + xp.pad(bend, rest)


def start(rows: Rows, intercept: bool, mean: Float[Array, " k"]) -> Float[Array, " k"]:
    """Where a climb begins: the prior mean, but for ψ and the constant term, which the outcomes suggest."""
    xp, likelihood = namespace(rows, mean), rows.likelihood
    begun, constant = likelihood.started(rows.y, rows.weights)
    parts = [begun.psi, mean[likelihood.size :]]
    if intercept and not likelihood.vector:
        exposure = xp.sum(rows.weights * xp.exp(rows.offset)) / xp.sum(rows.weights)
        parts[1:] = [xp.reshape(constant - xp.log(exposure), (1,)), parts[1][1:]]
    return xp.concatenate(parts)


# -- the height, its gradient and its curvature ------------------------------------------------------------------


def gram(design: Float[Array, "n q"], h: Float[Array, " n"]) -> Float[Array, "q q"]:
    """Φ̃ᵀ diag(h) Φ̃; in NumPy as a symmetric product where h allows it, which is half the work."""
    if namespace(design, h) is jnp or h.min() < 0:
        return (design * h[:, None]).T @ design
    half = design * np.sqrt(h)[:, None]
    return half.T @ half


def _pairs(design: Float[Array, "n q"]) -> Float[np.ndarray, "n r"] | None:
    """Φᵢⱼ Φᵢₖ for j ≤ k, so that many weighted Φ̃ᵀDΦ̃ are one product; None where they are too many, or traced."""
    n, q = design.shape
    if namespace(design) is jnp or n * q * (q + 1) // 2 > PAIRS:
        return None
    i, j = np.triu_indices(q)
    return np.asarray(design[:, i] * design[:, j])


def assemble(rows: Rows, gradient: Float[Array, "n a"], curvature: Float[Array, "n a a"]) -> tuple[Array, Array]:
    """Σ wᵢAᵢᵀgᵢ and Σ wᵢAᵢᵀhᵢAᵢ."""
    xp, design = namespace(rows, gradient), rows.design
    q, c = design.shape[1], rows.width
    s = gradient.shape[1] - c
    gradient, curvature = rows.weights[:, None] * gradient, rows.weights[:, None, None] * curvature
    slope = xp.concatenate([gradient[:, :s].sum(0), (design.T @ gradient[:, s:]).reshape(-1)])
    pairs = _pairs(design) if c > 2 and not s else None
    if pairs is not None:
        blocks = (pairs.T @ curvature.reshape(len(design), -1)).reshape(-1, c, c)
        i, j = np.triu_indices(q)
        table = np.empty((q, q, c, c))
        table[i, j] = table[j, i] = blocks
        full = table.swapaxes(1, 2).reshape(q * c, q * c)
    else:
        grams = {(a, b): gram(design, curvature[:, s + a, s + b]) for a in range(c) for b in range(a, c)}
        grid = [[grams[min(a, b), max(a, b)] for b in range(c)] for a in range(c)]
        full = xp.stack([xp.stack(line) for line in grid]).transpose(2, 0, 3, 1).reshape(q * c, q * c)
    if not s:
        return slope, full
    cross = xp.stack([(design.T @ curvature[:, j, s:]).reshape(-1) for j in range(s)])
    return slope, xp.block([[curvature[:, :s, :s].sum(0), cross], [cross.T, full]])


def height(prior: GaussianPrior, rows: Rows, u: Float[Array, " k"]) -> Terms:
    """log p(y, u), its gradient and its curvature: one pass over the rows."""
    value, slope, full = prior.terms(rows.likelihood, u)
    for block in rows.blocks():
        each, gradient, curvature = rows.likelihood.terms(block.z(u), block.y)
        more_slope, more = assemble(block, gradient, curvature)
        value, slope, full = value + block.weights @ each, slope + more_slope, full + more
    return value, slope, full


def spreads(rows: Rows, covariance: Float[Array, "k k"]) -> Float[Array, "n a a"]:
    """AᵢΣAᵢᵀ of every row: the covariance of z where that of u is Σ."""
    design, c = rows.design, rows.width
    s = len(covariance) - design.shape[1] * c
    pairs = _pairs(design) if c > 2 and not s else None
    if pairs is not None:
        i, j = np.triu_indices(design.shape[1])
        table = covariance.reshape(-1, c, design.shape[1], c).swapaxes(1, 2)
        both = (table[i, j] + table[j, i]) / np.where(i == j, 2.0, 1.0)[:, None, None]
        return (pairs @ both.reshape(-1, c * c)).reshape(-1, c, c)
    out = np.empty((len(design), s + c, s + c))
    out[:, :s, :s] = covariance[:s, :s]
    for a in range(c):
        out[:, s + a, :s] = out[:, :s, s + a] = design @ covariance[s + a :: c, :s]
        for b in range(a, c):
            part = design @ covariance[s + a :: c, s + b :: c]
            out[:, s + a, s + b] = out[:, s + b, s + a] = np.einsum("nq,nq->n", part, design)
    return out


def log_det_gradient(
    prior: GaussianPrior, rows: Rows, u: Float[Array, " k"], covariance: Float[Array, "k k"]
) -> Float[Array, " k"]:
    """∂log|H|/∂u = Σᵢ wᵢAᵢᵀ ∂⟨AᵢH⁻¹Aᵢᵀ, hᵢ(z)⟩/∂z, and the same of the prior; H⁻¹ is the covariance."""
    likelihood, s = rows.likelihood, rows.likelihood.size
    total = np.zeros(len(u))
    if s and prior.fresh:
        total[:s] = likelihood.own_curvature_slope(u[:s], covariance[:s, :s])
    for block in rows.blocks():
        slopes = likelihood.curvature_slope(block.z(u), block.y, spreads(block, covariance))
        slopes = block.weights[:, None] * slopes
        total[:s] += slopes[:, :s].sum(0)
        total[s:] += (block.design.T @ slopes[:, s:]).reshape(-1)
    return total


# -- the climb ---------------------------------------------------------------------------------------------------


class NewtonResult(NamedTuple):
    """Where Newton's method is: u, log p(y, u), gradient and curvature there, and its last step in deviations."""

    u: Float[Array, " k"]
    value: Float[Array, ""]
    gradient: Float[Array, " k"]
    precision: Float[Array, "k k"]
    damping: Float[Array, ""]
    stride: Float[Array, ""]
    done: Array
    steps: Array

    @property
    def converged(self) -> Array:
        """Whether the last step was short."""
        return self.stride < TOLERANCE


def ascend(height: Callable[[Array], Terms], u: Float[Array, " k"], short: float) -> NewtonResult:
    """From u to the top, until a step is `short`: a loop in NumPy, `lax.while_loop` where `height` is JAX's."""
    first = height(u)
    xp = namespace(u, first)

    def step(at: NewtonResult) -> NewtonResult:
        change, length, ok = propose(at.gradient, at.precision, at.damping)
        undamped = ok & (at.damping == 0.0)
        if xp is np and undamped and length < short:
            value = at.value + 0.5 * length**2
            return at._replace(
                u=at.u + change, value=value, stride=length**2, done=np.asarray(True), steps=at.steps + 1
            )
        with np.errstate(all="ignore"):  # a step that goes too far is not finite there, and not taken
            there = height(at.u + change)
        gains = there[0] >= at.value - SLACK * xp.abs(at.value)
        # So near the mode a loss is rounding, of outcomes that are far from zero.
        good = ok & xp.isfinite(there[0]) & (gains | (undamped & (length < NEAR)))
        value, gradient, precision = (xp.where(good, new, old) for new, old in zip(there, at[1:4], strict=True))
        calmer = xp.where(at.damping > 1e-3, at.damping / 10, 0.0)
        return NewtonResult(
            xp.where(good, at.u + change, at.u),
            value,
            gradient,
            precision,
            damping=xp.where(good, calmer, xp.maximum(10 * at.damping, 1e-2)),
            stride=xp.where(good & undamped, length, at.stride),
            done=good & undamped & ((length < short) | (~gains & (length < TOLERANCE))),
            steps=at.steps + 1,
        )

    def unfinished(at: NewtonResult) -> Array:
        return ~at.done & (at.steps < MAX_STEPS)

    at = NewtonResult(u, *first, *(xp.asarray(v) for v in (0.0, np.inf, False, 0)))
    if xp is jnp:
        return jax.lax.while_loop(unfinished, step, at)
    while unfinished(at):
        at = step(at)
    return at


def propose(gradient: Float[Array, " k"], curvature: Float[Array, "k k"], damping: Array) -> tuple[Array, Array, Array]:
    """The step (H + λ diag H)⁻¹g, its length in standard deviations, and whether it could be computed.

    H is factorized with ones on its diagonal: units of the features and of the outcomes make no difference.
    """
    xp = namespace(gradient, curvature, damping)
    size = xp.abs(xp.diagonal(curvature))
    scale = xp.where(size > 0, size, 1.0) ** -0.5
    factor = factorize(curvature * scale[:, None] * scale + damping * np.eye(len(scale)))
    half = solve_lower(factor.root, scale * gradient)
    return scale * solve_upper(factor.root, half), xp.sqrt(half @ half), factor.ok


def pilot_size(rows: Rows, k: int) -> int:
    """How many of the rows to look at first: an eighth, enough for k unknowns; all where that is most of them."""
    n = max(len(rows.y) // 8, PILOT, ENOUGH * k)
    return n if 2 * n <= len(rows.y) else len(rows.y)


def climb(prior: GaussianPrior, rows: Rows, intercept: bool, near: Float[Array, " k"] | None = None) -> NewtonResult:
    """The mode of log p(y, u), from `near` it or from where the outcomes suggest; traceable."""
    u = start(rows, intercept, prior.mean) if near is None else near
    if namespace(prior, rows) is jnp:
        return ascend(partial(height, prior, rows), u, TOLERANCE)
    short = SHORT_LARGE if rows.is_large else SHORT
    with blas_threads(len(u)):  # a second thread would wait at every block of rows
        if near is not None:
            return ascend(partial(height, prior, rows), u, short)
        return _through_some(prior, rows, u, short)


def _through_some(prior: GaussianPrior, rows: Rows, u: Array, short: float) -> NewtonResult:
    """From u by way of the mode of some of the rows, where there are enough of them."""
    n = pilot_size(rows, len(u))
    if n < len(rows.y):
        first = _through_some(prior, rows.some(n), u, ROUGH)
        # Without a prior some of the rows may be separable where all are not.
        if first.stride < ROUGH and np.max(np.abs(first.u - u)) < 100:
            u = first.u
    return ascend(partial(height, prior, rows), u, short)
