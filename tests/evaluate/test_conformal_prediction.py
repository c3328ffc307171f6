"""Conformal prediction: brute force of each definition, coverage against its exact law, and what is refused."""

import warnings

import numpy as np
import pytest
from scipy import stats

import credo
from credo.core.errors import DataError, MisfitWarning, NotConvergedWarning
from credo.evaluate import conformal, coverage
from credo.models.linear import Isotropic, Linear

RNG = np.random.default_rng(8)


def rows(n: int, rng: np.random.Generator = RNG, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(n, 2)) + np.array([shift, 0.0])
    return x, x @ [1.0, -0.5] + np.exp(0.5 * x[:, 0]) * rng.standard_t(4, size=n)


X, Y = rows(120)
WRONG = Linear(prior=Isotropic(1.0), noise=0.1).condition(X[:30], Y[:30])
"""Much too sure, of noise that it thinks the same everywhere."""
QUERIES, _ = rows(5)
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.7 * RNG.normal(size=120), [-0.5, 0.6])]
CLASSES = credo.Softmax().condition(X[:30], LABELS[:30])


def ranked(scores: np.ndarray, level: float) -> float:
    """The smallest score that as many of n + 1 are at most as the level says, by trying all."""
    n = len(scores)
    return next(s for s in np.sort(scores) if np.sum(scores <= s) >= level * (n + 1) - 1e-9)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_split_by_brute_force(level):
    found = conformal(WRONG, X[30:], Y[30:], "quantile").predict(QUERIES)
    own, p = WRONG.predict(X[30:]).interval(level), WRONG.predict(QUERIES).interval(level)
    beyond = ranked(np.maximum(own.lower - Y[30:], Y[30:] - own.upper), level)
    np.testing.assert_allclose(found.interval(level), [p.lower - beyond, p.upper + beyond], rtol=1e-10)
    doubtful = credo.fit(Linear(), X[:30], Y[:30])
    split = conformal(doubtful, X[30:], Y[30:]).predict(QUERIES)
    u = np.asarray(doubtful.predict(X[30:]).cdf(Y[30:]))
    s = ranked(np.abs(2 * u - 1), level)
    wanted = doubtful.predict(QUERIES).interval(s)
    np.testing.assert_allclose(split.interval(level), wanted, rtol=1e-7)
    np.testing.assert_allclose(split.mean, doubtful.predict(QUERIES).mean)


def test_sets_of_classes_by_brute_force():
    probs, right = np.asarray(CLASSES.predict(X[30:]).probs), np.searchsorted(["a", "b", "c"], LABELS[30:])
    ask = np.asarray(CLASSES.predict(QUERIES).probs)
    for how in ("split", "adaptive"):

        def score(p: np.ndarray, k: int, how: str = how) -> float:
            return 1 - p[k] if how == "split" else sum(v for v in p if v >= p[k])

        most = ranked(np.array([score(p, k) for p, k in zip(probs, right, strict=True)]), 0.8)
        want = [[score(p, k) <= most + 1e-12 or p[k] == p.max() for k in range(3)] for p in ask]
        found = conformal(CLASSES, X[30:], LABELS[30:], how)
        np.testing.assert_array_equal(found.predict(QUERIES).prediction_set(0.8), want)
        assert found.classes == ("a", "b", "c") and "≥ level" in repr(found)
        np.testing.assert_array_equal(found.predict(QUERIES).probs, ask)


@pytest.mark.parametrize("how", ["cv+", "jackknife+"])
def test_folds_by_brute_force(how):
    x, y = X[:24], Y[:24]
    prior = Linear(prior=Isotropic(1.0), noise=0.5)
    found = conformal(prior, x, y, how, k=4, learn=False)
    level, n = 0.8, 24
    low, high = [], []
    for i in range(n):
        others = [j for j in range(n) if found.fold[j] != found.fold[i]]
        member = prior.condition(x[others], y[others])
        off = abs(y[i] - float(member.predict(x[i : i + 1]).mean[0]))
        at = np.asarray(member.predict(QUERIES).mean)
        low.append(at - off)
        high.append(at + off)
    r = int(np.ceil(level * (n + 1)))
    wanted = np.sort(low, axis=0)[n - r], np.sort(high, axis=0)[r - 1]
    np.testing.assert_allclose(found.predict(QUERIES).interval(level), wanted, rtol=1e-10)
    assert len(found.members) == (24 if how == "jackknife+" else 4)
    assert "1 - 2(1 - level)" in found.promise
    alone = found.predict(QUERIES)[1:3].interval(level)
    np.testing.assert_allclose(alone.lower, wanted[0][1:3], rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["split", "quantile", "classes split", "classes adaptive"])
