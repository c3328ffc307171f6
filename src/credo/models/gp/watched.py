"""A Gaussian process watched at fixed candidates: each new row updates their predictions in O(n² + nm).

Choosing the next experiment among m candidates, one looks at the same m predictions after every row. With
V = L⁻¹k(X, C) kept, a row x with l = L⁻¹k(X, x) and s² = k(x, x) + noise - lᵀl changes them by one rank:

    c = (k(C, x) - Vᵀl)/s,    mean* += c (y - E[y])/s,    var* -= c²

New rows of L are kept beside it, not in it: the factor of the rows that came before is shared, not copied.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from credo.core.arrays import put
from credo.core.belief import Belief
from credo.core.linalg import demand, solve_lower
from credo.core.predictive import Normal
from credo.models.gp import posterior
from credo.models.gp.belief import GP
from credo.models.gp.posterior import Prior, Solved
from credo.models.gp.rows import Rows

ROOM = 32
"""Rows that are kept beside the factor before they become part of it."""


class Added(eqx.Module):
    """Rows since the factor was made: their inputs, their rows of L (left of and at the corner), and of V."""

    x: Float[Array, "r d"]
    left: Float[Array, "r c"]
    corner: Float[Array, "r r"]
    half: Float[Array, "r m"]
    z: Float[Array, " r"]
    """L⁻¹(y - m(X)) of these rows."""
    count: Int[Array, ""]


class Watched(Belief):
    """The belief at m candidates: make it with `gp.at(candidates)`, then `condition` and `predict()`."""

    gp: GP
    """The belief that the factor belongs to."""
    points: Float[Array, "m d"]
    half: Float[Array, "m c"]
    z: Float[Array, " c"]
    mean: Float[Array, " m"]
    variance: Float[Array, " m"]
    added: Added
    rows: Rows | None
    """The rows in `added`."""

    def statistics(self, *data: Any, **options: Any) -> Rows:
        """As the Gaussian process reads them."""
        return self.gp.statistics(*data, **options)

    def condition_on(self, statistics: Rows) -> "Watched":
        """The same candidates after more rows."""
        n = statistics.n
        if int(self.added.count) + n > ROOM:
            return watch(self.belief.condition_on(statistics), np.asarray(self.points))
        now, prior = self, self.gp.prior
        seen, solved = self.gp.conditioned()
        for x, y, scale, extra in zip(*statistics.cut(), strict=True):
            noise = prior.noise * scale + extra
            state = (now.points, now.half, now.z, now.mean, now.variance, now.added)
            mean, variance, added, ok = _absorb(prior, seen, solved, state, x, y, noise)
            demand(mean, ok, posterior.NOT_DEFINITE)
            now = eqx.tree_at(lambda w: (w.mean, w.variance, w.added), now, (mean, variance, added))
        rows = statistics if self.rows is None else self.rows + statistics
        return eqx.tree_at(lambda w: w.rows, now, rows, is_leaf=lambda v: v is None)

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(y | X, what was seen before)."""
        return self.belief.evidence_of(statistics)

    @property
    def belief(self) -> GP:
        """The Gaussian process after all rows."""
        return self.gp if self.rows is None else self.gp.condition_on(self.rows)

    def predict(self) -> Normal:
        """p(y* | data) at the candidates."""
        noise = put(np.full(self.mean.shape, self.gp.noise_variance()))
        return Normal(self.mean, noise, self.variance)


def watch(gp: GP, x: Any) -> Watched:
    """The belief at the candidates x of a Gaussian process that has seen data."""
    seen, solved = gp.conditioned()
    points = jnp.asarray(gp.queries(x))
    mean, variance, half, z = _begin(gp.prior, seen, solved, points)
    (m, d), c = points.shape, seen.capacity
    nothing = Added(
        jnp.zeros((ROOM, d)),
        jnp.zeros((ROOM, c)),
        jnp.eye(ROOM),
        jnp.zeros((ROOM, m)),
        jnp.zeros(ROOM),
        jnp.asarray(0),
    )
    return Watched(gp, points, half, z, mean, variance, nothing, None)


@eqx.filter_jit
def _begin(
    prior: Prior, seen: Rows, solved: Solved, x: Float[Array, "m d"]
) -> tuple[Float[Array, " m"], Float[Array, " m"], Float[Array, "m c"], Float[Array, " c"]]:
    cross = jnp.where(seen.mask[:, None], prior.kernel.gram(seen.x, x), 0.0)
    half = solve_lower(solved.root, cross)
    variance = prior.kernel.diagonal(x) - jnp.square(half).sum(0)
    return prior.mean(x) + cross.T @ solved.alpha, jnp.maximum(variance, 0.0), half.T, solved.root.T @ solved.alpha


@eqx.filter_jit
def _absorb(
    prior: Prior, seen: Rows, solved: Solved, state: Any, x: Any, y: Any, noise: Any
) -> tuple[Float[Array, " m"], Float[Array, " m"], Added, Bool[Array, ""]]:
    """One more row: the module's formulas, with L = [[root, 0], [left, corner]]."""
    points, half, z, mean, variance, added = state
    row = jnp.asarray(x)[None, :]
    there = jnp.arange(ROOM) < added.count
    first = solve_lower(solved.root, jnp.where(seen.mask, prior.kernel.gram(row, seen.x)[0], 0.0))
    among = jnp.where(there, prior.kernel.gram(row, added.x)[0] - added.left @ first, 0.0)
    second = solve_lower(added.corner, among)
    own = prior.kernel.diagonal(row)[0]
    squared = own + noise - first @ first - second @ second
    ok = squared > 0
    s = jnp.sqrt(jnp.where(ok, squared, 1.0))
    surprise = (y - prior.mean(row)[0] - first @ z - second @ added.z) / s
    change = (prior.kernel.gram(row, points)[0] - half @ first - second @ added.half) / s
    i = added.count
    more = Added(
        added.x.at[i].set(row[0]),
        added.left.at[i].set(first),
        added.corner.at[i].set(second).at[i, i].set(s),
        added.half.at[i].set(change),
        added.z.at[i].set(surprise),
        i + 1,
    )
    return mean + change * surprise, jnp.maximum(variance - jnp.square(change), 0.0), more, ok
