"""Structural models of logarithms: evidence, forecasts and components in the units of the outcome; and printing."""

import numpy as np
import pytest
from scipy import integrate, stats

import credo
from credo.core.predictive import LogNormal, Normal
from credo.core.pytrees import changed
from credo.errors import DataError
from credo.evaluate.backtesting import backtest, naive
from credo.models.structural import AR, Cycle, Level, Regression, Seasonal, Structural, Trend, integrated_evidence

N, PERIOD = 48, 4
FORM = Trend(0.0004, 1e-6) + Seasonal(PERIOD, variance=1e-5)


def passengers(n=N, seed=0):
    """A level, a season and noise that multiply, as those of airline passengers do."""
    rng = np.random.default_rng(seed)
    level = 0.03 * np.arange(n) + 0.02 * rng.normal(size=n).cumsum()
    return 110 * np.exp(level + np.resize([0.3, -0.1, 0.15, -0.35], n) + 0.03 * rng.normal(size=n))


@pytest.fixture(scope="module")
def y():
    return passengers()


@pytest.fixture(scope="module")
def both(y):
    """The model of y, and the same of log y as someone would build it by hand."""
    plain = Structural(*FORM.parts, noise=0.001)
    return plain.on_logs().condition(y), plain.condition(np.log(y))


def test_the_evidence_has_the_jacobian(y):
    plain = Structural(*FORM.parts, noise=0.001)
    z = np.log(y)
    want = plain.log_evidence(z) - z.sum()
    np.testing.assert_allclose(plain.on_logs().log_evidence(y), want, rtol=1e-12)
    gap = np.where(np.arange(N) == 7, np.nan, y)
    want = plain.log_evidence(np.log(gap), missing=True) - np.nansum(np.log(gap))
    np.testing.assert_allclose(plain.on_logs().log_evidence(gap, missing=True), want, rtol=1e-12)
    found = integrated_evidence(plain.on_logs(), plain.on_logs().statistics(y))
    np.testing.assert_allclose(found, integrated_evidence(plain, plain.statistics(z)) - z.sum(), rtol=1e-10)


def test_the_density_of_the_next_outcome_integrates_to_one(both):
    after, _ = both
    p = after.predict(1)[0]
    low, high = (float(p.quantile(q)) for q in (1e-9, 1 - 1e-9))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    at, half = (low + high) / 2 + (high - low) / 2 * nodes, (high - low) / 2
    log_p = np.array([float(after.log_evidence([v])) for v in at])
    np.testing.assert_allclose(half * weights @ np.exp(log_p), 1.0, rtol=1e-7)
    np.testing.assert_allclose(log_p, p.log_prob(at), rtol=1e-9)
    mean = integrate.quad(lambda v: v * np.exp(float(p.log_prob(v))), low, high, epsrel=1e-7, limit=50)[0]
    np.testing.assert_allclose(p.mean, mean, rtol=1e-6)


def test_forecasts_are_lognormal_in_the_units_of_the_outcome(both):
    after, hand = both
    p, log = after.predict(6), hand.predict(6)
    assert isinstance(p, LogNormal) and isinstance(log, Normal)
    oracle = stats.lognorm(np.asarray(log.std), scale=np.exp(np.asarray(log.mean)))
    np.testing.assert_allclose(p.mean, oracle.mean(), rtol=1e-10)
    np.testing.assert_allclose(p.variance, oracle.var(), rtol=1e-9)
    for q in (0.025, 0.5, 0.9):
        np.testing.assert_allclose(p.quantile(q), oracle.ppf(q), rtol=1e-9)
    assert np.all(p.median < p.mean)
    # Whole futures: one season remembers the last.
    draws = np.log(p.sample(4000, seed=1))
    want = np.asarray(log.latent_covariance + np.diag(log.aleatoric))
    deviation = draws - np.asarray(log.mean)
    products = deviation[:, :, None] * deviation[:, None]
    assert np.all(np.abs(products.mean(0) - want) < 4.5 * products.std(0) / np.sqrt(4000))


