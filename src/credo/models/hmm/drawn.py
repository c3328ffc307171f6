"""`DrawnHMM`: an HMM whose parameters are known by draws, as a belief that averages over some of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from credo.core import params
from credo.core.arrays import put
from credo.core.errors import DataError
from credo.core.modules import changed
from credo.core.params import known
from credo.infer.average import Averaged
from credo.infer.mcmc.draws import Draws
from credo.infer.target import Space
from credo.models.hmm import runs
from credo.models.hmm.belief import HMM
from credo.models.sequences import Sequences


class DrawnHMM(Averaged):
    """The average over HMMs that were drawn; `found` has the draws of all their numbers, where there are more."""

    found: Any = known()


def refuse(fixed: Sequence[str], priors: Mapping[str, Any]) -> None:
    """`DataError` where something is to be held, or has a prior of another kind."""
    if fixed or priors:
        raise DataError(
            "variational Bayes and PathGibbs integrate over all parameters under the model's own priors, found "
            f"{', '.join([*fixed, *priors])}; use credo.infer.NUTS() to hold some, or for other priors"
        )


def averaged(drawn: Any, statistics: Sequences, m: int, found: Any) -> DrawnHMM:
    """Some of the drawn HMMs, each after the data: draws from the posterior have equal weights."""
    members = stacked(members_of(drawn, m))
    states = _latest_of_each(members, statistics)
    after = members_of(changed(members, state=states), m)
    return DrawnHMM(put(np.zeros(m)), after, found)


def members_of(drawn: Any, m: int) -> tuple[HMM, ...]:
    """m of the drawn HMMs, spread evenly over them."""
    n = drawn.start.shape[0]
    chosen = np.linspace(0, n - 1, m).astype(int)
    arrays, static = eqx.partition(drawn, eqx.is_array)
    host = jax.tree.map(np.asarray, arrays)
    return tuple(eqx.combine(jax.tree.map(lambda v, i=i: put(v[i]), host), static) for i in chosen)


def stacked(members: tuple[HMM, ...]) -> Any:
    """HMMs with their numbers along a leading axis."""
    return jax.tree.map(lambda *leaves: put(np.stack([np.asarray(v) for v in leaves])), *members)


@eqx.filter_jit
def _latest_of_each(members: Any, data: Sequences) -> Float[Array, "m k"]:
    return jax.lax.map(lambda hmm: runs.latest(hmm, data), members)


@eqx.filter_jit
def evidences(members: Any, data: Sequences) -> Float[Array, " m"]:
    """log p(x) of each."""
    return jax.lax.map(lambda hmm: hmm.evidence_of(data), members)


@eqx.filter_jit
def replaced(hmm: Any, values: dict[str, Array]) -> Any:
    """The HMM with draws of its numbers, along a leading axis."""
    return jax.vmap(lambda v: params.replace(hmm, v))(values)


def with_diagnostics(belief: HMM, every: dict[str, Array], heights: Float[np.ndarray, "c n"]) -> Draws:
    """The draws by path, with a verdict on whether to trust them."""
    slots = params.layout(belief)
    space = Space.of(params.learnable(belief), {s.path: s.constraint for s in slots})
    vectors = np.asarray(jax.jit(jax.vmap(space.vector))(every))
    # A probability that is 0 by structure is at -∞.
    vectors = np.nan_to_num(vectors, neginf=-745.0, posinf=745.0).reshape(*heights.shape, -1)
    never = np.zeros(heights.shape, bool)
    return Draws.of(space, vectors, (np.ones(heights.shape), never, -heights, never))
