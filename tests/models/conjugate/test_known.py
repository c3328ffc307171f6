"""ML, MAP, plug-in and Bayes on one problem: one argument apart."""

import numpy as np
import pytest
from scipy import stats

import credo
from credo.errors import DataError
from credo.infer import MAP, ML, PlugIn
from credo.models.conjugate import (
    BetaBernoulli,
    BetaBinomial,
    DirichletCategorical,
    DirichletMultinomial,
    GammaPoisson,
    Hypotheses,
    NormalInverseGamma,
    NormalInverseWishart,
    NormalKnownVariance,
)

REALS = np.array([1.2, 0.4, 2.2, 1.9, 0.7])
ROWS = np.array([[0.1, 1.0], [1.3, 0.2], [0.4, -0.8], [2.0, 0.5]])
METHODS = [ML(), MAP(), PlugIn()]

BELIEFS = {
    "BetaBernoulli": (BetaBernoulli(2.0, 3.0), ([1, 1, 0, 1],)),
    "BetaBinomial": (BetaBinomial(2.0, 3.0), ([3, 1], [4, 5])),
    "DirichletCategorical": (DirichletCategorical([2.0, 2.0, 3.0]), ([0, 0, 2, 1],)),
    "DirichletMultinomial": (DirichletMultinomial([2.0, 2.0, 3.0]), ([[2, 1, 1], [0, 3, 1]],)),
    "GammaPoisson": (GammaPoisson(2.0, 1.0), ([3, 0, 2], [1.0, 0.5, 2.0])),
    "NormalKnownVariance": (NormalKnownVariance(0.0, 2.0, 0.7), (REALS,)),
    "NormalInverseGamma": (NormalInverseGamma(0.0, 1.0, 2.0, 1.0), (REALS,)),
    "NormalInverseWishart": (NormalInverseWishart([0.0, 0.0], 1.0, 5.0, np.eye(2)), (ROWS,)),
    "Hypotheses": (Hypotheses([[0.5, 0.2], [0.5, 0.8]], [0.6, 0.4]), ([0, 1, 1],)),
}


@pytest.mark.parametrize("name", BELIEFS)
def test_point_estimates_have_no_ignorance(name):
    belief, data = BELIEFS[name]
    assert {"ML", "MAP", "PlugIn"} <= set(belief.methods["condition"])
    for method in METHODS:
        point = belief.condition(*data, using=method)
        prediction = point.predict()
        np.testing.assert_allclose(prediction.epistemic, 0.0, atol=1e-12)
        assert np.all(np.asarray(prediction.aleatoric) >= 0)
        with pytest.raises(DataError, match="has no posterior to go on from"):
            point.condition(*data)
        with pytest.raises(DataError, match="has no evidence"):
            point.log_evidence(*data)
    # The mean of a prediction is linear in what was plugged in.
    bayes, plugged = (belief.condition(*data, using=m).predict().mean for m in (None, PlugIn()))
    np.testing.assert_allclose(bayes, plugged, rtol=1e-10)


def test_coins():
    coin = BetaBernoulli(2.0, 3.0)
    guesses = [float(coin.condition([1, 1, 0, 1], using=m).estimate) for m in METHODS]
    np.testing.assert_allclose(guesses, [3 / 4, (2 + 3 - 1) / (5 + 4 - 2), 5 / 9], rtol=1e-12)
    known = coin.condition([1, 1, 0, 1], using=ML())
    assert float(known.predict().probs[1]) == 0.75
    np.testing.assert_allclose(known.predict().aleatoric, stats.bernoulli(0.75).entropy(), rtol=1e-12)
    sums = known.predict(trials=6)
    y = np.arange(7.0)
    want = stats.binom(6, 0.75)
    np.testing.assert_allclose([sums.log_prob(v) for v in y], want.logpmf(y), rtol=1e-10)
    np.testing.assert_allclose([sums.cdf(v) for v in y], want.cdf(y), rtol=1e-10)
    np.testing.assert_allclose([sums.mean, sums.variance, sums.quantile(0.3)], [want.mean(), want.var(), want.ppf(0.3)])
    draws = np.asarray(sums.sample(4000, seed=1))
    assert abs(draws.mean() - want.mean()) < 4.5 * want.std() / np.sqrt(4000)


