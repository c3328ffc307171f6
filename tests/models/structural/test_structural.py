"""Structural time series against statsmodels' UnobservedComponents, dense conditioning and published numbers."""

import warnings

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from statsmodels.datasets import co2, nile, sunspots
from statsmodels.tsa.statespace.structural import UnobservedComponents

import credo
from credo.core.params import layout, learnable, to_vector
from credo.core.pytrees import changed
from credo.errors import DataError, RepairedWarning
from credo.infer.learning import Evidence, Objective
from credo.models.structural import AR, Cycle, Level, Regression, Seasonal, Structural, Trend, integrated_evidence
from credo.models.structural.learning import StructuralEvidence

T = 40
NILE = nile.load_pandas().data["volume"].to_numpy(float)
NILE_LEVEL = {"noise": 15098.5, "level": 1469.1}
"""Durbin & Koopman (2012), section 2.10.3."""


def wandering(seed=0, gaps=True):
    rng = np.random.default_rng(seed)
    y = 10 + 0.2 * np.arange(T) + rng.normal(size=T).cumsum() + 2 * np.sin(np.arange(T) * np.pi / 2)
    y[[7, 8, 20] if gaps else []] = np.nan
    return y


def peer(y, values, start, **options):
    """statsmodels' model with the same parameters and the same start, and its filter's result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = UnobservedComponents(y, **options)
    model.ssm.initialize_known(*(np.asarray(a) for a in start))
    model.loglikelihood_burn = 0
    return model.smooth([values[name] for name in model.param_names])


def start_of(after, inputs=np.zeros((1, 0))):  # noqa: B008
    """The law of the first state."""
    system = after.system(inputs, after.scales)
    return system.mean, system.covariance


X = np.random.default_rng(5).normal(size=(T + 3, 2))
X -= X[:T].mean(axis=0)  # ours counts from there
RICH = Trend(0.3, 0.02) + Seasonal(4, variance=0.05) + Cycle(9.0, 0.2, 0.9) + AR(2, [0.5, -0.3], 0.4)
RICH = RICH + Regression(("a", "b"))
RICH_VALUES = {
    "sigma2.irregular": 1.0,
    "sigma2.level": 0.3,
    "sigma2.trend": 0.02,
    "sigma2.seasonal": 0.05,
    "sigma2.cycle": 0.2,
    "frequency.cycle": 2 * np.pi / 9,
    "damping.cycle": 0.9,
    "sigma2.ar": 0.4,
    "ar.L1": 0.5,
    "ar.L2": -0.3,
}
RICH_OPTIONS = {
    "level": "lltrend",
    "seasonal": 4,
    "cycle": True,
    "damped_cycle": True,
    "stochastic_cycle": True,
    "cycle_period_bounds": (2, 20),
    "autoregressive": 2,
    "mle_regression": False,
}
WAVES = Structural(Level(0.3), noise=0.7) + Seasonal(7.5, harmonics=2, variance=0.05)
WAVES_VALUES = {"sigma2.irregular": 0.7, "sigma2.level": 0.3, "sigma2.freq_seasonal_7.5(2)": 0.05}


@pytest.fixture(scope="module")
def rich():
    """The model with everything in it after a series with gaps, and statsmodels' of the same."""
    y = wandering()
    after = RICH.condition(y, inputs=X[:T], missing=True)
    return y, after, peer(y, RICH_VALUES, start_of(after, X), exog=X[:T], **RICH_OPTIONS)


def test_the_evidence_is_statsmodels_log_likelihood(rich):
    y, _, want = rich
    np.testing.assert_allclose(RICH.log_evidence(y, inputs=X[:T], missing=True), want.llf, rtol=1e-9)


def test_forecasts_are_statsmodels(rich):
    _, after, want = rich
    got, told = after.predict(3, inputs=X[T:]), want.get_forecast(3, exog=X[T:])
    np.testing.assert_allclose(got.mean, told.predicted_mean, rtol=1e-9)
    np.testing.assert_allclose(got.variance, told.var_pred_mean, rtol=1e-8)
    np.testing.assert_allclose(got.aleatoric, 1.0)


def test_components_are_statsmodels(rich):
    _, after, want = rich
    parts = after.components()
    assert list(parts) == ["trend", "seasonal(4)", "cycle", "ar(2)", "regression"]
    for name, told in (
        ("trend", want.level),
        ("seasonal(4)", want.seasonal),
        ("cycle", want.cycle),
        ("ar(2)", want.autoregressive),
    ):
        np.testing.assert_allclose(parts[name].mean, told.smoothed, atol=1e-8)
        np.testing.assert_allclose(parts[name].epistemic, told.smoothed_cov, atol=1e-7)


