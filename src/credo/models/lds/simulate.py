"""Draws: of a future, and of the states behind what was seen.

Backwards, zₜ given zₜ₊₁ and x₁…xₜ is N(mₜ + J(zₜ₊₁ - Fmₜ - c), (I - JF)P(I - JF)ᵀ + JQJᵀ), with mₜ and P of the filter:
one pass of it serves all draws. Carter & Kohn (1994), Frühwirth-Schnatter (1994); Durbin & Koopman (2012), section 4.9.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Bool, Float, PRNGKeyArray

from credo.core.arrays import Array
from credo.core.scan import scan
from credo.models.lds.batched_matrices import (
    apply,
    on_rows,
    root_semidefinite,
    sandwich,
    solve_semidefinite,
    times,
    transposed,
)
from credo.models.lds.kalman import StateLaw, SystemMatrices, Varying, following, predict
from credo.models.sequences import ends_of
from credo.models.state_laws import FilteredStates


def backwards(
    system: SystemMatrices, filtered: FilteredStates, first: Bool[Array, " t"]
) -> tuple[Float[Array, "t n n"], Float[Array, "t n"], Float[Array, "t n n"]]:
    """Of p(zₜ | zₜ₊₁, x₁…xₜ) for every t: the slope J, the constant and the covariance."""
    common = system.with_blocks()

    def of_one(varying: Varying, m: Array, p: Array, ends: Array) -> tuple[Array, Array, Array]:
        now = common.at(varying)
        ahead, spread = predict(m, p, now)
        back = jnp.where(ends, 0.0, transposed(solve_semidefinite(spread, times(now.transition, p))))
        rest = jnp.eye(m.shape[0])[:, :, None] - times(back, now.transition)
        return back, m - apply(back, ahead), sandwich(rest, p) + sandwich(back, now.process_noise)

    return on_rows(of_one)(following(system.varying()), filtered.mean, filtered.covariance, ends_of(first))


def draw_states(
    key: PRNGKeyArray, system: SystemMatrices, filtered: FilteredStates, first: Bool[Array, " t"], n: int
) -> Float[Array, "n t k"]:
    """n draws of all states from p(z₁…z_T | x₁…x_T)."""
    slope, level, covariance = backwards(system, filtered, first)
    low = on_rows(root_semidefinite)(covariance)

    def step(later: Float[Array, "k _"], element: tuple[Array, Array]) -> tuple[Array, Array]:
        state = apply(element[0], later) + element[1]
        return state, state

    def path(key: PRNGKeyArray) -> Float[Array, "t k"]:
        noise = jnp.sum(low * jr.normal(key, level.shape)[:, None, :], axis=2)
        origin: Array = jnp.zeros_like(level[0])
        return scan(step, origin, (slope, level + noise), lambda row: row[1], reverse=True)[1]

    return jax.lax.map(path, jr.split(key, n))


def draw_future(
    key: PRNGKeyArray, law: StateLaw, begins: bool, system: SystemMatrices, count: int
) -> tuple[Float[Array, "t k"], Float[Array, "t p"]]:
    """Successive states and outcomes; the first state has the law itself where it `begins`, else follows from it."""
    k_start, k_state, k_outcome = jr.split(key, 3)
    n, p = law.mean.shape[0], system.emission.shape[-2]
    origin = law.mean + root_semidefinite(law.covariance) @ jr.normal(k_start, (n,))

    def step(z: Float[Array, " k"], element: tuple[Array, Varying, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        i, varying, new, noise = element
        now = system.at(varying)
        onward = now.transition @ z + now.drift + root_semidefinite(now.process_noise) @ new
        begun = z if now.start_drift is None else z + now.start_drift
        z = jnp.where((i == 0) & begins, begun, onward)
        return z, (z, now.emission @ z + now.offset + root_semidefinite(now.observation_noise) @ noise)

    normals = jr.normal(k_state, (count, n)), jr.normal(k_outcome, (count, p))
    return jax.lax.scan(step, origin, (jnp.arange(count), system.varying(), *normals))[1]
