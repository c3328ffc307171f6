"""The belief: filtering, forecasting, drawing and learning."""

import warnings

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy import stats
from statsmodels.datasets import nile
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

import credo
from credo.core.arrays import host
from credo.errors import DataError
from credo.infer.em import EM
from credo.infer.learning import Evidence
from credo.models.lds import LDS
from credo.models.lds.batched_matrices import solve_semidefinite

N, P, T = 2, 2, 12


def system(oracle, seed=0, **options):
    rng = np.random.default_rng(seed)
    f, q, h, r, _, d = oracle.matrices(rng)
    return LDS(f, q + 0.1 * np.eye(N), h, r, rng.normal(size=N), np.eye(N), offset=d, **options)


def dense(lds):
    """The matrices as the oracle wants them."""
    parts = (lds.transition, lds.process_noise, lds.emission, lds.observation_noise, np.zeros(N), lds.offset)
    return lds.start_mean, lds.start_covariance, tuple(np.asarray(a) for a in parts)


@pytest.fixture
def lds(oracle):
    return system(oracle)


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(T, P))


# -- the filter as conditioning ---------------------------------------------------------------------------------


def test_evidence_filter_and_smoother(lds, x, oracle):
    mean, covariance, log_p = oracle.given(*dense(lds), x)
    np.testing.assert_allclose(lds.log_evidence(x), log_p, rtol=1e-10)
    means, covariances, _ = oracle.blocks(mean, covariance, T)
    found = lds.smooth(x)
    np.testing.assert_allclose(found.mean, means, atol=1e-10)
    np.testing.assert_allclose(found.covariance, covariances, atol=1e-10)
    np.testing.assert_allclose(found.log_likelihood, log_p, rtol=1e-10)
    np.testing.assert_allclose(lds.filter(x).mean[-1], means[-1], atol=1e-10)
    np.testing.assert_allclose(found.std[0], np.sqrt(np.diag(covariances[0])), atol=1e-10)


@pytest.mark.parametrize("method", ["square_root", "parallel"])
def test_methods_agree(oracle, x, method):
    lds, other = system(oracle), system(oracle, method=method)
    np.testing.assert_allclose(other.filter(x).covariance, lds.filter(x).covariance, atol=1e-12)


def test_online_equals_batch(lds, x):
    gaps = x.copy()
    gaps[3, 0] = gaps[5] = np.nan
    whole = lds.condition(gaps, missing=True)
    belief = lds
    for row in gaps:
        belief = belief.condition(row, missing=True)
    halves = lds.condition(gaps[:5], missing=True).condition(gaps[5:], missing=True)
    for other in (belief, halves):
        np.testing.assert_allclose(other.state.mean, whole.state.mean, atol=1e-12)
        np.testing.assert_allclose(other.state.covariance, whole.state.covariance, atol=1e-12)
        assert int(other.time) == T
    first = lds.condition(gaps[:5], missing=True)
    total = first.log_evidence(gaps[5:], missing=True) + lds.log_evidence(gaps[:5], missing=True)
    np.testing.assert_allclose(total, lds.log_evidence(gaps, missing=True), rtol=1e-12)


def test_several_sequences(lds, x):
    parts = [x[:5], x[5:]]
    total = sum(float(lds.log_evidence(part)) for part in parts)
    np.testing.assert_allclose(lds.log_evidence(parts), total, rtol=1e-12)
    np.testing.assert_allclose(lds.log_evidence(x, [5, 7]), total, rtol=1e-12)
    after = lds.condition(parts)
    np.testing.assert_allclose(after.state.mean, lds.condition(parts[1]).state.mean, atol=1e-12)
    assert int(after.time) == 7


def test_one_row_and_nothing_seen(lds, x):
    log_p = stats.multivariate_normal.logpdf(
        x[0],
        np.asarray(lds.emission @ lds.start_mean + lds.offset),
        np.asarray(lds.emission @ lds.start_covariance @ lds.emission.T + lds.observation_noise),
    )
    np.testing.assert_allclose(lds.log_evidence(x[:1]), log_p, rtol=1e-10)
    nothing = np.full((T, P), np.nan)
    assert float(lds.log_evidence(nothing, missing=True)) == 0
    np.testing.assert_allclose(lds.smooth(nothing, missing=True).mean[0], lds.start_mean, atol=1e-12)


