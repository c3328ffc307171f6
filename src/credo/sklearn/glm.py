"""`BayesianLogisticClassifier` and `BayesianGLMRegressor`: generalized linear models behind fit and predict."""

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from credo.core.checks import ArrayLike
from credo.core.predictive import Predictive
from credo.models.features import Features
from credo.models.glm import GLM, Logistic, NegativeBinomialRegression, PoissonRegression, Softmax, StudentTRegression
from credo.models.linear import ARD, Isotropic
from credo.models.linear.priors import WeightPrior
from credo.sklearn import base
from credo.sklearn.base import BeliefClassifier, BeliefEstimator, BeliefRegressor, Choices, Option, choose

PRIORS: Choices = {"ridge": Isotropic, "ard": ARD}
COUNTS = {"poisson": PoissonRegression, "negative-binomial": NegativeBinomialRegression}
FAMILIES = {**COUNTS, "student-t": StudentTRegression}


class _Weights(BeliefEstimator):
    """What both have: a prior, features, an intercept, and weights in the units of the inputs."""

    coef_: np.ndarray
    intercept_: np.ndarray | float

    def __init__(
        self, prior: Option = "ridge", features: Option = None, fit_intercept: Option = True, random_state: Option = 0
    ):
        self.prior, self.features, self.fit_intercept = prior, features, fit_intercept
        self.random_state = random_state

    def _parts(self) -> tuple[Features | None, WeightPrior, bool]:
        """Features, prior, and whether there is an intercept."""
        return base.features_of(self.features), choose("prior", self.prior, PRIORS)(), bool(self.fit_intercept)

    def _fit_weights(self, belief: GLM, x: np.ndarray, y: np.ndarray, w: np.ndarray | None) -> None:
        self._fit_belief(belief, x, y, weights=w)
        found: GLM = self.belief_
        constant, slopes = base.unscaled(found, found.coefficients().mean)
        one = found.classes is None
        self.coef_, self.intercept_ = (slopes[:, 0], float(constant[0])) if one else (slopes.T, constant)


class BayesianLogisticClassifier(_Weights, BeliefClassifier):
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

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike = None) -> "BayesianLogisticClassifier":
        """Learns the precision and conditions on the data; a row of weight w counts as w rows."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        X, codes, w = base.counted(X, self._codes(y), sample_weight)
        self._require_two(codes)
        kind = Logistic if len(self.classes_) == 2 else Softmax
        self._fit_weights(kind(*self._parts(), classes=tuple(range(len(self.classes_)))), X, codes, w)
        return self


class BayesianGLMRegressor(_Weights, BeliefRegressor):
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
        family: Option = "student-t",
        prior: Option = "ridge",
        features: Option = None,
        fit_intercept: Option = True,
        random_state: Option = 0,
    ):
        super().__init__(prior, features, fit_intercept, random_state)
        self.family = family

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike = None) -> "BayesianGLMRegressor":
        """Learns the precision and conditions on the data; a row of weight w counts as w rows."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        belief = choose("family", self.family, FAMILIES)(*self._parts())
        self._fit_weights(belief, *base.counted(X, np.asarray(y, dtype=np.float64), sample_weight))
        return self

    def predict_distribution(self, X: ArrayLike, joint: bool = False) -> Predictive:
        """p(y* | x*, data) as credo gives it; where it is joint, a mixture over draws of all weights at once."""
        queries = self._queries(X)
        return self.belief_.predict(queries, by="sampling" if joint else None)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.family != "student-t"
        tags.regressor_tags.poor_score = True  # a squared error is not what counts are fitted for
        return tags
