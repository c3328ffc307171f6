"""`BayesianLogisticClassifier` and `BayesianGLMRegressor`: generalized linear models behind fit and predict."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.infer.learning import prepare_and_learn
from credo.models.features import Affine, BSpline, Features, Polynomial, Standardize
from credo.models.glm import GLM, Logistic, NegativeBinomialRegression, PoissonRegression, Softmax, StudentTRegression
from credo.models.linear import ARD, Isotropic
from credo.sklearn.base import BeliefRegressor, seed_of, speak_up

PRIORS = {"ridge": Isotropic, "ard": ARD}
FAMILIES = {
    "poisson": PoissonRegression,
    "negative-binomial": NegativeBinomialRegression,
    "student-t": StudentTRegression,
}
FEATURES = {"polynomial": Polynomial, "spline": BSpline}


class BayesianLogisticClassifier(ClassifierMixin, BaseEstimator):
    """Bayesian logistic (two classes) or softmax (more) classification, with the prior's precision learned.

    The weights are integrated out under Laplace's approximation; the precision is that of the highest evidence.

    Args:
        prior: of the weights: "ridge" (one precision) or "ard" (one for each feature).
        features: None (the inputs themselves), "polynomial" (degree 2), "spline", or any of `credo.models.features`.
        fit_intercept: whether there is a constant term.
        random_state: of the starting points of the search for the precision.

    Attributes:
        belief_: the posterior, a `Logistic` or `Softmax`.
        classes_: the labels, in order.
        coef_: the mean weights of the inputs (or of φ(x)) in their own units: one row, or one for each class but the
            last, which is the reference.
        intercept_: the mean constant terms.
        log_evidence_: log p(y | X), approximately.
    """

    def __init__(self, prior: Any = "ridge", features: Any = None, fit_intercept: Any = True, random_state: Any = 0):
        self.prior = prior
        self.features = features
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BayesianLogisticClassifier":
        """Learns the precision and conditions on the data; a row of weight w counts as w rows."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        X, codes, w = _counted(self, X, codes, sample_weight)
        held = np.unique(codes)
        if len(held) < 2:
            raise DataError(f"y has one class only, {self.classes_[held].tolist()}; at least two are needed")
        kind = Logistic if len(self.classes_) == 2 else Softmax
        belief = kind(*_parts(self), classes=tuple(range(len(self.classes_))))
        _learn(self, belief, X, codes, w)
        return self

    def predict_distribution(self, X: Any) -> Predictive:
        """P(class | x*, data) as credo gives it, with its doubt split into noise and ignorance."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.belief_.predict(X)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "m k"]:
        """The probabilities of the classes."""
        p: Any = self.predict_distribution(X)
        return np.array(p.probs)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds of the second class; with more than two, the log probabilities of all."""
        p = np.clip(self.predict_proba(X), np.finfo(float).tiny, 1.0)
        return np.log(p[:, 1]) - np.log(p[:, 0]) if len(self.classes_) == 2 else np.log(p)


class BayesianGLMRegressor(BeliefRegressor):
    """Bayesian regression with outliers ("student-t"), or of counts ("poisson", "negative-binomial").

    Args:
        family: of the outcomes.
        prior: of the weights: "ridge" (one precision) or "ard" (one for each feature).
        features: None (the inputs themselves), "polynomial" (degree 2), "spline", or any of `credo.models.features`.
        fit_intercept: whether there is a constant term.
        random_state: of the starting points of the search for the precision.

    Attributes:
        belief_: the posterior, a `credo.models.glm.GLM`.
        coef_: the mean weights of the linear predictor, in the units of the inputs (or of φ(x)).
        intercept_: the mean constant term.
        log_evidence_: log p(y | X), approximately.
    """

    def __init__(
        self,
        family: Any = "student-t",
        prior: Any = "ridge",
        features: Any = None,
        fit_intercept: Any = True,
        random_state: Any = 0,
    ):
        self.family = family
        self.prior = prior
        self.features = features
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BayesianGLMRegressor":
        """Learns the precision and conditions on the data; a row of weight w counts as w rows."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        belief = _choose("family", self.family, FAMILIES)(*_parts(self))
        X, y, w = _counted(self, X, np.asarray(y, dtype=np.float64), sample_weight)
        _learn(self, belief, X, y, w)
        return self

    def predict_distribution(self, X: Any, joint: bool = False) -> Predictive:
        """p(y* | x*, data) as credo gives it."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.belief_.predict(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.family != "student-t"
        tags.regressor_tags.poor_score = True  # a squared error is not what counts are fitted for
        return tags


def _choose(name: str, value: Any, options: dict[str, Any]) -> Any:
    if not isinstance(value, str) or value not in options:
        raise DataError(f"{name} must be one of {', '.join(map(repr, options))}, found {value!r}")
    return options[value]


def _parts(estimator: Any) -> tuple[Any, Any, bool]:
    """Features, prior, and whether there is an intercept."""
    features = estimator.features
    if isinstance(features, str):
        features = _choose("features", features, FEATURES)()
    elif features is not None and not isinstance(features, Features):
        raise DataError(f"features must be None, a text or credo Features, found {type(features).__name__}")
    return features, _choose("prior", estimator.prior, PRIORS)(), bool(estimator.fit_intercept)


def _counted(estimator: Any, x: np.ndarray, y: np.ndarray, sample_weight: Any) -> tuple[Any, Any, Any]:
    """The rows that count, and their weights."""
    if sample_weight is None:
        return x, y, None
    w = _check_sample_weight(sample_weight, x, ensure_non_negative=True)
    seen = w > 0
    return x[seen], y[seen], w[seen]


def _learn(estimator: Any, belief: GLM, x: np.ndarray, y: np.ndarray, w: np.ndarray | None) -> None:
    options = {} if w is None else {"weights": w}
    seed = seed_of(estimator.random_state)
    learned, rows = prepare_and_learn(belief, (x, y), None, (), None, seed, options, speak_up)
    estimator.belief_, estimator.log_evidence_ = learned.belief.condition_on(rows), learned.log_evidence
    if hasattr(estimator, "feature_names_in_"):
        estimator.belief_ = estimator.belief_._named(list(estimator.feature_names_in_))
    estimator.coef_, estimator.intercept_ = _unscaled(estimator.belief_)


def _unscaled(belief: GLM) -> tuple[np.ndarray, Any]:
    """Weights and constant terms without the scaling inside."""
    mean = np.asarray(belief.coefficients().mean)
    table = mean.reshape(len(mean), -1)
    intercept, w = (np.zeros(table.shape[1]), table) if belief.intercept is None else (table[0], table[1:])
    if isinstance(belief.features, Affine | Standardize):
        shift, scale = belief.features.shift, belief.features.scale
        w = w if scale is None else w / np.broadcast_to(np.asarray(scale), len(w))[:, None]
        intercept = intercept if shift is None else intercept - np.broadcast_to(np.asarray(shift), len(w)) @ w
    if belief.classes is None:
        return np.array(w[:, 0]), float(intercept[0])
    return np.array(w.T), np.array(intercept)
