"""How predictions are scored on the test part, for each kind of target, and how the scores are shown."""

from typing import NamedTuple

import numpy as np

from credo.core.predictive import Mixture, Predictive, StudentT
from credo.evaluate.calibration import expected_calibration_error, pit
from credo.evaluate.scores import score_table

MANY = 200


class Shown(NamedTuple):
    """A score: its key, its name in tables, how it is written, and whether smaller is better (None: neither)."""

    key: str
    name: str
    style: str
    """"number", "percent" or "share"."""
    smaller: bool | None


COVERAGE = Shown("coverage", "95 % held", "percent", None)
SHOWN = {
    "number": (
        Shown("rmse", "RMSE", "number", True),
        Shown("nlpd", "NLPD", "number", True),
        Shown("crps", "CRPS", "number", True),
        COVERAGE,
        Shown("r2", "R²", "share", None),
    ),
    "count": (
        Shown("rmse", "RMSE", "number", True),
        Shown("mae", "MAE", "number", True),
        Shown("nlpd", "NLPD", "number", True),
        Shown("deviance", "deviance", "number", True),
        COVERAGE,
    ),
    "classes": (
        Shown("nlpd", "log loss", "number", True),
        Shown("brier", "Brier", "number", True),
        Shown("accuracy", "right", "percent", False),
        Shown("ece", "ECE", "number", None),
    ),
}


def score(prediction: Predictive, y: np.ndarray, kind: str = "number") -> dict[str, float]:
    """The scores of `SHOWN` for this kind of target; R² only where outcomes vary."""
    if kind == "classes":
        return score_classes(prediction, y)
    if kind == "count":
        scores = score_table(prediction, y, ["rmse", "mae", "nlpd"])
        scores["deviance"] = poisson_deviance(np.asarray(prediction.mean), y)
    else:
        names = ["rmse", "nlpd", *([] if isinstance(prediction, Mixture) else ["crps"])]
        scores = score_table(prediction, y, [*names, "r2"] if len(y) > 1 and np.ptp(y) > 0 else names)
        if isinstance(prediction, Mixture):
            scores["crps"] = sampled_crps(prediction, y)
    # y is in the central interval iff its probability integral transform is: no quantile need be searched for.
    scores["coverage"] = float(np.mean(np.abs(2 * pit(prediction, y) - 1) <= 0.95))
    return scores


def score_classes(prediction: Predictive, y: np.ndarray) -> dict[str, float]:
    """Log loss, Brier score, the share of rows whose most probable class is right, and the calibration error."""
    scores = score_table(prediction, y, ["nlpd", "brier", "accuracy"])
    scores["ece"] = expected_calibration_error(prediction, y, bins_for(len(y)))
    return scores


def bins_for(n: int) -> int:
    """Bins of a reliability diagram of n rows: ten where they are many."""
    return 10 if n >= MANY else 5


def poisson_deviance(mean: np.ndarray, y: np.ndarray) -> float:
    """2/n Σ (y log(y/μ) - y + μ), 0 log 0 = 0. McCullagh & Nelder (1989), section 2.3."""
    ratio = np.where(y > 0, y, 1.0) / np.where(y > 0, mean, 1.0)
    return float(2 * np.mean(y * np.log(ratio) - y + mean))


def sampled_crps(prediction: Mixture, y: np.ndarray, n: int = 1000) -> float:
    """E|Y - y| - ½E|Y - Y′| from draws: a mixture of Student-t's has no closed form, and its quadrature is slow.

    With sorted draws y₁ ≤ … ≤ yₙ, ½E|Y - Y′| is estimated by Σᵢ (2i - n - 1) yᵢ / (n(n - 1)).
    """
    (part,) = prediction.parts
    assert isinstance(part, StudentT)
    rng = np.random.default_rng(0)
    k, m = part.mean.shape
    node, row = rng.choice(k, size=(n, m), p=np.asarray(prediction.weights)), np.arange(m)
    df, mean, scale = (np.asarray(v)[node, row] for v in (part.df, part.mean, part.scale))
    draws = np.sort(mean + scale * rng.standard_t(df), axis=0)
    rank = 2 * np.arange(1, n + 1) - n - 1
    return float(np.mean(np.abs(draws - y).mean(axis=0) - rank @ draws / (n * (n - 1))))


def written(shown: Shown, value: float | None) -> str:
    """A score as text."""
    from credo.app.report.words import number, percent

    if value is None:
        return "–"
    return {"number": number, "percent": percent, "share": "{:.3f}".format}[shown.style](value)