def test_inputs_and_matrices_of_their_own_time(oracle, x):
    """B and D with inputs are a drift and an offset of each time."""
    rng = np.random.default_rng(3)
    f, q, h, r, _, _ = oracle.matrices(rng, t=T)
    b, d, u = rng.normal(size=(N, 1)), rng.normal(size=(P, 1)), rng.normal(size=(T, 1))
    lds = LDS(f, q, h, r, np.zeros(N), np.eye(N), b, d)
    steps = (f, q, h, r, u @ b.T, u @ d.T)
    mean, covariance, log_p = oracle.given(np.zeros(N), np.eye(N), steps, x)
    np.testing.assert_allclose(lds.log_evidence(x, inputs=u), log_p, rtol=1e-10)
    belief = lds
    for row, driven in zip(x[:4], u[:4], strict=True):
        belief = belief.condition(row, inputs=driven)
    belief = belief.condition(x[4:9], inputs=u[4:9])
    np.testing.assert_allclose(belief.state.mean, lds.condition(x[:9], inputs=u[:9]).state.mean, atol=1e-12)
    gaps = np.where(np.arange(T)[:, None] < 9, x, np.nan)
    mean, covariance, _ = oracle.given(np.zeros(N), np.eye(N), steps, gaps)
    means, covariances, _ = oracle.blocks(mean, covariance, T)
    ahead = belief.predict(3, inputs=u[9:])
    np.testing.assert_allclose(ahead.mean, [h[t] @ means[t] + d @ u[t] for t in range(9, T)], atol=1e-10)
    np.testing.assert_allclose(
        ahead.epistemic, [np.diag(h[t] @ covariances[t] @ h[t].T) for t in range(9, T)], atol=1e-10
    )
    np.testing.assert_allclose(ahead.aleatoric, [np.diag(r[t]) for t in range(9, T)], atol=1e-12)
    with pytest.raises(DataError, match="given for 12 times, 14 are needed"):
        belief.predict(5, inputs=np.zeros((5, 1)))


def local_level(q=1469.1, r=15099.0):
    return LDS([[1.0]], [[q]], [[1.0]], [[r]], [0.0], [[1e7]])


def test_nile_local_level():
    """Durbin & Koopman (2012), section 2.10: -641.52, with the first of 100 years taken by the diffuse start."""
    x = nile.load_pandas().data["volume"].to_numpy()
    lds = local_level()
    np.testing.assert_allclose(np.asarray(lds.filter(x).increments)[0], -9.04136, atol=1e-4)
    peer = KalmanFilter(k_endog=1, k_states=1, transition=[[1.0]], design=[[1.0]], selection=[[1.0]])
    peer.bind(x[None].copy())
    peer["state_cov"], peer["obs_cov"] = [[1469.1]], [[15099.0]]
    peer.initialize_known(np.zeros(1), np.array([[1e7]]))
    np.testing.assert_allclose(lds.log_evidence(x), peer.loglike(), rtol=1e-8)
    np.testing.assert_allclose(lds.log_evidence(x), -641.5855, atol=1e-3)


def test_long_sequences_equal_statsmodels(oracle):
    """In blocks, with gaps, as one after the other."""
    rng = np.random.default_rng(4)
    lds = system(oracle, 4)
    x = np.asarray(lds.simulate(9000, seed=2)[1]).copy()
    x[rng.uniform(size=x.shape) < 0.1] = np.nan
    peer = KalmanFilter(k_endog=P, k_states=N, selection=np.eye(N))
    peer.bind(x.copy())
    peer["transition"], peer["design"], peer["state_cov"] = (
        np.asarray(v) for v in (lds.transition, lds.emission, lds.process_noise)
    )
    peer["obs_cov"], peer["obs_intercept"] = np.asarray(lds.observation_noise), np.asarray(lds.offset)[:, None]
    peer.initialize_known(np.asarray(lds.start_mean), np.asarray(lds.start_covariance))
    result = peer.filter()
    found = lds.filter(x, missing=True)
    np.testing.assert_allclose(found.log_likelihood, result.llf, rtol=1e-8)
    np.testing.assert_allclose(found.mean, result.filtered_state.T, atol=1e-9)


