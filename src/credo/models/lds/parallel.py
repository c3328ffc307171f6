"""Filter and smoother as associative scans: O(log T) steps deep, for accelerators and for systems that do not forget.

The law of zₜ given zₜ₋₁ and xₜ is N(Azₜ₋₁ + b, C), and xₜ speaks of zₜ₋₁ by exp(ηᵀz - ½zᵀJz); two such elements that
follow each other are one of the same kind. Särkkä & García-Fernández (2021), "Temporal parallelization of Bayesian
smoothers".
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from credo.models.lds.batched_matrices import (
    apply,
    root_semidefinite,
    sandwich,
    side_by_side,
    solve_semidefinite,
    times,
    transposed,
)
from credo.models.lds.kalman import (
    Filtered,
    Smoothed,
    Start,
    Steps,
    begins,
    filter_step,
    following,
    next_first,
    predict,
)
from credo.models.lds.score import back_step, shifted


class Element(NamedTuple):
    """p(zₜ | zₛ, xₛ₊₁…xₜ) = N(Azₛ + b, C), and log p(xₛ₊₁…xₜ | zₛ) = ηᵀzₛ - ½zₛᵀJzₛ + constant."""

    slope: Float[Array, "t n n"]
    mean: Float[Array, "t n"]
    covariance: Float[Array, "t n n"]
    eta: Float[Array, "t n"]
    precision: Float[Array, "t n n"]


@side_by_side
def _joined(early: Element, late: Element) -> Element:
    """Two elements, one after the other; (I + CJ)⁻¹ = I - L(I + LᵀJL)⁻¹LᵀJ with C = LLᵀ."""
    n = early.mean.shape[0]
    unit = jnp.eye(n)[:, :, None]
    low = root_semidefinite(early.covariance)
    middle = unit + sandwich(transposed(low), late.precision)
    weigh = unit - times(low, solve_semidefinite(middle, times(transposed(low), late.precision)))
    onward, backward = times(late.slope, weigh), times(transposed(early.slope), transposed(weigh))
    mean = apply(onward, early.mean + apply(early.covariance, late.eta)) + late.mean
    covariance = times(times(onward, early.covariance), transposed(late.slope)) + late.covariance
    eta = apply(backward, late.eta - apply(late.precision, early.mean)) + early.eta
    precision = times(times(backward, late.precision), early.slope) + early.precision
    return Element(times(onward, early.slope), mean, _even(covariance), eta, _even(precision))


def _even(s: Float[Array, "n n _"]) -> Float[Array, "n n _"]:
    return 0.5 * (s + transposed(s))


@side_by_side
def _element(now: Steps, begins: Any, found: Any, carry: Any) -> Element:
    """From one step back out of nothing: (r, N, b, C) and (η, J)."""
    _, n, mean, covariance = found
    rest = jnp.eye(mean.shape[0])[:, :, None] - times(now.noise, n)
    return Element(jnp.where(begins, 0.0, times(rest, now.transition)), mean, covariance, *carry)


def parallel_filter(
    start: Start,
    steps: Steps,
    x: Float[Array, "t p"],
    seen: Bool[Array, "t p"],
    first: Bool[Array, " t"],
    before: Start | None = None,
) -> Filtered:
    """What `kalman_filter` computes."""
    fresh = begins(first, before)
    nothing = (jnp.zeros_like(start.mean), jnp.zeros_like(start.covariance))

    def element(varying: Any, x: Array, seen: Array, begins: Array) -> Element:
        now = steps.at(varying)
        carry, found = back_step(start, nothing, nothing, now, x, seen, begins)
        return _element(now, begins, found, carry)

    elements = jax.vmap(element)(steps.varying(), x, seen, fresh)
    if before is not None:  # an element that leads from anywhere to the law before the first row
        zeros = Element(*(jnp.zeros_like(leaf[:1]) for leaf in elements))
        origin = zeros._replace(mean=before.mean[None], covariance=before.covariance[None])
        elements = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), origin, elements)
    scanned = jax.lax.associative_scan(jax.vmap(_joined), elements)
    skip = 0 if before is None else 1
    laws = Filtered(scanned.mean[skip:], scanned.covariance[skip:], jnp.zeros(x.shape[0]))

    def increment(varying: Any, law: Any, *outcome: Any) -> Array:
        return filter_step(start, law, steps.at(varying), *outcome)[1]

    increments = jax.vmap(increment)(steps.varying(), shifted(laws, before), x, seen, fresh)
    return laws._replace(increments=increments)


class Back(NamedTuple):
    """p(zₜ | zₛ, x₁…xₜ) = N(Ezₛ + g, L) for s > t."""

    slope: Float[Array, "t n n"]
    mean: Float[Array, "t n"]
    covariance: Float[Array, "t n n"]


@side_by_side
def _joined_back(late: Back, early: Back) -> Back:
    """Two steps back, the later one first."""
    mean = apply(early.slope, late.mean) + early.mean
    return Back(times(early.slope, late.slope), mean, sandwich(early.slope, late.covariance) + early.covariance)


@side_by_side
def _backwards(law: Any, now: Steps, ends: Any) -> Back:
    m, p = law
    ahead, spread = predict(m, p, now)
    back = jnp.where(ends, 0.0, transposed(solve_semidefinite(spread, times(now.transition, p))))
    rest = jnp.eye(m.shape[0])[:, :, None] - times(back, now.transition)
    return Back(back, m - apply(back, ahead), sandwich(rest, p) + sandwich(back, now.noise))


def parallel_smoother(steps: Steps, filtered: Filtered, first: Bool[Array, " t"], cross: bool = False) -> Smoothed:
    """What `rts_smoother` computes."""
    laws = (filtered.mean, filtered.covariance)
    elements = jax.vmap(lambda varying, law, ends: _backwards(law, steps.at(varying), ends))(
        following(steps.varying()), laws, next_first(first)
    )
    scanned = jax.lax.associative_scan(jax.vmap(_joined_back), elements, reverse=True)
    if not cross:
        return Smoothed(scanned.mean, scanned.covariance)
    later = jnp.concatenate([scanned.covariance[1:], scanned.covariance[-1:]])
    return Smoothed(scanned.mean, scanned.covariance, later @ jnp.swapaxes(elements.slope, 1, 2))
