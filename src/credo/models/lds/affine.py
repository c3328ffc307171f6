"""Affine recursions mₜ = aₜmₜ₋₁ + bₜ: what is left of a filter whose covariances are known.

One a for all times makes every mₜ = Σᵢ aⁱbₜ₋ᵢ a convolution: a few times are one product with a table of powers, what
they hand on is the same recursion with a higher power, and no step waits for the one before. Blelloch (1990), "Prefix
sums and their applications".
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from credo.core.scan import recur
from credo.models.lds.batched_matrices import UNROLLED, apply, side_by_side

TOGETHER = 8
"""Times that are one product; half as many where there are many states."""

FEW = 64
"""So few times are a loop."""

ALONE = 1024
"""So few times are not worth blocks, which take longer to compile."""


@side_by_side
def _step(slope: Float[Array, "n n _"], m: Float[Array, "n _"], level: Float[Array, "n _"]) -> Float[Array, "n _"]:
    return apply(slope, m) + level


def varying_affine(
    slope: Float[Array, "t n n"], level: Float[Array, "t n"], origin: Float[Array, " n"], reverse: bool = False
) -> Float[Array, "t n"]:
    """mₜ = aₜmₜ₋₁ + bₜ for all t; mₜ = aₜmₜ₊₁ + bₜ where `reverse`."""

    def step(m: Float[Array, " n"], element: tuple[Array, Array]) -> tuple[Array, Array]:
        m = _step(element[0], m, element[1])
        return m, m

    if len(level) <= ALONE:
        return jax.lax.scan(step, origin, (slope, level), reverse=reverse)[1]
    return recur(step, origin, (slope, level), lambda x: x[1], reverse=reverse)[1]


def affine(slope: Float[Array, "n n"], level: Float[Array, "t n"], reverse: bool = False) -> Float[Array, "t n"]:
    """mₜ = amₜ₋₁ + bₜ for all t, from 0; mₜ = amₜ₊₁ + bₜ where `reverse`. The powers of a must be `bounded`."""
    t, n = level.shape
    if t <= FEW:
        return varying_affine(jnp.broadcast_to(slope, (t, n, n)), level, jnp.zeros(n), reverse)
    together = TOGETHER if n <= UNROLLED else TOGETHER // 2
    powers = [jnp.eye(n)]
    for _ in range(together):
        powers.append(powers[-1] @ slope)
    order = range(together)[::-1] if reverse else range(together)
    zero = jnp.zeros((n, n))
    within = jnp.block([[powers[j - i].T if j >= i else zero for j in order] for i in order])
    handed = jnp.concatenate([powers[i + 1].T for i in order], axis=1)
    rows = jnp.pad(level, ((0, -t % together), (0, 0))).reshape(-1, together * n) @ within
    ends = affine(powers[-1], rows[:, :n] if reverse else rows[:, -n:], reverse)
    return (rows + shifted_rows(ends, reverse) @ handed).reshape(-1, n)[:t]


def bounded(slope: Float[Array, "n n"], t: int) -> Bool[Array, ""]:
    """Whether a², a⁴, a⁸ … are finite for as many steps as there are."""
    for _ in range(t.bit_length()):
        slope = slope @ slope
    return jnp.all(jnp.isfinite(slope))


def shifted_rows(m: Float[Array, "t n"], reverse: bool = False) -> Float[Array, "t n"]:
    """The row before each, the one after where `reverse`; 0 where there is none."""
    none = jnp.zeros_like(m[:1])
    return jnp.concatenate([m[1:], none] if reverse else [none, m[:-1]])


def products(a: Float[Array, "*t k n"], v: Float[Array, "t n"]) -> Float[Array, "t k"]:
    """av for every t; one matrix, or one for each time."""
    return v @ a.T if a.ndim == 2 else jnp.sum(a * v[:, None, :], axis=2)
