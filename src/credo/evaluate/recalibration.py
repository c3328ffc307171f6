"""Recalibration: a belief whose stated probabilities are corrected by what happened on rows it has not learned from.

| how | numbers, counts | classes: the probabilities p |
| --- | --- | --- |
| temperature | numbers: T times the spread around the median | softmax(log p / T). Guo et al. (2017) |
| beta | Beta(a, b)'s cdf of the levels F(y). Gneiting & Ranjan (2013) | a log p - b log(1 - p) + c. Kull (2017) |
| quantile | isotonic map of the levels. Kuleshov et al. (2018) | |
| platt | | the logit is a logit p + c. Platt (1999) |
| isotonic | | isotonic map of p. Zadrozny & Elkan (2002) |

Of more than two classes each has its own map against the rest, brought to sum to one; temperature has one for all.
Steps are smoothed by one row that says what the belief says, so that nothing becomes impossible.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy import optimize, special, stats
from sklearn.isotonic import IsotonicRegression

from credo.core.arrays import Array, Numeric, as_float, namespace
from credo.core.arrays import special as functions_of
from credo.core.belief import Belief
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.params import constant
from credo.core.predictive import Bernoulli, Categorical, Predictive
from credo.core.predictive.classes import Classes, entropy_of
from credo.core.predictive.expectation import alone
from credo.core.predictive.recalibrated import (
    EDGE,
    BetaLevels,
    LevelMap,
    RecalibratedCDF,
    SteppedLevels,
    Stretched,
    share_of_noise,
)
from credo.core.pytrees import changed
from credo.evaluate.calibration import pit
from credo.evaluate.scores import check_outcomes
from credo.models.likelihoods import Categorical as Labels

NUMBERS = ("quantile", "temperature", "beta")
COUNTS = ("quantile", "beta")
CLASSES = ("temperature", "platt", "beta", "isotonic")
COLDEST, HOTTEST = 0.02, 50.0
"""Where temperatures are sought: rows that are all right, or say nothing, determine none."""
TINY = 1e-12
"""Probabilities below are corrected as this one."""


class ClassMap(eqx.Module):
    """A map of the probabilities of classes."""

    @abstractmethod
    def __call__(self, probs: Float[Array, "*m k"]) -> Float[Array, "*m k"]:
        """The corrected probabilities."""


class Tempered(ClassMap):
    """pₖ^(1/T), brought to sum to one."""

    temperature: Float[Array, ""] = eqx.field(converter=as_float)

    def __call__(self, probs: Float[Array, "*m k"]) -> Float[Array, "*m k"]:
        """softmax(log p / T)."""
        xp = namespace(self, probs)
        logits = xp.log(xp.maximum(probs, TINY)) / self.temperature
        shares = xp.exp(logits - logits.max(-1, keepdims=True))
        return shares / shares.sum(-1, keepdims=True)


class Stretch(eqx.Module):
    """Deviations from the median, so many times as large."""

    factor: Float[Array, ""] = eqx.field(converter=as_float)


class LogitMap(eqx.Module):
    """logit⁻¹(a log p - b log(1 - p) + c); Platt's has a = b."""

    a: Float[Array, ""] = eqx.field(converter=as_float)
    b: Float[Array, ""] = eqx.field(converter=as_float)
    c: Float[Array, ""] = eqx.field(converter=as_float)

    def __call__(self, p: Array) -> Array:
        """The corrected probability of one class."""
        xp = namespace(self, p)
        p = xp.clip(p, TINY, 1 - TINY)
        return functions_of(self, p).expit(self.a * xp.log(p) - self.b * xp.log1p(-p) + self.c)


class OneVersusRest(ClassMap):
    """A map of each class; of two classes one, of the second."""

    each: tuple[LogitMap | SteppedLevels, ...]

    def __call__(self, probs: Float[Array, "*m k"]) -> Float[Array, "*m k"]:
        """The corrected probabilities."""
        xp = namespace(self, probs)
        if len(self.each) == 1:
            second = self.each[0](probs[..., 1])
            return xp.stack([1 - second, second], axis=-1)
        mapped = xp.stack([one(probs[..., k]) for k, one in enumerate(self.each)], axis=-1)
        return mapped / mapped.sum(-1, keepdims=True)


