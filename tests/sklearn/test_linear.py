"""`BayesianLinearRegressor`: scikit-learn's conformance suite, and scikit-learn's own estimators as oracles."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from credo.sklearn import BayesianLinearRegressor

@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        BayesianLinearRegressor(),
        BayesianLinearRegressor(prior="ard"),
        BayesianLinearRegressor(noise="student-t"),
        BayesianLinearRegressor(prior="lasso"),
        BayesianLinearRegressor(noise="unknown"),
        BayesianLinearRegressor(noise="laplace", fit_intercept=False),
    ]
)
def test_conformance(estimator, check):
    check(estimator)
