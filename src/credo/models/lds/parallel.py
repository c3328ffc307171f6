"""Filter and smoother as associative scans: O(log T) steps deep, for accelerators and for systems that do not forget.

The law of zₜ given zₜ₋₁ and xₜ is N(Azₜ₋₁ + b, C), and xₜ speaks of zₜ₋₁ by exp(ηᵀz - ½zᵀJz); two such elements that
follow each other are one of the same kind. Särkkä & García-Fernández (2021), "Temporal parallelization of Bayesian
smoothers".
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from credo.core.arrays import Array
from credo.models.lds.batched_matrices import (
    apply,
    identity,
    on_rows,
    root_semidefinite,
    sandwich,
    solve_semidefinite,
    symmetric,
    times,
    transposed,
)
from credo.models.lds.kalman import FilterInputs, Law, Varying, back_step, before_each, filter_step
from credo.models.lds.simulate import backwards
from credo.models.state_laws import FilteredStates, SmoothedStates


class Element(NamedTuple):
    """p(zₜ | zₛ, xₛ₊₁…xₜ) = N(Azₛ + b, C), and log p(xₛ₊₁…xₜ | zₛ) = ηᵀzₛ - ½zₛᵀJzₛ + constant."""

    slope: Float[Array, "t n n"]
    mean: Float[Array, "t n"]
    covariance: Float[Array, "t n n"]
    eta: Float[Array, "t n"]
    precision: Float[Array, "t n n"]


def _joined(early: Element, late: Element) -> Element:
    """Two elements, one after the other; (I + CJ)⁻¹ = I - L(I + LᵀJL)⁻¹LᵀJ with C = LLᵀ."""
    unit = identity(early.covariance)
    low = root_semidefinite(early.covariance)
    middle = unit + sandwich(transposed(low), late.precision)
    weigh = unit - times(low, solve_semidefinite(middle, times(transposed(low), late.precision)))
    onward, backward = times(late.slope, weigh), times(transposed(early.slope), transposed(weigh))
    mean = apply(onward, early.mean + apply(early.covariance, late.eta)) + late.mean
    covariance = times(times(onward, early.covariance), transposed(late.slope)) + late.covariance
    eta = apply(backward, late.eta - apply(late.precision, early.mean)) + early.eta
    precision = times(times(backward, late.precision), early.slope) + early.precision
    return Element(times(onward, early.slope), mean, symmetric(covariance), eta, symmetric(precision))


def parallel_filter(given: FilterInputs) -> FilteredStates:
    """What `kalman_filter` computes."""
    start, before, system = given.start.with_blocks(), given.before, given.system.with_blocks()

    def element(varying: Varying, x: Array, seen: Array, begins: Array) -> Element:
        """From one step back out of nothing: (r, N), the filtered law, and (η, J)."""
        now = system.at(varying)
        m = jnp.zeros((*start.mean.shape[:1], x.shape[-1]))
        nothing = (m, jnp.zeros((len(m), *m.shape)))
        law, (*_, told) = filter_step(start, nothing, now, x, seen, begins)
        assert told is not None
        carry, found = back_step(nothing, law, told, now, begins)
        rest = jnp.eye(len(m))[:, :, None] - times(now.process_noise, found.n)
        return Element(jnp.where(begins, 0.0, times(rest, now.transition)), *law, *carry)

    elements = on_rows(element)(*given.rows())
    if before is not None:  # an element that leads from anywhere to the law before the first row
        zeros = Element(*(jnp.zeros_like(leaf[:1]) for leaf in elements))
        origin = zeros._replace(mean=before.mean[None], covariance=before.covariance[None])
        elements = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), origin, elements)
    scanned = jax.lax.associative_scan(on_rows(_joined), elements)
    skip = 0 if before is None else 1
    mean, covariance = scanned.mean[skip:], scanned.covariance[skip:]

    def increment(last: Law, varying: Varying, x: Array, seen: Array, begins: Array) -> Array:
        return filter_step(start, last, system.at(varying), x, seen, begins, tell=False)[1][2]

    laws = FilteredStates(mean, covariance, jnp.zeros(len(mean)))
    return FilteredStates(mean, covariance, on_rows(increment)(before_each(given, laws), *given.rows()))


class Back(NamedTuple):
    """p(zₜ | zₛ, x₁…xₜ) = N(Ezₛ + g, L) for s > t."""

    slope: Float[Array, "t n n"]
    mean: Float[Array, "t n"]
    covariance: Float[Array, "t n n"]


def _joined_back(late: Back, early: Back) -> Back:
    """Two steps back, the later one first."""
    mean = apply(early.slope, late.mean) + early.mean
    return Back(times(early.slope, late.slope), mean, sandwich(early.slope, late.covariance) + early.covariance)


def parallel_smoother(given: FilterInputs, filtered: FilteredStates) -> SmoothedStates:
    """What `kalman_smoother` computes."""
    elements = Back(*backwards(given.system, filtered, given.first))
    scanned = jax.lax.associative_scan(on_rows(_joined_back), elements, reverse=True)
    return SmoothedStates(scanned.mean, scanned.covariance, filtered.increments)
