"""EM for factor models: the factors z are hidden, and so are entries that were not seen.

    E    of each column j, over the rows that show it, the moments of ẑ = (z, 1) and xⱼ:  A = Σ E[ẑẑᵀ], b = Σ xⱼE[ẑ]
    M    (wⱼ, μⱼ) = A⁻¹b,   ψⱼ = (Σxⱼ² - 2(wⱼ, μⱼ)ᵀb + (wⱼ, μⱼ)ᵀA(wⱼ, μⱼ))/n

for rows seen in full from the d × d moments. Plain EM crawls: the law of z is then made N(0, I) again by a linear map,
which W and μ take over (parameter expansion), and `infer.EM` extrapolates on top.

With `prior="ard"` wⱼₖ | ψⱼ ~ N(0, ψⱼ/αₖ), αₖ ~ Gamma(a, b), integrated out: columns of W that explain nothing vanish.
Rubin & Thayer (1982); Liu, Rubin & Wu (1998), "Parameter expansion to accelerate EM"; Bishop (1999), "Bayesian PCA".
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.models.conjugate.matrix import roots
from credo.models.factor.low_rank import Parameters, blocks, log_likelihood_of_moments, look, squares_about
from credo.models.factor.statistics import Rows

FLOOR = 1e-6
"""Noise variances stay above this share of their column's variance."""
SHAPE = RATE = 1e-3
"""Of the Gamma law of the precisions: next to nothing is known of them."""


class Expected(NamedTuple):
    """Expected sums over the rows that show each column, of x - μ and ẑ = (z, 1), μ that of the E-step."""

    zz: Float[Array, "d h h"]
    xz: Float[Array, "d h"]
    xx: Float[Array, " d"]
    every: Float[Array, "h h"]
    """Σ E[ẑẑᵀ] over all rows."""


def expect(p: Parameters, rows: Rows) -> tuple[Expected, Float[Array, ""]]:
    """The E-step, and log p(rows)."""
    xp, (d, l) = namespace(p, rows), p.w.shape
    zz, xz, xx = xp.zeros((d, l + 1, l + 1)), xp.zeros((d, l + 1)), xp.zeros(d)
    every, log_lik = xp.zeros((l + 1, l + 1)), xp.zeros(())
    if rows.moments is not None:
        n, about, gap = rows.moments.count, squares_about(rows.moments, p.mean), rows.moments.mean - p.mean
        inverse, _ = p.of_complete()
        beta = inverse @ p.scaled.T
        every = _with_one(n * inverse + beta @ about @ beta.T, n * beta @ gap, n)
        zz = xp.broadcast_to(every, zz.shape)
        xz = xp.concatenate([about @ beta.T, (n * gap)[:, None]], axis=1)
        xx, log_lik = xp.diagonal(about), log_likelihood_of_moments(p, rows.moments)
    for cut in blocks(rows.partial, xp is np):
        seen, weights = rows.seen[cut], rows.weights[cut]
        found = look(p, rows.x[cut], seen)
        m, o = len(weights), weights[:, None] * seen
        ez = xp.concatenate([found.mean, xp.ones((m, 1))], axis=1)
        square = ez[:, :, None] * ez[:, None, :] + xp.pad(found.covariance, ((0, 0), (0, 1), (0, 1)))
        y = xp.where(seen, rows.x[cut] - p.mean, 0.0)
        zz = zz + (o.T @ square.reshape(m, -1)).reshape(zz.shape)
        every = every + xp.einsum("r,rhk->hk", weights, square)
        xz, xx = xz + (weights[:, None] * y).T @ ez, xx + weights @ y**2
        log_lik = log_lik + weights @ found.log_prob
    return Expected(zz, xz, xx, every), log_lik


def maximize(
    p: Parameters, expected: Expected, isotropic: bool, ard: bool = False, fixed: tuple[str, ...] = ()
) -> Parameters:
    """The M-step for what is not `fixed`; in coordinates x - μ, so that the constant is how far μ moves."""
    zz, xz, xx, every = expected
    xp, (d, l) = namespace(p, expected), p.w.shape
    penalty = precisions(p) if ard else xp.zeros(l)
    v = _coefficients(p, expected, penalty, fixed)
    left = xx - 2 * (v * xz).sum(1) + xp.einsum("dh,dhk,dk->d", v, zz, v)
    count = zz[:, -1, -1]
    spread = xx / count - (xz[:, -1] / count) ** 2
    if ard:
        left, count = left + (penalty * v[:, :l] ** 2).sum(1), count + l
    noise = xp.full(d, left.sum() / count.sum()) if isotropic else left / count
    noise = xp.maximum(noise, FLOOR * (spread.mean() if isotropic else spread))
    w, move = v[:, :l], v[:, l]
    if not ard and l and not {"w", "mean"} & set(fixed):  # z ~ N(m, K) in the wider model: x = (μ + Wm) + (W root K)z'
        m = every[:l, l] / every[l, l]
        move, w = move + w @ m, w @ roots(every[:l, :l] / every[l, l] - m[:, None] * m)
    return Parameters(p.mean + move, w, noise)


def precisions(p: Parameters) -> Float[Array, " l"]:
    """E[αₖ | W, Ψ]."""
    return (SHAPE + p.w.shape[0] / 2) / (RATE + relevance(p) / 2)


def relevance(p: Parameters) -> Float[Array, " l"]:
    """Σⱼ wⱼₖ²/ψⱼ: how many times the noise a factor shows, summed over columns."""
    return (p.w**2 / p.noise[:, None]).sum(0)


def log_prior(p: Parameters) -> Float[Array, ""]:
    """log p(W | Ψ), the precisions integrated out, up to a constant."""
    xp, (d, l) = namespace(p), p.w.shape
    return -(SHAPE + d / 2) * xp.log(RATE + relevance(p) / 2).sum() - 0.5 * l * xp.log(p.noise).sum()


def _coefficients(
    p: Parameters, expected: Expected, penalty: Float[Array, " l"], fixed: tuple[str, ...]
) -> Float[Array, "d h"]:
    """(wⱼ, move of μⱼ), given what is fixed of them."""
    zz, xz, _, _ = expected
    xp, l = namespace(p, expected), p.w.shape[1]
    matrix = zz + xp.diag(xp.concatenate([penalty, xp.zeros(1)]))
    if "w" in fixed:
        move = (xz[:, l] - (zz[:, l, :l] * p.w).sum(1)) / zz[:, l, l]
        return xp.concatenate([p.w, (0.0 * move if "mean" in fixed else move)[:, None]], axis=1)
    if "mean" in fixed:
        w = xp.linalg.solve(matrix[:, :l, :l], xz[:, :l, None])[:, :, 0]
        return xp.concatenate([w, xp.zeros((len(w), 1))], axis=1)
    return xp.linalg.solve(matrix, xz[:, :, None])[:, :, 0]


def _with_one(zz: Float[Array, "l l"], z: Float[Array, " l"], count: Float[Array, ""]) -> Float[Array, "h h"]:
    """The second moments of (z, 1)."""
    xp = namespace(zz, z, count)
    last = xp.concatenate([z, xp.reshape(xp.asarray(count), (1,))])
    return xp.concatenate([xp.concatenate([zz, z[:, None]], axis=1), last[None]], axis=0)
