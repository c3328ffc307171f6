"""Neighbours, kernel regression and kernel densities against counting, dumb loops and scikit-learn."""

import warnings

import numpy as np
import pytest
from scipy import special, stats
from sklearn.neighbors import KernelDensity as TheirDensity
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import credo
from credo.errors import DataError, NotConvergedWarning
from credo.kernels import RBF, Linear, Matern52, SetKernel, Spectrum, WeisfeilerLehman

RNG = np.random.default_rng(2)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] ** 2 + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=60)
KIND = np.array(["calm", "mild", "wild"])[np.digitize(Y, [0.2, 1.2])]
QUERIES = RNG.normal(size=(7, 2))


# -- neighbours --------------------------------------------------------------------------------------------------------


def test_shares_of_neighbours_are_scikit_learns_with_the_dirichlet_doubt():
    found = credo.KernelNeighbours(5, prior_count=0.6).condition(X, KIND).predict(QUERIES)
    theirs = KNeighborsClassifier(5).fit(X, KIND).predict_proba(QUERIES)
    a = 5 * theirs + 0.2
    np.testing.assert_allclose(found.probs, a / a.sum(1, keepdims=True), rtol=1e-12)
    draws = np.random.default_rng(0).dirichlet(a[0], 20_000)
    entropies = special.entr(draws).sum(1)
    assert abs(found.aleatoric[0] - entropies.mean()) < 4.5 * entropies.std() / np.sqrt(len(draws))


@pytest.mark.parametrize("kernel", [RBF(0.7), Matern52([0.5, 2.0]), Linear() * 3.0])
def test_the_kernels_distance_is_that_of_features(kernel):
    belief = credo.KernelNeighbours(3, kernel, outcomes="numbers").condition(X, Y)
    found, k = belief.distances(QUERIES), kernel(np.r_[QUERIES, X])
    for i in range(7):
        for j in range(60):
            squared = k[i, i] + k[7 + j, 7 + j] - 2 * k[i, 7 + j]
            assert found[i, j] == pytest.approx(np.sqrt(max(squared, 0.0)), abs=1e-7)
    nearest = np.argsort(found, axis=1)[:, :3]
    p = belief.predict(QUERIES)
    for i, rows in enumerate(nearest):  # the closed form, one query at a time
        prior = credo.NormalInverseGamma(0.0, 1.0, 1.5, 0.25)
        wanted = prior.condition(Y[rows]).predict()
        np.testing.assert_allclose([p.mean[i], p.std[i], p.epistemic[i]], [wanted.mean, wanted.std, wanted.epistemic])


def test_numbers_of_many_neighbours_and_no_prior_are_their_mean():
    found = credo.KernelNeighbours(20, outcomes="numbers", prior_count=1e-9).condition(X, Y).predict(QUERIES)
    wanted = KNeighborsRegressor(20).fit(X, Y).predict(QUERIES)
    np.testing.assert_allclose(found.mean, wanted, rtol=1e-7)


def test_k_is_what_a_loop_over_left_out_rows_finds_best():
    learned = credo.fit(credo.KernelNeighbours(), X, KIND, fixed=["prior_count"], report=True)
    z = (X - X.mean(0)) / X.std(0)
    best, height = 0, -np.inf
    for k in range(1, 60):
        total = 0.0
        for i in range(60):
            others = np.delete(np.arange(60), i)
            near = others[np.argsort(((z[others] - z[i]) ** 2).sum(1))[:k]]
            total += np.log(((KIND[near] == KIND[i]).sum() + 1 / 3) / (k + 1))
        best, height = (k, total) if total > height else (best, height)
    assert learned.belief.k == best
    assert learned.log_evidence == pytest.approx(height, abs=1e-9)
    free = credo.fit(credo.KernelNeighbours(), X, KIND, report=True, priors=False)
    assert free.log_evidence >= height
    kept = credo.fit(credo.KernelNeighbours(4), X, KIND)
    assert kept.k == 4


def test_rows_as_far_as_the_last_share_its_place():
    x = np.array([[0.0], [1.0], [-1.0], [1.0], [5.0]])
    p = credo.KernelNeighbours(2, prior_count=1e-6).condition(x, ["a", "b", "c", "b", "c"]).predict([[0.0]])
    np.testing.assert_allclose(p.probs[0], [0.5, 0.5 * 2 / 3, 0.5 / 3], atol=1e-6)


