"""Vecchia's approximation: each outcome given its nearest earlier ones.

    p(y) ≈ Π p(yᵢ | y_N(i)),    b = K_NN⁻¹k,  v = [-b, 1]:   yᵢ | y_N ~ N(bᵀy_N, d),   d = vᵀKv,   r = vᵀy

A trend φ(x)ᵀw with w ~ N(0, I) is integrated out: h = vᵀΦ, and all conditionals together say A = I + Σ hhᵀ/d of it.
The derivatives need none of the solves, since Kv is zero at the neighbours:

    ∂d = vᵀ∂K v,    ∂r = -aᵀ(∂K v)_N,  a = K_NN⁻¹y_N

and from a random part of the conditionals, with neighbours from all rows, the sums are unbiased. Vecchia (1988);
Datta, Banerjee, Finley & Gelfand (2016), "Hierarchical nearest-neighbor Gaussian process models"; Guinness (2021),
"Gaussian process learning via Fisher scoring of Vecchia's approximation".
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, held, is_traced, namespace
from credo.core.linalg import (
    cholesky,
    demand,
    factorize,
    log_determinant,
    pad_identity,
    plus_diagonal,
    solve,
    solve_each,
    solve_lower,
    solve_upper,
)
from credo.core.padding import bucket, pad_rows
from credo.kernels import Constant, Kernel
from credo.kernels.elementary import FromFeatures
from credo.models.gp.exact import NOT_DEFINITE
from credo.models.gp.means import Mean


class Neighbourhoods(NamedTuple):
    """Rows with their neighbours, the row itself last; what is not `real` is padding."""

    x: Float[Array, "s c d"]
    values: Float[Array, "s c q"]
    """y - m(x), and the columns of the trend."""
    noise: Float[Array, "s c"]
    real: Bool[Array, "s c"]

    @property
    def masked(self) -> Float[Array, "s c q"]:
        """The values, zero on padding."""
        return namespace(self.values, self.real).where(self.real[:, :, None], self.values, 0.0)


class Trend(eqx.Module):
    """What is known of the weights of the trend, N(0, I) before data: their mean, and the factor of the precision."""

    mean: Float[Array, " p"]
    root: Float[Array, "p p"]

    @classmethod
    def unknown(cls, p: int) -> "Trend":
        """Before data."""
        return cls(np.zeros(p), np.eye(p))

    def draw(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n p"]:
        """n draws of the weights."""
        p = len(self.mean)
        if not p:
            return np.zeros((n, 0))
        return (np.asarray(self.mean)[:, None] + np.asarray(solve_upper(self.root, rng.normal(size=(p, n))))).T


def split_mean(kernel: Kernel, mean: Mean) -> tuple[Kernel, Kernel | None]:
    """The kernel of the conditionals, and that of the trend, where it is one of finitely many columns."""
    trend = mean.kernel()
    if trend is None or isinstance(trend, Constant | FromFeatures):
        return kernel, trend
    return kernel + trend, None


def trend_columns(trend: Kernel | None, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
    """Φ with ΦΦᵀ the covariance of the trend."""
    xp = namespace(x, trend)
    match trend:
        case Constant():
            return xp.sqrt(trend.number("variance")) * xp.ones((x.shape[0], 1))
        case FromFeatures(features=features, covariance=s):
            phi = features(x)
            return phi @ cholesky(s, "the covariance of the weights") if s.ndim == 2 else phi * namespace(s).sqrt(s)
    return xp.zeros((x.shape[0], 0))


def covariances(kernel: Kernel, near: Neighbourhoods) -> Float[Array, "s c c"]:
    """K of each neighbourhood, with noise; the identity where it is padding."""

    def one(x: Array, noise: Array, real: Array) -> Array:
        return pad_identity(plus_diagonal(kernel.gram(x, x), noise), real)

    return jax.vmap(one)(near.x, near.noise, near.real)


_compiled = eqx.filter_jit(covariances)


def known_covariances(kernel: Kernel, near: Neighbourhoods) -> Float[np.ndarray, "s c c"]:
    """`covariances` of numbers that are known, compiled for a bucket."""
    size = bucket(len(near.x))
    return np.asarray(_compiled(kernel, Neighbourhoods(*(pad_rows(np.asarray(v), size) for v in near))))[: len(near.x)]


def solutions(k: Float[Array, "s c c"], near: Neighbourhoods) -> tuple[Float[Array, "s e p"], Any]:
    """K_NN⁻¹ [k, values_N] of each neighbourhood, constants to derivatives; and whether all were positive definite."""
    k, values = held((k, near.masked))
    xp = namespace(k, values)
    return solve_each(k[:, :-1, :-1], xp.concatenate([k[:, :-1, -1:], values[:, :-1]], axis=2))


def solved_covariances(kernel: Kernel, near: Neighbourhoods) -> tuple[Float[Array, "s c c"], Float[Array, "s e p"]]:
    """K of each neighbourhood, and K_NN⁻¹ [k, values_N]; an error where one is not positive definite."""
    k = (covariances if is_traced(kernel, near) else known_covariances)(kernel, near)
    return k, demand(*solutions(k, near), NOT_DEFINITE)


def conditionals(
    k: Float[Array, "s c c"], near: Neighbourhoods, solved: Float[Array, "s e p"]
) -> tuple[Float[Array, "s q"], Float[Array, " s"]]:
    """(r and h, d) of each row given its neighbours, with derivatives that stop at the solves; d is no less than noise.

    Without noise rounding may leave a d below zero.
    """
    xp = namespace(k, near.values, solved)
    v = xp.concatenate([-solved[:, :, 0], xp.ones((len(k), 1))], axis=1)
    kv = xp.einsum("sij,sj->si", k, v)
    r = xp.einsum("si,siq->sq", v, near.masked) - xp.einsum("si,siq->sq", kv[:, :-1], solved[:, :, 1:])
    return r, xp.maximum((v * kv).sum(1), near.noise[:, -1])


def log_evidence(
    residuals: Float[Array, "s q"], d: Float[Array, " s"], before: Trend, weight: float | Array = 1.0
) -> tuple[Float[Array, ""], Trend]:
    """Σ log p(yᵢ | y_N), each counting `weight` times, with the trend integrated out; and what is known of it then."""
    xp = namespace(residuals, d, before)
    h = residuals[:, 1:]
    r = residuals[:, 0] - h @ before.mean
    ones = weight * xp.ones(len(d))
    plain = -0.5 * (ones * (np.log(2 * np.pi) + xp.log(d) + r * r / d)).sum()
    if not h.shape[1]:
        return plain, before
    scaled = h * (ones / d)[:, None]
    precision = before.root @ before.root.T + scaled.T @ h
    root = factorize(precision).root
    said = scaled.T @ r
    half = solve_lower(root, said)
    gained = 0.5 * (half @ half - log_determinant(root) + log_determinant(before.root))
    return plain + gained, Trend(before.mean + solve(root, said), root)
