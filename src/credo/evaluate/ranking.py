"""How well probabilities rank rows: the ROC curve and that of precision and recall, with bands.

A threshold calls rows with a larger probability members of a class; the curves run through all thresholds, so they
change with the order of the rows alone and say nothing of calibration. The bands are of the Bayesian bootstrap: rows
have weights w ~ Dirichlet(1, …, 1), which is what is known of the law they came from; hits and false alarms are
cumulative sums of them, so the rows are sorted once for all draws.
Rubin (1981), "The Bayesian bootstrap"; Fawcett (2006), "An introduction to ROC analysis".
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from credo.core.arrays import Numeric
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.predictive.base import check_levels
from credo.evaluate.calibration import classes_of

GRID = 101
"""Places at which a band is given."""


class RankingCurve(NamedTuple):
    """A curve over all thresholds, its area, and bands for both."""

    x: np.ndarray
    """The share of false alarms, or recall."""
    y: np.ndarray
    """The share of hits, or precision."""
    thresholds: np.ndarray
    """The least probability that is called a member, at each point; infinite where none is."""
    grid: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    """The ends of the band of y at x = `grid`."""
    area: float
    """Under the ROC curve: P(a member is ranked above another row). Mean precision over recall for the other."""
    area_lower: float
    area_upper: float
    share: float
    """Of rows that are members: the precision of chance."""


Shares = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def roc_curve(
    prediction: Predictive,
    y: Numeric,
    label: int | None = None,
    level: float = 0.95,
    *,
    draws: int = 400,
    seed: int = 0,
) -> RankingCurve:
    """Hits against false alarms, of class `label` (the second of two) against the rest.

    Args:
        prediction: of classes.
        y: the number of each row's class.
        label: the number of the class; needed where there are more than two.
        level: the probability of the bands, point by point.
        draws: of the bootstrap.
        seed: of the bootstrap.
    """

    def shares(hits: np.ndarray, alarms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return alarms / alarms[..., -1:], hits / hits[..., -1:]

    def at(x: np.ndarray, y: np.ndarray, grid: np.ndarray) -> np.ndarray:
        last = np.r_[np.diff(x) > 0, True]  # the upper end of a rise
        return np.interp(grid, x[last], y[last])

    def area(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.trapezoid(y, x))

    return _curve((shares, at, area), _members(prediction, y, label, "roc_curve"), level, draws, seed)


def precision_recall_curve(
    prediction: Predictive,
    y: Numeric,
    label: int | None = None,
    level: float = 0.95,
    *,
    draws: int = 400,
    seed: int = 0,
) -> RankingCurve:
    """Precision against recall, of class `label` (the second of two); the arguments are those of `roc_curve`.

    Where members are few this tells more than the ROC curve. Davis & Goadrich (2006), "The relationship between
    precision-recall and ROC curves".
    """

    def shares(hits: np.ndarray, alarms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        called = hits + alarms
        # Where nothing is called a member nothing is wrong.
        return hits / hits[..., -1:], np.where(called > 0, hits / np.where(called > 0, called, 1.0), 1.0)

    def at(recall: np.ndarray, precision: np.ndarray, grid: np.ndarray) -> np.ndarray:
        return precision[np.minimum(np.searchsorted(recall, grid - 1e-12), len(recall) - 1)]

    def area(recall: np.ndarray, precision: np.ndarray) -> float:
        return float(np.diff(recall) @ precision[1:])

    return _curve((shares, at, area), _members(prediction, y, label, "precision_recall_curve"), level, draws, seed)


def _members(prediction: Predictive, y: Numeric, label: int | None, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are members of the class, and the probability that each is."""
    probs, values = classes_of(prediction, y, what, 1)
    k = probs.shape[1]
    if label is None and k > 2:
        raise DataError(f"{what} is of one class against the rest: there are {k}, give label= from 0 to {k - 1}")
    label = 1 if label is None else label
    if not 0 <= label < k:
        raise DataError(f"label must be a class from 0 to {k - 1}, found {label}")
    member = values == label
    if member.all() or not member.any():
        raise DataError(f"{what} needs rows of class {label} and others, found {int(member.sum())} of {len(member)}")
    return member, probs[:, label]


def _curve(
    how: tuple[Shares, Callable[..., np.ndarray], Callable[..., float]],
    rows: tuple[np.ndarray, np.ndarray],
    level: float,
    draws: int,
    seed: int,
) -> RankingCurve:
    shares, at, area = how
    check_count(draws, "draws")
    tails = 0.5 + np.array([-0.5, 0.5]) * float(check_levels(level, "level"))
    order = np.argsort(-rows[1], kind="stable")
    member, score = rows[0][order], rows[1][order]
    ends = np.flatnonzero(np.r_[np.diff(score) != 0, True])  # rows that state the same are called together

    def sums(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hits, alarms = (np.r_[0.0, np.cumsum(weights * which)[ends]] for which in (member, ~member))
        return shares(hits, alarms)

    rng, grid = np.random.default_rng(seed), np.linspace(0, 1, GRID)
    x, y = sums(np.ones(len(member)))
    drawn = [sums(rng.exponential(size=len(member))) for _ in range(draws)]
    lower, upper = np.quantile([at(*each, grid) for each in drawn], tails, axis=0)
    low, high = np.quantile([area(*each) for each in drawn], tails)
    thresholds = np.r_[np.inf, score[ends]]
    return RankingCurve(x, y, thresholds, grid, lower, upper, area(x, y), low, high, float(member.mean()))
