"""Products of small matrices, of one or of many at a time: of all blocks of a recursion, or of all rows of a table.

With the blocks in the LAST axis a product of 4 × 4 matrices is a few long loops that vectorize, where blocks in the
first one make it a loop of 4 for each. Arrays here have that one more axis, "*_", as long as there are blocks, or 1 for
what they have in common; or they are plain vectors and matrices, as in NumPy. Each computes in the library it is given.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.scan import Counter

S = TypeVar("S")
Y = TypeVar("Y")

UNROLLED = 8
"""Loops over more rows than this are loops, products of larger matrices `einsum`."""

SINGULAR = 1e-14
"""A pivot below this share of its diagonal entry, times the number of rows, is rounding."""


def on_rows(function: Callable[..., S]) -> Callable[..., S]:
    """A function of arrays with a last axis for blocks, as one of arrays with a first axis for rows."""

    def call(*args: object) -> S:
        xp = namespace(args)
        last = jax.tree.map(lambda a: xp.moveaxis(a, 0, -1), args)
        return jax.tree.map(lambda a: xp.moveaxis(a, -1, 0), function(*last))

    return call


def times(a: Float[Array, "m k ..."], b: Float[Array, "k n ..."]) -> Float[Array, "m n ..."]:
    """ab."""
    if a.ndim == b.ndim == 2:
        return a @ b
    if max(a.shape[0], b.shape[1], b.shape[0]) > UNROLLED:
        return (a.transpose(2, 0, 1) @ b.transpose(2, 0, 1)).transpose(1, 2, 0)
    return (a[:, :, None] * b[None]).sum(axis=1)


def apply(a: Float[Array, "m k ..."], v: Float[Array, "k ..."]) -> Float[Array, "m ..."]:
    """av."""
    return a @ v if a.ndim == 2 else (a * v).sum(axis=1)


def inner(a: Float[Array, "k ..."], b: Float[Array, "k ..."]) -> Float[Array, "..."]:
    """aᵀb."""
    return a @ b if a.ndim == 1 else (a * b).sum(axis=0)


def identity(like: Float[Array, "n n *_"]) -> Float[Array, "n n ..."]:
    """The unit matrix, with an axis for blocks where another matrix has it."""
    one = np.eye(len(like))
    return namespace(like).asarray(one if like.ndim == 2 else one[:, :, None])


def outer(a: Float[Array, "m ..."], b: Float[Array, "k ..."]) -> Float[Array, "m k ..."]:
    """abᵀ."""
    return a[:, None] * b


def transposed(a: Float[Array, "m k *_"]) -> Float[Array, "k m *_"]:
    """aᵀ."""
    return a.swapaxes(0, 1)


def symmetric(s: Float[Array, "n n *_"]) -> Float[Array, "n n *_"]:
    """½(s + sᵀ)."""
    return 0.5 * (s + transposed(s))


def sandwich(a: Float[Array, "m k ..."], s: Float[Array, "k k ..."]) -> Float[Array, "m m ..."]:
    """asaᵀ for a symmetric s, exactly symmetric."""
    return symmetric(times(times(a, s), transposed(a)))


def each(count: int, body: Callable[[S, Counter], tuple[S, Y]], state: S, reverse: bool = False) -> tuple[S, Y]:
    """The last state and all outputs of body(state, i), i = 0 … count - 1, written out where there are few turns."""
    xp = namespace(state)
    if count > UNROLLED and xp is jnp:
        return jax.lax.scan(body, state, jnp.arange(count), reverse=reverse)
    outputs = []
    for i in reversed(range(count)) if reverse else range(count):
        state, output = body(state, i)
        outputs.append(output)
    outputs = outputs[::-1] if reverse else outputs
    return state, jax.tree.map(lambda *rows: xp.stack(rows), *outputs)


def _least_pivots(s: Float[Array, "n n *_"]) -> Float[Array, "n *_"]:
    n = len(s)
    return SINGULAR * n * namespace(s).stack([s[i, i] for i in range(n)])


def solve_semidefinite(s: Float[Array, "n n ..."], y: Float[Array, "n m ..."]) -> Float[Array, "n m ..."]:
    """A solution of s·solution = y for a positive semi-definite s whose range holds y, by elimination.

    What a singular s leaves open is 0.
    """
    xp, least, one = namespace(s, y), _least_pivots(s), identity(s)

    def eliminate(state: tuple[Array, Array], j: Counter) -> tuple[tuple[Array, Array], Array]:
        left, right = state
        good = left[j, j] > least[j]
        scale = xp.where(good, 1 / xp.where(good, left[j, j], 1.0), 0.0)
        here = one[j]
        others, lever = (1 - here)[:, None], left[:, j] * (1 - here)

        def turned(side: Array) -> Array:
            row = side[j] * scale  # in place of row j; to subtract from that would lose as many digits as it is large
            return outer(here, row) + others * side - outer(lever, row)

        return (turned(left), turned(right)), good

    y = xp.broadcast_to(y, (*y.shape[:2], *np.broadcast_shapes(s.shape[2:], y.shape[2:])))
    (_, solution), found = each(len(s), eliminate, (s, y))
    return xp.where(found[:, None], solution, 0.0)


def root_semidefinite(s: Float[Array, "n n *_"]) -> Float[Array, "n n *_"]:
    """A lower triangular L with LLᵀ = s, positive semi-definite; a pivot that is rounding gives a column of 0."""
    xp, least, order = namespace(s), _least_pivots(s), np.arange(len(s)).reshape(-1, *[1] * (s.ndim - 2))

    def column(rest: Float[Array, "n n *_"], j: Counter) -> tuple[Array, Array]:
        good = rest[j, j] > least[j]
        scale = xp.where(good, 1 / xp.sqrt(xp.where(good, rest[j, j], 1.0)), 0.0)
        entries = xp.where(order >= j, rest[:, j] * scale, 0.0)
        return rest - outer(entries, entries), entries

    return transposed(each(len(s), column, s)[1])


def triangular(a: Float[Array, "m n _"]) -> Float[Array, "n n _"]:
    """The upper triangular U ≥ 0 on its diagonal with UᵀU = aᵀa, m ≥ n, by reflections: aᵀa is never formed.

    Householder (1958), "Unitary triangularization of a nonsymmetric matrix".
    """
    m, n = a.shape[:2]
    rows = jnp.arange(m)[:, None]

    def reflect(rest: Float[Array, "m n _"], j: Counter) -> tuple[Array, None]:
        x = jnp.where(rows >= j, rest[:, j], 0.0)
        norm = jnp.sqrt(jnp.sum(x * x, axis=0))
        away = x + jnp.where(rows == j, jnp.where(x[j] < 0, -norm, norm), 0.0)
        size = inner(away, away)
        scale = jnp.where(size > 0, 2 / jnp.where(size > 0, size, 1.0), 0.0)
        return rest - outer(away, scale * jnp.sum(away[:, None] * rest, axis=0)), None

    upper = each(n, reflect, a)[0][:n]
    signs = jnp.stack([jnp.where(upper[i, i] < 0, -1.0, 1.0) for i in range(n)])
    return jnp.where((jnp.arange(n)[:, None] <= jnp.arange(n))[:, :, None], upper * signs[:, None], 0.0)


def solve_lower(low: Float[Array, "n n _"], y: Float[Array, "n m _"]) -> Float[Array, "n m _"]:
    """low⁻¹y for a lower triangular matrix; what a zero on its diagonal leaves open is 0."""

    def row(known: Float[Array, "n m _"], j: Counter) -> tuple[Array, None]:
        pivot = low[j, j]
        rest = y[j] - jnp.sum(low[j][:, None] * known, axis=0)
        value = jnp.where(pivot == 0, 0.0, rest / jnp.where(pivot == 0, 1.0, pivot))
        return known + jnp.where((jnp.arange(low.shape[0]) == j)[:, None, None], value, 0.0), None

    nothing: Array = jnp.zeros_like(y)
    return each(low.shape[0], row, nothing)[0]
