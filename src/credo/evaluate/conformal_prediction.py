"""Conformal prediction: intervals and sets of classes that hold the outcome as often as they say, whatever the belief.

If the n calibration rows and the next are exchangeable, its score s(x, y) is at most the ⌈(n + 1) level⌉-th smallest
of theirs with probability ≥ `level` (≤ level + 1/(n + 1) without ties), so {y: s(x, y) ≤ that} holds it so often: over
the calibration rows and the next one together, not for every x. Vovk, Gammerman & Shafer (2005); Lei et al. (2018).

| how | outcomes | score, or interval | promise |
| --- | --- | --- | --- |
| split | numbers, counts | abs(2F(y) - 1) on the belief's F. Chernozhukov, Wüthrich & Zhu (2021) | level |
| split | classes | 1 - p(y). Sadinle, Lei & Wasserman (2019) | level |
| quantile | numbers, counts | max(q₋ - y, y - q₊). Romano, Patterson & Candès (2019) | level |
| adaptive | classes | Σ p(k) of classes no less probable than y. Romano, Sesia & Candès (2020) | level |
| adaptive | series of numbers | split, αₜ₊₁ = αₜ + γ(α - missₜ). Gibbs & Candès (2021) | in the long run |
| cv+, jackknife+ | numbers | out-of-fold means ± residuals. Barber et al. (2021) | 1 - 2α, α = 1 - level |

With `shifted` rows, whose inputs are distributed otherwise than those of the calibration rows, scores are weighted by
the ratio w(x) of the two densities. Tibshirani, Barber, Candès & Ramdas (2019).
"""

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float
from sklearn.model_selection import KFold

from credo.core.arrays import Array, Numeric, as_float
from credo.core.belief import Belief
from credo.core.checks import check_count, check_real, check_table, check_vector
from credo.core.errors import DataError, MisfitWarning, NotConvergedWarning
from credo.core.loops import SLACK
from credo.core.params import constant
from credo.core.predictive import Interval, Predictive
from credo.core.predictive.base import Index, check_levels
from credo.core.predictive.classes import Classes
from credo.core.predictive.recalibrated import EDGE
from credo.core.pytrees import changed
from credo.evaluate.recalibration import held_out
from credo.evaluate.validation import count_rows, fitted, rows, seeded
from credo.infer.learning import fit
from credo.models.glm import Logistic

P = TypeVar("P", bound="ConformalPrediction")

NUMBERS = ("split", "quantile", "adaptive", "cv+", "jackknife+")
CLASSES = ("split", "adaptive")
FOLDS = ("cv+", "jackknife+")
STEP = 0.005
"""γ of adaptive levels, as in Gibbs & Candès (2021)."""


def least_rows(level: float) -> int:
    """The fewest calibration rows with which an interval of this level is finite: 19 for 95 %."""
    return int(np.ceil(level / (1 - level) - 1e-9))


def threshold(scores: np.ndarray, level: float) -> float:
    """The ⌈(n + 1) level⌉-th smallest score; `DataError` where there are too few."""
    rank = int(np.ceil((len(scores) + 1) * level - 1e-9))
    if rank > len(scores):
        raise DataError(
            f"a level of {level:g} needs at least {least_rows(level)} calibration rows, found {len(scores)}; give "
            "more, or ask for a lower level"
        )
    return float(np.partition(scores, rank - 1)[rank - 1])


def weighted_threshold(scores: np.ndarray, weights: np.ndarray, own: np.ndarray, level: float) -> np.ndarray:
    """For each query of weight w the smallest score with Σ weights of scores up to it ≥ level (Σ weights + w)."""
    order = np.argsort(scores, kind="stable")
    mass = np.cumsum(weights[order])
    wanted = level * (mass[-1] + own)
    at = np.searchsorted(mass, wanted * (1 - 1e-12))
    rare = at >= len(scores)
    if np.any(rare):
        warnings.warn(
            f"{int(rare.sum())} of {len(own)} queries lie where calibration rows are too rare to promise a level of "
            f"{level:g}: theirs is the widest that any row needed; give more rows like them, or ask for a lower level",
            MisfitWarning,
            stacklevel=4,
        )
    return scores[order][np.minimum(at, len(scores) - 1)]