# -- forecasts and draws ----------------------------------------------------------------------------------------


def test_forecasts_of_one_output_covary(oracle):
    lds = local_level(2.0, 3.0)
    x = np.array([1.0, 2.0, 1.5])
    ahead = lds.condition(x).predict(4)
    steps = tuple(np.array(a) for a in ([[1.0]], [[2.0]], [[1.0]], [[3.0]], [0.0], [0.0]))
    gaps = np.append(x, [np.nan] * 4)[:, None]
    mean, covariance, _ = oracle.given(np.zeros(1), np.array([[1e7]]), steps, gaps)
    np.testing.assert_allclose(ahead.mean, mean[3:], rtol=1e-9)
    np.testing.assert_allclose(ahead.latent_covariance, covariance[3:, 3:], rtol=1e-6)
    np.testing.assert_allclose(ahead.aleatoric, 3.0)
    np.testing.assert_allclose(lds.condition(x).forecast(4).covariance[:, 0, 0], ahead.epistemic, rtol=1e-12)


def test_draws_of_states_have_the_smoothed_moments(lds, x, oracle):
    draws = np.asarray(lds.sample_states(x, n=4000, seed=1)).reshape(4000, -1)
    mean, covariance, _ = oracle.given(*dense(lds), x)
    se = np.sqrt(np.diag(covariance) / 4000)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4.5 * se)
    scale = np.sqrt(np.diag(covariance))
    found = np.cov(draws.T) / np.outer(scale, scale)
    want = covariance / np.outer(scale, scale)
    assert np.all(np.abs(found - want) < 4.5 * np.sqrt((1 + want**2) / 4000))


def test_simulation_has_the_law_of_the_forecast(lds, x):
    after = lds.condition(x)
    ahead = after.predict(3)
    draws = np.stack([np.asarray(after.simulate(3, seed=s)[1]) for s in range(400)])
    assert np.all(np.abs(draws.mean(axis=0) - ahead.mean) < 4.5 * ahead.std / 20)
    assert np.all(np.abs(draws.var(axis=0) / ahead.variance - 1) < 4.5 * np.sqrt(2 / 400))


# -- learning ---------------------------------------------------------------------------------------------------


@eqx.filter_jit
def step(belief, statistics):
    expected, height = belief.expect(statistics)
    return belief.maximize(expected), height


@pytest.mark.parametrize("case", ["plain", "missing", "inputs"])
def test_em_never_falls(oracle, x, case):
    rng = np.random.default_rng(5)
    options, data = {}, x
    lds = system(oracle, 5)
    if case == "missing":
        data = np.where(rng.uniform(size=x.shape) < 0.3, np.nan, x)
        data[4] = np.nan
        options = {"missing": True}
    if case == "inputs":
        base = [
            getattr(lds, n)
            for n in ("transition", "process_noise", "emission", "observation_noise", "start_mean", "start_covariance")
        ]
        lds = LDS(*base, control=np.ones((N, 1)), feedthrough=np.zeros((P, 1)))
        options = {"inputs": rng.normal(size=(T, 1))}
    statistics = lds.statistics(data, **options)
    heights = []
    for _ in range(15):
        lds, height = step(lds, statistics)
        heights.append(float(height))
    assert np.all(np.diff(heights) > -1e-9)
    assert heights[-1] > heights[0] + 1


@eqx.filter_jit
def fisher(lds, statistics, held):
    def height(r):
        return eqx.tree_at(lambda b: b.observation_noise, lds, r).evidence_of(statistics)

    return lds.maximize(lds.expect(statistics)[0], held), jax.grad(height)(lds.observation_noise)


