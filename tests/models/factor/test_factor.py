"""Factor analysis and PPCA against scikit-learn, dense Gaussians, finite differences and simulated truths."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn import decomposition
from sklearn.decomposition._pca import _assess_dimension

import credo
from credo.core import params
from credo.errors import DataError, NotConvergedWarning
from credo.infer import EM
from credo.models.factor import how_many
from credo.models.factor.selection import minka

RNG = np.random.default_rng(3)
D, L, N = 7, 2, 300
W = RNG.normal(size=(D, L))
PSI = RNG.uniform(0.3, 1.2, D)
MEAN = np.arange(D) - 3.0
X = MEAN + RNG.normal(size=(N, L)) @ W.T + RNG.normal(size=(N, D)) * np.sqrt(PSI)
GAPS = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
TRUTH = credo.FactorAnalysis(mean=MEAN, w=W, noise=PSI)
KINDS = {"FactorAnalysis": credo.FactorAnalysis, "PPCA": credo.PPCA}


@pytest.fixture(scope="module")
def fa() -> credo.FactorAnalysis:
    return credo.fit(credo.FactorAnalysis(L), X)


@pytest.fixture(scope="module")
def filled() -> credo.FactorAnalysis:
    return credo.fit(credo.FactorAnalysis(L), GAPS, missing=True)


def dense(p: credo.FactorAnalysis) -> stats.multivariate_normal:
    return stats.multivariate_normal(p.mean, p.w @ p.w.T + np.diag(np.broadcast_to(p.noise, D)))


# -- learning ------------------------------------------------------------------------------------------------------


def test_the_likelihood_of_factor_analysis_is_scikit_learns(fa):
    peer = decomposition.FactorAnalysis(L, tol=1e-10, max_iter=20_000, svd_method="lapack").fit(X)
    np.testing.assert_allclose(float(fa.log_evidence(X)) / N, peer.score(X), rtol=1e-9)
    np.testing.assert_allclose(fa.noise, peer.noise_variance_, rtol=1e-3)
    np.testing.assert_allclose(fa.covariance, peer.get_covariance(), atol=1e-3)


def test_ppca_is_the_eigendecomposition():
    """scikit-learn divides by n - 1, we by n."""
    ours, peer = credo.fit(credo.PPCA(L), X), decomposition.PCA(L).fit(X)
    np.testing.assert_allclose(ours.covariance, peer.get_covariance() * (N - 1) / N, rtol=1e-9, atol=1e-12)
    assert float(ours.noise) == pytest.approx(peer.noise_variance_ * (N - 1) / N, rel=1e-9)
    given = credo.PPCA(
        mean=peer.mean_,
        w=peer.components_.T * np.sqrt(peer.explained_variance_ - peer.noise_variance_),
        noise=peer.noise_variance_,
    )
    np.testing.assert_allclose(given.log_density(X), peer.score_samples(X), rtol=1e-9)
    assert float(ours.log_evidence(X)) >= float(given.log_evidence(X))


@pytest.mark.parametrize("kind", KINDS)
def test_em_climbs_to_the_same_maximum(kind):
    """Plain or extrapolated, it never falls (which `EM` checks), and ends where the closed form is."""
    best = float(credo.fit(KINDS[kind](L), X).log_evidence(X))
    noise = np.ones(D) if kind == "FactorAnalysis" else 1.0
    start = KINDS[kind](mean=np.zeros(D), w=RNG.normal(size=(D, L)), noise=noise)
    for accelerate in (True, False):
        climb = EM(max_steps=2000, tolerance=1e-11, accelerate=accelerate).climb(start, start.statistics(X))
        assert climb.status == "converged"
        assert climb.objective == pytest.approx(best, abs=1e-4)
        assert np.all(np.diff(climb.objectives) >= -1e-8)


def test_the_gradient_vanishes_at_the_maximum_with_missing_entries(filled):
    """Central differences of log p(seen entries), computed by dense Gaussians."""
    slots = params.layout(filled)
    top = np.asarray(params.to_vector(filled, slots))

    def height(u: np.ndarray) -> float:
        law = dense(params.from_vector(filled, slots, u))
        return sum(log_density(law, row) for row in GAPS)

    for i in RNG.choice(len(top), 6, replace=False):
        h = 1e-4 * np.eye(len(top))[i]
        slope = (height(top + h) - height(top - h)) / 2e-4
        assert abs(slope) < 0.15  # nats for a unit; the curvature is some 100
    assert height(top) == pytest.approx(float(filled.log_evidence(GAPS, missing=True)), rel=1e-9)


def log_density(law, row: np.ndarray) -> float:
    o = ~np.isnan(row)
    if not o.any():
        return 0.0
    return stats.multivariate_normal.logpdf(row[o], law.mean[o], law.cov[np.ix_(o, o)])


def test_parameters_are_recovered_within_standard_errors(filled):
    n = 4000
    rng = np.random.default_rng(1)
    rows = TRUTH.sample(n, seed=4)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    found = credo.fit(credo.FactorAnalysis(L), rows, missing=True)
    var = np.asarray(TRUTH.covariance).diagonal()
    se = np.sqrt((np.outer(var, var) + np.asarray(TRUTH.covariance) ** 2) / (0.64 * n))
    assert np.all(np.abs(found.covariance - TRUTH.covariance) < 4.5 * se)
    assert np.all(np.abs(found.mean - MEAN) < 4.5 * np.sqrt(var / (0.8 * n)))


def test_missing_entries_at_random_places_and_whole_blocks_are_one_algorithm(filled):
    """Without a missing entry the EM of rows is the EM of moments."""
    rows = TRUTH.statistics(X)
    split = credo.models.factor.statistics.Rows(None, X, np.ones(X.shape, bool), np.ones(N))
    (a, log_a), (b, log_b) = TRUTH.expect(rows), TRUTH.expect(split)
    for one, other in zip(a, b, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-8)
    assert float(log_a) == pytest.approx(float(log_b), rel=1e-12)
    assert float(log_a) == pytest.approx(float(dense(TRUTH).logpdf(X).sum()), rel=1e-12)


def test_weights_chunks_and_more_rows_are_the_same_rows(fa):
    twice = credo.fit(credo.FactorAnalysis(L), np.vstack([X, X[:50]]))
    weighed = credo.fit(credo.FactorAnalysis(L), X, weights=np.where(np.arange(N) < 50, 2.0, 1.0))
    np.testing.assert_allclose(weighed.covariance, twice.covariance, rtol=1e-5, atol=1e-7)
    chunked = credo.fit(credo.FactorAnalysis(L), (X[i : i + 90] for i in range(0, N, 90)))
    pairs = credo.fit(credo.FactorAnalysis(L), credo.core.chunks.chunks(X, X[:, 0], rows=90))
    later = credo.fit(credo.FactorAnalysis(L).condition(X[:100]).condition(X[100:]))
    more = credo.fit(credo.fit(credo.FactorAnalysis(L), X[:100]), X[100:])
    for other in (chunked, pairs, later, more):
        np.testing.assert_allclose(other.covariance, fa.covariance, rtol=1e-5, atol=1e-7)
        assert float(other.seen.count) == N


def test_what_is_fixed_stays():
    start = credo.FactorAnalysis(mean=MEAN, w=W, noise=PSI)
    for path in ("mean", "w", "noise"):
        found = credo.learn(start, X, fixed=[path], using=EM(starts=1, max_steps=500, tolerance=1e-9))
        np.testing.assert_array_equal(getattr(found, path), getattr(start, path))
        by_gradient = credo.learn(start, X, fixed=[path], using=credo.infer.Evidence(starts=1, flat=False))
        assert float(found.log_evidence(X)) == pytest.approx(float(by_gradient.log_evidence(X)), abs=1e-3)


def test_relevance_switches_factors_off():
    rows = TRUTH.sample(1000, seed=5)
    found = credo.fit(credo.FactorAnalysis(5, prior="ard"), rows)
    assert found.l == L and found.w.shape == (D, L)
    assert float(found.log_evidence(rows)) > float(TRUTH.log_evidence(rows)) - 5
    even = credo.PPCA(mean=MEAN, w=W, noise=0.5).sample(1000, seed=6)
    assert credo.fit(credo.PPCA(prior="ard"), even).l == L


# -- questions ------------------------------------------------------------------------------------------------------


def test_conditional_predictions_are_the_dense_conditional(filled):
    mean, covariance = np.asarray(filled.mean), np.asarray(filled.covariance)
    p = filled.predict(GAPS[:12])
    draws = filled.impute(GAPS[:12], draws=4000, seed=1)
    for i, row in enumerate(GAPS[:12]):
        o, m = ~np.isnan(row), np.isnan(row)
        gain = covariance[np.ix_(m, o)] @ np.linalg.inv(covariance[np.ix_(o, o)])
        left = covariance[np.ix_(m, m)] - gain @ covariance[np.ix_(o, m)]
        want = mean[m] + gain @ (row[o] - mean[o])
        np.testing.assert_allclose(p.mean[i, m], want, rtol=1e-8)
        np.testing.assert_allclose(p.variance[i, m], left.diagonal(), rtol=1e-8)
        np.testing.assert_array_equal(p.mean[i, o], row[o])
        assert np.all(p.variance[i, o] == 0) and np.all(p.epistemic[i] == 0)
        drawn = draws[:, i][:, m]
        assert np.all(np.abs(drawn.mean(0) - want) < 4.5 * np.sqrt(left.diagonal() / 4000))
        if m.sum() > 1:
            spread = np.sqrt((np.outer(left.diagonal(), left.diagonal()) + left**2) / 4000)
            assert np.all(np.abs(np.cov(drawn.T) - left) < 5 * spread)
    np.testing.assert_allclose(filled.impute(GAPS[:12]), p.mean)


def test_factors_and_the_next_row(fa):
    found = fa.factors(X[:5])
    inner = np.linalg.inv(np.eye(L) + fa.w.T @ (fa.w / fa.noise[:, None]))
    np.testing.assert_allclose(found.mean, (X[:5] - fa.mean) / fa.noise @ fa.w @ inner, rtol=1e-8)
    np.testing.assert_allclose(found.epistemic, np.tile(inner.diagonal(), (5, 1)))
    peer = decomposition.FactorAnalysis(L, tol=1e-10, max_iter=20_000, svd_method="lapack").fit(X)
    turn, *_ = np.linalg.lstsq(peer.transform(X), np.asarray(fa.factors(X).mean), rcond=None)
    np.testing.assert_allclose(turn.T @ turn, np.eye(L), atol=1e-3)
    np.testing.assert_allclose(fa.predict().variance, fa.covariance.diagonal())
    np.testing.assert_allclose(fa.log_density(X), dense(fa).logpdf(X), rtol=1e-9)
    columns = fa.predict(X[:4], columns=[2, -1])
    hidden = X[:4].copy()
    hidden[:, [2, 6]] = np.nan
    np.testing.assert_allclose(columns.mean, fa.predict(hidden).mean[:, [2, 6]])
    assert np.isnan(X).sum() == 0


def test_the_anomaly_score_is_uniform_where_nothing_is_odd():
    rows = TRUTH.sample(2000, seed=10)
    rows[np.random.default_rng(0).random(rows.shape) < 0.2] = np.nan
    assert stats.kstest(TRUTH.anomaly(rows), "uniform").pvalue > 0.01
    odd = MEAN + 8 * np.linalg.svd(W)[0][:, -1]  # within each column's range, against all that covaries
    assert TRUTH.anomaly(odd[None])[0] < 1e-6
    assert TRUTH.anomaly(np.full((1, D), np.nan))[0] == 1


def test_samples_have_the_moments():
    rows = TRUTH.sample(20_000, seed=1)
    var = TRUTH.covariance.diagonal()
    assert np.all(np.abs(rows.mean(0) - MEAN) < 4.5 * np.sqrt(var / 20_000))
    se = np.sqrt((np.outer(var, var) + TRUTH.covariance**2) / 20_000)
    assert np.all(np.abs(np.cov(rows.T) - TRUTH.covariance) < 4.5 * se)


def test_loadings_are_read(fa):
    plain = fa.loadings()
    np.testing.assert_allclose(plain.values @ plain.values.T, fa.w @ fa.w.T, rtol=1e-8)
    inner = plain.values.T @ (plain.values / fa.noise[:, None])
    np.testing.assert_allclose(inner - np.diag(inner.diagonal()), 0, atol=1e-8)
    turned = fa.loadings("varimax", standardize=True)
    assert turned.values.shape == (D, L) and np.all(np.abs(turned.values) < 1)
    communal = (turned.values**2).sum(1)
    np.testing.assert_allclose(communal, 1 - fa.noise / fa.covariance.diagonal(), rtol=1e-8)
    rows = turned.values / np.sqrt(communal)[:, None]
    for angle in np.linspace(0, np.pi, 60):  # no other rotation of two factors has a larger criterion
        c, s = np.cos(angle), np.sin(angle)
        assert criterion(rows @ [[c, -s], [s, c]]) <= criterion(rows) + 1e-9
    assert "factor 2" in repr(fa.loadings(draws=5)) and "±" in repr(fa.loadings(draws=5))


def criterion(rows: np.ndarray) -> float:
    return float((rows**2).var(0).sum())


@pytest.mark.slow
def test_standard_errors_are_those_of_repeated_tables(fa):
    """Parametric bootstrap against learning from new rows."""
    truth = credo.fit(credo.FactorAnalysis(L), X)
    center = truth.loadings().values
    again = []
    for seed in range(150):
        w = np.asarray(credo.fit(credo.FactorAnalysis(L), truth.sample(N, seed=seed)).w)
        u, _, vt = np.linalg.svd(w.T @ center)
        again.append(w @ u @ vt)
    std = truth.loadings(draws=150, seed=1).std
    ratio = std / np.std(again, axis=0)
    assert np.all(np.abs(np.log(ratio)) < 4.5 * np.sqrt(2 / 300))


# -- how many -------------------------------------------------------------------------------------------------------


def test_minkas_evidence_is_scikit_learns():
    values = np.sort(np.linalg.eigvalsh(np.cov(X.T, bias=True)))[::-1]
    constant = 0.5 * N * D * (1 + np.log(2 * np.pi))
    for l in range(1, D):
        assert minka(values, l, N) + constant == pytest.approx(_assess_dimension(values, l, N), rel=1e-9)


def test_the_number_of_factors_is_found():
    found = how_many(credo.FactorAnalysis(), X)
    assert found.best == L and found.best_held_out == L and found.advice.startswith("Take 2")
    even = credo.PPCA(mean=MEAN, w=W, noise=0.5).sample(500, seed=2)
    assert how_many(credo.PPCA(), even).best == L
    assert credo.fit(credo.PPCA("auto"), even).l == L and credo.fit(credo.FactorAnalysis(), X).l == L
    assert credo.fit(credo.FactorAnalysis(), GAPS, missing=True).l == L
    # rows left out, by hand
    which = np.random.default_rng(0).permutation(N) % 5
    by_hand = sum(
        float(credo.fit(credo.FactorAnalysis(L), X[which != i]).log_evidence(X[which == i])) for i in range(5)
    )
    assert found.table[L].held_out == pytest.approx(by_hand, rel=1e-6)


# -- edges -----------------------------------------------------------------------------------------------------------


def test_names_go_with_columns(fa):
    names = [f"c{i}" for i in range(D)]
    frame = pd.DataFrame(X, columns=names)
    found = credo.fit(credo.FactorAnalysis(L), frame)
    shuffled = frame[names[::-1]]
    np.testing.assert_allclose(found.log_density(shuffled), fa.log_density(X), rtol=1e-6)
    np.testing.assert_allclose(found.predict(shuffled, columns=["c2"]).mean, fa.predict(X, columns=[2]).mean, rtol=1e-5)
    assert found.loadings().columns == tuple(names)
    with pytest.raises(DataError, match="columns must be of c0, .*found 'c9'"):
        found.predict(frame, columns=["c9"])


def test_units_of_columns_change_nothing(fa):
    scale, shift = 10.0 ** np.arange(-6, D - 6), 1e4 * np.arange(D)
    for rows, other in ((X, X * scale + shift), (GAPS, GAPS * scale + shift)):
        one, two = (credo.fit(credo.FactorAnalysis(L), each, missing=True) for each in (rows, other))
        np.testing.assert_allclose(two.covariance / scale / scale[:, None], one.covariance, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose((two.mean - shift) / scale, one.mean, rtol=1e-5, atol=1e-5)


def test_a_column_explained_without_remainder_is_said():
    """A Heywood case: two columns that are the same."""
    rows = np.column_stack([X, X[:, 0]])
    with pytest.warns(NotConvergedWarning, match="a Heywood case"):
        found = credo.fit(credo.FactorAnalysis(L), rows)
    assert np.all(found.noise > 0) and np.isfinite(float(found.log_evidence(rows)))


def test_fewer_rows_than_columns():
    rows = X[:5]
    found = credo.fit(credo.PPCA(2), rows)
    assert np.isfinite(float(found.log_evidence(rows)))
    with pytest.warns(NotConvergedWarning, match="too few rows"):
        credo.fit(credo.PPCA(5), rows)
    with pytest.warns(NotConvergedWarning, match="Heywood"):
        assert np.isfinite(float(credo.fit(credo.FactorAnalysis(3), rows).log_evidence(rows)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: credo.fit(credo.FactorAnalysis(D), X), "l must be less than the 7 columns"),
        (lambda: credo.fit(credo.FactorAnalysis(2), X[:1]), "at least 2 rows"),
        (lambda: credo.fit(credo.FactorAnalysis(2), np.column_stack([X, np.ones(N)])), "'x7' of x is constant"),
        (lambda: credo.fit(credo.PPCA(1), np.ones((5, 3))), "is constant"),
        (lambda: credo.fit(credo.FactorAnalysis(2), GAPS), "missing=True"),
        (
            lambda: credo.fit(credo.PPCA(2), np.column_stack([X, np.full(N, np.nan)]), missing=True),
            "column 7 of x has no value",
        ),
        (lambda: credo.FactorAnalysis(2).predict(), "not known yet"),
        (lambda: credo.FactorAnalysis("many"), 'or "auto"'),
        (lambda: credo.FactorAnalysis(-1), "l must be"),
        (lambda: credo.FactorAnalysis(2, prior="lasso"), "prior must be"),
        (lambda: credo.FactorAnalysis(mean=MEAN), "together"),
        (lambda: credo.FactorAnalysis(mean=MEAN, w=W, noise=1.0), "shapes"),
        (lambda: credo.PPCA(mean=MEAN, w=W, noise=-1.0), "noise positive"),
        (lambda: credo.FactorAnalysis(3, mean=MEAN, w=W, noise=PSI), "3 columns"),
        (lambda: credo.fit(credo.FactorAnalysis(2)), "nothing to learn from"),
        (lambda: TRUTH.loadings("oblimin"), "rotation must be"),
        (lambda: TRUTH.loadings(draws=10), "the rows that were seen"),
        (lambda: TRUTH.predict(X[:, :3]), "7 columns"),
        (lambda: TRUTH.predict(columns=[0]), "pass the rows"),
        (lambda: how_many(credo.PPCA(), X[:4]), "at least 10 rows"),
        (lambda: credo.fit(credo.PPCA(1), iter([])), "at least one chunk"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(DataError, match=words):
        call()


def test_no_factors_are_independent_columns():
    found = credo.fit(credo.FactorAnalysis(0), GAPS, missing=True)
    np.testing.assert_allclose(found.mean, np.nanmean(GAPS, 0), rtol=1e-6)
    np.testing.assert_allclose(found.noise, np.nanvar(GAPS, 0), rtol=1e-6)
