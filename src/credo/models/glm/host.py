"""The climb of `fitting` for large tables on a CPU: in NumPy, whose BLAS is faster than XLA's, block by block.

It starts from the mode of an eighth of the rows, found in the same way. From there their curvature, scaled up and
corrected by what each step teaches (`glide`), needs only the gradient of all rows, a third of the work of a Newton
step; one of those ends the climb, with the curvature that the posterior needs. `HostObjective` is the evidence as a
function of hyperparameters θ; with t = ∂log|H|/∂u at the mode û and û' = H⁻¹ ∂∇log p(û | θ)/∂θ,

    ∂log Z/∂θ = ∂log p(û | θ)/∂θ - ½ tr(H⁻¹ ∂Λ/∂θ) - ½ tᵀû'

where Λ is the curvature of the prior: one more pass over the rows for t, and none for each hyperparameter.
"""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core import params
from credo.core.arrays import put
from credo.core.device import ONE_THREAD, blas_threads
from credo.core.linalg import lapack
from credo.core.padding import bucket, pad_rows
from credo.infer.laplace import normal_at
from credo.models.glm.newton import (
    MAX_STEPS,
    SLACK,
    Before,
    Climb,
    Rows,
    assemble,
    gram,
    log_prob_of_row,
    next_damping,
    row_terms,
    size_of,
    start,
)
from credo.models.likelihoods import Likelihood

NEAR = 1e-3
"""`TOLERANCE` for large tables, whose curvature is not computed again after so short a step."""
EXACT = 1e-5
"""The same for the evidence, whose climb needs a smooth function."""
ROUGH = 0.3
"""The same for some of the rows, from whose mode the climb starts."""
BLOCK = 2**11
"""Rows of a table that fit the cache together."""
PILOT, ENOUGH = 2**10, 32
"""A climb on some of the rows has an eighth of them, but at least so many, and so many for each unknown."""
GLIDES = 10
"""Steps on the gradient alone, at most."""

_row_terms_compiled = eqx.filter_jit(row_terms)
_prior_compiled = eqx.filter_jit(lambda before, likelihood, u: before.slopes(likelihood, u))


