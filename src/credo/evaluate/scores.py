"""Scores: one number that says how good a prediction was once the outcome is known.

Every score takes (prediction, y) and returns the mean over rows, or one number per row with `pointwise=True`.
A prediction of a single outcome is scored against every y. The logarithmic, the continuous ranked probability,
the Brier and the interval score are proper: the expected score is best for who reports what they believe.
Gneiting & Raftery (2007), "Strictly proper scoring rules, prediction, and estimation".
"""

from collections.abc import Callable, Iterable
from typing import cast

import numpy as np

from credo.core.arrays import Array, Numeric, host, is_traced, namespace
from credo.core.checks import as_numpy, check_counts, check_vector
from credo.core.errors import DataError
from credo.core.predictive import Bernoulli, Categorical, Predictive
from credo.core.predictive.base import check_levels
from credo.core.predictive.classes import Classes
from credo.core.predictive.expectation import alone, distance, per_row, spread

Score = Callable[..., Array]


def check_outcomes(prediction: Predictive, y: Numeric) -> Array:
    """One outcome per query; for classes, an index below the number of classes."""
    length = len(prediction) if prediction.shape else None
    given = cast(Array, y) if is_traced(y) else as_numpy(y, "y")
    vector = host(check_vector(given[None] if length is None and given.ndim == 0 else given, "y", length))
    if isinstance(prediction, Categorical | Bernoulli):
        vector = check_counts(vector, "y", below=prediction.probs.shape[-1])
    return vector


def rmse(prediction: Predictive, y: Numeric, *, pointwise: bool = False) -> Array:
    """√(mean (y - E[y])²); per row |y - E[y]|."""
    errors = _check_numeric(prediction, "rmse").mean - check_outcomes(prediction, y)
    return namespace(errors).abs(errors) if pointwise else namespace(errors).sqrt((errors**2).mean())


def mae(prediction: Predictive, y: Numeric, *, pointwise: bool = False) -> Array:
    """mean |y - median|: the absolute error of the number that minimizes its expectation."""
    misses = _check_numeric(prediction, "mae").quantile(0.5) - check_outcomes(prediction, y)
    errors = namespace(misses).abs(misses)
    return errors if pointwise else errors.mean()


def r2(prediction: Predictive, y: Numeric) -> Array:
    """1 - Σ(y - E[y])² / Σ(y - ȳ)²: the share of the variance that the mean explains."""
    values = check_outcomes(prediction, y)
    residual = ((values - _check_numeric(prediction, "r2").mean) ** 2).sum()
    total = ((values - values.mean()) ** 2).sum()
    if not is_traced(total) and total == 0:
        raise DataError("r2 needs outcomes that vary, found the same y in every row; use rmse")
    return 1 - residual / total


def nlpd(prediction: Predictive, y: Numeric, *, pointwise: bool = False) -> Array:
    """-mean log p(y): the negative log predictive density (for classes, the log loss)."""
    values = check_outcomes(prediction, y)
    losses = -per_row(prediction).log_prob(values)
    return losses if pointwise else losses.mean()


def crps(prediction: Predictive, y: Numeric, *, pointwise: bool = False) -> Array:
    """The continuous ranked probability score ∫ (F(z) - 1{y ≤ z})² dz = E|Y - y| - ½ E|Y - Y′|.

    In the units of y; the absolute error for a prediction without doubt. Closed forms for Normal, LogNormal, Student-t
    and Laplace predictions and mixtures of Normals, sums for counts, quadrature otherwise.
    Jordan, Krüger & Lerch (2019), "Evaluating probabilistic forecasts with scoringRules".
    """
    numeric = _check_numeric(prediction, "crps")
    doubt, away = spread(numeric), distance(per_row(numeric), check_outcomes(prediction, y))
    xp = namespace(doubt, away)
    # Where outcomes have no mean (Student-t, df ≤ 1) both terms are infinite, and so is the score.
    scores = xp.where(xp.isinf(doubt), xp.inf, away - xp.where(xp.isinf(doubt), 0.0, doubt))
    return scores if pointwise else scores.mean()


def coverage(prediction: Predictive, y: Numeric, level: float = 0.95, *, pointwise: bool = False) -> Array:
    """The share of outcomes inside the central interval of probability `level`."""
    values = check_outcomes(prediction, y)
    lower, upper = _check_numeric(prediction, "coverage").interval(level)
    inside = ((lower <= values) & (values <= upper)).astype(float)
    return inside if pointwise else inside.mean()


def width(prediction: Predictive, y: Numeric | None = None, level: float = 0.95, *, pointwise: bool = False) -> Array:
    """The mean width of the central interval of probability `level`; y is not looked at."""
    widths = _check_numeric(prediction, "width").interval(level).width
    return widths if pointwise else widths.mean()


