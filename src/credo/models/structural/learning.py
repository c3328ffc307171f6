"""Learning what a structural model does not integrate over, and the evidence with that integrated over as well.

The priors are weak, and on the scale on which learning is free (logarithms of variances, log-odds of what lies in
(0, 1)): a variance that the data would put at zero stays at a small number, and forecasts allow for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from credo.core import params
from credo.infer.hyper import HyperDensity, laplace_evidence
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner
from credo.infer.priors import LogitPenalty, LogScalePenalty, Penalty, Prior
from credo.models.structural.base import LOOSE, SeriesScales

if TYPE_CHECKING:
    from credo.models.structural.belief import Structural
    from credo.models.structural.series import Series

AT_ZERO = 1e-5
"""A variance below this share of that of the changes of the series, where the evidence is flat, is zero."""
VARIANCES = ("variance", "slope", "noise")
STRIDE = 0.05
"""Steps, in logarithms, over which the slope of the evidence is compared."""
LOOSE_ODDS = 1.5


def weak_priors(belief: "Structural", scales: SeriesScales) -> dict[str, Penalty]:
    """A prior for every learnable number of a structural model."""
    found: dict[str, Penalty] = {}
    parts = enumerate(belief.parts)
    typical = {f"parts.{i}.{field}": value for i, part in parts for field, value in part.typical(scales).items()}
    typical["noise"] = 0.3 * scales.step**2
    for path, value in params.learnable(belief).items():
        kind = params.constraint_of(belief, path).kind
        if path in typical:
            found[path] = LogScalePenalty(typical[path], LOOSE)
        elif kind == "unit_interval":
            # What fades does so slowly; a partial autocorrelation is as likely positive as negative.
            middle = 0.5 if path.endswith("partial") else 0.9
            found[path] = LogitPenalty(np.full(np.shape(value), middle), LOOSE_ODDS)
        elif kind == "positive":
            found[path] = LogScalePenalty(value, 0.5)
    return found


@dataclass(frozen=True)
class StructuralEvidence(Learner):
    """`Evidence` for variances, one of which may well be zero: that is a note, not a warning."""

    starts: int = 2
    spread: float = 2.0
    max_steps: int = 300

    def learn(
        self, belief: "Structural", statistics: "Series", fixed: Sequence[str], priors: Mapping[str, Prior], seed: int
    ) -> Learned:
        """The belief at the highest maximum found."""
        climb = Evidence(self.starts, self.spread, self.max_steps, gain=1e-11)
        learned = climb.learn(belief, statistics, fixed, priors, seed)
        small = AT_ZERO * float(statistics.scales.step) ** 2
        # Where a variance is next to nothing the evidence is flat to both sides.
        zero = {
            path
            for path, value in params.learnable(learned.belief).items()
            if path.split(".")[-1] in VARIANCES and path not in fixed and float(value) < small
            if path in learned.at_bound or path not in priors
        }
        notes = [f"{name} is zero as far as the data tell: what it belongs to does not change" for name in sorted(zero)]
        kept = {name: side for name, side in learned.at_bound.items() if name not in zero}
        return learned._replace(at_bound=kept, notes=[*learned.notes, *notes])


def integrated_evidence(belief: "Structural", statistics: "Series", priors: Mapping[str, Prior] | None = None) -> float:
    """log ∫ p(y | θ) p(θ) dθ by Laplace's approximation at the learned θ, over logarithms and log-odds.

    What models with different numbers of variances are compared by.
    """
    slots = params.layout(belief)
    if not slots:
        return float(belief.log_evidence_of(statistics))
    priors = weak_priors(belief, statistics.scales) if priors is None else priors
    density = HyperDensity.of(belief, slots, statistics, priors)
    at = np.asarray(params.to_vector(belief, slots))
    # At least as much as the loosest prior bends.
    return laplace_evidence(density.value_and_grad, at, least=1 / LOOSE**2, step=STRIDE)
