"""The passes over a hidden chain: filter, smoother, best path, draws of paths.

    filter      αₜ(j) ∝ bₜ(j) Σᵢ αₜ₋₁(i) Pᵢⱼ                   p(zₜ | x₁…xₜ), and log p(xₜ | x₁…xₜ₋₁) its normalizer
    smoother    γₜ(i) = αₜ(i) Σⱼ Pᵢⱼ γₜ₊₁(j)/p(zₜ₊₁ = j | x₁…xₜ)    p(zₜ | x₁…x_T)
    pairs       ξₜ(i, j) = αₜ(i) Pᵢⱼ γₜ₊₁(j)/p(zₜ₊₁ = j | x₁…xₜ)    p(zₜ, zₜ₊₁ | x₁…x_T)
    best path   δₜ(j) = log bₜ(j) + maxᵢ δₜ₋₁(i) + log Pᵢⱼ, then back along what was best

with bₜ(j) = p(xₜ | zₜ = j). Several sequences lie one after the other; `first` marks where each begins. Every pass is a
recursion that forgets (`core.scan`), so it runs in blocks. Rabiner (1989); Särkkä & Svensson (2023), ch. 8, 12.
"""

from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from credo.core.arrays import Array, computed_once
from credo.core.scan import blocks_of, of_blocks, scan

Law = Float[Array, " k"]
Matrix = Float[Array, "k k"]
Table = Float[Array, "t k"]
Marks = Bool[Array, " t"]

UNROLLED = 16
"""Products with matrices of at most so many rows are written as sums, larger ones as products."""

RELATIVE = 1e-100
"""Small probabilities count by their own size: a later outcome may need just them."""


class Filtered(NamedTuple):
    """p(zₜ | x₁…xₜ) for each t, and what each outcome adds to the log-likelihood."""

    probs: Table
    increments: Float[Array, " t"]

    def log_likelihood(self, real: Marks) -> Float[Array, ""]:
        """log p(x₁…x_T) = Σₜ log p(xₜ | x₁…xₜ₋₁) over the rows that are not padding."""
        return jnp.sum(jnp.where(real, self.increments, 0.0))


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


