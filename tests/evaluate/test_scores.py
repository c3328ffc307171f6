import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics as metrics
from scipy import integrate, stats

from credo.core.errors import DataError
from credo.core.predictive import (
    Bernoulli,
    BetaBinomial,
    Categorical,
    Laplace,
    LogNormal,
    Mixture,
    MultivariateT,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
    mixture,
)
from credo.core.predictive.expectation import expectation, outcome_nodes
from credo.evaluate import scores

RNG = np.random.default_rng(0)
M = 6
MEAN, SD, Y = RNG.normal(size=M), RNG.uniform(0.5, 2, M), RNG.normal(size=M) * 2
NORMAL = Normal(MEAN, 0.7 * SD**2, 0.3 * SD**2)
STUDENT = StudentT(np.linspace(1.5, 9, M), MEAN, 0.7 * SD**2, 0.3 * SD**2)
LAPLACE = Laplace(MEAN, SD)
LOGNORMAL = LogNormal(MEAN, 0.7 * SD**2, 0.3 * SD**2)
NORMALS = mixture([0.3, 0.7], [NORMAL, Normal(MEAN + 2, 0.01 * SD, 0.02 * SD)])
STUDENTS = mixture([0.4, 0.6], [StudentT(np.full(M, 4.0), MEAN, SD, SD), StudentT(np.full(M, 6.0), MEAN + 1, SD, SD)])
COUNTS = RNG.integers(0, 12, M).astype(float)
BETA = BetaBinomial(np.full(M, 5.0), np.linspace(0.5, 2, M), np.linspace(2, 1, M), 5)
NEGATIVE = NegativeBinomial(np.linspace(0.5, 8, M), np.full(M, 0.6), np.full(M, 2.0))
POISSON = Mixture([0.2, 0.8], (Poisson(RNG.uniform(1, 9, (M, 2)).T),))
PROBS = RNG.dirichlet(np.ones(4), M)
LABELS = RNG.integers(0, 4, M)
ONES = np.ones(M)
TILED = mixture([0.2, 0.8], [Normal(0 * ONES, ONES, 0 * ONES), Normal(2 * ONES, 0.5 * ONES, 0 * ONES)])


def integral_crps(cdf, y: float) -> float:
    """∫ (F(z) - 1{y ≤ z})² dz by SciPy, on each side of y."""
    options = {"limit": 500, "epsabs": 1e-11, "epsrel": 1e-11}
    below = integrate.quad(lambda z: cdf(z) ** 2, -np.inf, y, **options)[0]
    return below + integrate.quad(lambda z: (1 - cdf(z)) ** 2, y, np.inf, **options)[0]


@pytest.mark.parametrize(
    ("prediction", "cdf"),
    [
        (NORMAL, lambda i: stats.norm(MEAN[i], SD[i]).cdf),
        (STUDENT, lambda i: stats.t(np.linspace(1.5, 9, M)[i], MEAN[i], SD[i]).cdf),
        (LOGNORMAL, lambda i: stats.lognorm(SD[i], scale=np.exp(MEAN[i])).cdf),
        (LAPLACE, lambda i: stats.laplace(MEAN[i], SD[i]).cdf),
        (
            NORMALS,
            lambda i: (
                lambda z: (
                    0.3 * stats.norm.cdf(z, MEAN[i], SD[i])
                    + 0.7 * stats.norm.cdf(z, MEAN[i] + 2, np.sqrt(0.03 * SD[i]))
                )
            ),
        ),
        (
            STUDENTS,
            lambda i: (
                lambda z: (
                    0.4 * stats.t.cdf(z, 4, MEAN[i], np.sqrt(2 * SD[i]))
                    + 0.6 * stats.t.cdf(z, 6, MEAN[i] + 1, np.sqrt(2 * SD[i]))
                )
            ),
        ),
    ],
)
def test_crps_is_the_integral(prediction, cdf):
    got = np.asarray(scores.crps(prediction, Y, pointwise=True))
    want = [integral_crps(cdf(i), Y[i]) for i in range(M)]
    np.testing.assert_allclose(got, want, rtol=2e-8)


def test_crps_by_quadrature_agrees_with_the_closed_form():
    """A mixture of one Student-t goes the general way."""
    one = mixture([1.0], [STUDENT])
    general, closed = scores.crps(one, Y, pointwise=True), scores.crps(STUDENT, Y, pointwise=True)
    np.testing.assert_allclose(general[1:], closed[1:], rtol=1e-8)


