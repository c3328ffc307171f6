"""Generative classifiers against scikit-learn, closed forms, enumeration and their own draws."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, gammaln, logsumexp
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

import credo
from credo.core.chunks import chunks
from credo.core.predictive import Categorical
from credo.errors import DataError, NoveltyWarning
from credo.infer import MAP, ML, PlugIn
from credo.models.densities import Columns, Gaussian, GaussianMixture, Poisson, VonMises
from credo.models.generative.between import choose_prior

RNG = np.random.default_rng(2)
N, D = 120, 3
CODES = np.arange(N) % 3
Y = np.array(["a", "b", "c"])[CODES]
X = RNG.normal(size=(N, D)) @ RNG.normal(size=(D, D)) + RNG.normal(size=(3, D))[CODES] + 20.0
QUERIES = X[:7] + 0.3
COVARIANCES = ("full", "tied", "diagonal", "spherical", "between")


# -- what others compute, too ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("belief", "peer"),
    [
        (credo.NaiveBayes(), GaussianNB(var_smoothing=0)),
        (credo.Discriminant("diagonal"), GaussianNB(var_smoothing=0)),
        (credo.Discriminant("tied"), LinearDiscriminantAnalysis(solver="lsqr")),
    ],
)
def test_maximum_likelihood_is_scikit_learns(belief, peer):
    found = belief.condition(X, Y, using=ML()).predict(QUERIES)
    np.testing.assert_allclose(found.probs, peer.fit(X, Y).predict_proba(QUERIES), rtol=1e-8)
    np.testing.assert_allclose(found.epistemic, 0, atol=1e-12)


def test_maximum_likelihood_of_one_covariance_for_each():
    belief = credo.Discriminant("full").condition(X, Y, using=ML())
    logs = np.stack(
        [
            stats.multivariate_normal(X[c == Y].mean(0), np.cov(X[c == Y].T, bias=True)).logpdf(QUERIES)
            for c in ("a", "b", "c")
        ],
        axis=1,
    )
    want = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    np.testing.assert_allclose(belief.predict(QUERIES).probs, want, rtol=1e-8)
    peer = QuadraticDiscriminantAnalysis().fit(X, Y)  # its variance has n - 1 in some versions: the same up to that
    np.testing.assert_allclose(belief.predict(QUERIES).probs, peer.predict_proba(QUERIES), atol=0.02)


def test_bayes_is_students_t():
    """Full covariances: multivariate t with the posterior's own degrees of freedom, from `NormalInverseWishart`."""
    prior = credo.NormalInverseWishart(X.mean(0), 0.5, 6.0, np.diag(X.var(0)))
    belief = credo.Generative(Gaussian("full", prior=prior)).condition(X, Y)
    each = [prior.condition(X[c == Y]) for c in ("a", "b", "c")]
    logs = np.stack([p.predict().log_prob(QUERIES[0]) + np.log(41 / 123) for p in each])
    np.testing.assert_allclose(belief.log_density(QUERIES)[0], logsumexp(logs), rtol=1e-9)
    np.testing.assert_allclose(belief.predict(QUERIES).probs[0], np.exp(logs - logsumexp(logs)), rtol=1e-8)
    evidence = sum(float(prior.log_evidence(X[c == Y])) for c in ("a", "b", "c"))
    orders = 3 * gammaln(41) - 3 * gammaln(1) - gammaln(123) + gammaln(3)
    fresh = credo.Generative(Gaussian("full", prior=prior)).log_evidence(X, Y)
    np.testing.assert_allclose(fresh, evidence + orders, rtol=1e-9)


def test_naive_bayes_of_codes_is_counting():
    codes = RNG.integers(0, 3, size=(N, 2))
    belief = credo.NaiveBayes(kinds=["categorical"] * 2).condition(codes, Y)
    query = np.array([[2, 0]])
    want = np.ones(3)
    for i, c in enumerate(("a", "b", "c")):
        rows = codes[c == Y]
        want[i] = np.prod([(np.sum(rows[:, j] == query[0, j]) + 1.01) / (len(rows) + 3.03) for j in range(2)])
    np.testing.assert_allclose(belief.predict(query).probs[0], want / want.sum(), rtol=1e-10)