class Recalibrated(Belief):
    """A belief with a correction of what it states; see `recalibrated`.

    More data move the belief inside, and the correction stays as it was learned.
    """

    how: str = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    """How many rows the correction was learned from."""
    correction: LevelMap | Stretch | ClassMap
    belief: Belief = constant()

    def __repr__(self) -> str:
        return f"{self.belief!r}, recalibrated on {self.rows} rows (how={self.how!r})"

    @property
    def classes(self) -> Any:
        """The labels in the order of the predicted probabilities, where the belief has some."""
        return getattr(self.belief, "classes", None)

    def recipients(self, verb: str) -> Sequence[object]:
        """Methods condition the belief inside."""
        return (self.belief,)

    def statistics(self, *data: Any, **options: Any) -> Any:
        """What the belief inside keeps."""
        return self.belief.statistics(*data, **options)

    def condition_on(self, statistics: Any) -> "Recalibrated":
        """Bayes' rule in the belief inside."""
        return changed(self, belief=self.belief.condition_on(statistics))

    def condition(self, *data: Any, using: object = None, **options: Any) -> "Recalibrated":
        """Bayes' rule in the belief inside; the correction stays."""
        return changed(self, belief=self.belief.condition(*data, using=using, **options))

    def evidence_of(self, statistics: Any) -> Array:
        """Refused: a correction is of single predictions, not of data as a whole."""
        raise DataError("a recalibrated belief has no evidence of its own; ask the one inside: belief.belief")

    def prepare(self, *data: Any, **options: Any) -> tuple[Any, Any]:
        """Refused: rows that were learned from cannot judge."""
        raise DataError("fit the belief first, then credo.recalibrated(belief, X, y) on rows that it has not seen")

    def predict(self, *x: Any, **options: Any) -> Predictive:
        """What the belief predicts, corrected."""
        return corrected(self.belief.predict(*x, **options), self.correction)


def corrected(prediction: Predictive, correction: LevelMap | Stretch | ClassMap) -> Predictive:
    """A prediction with its levels, or its class probabilities, corrected; noise keeps its share of the doubt."""
    if isinstance(correction, LevelMap):
        return RecalibratedCDF(prediction, correction)
    if isinstance(correction, Stretch):
        return Stretched(prediction, correction.factor)
    if not isinstance(prediction, Classes):
        raise DataError(f"the correction is of classes, found a prediction of {type(prediction).__name__}")
    probs = correction(prediction.probs)
    noise = entropy_of(probs) * share_of_noise(prediction)
    return Bernoulli(probs[..., 1], noise) if isinstance(prediction, Bernoulli) else Categorical(probs, noise)


def recalibrated(belief: Belief, X: Numeric, y: Numeric, how: str | None = None, *, seed: int = 0) -> Recalibrated:
    """The belief with its probabilities corrected by what happened on rows that it has not learned from.

    Args:
        belief: one that predicts, conditioned already.
        X: inputs of the rows to calibrate on.
        y: what happened; labels as the belief knows them.
        how: for numbers "quantile" (None), "temperature" or "beta", for counts the first or the last; for classes
            "temperature" (None), "platt", "beta" or "isotonic". Where outcomes lie many standard deviations off,
            levels no longer tell them apart: use "temperature".
        seed: counts have random levels, see `evaluate.pit`.
    """
    prediction, outcomes = held_out(belief, X, y)
    classes = isinstance(prediction, Classes)
    kind, names = (
        ("classes", CLASSES) if classes else ("counts", COUNTS) if prediction.discrete else ("numbers", NUMBERS)
    )
    chosen = how or names[0]
    if chosen not in names:
        raise DataError(f"how must be one of {', '.join(names)} for a belief about {kind}, found {how!r}")
    if len(outcomes) < 2:
        raise DataError(f"recalibration needs at least two rows, found {len(outcomes)}; a hundred is a good number")
    if isinstance(prediction, Classes):
        correction: Any = _class_map(np.asarray(prediction.probs), outcomes.astype(int), chosen)
    elif chosen == "temperature":
        correction = temperature_of(prediction, outcomes)
    else:
        correction = _level_map(pit(prediction, outcomes, seed=seed), chosen)
    return Recalibrated(chosen, len(outcomes), correction, belief)


def temperature_of(prediction: Predictive, outcomes: np.ndarray) -> "Stretch | Tempered":
    """The temperature under which what happened is most probable; classes are places among their labels."""
    if isinstance(prediction, Classes):
        found = _class_map(np.asarray(prediction.probs), outcomes.astype(int), "temperature")
        assert isinstance(found, Tempered)
        return found

    def loss(t: float) -> float:
        return -float(np.mean(Stretched(prediction, as_float(t)).log_prob(outcomes)))

    return Stretch(as_float(_temperature(loss)))