class ConformalPrediction(Predictive):
    """A prediction whose `interval`, or `prediction_set` of classes, has a promise; all else is the belief's."""

    elementwise: ClassVar[bool] = False

    inner: Predictive
    calibration: tuple[Predictive, ...]
    """What was predicted for the calibration rows, in parts; empty with folds."""
    outcomes: Float[Array, " n"] = eqx.field(converter=as_float)
    weights: Float[Array, " n"] | None
    """Of the calibration rows, where the queries' inputs are distributed otherwise."""
    own_weights: Float[Array, " m"] | None
    """Of the queries."""
    means: Float[Array, "n m"] | None
    """With folds, for each calibration row what the belief that has not seen it expects of the queries."""
    residuals: Float[Array, " n"] | None
    """With folds, how far it was off."""
    step_size: Float[Array, ""] = eqx.field(converter=as_float)
    how: str = eqx.field(static=True)

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """Whether outcomes are whole numbers."""
        return self.inner.discrete

    @property
    def mean(self) -> Array:
        """As the belief has it."""
        return self.inner.mean

    @property
    def aleatoric(self) -> Array:
        """As the belief has it."""
        return self.inner.aleatoric

    @property
    def epistemic(self) -> Array:
        """As the belief has it."""
        return self.inner.epistemic

    @property
    def probs(self) -> Array:
        """The probabilities of classes, as the belief has them."""
        if not isinstance(self.inner, Classes):
            raise AttributeError("a prediction of numbers has no probs")
        return self.inner.probs

    def log_prob(self, y: Numeric) -> Array:
        """As the belief has it."""
        return self.inner.log_prob(y)

    def cdf(self, y: Numeric) -> Array:
        """As the belief has it."""
        return self.inner.cdf(y)

    def entropy(self) -> Array:
        """As the belief has it."""
        return self.inner.entropy()

    def _quantile(self, q: Array) -> Array:
        return self.inner._quantile(q)

    def _draw(self, key: Any) -> Array:
        return self.inner._draw(key)

    def marginal(self: P) -> P:
        """Without the covariance between queries."""
        return changed(self, inner=self.inner.marginal())

    def __getitem__(self: P, index: Index) -> P:
        """The predictions at some of the queries."""
        own = None if self.own_weights is None else self.own_weights[index]  # type: ignore[index]
        means = None if self.means is None else self.means[:, index]  # type: ignore[index]
        return changed(self, inner=self.inner[index], own_weights=own, means=means)

    # -- promises ----------------------------------------------------------------------------------------------

    def interval(self, level: Numeric = 0.95) -> Interval:
        """The interval that holds the outcome with probability `level`; 1 - 2(1 - level) of cv+ and jackknife+."""
        if isinstance(self.inner, Classes):
            raise DataError("classes have no interval; ask for prediction_set(level)")
        at = _level(level)
        if self.means is not None and self.residuals is not None:
            rank = int(np.ceil((len(self.residuals) + 1) * at - 1e-9))
            threshold(np.asarray(self.residuals), at)  # says where rows are too few
            upper = np.sort(self.means + self.residuals[:, None], axis=0)[rank - 1]
            lower = np.sort(self.means - self.residuals[:, None], axis=0)[-rank]
            return Interval(lower, upper)
        if self.how == "quantile":
            lower, upper = (
                np.concatenate(ends) for ends in zip(*(p.interval(at) for p in self.calibration), strict=True)
            )
            wide = self.inner.interval(at)
            beyond = self._threshold(np.maximum(lower - self.outcomes, self.outcomes - upper), at)
            middle = (wide.lower + wide.upper) / 2  # of intervals that shrink to less than nothing
            return Interval(np.minimum(wide.lower - beyond, middle), np.maximum(wide.upper + beyond, middle))
        scores = self._scores(level_scores)
        half = self._adapted(scores, at) if self.how == "adaptive" else self._threshold(scores, at)
        if np.any(half >= 1 - 2 * EDGE):
            raise DataError(
                "outcomes of calibration rows lie where the belief says that none can be: no interval of its own "
                'levels holds them; use how="quantile", or a belief with more doubt'
            )
        # A count is in the interval up to a level above, not at, the probability of less.
        ask = np.asarray(np.maximum(half, EDGE) + 4 * SLACK * self.discrete) / 2
        return Interval(self.inner._quantile(0.5 - ask), self.inner._quantile(0.5 + ask))

    def prediction_set(self, level: Numeric = 0.95) -> np.ndarray:
        """For each query which classes are in the set that holds the right one with probability `level`, (m, k).

        The most probable class always is.
        """
        if not isinstance(self.inner, Classes):
            raise DataError("numbers have no prediction set; ask for interval(level)")

        def of_right(prediction: Any, y: np.ndarray) -> np.ndarray:
            return class_scores(np.asarray(prediction.probs), self.how)[np.arange(len(y)), y.astype(int)]

        probs = np.atleast_2d(self.inner.probs)
        most = np.reshape(self._threshold(self._scores(of_right), _level(level)), (-1, 1))
        return (class_scores(probs, self.how) <= most) | (probs == probs.max(-1, keepdims=True))

    def _scores(self, score: Callable[[Predictive, np.ndarray], np.ndarray]) -> np.ndarray:
        """Of each calibration row."""
        ends = np.cumsum([len(part) for part in self.calibration])[:-1]
        pairs = zip(self.calibration, np.split(np.asarray(self.outcomes), ends), strict=True)
        return np.concatenate([score(part, y) for part, y in pairs])

    def _threshold(self, scores: Array, level: float) -> Any:
        if self.weights is None or self.own_weights is None:
            return threshold(np.asarray(scores), level)
        own = np.atleast_1d(self.own_weights)
        found = weighted_threshold(np.asarray(scores), np.asarray(self.weights), own, level)
        return found.reshape(np.shape(self.own_weights))

    def _adapted(self, scores: np.ndarray, level: float) -> float:
        """The threshold at the level that misses of the past, in their order, have led to."""
        alpha = target = 1 - level
        for t, score in enumerate(scores):
            rank = int(np.ceil((t + 1) * (1 - alpha) - 1e-9))
            held = rank > t or (rank > 0 and score <= np.partition(scores[:t], rank - 1)[rank - 1])
            alpha += float(self.step_size) * (target - (not held))
        if alpha <= 0 or np.ceil((len(scores) + 1) * (1 - alpha) - 1e-9) > len(scores) >= least_rows(level):
            warnings.warn(
                f"after so many misses a level of {level:g} asks for intervals wider than any of the "
                f"{len(scores)} calibration rows needed; this is the widest",
                NotConvergedWarning,
                stacklevel=4,
            )
            return float(scores.max())
        return threshold(scores, min(max(1 - alpha, EDGE), 1 - EDGE))


