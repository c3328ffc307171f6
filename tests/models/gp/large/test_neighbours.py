"""Vecchia's approximation: exact with all neighbours, and close with a few."""

import numpy as np
import pytest

import credo
from credo.core import params
from credo.errors import DataError
from credo.kernels import RBF, Exponential, Linear, Matern32, Matern52, Periodic
from credo.models.gp import GP, Basis, Local, Neighbours, NeighboursGP, StateSpace
from credo.models.gp.large.nearest import Nearest, embedding

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, size=(40, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=40)
QUERIES = RNG.uniform(-3, 3, size=(7, 2))
SCALE = RNG.uniform(0.5, 2.0, size=40)
GP0 = GP(Matern52([0.8, 1.5], 1.3), Basis(covariance=2.0), 0.07)


def simulated(n: int, kernel, noise: float, seed: int, d: int = 2):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, d))
    k = kernel(x) + noise * np.eye(n)
    return x, np.linalg.cholesky(k) @ rng.normal(size=n)


def test_all_neighbours_are_the_exact_posterior():
    weights = 1 / SCALE
    exact, near = (GP0.condition(X, Y, weights=weights, using=u) for u in (None, Neighbours(39, 40)))
    p, wanted = near.predict(QUERIES), exact.predict(QUERIES)
    np.testing.assert_allclose(p.mean, wanted.mean, rtol=1e-8)
    np.testing.assert_allclose(p.epistemic, wanted.epistemic, rtol=1e-8, atol=1e-12)
    own = near.unconditioned()
    np.testing.assert_allclose(
        own.log_evidence(X, Y, weights=weights), GP0.log_evidence(X, Y, weights=weights), rtol=1e-9
    )
    first = own.condition(X[:25], Y[:25])
    wanted = GP0.condition(X[:25], Y[:25]).log_evidence(X[25:], Y[25:])
    np.testing.assert_allclose(first.log_evidence(X[25:], Y[25:]), wanted, rtol=1e-9)
    assert "40 rows" in repr(near) and "Neighbours(k=39" in repr(near)


def test_the_gradient_is_that_of_the_evidence():
    belief, rows = Neighbours(6).adapt(*GP0.prepare(X, Y, weights=1 / SCALE))
    slots, priors = params.layout(belief), belief.default_priors(rows)
    objective = belief.objective(slots, rows, priors)
    at = np.asarray(params.to_vector(belief, slots))
    value, slope = objective.value_and_grad(at)
    assert value == pytest.approx(float(belief.evidence_of(rows)) + float(params.log_prior(belief, priors)), rel=1e-10)
    for i, axis in enumerate(1e-5 * np.eye(len(at))):
        difference = (objective.value(at + axis) - objective.value(at - axis)) / 2e-5
        assert slope[i] == pytest.approx(difference, rel=1e-5, abs=1e-5)


def test_more_neighbours_come_closer():
    x, y = simulated(300, Matern32(0.2, 1.0), 0.01, 1)
    gp, queries = GP(Matern32(0.2, 1.0), 0.0, 0.01), np.random.default_rng(2).uniform(size=(50, 2))
    exact = gp.condition(x, y).predict(queries)
    off = [
        np.abs(gp.condition(x, y, using=Neighbours(10, k)).predict(queries).mean - exact.mean).max()
        for k in (5, 20, 80, 300)
    ]
    assert off[0] > off[1] > off[2] > off[3] and off[3] < 1e-10
    wanted = float(gp.log_evidence(x, y))
    gaps = [abs(float(NeighboursGP(gp, Neighbours(k)).log_evidence(x, y)) - wanted) for k in (2, 10, 40)]
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 0.5