def test_strings_sets_and_graphs_have_neighbours():
    words = ["abab", "baba", "abba", "xyxy", "yxyx", "xyyx"]
    kinds = ["first"] * 3 + ["second"] * 3
    near = credo.KernelNeighbours(3, Spectrum(2)).condition(words, kinds)
    assert near.predict(["babab", "xyxyx"]).mode.tolist() == [0, 1]
    sets = [{"a", "b"}, {"b"}, {"c", "d"}, {"d"}]
    near = credo.KernelNeighbours(2, SetKernel(("a", "b", "c", "d"))).condition(sets, [0, 0, 1, 1])
    assert near.predict([{"a"}, {"c"}]).mode.tolist() == [0, 1]
    ring, star = np.roll(np.eye(4), 1, 1), np.zeros((4, 4))
    star[0, 1:] = star[1:, 0] = 1
    ring = ring + ring.T
    near = credo.KernelNeighbours(1, WeisfeilerLehman(2, width=5)).condition([ring, star], ["ring", "star"])
    five = np.roll(np.eye(5), 1, 1)
    assert near.predict([five + five.T]).mode.tolist() == [0]


def test_edges_of_neighbours():
    one = credo.KernelNeighbours(7, classes=("a", "b")).condition([[0.0]], ["a"])  # k > n: all rows that there are
    np.testing.assert_allclose(one.predict([[3.0]]).probs, [[0.75, 0.25]])
    assert one.log_evidence([[0.0]], ["a"]) == pytest.approx(np.log(0.75) * 2 - np.log(0.5), rel=1e-12)
    fitted = credo.fit(credo.KernelNeighbours(classes=("a", "b")), [[0.0]], ["a"])
    assert fitted.k == 1
    flat = credo.fit(credo.KernelNeighbours(), np.column_stack([X, np.ones(60)]), KIND)
    np.testing.assert_allclose(
        flat.predict(np.column_stack([QUERIES, np.ones(7)])).probs,
        credo.fit(credo.KernelNeighbours(), X, KIND).predict(QUERIES).probs,
    )
    with pytest.raises(DataError, match="y has one class only, 'a'"):
        credo.KernelNeighbours().condition([[0.0], [1.0]], ["a", "a"])
    with pytest.raises(DataError, match='outcomes="numbers"'):
        credo.KernelNeighbours().condition(X, Y)
    with pytest.raises(DataError, match="but the classes are"):
        credo.KernelNeighbours().condition(X, KIND).condition(X[:1], ["new"])
    with pytest.raises(DataError, match="k must be a whole number of at least 1, found 0"):
        credo.KernelNeighbours(0)
    with pytest.raises(DataError, match='"classes" or "numbers", found \'both\''):
        credo.KernelNeighbours(outcomes="both")
    with pytest.raises(DataError, match="one label per row: 60 are expected, found 59"):
        credo.KernelNeighbours().condition(X, KIND[1:])


def test_learned_neighbours_beat_the_shares_of_classes():
    after = credo.fit(credo.KernelNeighbours(), X[:40], KIND[:40])
    y = np.searchsorted(after.classes, KIND[40:])
    share = np.bincount(np.searchsorted(after.classes, KIND[:40])) / 40
    assert -np.log(share[y]).mean() - credo.evaluate.log_loss(after.predict(X[40:]), y) > 0.3


# -- regression --------------------------------------------------------------------------------------------------------


def test_the_density_is_that_of_inputs_and_outcomes_divided():
    """p(t | x) = p(x, t)/p(x), both kernel densities, by loops; and the mean of Nadaraya and Watson."""
    belief = credo.KernelRegression(RBF([0.4, 0.8]), 0.3, prior_count=0.0).condition(X, Y)
    p = belief.predict(QUERIES)
    t = np.linspace(-1, 4, 7)
    for i, x in enumerate(QUERIES):
        w = np.array([np.exp(-0.5 * (((x - z) / [0.4, 0.8]) ** 2).sum()) for z in X])
        joint = sum(a * stats.norm(m, 0.3).pdf(t) for a, m in zip(w, Y, strict=True))
        np.testing.assert_allclose(p.log_prob(t[:, None])[:, i], np.log(joint / w.sum()), rtol=1e-9)
        assert p.mean[i] == pytest.approx(w @ Y / w.sum(), rel=1e-12)
    grid = np.linspace(-6, 10, 2001)
    np.testing.assert_allclose(np.trapezoid(np.exp(p.log_prob(grid[:, None])), grid, axis=0), 1.0, rtol=1e-9)


