"""`NaiveBayesClassifier` and `DiscriminantClassifier`: generative classifiers behind fit and predict."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from credo.core.checks import ArrayLike
from credo.models.generative import Discriminant, Generative, NaiveBayes
from credo.sklearn.base import BeliefClassifier, Option


class _GenerativeClassifier(BeliefClassifier, ABC):
    """What both have: chunks by `partial_fit`, class probabilities, and how surprising an input is."""

    belief_: Any

    @abstractmethod
    def _belief(self, classes: tuple[int, ...]) -> Generative:
        """The belief before any data."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> "_GenerativeClassifier":
        """Takes weak priors from the data, and conditions on them."""
        X, codes = self._encoded(X, y, reset=True)
        self._learn(self._belief(tuple(range(len(self.classes_)))), X, codes)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike = None) -> "_GenerativeClassifier":
        """More rows; the first call takes all `classes` that will come, or finds them in y."""
        if not hasattr(self, "belief_"):
            if classes is None:
                return self.fit(X, y)
            X, codes = self._encoded(X, y, reset=True, classes=np.unique(np.asarray(classes)))
            self._learn(self._belief(tuple(range(len(self.classes_)))), X, codes)
            return self
        X, codes = self._encoded(X, y, reset=False)
        self._learn(self.belief_, X, codes)
        return self

    def _encoded(
        self, X: ArrayLike, y: ArrayLike, reset: bool, classes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, dtype=np.float64, reset=reset)
        check_classification_targets(y)
        if reset:
            self.classes_ = np.unique(y) if classes is None else classes
        codes = np.searchsorted(self.classes_, y).clip(0, len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if unknown.any():
            raise ValueError(f"y has the label {y[np.argmax(unknown)]!r}, but the classes are {self.classes_.tolist()}")
        return X, codes

    def _learn(self, belief: Generative, X: np.ndarray, codes: np.ndarray) -> None:
        self._keep(belief.condition(X, codes))
        self.class_count_ = np.array(self.belief_.counts)

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "m k"]:
        """The probabilities of the classes."""
        queries = self._queries(X)
        return np.array(self.belief_.predict(queries, draws=0, warn=False).probs)

    def novelty(self, X: ArrayLike) -> Float[np.ndarray, " m"]:
        """P(log p(X) ≤ log p(x)): small for an input like nothing seen, uniform on rows like those seen."""
        queries = self._queries(X)
        return self.belief_.novelty(queries)

    def score_samples(self, X: ArrayLike) -> Float[np.ndarray, " m"]:
        """log p(x)."""
        queries = self._queries(X)
        return np.array(self.belief_.log_density(queries))


class NaiveBayesClassifier(_GenerativeClassifier):
    """Naive Bayes whose columns may be numbers, counts and codes; parameters are integrated out.

    Args:
        kinds: of the columns, "gaussian", "poisson", "categorical" or "bernoulli"; None to find them in the data.
        concentration: of the Dirichlet law of the shares of the classes.

    Attributes:
        belief_: the posterior, a `NaiveBayes`.
        classes_: the labels, in order.
        class_count_: how many rows of each were seen.
    """

    def __init__(self, kinds: Option = None, concentration: Option = 1.0):
        self.kinds, self.concentration = kinds, concentration

    def _belief(self, classes: tuple[int, ...]) -> Generative:
        return NaiveBayes(self.kinds, classes, concentration=self.concentration)


class DiscriminantClassifier(_GenerativeClassifier):
    """Discriminant analysis from linear ("tied") to quadratic ("full"), or in between, as far as predicts best.

    Args:
        covariance: "between", "full", "tied", "diagonal" or "spherical".
        concentration: of the Dirichlet law of the shares of the classes.

    Attributes:
        belief_: the posterior, a `Discriminant`.
        classes_: the labels, in order.
        class_count_: how many rows of each were seen.
    """

    def __init__(self, covariance: Option = "between", concentration: Option = 1.0):
        self.covariance, self.concentration = covariance, concentration

    def _belief(self, classes: tuple[int, ...]) -> Generative:
        return Discriminant(self.covariance, classes, concentration=self.concentration)
