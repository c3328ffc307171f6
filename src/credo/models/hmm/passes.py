"""The passes over a hidden chain: filter, smoother, best path, draws of paths.

    filter      αₜ(j) ∝ bₜ(j) Σᵢ αₜ₋₁(i) Pᵢⱼ                   p(zₜ | x₁…xₜ), and log p(xₜ | x₁…xₜ₋₁) its normalizer
    smoother    γₜ(i) = αₜ(i) Σⱼ Pᵢⱼ γₜ₊₁(j)/p(zₜ₊₁ = j | x₁…xₜ)    p(zₜ | x₁…x_T)
    pairs       ξₜ(i, j) = αₜ(i) Pᵢⱼ γₜ₊₁(j)/p(zₜ₊₁ = j | x₁…xₜ)    p(zₜ, zₜ₊₁ | x₁…x_T)
    best path   δₜ(j) = log bₜ(j) + maxᵢ δₜ₋₁(i) + log Pᵢⱼ, then back along what was best

with bₜ(j) = p(xₜ | zₜ = j). Several sequences lie one after the other; `first` marks where each begins. Every pass is a
recursion that forgets (`core.scan`), so it runs in blocks where there are many times. In a step, and in NumPy in whole
passes too, arrays may have one more, last axis: blocks, or chains side by side. Rabiner (1989); Särkkä & Svensson
(2023), ch. 8, 12.
"""

from functools import reduce
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from credo.core.arrays import Array, computed_once, namespace
from credo.core.scan import blocks_of, scan
from credo.models.sequences import begins_of, ends_of

Law = Float[Array, "k *b"]
Matrix = Float[Array, "k k *b"]
Table = Float[Array, "t k *b"]
Marks = Bool[Array, " t"]

UNROLLED = 16
"""Products with matrices of at most so many rows are written as sums, larger ones as products."""

RELATIVE = 1e-100
"""Small probabilities count by their own size: a later outcome may need just them."""

LOWEST = -1e300
"""The scale of an outcome that no state can show."""


class Filtered(NamedTuple):
    """p(zₜ | x₁…xₜ) for each t, and what each outcome adds to the log-likelihood."""

    probs: Table
    increments: Float[Array, "t *b"]

    def log_likelihood(self, real: Marks) -> Float[Array, "*b"]:
        """log p(x₁…x_T) = Σₜ log p(xₜ | x₁…xₜ₋₁) over the rows that are not padding."""
        xp = namespace(self, real)
        return xp.where(real, self.increments.T, 0.0).sum(-1)


def push(transition: Float[Array, "k m ..."], law: Float[Array, "k *b"]) -> Float[Array, "m *b"]:
    """Σᵢ law(i) Pᵢⱼ, of one state or of many side by side (last axis)."""
    if law.ndim == 1:
        return law.dot(transition)
    if isinstance(law, np.ndarray):
        return (transition * law[:, None]).sum(0)
    if len(transition) > UNROLLED:
        return transition[..., 0].T @ law
    return sum((row * weight for row, weight in zip(transition, law, strict=True)), jnp.zeros(()))


def update(
    prior: Float[Array, "k *b"], log_b: Float[Array, "k *b"], xp: ModuleType
) -> tuple[Float[Array, "k *b"], Float[Array, "*b"]]:
    """Bayes' rule for the state, p(z | x) ∝ p(x | z) p(z), and log p(x); an impossible x leaves the prior, with -inf.

    Only states that are possible set the scale: what they say must not underflow because of one that is not.
    """
    top = log_b.max(axis=0, where=prior > 0, initial=LOWEST)
    joint = prior * xp.exp(xp.minimum(log_b - top, 0.0))
    total = joint.sum(axis=0)
    return xp.where(total > 0, joint / total, prior), xp.log(total) + top


