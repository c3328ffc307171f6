"""WarpedGP against dense NumPy, quadrature, finite differences and the plain GP it nests."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import credo
from credo.core import params
from credo.core.errors import DataError
from credo.core.predictive import Normal, Warped
from credo.kernels import RBF, Matern52
from credo.models.gp import GP, Identity, Log, Steps, WarpedGP
from credo.models.gp.evidence import CompiledModel, EvidenceObjective, NumpyModel
from credo.models.noise import KnownNoise

RNG = np.random.default_rng(8)
X = RNG.uniform(0, 6, size=(40, 2))
Y = np.exp(np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=40))
QUERIES = RNG.uniform(0, 6, size=(3, 2))
WARP = Steps(height=[2.0, 0.7], width=[0.8, 1.5], place=[-0.6, 1.0], center=3.0, spread=2.0, low=1.0, high=7.0)


def numpy_warp(y):
    """g and its slope, by the formula of the class."""

    def s(t):
        return t + 2.0 * np.tanh((t + 0.6) / 0.8) + 0.7 * np.tanh((t - 1.0) / 1.5)

    a, b = s((1.0 - 3.0) / 2.0), s((7.0 - 3.0) / 2.0)
    t = (y - 3.0) / 2.0
    slope = 1 + 2.0 / 0.8 / np.cosh((t + 0.6) / 0.8) ** 2 + 0.7 / 1.5 / np.cosh((t - 1.0) / 1.5) ** 2
    return 1.0 + 6.0 * (s(t) - a) / (b - a), 6.0 / (b - a) * slope / 2.0


def test_steps_are_the_formula_and_their_inverse_takes_them_back():
    y = np.concatenate([np.linspace(-6, 14, 41), [-300.0, 300.0]])
    z, slope = numpy_warp(y)
    np.testing.assert_allclose(WARP(jnp.asarray(y)), z, rtol=1e-12)
    np.testing.assert_allclose(WARP.log_slope(jnp.asarray(y)), np.log(slope), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(WARP.inverse(jnp.asarray(z)), y, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(WARP(jnp.asarray([1.0, 7.0])), [1.0, 7.0], rtol=1e-12)  # the ends stay
    by_z, by_height = jax.grad(lambda v, w: w.inverse(v), argnums=(0, 1), allow_int=True)(jnp.asarray(2.0), WARP)
    at = WARP.inverse(jnp.asarray(2.0))
    np.testing.assert_allclose(by_z, np.exp(-WARP.log_slope(at)), rtol=1e-9)
    h = 1e-6
    moved = [Steps(height=[2.0 + d, 0.7], width=WARP.width, place=WARP.place, center=3.0, spread=2.0, low=1.0, high=7.0)
             for d in (h, -h)]  # fmt: skip
    difference = (moved[0].inverse(jnp.asarray(2.0)) - moved[1].inverse(jnp.asarray(2.0))) / (2 * h)
    np.testing.assert_allclose(by_height.height[0], difference, rtol=1e-6)


def test_the_evidence_is_that_of_a_dense_normal_and_the_slopes():
    belief = WarpedGP(RBF(1.5, 2.0), 0.3, 0.2, WARP)
    z, slope = numpy_warp(Y)
    k = 2.0 * np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1) / 1.5**2) + 0.2 * np.eye(40)
    want = stats.multivariate_normal.logpdf(z, np.full(40, 0.3), k) + np.log(slope).sum()
    np.testing.assert_allclose(belief.log_evidence(X, Y), want, rtol=1e-10)
    first = belief.condition(X[:25], Y[:25])
    chained = belief.log_evidence(X[:25], Y[:25]) + first.log_evidence(X[25:], Y[25:])
    np.testing.assert_allclose(chained, want, rtol=1e-8)
    log = WarpedGP(RBF(1.5, 2.0), 0.3, 0.2, Log())
    want = stats.multivariate_normal.logpdf(np.log(Y), np.full(40, 0.3), k) - np.log(Y).sum()
    np.testing.assert_allclose(log.log_evidence(X, Y), want, rtol=1e-10)


@pytest.mark.parametrize("kind", [NumpyModel, CompiledModel])
def test_both_objectives_have_the_compiled_value_and_the_gradient_of_differences(kind):
    belief, rows = WarpedGP(Matern52([1.0, 2.0]), warp=WARP).prepare(X, Y)
    priors = belief.default_priors(rows)
    for fixed in ((), ("noise", "warp.width")):
        slots = params.layout(belief, fixed)
        objective, at = (
            EvidenceObjective(kind(belief, slots, rows, priors)),
            np.asarray(params.to_vector(belief, slots)) + 0.1,
        )
        value, gradient = objective.value_and_grad(at)
        there = params.from_vector(belief, slots, at)
        want = float(there.log_evidence_of(rows)) + float(params.log_prior(there, priors))
        np.testing.assert_allclose([value, objective.value(at)], want, rtol=1e-10)
        steps = 1e-5 * np.eye(len(at))
        differences = [(objective.value(at + h) - objective.value(at - h)) / 2e-5 for h in steps]
        np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-5)


def test_the_identity_is_a_plain_gaussian_process():
    plain, warped = (
        credo.fit(b, X, Y, using=credo.infer.Evidence()) for b in (GP(RBF()), WarpedGP(RBF(), warp=Identity()))
    )
    np.testing.assert_allclose(warped.kernel.lengthscale, plain.kernel.lengthscale, rtol=1e-10)
    p, q = plain.predict(QUERIES), warped.predict(QUERIES)
    for name in ("mean", "aleatoric", "epistemic", "median"):
        np.testing.assert_allclose(getattr(q, name), getattr(p, name), rtol=1e-9)
    np.testing.assert_allclose(q.log_prob(np.ones(3)), p.log_prob(np.ones(3)), rtol=1e-9)
    np.testing.assert_allclose(q.entropy(), p.entropy(), rtol=1e-9)
    np.testing.assert_allclose(warped.leave_one_out().mean, plain.leave_one_out().mean, rtol=1e-9)


def test_predictions_agree_with_quadrature():
    """On a fine grid of y, the density by the change of variables; for E[Var[y | f]] on one of f and ε."""
    mean, noise, latent = np.array([2.0, 5.0]), np.array([0.3, 0.1]), np.array([0.2, 0.4])
    p = Warped(Normal(mean, noise, latent), WARP)
    y = np.linspace(-15, 30, 200_001)[:, None]
    z, slope = numpy_warp(y)
    log_density = stats.norm.logpdf(z, mean, np.sqrt(noise + latent)) + np.log(slope)
    np.testing.assert_allclose(p.log_prob(y[::5000]), log_density[::5000], rtol=1e-9)

    def moment(f):
        return integrate.trapezoid(np.exp(log_density) * f, y, axis=0)

    np.testing.assert_allclose(moment(1.0), 1.0, rtol=1e-8)
    np.testing.assert_allclose(p.mean, moment(y), rtol=1e-7)
    np.testing.assert_allclose(p.variance, moment((y - moment(y)) ** 2), rtol=1e-5)
    np.testing.assert_allclose(p.entropy(), moment(-log_density), rtol=1e-6)
    below = integrate.cumulative_trapezoid(np.exp(log_density), y, axis=0, initial=0.0)
    quantile = [np.interp(0.9, below[:, i], y[:, 0]) for i in range(2)]
    np.testing.assert_allclose(p.quantile(0.9), quantile, rtol=1e-6)
    grid = np.linspace(-8, 8, 401)
    weight = stats.norm.pdf(grid) / stats.norm.pdf(grid).sum()
    for i in range(2):
        sums = mean[i] + np.sqrt(latent[i]) * grid[:, None] + np.sqrt(noise[i]) * grid
        back = np.interp(sums, z[:, 0], y[:, 0])
        given = back @ weight
        np.testing.assert_allclose(p.aleatoric[i], weight @ ((back - given[:, None]) ** 2 @ weight), rtol=1e-5)
        np.testing.assert_allclose(p.epistemic[i], weight @ (given - weight @ given) ** 2, rtol=1e-5)


def test_a_growing_outcome_is_recovered_and_calibrated():
    """y = exp(f + ε), which the plain process takes for one noise everywhere."""
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 3, size=(200, 1))
    f = 1.5 * x[:, 0] + np.sin(3 * x[:, 0])
    y = np.exp(f + 0.15 * rng.normal(size=200))
    report = credo.fit(WarpedGP(RBF()), x[:150], y[:150], report=True)
    warped, plain = report.belief, credo.fit(GP(RBF()), x[:150], y[:150], report=True)
    assert report.log_evidence > plain.log_evidence + 50
    assert "finer around" in report.notes[-1] and "finer around" in repr(warped)
    p, q = warped.predict(x[150:]), plain.belief.predict(x[150:])
    assert np.mean(p.log_prob(y[150:])) > np.mean(q.log_prob(y[150:])) + 0.3
    low, high = p.interval(0.9)
    held = np.mean((low < y[150:]) & (y[150:] < high))
    assert abs(held - 0.9) < 3.5 * np.sqrt(0.09 / 50)
    ratio = np.sqrt(warped.predict([[2.8]]).aleatoric / warped.predict([[0.5]]).aleatoric)
    truth = np.exp(1.5 * 2.3 + np.sin(8.4) - np.sin(1.5))
    assert 0.5 < float(ratio[0]) / truth < 2.0
    draws = np.asarray(warped.sample(x[150:153], 2000, noise=True, seed=3))
    np.testing.assert_allclose(np.median(draws, axis=0), p.median[:3], rtol=0.05)


def test_data_that_need_no_warp_get_hardly_any():
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 6, size=(80, 1))
    y = 20 + 5 * np.sin(x[:, 0]) + 0.5 * rng.normal(size=80)
    q = np.linspace(0.5, 5.5, 6)[:, None]
    warped, plain = credo.fit(WarpedGP(RBF()), x, y).predict(q), credo.fit(GP(RBF()), x, y).predict(q)
    np.testing.assert_allclose(warped.mean, plain.mean, atol=0.25)
    np.testing.assert_allclose(warped.std, plain.std, rtol=0.4)


def test_more_rows_missing_outcomes_names_and_files(tmp_path):
    belief = WarpedGP(RBF(1.5, 2.0), 0.3, 0.2, WARP)
    table, y = pd.DataFrame(X, columns=["length", "width"]), Y.copy()
    y[[3, 30]] = np.nan
    some = np.isfinite(y)
    whole = belief.condition(table, y)
    assert whole.inputs == ("length", "width")
    parts = belief.condition(X[:25], y[:25]).condition(X[25:], y[25:])
    want = belief.condition(X[some], Y[some])
    for after in (whole, parts):
        np.testing.assert_allclose(after.predict(QUERIES).mean, want.predict(QUERIES).mean, rtol=1e-9)
        np.testing.assert_array_equal(after.seen.cut()[1], Y[some])
    again = credo.load(credo.save(whole, tmp_path / "warped"))
    np.testing.assert_array_equal(again.predict(QUERIES).quantile(0.9), whole.predict(QUERIES).quantile(0.9))
    joint = np.asarray(whole.predict(QUERIES, joint=True).sample(5, seed=0))
    assert joint.shape == (5, 3)
    learned = credo.learn(parts, using=credo.infer.Evidence(starts=1), fixed=["warp"])
    assert learned.seen is None and np.all(np.asarray(learned.warp.height) == np.asarray(WARP.height))


def test_what_is_fixed_stays_and_other_priors_are_taken():
    start = WarpedGP(RBF(), warp=Steps(1))
    held = credo.learn(start, X, Y, fixed=["warp"], seed=0)
    np.testing.assert_array_equal(held.warp.height, start.warp.height)
    free = credo.learn(start, X, Y, fixed=["kernel", "noise"], priors={"warp.place": None})
    np.testing.assert_array_equal(free.kernel.lengthscale, start.kernel.number("lengthscale"))
    assert float(free.warp.height[0]) > 0.1


def test_bad_input_is_refused_in_words():
    with pytest.raises(DataError, match="takes a kernel first, found str"):
        WarpedGP("RBF")
    with pytest.raises(DataError, match="must be positive, found -1"):
        WarpedGP(noise=-1.0)
    with pytest.raises(DataError, match="one noise variance"):
        WarpedGP(noise=KnownNoise())
    with pytest.raises(DataError, match="one of Steps, Log, Identity"):
        WarpedGP(warp=np.log)
    with pytest.raises(DataError, match="at least one step"):
        Steps(0)
    with pytest.raises(DataError, match="height of a step must be positive"):
        Steps(height=-1.0)
    with pytest.raises(DataError, match="y must be positive for Log, found -2"):
        WarpedGP(warp=Log()).condition(X[:2], [1.0, -2.0])
    with pytest.raises(DataError, match="no data yet"):
        WarpedGP().leave_one_out()
