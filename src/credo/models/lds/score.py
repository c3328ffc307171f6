"""log p(x₁…x_T) with its gradient by hand: one pass back, whatever is singular.

The future sees the predicted law N(a, P) of zₜ through rₜ and Nₜ alone (`kalman.back_pass`): ∂ log p/∂a = r and
∂ log p/∂P = ½(rrᵀ - N), from which the gradients follow: c: r; Q: ½(rrᵀ - N); F: r mₜ₋₁ᵀ + (rrᵀ - N)FPₜ₋₁; and, by
Fisher's identity with u = R⁻¹(x - d - Hm') for the smoothed law N(m', P'), d: u; H: um'ᵀ - R⁻¹HP';
R: ½(uuᵀ + R⁻¹HP'HᵀR⁻¹ - R⁻¹). Koopman & Shephard (1992), "Exact score for time series models in state space form".
"""

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from credo.core.arrays import Array, is_traced, namespace
from credo.models.lds.batched_matrices import apply, identity, on_rows, outer, sandwich, solve_semidefinite, times
from credo.models.lds.kalman import (
    RANKS,
    Backward,
    FilterInputs,
    Innovations,
    Law,
    StateLaw,
    SystemMatrices,
    back_pass,
    before_each,
    forward_pass,
    kalman_filter,
)
from credo.models.state_laws import FilteredStates

Kept = tuple[FilterInputs, FilteredStates, Innovations | None]


def log_likelihood(given: FilterInputs) -> Float[Array, ""]:
    """log p(x₁…x_T) of the seen numbers; its gradient costs one more pass."""
    return _differentiable(given) if is_traced(given) else kalman_filter(given).log_likelihood


@jax.custom_vjp
def _differentiable(given: FilterInputs) -> Float[Array, ""]:
    return kalman_filter(given).log_likelihood


def _forward(given: FilterInputs) -> tuple[Array, Kept]:
    filtered, told = forward_pass(given)
    return filtered.log_likelihood, (given, filtered, told)


def _backward(kept: Kept, cotangent: Float[Array, ""]) -> tuple[FilterInputs]:
    given, filtered, told = kept
    found = back_pass(given, filtered, told, lambda found: found)
    fresh = given.begins
    d_system, d_x = _gradients(given, before_each(given, filtered), found)
    r, second = found.r, 0.5 * (found.r[:, :, None] * found.r[:, None, :] - found.n)
    d_start = StateLaw(jnp.where(fresh[:, None], r, 0.0).sum(0), jnp.where(fresh[:, None, None], second, 0.0).sum(0))
    d_before = None
    if given.before is not None:
        f = given.system.transition if given.system.transition.ndim == 2 else given.system.transition[0]
        d_before = StateLaw(jnp.where(fresh[0], 0.0, f.T @ r[0]), jnp.where(fresh[0], 0.0, f.T @ second[0] @ f))
    slopes = (d_start, d_system, d_x, None, None, d_before)
    return (FilterInputs(*jax.tree.map(lambda g: cotangent * g, slopes)),)


_differentiable.defvjp(_forward, _backward)


def masked_inverse(r: Float[Array, "*t p p"], seen: Bool[Array, "t p"]) -> Float[Array, "t p p"]:
    """R⁻¹ of the seen numbers of each time, 0 for the others."""
    return on_rows(_masked_inverse)(r if r.ndim == 3 else r[None], seen)


def _masked_inverse(r: Float[Array, "p p _"], seen: Bool[Array, "p _"]) -> Float[Array, "p p _"]:
    mask, one = seen.astype(r.dtype), identity(r)
    both = outer(mask, mask)
    return both * solve_semidefinite(r * both + one * (1 - mask), namespace(r, mask).broadcast_to(one, both.shape))


def _gradient(
    now: SystemMatrices, x: Array, begins: Array, last: Law, found: Backward, inverse: Array
) -> tuple[SystemMatrices, Array]:
    """The gradients for one time."""
    m, p = found.mean, found.covariance
    second = jnp.where(begins, 0.0, outer(found.r, found.r) - found.n)
    r = jnp.where(begins, 0.0, found.r)
    weighted = times(inverse, now.emission)
    u = apply(inverse, x - now.offset - apply(now.emission, m))
    d_system = SystemMatrices(
        transition=outer(r, last[0]) + times(second, times(now.transition, last[1])),
        process_noise=0.5 * second,
        emission=outer(u, m) - times(weighted, p),
        observation_noise=0.5 * (outer(u, u) + sandwich(weighted, p) - inverse),
        drift=r,
        offset=u,
        start_drift=None if now.start_drift is None else jnp.where(begins, found.r, 0.0),
    )
    return d_system, -u


def _gradients(given: FilterInputs, last: Law, found: Backward) -> tuple[SystemMatrices, Float[Array, "t p"]]:
    """The gradients for all matrices, summed where one serves all times."""
    system = given.system
    common = system.with_blocks()
    inverse = masked_inverse(system.observation_noise, given.seen)
    parts, d_x = on_rows(lambda varying, *rest: _gradient(common.at(varying), *rest))(
        system.varying(), given.x, given.begins, last, found, inverse
    )
    named = zip(system._fields, parts, system, RANKS, strict=True)
    whole = {name: g if a.ndim > rank else g.sum(0) for name, g, a, rank in named if g is not None and a is not None}
    return SystemMatrices(**whole), d_x
