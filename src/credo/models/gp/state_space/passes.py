"""The two passes over time behind `StateSpace`: a Kalman filter forward, the score of what it missed backward.

With eₜ = (yₜ - m(tₜ), φ(tₜ)), a column for the outcomes and one for each feature, all filtered with the same gain:

    forward    M⁻ = F M,  P⁻ = P∞ + F(P - P∞)Fᵀ,  v = e - H M⁻,  S = H P⁻ Hᵀ + R,  K = P⁻Hᵀ/S
               M = M⁻ + K v,  P = P⁻ - K S Kᵀ
    weights    c | y ~ N(ĉ, Σ),  Σ⁻¹ = I + Σₜ vᵩ vᵩᵀ/S,  ĉ = Σ Σₜ vᵩ v_y/S
    backward   α = v/S - Kᵀr,  r ← Fᵀ(r + Hᵀα),  N ← Fᵀ(HᵀH/S + (I - K H)ᵀ N (I - K H))F

r and N say what later data add to the state: z ~ N(M⁻ + P⁻r, P⁻ - P⁻NP⁻) given all data, and no covariance is inverted.
They are also the slopes of the evidence, ∂log p/∂M⁻ = r and ∂log p/∂P⁻ = ½(rrᵀ - N), from which its gradient in the
hyperparameters follows without a way back through the recursion.

Features leave the state to what is forgotten, so that `scan` can run the passes in blocks. de Jong (1991), "The
diffuse Kalman filter"; Durbin & Koopman (2012), §4.4-4.5 and §6.2.3; Koopman & Shephard (1992), "Exact score for
time series models in state space form".
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from credo.core.arrays import Array
from credo.core.linalg import factorize, log_determinant, solve, solve_upper
from credo.core.scan import blocks_of, of_blocks, scan
from credo.models.gp.exact import GPPrior
from credo.models.gp.state_space.sde import APART, SDE, Part, apply, sandwich, sde_of, transpose
from credo.models.gp.state_space.series import Series

BLOCKS = 16
"""Few and long: a part that is slow for so many times is forgotten after 10⁵ of them; else all run one by one."""

FLOOR = 1e-12
"""How well blocks must agree, relative to the largest number: slow parts keep the rounding of thousands of steps."""

CHUNK = 2**22
"""The numbers of one kind that exist at a time, for each query or for the gradient."""


class Forward(NamedTuple):
    """The filter at every time, after its outcome."""

    mean: Float[Array, "c d q"]
    covariance: Float[Array, "c d d"]
    gain: Float[Array, "c d"]
    miss: Float[Array, "c q"]
    """v, zero where nothing was observed."""
    variance: Float[Array, " c"]
    """S."""


class Backward(NamedTuple):
    """What the data at a time and later say about the state that was predicted for it."""

    pull: Float[Array, "c d q"]
    """r."""
    weight: Float[Array, "c d d"]
    """N."""
    alpha: Float[Array, "c q"]
    """K⁻¹e of the dense covariance K of the outcomes given c."""
    precision: Float[Array, " c"]
    """The diagonal of K⁻¹."""


class Weights(NamedTuple):
    """The posterior of the weights of the features."""

    mean: Float[Array, " p"]
    root: Float[Array, "p p"]
    """A square root of their covariance."""
    log_evidence: Float[Array, ""]


class Passed(eqx.Module):
    """What predictions need of both passes."""

    mean: Float[Array, "c d q"]
    covariance: Float[Array, "c d d"]
    pull: Float[Array, "c d q"]
    weight: Float[Array, "c d d"]
    weights_mean: Float[Array, " p"]
    weights_root: Float[Array, "p p"]
    log_evidence: Float[Array, ""]
    """Of all that was seen."""


def noise_of(prior: GPPrior, series: Series) -> Float[Array, " c"]:
    """The noise variance of every row, one where there is none."""
    return jnp.where(series.mask, prior.noise * series.scale + series.extra, 1.0)


def columns_of(prior: GPPrior, sde: SDE, series: Series) -> Float[Array, "c q"]:
    """y - m(x), and the features."""
    residual = jnp.where(series.mask, series.y - prior.mean(series.x), 0.0)
    features = jnp.where(series.mask[:, None], sde.features(series.x, series.origin), 0.0)
    return jnp.concatenate([residual[:, None], features], axis=1)


def forward(prior: GPPrior, sde: SDE, series: Series) -> Forward:
    """The filter, from the first time to the last."""
    columns, noise = columns_of(prior, sde, series), noise_of(prior, series)
    empty: tuple[Array, Array] = (jnp.zeros((len(sde.row), columns.shape[1])), sde.stationary)

    def step(carry: tuple[Array, Array], at: tuple[Array, ...]) -> tuple[tuple[Array, Array], Forward]:
        gap, column, own, seen = at
        stacks = sde.transition(gap)
        mean = apply(stacks, carry[0])
        covariance = sde.stationary + sandwich(stacks, carry[1] - sde.stationary)
        reach = (covariance * sde.row).sum(1)
        variance = (sde.row * reach).sum() + own
        miss = jnp.where(seen, column - (sde.row[:, None] * mean).sum(0), 0.0)
        gain = jnp.where(seen, reach / variance, 0.0)
        mean = mean + gain[:, None] * miss
        covariance = covariance - jnp.where(seen, reach[:, None] * reach / variance, 0.0)
        return (mean, covariance), Forward(mean, covariance, gain, miss, jnp.where(seen, variance, 1.0))

    xs = (series.gap, columns, noise, series.mask)
    return scan(of_blocks(step), empty, xs, blocks=_blocks(series), floor=FLOOR)[1]


def backward(sde: SDE, series: Series, ahead: Forward) -> Backward:
    """The way back, from the last time to the first."""
    d, q = ahead.mean.shape[1:]
    nothing: tuple[Array, Array] = (jnp.zeros((d, q)), jnp.zeros((d, d)))

    def step(carry: tuple[Array, Array], at: tuple[Array, ...]) -> tuple[tuple[Array, Array], Backward]:
        (pull, weight), (gap, gain, miss, variance, seen) = carry, at
        inverse = jnp.where(seen, 1.0 / variance, 0.0)
        alpha = miss * inverse - jnp.where(seen, (gain[:, None] * pull).sum(0), 0.0)
        reach = (weight * gain).sum(1)
        precision = inverse + (gain * reach).sum()
        pull = pull + sde.row[:, None] * alpha
        cross = sde.row[:, None] * reach
        weight = weight - cross - cross.T + precision * sde.row[:, None] * sde.row
        stacks = transpose(sde.transition(gap))
        return (apply(stacks, pull), sandwich(stacks, weight)), Backward(pull, weight, alpha, precision)

    xs = (series.gap, ahead.gain, ahead.miss, ahead.variance, series.mask)
    return scan(of_blocks(step), nothing, xs, reverse=True, blocks=_blocks(series), floor=FLOOR)[1]


def _blocks(series: Series) -> int:
    return min(BLOCKS, blocks_of(series.gap.shape[0], 1))


def absorb(ahead: Forward, mask: Bool[Array, " c"]) -> Weights:
    """The weights of the features from what the filter missed, and log p(y)."""
    scaled = ahead.miss / jnp.sqrt(ahead.variance)[:, None]
    outcome, features = scaled[:, 0], scaled[:, 1:]
    level = -0.5 * (jnp.log(ahead.variance).sum() + mask.sum() * jnp.log(2.0 * jnp.pi))
    if features.shape[1] == 0:
        return Weights(jnp.zeros(0), jnp.zeros((0, 0)), level - 0.5 * jnp.square(outcome).sum())
    factor = factorize(jnp.eye(features.shape[1]) + features.T @ features)
    mean = solve(factor.root, features.T @ outcome)
    explained = jnp.square(outcome - features @ mean).sum() + jnp.square(mean).sum()
    value = level - 0.5 * (explained + log_determinant(factor.root))
    root = solve_upper(factor.root, jnp.eye(features.shape[1]))
    return Weights(mean, root, jnp.where(factor.ok, value, jnp.nan))


@eqx.filter_jit
def condition(prior: GPPrior, series: Series, harmonics: int) -> tuple[Passed, Bool[Array, ""]]:
    """Both passes, and whether all went well."""
    sde = sde_of(prior.kernel, harmonics)
    ahead = forward(prior, sde, series)
    weights = absorb(ahead, series.mask)
    back = backward(sde, series, ahead)
    passed = Passed(ahead.mean, ahead.covariance, back.pull, back.weight, *weights)
    return passed, jnp.isfinite(weights.log_evidence) & (ahead.variance > 0).all()


# -- the evidence and its gradient -------------------------------------------------------------------------------


@eqx.filter_custom_vjp
def log_evidence(prior: GPPrior, series: Series, harmonics: int) -> Float[Array, ""]:
    """log p(y); differentiable once in reverse, in the numbers of the prior."""
    return absorb(forward(prior, sde_of(prior.kernel, harmonics), series), series.mask).log_evidence


@log_evidence.def_fwd
def _evidence_forward(_: Any, prior: GPPrior, series: Series, harmonics: int) -> tuple[Array, tuple[Forward, Weights]]:
    ahead = forward(prior, sde_of(prior.kernel, harmonics), series)
    weights = absorb(ahead, series.mask)
    return weights.log_evidence, (ahead, weights)


@log_evidence.def_bwd
def _evidence_backward(
    saved: tuple[Forward, Weights], slope: Array, _: Any, prior: GPPrior, series: Series, harmonics: int
) -> GPPrior:
    """E[∂ log p(y | c) | y]: slopes times what they belong to, summed over the columns y - Φĉ and ΦΣ^½."""
    ahead, weights = saved
    held = sde_of(prior.kernel, harmonics)
    back = backward(held, series, ahead)
    mix = _mixture(weights)
    pull, alpha = back.pull @ mix, back.alpha @ mix
    by_covariance = 0.5 * (pull @ pull.mT - back.weight)
    by_noise = 0.5 * (jnp.square(alpha).sum(1) - back.precision)
    before = _shift(ahead.mean @ mix, jnp.zeros_like(ahead.mean[0])), _shift(ahead.covariance, held.stationary)
    arrays, rest = eqx.partition(prior, eqx.is_inexact_array)
    xs = (series.gap, *before, pull, by_covariance)

    def moved(arrays: Any, part: tuple[Array, ...]) -> Array:
        sde = sde_of(eqx.combine(arrays, rest).kernel, harmonics)

        def one(gap: Array, mean: Array, covariance: Array, by_mean: Array, by_own: Array) -> Array:
            stacks = sde.transition(gap)
            predicted = sde.stationary + sandwich(stacks, covariance - sde.stationary)
            return (by_mean * apply(stacks, mean)).sum() + (by_own * predicted).sum()

        return jax.vmap(one)(*part).sum()

    def observed(arrays: Any) -> Array:
        own = eqx.combine(arrays, rest)
        columns = columns_of(own, sde_of(own.kernel, harmonics), series) @ mix
        return (by_noise * noise_of(own, series)).sum() - (alpha * columns).sum()

    total = jax.grad(observed)(arrays)
    parts = _parts(series.gap.shape[0], held.stationary.size)
    split = jax.tree.map(lambda a: a.reshape(parts, -1, *a.shape[1:]), xs)
    total, _ = jax.lax.scan(
        lambda g, part: (jax.tree.map(jnp.add, g, jax.grad(moved)(arrays, part)), None), total, split
    )
    return jax.tree.map(lambda g: slope * g, total)


def _parts(c: int, size: int) -> int:
    """In how many parts c rows are taken, so that few matrices of so many numbers exist at a time."""
    parts = 1
    while c % (2 * parts) == 0 and c // parts * size > CHUNK:
        parts *= 2
    return parts


def _mixture(weights: Weights) -> Float[Array, "q q"]:
    """(y, Φ) T = (y - Φĉ, ΦΣ^½)."""
    p = len(weights.mean)
    first = jnp.concatenate([jnp.ones(1), -weights.mean])
    return jnp.concatenate([first[:, None], jnp.concatenate([jnp.zeros((1, p)), weights.root])], axis=1)


def _shift(values: Array, first: Array) -> Array:
    """The value of the row before."""
    return jnp.concatenate([first[None], values[:-1]])


# -- predictions -------------------------------------------------------------------------------------------------


@eqx.filter_jit
def latent(
    x: Float[Array, "m 1"],
    prior: GPPrior,
    series: Series,
    passed: Passed,
    harmonics: int,
    part: Part | None = None,
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Mean and variance of the function at new times, without m(x); of one term of the kernel only, if it is given.

    The filter of the last row before a time and the pull of the first row after it are all that it needs.
    """
    sde = sde_of(prior.kernel, harmonics)
    states, columns = jnp.arange(len(sde.row)), jnp.arange(len(passed.weights_mean))
    row, active = sde.row, columns >= 0
    if part is not None:
        row = jnp.where((states >= part.states[0]) & (states < part.states[1]), row, 0.0)
        active = (columns >= part.features[0]) & (columns < part.features[1])
    times = jnp.where(series.mask, series.x[:, 0], jnp.inf)
    n = series.mask.sum()

    def one(query: tuple[Array, Array]) -> tuple[Array, Array]:
        time, features = query
        i = jnp.searchsorted(times, time, side="right") - 1
        has_before, has_after = i >= 0, i + 1 < n
        last, after = jnp.maximum(i, 0), jnp.minimum(i + 1, len(times) - 1)
        to = sde.transition(jnp.where(has_before, time - times[last], APART))
        on = transpose(sde.transition(jnp.where(has_after, times[after] - time, APART)))
        mean = apply(to, passed.mean[last])
        covariance = sde.stationary + sandwich(to, passed.covariance[last] - sde.stationary)
        pull = jnp.where(has_after, apply(on, passed.pull[after]), 0.0)
        weight = jnp.where(has_after, sandwich(on, passed.weight[after]), 0.0)
        reach = (covariance * row).sum(1)
        values = (row[:, None] * mean).sum(0) + (reach[:, None] * pull).sum(0)
        variance = (row * reach).sum() - (reach[:, None] * weight * reach).sum()
        left = features - values[1:]
        doubt = jnp.square(left @ passed.weights_root).sum()
        return values[0] + (left * passed.weights_mean).sum(), jnp.maximum(variance, 0.0) + doubt

    features = jnp.where(active, sde.features(x, series.origin), 0.0)
    batch = max(1, min(x.shape[0], CHUNK // sde.stationary.size))
    return jax.lax.map(one, (x[:, 0], features), batch_size=batch)


@eqx.filter_jit
def leave_one_out(prior: GPPrior, series: Series, harmonics: int) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """Mean and variance of every outcome given all others, yᵢ - αᵢ/Pᵢᵢ and 1/Pᵢᵢ, in the order of time.

    Rasmussen & Williams (2006), eq. 5.12, with c integrated out of α and of the diagonal P.
    """
    sde = sde_of(prior.kernel, harmonics)
    ahead = forward(prior, sde, series)
    back = backward(sde, series, ahead)
    mixed = back.alpha @ _mixture(absorb(ahead, series.mask))
    precision = jnp.where(series.mask, back.precision - jnp.square(mixed[:, 1:]).sum(1), 1.0)
    return series.y - mixed[:, 0] / precision, 1.0 / precision
