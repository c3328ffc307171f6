"""Mixtures: scikit-learn's likelihoods, conditionals by hand, chunks, weights, noise of rows, hard data."""

import numpy as np
import pytest
from scipy import stats
from sklearn import mixture as peer
from sklearn.datasets import load_iris

import credo
from credo.core.chunks import tables
from credo.errors import DataError
from credo.infer import EM
from credo.models.densities import CategoricalDensity, Columns, Gaussian, Poisson
from credo.models.mixture import Mixture, how_many

MEANS = np.array([[0.0, 0.0], [4.0, 1.0]])
COVARIANCES = np.array([[[1.0, 0.6], [0.6, 1.0]], [[0.5, -0.2], [-0.2, 0.4]]])
WEIGHTS = np.array([0.6, 0.4])


def truth(prior: object = "weak") -> Mixture:
    return Mixture(2, Gaussian(COVARIANCES, mean=MEANS, prior=prior), WEIGHTS)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return truth().sample(400, seed=1)


@pytest.fixture(scope="module")
def learned(x) -> Mixture:
    return credo.fit(Mixture(2), x)


def test_likelihood_is_scikit_learns_and_never_falls(x):
    start = Mixture(2, Gaussian(np.stack([np.eye(2)] * 2), mean=x[:2], prior=None), [0.5, 0.5])
    prepared, rows = start.prepare(x)
    climb = EM(1, 15, 0.0, accelerate=False).climb(prepared, rows)
    assert np.all(np.diff(climb.objectives) >= 0)
    options = {"means_init": x[:2], "precisions_init": np.stack([np.eye(2)] * 2), "weights_init": [0.5, 0.5]}
    with pytest.warns(match="converge"):
        other = peer.GaussianMixture(2, max_iter=15, tol=0, reg_covar=0, **options).fit(x)
    # scikit-learn reports the start's first M-step; the likelihoods of its parameters are ours, too.
    same = Mixture(2, Gaussian(other.covariances_, mean=other.means_), other.weights_)
    np.testing.assert_allclose(same.log_density(x), other.score_samples(x), rtol=1e-8)
    np.testing.assert_allclose(same.responsibilities(x), other.predict_proba(x), atol=1e-10)
    np.testing.assert_allclose(climb.belief.log_evidence(x), other.score(x) * len(x), rtol=1e-8)


def test_parameters_are_recovered_within_standard_errors(learned, x):
    assert learned.weights[0] > learned.weights[1]  # the largest first
    n = len(x) * WEIGHTS
    se = np.sqrt(COVARIANCES[:, [0, 1], [0, 1]] / n[:, None])
    assert np.all(np.abs(learned.density.mean - MEANS) < 4.5 * se)
    variance = learned.density.covariance[:, [0, 1], [0, 1]]
    assert np.all(np.abs(variance / COVARIANCES[:, [0, 1], [0, 1]] - 1) < 4.5 * np.sqrt(2 / n)[:, None])
    assert abs(learned.weights[0] - 0.6) < 4.5 * np.sqrt(0.24 / len(x))
    labels = learned.labels(x)
    assert np.mean(labels == truth().labels(x)) > 0.98
    doubt = learned.clusters(x)
    np.testing.assert_allclose(doubt.total, doubt.entropy())


def test_columns_given_others_are_the_dense_conditional():
    """Weights by the marginal of what was seen, means and variances by the normal equations, row by row."""
    rng = np.random.default_rng(2)
    a = rng.normal(size=(2, 4, 4))
    covariance, mean, w = a @ a.swapaxes(1, 2) + np.eye(4), rng.normal(size=(2, 4)), np.array([0.7, 0.3])
    belief = Mixture(2, Gaussian(covariance, mean=mean), w)
    x = rng.normal(size=(5, 4))
    x[:, [1, 3]] = np.nan
    x[2, 0] = np.nan
    with pytest.raises(DataError, match="row 2, column 0, which is not NaN in every row"):
        belief.predict(x)
    p = belief.predict(x, missing=True)
    assert p.shape == (5, 2) and isinstance(p, credo.core.predictive.Mixture)
    for i, row in enumerate(x):
        o, m = np.flatnonzero(np.isfinite(row)), np.array([1, 3])
        logs, means, variances = [], [], []
        for k in range(2):
            s = covariance[k]
            gain = s[np.ix_(m, o)] @ np.linalg.inv(s[np.ix_(o, o)])
            logs.append(np.log(w[k]) + stats.multivariate_normal(mean[k][o], s[np.ix_(o, o)]).logpdf(row[o]))
            means.append(mean[k][m] + gain @ (row[o] - mean[k][o]))
            variances.append(np.diag(s[np.ix_(m, m)] - gain @ s[np.ix_(o, m)]))
        share = np.exp(logs - np.logaddexp.reduce(logs))
        np.testing.assert_allclose(p.mean[i], share @ means, rtol=1e-9)
        total = share @ (np.array(variances) + np.square(means)) - (share @ means) ** 2
        np.testing.assert_allclose(p.variance[i], total, rtol=1e-9)
    np.testing.assert_allclose(p.epistemic, 0, atol=1e-12)  # to whoever knows the parameters all is noise
    with pytest.raises(DataError, match="NaN in every row, found none"):
        belief.predict(rng.normal(size=(2, 4)))
    assert belief.predict().shape == (1, 4)


