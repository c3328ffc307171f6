"""The driver of every recursion over time: in NumPy where elements are few, compiled, or in blocks where they are many.

A filter computes carryₜ, yₜ = step(carryₜ₋₁, xₜ). One `step` serves three ways to run it: a Python loop where numbers
are known and few (nothing is compiled), `lax.scan`, and blocks.

Most filters forget: two carries that start apart come together at a geometric rate (the law of a hidden state, a Kalman
filter's mean and covariance, the scores of best paths). So many times are cut into blocks that run side by side, each
from a guess. Then each runs again, from the end of its predecessor, until all are on their former paths (up to
rounding): the result is the sequential one. A recursion that does not forget is run one element after the other: the
answer is the same in each case, only the time differs.

Atar & Zeitouni (1997), "Exponential stability for nonlinear filtering"; Anderson & Moore (1979), section 4.4.
"""

from collections.abc import Callable
from math import gcd
from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from credo.core.arrays import Array, host, is_traced, namespace

C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")
R = TypeVar("R")
Counter = int | jax.Array
Step = Callable[..., tuple[C, Y]]
State = tuple[jax.Array, C, Y, C, jax.Array]
"""Of a run of all blocks: the tile, carries, outputs, carries after each tile, and whether these were met before."""

LONGEST_LOOP = 1024
"""Elements up to which a Python loop in NumPy (5-40 µs each) is over before a program is compiled (0.3-2 s)."""

BLOCKS_FROM = 8192
"""Elements from which on there are blocks: 2-3 times the speed at 10⁵ of them, nothing but compilation at a thousand
(benchmarks/time.py)."""

SHORTEST = 256
"""A block has at least so many elements: shorter ones spend their time on finding each other's paths."""

NUMBERS = 512
"""The carries of all blocks are about so many numbers: fewer leave vector instructions idle, more the nearest cache."""

MOST_BLOCKS, FEWEST_BLOCKS = 1024, 16

TILE = 32
"""So many elements of every block are read, run and written at a time; paths are compared after each tile."""

PASSES = 6
"""How often the blocks run before one element after the other is the better way."""

AGREE = 1e-12
"""Two numbers of a carry agree up to this share of them."""