def test_coverage_follows_its_exact_law(how):
    """Of n calibration rows the coverage of new ones is Beta(r, n + 1 - r) at most ties; r = ⌈(n + 1) level⌉."""
    n, level, many, repeats = 39, 0.9, 400, 60
    r = int(np.ceil((n + 1) * level))
    found = []
    belief = credo.fit(Linear(), X, Y)
    softmax = credo.Softmax().condition(X, LABELS)
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        x, y = rows(n + many, rng)
        if how.startswith("classes"):
            c = np.array(["a", "b", "c"])[np.digitize(x[:, 0] + 0.7 * rng.normal(size=n + many), [-0.5, 0.6])]
            sets = conformal(softmax, x[:n], c[:n], how.split()[1]).predict(x[n:]).prediction_set(level)
            found.append(np.mean(sets[np.arange(many), np.searchsorted(["a", "b", "c"], c[n:])]))
        else:
            found.append(float(coverage(conformal(belief, x[:n], y[:n], how).predict(x[n:]), y[n:], level)))
    # Given the rows, hits of new ones are binomial with a probability from the Beta: a beta-binomial law.
    law = stats.betabinom(many, r, n + 1 - r)
    hits = np.asarray(found) * many
    se = law.std() / np.sqrt(repeats)
    if how.startswith("classes"):  # the most probable class is always in
        assert hits.mean() > law.mean() - 4.5 * se
    else:
        assert abs(hits.mean() - law.mean()) < 4.5 * se
        spread = np.random.default_rng(0).beta(r, n + 1 - r, size=(2000, repeats))
        drawn = np.random.default_rng(1).binomial(many, spread).std(axis=1)
        assert np.quantile(drawn, 0.0005) < hits.std() < np.quantile(drawn, 0.9995)
        assert stats.kstest(hits + np.random.default_rng(2).uniform(-0.5, 0.5, repeats), _smooth(law)).pvalue > 1e-3


def _smooth(law):
    """The distribution function of a count plus a uniform number of ±½."""

    def cdf(v):
        k = np.floor(v + 0.5)
        return law.cdf(k - 1) + (v + 0.5 - k) * law.pmf(k)

    return cdf


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cv+", "jackknife+"])
def test_folds_keep_their_promise(how):
    level, held = 0.8, []
    prior = Linear(prior=Isotropic(1.0), noise=5.0)
    for seed in range(40):
        x, y = rows(20 + 100, np.random.default_rng(seed))
        p = conformal(prior, x[:20], y[:20], how, k=5, learn=False).predict(x[20:])
        held.append(float(coverage(p, y[20:], level)))
    assert np.mean(held) > 1 - 2 * (1 - level)
    assert np.mean(held) > level - 0.05  # in practice nearer to the level than the promise


def test_counts_are_held_as_often_as_said():
    x = RNG.normal(size=(600, 1))
    y = RNG.negative_binomial(2, 2 / (2 + np.exp(1 + 0.5 * x[:, 0])))
    belief = credo.PoissonRegression().condition(x[:50], y[:50])
    p = conformal(belief, x[50:200], y[50:200]).predict(x[200:])
    low, high = (np.asarray(end) for end in p.interval(0.9))
    held = np.mean((low <= y[200:]) & (y[200:] <= high))
    assert 0.9 - 4.5 * np.sqrt(0.09 / 400 + 0.09 / 150) < held < 0.99
    assert float(coverage(belief.predict(x[200:]), y[200:], 0.9)) < held


def test_weights_by_brute_force():
    """Of weights 2 and 1 a row is as if it were there twice; of equal weights all is as without."""
    far, _ = rows(80, shift=1.5)
    found = conformal(WRONG, X[30:], Y[30:], "quantile", shifted=far)
    w = np.asarray(found.weights)
    assert np.corrcoef(w, X[30:, 0])[0, 1] > 0.5 and "as far as the weights are right" in found.promise
    own = WRONG.predict(X[30:]).interval(0.6)
    scores = np.maximum(own.lower - Y[30:], Y[30:] - own.upper)
    shift = np.asarray(found.shift.predict(QUERIES).mean)
    beyond = []
    for v in shift / (1 - shift):
        good = [s for s in scores if np.sum(w[scores <= s]) >= 0.6 * (w.sum() + v)]
        beyond.append(min(good))
    p = WRONG.predict(QUERIES).interval(0.6)
    np.testing.assert_allclose(found.predict(QUERIES).interval(0.6).upper, p.upper + beyond, rtol=1e-9)
    one = found.predict(QUERIES)[2]
    np.testing.assert_allclose(one.interval(0.6).upper, (p.upper + beyond)[2], rtol=1e-9)
    with pytest.warns(MisfitWarning, match="1 of 1 queries lie where calibration rows are too rare"):
        widest = found.predict([[40.0, 0.0]]).interval(0.6)
    np.testing.assert_allclose(widest.upper, WRONG.predict([[40.0, 0.0]]).interval(0.6).upper + scores.max())


@pytest.mark.slow
def test_weights_restore_coverage_under_a_shift():
    plain, weighted = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        (x, y), (far, y_far) = rows(200, rng), rows(200, rng, shift=1.2)
        warnings.simplefilter("ignore", MisfitWarning)
        plain.append(float(coverage(conformal(WRONG, x, y, "quantile").predict(far), y_far, 0.8)))
        p = conformal(WRONG, x, y, "quantile", shifted=far[:100]).predict(far[100:])
        weighted.append(float(coverage(p, y_far[100:], 0.8)))
    assert np.mean(plain) < 0.75 < np.mean(weighted)


