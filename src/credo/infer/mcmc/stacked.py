"""Models drawn by a sampler of their own, their numbers stacked along a leading axis: members, weights, diagnostics."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core import params
from credo.core.arrays import put
from credo.core.checks import check_count
from credo.core.params import constant
from credo.infer.averaging import Averaged
from credo.infer.learning import Learned
from credo.infer.mcmc.draws import Draws
from credo.infer.optimize import CONVERGED
from credo.infer.progress import Progress, Show
from credo.infer.target import ParameterSpace

B = TypeVar("B", bound=Any)
Sweep = Callable[[PRNGKeyArray, Any, Any], tuple[Any, Float[Array, ""]]]

FARTHEST = 745.0
"""Where a probability that is 0 by structure lies in unconstrained coordinates: e^-745 is the smallest number."""


class AveragedDraws(Averaged):
    """The average over beliefs that were drawn; `posterior` has all draws of their numbers, where there are more."""

    posterior: Draws | None = constant()


def evenly_thinned(n: int, m: int) -> np.ndarray:
    """m of the numbers 0 … n - 1, as evenly as can be."""
    return np.linspace(0, n - 1, m).astype(int)


def unstacked(drawn: Any, chosen: Any = None) -> tuple[Any, ...]:
    """The drawn models one by one: all, or those whose numbers are `chosen`."""
    arrays, static = eqx.partition(drawn, eqx.is_array)
    host = jax.tree.map(np.asarray, arrays)
    which = range(len(jax.tree.leaves(host)[0])) if chosen is None else chosen
    return tuple(eqx.combine(jax.tree.map(lambda v, i=i: put(v[i]), host), static) for i in which)


def run_gibbs(
    belief: B,
    sweep: Sweep,
    statistics: Any,
    *,
    chains: int,
    draws: int,
    warmup: int,
    thin: int,
    members: int,
    held: tuple[str, ...] = (),
    progress: bool | Show = False,
    seed: int = 0,
) -> tuple[Draws, B]:
    """Gibbs sampling of a belief with hidden variables: draws of its learnable numbers, and some of the drawn beliefs.

    Args:
        belief: where the first chain begins; the others begin at `belief.restart`, or there too.
        sweep: (key, belief, statistics) -> (the belief after a sweep, log p(data) before it); traceable.
        statistics: of the data, as the sweep takes them.
        chains, draws, warmup, thin: draws kept of each chain, sweeps before the first, and sweeps for each.
        members: how many drawn beliefs to return at most, spread evenly, stacked along a leading axis.
        held: paths that stay as they are.
        progress: True for a bar, or a function of the share done and a text.
        seed: of everything random.
    """
    for name, count in (("chains", chains), ("draws", draws), ("thin", thin), ("members", members)):
        check_count(count, name)
    check_count(warmup, "warmup", 0)
    others = [belief.restart(statistics, seed + i) for i in range(1, chains)]
    starts = [belief, *(belief if each is None else each for each in others)]
    values, heights = [], []
    with Progress(progress) as show:
        for i, (key, start) in enumerate(zip(jr.split(jr.key(seed), chains), starts, strict=True)):
            chain, height = gibbs_chain(key, start, statistics, sweep, held, (warmup, draws, thin))
            values.append({path: np.asarray(v) for path, v in chain.items()})
            heights.append(np.asarray(height))
            show((i + 1) / chains, f"chain {i + 1} of {chains}")
    every = {path: np.concatenate([v[path] for v in values]) for path in values[0]}
    chosen = evenly_thinned(chains * draws, min(members, chains * draws))
    some = {path: put(v[chosen]) for path, v in every.items()}
    return diagnosed(belief, every, np.stack(heights)), _replaced(belief, some)


@eqx.filter_jit
def gibbs_chain(
    key: PRNGKeyArray, belief: Any, data: Any, sweep: Sweep, held: tuple[str, ...], length: tuple[int, int, int]
) -> tuple[dict[str, Array], Float[Array, " n"]]:
    """The numbers that are not held by path at each draw, and log p(data) under those before it."""
    warmup, draws, thin = length

    def step(values: dict[str, Array], key: PRNGKeyArray) -> tuple[dict[str, Array], Array]:
        after, height = sweep(key, params.replace(belief, values), data)
        return {path: params.learnable(after)[path] for path in values}, height

    def some(values: dict[str, Array], keys: Array) -> tuple[dict[str, Array], tuple[dict[str, Array], Array]]:
        values, heights = jax.lax.scan(step, values, keys)
        return values, (values, heights[-1])

    k_warm, k_draw = jr.split(key)
    free = {path: value for path, value in params.learnable(belief).items() if path not in held}
    free, _ = jax.lax.scan(step, free, jr.split(k_warm, warmup))
    return jax.lax.scan(some, free, jr.split(k_draw, (draws, thin)))[1]


def learned_average(kind: type[AveragedDraws], draws: Draws, drawn: Any, statistics: Any) -> Learned:
    """The average over drawn models; `fit` then conditions it on the data."""
    # `fit` weighs each member by its evidence: draws have that weight already.
    members, log_weights = unstacked(drawn), -evidences(drawn, statistics)
    notes = [*draws.notes, f"{len(members)} of {draws.chains.shape[0] * draws.chains.shape[1]} draws kept"]
    average = kind(log_weights, members, draws)
    return Learned(average, CONVERGED, float("nan"), [], {}, notes, (statistics,) * len(members))


def conditioned_average(kind: type[AveragedDraws], draws: Draws | None, drawn: Any, statistics: Any) -> AveragedDraws:
    """The average over drawn models, each after the data: draws from the posterior have equal weights."""
    members = unstacked(_conditioned(drawn, statistics))
    return kind(put(np.zeros(len(members))), members, draws)


@eqx.filter_jit
def _conditioned(drawn: B, data: Any) -> B:
    """Each model after the data."""
    return jax.lax.map(lambda model: model.condition_on(data), drawn)


@eqx.filter_jit
def _replaced(belief: B, values: dict[str, Array]) -> B:
    """The belief with draws of its numbers along a leading axis, and copies of the others."""
    m = jax.tree.leaves(values)[0].shape[0]
    copies = jax.tree.map(lambda a: jnp.broadcast_to(a, (m, *jnp.shape(a))), belief)
    return jax.vmap(params.replace)(copies, values)


@eqx.filter_jit
def evidences(drawn: Any, data: Any) -> Float[Array, " m"]:
    """log p(data) of each model, one after the other."""
    return jax.lax.map(lambda model: model.evidence_of(data), drawn)


def diagnosed(belief: Any, every: dict[str, Any], heights: Float[np.ndarray, "c n"]) -> Draws:
    """Draws by path, all chains one after the other, with a verdict on whether to trust them; `heights` are log p."""
    constraints = {path: params.constraint_of(belief, path) for path in every}
    space = ParameterSpace.of({path: params.learnable(belief)[path] for path in every}, constraints)
    vectors = np.asarray(jax.jit(jax.vmap(space.vector))({path: put(v) for path, v in every.items()}))
    vectors = np.nan_to_num(vectors, neginf=-FARTHEST, posinf=FARTHEST).reshape(*heights.shape, -1)
    never = np.zeros(heights.shape, bool)
    return Draws.of(space, vectors, (np.ones(heights.shape), never, -heights, never))
