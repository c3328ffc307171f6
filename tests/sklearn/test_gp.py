"""`GPRegressor`: scikit-learn's conformance suite, and scikit-learn's own Gaussian process as an oracle."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as peers
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import credo
from credo.errors import DataError
from credo.kernels import RBF, Matern52
from credo.models.likelihoods import Bernoulli, Categorical
from credo.sklearn import GPClassifier, GPRegressor


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([GPRegressor(starts=1), GPClassifier()])
def test_conformance(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    return x, np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=40)


def test_without_learning_it_is_scikit_learn_s(data):
    x, y = data
    ours = GPRegressor(RBF([0.5, 2.0], 1.3), mean=0.0, noise=0.01, learn=False).fit(x, y)
    theirs = GaussianProcessRegressor(1.3 * peers.RBF([0.5, 2.0]), alpha=0.01, optimizer=None).fit(x, y)
    mean, std = ours.predict(x[:5] + 0.1, return_std=True)
    want, latent = theirs.predict(x[:5] + 0.1, return_std=True)
    np.testing.assert_allclose(mean, want, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(std**2 - 0.01, latent**2, rtol=1e-6, atol=1e-9)


def test_learning_through_scikit_learn_is_learning(data):
    x, y = data
    model = GPRegressor(Matern52(ard=True), random_state=1).fit(x, y)
    assert model.score(x, y) > 0.95
    assert model.noise_variance_ == pytest.approx(0.01, rel=0.8)
    assert isinstance(model.belief_, credo.GP) and model.kernel_ is model.belief_.kernel
    plain = credo.fit(credo.GP(Matern52(ard=True)), x, y)
    np.testing.assert_allclose(model.predict(x), plain.predict(x).mean, atol=0.05)
    lower, upper = model.predict_interval(x).T
    assert 0.9 <= np.mean((lower < y) & (y < upper)) <= 1.0
    assert model.sample(x[:3], n=5).shape == (5, 3)


def test_in_pipelines_and_searches(data):
    x, y = data
    scores = cross_val_score(make_pipeline(StandardScaler(), GPRegressor(starts=1)), x, y, cv=3)
    assert scores.mean() > 0.7
    grid = GridSearchCV(GPRegressor(starts=1), {"kernel": [RBF(), Matern52()]}, cv=2).fit(x, y)
    assert grid.best_score_ > 0.5


def test_refusals(data):
    with pytest.raises(DataError, match="one of credo.kernels"):
        GPRegressor(kernel="rbf").fit(*data)


def test_classes_have_probabilities_as_the_belief_has_them():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 2))
    for y in (np.where(x[:, 0] > 0, "up", "down"), np.array(["a", "b", "c"])[np.digitize(x[:, 0], [-0.4, 0.4])]):
        model = GPClassifier().fit(x, y)
        assert model.score(x, y) > 0.9 and model.classes_.tolist() == sorted(set(y))
        plain = credo.fit(credo.LatentGP(Bernoulli() if len(set(y)) == 2 else Categorical()), x, y)
        np.testing.assert_allclose(model.predict_proba(x), plain.predict(x).probs, atol=1e-6)
    with pytest.raises(DataError, match="one class only"):
        GPClassifier().fit(x, np.zeros(60))