def test_a_regression_with_two_answers():
    rng = np.random.default_rng(3)
    t = rng.uniform(-1, 1, size=300)
    x = np.column_stack([t, np.where(rng.random(300) < 0.5, 3.0, -3.0) + t + 0.1 * rng.normal(size=300)])
    p = credo.fit(Mixture(2), x).predict([[0.5, np.nan]])
    densities = np.exp([float(p.log_prob([y])[0]) for y in (3.5, 0.5, -2.5)])
    assert densities[0] > 0.5 and densities[2] > 0.5 and densities[1] < 1e-6
    assert p.std[0] == pytest.approx(3.0, rel=0.1)


def test_chunks_weights_and_more_rows(x, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, x)
    method = EM(1, 20, 1e-6)
    whole = credo.learn(Mixture(2), x, using=method)
    parts = credo.learn(Mixture(2), tables(np.load(path, mmap_mode="r"), rows=90), using=method)
    np.testing.assert_allclose(parts.density.mean, whole.density.mean, rtol=1e-3)
    w = np.random.default_rng(0).integers(0, 3, size=len(x))
    start = Mixture(2, Gaussian(COVARIANCES, mean=MEANS, prior=None), WEIGHTS)
    a = credo.learn(start, x, weights=w, using=method)
    b = credo.learn(start, np.repeat(x, w, axis=0), using=method)
    np.testing.assert_allclose(a.density.mean, b.density.mean, rtol=1e-10)
    half = credo.fit(Mixture(2), x[:200])
    after = half.condition(x[200:])
    assert float(after.seen.counts.sum()) == pytest.approx(400)
    assert after.log_evidence(x) > half.log_evidence(x)
    np.testing.assert_array_equal(truth().condition(x).weights, WEIGHTS)  # numbers that were given stay
    assert after.unconditioned().seen is None
    with pytest.raises(DataError, match="ends after one pass"):
        credo.learn(Mixture(2), (part for part in ()))


def test_missing_cells_are_integrated_out(x, learned):
    rng = np.random.default_rng(4)
    holes = x.copy()
    holes[rng.random(x.shape) < 0.2] = np.nan
    with pytest.raises(DataError, match="pass missing=True"):
        credo.fit(Mixture(2), holes)
    prepared, rows = Mixture(2).prepare(holes, missing=True)
    climb = EM(1, 50).climb(prepared, rows)
    assert np.all(np.diff(climb.objectives) >= 0)
    np.testing.assert_allclose(climb.belief.canonical().density.mean, learned.density.mean, atol=0.25)
    one = learned.log_density(holes[:40], missing=True)
    each = [float(learned.log_density(row[None], missing=True)[0]) for row in holes[:40]]
    np.testing.assert_allclose(one, each, rtol=1e-10)


def test_noise_of_rows_is_deconvolved(x):
    """Bovy et al. (2011): what is learned is of the rows before they were measured."""
    rng = np.random.default_rng(5)
    variances = rng.uniform(0.5, 3.0, size=x.shape)
    noisy = x + np.sqrt(variances) * rng.normal(size=x.shape)
    start = Mixture(2, Gaussian(COVARIANCES, mean=MEANS, prior=None), WEIGHTS)
    prepared, rows = start.prepare(noisy, noise=variances)
    climb = EM(1, 30).climb(prepared, rows)
    assert np.all(np.diff(climb.objectives) >= 0)
    clean, blind = climb.belief.density, credo.learn(start, noisy).density
    gap = [np.abs(each.covariance[:, [0, 1], [0, 1]] - COVARIANCES[:, [0, 1], [0, 1]]).max() for each in (clean, blind)]
    assert gap[0] < 0.5 < gap[1]
    with pytest.raises(DataError, match="full or tied covariance"):
        credo.learn(Mixture(2, Gaussian("diagonal")), noisy, noise=variances)
    with pytest.raises(DataError, match="noise must hold variances"):
        credo.learn(Mixture(2), noisy, noise=variances[:3])


