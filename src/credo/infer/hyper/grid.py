"""`HyperGrid`: hyperparameters integrated over instead of chosen, for any belief with a few of them.

    p(y | x, data) = Σ_g w_g p(y | x, data, θ_g),    w_g ∝ p(data | θ_g) p(u_g)

on a regular grid of points u_g in unconstrained coordinates (logarithms of positive numbers), centred at the maximum
of the evidence. Without `priors` the hyperprior is flat there: 1/θ for a positive number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from credo.core import params
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.infer.hyper.target import HyperDensity
from credo.infer.learning import Evidence, Learned, fit
from credo.infer.method import Learner
from credo.infer.priors import Prior, Priors

MOST_DIMENSIONS = 4


@dataclass(frozen=True)
class HyperGrid(Learner):
    """Full Bayes over the hyperparameters: `belief.condition(X, y, using=HyperGrid())` gives an `Averaged` belief.

    The `log_evidence` of the report is log ∫ p(data | θ) p(θ) dθ over the grid.
    """

    integrates: ClassVar[bool] = True

    points: int = 11
    """Grid points along each hyperparameter."""
    width: float = 4.0
    """How far the grid reaches, in standard deviations of the Laplace approximation at the centre."""
    fixed: Iterable[str] = ()
    """For `condition`, as `priors`; `fit` has arguments of its own for them."""
    priors: Mapping[str, Prior | None] | None = None
    negligible: float = 1e-4
    """Members that weigh less than this share of the heaviest are left out."""

    def condition(self, belief: Belief, *data: object, **options: Any) -> Any:
        """`fit`, with what the grid says is fixed and which priors there are."""
        own = {"fixed": self.fixed, "priors": self.priors} | options
        return fit(belief, *data, using=self, **own)

    def learn(self, belief: Belief, statistics: object, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The average over the grid around the maximum that the belief's own learner finds."""
        late = sorted({*params.expand_paths(belief, self.fixed)} - {*fixed})
        if late:
            raise DataError(f"credo.fit chooses starts before the grid sees fixed={late}: pass that to fit itself")
        learned = (belief.learner(dict(priors)) or Evidence()).learn(belief, statistics, fixed, priors, seed)
        slots = params.layout(learned.belief, fixed)
        center = np.asarray(params.to_vector(learned.belief, slots))
        if not 1 <= len(center) <= MOST_DIMENSIONS:
            raise DataError(
                f"a grid takes 1 to {MOST_DIMENSIONS} hyperparameters, found {len(center)}; hold some with "
                "fixed=[...] or sample them"
            )
        density = HyperDensity.of(learned.belief, slots, statistics, priors)
        spread = np.sqrt(np.diag(np.linalg.pinv(-density.hessian(center))).clip(min=1e-4))
        # A flat direction would reach to infinity: e^±3 is wide enough to see it.
        reach = np.minimum(self.width * spread, 3.0 * self.width)
        offsets = np.array(list(product(np.linspace(-1, 1, self.points), repeat=len(center))))
        vectors = center + offsets * reach
        heights = density.values(vectors)
        kept = np.flatnonzero(heights > heights.max() + np.log(self.negligible))
        cell = np.full(len(vectors), np.log(2 * reach / max(self.points - 1, 1)).sum())
        note = f"{len(kept)} of {len(vectors)} grid points kept"
        found = density.average(learned, vectors[kept], cell[kept], heights[kept], [note])
        return found._replace(log_evidence=float(logsumexp(cell + heights)))


Grid = HyperGrid
