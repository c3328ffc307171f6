"""`Grid`: hyperparameters integrated over instead of chosen, for any belief with a few of them.

    p(y | x, data) = Σ_g w_g p(y | x, data, θ_g),    w_g ∝ p(data | θ_g) p(θ_g)

on a regular grid in unconstrained coordinates (logarithms of positive numbers), centred at the maximum of the
evidence. Without `priors` the hyperprior is flat there: 1/θ for a positive number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from credo.core import params
from credo.core.errors import DataError
from credo.infer.averaging import Averaged
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner

MOST_DIMENSIONS = 4


@dataclass(frozen=True)
class Grid(Learner):
    """Full Bayes over the hyperparameters: `belief.condition(X, y, using=Grid())` gives an `Averaged` belief."""

    integrates: ClassVar[bool] = True

    points: int = 11
    """Grid points along each hyperparameter."""
    width: float = 4.0
    """How far the grid reaches, in standard deviations of the Laplace approximation at the centre."""
    fixed: Iterable[str] = ()
    priors: Mapping[str, Any] | None = None
    negligible: float = 1e-4
    """Members that weigh less than this share of the heaviest are left out."""

    def learn(
        self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Mapping[str, Any], seed: int
    ) -> Learned:
        """The average over the grid around the maximum that the belief's own learner finds."""
        held = [*fixed, *params.expand_paths(belief, self.fixed)]
        priors = {**priors, **params.check_priors(belief, self.priors)}
        learner = belief.learner(priors) or Evidence()
        learned = learner.learn(belief, statistics, held, priors, seed)
        best = learned.belief
        slots = params.layout(best, held)
        center = np.asarray(params.to_vector(best, slots))
        if not 1 <= len(center) <= MOST_DIMENSIONS:
            raise DataError(
                f"a grid takes 1 to {MOST_DIMENSIONS} hyperparameters, found {len(center)}; hold some with "
                "fixed=[...] or sample them"
            )
        steps = self._steps(best, slots, center, statistics, priors)
        offsets = np.array(list(product(np.linspace(-1, 1, self.points), repeat=len(center))))
        vectors = jnp.asarray(center + offsets * steps)
        heights = np.asarray(_heights(vectors, best, slots, statistics, priors))
        kept = np.flatnonzero(heights > heights.max() + np.log(self.negligible))
        members = [params.from_vector(best, slots, vectors[i]) for i in kept]
        weights = jnp.asarray(heights[kept])
        conditioned = Averaged(weights, tuple(member.condition_on(statistics) for member in members))
        return learned._replace(belief=Averaged(weights, tuple(members)), conditioned=conditioned)

    def _steps(
        self, belief: Any, slots: params.Layout, center: np.ndarray, statistics: Any, priors: Mapping[str, Any]
    ) -> np.ndarray:
        """Half the width of the grid along each axis, from the curvature at the centre."""
        curvature = np.asarray(_curvature(jnp.asarray(center), belief, slots, statistics, priors))
        spread = np.sqrt(np.diag(np.linalg.pinv(-curvature)).clip(min=1e-4))
        # A flat direction would reach to infinity: e^±3 is wide enough to see it.
        return np.minimum(self.width * spread, 3.0 * self.width)


def _log_joint(u: Any, belief: Any, slots: params.Layout, statistics: Any, priors: Any) -> Any:
    candidate = params.from_vector(belief, slots, u)
    return candidate.evidence_of(statistics) + params.log_prior(candidate, priors)


@eqx.filter_jit
def _heights(vectors: Any, belief: Any, slots: params.Layout, statistics: Any, priors: Any) -> Any:
    return jax.lax.map(lambda u: _log_joint(u, belief, slots, statistics, priors), vectors)


@eqx.filter_jit
def _curvature(center: Any, belief: Any, slots: params.Layout, statistics: Any, priors: Any) -> Any:
    return jax.hessian(_log_joint)(center, belief, slots, statistics, priors)
