"""Maps between numbers under a constraint θ and unconstrained ones u, in either library; leading axes are batches.

positive             θ = eᵘ
unit interval        θ = 1 / (1 + e⁻ᵘ)
simplex              stick breaking: θⱼ = zⱼ Πᵢ<ⱼ (1 - zᵢ), zⱼ = σ(uⱼ - log(k - j)), so that u = 0 is uniform
positive definite    θ = LLᵀ, u the entries of L below its diagonal, row by row, and the logarithms of the diagonal
ordered vector       θ₀ = u₀, θⱼ = θⱼ₋₁ + eᵘʲ
real                 θ = u
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from credo.core.arrays import Array, namespace, special

Shape = tuple[int, ...]


class Bijector(NamedTuple):
    """A map from unconstrained numbers to constrained ones and back."""

    forward: Callable[[Array], Array]
    inverse: Callable[[Array], Array]
    log_slope: Callable[[Array], Array]
    """Σ log |det ∂θ/∂u| at u."""
    bend: Callable[[Array], Array]
    """The gradient of `log_slope`."""
    inverse_shape: Callable[[Shape], Shape] = lambda shape: shape


def _sticks(u: Array) -> Array:
    """The logits of what each part takes of the rest of the stick."""
    return u - np.log(np.arange(u.shape[-1], 0, -1))


def _to_simplex(u: Array) -> Array:
    xp, limits = namespace(u), np.finfo(float)
    taken = xp.clip(special(u).expit(_sticks(u)), limits.tiny, 1 - limits.eps)
    one = xp.ones_like(u, shape=(*u.shape[:-1], 1))
    return xp.concatenate([taken, one], axis=-1) * xp.concatenate([one, xp.cumprod(1 - taken, axis=-1)], axis=-1)


def _from_simplex(v: Array) -> Array:
    xp, first = namespace(v), v[..., :-1]
    rest = xp.maximum(1 - xp.cumsum(first, axis=-1), np.finfo(float).tiny)
    return xp.log(first / rest) + np.log(np.arange(v.shape[-1] - 1, 0, -1))


def _simplex_slope(u: Array) -> Array:
    """Σⱼ log zⱼ + (k - j) log(1 - zⱼ)."""
    xp, x = namespace(u), _sticks(u)
    return -(xp.logaddexp(0.0, -x) + np.arange(u.shape[-1], 0, -1) * xp.logaddexp(0.0, x)).sum()


def _simplex_bend(u: Array) -> Array:
    return 1.0 - np.arange(u.shape[-1] + 1, 1, -1) * special(u).expit(_sticks(u))


def _size(u: Array) -> int:
    return round((math.sqrt(1 + 8 * u.shape[-1]) - 1) / 2)


def _to_positive_definite(u: Array) -> Array:
    xp, n = namespace(u), _size(u)
    entries = xp.concatenate([u[..., :-n], xp.exp(u[..., -n:]), xp.zeros_like(u[..., :1])], axis=-1)
    where = np.full((n, n), entries.shape[-1] - 1)
    where[np.tril_indices(n, -1)] = np.arange(entries.shape[-1] - 1 - n)
    where[np.diag_indices(n)] = np.arange(entries.shape[-1] - 1 - n, entries.shape[-1] - 1)
    root = entries[..., where]
    return root @ xp.swapaxes(root, -2, -1)


def _from_positive_definite(v: Array) -> Array:
    xp = namespace(v)
    try:
        root = xp.linalg.cholesky(v)
    except np.linalg.LinAlgError:  # as XLA says it
        root = np.full_like(v, np.nan)
    below = root[(..., *np.tril_indices(v.shape[-1], -1))]
    return xp.concatenate([below, xp.log(xp.diagonal(root, axis1=-2, axis2=-1))], axis=-1)


def _positive_definite_slope(u: Array) -> Array:
    """n log 2 + Σᵢ (n - i) log Lᵢᵢ of LLᵀ by L, i = 0 …, and Σ log Lᵢᵢ of the diagonal by its logarithms."""
    return (_size(u) * math.log(2) + (u * _positive_definite_bend(u)).sum(-1)).sum()


def _positive_definite_bend(u: Array) -> np.ndarray:
    n = _size(u)
    return np.broadcast_to(np.concatenate([np.zeros(u.shape[-1] - n), np.arange(n + 1, 1, -1)]), u.shape)


def _to_ordered(u: Array) -> Array:
    xp = namespace(u)
    return xp.cumsum(xp.concatenate([u[..., :1], xp.exp(u[..., 1:])], axis=-1), axis=-1)


def _from_ordered(v: Array) -> Array:
    xp = namespace(v)
    return xp.concatenate([v[..., :1], xp.log(v[..., 1:] - v[..., :-1])], axis=-1)


BIJECTORS = {
    "real": Bijector(lambda u: u, lambda v: v, lambda u: np.zeros(()), lambda u: np.zeros(u.shape)),
    "positive": Bijector(
        lambda u: namespace(u).exp(u), lambda v: namespace(v).log(v), lambda u: u.sum(), lambda u: np.ones(u.shape)
    ),
    "unit_interval": Bijector(
        lambda u: special(u).expit(u),
        lambda v: namespace(v).log(v) - namespace(v).log1p(-v),
        lambda u: -(namespace(u).logaddexp(u, 0.0) + namespace(u).logaddexp(-u, 0.0)).sum(),
        lambda u: 1.0 - 2.0 * special(u).expit(u),
    ),
    "simplex": Bijector(
        _to_simplex, _from_simplex, _simplex_slope, _simplex_bend, lambda shape: (*shape[:-1], shape[-1] - 1)
    ),
    "positive_definite": Bijector(
        _to_positive_definite,
        _from_positive_definite,
        _positive_definite_slope,
        _positive_definite_bend,
        lambda shape: (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2),
    ),
    "ordered_vector": Bijector(
        _to_ordered,
        _from_ordered,
        lambda u: u[..., 1:].sum(),
        lambda u: np.broadcast_to(np.arange(u.shape[-1]) > 0, u.shape).astype(float),
    ),
}
"""By the kind of the constraint."""
