"""Smoothed covariances that settle: the smoother of one sequence of a system that does not change, seen in full.

    P'ₜ = Cov(zₜ | zₜ₊₁, x₁…xₜ) + JP'ₜ₊₁Jᵀ,        Cov(zₜ₊₁, zₜ) = P'ₜ₊₁Jᵀ

From the end, where P' = P, they come to rest after a few rows, stay for as long as the filter's P does, and change
again towards the beginning: two short tables and one matrix for all rows in between. What is left is a pass of the
mean, m'ₜ = Jm'ₜ₊₁ + mₜ - J(Fmₜ + c), and EM has its sums of covariances without looking at the rows.

Rauch, Tung & Striebel (1965); Anderson & Moore (1979), section 7.4.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from credo.models.lds.affine import affine, bounded, products, shifted_rows, varying_affine
from credo.models.lds.batched_matrices import sandwich, side_by_side, solve_semidefinite, times, transposed
from credo.models.lds.kalman import Filtered, Smoothed, Steps, begins, following, rts_smoother
from credo.models.lds.settled import MOST, Pass, Settled, filter_sequences, settle, settled_means, until_still
from credo.models.sequences import Sequences


class Backs(NamedTuple):
    """What the smoother does at each position of a sequence, the same from where the filter has settled."""

    slope: Float[Array, "m n n"]
    """J"""
    spread: Float[Array, "m n n"]
    """Cov(zₜ | zₜ₊₁, x₁…xₜ) = (I - JF)P(I - JF)ᵀ + JQJᵀ"""


class Ends(NamedTuple):
    """Smoothed covariances of the first rows, and of the last ones counted from the end."""

    head: Float[Array, "m n n"]
    tail: Float[Array, "m n n"]
    begin: Int[Array, ""]
    """From this row on those of the middle."""
    end: Int[Array, ""]
    """From this distance to the end on those of the middle."""

    @property
    def middle(self) -> Float[Array, "n n"]:
        """Of all rows in between."""
        return self.tail[-1]


class Spreads(NamedTuple):
    """Sums of smoothed covariances over rows, as EM needs them."""

    later: Float[Array, "n n"]
    """of zₜ, rows t that follow another"""
    earlier: Float[Array, "n n"]
    """of zₜ₋₁, the same rows"""
    cross: Float[Array, "n n"]
    """Cov(zₜ, zₜ₋₁), the same rows"""
    begin: Float[Array, "n n"]
    """rows that begin a sequence"""
    shown: Float[Array, "n n"]
    """rows of which something was seen"""


@side_by_side
def _back(p: Float[Array, "n n _"], now: Steps) -> Backs:
    slope = transposed(solve_semidefinite(sandwich(now.transition, p) + now.noise, times(now.transition, p)))
    rest = jnp.eye(p.shape[0])[:, :, None] - times(slope, now.transition)
    return Backs(slope, sandwich(rest, p) + sandwich(slope, now.noise))


def backs_of(settled: Settled, steps: Steps) -> Backs:
    """What the smoother does at each position."""
    return jax.vmap(lambda p: _back(p, Steps.of(*steps[:4])))(settled.gains.covariance)


def ends_of(settled: Settled, backs: Backs, given: Pass) -> tuple[Ends, Bool[Array, ""]]:
    """The smoothed covariances of one sequence, and whether they settle between its beginning and its end."""
    law = settled.late.covariance
    slope, spread = (a[-1, ..., None] for a in backs)
    tail, end, still = until_still(lambda later: sandwich(slope, later) + spread, law, law, settled.ok)

    def earlier(i: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        later, table = state
        at = settled.since - 1 - i
        new = sandwich(backs.slope[at][..., None], later) + backs.spread[at][..., None]
        return new, jax.lax.dynamic_update_index_in_dim(table, new[..., 0], at, 0)

    middle = tail[-1]
    turns = jnp.where(settled.ok & still, settled.since, 0)
    head = jax.lax.fori_loop(0, turns, earlier, (middle[..., None], jnp.broadcast_to(middle, tail.shape)))[1]
    calm = bounded(backs.slope[-1], given.data.x.shape[0]) & jnp.all(jnp.isfinite(head))
    return Ends(head, tail, settled.since, end), settled.ok & still & calm & (settled.since + end <= given.last)


def smoothed_means(backs: Backs, given: Pass, mean: Float[Array, "t n"]) -> Float[Array, "t n"]:
    """m'ₜ for every row, from the filtered means; padding keeps those."""
    drift = following(given.steps.varying())[4]
    ahead = mean @ given.steps.transition.T + (given.steps.drift if drift is None else drift)
    inside = jnp.arange(mean.shape[0]) < given.last
    ahead = jnp.where(inside[:, None], ahead, shifted_rows(mean, reverse=True))
    late = backs.slope[-1]
    found = affine(late, mean - products(late, ahead), reverse=True)
    level = mean[:MOST] - products(backs.slope, ahead[:MOST])
    return found.at[:MOST].set(varying_affine(backs.slope, level, found[MOST], reverse=True))


