"""Filter and smoother on roots of covariances, P = LLᵀ: for stiff problems, where P itself loses half the digits.

Roots are added by triangularization, never by sums of squares: L of FPFᵀ + Q comes from the rows (FL)ᵀ and √Qᵀ, and

    ⎡ √Rᵀ     0  ⎤       ⎡ √Sᵀ   G  ⎤
    ⎣ (HL)ᵀ   Lᵀ ⎦  ─▶   ⎣ 0     L'ᵀ⎦        S = HPHᵀ + R,  m' = m + Gᵀ√S⁻¹(x - Hm - d),  P' = L'L'ᵀ

The smoother triangularizes ((FL)ᵀ, Lᵀ) over (√Qᵀ, 0) in the same way. Morf & Kailath (1975), "Square-root algorithms
for least-squares estimation"; Särkkä & Svensson (2023), section 8.4.
"""

import jax.numpy as jnp
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.scan import scan
from credo.core.special import LOG_2PI
from credo.models.lds.batched_matrices import (
    apply,
    outer,
    root_semidefinite,
    sandwich,
    solve_lower,
    times,
    transposed,
    triangular,
)
from credo.models.lds.kalman import (
    FilterInputs,
    Law,
    Row,
    StateLaw,
    SystemMatrices,
    Varying,
    first_mean,
    following,
)
from credo.models.sequences import ends_of
from credo.models.state_laws import FilteredStates, SmoothedStates


def _forward(
    start: StateLaw, carry: Law, now: SystemMatrices, x: Array, seen: Array, begins: Array
) -> tuple[Law, tuple[Array, ...]]:
    """One step of the filter from (m, L), L of the predicted law included; `start.covariance` is a root."""
    m, low = carry
    new = root_semidefinite(now.process_noise)
    ahead = transposed(triangular(jnp.concatenate([transposed(times(now.transition, low)), _rows(new, low)])))
    m = jnp.where(begins, first_mean(start, now), apply(now.transition, m) + now.drift)
    low = jnp.where(begins, start.covariance, ahead)
    p, n = x.shape[0], m.shape[0]
    mask = seen.astype(m.dtype)
    r = root_semidefinite(now.observation_noise * outer(mask, mask) + jnp.eye(p)[:, :, None] * (1 - mask))
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


def _backward(later: Law, law: Law, now: SystemMatrices, ends: Array) -> tuple[Law, tuple[Array, Array]]:
    """One step back from (m, L) of zₜ₊₁; L of zₜ from those of what zₜ₊₁ leaves open and of what is open there."""
    m, low = law
    n = m.shape[0]
    new = _rows(root_semidefinite(now.process_noise), low)
    top = jnp.concatenate([transposed(times(now.transition, low)), transposed(low)], axis=1)
    upper = triangular(jnp.concatenate([top, jnp.concatenate([new, jnp.zeros_like(new)], axis=1)]))
    back = _gain(upper[:n, :n], upper[:n, n:])
    mean = m + apply(back, later[0] - apply(now.transition, m) - now.drift)
    rest = transposed(triangular(jnp.concatenate([transposed(times(back, later[1])), upper[n:, n:]])))
    m, low = jnp.where(ends, m, mean), jnp.where(ends, low, rest)
    return (m, low), (m, sandwich(low, jnp.eye(n)[:, :, None]))


def _gain(ahead: Float[Array, "n n _"], both: Float[Array, "n n _"]) -> Float[Array, "n n _"]:
    """Jᵀ = ahead⁻¹both, transposed, for an upper triangular `ahead`: that is lower triangular from the other end."""
    flipped = jnp.flip(ahead, (0, 1))
    return transposed(jnp.flip(solve_lower(flipped, jnp.flip(both, 0)), 0))


def root_filter(given: FilterInputs) -> tuple[FilteredStates, Float[Array, "t n n"]]:
    """What `kalman_filter` computes, and the roots of the covariances."""
    start = StateLaw(given.start.mean, root_semidefinite(given.start.covariance))
    origin = start if given.before is None else StateLaw(given.before.mean, root_semidefinite(given.before.covariance))

    def step(carry: Law, row: Row, start: StateLaw, system: SystemMatrices) -> tuple[Law, tuple[Array, ...]]:
        varying, *outcome = row
        return _forward(start, carry, system.at(varying), *outcome)

    m, low, p, increments = scan(step, tuple(origin), given.rows(), given=(start, given.system))[1]
    return FilteredStates(m, p, increments), low


def root_smoother(given: FilterInputs, filtered: FilteredStates, roots: Float[Array, "t n n"]) -> SmoothedStates:
    """What `kalman_smoother` computes, from the roots of `root_filter`; FPFᵀ + Q must not be singular."""

    def step(later: Law, row: tuple[Varying, Law, Array], system: SystemMatrices) -> tuple[Law, tuple[Array, Array]]:
        varying, law, ends = row
        return _backward(later, law, system.at(varying), ends)

    rows = (following(given.system.varying()), (filtered.mean, roots), ends_of(given.first))
    last = (filtered.mean[-1], roots[-1])
    mean, covariance = scan(step, last, rows, lambda row: row[1], (given.system,), reverse=True)[1]
    return SmoothedStates(mean, covariance, filtered.increments)