def test_a_step_of_em_goes_along_the_gradient(oracle, x):
    """M-step for R alone: R' - R = (2/T) R G R with G = ∂ log p/∂R, by Fisher's identity, with missing entries."""
    lds = system(oracle, 6)
    x = x.copy()
    x[2, 1] = x[7, 0] = np.nan
    statistics = lds.statistics(x, missing=True)
    held = ("transition", "process_noise", "emission", "offset", "start_mean", "start_covariance")
    new, slope = fisher(lds, statistics, held)
    want = lds.observation_noise + 2 / T * lds.observation_noise @ slope @ lds.observation_noise
    np.testing.assert_allclose(new.observation_noise, want, rtol=1e-9)
    np.testing.assert_allclose(new.transition, lds.transition)


def test_nile_by_em_and_by_gradient():
    """Maximum likelihood: 15 099 and 1 469 (Durbin & Koopman, 2012, section 2.10)."""
    x = nile.load_pandas().data["volume"].to_numpy()
    held = ["transition", "emission", "start_mean", "start_covariance"]
    first = local_level(1000.0, 10000.0)
    by_gradient = credo.learn(first, x, using=Evidence(starts=1, flat=False), fixed=held)
    by_em = credo.learn(first, x, using=EM(starts=1, max_steps=300, tolerance=1e-11), fixed=held)
    for learned in (by_gradient, by_em):
        np.testing.assert_allclose(learned.observation_noise[0, 0], 15099, rtol=5e-3)
        np.testing.assert_allclose(learned.process_noise[0, 0], 1469, rtol=2e-2)


def test_everything_is_learned(oracle):
    """From nothing but the number of states, as good as the truth on the data."""
    truth = LDS(
        [[0.9, 0.2], [-0.2, 0.9]], 0.1 * np.eye(2), [[1.0, 0.0], [0.5, 1.0]], 0.1 * np.eye(2), np.zeros(2), np.eye(2)
    )
    x = np.asarray(truth.simulate(200, seed=3)[1])
    true = float(truth.log_evidence(x))
    x = x + np.array([5.0, -3.0])
    learned = credo.fit(LDS.with_states(2, 2), x, using=EM(starts=2, max_steps=100, tolerance=1e-5), report=True)
    assert learned.log_evidence > true
    moduli = np.abs(np.linalg.eigvals(np.asarray(learned.belief.transition)))
    np.testing.assert_allclose(moduli, np.sqrt(0.85), atol=0.06)
    assert learned.belief.state is not None
    assert len(learned.notes) == 2


# -- what cannot be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"process_noise": [[1.0, 0.5], [0.0, 1.0]]},
            "process_noise must be symmetric, found .* by 0.5",
        ),
        (
            {"observation_noise": [[1.0, 2.0], [2.0, 1.0]]},
            "observation_noise must be a covariance .* -1",
        ),
        ({"transition": np.eye(3)}, r"transition must have shape \(2, 2\)"),
        ({"transition": [[np.nan, 0], [0, 1]]}, "transition must be finite"),
        ({"start_covariance": np.eye(2)[None]}, "of the first state alone"),
        ({"emission": [1.0, 0.0]}, r"emission must have shape \(p, n\)"),
        ({"method": "fast"}, "method must be one of covariance"),
        ({"control": np.ones((2, 2)), "feedthrough": np.ones((2, 1))}, "column for each input"),
    ],
)
def test_matrices_that_cannot_be(change, message):
    good = {
        "transition": np.eye(2),
        "process_noise": np.eye(2),
        "emission": np.eye(2),
        "observation_noise": np.eye(2),
        "start_mean": np.zeros(2),
        "start_covariance": np.eye(2),
    }
    with pytest.raises(DataError, match=message):
        LDS(**(good | change))