@pytest.mark.parametrize("d", [2, 12])
def test_neighbours_are_the_nearest(d):
    rng = np.random.default_rng(d)
    x, queries = rng.normal(size=(200, d)), rng.normal(size=(9, d))
    kernel = RBF(rng.uniform(0.5, 2, size=d))
    near = Nearest(kernel, x)
    assert near.by_tree == (d == 2)
    for asked in (queries, rng.normal(size=(40, d))):
        np.testing.assert_array_equal(near.to(asked, 5), np.argsort(-kernel(asked, x), axis=1)[:, :5])
    every = np.arange(200)
    few = np.concatenate([near.earlier(part, 5) for part in np.array_split(every, 10)])
    np.testing.assert_array_equal(near.earlier(every, 5), few)
    places = np.array([0, 1, 3, 50, 199])
    for place, found in zip(places, near.earlier(places, 5), strict=True):
        wanted = np.argsort(-kernel(x[place : place + 1], x)[0, :place])[:5]
        np.testing.assert_array_equal(found[found >= 0], wanted)


def test_the_metric_of_sums_products_and_kernels_without_one():
    x = RNG.normal(size=(6, 2))
    both = 3.0 * RBF(2.0).on(0) + Exponential(0.5).on(1) + Linear()
    np.testing.assert_allclose(embedding(both, x), x * [np.sqrt(0.75) / 2, np.sqrt(0.25) / 0.5])
    assert embedding(RBF().on(0) * Periodic(1.0, period=2.0).on(1), x).shape == (6, 3)
    assert embedding(Linear(), x) is None
    found = Nearest(Linear(), x).to(x[:1], 2)[0]
    np.testing.assert_array_equal(np.sort(found), np.sort(np.argsort(((x - x[0]) ** 2).sum(1))[:2]))


@pytest.mark.slow
def test_it_learns_and_its_intervals_hold():
    x, y = simulated(2500, 1.5 * Matern32([0.3, 0.8]), 0.05, 4)
    report = credo.fit(GP(Matern32(ard=True)), x[:2000], y[:2000], using=Neighbours(15, terms=800), report=True)
    gp, truth = report.belief, GP(1.5 * Matern32([0.3, 0.8]), noise=0.05)
    assert float(gp.noise) == pytest.approx(0.05, rel=0.25)
    assert "learned from 800 of 2000 rows" in report.notes[-3] and "neighbours" in report.notes[-2]
    p, best = gp.predict(x[2000:]), truth.condition(x[:2000], y[:2000], using=Neighbours(15)).predict(x[2000:])
    assert np.mean(best.log_prob(y[2000:]) - p.log_prob(y[2000:])) < 0.03
    inside = np.mean(np.abs(y[2000:] - p.mean) < 1.96 * p.std)
    assert 0.93 - 0.02 < inside < 0.97 + 0.02  # 500 rows: a standard error of 0.01


def test_more_rows_are_taken_in():
    for method, close in ((Neighbours(39, 40), 1e-9), (Neighbours(8, 10), 0.05)):
        whole = GP0.condition(X, Y, using=method)
        halves = GP0.condition(X[:25], Y[:25], using=method).condition(X[25:], Y[25:])
        np.testing.assert_allclose(halves.predict(QUERIES).mean, whole.predict(QUERIES).mean, atol=close)
        np.testing.assert_allclose(halves.predict(X[:3]).std, whole.predict(X[:3]).std, rtol=close)


def test_duplicates_and_constant_columns():
    x = np.column_stack([np.repeat(X[:10, 0], 4), np.ones(40)])
    after = credo.fit(GP(), x, Y, using=Neighbours(10))
    p = after.predict(np.vstack([x, x + 100]))
    assert np.all(np.isfinite(p.mean)) and np.all(p.epistemic >= 0)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(DataError, match="k must be a whole number"):
        Neighbours(0)
    with pytest.raises(DataError, match="predict must be a whole number"):
        Neighbours(5, -1)


