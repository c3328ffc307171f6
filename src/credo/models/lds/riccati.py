"""Where the covariances of a filter end up that always does the same: the fixed point of Riccati's equation.

    P = FPFᵀ + Q - FPHᵀ(HPHᵀ + R)⁻¹HPFᵀ,    K = PHᵀ(HPHᵀ + R)⁻¹

by doubling: each step is worth twice as many steps of the filter as the one before. Chu, Fan, Lin & Wang (2004), "A
structure-preserving doubling algorithm for periodic discrete-time algebraic Riccati equations"; Anderson & Moore
(1979), section 6.7.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from credo.core.arrays import Array
from credo.core.linalg import symmetric_part
from credo.models.lds.batched_matrices import root_semidefinite, solve_semidefinite
from credo.models.lds.kalman import SystemMatrices

DOUBLINGS = 60
"""2⁶⁰ steps of the filter."""
SETTLED = 1e-14

State = tuple[Array, Array, Array, Array, Array]


class Steady(NamedTuple):
    """The predicted covariance P and the gain K of a filter that has seen enough."""

    covariance: Float[Array, "n n"]
    gain: Float[Array, "n p"]
    converged: Bool[Array, ""]
    """False where the covariance grows for ever, or depends on where it began."""


@eqx.filter_jit
def steady_state(system: SystemMatrices) -> Steady:
    """The fixed point for matrices that are the same at all times and outcomes that are seen in full."""
    f, q, h, r = system[:4]
    unit = jnp.eye(f.shape[0])

    def double(state: State) -> State:
        count, _, a, g, p = state
        low = root_semidefinite(p)
        # (I + GP)⁻¹ with P = LLᵀ
        inverse = unit - g @ low @ solve_semidefinite(unit + low.T @ g @ low, low.T)
        onward = a @ inverse
        new = p + a.T @ p @ inverse @ a
        g = symmetric_part(g + onward @ g @ a.T)
        return count + 1, jnp.max(jnp.abs(new - p)), onward @ a, g, symmetric_part(new)

    def unsettled(state: State) -> Bool[Array, ""]:
        count, change, _, _, p = state
        return (count < DOUBLINGS) & (change > SETTLED * jnp.max(jnp.abs(p))) & jnp.all(jnp.isfinite(p))

    precision = h.T @ solve_semidefinite(r, h)
    origin: State = (jnp.asarray(0), jnp.asarray(jnp.inf), f.T, precision, q)
    _, change, _, _, p = jax.lax.while_loop(unsettled, double, origin)
    gain = solve_semidefinite(h @ p @ h.T + r, h @ p).T
    return Steady(p, gain, (change <= SETTLED * jnp.max(jnp.abs(p))) & jnp.all(jnp.isfinite(p)))