def test_counts_are_negative_binomial():
    counts = RNG.poisson([2.0, 5.0], size=(N, 2))
    prior = credo.GammaPoisson(2.0, 0.5)
    belief = credo.Generative(Poisson(prior=prior)).condition(counts, Y)
    logs = [sum(prior.condition(counts[c == Y, j]).predict().log_prob(counts[3, j]) for j in range(2)) for c in "abc"]
    want = np.exp(np.array(logs) - logsumexp(logs))
    np.testing.assert_allclose(belief.predict(counts[3:4]).probs[0], want, rtol=1e-9)


# -- doubt -------------------------------------------------------------------------------------------------------------


def test_doubt_falls_with_rows_and_is_split():
    few = credo.Discriminant("full").condition(X[:18], Y[:18]).predict(QUERIES, warn=False)
    many = credo.Discriminant("full").condition(X, Y).predict(QUERIES)
    assert isinstance(many, Categorical)
    assert many.epistemic.mean() < few.epistemic.mean()
    np.testing.assert_allclose(many.total, many.aleatoric + many.epistemic, rtol=1e-12)
    more = credo.Discriminant("full").condition(X, Y).predict(QUERIES, draws=4000)
    np.testing.assert_allclose(many.epistemic, more.epistemic, atol=0.03)
    np.testing.assert_array_equal(credo.Discriminant("full").condition(X, Y).predict(QUERIES, draws=0).epistemic, 0)


@pytest.mark.parametrize("name", ["full", "tied", "naive"])
def test_novelty_is_uniform_on_rows_of_the_model(name):
    belief = (credo.NaiveBayes() if name == "naive" else credo.Discriminant(name)).condition(X, Y)
    drawn = belief.sample(1500, seed=7)
    assert stats.kstest(belief.novelty(drawn.x), "uniform").pvalue > 0.01
    assert set(drawn.y) == {"a", "b", "c"}


def test_inputs_like_nothing_seen_are_said():
    belief = credo.Discriminant("tied").condition(X, Y)
    far = X[:3] + 40.0
    assert np.all(belief.novelty(far) < 1e-5) and np.all(belief.novelty(X) > 1e-4)
    with pytest.warns(NoveltyWarning, match=r"row 0 is like nothing seen .*3 such rows"):
        belief.predict(far)
    belief.predict(far, warn=False)
    belief.predict(X)


def test_novelty_of_rows_with_gaps():
    belief = credo.NaiveBayes().condition(X, Y)
    drawn = belief.sample(1000, seed=3).x
    drawn[:, 1] = np.nan
    assert stats.kstest(belief.novelty(drawn, missing=True), "uniform").pvalue > 0.01
    assert belief.novelty([[np.nan] * 3], missing=True)[0] == 1.0


# -- the bridge to logistic regression ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [ML(), MAP(), PlugIn()])
def test_tied_log_odds_are_linear(how):
    two = Y != "c"
    belief = credo.Discriminant("tied").condition(X[two], Y[two], using=how)
    plane = belief.boundary("b", "a")
    assert plane.quadratic is None and "hyperplane between 'b' and 'a'" in repr(plane)
    probs = belief.predict(QUERIES).probs
    np.testing.assert_allclose(np.log(probs[:, 1] / probs[:, 0]), plane.log_odds(QUERIES), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(expit(plane.bias + QUERIES @ plane.weights), probs[:, 1], rtol=1e-8)
    np.testing.assert_allclose(plane.probability(QUERIES), probs[:, 1], rtol=1e-8)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "spherical", "between"])