@pytest.mark.parametrize("method", [Neighbours(39, 40), Local(1e-12)])
def test_functions_have_the_law_of_the_posterior(method):
    gp = GP(RBF([0.9, 1.2], 1.3), noise=0.07)
    after, exact = gp.condition(X, Y, using=method), gp.condition(X, Y)
    drawn = after.sample_functions(1000, features=4096, seed=2)
    draws = np.asarray(drawn(QUERIES))
    p = exact.predict(QUERIES, joint=True)
    assert np.all(np.abs(draws.mean(0) - p.mean) < 4.5 * draws.std(0, ddof=1) / np.sqrt(1000) + 0.02)
    np.testing.assert_allclose(np.cov(draws.T), p.latent_covariance, atol=0.2 * float(p.epistemic.max()))
    np.testing.assert_allclose(np.asarray(drawn(QUERIES[2:4])), draws[:, 2:4], atol=1e-9)  # the same functions


@pytest.mark.filterwarnings("ignore:noise ran towards")
def test_one_row_and_outcomes_that_do_not_vary():
    one = credo.fit(GP(Matern32()), X[:1], Y[:1], using=Neighbours())
    assert np.all(np.isfinite(one.predict(QUERIES).mean))
    for value in (0.0, 1.0, 3.0):
        level = credo.fit(GP(Matern32()), X, np.full(len(X), value), using=Neighbours(5))
        np.testing.assert_allclose(level.predict(QUERIES).mean, value, atol=1e-6)
        many = credo.fit(GP(Matern32()), X, np.full(len(X), value), using=Neighbours(5, held=20))
        np.testing.assert_allclose(many.predict(QUERIES).mean, value, atol=1e-6)


@pytest.mark.filterwarnings("ignore::credo.errors.NotConvergedWarning")
def test_without_noise_rounding_ends_no_climb():
    """A smooth function whose amplitude runs away: of huge numbers that nearly cancel, d is no less than the noise."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(150, 3))
    f = np.sin(2 * x[:, 0]) + x[:, 1]
    learned = credo.fit(GP(), x, f, using=Neighbours(10, terms=100, held=50))
    np.testing.assert_allclose(
        learned.predict(x[:20] + 0.01).mean, np.sin(2 * x[:20, 0] + 0.02) + x[:20, 1] + 0.01, atol=0.01
    )


def test_what_stops_too_early_says_how_to_go_on():
    with pytest.warns(credo.errors.NotConvergedWarning, match=r"using=Neighbours\(max_steps=5\)"):
        credo.fit(GP(Matern52(ard=True)), X, Y, using=Neighbours(5, max_steps=1))


@pytest.mark.parametrize("using", [Neighbours(5), Local(0.01), StateSpace()])
def test_how_queries_covary_is_refused_by_members_that_see_each_alone(using):
    x = X[:, :1] if isinstance(using, StateSpace) else X
    after = GP(Matern32()).condition(x, Y, using=using, noise=np.full(40, 0.1))
    for ask in (lambda: after.predict(x[:3], joint=True), lambda: after.covariance(x[:3])):
        with pytest.raises(DataError, match=r"using=Exact\(\)"):
            ask()


@pytest.mark.slow
def test_means_over_rows_are_drawn_as_by_the_exact_process():
    """Averages of drawn functions against jointly normal averages: 50 pairs know a deviation to a tenth."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (200, 2))
    gp, y = GP(Matern32(2.0, 1.0), 0.0, noise=0.09), np.sin(x[:, 0]) + 0.3 * rng.normal(size=200)
    groups = np.stack([np.column_stack([np.full(30, v), rng.uniform(0, 10, 30)]) for v in (1.0, 3.0, 5.0)])
    near, exact = (gp.condition(x, y, using=u).mean_draws(groups) for u in (Neighbours(60, predict=199), None))
    np.testing.assert_allclose(near.mean(0), exact.mean(0), atol=1e-5)
    np.testing.assert_allclose(near.std(0), exact.std(0), rtol=0.35)
    np.testing.assert_allclose((near[:, 1] - near[:, 0]).std(), (exact[:, 1] - exact[:, 0]).std(), rtol=0.35)