def test_data_that_cannot_be(lds, x):
    gaps = x.copy()
    gaps[3, 1] = np.nan
    with pytest.raises(DataError, match="pass missing=True"):
        lds.condition(gaps)
    with pytest.raises(DataError, match="pass missing=True"):
        lds.condition(gaps[3])
    with pytest.raises(DataError, match="3 columns|2 columns"):
        lds.condition(np.zeros((4, 3)))
    with pytest.raises(DataError, match="inputs must have 0 columns"):
        lds.condition(x, inputs=np.zeros((T, 1)))
    with pytest.raises(DataError, match="not known yet"):
        LDS.with_states(2, 2).condition(x)
    driven = LDS(np.eye(2), np.eye(2), np.eye(2), np.eye(2), np.zeros(2), np.eye(2), control=np.ones((2, 1)))
    with pytest.raises(DataError, match="inputs are missing"):
        driven.condition(x)
    with pytest.raises(DataError, match="inputs are missing"):
        driven.condition(x[0])
    exact = LDS(np.eye(2), np.eye(2), np.eye(2), np.zeros((2, 2)), np.zeros(2), np.eye(2))
    with pytest.raises(DataError, match="positive definite to learn"):
        credo.learn(exact, x)
    np.testing.assert_allclose(exact.condition(x).state.mean, x[-1], atol=1e-12)


def test_a_file_keeps_it(lds, x, tmp_path):
    after = lds.condition(x[0]).condition(x[1])
    back = credo.load(credo.save(after, tmp_path / "lds"))
    np.testing.assert_array_equal(back.predict(2).mean, after.predict(2).mean)


def test_a_short_series_compiles_nothing(programs):
    x = np.cumsum(np.random.default_rng(0).normal(size=(40, 1)), axis=0)
    lds = LDS([[1.0, 1.0], [0.0, 0.9]], np.diag([0.5, 0.1]), [[1.0, 0.0]], [[1.0]], [0.0, 0.0], np.eye(2))
    after = lds.condition(x).condition(0.3)
    lds.filter(x), lds.smooth(x), lds.log_evidence(x), after.forecast(3)
    assert isinstance(after.predict(4).mean, np.ndarray) and isinstance(after.state.mean, np.ndarray)
    assert not programs


# -- units and degenerate variances ------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [(1e-12, 0.0), (1e12, 0.0), (1.0, 1e8), (3e9, -1e6)])
def test_a_step_of_em_knows_no_units(a, b):
    """y → a(y + b): means of states as before, H and d in the new units, R in their squares."""
    rng = np.random.default_rng(8)
    y = np.cumsum(rng.normal(size=60)) + rng.normal(size=60)
    found = []
    for series in (y, a * (y + b)):
        lds, statistics = LDS.with_states(2).prepare(series)
        for _ in range(5):
            lds = host(step(lds, statistics)[0])
        found.append(lds)
    one, other = found
    np.testing.assert_allclose(other.transition, one.transition, rtol=1e-5)
    np.testing.assert_allclose(other.emission / a, one.emission, rtol=1e-5)
    np.testing.assert_allclose(other.offset / a - b, one.offset, atol=1e-5)
    np.testing.assert_allclose(other.observation_noise / a**2, one.observation_noise, rtol=1e-5)
    assert float(one.log_prior_of_parameters()) == pytest.approx(float(other.log_prior_of_parameters()), rel=1e-5)


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_small_systems_are_solved_whatever_their_size(size):
    a = np.random.default_rng(3).normal(size=(3, 3))
    s, y = a @ a.T + 0.1 * np.eye(3), a[:, :2]
    np.testing.assert_allclose(solve_semidefinite(size * s, y) * size, np.linalg.solve(s, y), rtol=1e-10)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("seed", [1, 7])
def test_noise_is_learned_as_such_and_says_so(seed):
    """A state that explains nothing, or everything: EM goes towards a variance of zero, and stops above it."""
    noise = np.random.default_rng(seed).normal(size=60)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        after = credo.fit(LDS.with_states(1), noise)
    assert all("converged" in str(w.message) or "lower bound" in str(w.message) for w in said)
    ahead = after.predict(3)
    assert np.all(np.abs(ahead.std - noise.std()) < 0.25) and np.all(np.linalg.eigvalsh(after.observation_noise) > 0)


def test_nothing_is_learned_from_nothing():
    for belief in (LDS.with_states(1), credo.HMM(2)):
        with pytest.raises(DataError, match="x has no entry that was observed"):
            credo.fit(belief, [np.nan] * 5, missing=True)
