"""Draws: of a future, and of the states behind what was seen.

Backwards, zₜ given zₜ₊₁ and x₁…xₜ is N(mₜ + J(zₜ₊₁ - Fmₜ - c), (I - JF)P(I - JF)ᵀ + JQJᵀ), with mₜ and P of the filter:
one pass of it serves all draws. Carter & Kohn (1994), Frühwirth-Schnatter (1994); Durbin & Koopman (2012), section 4.9.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from credo.core.scan import recur
from credo.models.lds.batched_matrices import (
    apply,
    root,
    root_semidefinite,
    sandwich,
    side_by_side,
    solve_semidefinite,
    times,
    transposed,
)
from credo.models.lds.kalman import Filtered, Start, Steps, following, next_first, predict


@side_by_side
def _conditional(law: Any, now: Steps, ends: Any) -> tuple[Any, Any, Any]:
    """Of p(zₜ | zₜ₊₁, x₁…xₜ): the slope, the constant and a root of the covariance."""
    m, p = law
    ahead, spread = predict(m, p, now)
    back = jnp.where(ends, 0.0, transposed(solve_semidefinite(spread, times(now.transition, p))))
    rest = jnp.eye(m.shape[0])[:, :, None] - times(back, now.transition)
    covariance = sandwich(rest, p) + sandwich(back, now.noise)
    return back, m - apply(back, ahead), root_semidefinite(covariance)


def draw_states(
    key: PRNGKeyArray, steps: Steps, filtered: Filtered, first: Bool[Array, " t"], n: int
) -> Float[Array, "n t k"]:
    """n draws of all states from p(z₁…z_T | x₁…x_T)."""
    laws = (filtered.mean, filtered.covariance)
    elements = (following(steps.varying()), laws, next_first(first))
    slope, level, low = jax.vmap(lambda v, law, ends: _conditional(law, steps.at(v), ends))(*elements)

    def step(later: Float[Array, " k"], element: tuple[Array, ...]) -> tuple[Array, Array]:
        slope, level = element
        state = jnp.sum(slope * later, axis=1) + level
        return state, state

    def path(key: PRNGKeyArray) -> Float[Array, "t k"]:
        noise = jnp.sum(low * jr.normal(key, level.shape)[:, None, :], axis=2)
        origin = jnp.zeros_like(filtered.mean[0])
        return recur(step, origin, (slope, level + noise), lambda element: element[1], reverse=True)[1]

    return jax.lax.map(path, jr.split(key, n))


def draw_future(
    key: PRNGKeyArray, law: Start, begins: bool, steps: Steps, count: int
) -> tuple[Float[Array, "t k"], Float[Array, "t p"]]:
    """Successive states and outcomes; the first state has the law itself where it `begins`, else follows from it."""
    k_start, k_state, k_outcome = jr.split(key, 3)
    n, p = law.mean.shape[0], steps.emission.shape[-2]
    origin = law.mean + root(law.covariance) @ jr.normal(k_start, (n,))

    def step(z: Float[Array, " k"], element: tuple[Any, ...]) -> tuple[Array, tuple[Array, Array]]:
        i, varying, new, noise = element
        now = steps.at(varying)
        onward = now.transition @ z + now.drift + root(now.noise) @ new
        z = jnp.where((i == 0) & begins, z, onward)
        return z, (z, now.emission @ z + now.offset + root(now.observation) @ noise)

    normals = jr.normal(k_state, (count, n)), jr.normal(k_outcome, (count, p))
    return jax.lax.scan(step, origin, (jnp.arange(count), steps.varying(), *normals))[1]
