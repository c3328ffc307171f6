"""The passes over a hidden chain: filter, smoother, best path, draws of paths.

    filter      αₜ(j) ∝ bₜ(j) Σᵢ αₜ₋₁(i) Pᵢⱼ                   p(zₜ | x₁…xₜ), and log p(xₜ | x₁…xₜ₋₁) its normalizer
    smoother    γₜ(i) = αₜ(i) Σⱼ Pᵢⱼ γₜ₊₁(j)/p(zₜ₊₁ = j | x₁…xₜ)    p(zₜ | x₁…x_T)
    pairs       ξₜ(i, j) = αₜ(i) Pᵢⱼ γₜ₊₁(j)/p(zₜ₊₁ = j | x₁…xₜ)    p(zₜ, zₜ₊₁ | x₁…x_T)
    best path   δₜ(j) = log bₜ(j) + maxᵢ δₜ₋₁(i) + log Pᵢⱼ, then back along what was best

with bₜ(j) = p(xₜ | zₜ = j). Several sequences lie one after the other; `first` marks where each begins. Every pass is a
recursion that forgets (`core.recursion`), so it runs in blocks. Rabiner (1989); Särkkä & Svensson (2023), ch. 8, 12.
"""

from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from credo.core.arrays import computed_once
from credo.core.scan import Careful, blocks_of, recur

SMALLEST = -460.0
"""Sums of scaled likelihoods whose logarithm is below this may have lost digits to underflow."""

UNROLLED = 16
"""Products with matrices of at most so many rows are written as sums, larger ones as products."""

RELATIVE = 1e-100
"""Small probabilities count by their own size: a later outcome may need just them."""


class Filtered(NamedTuple):
    """p(zₜ | x₁…xₜ) for each t, and what each outcome adds to the log-likelihood."""

    probs: Float[Array, "t k"]
    increments: Float[Array, " t"]

    @property
    def log_likelihood(self) -> Float[Array, ""]:
        """log p(x₁…x_T) = Σₜ log p(xₜ | x₁…xₜ₋₁)."""
        return jnp.sum(self.increments)


def push(transition: Float[Array, "k m"], law: Float[Array, "k *b"]) -> Float[Array, "m *b"]:
    """Σᵢ law(i) Pᵢⱼ, of one state or of many side by side (last axis)."""
    if law.ndim == 1 or len(transition) > UNROLLED:
        return transition.T @ law
    return sum((row[:, None] * weight for row, weight in zip(transition, law, strict=True)), jnp.zeros(()))


def update(prior: Float[Array, "k *b"], log_b: Float[Array, "k *b"]) -> tuple[Float[Array, "k *b"], Float[Array, "*b"]]:
    """Bayes' rule for the state, p(z | x) ∝ p(x | z) p(z), and log p(x); an impossible x leaves the prior, with -inf.

    Only states that are possible set the scale: what they say must not underflow because of one that is not.
    """
    top = jnp.max(jnp.where(prior > 0, log_b, -jnp.inf), axis=0)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    joint = prior * jnp.exp(log_b - top)
    total = jnp.sum(joint, axis=0)
    possible = total > 0
    return jnp.where(possible, joint / jnp.where(possible, total, 1.0), prior), jnp.log(total) + top


