"""Hyperparameters by Markov chains: `credo.fit(gp, X, y, using=NUTS())` averages over them.

    p(y* | data) = ∫ p(y* | data, θ) p(θ | data) dθ ≈ 1/m Σⱼ p(y* | data, θⱼ),    θⱼ ~ p(θ | data)

What is integrated in closed form stays so: the chains move in the few numbers that `learn` would choose. A number
without a prior counts as flat on the unconstrained scale, 1/θ for a positive one.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from credo.core import params
from credo.core.belief import Belief
from credo.core.errors import NotConverged, NotConvergedWarning
from credo.infer.averaging import Averaged
from credo.infer.hyper.target import hyper_target
from credo.infer.learning import Learned
from credo.infer.method import MEMBERS, Approximation
from credo.infer.optimize import CONVERGED
from credo.infer.priors import Prior
from credo.infer.target import Target

EXTREME = 300.0
"""A logarithm, or log odds, beyond which a draw is no number to predict with."""


def learn_by_draws(
    sampler: Approximation,
    belief: Belief,
    statistics: Any,
    fixed: Sequence[str],
    priors: Mapping[str, Prior],
    seed: int,
) -> Learned:
    """The average of the belief over draws of its hyperparameters."""
    target = hyper_target(belief, statistics, fixed, priors)
    found = sampler.run(target, seed)
    count = getattr(sampler, "members", MEMBERS)
    vectors = found.vectors(count, jr.key(seed))
    evidence = np.asarray(_evidences(vectors, target))
    sound = np.isfinite(evidence) & (np.abs(np.asarray(vectors)) < EXTREME).all(axis=1)
    if not sound.any():
        raise NotConverged(
            "no draw of the hyperparameters has a finite evidence: the data do not determine them; give priors={...}, "
            "or hold some with fixed=[...]"
        )
    vectors, evidence = vectors[sound], evidence[sound]
    # The space has an order of its own: numbers find their places in the belief by path.
    members = tuple(params.replace(belief, target.space.tree(vector)) for vector in vectors)
    flat = [slot.path for slot in target.space.slots if slot.path not in priors]
    if found.notes:
        warnings.warn(f"hyperparameters by draws: {found.verdict}", NotConvergedWarning, stacklevel=5)
    notes = [*found.notes, f"{len(members)} of {found.kept().shape[0]} draws of the hyperparameters kept"]
    notes += [f"{', '.join(flat)} without a prior"] if flat else []
    return Learned(
        # Conditioned on the data, each member is weighed by its evidence: draws have that weight already.
        belief=Averaged(-evidence, members),
        conditioned=Averaged(jnp.zeros(len(members)), tuple(member.condition_on(statistics) for member in members)),
        status=CONVERGED,
        log_evidence=float("nan"),
        optima=[],
        at_bound={},
        notes=notes,
    )


@eqx.filter_jit
def _evidences(vectors: Float[Array, "m k"], target: Target) -> Float[Array, " m"]:
    belief, statistics, _ = target.data

    def evidence(u: Array) -> Array:
        return params.replace(belief, target.space.tree(u)).evidence_of(statistics)

    return jax.lax.map(evidence, vectors)