class Table(NamedTuple):
    """Rows in NumPy."""

    design: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    likelihood: Likelihood

    @classmethod
    def of(cls, rows: Rows) -> "Table":
        """These rows."""
        design, y, weights, offset = (np.asarray(v) for v in (rows.design, rows.y, rows.weights, rows.offset))
        return cls(design, y, weights, offset, rows.likelihood)

    @property
    def quick(self) -> bool:
        """Whether NumPy alone can do it."""
        return self._slopes(np.zeros(1), np.zeros(1)) is not None

    @property
    def _slopes(self) -> Callable[..., Any]:
        return partial(type(self.likelihood).numpy_slopes, self.likelihood)  # equinox binds a method in 50 µs

    def height(self, before: Before, u: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """`height`, a block of rows at a time while it is in the cache."""
        value, slope, full = _prior(before, self.likelihood, u)
        if self.quick:
            part, g, h = self._sums(u, curved=True)
            return value + part, slope + g, full + h
        s = size_of(self.likelihood)
        eta = self.design @ u[s:].reshape(self.design.shape[1], -1) + self.offset[:, None]
        rows = (pad_rows(v, bucket(len(eta))) for v in (eta, self.y, self.weights))
        terms = _row_terms_compiled(self.likelihood, put(u[:s]), *(put(v) for v in rows))
        total, each, curvatures = (np.asarray(v) for v in terms)
        for i in range(0, len(self.y), BLOCK):
            block = slice(i, min(i + BLOCK, len(self.y)))
            g, h = assemble(self.design[block], each[block], curvatures[block], s)
            slope, full = slope + g, full + h
        return value + float(total), slope, full

    def slope(self, before: Before, u: np.ndarray) -> np.ndarray:
        """The gradient of `height` alone, where the table is `quick`."""
        return _prior(before, self.likelihood, u)[1] + self._sums(u, curved=False)[1]

    def _sums(self, w: np.ndarray, curved: bool) -> tuple[float, np.ndarray, np.ndarray]:
        """The log likelihood, its gradient and its curvature, or the gradient alone; the cores share the rows."""
        n, cores = len(self.y), os.cpu_count() or 1
        if cores == 1 or n < 4 * BLOCK or len(w) > ONE_THREAD:
            return self._sums_of(w, curved, 0, n)
        size = -(-n // (cores * BLOCK)) * BLOCK
        with blas_threads(len(w)), ThreadPoolExecutor(cores) as pool:
            parts = list(pool.map(lambda i: self._sums_of(w, curved, i, min(i + size, n)), range(0, n, size)))
        return sum(p[0] for p in parts), np.sum([p[1] for p in parts], 0), np.sum([p[2] for p in parts], 0)

    def _sums_of(self, w: np.ndarray, curved: bool, start: int, stop: int) -> tuple[float, np.ndarray, np.ndarray]:
        value, slope, full, slopes_of = 0.0, np.zeros(len(w)), np.zeros((len(w), len(w))), self._slopes
        for i in range(start, stop, BLOCK):
            block = slice(i, min(i + BLOCK, stop))
            design, weights = self.design[block], self.weights[block]
            eta = design @ w + self.offset[block]
            each, slopes, curvatures = slopes_of(eta, self.y[block])
            slope += (weights * slopes) @ design
            if curved:
                value += float(weights @ each)
                full += gram(design, weights * curvatures)
        return value, slope, full

    def bend(self, before: Before, u: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """∂log|H|/∂u = Σᵢ Aᵢᵀ ∂⟨AᵢH⁻¹Aᵢᵀ, hᵢ(z)⟩/∂z, with A, h and z as in `fitting`, and the same of the prior."""
        s, q = size_of(self.likelihood), self.design.shape[1]
        w = u[s:].reshape(q, -1)
        c = w.shape[1]
        spread = np.empty((len(self.y), s + c, s + c))
        spread[:, :s, :s] = covariance[:s, :s]
        for a in range(c):
            across = self.design @ covariance[s + a :: c, :s]
            spread[:, s + a, :s], spread[:, :s, s + a] = across, across
            for b in range(c):
                part = self.design @ covariance[s + a :: c, s + b :: c]
                spread[:, s + a, s + b] = np.einsum("nq,nq->n", part, self.design)
        eta = self.design @ w + self.offset[:, None]
        size = bucket(len(eta))
        rows = (put(pad_rows(v, size)) for v in (eta, self.y, self.weights, spread))
        slopes = np.asarray(_bends_compiled(self.likelihood, put(u[:s]), *rows))[: len(eta)]
        own = np.asarray(_prior_bends_compiled(before, self.likelihood, put(u), put(covariance)))
        return own + np.concatenate([slopes[:, :s].sum(0), (self.design.T @ slopes[:, s:]).reshape(-1)])

    def some(self, n: int) -> "Table":
        """n of the rows, at random."""
        chosen = np.sort(np.random.default_rng(0).choice(len(self.y), n, replace=False))
        design, y, weights, offset = (v[chosen] for v in self[:4])
        return Table(design, y, weights, offset, self.likelihood)


def _prior(before: Before, likelihood: Likelihood, u: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """`Before.slopes` in NumPy."""
    if size_of(likelihood):
        value, slope, full = (np.asarray(v) for v in _prior_compiled(before, likelihood, put(u)))
        return float(value), slope, full
    precision, gap = np.asarray(before.precision), u - np.asarray(before.mean)
    pull = precision @ gap
    return float(before.log_scale) - 0.5 * float(gap @ pull), -pull, precision


def climb_on_host(before: Before, rows: Rows, intercept: bool) -> Climb:
    """The same in NumPy."""
    return _climb(before, Table.of(rows), np.asarray(_start_compiled(rows, intercept, before.mean)), NEAR)


def _climb(before: Before, table: Table, u: np.ndarray, near: float) -> Climb:
    """From u by way of the mode of some of the rows, where there are enough of them."""
    n = max(len(table.y) // 8, PILOT, ENOUGH * len(u))
    if 2 * n <= len(table.y):
        few = table.some(n)
        first = _climb(before, few, u, ROUGH)
        # Without a prior some of the rows may be separable where all are not.
        if float(first.stride) < ROUGH and np.max(np.abs(np.asarray(first.u) - u)) < 100:
            u = np.asarray(first.u)
            if table.quick:
                own, more = np.asarray(before.precision), table.weights.sum() / few.weights.sum()
                u = glide(before, table, u, own + more * (np.asarray(first.precision) - own), near)
    return _ascend(before, table, u, near)


_start_compiled = eqx.filter_jit(start)


def glide(before: Before, table: Table, u: np.ndarray, curvature: np.ndarray, near: float) -> np.ndarray:
    """Closer to the mode by gradients: BFGS from a curvature that is nearly right (Nocedal & Wright, 2006, §7.2).

    It ends where the next step should be shorter than `near`, or where one gains less than a third of the way.
    """
    root, ok = _factored(curvature)
    if not ok:
        return u
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    g = table.slope(before, u)
    long = float(np.linalg.norm(lapack.solve_vector(root, g)))
    for _ in range(GLIDES):
        change = _bfgs(root, pairs, g)
        there = table.slope(before, u + change)
        left = float(np.linalg.norm(lapack.solve_vector(root, there)))
        if not left < 0.7 * long:
            return u
        pairs.append((change, g - there))
        u, g = u + change, there
        if 5 * left**2 < near * long:  # five times as far as it should be, or the curvature is computed twice
            return u + _bfgs(root, pairs, g)
        long = left
    return u


def _bfgs(root: np.ndarray, pairs: list[tuple[np.ndarray, np.ndarray]], g: np.ndarray) -> np.ndarray:
    """H⁻¹g, with H = LLᵀ updated by the pairs of steps and of what they took from the gradient."""
    done = []
    for step, loss in reversed(pairs):
        done.append(step @ g / (step @ loss))
        g = g - done[-1] * loss
    g = lapack.solve_factored(root, g)
    for (step, loss), a in zip(pairs, reversed(done), strict=True):
        g = g + step * (a - loss @ g / (step @ loss))
    return g


def _factored(matrix: np.ndarray) -> tuple[np.ndarray, bool]:
    """`factorize` in NumPy."""
    root = np.empty_like(matrix)
    _, ok = lapack.factor_inplace(root, lapack.filled_with(matrix), np.ones(len(matrix)))
    return root, ok


def _proposed(slope: np.ndarray, curvature: np.ndarray, damping: float) -> tuple[np.ndarray, float, bool]:
    """`propose` in NumPy."""
    scale = np.abs(np.diagonal(curvature))
    root, ok = _factored(curvature + np.diag(damping * np.maximum(scale, 1e-8 * np.max(scale))))
    if not ok:
        return np.zeros_like(slope), np.inf, False
    return lapack.solve_factored(root, slope), float(np.linalg.norm(lapack.solve_vector(root, slope))), True


def _ascend(before: Before, table: Table, u: np.ndarray, near: float) -> Climb:
    """Steps until one is shorter than `near`; the next would be about its square, and the curvature stays as it is."""
    here, damping, stride, count = table.height(before, u), 0.0, np.inf, 0
    while count < MAX_STEPS:
        count += 1
        change, long, ok = _proposed(here[1], here[2], damping)
        if ok and damping == 0.0 and long < near:
            u, stride = u + change, long**2
            here = (here[0] + 0.5 * stride, here[1], here[2])
            break
        there = table.height(before, u + change) if ok else here
        good = ok and bool(np.isfinite(there[0])) and there[0] >= here[0] - SLACK * abs(here[0])
        stride = long if good and damping == 0.0 else stride
        u, here = (u + change, there) if good else (u, here)
        damping = float(next_damping(damping, good))
    numbers = (u, np.asarray(here[0]), here[2], np.asarray(stride), np.asarray(count))
    return Climb(*(put(v) for v in numbers))


class HostObjective:
    """log Z(θ) + log p(θ) of the unconstrained hyperparameters, with its gradient; each climb starts from the last."""

    def __init__(self, belief: Any, slots: params.Layout, rows: Rows, priors: Mapping[str, Any]):
        few = Rows(rows.design[:1], rows.y[:1], rows.weights[:1], rows.offset[:1], rows.likelihood)
        self._about = (belief, slots, few, dict(priors))
        self._rows, self._table = rows, Table.of(rows)
        self._mode: np.ndarray | None = None

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient."""
        before = _before_compiled(vector, *self._about)
        if self._mode is None:
            self._mode = np.asarray(climb_on_host(before, self._rows, self._about[0].intercept is not None).u)
        top = _ascend(before, self._table, self._mode, EXACT)
        root, log_z, ok = normal_at(top.value, top.precision)
        if not (bool(ok) and np.isfinite(log_z)):
            return -np.inf, np.zeros_like(vector)
        self._mode = mode = np.asarray(top.u)
        covariance = np.asarray(root @ root.T)
        lean = -0.5 * covariance @ self._table.bend(before, mode, covariance)
        log_prior, slope = _slope_compiled(vector, *self._about, top.u, put(covariance), put(lean))
        return float(log_z) + float(log_prior), np.asarray(slope)

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self.value_and_grad(vector)[0]


@eqx.filter_jit
def _before_compiled(vector: Any, belief: Any, slots: params.Layout, rows: Rows, priors: dict[str, Any]) -> Before:
    return params.from_vector(belief, slots, jnp.asarray(vector)).before(rows)


@eqx.filter_jit
def _slope_compiled(
    vector: Any,
    belief: Any,
    slots: params.Layout,
    rows: Rows,
    priors: dict[str, Any],
    u: Float[Array, " k"],
    covariance: Float[Array, "k k"],
    lean: Float[Array, " k"],
) -> tuple[Float[Array, ""], Float[Array, " t"]]:
    """log p(θ), and the gradient of the module's formula."""

    def joint(v: Array) -> tuple[Array, Array]:
        candidate = params.from_vector(belief, slots, v)
        value, gradient, curvature = candidate.before(rows).slopes(rows.likelihood, u)
        log_prior = params.log_prior(candidate, priors)
        return value - 0.5 * jnp.sum(covariance * curvature) + lean @ gradient + log_prior, log_prior

    (_, log_prior), slope = jax.value_and_grad(joint, has_aux=True)(jnp.asarray(vector))
    return jnp.asarray(log_prior, dtype=float), slope


@eqx.filter_jit
def _bends_compiled(
    likelihood: Likelihood,
    psi: Float[Array, " s"],
    eta: Float[Array, "n c"],
    y: Float[Array, " n"],
    w: Float[Array, " n"],
    spread: Float[Array, "n a a"],
) -> Float[Array, "n a"]:
    """∂⟨spread, h(z)⟩/∂z of every row."""

    def row(eta: Array, y: Array, w: Array, spread: Array) -> Array:
        def curved(z: Array) -> Array:
            return -w * jnp.sum(spread * jax.hessian(lambda v: log_prob_of_row(likelihood, v, y))(z))

        return jax.grad(curved)(jnp.concatenate([psi, eta]))

    return jax.vmap(row)(eta, y, w, spread)


@eqx.filter_jit
def _prior_bends_compiled(
    before: Before, likelihood: Likelihood, u: Float[Array, " k"], covariance: Float[Array, "k k"]
) -> Float[Array, " k"]:
    return jax.grad(lambda v: jnp.sum(covariance * before.slopes(likelihood, v)[2]))(u)