def filter_states(start: Law, transition: Matrix, log_b: Table, first: Marks) -> Filtered:
    """p(zₜ | x₁…xₜ) and log p(xₜ | x₁…xₜ₋₁) for every t."""
    xp = namespace(start, transition, log_b, first)

    def step(alpha: Array, x: tuple[Array, Array], start: Array, transition: Array) -> tuple[Array, Filtered]:
        row, begins = x
        found = Filtered(*update(xp.where(begins, start, push(transition, alpha)), row, xp))
        return found.probs, found

    xs = (log_b if xp is np else computed_once(log_b), begins_of(first))
    even = lambda x: jnp.full_like(x[0], 1 / len(start))  # noqa: E731
    return scan(step, start, xs, even, (start, transition), floor=RELATIVE)[1]


def _ratio(later: Float[Array, "*t k"], predicted: Float[Array, "*t k"], xp: ModuleType) -> Float[Array, "*t k"]:
    """γₜ₊₁(j)/p(zₜ₊₁ = j | x₁…xₜ): by how much the future makes a state more probable; 0/0 is 0."""
    return xp.where(predicted > 0, later / xp.where(predicted > 0, predicted, 1.0), 0.0)


def smooth_states(transition: Matrix, filtered: Table, first: Marks) -> Table:
    """p(zₜ | x₁…x_T) for every t."""
    xp = namespace(transition, filtered, first)

    def step(gamma: Array, x: tuple[Array, Array], transition: Array) -> tuple[Array, Array]:
        alpha, ends = x
        back = alpha * push(transition.swapaxes(0, 1), _ratio(gamma, push(transition, alpha), xp))
        gamma = xp.where(ends, alpha, back * (1 / back.sum(axis=0)))
        return gamma, gamma

    xs = (filtered, ends_of(first))
    return scan(step, filtered[-1], xs, lambda x: x[0], (transition,), reverse=True, floor=RELATIVE)[1]


def expected_transitions(transition: Matrix, filtered: Table, smoothed: Table, first: Marks) -> Float[Array, "k k"]:
    """Σₜ ξₜ, how often each transition is expected to have happened, without an array of all pairs."""
    xp = namespace(transition, filtered, smoothed, first)
    raised = xp.where(first[1:, None], 0.0, _ratio(smoothed[1:], filtered[:-1] @ transition, xp))
    return transition * (filtered[:-1].T @ raised)


def latest_state(start: Law, transition: Matrix, log_b: Table, first: Marks, real: Marks) -> Law:
    """p(z | x) at the last row that is not padding."""
    return filter_states(start, transition, log_b, first).probs[real.sum() - 1]


def smoothed_states(start: Law, transition: Matrix, log_b: Table, first: Marks) -> Table:
    """p(zₜ | x₁…x_T) for every t."""
    return smooth_states(transition, filter_states(start, transition, log_b, first).probs, first)


def pair_probs(start: Law, transition: Matrix, log_b: Table, first: Marks) -> Float[Array, "t-1 k k"]:
    """p(zₜ = i, zₜ₊₁ = j | x₁…x_T) for t = 1 … T - 1, as if all rows were of one sequence."""
    xp = namespace(start, transition, log_b, first)
    filtered = filter_states(start, transition, log_b, first).probs
    raised = _ratio(smooth_states(transition, filtered, first)[1:], filtered[:-1] @ transition, xp)
    return filtered[:-1, :, None] * transition * raised[:, None, :]


def furthest(log_p: Float[Array, "k m ..."], scores: Float[Array, "k *b"]) -> Float[Array, "m *b"]:
    """maxᵢ scores(i) + log Pᵢⱼ."""
    if isinstance(scores, np.ndarray) or len(log_p) > UNROLLED:
        return (log_p + scores[:, None]).max(axis=0)
    return reduce(jnp.maximum, (row + score for row, score in zip(log_p, scores, strict=True)))


def most(scores: Float[Array, "k *b"]) -> Int[Array, "*b"]:
    """Which of k is largest, for each of b: one comparison after the other, which vectorizes."""
    if isinstance(scores, np.ndarray) or len(scores) > UNROLLED:
        return scores.argmax(axis=0).astype(np.int32)
    best, which = scores[0], jnp.zeros(scores.shape[1], jnp.int32)
    for i, score in enumerate(scores[1:], 1):
        which, best = jnp.where(score > best, jnp.int32(i), which), jnp.maximum(best, score)
    return which