def test_components_of_the_future_add_up_to_the_forecast(rich):
    _, after, _ = rich
    parts = after.components(3, inputs=X[T:])
    total = sum(np.asarray(p.mean)[-3:] for p in parts.values())
    np.testing.assert_allclose(total, after.predict(3, inputs=X[T:]).mean, rtol=1e-9)


def test_two_halves_are_the_whole(rich):
    y = rich[0]
    half = RICH.condition(y[:25], inputs=X[:25], missing=True)
    both = half.condition(y[25:], inputs=X[25:T], missing=True)
    # The scale of the first data is what the start is taken from: the second half does not change it.
    again = changed(RICH, scales=half.scales).condition(y, inputs=X[:T], missing=True)
    np.testing.assert_allclose(both.state.mean, again.state.mean, atol=1e-9)
    np.testing.assert_allclose(both.past.y, y)
    chain = RICH.log_evidence(y[:25], inputs=X[:25], missing=True) + half.log_evidence(
        y[25:], inputs=X[25:T], missing=True
    )
    np.testing.assert_allclose(chain, changed(RICH, scales=half.scales).log_evidence(y, inputs=X[:T], missing=True))


def test_waves_are_statsmodels():
    y = wandering(1)
    after = WAVES.condition(y, missing=True)
    want = peer(y, WAVES_VALUES, start_of(after), level="llevel", freq_seasonal=[{"period": 7.5, "harmonics": 2}])
    np.testing.assert_allclose(WAVES.log_evidence(y, missing=True), want.llf, rtol=1e-9)
    np.testing.assert_allclose(after.predict(3).mean, want.forecast(3), rtol=1e-9)


def test_waves_of_half_the_period_have_one_state():
    part = Seasonal(4, harmonics=2)
    assert part.states == ("wave 1", "wave 1*", "wave 2")
    system = part.system(WAVES.condition(wandering(), missing=True).scales)
    np.testing.assert_allclose(system.transition, [[0, 1, 0], [-1, 0, 0], [0, 0, -1]], atol=1e-15)


def test_the_future_covaries_as_simulated_paths_of_the_states(rng):
    after = Structural(Trend(0.3, 0.1, damped=0.8), noise=0.5).condition(wandering(gaps=False))
    got = after.predict(4)
    f, q = np.asarray([[1, 1], [0, 0.8]]), np.diag([0.3, 0.1])
    # Every outcome as a linear function of the latest state and the noises after it.
    power = [np.linalg.matrix_power(f, k) for k in range(5)]
    m, p = np.asarray(after.state.mean), np.asarray(after.state.covariance)
    want = np.asarray([[0.0] * 4] * 4)
    for i in range(4):
        for j in range(4):
            common = sum(power[i - k] @ q @ power[j - k].T for k in range(min(i, j) + 1))
            want[i, j] = (power[i + 1] @ p @ power[j + 1].T + common)[0, 0]
    np.testing.assert_allclose(got.latent_covariance, want, rtol=1e-10)
    np.testing.assert_allclose(got.mean, [(power[k + 1] @ m)[0] for k in range(4)], rtol=1e-12)
    paths = np.asarray(got.sample(4000, seed=1))
    se = np.sqrt(2 / 4000) * (want[3, 3] + 0.5)
    assert abs(np.cov(paths.T)[3, 3] - want[3, 3] - 0.5) < 4.5 * se


def test_published_log_likelihoods_of_the_nile():
    def of(mean, variance):
        return Structural(Level(NILE_LEVEL["level"]), noise=NILE_LEVEL["noise"], start=([mean], [[variance]]))

    # From the first outcome with variance 10⁷, and from 0 with 10⁷ (Petris et al. 2009, dlmMLE: 549.6918 + 50 log 2π).
    np.testing.assert_allclose(of(NILE[0], 1e7).log_evidence(NILE), -641.5238, atol=5e-5)
    np.testing.assert_allclose(of(0, 1e7).log_evidence(NILE), -549.6918 - 50 * np.log(2 * np.pi), atol=5e-4)
    # Given the first outcome: the diffuse log-likelihood. Durbin & Koopman's is -632.5456 (KFAS), with half a log 2π.
    np.testing.assert_allclose(of(0, 1e11).condition(NILE[:1]).log_evidence(NILE[1:]), -632.5456, atol=1e-4)
    # statsmodels' default.
    np.testing.assert_allclose(of(0, 1e6).condition(NILE[:1]).log_evidence(NILE[1:]), -632.5376951460979, rtol=1e-9)


