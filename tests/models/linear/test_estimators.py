"""ML, ridge, lasso and robust estimates against scikit-learn, SciPy and statsmodels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize
from sklearn.linear_model import Lasso, LinearRegression, Ridge

import credo
from credo.errors import DataError, NotConvergedWarning
from credo.infer import MAP, ML
from credo.models.features import Polynomial
from credo.models.linear import (
    FunctionSpace,
    Intercept,
    InverseGamma,
    Isotropic,
    LaplaceNoise,
    LaplacePrior,
    Linear,
    StudentTNoise,
    lasso_path,
    lasso_scale,
)

N, D = 60, 4


@pytest.fixture
def data(rng):
    x = rng.normal(size=(N, D)) * [1, 2, 3, 1] + [0, 0, 5, 0]
    return x, x @ [1.0, -0.5, 0.2, 0.0] + 2 + 0.5 * rng.normal(size=N)


def coefficients(belief):
    return np.asarray(belief.coefficients().mean)


def test_maximum_likelihood_is_least_squares(data, rng):
    x, y = data
    belief = Linear().condition(x, y, using=ML())
    ols = sm.OLS(y, sm.add_constant(x)).fit()
    np.testing.assert_allclose(coefficients(belief), ols.params, rtol=1e-10)
    np.testing.assert_allclose(belief.noise, ols.ssr / N, rtol=1e-10)
    value, k = Linear().maximum_log_likelihood(x, y)
    np.testing.assert_allclose(value, ols.llf, rtol=1e-10)
    assert k == D + 2
    np.testing.assert_allclose(-2 * value + 2 * (k - 1), ols.aic, rtol=1e-10)
    w = rng.uniform(0.5, 2, N)
    wls = sm.WLS(y, sm.add_constant(x), weights=w).fit()
    np.testing.assert_allclose(coefficients(Linear().condition(x, y, using=ML(), weights=w)), wls.params, rtol=1e-9)
    np.testing.assert_allclose(Linear().maximum_log_likelihood(x, y, weights=w)[0], wls.llf, rtol=1e-10)
    plain = LinearRegression(fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(
        coefficients(Linear(intercept=False).condition(x, y, using=ML())), plain.coef_, rtol=1e-9
    )


def test_maximum_likelihood_survives_what_normal_equations_do_not():
    t = np.linspace(0, 1, 50)[:, None]
    exact = np.polynomial.Polynomial(np.arange(1.0, 12.0))
    belief = Linear(Polynomial(10)).condition(t, exact(t[:, 0]), using=ML())
    np.testing.assert_allclose(belief.predict(t).mean, exact(t[:, 0]), rtol=1e-9)


def test_collinear_features_are_said_to_be(data):
    x, y = data
    with pytest.warns(NotConvergedWarning, match="rank 5 but 6 columns"):
        Linear().condition(np.column_stack([x, x[:, 0]]), y, using=ML())


def test_a_point_estimate_has_no_ignorance(data):
    x, y = data
    p = Linear().condition(x, y, using=ML()).predict(x)
    assert np.all(np.asarray(p.epistemic) == 0) and np.all(np.asarray(p.aleatoric) > 0)
    with pytest.raises(DataError, match="point estimate has no posterior"):
        Linear().condition(x, y, using=ML()).condition(x, y)


def test_ridge_is_the_posterior_mean_and_sklearns_ridge(data):
    x, y = data
    belief = Linear(prior=Isotropic(3.0), noise=0.5, intercept=False)
    mode = coefficients(belief.condition(x, y, using=MAP()))
    np.testing.assert_allclose(mode, coefficients(belief.condition(x, y)), rtol=1e-9)
    np.testing.assert_allclose(mode, Ridge(alpha=1.5, fit_intercept=False, tol=1e-14).fit(x, y).coef_, rtol=1e-8)
    flat = Linear(prior=Isotropic(3.0), noise=0.5, intercept=Intercept(0.0, 1e12)).condition(x, y, using=MAP())
    ridge = Ridge(alpha=1.5).fit(x, y)
    np.testing.assert_allclose(coefficients(flat), np.append(ridge.intercept_, ridge.coef_), rtol=1e-8)


def test_lasso_is_sklearns_and_meets_its_optimality_conditions(data, rng):
    x, y = data
    noise, scale = 0.3, 0.01
    belief = Linear(prior=LaplacePrior(scale), noise=noise)
    got = coefficients(belief.condition(x, y, using=MAP()))
    want = Lasso(alpha=noise / (N * scale), tol=1e-10, max_iter=100_000).fit(x, y)
    np.testing.assert_allclose(got, np.append(want.intercept_, want.coef_), rtol=1e-6, atol=1e-8)
    w = rng.uniform(0.5, 2, N)
    weighted = coefficients(belief.condition(x, y, using=MAP(), weights=w))
    slope = x.T @ (w * (y - weighted[0] - x @ weighted[1:])) / noise
    active = weighted[1:] != 0
    np.testing.assert_allclose(slope[active], np.sign(weighted[1:][active]) / scale, rtol=1e-5)
    assert np.all(np.abs(slope[~active]) <= 1 / scale * (1 + 1e-6))


def test_the_lasso_path_runs_from_nothing_to_least_squares(data):
    x, y = data
    path = lasso_path(Linear(prior=LaplacePrior(), noise=0.3), x, y)
    assert np.all(np.diff(path.scale) > 0) and np.all(np.abs(path.coefficients[0]) < 1e-10)
    i = 60
    one = Linear(prior=LaplacePrior(path.scale[i]), noise=0.3).condition(x, y, using=MAP())
    np.testing.assert_allclose(coefficients(one), np.append(path.intercept[i], path.coefficients[i]), atol=1e-5)


@pytest.mark.parametrize("noise", [StudentTNoise(3.0, 0.4), LaplaceNoise(0.4)], ids=["student", "laplace"])
def test_the_robust_mode_maximizes_the_posterior(noise, data, rng):
    x, y = data
    y = y.copy()
    y[:3] += 30
    belief = Linear(prior=Isotropic(0.5), noise=noise, intercept=Intercept(0.0, 4.0))
    mode = coefficients(belief.condition(x, y, using=MAP()))
    phi = jnp.column_stack([jnp.ones(N), x])
    precision = jnp.array([0.25] + [0.5] * D)

    def negative(theta):
        return -jnp.sum(noise.log_prob(y - phi @ theta)) + 0.5 * theta @ (precision * theta)

    want = optimize.minimize(negative, mode, jac=jax.grad(negative), method="L-BFGS-B", options={"ftol": 1e-15})
    assert float(negative(mode)) <= want.fun + 1e-6 * abs(want.fun)
    if isinstance(noise, StudentTNoise):
        np.testing.assert_allclose(jax.grad(negative)(jnp.asarray(mode)), 0, atol=1e-6)
    clean = coefficients(Linear(prior=Isotropic(0.5), noise=0.25).condition(x[3:], y[3:]))
    assert np.max(np.abs(mode - clean)) < 0.25
    np.testing.assert_allclose(coefficients(belief.condition(x, y)), mode, rtol=1e-8)


def test_least_absolute_deviations_are_the_median_regression(data):
    x, y = data
    belief = Linear(prior=Isotropic(1e-9), noise=LaplaceNoise(0.5), intercept=Intercept(0.0, 1e9))
    want = sm.QuantReg(y, sm.add_constant(x)).fit(q=0.5, max_iter=5000, p_tol=1e-10).params
    got = coefficients(belief.condition(x, y))
    phi = sm.add_constant(x)
    best, ours = np.abs(y - phi @ want).sum(), np.abs(y - phi @ got).sum()
    assert ours <= best * (1 + 1e-6)


def test_robust_rows_of_double_weight_have_scale_over_root_two(data):
    x, y = data
    w = np.where(np.arange(N) % 2, 2.0, 1.0)
    belief = Linear(noise=StudentTNoise(4.0, 0.5))
    by_weights = belief.log_evidence(x, y, weights=w)
    scaled = np.sqrt(w)
    theta = coefficients(belief.condition(x, y, using=MAP(), weights=w))
    residual = (y - theta[0] - x @ theta[1:]) * scaled
    assert np.isfinite(by_weights)
    slope = x.T @ (w * (y - theta[0] - x @ theta[1:]) * 5 / (4 * 0.25 + residual**2))
    np.testing.assert_allclose(slope, theta[1:] * 1.0, atol=1e-6)


@pytest.mark.parametrize("noise", [StudentTNoise(5.0, 0.4), LaplaceNoise(0.4)], ids=["student", "laplace"])
def test_the_robust_evidence_is_near_the_integral(noise, rng):
    """One weight, so that p(y) = ∫ p(y | w) p(w) dw can be done by brute force."""
    x = rng.normal(size=(60, 1))
    y = 0.8 * x[:, 0] + 0.4 * rng.standard_t(5, size=60)
    belief = Linear(prior=Isotropic(1.0), noise=noise, intercept=False)
    w = np.linspace(-1, 3, 4001)
    log_joint = jax.vmap(lambda v: jnp.sum(noise.log_prob(y - v * x[:, 0])) - 0.5 * v**2)(jnp.asarray(w))
    want = float(jax.scipy.special.logsumexp(log_joint)) + np.log(w[1] - w[0]) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(belief.log_evidence(x, y), want, atol=0.15)
    weights = np.exp(log_joint - log_joint.max())
    mean = np.average(w, weights=weights)
    spread = np.sqrt(np.average((w - mean) ** 2, weights=weights))
    c = belief.condition(x, y).coefficients()
    assert abs(float(c.mean[0]) - mean) < 0.3 * spread and 0.7 < float(c.std[0]) / spread < 1.4


def test_robust_predictions_have_heavy_tails_and_a_split(data):
    x, y = data
    y = y.copy()
    y[0] = 100
    p = credo.fit(Linear(noise=StudentTNoise()), x, y).predict(x)
    np.testing.assert_allclose(p.aleatoric + p.epistemic, p.variance)
    blind = credo.fit(Linear(), x, y).predict(x)
    assert np.mean(p.interval(0.9).width) < 0.5 * np.mean(blind.interval(0.9).width)
    draws = np.asarray(p.sample(4000, seed=1))[:, 5]
    inside = np.mean((draws > p.interval(0.9).lower[5]) & (draws < p.interval(0.9).upper[5]))
    assert abs(inside - 0.9) < 4.5 * np.sqrt(0.09 / 4000)


def test_what_has_no_mode_says_so(data):
    x, y = data
    with pytest.raises(DataError, match="take its mode"):
        Linear(prior=LaplacePrior()).condition(x, y)
    with pytest.raises(DataError, match="not offered"):
        Linear(prior=LaplacePrior(), noise=StudentTNoise()).condition(x, y, using=MAP())
    with pytest.raises(DataError, match="cross_validate"):
        Linear(noise=StudentTNoise()).leave_one_out(x, y)
    with pytest.raises(DataError, match="needs closed-form point estimates"):
        Linear().condition(x, y, using=FunctionSpace()).condition(x, y, using=ML())


def test_the_mode_of_weights_and_unknown_noise(data):
    """The joint density of (θ, σ²) has no higher point; predictions there are all noise."""
    x, y = data
    model = Linear(prior=Isotropic(2.0), noise=InverseGamma(1.0, 0.5))
    point = model.condition(x, y, using=MAP())
    target = model.target(model.statistics(x, y))
    mode = {"intercept": point.coefficients().mean[0], "weights": point.coefficients().mean[1:], "noise": point.noise}

    def negative(v):
        numbers = {"intercept": v[0], "weights": v[1:-1], "noise": jnp.exp(v[-1])}
        return -target.function(numbers, *target.data)

    at = jnp.concatenate([mode["intercept"][None], mode["weights"], jnp.log(mode["noise"])[None]])
    np.testing.assert_allclose(jax.grad(negative)(at), 0.0, atol=1e-6 * N)
    assert float(jnp.max(point.predict(x).epistemic)) == 0.0


@pytest.mark.slow
def test_least_absolute_deviations_reach_the_optimum_of_the_linear_program():
    n = 20
    for seed in (16, 52):  # where a row that was fitted exactly too early held its place
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, 3))
        y = x[:, 0] + 0.3 * rng.laplace(size=n)
        belief = Linear(noise=LaplaceNoise(1.0), intercept=False, prior=Isotropic(1e-9)).condition(x, y)
        table = np.block([[x, -np.eye(n)], [-x, -np.eye(n)]])
        cost, bounds = np.r_[np.zeros(3), np.ones(n)], [(None, None)] * 3 + [(0, None)] * n
        best = optimize.linprog(cost, table, np.r_[y, -y], bounds=bounds).fun
        assert np.abs(y - x @ belief.weights.mean).sum() < best + 1e-6


def test_the_bound_of_the_lasso_has_a_penalty(data):
    """Least squares with Σ|w| ≤ C by a solver of constrained problems, against the mode under the scale found."""
    x, y = data
    model = Linear(noise=0.5)
    free = np.abs(np.linalg.lstsq(np.column_stack([np.ones(len(x)), x]), y, rcond=None)[0][1:]).sum()
    d = x.shape[1]  # w = u - v with u, v ≥ 0
    for bound in (0.3 * free, 0.8 * free):
        prior = LaplacePrior(lasso_scale(model, x, y, bound))
        found = Linear(prior=prior, noise=0.5).condition(x, y, using=MAP()).coefficients().mean
        np.testing.assert_allclose(np.abs(found[1:]).sum(), bound, rtol=1e-5)
        parts = optimize.minimize(
            lambda v: np.sum((y - v[0] - x @ (v[1 : d + 1] - v[d + 1 :])) ** 2),
            np.zeros(1 + 2 * d),
            bounds=[(None, None)] + [(0, None)] * (2 * d),
            constraints={"type": "ineq", "fun": lambda v, c=bound: c - v[1:].sum()},
            options={"ftol": 1e-12, "maxiter": 500},
        ).x
        np.testing.assert_allclose(found[1:], parts[1 : d + 1] - parts[d + 1 :], atol=1e-4)
    with pytest.raises(DataError, match="from which on it does not bind"):
        lasso_scale(model, x, y, 2 * free)
