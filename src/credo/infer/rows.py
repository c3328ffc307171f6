"""A density that is a prior and a sum over rows, and the rows: in memory, in files, or a chunk at a time.

    log p(θ | data) = log p(θ) + Σᵢ log p(rowᵢ | θ) + const

Minibatch methods read them in blocks: every row once a pass, in random order, the next blocks made ready by a thread.
"""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, PyTree

from credo.core import params
from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.infer.target import ParameterSpace

Columns = tuple[np.ndarray, ...]

AHEAD = 2
"""Blocks of rows that are made ready while one is worked on."""
RUNS = 8
"""A block of rows from a file is made of so many runs from different places, for a disk reads what lies together."""


class Block(NamedTuple):
    """Rows in random order; those after the first `real` are padding."""

    columns: Columns
    real: int


@dataclasses.dataclass(frozen=True)
class RowSource:
    """Rows to be gone through several times: columns in memory or mapped from files, or chunks of them."""

    columns: Columns
    chunks: Iterable[object] | None
    n: int
    in_memory: bool = False

    @classmethod
    def of(cls, data: object, rows: int | None = None, passes: int = 1) -> "RowSource":
        """From an array or a tuple of arrays with the same rows, or from an iterable of such, with `rows` in all."""
        single = hasattr(data, "shape")
        if single or isinstance(data, tuple):
            given = data if isinstance(data, tuple) else (data,)
            # A mapped file stays one: `asarray` would give a plain view of it.
            columns = tuple(c if isinstance(c, np.ndarray) else np.asarray(c) for c in given)
            lengths = {len(c) if c.ndim else 0 for c in columns}
            if len(lengths) != 1 or 0 in lengths:
                raise DataError(f"data must be arrays with the same number of rows, found {sorted(lengths) or 'none'}")
            return cls(columns, None, lengths.pop(), not any(isinstance(c, np.memmap) for c in columns))
        if not isinstance(data, Iterable):
            raise DataError(f"data must be arrays or an iterable of tuples of arrays, found {type(data).__name__}")
        if rows is None:
            raise DataError("rows, the number of rows in all, is needed where data come in chunks")
        if passes > 1 and iter(data) is data:
            raise DataError(f"passes = {passes}, but an iterator is gone through once: pass a list, or core.chunks")
        return cls((), data, rows)

    def take(self, index: np.ndarray) -> Columns:
        """Some rows of the columns, as numbers."""
        return tuple(np.asarray(np.take(c, index, axis=0), dtype=float) for c in self.columns)

    def blocks(self, size: int, passes: int, rng: np.random.Generator) -> Iterator[Block]:
        """Blocks of `size` rows, the last one padded; passes run on."""
        return _prefetched(self._blocks(size, passes, rng))

    def _blocks(self, size: int, passes: int, rng: np.random.Generator) -> Iterator[Block]:
        if self.in_memory:
            for order in _orders(self.n, size, passes, rng):
                yield Block(self.take(np.resize(order, size)), len(order))
            return
        for columns in _regrouped((piece for _ in range(passes) for piece in self._pieces(size, rng)), size):
            count = len(columns[0])
            order = np.resize(rng.permutation(count), size)
            yield Block(tuple(np.take(c, order, axis=0) for c in columns), count)

    def _pieces(self, size: int, rng: np.random.Generator) -> Iterator[Columns]:
        """One pass over a file, in runs that come in random order, or over the chunks."""
        if self.chunks is None:
            run = max(size // RUNS, 1)
            for start in rng.permutation(np.arange(0, self.n, run)):
                yield tuple(np.asarray(c[start : start + run], dtype=float) for c in self.columns)
        for chunk in self.chunks or ():
            parts = tuple(np.asarray(c, dtype=float) for c in (chunk if isinstance(chunk, tuple | list) else (chunk,)))
            if len({len(part) for part in parts}) != 1:
                raise DataError(f"a chunk must be arrays with the same rows, found {[len(part) for part in parts]}")
            yield parts


class RowDensity(eqx.Module):
    """log p(θ) and log p(rowᵢ | θ), one number for each of some rows, over the space of θ."""

    space: ParameterSpace
    log_prior: Callable[..., Array]
    log_likelihood: Callable[..., Array]

    def __call__(self, u: Float[Array, " k"], rows: tuple[Array, ...], weights: Float[Array, " m"]) -> Float[Array, ""]:
        """log p(θ) + Σ wᵢ log p(rowᵢ | θ) + log |∂θ/∂u|."""
        return self.prior(u) + weights @ self.log_likelihood(self.space.tree(u), *rows)

    def scaled(self, theta: PyTree, scale: Array, *rows: Array) -> Array:
        """log p(θ) + scale Σ log p(rowᵢ | θ), some rows standing for all."""
        return self.log_prior(theta) + scale * self.log_likelihood(theta, *rows).sum()

    def prior(self, u: Float[Array, " k"]) -> Float[Array, ""]:
        """log p(θ) + log |∂θ/∂u|."""
        return self.log_prior(self.space.tree(u)) + params.log_jacobian(self.space.slots, u)


def _orders(n: int, size: int, passes: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """`size` indices at a time, of a permutation a pass."""
    left, together = np.zeros(0, dtype=int), max(size // n, 1)
    for first in range(0, passes, together):
        left = np.concatenate([left, *(rng.permutation(n) for _ in range(min(together, passes - first)))])
        while len(left) >= size:
            yield left[:size]
            left = left[size:]
    if len(left):
        yield left


def _regrouped(chunks: Iterator[Columns], size: int) -> Iterator[Columns]:
    """The rows of the chunks, `size` at a time."""
    held: list[Columns] = []
    for chunk in chunks:
        held.append(chunk)
        count = sum(len(part[0]) for part in held)
        if count >= size:
            joined = tuple(np.concatenate(parts) for parts in zip(*held, strict=True))
            for first in range(0, count - size + 1, size):
                yield tuple(part[first : first + size] for part in joined)
            held = [tuple(part[count - count % size :] for part in joined)] if count % size else []
    if held:
        yield tuple(np.concatenate(parts) for parts in zip(*held, strict=True))


def _prefetched(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same, made by another thread, `AHEAD` of them at most before they are asked for."""
    with ThreadPoolExecutor(1) as worker:
        waiting = deque(worker.submit(next, blocks, None) for _ in range(AHEAD))
        while (block := waiting.popleft().result()) is not None:
            waiting.append(worker.submit(next, blocks, None))
            yield block