def test_columns_of_several_kinds():
    rng = np.random.default_rng(6)
    z = rng.integers(2, size=300)
    x = np.column_stack([4.0 * z + rng.normal(size=300), rng.poisson(2 + 10 * z), (rng.random(300) < 0.1 + 0.8 * z)])
    kinds = Columns((Gaussian(), 0), (Poisson(), 1), (CategoricalDensity(2), 2))
    belief = credo.fit(Mixture(2, kinds), x)
    agree = np.mean(belief.labels(x) == z)
    assert max(agree, 1 - agree) > 0.97
    p = belief.predict([[4.0, 11.0, np.nan], [0.0, 1.0, np.nan]])
    np.testing.assert_allclose(p.probs[:, 1], [0.9, 0.1], atol=0.1)
    with pytest.raises(DataError, match="several kinds"):
        belief.predict([[4.0, np.nan, np.nan]])
    with pytest.raises(DataError, match="codes from 0 to 1, found 5"):
        belief.labels([[4.0, 1.0, 5.0]])


def test_a_start_given_as_responsibilities(x):
    report = credo.learn(Mixture(2), x, responsibilities=truth().responsibilities(x), report=True)
    assert len(report.optima) == 1 and report.status == "converged"
    with pytest.raises(DataError, match="responsibilities must have shape"):
        credo.learn(Mixture(2), x, responsibilities=np.ones((3, 2)) / 2)


@pytest.mark.slow
def test_how_many():
    rng = np.random.default_rng(7)
    x = np.concatenate([rng.normal(size=(60, 2)) + c for c in ([0, 0], [6, 0], [0, 6])])
    choice = how_many(x, most=4)
    assert choice.best == 3 and "k = 3" in choice.advice and "evidence" in repr(choice)
    report = credo.fit(Mixture("auto", Gaussian("diagonal"), most=4), x, report=True)
    assert report.belief.k == 3 and report.notes[-1].startswith(("All criteria", "The criteria"))
    with pytest.raises(DataError, match="leave their numbers out"):
        Mixture("auto", weights=[0.5, 0.5])
    with pytest.raises(DataError, match="using= left out"):
        credo.learn(Mixture("auto"), x, using=EM())


def test_iris_has_two_components_by_bic():
    """Fraley & Raftery (2002): unconstrained covariances, BIC 574 for two components, 580.8 for three."""
    x = load_iris().data
    bic = [credo.fit(Mixture(k, Gaussian(prior=None)), x).information_criteria(x)["bic"] for k in (1, 2, 3)]
    assert int(np.argmin(bic)) == 1 and bic[1] == pytest.approx(574.0, abs=0.2)
    assert bic[2] == pytest.approx(580.8, abs=0.5)


HARD = {
    "more components than rows": (5, [[0.0, 1.0], [2.0, 3.0], [4.0, 4.0]]),
    "one row": (1, [[1.0, 2.0]]),
    "duplicates": (2, [[1.0, 2.0]] * 6 + [[3.0, 4.0]] * 6),
    "a constant column": (2, [[float(i % 7), 5.0] for i in range(20)]),
    "a column that was never seen": (2, [[float(i % 7), np.nan] for i in range(20)]),
}


@pytest.mark.parametrize("prior", ["weak", None])
@pytest.mark.parametrize("name", HARD)
@pytest.mark.filterwarnings("ignore::credo.errors.NotConvergedWarning")
def test_hard_data_are_learned(name, prior):
    k, rows = HARD[name]
    belief = credo.fit(Mixture(k, Gaussian(prior=prior)), rows, missing=True, using=EM(2, 60))
    assert np.all(np.isfinite(belief.density.mean)) and np.all(np.linalg.eigvalsh(belief.density.covariance) > 0)
    assert np.all(np.isfinite(belief.log_density(rows, missing=True)))
    np.testing.assert_allclose(belief.responsibilities(rows, missing=True).sum(1), 1)


def test_what_is_wrong_is_said(x):
    for wrong, sentence in [
        (lambda: Mixture(0), "k must be a whole number"),
        (lambda: Mixture("many"), 'or "auto"'),
        (lambda: Mixture(2, "gaussian"), "density must be one of"),
        (lambda: Mixture(2).predict(), "not known yet; learn"),
        (lambda: Mixture(2).condition(x), "not known yet; learn"),
        (lambda: truth().log_density(np.ones((2, 3))), "x must have 2 columns"),
        (lambda: credo.learn(Mixture(2), [[np.nan, np.nan]], missing=True), "no cell that was seen"),
        (lambda: credo.learn(Mixture(2, concentration=0.5), x), "EM needs concentration ≥ 1"),
        (lambda: credo.learn(Mixture(2), x, weights=-np.ones(400)), "weights must be ≥ 0"),
        (lambda: credo.learn(truth(), x, fixed=["density.mean"], using=EM()), "learns a density as a whole"),
    ]:
        with pytest.raises(DataError, match=sentence):
            wrong()
