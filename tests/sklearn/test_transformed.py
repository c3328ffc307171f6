"""The same problem told otherwise has the same answer: other units, rows in another order, weights for rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from credo.sklearn import HMM, BayesianGLMRegressor, BayesianLinearRegressor, BayesianLogisticClassifier, GPRegressor

RNG = np.random.default_rng(0)
N = 30
X = RNG.normal(size=(N, 2)) * [1.0, 10.0] + [0.0, 5.0]
Y = X @ [1.0, 0.2] + 0.3 * RNG.normal(size=N)
CLASSES, COUNTS = (np.median(Y) < Y).astype(int), RNG.poisson(np.exp(0.3 * X[:, 0] + 1))
QUERIES = X[:4] + 0.05
WEIGHTS = RNG.integers(1, 4, size=N)
TWICE = np.repeat(np.arange(N), WEIGHTS)

ESTIMATORS = {
    "ridge": (BayesianLinearRegressor(), Y),
    "ard": (BayesianLinearRegressor("ard"), Y),
    "unknown noise": (BayesianLinearRegressor(noise="unknown"), Y),
    "polynomial": (BayesianLinearRegressor(features="polynomial"), Y),
    "gp": (GPRegressor(), Y),
    "logistic": (BayesianLogisticClassifier(), CLASSES),
    "logistic, polynomial": (BayesianLogisticClassifier(features="polynomial"), CLASSES),
    "softmax": (BayesianLogisticClassifier(), COUNTS % 3),
    "poisson": (BayesianGLMRegressor("poisson"), COUNTS),
}
REAL = [name for name, (_, y) in ESTIMATORS.items() if y is Y]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def said(estimator, x, y, queries=QUERIES, **options) -> np.ndarray:
    """Means and deviations, or probabilities."""
    fitted = clone(estimator).fit(x, y, **options)
    if hasattr(fitted, "predict_proba"):
        return fitted.predict_proba(queries)
    return np.stack(fitted.predict(queries, return_std=True))


def assert_same(found: np.ndarray, wanted: np.ndarray, unit: float = 1.0) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * unit)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_order_of_rows_does_not_matter(name):
    estimator, y = ESTIMATORS[name]
    order = np.random.default_rng(1).permutation(N)
    assert_same(said(estimator, X[order], y[order]), said(estimator, X, y))


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if n != "gp"])
def test_a_weight_counts_rows(name):
    estimator, y = ESTIMATORS[name]
    assert_same(said(estimator, X, y, sample_weight=WEIGHTS), said(estimator, X[TWICE], y[TWICE]))


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize(("scale", "shift"), [(1e-10, 0.0), (1e10, 1e16)])
def test_outcomes_in_other_units(name, scale, shift):
    estimator, y = ESTIMATORS[name]
    mean, std = said(estimator, X, scale * y + shift)
    assert_same(np.stack([(mean - shift) / scale, std / scale]), said(estimator, X, y))


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if "polynomial" not in n])
def test_inputs_in_other_units(name):
    """But for polynomials, whose prior is of the powers of the inputs as they are."""
    estimator, y = ESTIMATORS[name]
    scale, shift = np.array([10.0, 0.1]), np.array([3.0, -7.0])
    assert_same(said(estimator, X * scale + shift, y, QUERIES * scale + shift), said(estimator, X, y))


@pytest.mark.parametrize("name", [*ESTIMATORS, "hmm"])
def test_columns_in_another_order_are_refused(name):
    frame = pd.DataFrame(X, columns=["a", "b"])
    estimator, y = ESTIMATORS.get(name, (HMM(starts=1, n_iter=3), None))
    fitted = clone(estimator).fit(frame, y) if y is not None else clone(estimator).fit(frame)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        fitted.predict(frame[["b", "a"]])
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame.rename(columns={"b": "c"}))


def test_joint_predictions_of_a_glm_covary():
    few = X[:8]
    fitted = BayesianGLMRegressor("poisson").fit(few, COUNTS[:8])
    far = np.repeat(few[:1] + 3 * np.ptp(few, axis=0), 2, axis=0)  # where the weights are the doubt
    together = fitted.predict_distribution(far, joint=True)
    draws = np.log1p(np.abs(together.sample(2000)))
    assert np.corrcoef(draws.T)[0, 1] > 0.5