def blocks_of(t: int, size: int) -> int:
    """Into how many blocks t elements are cut, for a carry of `size` numbers: a power of two that divides t."""
    most = max(FEWEST_BLOCKS, min(MOST_BLOCKS, NUMBERS // size)) if t >= BLOCKS_FROM else 1
    blocks = 1
    while 2 * blocks <= most and t % (2 * blocks) == 0 and t // (2 * blocks) >= SHORTEST:
        blocks *= 2
    return blocks


def of_blocks(step: Callable[..., Y]) -> Callable[..., Y]:
    """A function of one block as one of all of them, in the last axis of every array."""
    return jax.vmap(step, in_axes=-1, out_axes=-1)


def is_short(elements: int) -> bool:
    """Whether a pass over so many elements is a loop in NumPy, where its numbers are known."""
    return elements <= LONGEST_LOOP


def run(function: Callable[..., R], elements: int, *args: object) -> R:
    """function(*args), which scans so many elements: at once where they are few or traced, else compiled.

    What it leaves behind is NumPy's. The function is known by its identity: one program for each, and each shape.
    """
    if is_traced(args):
        return function(*args)
    if not is_short(elements):
        return host(_compiled(function, *args))
    with np.errstate(all="ignore"):  # XLA says nothing either
        return function(*host(args))


def repeat(count: int, body: Callable[[Counter, C], C], state: C) -> C:
    """The state after body(i, state), i = 0 … count - 1: a Python loop in NumPy, else a compiled one."""
    if namespace(state) is not np:
        return jax.lax.fori_loop(0, count, body, state)
    for i in range(count):
        state = body(i, state)
    return state


@eqx.filter_jit
def _compiled(function: Callable[..., R], *args: object) -> R:
    return function(*args)


def scan(
    step: Step[C, Y],
    start: C,
    xs: X,
    guess: Callable[[X], C] | None = None,
    given: tuple[object, ...] = (),
    *,
    reverse: bool = False,
    floor: float = 1e-13,
    blocks: int | None = None,
) -> tuple[C, Y]:
    """The last carry and all outputs of a recursion.

    Args:
        step: (carry, x, *given) -> (carry, y) of one element. Where it is compiled all arrays have one more axis, the
            LAST: the blocks, which are run side by side, as loops over blocks vectorize where those over a few numbers
            do not; or 1 for what they share. `of_blocks` makes such a step of one without that axis.
        start: the carry before the first element (after the last one where `reverse`).
        xs: a pytree with time as the leading axis of every leaf.
        guess: carries for the first element of each block, from which they may begin; None is `start`.
        given: what all steps share. A step uses no other numbers, so that these say whether it is compiled.
        reverse: from the last element to the first.
        floor: differences below this share of the largest number of the same leaf do not count.
        blocks: how many; a divisor of the number of elements.
    """
    if namespace(start, xs, given) is np:
        return _loop(step, start, xs, given, reverse)
    t = jax.tree.leaves(xs)[0].shape[0]
    b = blocks_of(t, sum(jnp.size(leaf) for leaf in jax.tree.leaves(start))) if blocks is None else blocks
    shared = jax.tree.map(lambda a: jnp.asarray(a)[..., None], given)

    def all_blocks(carry: C, x: X) -> tuple[C, Y]:
        return step(carry, x, *shared)

    def single(carry: C, x: X) -> tuple[C, Y]:
        one = jax.tree.map(lambda a: jnp.asarray(a)[..., None], (carry, x))
        return jax.tree.map(lambda a: a[..., 0], all_blocks(*one))

    if b == 1:
        return jax.lax.scan(single, start, xs, reverse=reverse)
    last, ys, settled = Blocks(all_blocks, start, xs, b, reverse, floor).run(guess)

    def one(i: jax.Array, state: tuple[C, Y]) -> tuple[C, Y]:
        """One element of the whole, for a recursion that does not forget."""
        at = t - 1 - i if reverse else i
        x = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, at, 0, keepdims=False), xs)
        carry, y = single(state[0], x)
        return carry, jax.tree.map(lambda a, v: jax.lax.dynamic_update_index_in_dim(a, v, at, 0), state[1], y)

    origin = jax.tree.map(lambda e, s: jnp.where(settled, e, jnp.asarray(s, e.dtype)), last, start)
    return jax.lax.fori_loop(0, jnp.where(settled, 0, t), one, (origin, ys))


def _loop(step: Step[C, Y], carry: C, xs: X, given: tuple[object, ...], reverse: bool) -> tuple[C, Y]:
    """The recursion in NumPy; what is not finite on the way is the step's business."""
    leaves, form = jax.tree.flatten(xs)
    out: list[np.ndarray] = []
    t = len(leaves[0])
    with np.errstate(all="ignore"):
        for i in reversed(range(t)) if reverse else range(t):
            carry, y = step(carry, jax.tree.unflatten(form, [leaf[i] for leaf in leaves]), *given)
            found = jax.tree.leaves(y)
            out = out or [np.empty((t, *np.shape(v)), np.asarray(v).dtype) for v in found]
            for whole, value in zip(out, found, strict=True):
                whole[i] = value
    return carry, jax.tree.unflatten(jax.tree.structure(y), out)