def filter_states(
    start: Float[Array, " k"],
    transition: Float[Array, "k k"],
    log_b: Float[Array, "t k"],
    first: Bool[Array, " t"],
    before: Float[Array, " k"] | None = None,
) -> Filtered:
    """p(zₜ | x₁…xₜ) and log p(xₜ | x₁…xₜ₋₁) for every t.

    `before` is the law of the state just before the first row, where the rows go on with a sequence.
    All likelihoods are scaled by their largest at once; where that makes an outcome's probability underflow, because
    the states that explain it were ruled out before, the pass is made again with a scale for each prediction.
    """
    first = first.at[0].set(True) if before is None else first
    origin = start if before is None else before

    def predict(alpha: Array, begins: Array) -> Array:
        return jnp.where(begins, start[:, None], push(transition, alpha))

    def quick(alpha: Array, x: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        joint = predict(alpha, x[1]) * x[0]
        total = jnp.sum(joint, axis=0)
        posterior = joint * (1 / total)
        return posterior, (posterior, jnp.log(total))

    def slow(alpha: Array, x: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        row, begins, scale = x
        posterior, increment = update(predict(alpha, begins), row)
        return posterior, (posterior, increment - scale)

    log_b = computed_once(log_b)
    top = jnp.max(log_b, axis=1)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    careful = Careful(slow, (log_b, first, top), lambda ys: jnp.all(ys[1] > SMALLEST))  # false for NaN
    options: dict[str, Any] = {"floor": RELATIVE, "careful": careful, "together": True}
    level = lambda x: jnp.full_like(x[0], 1 / len(start))  # noqa: E731
    probs, logs = recur(quick, origin, (jnp.exp(log_b - top[:, None]), first), level, **options)[1]
    return Filtered(probs, logs + top)


def _ends(first: Bool[Array, " s"], t: int) -> Bool[Array, " t"]:
    """Which of t rows are the last of a sequence: those before a first one.

    `first` may say of the row after the last, too, whether it begins a sequence; otherwise it does.
    """
    return jnp.concatenate([first[1:], jnp.ones(1, bool)])[:t]


def _ratio(later: Float[Array, "*t k"], predicted: Float[Array, "*t k"]) -> Float[Array, "*t k"]:
    """γₜ₊₁(j)/p(zₜ₊₁ = j | x₁…xₜ): by how much the future makes a state more probable; 0/0 is 0."""
    return jnp.where(predicted > 0, later / jnp.where(predicted > 0, predicted, 1.0), 0.0)


def smooth_states(
    transition: Float[Array, "k k"],
    filtered: Float[Array, "t k"],
    first: Bool[Array, " s"],
    later: Float[Array, " k"] | None = None,
) -> Float[Array, "t k"]:
    """p(zₜ | x₁…x_T) for every t.

    Where the rows go on, `later` is that of the row after the last, and `first` has one entry more, for it.
    """

    def step(gamma: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        alpha, ends = x
        back = alpha * push(transition.T, _ratio(gamma, push(transition, alpha)))
        gamma = jnp.where(ends, alpha, back * (1 / jnp.sum(back, axis=0)))
        return gamma, gamma

    xs = (filtered, _ends(first, len(filtered)))
    origin = filtered[-1] if later is None else later
    options: dict[str, Any] = {"reverse": True, "floor": RELATIVE, "together": True}
    return recur(step, origin, xs, lambda x: x[0], **options)[1]


def expected_transitions(
    transition: Float[Array, "k k"],
    filtered: Float[Array, "t k"],
    smoothed: Float[Array, "t k"],
    first: Bool[Array, " t"],
) -> Float[Array, "k k"]:
    """Σₜ ξₜ, how often each transition is expected to have happened, without an array of all pairs."""
    raised = jnp.where(first[1:, None], 0.0, _ratio(smoothed[1:], filtered[:-1] @ transition))
    return transition * (filtered[:-1].T @ raised)


def pair_probs(
    transition: Float[Array, "k k"], filtered: Float[Array, "t k"], smoothed: Float[Array, "t k"]
) -> Float[Array, "t-1 k k"]:
    """p(zₜ = i, zₜ₊₁ = j | x₁…x_T) for t = 1 … T - 1 of one sequence."""
    raised = _ratio(smoothed[1:], filtered[:-1] @ transition)
    return filtered[:-1, :, None] * transition * raised[:, None, :]


def furthest(log_p: Float[Array, "k m"], scores: Float[Array, "k b"]) -> Float[Array, "m b"]:
    """maxᵢ scores(i) + log Pᵢⱼ."""
    if len(log_p) > UNROLLED:
        return jnp.max(log_p[:, :, None] + scores[:, None], axis=0)
    return reduce(jnp.maximum, (each[:, None] + score for each, score in zip(log_p, scores, strict=True)))


def path_scores(
    start: Float[Array, " k"],
    transition: Float[Array, "k k"],
    log_b: Float[Array, "t k"],
    first: Bool[Array, " t"],
    before: Float[Array, " k"] | None = None,
) -> Float[Array, "t k"]:
    """δₜ: the log probability of the best path that ends in each state, less that of the best of them.

    `before` are the scores just before the first row, where the rows go on with a sequence.
    """
    log_p, log_start = jnp.log(transition), jnp.log(start)

    def step(delta: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        row, begins = x
        score = jnp.where(begins, log_start[:, None], furthest(log_p, delta)) + row
        top = jnp.max(score, axis=0)
        score = score - jnp.where(jnp.isfinite(top), top, 0.0)
        return score, score

    first = first.at[0].set(True) if before is None else first
    origin = log_start if before is None else before
    level = lambda x: jnp.zeros_like(x[0])  # noqa: E731
    return recur(step, origin, (log_b, first), level, together=True)[1]


def most(scores: Float[Array, "k b"]) -> Int[Array, " b"]:
    """Which of k is largest, for each of b: one comparison after the other, which vectorizes."""
    if len(scores) > UNROLLED:
        return jnp.argmax(scores, axis=0).astype(jnp.int32)
    best, which = scores[0], jnp.zeros(scores.shape[1], jnp.int32)
    for i, score in enumerate(scores[1:], 1):
        which, best = jnp.where(score > best, jnp.int32(i), which), jnp.maximum(best, score)
    return which


def best_path(
    transition: Float[Array, "k k"],
    scores: Float[Array, "t k"],
    first: Bool[Array, " s"],
    later: Int[Array, ""] | None = None,
) -> Int[Array, " t"]:
    """Back along what was best, from the last row, or from the state `later` after it (see `smooth_states`)."""
    log_p = jnp.log(transition)

    def step(state: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, ends = x
        state = most(jnp.where(ends, delta, delta + log_p[:, state]))
        return state, state

    origin = jnp.zeros((), jnp.int32) if later is None else later
    xs = (scores, _ends(first, len(scores)))
    blocks = blocks_of(len(scores), scores.shape[1], together=True)  # by what is read: little is carried
    return recur(step, origin, xs, lambda x: most(x[0]), reverse=True, together=True, blocks=blocks)[1]


def most_likely_states(
    start: Float[Array, " k"], transition: Float[Array, "k k"], log_b: Float[Array, "t k"], first: Bool[Array, " t"]
) -> Int[Array, " t"]:
    """argmax p(z₁…z_T | x₁…x_T): the most probable path as a whole. Viterbi (1967)."""
    return best_path(transition, path_scores(start, transition, log_b, first), first)


def sample_states(
    key: PRNGKeyArray,
    transition: Float[Array, "k k"],
    filtered: Float[Array, "t k"],
    first: Bool[Array, " t"],
    n: int,
) -> Int[Array, "n t"]:
    """n paths from p(z₁…z_T | x₁…x_T): forwards by the filter, backwards by draws. Chib (1996).

    One uniform number a time decides, so that paths from different futures meet and blocks agree.
    """

    def back(later: Array, x: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        alpha, ends, u = x
        weights = jnp.cumsum(jnp.where(ends, alpha, alpha * transition[:, later]))
        state = jnp.minimum(jnp.sum(weights <= u * weights[-1]), jnp.sum(weights < weights[-1]))
        return state, state

    def path(u: Float[Array, " t"]) -> Int[Array, " t"]:
        xs = (filtered, _ends(first, len(filtered)), u)
        return recur(back, jnp.zeros((), int), xs, lambda x: jnp.argmax(x[0]), reverse=True)[1]

    return jax.vmap(path)(jr.uniform(key, (n, filtered.shape[0])))


def smooth_lagged(
    transition: Float[Array, "k k"],
    log_b: Float[Array, "t k"],
    filtered: Float[Array, "t k"],
    first: Bool[Array, " t"],
    lag: Int[Array, ""] | int,
) -> Float[Array, "t k"]:
    """p(zₜ | x₁…xₜ₊lag): what can be said `lag` steps later; the future of a sequence ends with it."""
    rows = jnp.arange(log_b.shape[0])
    sequence = jnp.cumsum(first)
    b = jnp.exp(log_b - jnp.max(log_b, axis=1, keepdims=True))

    def earlier(i: Array, beta: Array) -> Array:
        ahead = lag - i
        there = jnp.minimum(rows + ahead, rows[-1])
        inside = (rows + ahead <= rows[-1]) & (sequence[there] == sequence)
        stepped = (b[there] * beta) @ transition.T
        return jnp.where(inside[:, None], stepped / jnp.max(stepped, axis=1, keepdims=True), beta)

    beta = jax.lax.fori_loop(0, lag, earlier, jnp.ones_like(filtered))
    gamma = filtered * beta
    return gamma / jnp.sum(gamma, axis=1, keepdims=True)