def filter_states(start: Law, transition: Matrix, log_b: Table, first: Marks) -> Filtered:
    """p(zₜ | x₁…xₜ) and log p(xₜ | x₁…xₜ₋₁) for every t."""

    def step(alpha: Array, x: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        row, begins = x
        posterior, increment = update(jnp.where(begins, start[:, None], push(transition, alpha)), row)
        return posterior, (posterior, increment)

    xs = (computed_once(log_b), first.at[0].set(True))
    return Filtered(*scan(step, start, xs, lambda x: jnp.full_like(x[0], 1 / len(start)), floor=RELATIVE)[1])


def _ends(first: Marks) -> Bool[Array, " t"]:
    """Which rows are the last of a sequence: those before a first one."""
    return jnp.concatenate([first[1:], jnp.ones(1, bool)])


def _ratio(later: Float[Array, "*t k"], predicted: Float[Array, "*t k"]) -> Float[Array, "*t k"]:
    """γₜ₊₁(j)/p(zₜ₊₁ = j | x₁…xₜ): by how much the future makes a state more probable; 0/0 is 0."""
    return jnp.where(predicted > 0, later / jnp.where(predicted > 0, predicted, 1.0), 0.0)


def smooth_states(transition: Matrix, filtered: Table, first: Marks) -> Table:
    """p(zₜ | x₁…x_T) for every t."""

    def step(gamma: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        alpha, ends = x
        back = alpha * push(transition.T, _ratio(gamma, push(transition, alpha)))
        gamma = jnp.where(ends, alpha, back * (1 / jnp.sum(back, axis=0)))
        return gamma, gamma

    xs = (filtered, _ends(first))
    return scan(step, filtered[-1], xs, lambda x: x[0], reverse=True, floor=RELATIVE)[1]


def expected_transitions(transition: Matrix, filtered: Table, smoothed: Table, first: Marks) -> Float[Array, "k k"]:
    """Σₜ ξₜ, how often each transition is expected to have happened, without an array of all pairs."""
    raised = jnp.where(first[1:, None], 0.0, _ratio(smoothed[1:], filtered[:-1] @ transition))
    return transition * (filtered[:-1].T @ raised)


def latest_state(start: Law, transition: Matrix, log_b: Table, first: Marks, real: Marks) -> Law:
    """p(z | x) at the last row that is not padding."""
    return filter_states(start, transition, log_b, first).probs[jnp.sum(real) - 1]


def smoothed_states(start: Law, transition: Matrix, log_b: Table, first: Marks) -> Table:
    """p(zₜ | x₁…x_T) for every t."""
    return smooth_states(transition, filter_states(start, transition, log_b, first).probs, first)


def pair_probs(start: Law, transition: Matrix, log_b: Table, first: Marks) -> Float[Array, "t-1 k k"]:
    """p(zₜ = i, zₜ₊₁ = j | x₁…x_T) for t = 1 … T - 1, as if all rows were of one sequence."""
    filtered = filter_states(start, transition, log_b, first).probs
    raised = _ratio(smooth_states(transition, filtered, first)[1:], filtered[:-1] @ transition)
    return filtered[:-1, :, None] * transition * raised[:, None, :]


def furthest(log_p: Float[Array, "k m"], scores: Float[Array, "k b"]) -> Float[Array, "m b"]:
    """maxᵢ scores(i) + log Pᵢⱼ."""
    if len(log_p) > UNROLLED:
        return jnp.max(log_p[:, :, None] + scores[:, None], axis=0)
    return reduce(jnp.maximum, (each[:, None] + score for each, score in zip(log_p, scores, strict=True)))


def most(scores: Float[Array, "k b"]) -> Int[Array, " b"]:
    """Which of k is largest, for each of b: one comparison after the other, which vectorizes."""
    if len(scores) > UNROLLED:
        return jnp.argmax(scores, axis=0).astype(jnp.int32)
    best, which = scores[0], jnp.zeros(scores.shape[1], jnp.int32)
    for i, score in enumerate(scores[1:], 1):
        which, best = jnp.where(score > best, jnp.int32(i), which), jnp.maximum(best, score)
    return which


def most_likely_states(start: Law, transition: Matrix, log_b: Table, first: Marks) -> Int[Array, " t"]:
    """argmax p(z₁…z_T | x₁…x_T): the most probable path as a whole. Viterbi (1967)."""
    log_p, log_start = jnp.log(transition), jnp.log(start)

    def forth(delta: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        """δₜ less its largest: the log probability of the best path that ends in each state."""
        row, begins = x
        score = jnp.where(begins, log_start[:, None], furthest(log_p, delta)) + row
        top = jnp.max(score, axis=0)
        score = score - jnp.where(jnp.isfinite(top), top, 0.0)
        return score, score

    def back(state: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, ends = x
        state = most(jnp.where(ends, delta, delta + log_p[:, state]))
        return state, state

    scores = scan(forth, log_start, (log_b, first.at[0].set(True)), lambda x: jnp.zeros_like(x[0]))[1]
    blocks = blocks_of(len(scores), len(start))  # by what is read: little is carried
    origin, xs = jnp.zeros((), jnp.int32), (scores, _ends(first))
    return scan(back, origin, xs, lambda x: most(x[0]), reverse=True, blocks=blocks)[1]


def sample_states(key: PRNGKeyArray, transition: Matrix, filtered: Table, first: Marks, n: int) -> Int[Array, "n t"]:
    """n paths from p(z₁…z_T | x₁…x_T): forwards by the filter, backwards by draws. Chib (1996).

    One uniform number a time decides, so that paths from different futures meet and blocks agree.
    """

    def back(later: Array, x: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        alpha, ends, u = x
        weights = jnp.cumsum(jnp.where(ends, alpha, alpha * transition[:, later]))
        state = jnp.minimum(jnp.sum(weights <= u * weights[-1]), jnp.sum(weights < weights[-1]))
        return state, state

    def path(u: Float[Array, " t"]) -> Int[Array, " t"]:
        xs = (filtered, _ends(first), u)
        return scan(of_blocks(back), jnp.zeros((), int), xs, lambda x: jnp.argmax(x[0], axis=0), reverse=True)[1]

    return jax.vmap(path)(jr.uniform(key, (n, filtered.shape[0])))


def sampled_paths(
    start: Law, transition: Matrix, log_b: Table, first: Marks, key: PRNGKeyArray, n: int
) -> Int[Array, "n t"]:
    """n paths from p(z₁…z_T | x₁…x_T)."""
    return sample_states(key, transition, filter_states(start, transition, log_b, first).probs, first, n)


def lagged_states(start: Law, transition: Matrix, log_b: Table, first: Marks, lag: Int[Array, ""]) -> Table:
    """p(zₜ | x₁…xₜ₊lag): what can be said `lag` steps later; the future of a sequence ends with it."""
    filtered = filter_states(start, transition, log_b, first).probs
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
