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
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from credo.core.arrays import put
from credo.core.checks import check_count
from credo.core.device import blas_threads
from credo.core.errors import DataError, NotConvergedWarning
from credo.infer.mcmc.adaptation import RunningMoments
from credo.infer.mcmc.draws import Draws, pooled
from credo.infer.method import Approximation
from credo.infer.posterior import NormalApproximation
from credo.infer.progress import Progress
from credo.infer.target import Target

Hint: TypeAlias = Any
"""What `prepare` hands to `tune`; as the next three, each sampler has a class of its own for it."""
Tuning: TypeAlias = Any
"""What was tuned in the warm-up."""
ChainState: TypeAlias = Any
"""What is kept from step to step; it has a `position`."""
Random: TypeAlias = Any
"""What a step needs that is random."""

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

    # -- what a sampler is ----------------------------------------------------------------------------------

    @abstractmethod
    def tune(self, target: Target, key: PRNGKeyArray, u: Float[Array, " k"], hint: Hint) -> tuple[Array, Tuning]:
        """Warm-up: a position to go on from, and what was tuned. Traced; `hint` is what `prepare` returned."""

    @abstractmethod
    def begin(self, target: Target, u: Float[Array, " k"], tuning: Tuning) -> ChainState:
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

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> tuple[Hint, Float[np.ndarray, "c k"]]:
        """A hint for `tune`, and where the chains start; not traced."""
        return None, self.starts(target, u, seed)[0]

    def starts(
        self, target: Target, u: np.ndarray, seed: int
    ) -> tuple[Float[np.ndarray, "c k"], NormalApproximation | None]:
        """Where the chains start, and the law that these points are thought to have, if they have one."""
        from credo.infer.mcmc.pathfinder import Pathfinder

        finder = Pathfinder() if self.start == "pathfinder" else self.start
        if isinstance(finder, Pathfinder):
            return finder.starts(target, u, self.chains, seed)
        if self.start != "init":
            raise DataError(f"start must be 'init', 'pathfinder' or a Pathfinder(...), found {self.start!r}")
        return jittered_starts(target, u, self.chains, float(self.spread), seed), None

    def burn(self, target: Target, key: PRNGKeyArray, u: Float[Array, " k"], tuning: Tuning) -> Array:
        """Where `warmup` steps without tuning lead. Traced."""

        def one(state: ChainState, random: Random) -> tuple[ChainState, None]:
            return self.step(target, random, state, tuning)[0], None

        random = self.many_random_numbers(target, jr.split(key, self.warmup))
        state, _ = jax.lax.scan(one, self.begin(target, u, tuning), random)
        return state.position

    # -- running it -----------------------------------------------------------------------------------------

    def run(self, target: Target, seed: int = 0) -> Any:
        """The draws, with diagnostics; or their moments."""
        self._check()
        u = target.check()
        k = target.space.size
        thin = self._thin(k)
        hint, starts = self.prepare(target, u, seed)
        keys = jr.split(jr.key(seed), self.chains)
        program = self._program()
        draws = -(-self.draws // thin.ratio)
        blocks = self.chains * (1 - (-draws // BLOCK))
        with Progress(self.progress) as say:
            done = itertools.count(1)
            work = [
                _Chain(
                    *(program, target, keys[i], put(starts[i]), hint, draws, thin.steps, self.keep),
                    lambda: say(next(done) / blocks, f"{self.chains} chains"),
                )
                for i in range(self.chains)
            ]
            with blas_threads(1):  # chains have the cores: BLAS threads of their own would wait for each other
                interrupted = _in_threads([chain.run for chain in work], self.cores or os.cpu_count() or 1, work)
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
        return dataclasses.replace(self, **same)

    def _check(self) -> None:
        for name in ("chains", "draws", "thin"):
            check_count(getattr(self, name), name)
        check_count(self.warmup, "warmup", 0)
        if self.keep not in ("draws", "moments"):
            raise DataError(f"keep must be 'draws' or 'moments', found {self.keep!r}")

    def _thin(self, k: int) -> "Thinning":
        needed = 8.0 * self.chains * self.draws * k
        if self.keep == "moments" or needed <= self.memory:
            return Thinning(self.thin, 1)
        ratio = int(np.ceil(needed / self.memory))
        warnings.warn(
            f"{self.chains} × {self.draws} draws of {k} numbers need {needed / 1e9:.3g} GB, more than memory="
            f"{self.memory / 1e9:.3g} GB: one in {ratio} is kept. Raise memory, or use keep='moments'",
            NotConvergedWarning,
            stacklevel=4,
        )
        return Thinning(self.thin * ratio, ratio)


class Thinning(NamedTuple):
    """Steps for each draw, and how many draws that were asked for become one."""

    steps: int
    ratio: int


def jittered_starts(target: Target, u: np.ndarray, chains: int, spread: float, seed: int) -> Float[np.ndarray, "c k"]:
    """Starting points around u, where the density is finite; the first is u itself."""
    rng = np.random.default_rng(seed)
    out = [u]
    while len(out) < chains:
        for attempt in range(TRIES):
            trial = u + spread * 0.8**attempt * rng.normal(size=u.shape)
            if np.isfinite(_density(target, put(trial))):
                break
        else:
            trial = u
        out.append(trial)
    return np.stack(out)


@eqx.filter_jit
def _density(target: Target, u: Float[Array, " k"]) -> Array:
    return target(u)


@eqx.filter_jit
def _tune(sampler: Sampler, target: Target, key: PRNGKeyArray, u: Array, hint: Hint) -> tuple[ChainState, Tuning]:
    position, tuning = sampler.tune(target, key, u, hint)
    return sampler.begin(target, position, tuning), tuning


@eqx.filter_jit
def _block(
    sampler: Sampler, target: Target, key: PRNGKeyArray, state: ChainState, tuning: Tuning, thin: int
) -> tuple[ChainState, Array, Info]:
    """BLOCK draws."""

    def step(state: ChainState, random: Random) -> tuple[ChainState, Info]:
        return sampler.step(target, random, state, tuning)

    def draw(state: ChainState, key: PRNGKeyArray) -> tuple[ChainState, tuple[Array, Info]]:
        state, infos = jax.lax.scan(step, state, sampler.many_random_numbers(target, jr.split(key, thin)))
        info = Info(infos[0].mean(), infos[1].any(), infos[2][-1], infos[3].any())
        return state, (state.position, info)

    def single(state: ChainState, random: Random) -> tuple[ChainState, tuple[Array, Info]]:
        state, info = step(state, random)
        return state, (state.position, info)

    keys = jr.split(key, BLOCK)
    if thin == 1:
        state, (vectors, info) = jax.lax.scan(single, state, sampler.many_random_numbers(target, keys))
    else:
        state, (vectors, info) = jax.lax.scan(draw, state, keys)
    return state, vectors, info


class _Chain:
    """One chain and what it has recorded."""

    def __init__(
        self,
        sampler: Sampler,
        target: Target,
        key: PRNGKeyArray,
        start: Array,
        hint: Hint,
        draws: int,
        thin: int,
        keep: str,
        advance: Callable[[], None],
    ):
        self._about = (sampler, target)
        self._key, self._start, self._hint, self._advance = key, start, hint, advance
        self._draws, self._thin, self._keep = draws, thin, keep
        self.moments: RunningMoments | None = None
        self.length = 0
        self.records: list[tuple[np.ndarray, ...]] = []
        self.stop = False

    def run(self) -> None:
        """Warm-up, then blocks until there are enough draws or somebody says stop."""
        k_tune, k_draw = jr.split(self._key)
        state, tuning = _tune(*self._about, k_tune, self._start, self._hint)
        jax.block_until_ready(state)
        self._advance()
        while self.length < self._draws and not self.stop:
            k_draw, key = jr.split(k_draw)
            state, vectors, info = _block(*self._about, key, state, tuning, self._thin)
            n = min(BLOCK, self._draws - self.length)
            record = tuple(np.asarray(v)[:n] for v in (vectors, *info))
            if self._keep == "moments":
                block = RunningMoments.of(record[0])
                self.moments = block if self.moments is None else self.moments.merge(block)
                self.records = [record]
            else:
                self.records.append(record)
            self.length += n
            self._advance()

    def collect(self, length: int) -> tuple[np.ndarray, ...]:
        """Vectors and records of the first draws."""
        return tuple(np.concatenate(part)[:length] for part in zip(*self.records, strict=True))


def _in_threads(jobs: list[Callable[[], None]], cores: int, chains: list[_Chain]) -> bool:
    """Run the jobs, some at a time; whether the user interrupted them."""
    interrupted = False
    with ThreadPoolExecutor(max(1, min(cores, len(jobs)))) as pool:
        futures: list[Future[None]] = [pool.submit(job) for job in jobs]
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
