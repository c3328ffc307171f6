"""Recursions over time, run in blocks: what a recursion soon forgets need not be waited for.

A filter computes carryₜ, yₜ = step(carryₜ₋₁, xₜ), one after the other. Most filters forget: two carries that start
apart come together at a geometric rate (the law of a hidden state, a Kalman filter's mean and covariance, the scores of
best paths). So the times are cut into blocks that run side by side, each from the carry that the last few elements
before it lead to from a guess. Where every block ends in the carry that the next one began with (up to rounding), the
result is the sequential one. Where some do not, the blocks run again from the ends of their predecessors, and a
recursion that does not forget at all is run one element after the other: the answer is the same in each case, only the
time differs.

Atar & Zeitouni (1997), "Exponential stability for nonlinear filtering"; Anderson & Moore (1979), section 4.4.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

Step = Callable[[Any, Any], tuple[Any, Any]]

SHORTEST = 256
"""A block has at least so many elements: shorter ones spend their time on the warm-up."""

NUMBERS = 4096
"""The carries of all blocks are about so many numbers: fewer leave vector instructions idle, more leave the cache."""

MOST_BLOCKS, FEWEST_BLOCKS = 1024, 64

WARM_UP = 128
"""Elements before a block that lead to its first carry."""

PASSES = 6
"""How often the blocks run before one element after the other is the better way."""

AGREE = 1e-12
"""Two numbers of a carry agree up to this share of them."""


class Careful(NamedTuple):
    """A step for one element after the other, its elements, and whether it trusts the outputs of the quick one."""

    step: Step
    xs: Any
    trusts: Callable[[Any], Bool[Array, ""]]


def blocks_of(t: int, size: int) -> int:
    """Into how many blocks t elements are cut, for a carry of `size` numbers: a power of two that divides t.

    Few elements are one block.
    """
    most = max(FEWEST_BLOCKS, min(MOST_BLOCKS, NUMBERS // size))
    blocks = 1
    while 2 * blocks <= most and t % (2 * blocks) == 0 and t // (2 * blocks) >= SHORTEST:
        blocks *= 2
    return blocks


def recur(
    step: Step,
    start: Any,
    xs: Any,
    guess: Callable[[Any], Any],
    *,
    reverse: bool = False,
    floor: float = 1e-13,
    blocks: int | None = None,
    careful: Careful | None = None,
    carry_of: Callable[[Any], Any] | None = None,
) -> tuple[Any, Any]:
    """The last carry and all outputs of `jax.lax.scan(step, start, xs, reverse=reverse)`, computed in blocks.

    Args:
        step: (carry, x) -> (carry, y) for one element.
        start: the carry before the first element (after the last one where `reverse`).
        xs: a pytree with time as the leading axis of every leaf.
        guess: a carry for an element x in the middle, from which a block may begin at x.
        reverse: from the last element to the first.
        floor: differences below this share of the largest number of the same leaf do not count.
        blocks: how many; a divisor of the number of elements.
        careful: how to go one by one instead, where `step` is quick and not always safe.
        carry_of: the carry after an element from its output y, where y has it. A block that runs again can then stop
            as soon as it meets its former path, and no warm-up is needed.
    """
    t = jax.tree.leaves(xs)[0].shape[0]
    b = blocks_of(t, sum(jnp.size(leaf) for leaf in jax.tree.leaves(start))) if blocks is None else blocks
    slow = careful or Careful(step, xs, lambda ys: jnp.asarray(True))
    if b == 1:
        return jax.lax.scan(slow.step, start, slow.xs, reverse=reverse)
    side = Blocks(step, start, xs, b, reverse, floor)
    ends, ys, settled = side.warmed_up(guess) if carry_of is None else side.until_they_meet(guess, carry_of)
    last = jax.tree.map(lambda e: e[0] if reverse else e[-1], ends)
    ys = jax.tree.map(lambda a: a.reshape(t, *a.shape[2:]), ys)

    def one(i: Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
        """One element of the whole, for a recursion that does not forget."""
        at = t - 1 - i if reverse else i
        carry, y = slow.step(state[0], _element(slow.xs, at, 0))
        return carry, _written(state[1], y, at, 0)

    settled = settled & slow.trusts(ys)
    origin = jax.tree.map(lambda e, s: jnp.where(settled, e, jnp.asarray(s, e.dtype)), last, start)
    return jax.lax.fori_loop(0, jnp.where(settled, 0, t), one, (origin, ys))


class Blocks:
    """A recursion cut into b blocks that run side by side; nothing is transposed, outputs are written in place."""

    def __init__(self, step: Step, start: Any, xs: Any, b: int, reverse: bool, floor: float):
        self.start, self.b, self.reverse, self.floor = start, b, reverse, floor
        self.length = jax.tree.leaves(xs)[0].shape[0] // b
        self.side = jax.tree.map(lambda a: a.reshape(b, self.length, *a.shape[1:]), xs)
        self.together = jax.vmap(step)

    def at(self, i: Any) -> Any:
        """Where element i of each block lies, counted in the direction of the recursion."""
        return self.length - 1 - i if self.reverse else i

    def element(self, i: Any) -> Any:
        """Element i of every block."""
        return _element(self.side, self.at(i), 1)

    def begin(self, ends: Any) -> Any:
        """The first carry of each block: the end of its predecessor, and `start`."""
        return jax.tree.map(lambda e, s: _shift(e, s, self.reverse), ends, self.start)

    def advance(self, i: Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
        """Element i of every block."""
        carry, y = self.together(state[0], self.element(i))
        return carry, _written(state[1], y, self.at(i), 1)

    def empty(self, carry: Any) -> Any:
        """Memory for the outputs."""
        shapes = jax.eval_shape(self.together, carry, self.element(jnp.asarray(0)))[1]
        return jax.tree.map(lambda s: jnp.zeros((self.b, self.length, *s.shape[1:]), s.dtype), shapes)

    def warmed_up(self, guess: Callable[[Any], Any]) -> tuple[Any, Any, Bool[Array, ""]]:
        """All blocks from where a warm-up leads, and again from each other's ends until they agree."""
        warm = self.length - min(WARM_UP, self.length)
        guesses = jax.vmap(guess)(self.element(jnp.asarray(warm)))
        ends = jax.lax.fori_loop(warm, self.length, lambda i, c: self.together(c, self.element(i))[0], guesses)

        def again(state: tuple[Any, ...]) -> tuple[Any, ...]:
            tries, _, ends, ys = state
            starts = self.begin(ends)
            return (tries + 1, starts, *jax.lax.fori_loop(0, self.length, self.advance, (starts, ys)))

        def unsettled(state: tuple[Any, ...]) -> Bool[Array, ""]:
            tries, starts, ends, _ = state
            return (tries == 0) | ((tries < PASSES) & ~_agree(self.begin(ends), starts, self.floor))

        _, starts, ends, ys = jax.lax.while_loop(unsettled, again, (0, ends, ends, self.empty(ends)))
        return ends, ys, _agree(self.begin(ends), starts, self.floor)

    def until_they_meet(
        self, guess: Callable[[Any], Any], carry_of: Callable[[Any], Any]
    ) -> tuple[Any, Any, Bool[Array, ""]]:
        """All blocks from guesses, and again from each other's ends until every block is on its former path."""
        guesses = self.begin(jax.vmap(guess)(self.element(jnp.asarray(0))))
        ends, ys = jax.lax.fori_loop(0, self.length, self.advance, (guesses, self.empty(guesses)))

        def again(state: tuple[Any, ...]) -> tuple[Any, ...]:
            tries, ends, ys, _ = state
            starts = self.begin(ends)

            def onward(state: tuple[Any, ...]) -> tuple[Any, ...]:
                i, carry, _ = state
                former = jax.vmap(carry_of)(_element(ys, self.at(i), 1))
                carry, _ = self.together(carry, self.element(i))
                return i + 1, carry, _agree(carry, former, self.floor)

            def apart(state: tuple[Any, ...]) -> Bool[Array, ""]:
                return (state[0] < self.length) & ~state[2]

            # Looking and writing in one loop would copy the outputs at each of its steps.
            steps, _, met = jax.lax.while_loop(apart, onward, (0, starts, jnp.asarray(False)))
            carry, ys = jax.lax.fori_loop(0, steps, self.advance, (starts, ys))
            return tries + 1, jax.tree.map(lambda e, c: jnp.where(met, e, c), ends, carry), ys, met

        def unsettled(state: tuple[Any, ...]) -> Bool[Array, ""]:
            return (state[0] < PASSES) & ~state[3]

        _, ends, ys, met = jax.lax.while_loop(unsettled, again, (0, ends, ys, jnp.asarray(False)))
        return ends, ys, met


