"""`BayesianLogisticClassifier` and `BayesianGLMRegressor`: scikit-learn's conformance suite, and peers as oracles."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from credo.core.predictive import Bernoulli, Categorical, Mixture
from credo.errors import DataError
from credo.models.features import Polynomial
from credo.sklearn.glm import BayesianGLMRegressor, BayesianLogisticClassifier

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 3)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 0.0]
ETA = X @ [1.0, -0.1, 5.0] + 5.0
LABELS = np.where(RNG.random(120) < 1 / (1 + np.exp(-ETA)), "yes", "no")
COUNTS = RNG.poisson(np.exp(0.5 * ETA)).astype(float)


NUMERICAL = (
    *("check_sample_weight_equivalence_on_dense_data", "check_regressors_train", "check_fit2d_1sample"),
    *("check_methods_subset_invariance", "check_estimators_pickle"),
)


# Tiny check data determine little: the warning says so, and is right.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([BayesianLogisticClassifier()])
def test_conformance(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", NUMERICAL)
def test_conformance_of_the_regressor(name):
    """Checks that see more than the class, its options and its messages, which the classifier has too."""
    checks = [
        (estimator, check)
        for estimator, check in estimator_checks_generator(BayesianGLMRegressor())
        if getattr(check, "func", check).__name__ == name
    ]
    assert checks
    for estimator, check in checks:
        check(estimator)


@pytest.fixture(scope="module")
def binary():
    return BayesianLogisticClassifier().fit(X, LABELS)


def test_weights_are_the_peers_at_the_same_penalty(binary):
    scaler = StandardScaler().fit(X)
    precision, intercept = float(binary.belief_.prior.precision), binary.belief_.intercept
    # The intercept is penalized too: as a feature of its own, scaled to the same precision, from its prior mean.
    pull = float(intercept.mean)
    assert abs(binary.belief_.law.center[0] - pull) < 5 * np.sqrt(float(intercept.variance))
    free = LogisticRegression(C=1 / precision, tol=1e-10, max_iter=1000).fit(scaler.transform(X), LABELS)
    np.testing.assert_allclose(binary.coef_, free.coef_ / scaler.scale_, rtol=0.02)
    assert binary.coef_.shape == (1, 3) and binary.intercept_.shape == (1,)
    eta = X @ binary.coef_[0] + binary.intercept_
    agree = np.sign(eta) == np.sign(binary.decision_function(X))
    assert agree.all()  # integrating over the weights moves probabilities towards a half, not across it


def test_probabilities(binary):
    assert list(binary.classes_) == ["no", "yes"]
    p = binary.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(binary.predict(X), binary.classes_[p.argmax(1)])
    np.testing.assert_allclose(binary.decision_function(X), np.log(p[:, 1] / p[:, 0]), rtol=1e-10)
    distribution = binary.predict_distribution(X)
    assert isinstance(distribution, Bernoulli)
    np.testing.assert_allclose(distribution.total, distribution.entropy(), rtol=1e-10)
    assert binary.score(X, LABELS) > 0.65


def test_several_classes():
    codes = np.digitize(ETA, [-1.0, 1.0])
    labels = np.array(["low", "middle", "high"])[codes]
    model = BayesianLogisticClassifier().fit(X, labels)
    assert list(model.classes_) == ["high", "low", "middle"]
    assert isinstance(model.predict_distribution(X), Categorical)
    assert model.coef_.shape == (2, 3) and model.decision_function(X).shape == (120, 3)
    assert model.score(X, labels) > 0.8


def test_counts_follow_their_peer():
    model = BayesianGLMRegressor(family="poisson").fit(X, COUNTS)
    scaler = StandardScaler().fit(X)
    penalty = float(model.belief_.prior.precision) / len(COUNTS)
    peer = PoissonRegressor(alpha=penalty, tol=1e-10, max_iter=1000).fit(scaler.transform(X), COUNTS)
    np.testing.assert_allclose(model.coef_, peer.coef_ / scaler.scale_, rtol=0.02)
    p = model.predict_distribution(X)
    assert isinstance(p, Mixture)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, p.mean)
    assert np.all(std**2 >= mean)
    lower, upper = model.predict_interval(X, 0.9).T
    assert np.mean((lower <= COUNTS) & (upper >= COUNTS)) > 0.85


@pytest.mark.parametrize("family", ["negative-binomial", "student-t"])
def test_other_families(family):
    model = BayesianGLMRegressor(family=family).fit(X, COUNTS)
    assert isinstance(model.predict_distribution(X[:3]), Mixture)
    assert np.isfinite(model.log_evidence_)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X[:3]), model.predict(X[:3]))


def test_draws_are_joint():
    """Draws at rows covary as their predictors do under what is believed of the weights."""
    x = RNG.normal(size=(12, 1))
    model = BayesianGLMRegressor().fit(x, 0.5 * x[:, 0] + RNG.normal(size=12))
    queries = np.array([[3.0], [3.0], [-3.0]])
    means = np.asarray(model.predict_distribution(queries, joint=True).parts[0].mean)
    np.testing.assert_allclose(means[:, 0], means[:, 1], rtol=1e-12)
    assert np.corrcoef(means[:, 0], means[:, 2])[0, 1] < 0.9
    draws = np.clip(model.sample(queries, 4000), -20, 20)  # so that moments of Student's t exist
    product = (draws[:, 0] - draws[:, 0].mean()) * (draws[:, 1:] - draws[:, 1:].mean(axis=0)).T
    se = product.std(axis=1, ddof=1) / np.sqrt(4000)
    want = [np.cov(means[:, 0], means[:, k])[0, 1] for k in (1, 2)]
    assert np.all(np.abs(product.mean(axis=1) - want) < 4.5 * se)


def test_works_in_searches_and_with_features():
    pipeline = make_pipeline(StandardScaler(), BayesianLogisticClassifier())
    search = GridSearchCV(pipeline, {"bayesianlogisticclassifier__fit_intercept": [True, False]}, cv=2)
    assert search.fit(X, LABELS).score(X, LABELS) > 0.65
    frame = pd.DataFrame(X / 10, columns=["a", "b", "c"])
    model = BayesianLogisticClassifier(features=Polynomial(2)).fit(frame, LABELS)
    assert model.coef_.shape == (1, 9)
    assert model.belief_.coefficient_names()[:4] == ["intercept", "a", "b", "c"]


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (BayesianLogisticClassifier(prior="lass"), "prior must be one of 'ridge', 'ard', found 'lass'"),
        (BayesianLogisticClassifier(features=3), "features must be None, a text or credo Features, found int"),
        (BayesianGLMRegressor(family="gamma"), "family must be one of 'poisson', 'negative-binomial', 'student-t'"),
    ],
)
def test_refuses_unknown_options(estimator, message):
    with pytest.raises(DataError, match=message):
        estimator.fit(X, COUNTS if isinstance(estimator, BayesianGLMRegressor) else LABELS)


def test_refuses_data_it_cannot_use():
    with pytest.raises(DataError, match="y has one class only"):
        BayesianLogisticClassifier().fit(X, LABELS, sample_weight=(LABELS == "no").astype(float))
    with pytest.raises(DataError, match="y must hold whole numbers ≥ 0, found 0.5"):
        BayesianGLMRegressor(family="poisson").fit(X, np.full(120, 0.5))
