"""The climb of `fitting` for large tables on a CPU: in NumPy, whose BLAS is faster than XLA's, block by block.

It starts from the mode of some of the rows: then two or three passes over all of them are enough. `HostObjective` is
the evidence as a function of hyperparameters θ; with t = ∂log|H|/∂u at the mode û and û' = H⁻¹ ∂∇log p(û | θ)/∂θ,

    ∂log Z/∂θ = ∂log p(û | θ)/∂θ - ½ tr(H⁻¹ ∂Λ/∂θ) - ½ tᵀû'

where Λ is the curvature of the prior: one more pass over the rows for t, and none for each hyperparameter.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core import params
from credo.core.arrays import bucket, pad_rows, put
from credo.infer.laplace import normal_at
from credo.models.glm.fitting import (
    MAX_STEPS,
    SLACK,
    Before,
    Climb,
    Rows,
    assemble,
    log_prob_of_row,
    next_damping,
    propose,
    row_terms,
    size_of,
    start,
)
from credo.models.likelihoods import Likelihood

NEAR = 1e-3
"""The same for large tables, whose curvature is not computed again after so short a step."""
EXACT = 1e-5
"""The same for the evidence, whose climb needs a smooth function."""
BLOCK = 2**11
"""Rows of a table that fit the cache together."""
PILOT = 2**13
"""Rows of a large table from which the climb starts."""

_propose_compiled = eqx.filter_jit(propose)
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

    def height(self, before: Before, u: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """`height`, a block of rows at a time while it is in the cache."""
        s = size_of(self.likelihood)
        w = u[s:].reshape(self.design.shape[1], -1)
        prior, slope, full = (np.array(v) for v in _prior_compiled(before, self.likelihood, put(u)))
        value, everything = float(prior), None
        if self.likelihood.numpy_slopes(np.zeros(1), np.zeros(1)) is None:
            eta = self.design @ w + self.offset[:, None]
            rows = (pad_rows(v, bucket(len(eta))) for v in (eta, self.y, self.weights))
            part, g, h = _row_terms_compiled(self.likelihood, put(u[:s]), *(put(v) for v in rows))
            value, everything = value + float(part), (np.asarray(g), np.asarray(h))
        for i in range(0, len(self.y), BLOCK):
            block = slice(i, min(i + BLOCK, len(self.y)))
            design = self.design[block]
            if everything is None:
                eta = design @ w[:, 0] + self.offset[block]
                each, slopes, curvatures = self.likelihood.numpy_slopes(eta, self.y[block]) or (eta, eta, eta)
                weights = self.weights[block]
                value += float(weights @ each)
                more = assemble(design, (weights * slopes)[:, None], (weights * curvatures)[:, None, None], 0)
            else:
                more = assemble(design, everything[0][block], everything[1][block], s)
            slope += more[0]
            full += more[1]
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


def climb_on_host(before: Before, rows: Rows, intercept: bool) -> Climb:
    """The same in NumPy, from the mode of some of the rows."""
    table = Table.of(rows)
    u = np.asarray(_start_compiled(rows, intercept, before.mean))
    if len(table.y) > 2 * PILOT:
        first = _ascend(before, table.some(PILOT), u, 0.3)
        # Without a prior some of the rows may be separable where all are not.
        if float(first.stride) < 0.3 and np.max(np.abs(np.asarray(first.u) - u)) < 100:
            u = np.asarray(first.u)
    return _ascend(before, table, u, NEAR)


_start_compiled = eqx.filter_jit(start)


def _ascend(before: Before, table: Table, u: np.ndarray, near: float) -> Climb:
    """Steps until one is shorter than `near`; the next would be about its square, and the curvature stays as it is."""
    here, damping, stride, count = table.height(before, u), 0.0, np.inf, 0
    while count < MAX_STEPS:
        count += 1
        change, long, ok = (np.asarray(v) for v in _propose_compiled(put(here[1]), put(here[2]), put(damping)))
        if ok and damping == 0.0 and long < near:
            u, stride = u + change, float(long) ** 2
            here = (here[0] + 0.5 * stride, here[1], here[2])
            break
        there = table.height(before, u + change)
        good = bool(ok) and bool(np.isfinite(there[0])) and there[0] >= here[0] - SLACK * abs(here[0])
        stride = float(long) if good and damping == 0.0 else stride
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
