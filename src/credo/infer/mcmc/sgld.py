"""`SGLD`: Langevin steps on the gradient of a few rows, for data that do not fit in memory or in patience.

    u ← u + εₜ G (∇log p(u) + n/m Σᵢ ∇log p(rowᵢ | u)) + √(2 εₜ G) z,    εₜ = a (b + t)^(-γ)

over minibatches of m of the n rows, each read once a pass. With decaying steps the draws count in proportion to them
(Welling & Teh, 2011); here they are kept at equal distances of Σ εₜ, which is the same. G is 1, or by RMSprop
1/(λ + √V) with V a running mean of squared gradients (Li, Chen, Carlson & Carin, 2016).
"""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from credo.core import params
from credo.core.checks import check_count
from credo.core.device import aligned
from credo.core.errors import DataError, NotConverged
from credo.infer.mcmc.draws import Draws
from credo.infer.mcmc.langevin import check_step
from credo.infer.target import Constraints, Space

ROWS = 32_768
"""About how many rows are shuffled, and gone through, at a time: so many indices fit in the cache."""
NUMBERS = 4_000_000
"""About how many coordinates of steps are."""
AHEAD = 3
"""Blocks of rows that are made ready while one is worked on."""
FORGETTING, FLOOR = 0.99, 1e-5
"""α and λ of RMSprop."""


class Streamed(eqx.Module):
    """log p(u) of a minibatch, scaled up to all rows."""

    space: Space
    log_prior: Callable[..., Any]
    log_likelihood: Callable[..., Any]

    def __call__(self, u: Float[Array, " k"], rows: tuple[Array, ...], weights: Float[Array, " m"]) -> Array:
        """log p(θ) + Σ wᵢ log p(rowᵢ | θ) + log |∂θ/∂u|."""
        theta = self.space.tree(u)
        likelihood = (weights * self.log_likelihood(theta, *rows)).sum()
        return self.log_prior(theta) + likelihood + params.log_jacobian(self.space.slots, u)


