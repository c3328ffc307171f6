"""Recursions over time, run in blocks: what a recursion soon forgets need not be waited for.

A filter computes carryₜ, yₜ = step(carryₜ₋₁, xₜ), one after the other. Most filters forget: two carries that start
apart come together at a geometric rate (the law of a hidden state, a Kalman filter's mean and covariance, the scores of
best paths). So the times are cut into blocks that run side by side, each from a guess. Then each runs again, from the
end of its predecessor, until all are on their former paths (up to rounding): the result is the sequential one. A
recursion that does not forget is run one element after the other: the answer is the same in each case, only the time
differs.

Atar & Zeitouni (1997), "Exponential stability for nonlinear filtering"; Anderson & Moore (1979), section 4.4.
"""

from collections.abc import Callable
from math import gcd
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

Step = Callable[[Any, Any], tuple[Any, Any]]

SHORTEST = 256
"""A block has at least so many elements: shorter ones spend their time on finding each other's paths."""

NUMBERS = {True: 512, False: 4096}
"""The carries of all blocks are about so many numbers, fewer where blocks go `together`: less than this leaves vector
instructions idle, more leaves the nearest cache, and blocks are longer where there are fewer."""

MOST_BLOCKS, FEWEST_BLOCKS = 1024, 16

TILE = 32
"""So many elements of every block are read, run and written at a time; paths are compared after each tile."""

PASSES = 6
"""How often the blocks run before one element after the other is the better way."""

AGREE = 1e-12
"""Two numbers of a carry agree up to this share of them."""


class Careful(NamedTuple):
    """A step for one element after the other, its elements, and whether it trusts the outputs of the quick one."""

    step: Step
    xs: Any
    trusts: Callable[[Any], Bool[Array, ""]]


