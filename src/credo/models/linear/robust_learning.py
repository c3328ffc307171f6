"""Learning with heavy-tailed noise: the prior as under normal noise, then the noise itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner
from credo.infer.priors import Priors
from credo.models.linear.belief import Linear
from credo.models.linear.learning import FixedPoint
from credo.models.linear.priors import ARD
from credo.models.linear.statistics import Rows

SWITCHED_OFF = 1e-3
"""A weight of a standardized feature below this many standard deviations of the outcome is nothing."""


@dataclass(frozen=True)
class NormalFirst(Learner):
    """The precision of the prior by MacKay's fixed point under normal noise; then the heavy-tailed noise by evidence.

    Precisions of many features are dear to climb under noise without sufficient statistics, and outliers change them
    little. Features that the first step holds to nothing are left out of the second.
    """

    needs: ClassVar[type] = Linear

    tolerance: float = 1e-4

    def serves(self, subject: object, verb: str) -> bool:
        """Linear models with heavy-tailed noise."""
        return super().serves(subject, verb) and isinstance(subject, Linear) and subject.is_robust

    def learn(self, belief: Linear, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief with both learned."""
        spread = float(np.sqrt(np.average((statistics.y - statistics.y.mean()) ** 2, weights=statistics.weights)))
        normal = changed(belief, noise=np.asarray(0.1 * spread**2))
        first = FixedPoint(starts=1, tolerance=self.tolerance).learn(normal, statistics.summed(), (), {}, seed).belief
        precision = np.asarray(first.prior.precision)
        robust, rows = changed(belief, prior=first.prior), statistics
        if isinstance(belief.prior, ARD):
            alive = np.flatnonzero((1 / np.sqrt(precision) > SWITCHED_OFF * spread) | (precision == precision.min()))
            features = belief.features.keep(*(int(i) for i in alive))
            robust = changed(belief, features=features, prior=ARD(precision[alive]))
            shown = np.r_[0, alive + 1] if belief.intercept is not None else alive
            rows = Rows(statistics.design[:, shown], statistics.y, statistics.weights)
        learned = Evidence(starts=1).learn(robust, rows, ["prior.precision", *fixed], priors, seed)
        return learned._replace(conditioned=learned.belief.condition_on(rows))
