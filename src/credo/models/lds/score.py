"""log p(x₁…x_T) with its gradient by hand: one pass back, whatever is singular.

The future sees the predicted law N(a, P) of zₜ through rₜ and Nₜ alone: ∂ log p/∂a = r, ∂ log p/∂P = ½(rrᵀ - N), and

    through an observation    r ← h v/f + (I - khᵀ)ᵀr,    N ← hhᵀ/f + (I - khᵀ)ᵀN(I - khᵀ)
    through a transition      r ← Fᵀr,                    N ← FᵀNF

from which the gradients follow: c: r; Q: ½(rrᵀ - N); F: r mₜ₋₁ᵀ + (rrᵀ - N)FPₜ₋₁; and, by Fisher's identity with
u = R⁻¹(x - d - Hm') for the smoothed law N(m', P') = N(a + Pr, P - PNP), d: u; H: um'ᵀ - R⁻¹HP';
R: ½(uuᵀ + R⁻¹HP'HᵀR⁻¹ - R⁻¹). Koopman & Shephard (1992), "Exact score for time series models in state space form".
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from credo.core.scan import recur
from credo.models.lds.batched_matrices import (
    apply,
    each,
    inner,
    outer,
    sandwich,
    side_by_side,
    solve_semidefinite,
    times,
    transposed,
)
from credo.models.lds.kalman import (
    RANKS,
    Filtered,
    Start,
    Steps,
    begins,
    kalman_filter,
    predict,
    update,
)


@jax.custom_vjp
def log_likelihood(
    start: Start,
    steps: Steps,
    x: Float[Array, "t p"],
    seen: Bool[Array, "t p"],
    first: Bool[Array, " t"],
    before: Start | None,
) -> Float[Array, ""]:
    """log p(x₁…x_T) of the seen numbers; its gradient costs one more pass."""
    return kalman_filter(start, steps, x, seen, first, before).log_likelihood


def _forward(start: Start, steps: Steps, x: Any, seen: Any, first: Any, before: Any) -> tuple[Array, Any]:
    filtered = kalman_filter(start, steps, x, seen, first, before)
    return filtered.log_likelihood, (start, steps, x, seen, first, before, filtered)


def _backward(kept: Any, cotangent: Float[Array, ""]) -> tuple[Any, ...]:
    start, steps, x, seen, first, before, filtered = kept
    fresh = begins(first, before)
    last = shifted(filtered, before)
    r, n, m, p = disturbances(start, steps, x, seen, fresh, last)
    d_steps, d_x = _gradients(steps, x, seen, fresh, last, (r, n, m, p))
    second = 0.5 * (r[:, :, None] * r[:, None, :] - n)
    d_start = Start(jnp.where(fresh[:, None], r, 0.0).sum(0), jnp.where(fresh[:, None, None], second, 0.0).sum(0))
    d_before = None
    if before is not None:
        f = steps.transition if steps.transition.ndim == 2 else steps.transition[0]
        d_before = Start(jnp.where(fresh[0], 0.0, f.T @ r[0]), jnp.where(fresh[0], 0.0, f.T @ second[0] @ f))
    scaled = jax.tree.map(lambda g: cotangent * g, (d_start, d_steps, d_x, d_before))
    return (*scaled[:3], None, None, scaled[3])


log_likelihood.defvjp(_forward, _backward)


def shifted(filtered: Filtered, before: Start | None) -> tuple[Float[Array, "t n"], Float[Array, "t n n"]]:
    """The filtered law of the time before each."""
    origin = (filtered.mean[0], filtered.covariance[0]) if before is None else tuple(before)
    laws = (filtered.mean, filtered.covariance)
    return tuple(jnp.concatenate([o[None], a[:-1]]) for o, a in zip(origin, laws, strict=True))  # type: ignore[return-value]


@side_by_side
def back_step(start: Start, carry: Any, last: Any, now: Steps, x: Any, seen: Any, begins: Any) -> tuple[Any, Any]:
    """One step back with (r, N): from the filtered law of zₜ to that of zₜ₋₁."""
    a, spread = (jnp.where(begins, s, v) for s, v in zip(start, predict(last[0], last[1], now), strict=True))
    *_, trail = update(a, spread, now, x, seen)

    def one(state: tuple[Array, Array], j: Any) -> tuple[tuple[Array, Array], None]:
        r, n = state
        row, gain, weight = trail.row[j], trail.gain[j], trail.weight[j]
        along = apply(n, gain)
        r = r + row * (weight * trail.surprise[j] - inner(gain, r))
        n = n - outer(along, row) - outer(row, along) + outer(row, row) * (inner(gain, along) + weight)
        return (r, n), None

    (r, n), _ = each(x.shape[0], one, carry, reverse=True)
    smoothed = a + apply(spread, r), spread - sandwich(spread, n)
    onward = transposed(now.transition)
    carry = jnp.where(begins, 0.0, apply(onward, r)), jnp.where(begins, 0.0, sandwich(onward, n))
    return carry, (r, n, *smoothed)


def disturbances(
    start: Start,
    steps: Steps,
    x: Float[Array, "t p"],
    seen: Bool[Array, "t p"],
    fresh: Bool[Array, " t"],
    last: tuple[Float[Array, "t n"], Float[Array, "t n n"]],
) -> tuple[Float[Array, "t n"], Float[Array, "t n n"], Float[Array, "t n"], Float[Array, "t n n"]]:
    """r and N of every predicted law, and the smoothed means and covariances."""

    def step(carry: Any, element: tuple[Any, ...]) -> tuple[Any, Any]:
        varying, law, *outcome = element
        return back_step(start, carry, law, steps.at(varying), *outcome)

    none = (jnp.zeros_like(start.mean), jnp.zeros_like(start.covariance))
    return recur(step, none, (steps.varying(), last, x, seen, fresh), lambda element: none, reverse=True)[1]


@side_by_side
def _masked_inverse(r: Float[Array, "p p _"], seen: Bool[Array, "p _"]) -> Float[Array, "p p _"]:
    """R⁻¹ of the seen numbers, 0 for the others."""
    mask = seen.astype(r.dtype)
    unit = jnp.eye(r.shape[0])[:, :, None]
    both = outer(mask, mask)
    return both * solve_semidefinite(r * both + unit * (1 - mask), jnp.broadcast_to(unit, both.shape))


def masked_inverse(r: Float[Array, "*t p p"], seen: Bool[Array, "t p"]) -> Float[Array, "t p p"]:
    """R⁻¹ of the seen numbers of each time, 0 for the others."""
    return jax.vmap(_masked_inverse, in_axes=(None if r.ndim == 2 else 0, 0))(r, seen)


@side_by_side
def _gradient(now: Steps, x: Any, begins: Any, last: Any, found: Any, inverse: Any) -> tuple[Steps, Any]:
    """The gradients for one time."""
    r, n, m, p = found
    second = jnp.where(begins, 0.0, outer(r, r) - n)
    r = jnp.where(begins, 0.0, r)
    weighted = times(inverse, now.emission)
    u = apply(inverse, x - now.offset - apply(now.emission, m))
    d_steps = Steps(
        transition=outer(r, last[0]) + times(second, times(now.transition, last[1])),
        noise=0.5 * second,
        emission=outer(u, m) - times(weighted, p),
        observation=0.5 * (outer(u, u) + sandwich(weighted, p) - inverse),
        drift=r,
        offset=u,
    )
    return d_steps, -u


def _gradients(steps: Steps, x: Any, seen: Any, fresh: Any, last: Any, found: Any) -> tuple[Steps, Any]:
    """The gradients for all matrices, summed where one serves all times."""
    parts, d_x = jax.vmap(
        lambda varying, *rest: _gradient(steps.at(varying), *rest),
    )(steps.varying(), x, fresh, last, found, masked_inverse(steps.observation, seen))
    whole = [g if a.ndim > rank else g.sum(0) for g, a, rank in zip(parts, steps, RANKS, strict=True)]
    return Steps(*whole), d_x
