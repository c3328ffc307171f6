"""Products of small matrices in a recursion that runs for many blocks side by side.

`jax.vmap` puts the blocks first: every product of 4 × 4 matrices is then a loop of 4 for each block. With the blocks in
the LAST axis the same product is a few long loops that vectorize. `side_by_side` turns a function of such arrays into
one of single matrices that `jax.vmap` runs that way. All functions here take arrays with that one more axis, "_": as
long as there are blocks, or 1 for what they have in common.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

UNROLLED = 8
"""Loops over more rows than this are loops, products of larger matrices `einsum`."""

SINGULAR = 1e-14
"""A pivot below this share of its diagonal entry, times the number of rows, is rounding."""


def side_by_side(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays with a last axis for blocks, as one of arrays without it; `jax.vmap` adds it there."""

    def alone(*args: Any) -> Any:
        return jax.tree.map(lambda a: a[..., 0], function(*jax.tree.map(lambda a: a[..., None], args)))

    single = custom_vmap(alone)

    @single.def_vmap
    def many(size: int, batched: Any, *args: Any) -> tuple[Any, Any]:
        last = jax.tree.map(lambda a, b: jnp.moveaxis(a, 0, -1) if b else a[..., None], args, tuple(batched))
        out = function(*last)
        out = jax.tree.map(lambda a: jnp.moveaxis(jnp.broadcast_to(a, (*a.shape[:-1], size)), -1, 0), out)
        return out, jax.tree.map(lambda a: True, out)

    @wraps(function)
    def call(*args: Any) -> Any:
        # Where no `vmap` is at work the rule must not stay behind: JAX's own for a derivative of it is not general. The
        # class is private to JAX; should it be renamed, all is as before, only slower.
        here = any(type(leaf).__name__ == "BatchTracer" for leaf in jax.tree.leaves(args))
        return single(*args) if here else alone(*args)

    return call


def times(a: Float[Array, "m k _"], b: Float[Array, "k n _"]) -> Float[Array, "m n _"]:
    """ab."""
    if max(a.shape[0], b.shape[1], b.shape[0]) > UNROLLED:
        return jnp.moveaxis(jnp.moveaxis(a, -1, 0) @ jnp.moveaxis(b, -1, 0), 0, -1)
    return jnp.sum(a[:, :, None] * b[None], axis=1)


def apply(a: Float[Array, "m k _"], v: Float[Array, "k _"]) -> Float[Array, "m _"]:
    """av."""
    return jnp.sum(a * v, axis=1)


def inner(a: Float[Array, "k _"], b: Float[Array, "k _"]) -> Float[Array, " _"]:
    """aᵀb."""
    return jnp.sum(a * b, axis=0)


def outer(a: Float[Array, "m _"], b: Float[Array, "k _"]) -> Float[Array, "m k _"]:
    """abᵀ."""
    return a[:, None] * b


def transposed(a: Float[Array, "m k _"]) -> Float[Array, "k m _"]:
    """aᵀ."""
    return jnp.swapaxes(a, 0, 1)


def symmetric(s: Float[Array, "n n _"]) -> Float[Array, "n n _"]:
    """½(s + sᵀ)."""
    return 0.5 * (s + transposed(s))


def sandwich(a: Float[Array, "m k _"], s: Float[Array, "k k _"]) -> Float[Array, "m m _"]:
    """asaᵀ for a symmetric s, exactly symmetric."""
    return symmetric(times(times(a, s), transposed(a)))


def each(count: int, body: Callable[[Any, Any], tuple[Any, Any]], state: Any, reverse: bool = False) -> tuple[Any, Any]:
    """The last state and all outputs of body(state, i), i = 0 … count - 1, written out where there are few turns."""
    if count > UNROLLED:
        return jax.lax.scan(body, state, jnp.arange(count), reverse=reverse)
    outputs = []
    for i in reversed(range(count)) if reverse else range(count):
        state, output = body(state, i)
        outputs.append(output)
    outputs = outputs[::-1] if reverse else outputs
    return state, jax.tree.map(lambda *rows: jnp.stack(rows), *outputs)


def solve_semidefinite(s: Float[Array, "n n _"], y: Float[Array, "n m _"]) -> Float[Array, "n m _"]:
    """A solution of s·solution = y for a positive semi-definite s whose range holds y, by elimination.

    What a singular s leaves open is 0.
    """
    n = s.shape[0]
    least = SINGULAR * n * jnp.stack([s[i, i] for i in range(n)])
    unit = jnp.eye(n)[:, :, None]

    def eliminate(state: tuple[Array, Array], j: Any) -> tuple[tuple[Array, Array], Array]:
        left, right = state
        good = left[j, j] > least[j]
        scale = jnp.where(good, 1 / jnp.where(good, left[j, j], 1.0), 0.0)
        lever = left[:, j] - unit[j]
        rows = left[j] * scale, right[j] * scale
        return (left - outer(lever, rows[0]), right - outer(lever, rows[1])), good

    y = jnp.broadcast_to(y, (*y.shape[:2], max(s.shape[2], y.shape[2])))
    (_, solution), found = each(n, eliminate, (s, y))
    return jnp.where(found[:, None], solution, 0.0)


def root_semidefinite(s: Float[Array, "n n _"]) -> Float[Array, "n n _"]:
    """A lower triangular L with LLᵀ = s, positive semi-definite; a pivot that is rounding gives a column of 0."""
    n = s.shape[0]
    least = SINGULAR * n * jnp.stack([s[i, i] for i in range(n)])

    def column(rest: Float[Array, "n n _"], j: Any) -> tuple[Array, Array]:
        good = rest[j, j] > least[j]
        scale = jnp.where(good, 1 / jnp.sqrt(jnp.where(good, rest[j, j], 1.0)), 0.0)
        entries = jnp.where((jnp.arange(n) >= j)[:, None], rest[:, j] * scale, 0.0)
        return rest - outer(entries, entries), entries

    return transposed(each(n, column, s)[1])


def triangular(a: Float[Array, "m n _"]) -> Float[Array, "n n _"]:
    """The upper triangular U ≥ 0 on its diagonal with UᵀU = aᵀa, m ≥ n, by reflections: aᵀa is never formed.

    Householder (1958), "Unitary triangularization of a nonsymmetric matrix".
    """
    m, n = a.shape[:2]
    rows = jnp.arange(m)[:, None]

    def reflect(rest: Float[Array, "m n _"], j: Any) -> tuple[Array, None]:
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

    def row(known: Float[Array, "n m _"], j: Any) -> tuple[Array, None]:
        pivot = low[j, j]
        rest = y[j] - jnp.sum(low[j][:, None] * known, axis=0)
        value = jnp.where(pivot == 0, 0.0, rest / jnp.where(pivot == 0, 1.0, pivot))
        return known + jnp.where((jnp.arange(low.shape[0]) == j)[:, None, None], value, 0.0), None

    return each(low.shape[0], row, jnp.zeros_like(y))[0]


@side_by_side
def solve(s: Float[Array, "n n _"], y: Float[Array, "n m _"]) -> Float[Array, "n m _"]:
    """`solve_semidefinite` of single matrices."""
    return solve_semidefinite(s, y)


@side_by_side
def root(s: Float[Array, "n n _"]) -> Float[Array, "n n _"]:
    """`root_semidefinite` of a single matrix."""
    return root_semidefinite(s)
