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
from credo.core.params import known
from credo.core.pytrees import changed
from credo.infer.averaging import Averaged
from credo.infer.mcmc.stacked import spread_evenly, unstacked
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
    return unstacked(drawn, spread_evenly(drawn.start.shape[0], m))


def stacked(members: tuple[HMM, ...]) -> Any:
    """HMMs with their numbers along a leading axis."""
    return jax.tree.map(lambda *leaves: put(np.stack([np.asarray(v) for v in leaves])), *members)


@eqx.filter_jit
def _latest_of_each(members: Any, data: Sequences) -> Float[Array, "m k"]:
    return jax.lax.map(lambda hmm: runs.latest(hmm, data), members)


@eqx.filter_jit
def replaced(hmm: Any, values: dict[str, Array]) -> Any:
    """The HMM with draws of its numbers, along a leading axis."""
    return jax.vmap(lambda v: params.replace(hmm, v))(values)