@dataclasses.dataclass(frozen=True)
class SGLD:
    """Stochastic gradient Langevin dynamics.

    Its draws are too wide by the noise of the gradient and by the length of the step; both vanish with ε.

    Args:
        step_size: ε of the first step, in squared unconstrained units; of the order of a tenth of the smallest
            posterior variance. With `precondition` it is relative to the root mean square of a row's gradient.
        batch: m, rows in a minibatch.
        decay: γ; between 0.5 and 1 the bias vanishes as the run goes on, 0 keeps the step.
        offset: b, steps after which the decay begins to tell.
        passes: over the data.
        burn: the share of Σ εₜ before the first draw that is kept.
        draws: kept, at most.
        precondition: whether to scale by RMSprop.
    """

    step_size: Any
    batch: int = 100
    decay: Any = 0.55
    offset: Any = 1000.0
    passes: int = 1
    burn: Any = 0.5
    draws: int = 1000
    precondition: bool = False

    def run_rows(
        self,
        log_prior: Callable[..., Any],
        log_likelihood: Callable[..., Any],
        init: Any,
        data: Any,
        constraints: Constraints | None = None,
        rows: int | None = None,
        seed: int = 0,
    ) -> Draws:
        """Draws of θ (one chain), with what there is to say about their bias.

        Args:
            log_prior: log p(θ), of the pytree in natural units.
            log_likelihood: log_likelihood(θ, *columns) -> one number for each row.
            init: the pytree at which to start.
            data: an array or a tuple of arrays with the same rows (memory-mapped ones are read as they are reached), or
                an iterable of such tuples, a chunk at a time, whose rows should come in random order.
            constraints: by path; see `credo.condition`.
            rows: n, needed where `data` is an iterable.
            seed: of everything random.
        """
        self._check()
        model = Streamed(Space.of(init, constraints), log_prior, log_likelihood)
        source = _source(data, rows, self.passes)
        steps = -(-source.rows * self.passes // self.batch)
        schedule = self.schedule(steps)
        wanted = self._wanted(schedule)
        u = model.space.start()
        vectors, interrupted = self._walk(model, source, u, schedule, wanted, seed)
        notes = [
            "SGLD: these draws have a bias that shrinks with the step: rerun with half of step_size, or a larger "
            "batch, and compare."
        ]
        if interrupted:
            notes.insert(0, "Interrupted: these are the draws made until then.")
        n = len(vectors)
        flags = np.zeros((1, n), dtype=bool)
        return Draws.of(model.space, vectors[None], (np.ones((1, n)), flags, np.full((1, n), np.nan), flags), notes)

    def schedule(self, steps: int) -> Float[np.ndarray, " t"]:
        """εₜ = a (b + t)^(-γ), with a such that ε₀ is `step_size`."""
        return float(self.step_size) * (1 + np.arange(steps) / float(self.offset)) ** -float(self.decay)

    def _wanted(self, schedule: Float[np.ndarray, " t"]) -> np.ndarray:
        """The steps after which a draw is kept: equally far apart in Σ εₜ."""
        clock = np.cumsum(schedule)
        first = clock[-1] * float(self.burn)
        n = max(1, min(self.draws, int((clock > first).sum())))
        return np.searchsorted(clock, np.linspace(first, clock[-1], n + 1)[1:] * (1 - 1e-12))

    def _walk(
        self, model: Streamed, source: "Source", u: np.ndarray, schedule: np.ndarray, wanted: np.ndarray, seed: int
    ) -> tuple[np.ndarray, bool]:
        """The vectors after the wanted steps, and whether the user stopped it."""
        shuffling, moving = np.random.Generator(np.random.SFC64(seed)).spawn(2)  # it shuffles fastest
        k = model.space.size
        per_block = int(np.clip(min(ROWS // self.batch, NUMBERS // k), 1, len(schedule)))
        squares, kept, done = np.zeros_like(u), [np.zeros((0, k))], 0
        parts, noise = _parts(model), moving.standard_normal((per_block, k))
        made: tuple[Array, int] | None = None
        interrupted = False
        try:
            blocks = _blocks(source, per_block * self.batch, shuffling)
            for rows, count in _ahead(blocks, partial(_loaded, per_block)):
                size = min(per_block, len(schedule) - done)
                if size == 0:
                    raise DataError(f"data have more rows than were promised, rows = {source.rows}")
                plan = np.zeros((2, per_block))
                plan[0, :size] = schedule[done : done + size]
                plan[1] = np.clip(count - self.batch * np.arange(per_block), 1, self.batch)
                if made:  # while these rows were awaited
                    kept.append(_kept(*made, wanted))
                    made = None
                u, squares, steps = _steps(*parts, u, squares, rows, source.rows, plan, noise, self.precondition)
                noise = moving.standard_normal((per_block, k))  # for the next, while these steps are made
                made = steps, done
                done += size
        except KeyboardInterrupt:
            interrupted = True
        if made:
            kept.append(_kept(*made, wanted))
        vectors = np.concatenate(kept)
        if interrupted and not len(vectors):
            raise KeyboardInterrupt
        if done < len(schedule) and not interrupted:
            found = source.rows - (len(schedule) - done) * self.batch // self.passes
            raise DataError(f"data ended early: rows = {source.rows} was promised, about {max(found, 0)} a pass came")
        return vectors, interrupted

    def _check(self) -> None:
        check_step(self.step_size)
        for name in ("batch", "passes", "draws"):
            check_count(getattr(self, name), name)
        if not 0 <= self.burn < 1:
            raise DataError(f"burn must be a share in [0, 1), found {self.burn!r}")
        if not 0 <= self.decay <= 1:
            raise DataError(f"decay must be in [0, 1], found {self.decay!r}")
        if not self.offset > 0:
            raise DataError(f"offset must be positive, found {self.offset!r}")


def _parts(model: Streamed) -> tuple[tuple[Any, ...], Streamed]:
    """What is no array, hashable, and what is: `jax.jit` starts in a fifth of the time that `eqx.filter_jit` takes."""
    numbers, rest = eqx.partition(model, eqx.is_array)
    leaves, tree = jax.tree.flatten(rest)
    return (tree, tuple(leaves)), numbers


@partial(jax.jit, static_argnames=("functions", "precondition"))
def _steps(
    functions: tuple[Any, ...],
    numbers: Streamed,
    u: Float[Array, " k"],
    squares: Float[Array, " k"],
    rows: tuple[Array, ...],
    n: Int[Array, ""],
    plan: Float[Array, "2 s"],
    noise: Float[Array, "s k"],
    precondition: bool,
) -> tuple[Array, Array, Float[Array, "s k"]]:
    """One step for each minibatch; `plan` are the size (zero stays) and the rows of each.

    The model comes in its two parts; arrays may be NumPy's, which compiled code reads where they lie.
    """
    model = eqx.combine(jax.tree.unflatten(*functions), numbers)
    sizes, counts = plan[0], plan[1][:, None]
    # For all steps at once what does not depend on u: in the loop a lone number costs as much as a vector.
    weights = jnp.where(jnp.arange(rows[0].shape[1]) < counts, n / counts, 0.0)
    kicks = jnp.sqrt(2 * sizes)[:, None] * noise

    def one(state: tuple[Array, Array], inputs: Any) -> tuple[tuple[Array, Array], Array]:
        """The step of one minibatch."""
        u, squares = state
        rows, weights, size, kick = inputs
        gradient = jax.grad(model)(u, rows, weights)
        if not precondition:
            u = u + size * gradient + kick
            return (u, squares), u
        average = gradient / n
        squares = jnp.where(size > 0, FORGETTING * squares + (1 - FORGETTING) * average**2, squares)
        metric = 1 / (FLOOR + jnp.sqrt(squares))
        u = u + size * metric * gradient + jnp.sqrt(metric) * kick
        return (u, squares), u

    (u, squares), path = jax.lax.scan(one, (u, squares), (rows, weights, sizes, kicks))
    return u, squares, path


def _kept(steps: Float[Array, "s k"], first: int, wanted: Int[np.ndarray, " n"]) -> Float[np.ndarray, "m k"]:
    """The vectors after those of the steps first, first + 1, … that are wanted."""
    path = np.asarray(steps)
    if not np.all(np.isfinite(path[-1])):
        bad = first + int(np.argmin(np.isfinite(path).all(1)))
        raise NotConverged(f"SGLD left the finite numbers at step {bad}: lower step_size; check the rows")
    return path[wanted[(wanted >= first) & (wanted < first + len(path))] - first]


# -- reading rows ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Source:
    """Rows to be gone through several times: columns in memory or on disk, or chunks of them."""

    columns: tuple[Any, ...] | None
    chunks: Iterable[Any] | None
    rows: int
    passes: int
    in_memory: bool = False


def _source(data: Any, rows: int | None, passes: int) -> Source:
    single = hasattr(data, "shape")
    if single or isinstance(data, tuple):
        columns = (data,) if single else data
        lengths = {len(c) for c in columns}
        if len(lengths) != 1 or 0 in lengths:
            raise DataError(f"data must be arrays with the same number of rows, found {sorted(lengths) or 'none'}")
        in_memory = not any(isinstance(c, np.memmap) for c in columns)
        if in_memory:
            columns = tuple(np.asarray(c) for c in columns)
        return Source(tuple(columns), None, lengths.pop(), passes, in_memory)
    if not isinstance(data, Iterable):
        raise DataError(f"data must be arrays or an iterable of tuples of arrays, found {type(data).__name__}")
    if rows is None:
        raise DataError("rows, the number of rows in all, is needed where data come in chunks")
    if passes > 1 and iter(data) is data:
        raise DataError(f"passes = {passes}, but an iterator can be gone through once: pass a list, or credo.chunks")
    return Source(None, data, rows, passes)


def _chunks(source: Source, size: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, ...]]:
    """One pass: the indices of rows in memory in random order, or rows in runs, for a disk reads what lies together."""
    if source.columns is None:
        for chunk in source.chunks or ():
            parts = chunk if isinstance(chunk, tuple | list) else (chunk,)
            if len({len(part) for part in parts}) != 1:
                raise DataError(f"a chunk must be arrays with the same rows, found {[len(part) for part in parts]}")
            yield tuple(np.asarray(part, dtype=float) for part in parts)
    elif source.in_memory:
        yield from ((part,) for part in _shuffled(source.rows, size, rng))
    else:
        for start in rng.permutation(np.arange(0, source.rows, size)):
            yield tuple(np.asarray(c[start : start + size], dtype=float) for c in source.columns)


def _shuffled(n: int, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """A uniform permutation of 0, …, n - 1, `size` at a time: in which part each comes, then the order within parts.

    Each part is shuffled where it lies, in the cache, when it is reached. Rao (1961), Sandelius (1962).
    """
    k = min(2 ** (n // ROWS).bit_length(), 256)  # a power of two, for then a random byte tells
    where = np.frombuffer(rng.bytes(n), dtype=np.uint8) & np.uint8(k - 1)
    order = np.argsort(where, kind="stable")  # of bytes it is a radix sort
    ends = np.cumsum(np.bincount(where, minlength=k)).tolist()
    done = 0
    for start, end in zip([0, *ends], ends, strict=False):
        rng.shuffle(order[start:end])
        while end - done >= size or (end == n and done < n):
            yield order[done : done + size]
            done += size


class Block(NamedTuple):
    """Rows that are still to be taken from the columns; those after the first `real` are padding."""

    columns: tuple[np.ndarray, ...]
    order: np.ndarray
    real: int
    memory: tuple[np.ndarray, ...]
    """Where they go; it is that of the block before the last `AHEAD`, for fresh memory costs page faults."""


def _blocks(source: Source, size: int, rng: np.random.Generator) -> Iterator[Block]:
    """Blocks of `size` rows in random order, the last one padded; passes run on."""
    ring: deque[tuple[np.ndarray, ...]] = deque()

    def block(parts: tuple[np.ndarray, ...], count: int) -> Block:
        """The first `count` rows of the parts, and memory for `size`."""
        columns = (source.columns or ()) if source.in_memory else parts
        order = parts[0][:count] if source.in_memory else rng.permutation(count)
        if len(ring) < AHEAD + 1:
            ring.append(tuple(aligned((size, *c.shape[1:])) for c in columns))
        else:
            ring.rotate(-1)
        if count < size:
            order = np.pad(order, (0, size - count))
        return Block(columns, order, count, ring[-1])

    held: list[tuple[np.ndarray, ...]] = []
    count = 0
    for _ in range(source.passes):
        for chunk in _chunks(source, size, rng):
            held.append(chunk)
            count += len(chunk[0])
            if count < size:
                continue
            parts = _joined(held)
            while count >= size:
                yield block(parts, size)
                parts = tuple(part[size:] for part in parts)
                count -= size
            held = [parts] if count else []
    if count:
        yield block(_joined(held), count)


def _joined(chunks: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    return chunks[0] if len(chunks) == 1 else tuple(np.concatenate(parts) for parts in zip(*chunks, strict=True))


def _loaded(steps: int, block: Block) -> tuple[tuple[np.ndarray, ...], int]:
    """The rows of a block as arrays of minibatches, and how many are real."""
    for column, memory in zip(block.columns, block.memory, strict=True):
        if column.dtype == memory.dtype:
            np.take(column, block.order, axis=0, out=memory, mode="clip")
        else:
            memory[...] = np.take(column, block.order, axis=0)
    return tuple(c.reshape(steps, -1, *c.shape[1:]) for c in block.memory), block.real


class Job(NamedTuple):
    """What is to be worked on, and what will come of it."""

    item: Any
    coming: Future[Any]


def _ahead(items: Iterator[Any], work: Callable[[Any], Any]) -> Iterator[Any]:
    """work(item) of each in order, `AHEAD` of them at most before they are asked for.

    Another thread works; while its answer is awaited, this one does what that has not begun.
    """
    with ThreadPoolExecutor(1) as worker:
        waiting = deque(Job(item, worker.submit(work, item)) for item in islice(items, AHEAD))
        while waiting:
            while not waiting[0].coming.done() and (taken := _taken_over(waiting)) is not None:
                item, waiting[taken] = waiting[taken].item, Job(None, Future())
                waiting[taken].coming.set_result(work(item))
            yield waiting.popleft().coming.result()
            waiting.extend(Job(item, worker.submit(work, item)) for item in islice(items, 1))


def _taken_over(jobs: Iterable[Job]) -> int | None:
    """The place of the first job that had not been begun, and now will not be by the worker."""
    return next((i for i, job in enumerate(jobs) if not job.coming.done() and job.coming.cancel()), None)
