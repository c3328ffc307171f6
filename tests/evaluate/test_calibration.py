import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats
from sklearn.calibration import calibration_curve
from statsmodels.stats.proportion import proportion_confint

from credo.core.errors import DataError
from credo.core.predictive import Bernoulli, BetaBinomial, Categorical, Normal
from credo.evaluate import calibration

N = 400


def normal(n: int, scale: float = 1.0) -> tuple[Normal, np.ndarray]:
    rng = np.random.default_rng(5)
    mean, sd = rng.normal(size=n), rng.uniform(0.5, 2, n)
    return Normal(mean, (scale * sd) ** 2, np.zeros(n)), rng.normal(mean, sd)


def test_pit_is_the_distribution_function_and_uniform_only_if_calibrated():
    right, y = normal(N)
    wrong, _ = normal(N, 2.0)
    np.testing.assert_allclose(calibration.pit(right, y), stats.norm.cdf(y, right.mean, right.std), rtol=1e-12)
    assert calibration.uniformity_test(calibration.pit(right, y)) > 0.01
    assert calibration.uniformity_test(calibration.pit(wrong, y)) < 1e-4


def test_pit_of_counts_is_randomized_between_steps():
    trials = np.full(N, 6.0)
    prediction = BetaBinomial(trials, np.full(N, 2.0), np.full(N, 3.0), 6)
    y = stats.betabinom(6, 2, 3).rvs(N, random_state=2).astype(float)
    u = calibration.pit(prediction, y, seed=1)
    low, high = stats.betabinom(6, 2, 3).cdf(y - 1), stats.betabinom(6, 2, 3).cdf(y)
    assert np.all((low - 1e-7 <= u) & (u <= high + 1e-7))
    assert calibration.uniformity_test(u) > 0.01
    assert np.array_equal(u, calibration.pit(prediction, y, seed=1))
    assert not np.array_equal(u, calibration.pit(prediction, y, seed=2))
    coin = Bernoulli.certain([0.3, 0.3])
    first, second = calibration.pit(coin, [0, 1])
    assert 0 <= first <= 0.7 <= second <= 1


def test_coverage_curve_lies_within_its_standard_errors():
    prediction, y = normal(N)
    curve = calibration.coverage_curve(prediction, y)
    assert np.all(np.abs(curve.observed - curve.level) < 4.5 * curve.standard_error)
    np.testing.assert_allclose(curve.standard_error, np.sqrt(curve.level * (1 - curve.level) / N))
    i = int(np.argmin(np.abs(curve.level - 0.8)))
    inside = np.abs(y - prediction.mean) <= stats.norm.ppf(0.9) * np.asarray(prediction.std)
    np.testing.assert_allclose(curve.observed[i], inside.mean())
    timid, _ = normal(N, 2.0)
    assert calibration.coverage_curve(timid, y, [0.5]).observed[0] > 0.7
    single = calibration.coverage_curve(Normal(0.0, 1.0, 0.0), np.random.default_rng(0).normal(size=N), [0.5, 0.9])
    assert np.all(np.abs(single.observed - single.level) < 4.5 * single.standard_error)


def test_reliability_against_sklearn_and_wilson_against_statsmodels():
    rng = np.random.default_rng(3)
    p = rng.uniform(size=N)
    y = rng.uniform(size=N) < p
    diagram = calibration.reliability(Bernoulli.certain(p), y.astype(int), bins=8)
    observed, stated = calibration_curve(y, p, n_bins=8)
    np.testing.assert_allclose(diagram.observed, observed)
    np.testing.assert_allclose(diagram.stated, stated)
    assert diagram.counts.sum() == N
    k = (diagram.observed * diagram.counts).round()
    for got, want in zip(
        (diagram.lower, diagram.upper), proportion_confint(k, diagram.counts, 0.05, "wilson"), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-10)
    assert np.mean((diagram.lower <= diagram.stated) & (diagram.stated <= diagram.upper)) >= 0.75
    want = np.sum(diagram.counts / N * np.abs(observed - stated))
    assert calibration.expected_calibration_error(Bernoulli.certain(p), y.astype(int), bins=8) == pytest.approx(want)