def covariances(ends: Ends, given: Pass) -> Float[Array, "t n n"]:
    """P' of every row."""
    row = jnp.arange(given.data.x.shape[0])
    from_the_end = jnp.clip(given.last - row, 0, MOST - 1)
    early = (row < ends.begin)[:, None, None]
    return jnp.where(early, ends.head[jnp.minimum(row, MOST - 1)], ends.tail[from_the_end])


def smooth_sequences(given: Pass) -> tuple[Float[Array, " t"], Smoothed]:
    """log p(xₜ | x₁…xₜ₋₁), and `rts_smoother`, with covariances that are computed once where they settle."""

    def general(found: Filtered) -> tuple[Array, Smoothed]:
        return found.increments, rts_smoother(given.steps, found, given.first)

    if not (given.worthwhile() and given.data.alone):
        return general(filter_sequences(given))
    settled = settle(given)
    backs = backs_of(settled, given.steps)
    ends, ok = ends_of(settled, backs, given)

    def quick() -> tuple[Array, Smoothed]:
        mean, increments = settled_means(settled, given)
        return increments, Smoothed(smoothed_means(backs, given, mean), covariances(ends, given))

    return jax.lax.cond(ok, quick, lambda: general(given.general()))


# -- sums --------------------------------------------------------------------------------------------------------------


def spreads_of(data: Sequences, smoothed: Smoothed, fresh: Bool[Array, " t"]) -> Spreads:
    """The sums over rows; `fresh` marks real rows that begin a sequence."""
    assert smoothed.cross is not None

    def total(rows: Bool[Array, " k"], p: Float[Array, "k n n"]) -> Float[Array, "n n"]:
        return (rows.astype(float) @ p.reshape(len(p), -1)).reshape(p.shape[1:])

    p, follows = smoothed.covariance, (data.real & ~fresh)[1:]
    pairs = total(follows, p[1:]), total(follows, p[:-1]), total(follows, smoothed.cross[:-1])
    return Spreads(*pairs, total(fresh, p), total(jnp.any(data.seen, axis=1), p))


def settled_spreads(ends: Ends, backs: Backs, given: Pass) -> Spreads:
    """The sums over the rows of one sequence, from its two ends."""
    position = jnp.arange(MOST)
    head = jnp.where((position < ends.begin)[:, None, None], ends.head, 0.0)
    tail = jnp.where((position < ends.end)[:, None, None], ends.tail, 0.0)
    late = (given.last - ends.begin - ends.end) * ends.middle + tail.sum(0)  # rows after `begin`
    whole = head.sum(0) + ends.middle + late
    following = jnp.concatenate([ends.head[1:], ends.middle[None]]) @ jnp.swapaxes(backs.slope, 1, 2)
    cross = jnp.where((position < ends.begin)[:, None, None], following, 0.0).sum(0) + late @ backs.slope[-1].T
    first = jnp.where(begins(given.first, given.before)[0], ends.head[0], 0.0)
    return Spreads(whole - ends.head[0], whole - ends.tail[0], cross, first, whole)


def smooth_for_sums(given: Pass) -> tuple[Float[Array, "t n"], Spreads, Float[Array, ""]]:
    """Smoothed means, the sums of covariances and log p(x), of rows that were seen in full or not at all."""

    def general(found: Filtered) -> tuple[Array, Spreads, Array]:
        smoothed = rts_smoother(given.steps, found, given.first, cross=True)
        fresh = begins(given.first, given.before) & given.data.real
        return smoothed.mean, spreads_of(given.data, smoothed, fresh), found.log_likelihood

    if not (given.worthwhile() and given.data.alone):
        return general(filter_sequences(given))
    settled = settle(given)
    backs = backs_of(settled, given.steps)
    ends, ok = ends_of(settled, backs, given)

    def quick() -> tuple[Array, Spreads, Array]:
        mean, increments = settled_means(settled, given)
        return smoothed_means(backs, given, mean), settled_spreads(ends, backs, given), increments.sum()

    return jax.lax.cond(ok, quick, lambda: general(given.general()))
