"""A Gaussian process watched at fixed candidates: each new row updates their predictions in O(n² + nm).

Choosing the next experiment among m candidates, one looks at the same m predictions after every row. With
V = L⁻¹k(X, C) kept, a row x with l = L⁻¹k(X, x) and s² = k(x, x) + noise - lᵀl changes them by one rank:

    c = (k(C, x) - Vᵀl)/s,    mean* += c (y - E[y])/s,    var* -= c²

New rows of L are kept beside it, not in it: the factor of the rows that came before is shared, not copied.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from credo.core.arrays import put
from credo.core.belief import Belief
from credo.core.linalg import demand, lapack, solve_lower
from credo.core.predictive import Normal
from credo.models.gp import exact
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.exact import Prior, Solved

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
        prior, (seen, solved) = self.gp.prior, self.gp.conditioned()
        absorb = _absorb_on_host if exact.on_host(seen.capacity, self, statistics) else _absorb
        now = self.mean, self.variance, self.added
        for x, y, scale, extra in zip(*statistics.cut(), strict=True):
            noise = float(prior.noise) * scale + extra
            mean, variance, added, ok = absorb(prior, seen, solved, self, *now, x, y, noise)
            demand(mean, ok, exact.NOT_DEFINITE)
            now = mean, variance, added
        rows = statistics if self.rows is None else self.rows + statistics
        return Watched(self.gp, self.points, self.half, self.z, *now, rows)

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


class Look(NamedTuple):
    """What the kernel says of a new row: its covariance with what there is, its variance, and its mean."""

    seen: Float[Array, " c"]
    added: Float[Array, " r"]
    points: Float[Array, " m"]
    own: Float[Array, ""]
    mean: Float[Array, ""]


def _look(prior: Prior, seen: Rows, added: Added, points: Any, x: Any) -> Look:
    row = jnp.asarray(x)[None, :]
    k = prior.kernel
    return Look(
        jnp.where(seen.mask, k.gram(row, seen.x)[0], 0.0),
        jnp.where(jnp.arange(ROOM) < added.count, k.gram(row, added.x)[0], 0.0),
        k.gram(row, points)[0],
        k.diagonal(row)[0],
        prior.mean(row)[0],
    )


Absorbed = tuple[Float[Array, " m"], Float[Array, " m"], Added, Bool[Array, ""]]


@eqx.filter_jit
def _absorb(
    prior: Prior,
    seen: Rows,
    solved: Solved,
    fixed: Watched,
    mean: Float[Array, " m"],
    variance: Float[Array, " m"],
    added: Added,
    x: Any,
    y: Any,
    noise: Any,
) -> Absorbed:
    """Mean, variance and added rows after one more row, and whether its variance was positive."""
    look = _look(prior, seen, added, fixed.points, x)
    first = solve_lower(solved.root, look.seen)
    return _border(added, look, mean, variance, x, y, noise, first, fixed.half @ first, fixed.z @ first)


def _absorb_on_host(
    prior: Prior, seen: Rows, solved: Solved, fixed: Watched, mean: Any, variance: Any, added: Added, *row: Any
) -> Absorbed:
    """The same with what reads the large matrices in BLAS: XLA would copy the factor to transpose it."""
    look = _look_compiled(prior, seen, added, fixed.points, row[0])
    first = lapack.solve_vector(np.asarray(solved.root), np.asarray(look.seen))
    explained, known = np.asarray(fixed.half) @ first, np.asarray(fixed.z) @ first
    return _border_compiled(added, look, mean, variance, *row, first, explained, known)


def _border(
    added: Added,
    look: Look,
    mean: Float[Array, " m"],
    variance: Float[Array, " m"],
    x: Any,
    y: Any,
    noise: Any,
    first: Any,
    explained: Any,
    known: Any,
) -> Absorbed:
    """The new row (first, second, s) of L = [[root, 0], [left, corner]], and what it does to the candidates.

    `explained` is V₁ᵀfirst at the candidates and `known` what the rows in the factor say of y.
    """
    i, first = added.count, jnp.asarray(first)
    there = jnp.arange(ROOM) < i
    second = solve_lower(added.corner, jnp.where(there, look.added - added.left @ first, 0.0))
    squared = look.own + noise - first @ first - second @ second
    ok = squared > 0
    s = jnp.sqrt(jnp.where(ok, squared, 1.0))
    surprise = (y - look.mean - known - second @ added.z) / s
    change = (look.points - explained - second @ added.half) / s
    more = Added(
        added.x.at[i].set(x),
        added.left.at[i].set(first),
        added.corner.at[i].set(second).at[i, i].set(s),
        added.half.at[i].set(change),
        added.z.at[i].set(surprise),
        i + 1,
    )
    return mean + change * surprise, jnp.maximum(variance - jnp.square(change), 0.0), more, ok


_look_compiled: Any = eqx.filter_jit(_look)
_border_compiled: Any = eqx.filter_jit(_border)
