"""A long recursion on several cores: its parts run side by side, and are checked to follow from each other.

As the blocks of `core.recursion`, a part begins with the carry that a few elements before it lead to; where its
predecessor ends in another one, the part runs again from there. A part is run piece by piece, so that the memory of one
piece serves the next and stays in the cache. Threads suffice: compiled programs release the lock.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from credo.core.scan import same_numbers

LONGEST_ALONE = 2**20
"""A recursion with fewer numbers to find is over before a second thread has begun."""

PIECE = 2**20
"""The outputs of a piece are at most so many numbers."""

WARM_UP = 256
"""Elements before a part that lead to its first carry."""


_compiled: set[tuple[Any, ...]] = set()
"""What has run before; the first time two threads would both compile the same program."""


def cores() -> int:
    """The processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def cut(t: int, size: int) -> list[list[slice]]:
    """Equal parts of t elements of `size` numbers, at most one for each core, and each part in equal pieces.

    Both are powers of two; there is one part where there is little to find.
    """
    parts = pieces = 1
    while 2 * parts <= cores() and t % (2 * parts) == 0 and t // parts * size > LONGEST_ALONE:
        parts *= 2
    while t // (parts * pieces) * size > PIECE and t % (2 * parts * pieces) == 0:
        pieces *= 2
    length = t // (parts * pieces)
    ends = [slice(i * length, (i + 1) * length) for i in range(parts * pieces)]
    return [ends[i * pieces : (i + 1) * pieces] for i in range(parts)]


def follow(
    run: Callable[[Any, slice], Any],
    start: Any,
    t: int,
    warm: Callable[[slice], Any],
    floor: float = 1e-13,
    reverse: bool = False,
) -> None:
    """Calls run(carry, piece), which returns the carry after it, for all pieces of t elements, parts side by side.

    Args:
        run: one piece from a carry; compiled, so that threads run at once. It keeps what it finds, and may run again.
        start: the carry before the first element (after the last one where `reverse`).
        t: how many elements there are.
        warm: the carry that the elements before a piece (after it where `reverse`) lead to, from any guess.
        floor: see `core.recursion.recur`.
        reverse: from the last element to the first.
    """
    size = max(leaf.size for leaf in jax.tree.leaves(start))
    parts = [pieces[::-1] for pieces in cut(t, size)[::-1]] if reverse else cut(t, size)

    def through(carry: Any, pieces: list[slice]) -> Any:
        for piece in pieces:
            carry = run(carry, piece)
        return carry

    kind = (
        getattr(run, "__module__", ""),
        getattr(run, "__qualname__", ""),
        parts[0][0].stop - parts[0][0].start,
        size,
    )
    if len(parts) == 1 or kind not in _compiled:
        through(start, [piece for pieces in parts for piece in pieces])
        _compiled.add(kind)
        return

    def attempt(i: int) -> tuple[Any, Any]:
        carry = warm(parts[i][0]) if i else start
        return carry, through(carry, parts[i])

    with ThreadPoolExecutor(len(parts)) as pool:
        tried = list(pool.map(attempt, range(len(parts))))
    end = tried[0][1]
    for pieces, (used, reached) in zip(parts[1:], tried[1:], strict=True):
        end = reached if _same(used, end, floor) else through(end, pieces)


def _same(a: Any, b: Any, floor: float) -> bool:
    """Whether two carries agree up to rounding; in NumPy, which compiles nothing."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    with np.errstate(invalid="ignore"):
        return all(bool(same_numbers(np.asarray(p)[None], np.asarray(q)[None], floor, np)) for p, q in pairs)