@pytest.mark.parametrize(
    ("prediction", "pmf"),
    [
        (BETA, lambda i, k: stats.betabinom(5, np.linspace(0.5, 2, M)[i], np.linspace(2, 1, M)[i]).pmf(k)),
        (NEGATIVE, lambda i, k: stats.nbinom(np.linspace(0.5, 8, M)[i], 0.6 / 2.6).pmf(k)),
        (
            POISSON,
            lambda i, k: sum(
                w * stats.poisson(r).pmf(k)
                for w, r in zip((0.2, 0.8), np.asarray(POISSON.parts[0].rate)[:, i], strict=True)
            ),
        ),
    ],
)
def test_crps_of_counts_is_the_sum(prediction, pmf):
    k = np.arange(600)
    want = [np.sum((np.cumsum(pmf(i, k)) - (COUNTS[i] <= k)) ** 2) for i in range(M)]
    np.testing.assert_allclose(scores.crps(prediction, COUNTS, pointwise=True), want, rtol=1e-9)
    np.testing.assert_allclose(
        expectation(prediction, lambda y: y**2), [np.sum(pmf(i, k) * k**2) for i in range(M)], rtol=1e-8
    )


def test_counts_too_wide_for_the_grid_are_summed_in_strides():
    wide = NegativeBinomial([4.0], [0.001], [1.0])
    k = np.arange(60_000)
    pmf = stats.nbinom(4, 0.001 / 1.001).pmf(k)
    want = np.sum((np.cumsum(pmf) - (k >= 3000)) ** 2)
    np.testing.assert_allclose(scores.crps(wide, [3000.0]), want, rtol=1e-4)


def test_crps_of_a_coin_is_its_brier_score_and_of_a_point_the_absolute_error():
    coin = Bernoulli.certain([0.2, 0.9])
    np.testing.assert_allclose(scores.crps(coin, [1, 1], pointwise=True), scores.brier(coin, [1, 1], pointwise=True))
    point = Normal([1.0, 2.0], [0.0, 0.0], [0.0, 0.0])
    np.testing.assert_allclose(scores.crps(point, [3.0, 2.0], pointwise=True), [2.0, 0.0], atol=1e-15)
    assert float(scores.crps(StudentT([1.0], [0.0], [1.0], [0.0]), [0.0])) == np.inf


def test_expectation_far_from_the_split_and_in_heavy_tails():
    far = eqx.filter_jit(expectation)(NORMAL, lambda y: y**2, MEAN + 50)
    np.testing.assert_allclose(far, MEAN**2 + SD**2, rtol=1e-9)
    heavy = StudentT(np.full(M, 4.0), MEAN, 0.5 * SD**2, 0.5 * SD**2)
    np.testing.assert_allclose(eqx.filter_jit(expectation)(heavy, lambda y: (y - MEAN) ** 2), 2 * SD**2, rtol=1e-7)


def test_outcome_nodes_integrate_what_they_should():
    y, w = outcome_nodes(NORMAL, 8)
    np.testing.assert_allclose(np.sum(w * y**3, axis=0), MEAN**3 + 3 * MEAN * SD**2, rtol=1e-8)
    y, w = outcome_nodes(Categorical.certain(PROBS), 8)
    np.testing.assert_allclose(np.sum(w * y, axis=0), PROBS @ np.arange(4), rtol=1e-12)
    y, w = outcome_nodes(BETA, 8)
    np.testing.assert_allclose(np.sum(w * y, axis=0), BETA.mean, rtol=1e-7)
    y, w = outcome_nodes(LAPLACE, 20)
    np.testing.assert_allclose(np.sum(w * y**2, axis=0), MEAN**2 + 2 * SD**2, rtol=2e-2)


def test_errors_and_r2_against_sklearn():
    y = Y
    np.testing.assert_allclose(scores.rmse(NORMAL, y), metrics.root_mean_squared_error(y, MEAN), rtol=1e-12)
    np.testing.assert_allclose(scores.mae(NORMAL, y), metrics.mean_absolute_error(y, MEAN), rtol=1e-12)
    np.testing.assert_allclose(scores.r2(NORMAL, y), metrics.r2_score(y, MEAN), rtol=1e-12)
    np.testing.assert_allclose(scores.rmse(NORMAL, y, pointwise=True), np.abs(y - MEAN), rtol=1e-12)
    np.testing.assert_allclose(scores.nlpd(NORMAL, y), -stats.norm.logpdf(y, MEAN, SD).mean(), rtol=1e-12)


def test_coverage_width_and_interval_score():
    z = stats.norm.ppf(0.9)
    low, high = MEAN - z * SD, MEAN + z * SD
    inside = (low <= Y) & (high >= Y)
    assert 0 < inside.mean() < 1
    np.testing.assert_allclose(scores.coverage(NORMAL, Y, 0.8), inside.mean())
    np.testing.assert_allclose(scores.width(NORMAL, level=0.8), (high - low).mean(), rtol=1e-12)
    # The interval score is 2/α times the pinball losses of both ends.
    want = sum(metrics.mean_pinball_loss(Y, end, alpha=q) for end, q in ((low, 0.1), (high, 0.9))) * 2 / 0.2
    np.testing.assert_allclose(scores.interval_score(NORMAL, Y, 0.8), want, rtol=1e-12)


