"""The Kalman filter, the smoother and the score of one series, with the matrices of the model as data.

    zₜ₊₁ = F zₜ + ηₜ,  ηₜ ~ N(0, diag(q)),        yₜ = hₜᵀzₜ,        z₁ ~ N(a₁, P₁)

The noise of the outcome is a state, too, that does not last (`white_noise`): F, q, h, a₁ and P₁ are all there is.
With v = y - hᵀa, f = hᵀPh, k = Ph/f and J = F(I - khᵀ)

    forward    a ← F(a + kv),       P ← JPJᵀ + diag(q)        (Joseph's form; k = 0 where y was not seen)
    back       r ← Jᵀr + hv/f,      N ← JᵀNJ + hhᵀ/f

(a, P) is the law of zₜ given the outcomes before t, (r, N) what yₜ and those after it tell of zₜ: given all outcomes it
is N(a + Pr, P - PNP). They are the score as well, ∂ log p/∂a = r and ∂ log p/∂P = ½(rrᵀ - N), from which that of F, q
and h follows. Durbin & Koopman (2012), sections 4.3-4.5, 7.3.3; Koopman & Shephard (1992), "Exact score for time series
models in state space form".

Every step is written once: it is run by a loop in NumPy, or compiled where the series is long or traced. The matrices
are arguments, so all structures whose states and rows fill the same buckets share one program.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float

from credo.core.arrays import Array, host, namespace
from credo.core.padding import bucket, pad_rows
from credo.core.special import LOG_2PI
from credo.models.lds.kalman import StateLaw, SystemMatrices
from credo.models.state_laws import FilteredStates, SmoothedStates

R = TypeVar("R")

ROWS_TO_COMPILE = 100_000
"""Rows, of all evaluations together, from which on a pass is compiled. Forward and back a row costs 16 µs in NumPy, 6
compiled (14 states), and a program 1.5 s: learning is compiled from a thousand rows on, a filter that runs once not."""

FEWEST_STATES = 4
"""States are padded to this times a power of two."""


class SeriesSystem(NamedTuple):
    """The matrices of the model of a series."""

    transition: Float[Array, "n n"]
    """F"""
    noise: Float[Array, " n"]
    """q, the variances of what is new in each state."""
    emission: Float[Array, "*t n"]
    """h, one for all times or one for each."""
    mean: Float[Array, " n"]
    """a₁"""
    covariance: Float[Array, "n n"]
    """P₁"""

    @classmethod
    def joined(cls, *systems: "SeriesSystem") -> "SeriesSystem":
        """Of the sum of independent series: states one after the other, with blocks on the diagonal."""
        xp = namespace(systems)
        f, q, h, a, p = zip(*systems, strict=True)
        times = max((each.shape[:-1] for each in h), key=len)
        each_time = [xp.broadcast_to(each, (*times, each.shape[-1])) for each in h]
        blocks = jax.scipy.linalg.block_diag if xp is jnp else scipy.linalg.block_diag
        return cls(blocks(*f), xp.concatenate(q), xp.concatenate(each_time, axis=-1), xp.concatenate(a), blocks(*p))

    @classmethod
    def white_noise(cls, variance: Float[Array, ""]) -> "SeriesSystem":
        """A state that does not last."""
        xp = namespace(variance)
        r = xp.reshape(variance, (1,))
        return cls(xp.zeros((1, 1)), r, xp.ones(1), xp.zeros(1), r[None])

    def matrices(self, variance: Float[Array, ""]) -> tuple[SystemMatrices, StateLaw]:
        """As those of a linear dynamical system of one output with so much noise, and the law of its first state."""
        xp = namespace(self, variance)
        h, noise = self.emission[..., None, :], xp.reshape(variance, (1, 1))
        return SystemMatrices.of(self.transition, xp.diag(self.noise), h, noise), StateLaw(self.mean, self.covariance)


class Forward(NamedTuple):
    """What is known before each outcome, and what the outcome does to it."""

    mean: Float[Array, "t n"]
    """a"""
    covariance: Float[Array, "t n n"]
    """P"""
    gain: Float[Array, "t n"]
    """k = Ph/f"""
    closed: Float[Array, "t n n"]
    """J = F(I - khᵀ)"""
    weight: Float[Array, " t"]
    """1/f; 0 where nothing was seen, or what was seen had been known."""
    surprise: Float[Array, " t"]
    """v"""

    @property
    def filtered_mean(self) -> Float[Array, "t n"]:
        """a + kv"""
        return self.mean + self.gain * self.surprise[:, None]

    @property
    def increments(self) -> Float[Array, " t"]:
        """log p(yₜ | y₁…yₜ₋₁) = ½(log w - log 2π - wv²), w = 1/f."""
        xp = namespace(self.weight, self.surprise)
        tells = self.weight > 0
        return 0.5 * (tells * (xp.log(self.weight + ~tells) - LOG_2PI) - self.weight * self.surprise**2)


class Backward(NamedTuple):
    """What each outcome and those after it tell of the state."""

    r: Float[Array, "t n"]
    n: Float[Array, "t n n"]


Law = tuple[Array, Array]
Rows = tuple[Array, ...]


def forward_pass(system: SeriesSystem, y: Float[Array, " t"], seen: Bool[Array, " t"]) -> Forward:
    """The filter: the law of every state before its outcome."""
    f, noise = system.transition, namespace(system.noise).diag(system.noise)

    def step(law: Law, row: Rows) -> tuple[Law, Rows]:
        a, p = law
        outcome, mask, h = row
        ph = p.dot(h)
        variance = h.dot(ph)
        doubt = variance > 0
        weight = mask * doubt / (variance + (1 - doubt))
        surprise = outcome - h.dot(a)
        gain = ph * weight
        closed = f - f.dot(gain)[:, None].dot(h[None])
        later = f.dot(a + gain * surprise), closed.dot(p).dot(closed.T) + noise
        return later, (a, p, gain, closed, weight, surprise)

    rows = y, 1.0 * seen, _each_time(system.emission, len(y))
    return Forward(*_loop(step, (system.mean, system.covariance), rows))


def back_pass(system: SeriesSystem, forward: Forward) -> Backward:
    """What each outcome and those after it tell of the state."""
    xp = namespace(system, forward)

    def step(later: Law, row: Rows) -> tuple[Law, Rows]:
        r, n = later
        closed, weight, surprise, h = row
        told = h * weight
        law = r.dot(closed) + told * surprise, closed.T.dot(n).dot(closed) + told[:, None].dot(h[None])
        return law, law

    nothing = xp.zeros_like(system.mean), xp.zeros_like(system.covariance)
    rows = forward.closed, forward.weight, forward.surprise, _each_time(system.emission, len(forward.weight))
    return Backward(*_loop(step, nothing, rows, reverse=True))


def _each_time(emission: Float[Array, "*t n"], t: int) -> Float[Array, "t n"]:
    return namespace(emission).broadcast_to(emission, (t, emission.shape[-1]))


# `a.dot(b)` of small arrays takes NumPy half as long as `a @ b`, also where it is an outer product.


def _loop(step: Callable[[Law, Rows], tuple[Law, Rows]], carry: Law, rows: Rows, reverse: bool = False) -> Rows:
    """What a step gives for each row."""
    if namespace(carry, rows) is jnp:
        return jax.lax.scan(step, carry, rows, reverse=reverse)[1]
    found = []
    for row in zip(*(a[::-1] if reverse else a for a in rows), strict=True):
        carry, out = step(carry, row)
        found.append(out)
    return tuple(np.asarray(a[::-1] if reverse else a) for a in zip(*found, strict=True))


# -------------------------------------------------------------------------------- what follows from the passes


def filtered_states(system: SeriesSystem, y: Float[Array, " t"], seen: Bool[Array, " t"]) -> FilteredStates:
    """p(zₜ | y₁…yₜ) for every t."""
    forward = forward_pass(system, y, seen)
    return FilteredStates(*_filtered(system, forward), forward.increments)


def smoothed_states(system: SeriesSystem, y: Float[Array, " t"], seen: Bool[Array, " t"]) -> SmoothedStates:
    """p(zₜ | y₁…y_T) for every t: N(m + PFᵀr, P - PFᵀNFP) with the filtered law N(m, P), r and N of the next time."""
    forward = forward_pass(system, y, seen)
    m, p = _filtered(system, forward)
    xp = namespace(m, p)
    r, n = (xp.concatenate([a[1:], xp.zeros_like(a[:1])]) for a in back_pass(system, forward))
    moved = system.transition @ p
    told = moved.swapaxes(1, 2)
    return SmoothedStates(m + (told @ r[:, :, None])[:, :, 0], p - told @ n @ moved, forward.increments)


def _filtered(system: SeriesSystem, forward: Forward) -> Law:
    """a + kv and (I - khᵀ)P(I - khᵀ)ᵀ, for every t."""
    k, h = forward.gain[:, :, None], _each_time(system.emission, len(forward.gain))[:, None, :]
    rest = namespace(system, forward).eye(h.shape[-1]) - k * h
    return forward.filtered_mean, rest @ forward.covariance @ rest.swapaxes(1, 2)


def evidence(system: SeriesSystem, y: Float[Array, " t"], seen: Bool[Array, " t"]) -> Float[Array, ""]:
    """log p(y₁…y_T)."""
    return forward_pass(system, y, seen).increments.sum()


def evidence_and_score(
    system: SeriesSystem, y: Float[Array, " t"], seen: Bool[Array, " t"]
) -> tuple[Float[Array, ""], SeriesSystem]:
    """log p(y₁…y_T), and its gradient by all matrices but h, which nobody learns.

    a₁: r₁; P₁: ½(r₁r₁ᵀ - N₁); and over t > 1, q: ½ Σ diag(rrᵀ - N); F: Σ rmᵀ + (rrᵀ - N)FP with m, P filtered at t - 1.
    """
    forward = forward_pass(system, y, seen)
    r, n = back_pass(system, forward)
    second = r[:, :, None] * r[:, None, :] - n
    moved = forward.closed @ forward.covariance  # F times the filtered covariance
    by_transition = r[1:].T @ forward.filtered_mean[:-1] + (second[1:] @ moved[:-1]).sum(0)
    by_noise = 0.5 * second[1:].sum(0).diagonal()
    score = SeriesSystem(by_transition, by_noise, 0 * system.emission, r[0], 0.5 * second[0])
    return forward.increments.sum(), score


# -------------------------------------------------------------------------------- in NumPy or compiled


def run(
    function: Callable[[SeriesSystem, Array, Array], R],
    system: SeriesSystem,
    y: Array,
    seen: Array,
    evaluations: int = 1,
) -> R:
    """A pass over a series whose numbers are known, in NumPy or compiled; `evaluations` says how many are expected."""
    t, n = len(y), len(system.noise)
    if t * evaluations < ROWS_TO_COMPILE:
        return function(*host((system, y, seen)))
    rows, states = bucket(t), FEWEST_STATES
    while states < n:
        states *= 2
    found = host(_compiled(function, _padded(system, rows, states), pad_rows(y, rows), pad_rows(seen, rows)))
    sizes = {rows: t, states: n}
    return jax.tree.map(lambda a: a[tuple(slice(sizes[size]) for size in a.shape)], found)


@partial(jax.jit, static_argnums=0)
def _compiled(function: Callable[[SeriesSystem, Array, Array], R], system: SeriesSystem, y: Array, seen: Array) -> R:
    return function(system, y, seen)


def _padded(system: SeriesSystem, rows: int, states: int) -> SeriesSystem:
    """With states that are nothing and do nothing."""
    more = states - len(system.noise)
    f, q, _, a, p = (np.pad(each, [(0, more)] * each.ndim) for each in system._replace(emission=system.mean))
    h = np.pad(system.emission, [(0, 0)] * (system.emission.ndim - 1) + [(0, more)])
    return SeriesSystem(f, q, h if h.ndim == 1 else pad_rows(h, rows), a, p)