def held_out(belief: Belief, X: Numeric, y: Numeric) -> tuple[Predictive, np.ndarray]:
    """What a belief predicts for rows, each on its own, and what happened: classes as their places among its labels."""
    if not isinstance(belief, Belief):
        raise DataError(f"belief must be a belief, found {type(belief).__name__}; fit one first")
    prediction = alone(belief.predict(X))
    if len(prediction.shape) != 1:
        raise DataError(f"predictions must be of one outcome a row, found shape {prediction.shape}")
    labels = getattr(belief, "classes", None)
    known = isinstance(prediction, Classes) and labels is not None
    return prediction, np.asarray(check_outcomes(prediction, Labels(labels).encode(y) if known else y))


def _temperature(loss: Callable[[float], float]) -> float:
    """The T with the smallest loss; said where the rows determine none."""
    ends = np.log([COLDEST, HOTTEST])
    found = np.exp(
        optimize.minimize_scalar(lambda u: loss(np.exp(u)), bounds=ends, method="bounded", options={"xatol": 1e-8}).x
    )
    if not COLDEST * 1.01 < found < HOTTEST / 1.01:
        warnings.warn(
            f"the temperature ran to {found:.3g}, the end of where it is sought: the rows do not determine it; give "
            "more of them, or rows that the belief has not learned from",
            NotConvergedWarning,
            stacklevel=4,
        )
    return float(found)


def _level_map(u: np.ndarray, how: str) -> LevelMap:
    """The map of levels that makes those of the rows uniform."""
    inside = np.clip(u, EDGE, 1 - EDGE)
    if how == "beta":
        a, b, _, _ = stats.beta.fit(np.clip(u, TINY, 1 - TINY), floc=0, fscale=1)
        return BetaLevels(a, b)
    # Rice's rule for the number of steps of a density; each holds about as many rows.
    n, steps = len(u), int(np.ceil(2 * np.cbrt(len(u))))
    knots = np.unique(np.quantile(inside, np.arange(1, steps) / steps, method="inverted_cdf"))
    return _smoothed(np.sort(inside), np.arange(1, n + 1) / n, knots)


def _smoothed(p: np.ndarray, share: np.ndarray, knots: np.ndarray) -> SteppedLevels:
    """Isotonic regression of shares on probabilities at some knots, and one row that says what the belief says."""
    isotonic = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p, share)
    values = (len(p) * isotonic.predict(knots) + knots) / (len(p) + 1)
    return SteppedLevels(np.concatenate([[0.0], knots, [1.0]]), np.concatenate([[0.0], values, [1.0]]))


def _class_map(probs: np.ndarray, y: np.ndarray, how: str) -> ClassMap:
    """The map of class probabilities under which what happened is most probable."""
    if how == "temperature":
        logs = np.log(np.maximum(probs, TINY))

        def loss(temperature: float) -> float:
            logits = logs / temperature
            return float(np.mean(special.logsumexp(logits, axis=1) - logits[np.arange(len(y)), y]))

        return Tempered(as_float(_temperature(loss)))
    columns = [1] if probs.shape[1] == 2 else range(probs.shape[1])
    return OneVersusRest(tuple(_binary_map(probs[:, k], y == k, how) for k in columns))


def _binary_map(p: np.ndarray, happened: np.ndarray, how: str) -> LogitMap | SteppedLevels:
    if how == "isotonic":
        knots = np.unique(np.clip(p, TINY, 1 - TINY))
        return _smoothed(p, happened.astype(float), knots)
    p = np.clip(p, TINY, 1 - TINY)
    features = [special.logit(p)] if how == "platt" else [np.log(p), -np.log1p(-p)]
    design = np.column_stack([*features, np.ones(len(p))])
    n, positive = len(p), int(happened.sum())
    # Platt's targets: rows that a line separates would ask for an infinite slope.
    target = np.where(happened, (positive + 1) / (positive + 2), 1 / (n - positive + 2))

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        eta = design @ w
        return float(np.sum(np.logaddexp(0, eta) - target * eta)), design.T @ (special.expit(eta) - target)

    start = np.append(np.ones(len(features)), 0.0)
    limits = [(None, None) if how == "platt" else (0.0, None)] * len(features) + [(None, None)]
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1000}
    w = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits, options=options).x
    return LogitMap(w[0], w[-2], w[-1])
