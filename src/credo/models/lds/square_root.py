"""Filter and smoother on roots of covariances, P = LLᵀ: for stiff problems, where P itself loses half the digits.

Roots are added by triangularization, never by sums of squares: L of FPFᵀ + Q comes from the rows (FL)ᵀ and √Qᵀ, and

    ⎡ √Rᵀ     0  ⎤       ⎡ √Sᵀ   G  ⎤
    ⎣ (HL)ᵀ   Lᵀ ⎦  ─▶   ⎣ 0     L'ᵀ⎦        S = HPHᵀ + R,  m' = m + Gᵀ√S⁻¹(x - Hm - d),  P' = L'L'ᵀ

The smoother triangularizes ((FL)ᵀ, Lᵀ) over (√Qᵀ, 0) in the same way. Morf & Kailath (1975), "Square-root algorithms
for least-squares estimation"; Särkkä & Svensson (2023), section 8.4.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from credo.core.scan import recur
from credo.core.special import LOG_2PI
from credo.models.lds.batched_matrices import (
    apply,
    outer,
    root,
    root_semidefinite,
    sandwich,
    side_by_side,
    solve_lower,
    times,
    transposed,
    triangular,
)
from credo.models.lds.kalman import Filtered, Smoothed, Start, Steps, begins, following, next_first


@side_by_side
def _forward(start: Start, carry: Any, now: Steps, x: Any, seen: Any, begins: Any) -> tuple[Any, Any]:
    """One step of the filter from (m, L), L of the predicted law included; `start.covariance` is a root."""
    m, low = carry
    new = root_semidefinite(now.noise)
    ahead = transposed(triangular(jnp.concatenate([transposed(times(now.transition, low)), _rows(new, low)])))
    m = jnp.where(begins, start.mean, apply(now.transition, m) + now.drift)
    low = jnp.where(begins, start.covariance, ahead)
    p, n = x.shape[0], m.shape[0]
    mask = seen.astype(m.dtype)
    r = root_semidefinite(now.observation * outer(mask, mask) + jnp.eye(p)[:, :, None] * (1 - mask))
    h = now.emission * mask[:, None]
    top = jnp.concatenate([_rows(r, low), jnp.zeros((p, n, low.shape[2]))], axis=1)
    bottom = jnp.concatenate([transposed(times(h, low)), transposed(low)], axis=1)
    upper = triangular(jnp.concatenate([top, bottom]))
    surprise = (x - now.offset) * mask - apply(h, m)
    white = solve_lower(transposed(upper[:p, :p]), surprise[:, None])[:, 0]
    m = m + apply(transposed(upper[:p, p:]), white)
    low = transposed(upper[p:, p:])
    sizes = jnp.stack([jnp.abs(upper[i, i]) for i in range(p)])
    total = -jnp.sum(jnp.log(jnp.where(sizes > 0, sizes, 1.0)) + 0.5 * (white**2 + mask * LOG_2PI), axis=0)
    return (m, low), (m, low, sandwich(low, jnp.eye(n)[:, :, None]), total)


def _rows(a: Float[Array, "k m _"], like: Float[Array, "n n _"]) -> Float[Array, "m k _"]:
    """aᵀ for every block."""
    return jnp.broadcast_to(transposed(a), (a.shape[1], a.shape[0], like.shape[2]))


@side_by_side
def _backward(later: Any, law: Any, now: Steps, ends: Any) -> tuple[Any, Any]:
    """One step back from (m, L) of zₜ₊₁; L of zₜ from those of what zₜ₊₁ leaves open and of what is open there."""
    m, low = law
    n = m.shape[0]
    new = _rows(root_semidefinite(now.noise), low)
    top = jnp.concatenate([transposed(times(now.transition, low)), transposed(low)], axis=1)
    upper = triangular(jnp.concatenate([top, jnp.concatenate([new, jnp.zeros_like(new)], axis=1)]))
    back = _gain(upper[:n, :n], upper[:n, n:])
    mean = m + apply(back, later[0] - apply(now.transition, m) - now.drift)
    rest = transposed(triangular(jnp.concatenate([transposed(times(back, later[1])), upper[n:, n:]])))
    cross = times(sandwich(later[1], jnp.eye(n)[:, :, None]), transposed(back))
    m, low = jnp.where(ends, m, mean), jnp.where(ends, low, rest)
    return (m, low), (m, sandwich(low, jnp.eye(n)[:, :, None]), jnp.where(ends, 0.0, cross))


def _gain(ahead: Float[Array, "n n _"], both: Float[Array, "n n _"]) -> Float[Array, "n n _"]:
    """Jᵀ = ahead⁻¹both, transposed, for an upper triangular `ahead`: that is lower triangular from the other end."""
    flipped = jnp.flip(ahead, (0, 1))
    return transposed(jnp.flip(solve_lower(flipped, jnp.flip(both, 0)), 0))


def root_filter(
    start: Start,
    steps: Steps,
    x: Float[Array, "t p"],
    seen: Bool[Array, "t p"],
    first: Bool[Array, " t"],
    before: Start | None = None,
) -> tuple[Filtered, Float[Array, "t n n"]]:
    """What `kalman_filter` computes, and the roots of the covariances."""
    fresh = Start(start.mean, root(start.covariance))
    origin = fresh if before is None else Start(before.mean, root(before.covariance))

    def step(carry: Any, element: tuple[Any, ...]) -> tuple[Any, Any]:
        varying, *outcome = element
        return _forward(fresh, carry, steps.at(varying), *outcome)

    xs = (steps.varying(), x, seen, begins(first, before))
    _, (m, low, p, increments) = recur(step, tuple(origin), xs, lambda element: tuple(fresh))
    return Filtered(m, p, increments), low


def root_smoother(steps: Steps, filtered: Filtered, roots: Float[Array, "t n n"], first: Bool[Array, " t"]) -> Smoothed:
    """What `rts_smoother` computes, from the roots of `root_filter`; FPFᵀ + Q must not be singular."""

    def step(later: Any, element: tuple[Any, ...]) -> tuple[Any, Any]:
        varying, law, ends = element
        return _backward(later, law, steps.at(varying), ends)

    xs = (following(steps.varying()), (filtered.mean, roots), next_first(first))
    last = (filtered.mean[-1], roots[-1])
    return Smoothed(*recur(step, last, xs, lambda element: element[1], reverse=True)[1])