def test_doubt_is_that_of_a_dirichlet_process():
    """Draws of the law at x: weights Dirichlet over rows and prior, and the variance of its mean."""
    belief = credo.KernelRegression(RBF(0.7), 0.3, prior_count=0.5).condition(X[:6], Y[:6])
    p = belief.predict(QUERIES[:1])
    c = RBF(0.7)(QUERIES[:1], X[:6])[0]
    rng = np.random.default_rng(0)
    n, sticks = 20_000, 60
    pieces = np.array([0.5, *c])
    masses = rng.gamma(pieces, size=(n, 7))
    masses /= masses.sum(1, keepdims=True)
    # The prior's part is itself a draw of a Dirichlet process with concentration 0.5 around N(0, 1).
    cuts = rng.beta(1, 0.5, size=(n, sticks))
    stick = cuts * np.cumprod(np.column_stack([np.ones(n), 1 - cuts[:, :-1]]), axis=1)
    prior = (stick * rng.normal(size=(n, sticks))).sum(1)
    means = masses[:, 0] * prior + masses[:, 1:] @ Y[:6]
    assert abs(means.mean() - p.mean[0]) < 4.5 * means.std() / np.sqrt(n)
    squares = (means - means.mean()) ** 2
    assert abs(squares.mean() - p.epistemic[0]) < 4.5 * squares.std() / np.sqrt(n)


def test_far_from_all_rows_it_says_so():
    after = credo.fit(credo.KernelRegression(), X, Y)
    near, far = after.predict(X[:1]), after.predict([[40.0, -40.0]])
    assert far.epistemic[0] > 0.8 * Y.var() > 10 * near.epistemic[0]
    assert far.mean[0] == pytest.approx(Y.mean(), rel=1e-9)


def test_bandwidths_maximize_the_likelihood_of_left_out_rows():
    learned = credo.fit(credo.KernelRegression(), X[:30], Y[:30], priors=False, report=True)
    belief = learned.belief

    def left_out(b):
        total = 0.0
        for i in range(30):
            others = np.delete(np.arange(30), i)
            total += b.unconditioned().condition(X[others], Y[others]).predict(X[i : i + 1]).log_prob(Y[i : i + 1])[0]
        return total

    best = left_out(belief)
    assert learned.log_evidence == pytest.approx(best, rel=1e-9)
    for path, value in credo.core.params.learnable(belief).items():
        for factor in (0.9, 1.1):
            assert left_out(credo.core.params.replace(belief, {path: value * factor})) < best + 1e-6


def test_two_branches_are_two_peaks():
    x = np.linspace(0, 1, 80)[:, None]
    y = np.where(RNG.uniform(size=80) < 0.5, 1.0, -1.0) + 0.05 * np.sin(np.arange(80))
    p = credo.fit(credo.KernelRegression(), x, y).predict([[0.5]])
    top, middle = np.exp(p.log_prob([1.0])[0]), np.exp(p.log_prob([0.0])[0])
    assert top > 100 * middle and abs(p.mean[0]) < 0.7


def test_edges_of_regression():
    with pytest.raises(DataError, match=r"which must be ≥ 0: .*Linear"):
        credo.KernelRegression(Linear()).condition(X, Y).predict(X)
    with pytest.raises(DataError, match="bandwidth must be positive"):
        credo.KernelRegression(bandwidth=0.0)
    one = credo.fit(credo.KernelRegression(), [[1.0]], [2.0])
    assert one.predict([[1.0]]).mean[0] == pytest.approx(2.0)
    flat = credo.fit(credo.KernelRegression(), np.column_stack([X, np.ones(60)]), Y)
    assert np.all(np.isfinite(flat.predict(np.column_stack([QUERIES, np.ones(7)])).std))
    whole = credo.fit(credo.KernelRegression(), X, np.round(3 * Y))  # outcomes that occur again and again
    assert whole.predict(QUERIES).aleatoric.min() >= 1 / 12
    with pytest.warns(NotConvergedWarning, match="30 of 60 rows are copies of others"):
        credo.fit(credo.KernelRegression(), np.r_[X[:30], X[:30]], np.r_[Y[:30], Y[:30]])
    words = credo.KernelRegression(Spectrum(2), 0.1).condition(["abab", "xyxy"], [1.0, -1.0])
    assert words.predict(["aba"]).mean[0] > 0.5 > -0.5 > words.predict(["yxy"]).mean[0]
    loo = whole.leave_one_out()
    others = np.arange(60) != 3
    again = whole.unconditioned().condition(X[others], np.round(3 * Y)[others]).predict(X[3:4])
    assert loo.mean[3] == pytest.approx(again.mean[0], rel=1e-9)


# -- densities ---------------------------------------------------------------------------------------------------------


def test_densities_are_scikit_learns_at_the_same_bandwidth():
    for h, x in ((0.4, X), (0.2, X[:, :1])):
        theirs = TheirDensity(bandwidth=h).fit(x).score_samples(QUERIES[:, : x.shape[1]])
        found = credo.KernelDensity(h).condition(x).log_density(QUERIES[:, : x.shape[1]])
        np.testing.assert_allclose(found, theirs, rtol=1e-10)