def interval_score(prediction: Predictive, y: Numeric, level: float = 0.95, *, pointwise: bool = False) -> Array:
    """(u - l) + 2/α (l - y)₊ + 2/α (y - u)₊ with α = 1 - level: width plus a penalty for each miss.

    Gneiting & Raftery (2007), eq. 43.
    """
    values = check_outcomes(prediction, y)
    lower, upper = _check_numeric(prediction, "interval_score").interval(level)
    scores = interval_loss(lower, upper, values, check_levels(level, "level"))
    return scores if pointwise else scores.mean()


def interval_loss(lower: Array, upper: Array, y: Array, level: Array) -> Array:
    """The formula of `interval_score` for given ends."""
    xp = namespace(lower, upper, y)
    misses = xp.maximum(lower - y, 0.0) + xp.maximum(y - upper, 0.0)
    return upper - lower + 2 / (1 - level) * misses


def brier(prediction: Predictive, y: Numeric, *, pointwise: bool = False) -> Array:
    """mean (p - y)² for two classes in a `Bernoulli`, mean Σₖ (pₖ - 1{y = k})² for a `Categorical`.

    Brier (1950) sums over the classes in both cases, which for two doubles the number.
    """
    classes = _check_classes(prediction, "brier")
    values = check_outcomes(prediction, y)
    if isinstance(classes, Bernoulli):
        losses = (classes.prob - values) ** 2
    else:
        right = values[:, None] == np.arange(classes.probs.shape[-1])
        losses = ((classes.probs - right) ** 2).sum(-1)
    return losses if pointwise else losses.mean()


def log_loss(prediction: Predictive, y: Numeric, *, pointwise: bool = False) -> Array:
    """-mean log P(y): the cross-entropy; infinite if something happened that was held impossible."""
    return nlpd(_check_classes(prediction, "log_loss"), y, pointwise=pointwise)


def accuracy(prediction: Predictive, y: Numeric, *, pointwise: bool = False) -> Array:
    """The share of rows whose most probable class is the right one."""
    classes = _check_classes(prediction, "accuracy")
    right = (classes.probs.argmax(-1) == check_outcomes(prediction, y)).astype(float)
    return right if pointwise else right.mean()


_ALL = (rmse, mae, r2, nlpd, crps, coverage, width, interval_score, brier, log_loss, accuracy)
SCORES: dict[str, Score] = {score.__name__: score for score in _ALL}
"""The scores by name, as `cross_validate`, `select` and `learning_curve` take them."""

LARGER_IS_BETTER = frozenset({"r2", "accuracy"})
UNRANKED = frozenset({"coverage", "width"})
"""What describes a prediction but must not choose between two: each is best for an absurd one."""

REAL = ("rmse", "mae", "r2", "nlpd", "crps", "coverage", "width", "interval_score")
COUNTS = ("rmse", "mae", "nlpd", "crps", "coverage", "width", "interval_score")
CLASSES = ("log_loss", "brier", "accuracy")


def find_score(score: str | Score) -> tuple[str, Score]:
    """The score of that name, or the function itself with its own name."""
    if callable(score):
        return getattr(score, "__name__", type(score).__name__), score
    if score not in SCORES:
        raise DataError(f"score must be one of {', '.join(SCORES)} or a function, found {score!r}")
    return score, SCORES[score]


def score_table(prediction: Predictive, y: Numeric, scores: Iterable[str | Score] | None = None) -> dict[str, float]:
    """The scores that suit the kind of prediction (or the given ones), by name, as plain numbers."""
    if scores is None:
        scores = CLASSES if isinstance(prediction, Categorical | Bernoulli) else _numeric_scores(prediction, y)
    named = [find_score(score) for score in scores]
    return {name: float(score(prediction, y)) for name, score in named}


def _numeric_scores(prediction: Predictive, y: Numeric) -> tuple[str, ...]:
    values = np.asarray(check_outcomes(prediction, y))
    names = COUNTS if prediction.discrete else REAL
    return tuple(name for name in names if name != "r2" or np.ptp(values) > 0)


def _check_numeric(prediction: Predictive, score: str) -> Predictive:
    if isinstance(prediction, Categorical):
        raise DataError(f"{score} needs outcomes that are numbers, found classes; use brier or log_loss")
    return alone(prediction)


def _check_classes(prediction: Predictive, score: str) -> Classes:
    if not isinstance(prediction, Categorical | Bernoulli):
        raise DataError(f"{score} needs a prediction of classes, found {type(prediction).__name__}; use nlpd or crps")
    return prediction
