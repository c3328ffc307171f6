"""The Gaussian log evidence with its gradient written by hand: the hot spot of Gaussian processes.

With α = K⁻¹r:  log p = -½ rᵀα - ½ log|K| - n/2 log 2π,  ∂log p/∂K = ½(ααᵀ - K⁻¹),  ∂log p/∂r = -α.
Rasmussen & Williams (2006), eq. 2.30 and 5.9.

Differentiating through a Cholesky factorization costs several times more than the factorization; the
formula above needs only the inverse. `gaussian_log_evidence` stays in XLA where it is traced; `evidence_on_host` is the
same through LAPACK, for objectives that look at one vector of hyperparameters at a time.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.errors import DataError
from credo.core.linalg import factor, lapack
from credo.core.special import LOG_2PI

Matrix = Float[Array, "n n"]
Vector = Float[Array, "n"]
Number = Float[Array, ""]


def gaussian_log_evidence(covariance: Matrix, residual: Vector, mask: Bool[Array, "n"] | None = None) -> Number:
    """log N(residual | 0, covariance), differentiable once in reverse, under the one jitter policy.

    `covariance` is symmetric; one triangle of it is read. Where `mask` is False the row is padding: it
    changes neither the value nor the gradient.

    A covariance that is not positive definite raises `NotPositiveDefinite` when the arguments are
    concrete. Inside jit, grad or vmap the value is then -inf and the gradient zero, so that an optimizer
    or a sampler backs off; it is never NaN.
    """
    covariance, residual, mask = host((covariance, residual, mask))
    xp = namespace(covariance, residual, mask)
    weight = xp.ones(len(residual), residual.dtype) if mask is None else mask.astype(residual.dtype)
    padded = factor.pad_identity(covariance, mask)
    residual = residual if mask is None else xp.where(mask, residual, 0.0)
    if is_traced(padded, residual):
        return _log_evidence(padded, residual, weight)
    matrix, work = np.asarray(padded), np.empty(padded.shape)
    value = np.asarray(evidence_on_host(matrix, np.asarray(residual), np.asarray(weight), work, False)[0])
    if not np.isfinite(value):
        if not np.isfinite(residual).all():
            raise DataError("residual has entries that are NaN or infinite; check y and the mean it is taken from")
        factor.cholesky(covariance, "covariance", mask)  # raises, and says why
    return value


@jax.custom_vjp
def _log_evidence(covariance: Matrix, residual: Vector, weight: Vector) -> Number:
    return _evaluate(covariance, residual, weight, False)[0]


def _forward(covariance: Matrix, residual: Vector, weight: Vector) -> tuple[Number, tuple[Matrix, Vector]]:
    value, by_residual, by_covariance = _evaluate(covariance, residual, weight, True)
    return value, (by_covariance, by_residual)


def _backward(saved: tuple[Matrix, Vector], change: Number) -> tuple[Matrix, Vector, None]:
    return change * saved[0], change * saved[1], None


_log_evidence.defvjp(_forward, _backward)


@partial(jax.jit, static_argnames="gradient")
def _evaluate(covariance: Matrix, residual: Vector, weight: Vector, gradient: bool) -> tuple[Array, ...]:
    """(log p, ∂/∂residual[, ∂/∂covariance])."""
    result = factor.factorize(covariance, weight > 0)
    alpha = jnp.asarray(factor.solve(result.root, residual))
    value = -0.5 * (residual @ alpha + factor.log_determinant(result.root) + weight.sum() * LOG_2PI)
    ok = result.ok & jnp.isfinite(value)
    outputs = (jnp.where(ok, value, -jnp.inf), jnp.where(ok, -alpha, 0.0))
    if not gradient:
        return outputs
    return *outputs, jnp.where(ok, 0.5 * (jnp.outer(alpha, alpha) - factor.inverse(result.root)), 0.0)


def evidence_on_host(
    covariance: Float[np.ndarray, "n n"],
    residual: Float[np.ndarray, "n"],
    weight: Float[np.ndarray, "n"],
    work: Float[np.ndarray, "n n"],
    gradient: bool = True,
) -> tuple[float, Float[np.ndarray, "n"]]:
    """(log p, ∂log p/∂residual) in NumPy; the lower triangle of `work` becomes K⁻¹ - ααᵀ = -2 ∂log p/∂covariance.

    `weight` is 1 on the rows that count and 0 on padding. Not positive definite: (-inf, 0) and zeros.
    """
    _, ok = lapack.factor_inplace(work, partial(np.copyto, src=covariance), weight, clean=False)
    value, alpha = -np.inf, np.zeros_like(residual)
    if ok:
        alpha = lapack.solve_factored(work, residual)
        log_determinant = 2.0 * np.log(work.diagonal()).sum()
        value = float(-0.5 * (residual @ alpha + log_determinant + weight.sum() * LOG_2PI))
    if not np.isfinite(value):
        work[...] = 0.0
        return -np.inf, np.zeros_like(residual)
    if gradient:
        lapack.invert_inplace(work)
        lapack.subtract_outer_inplace(work, alpha)
    return value, -alpha