def _column(table: Float[Array, "k m ..."], which: Int[Array, "*b"]) -> Float[Array, "k *b"]:
    """One column of a table, or for each block another column of the table that they share."""
    return table[:, which] if table.ndim == 2 else table[:, which, 0]


def most_likely_states(start: Law, transition: Matrix, log_b: Table, first: Marks) -> Int[Array, " t"]:
    """argmax p(z₁…z_T | x₁…x_T): the most probable path as a whole. Viterbi (1967)."""
    xp = namespace(start, transition, log_b, first)
    with np.errstate(divide="ignore"):
        log_p, log_start = xp.log(transition), xp.log(start)

    def forth(delta: Array, x: tuple[Array, Array], log_start: Array, log_p: Array) -> tuple[Array, Array]:
        """δₜ less its largest: the log probability of the best path that ends in each state."""
        row, begins = x
        score = xp.where(begins, log_start, furthest(log_p, delta)) + row
        top = score.max(axis=0)
        score = score - xp.where(xp.isfinite(top), top, 0.0)
        return score, score

    def back(state: Array, x: tuple[Array, Array], log_p: Array) -> tuple[Array, Array]:
        delta, ends = x
        state = most(xp.where(ends, delta, delta + _column(log_p, state)))
        return state, state

    flat = lambda x: jnp.zeros_like(x[0])  # noqa: E731
    scores = scan(forth, log_start, (log_b, begins_of(first)), flat, (log_start, log_p))[1]
    blocks = blocks_of(len(scores), len(start))  # by what is read: little is carried
    origin: Array = np.zeros((), np.int32)
    xs = (scores, ends_of(first))
    return scan(back, origin, xs, lambda x: most(x[0]), (log_p,), reverse=True, blocks=blocks)[1]


def sample_states(key: PRNGKeyArray, transition: Matrix, filtered: Table, first: Marks, n: int) -> Int[Array, "n t"]:
    """n paths from p(z₁…z_T | x₁…x_T): forwards by the filter, backwards by draws. Chib (1996).

    One uniform number a time decides, so that paths from different futures meet and blocks agree.
    """

    def back(later: Array, x: tuple[Array, Array, Array], transition: Array) -> tuple[Array, Array]:
        alpha, ends, u = x
        weights = jnp.cumsum(jnp.where(ends, alpha, alpha * _column(transition, later)), axis=0)
        state = jnp.minimum((weights <= u * weights[-1]).sum(0), (weights < weights[-1]).sum(0))
        return state, state

    def path(u: Float[Array, " t"]) -> Int[Array, " t"]:
        origin: Array = jnp.zeros((), int)
        xs = (filtered, ends_of(first), u)
        return scan(back, origin, xs, lambda x: jnp.argmax(x[0], axis=0), (transition,), reverse=True)[1]

    return jax.vmap(path)(jr.uniform(key, (n, filtered.shape[0])))


def sampled_paths(
    start: Law, transition: Matrix, log_b: Table, first: Marks, key: PRNGKeyArray, n: int
) -> Int[Array, "n t"]:
    """n paths from p(z₁…z_T | x₁…x_T)."""
    return sample_states(key, transition, filter_states(start, transition, log_b, first).probs, first, n)


def lagged_states(start: Law, transition: Matrix, log_b: Table, first: Marks, lag: int) -> Table:
    """p(zₜ | x₁…xₜ₊lag): what can be said `lag` steps later; the future of a sequence ends with it."""
    xp = namespace(start, transition, log_b, first)
    filtered = filter_states(start, transition, log_b, first).probs
    rows = np.arange(len(log_b))
    sequence = xp.cumsum(first)
    b = xp.exp(log_b - log_b.max(axis=1, keepdims=True))
    beta = xp.ones_like(filtered)
    for ahead in range(lag, 0, -1):
        there = np.minimum(rows + ahead, rows[-1])
        inside = (rows + ahead <= rows[-1]) & (sequence[there] == sequence)
        stepped = (b[there] * beta) @ transition.T
        beta = xp.where(inside[:, None], stepped / stepped.max(axis=1, keepdims=True), beta)
    gamma = filtered * beta
    return gamma / gamma.sum(axis=1, keepdims=True)
