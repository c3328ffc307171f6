"""A long recursion on several cores: its parts run side by side, and are checked to follow from each other.

As the blocks of `core.recursion`, a part begins with the carry that a few elements before it lead to; where its
predecessor ends in another one, the part runs again from there. Threads suffice: compiled programs release the lock.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax
import numpy as np

from credo.core.recursion import same_numbers

R = TypeVar("R")

LONGEST_ALONE = 2**18
"""A recursion over fewer elements is over before a second thread has begun."""

WARM_UP = 1024
"""Elements before a part that lead to its first carry."""


def cores() -> int:
    """The processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def cut(t: int) -> list[slice]:
    """Equal parts of t elements, a power of two of them and not more than there are cores; one where t is small."""
    count = 1
    while 2 * count <= cores() and t % (2 * count) == 0 and t // count > LONGEST_ALONE:
        count *= 2
    return [slice(i * (t // count), (i + 1) * (t // count)) for i in range(count)]


def follow(
    run: Callable[[Any, slice], tuple[Any, R]],
    start: Any,
    parts: Sequence[slice],
    warm: Callable[[slice], Any],
    floor: float = 1e-13,
) -> list[R]:
    """The results of run(carry, part) -> (carry after it, result) for parts that follow each other, run side by side.

    Args:
        run: one part from a carry; compiled, so that threads run at once.
        start: the carry before the first part.
        parts: in the order of the recursion (from the last to the first for one that runs backwards).
        warm: the carry that the elements before a part lead to, from any guess.
        floor: see `core.recursion.recur`.
    """
    if len(parts) == 1:
        return [run(start, parts[0])[1]]

    def attempt(i: int) -> tuple[Any, Any, R]:
        carry = warm(parts[i]) if i else start
        return carry, *run(carry, parts[i])

    with ThreadPoolExecutor(len(parts)) as pool:
        tried = list(pool.map(attempt, range(len(parts))))
    results, end = [tried[0][2]], tried[0][1]
    for part, (used, reached, result) in zip(parts[1:], tried[1:], strict=True):
        if not _same(used, end, floor):
            reached, result = run(end, part)
        results.append(result)
        end = reached
    return results


def _same(a: Any, b: Any, floor: float) -> bool:
    """Whether two carries agree up to rounding; in NumPy, which compiles nothing."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    with np.errstate(invalid="ignore"):
        return all(bool(same_numbers(np.asarray(p)[None], np.asarray(q)[None], floor, np)) for p, q in pairs)
