"""Linear functionals of a field, Lf = Σⱼ wⱼ f(pⱼ): averages over blocks, differences of neighbouring values.

    E[Lf]   = Σⱼ wⱼ m(pⱼ) + k̄ᵀ K⁻¹ (y - m(X)),      k̄  = Σⱼ wⱼ k(X, pⱼ)
    Var[Lf] = Σᵢⱼ wᵢ wⱼ k(pᵢ, pⱼ) - k̄ᵀ K⁻¹ k̄

Of a `NeighboursGP` K and k̄ are those of the rows nearest to the middle of the points, and the trend is what all rows
say of it. Chilès & Delfiner (2012), "Geostatistics", §3.5 (block kriging).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.linalg import demand, solve_each, solve_lower
from credo.models.gp import exact
from credo.models.gp.belief import GP
from credo.models.gp.large.base import in_chunks
from credo.models.gp.large.nearest import nearest_of
from credo.models.gp.large.neighbours import NeighboursGP
from credo.models.gp.large.vecchia import Neighbourhoods, known_covariances, trend_columns

JOINT = 512
"""Points whose covariance exists at a time, where a belief gives that of all of them."""


class Functionals(NamedTuple):
    """The joint law of r functionals at each of m places."""

    mean: Float[np.ndarray, "m r"]
    covariance: Float[np.ndarray, "m r r"]


def linear_functionals(
    belief: Any, points: Float[np.ndarray, "m q d"], weights: Float[np.ndarray, "q r"], spare: float = 0.0
) -> Functionals:
    """Σⱼ wⱼ f(pⱼ) at each of m sets of q points, for r sets of weights.

    `spare` is a variance of its own at each point that is no part of the field: that of a group nobody has seen.
    """
    m, q, _ = points.shape
    of: Callable[[Any, np.ndarray, np.ndarray], Functionals]
    if isinstance(belief, GP):
        of, cuts = _exactly, in_chunks(m, q * max(len(belief.seen.x), q))
    elif isinstance(belief, NeighboursGP):
        of, cuts = _of_nearest, in_chunks(m, (belief.asked + q) ** 2)
    else:
        step = max(JOINT // q, 1)
        of, cuts = _of_joint, [slice(i, i + step) for i in range(0, m, step)]
    parts = [of(belief, points[cut], weights) for cut in cuts]
    mean, covariance = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Functionals(mean, covariance - spare * (weights.T @ weights))


def _exactly(belief: GP, points: np.ndarray, weights: np.ndarray) -> Functionals:
    prior, rows, solved = belief.prior, belief.seen, belief.solved
    (m, q, d), r = points.shape, weights.shape[1]
    flat = points.reshape(m * q, d)
    cross = np.asarray(prior.kernel.between(flat, rows.x)).reshape(m, q, -1)
    cross = np.einsum("mqn,qr->nmr", cross, weights).reshape(-1, m * r)
    half = np.asarray(solve_lower(solved.root, cross)).reshape(-1, m, r)
    near = Neighbourhoods(points, np.zeros((m, q, 1)), np.zeros((m, q)), np.ones((m, q), bool))
    before = weights.T @ known_covariances(prior.kernel, near) @ weights
    mean = np.asarray(prior.mean.at(flat)).reshape(m, q) @ weights + (cross.T @ solved.alpha).reshape(m, r)
    return Functionals(mean, before - np.einsum("nmr,nms->mrs", half, half))


def _of_nearest(belief: NeighboursGP, points: np.ndarray, weights: np.ndarray) -> Functionals:
    kernel, trend = belief.parts()
    (m, q, d), rows = points.shape, belief.seen
    index, _ = nearest_of(kernel, rows.x, points.mean(1), belief.asked)
    k = index.shape[1]
    x = np.concatenate([rows.x[index], points], axis=1)
    noise = np.asarray(belief.noise_variance() * rows.scale + rows.extra)[index]
    noise = np.concatenate([noise, np.zeros((m, q))], axis=1)
    near = Neighbourhoods(x, np.zeros((*noise.shape, 1)), noise, np.ones(noise.shape, bool))
    whole = known_covariances(kernel, near)
    cross = whole[:, :k, k:] @ weights
    solved, ok = solve_each(whole[:, :k, :k], cross)
    b = demand(solved, ok, exact.NOT_DEFINITE)
    flat = points.reshape(m * q, d)
    columns, seen = (np.asarray(trend_columns(trend, v)) for v in (flat, rows.x))
    h = np.einsum("mqp,qr->mrp", columns.reshape(m, q, -1), weights) - np.einsum("mkr,mkp->mrp", b, seen[index])
    left = np.asarray(rows.y - belief.mean.at(rows.x))[index]
    mean = np.asarray(belief.mean.at(flat)).reshape(m, q) @ weights + np.einsum("mkr,mk->mr", b, left)
    covariance = weights.T @ whole[:, k:, k:] @ weights - np.einsum("mkr,mks->mrs", cross, b)
    if h.shape[2]:
        mean = mean + h @ np.asarray(belief.solved.mean)
        half = np.asarray(solve_lower(belief.solved.root, h.reshape(-1, h.shape[2]).T)).reshape(h.shape[2], m, -1)
        covariance = covariance + np.einsum("pmr,pms->mrs", half, half)
    return Functionals(mean, covariance)


def _of_joint(belief: Any, points: np.ndarray, weights: np.ndarray) -> Functionals:
    """Of a belief that gives joint predictions."""
    m, q, d = points.shape
    f = belief.function_at(points.reshape(-1, d), joint=True)
    own = np.asarray(f.covariance).reshape(m, q, m, q)[np.arange(m), :, np.arange(m)]
    return Functionals(np.asarray(f.mean).reshape(m, q) @ weights, weights.T @ own @ weights)
