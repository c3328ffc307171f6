"""The Kalman filter and the smoother of Rauch, Tung and Striebel.

    zₜ = Fₜzₜ₋₁ + cₜ + qₜ,  qₜ ~ N(0, Qₜ)        xₜ = Hₜzₜ + dₜ + vₜ,  vₜ ~ N(0, Rₜ)

    filter      p(zₜ | x₁…xₜ) = N(mₜ, Pₜ), and log p(xₜ | x₁…xₜ₋₁)
    smoother    p(zₜ | x₁…x_T) = N(mₜ + J(m'ₜ₊₁ - Fmₜ - c), (I - JF)Pₜ(I - JF)ᵀ + J(P'ₜ₊₁ + Q)Jᵀ)  with
                J = PₜFᵀ(FPₜFᵀ + Q)⁻¹

Observed numbers come in one at a time, made independent by elimination in Rₜ = LDLᵀ: nothing is factorized, what is
missing is left out, and Q, R and the covariances may be singular. Covariances are updated in Joseph's form, a sum of
positive terms. Both passes forget, so they run in blocks (`core.recursion`); lengths that are buckets
(`core.padding.bucket`) cut best. Several sequences lie one after the other; `first` marks where each begins.

Durbin & Koopman (2012), sections 4.3, 6.4; Rauch, Tung & Striebel (1965); Särkkä & Svensson (2023), ch. 6, 12.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from credo.core.scan import recur
from credo.core.special import LOG_2PI
from credo.models.lds.batched_matrices import (
    apply,
    each,
    inner,
    outer,
    sandwich,
    side_by_side,
    solve_semidefinite,
    symmetric,
    times,
    transposed,
)


class Steps(NamedTuple):
    """The matrices of a linear dynamical system: one for all times, or one for each (leading axis t).

    Element t leads into time t: at the first time of a sequence `transition`, `noise` and `drift` are not used.
    """

    transition: Float[Array, "... n n"]
    """F"""
    noise: Float[Array, "... n n"]
    """Q, the covariance of what is new in the state"""
    emission: Float[Array, "... p n"]
    """H"""
    observation: Float[Array, "... p p"]
    """R, the covariance of the noise in what is observed"""
    drift: Float[Array, "... n"]
    """c"""
    offset: Float[Array, "... p"]
    """d"""

    @classmethod
    def of(cls, transition: Any, noise: Any, emission: Any, observation: Any, drift: Any = 0, offset: Any = 0) -> Any:
        """From arrays; drift and offset are 0 unless given."""
        p, n = emission.shape[-2:]
        drift = jnp.zeros(n) if isinstance(drift, int) else drift
        offset = jnp.zeros(p) if isinstance(offset, int) else offset
        return cls(transition, noise, emission, observation, drift, offset)

    def varying(self) -> tuple[Any, ...]:
        """The fields that differ from time to time; None for the others."""
        return tuple(a if a.ndim > rank else None for a, rank in zip(self, RANKS, strict=True))

    def at(self, varying: tuple[Any, ...]) -> "Steps":
        """The matrices of one time, given its element of `varying`."""
        return Steps(*(a if v is None else v for a, v in zip(self, varying, strict=True)))


RANKS = (2, 2, 2, 2, 1, 1)


class Start(NamedTuple):
    """N(mean, covariance), the law of a state: of the first in a sequence, or of the latest."""

    mean: Float[Array, " n"]
    covariance: Float[Array, "n n"]


class Filtered(NamedTuple):
    """p(zₜ | x₁…xₜ) = N(mean, covariance) for every t, and what each outcome adds to the log-likelihood."""

    mean: Float[Array, "t n"]
    covariance: Float[Array, "t n n"]
    increments: Float[Array, " t"]

    @property
    def log_likelihood(self) -> Float[Array, ""]:
        """log p(x₁…x_T) = Σₜ log p(xₜ | x₁…xₜ₋₁)."""
        return jnp.sum(self.increments)


class Smoothed(NamedTuple):
    """p(zₜ | x₁…x_T) = N(mean, covariance) for every t."""

    mean: Float[Array, "t n"]
    covariance: Float[Array, "t n n"]
    cross: Float[Array, "t n n"] | None = None
    """Cov(zₜ₊₁, zₜ | x₁…x_T), where it was asked for; 0 at the end of a sequence."""


class Trail(NamedTuple):
    """What each observed number did to the law of the state, in the order in which they came in."""

    row: Float[Array, "p n _"]
    """h, after elimination"""
    gain: Float[Array, "p n _"]
    """k = Ph/f"""
    weight: Float[Array, "p _"]
    """1/f, 0 for a number that was known"""
    surprise: Float[Array, "p _"]
    """y - hᵀm"""


def predict(m: Float[Array, "n _"], p: Float[Array, "n n _"], step: Steps) -> tuple[Array, Array]:
    """The law N(Fm + c, FPFᵀ + Q) of the next state; every array here and in `update` has an axis for blocks, b."""
    return apply(step.transition, m) + step.drift, sandwich(step.transition, p) + step.noise


def update(
    m: Float[Array, "n _"], p: Float[Array, "n n _"], step: Steps, x: Float[Array, "p _"], seen: Bool[Array, "p _"]
) -> tuple[Array, Array, Array, Trail]:
    """Bayes' rule for the state on the seen numbers of x, one after the other, their log density, and the way there.

    For y = hᵀz + e, e ~ N(0, r), with f = hᵀPh + r and k = Ph/f:  m + k(y - hᵀm), (I - khᵀ)P(I - khᵀ)ᵀ + rkkᵀ. A number
    that is known already (f = 0) says nothing.
    """
    outputs = x.shape[0]
    mask = seen.astype(m.dtype)
    below = jnp.tril(jnp.ones((outputs, outputs)), -1)[:, :, None]
    r = step.observation * outer(mask, mask) + jnp.eye(outputs)[:, :, None] * (1 - mask)
    y = (x - step.offset) * mask

    def one(state: tuple[Array, ...], j: Any) -> tuple[tuple[Array, ...], Trail]:
        m, p, total, r, h, y = state
        row, d = h[j], r[j, j]
        ph = apply(p, row)
        f = inner(row, ph) + d
        known = f <= 0
        f = jnp.where(known, 1.0, f)
        weight = jnp.where(known, 0.0, 1 / f)
        gain, surprise = ph * weight, y[j] - inner(row, m)
        rest = p - outer(gain, ph)
        p = symmetric(rest - outer(apply(rest, row) - d * gain, gain))
        total = total - 0.5 * (jnp.log(f) + surprise**2 * weight + jnp.where(known, 0.0, mask[j] * LOG_2PI))
        lever = below[:, j] * r[:, j] * jnp.where(d > 0, 1 / jnp.where(d > 0, d, 1.0), 0.0)
        after = (m + gain * surprise, p, total, r - outer(lever, r[j]), h - outer(lever, row), y - lever * y[j])
        return after, Trail(row, gain, weight, surprise)

    blocks = (max(m.shape[1], y.shape[1]),)
    m, p = (jnp.broadcast_to(a, (*a.shape[:-1], *blocks)) for a in (m, p))
    state = (m, p, jnp.zeros(blocks), r, step.emission * mask[:, None], y)
    (m, p, total, *_), trail = each(outputs, one, state)
    return m, p, total, trail


@side_by_side
def filter_step(start: Start, carry: Any, now: Steps, x: Any, seen: Any, begins: Any) -> tuple[Any, Any]:
    """One step of the filter from (m, P): (m, P) and log p(xₜ | x₁…xₜ₋₁)."""
    m, p = (jnp.where(begins, s, a) for s, a in zip(start, predict(carry[0], carry[1], now), strict=True))
    m, p, total, _ = update(m, p, now, x, seen)
    return (m, p), total


def begins(first: Bool[Array, " t"], before: Start | None) -> Bool[Array, " t"]:
    """`first`, with a sequence that begins at the first row unless something came before."""
    return first.at[0].set(True) if before is None else first


def kalman_filter(
    start: Start,
    steps: Steps,
    x: Float[Array, "t p"],
    seen: Bool[Array, "t p"],
    first: Bool[Array, " t"],
    before: Start | None = None,
) -> Filtered:
    """p(zₜ | x₁…xₜ) and log p(xₜ | x₁…xₜ₋₁) for every t.

    `before` is the law of the state just before the first row, where the rows go on with a sequence.
    """

    def step(carry: Any, element: tuple[Any, ...]) -> tuple[Any, Any]:
        varying, *outcome = element
        law, increment = filter_step(start, carry, steps.at(varying), *outcome)
        return law, (*law, increment)

    xs = (steps.varying(), x, seen, begins(first, before))
    origin = tuple(start if before is None else before)
    return Filtered(*recur(step, origin, xs, lambda element: tuple(start))[1])


def next_first(first: Bool[Array, " t"]) -> Bool[Array, " t"]:
    """Whether the element after each begins a sequence; nothing follows the last."""
    return jnp.concatenate([first[1:], jnp.ones(1, bool)])


def following(varying: tuple[Any, ...]) -> tuple[Any, ...]:
    """The matrices that lead out of each time; those out of the last are not used."""
    return tuple(None if a is None else jnp.concatenate([a[1:], a[-1:]]) for a in varying)


@side_by_side
def smoother_step(later: Any, law: Any, now: Steps, ends: Any) -> tuple[Any, Any]:
    """One step back from the smoothed law of zₜ₊₁: that of zₜ, and Cov(zₜ₊₁, zₜ)."""
    m, p = law
    ahead, spread = predict(m, p, now)
    back = transposed(solve_semidefinite(spread, times(now.transition, p)))
    rest = jnp.eye(m.shape[0])[:, :, None] - times(back, now.transition)
    mean = m + apply(back, later[0] - ahead)
    covariance = sandwich(rest, p) + sandwich(back, later[1] + now.noise)
    cross = jnp.where(ends, 0.0, times(later[1], transposed(back)))
    return (jnp.where(ends, m, mean), jnp.where(ends, p, covariance)), cross


def rts_smoother(steps: Steps, filtered: Filtered, first: Bool[Array, " t"], cross: bool = False) -> Smoothed:
    """p(zₜ | x₁…x_T) for every t; with `cross` also how each state covaries with the next.

    Jₜ is found by elimination, which a singular FPFᵀ + Q does not disturb.
    """

    def step(later: Any, element: tuple[Any, ...]) -> tuple[Any, Any]:
        varying, law, ends = element
        smoothed, pair = smoother_step(later, law, steps.at(varying), ends)
        return smoothed, (*smoothed, pair) if cross else smoothed

    laws = (filtered.mean, filtered.covariance)
    xs = (following(steps.varying()), laws, next_first(first))
    last = (filtered.mean[-1], filtered.covariance[-1])
    return Smoothed(*recur(step, last, xs, lambda element: element[1], reverse=True)[1])
