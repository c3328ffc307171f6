"""The Kalman filter and the fixed-interval smoother.

    zₜ = Fₜzₜ₋₁ + cₜ + qₜ,  qₜ ~ N(0, Qₜ)        xₜ = Hₜzₜ + dₜ + vₜ,  vₜ ~ N(0, Rₜ)

    filter      p(zₜ | x₁…xₜ) = N(mₜ, Pₜ), and log p(xₜ | x₁…xₜ₋₁)
    smoother    p(zₜ | x₁…x_T) = N(mₜ + Pₜsₜ, Pₜ - PₜMₜPₜ)  with  sₜ = Fᵀrₜ₊₁,  Mₜ = FᵀNₜ₊₁F

Observed numbers come in one at a time, made independent by elimination in Rₜ = LDLᵀ: nothing is factorized, what is
missing is left out, and Q, R and the covariances may be singular. Covariances are updated in Joseph's form, a sum of
positive terms. On the way back, r and N say what later numbers tell of the predicted state (they are also the slopes of
log p(x), see `score`), so nothing is inverted there either:

    through an observation    r ← h v/f + (I - khᵀ)ᵀr,    N ← hhᵀ/f + (I - khᵀ)ᵀN(I - khᵀ)
    through a transition      r ← Fᵀr,                    N ← FᵀNF

Both passes forget, so they run in blocks (`core.scan`). Several sequences lie one after the other; `first` marks where
each begins. In every function of a single time arrays have one more, last axis, "_", for the blocks.

Durbin & Koopman (2012), sections 4.3-4.5, 6.4; de Jong (1989); Särkkä & Svensson (2023), ch. 6, 12.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, namespace
from credo.core.scan import Counter, scan
from credo.core.special import LOG_2PI
from credo.models.lds.batched_matrices import (
    apply,
    each,
    identity,
    inner,
    outer,
    sandwich,
    symmetric,
    transposed,
)
from credo.models.sequences import begins_of
from credo.models.state_laws import FilteredStates, SmoothedStates

T = TypeVar("T")
Law = tuple[Array, Array]
Varying = tuple[Array | None, ...]
Row = tuple[Varying, Array, Array, Array]
"""What a pass reads of one time: matrices that vary, the outcome, what of it was seen, whether a sequence begins."""


class SystemMatrices(NamedTuple):
    """The matrices of a linear dynamical system: one for all times, or one for each (leading axis t).

    Element t leads into time t: at the first time of a sequence `transition`, `process_noise` and `drift` are not used.
    """

    transition: Float[Array, "... n n"]
    """F"""
    process_noise: Float[Array, "... n n"]
    """Q, the covariance of what is new in the state"""
    emission: Float[Array, "... p n"]
    """H"""
    observation_noise: Float[Array, "... p p"]
    """R, the covariance of the noise in what is observed"""
    drift: Float[Array, "... n"]
    """c"""
    offset: Float[Array, "... p"]
    """d"""
    start_drift: Float[Array, "... n"] | None = None
    """What inputs add to the mean of the start, where a sequence begins; None is nothing."""

    @classmethod
    def of(cls, transition: Array, process_noise: Array, emission: Array, observation_noise: Array) -> "SystemMatrices":
        """Without drift and offset."""
        p, n = emission.shape[-2:]
        return cls(transition, process_noise, emission, observation_noise, np.zeros(n), np.zeros(p))

    def varying(self) -> Varying:
        """The fields that differ from time to time; None for the others."""
        return tuple(a if a is not None and a.ndim > rank else None for a, rank in zip(self, RANKS, strict=True))

    def at(self, varying: Varying) -> "SystemMatrices":
        """The matrices of one time, given its element of `varying`."""
        return SystemMatrices(*(a if v is None else v for a, v in zip(self, varying, strict=True)))  # type: ignore[arg-type]

    def with_blocks(self) -> "SystemMatrices":
        """With a last axis for blocks."""
        return self._replace(**{name: a[..., None] for name, a in self._asdict().items() if a is not None})


RANKS = (2, 2, 2, 2, 1, 1, 1)


class StateLaw(NamedTuple):
    """N(mean, covariance), the law of a state: of the first in a sequence, or of the latest."""

    mean: Float[Array, "n ..."]
    covariance: Float[Array, "n n ..."]

    def with_blocks(self) -> "StateLaw":
        """With a last axis for blocks."""
        return StateLaw(*(a[..., None] for a in self))


class FilterInputs(NamedTuple):
    """What a filter is given."""

    start: StateLaw
    """Of the first state of a sequence."""
    system: SystemMatrices
    x: Float[Array, "t p"]
    seen: Bool[Array, "t p"]
    first: Bool[Array, " t"]
    """Where a sequence begins; the first row does where there is no `before`."""
    before: StateLaw | None = None
    """The law of the state just before the first row, where the rows go on with a sequence."""

    @property
    def begins(self) -> Bool[Array, " t"]:
        """Which rows begin a sequence."""
        return begins_of(self.first) if self.before is None else self.first

    def rows(self) -> Row:
        """What differs from time to time, as a pass reads it."""
        return self.system.varying(), self.x, self.seen, self.begins


class Innovations(NamedTuple):
    """What each observed number did to the law of the state, in the order in which they came in."""

    row: Float[Array, "p n ..."]
    """h, after elimination"""
    gain: Float[Array, "p n ..."]
    """k = Ph/f"""
    weight: Float[Array, "p ..."]
    """1/f, 0 for a number that was known"""
    surprise: Float[Array, "p ..."]
    """v = y - hᵀm"""


class Backward(NamedTuple):
    """What later numbers tell of the predicted state of a time, and its smoothed law."""

    r: Float[Array, "n ..."]
    n: Float[Array, "n n ..."]
    mean: Float[Array, "n ..."]
    covariance: Float[Array, "n n ..."]


def predict(m: Float[Array, "n ..."], p: Float[Array, "n n ..."], now: SystemMatrices) -> Law:
    """The law N(Fm + c, FPFᵀ + Q) of the next state."""
    return apply(now.transition, m) + now.drift, sandwich(now.transition, p) + now.process_noise


def predict_or_begin(start: StateLaw, last: Law, now: SystemMatrices, begins: Bool[Array, "..."]) -> Law:
    """The law of a state before its outcome, from that of the state before; at the start where a sequence `begins`."""
    m, p = predict(*last, now)
    xp = namespace(start, m, p)
    return xp.where(begins, first_mean(start, now), m), xp.where(begins, start.covariance, p)


def first_mean(start: StateLaw, now: SystemMatrices) -> Float[Array, "n ..."]:
    """The mean of the first state of a sequence, given the inputs there."""
    return start.mean if now.start_drift is None else start.mean + now.start_drift


def update(
    m: Float[Array, "n ..."],
    p: Float[Array, "n n ..."],
    now: SystemMatrices,
    x: Float[Array, "p ..."],
    seen: Bool[Array, "p ..."],
    tell: bool = True,
) -> tuple[Array, Array, Array, Innovations | None]:
    """Bayes' rule for the state on the seen numbers of x, one after the other, their log density, and the way there.

    For y = hᵀz + e, e ~ N(0, r), with f = hᵀPh + r and k = Ph/f:  m + k(y - hᵀm), (I - khᵀ)P(I - khᵀ)ᵀ + rkkᵀ. A number
    that is known already (f = 0) says nothing.
    """
    xp, outputs = namespace(m, p, now, x), x.shape[0]
    mask = seen.astype(m.dtype)
    order = np.arange(outputs).reshape(-1, *[1] * (x.ndim - 1))
    r = now.observation_noise * outer(mask, mask) + identity(now.observation_noise) * (1 - mask)
    y = (x - now.offset) * mask

    def one(state: tuple[Array, ...], j: Counter) -> tuple[tuple[Array, ...], Innovations | None]:
        m, p, total, r, h, y = state
        row, d = h[j], r[j, j]
        ph = apply(p, row)
        f = inner(row, ph) + d
        known = f <= 0
        f = xp.where(known, 1.0, f)
        weight = xp.where(known, 0.0, 1 / f)
        gain, surprise = ph * weight, y[j] - inner(row, m)
        rest = p - outer(gain, ph)
        p = symmetric(rest - outer(apply(rest, row) - d * gain, gain))
        total = total - 0.5 * (xp.log(f) + surprise**2 * weight + xp.where(known, 0.0, mask[j] * LOG_2PI))
        if outputs > 1:
            lever = xp.where((order > j) & (d > 0), r[:, j] / xp.where(d > 0, d, 1.0), 0.0)
            r, h, y = r - outer(lever, r[j]), h - outer(lever, row), y - lever * y[j]
        told = Innovations(row, gain, weight, surprise) if tell else None
        return (m + gain * surprise, p, total, r, h, y), told

    state: tuple[Array, ...] = (m, p, xp.zeros(m.shape[1:]), r, now.emission * mask[:, None], y)
    (m, p, total, *_), innovations = each(outputs, one, state)
    return m, p, total, innovations


def filter_step(
    start: StateLaw, last: Law, now: SystemMatrices, x: Array, seen: Array, begins: Array, tell: bool = True
) -> tuple[Law, tuple[Array, Array, Array, Innovations | None]]:
    """The filtered law of a state from that of the one before; it again, log p(xₜ | x₁…xₜ₋₁), and the way there."""
    found = update(*predict_or_begin(start, last, now, begins), now, x, seen, tell)
    return found[:2], found


def forward_pass(given: FilterInputs, tell: bool = True) -> tuple[FilteredStates, Innovations | None]:
    """p(zₜ | x₁…xₜ) and log p(xₜ | x₁…xₜ₋₁) for every t, and the `Innovations` that the way back needs, if asked."""

    def step(
        last: Law, row: Row, start: StateLaw, system: SystemMatrices
    ) -> tuple[Law, tuple[Array, Array, Array, Innovations | None]]:
        varying, x, seen, begins = row
        return filter_step(start, last, system.at(varying), x, seen, begins, tell)

    mean, covariance = given.start if given.before is None else given.before
    *laws, told = scan(step, (mean, covariance), given.rows(), given=(given.start, given.system))[1]
    return FilteredStates(*laws), told


def kalman_filter(given: FilterInputs) -> FilteredStates:
    """p(zₜ | x₁…xₜ) and log p(xₜ | x₁…xₜ₋₁) for every t."""
    return forward_pass(given, tell=False)[0]


def before_each(given: FilterInputs, filtered: FilteredStates) -> tuple[Float[Array, "t n"], Float[Array, "t n n"]]:
    """The filtered law of the time before each row."""
    xp = namespace(given, filtered)
    mean, covariance = (filtered.mean[0], filtered.covariance[0]) if given.before is None else given.before
    return (
        xp.concatenate([mean[None], filtered.mean[:-1]]),
        xp.concatenate([covariance[None], filtered.covariance[:-1]]),
    )


def back_step(
    later: Law,
    law: Law,
    told: Innovations,
    now: SystemMatrices,
    begins: Bool[Array, "..."],
) -> tuple[Law, Backward]:
    """One step back with (s, M) of the filtered law of zₜ: (s, M) of that of zₜ₋₁."""
    (m, p), xp = law, namespace(later, law, told, now)
    smoothed = m + apply(p, later[0]), p - sandwich(p, later[1])

    def one(state: Law, j: Counter) -> tuple[Law, None]:
        r, n = state
        row, gain, weight = told.row[j], told.gain[j], told.weight[j]
        along = apply(n, gain)
        r = r + row * (weight * told.surprise[j] - inner(gain, r))
        n = n - outer(along, row) - outer(row, along) + outer(row, row) * (inner(gain, along) + weight)
        return (r, n), None

    (r, n), _ = each(len(told.weight), one, later, reverse=True)
    onward = transposed(now.transition)
    before = xp.where(begins, 0.0, apply(onward, r)), xp.where(begins, 0.0, sandwich(onward, n))
    return before, Backward(r, n, *smoothed)


def back_pass(
    given: FilterInputs,
    filtered: FilteredStates,
    told: Innovations | None,
    keep: Callable[[Backward], T],
) -> T:
    """What is kept of `Backward` at every time."""
    if told is None:
        told = forward_pass(given)[1]

    def step(later: Law, row: tuple[Law, Innovations, Varying, Array], system: SystemMatrices) -> tuple[Law, T]:
        law, told, varying, begins = row
        later, found = back_step(later, law, told, system.at(varying), begins)
        return later, keep(found)

    nothing: Law = np.zeros(given.start.mean.shape), np.zeros(given.start.covariance.shape)
    rows = ((filtered.mean, filtered.covariance), told, given.system.varying(), given.begins)
    return scan(step, nothing, rows, given=(given.system,), reverse=True)[1]


def kalman_smoother(given: FilterInputs, filtered: FilteredStates, told: Innovations | None = None) -> SmoothedStates:
    """p(zₜ | x₁…x_T) for every t."""
    laws = back_pass(given, filtered, told, lambda found: (found.mean, found.covariance))
    return SmoothedStates(*laws, filtered.increments)


def following(varying: Varying) -> Varying:
    """The matrices that lead out of each time; those out of the last are not used."""
    xp = namespace(varying)
    return tuple(None if a is None else xp.concatenate([a[1:], a[-1:]]) for a in varying)
