"""Scores of several points, of pending points and of what comes next, against brute force."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import credo
from credo.core.errors import DataError
from credo.decide import acquisition as acq
from credo.decide.acquisition.lookahead import log_expected_rise
from credo.kernels import Matern52
from credo.models.noise import KnownNoise

RNG = np.random.default_rng(8)
X = RNG.uniform(size=(12, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=12)
GP = credo.GP(Matern52(0.4), 0.0, 0.1).condition(X, Y)
QUERIES = RNG.uniform(size=(5, 2))
SETS = RNG.uniform(size=(4, 3, 2))
PENDING = np.array([[0.3, 0.9], [0.8, 0.2]])
score_of = eqx.filter_jit(lambda score, belief, x: (score(belief, x), score.climb(belief, x)))


def joint_draws(x, n, seed=0, sign=1.0):
    """n draws of ±f at the rows x, by NumPy from a dense solve that shares nothing with the library but the kernel."""
    k = lambda a, b: np.asarray(GP.kernel.gram(jnp.asarray(a), jnp.asarray(b)))  # noqa: E731
    gain = np.linalg.solve(k(X, X) + 0.1 * np.eye(len(X)), k(X, x)).T
    covariance = k(x, x) - gain @ k(X, x)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    return sign * (gain @ Y + np.random.default_rng(seed).normal(size=(n, len(x))) @ root.T)


def assert_agree(got, outcome, quasi):
    """The mean of the outcomes, within 4.5 standard errors; those of `quasi` quasi-random draws are taken as a
    quarter of what independent ones would have."""
    se = outcome.std(0, ddof=1) * np.sqrt(1 / len(outcome) + 1 / (16 * quasi))
    assert np.all(np.abs(outcome.mean(0) - np.asarray(got)) < 4.5 * se + 1e-6)


# -- improvement over what noise hides ---------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_noisy_improvement_by_monte_carlo(sign):
    n, quasi = 100_000, 1024
    rows = np.concatenate([QUERIES, X, PENDING])
    draws = joint_draws(rows, n, sign=sign)
    for pending, last in ((None, len(QUERIES) + len(X)), (PENDING, len(rows))):
        score = acq.NoisyExpectedImprovement(draws=quasi, rows=16, maximize=sign > 0).prepared(GP, pending=pending)
        beaten = draws[:, len(QUERIES) : last].max(1)
        outcome = np.maximum(draws[:, : len(QUERIES)] - beaten[:, None], 0)
        got, climbed = score_of(score, GP, jnp.asarray(QUERIES))
        assert_agree(got, outcome, quasi)
        np.testing.assert_allclose(climbed, np.log(got), rtol=1e-10)


def test_rows_that_cannot_be_best_may_be_left_out():
    queries = jnp.asarray(QUERIES)
    all_rows = acq.NoisyExpectedImprovement(draws=512, rows=16).prepared(GP)
    few = acq.NoisyExpectedImprovement(draws=512, rows=8).prepared(GP)
    assert int(few.baseline.mask.sum()) == 8
    np.testing.assert_allclose(score_of(few, GP, queries)[0], score_of(all_rows, GP, queries)[0], atol=0.01)


# -- batches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sign", "with_pending"), [(1.0, False), (-1.0, True)])
def test_batches_by_monte_carlo(sign, with_pending):
    n, quasi, best = 200_000, 1024, 0.3 if sign > 0 else -0.6
    pending = PENDING if with_pending else np.zeros((0, 2))
    options = {"draws": quasi, "maximize": sign > 0}
    scores = [
        acq.BatchExpectedImprovement(3, sign * best, **options).prepared(GP, seed=1, pending=pending),
        acq.BatchNoisyExpectedImprovement(3, rows=16, **options).prepared(GP, seed=1, pending=pending),
        acq.BatchUpperConfidenceBound(3, 2.0**0.5, **options).prepared(GP, seed=1, pending=pending),
    ]
    got = [score_of(score, GP, jnp.asarray(SETS[:2])) for score in scores]
    for b in (0, 1) if with_pending else (1,):
        draws = joint_draws(np.concatenate([SETS[b], pending, X]), n, seed=b, sign=sign)
        top, q = draws[:, :3].max(1), 3 + len(pending)
        known = np.maximum(best, draws[:, 3:q].max(1)) if with_pending else best
        spread = np.abs(draws[:, :q] - draws[:, :q].mean(0))
        outcomes = [
            np.maximum(top - known, 0),
            np.maximum(top - draws[:, 3:].max(1), 0),
            (draws[:, :q].mean(0) + 2.0**0.5 * np.sqrt(np.pi / 2) * spread).max(1),
        ]
        for (value, _), outcome in zip(got, outcomes, strict=True):
            assert_agree(value[b], outcome, quasi)
        np.testing.assert_allclose(np.exp(got[0][1][b]), got[0][0][b], rtol=0.01)  # soft maxima, τ = 0.01 σ
        np.testing.assert_allclose(got[2][1][b], got[2][0][b], rtol=0.01)


def test_a_batch_of_one_is_the_closed_form():
    x = jnp.asarray(QUERIES)
    ei = acq.ExpectedImprovement(0.9)(GP, x)
    one = acq.BatchExpectedImprovement(1, 0.9, draws=4096).prepared(GP)
    np.testing.assert_allclose(score_of(one, GP, x[:, None])[0], ei, rtol=5e-3, atol=1e-4)
    ucb = acq.UpperConfidenceBound(3.0**0.5)(GP, x)
    one = acq.BatchUpperConfidenceBound(1, 3.0**0.5, draws=4096).prepared(GP)
    np.testing.assert_allclose(score_of(one, GP, x[:, None])[0], ucb, rtol=1e-3, atol=1e-3)


def test_where_no_draw_improves_the_logarithm_still_leads_back():
    score = acq.BatchExpectedImprovement(2, 50.0, draws=16).prepared(GP)
    x = jnp.asarray(SETS[:, :2])
    assert np.all(score_of(score, GP, x)[0] == 0)
    slope = eqx.filter_jit(jax.grad(lambda v: score.climb(GP, v).sum()))(x)
    assert np.isfinite(slope).all() and np.abs(slope).min() > 0


def test_the_same_point_twice_is_worth_no_more_than_once():
    x = jnp.asarray(QUERIES[[0, 4]])
    twice = acq.BatchExpectedImprovement(2, 0.5, draws=1024).prepared(GP)
    got, climbed = score_of(twice, GP, jnp.stack([x, x], axis=1))
    assert np.isfinite(climbed).all()
    np.testing.assert_allclose(got, acq.ExpectedImprovement(0.5)(GP, x), rtol=0.01, atol=1e-3)
    apart = score_of(twice, GP, x[None])[0]
    assert apart[0] > 1.05 * got.max()


# -- one step ahead ----------------------------------------------------------------------------------------------


rise = eqx.filter_jit(lambda heights, slopes, mask: log_expected_rise(heights[None], slopes[None], mask)[0])


def by_grid(a, b):
    """E max (a + bZ) - max a, by the trapezoidal rule."""
    z = np.linspace(-12, 12, 200_001)
    height = (a[:, None] + b[:, None] * z).max(0) - a.max()
    return np.trapezoid(height * stats.norm.pdf(z), z)


@pytest.mark.parametrize("case", ["random", "ties", "duplicates", "concurrent", "flat", "masked"])
def test_the_expected_maximum_of_lines(case):
    rng = np.random.default_rng(4)
    a, b, mask = rng.normal(size=9), rng.normal(size=9), np.ones(9, bool)
    if case == "ties":
        b = np.repeat([-0.5, 0.1, 0.7], 3)
    if case == "duplicates":
        a, b = np.tile(a[:3], 3), np.tile(b[:3], 3)
    if case == "concurrent":
        a = 0.3 - 0.8 * b  # all meet in one point
    if case == "flat":
        b = np.zeros(9)
    if case == "masked":
        mask = np.arange(9) < 5
        a[6], b[7] = 100.0, 50.0
    got = np.exp(rise(jnp.asarray(a), jnp.asarray(b), jnp.asarray(mask)))
    np.testing.assert_allclose(got, by_grid(a[mask], b[mask]), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_knowledge_gradient_by_conditioning(sign):
    """The lines from two conditioned beliefs, the expectation on a grid."""
    at = X[:6]
    score = acq.KnowledgeGradient(at=at, maximize=sign > 0).prepared(GP)
    got = score_of(score, GP, jnp.asarray(QUERIES[:3]))[0]
    for i, x in enumerate(QUERIES[:3]):
        places = np.concatenate([at, x[None]])
        now = GP.predict(x[None])
        mean, std = float(now.mean[0]), float(np.sqrt(now.epistemic[0] + now.aleatoric[0]))
        a = sign * np.asarray(GP.condition(x[None], [mean]).predict(places).mean)
        b = sign * np.asarray(GP.condition(x[None], [mean + std]).predict(places).mean) - a
        np.testing.assert_allclose(got[i], by_grid(a, b), rtol=1e-5, atol=1e-9)


def test_knowledge_gradient_by_monte_carlo():
    score = acq.KnowledgeGradient(rows=16).prepared(GP)
    got = score_of(score, GP, jnp.asarray(QUERIES[:1]))[0]
    x = QUERIES[:1]
    places = np.concatenate([X, x])
    now = GP.predict(x)
    outcomes = np.random.default_rng(0).normal(float(now.mean[0]), float(np.sqrt(now.total[0])), size=49)
    top = float(GP.predict(places).mean.max())
    rises = [float(GP.condition(x, [y]).predict(places).mean.max()) - top for y in outcomes]
    assert abs(np.mean(rises) - float(got[0])) < 4.5 * np.std(rises, ddof=1) / 7


def test_variance_reduction_by_conditioning():
    at, weights = X[:4] + 0.05, np.array([1.0, 2.0, 0.0, 0.5])
    got = acq.ExpectedVarianceReduction(at, weights)(GP, jnp.asarray(QUERIES))
    before = np.asarray(GP.predict(at).epistemic)
    want = [weights @ (before - np.asarray(GP.condition(x[None], [7.0]).predict(at).epistemic)) for x in QUERIES]
    np.testing.assert_allclose(got, want, rtol=1e-8)


def test_information_directed_sampling_is_its_ratio():
    score = acq.InformationDirected(maxima=[2.0, 3.0])
    x = jnp.asarray(QUERIES)
    p = GP.predict(QUERIES)
    ratio = (2.5 - np.asarray(p.mean)) ** 2 / (0.5 * np.log1p(np.asarray(p.epistemic) / 0.1))
    got, climbed = score_of(score, GP, x)
    np.testing.assert_allclose(got, -ratio, rtol=1e-10)
    np.testing.assert_array_equal(np.argsort(climbed), np.argsort(got))
    small = acq.InformationDirected(maxima=[2.0], maximize=False)
    assert np.all(np.isfinite(small.climb(GP, x)))


# -- Thompson ----------------------------------------------------------------------------------------------------


def test_thompson_scores_with_one_function():
    x = jnp.asarray(QUERIES)
    up = acq.Thompson(features=256).prepared(GP, seed=3)
    want = GP.sample_functions(1, features=256, seed=3)(QUERIES)[0]
    np.testing.assert_allclose(up(GP, x), want, rtol=1e-12)
    np.testing.assert_allclose(up(GP, x[2:3]), want[2:3], rtol=1e-12)  # whatever else is asked
    down = acq.Thompson(features=256, maximize=False).prepared(GP, seed=3)
    np.testing.assert_allclose(down(GP, x), -want, rtol=1e-12)
    assert np.abs(acq.Thompson(features=256).prepared(GP, seed=4)(GP, x) - want).max() > 1e-3


def test_thompson_without_functions_draws_the_candidates_jointly():
    belief = credo.Linear(noise=0.1).condition(X, Y)
    x = jnp.asarray(QUERIES)
    ready = acq.Thompson().prepared(belief, seed=0)

    @eqx.filter_jit
    def many(keys):
        return jax.vmap(lambda key: eqx.tree_at(lambda s: s.key, ready, key)(belief, x))(keys)

    draws = np.asarray(many(jax.random.split(jax.random.key(1), 20_000)))
    covariance = np.asarray(belief.covariance(x, x))
    se = np.sqrt(np.diagonal(covariance) / 20_000)
    assert np.all(np.abs(draws.mean(0) - np.asarray(belief.predict(x).mean)) < 4.5 * se)
    spread = np.sqrt((covariance**2 + np.outer(np.diagonal(covariance), np.diagonal(covariance))) / 20_000)
    assert np.all(np.abs(np.cov(draws.T) - covariance) < 4.5 * spread)


# -- pending points ----------------------------------------------------------------------------------------------


def test_the_believer_conditions_on_what_it_expects():
    x = jnp.asarray(QUERIES)
    after = GP.condition(PENDING, np.asarray(GP.predict(PENDING).mean))
    ready = acq.Believer(acq.UpperConfidenceBound()).prepared(GP, pending=PENDING)
    np.testing.assert_allclose(ready(GP, x), acq.UpperConfidenceBound()(after, x), rtol=1e-10)
    ready = acq.Believer(acq.ExpectedImprovement()).prepared(GP, pending=PENDING)
    np.testing.assert_allclose(ready.climb(GP, x), acq.ExpectedImprovement().prepared(after).climb(after, x), rtol=1e-9)
    alone = acq.Believer(acq.UpperConfidenceBound()).prepared(GP)
    np.testing.assert_allclose(alone(GP, x), acq.UpperConfidenceBound()(GP, x))
    known = credo.GP(Matern52(0.4), 0.0, KnownNoise()).condition(X, Y, noise=np.full(12, 0.1))
    assert acq.Believer(acq.MaxVariance()).prepared(known, pending=PENDING).belief.seen.n == 14


def test_local_penalization_is_the_probability_of_lying_outside_the_balls():
    lipschitz, maximum = 3.0, 1.5
    ready = acq.LocalPenalization(acq.ExpectedImprovement(0.5), lipschitz, maximum).prepared(GP, pending=PENDING)
    x = jnp.asarray(QUERIES)
    there = GP.predict(PENDING)
    normals = np.random.default_rng(0).normal(size=(200_000, 2))
    draws = np.asarray(there.mean) + np.sqrt(np.asarray(there.epistemic)) * normals
    far = np.linalg.norm(QUERIES[:, None] - PENDING, axis=-1)
    outside = np.stack([(d > (maximum - draws) / lipschitz).mean(0) for d in far])
    got = np.exp(ready.log_penalty(GP, x))
    want = outside.prod(1)
    assert np.all(np.abs(got - want) < 4.5 * np.sqrt((outside * (1 - outside)).sum(1) / 200_000) + 2e-5)
    assert np.ptp(want) > 0.1
    np.testing.assert_allclose(ready(GP, x), np.asarray(acq.ExpectedImprovement(0.5)(GP, x)) * got, rtol=1e-9)
    alone = acq.LocalPenalization(acq.ExpectedImprovement(0.5), lipschitz, maximum).prepared(GP)
    np.testing.assert_allclose(alone(GP, x), acq.ExpectedImprovement(0.5)(GP, x), rtol=1e-10)


def test_local_penalization_estimates_its_slope_and_keeps_away():
    score = acq.LocalPenalization(acq.UpperConfidenceBound())
    ready = score.prepared(GP, pending=PENDING)
    places = X.min(0) + np.random.default_rng(1).uniform(size=(500, 2)) * np.ptp(X, axis=0)
    step = 1e-5
    ahead = [np.asarray(GP.predict(places + step * e).mean - GP.predict(places - step * e).mean) for e in np.eye(2)]
    slopes = np.linalg.norm(ahead, axis=0) / (2 * step)
    np.testing.assert_allclose(ready.lipschitz, slopes.max(), rtol=0.1)
    np.testing.assert_allclose(ready.maximum, GP.predict(places).mean.max(), rtol=0.05)
    at, away = score.prepared(GP, pending=QUERIES[:1]), score.prepared(GP)
    x = jnp.asarray(QUERIES[:1])
    assert float(at(GP, x)[0]) < 0.5 * float(away(GP, x)[0])
    np.testing.assert_allclose(away(GP, x), np.log1p(np.exp(acq.UpperConfidenceBound()(GP, x))), rtol=1e-10)
    down = acq.LocalPenalization(acq.LowerConfidenceBound(), maximize=False).prepared(GP, pending=PENDING)
    np.testing.assert_allclose(down.maximum, GP.predict(places).mean.min(), atol=0.05)


# -- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: acq.BatchExpectedImprovement(0), "q must be a whole number of at least 1"),
        (lambda: acq.BatchExpectedImprovement(2, best=np.nan), "best must be a finite number"),
        (lambda: acq.BatchExpectedImprovement(2, draws=7), "even number, found 7"),
        (lambda: acq.BatchExpectedImprovement(2, temperature=0.0), "temperature must be a finite number of at least"),
        (lambda: acq.BatchUpperConfidenceBound(2, -1.0), "beta must be a finite number of at least 0"),
        (lambda: acq.BatchNoisyExpectedImprovement(2, 0.5), "use BatchExpectedImprovement"),
        (lambda: acq.BatchNoisyExpectedImprovement(2, rows=0), "rows must be a whole number"),
        (
            lambda: acq.BatchExpectedImprovement(2, 0.5).prepared(GP)(GP, jnp.zeros((4, 3, 2))),
            r"sets of 2 points: x must have shape \(b, 2, d\), found \(4, 3, 2\); for one set pass x\[None\]",
        ),
        (lambda: acq.BatchExpectedImprovement(2, 0.5).prepared(GP, pending=[1.0, 2.0]), "pending must be a table"),
        (lambda: acq.KnowledgeGradient().prepared(credo.GP()), r"KnowledgeGradient\(at=points\)"),
        (lambda: acq.KnowledgeGradient(at=[0.0, 1.0]), "at must be a table"),
        (lambda: acq.ExpectedVarianceReduction(X, [1.0]), "weights must be 12 numbers"),
        (lambda: acq.ExpectedVarianceReduction([[np.nan, 0.0]]), "at contains NaN"),
        (lambda: acq.Believer(acq.BatchUpperConfidenceBound(2)), "respects pending points itself"),
        (lambda: acq.LocalPenalization(acq.BatchUpperConfidenceBound(2)), "respects pending points itself"),
        (lambda: acq.LocalPenalization(acq.MaxVariance(), lipschitz=-1.0), "lipschitz must be a finite number"),
        (lambda: acq.LocalPenalization(acq.LowerConfidenceBound()), "both maximize or both minimize"),
        (lambda: acq.LocalPenalization(acq.MaxVariance()).prepared(credo.GP()), "give lipschitz= and maximum="),
    ],
)
def test_bad_input_is_refused_with_a_remedy(make, message):
    with pytest.raises(DataError, match=message):
        make()