def test_boundaries_are_quadrics(covariance):
    belief = credo.Discriminant(covariance).condition(X, Y, using=PlugIn())
    quadric, logs = belief.boundary("a", "c"), np.log(belief.predict(QUERIES).probs)
    np.testing.assert_allclose(quadric.log_odds(QUERIES), logs[:, 0] - logs[:, 2], rtol=1e-7, atol=1e-7)
    assert "x0²" in repr(quadric)


def test_fisher_is_scikit_learns_projection():
    fisher = credo.Discriminant("tied").condition(X, Y, using=ML()).fisher()
    peer = LinearDiscriminantAnalysis(solver="eigen").fit(X, Y)
    mine, theirs = fisher(X), peer.transform(X)
    assert mine.shape == (N, 2) and fisher.ratios[0] >= fisher.ratios[1] and "2 directions" in repr(fisher)
    for i in range(2):
        assert abs(np.corrcoef(mine[:, i], theirs[:, i])[0, 1]) > 1 - 1e-8
    np.testing.assert_allclose(fisher.shares, peer.explained_variance_ratio_, rtol=1e-6)


# -- streams -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_chunks_streams_and_forgetting(covariance):
    prior = credo.Discriminant(covariance).told(X, Y)
    whole = prior.condition(X, Y)
    for data in (chunks(X, Y, rows=50), [(X[:50], Y[:50]), (X[50:], Y[50:])], iter([(X, Y)])):
        np.testing.assert_allclose(
            prior.condition(data).predict(QUERIES).probs, whole.predict(QUERIES).probs, rtol=1e-9
        )
    back = whole.forget(X[100:], Y[100:])
    first = prior.condition(X[:100], Y[:100])
    np.testing.assert_allclose(back.predict(QUERIES).probs, first.predict(QUERIES).probs, rtol=1e-7)
    with pytest.raises(DataError, match="cannot forget"):
        first.forget(np.vstack([X, X]), np.concatenate([Y, Y]))
    with pytest.raises(DataError, match="generator"):
        credo.fit(credo.Discriminant(), iter([(X, Y)]))
    fresh = credo.Discriminant(covariance).condition(iter([(X, Y)]))
    np.testing.assert_allclose(fresh.predict(QUERIES).probs, whole.predict(QUERIES).probs, rtol=1e-9)


def test_blocks_are_the_whole():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(45_000, 2)), rng.integers(0, 2, 45_000)
    belief = credo.Discriminant("full").condition(x, y, using=ML())
    np.testing.assert_allclose(belief.estimate.mean[1], x[y == 1].mean(0), atol=1e-12)
    np.testing.assert_allclose(belief.estimate.matrix[0], np.cov(x[y == 0].T, bias=True), rtol=1e-10)
    assert belief.predict(x, warn=False).probs.shape == (45_000, 2)


