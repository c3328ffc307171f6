"""Many Markov chains, whatever the sampler: each on a core of its own, in blocks, under a budget of memory.

A sampler is three traceable functions (`tune`, `begin`, `step`); this module runs them. Chains are separate programs
in threads, not a batch: in a batch every chain waits for the longest trajectory.
"""

import dataclasses
import itertools
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Key, PRNGKeyArray

from credo.core.arrays import Array, put
from credo.core.checks import check_count
from credo.core.device import blas_threads
from credo.core.errors import DataError, NotConvergedWarning
from credo.infer.mcmc.adaptation import RunningMoments
from credo.infer.mcmc.draws import Draws, pooled
from credo.infer.method import Approximation
from credo.infer.posterior import NormalApproximation
from credo.infer.progress import Progress
from credo.infer.target import Target, value_and_grad

Hint: TypeAlias = Any
"""What `prepare` hands to `tune`; as the next three, each sampler has a class of its own for it."""
Tuning: TypeAlias = Any
"""What was tuned in the warm-up."""
ChainState: TypeAlias = Any
"""What is kept from step to step; it has a `position`."""
Random: TypeAlias = Any
"""What a step needs that is random."""
Prepared: TypeAlias = tuple[Hint, Float[np.ndarray, "c k"]]
"""A hint for `tune`, and where the chains start."""
Vector: TypeAlias = Float[Array, " k"]

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampler(Approximation):
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
        progress: whether to show a bar.
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
    progress: bool = False

    given: ClassVar[str | None] = None
    """A setting that `prepare` makes a hint of: compiled code depends on whether it is given, not on its value."""

    # -- what a sampler is ----------------------------------------------------------------------------------

    @abstractmethod
    def begin(self, target: Target, u: Vector, tuning: Tuning) -> ChainState:
        """The state at a position. Traced."""

    @abstractmethod
    def step(self, target: Target, random: Random, state: ChainState, tuning: Tuning) -> tuple[ChainState, Info]:
        """One step. Traced; the position is `state.position`."""

    def random_numbers(self, target: Target, key: PRNGKeyArray) -> Random:
        """What a step needs that is random: its key, or numbers drawn from it, of many steps at once. Traced."""
        return key

    def many_random_numbers(self, target: Target, keys: Key[Array, " n"]) -> Random:
        """Those of as many steps as there are keys. Traced."""
        return jax.vmap(lambda key: self.random_numbers(target, key))(keys)

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> Prepared:
        """A hint for `tune`, and where the chains start; not traced."""
        return None, self.starts(target, u, seed)[0]

    def tune(self, target: Target, key: PRNGKeyArray, u: Vector, hint: Hint) -> tuple[Array, Tuning]:
        """Warm-up: a position to go on from, and what was tuned; here that is the hint, and the steps are burn-in."""

        def one(state: ChainState, random: Random) -> tuple[ChainState, None]:
            return self.step(target, random, state, hint)[0], None

        random = self.many_random_numbers(target, jr.split(key, self.warmup))
        state, _ = jax.lax.scan(one, self.begin(target, u, hint), random)
        return state.position, hint

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

    def run(self, target: Target, seed: int = 0) -> Any:
        """The draws, with diagnostics; or their moments."""
        for name, least in (("chains", 1), ("draws", 1), ("thin", 1), ("warmup", 0)):
            check_count(getattr(self, name), name, least)
        if self.keep not in ("draws", "moments"):
            raise DataError(f"keep must be 'draws' or 'moments', found {self.keep!r}")
        u = target.check()
        ratio = self._kept_one_in(target.space.size)
        hint, starts = self.prepare(target, u, seed)
        keys = jr.split(jr.key(seed), self.chains)
        program = self._program()
        draws = -(-self.draws // ratio)
        blocks = self.chains * (1 - (-draws // BLOCK))
        with Progress(self.progress) as say:
            done = itertools.count(1)
            work = [
                _Chain(
                    *(program, target, keys[i], put(starts[i]), hint, draws, self.thin * ratio, self.keep),
                    lambda: say(next(done) / blocks, f"{self.chains} chains"),
                )
                for i in range(self.chains)
            ]
            with blas_threads(1):  # chains have the cores: BLAS threads of their own would wait for each other
                interrupted = _in_threads(work, self.cores or os.cpu_count() or 1)
        finished = [chain for chain in work if chain.records]
        if not finished:
            raise KeyboardInterrupt("interrupted during warm-up: there are no draws yet")
        notes = ["Interrupted: these are the draws made until then."] if interrupted else []
        if self.keep == "moments":
            return pooled(target.space, [m for chain in finished if (m := chain.moments) is not None], notes)
        length = min(chain.length for chain in finished)
        records = zip(*(chain.collect(length) for chain in finished), strict=True)
        vectors, *info = (np.stack(part) for part in records)
        return Draws.of(target.space, vectors, info, notes)

    def _program(self) -> "Sampler":
        """The sampler without what compiled code does not depend on."""
        same: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(Sampler) if f.name != "warmup"}
        if self.given and getattr(self, self.given) is not None:
            same[self.given] = 1.0
        return dataclasses.replace(self, **same)

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
            if np.isfinite(value_and_grad(target, put(trial))[0]):
                break
        else:
            trial = u
        out.append(trial)
    return np.stack(out)


@eqx.filter_jit
def _tune(sampler: Sampler, target: Target, key: PRNGKeyArray, u: Array, hint: Hint) -> tuple[ChainState, Tuning]:
    position, tuning = sampler.tune(target, key, u, hint)
    return sampler.begin(target, position, tuning), tuning


@eqx.filter_jit
def _block(
    sampler: Sampler, target: Target, key: PRNGKeyArray, state: ChainState, tuning: Tuning, thin: int
) -> tuple[ChainState, Array, Info]:
    """BLOCK draws."""

    def single(state: ChainState, random: Random) -> tuple[ChainState, tuple[Array, Info]]:
        state, info = sampler.step(target, random, state, tuning)
        return state, (state.position, info)

    def draw(state: ChainState, key: PRNGKeyArray) -> tuple[ChainState, tuple[Array, Info]]:
        random = sampler.many_random_numbers(target, jr.split(key, thin))
        state, (_, infos) = jax.lax.scan(single, state, random)
        return state, (state.position, Info(infos[0].mean(), infos[1].any(), infos[2][-1], infos[3].any()))

    keys = jr.split(key, BLOCK)
    one, inputs = (single, sampler.many_random_numbers(target, keys)) if thin == 1 else (draw, keys)
    state, (vectors, info) = jax.lax.scan(one, state, inputs)
    return state, vectors, info


@dataclasses.dataclass
class _Chain:
    """One chain and what it has recorded."""

    sampler: Sampler
    target: Target
    key: PRNGKeyArray
    start: Array
    hint: Hint
    draws: int
    thin: int
    keep: str
    advance: Callable[[], None]
    moments: RunningMoments | None = None
    length: int = 0
    records: list[tuple[np.ndarray, ...]] = dataclasses.field(default_factory=list)
    stop: bool = False

    def run(self) -> None:
        """Warm-up, then blocks until there are enough draws or somebody says stop."""
        k_tune, k_draw = jr.split(self.key)
        state, tuning = _tune(self.sampler, self.target, k_tune, self.start, self.hint)
        jax.block_until_ready(state)
        self.advance()
        while self.length < self.draws and not self.stop:
            k_draw, key = jr.split(k_draw)
            state, vectors, info = _block(self.sampler, self.target, key, state, tuning, self.thin)
            n = min(BLOCK, self.draws - self.length)
            record = tuple(np.asarray(v)[:n] for v in (vectors, *info))
            if self.keep == "moments":
                block = RunningMoments.of(record[0])
                self.moments = block if self.moments is None else self.moments.merge(block)
                self.records = [record]
            else:
                self.records.append(record)
            self.length += n
            self.advance()

    def collect(self, length: int) -> tuple[np.ndarray, ...]:
        """Vectors and records of the first draws."""
        return tuple(np.concatenate(part)[:length] for part in zip(*self.records, strict=True))


def _in_threads(chains: list[_Chain], cores: int) -> bool:
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