def blocks_of(t: int, size: int, together: bool = False) -> int:
    """Into how many blocks t elements are cut, for a carry of `size` numbers: a power of two that divides t.

    Few elements are one block.
    """
    most = max(FEWEST_BLOCKS, min(MOST_BLOCKS, NUMBERS[together] // size))
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
    together: bool = False,
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
        together: whether `step` and `guess` take all blocks at once, as the LAST axis of every array: loops over blocks
            vectorize where those over a few numbers do not. Otherwise they are of one block, and of one element.
    """
    t = jax.tree.leaves(xs)[0].shape[0]
    size = sum(jnp.size(leaf) for leaf in jax.tree.leaves(start))
    b = blocks_of(t, size, together) if blocks is None else blocks
    slow = careful or Careful(step, xs, lambda ys: jnp.asarray(True))
    single = _of_one_block(slow.step) if together else slow.step
    if b == 1:
        return jax.lax.scan(single, start, slow.xs, reverse=reverse)
    last, ys, settled = Blocks(step, start, xs, b, reverse, floor, together).run(guess)

    def one(i: Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
        """One element of the whole, for a recursion that does not forget."""
        at = t - 1 - i if reverse else i
        x = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, at, 0, keepdims=False), slow.xs)
        carry, y = single(state[0], x)
        return carry, jax.tree.map(lambda a, v: jax.lax.dynamic_update_index_in_dim(a, v, at, 0), state[1], y)

    settled = settled & slow.trusts(ys)
    origin = jax.tree.map(lambda e, s: jnp.where(settled, e, jnp.asarray(s, e.dtype)), last, start)
    return jax.lax.fori_loop(0, jnp.where(settled, 0, t), one, (origin, ys))


class Blocks:
    """A recursion cut into b blocks that run side by side, a tile of each at a time."""

    def __init__(self, step: Step, start: Any, xs: Any, b: int, reverse: bool, floor: float, together: bool):
        self.start, self.b, self.reverse, self.floor = start, b, reverse, floor
        self.length = jax.tree.leaves(xs)[0].shape[0] // b
        self.tile = gcd(self.length, TILE)
        self.side = jax.tree.map(lambda a: a.reshape(b, self.length, *a.shape[1:]), xs)
        self.together = together
        self.step = step if together else jax.vmap(step)

    @property
    def axis(self) -> int:
        """Where the blocks are in a carry."""
        return -1 if self.together else 0

    def run(self, guess: Callable[[Any], Any]) -> tuple[Any, Any, Bool[Array, ""]]:
        """The last carry, all outputs, and whether every block has found the path of its predecessor."""
        first = jax.tree.map(lambda a: a[:, -1 if self.reverse else 0], self.side)
        guesses = guess(jax.tree.map(self.inwards, first)) if self.together else jax.vmap(guess)(first)
        state = (jnp.asarray(0), self.begin(guesses), *self.empty(guesses), jnp.asarray(False))
        _, ends, ys, marks, _ = jax.lax.fori_loop(0, self.length // self.tile, lambda _, s: self.advance(s), state)

        def again(state: tuple[Any, ...]) -> tuple[Any, ...]:
            tries, ends, ys, marks, _ = state
            begun = (jnp.asarray(0), self.begin(ends), ys, marks, jnp.asarray(False))
            _, reached, ys, marks, met = jax.lax.while_loop(self.apart, self.advance, begun)
            return tries + 1, jax.tree.map(lambda e, c: jnp.where(met, e, c), ends, reached), ys, marks, met

        def unsettled(state: tuple[Any, ...]) -> Bool[Array, ""]:
            return (state[0] < PASSES) & ~state[-1]

        _, ends, ys, _, met = jax.lax.while_loop(unsettled, again, (0, ends, ys, marks, jnp.asarray(False)))
        last = jax.tree.map(
            lambda e: jax.lax.index_in_dim(e, 0 if self.reverse else self.b - 1, self.axis, False), ends
        )
        return last, jax.tree.map(lambda a: a.reshape(self.b * self.length, *a.shape[2:]), ys), met

    def advance(self, state: tuple[Any, ...]) -> tuple[Any, ...]:
        """One tile of every block: its outputs, the carries after it, and whether they are those of a former run."""
        i, carry, ys, marks, _ = state
        at = self.length - (i + 1) * self.tile if self.reverse else i * self.tile
        side = jax.tree.map(lambda a: self.ahead(jax.lax.dynamic_slice_in_dim(a, at, self.tile, 1)), self.side)
        carry, new = jax.lax.scan(self.step, carry, side, reverse=self.reverse)
        ys = jax.tree.map(lambda a, v: jax.lax.dynamic_update_slice_in_dim(a, self.back(v), at, 1), ys, new)
        former = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, i, 0, keepdims=False), marks)
        marks = jax.tree.map(lambda a, v: jax.lax.dynamic_update_index_in_dim(a, v, i, 0), marks, carry)
        return i + 1, carry, ys, marks, self.agree(carry, former)

    def apart(self, state: tuple[Any, ...]) -> Bool[Array, ""]:
        """Whether blocks are on new paths, and not at their ends."""
        return (state[0] < self.length // self.tile) & ~state[-1]

    def empty(self, carry: Any) -> tuple[Any, Any]:
        """Memory for the outputs, and for the carries after each tile."""
        element = jax.tree.map(lambda a: self.inwards(a[:, 0]), self.side)
        shapes = jax.tree.map(self.outwards, jax.eval_shape(self.step, carry, element)[1])
        ys = jax.tree.map(lambda s: jnp.zeros((self.b, self.length, *s.shape[1:]), s.dtype), shapes)
        return ys, jax.tree.map(lambda c: jnp.zeros((self.length // self.tile, *c.shape), c.dtype), carry)

    def ahead(self, a: Array) -> Array:
        """(blocks, times, …) with the times first, and where blocks go together those last."""
        return jnp.moveaxis(a, 0, -1 if self.together else 1)

    def back(self, a: Array) -> Array:
        """What `ahead` undoes."""
        return jnp.moveaxis(a, -1 if self.together else 1, 0)

    def inwards(self, a: Array) -> Array:
        """(blocks, …) of one time as steps take it."""
        return jnp.moveaxis(a, 0, -1) if self.together else a

    def outwards(self, s: Any) -> Any:
        """The shape of an output of a step with the blocks first."""
        return jax.eval_shape(lambda a: jnp.moveaxis(a, -1, 0), s) if self.together else s

    def begin(self, ends: Any) -> Any:
        """The first carry of each block: the end of its predecessor, and `start`."""

        def shifted(e: Array, s: Any) -> Array:
            edge = jnp.expand_dims(jnp.asarray(s, e.dtype), self.axis)
            kept = jax.lax.slice_in_dim(e, int(self.reverse), self.b - 1 + self.reverse, axis=self.axis)
            return jnp.concatenate([kept, edge] if self.reverse else [edge, kept], axis=self.axis)

        return jax.tree.map(shifted, ends, self.start)

    def agree(self, a: Any, b: Any) -> Bool[Array, ""]:
        """Whether two carries of all blocks are the same up to rounding."""
        pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
        return jnp.all(jnp.stack([same_numbers(p, q, self.floor, axis=self.axis) for p, q in pairs]))


def _of_one_block(step: Step) -> Step:
    def single(carry: Any, x: Any) -> tuple[Any, Any]:
        block = jax.tree.map(lambda a: jnp.asarray(a)[..., None], (carry, x))
        return jax.tree.map(lambda a: a[..., 0], step(*block))

    return single


def same_numbers(p: Any, q: Any, floor: float, lib: Any = jnp, axis: int = 0) -> Any:
    """Whether two arrays agree; NaN agrees with NaN, and whole numbers exactly.

    Numbers count relative to themselves, and to the largest of their block, which is an `axis`.
    """
    if not lib.issubdtype(p.dtype, lib.floating):
        return lib.all(p == q)
    size = lib.maximum(lib.abs(p), lib.abs(q))
    others = tuple(i for i in range(size.ndim) if i != axis % size.ndim)
    largest = lib.max(lib.where(lib.isfinite(size), size, 0.0), axis=others, keepdims=True)
    same = (p == q) | (lib.isnan(p) & lib.isnan(q))
    return lib.all(same | (lib.abs(p - q) <= lib.maximum(AGREE * size, floor * largest)))
