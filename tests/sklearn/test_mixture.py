"""`credo.sklearn.GaussianMixture` and `BayesianMixture`: scikit-learn's conformance suite, and scikit-learn itself."""

import numpy as np
import pytest
from sklearn import mixture
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from credo.sklearn import BayesianMixture, GaussianMixture


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([GaussianMixture(n_init=1, max_iter=20), BayesianMixture(n_init=1, max_iter=20)])
def test_conformance(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_the_same_start_leads_to_the_same_likelihood_and_criteria(kind):
    x = load_iris().data
    means = x[[10, 70, 120]]
    shapes = {"full": np.stack([np.eye(4)] * 3), "tied": np.eye(4), "diag": np.ones((3, 4)), "spherical": np.ones(3)}
    start = {"weights_init": np.full(3, 1 / 3), "means_init": means, "precisions_init": 4 * shapes[kind]}
    # Without regularization, as far as credo's floor of a millionth of a row allows.
    own = GaussianMixture(3, covariance_type=kind, tol=1e-12, max_iter=3000, **start).fit(x)
    peer = mixture.GaussianMixture(3, covariance_type=kind, tol=1e-12, max_iter=3000, reg_covar=0, **start).fit(x)
    assert own.score(x) == pytest.approx(peer.score(x), rel=1e-7)
    assert own.bic(x) == pytest.approx(peer.bic(x), rel=1e-7) and own.aic(x) == pytest.approx(peer.aic(x), rel=1e-7)
    order = np.argsort(-peer.weights_)
    np.testing.assert_allclose(own.means_, peer.means_[order], rtol=1e-3)
    np.testing.assert_allclose(own.predict_proba(x), peer.predict_proba(x)[:, order], atol=1e-3)
    assert own.covariances_.shape == peer.covariances_.shape and own.precisions_.shape == peer.precisions_.shape
    assert own.converged_ and own.n_iter_ >= 1
    rows, labels = own.sample(50, random_state=1)
    assert rows.shape == (50, 4) and set(labels) <= {0, 1, 2}


def test_components_switch_off_and_more_rows_can_be_learned():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(80, 2)), rng.normal(size=(80, 2)) + 7])[rng.permutation(160)]
    model = BayesianMixture(3, n_init=1).fit(x)
    assert (model.weights_ > 0.02).sum() == 2
    halves = BayesianMixture(3, n_init=1).partial_fit(x[:80]).partial_fit(x[80:])
    assert (halves.weights_ > 0.02).sum() == 2
    np.testing.assert_allclose(np.sort(halves.means_[:2, 0]), np.sort(model.means_[:2, 0]), atol=0.05)
    assert halves.belief_.seen.counts.sum() == pytest.approx(160)


def test_weights_count_rows_and_nan_is_integrated_out():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 5])
    w = rng.integers(1, 4, size=80)
    start = {"means_init": [[0.0, 0], [5, 5]], "weights_init": [0.5, 0.5], "precisions_init": np.stack([np.eye(2)] * 2)}
    twice = GaussianMixture(2, **start).fit(np.repeat(x, w, axis=0))
    np.testing.assert_allclose(GaussianMixture(2, **start).fit(x, sample_weight=w).means_, twice.means_, rtol=1e-9)
    x[rng.random(x.shape) < 0.2] = np.nan
    model = GaussianMixture(2, missing=True, **start).fit(x)
    np.testing.assert_allclose(np.sort(model.means_[:, 0]), [0, 5], atol=0.6)
    with pytest.raises(ValueError, match="NaN"):
        GaussianMixture(2).fit(x)