def _element(arrays: Any, at: Any, axis: int) -> Any:
    return jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, at, axis, keepdims=False), arrays)


def _written(arrays: Any, values: Any, at: Any, axis: int) -> Any:
    return jax.tree.map(lambda a, v: jax.lax.dynamic_update_index_in_dim(a, v, at, axis), arrays, values)


def _shift(ends: Array, start: Array, reverse: bool) -> Array:
    edge = jnp.asarray(start, ends.dtype)[None]
    return jnp.concatenate([ends[1:], edge] if reverse else [edge, ends[:-1]])


def _agree(a: Any, b: Any, floor: float) -> Bool[Array, ""]:
    """Whether two carries of all blocks are the same up to rounding; NaN agrees with NaN, and whole numbers exactly."""

    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return jnp.all(jnp.stack([same_numbers(p, q, floor) for p, q in pairs]))


def same_numbers(p: Any, q: Any, floor: float, lib: Any = jnp) -> Any:
    """Whether two arrays agree, the numbers of each block (leading axis) relative to the largest among them."""
    if not lib.issubdtype(p.dtype, lib.floating):
        return lib.all(p == q)
    size = lib.maximum(lib.abs(p), lib.abs(q))
    largest = lib.max(lib.where(lib.isfinite(size), size, 0.0), axis=tuple(range(1, size.ndim)), keepdims=True)
    same = (p == q) | (lib.isnan(p) & lib.isnan(q))
    return lib.all(same | (lib.abs(p - q) <= lib.maximum(AGREE * size, floor * largest)))