class Blocks(Generic[C, X, Y]):
    """A recursion cut into b blocks that run side by side, a tile of each at a time."""

    def __init__(self, step: Step[C, Y], start: C, xs: X, b: int, reverse: bool, floor: float):
        self.step, self.start, self.b, self.reverse, self.floor = step, start, b, reverse, floor
        self.length = jax.tree.leaves(xs)[0].shape[0] // b
        self.tile = gcd(self.length, TILE)
        self.side = jax.tree.map(lambda a: a.reshape(b, self.length, *a.shape[1:]), xs)

    def run(self, guess: Callable[[X], C] | None) -> tuple[C, Y, Bool[jax.Array, ""]]:
        """The last carry, all outputs, and whether every block has found the path of its predecessor."""
        first = jax.tree.map(lambda a: jnp.moveaxis(a[:, -1 if self.reverse else 0], 0, -1), self.side)
        carry = self.begin(self.repeated() if guess is None else guess(first))
        state = (jnp.asarray(0), carry, *self.empty(carry, first), jnp.asarray(False))
        _, ends, ys, marks, _ = jax.lax.fori_loop(0, self.length // self.tile, lambda _, s: self.advance(s), state)

        def again(state: State[C, Y]) -> State[C, Y]:
            tries, ends, ys, marks, _ = state
            begun = (jnp.asarray(0), self.begin(ends), ys, marks, jnp.asarray(False))
            _, reached, ys, marks, met = jax.lax.while_loop(self.apart, self.advance, begun)
            return tries + 1, jax.tree.map(lambda e, c: jnp.where(met, e, c), ends, reached), ys, marks, met

        def unsettled(state: State[C, Y]) -> Bool[jax.Array, ""]:
            return (state[0] < PASSES) & ~state[-1]

        _, ends, ys, _, met = jax.lax.while_loop(
            unsettled, again, (jnp.asarray(0), ends, ys, marks, jnp.asarray(False))
        )
        last = jax.tree.map(lambda e: e[..., 0 if self.reverse else -1], ends)
        return last, jax.tree.map(lambda a: a.reshape(self.b * self.length, *a.shape[2:]), ys), met

    def repeated(self) -> C:
        """`start` for every block."""
        return jax.tree.map(lambda s: jnp.broadcast_to(jnp.asarray(s)[..., None], (*jnp.shape(s), self.b)), self.start)

    def advance(self, state: State[C, Y]) -> State[C, Y]:
        """One tile of every block: its outputs, the carries after it, and whether they are those of a former run."""
        i, carry, ys, marks, _ = state
        at = self.length - (i + 1) * self.tile if self.reverse else i * self.tile
        tile = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, at, self.tile, 1), self.side)
        tile = jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), tile)
        carry, new = jax.lax.scan(self.step, carry, tile, reverse=self.reverse)
        new = jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), new)
        ys = jax.tree.map(lambda a, v: jax.lax.dynamic_update_slice_in_dim(a, v, at, 1), ys, new)
        former = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, i, 0, keepdims=False), marks)
        marks = jax.tree.map(lambda a, v: jax.lax.dynamic_update_index_in_dim(a, v, i, 0), marks, carry)
        return i + 1, carry, ys, marks, self.agree(carry, former)

    def apart(self, state: State[C, Y]) -> Bool[jax.Array, ""]:
        """Whether blocks are on new paths, and not at their ends."""
        return (state[0] < self.length // self.tile) & ~state[-1]

    def empty(self, carry: C, element: X) -> tuple[Y, C]:
        """Memory for the outputs, and for the carries after each tile."""
        shapes = jax.eval_shape(self.step, carry, element)[1]
        ys = jax.tree.map(lambda s: jnp.zeros((self.b, self.length, *s.shape[:-1]), s.dtype), shapes)
        return ys, jax.tree.map(lambda c: jnp.zeros((self.length // self.tile, *c.shape), c.dtype), carry)

    def begin(self, ends: C) -> C:
        """The first carry of each block: the end of its predecessor, and `start`."""

        def shifted(e: jax.Array, s: Array) -> jax.Array:
            edge = jnp.asarray(s, e.dtype)[..., None]
            return jnp.concatenate([e[..., 1:], edge] if self.reverse else [edge, e[..., :-1]], axis=-1)

        return jax.tree.map(shifted, ends, self.start)

    def agree(self, a: C, b: C) -> Bool[jax.Array, ""]:
        """Whether two carries of all blocks are the same up to rounding."""
        pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
        return jnp.all(jnp.stack([same_numbers(p, q, self.floor) for p, q in pairs]))


def same_numbers(p: jax.Array, q: jax.Array, floor: float) -> Bool[jax.Array, ""]:
    """Whether two arrays agree; NaN agrees with NaN, and whole numbers exactly.

    Numbers count relative to themselves, and to the largest of their block.
    """
    if not jnp.issubdtype(p.dtype, jnp.floating):
        return jnp.all(p == q)
    size = jnp.maximum(jnp.abs(p), jnp.abs(q))
    largest = jnp.max(jnp.where(jnp.isfinite(size), size, 0.0), axis=tuple(range(size.ndim - 1)), keepdims=True)
    same = (p == q) | (jnp.isnan(p) & jnp.isnan(q))
    return jnp.all(same | (jnp.abs(p - q) <= jnp.maximum(AGREE * size, floor * largest)))
