"""Many Markov chains, whatever the sampler: each on a core of its own, in blocks, under a budget of memory.

A sampler is two traceable functions (`begin`, `step`) and the random numbers of its steps; this module runs them.
Warm-up and draws are blocks of one compiled program, to which the tuning and the random numbers are data: NumPy makes
those, for a generator inside XLA takes longer to compile than all else. Chains are separate calls of it in threads, not
a batch: in a batch every chain waits for the longest trajectory.
"""

import dataclasses
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from credo.core.arrays import Array
from credo.core.device import blas_threads
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.pytrees import changed
from credo.infer.mcmc.adaptation import (
    TRAJECTORIES,
    DualAveraging,
    Pace,
    Position,
    RunningMoments,
    StepSizeAndMetric,
    adapt,
)
from credo.infer.mcmc.draws import Draws, pooled
from credo.infer.method import Approximation
from credo.infer.posterior import NormalApproximation
from credo.infer.progress import Progress, Show
from credo.infer.target import Target, value_and_grad

S = TypeVar("S", bound=Position)
"""What is kept from step to step."""
R = TypeVar("R")
"""What a step needs that is random."""
Vector: TypeAlias = Float[Array, " k"]
Record: TypeAlias = tuple[np.ndarray, ...]
"""Positions, and the fields of `Info`, of some steps."""

BLOCK = 250
"""Draws between two looks at the clock, the progress bar and the keyboard."""
TRIES = 50
"""Starting points that are tried for a chain before it is given up."""


class Info(NamedTuple):
    """What is recorded of a step."""

    acceptance: Array
    divergent: Array
    energy: Array
    at_depth: Array

    @classmethod
    def plain(cls, acceptance: Array) -> "Info":
        """Of a sampler that has an acceptance probability only."""
        return cls(acceptance, jnp.asarray(False), jnp.asarray(jnp.nan), jnp.asarray(False))


