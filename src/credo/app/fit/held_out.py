"""What rows that were held out say about the chosen model: whether its probabilities need correction, what is strange.

temperature    one number that makes the held-out outcomes most probable, where it gains more than chance gives
novelty        the share of held-out rows about which the model is at least as ignorant
"""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

from credo.core.errors import DataError, NotConvergedWarning
from credo.core.predictive import Predictive
from credo.core.predictive.classes import Classes
from credo.core.predictive.expectation import alone
from credo.evaluate.recalibration import ClassMap, Stretch, corrected, temperature_of
from credo.evaluate.shift import novelty

LEAST_ROWS = 40
"""Fewer held-out rows correct nothing, and call nothing strange."""
STRANGE = 0.01
GAIN = 5.4
"""Of log density in all that one number must bring: chance brings more in one table of a thousand (χ²₁ = 10.8)."""


def correction_of(prediction: Predictive | None, y: np.ndarray) -> tuple[Stretch | ClassMap | None, str]:
    """A temperature, where the held-out rows ask for one, and a sentence on it; None, "" where they do not."""
    if prediction is None or len(y) < LEAST_ROWS or (prediction.discrete and not isinstance(prediction, Classes)):
        return None, ""
    each = alone(prediction)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotConvergedWarning)
        try:
            found = temperature_of(each, y)
        except (DataError, NotConvergedWarning):
            return None, ""
    gain = float(np.sum(corrected(each, found).log_prob(y)) - np.sum(each.log_prob(y)))
    if not gain > GAIN:
        return None, ""
    t = float(found.factor if isinstance(found, Stretch) else found.temperature)
    said = "bold" if t > 1 else "timid"
    return found, (
        f"Its probabilities were too {said} for the rows held out and are corrected by the temperature {t:.2f} (log "
        f"density a row {gain / len(y):+.3f}); the scores shown are those before."
    )


def how_many_strange(values: Float[np.ndarray, " m"], reference: Float[Any, " n"] | None) -> int:
    """Rows stranger than all held-out rows, or all but one in a hundred."""
    return int(np.sum(values <= max(STRANGE, 0.0 if reference is None else 1 / (1 + len(reference)))))


def reference_of(prediction: Predictive | None) -> Float[np.ndarray, " n"] | None:
    """The ignorance about each held-out row, sorted; None where they are few, or it is the same everywhere."""
    if prediction is None or len(prediction) < LEAST_ROWS:
        return None
    scores = np.sort(np.ravel(novelty(prediction)))
    varies = np.all(np.isfinite(scores)) and np.ptp(scores) > 1e-9 * max(float(scores[-1]), 1e-300)
    return scores if varies else None


def rank_among(reference: Float[Any, " n"], prediction: Predictive) -> Float[np.ndarray, " m"]:
    """The share of rows like those held out about which one knows as little, or less: small for strange rows."""
    sorted_scores = np.asarray(reference)
    higher = len(sorted_scores) - np.searchsorted(sorted_scores, np.ravel(novelty(prediction)), side="left")
    return (1 + higher) / (1 + len(sorted_scores))