def test_learning_without_priors_finds_the_published_variances():
    start = ([0.0], [[1e7]])
    learned = credo.fit(Structural(Level(), start=start), NILE, priors=False, report=True)
    assert learned.status == "converged" and not learned.at_bound
    found = learnable(learned.belief)
    # Petris et al. (2009): V = 15099.8, W = 1468.4 for this start.
    np.testing.assert_allclose(found["noise"], 15099.8, rtol=1e-3)
    np.testing.assert_allclose(found["parts.0.variance"], 1468.4, rtol=5e-3)


def test_the_evidence_with_the_variances_integrated_over():
    belief = credo.learn(Structural(Level()), NILE)
    series = belief.statistics(NILE)
    got = integrated_evidence(belief, series)
    priors = belief.default_priors(series)
    u, v = np.meshgrid(np.linspace(6, 12, 17), np.linspace(1, 11, 21))
    step = (6 / 16) * (10 / 20)
    joint = []
    for a, b in zip(u.ravel(), v.ravel(), strict=True):
        at = credo.core.params.replace(belief, {"noise": np.exp(a), "parts.0.variance": np.exp(b)})
        prior = priors["noise"].log_prob(jnp.exp(a)) + priors["parts.0.variance"].log_prob(jnp.exp(b))
        joint.append(float(at.log_evidence_of(series) + prior))
    mass = float(priors["noise"].log_mass + priors["parts.0.variance"].log_mass)
    want = np.log(np.exp(np.asarray(joint) - max(joint)).sum() * step) + max(joint) - mass
    np.testing.assert_allclose(got, want, atol=0.25)


@pytest.mark.parametrize("name", ["co2", "sunspots"])
def test_well_known_series(name):
    if name == "co2":
        y = co2.load_pandas().data["co2"].resample("MS").mean().to_numpy()
        model = Structural(Trend(0.05, 1e-5), noise=0.03) + Seasonal(12, variance=1e-4)
        values = {"irregular": 0.03, "level": 0.05, "trend": 1e-5, "seasonal": 1e-4}
        options = {"level": "lltrend", "seasonal": 12}
    else:
        y = sunspots.load_pandas().data["SUNACTIVITY"].to_numpy(float)
        model = Structural(Level(5.0), Cycle(11.0, 200.0, 0.95), noise=1.0)
        values = {"irregular": 1.0, "level": 5.0, "cycle": 200.0}
        options = {"level": "llevel", "cycle": True, "stochastic_cycle": True, "damped_cycle": True}
    values = {f"sigma2.{k}": v for k, v in values.items()}
    values |= {"frequency.cycle": 2 * np.pi / 11, "damping.cycle": 0.95}
    after = model.condition(y, missing=True)
    want = peer(y, values, start_of(after), **options)
    np.testing.assert_allclose(model.log_evidence(y, missing=True), want.llf, rtol=1e-8)
    np.testing.assert_allclose(after.predict(3).mean, want.forecast(3), rtol=1e-6)


def test_a_variance_that_ends_at_zero_is_a_note():
    y = np.random.default_rng(3).normal(size=T)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learned = credo.fit(Structural(Level()), y, priors=False, report=True)
    assert len(learned.notes) == 1 and learned.notes[0].startswith("parts.0.variance is zero") and not learned.at_bound
    # With the weak priors it stays at a small number, and forecasts allow for it.
    assert learnable(credo.learn(Structural(Level()), y))["parts.0.variance"] > 1e-6


def test_what_does_not_change_is_a_constant_or_a_line():
    rng = np.random.default_rng(4)
    y = 3 + 0.5 * np.arange(T) + 0.1 * rng.normal(size=T)
    after = credo.fit(Structural(Trend(None, None)), y)
    assert list(learnable(after)) == ["noise"]
    line = np.polyfit(np.arange(T), y, 1)
    np.testing.assert_allclose(after.predict(5).mean, np.polyval(line, np.arange(T, T + 5)), atol=0.05)
    np.testing.assert_allclose(after.noise, 0.01, rtol=0.8)


