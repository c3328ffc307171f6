"""Rows padded to a *bucket*, so that data that grow by a row at a time reuse compiled code."""

from collections.abc import Callable
from typing import TypeVar

import jax
import numpy as np

from credo.core.arrays import Array, is_traced, namespace, put

T = TypeVar("T")

SMALLEST_BUCKET = 16
LONG = 8192
"""Rows from which on padding costs more than a program that is compiled for it."""


def bucket(n: int) -> int:
    """The padded length for n rows: the next of 16, 24, 32, 48, 64, 96, … (powers of two and their midpoints).

    At most a third of the work is padding (n ≥ 12). Beyond 8,192 rows the steps are a sixteenth of a power of two: at
    most a sixteenth is padding, and what is long still divides into many equal blocks (`core.scan`).
    """
    if n > LONG:
        step = 1 << (n.bit_length() - 5)
        return -(-n // step) * step
    size = SMALLEST_BUCKET
    while size < n:
        if size + size // 2 >= n:
            return size + size // 2
        size *= 2
    return size


def pad_rows(x: Array, length: int, fill: float = 0.0) -> Array:
    """x with rows of `fill` appended up to `length`."""
    missing = length - x.shape[0]
    if missing == 0:
        return x
    xp = namespace(x)
    return xp.concatenate([x, xp.full((missing, *x.shape[1:]), fill, dtype=x.dtype)])


def padded(*arrays: Array) -> tuple[Array, ...]:
    """The arrays padded to the bucket of their common length, followed by the mask of the real rows."""
    n = arrays[0].shape[0]
    length = bucket(n)
    return (*(pad_rows(a, length) for a in arrays), np.arange(length) < n)


def by_bucket(function: Callable[..., T], x: Array, *rest: object) -> T:
    """function(x, *rest) for a row-wise `function`, run on rows padded to a bucket and cut back.

    Outputs are pytrees whose leaves have the rows of x as their first axis. The cut happens in NumPy:
    slicing a JAX array would compile once per length, which is what buckets avoid.
    """
    n = x.shape[0]
    if is_traced(x, rest):
        return function(x, *rest)
    out = function(put(pad_rows(x, bucket(n))), *rest)
    if is_traced(out):  # inside somebody's jit even constants are traced
        return jax.tree.map(lambda leaf: leaf[:n], out)
    return jax.tree.map(lambda leaf: put(np.asarray(leaf)[:n]), out)