def test_bins_of_equal_count():
    rng = np.random.default_rng(3)
    p = rng.uniform(size=N) ** 3
    y = (rng.uniform(size=N) < p).astype(int)
    prediction = Bernoulli.certain(p)
    diagram = calibration.reliability(prediction, y, bins=8, equal="count")
    assert len(diagram.counts) == 8 and np.ptp(diagram.counts) <= 1
    observed, stated = calibration_curve(y, p, n_bins=8, strategy="quantile")
    np.testing.assert_allclose(diagram.stated, stated, atol=1 / N)
    np.testing.assert_allclose(diagram.observed, observed, atol=4 / diagram.counts[0])
    error = calibration.expected_calibration_error(prediction, y, bins=8, equal="count")
    assert error == pytest.approx(diagram.error)
    parts = calibration.brier_decomposition(prediction, y, bins=8, equal="count")
    assert parts.score == pytest.approx(np.mean((p - y) ** 2))
    same = calibration.reliability(Bernoulli.certain(np.full(10, 0.3)), y[:10], equal="count")
    assert same.counts.tolist() == [10]  # rows that state the same stay together
    with pytest.raises(DataError, match='equal must be "width" or "count"'):
        calibration.reliability(prediction, y, equal="size")


def test_reliability_of_classes_is_about_the_top_class_or_a_label():
    probs = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]])
    y = [0, 1, 2, 0]
    top = calibration.reliability(Categorical.certain(probs), y, bins=2)
    np.testing.assert_allclose(top.stated, [0.775])
    np.testing.assert_allclose(top.observed, [0.75])
    one = calibration.reliability(Categorical.certain(probs), y, bins=2, label=1)
    np.testing.assert_allclose(one.stated, [0.15])
    np.testing.assert_allclose(one.observed, [0.25])
    assert top.error == pytest.approx(0.025)


def test_rank_test_is_a_chi_square_test_with_bins_of_unequal_size():
    ranks = np.random.default_rng(1).integers(0, 101, 1000)
    got = calibration.rank_test(ranks, 100, bins=20)
    of_rank = np.array([r * 20 // 101 for r in range(101)])
    expected = np.array([(of_rank == b).sum() for b in range(20)]) * 1000 / 101
    found = np.array([(of_rank[ranks] == b).sum() for b in range(20)])
    want = stats.chi2.sf(np.sum((found - expected) ** 2 / expected), 19)
    assert got == pytest.approx(want) and got > 0.01
    assert calibration.rank_test(ranks // 2, 100) < 1e-10


def sbc(width: float, key: int) -> calibration.Ranks:
    """θ ~ N(0, 1), five observations of variance one; the posterior's standard deviation times `width`."""
    draws = jax.jit(
        lambda key, y: {
            "mu": jnp.sum(y) / 6 + width * jnp.sqrt(1 / 6) * jr.normal(key, (19,)),
            "none": jnp.zeros((19, 2)),
        }
    )
    return calibration.simulation_based_calibration(
        jax.jit(lambda key: {"mu": jr.normal(key), "none": jnp.zeros(2)}),
        jax.jit(lambda key, theta: theta["mu"] + jr.normal(key, (5,))),
        draws,
        repeats=300,
        seed=key,
    )


def test_simulation_based_calibration_finds_what_is_wrong():
    right, wrong = sbc(1.0, 0), sbc(0.5, 0)
    assert right.names == ("mu", "none[0]", "none[1]")
    assert right.ranks.shape == (300, 3) and right.draws == 19
    assert right.p_values(10)["mu"] > 0.01
    assert wrong.p_values(10)["mu"] < 1e-6
    # Ties are broken at random, so that a constant has uniform ranks, too.
    assert right.p_values(10)["none[1]"] > 0.001


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibration.rank_test([0.5] * 200, 10), "whole numbers from 0 to draws = 10"),
        (lambda: calibration.rank_test([1, 2, 3], 10), "use more repeats or fewer bins"),
        (lambda: calibration.uniformity_test([0.1, 1.2]), "between 0 and 1, found 1.2"),
        (lambda: calibration.reliability(Normal(0.0, 1.0, 0.0), [0.0]), "use coverage_curve"),
        (lambda: calibration.coverage_curve(Categorical.certain([[0.5, 0.5]]), [0]), "use reliability"),
        (lambda: calibration.reliability(Bernoulli.certain([0.5]), [0], label=2), "a class from 0 to 1, found 2"),
        (lambda: calibration.reliability(Bernoulli.certain([0.5]), [0], bins=0), "bins must be a whole number"),
        (
            lambda: calibration.simulation_based_calibration(
                lambda k: 0.0, lambda k, t: t, lambda k, y: {"a": np.zeros(3)}, 2
            ),
            "the structure that sample_prior returns",
        ),
        (
            lambda: calibration.simulation_based_calibration(
                lambda k: np.zeros(2), lambda k, t: t, lambda k, y: np.zeros((3, 1)), 2
            ),
            "as many numbers as the parameters: 2, found 1",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(DataError, match=message):
        call()
