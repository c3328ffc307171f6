"""Laplace's approximation of a generalized linear model's evidence, and its gradient in the hyperparameters θ.

    log Z = log p(y, û | θ) + k/2 log 2π - ½ log|H|

With t = ∂log|H|/∂u at the mode û and û' = H⁻¹ ∂∇log p(û | θ)/∂θ,

    ∂log Z/∂θ = ∂log p(û | θ)/∂θ - ½ tr(H⁻¹ ∂Λ/∂θ) - ½ tᵀû'

where Λ is the curvature of the prior: one more pass over the rows for t, and none for each hyperparameter.
MacKay (1992); Rasmussen & Williams (2006), §5.5.1.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, put, put_all
from credo.core.device import blas_threads
from credo.core.linalg import factorize, solve
from credo.core.padding import bucket, pad_rows
from credo.infer.laplace import normal_at, occam
from credo.models.glm.newton import (
    TOLERANCE,
    GaussianPrior,
    Rows,
    ascend,
    climb,
    height,
    log_prob_of_row,
    prior_terms,
    size_of,
    split,
    start,
)
from credo.models.likelihoods import ClosedForm, Likelihood

if TYPE_CHECKING:
    from credo.models.glm.belief import GLM


@eqx.filter_jit
def evidence(prior: GaussianPrior, rows: Rows, intercept: bool) -> Float[Array, ""]:
    """Laplace's evidence with its exact gradient: a Newton step of length zero carries how û depends on the prior."""
    held = jax.tree.map(lambda v: jax.lax.stop_gradient(v) if eqx.is_inexact_array(v) else v, (prior, rows))
    found = ascend(partial(height, *held), start(rows, intercept, held[0].mean), TOLERANCE)
    u = jax.lax.stop_gradient(found.u)
    factor = factorize(jax.lax.stop_gradient(found.precision))
    slope = prior_terms(prior, rows.likelihood, u)[1]
    moved = solve(jax.lax.stop_gradient(factor.root), slope - jax.lax.stop_gradient(slope))
    value, _, precision = height(prior, rows, u + moved)
    at_mode = factorize(precision)
    return jnp.where(factor.ok & at_mode.ok, value + occam(at_mode.root), -jnp.inf)


class LaplaceObjective:
    """log Z(θ) + log p(θ) of the unconstrained hyperparameters, with its gradient; each climb starts from the last."""

    def __init__(self, belief: "GLM", slots: params.Layout, rows: Rows, priors: Mapping[str, object]):
        few = rows.cut(slice(1))
        self._about = (belief, slots, few, dict(priors))
        self._rows, self._table = rows, rows.on_host()
        self._mode: np.ndarray | None = None

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient."""
        with blas_threads(self._rows.design.shape[1]):  # a second thread would wait at every block of rows
            return self._value_and_grad(vector)

    def _value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        prior = _prior_at(put(vector), *self._about)
        if self._mode is None or size_of(self._rows.likelihood):  # with numbers of its own there may be other modes
            self._mode = np.asarray(climb(prior, self._rows, self._about[0].intercept is not None).u)
        prior = prior.on_host()
        top = ascend(partial(height, prior, self._table), self._mode, TOLERANCE)
        root, log_z, ok = normal_at(*put_all(np.asarray(top.value), top.precision))
        if not (bool(ok) and np.isfinite(log_z)):
            return -np.inf, np.zeros_like(vector)
        self._mode = np.asarray(top.u)
        covariance = np.asarray(root @ root.T)
        response = -0.5 * covariance @ log_det_gradient(prior, self._table, self._mode, covariance)
        at, u, sigma, lean = put_all(vector, self._mode, covariance, response)
        log_prior, slope = _slope(at, u, sigma, lean, *self._about)
        return float(log_z) + float(log_prior), np.asarray(slope)

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self.value_and_grad(vector)[0]


@eqx.filter_jit
def _prior_at(
    vector: Float[Array, " t"], belief: "GLM", slots: params.Layout, rows: Rows, priors: dict[str, object]
) -> GaussianPrior:
    return params.from_vector(belief, slots, vector).before(rows)


@eqx.filter_jit
def _slope(
    vector: Float[Array, " t"],
    u: Float[Array, " k"],
    covariance: Float[Array, "k k"],
    response: Float[Array, " k"],
    belief: "GLM",
    slots: params.Layout,
    rows: Rows,
    priors: dict[str, object],
) -> tuple[Float[Array, ""], Float[Array, " t"]]:
    """log p(θ), and the gradient of the module's formula; `response` is -½H⁻¹t."""

    def joint(v: Array) -> tuple[Array, Array]:
        candidate = params.from_vector(belief, slots, v)
        value, gradient, curvature = prior_terms(candidate.before(rows), rows.likelihood, u)
        log_prior = params.log_prior(candidate, priors)
        return value - 0.5 * jnp.sum(covariance * curvature) + response @ gradient + log_prior, log_prior

    (_, log_prior), slope = jax.value_and_grad(joint, has_aux=True)(vector)
    return jnp.asarray(log_prior, dtype=float), slope


# -- the third derivative ----------------------------------------------------------------------------------------


def log_det_gradient(prior: GaussianPrior, rows: Rows, u: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """∂log|H|/∂u = Σᵢ Aᵢᵀ ∂⟨AᵢH⁻¹Aᵢᵀ, hᵢ(z)⟩/∂z, with A, h and z as in `newton`, and the same of the prior."""
    s = size_of(rows.likelihood)
    psi, weights = split(rows, u)
    c = weights.shape[1]
    total = np.asarray(_of_prior(prior, rows.likelihood, put(u), put(covariance))) if s else np.zeros(len(u))
    for block in rows.blocks():
        design, n = block.design, len(block.y)
        spread = np.empty((n, s + c, s + c))
        spread[:, :s, :s] = covariance[:s, :s]
        for a in range(c):
            across = design @ covariance[s + a :: c, :s]
            spread[:, s + a, :s], spread[:, :s, s + a] = across, across
            for b in range(c):
                part = design @ covariance[s + a :: c, s + b :: c]
                spread[:, s + a, s + b] = np.einsum("nq,nq->n", part, design)
        eta = block.eta(weights)
        if isinstance(block.likelihood, ClosedForm):
            slopes = block.weights * spread[:, 0, 0] * block.likelihood.curvature_slope(eta[:, 0], block.y)
            total = total + slopes @ design
            continue
        padded = (put(pad_rows(v, bucket(n))) for v in (eta, block.y, block.weights, spread))
        slopes = np.asarray(_of_rows(block.likelihood, put(psi), *padded))[:n]
        total = total + np.concatenate([slopes[:, :s].sum(0), (design.T @ slopes[:, s:]).reshape(-1)])
    return total


@eqx.filter_jit
def _of_rows(
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
def _of_prior(
    prior: GaussianPrior, likelihood: Likelihood, u: Float[Array, " k"], covariance: Float[Array, "k k"]
) -> Float[Array, " k"]:
    return jax.grad(lambda v: jnp.sum(covariance * prior_terms(prior, likelihood, v)[2]))(u)
