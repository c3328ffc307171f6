"""Shift and surprise: how strange rows look to a belief, and whether it notices that they come from elsewhere.

The epistemic part of a prediction is large where the belief has seen little: rows unlike those it learned from. How
well that tells shifted rows from others is the area under the ROC curve, the probability that a shifted row scores
higher than another one. Hendrycks & Gimpel (2017), "A baseline for detecting misclassified and out-of-distribution
examples".
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

from credo.core.arrays import Numeric
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.predictive.expectation import alone
from credo.core.predictive.recalibrated import share_of_noise

WAYS = ("epistemic", "share", "total")


def novelty(prediction: Predictive, by: str = "epistemic") -> Float[np.ndarray, " m"]:
    """How strange each row is to who predicts: its ignorance, the `"share"` of it in all doubt, or `"total"` doubt.

    The share does not grow where there is only more noise.
    """
    if by not in WAYS:
        raise DataError(f"by must be one of {', '.join(WAYS)}, found {by!r}")
    each = alone(prediction)
    if by == "share":
        return np.asarray(1 - share_of_noise(each), dtype=float)
    return np.asarray(each.epistemic if by == "epistemic" else each.total, dtype=float)


class ShiftDetection(NamedTuple):
    """How rows from elsewhere look beside rows like those that were learned from."""

    auroc: float
    """P(a shifted row scores higher than another one), ties counted half: 0.5 is blind, 1 perfect."""
    inside: np.ndarray
    """The scores of the rows."""
    shifted: np.ndarray
    """The scores of the shifted ones."""

    def marked(self, share: float = 0.05) -> np.ndarray:
        """Which shifted rows score higher than all but a `share` of the others."""
        if not 0 < share < 1:
            raise DataError(f"share must lie strictly between 0 and 1, found {share}; write 5 % as 0.05")
        return self.shifted > np.quantile(self.inside, 1 - share)


def detect_shift(belief: Belief, X: Numeric, shifted: Numeric, by: str = "epistemic") -> ShiftDetection:
    """Whether the belief's novelty tells `shifted` rows from rows X, which it should not have learned from either."""
    inside, outside = (np.ravel(novelty(belief.predict(rows), by)) for rows in (X, shifted))
    ranks = stats.rankdata(np.concatenate([inside, outside]))[len(inside) :]
    higher = ranks.sum() - len(outside) * (len(outside) + 1) / 2
    return ShiftDetection(float(higher / (len(inside) * len(outside))), inside, outside)
