"""How predictions are scored on what is held out, for each kind of target, and how the scores are shown."""

from typing import NamedTuple

import numpy as np
from sklearn.metrics import mean_poisson_deviance

from credo.core.predictive import Predictive
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
    "series": (Shown("mase", "MASE", "number", True), Shown("crps", "CRPS", "number", True), COVERAGE),
}


def score(prediction: Predictive, y: np.ndarray, kind: str = "number") -> dict[str, float]:
    """The scores of `SHOWN` for this kind of target; R² only where outcomes vary."""
    if kind == "classes":
        scores = score_table(prediction, y, ["nlpd", "brier", "accuracy"])
        return scores | {"ece": expected_calibration_error(prediction, y, bins_for(len(y)))}
    if kind == "count":
        scores = score_table(prediction, y, ["rmse", "mae", "nlpd"])
        scores["deviance"] = float(mean_poisson_deviance(y, np.asarray(prediction.mean)))
    else:
        scores = score_table(prediction, y, ["rmse", "nlpd", "crps", *(["r2"] if len(y) > 1 and np.ptp(y) > 0 else [])])
    # y is in the central interval iff its probability integral transform is: no quantile need be searched for.
    scores["coverage"] = float(np.mean(np.abs(2 * pit(prediction, y) - 1) <= 0.95))
    return scores


def bins_for(n: int) -> int:
    """Bins of a reliability diagram of n rows: ten where they are many."""
    return 10 if n >= MANY else 5


def written(shown: Shown, value: float | None) -> str:
    """A score as text."""
    from credo.app.report.words import number, percent

    if value is None:
        return "–"
    return {"number": number, "percent": percent, "share": "{:.3f}".format}[shown.style](value)