def test_regression_names_and_scales_its_inputs():
    rng = np.random.default_rng(6)
    table = pd.DataFrame({"price": 100 + 10 * rng.normal(size=T), "promo": rng.uniform(size=T) < 0.3}).astype(float)
    y = 50 - 0.8 * table["price"] + 12 * table["promo"] + 0.5 * rng.normal(size=T)
    after = credo.fit(Structural(Level(None), Regression()), y, inputs=table)
    assert after.state_names == ("level: level", "regression: price", "regression: promo")
    se = np.sqrt(np.diagonal(after.state.covariance))
    assert np.all(np.abs(np.asarray(after.state.mean)[1:] - [-0.8, 12]) < 4.5 * se[1:])
    np.testing.assert_allclose(after.predict(1, inputs=[[100.0, 1.0]]).mean, [50 - 80 + 12], atol=1.5)


def test_ar_coefficients_round_trip():
    np.testing.assert_allclose(AR(3, [0.5, -0.2, 0.1]).coefficients, [0.5, -0.2, 0.1], rtol=1e-12)


def test_a_belief_survives_a_file(tmp_path):
    after = WAVES.condition(wandering(), missing=True)
    again = credo.load(credo.save(after, tmp_path / "waves"))
    np.testing.assert_array_equal(after.predict(3).mean, again.predict(3).mean)
    np.testing.assert_array_equal(after.components()["level"].mean, again.components()["level"].mean)
    assert again.formula() == "level + seasonal(7.5) + noise"