def test_class_scores_against_sklearn():
    classes = Categorical.certain(PROBS)
    onehot = np.eye(4)[LABELS]
    np.testing.assert_allclose(scores.brier(classes, LABELS), ((PROBS - onehot) ** 2).sum(1).mean(), rtol=1e-12)
    np.testing.assert_allclose(
        scores.log_loss(classes, LABELS), metrics.log_loss(LABELS, PROBS, labels=range(4)), rtol=1e-12
    )
    np.testing.assert_allclose(scores.accuracy(classes, LABELS), metrics.accuracy_score(LABELS, PROBS.argmax(1)))
    coin, y = Bernoulli.certain(PROBS[:, 0]), np.array([0, 1, 1, 0, 1, 0])
    np.testing.assert_allclose(scores.brier(coin, y), metrics.brier_score_loss(y, PROBS[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(scores.log_loss(coin, y), metrics.log_loss(y, PROBS[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(scores.accuracy(coin, y), metrics.accuracy_score(y, PROBS[:, 0] > 0.5))


@pytest.mark.parametrize(
    ("one", "many"),
    [
        (NORMAL[0], Normal(np.full(M, MEAN[0]), np.full(M, 0.7 * SD[0] ** 2), np.full(M, 0.3 * SD[0] ** 2))),
        (Categorical.certain(PROBS[0]), Categorical.certain(np.tile(PROBS[0], (M, 1)))),
        (mixture([0.2, 0.8], [Normal(0.0, 1.0, 0.0), Normal(2.0, 0.5, 0.0)]), TILED),
    ],
    ids=["normal", "classes", "mixture"],
)
def test_a_prediction_of_one_outcome_is_scored_on_all(one, many):
    y = LABELS.astype(float)
    first, second = scores.score_table(one, y), scores.score_table(many, y)
    assert first.keys() == second.keys()
    np.testing.assert_allclose(list(first.values()), list(second.values()), rtol=1e-10)


def test_score_table_fits_the_kind():
    assert set(scores.score_table(NORMAL, Y)) == set(scores.REAL)
    assert set(scores.score_table(NEGATIVE, COUNTS)) == set(scores.COUNTS)
    assert set(scores.score_table(Categorical.certain(PROBS), LABELS)) == set(scores.CLASSES)
    assert "r2" not in scores.score_table(NORMAL, np.ones(M))
    assert list(scores.score_table(NORMAL, Y, ["crps"])) == ["crps"]
    vector = MultivariateT(5.0, MEAN[:2], np.eye(2), 0.1 * np.eye(2))
    table = scores.score_table(vector, Y[:2])
    np.testing.assert_allclose(table["nlpd"], -stats.multivariate_t(MEAN[:2], 1.1 * np.eye(2), df=5).logpdf(Y[:2]))
    assert all(isinstance(value, float) for value in table.values())


def test_proper_scores_prefer_the_truth():
    """The expected CRPS, log and interval score of the true distribution are the smallest."""
    y = np.random.default_rng(1).normal(1.0, 2.0, 4000)
    ones = np.ones(1)
    for score in (scores.nlpd, scores.crps, scores.interval_score):
        right, *wrong = (
            np.asarray(score(Normal(m * ones, v * ones, 0 * ones)[0], y, pointwise=True))
            for m, v in ((1, 4), (1.4, 4), (1, 2.5), (1, 6))
        )
        for other in wrong:
            gain = other - right
            assert gain.mean() > 3 * gain.std() / np.sqrt(len(y))


def test_scores_can_be_traced_and_differentiated():
    def objective(mean):
        return scores.crps(Normal(mean, jnp.asarray(SD), jnp.zeros(M)), jnp.asarray(Y))

    got = jax.grad(objective)(jnp.asarray(MEAN))
    step = 1e-6 * np.eye(M)
    want = [(objective(MEAN + e) - objective(MEAN - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scores.rmse(NORMAL, Y[:3]), "6 are expected, found 3"),
        (lambda: scores.nlpd(NORMAL, [*Y[:5], np.nan]), "NaN at row 5"),
        (lambda: scores.rmse(Categorical.certain(PROBS), LABELS), "rmse needs outcomes that are numbers"),
        (lambda: scores.brier(NORMAL, Y), "brier needs a prediction of classes, found Normal"),
        (lambda: scores.log_loss(Categorical.certain(PROBS), LABELS + 1), "whole numbers from 0 to 3"),
        (lambda: scores.coverage(NORMAL, Y, 95.0), "write 95 % as 0.95"),
        (lambda: scores.r2(NORMAL, np.ones(M)), "the same y in every row"),
        (lambda: scores.find_score("rsme"), "score must be one of rmse"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(DataError, match=message):
        call()
