"""credo as scikit-learn estimators: thin, and each passes `check_estimator`.

    from credo.sklearn import BayesianLinearRegressor

    model = make_pipeline(..., BayesianLinearRegressor(prior="ard")).fit(X, y)
    mean, std = model.predict(X_new, return_std=True)

What was fitted is a belief, `model[-1].belief_`, with all that a belief can do.
"""

from credo.sklearn.factor import PPCA, FactorAnalysis
from credo.sklearn.generative import DiscriminantClassifier, NaiveBayesClassifier
from credo.sklearn.glm import BayesianGLMRegressor, BayesianLogisticClassifier
from credo.sklearn.gp import GPClassifier, GPRegressor
from credo.sklearn.hmm import HMM
from credo.sklearn.linear import BayesianLinearRegressor
from credo.sklearn.mixture import BayesianMixture, GaussianMixture

__all__ = [
    "HMM",
    "PPCA",
    "BayesianGLMRegressor",
    "BayesianLinearRegressor",
    "BayesianLogisticClassifier",
    "BayesianMixture",
    "DiscriminantClassifier",
    "FactorAnalysis",
    "GPClassifier",
    "GPRegressor",
    "GaussianMixture",
    "NaiveBayesClassifier",
]