@pytest.mark.slow
def test_adaptive_levels_miss_as_often_as_said_in_the_long_run():
    """A series whose noise grows tenfold; one row at a time. |misses/T - α| ≤ (1 + γ)/(Tγ)."""
    t = np.arange(140.0)
    y = np.exp(t / 60) * np.random.default_rng(2).normal(size=140)
    x = np.zeros((140, 1))
    belief = Linear(prior=Isotropic(1.0), noise=40.0).condition(x[:1], y[:1])
    found, gamma, missed = conformal(belief, x[:20], y[:20], "adaptive", step_size=0.05), 0.05, []
    assert "in the long run" in found.promise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        for i in range(20, 140):
            low, high = found.predict(x[i : i + 1]).interval(0.8)
            missed.append(not low[0] <= y[i] <= high[0])
            found = found.condition(x[i : i + 1], y[i : i + 1])
    assert abs(np.mean(missed) - 0.2) < (1 + gamma) / (120 * gamma)
    split = conformal(belief, x[:80], y[:80]).predict(x[80:])
    assert float(coverage(split, y[80:], 0.8)) < 0.6  # which a fixed level does not


def test_further_rows_are_calibration_rows(tmp_path):
    for how in ("split", "quantile"):
        belief = credo.fit(Linear(), X[:30], Y[:30])
        once = conformal(belief, X[30:], Y[30:], how)
        twice = conformal(belief, X[30:70], Y[30:70], how).condition(X[70:], Y[70:])
        again = credo.load(credo.save(twice, tmp_path / "belief"))
        wanted = once.predict(QUERIES).interval(0.9)
        np.testing.assert_array_equal(twice.predict(QUERIES).interval(0.9), wanted)
        np.testing.assert_array_equal(again.predict(QUERIES).interval(0.9), wanted)
        p = twice.predict(QUERIES)
        np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic)
        np.testing.assert_array_equal(p.log_prob(np.zeros(5)), belief.predict(QUERIES).log_prob(np.zeros(5)))
        assert np.all(p.cdf(p.median) > 0.49)


def test_too_few_rows_are_said():
    few = conformal(WRONG, X[30:48], Y[30:48], "quantile").predict(QUERIES)
    with pytest.raises(DataError, match="level of 0.95 needs at least 19 calibration rows, found 18"):
        few.interval(0.95)
    assert np.all(np.isfinite(conformal(WRONG, X[30:49], Y[30:49], "quantile").predict(QUERIES).interval(0.95)))
    with pytest.raises(DataError, match="needs at least 9 calibration rows, found 5"):
        conformal(CLASSES, X[30:35], LABELS[30:35]).predict(QUERIES).prediction_set(0.9)
    with pytest.raises(DataError, match="needs at least 19"):
        conformal(Linear(noise=0.5), X[:10], Y[:10], "cv+", k=2, learn=False).predict(QUERIES).interval()


def test_what_cannot_be_is_refused():
    p = conformal(WRONG, X[30:], Y[30:], "quantile").predict(QUERIES)
    for ask, words in (
        (lambda: conformal(WRONG, X, Y, "best"), "how must be one of split, quantile, adaptive"),
        (lambda: conformal(CLASSES, X, LABELS, "quantile"), "one of split, adaptive for a belief about classes"),
        (lambda: conformal(credo.Softmax(), X, LABELS, "cv+", learn=False), "cv\\+ is for numbers"),
        (lambda: conformal(WRONG, X, Y, "cv+", shifted=X), "shifted is for split"),
        (lambda: conformal(WRONG, X, Y, "adaptive", shifted=X), "follows any shift"),
        (lambda: conformal(WRONG, X, Y, shifted=X[:, :1]), "shifted must have the 2 columns"),
        (lambda: conformal(WRONG, X, Y, starts=3), "the belief is learned already"),
        (lambda: conformal(WRONG, X, Y, "cv+", k=1), "k must be a whole number of at least 2"),
        (lambda: conformal(WRONG, X[:3], Y[:3], "cv+", k=5, learn=False), "as many as folds"),
        (lambda: p.prediction_set(), "numbers have no prediction set"),
        (lambda: conformal(CLASSES, X, LABELS).predict(QUERIES).interval(), "classes have no interval"),
        (lambda: p.interval([0.5, 0.9]), "level must be one number"),
        (lambda: conformal(WRONG, X[30:], Y[30:]).predict(QUERIES).interval(0.98), "belief says that none can be"),
        (lambda: conformal(WRONG, X, Y).log_evidence(X, Y), "no evidence of its own"),
        (lambda: credo.fit(conformal(WRONG, X, Y), X, Y), "rows that it has not seen"),
        (lambda: conformal(Linear(), X, Y, "cv+", k=3, learn=False).condition(X, Y), "learned from all its rows"),
    ):
        with pytest.raises(DataError, match=words):
            ask()