def test_components_are_factors(both):
    after, hand = both
    found, added = after.components(steps=3), hand.components(steps=3)
    for name, part in found.items():
        np.testing.assert_allclose(part.median, np.exp(added[name].mean), rtol=1e-10)
    product = np.prod([np.asarray(part.median)[-3:] for part in found.values()], axis=0)
    np.testing.assert_allclose(product, after.predict(3).median, rtol=1e-8)


def test_two_halves_are_the_whole_and_a_file_keeps_it(both, y, tmp_path):
    after, _ = both
    prior = Structural(*FORM.parts, noise=0.001).on_logs()
    first = prior.condition(y[:30])
    np.testing.assert_allclose(
        first.log_evidence(y[30:]), _given(prior, first, y) - _given(prior, first, y[:30]), rtol=1e-8
    )
    np.testing.assert_allclose(first.condition(y[30:]).filter().mean, _filtered(prior, first, y), rtol=1e-8)
    credo.save(after, tmp_path / "logs.credo")
    again = credo.load(tmp_path / "logs.credo")
    assert again.log
    np.testing.assert_array_equal(again.predict(2).mean, after.predict(2).mean)
    assert after.unconditioned().log and (Level() + Structural(AR()).on_logs()).log
    assert (Structural(Level()).on_logs() + Seasonal(4)).log


def _scaled(prior, first):
    return changed(prior, scales=first.scales)


def _given(prior, first, y):
    return _scaled(prior, first).log_evidence(y)


def _filtered(prior, first, y):
    return _scaled(prior, first).condition(y).filter().mean


def test_what_multiplies_is_forecast_better_and_more_probable_in_logs():
    y = passengers(n=96, seed=3)
    train = 72
    _, unit = naive(y, train, 8, period=PERIOD)
    model = Trend() + Seasonal(PERIOD)
    plain, logs = (credo.learn(each, y[:train]) for each in (model, model.on_logs()))
    ours, theirs = (backtest(each, y, train, 8, unit=unit).scores for each in (logs, plain))
    assert ours.mase < 0.9 * theirs.mase and ours.crps < 0.9 * theirs.crps
    gain = logs.log_evidence(y[:train]) - plain.log_evidence(y[:train])
    assert gain > 10


@pytest.mark.parametrize("bad", [0.0, -3.0])
def test_outcomes_that_have_no_logarithm_are_refused(y, bad):
    wrong = np.where(np.arange(N) == 5, bad, y)
    with pytest.raises(DataError, match=rf"positive to be taken in logarithms, found {bad:g} at row 5"):
        credo.fit(FORM.on_logs(), wrong)
    with pytest.raises(DataError, match="positive"):
        Structural(Level()).on_logs().condition(wrong)


def test_models_and_parts_are_printed_by_their_numbers(both):
    shown = {
        repr(Level(4.0)): "Level(σ=2)",
        repr(Level(None)): "Level(σ=0)",
        repr(Trend(0.04, 0.0001, damped=0.8)): "Trend(σ=0.2, slope σ=0.01, φ=0.8)",
        repr(Seasonal(12, harmonics=2, variance=0.01)): "Seasonal(12, 2 waves, σ=0.1)",
        repr(Cycle()): "Cycle(period=8, σ=1, φ=0.95)",
        repr(AR(2, [0.5, 0.2])): "AR(0.5 0.2, σ=1)",
        repr(Regression(("price",))): "Regression(price)",
        repr(Level(4.0) + Seasonal(4)): "Structural(Level(σ=2) + Seasonal(4, σ=1) + noise(σ=1))",
        repr(Structural(Level(), noise=None)): "Structural(Level(σ=1))",
    }
    assert list(shown) == list(shown.values())
    after, _ = both
    assert str(after) == (
        "Structural(log y = Trend(σ=0.02, slope σ=0.001) + Seasonal(4, σ=0.00316) + noise(σ=0.0316); after 48 outcomes)"
    )
