"""Functions of the normal tail whose logarithms and slopes stay exact where the functions themselves underflow.

Write φ and Φ for the density and the distribution function of N(0, 1). In the tail, with Laplace's continued fraction

    φ(t)/Φ(-t) = t + δ,    δ = 1/(t + ε),    ε = 2/(t + 3/(t + 4/(t + …)))

everything is a product of t + δ, δ and ε: nothing is subtracted, so nothing cancels.

Abramowitz & Stegun (1964), 26.2.14; Ament, Daulton, Eriksson, Balandat & Bakshy (2023), "Unexpected improvements
to expected improvement", on why the logarithm is what one should climb.
"""

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, is_traced, namespace, special

TAIL = 5.0
"""Where the continued fraction takes over: 24 terms of it are exact to the last bits from here on."""

TERMS = 24
LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))


class Tail(NamedTuple):
    """t ≥ `TAIL` with the δ and ε of the continued fraction."""

    t: Array
    delta: Array
    epsilon: Array

    @property
    def hazard(self) -> Array:
        """φ(t)/Φ(-t) = t + δ."""
        return self.t + self.delta


def _tail(t: Array) -> Tail:
    below = t
    for k in range(TERMS, 2, -1):
        below = t + k / below
    epsilon = 2 / below
    return Tail(t, 1 / (t + epsilon), epsilon)


def _log_density(z: Array) -> Array:
    return -0.5 * z * z - LOG_ROOT_2PI


def _log_cdf_near(z: Array) -> Array:
    """log Φ(z) where Φ(z) is not tiny; above zero from the other tail (`log_ndtr` loses digits between 5 and 8)."""
    xp, above = namespace(z), z > 0
    small = special(z).ndtr(-xp.abs(z))
    return xp.where(above, xp.log1p(-small), xp.log(xp.where(above, 1.0, small)))


def with_slope(pair: Callable[[Array], tuple[Array, Array]]) -> Callable[[Array], Array]:
    """The function of which `pair` gives value and slope, elementwise; gradients use the slope."""

    @jax.custom_jvp
    def traced(z: Array) -> Array:
        return pair(z)[0]

    @traced.defjvp
    def tangent(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        value, slope = pair(*primals)
        return value, slope * tangents[0]

    @wraps(pair)
    def function(z: Array) -> Array:
        return traced(z) if is_traced(z) else pair(z)[0]

    return function


@with_slope
def log_cdf(z: Array) -> tuple[Array, Array]:
    """log Φ(z); its slope is φ(z)/Φ(z)."""
    xp, left = namespace(z), z < -TAIL
    tail = _tail(xp.where(left, -z, TAIL))
    near = _log_cdf_near(xp.where(left, 0.0, z))
    value = xp.where(left, _log_density(z) - xp.log(tail.hazard), near)
    return value, xp.where(left, tail.hazard, xp.exp(_log_density(z) - near))


@with_slope
def log_improvement(z: Array) -> tuple[Array, Array]:
    """log h(z), h(z) = φ(z) + z Φ(z) = E(z + Z)₊ for Z ~ N(0, 1); in the tail h = φ(t) δ/(t + δ), t = -z.

    Log h and its slope Φ/h, which is 1/δ in the tail.
    """
    xp, left = namespace(z), z < -TAIL
    tail = _tail(xp.where(left, -z, TAIL))
    near = xp.where(left, 0.0, z)
    cdf = special(z).ndtr(near)
    h = xp.exp(_log_density(near)) + near * cdf
    value = xp.where(left, _log_density(z) + xp.log(tail.delta / tail.hazard), xp.log(h))
    return value, xp.where(left, 1 / tail.delta, cdf / h)


@with_slope
def log_information(z: Array) -> tuple[Array, Array]:
    """log g(z), g(z) = z φ(z)/2Φ(z) - log Φ(z): what N(0, 1) tells by being known to lie below z, in nats.

    g is the difference of the entropies of N(0, 1) and of N(0, 1) cut off at z. Wang & Jegelka (2017), eq. 6.

    Log g and its slope; with λ = φ/Φ, g' = -λ (1 + z(z + λ))/2.
    """
    xp, left, right = namespace(z), z < -TAIL, z > TAIL
    tail = _tail(xp.where(left | right, xp.abs(z), TAIL))
    # Far below: g = -tδ/2 + log √2π(t + δ), and 1 + z(z + λ) = 1 - tδ = δε.
    below = -0.5 * tail.t * tail.delta + LOG_ROOT_2PI + xp.log(tail.hazard)
    below_slope = -0.5 * tail.hazard * tail.delta * tail.epsilon / below
    # Far above, p = Φ(-z) is small: g = φ (z/2(1 - p) + (1 + p/2 + p²/3)/(t + δ)).
    density = xp.exp(_log_density(tail.t))
    p = density / tail.hazard
    above = 0.5 * tail.t / (1 - p) + (1 + p / 2 + p**2 / 3) / tail.hazard
    above_slope = -0.5 / (1 - p) * (1 + tail.t * (tail.t + density / (1 - p))) / above
    near = xp.where(left | right, 0.0, z)
    log_phi = _log_cdf_near(near)
    hazard = xp.exp(_log_density(near) - log_phi)
    middle = 0.5 * near * hazard - log_phi
    middle_slope = -0.5 * hazard * (1 + near * (near + hazard)) / middle
    value = xp.where(left, xp.log(below), xp.where(right, _log_density(tail.t) + xp.log(above), xp.log(middle)))
    return value, xp.where(left, below_slope, xp.where(right, above_slope, middle_slope))


def log_softplus(w: Float[Array, "*m"]) -> Float[Array, "*m"]:
    """log log(1 + eʷ), which is w - eʷ/2 + … where eʷ is small."""
    xp, small = namespace(w), w < -20
    return xp.where(small, w - 0.5 * xp.exp(xp.minimum(w, 0.0)), xp.log(xp.logaddexp(xp.where(small, 0.0, w), 0)))