# -- what is hidden ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [1.0, 8.0])
@pytest.mark.parametrize("belief", [credo.Discriminant("tied"), credo.NaiveBayes()], ids=["tied", "naive"])
def test_the_evidence_of_hidden_labels_is_a_bound(belief, gap):
    """Against the sum over all labellings: below it, and equal where labels are certain."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10, 2)) + gap * np.repeat([0.0, 1.0], 5)[:, None]
    labels = np.array(["a"] * 5 + ["b"] * 5, dtype=object)
    some, hidden = labels.copy(), [2, 7, 8]
    some[hidden] = None
    told = belief.told(x, some)
    exact = []
    for each in itertools.product("ab", repeat=3):
        labels[hidden] = each
        exact.append(float(told.log_evidence(x, labels)))
    missing = logsumexp(exact) - float(told.log_evidence(x, some, missing=True))
    assert -1e-9 < missing < (1e-4 if gap == 8.0 else 0.7)
    report = credo.fit(belief, x, some, missing=True, report=True)
    assert np.isfinite(report.log_evidence)


def test_rows_without_labels_help():
    """Two clear clusters, four labels: the others sharpen the means; labels are recovered."""
    rng = np.random.default_rng(4)
    codes = np.arange(200) % 2
    x = rng.normal(size=(200, 2)) + 4.0 * codes[:, None]
    y = np.where(np.arange(200) < 4, codes.astype(float), np.nan)
    for how in (None, MAP(), ML()):
        belief = credo.Discriminant("tied", classes=(0, 1)).condition(x, y, using=how, missing=True)
        assert np.mean(belief.predict(x, warn=False).mode == codes) > 0.98
        for i in range(2):
            error = np.abs(belief.estimate.mean[i] - x[codes == i].mean(0))
            assert np.all(error < 0.15)
    text = np.where(np.isnan(y), None, np.where(y == 1, "yes", "no"))
    found = credo.NaiveBayes().condition(x, text, missing=True)
    assert found.classes == ("no", "yes") and found.counts.sum() == pytest.approx(200)
    with pytest.raises(DataError, match="missing label at row 4"):
        credo.NaiveBayes().condition(x, text)
    with pytest.raises(DataError, match="no label at all"):
        credo.NaiveBayes().condition(x, [None] * 200, missing=True)


def test_gaps_are_integrated_out():
    gaps = X.copy()
    gaps[::5, 1] = np.nan
    naive = credo.NaiveBayes().told(X, Y).condition(gaps, Y, missing=True)
    column = credo.NaiveBayes().told(X[:, [1]], Y).condition(X[:, [1]][np.arange(N) % 5 > 0], Y[np.arange(N) % 5 > 0])
    only = np.full((3, D), np.nan)
    only[:, 1] = X[:3, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares = np.log(naive.shares) - np.log(column.shares)
        a, b = (np.log(p.probs) for p in (naive.predict(only, missing=True), column.predict(X[:3, [1]])))
    a, b = a - shares, b
    np.testing.assert_allclose(a - a[:, :1], b - b[:, :1], atol=0.2)  # priors of one and of three columns differ
    for covariance in ("full", "tied"):
        belief = credo.Discriminant(covariance).condition(gaps, Y, missing=True)
        whole = credo.Discriminant(covariance).condition(X, Y)
        assert np.abs(belief.predict(QUERIES).probs - whole.predict(QUERIES).probs).max() < 0.15
        nothing = belief.predict([[np.nan] * D], missing=True)
        np.testing.assert_allclose(nothing.probs[0], belief.shares, rtol=1e-10)
    with pytest.raises(DataError, match="NaN at row 0, column"):
        credo.NaiveBayes().condition(gaps, Y)
    with pytest.raises(DataError, match="no closed form"):
        credo.Discriminant("full").log_evidence(gaps, Y, missing=True)


# -- kinds of columns --------------------------------------------------------------------------------------------------


def frame(n: int = 200) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(6)
    sick = rng.random(n) < 0.4
    table = pd.DataFrame(
        {
            "temperature": rng.normal(37 + 1.2 * sick, 0.5),
            "visits": rng.poisson(np.where(sick, 5.0, 1.5)),
            "colour": np.where(rng.random(n) < 0.3 + 0.5 * sick, "red", "white"),
            "smoker": rng.random(n) < 0.3,
            "grade": rng.choice([0, 4, 5], n, p=[0.5, 0.1, 0.4]),
            "year": rng.integers(1990, 2020, n),
        }
    )
    return table, np.where(sick, "sick", "well")


def test_kinds_are_found():
    table, y = frame()
    belief = credo.NaiveBayes().condition(table, y)
    assert belief.kinds == ("gaussian", "poisson", "categorical", "bernoulli", "categorical", "gaussian")
    assert belief.categories[2] == ("red", "white")
    accuracy = np.mean(np.array(belief.classes)[belief.predict(table).mode] == y)
    assert accuracy > 0.85
    drawn = belief.sample(5, seed=1)
    assert set(drawn.x[:, 2]) <= {"red", "white"}
    shuffled = belief.predict(table[table.columns[::-1]])
    np.testing.assert_allclose(shuffled.probs, belief.predict(table).probs, rtol=1e-12)


def test_kinds_are_told():
    table, y = frame()
    belief = credo.NaiveBayes(kinds={"visits": "gaussian"}).condition(table[["temperature", "visits"]], y)
    assert belief.kinds == ("gaussian", "gaussian")
    with pytest.raises(DataError, match="which was never seen"):
        credo.NaiveBayes().condition(table, y).predict(table.assign(colour="mauve"))
    known = credo.NaiveBayes(categories={"colour": ("mauve", "red", "white")}).condition(table, y)
    assert known.predict(table.assign(colour="mauve")[:2], warn=False).probs.shape == (2, 2)
    gap = table.astype(object).copy()
    gap.loc[0, "colour"] = None
    assert np.isfinite(known.predict(gap[:1], missing=True).probs).all()
    with pytest.raises(DataError, match="kinds must be"):
        credo.NaiveBayes(kinds=["normal"])
    with pytest.raises(DataError, match="names the column 'nope'"):
        credo.NaiveBayes(kinds={"nope": "poisson"}).condition(table, y)
    with pytest.raises(DataError, match="holds text"):
        credo.NaiveBayes(kinds={"colour": "poisson"}).condition(table, y)


def test_any_density_will_do():
    rng = np.random.default_rng(8)
    codes = np.arange(120) % 2
    # Class 0 is one blob, class 1 two: a mixture for each class.
    x = rng.normal(size=(120, 2)) * 0.5 + np.where(
        codes[:, None] == 0, 0.0, np.where(rng.random((120, 1)) < 0.5, -4, 4)
    )
    belief = credo.Generative(GaussianMixture(2)).condition(x, codes)
    assert np.mean(belief.predict(x).mode == codes) > 0.98
    assert np.isfinite(belief.log_evidence(x, codes)) and belief.sample(3).x.shape == (3, 2)
    angles = rng.vonmises(np.where(codes == 0, 0.0, 2.0), 3.0)[:, None]
    assert np.mean(credo.Generative(VonMises()).condition(angles, codes).predict(angles).mode == codes) > 0.85
    both = credo.Generative(Columns((Gaussian("full"), [0, 1]), (Poisson(), 2)))
    table = np.column_stack([x, rng.poisson(2 + 3 * codes)])
    assert np.mean(both.condition(table, codes).predict(table, warn=False).mode == codes) > 0.8
    with pytest.raises(DataError, match="has no posterior mean"):
        credo.Generative(VonMises()).condition(angles, codes, using=PlugIn())


# -- edges ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_one_row_one_class_and_classes_of_one_row(covariance):
    one = credo.Discriminant(covariance).condition(X[:1], ["a"])
    np.testing.assert_allclose(one.predict(QUERIES, warn=False).probs, 1.0)
    alone = credo.Discriminant(covariance).condition(X[:40], ["a"] * 40)
    assert np.all((alone.novelty(QUERIES) > 0) & (alone.novelty(QUERIES) <= 1))
    few = credo.Discriminant(covariance).condition(X[:7], ["a"] * 3 + ["b"] * 3 + ["c"])
    assert np.isfinite(few.predict(QUERIES, warn=False).probs).all()
    unseen = credo.Discriminant(covariance, classes=("a", "b", "z")).condition(X[Y != "c"], Y[Y != "c"])
    # A class of which nothing was seen takes what the others cannot explain: here the rows of class c.
    probs = unseen.predict(QUERIES, warn=False).probs[:, 2]
    assert probs[np.array([0, 1, 3, 4])].max() < 0.5
    constant = np.column_stack([X, np.full(N, 5.0)])
    steady = credo.Discriminant(covariance).condition(constant, Y).predict(constant[:5], warn=False)
    assert np.isfinite(steady.probs).all()


def test_a_thousand_classes():
    rng = np.random.default_rng(1)
    y = np.arange(3000) % 1000
    x = rng.normal(size=(3000, 2)) + 30 * rng.random((1000, 2))[y]
    belief = credo.NaiveBayes().condition(x, y)
    p = belief.predict(x[:20], draws=4, warn=False)
    assert p.probs.shape == (20, 1000)
    np.testing.assert_allclose(p.probs.sum(1), 1.0)


def test_what_is_wrong_is_said():
    belief = credo.Discriminant("full").condition(X, Y)
    with pytest.raises(DataError, match="has 'd' at row 0, but the classes are 'a', 'b', 'c'"):
        belief.condition(X[:1], ["d"])
    with pytest.raises(DataError, match="must have 3 columns"):
        belief.predict(X[:, :2])
    named = credo.NaiveBayes().condition(pd.DataFrame(X, columns=["u", "v", "w"]), Y)
    with pytest.raises(DataError, match="missing 'w'"):
        named.predict(pd.DataFrame(X[:, :2], columns=["u", "v"]))
    with pytest.raises(DataError, match="knows nothing yet"):
        credo.NaiveBayes().predict(X)
    with pytest.raises(DataError, match="covariance must be one of"):
        credo.Discriminant("round")
    with pytest.raises(DataError, match="density must be"):
        credo.Generative("normal")
    with pytest.raises(DataError, match="no maximum"):
        credo.Discriminant("full").condition(X[:7], Y[:7], using=ML())
    with pytest.raises(DataError, match="no class 'z'"):
        belief.boundary("a", "z")
    with pytest.raises(DataError, match="one label for each of the 120 rows"):
        credo.NaiveBayes().condition(X, Y[:-1])
    with pytest.raises(DataError, match="concentration must be"):
        credo.NaiveBayes(concentration=[1.0, 2.0])
    assert "before any data" in repr(credo.NaiveBayes()) and "120 rows" in repr(belief)


# -- between one covariance and many -----------------------------------------------------------------------------------


def test_leaving_one_out_has_a_closed_form():
    """Against removing each row and computing everything again, Σ₀ and all, with the units and ν₀ of the whole."""
    from credo.models.generative import between

    x, codes = X[:40], CODES[:40]
    prior = choose_prior(x, codes, 3, np.ones(3))
    assert prior.loss > 0 and 0 < prior.diagonal < 1
    z = (x - x.mean(0)) / x.std(0)
    counts = np.bincount(codes).astype(float)
    means = np.stack([z[codes == i].mean(0) for i in range(3)])
    rest = z - means[codes]
    free, excess, strength = 5.0, 7.0, 0.8
    worth = free + len(x) - 3
    pooled = (rest.T @ rest + free * np.eye(D)) / worth
    rows = between._Rows(z, codes, counts, means, rest, pooled, worth, np.ones(3))
    losses = []
    for i in range(len(z)):
        keep = np.arange(len(z)) != i
        a, b = z[keep], codes[keep]
        centers = np.stack([a[b == j].mean(0) for j in range(3)])
        left = a - centers[b]
        shared = (left.T @ left + free * np.eye(D)) / worth
        logs = []
        for j in range(3):
            law = credo.NormalInverseWishart(np.zeros(D), strength, D + 1 + excess, excess * shared)
            logs.append(float(law.condition(a[b == j]).predict().log_prob(z[i])) + np.log(1 + np.sum(b == j)))
        losses.append(logsumexp(logs) - logs[codes[i]])
    np.testing.assert_allclose(rows.loss(excess, strength), np.mean(losses), rtol=1e-8)


def test_between_finds_what_the_classes_share():
    rng = np.random.default_rng(3)
    codes = np.arange(150) % 2
    same = rng.normal(size=(150, 4)) + codes[:, None]
    other = np.where(codes[:, None] == 0, 1.0, [4.0, 0.2, 3.0, 0.3]) * rng.normal(size=(150, 4))
    tied, apart = (credo.Discriminant().condition(x, codes).chosen.excess for x in (same, other))
    assert tied > 3 * apart