def test_a_bandwidth_for_each_column_maximizes_the_likelihood_of_left_out_rows():
    x = X * [1.0, 100.0]
    belief = credo.fit(credo.KernelDensity(), x, priors=False)
    h = np.asarray(belief.bandwidth)

    def left_out(h):
        total = 0.0
        for i in range(60):
            bumps = stats.norm(np.delete(x, i, 0), h).pdf(x[i]).prod(1)
            total += np.log(bumps.mean())
        return total

    best = left_out(h)
    assert credo.KernelDensity(h).log_evidence(x) == pytest.approx(best, rel=1e-10)
    for change in ([1.05, 1.0], [0.95, 1.0], [1.0, 1.05], [1.0, 0.95]):
        assert left_out(h * change) < best
    np.testing.assert_allclose(credo.fit(credo.KernelDensity(), X, priors=False).bandwidth * [1, 100], h, rtol=1e-5)
    shifted = credo.fit(credo.KernelDensity(), 1e-3 * X + 7.0).bandwidth
    np.testing.assert_allclose(shifted, 1e-3 * credo.fit(credo.KernelDensity(), X).bandwidth, rtol=1e-5)


def test_draws_and_predictions_of_a_density():
    belief = credo.KernelDensity([0.4, 0.8]).condition(X)
    draws = belief.sample(20_000, seed=1)
    p = belief.predict()
    se = draws.std(0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(0) - p.mean) < 4.5 * se)
    np.testing.assert_allclose(p.variance, X.var(0) + np.array([0.16, 0.64]), rtol=1e-12)
    np.testing.assert_allclose(p.epistemic, X.var(0) / 61, rtol=1e-12)
    one = credo.KernelDensity(0.4).condition(X[:, 0])
    assert one.predict().log_prob(0.3) == pytest.approx(one.log_density([0.3])[0], rel=1e-12)
    below = one.predict().cdf(0.3)
    assert below == pytest.approx(stats.norm(X[:, 0], 0.4).cdf(0.3).mean(), rel=1e-12)


def test_some_columns_given_the_others_are_densities_divided():
    import pandas as pd

    belief = credo.KernelDensity([0.4, 0.8]).condition(pd.DataFrame(X, columns=["speed", "weight"]))
    p = belief.given([[0.1], [-1.0]], ["speed"], of="weight")
    for i, v in enumerate((0.1, -1.0)):
        joint = belief.log_density([[v, 0.7]])[0]
        alone = credo.KernelDensity(0.4).condition(X[:, :1]).log_density([[v]])[0]
        assert p.log_prob(np.full(2, 0.7))[i] == pytest.approx(joint - alone, rel=1e-10)
    with pytest.raises(DataError, match="must be others than 'weight'"):
        belief.given([[0.0]], ["weight"], of="weight")
    with pytest.raises(DataError, match="from 0 to 1 or one of"):
        belief.given([[0.0]], ["mass"], of="weight")


def test_edges_of_densities():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twice = credo.fit(credo.KernelDensity(), np.r_[X, X])
        once = credo.fit(credo.KernelDensity(), X)
    assert np.all(np.abs(np.log(twice.bandwidth / once.bandwidth)) < 0.3)
    one = credo.fit(credo.KernelDensity(), [[3.0, 4.0]])
    assert np.isfinite(one.log_density([[3.0, 4.0]])[0])
    flat = credo.fit(credo.KernelDensity(), np.column_stack([X[:, 0], np.ones(60)]))
    assert np.all(np.isfinite(flat.bandwidth))
    same = credo.fit(credo.KernelDensity(), np.ones(20))
    assert np.isfinite(same.log_density([1.0])[0])
    assert np.isfinite(once.log_density([[1e6, 0.0]])[0])
    with pytest.raises(DataError, match="rows X alone, found 2"):
        credo.KernelDensity().condition(X, Y)
    with pytest.raises(DataError, match="must have 2 columns"):
        once.log_density([[0.0, 1.0, 2.0]])
    with pytest.raises(DataError, match="bandwidth must be positive, found -1"):
        credo.KernelDensity(-1.0)
    with pytest.raises(DataError, match="seen no rows yet"):
        credo.KernelDensity().sample()
    with pytest.raises(DataError, match="predicts one column, found 2"):
        once.leave_one_out()
    line = credo.KernelDensity(0.4).condition(X[:, 0])
    np.testing.assert_allclose(line.leave_one_out().log_prob(X[:, 0]), line.held_out_log_prob(X[:, :1]), rtol=1e-10)