class Conformal(Belief):
    """A belief with calibration rows that give its intervals, or sets of classes, a promise; see `conformal`.

    What data say to it are further calibration rows: the belief inside stays as it is, for rows that it has learned
    from cannot judge it.
    """

    how: str = eqx.field(static=True)
    calibration: tuple[Predictive, ...]
    """What the belief predicts for the calibration rows, in the parts in which they came."""
    outcomes: Float[Array, " n"] = eqx.field(converter=as_float)
    weights: Float[Array, " n"] | None
    """Of the calibration rows."""
    fold: tuple[int, ...] = eqx.field(static=True)
    """With folds, to which each row belongs."""
    residuals: Float[Array, " n"] | None
    step_size: Float[Array, ""] = eqx.field(converter=as_float)
    belief: Belief = constant()
    members: tuple[Belief, ...] = constant()
    """With folds, the beliefs that have not seen them."""
    shift: Belief | None = constant()
    """How probable it is that a row is one of the shifted ones."""

    def __repr__(self) -> str:
        return f"{self.belief!r}, conformal on {len(self.outcomes)} rows (how={self.how!r}): {self.promise}"

    @property
    def promise(self) -> str:
        """What holds of `interval(level)` or `prediction_set(level)`, in words."""
        if self.how in FOLDS:
            return "holds with probability ≥ 1 - 2(1 - level)" + (" up to a term in 1/√n" * (self.how == "cv+"))
        if self.how == "adaptive" and not isinstance(self.calibration[0], Classes):
            return "misses 1 - level of the rows in the long run, whatever they are"
        more = ", as far as the weights are right" if self.weights is not None else ""
        return f"holds with probability ≥ level for rows like the calibration rows{more}"

    @property
    def classes(self) -> Any:
        """The labels in the order of the predicted probabilities, where the belief has some."""
        return getattr(self.belief, "classes", None)

    def statistics(self, *data: Any, **options: Any) -> tuple[Predictive, np.ndarray, np.ndarray | None]:
        """What the belief predicts for rows, what happened, and the rows' weights."""
        if self.how in FOLDS:
            raise DataError(f"{self.how} learned from all its rows; call conformal again with the new ones among them")
        if len(data) != 2 or options:
            raise DataError(f"a conformal belief takes calibration rows X and y, found {len(data)} arguments")
        return (*held_out(self.belief, *data), _odds(self.shift, data[0]))

    def condition_on(self, statistics: tuple[Predictive, np.ndarray, np.ndarray | None]) -> "Conformal":
        """More calibration rows, after those that there are."""
        prediction, y, weights = statistics
        both = None if weights is None or self.weights is None else np.concatenate([self.weights, weights])
        calibration, outcomes = (*self.calibration, prediction), np.concatenate([self.outcomes, y])
        return changed(self, calibration=calibration, outcomes=outcomes, weights=both)

    def evidence_of(self, statistics: Any) -> Array:
        """Refused: a promise is no density."""
        raise DataError("a conformal belief has no evidence of its own; ask the one inside: belief.belief")

    def prepare(self, *data: Any, **options: Any) -> tuple[Any, Any]:
        """Refused: rows that were learned from cannot judge."""
        raise DataError(
            "fit the belief first, then credo.evaluate.conformal(belief, X, y) on rows that it has not seen"
        )

    def predict(self, *x: Any, **options: Any) -> ConformalPrediction:
        """What the belief predicts, with intervals or sets that have a promise."""
        inner, means = self.belief.predict(*x, **options), None
        if self.how in FOLDS:
            means = np.stack([np.asarray(b.predict(*x, **options).mean) for b in self.members])[np.asarray(self.fold)]
        own = None if self.weights is None else _odds(self.shift, x[0])
        return ConformalPrediction(
            inner, self.calibration, self.outcomes, self.weights, own, means, self.residuals, self.step_size, self.how
        )


