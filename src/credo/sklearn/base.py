"""What credo's estimators share: options given as texts, a belief learned and conditioned, and questions to it."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.random import RandomState
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from credo.core.arrays import Array
from credo.core.belief import Belief
from credo.core.checks import ArrayLike
from credo.core.errors import DataError, NotConverged
from credo.core.method import Method
from credo.core.predictive import Predictive
from credo.core.predictive.classes import Classes
from credo.core.pytrees import changed
from credo.infer.learning import Learned, prepare_and_learn
from credo.models.features import Affine, BSpline, Features, Polynomial, Standardize
from credo.models.glm import GLM
from credo.models.linear import Linear

FEATURES = {"polynomial": Polynomial, "spline": BSpline}
T = TypeVar("T")
RandomSeed = int | RandomState | None
Option = Any
"""What a user sets: estimators keep it as it is, and look at it in `fit`."""
Vector = Float[np.ndarray, " m"]
Table = Float[np.ndarray, "q c"]
Choices = dict[str, Callable[[], Any]]
"""What an option's texts stand for."""


class BeliefEstimator(BaseEstimator):
    """An estimator whose `fit` leaves a belief in `belief_`."""

    belief_: Any

    def _queries(self, X: ArrayLike) -> Float[np.ndarray, "m d"]:
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _fit_belief(self, belief: Belief, *data: ArrayLike, using: Method | None = None, **options: Any) -> None:
        """Learns, conditions on the data, and sets `belief_` and `log_evidence_`."""
        fixed, priors, seed = options.pop("fixed", ()), options.pop("priors", None), seed_of(self.random_state)
        learned, rows = prepare_and_learn(belief, data, using, fixed, priors, seed, options, speak_up)
        conditioned = learned.conditioned or learned.belief.condition_on(rows)
        self._keep(conditioned, learned.log_evidence)

    def _keep(self, belief: Belief, log_evidence: float | None = None) -> None:
        """The belief, with the names of the columns where the table had them, and its evidence."""
        names = getattr(self, "feature_names_in_", None)
        self.belief_ = belief if names is None else changed(belief, inputs=tuple(map(str, names)))
        if log_evidence is not None:
            self.log_evidence_ = log_evidence


class BeliefRegressor(RegressorMixin, BeliefEstimator):
    """A regressor whose `fit` leaves a belief in `belief_`."""

    def predict_distribution(self, X: ArrayLike, joint: bool = False) -> Predictive:
        """p(y* | x*, data) as credo gives it; `joint` keeps how the queries covary."""
        queries = self._queries(X)
        return self.belief_.predict(queries, joint=joint)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Vector | tuple[Vector, Vector]:
        """E[y* | x*, data], and its standard deviation, noise included, if `return_std`."""
        p = self.predict_distribution(X)
        return (np.array(p.mean), np.array(p.std)) if return_std else np.array(p.mean)

    def predict_interval(self, X: ArrayLike, level: SupportsFloat = 0.95) -> Float[np.ndarray, "m 2"]:
        """Lower and upper end of the central interval that holds y* with probability `level`."""
        return np.stack(self.predict_distribution(X).interval(float(level)), axis=1)

    def sample(self, X: ArrayLike, n: int = 1, random_state: RandomSeed = 0) -> Float[np.ndarray, "n m"]:
        """n joint draws of the outcomes at the rows of X."""
        return np.array(self.predict_distribution(X, joint=True).sample(n, seed=seed_of(random_state)))


class BeliefClassifier(ClassifierMixin, BeliefEstimator):
    """A classifier whose `fit` leaves a belief in `belief_` and the labels, in order, in `classes_`."""

    classes_: np.ndarray

    def _codes(self, y: np.ndarray) -> np.ndarray:
        """The labels as positions in `classes_`, which they make known."""
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        return codes

    def _require_two(self, codes: np.ndarray) -> None:
        """`DataError` where only one class is left."""
        held = np.unique(codes)
        if len(held) < 2:
            raise DataError(f"y has one class only, {self.classes_[held].tolist()}; at least two are needed")

    def predict_distribution(self, X: ArrayLike) -> Classes:
        """P(class | x*, data) as credo gives it, with its doubt split into noise and ignorance."""
        queries = self._queries(X)
        return self.belief_.predict(queries)

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "m k"]:
        """The probabilities of the classes."""
        return np.array(self.predict_distribution(X).probs)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The most probable class."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds of the second class; with more than two, the log probabilities of all."""
        p = np.clip(self.predict_proba(X), np.finfo(float).tiny, 1.0)
        return np.log(p[:, 1]) - np.log(p[:, 0]) if len(self.classes_) == 2 else np.log(p)


def choose(name: str, value: object, options: Mapping[str, T]) -> T:
    """The option of that name, or an error that lists them."""
    if not isinstance(value, str) or value not in options:
        raise DataError(f"{name} must be one of {', '.join(map(repr, options))}, found {value!r}")
    return options[value]


def features_of(features: object) -> Features | None:
    """Features from their name, or as they are."""
    if isinstance(features, str):
        return choose("features", features, FEATURES)()
    if features is not None and not isinstance(features, Features):
        raise DataError(f"features must be None, a text or credo Features, found {type(features).__name__}")
    return features


def counted(x: np.ndarray, y: np.ndarray, sample_weight: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The rows that count, and their weights."""
    if sample_weight is None:
        return x, y, None
    w = _check_sample_weight(sample_weight, x, ensure_non_negative=True)
    seen = w > 0
    return x[seen], y[seen], w[seen]


def unscaled(belief: GLM | Linear, mean: Array) -> tuple[Float[np.ndarray, " c"], Table]:
    """Constant terms and slopes from the mean weights, without the scaling inside.

    b + wᵀ(φ - shift)/scale = (b - wᵀshift/scale) + (w/scale)ᵀφ.
    """
    features, table = belief.features, np.asarray(mean).reshape(len(mean), -1)
    intercept, w = (np.zeros(table.shape[1]), table) if belief.intercept is None else (table[0], table[1:])
    if isinstance(features, Affine | Standardize):
        shift, scale = features.shift, features.scale
        w = w if scale is None else w / np.broadcast_to(np.asarray(scale), len(w))[:, None]
        intercept = intercept if shift is None else intercept - np.broadcast_to(np.asarray(shift), len(w)) @ w
    return np.array(intercept), np.array(w)


def seed_of(random_state: RandomSeed) -> int:
    """An integer from what scikit-learn takes as `random_state`."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def speak_up(learned: Learned) -> None:
    """What `learn` has to say, as the warnings that scikit-learn's users know."""
    if learned.status == "diverged":
        raise NotConverged("the evidence is not finite at any starting point; check the scale of the data")
    if learned.status == "stopped":
        warnings.warn("the search for hyperparameters stopped before it converged", ConvergenceWarning, stacklevel=5)
    for doubt in learned.doubts:
        warnings.warn(doubt, ConvergenceWarning, stacklevel=5)
    for name, side in learned.at_bound.items():
        says = f"{name} ran to its {side} bound: the data alone do not determine it"
        warnings.warn(says, ConvergenceWarning, stacklevel=5)