@pytest.mark.parametrize("y", [[2.0], [np.nan, np.nan], [3.0, 3.0, 3.0]])
def test_little_to_go_on(y):
    after = Structural(Level()).condition(y, missing=True)
    prediction = after.predict(2)
    assert np.all(np.isfinite(prediction.mean)) and np.all(prediction.variance > 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Level() + Trend(), "two levels cannot be told apart"),
        (lambda: Regression() + Regression(), "one takes all inputs"),
        (lambda: Level() + 3, "can be added to a part, found int"),
        (lambda: Structural(), "at least one part"),
        (lambda: Structural("level"), "found str"),
        (lambda: Seasonal(1), "period must be a whole number of at least 2"),
        (lambda: Seasonal(7, harmonics=4), "4 harmonics need a period of at least 8"),
        (lambda: AR(1, [1.2]), "not those of a stationary"),
        (lambda: AR(2, [0.2]), "AR(2) needs 2 coefficients"),
        (lambda: Structural(Level()).predict(3), "has seen no data"),
        (lambda: Structural(Level()).components(), "nothing to smooth"),
        (lambda: Structural(Level()).condition([1.0, np.nan]), "y has NaN at row 1; pass missing=True"),
        (lambda: Structural(Level()).condition(np.ones((4, 2))), "must be one series"),
        (lambda: Structural(Level()).condition([1.0, 2.0], inputs=[[1.0], [2.0]]), "no Regression() to use them"),
        (lambda: (Level() + Regression()).condition([1.0, 2.0], inputs=[[1.0], [2.0]]), "has seen no inputs"),
        (lambda: credo.fit(Level() + Regression(), [1.0, 2.0]), "needs inputs"),
        (lambda: credo.fit(Level() + Regression(), [1.0, 2.0], inputs=[[1.0]]), "2 are expected, found 1"),
        (lambda: credo.fit(Structural(Level()), [np.nan, np.nan], missing=True), "nothing to learn from"),
        (lambda: RICH.condition(wandering(gaps=False), inputs=X[:T]).predict(2), "pass inputs= for every time"),
        (lambda: Structural(Level(), start=([0.0, 1.0], np.eye(2))).condition([1.0]), "a mean of shape (1,)"),
        (lambda: Structural(Level()).condition([1.0]).predict(0), "steps must be a whole number of at least 1"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(DataError, match=message.replace("(", r"\(").replace(")", r"\)")):
        make()


def test_the_gradient_of_the_evidence_is_exact(rich):
    y = rich[0]
    model = RICH + Seasonal(7, harmonics=1, variance=0.1)
    belief = Structural(Trend(0.3, 0.02, damped=0.8), *model.parts[1:], noise=1.0)
    series = belief.statistics(y, inputs=X[:T], missing=True)
    objective = Objective(belief, layout(belief), series, belief.default_priors(series))
    at = np.asarray(to_vector(belief, layout(belief)))
    assert len(at) == 12
    value, slope = objective.value_and_grad(at)
    h = 1e-5
    want = [(objective.value(at + h * e) - objective.value(at - h * e)) / (2 * h) for e in np.eye(len(at))]
    np.testing.assert_allclose(slope, want, rtol=1e-5, atol=1e-6)
    assert np.isfinite(value)


def test_a_single_part_is_a_belief():
    alone, whole = credo.fit(Level(), NILE), credo.fit(Structural(Level()), NILE)
    assert isinstance(alone, Structural)
    assert learnable(alone) == learnable(whole)
    np.testing.assert_array_equal(alone.predict(3).mean, whole.predict(3).mean)
    assert float(Level(2.0).log_evidence(NILE)) == float(Structural(Level(2.0)).log_evidence(NILE))
    np.testing.assert_array_equal(
        Level(2.0).condition(NILE).state.mean, Structural(Level(2.0)).condition(NILE).state.mean
    )
    with pytest.raises(DataError, match="has seen no data"):
        Level().predict(3)


def test_a_forecast_of_many_steps_takes_little_memory_and_says_what_it_leaves_out():
    """The joint covariance of 20,000 steps would be 3.2 GB."""
    y = np.sin(np.arange(40.0))
    after = (Level(0.1) + Seasonal(4, variance=0.01)).condition(y)
    near = after.predict(30)
    with pytest.warns(RepairedWarning, match="20,000 steps are forecast without how they covary"):
        far = after.predict(20_000)
    assert far.latent_covariance is None and near.latent_covariance is not None
    np.testing.assert_allclose(far.mean[:30], near.mean, rtol=1e-10)
    np.testing.assert_allclose(far.epistemic[:30], near.latent_covariance.diagonal(), rtol=1e-10)


@pytest.mark.parametrize(("a", "b", "c", "d"), [(1e12, 0.0, 1e-9, 0.0), (1e-12, 0.0, 1.0, 1e6), (1.0, 1e8, 1e9, -1e9)])
def test_a_forecast_follows_the_units_of_outcomes_and_inputs(a, b, c, d):
    rng = np.random.default_rng(1)
    t = np.arange(60)
    x = rng.normal(size=(60, 1))
    y = np.cumsum(0.3 * rng.normal(size=60)) + np.sin(t * np.pi / 2) + x[:, 0] + 0.3 * rng.normal(size=60)
    found = []
    for outcomes, inputs in ((y, x), (a * (y + b), c * x + d)):
        after = credo.fit(Level() + Seasonal(4) + Regression(), outcomes, inputs=inputs, using=Evidence(starts=1))
        found.append(after.predict(3, inputs=inputs[:3]))
    one, other = found
    np.testing.assert_allclose((other.mean - a * b) / a, one.mean, atol=1e-5 * y.std())
    np.testing.assert_allclose(other.std / a, one.std, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_intervals_of_a_dozen_outcomes_hold_what_they_say():
    """Local level, n = 8, log(level variance / noise) ~ N(log 0.3, 1): 94 % of 300 series; the mode alone 87 %."""
    rng = np.random.default_rng(8)
    held = []
    for _ in range(80):
        level = np.cumsum(np.exp(0.5 * rng.normal(np.log(0.3), 1.0)) * rng.normal(size=11))
        y = level + rng.normal(size=11)
        low, high = credo.fit(Level(), y[:8]).predict(3).interval(0.95)
        held.append((low <= y[8:]) & (y[8:] <= high))
    assert np.mean(held) > 0.95 - 2 * np.std(np.mean(held, axis=1)) / np.sqrt(len(held))


@pytest.mark.usefixtures("unchecked")
def test_what_was_integrated_over_forecasts_and_comes_apart():
    y = wandering(gaps=False)[:20]
    after = credo.fit(Level() + Seasonal(4), y)
    alone = credo.fit(Level() + Seasonal(4), y, using=StructuralEvidence())
    assert isinstance(after.mode, Structural) and isinstance(alone, Structural)
    assert np.all(after.predict(4).std > 0.8 * alone.predict(4).std)
    np.testing.assert_allclose(
        sum(part.mean for part in after.components().values()), y, atol=3 * alone.predict(1).std[0]
    )
    assert after.filter().mean.shape == (20, 4)


@pytest.mark.parametrize("y", [["a", "b"], [1.0, "x", 2.0], [[1.0, 2.0], [3.0]], [1j, 2j], "hello", [1.0, [2.0]]])
def test_a_series_that_is_none_is_refused_in_a_sentence(y):
    with pytest.raises(DataError, match=r"^y "):
        credo.fit(Level(), y)
