"""`credo.sklearn.HMM`: scikit-learn's conformance suite where it applies, hmmlearn's conventions, hmmlearn itself."""

import itertools

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import credo
from credo.errors import DataError
from credo.models.densities import Gaussian
from credo.sklearn.hmm import HMM


class Unsupervised(HMM):
    """With the y that scikit-learn's checks pass; hmmlearn has `lengths` in its place."""

    def fit(self, X, y=None, lengths=None):
        return super().fit(X, lengths)

    def score(self, X, y=None, lengths=None):
        return super().score(X, lengths)


IN_TIME = "rows follow each other in time: what is said of one depends on its neighbours"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [Unsupervised(covariance_type="diag", starts=1, n_iter=1)],
    expected_failed_checks=lambda estimator: {
        "check_methods_subset_invariance": IN_TIME,
        "check_methods_sample_order_invariance": IN_TIME,
    },
)
def test_conformance(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    truth = credo.models.hmm.HMM(2, Gaussian([[0.5], [1.0]], mean=[-1.0, 2.0]), [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    return np.asarray(truth.simulate(120, seed=3)[1])


@pytest.fixture(scope="module")
def model(x) -> HMM:
    return HMM(2, covariance_type="diag", random_state=1).fit(x, [70, 50])


def test_it_is_the_belief(model, x):
    hmm = model.belief_
    lengths = [70, 50]
    np.testing.assert_array_equal(model.predict(x, lengths), hmm.viterbi(x, lengths))
    np.testing.assert_allclose(model.predict_proba(x, lengths), hmm.smooth(x, lengths))
    assert model.score(x, lengths) == pytest.approx(float(hmm.log_evidence(x, lengths)))
    assert model.score(x, lengths) == pytest.approx(model.score(x[:70]) + model.score(x[70:]))
    np.testing.assert_allclose(model.transmat_.sum(1), 1.0)
    np.testing.assert_allclose(np.sort(np.ravel(hmm.emission.mean)), [-1.0, 2.0], atol=0.7)
    rows, states = model.sample(5, random_state=2)
    assert rows.shape == (5, 1) and states.shape == (5,)
    total, probs = model.score_samples(x)
    assert total == pytest.approx(model.score(x)) and probs.shape == (120, 2)
    assert clone(model).get_params() == model.get_params()


def test_decoding_scores_the_path(model, x):
    rows = x[:5]
    score, path = model.decode(rows)
    mean, variance = (np.ravel(v) for v in (model.belief_.emission.mean, model.belief_.emission.variance))

    def log_joint(z: tuple[int, ...]) -> float:
        moves = sum(np.log(model.transmat_[i, j]) for i, j in itertools.pairwise(z))
        shown = stats.norm.logpdf(rows[:, 0], mean[list(z)], np.sqrt(variance[list(z)])).sum()
        return np.log(max(model.startprob_[z[0]], 1e-300)) + moves + shown

    every = {z: log_joint(z) for z in itertools.product(range(2), repeat=5)}
    assert score == pytest.approx(max(every.values()), rel=1e-8)
    assert tuple(path) == max(every, key=lambda z: every[z])
    score, path = model.decode(rows, algorithm="map")
    np.testing.assert_array_equal(path, model.predict_proba(rows).argmax(1))


def test_other_emissions_and_gaps(x):
    counts = np.abs(np.round(x[:60]))
    assert HMM(2, "poisson", starts=1).fit(counts).predict(counts).shape == (60,)
    gaps = x[:60].copy()
    gaps[10:13] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        HMM(2, starts=1).fit(gaps)
    model = HMM(2, covariance_type="diag", starts=1, missing=True).fit(gaps)
    assert np.all(np.isfinite(model.predict_proba(gaps)))


def test_refusals(x):
    with pytest.raises(DataError, match="emission must be one of"):
        HMM(emission="exponential").fit(x)
    with pytest.raises(DataError, match="covariance_type must be"):
        HMM(covariance_type="round").fit(x)
    with pytest.raises(DataError, match="add up"):
        HMM().fit(x, [3, 4])
    with pytest.raises(DataError, match="algorithm"):
        HMM(starts=1, covariance_type="diag", n_iter=50).fit(x).decode(x, algorithm="best")


def test_hmmlearn_says_the_same(model, x):
    peer = pytest.importorskip("hmmlearn.hmm").GaussianHMM(2, covariance_type="diag")
    peer.startprob_, peer.transmat_ = model.startprob_, model.transmat_
    peer.means_, peer.covars_ = np.array(model.belief_.emission.mean), np.array(model.belief_.emission.variance)
    lengths = [70, 50]
    assert model.score(x, lengths) == pytest.approx(peer.score(x, lengths), rel=1e-8)
    np.testing.assert_array_equal(model.predict(x, lengths), peer.predict(x, lengths))
    np.testing.assert_allclose(model.predict_proba(x, lengths), peer.predict_proba(x, lengths), rtol=1e-6, atol=1e-12)
    assert model.decode(x, lengths)[0] == pytest.approx(peer.decode(x, lengths)[0], rel=1e-8)
