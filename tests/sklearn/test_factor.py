"""`credo.sklearn.FactorAnalysis` and `PPCA`: scikit-learn's conformance suite, and its own estimators."""

import numpy as np
import pytest
from sklearn import decomposition
from sklearn.utils.estimator_checks import parametrize_with_checks

import credo
from credo.sklearn import PPCA, FactorAnalysis

TRUTH = credo.FactorAnalysis(
    mean=np.arange(5.0), w=np.array([[1, 0, 2, -1, 0.5], [0.5, 1, 0, 1, -1]]).T, noise=np.ones(5)
)
X = TRUTH.sample(200, seed=1)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([FactorAnalysis(1), PPCA(1)])
def test_conformance(estimator, check):
    check(estimator)


def test_factor_analysis_is_scikit_learns():
    ours = FactorAnalysis(2).fit(X)
    peer = decomposition.FactorAnalysis(2, tol=1e-10, max_iter=20_000, svd_method="lapack").fit(X)
    assert ours.score(X) == pytest.approx(peer.score(X), rel=1e-8)
    np.testing.assert_allclose(ours.score_samples(X), peer.score_samples(X), rtol=1e-3)
    np.testing.assert_allclose(ours.noise_variance_, peer.noise_variance_, rtol=1e-3)
    np.testing.assert_allclose(ours.get_precision() @ ours.get_covariance(), np.eye(5), atol=1e-10)
    assert ours.components_.shape == peer.components_.shape and ours.mean_ == pytest.approx(peer.mean_)
    assert ours.get_feature_names_out().tolist() == ["factoranalysis0", "factoranalysis1"]


def test_ppca_is_scikit_learns():
    ours, peer = PPCA(2).fit(X), decomposition.PCA(2).fit(X)
    np.testing.assert_allclose(ours.get_covariance(), peer.get_covariance() * 199 / 200, rtol=1e-8, atol=1e-10)
    assert ours.noise_variance_ == pytest.approx(peer.noise_variance_ * 199 / 200)
    signs = np.sign((ours.transform(X) * peer.transform(X)).sum(0))
    shrunk = (ours.components_**2).sum(1)
    want = peer.transform(X) * signs * np.sqrt(shrunk) / (shrunk + ours.noise_variance_)
    np.testing.assert_allclose(ours.transform(X), want, rtol=1e-6, atol=1e-9)


def test_gaps_and_choices():
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    with pytest.raises(ValueError, match="NaN"):
        FactorAnalysis(2).fit(gaps)
    model = FactorAnalysis("auto", missing=True).fit(gaps)
    assert model.n_components_ == 2 and not np.isnan(model.impute(gaps)).any()
    assert model.transform(gaps).shape == (200, 2) and model.sample(3).shape == (3, 5)
    assert model.inverse_transform(model.transform(gaps)).shape == X.shape
