"""Do the probabilities of classes deserve to be believed? Numbers that the report turns into sentences."""

from typing import NamedTuple

import numpy as np

from credo.app.fit.scores import bins_for
from credo.app.fit.tables import Result
from credo.app.report.checks import outside, rival
from credo.core.predictive import Bernoulli, Categorical
from credo.evaluate.calibration import BrierParts, Reliability, brier_decomposition, reliability

SIMULATIONS = 1000
SURE = 2.576
"""Standard errors beyond which a miscalibration is not chance (1 % of the time)."""


class ClassChecks(NamedTuple):
    """What the test rows say about the probabilities."""

    usual: str
    """The most frequent class of the training rows."""
    usual_right: float
    """How often that was right on the test rows."""
    shares_loss: float
    """The log loss of stating the shares of the training rows for every test row."""
    sureness: float
    """The z-score of `surprise`: positive where the model was surer than it should have been."""
    diagram: Reliability
    chance: tuple[float, float]
    """What the calibration error of a model that is right would be on as many rows, 95 % of the time."""
    parts: BrierParts
    noise: float
    """The share of the entropy of the predictions that is noise."""
    outside: float
    rival: str

    @property
    def off(self) -> int:
        """1: too sure of itself, -1: not sure enough, 0: as far as chance tells, right."""
        return int(self.sureness > SURE) - int(self.sureness < -SURE)


def check_classes(result: Result, prediction: Bernoulli | Categorical) -> ClassChecks:
    """The checks for the chosen model; `prediction` is of the test rows."""
    y, k = result.y_test.astype(int), len(result.prepared.levels)
    seen = np.bincount(result.y_train.astype(int), minlength=k)
    shares = (seen + 1) / np.sum(seen + 1)
    bins = bins_for(len(y))
    diagram = reliability(prediction, y, bins)
    entropy = np.asarray(prediction.entropy())
    return ClassChecks(
        usual=result.prepared.levels[int(np.argmax(seen))],
        usual_right=float(np.mean(y == np.argmax(seen))),
        shares_loss=float(-np.mean(np.log(shares[y]))),
        sureness=surprise(np.asarray(prediction.probs), y),
        diagram=diagram,
        chance=chance_error(stated_of(prediction), bins),
        parts=brier_decomposition(prediction, y, bins),
        noise=float(np.sum(np.asarray(prediction.aleatoric)) / max(float(np.sum(entropy)), 1e-300)),
        outside=outside(result),
        rival=rival(result, prediction),
    )


def stated_of(prediction: Bernoulli | Categorical) -> np.ndarray:
    """The probability whose reliability is drawn: of the second class, or of the most probable of several."""
    probs = np.asarray(prediction.probs)
    return probs[:, 1] if isinstance(prediction, Bernoulli) else probs.max(axis=1)


def surprise(probs: np.ndarray, y: np.ndarray) -> float:
    """How far the Brier score is from what the probabilities themselves expect, in standard errors.

    With T = Σₖ (pₖ - 1{y = k})², E[T] = 1 - Σpₖ² and Var[T] = 4 (Σpₖ³ - (Σpₖ²)²) under the stated probabilities.
    Spiegelhalter (1986), "Probabilistic prediction in patient management and clinical trials", for two classes.
    """
    square, cube = np.sum(probs**2, axis=1), np.sum(probs**3, axis=1)
    excess = np.sum(2 * (square - probs[np.arange(len(y)), y]))
    variance = np.sum(4 * np.maximum(cube - square**2, 0.0))
    if variance < 1e-12:
        return 0.0 if abs(excess) < 1e-6 else float(np.sign(excess) * np.inf)
    return float(excess / np.sqrt(variance))


def chance_error(stated: np.ndarray, bins: int) -> tuple[float, float]:
    """The middle 95 % of the calibration error where what is stated is right: few rows look worse than they are."""
    happened = np.random.default_rng(0).uniform(size=(SIMULATIONS, len(stated))) < stated
    index = np.minimum((stated * bins).astype(int), bins - 1)
    gaps = np.abs((happened - stated) @ np.eye(bins)[index]).sum(axis=1) / len(stated)
    low, high = np.quantile(gaps, [0.025, 0.975])
    return float(low), float(high)
