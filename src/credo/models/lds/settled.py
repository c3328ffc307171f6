"""Covariances that settle: the filter of a system that does not change, seen in full.

Covariances do not depend on what is seen, only on which numbers are. Where F, Q, H and R are the same at all times and
nothing is missing they come to rest at a geometric rate (`steady`), and the gains with them. So they are computed for
the first positions of a sequence, until a step changes nothing but rounding, and what is left is a pass of the mean:

    mₜ = (I - KₜH)Fmₜ₋₁ + Kₜ(xₜ - d) + (I - KₜH)c        K of the position t in the sequence, the last one for later t

Whether all this holds is seen while the program runs; where it does not (something is missing, an unseen state grows, a
variance shrinks for ever) the passes of `kalman` do the work. Anderson & Moore (1979), sections 4.4, 6.7; Durbin &
Koopman (2012), section 4.3.4.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from credo.core.special import LOG_2PI
from credo.models.lds.affine import affine, bounded, products, shifted_rows, varying_affine
from credo.models.lds.batched_matrices import each, sandwich
from credo.models.lds.kalman import Filtered, Start, Steps, begins, kalman_filter, update
from credo.models.sequences import Sequences

MOST = 512
"""Positions within which covariances settle, or else are computed at every row."""

SHORTEST = 1024
"""Rows below which covariances at every row cost little."""

CHANGE = 1e-14
"""A covariance has settled when a step changes it by less than this share of the standard deviations."""

HALVING = 8
"""A system forgets if 2⁸ steps halve an error, so that many small changes do not add up to a large one."""


class Gains(NamedTuple):
    """What the filter does at each position of a sequence (leading axis), or at all later ones."""

    covariance: Float[Array, "*t n n"]
    """P, filtered"""
    gain: Float[Array, "*t n p"]
    """K"""
    rest: Float[Array, "*t n n"]
    """I - KH"""
    onward: Float[Array, "*t n n"]
    """(I - KH)F"""
    white: Float[Array, "*t p p"]
    """W with WᵀW = S⁻¹ for the covariance S of what is new in an outcome; 0 for what was known"""
    level: Float[Array, "*t"]
    """-½ log|2πS|"""


class Settled(NamedTuple):
    """The gains of the positions 0 … MOST - 1; from `since` on they are the same."""

    gains: Gains
    since: Int[Array, ""]
    ok: Bool[Array, ""]
    """Whether they have settled, and every row was seen in full."""

    @property
    def late(self) -> Gains:
        """The gains of all later positions."""
        return Gains(*(a[-1] for a in self.gains))


class Pass(NamedTuple):
    """What a filter is given, with `start` and matrices that do not change but for drift and offset."""

    start: Start
    steps: Steps
    data: Sequences
    first: Bool[Array, " t"]
    """Where a sequence begins; the first row does where there is no `before`."""
    before: Start | None

    def general(self) -> Filtered:
        """The filter with a covariance of its own for each row."""
        return kalman_filter(self.start, self.steps, self.data.x, self.data.seen, self.first, self.before)

    @property
    def last(self) -> Int[Array, ""]:
        """The last row that is not padding."""
        return jnp.sum(self.data.real) - 1

    def worthwhile(self) -> bool:
        """Whether matrices do not change and there are many rows; only one sequence can go on from a law."""
        same = all(a is None for a in self.steps.varying()[:4])
        alone = self.data.alone or self.before is None
        return same and alone and self.data.complete and self.data.x.shape[0] >= SHORTEST


def settle(given: Pass) -> Settled:
    """The gains of every position, for a sequence that begins at `start`, or goes on from `before`."""
    steps, data = given.steps, given.data
    spread = given.start.covariance
    if given.before is not None:
        f = steps.transition
        onward = f @ given.before.covariance @ f.T + steps.noise
        spread = jnp.where(begins(given.first, given.before)[0], spread, onward)
    seen = jnp.all(data.seen == data.real[:, None])
    predicted, count, still = transient(spread, steps, seen)
    gains = gains_of(predicted, steps)
    late = gains.onward[-1]
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(a)) for a in gains])) & bounded(late, data.x.shape[0])
    return Settled(gains, count, still & _forgets(late, predicted[-1]) & finite & seen)


def transient(
    spread: Float[Array, "n n"], steps: Steps, wanted: Bool[Array, ""]
) -> tuple[Float[Array, "m n n"], Int[Array, ""], Bool[Array, ""]]:
    """Predicted covariances of the positions 0 … MOST - 1, from which on they are the same, and whether they are."""
    now = _matrices(steps)
    nothing, seen = jnp.zeros((spread.shape[0], 1)), jnp.ones((now.emission.shape[0], 1), bool)

    def onward(last: Float[Array, "n n 1"]) -> Float[Array, "n n 1"]:
        return sandwich(now.transition, update(nothing, last, now, jnp.zeros(seen.shape), seen)[1]) + now.noise

    return until_still(onward, spread, None, wanted)


def until_still(
    onward: Any, first: Float[Array, "n n"], law: Float[Array, "n n"] | None, wanted: Bool[Array, ""]
) -> tuple[Float[Array, "m n n"], Int[Array, ""], Bool[Array, ""]]:
    """P, onward(P), onward(onward(P)) … until nothing changes, relative to the standard deviations of `law` (or P).

    Returns a table of MOST, from which position on it is the same, and whether it has settled.
    """

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        i, table, last, _ = state
        new = onward(last)
        scale = _scale(new[..., 0] if law is None else law)
        still = jnp.all(jnp.abs(new - last)[..., 0] <= CHANGE * scale[:, None] * scale)
        return i + 1, jax.lax.dynamic_update_index_in_dim(table, new[..., 0], i + 1, 0), new, still

    def unsettled(state: tuple[Any, ...]) -> Bool[Array, ""]:
        return wanted & (state[0] < MOST - 1) & ~state[3]

    table = jnp.zeros((MOST, *first.shape)).at[0].set(first)
    origin = (jnp.asarray(0), table, first[..., None], jnp.asarray(False))
    count, table, _, still = jax.lax.while_loop(unsettled, step, origin)
    return table[jnp.minimum(jnp.arange(MOST), count)], count, still


def _scale(law: Float[Array, "n n"]) -> Float[Array, " n"]:
    return jnp.sqrt(jnp.maximum(jnp.diagonal(law), 0.0))


def _forgets(onward: Float[Array, "n n"], law: Float[Array, "n n"]) -> Bool[Array, ""]:
    """Whether many steps halve an error of the mean, relative to the standard deviations of a law."""
    for _ in range(HALVING):
        onward = onward @ onward
    scale = _scale(law)
    return jnp.all(jnp.abs(onward) * scale <= 0.5 * scale[:, None])


def _matrices(steps: Steps) -> Steps:
    """F, Q, H and R with an axis for blocks; drift and offset are 0."""
    return jax.tree.map(lambda a: a[..., None], Steps.of(*steps[:4]))


def gains_of(predicted: Float[Array, "m n n"], steps: Steps) -> Gains:
    """The gains for predicted covariances: what an update does with a unit of each outcome, all side by side."""
    now, (m, n, _), p = _matrices(steps), predicted.shape, steps.emission.shape[0]
    nothing, seen = jnp.zeros((p, 1)), jnp.ones((p, p), bool)
    _, covariance, _, trail = update(jnp.zeros((n, m)), jnp.moveaxis(predicted, 0, -1), now, nothing, seen[:, :1])
    # A state that is known leaves nothing of an update but the elimination in R.
    shares = update(jnp.zeros((n, 1)), jnp.zeros((n, n, 1)), now, jnp.eye(p), seen)[3].surprise

    def one(gain: Float[Array, "n p m"], j: Any) -> tuple[Array, Array]:
        surprise = shares[j][:, None] - jnp.sum(trail.row[j][:, None] * gain, axis=0)
        return gain + trail.gain[j][:, None] * surprise, surprise

    gain, surprise = each(p, one, jnp.zeros((n, p, m)))
    gain = jnp.moveaxis(gain, -1, 0)
    white = jnp.moveaxis(jnp.sqrt(trail.weight)[:, None] * surprise, -1, 0)
    known = trail.weight == 0
    level = 0.5 * jnp.sum(jnp.where(known, 0.0, jnp.log(jnp.where(known, 1.0, trail.weight)) - LOG_2PI), axis=0)
    rest = jnp.eye(n) - gain @ steps.emission
    return Gains(jnp.moveaxis(covariance, -1, 0), gain, rest, rest @ steps.transition, white, level)


# -- the pass ----------------------------------------------------------------------------------------------------------


def settled_means(settled: Settled, given: Pass) -> tuple[Float[Array, "t n"], Float[Array, " t"]]:
    """Filtered means, and log p(xₜ | x₁…xₜ₋₁)."""
    start, steps, data, first, before = given
    fresh = begins(first, before)
    fresh = fresh.at[1:].set(False) if data.alone else fresh  # padding goes on with the only sequence
    y = data.x - steps.offset
    drift = jnp.broadcast_to(steps.drift, (y.shape[0], start.mean.shape[0]))
    if before is not None:
        drift = drift.at[0].add(steps.transition @ before.mean)
    drift = jnp.where(fresh[:, None], start.mean, drift)
    mean, increments = (_one if data.alone else _several)(settled, steps, y, drift, fresh)
    return mean, jnp.where(data.real, increments, 0.0)


def _one(settled: Settled, steps: Steps, y: Any, drift: Any, fresh: Any) -> tuple[Array, Array]:
    """One sequence: a matrix for each of the first rows, and one for all later ones."""
    early, late = settled.gains, settled.late
    head = varying_affine(early.onward, _terms(early, y[:MOST], drift[:MOST]), jnp.zeros(drift.shape[1]))
    # What the later matrix would have to add to lead to the same means.
    added = head - shifted_rows(head) @ late.onward.T
    mean = affine(late.onward, _terms(late, y, drift).at[:MOST].set(added))
    surprise = y - (drift + shifted_rows(mean) @ steps.transition.T) @ steps.emission.T
    return mean, _log_density(late, surprise).at[:MOST].set(_log_density(early, surprise[:MOST]))


def _several(settled: Settled, steps: Steps, y: Any, drift: Any, fresh: Any) -> tuple[Array, Array]:
    """Several sequences: a matrix for each row, by its position."""
    gains = at_positions(settled, fresh)
    slope = jnp.where(fresh[:, None, None], 0.0, gains.onward)
    mean = varying_affine(slope, _terms(gains, y, drift), jnp.zeros(drift.shape[1]))
    last = jnp.where(fresh[:, None], 0.0, shifted_rows(mean))
    return mean, _log_density(gains, y - (drift + last @ steps.transition.T) @ steps.emission.T)


def _terms(gains: Gains, y: Float[Array, "t p"], drift: Float[Array, "t n"]) -> Float[Array, "t n"]:
    """Ky + (I - KH)c."""
    return products(gains.gain, y) + products(gains.rest, drift)


def _log_density(gains: Gains, surprise: Float[Array, "t p"]) -> Float[Array, " t"]:
    """log N(v; 0, S)."""
    return gains.level - 0.5 * jnp.sum(products(gains.white, surprise) ** 2, axis=1)


def at_positions(settled: Settled, fresh: Bool[Array, " t"]) -> Gains:
    """The gains of every row."""
    rows = jnp.arange(fresh.shape[0])
    position = rows - jax.lax.cummax(jnp.where(fresh, rows, 0))
    return Gains(*(a[jnp.minimum(position, settled.since)] for a in settled.gains))


def filter_sequences(given: Pass) -> Filtered:
    """`kalman_filter`, with covariances that are computed once where they settle."""
    if not given.worthwhile():
        return given.general()
    settled = settle(given)

    def quick() -> Filtered:
        mean, increments = settled_means(settled, given)
        if given.data.alone:
            late = jnp.broadcast_to(settled.late.covariance, (*mean.shape, mean.shape[1]))
            return Filtered(mean, late.at[:MOST].set(settled.gains.covariance), increments)
        return Filtered(mean, at_positions(settled, begins(given.first, given.before)).covariance, increments)

    return jax.lax.cond(settled.ok, quick, given.general)


def filter_to_the_end(given: Pass) -> Start:
    """The law of the state at the last row."""

    def of(found: Filtered) -> Start:
        return Start(found.mean[given.last], found.covariance[given.last])

    if not (given.worthwhile() and given.data.alone):
        return of(filter_sequences(given))
    settled = settle(given)

    def quick() -> Start:
        at = jnp.minimum(given.last, MOST - 1)
        return Start(settled_means(settled, given)[0][given.last], settled.gains.covariance[at])

    return jax.lax.cond(settled.ok, quick, lambda: of(given.general()))
