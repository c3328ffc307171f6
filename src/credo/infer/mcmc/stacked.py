"""Models drawn by a sampler of their own, their numbers stacked along a leading axis: members, weights, diagnostics."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from credo.core import params
from credo.core.arrays import put
from credo.infer.mcmc.draws import Draws
from credo.infer.target import Space

FARTHEST = 745.0
"""Where a probability that is 0 by structure lies in unconstrained coordinates: e^-745 is the smallest number."""


def spread_evenly(n: int, m: int) -> np.ndarray:
    """m of the numbers 0 … n - 1, as evenly as can be."""
    return np.linspace(0, n - 1, m).astype(int)


def unstacked(drawn: Any, chosen: Any = None) -> tuple[Any, ...]:
    """The drawn models one by one: all, or those whose numbers are `chosen`."""
    arrays, static = eqx.partition(drawn, eqx.is_array)
    host = jax.tree.map(np.asarray, arrays)
    which = range(len(jax.tree.leaves(host)[0])) if chosen is None else chosen
    return tuple(eqx.combine(jax.tree.map(lambda v, i=i: put(v[i]), host), static) for i in which)


@eqx.filter_jit
def evidences(drawn: Any, data: Any) -> Float[Array, " m"]:
    """log p(data) of each model, one after the other."""
    return jax.lax.map(lambda model: model.evidence_of(data), drawn)


def diagnosed(belief: Any, every: dict[str, Any], heights: Float[np.ndarray, "c n"]) -> Draws:
    """Draws by path, all chains one after the other, with a verdict on whether to trust them; `heights` are log p."""
    constraints = {path: params.constraint_of(belief, path) for path in every}
    space = Space.of({path: params.learnable(belief)[path] for path in every}, constraints)
    vectors = np.asarray(jax.jit(jax.vmap(space.vector))({path: put(v) for path, v in every.items()}))
    vectors = np.nan_to_num(vectors, neginf=-FARTHEST, posinf=FARTHEST).reshape(*heights.shape, -1)
    never = np.zeros(heights.shape, bool)
    return Draws.of(space, vectors, (np.ones(heights.shape), never, -heights, never))
