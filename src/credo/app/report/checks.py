"""Does the model deserve its own confidence? Numbers that the report turns into sentences."""

from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import ndtri

from credo.app.fit.tables import Result
from credo.core.predictive import Predictive
from credo.evaluate.calibration import chance_shares, pit
from credo.evaluate.scores import nlpd

ENOUGH = 30
SURE = 0.001
"""How improbable by chance a pattern must be before the report warns of it."""
SLIGHT = 0.01
"""A share of intervals that is off by no more does not matter, however many rows say that it is no chance."""


class Coverage(NamedTuple):
    """How many outcomes an interval held, and how many chance allows (99 % of the time)."""

    level: float
    observed: float
    low: float
    high: float

    @property
    def off(self) -> int:
        """-1: too few inside (too sure), 1: too many (too careful), 0: as expected, or too near to it to matter."""
        if abs(self.observed - self.level) <= SLIGHT:
            return 0
        return -int(self.observed < self.low) + int(self.observed > self.high)


class Checks(NamedTuple):
    """What the residuals say about the model's assumptions."""

    rows: int
    source: str
    """"test" or "training": which rows were looked at."""
    coverage: tuple[Coverage, ...]
    """On the test rows."""
    spread: float
    """Rank correlation of the size of the error with the prediction; 0 where chance explains it."""
    tails: float
    """How many times more outcomes lie beyond three standard deviations than should; 0 where chance explains it."""
    echo: float | None
    """Correlation of each error with the one before, for series; None for other tables."""
    drift: float
    """Mean error on the test rows of a series in standard deviations; 0 where it is small."""
    outside: float
    """Share of the test rows beyond the range of the training rows (time aside)."""
    rival: str
    """The candidate with the best log density on the test rows, where it beats the chosen one by more than chance."""
    baseline: float
    """The root mean squared error of always predicting the mean of the training rows."""
    baseline_nlpd: float
    """The negative log density of predicting the training rows' mean with their spread, whatever the row."""


def check(result: Result, prediction: Predictive) -> Checks:
    """The checks for the chosen model; `prediction` is of the test rows."""
    y_test = result.y_test
    n = len(y_test)
    series = result.prepared.schema.time is not None
    # A forecast that drifts away would look like noise that grows: a series is looked at where it was fitted.
    source = "test" if n >= ENOUGH and not series else "training"
    looked_at = prediction if source == "test" else result.predict(result.train)
    y = y_test if source == "test" else result.y_train
    u = pit(prediction, y_test)
    z = _normal(u if source == "test" else pit(looked_at, y))
    mean = np.asarray(looked_at.mean)
    # Counts spread more where more are expected, as their law says: there the standardized errors should not grow.
    size = np.abs(z) if result.kind == "count" else np.abs(y - mean)
    return Checks(
        rows=len(y),
        source=source,
        coverage=tuple(coverage(np.abs(2 * u - 1) <= level, level) for level in (0.5, 0.8, 0.95)),
        spread=_spread(size, mean),
        tails=_tails(z),
        echo=_echo(z) if series else None,
        drift=_drift(_normal(u)) if series else 0.0,
        outside=outside(result),
        rival=rival(result, prediction),
        baseline=float(np.sqrt(np.mean((y_test - result.y_train.mean()) ** 2))),
        baseline_nlpd=float(-np.mean(stats.norm.logpdf(y_test, result.y_train.mean(), result.y_train.std()))),
    )


def _normal(u: np.ndarray) -> np.ndarray:
    """Standard normal where the predictions are right."""
    return ndtri(np.clip(u, 1e-12, 1 - 1e-12))


def coverage(held: np.ndarray, level: float = 0.95) -> Coverage:
    """How many outcomes were in their intervals, and what chance allows."""
    low, high = chance_shares(len(held), level, 0.99)
    return Coverage(level, float(held.mean()), float(low), float(high))


def _spread(size: np.ndarray, mean: np.ndarray) -> float:
    if len(size) < ENOUGH or np.ptp(mean) == 0:
        return 0.0
    found = stats.spearmanr(size, mean)
    strong = found.pvalue < SURE and abs(found.statistic) > 0.15
    return float(found.statistic) if strong else 0.0


def _tails(z: np.ndarray) -> float:
    expected = 2 * stats.norm.sf(3.0)
    beyond = int(np.sum(np.abs(z) > 3))
    if beyond < 2 or stats.binom.sf(beyond - 1, len(z), expected) > SURE:
        return 0.0
    return beyond / (len(z) * expected)


def _echo(z: np.ndarray) -> float:
    """Lag-one correlation, 0 where it is within what chance gives (3.3 standard errors)."""
    if len(z) < 10 or z.std() == 0:
        return 0.0
    centred = z - z.mean()
    r = float(centred[1:] @ centred[:-1] / (centred @ centred))
    return r if abs(r) > 3.3 / np.sqrt(len(z)) else 0.0


def _drift(z: np.ndarray) -> float:
    return float(z.mean()) if len(z) >= 5 and abs(z.mean()) > 0.75 else 0.0


def outside(result: Result) -> float:
    """The share of the test rows beyond the range of the training rows, time aside."""
    train, test = result.x_train, result.x_test
    if result.prepared.schema.time is not None:
        train, test = train.drop(columns=result.prepared.schema.time), test.drop(columns=result.prepared.schema.time)
    if train.shape[1] == 0:
        return 0.0
    low, high = train.to_numpy().min(axis=0), train.to_numpy().max(axis=0)
    values = test.to_numpy()
    return float(np.mean(((values < low) | (values > high)).any(axis=1)))


def rival(result: Result, prediction: Predictive) -> str:
    """The candidate that predicted the test rows best, where it beats the chosen one by more than chance."""
    best = min(result.fitted, key=lambda each: each.scores["nlpd"])
    if best.name == result.chosen.name or len(result.y_test) < ENOUGH:
        return ""
    own = np.asarray(nlpd(prediction, result.y_test, pointwise=True))
    other = np.asarray(nlpd(result.predict(result.test, best.belief), result.y_test, pointwise=True))
    gain = own - other
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    return best.name if gain.mean() > 2 * error else ""