def test_only_successes():
    sure = BetaBernoulli().condition([1, 1, 1], using=ML())
    assert float(sure.estimate) == 1.0
    np.testing.assert_allclose(sure.predict().probs, [0.0, 1.0])
    np.testing.assert_allclose(sure.predict().aleatoric, 0.0)
    np.testing.assert_allclose(sure.predict(trials=4).log_prob(4.0), 0.0, atol=1e-14)
    assert float(sure.predict(trials=4).log_prob(3.0)) == -np.inf
    flat = BetaBernoulli().condition([1, 1, 1], using=MAP())
    assert float(flat.estimate) == 1.0  # a flat prior adds nothing
    with pytest.raises(DataError, match="has no mode"):
        BetaBernoulli(0.5, 0.5).condition([1], using=MAP())
    with pytest.raises(DataError, match="the data say nothing about the parameter"):
        BetaBinomial().condition([0], [0], using=ML())


def test_counts_of_classes():
    die = DirichletMultinomial([2.0, 2.0, 3.0]).condition([[2, 1, 1], [0, 3, 1]], using=ML())
    want = stats.multinomial(5, [2 / 8, 4 / 8, 2 / 8])
    for y in ([1, 3, 1], [5, 0, 0]):
        np.testing.assert_allclose(die.predict(5).log_prob(y), want.logpmf(y), rtol=1e-10)
    assert float(die.predict(5).log_prob([1, 1, 1])) == -np.inf
    np.testing.assert_allclose(die.predict(5).mean, want.mean(), rtol=1e-12)
    np.testing.assert_allclose(die.predict(5).variance, np.diag(want.cov()), rtol=1e-12)
    assert np.all(np.asarray(die.predict(5).sample(20, seed=0)).sum(-1) == 5)


def test_events():
    events = GammaPoisson(2.0, 1.0).condition([3, 0, 2], [1.0, 0.5, 2.0], using=MAP())
    np.testing.assert_allclose(events.estimate, (2 + 5 - 1) / (1 + 3.5), rtol=1e-12)
    np.testing.assert_allclose(events.predict(2.0).log_prob(3.0), stats.poisson.logpmf(3, 2 * 6 / 4.5), rtol=1e-10)
    assert float(GammaPoisson().condition([0, 0], using=ML()).estimate) == 0.0


def test_measurements():
    known = NormalInverseGamma(0.0, 1.0, 2.0, 1.0).condition(REALS, using=ML())
    want = stats.norm(REALS.mean(), REALS.std())
    np.testing.assert_allclose(known.predict().log_prob(0.3), want.logpdf(0.3), rtol=1e-10)
    rows = NormalInverseWishart([0.0, 0.0], 1.0, 5.0, np.eye(2)).condition(ROWS, using=ML()).predict()
    want = stats.multivariate_normal(ROWS.mean(0), np.cov(ROWS.T, bias=True))
    np.testing.assert_allclose(rows.log_prob(ROWS), want.logpdf(ROWS), rtol=1e-10)
    np.testing.assert_allclose(rows.entropy(), want.entropy(), rtol=1e-10)
    np.testing.assert_allclose(rows.variance, ROWS.var(0), rtol=1e-10)


def test_a_file_brings_it_back(tmp_path):
    for name in ("BetaBernoulli", "NormalInverseGamma"):
        belief, data = BELIEFS[name]
        point = belief.condition(*data, using=MAP())
        credo.save(point, tmp_path / "point.credo")
        again = credo.load(tmp_path / "point.credo")
        np.testing.assert_allclose(again.predict().mean, point.predict().mean)
