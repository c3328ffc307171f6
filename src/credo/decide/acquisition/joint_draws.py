"""`Baseline`: joint draws of the function at points that new ones are compared with.

With f(B) ~ N(μ, LLᵀ) at the points B and base normals z, a draw is μ + Lz, and given it, with w(x) = L⁻¹ cov(B, x),

    f(x) | f(B) ~ N(μ(x) + w(x)ᵀz, cov(x, x) - w(x)ᵀw(x))

The base normals are fixed, so that a score that averages over the draws is a smooth function of x.
Wilson, Hutter & Deisenroth (2018), "Maximizing acquisition functions for Bayesian optimization".
"""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.linalg import factorize, solve_lower
from credo.core.padding import bucket, pad_rows
from credo.decide.acquisition.base import deviation
from credo.decide.acquisition.checks import Beliefs, Covaries, demand_covariance, single
from credo.infer.quasi_random import normals
from credo.models.gp.base import GaussianProcess

T = TypeVar("T")
Square = Float[Array, "m m"]
Mask = Bool[Array, " m"] | None


class Baseline(eqx.Module):
    """r points (some of them padding), s draws of ±f there, and s base normals for q points to come."""

    points: Float[Array, "r d"]
    mask: Bool[Array, " r"]
    mean: Float[Array, " r"]
    root: Float[Array, "r r"]
    normals: Float[Array, "s r"]
    fresh: Float[Array, "s q"]
    best: Float[Array, " s"]
    """The largest value of each draw, and at least the incumbent where there is one; -inf where there is neither."""

    @property
    def deviations(self) -> Float[Array, "s r"]:
        """The draws minus their mean."""
        return self.normals @ self.root.T

    def explained(self, belief: Covaries, x: Float[Array, "m d"]) -> Float[Array, "r m"]:
        """w = L⁻¹ cov(B, x)."""
        if not len(self.mask):
            return np.zeros((0, x.shape[0]))
        between = belief.covariance(self.points, x)
        return solve_lower(self.root, namespace(between, self.mask).where(self.mask[:, None], between, 0.0))


def baseline(
    belief: Beliefs,
    maximize: bool,
    draws: int,
    q: int,
    size: int,
    seed: int,
    *,
    rows: Array | None = None,
    pending: Array | None = None,
    best: Array | float | None = None,
) -> Baseline:
    """The draws of ±f at the pending points and at the rows that may be the best one, for q points to come.

    Of the rows, those of the largest mean + 2 std are kept so that no more than `size` points are drawn; pending ones
    are always kept. `best` is an incumbent that is known, in the units of ±f.
    """
    known = demand_covariance(belief, "a joint draw")
    points = [np.asarray(v) for v in (pending, rows) if v is not None]
    room = size - (0 if pending is None else len(points[0]))
    if rows is not None and len(points[-1]) > room:
        points[-1] = points[-1][promising(known, points[-1], maximize)[: max(room, 1)]]
    table = np.concatenate(points) if points else np.zeros((0, 1))
    n = len(table)
    r = 0 if n == 0 else (bucket(n) if rows is None else max(size, bucket(n)))
    base = normals(draws, q + r, seed) if q + r else np.zeros((draws, 0))
    mask, fresh, own = np.arange(r) < n, base[:, :q], base[:, q:]
    least = np.full(draws, -np.inf if best is None else float(best))
    if n == 0:
        return Baseline(table, mask, np.zeros(0), np.zeros((0, 0)), own, fresh, least)
    places = pad_rows(table, r)
    mean = host(known.predict(places).mean) * (1.0 if maximize else -1.0)
    root = host(root_of(known, places, known.covariance(places, places), mask))
    values = np.where(mask, mean + own @ root.T, -np.inf)
    return Baseline(places, mask, mean, root, own, fresh, np.maximum(least, values.max(1)))


def promising(belief: Beliefs, rows: np.ndarray, maximize: bool) -> np.ndarray:
    """The rows in the order of mean + 2 std, largest first."""
    prediction = host(single(belief).predict(rows))
    mean = prediction.mean * (1.0 if maximize else -1.0)
    return np.argsort(-(mean + 2 * np.sqrt(prediction.epistemic)), kind="stable")


def stacked(function: Callable[[Array], T], x: Float[Array, "b q d"]) -> T:
    """The function of each set of points, its results stacked: one program where x is traced."""
    if is_traced(x):
        return jax.vmap(function)(x)
    return jax.tree.map(lambda *leaves: np.stack(host(leaves)), *map(function, x))


def root_of(belief: object, x: Float[Array, "m d"], covariance: Square, mask: Mask = None) -> Square:
    """L with LLᵀ = covariance + what rounding leaves unknown of it, which keeps L regular where f is known."""
    m, xp = x.shape[0], namespace(covariance, mask)
    if isinstance(belief, GaussianProcess):
        capacity = 0 if belief.seen is None else belief.seen.x.shape[0]
        floor = (m + capacity) * np.finfo(float).eps * belief.prior.kernel.variance_at(x).max()
    else:
        floor = 1e-12 * xp.diagonal(covariance).max()
    factor = factorize(covariance + floor * np.eye(m), mask)
    alone = xp.diag(deviation(xp.diagonal(covariance)))
    return xp.where(factor.ok, factor.root, alone if mask is None else xp.where(mask[:, None], alone, np.eye(m)))