def conformal(
    belief: Belief,
    X: Numeric,
    y: Numeric,
    how: str | None = None,
    *,
    shifted: Any = None,
    k: int = 10,
    step_size: float = STEP,
    learn: bool = True,
    seed: int = 0,
    **options: Any,
) -> Conformal:
    """The belief with intervals, or sets of classes, that hold the outcome as often as they say.

    Args:
        belief: conditioned already on other rows; for "cv+" and "jackknife+" the belief to learn.
        X: inputs of the calibration rows; for "cv+" and "jackknife+" of all rows.
        y: what happened; labels as the belief knows them. With "adaptive" for numbers in the order of time.
        how: "split" (None), "quantile", "adaptive", "cv+" or "jackknife+", see the module.
        shifted: inputs like those to be predicted where they are distributed otherwise than X (a `Logistic` then
            learns to tell them apart), or a belief that predicts whether a row is one of them.
        k: the number of folds of "cv+".
        step_size: γ of "adaptive" for numbers: how much a miss moves the level.
        learn: with folds, whether hyperparameters are learned in each of them.
        seed: of the folds and of learning.
        options: of `credo.fit`, with folds.
    """
    chosen = how or "split"
    step = as_float(check_real(step_size, "step_size", 0.0))
    if chosen in FOLDS:
        if shifted is not None:
            raise DataError(f"shifted is for split, quantile and classes, found it with how={how!r}")
        return _by_folds(belief, X, y, chosen, k, step, learn, seed, options)
    if options:
        raise DataError(f"{', '.join(options)}: the belief is learned already; options of credo.fit are for cv+")
    prediction, outcomes = held_out(belief, X, y)
    allowed = CLASSES if isinstance(prediction, Classes) else NUMBERS
    if chosen not in allowed:
        kind = "classes" if allowed is CLASSES else "numbers and counts"
        raise DataError(f"how must be one of {', '.join(allowed)} for a belief about {kind}, found {how!r}")
    if shifted is not None and chosen == "adaptive" and allowed is NUMBERS:
        raise DataError('shifted is for split, quantile and classes; how="adaptive" follows any shift of a series')
    shift = _shift(X, shifted)
    weights = _odds(shift, X)
    return Conformal(chosen, (prediction,), outcomes, weights, (), None, step, belief, (), shift)


