"""The Gaussian log evidence with its gradient written by hand: the hot spot of Gaussian processes.

With α = K⁻¹r:  log p = -½ rᵀα - ½ log|K| - n/2 log 2π,  ∂log p/∂K = ½(ααᵀ - K⁻¹),  ∂log p/∂r = -α.
Rasmussen & Williams (2006), eq. 2.30 and 5.9.

Differentiating through a Cholesky factorization costs several times more than the factorization; the
formula above needs only the inverse. On a CPU the factor and the inverse come from LAPACK on the host in
one callback. The callback is `buffer_callback`, which works on XLA's own memory: `pure_callback` copies
its arguments through JAX, and on a machine with one core that copy waits for the thread that waits for it.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.buffer_callback import buffer_callback
from jaxtyping import Array, Bool, Float

from credo.core.arrays import is_traced
from credo.core.errors import DataError
from credo.core.linalg import factor, lapack
from credo.core.special import LOG_2PI


def gaussian_log_evidence(
    covariance: Float[Array, "n n"], residual: Float[Array, "n"], mask: Bool[Array, "n"] | None = None
) -> Float[Array, ""]:
    """log N(residual | 0, covariance), differentiable once in reverse, under the one jitter policy.

    `covariance` is symmetric; one triangle of it is read. Where `mask` is False the row is padding: it
    changes neither the value nor the gradient.

    A covariance that is not positive definite raises `NotPositiveDefinite` when the arguments are
    concrete. Inside jit, grad or vmap the value is then -inf and the gradient zero, so that an optimizer
    or a sampler backs off; it is never NaN.
    """
    weight = jnp.ones(len(residual), residual.dtype) if mask is None else mask.astype(residual.dtype)
    padded = factor.pad_identity(covariance, mask)
    value = _log_evidence(padded, residual if mask is None else jnp.where(mask, residual, 0.0), weight)
    if not is_traced(value) and not bool(jnp.isfinite(value)):
        if not bool(jnp.isfinite(residual).all() if mask is None else jnp.isfinite(residual[mask]).all()):
            raise DataError("residual has entries that are NaN or infinite; check y and the mean it is taken from")
        factor.cholesky(covariance, "covariance", mask)  # raises, and says why
    return value


@jax.custom_vjp
def _log_evidence(
    covariance: Float[Array, "n n"], residual: Float[Array, "n"], weight: Float[Array, "n"]
) -> Float[Array, ""]:
    return _evaluate(covariance, residual, weight, False)[0]


def _forward(
    covariance: Float[Array, "n n"], residual: Float[Array, "n"], weight: Float[Array, "n"]
) -> tuple[Float[Array, ""], tuple[Float[Array, "n n"], Float[Array, "n"]]]:
    value, by_residual, by_covariance = _evaluate(covariance, residual, weight, True)
    return value, (by_covariance, by_residual)


def _backward(
    saved: tuple[Float[Array, "n n"], Float[Array, "n"]], change: Float[Array, ""]
) -> tuple[Float[Array, "n n"], Float[Array, "n"], None]:
    by_covariance, by_residual = saved
    return change * by_covariance, change * by_residual, None


_log_evidence.defvjp(_forward, _backward)


@partial(jax.jit, static_argnames="gradient")
def _evaluate(
    covariance: Float[Array, "n n"], residual: Float[Array, "n"], weight: Float[Array, "n"], gradient: bool
) -> tuple[Array, ...]:
    """(log p, ∂/∂residual[, ∂/∂covariance]), by LAPACK for a large matrix on a CPU and by XLA otherwise."""
    on_device = partial(_on_device, gradient=gradient)
    if len(residual) < lapack.HOST_SIZE:
        return on_device(covariance, residual, weight)
    on_host = partial(_on_host, gradient=gradient)
    return lax.platform_dependent(covariance, residual, weight, cpu=on_host, default=on_device)


def _on_device(
    covariance: Float[Array, "n n"], residual: Float[Array, "n"], weight: Float[Array, "n"], gradient: bool
) -> tuple[Array, ...]:
    result = factor.factorize(covariance, weight > 0)
    alpha = factor.solve(result.root, residual)
    value = -0.5 * (residual @ alpha + factor.log_determinant(result.root) + weight.sum() * LOG_2PI)
    ok = result.ok & jnp.isfinite(value)
    outputs = (jnp.where(ok, value, -jnp.inf), jnp.where(ok, -alpha, 0.0))
    if not gradient:
        return outputs
    slope = 0.5 * (jnp.outer(alpha, alpha) - factor.inverse(result.root))
    return *outputs, jnp.where(ok, slope, 0.0)


def _on_host(
    covariance: Float[Array, "n n"], residual: Float[Array, "n"], weight: Float[Array, "n"], gradient: bool
) -> tuple[Array, ...]:
    outputs = [jax.ShapeDtypeStruct((), residual.dtype), jax.ShapeDtypeStruct(residual.shape, residual.dtype)]
    if gradient:
        outputs.append(jax.ShapeDtypeStruct(covariance.shape, covariance.dtype))
    call = buffer_callback(_host, tuple(outputs), vmap_method="sequential")
    return call(covariance, residual, weight)


def _host(_: Any, out: tuple[Any, ...], *inputs: Any) -> None:
    """Fill the output buffers (log p, ∂/∂residual[, ∂/∂covariance]) in NumPy."""
    covariance, residual, weight = (np.asarray(buffer) for buffer in inputs)
    value, by_residual, *rest = (np.asarray(buffer) for buffer in out)
    work = rest[0] if rest else np.empty_like(covariance)
    value[...], by_residual[...] = evidence_on_host(covariance, residual, weight, work, bool(rest))
    if rest:
        lapack.mirror_inplace(work, scale=-0.5)


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
    _, ok = lapack.factor_inplace(work, covariance, weight, clean=False)
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