class Prepared(NamedTuple):
    """With what chains begin."""

    starts: Float[np.ndarray, "c k"]
    tuning: StepSizeAndMetric
    aim: float = float("nan")
    """The acceptance for which the warm-up tunes; NaN leaves the tuning as it is, and the steps are burn-in."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampler(Approximation, Generic[S, R]):
    """What all samplers have in common.

    Args:
        chains: how many, from starting points of their own.
        draws: kept from each.
        warmup: steps before them, in which the sampler tunes itself; not kept.
        thin: steps for each draw that is kept.
        keep: "draws", or "moments" for the running mean and covariance only, a normal law in the end.
        memory: bytes that draws may take; more is thinned, with a warning.
        start: where chains start: around "init", or at draws of "pathfinder" (or of a `Pathfinder` with settings of
            its own), which is quicker where init is far from the posterior.
        spread: of the starting points around init, in unconstrained units.
        members: draws of hyperparameters over which `fit(belief, …, using=…)` averages.
        cores: how many chains run at a time; None is all cores.
        progress: whether to show a bar, or a function of the share done and a text; None shows one on a terminal.
    """

    chains: int = 4
    draws: int = 1000
    warmup: int = 1000
    thin: int = 1
    keep: Literal["draws", "moments"] = "draws"
    memory: float | int = 1e9
    start: object = "init"
    spread: float | int = 0.5
    members: int = 32
    cores: int | None = None
    progress: bool | Show | None = None

    compiled: ClassVar[tuple[str, ...]] = ()
    """The settings on which compiled code depends; all others reach it as numbers."""
    pace: ClassVar[Pace] = TRAJECTORIES
    learns_metric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep not in ("draws", "moments"):
            raise DataError(f"keep must be 'draws' or 'moments', found {self.keep!r}")

    # -- what a sampler is ----------------------------------------------------------------------------------

    @abstractmethod
    def begin(self, target: Target, u: Vector, tuning: StepSizeAndMetric) -> S:
        """The state at a position. Traced."""

    @abstractmethod
    def step(self, target: Target, random: R, state: S, tuning: StepSizeAndMetric) -> tuple[S, Info]:
        """One step. Traced; the position is `state.position`."""

    @abstractmethod
    def random_numbers(self, rng: np.random.Generator, n: int, k: int, exploring: bool = False) -> R:
        """What n steps in k dimensions need that is random, NumPy's arrays with the steps as their leading axis."""

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> Prepared:
        """Where the chains start, and how they move."""
        return Prepared(self.starts(target, u, seed)[0], StepSizeAndMetric(np.ones(()), np.ones(target.space.size)))

    def starts(self, target: Target, u: np.ndarray, seed: int) -> tuple[np.ndarray, NormalApproximation | None]:
        """Where the chains start, and the law that these points are thought to have, if they have one."""
        from credo.infer.mcmc.pathfinder import Pathfinder

        finder = Pathfinder() if self.start == "pathfinder" else self.start
        if isinstance(finder, Pathfinder):
            return finder.starts(target, u, self.chains, seed)
        if self.start != "init":
            raise DataError(f"start must be 'init', 'pathfinder' or a Pathfinder(...), found {self.start!r}")
        return jittered_starts(target, u, self.chains, float(self.spread), seed), None

    # -- running it -----------------------------------------------------------------------------------------

    def run(self, target: Target, seed: int = 0) -> Draws | NormalApproximation:
        """The draws, with diagnostics; or their moments."""
        u = target.check()
        ratio = self._kept_one_in(target.space.size)
        prepared = self.prepare(target, u, seed)
        wanted = dataclasses.replace(self, draws=-(-self.draws // ratio), thin=self.thin * ratio)
        total, done = self.chains * (wanted.warmup + wanted.draws * wanted.thin), 0
        with Progress(self.progress, f"{self.chains} chains, compiling") as say:

            def advance(steps: int) -> None:
                nonlocal done
                done += steps
                say(done / total, f"{self.chains} chains")

            work = [
                _Chain(wanted, target, prepared, i, np.random.default_rng([seed, i]), advance)
                for i in range(self.chains)
            ]
            with blas_threads(1):  # chains have the cores: BLAS threads of their own would wait for each other
                interrupted = _in_threads(work, self.cores or os.cpu_count() or 1)
        finished = [chain for chain in work if chain.records]
        if not finished:
            raise KeyboardInterrupt("interrupted during warm-up: there are no draws yet")
        notes = []
        if interrupted:
            made = sum(chain.length for chain in finished)
            notes = [f"Interrupted after {made:,} of {self.chains * wanted.draws:,} draws, which are all there are."]
            warnings.warn(notes[0], NotConvergedWarning, stacklevel=3)
        if self.keep == "moments":
            return pooled(target.space, [m for chain in finished if (m := chain.moments) is not None], notes)
        length = min(chain.length for chain in finished)
        records = zip(*(chain.collect(length) for chain in finished), strict=True)
        vectors, *info = (np.stack(part) for part in records)
        return Draws.of(target.space, vectors, info, notes)

    def program(self) -> "Sampler[S, R]":
        """The sampler without what compiled code does not depend on."""
        same: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(self) if f.name not in self.compiled}
        same |= {name: None for name, default in same.items() if default is dataclasses.MISSING}
        return changed(self, **same)  # unchecked: what is not given is None

    def _kept_one_in(self, k: int) -> int:
        """How many of the draws that were asked for become one, so that they fit into memory."""
        needed = 8.0 * self.chains * self.draws * k
        if self.keep == "moments" or needed <= self.memory:
            return 1
        ratio = int(np.ceil(needed / self.memory))
        warnings.warn(
            f"{self.chains} × {self.draws} draws of {k} numbers need {needed / 1e9:.3g} GB, more than memory="
            f"{self.memory / 1e9:.3g} GB: one in {ratio} is kept. Raise memory, or use keep='moments'",
            NotConvergedWarning,
            stacklevel=4,
        )
        return ratio


def jittered_starts(target: Target, u: np.ndarray, chains: int, spread: float, seed: int) -> Float[np.ndarray, "c k"]:
    """Starting points around u, where the density is finite; the first is u itself."""
    rng = np.random.default_rng(seed)
    out = [u]
    while len(out) < chains:
        for attempt in range(TRIES):
            trial = u + spread * 0.8**attempt * rng.normal(size=u.shape)
            if np.isfinite(value_and_grad(target, trial)[0]):
                break
        else:
            trial = u
        out.append(trial)
    return np.stack(out)


@eqx.filter_jit
def _steps(
    sampler: Sampler[S, R],
    target: Target,
    u: Vector,
    root: Float[Array, "k *k"],
    averaging: DualAveraging,
    random: R,
    count: Int[Array, ""],
) -> tuple[Vector, DualAveraging, tuple[Float[Array, "b k"], Info]]:
    """Up to BLOCK steps from u: where they end, the step size then, and what is recorded of them."""

    def tuning(averaging: DualAveraging) -> StepSizeAndMetric:
        return StepSizeAndMetric(jnp.exp(averaging.log_step), root)

    def one(i: Array, carry: tuple[S, DualAveraging, PyTree]) -> tuple[S, DualAveraging, PyTree]:
        state, averaging, recorded = carry
        state, info = sampler.step(target, jax.tree.map(lambda v: v[i], random), state, tuning(averaging))
        recorded = jax.tree.map(lambda every, new: every.at[i].set(new), recorded, (state.position, info))
        return state, averaging.after(info.acceptance), recorded

    flags, numbers = jnp.zeros(BLOCK, bool), jnp.zeros(BLOCK)
    empty = Info(jnp.zeros((BLOCK, *averaging.log_step.shape)), flags, numbers, flags)
    carry = (sampler.begin(target, u, tuning(averaging)), averaging, (jnp.zeros((BLOCK, *u.shape)), empty))
    state, averaging, recorded = jax.lax.fori_loop(0, count, one, carry)
    return state.position, averaging, recorded


class _Stopped(Exception):
    """The user has interrupted the chains."""


class _Chain(Generic[S, R]):
    """One chain and what it has recorded."""

    def __init__(
        self,
        sampler: Sampler[S, R],
        target: Target,
        prepared: Prepared,
        number: int,
        rng: np.random.Generator,
        advance: Callable[[int], None],
    ):
        self.sampler, self.target, self.prepared, self.rng, self.advance = sampler, target, prepared, rng, advance
        self.program, self.position = sampler.program(), prepared.starts[number]
        self.records: list[Record] = []
        self.moments: RunningMoments | None = None
        self.length, self.stop = 0, False

    def run(self) -> None:
        """Warm-up, then blocks until there are enough draws or somebody says stop."""
        sampler, (_, first, aim) = self.sampler, self.prepared
        try:
            tuning = adapt(self._tune, first, aim, sampler.warmup, sampler.pace, sampler.learns_metric)
            held, left, thin = DualAveraging.around(tuning.step_size), sampler.draws * sampler.thin, sampler.thin
            rest: Record | None = None
            while left:
                record, _ = self._move(tuning.inverse_mass_matrix_root, held, left)
                left -= len(record[0])
                rest = self._keep(
                    record if rest is None else tuple(map(np.concatenate, zip(rest, record, strict=True))), thin
                )
        except _Stopped:
            return

    def _tune(
        self, root: np.ndarray, averaging: DualAveraging, most: int, exploring: bool
    ) -> tuple[np.ndarray, DualAveraging]:
        record, averaging = self._move(root, averaging, most, exploring)
        return record[0], averaging

    def _move(
        self, root: Array, averaging: DualAveraging, most: int, exploring: bool = False
    ) -> tuple[Record, DualAveraging]:
        """A block of at most so many steps."""
        if self.stop:
            raise _Stopped
        count = min(BLOCK, most)
        random = self.sampler.random_numbers(self.rng, BLOCK, len(self.position), exploring)
        self.position, averaging, (vectors, info) = _steps(
            self.program, self.target, self.position, root, averaging, random, np.asarray(count)
        )
        acceptance = np.asarray(info.acceptance).reshape(BLOCK, -1).mean(1)
        record = tuple(np.asarray(v)[:count] for v in (vectors, acceptance, *info[1:]))
        self.advance(count)
        return record, averaging

    def _keep(self, record: Record, thin: int) -> Record:
        """One draw of every `thin` steps, with what happened on the way; the steps that are left over."""
        count = len(record[0]) // thin
        vectors, *info = (v[: count * thin].reshape(count, thin, *v.shape[1:]) for v in record)
        acceptance, divergent, energy, at_depth = info
        divergent, at_depth = (np.logical_or.reduce(v, axis=1) for v in (divergent, at_depth))
        kept = (vectors[:, -1], acceptance.mean(1), divergent, energy[:, -1], at_depth)
        if self.sampler.keep == "draws":
            self.records.append(kept)
        elif count:
            block = RunningMoments.of(kept[0])
            self.moments = block if self.moments is None else self.moments.merge(block)
            self.records = [kept]
        self.length += count
        return tuple(v[count * thin :] for v in record)

    def collect(self, length: int) -> Record:
        """Vectors and records of the first draws."""
        return tuple(np.concatenate(part)[:length] for part in zip(*self.records, strict=True))


def _in_threads(chains: list[_Chain[S, R]], cores: int) -> bool:
    """Run the chains, some at a time; whether the user interrupted them."""
    interrupted = False
    with ThreadPoolExecutor(max(1, min(cores, len(chains)))) as pool:
        futures = [pool.submit(chain.run) for chain in chains]
        try:
            wait(futures)
        except KeyboardInterrupt:
            interrupted = True
            for chain in chains:
                chain.stop = True
            for future in futures:
                future.cancel()
    for future in futures:
        if not future.cancelled() and future.exception() is not None:
            raise future.exception()  # type: ignore[misc]
    return interrupted