def level_scores(prediction: Predictive, y: np.ndarray) -> np.ndarray:
    """The level of the smallest central interval that holds y: |2F(y) - 1|, of counts max(1 - 2F(y), 2F(y - 1) - 1)."""
    upper = np.asarray(prediction.cdf(y))
    lower = np.asarray(prediction.cdf(y - 1)) if prediction.discrete else upper
    return np.maximum(np.maximum(1 - 2 * upper, 2 * lower - 1), 0.0)


def class_scores(probs: np.ndarray, how: str) -> np.ndarray:
    """1 - p of each class; "adaptive" the sum of p over classes that are no less probable."""
    if how == "split":
        return 1 - probs
    order = np.argsort(-probs, axis=1, kind="stable")
    total = np.cumsum(np.take_along_axis(probs, order, axis=1), axis=1)
    return np.take_along_axis(total, np.argsort(order, axis=1), axis=1)


def _by_folds(
    belief: Belief, X: Any, y: Any, how: str, k: int, step: Array, learn: bool, seed: int, options: dict[str, Any]
) -> Conformal:
    """Out-of-fold beliefs and their residuals."""
    n = count_rows(X, y)
    check_count(k, "k", least=2)
    folds = n if how == "jackknife+" else int(k)
    if folds > n or n < 2:
        raise DataError(f"{how} needs at least two rows and as many as folds, found {n} rows and {folds} folds")
    settings = seeded(options, seed, learn)
    number, means, members = np.empty(n, int), np.empty(n), []
    splits = KFold(folds, shuffle=True, random_state=seed).split(np.arange(n))
    for j, (train, test) in enumerate(splits):
        member = fitted(belief, rows(X, train), rows(y, train), learn, **settings)
        prediction = member.predict(rows(X, test))
        if isinstance(prediction, Classes):
            raise DataError(f'{how} is for numbers; for classes use how="split" or "adaptive"')
        number[test], means[test] = j, np.asarray(prediction.mean)
        members.append(member)
    outcomes = check_vector(y, "y", n)
    residuals = np.abs(outcomes - means)
    whole = fitted(belief, X, y, learn, **settings)
    fold = tuple(int(j) for j in number)
    return Conformal(how, (), outcomes, None, fold, residuals, step, whole, tuple(members), None)


def _shift(X: Any, shifted: Any) -> Belief | None:
    """A belief about whether a row is one of the shifted ones."""
    if shifted is None or isinstance(shifted, Belief):
        return shifted
    here, there = check_table(X, "X"), check_table(shifted, "shifted")
    if here.shape[1] != there.shape[1]:
        raise DataError(f"shifted must have the {here.shape[1]} columns of X, found {there.shape[1]}")
    label = np.repeat([0, 1], [len(here), len(there)])
    return fit(Logistic(), np.concatenate([here, there]), label)


def _odds(shift: Belief | None, X: Any) -> np.ndarray | None:
    """w(x) ∝ p(shifted | x)/p(not | x), the ratio of the densities of inputs up to a factor."""
    if shift is None:
        return None
    p = np.clip(np.asarray(shift.predict(X).mean), 1e-6, 1 - 1e-6)
    return p / (1 - p)


def _level(level: Numeric) -> float:
    at = np.asarray(check_levels(level, "level"))
    if at.ndim:
        raise DataError(f"level must be one number, found shape {at.shape}")
    return float(at)
