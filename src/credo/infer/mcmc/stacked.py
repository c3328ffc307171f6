"""Models drawn by a sampler of their own, their numbers stacked along a leading axis: members, weights, diagnostics."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float, Key, PRNGKeyArray

from credo.core import params
from credo.core.arrays import Array, host
from credo.core.belief import Belief
from credo.core.params import constant
from credo.infer.averaging import Averaged
from credo.infer.learning import Learned
from credo.infer.mcmc.draws import Draws
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED
from credo.infer.posterior import trusted
from credo.infer.progress import Progress, Show
from credo.infer.target import ParameterSpace

B = TypeVar("B", bound=Belief)
Sweep = Callable[[PRNGKeyArray, Any, Any], tuple[Any, Float[Array, ""]]]

FARTHEST = 745.0
"""Where a probability that is 0 by structure lies in unconstrained coordinates: e^-745 is the smallest number."""


class AveragedDraws(Averaged):
    """The average over beliefs that were drawn; `posterior` has all draws of their numbers, where there are more."""

    posterior: Draws | None = constant()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.beliefs)} draws of {self.beliefs[0]!r})"


def unstacked(drawn: B) -> tuple[B, ...]:
    """The drawn models one by one."""
    arrays, static = eqx.partition(host(drawn), eqx.is_array)
    members = range(len(jax.tree.leaves(arrays)[0]))
    return tuple(eqx.combine(jax.tree.map(lambda v, i=i: v[i], arrays), static) for i in members)


@dataclass(frozen=True)
class ModelGibbs(Learner):
    """Gibbs sampling of a belief with hidden variables: it becomes an average over drawn beliefs.

    Args:
        chains: each from a starting point of its own where the belief's was not given.
        draws: kept of each chain.
        warmup: sweeps before the first.
        thin: sweeps for each draw that is kept.
        members: draws over which the belief averages, spread evenly over all.
        progress: True for a bar, or a function of the share done and a text; None shows one on a terminal.
    """

    integrates: ClassVar[bool] = True
    kind: ClassVar[type[AveragedDraws]] = AveragedDraws

    chains: int = 2
    draws: int = 500
    warmup: int = 500
    thin: int = 1
    members: int = 64
    progress: bool | Show | None = None

    @abstractmethod
    def draw(self, belief: Any, statistics: Any, *, seed: int = 0) -> tuple[Draws, Any]:
        """Draws of the numbers by path, with diagnostics, and `members` drawn beliefs stacked along a leading axis."""

    def condition(self, belief: Any, *data: Any, seed: int = 0, **options: Any) -> AveragedDraws:
        """The belief after the data, averaged over draws; `posterior` has all of them, with diagnostics."""
        prepared, statistics = belief.prepare(*data, **options)
        posterior, drawn = self.draw(prepared, statistics, seed=seed)
        return conditioned_average(self.kind, trusted(posterior), drawn, statistics)

    def settled(self, belief: Any, every: dict[str, np.ndarray], statistics: Any) -> dict[str, np.ndarray]:
        """All draws by path, with what has no order of its own brought into the same one."""
        return every

    def run(
        self, belief: Any, sweep: Sweep, statistics: object, seed: int, held: tuple[str, ...] = ()
    ) -> tuple[Draws, Any]:
        """`draw` by sweeps (key, belief, statistics) -> (the belief after it, log p(data) before it); traceable.

        The first chain begins at the belief, the others at `belief.restart`, or there too; paths that are `held` stay.
        """
        starts = [belief, *(belief.restart(statistics, seed + i) or belief for i in range(1, self.chains))]
        length, values, heights = (self.warmup, self.draws, self.thin), [], []
        with Progress(self.progress, "Gibbs sampling") as show:
            seeds = np.random.default_rng(seed).integers(2**31, size=self.chains)
            for i, (own, start) in enumerate(zip(seeds, starts, strict=True)):
                chain, height = gibbs_chain(jr.key(own), start, statistics, sweep, held, length)
                values.append({path: np.asarray(v) for path, v in chain.items()})
                heights.append(np.asarray(height))
                show((i + 1) / self.chains, f"chain {i + 1} of {self.chains}")
        every = self.settled(
            belief, {path: np.concatenate([v[path] for v in values]) for path in values[0]}, statistics
        )
        total = self.chains * self.draws
        chosen = np.linspace(0, total - 1, min(self.members, total)).astype(int)
        some = {path: v[chosen] for path, v in every.items()}
        return _diagnosed(belief, every, np.stack(heights)), _replaced(belief, some)


@eqx.filter_jit
def gibbs_chain(
    key: PRNGKeyArray, belief: Any, data: Any, sweep: Sweep, held: tuple[str, ...], length: tuple[int, int, int]
) -> tuple[dict[str, Array], Float[Array, " n"]]:
    """The numbers that are not held by path at each draw, and log p(data) under those before it."""
    warmup, draws, thin = length

    def step(values: dict[str, Array], key: PRNGKeyArray) -> tuple[dict[str, Array], Array]:
        after, height = sweep(key, params.replace(belief, values), data)
        return {path: params.learnable(after)[path] for path in values}, height

    def some(
        values: dict[str, Array], keys: Key[jax.Array, " t"]
    ) -> tuple[dict[str, Array], tuple[dict[str, Array], Array]]:
        values, heights = jax.lax.scan(step, values, keys)
        return values, (values, heights[-1])

    free = {path: value for path, value in params.learnable(belief).items() if path not in held}
    first = -(-warmup // thin)  # the warm-up in the same loop, for a sweep may take seconds to compile
    recorded = jax.lax.scan(some, free, jr.split(key, (first + draws, thin)))[1]
    return jax.tree.map(lambda v: v[first:], recorded)


def learned_average(kind: type[AveragedDraws], draws: Draws, drawn: Belief, statistics: object) -> Learned:
    """The average over drawn models, before the data and after them."""
    after = conditioned_average(kind, draws, drawn, statistics)
    notes = [*draws.notes, f"{len(after.beliefs)} of {draws.chains.shape[0] * draws.chains.shape[1]} draws kept"]
    # Conditioned on the data, each member is weighed by its evidence: draws have that weight already.
    before = kind(-host(_evidences(drawn, statistics)), unstacked(drawn), draws)
    doubts = (f"do not trust these draws: {draws.verdict}",) if draws.notes else ()
    return Learned(before, CONVERGED, float("nan"), [], {}, notes, after, doubts)


def conditioned_average(
    kind: type[AveragedDraws], draws: Draws | None, drawn: Belief, statistics: object
) -> AveragedDraws:
    """The average over drawn models, each after the data: draws from the posterior have equal weights."""
    members = unstacked(_conditioned(drawn, statistics))
    return kind(np.zeros(len(members)), members, draws)


def conditioned_one_by_one(kind: type[AveragedDraws], drawn: B, statistics: object) -> AveragedDraws:
    """`conditioned_average` where `condition_on` compiles nothing, or the same program for all."""
    members = tuple(each.condition_on(statistics) for each in unstacked(drawn))
    return kind(np.zeros(len(members)), members, None)


@eqx.filter_jit
def _conditioned(drawn: B, data: object) -> B:
    return jax.lax.map(lambda model: model.condition_on(data), drawn)


@eqx.filter_jit
def _evidences(drawn: Belief, data: object) -> Float[Array, " m"]:
    return jax.lax.map(lambda model: model.evidence_of(data), drawn)


def _replaced(belief: B, values: dict[str, np.ndarray]) -> B:
    """The belief with draws of its numbers along a leading axis, and copies of the others."""
    m = len(next(iter(values.values())))
    return params.replace(jax.tree.map(lambda a: np.broadcast_to(a, (m, *np.shape(a))), belief), values)


def _diagnosed(belief: Belief, every: dict[str, np.ndarray], heights: Float[np.ndarray, "c n"]) -> Draws:
    """Draws by path, all chains one after the other, with a verdict on whether to trust them; `heights` are log p."""
    constraints = {path: params.constraint_of(belief, path) for path in every}
    space = ParameterSpace.of({path: params.learnable(belief)[path] for path in every}, constraints)
    with np.errstate(divide="ignore"):
        vectors = np.asarray(space.vector(every))
    vectors = np.nan_to_num(vectors, neginf=-FARTHEST, posinf=FARTHEST).reshape(*heights.shape, -1)
    never = np.zeros(heights.shape, bool)
    return Draws.of(space, vectors, (np.ones(heights.shape), never, -heights, never))
