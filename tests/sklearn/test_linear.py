"""`BayesianLinearRegressor`: scikit-learn's conformance suite, and scikit-learn's own estimators as oracles."""

import pickle

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import ARDRegression, BayesianRidge, Lasso, LassoCV, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import credo
from credo.core.predictive import Mixture, Normal, StudentT
from credo.errors import DataError
from credo.infer import ML
from credo.models.features import Polynomial
from credo.sklearn import BayesianLinearRegressor

KINDS = [
    {},
    {"prior": "ard"},
    {"prior": "lasso"},
    {"noise": "unknown"},
    {"noise": "student-t"},
    {"noise": "laplace", "fit_intercept": False},
]


NUMERICAL = {
    *("check_sample_weight_equivalence_on_dense_data", "check_regressors_train", "check_regressors_int"),
    *("check_fit2d_1sample", "check_fit2d_1feature", "check_methods_subset_invariance", "check_estimators_dtypes"),
    *("check_methods_sample_order_invariance", "check_fit_idempotent", "check_estimators_pickle"),
}
"""Checks that see more than the class, its options and its messages, which all kinds have in common."""


def numerical_checks():
    for kind in KINDS[1:3]:
        for estimator, check in estimator_checks_generator(BayesianLinearRegressor(**kind)):
            name = getattr(check, "func", check).__name__
            if name in NUMERICAL:
                yield pytest.param(estimator, check, id=f"{estimator!r}-{name}")


# Tiny check data with more features than rows determine nothing: the warning says so, and is right.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([BayesianLinearRegressor()])
def test_conformance(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(numerical_checks()))
def test_conformance_of_the_other_kinds(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 50.0, 0.0, -3.0]
    y = 7.0 + x @ [1.0, -0.2, 15.0, 0.0] + 0.5 * rng.normal(size=80)
    return x, y


@pytest.fixture(scope="module")
def fitted(data):
    return {str(kind): BayesianLinearRegressor(**kind).fit(*data) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_coefficients_are_in_the_units_of_the_inputs(kind, data, fitted):
    x, _ = data
    model = fitted[str(kind)]
    np.testing.assert_allclose(model.predict(x), x @ model.coef_ + model.intercept_, rtol=1e-10)
    assert model.coef_.shape == (4,) and model.n_features_in_ == 4
    assert (model.intercept_ == 0.0) == (not model.fit_intercept)
    assert hasattr(model, "log_evidence_") == (model.prior != "lasso")


def test_coefficients_are_of_the_features_where_there_are_any(data):
    x, y = data
    model = BayesianLinearRegressor(features=Polynomial(2)).fit(x / 10, y)
    phi = np.asarray(Polynomial(2)(jnp.asarray(x / 10)))
    np.testing.assert_allclose(model.predict(x / 10), phi @ model.coef_ + model.intercept_, rtol=1e-9)
    for name, columns in {"polynomial": 14, "spline": 40}.items():
        assert BayesianLinearRegressor(features=name).fit(x, y).coef_.shape == (columns,)


def test_mean_is_ridge_at_the_same_penalty(data, fitted):
    x, y = data
    model = fitted["{}"]
    scaler = StandardScaler().fit(x)
    penalty = model.noise_variance_ * float(model.belief_.prior.precision)
    ridge = Ridge(alpha=penalty, solver="cholesky", tol=1e-12).fit(scaler.transform(x), y)
    np.testing.assert_allclose(model.coef_, ridge.coef_ / scaler.scale_, rtol=1e-8)
    np.testing.assert_allclose(model.predict(x), ridge.predict(scaler.transform(x)), rtol=1e-8)


def test_evidence_and_predictions_agree_with_bayesian_ridge(data):
    x, y = data
    x = x / np.sqrt(np.mean(x**2, axis=0))  # credo scales the inputs inside, scikit-learn does not
    flat = {"alpha_1": 0.0, "alpha_2": 0.0, "lambda_1": 0.0, "lambda_2": 0.0}
    peer = BayesianRidge(fit_intercept=False, compute_score=True, tol=1e-12, max_iter=1000, **flat).fit(x, y)
    model = BayesianLinearRegressor(fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(model.noise_variance_, 1 / peer.alpha_, rtol=1e-6)
    np.testing.assert_allclose(float(model.belief_.prior.precision), peer.lambda_, rtol=1e-6)
    np.testing.assert_allclose(model.log_evidence_, peer.scores_[-1], rtol=1e-8)
    for ours, theirs in zip(model.predict(x, return_std=True), peer.predict(x, return_std=True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_intercept_agrees_with_bayesian_ridge(data, fitted):
    x, y = data
    scaler = StandardScaler().fit(x)
    peer = BayesianRidge(tol=1e-10, max_iter=1000).fit(scaler.transform(x), y)
    mean, std = peer.predict(scaler.transform(x), return_std=True)
    ours, spread = fitted["{}"].predict(x, return_std=True)
    np.testing.assert_allclose(ours, mean, atol=1e-3 * y.std())
    # credo also counts what is not known of the intercept: σ²/n of the variance.
    ignorance = [spread**2 / fitted["{}"].noise_variance_ - 1, std**2 * peer.alpha_ - 1]
    np.testing.assert_allclose(ignorance[0] - ignorance[1], 1 / len(y), rtol=0.02)


def test_ard_switches_off_what_ardregression_switches_off():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 12))
    y = x[:, :3] @ [2.0, -1.0, 0.5] + 0.3 * rng.normal(size=300)
    model, peer = BayesianLinearRegressor(prior="ard").fit(x, y), ARDRegression().fit(x, y)
    np.testing.assert_allclose(model.coef_[:3], peer.coef_[:3], atol=5e-3)
    assert np.all(np.abs(model.coef_[3:]) < 0.05) and np.sum(np.abs(model.coef_[3:]) < 1e-8) >= 7
    ours, theirs = model.predict(x, return_std=True), peer.predict(x, return_std=True)
    score = [stats.norm.logpdf(y, *p).sum() for p in (ours, theirs)]
    assert abs(score[0] - score[1]) < 3.0


def test_lasso_is_lasso_at_the_penalty_that_lassocv_chooses(data, fitted):
    x, y = data
    model = fitted[str({"prior": "lasso"})]
    scaler = StandardScaler().fit(x)
    z = scaler.transform(x)
    penalty = model.noise_variance_ / (len(y) * float(model.belief_.prior.scale))
    peer = Lasso(alpha=penalty, tol=1e-10, max_iter=100_000).fit(z, y)
    np.testing.assert_allclose(model.coef_ * scaler.scale_, peer.coef_, rtol=1e-6)
    chosen = LassoCV(cv=5, tol=1e-8, max_iter=100_000).fit(z, y)
    np.testing.assert_allclose(penalty, chosen.alpha_, rtol=1e-8)
    np.testing.assert_allclose(model.noise_variance_, chosen.mse_path_.mean(axis=1).min(), rtol=1e-4)


def test_maximum_likelihood_is_linear_regression(data, fitted):
    x, y = data
    point = credo.Linear().condition(x, y, using=ML())
    np.testing.assert_allclose(point.predict(x).mean, LinearRegression().fit(x, y).predict(x), rtol=1e-8)


@pytest.mark.slow
def test_robust_noise_does_not_follow_outliers(data, fitted):
    x, y = data
    y = y.copy()
    y[:4] += 200.0
    clean = fitted["{}"].predict(x)[4:]
    away = {
        noise: np.abs(BayesianLinearRegressor(noise=noise).fit(x, y).predict(x)[4:] - clean).max()
        for noise in ("learned", "student-t", "laplace")
    }
    assert away["student-t"] < 0.5 and away["laplace"] < 0.5 < 5.0 < away["learned"]


@pytest.mark.parametrize("kind", KINDS[:2] + KINDS[3:4], ids=str)
def test_a_weight_counts_rows(kind, data, fitted):
    x, y = data
    half = BayesianLinearRegressor(**kind).fit(
        np.vstack([x, x]), np.concatenate([y, y]), sample_weight=np.full(160, 0.5)
    )
    whole = fitted[str(kind)]
    np.testing.assert_allclose(half.coef_, whole.coef_, rtol=1e-5)
    np.testing.assert_allclose(half.noise_variance_, whole.noise_variance_, rtol=1e-5)
    np.testing.assert_allclose(half.log_evidence_, whole.log_evidence_, rtol=1e-8)


def test_whole_weights_repeat_rows_under_robust_noise(data):
    x, y = data
    counts = np.arange(80) % 3
    weighted = BayesianLinearRegressor(noise="student-t").fit(x, y, sample_weight=counts)
    repeated = BayesianLinearRegressor(noise="student-t").fit(np.repeat(x, counts, 0), np.repeat(y, counts))
    np.testing.assert_array_equal(weighted.coef_, repeated.coef_)


def test_intervals_hold_their_probability(data, fitted):
    x, _ = data
    model, unknown = fitted["{}"], fitted[str({"noise": "unknown"})]
    mean, std = model.predict(x, return_std=True)
    want = mean[:, None] + stats.norm.ppf([0.05, 0.95]) * std[:, None]
    np.testing.assert_allclose(model.predict_interval(x, level=0.9), want, rtol=1e-8)
    p = unknown.predict_distribution(x)
    want = stats.t.ppf([[0.05], [0.95]], np.asarray(p.df), np.asarray(p.mean), np.asarray(p.scale)).T
    np.testing.assert_allclose(unknown.predict_interval(x, level=0.9), want, rtol=1e-8)


def test_predictions_are_credos(data, fitted):
    x, _ = data
    kinds = [Normal, Normal, Normal, StudentT, Mixture, Mixture]
    for kind, expected in zip(KINDS, kinds, strict=True):
        p = fitted[str(kind)].predict_distribution(x)
        assert isinstance(p, expected)
        np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic)


def test_samples_are_joint_and_repeatable(data, fitted):
    x, _ = data
    model = fitted["{}"]
    twice = np.vstack([x[0] + 30.0, x[0] + 30.0, x[1]])  # far out, where there is something to be ignorant of
    draws = model.sample(twice, 4000, random_state=1)
    assert draws.shape == (4000, 3)
    np.testing.assert_array_equal(draws, model.sample(twice, 4000, random_state=1))
    assert not np.array_equal(draws, model.sample(twice, 4000, random_state=2))
    p = model.predict_distribution(twice)
    mean, std = np.asarray(p.mean), np.asarray(p.std)
    assert np.all(np.abs(draws.mean(0) - mean) < 4.5 * std / np.sqrt(4000))
    assert np.all(np.abs(draws.std(0) / std - 1) < 4.5 / np.sqrt(8000))
    # Two queries at the same place share their ignorance, not their noise.
    correlation = float(p.epistemic[0] / p.total[0])
    assert abs(np.corrcoef(draws[:, 0], draws[:, 1])[0, 1] - correlation) < 4.5 * (1 - correlation**2) / np.sqrt(4000)


def test_works_in_pipelines_and_searches(data):
    x, y = data
    pipeline = make_pipeline(StandardScaler(), BayesianLinearRegressor())
    grid = {"bayesianlinearregressor__prior": ["ridge", "ard"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(x, y)
    assert search.best_params_["bayesianlinearregressor__prior"] in ("ridge", "ard")
    assert search.score(x, y) > 0.9
    mean, std = search.best_estimator_.predict(x, return_std=True)
    assert mean.shape == std.shape == (80,)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_survives_pickling_and_cloning(kind, data, fitted):
    x, _ = data
    model = fitted[str(kind)]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    copy = clone(model)
    assert copy.get_params() == model.get_params() and not hasattr(copy, "belief_")


def test_cloning_keeps_features(data):
    model = BayesianLinearRegressor(features=Polynomial(3))
    assert clone(model).features.degree == 3
    assert "Polynomial" in repr(model)


def test_column_names_reach_the_belief(data, fitted):
    x, y = data
    frame = pd.DataFrame(x, columns=["age", "dose", "ph", "load"])
    model = BayesianLinearRegressor().fit(frame, y)
    assert list(model.feature_names_in_) == ["age", "dose", "ph", "load"]
    assert model.belief_.coefficient_names() == ["intercept", "age", "dose", "ph", "load"]
    np.testing.assert_allclose(model.predict(frame), fitted["{}"].predict(x), rtol=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"dose": "dosage"}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": "lass"}, "prior must be one of 'ridge', 'ard', 'lasso', found 'lass'"),
        ({"noise": 3.0}, "noise must be one of 'learned', 'unknown', 'student-t', 'laplace', found 3.0"),
        ({"features": "cubic"}, "features must be one of 'polynomial', 'spline', found 'cubic'"),
        ({"features": 3}, "features must be None, a text or credo Features, found int"),
        ({"prior": "lasso", "noise": "laplace"}, "the lasso is offered with noise='learned' only"),
    ],
)
def test_refuses_unknown_options(options, message, data):
    with pytest.raises(DataError, match=message):
        BayesianLinearRegressor(**options).fit(*data)


def test_refuses_data_it_cannot_use(data):
    x, y = data
    with pytest.raises(DataError, match="sample_weight counts rows, in whole numbers"):
        BayesianLinearRegressor(noise="laplace").fit(x, y, sample_weight=np.full(80, 0.5))
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        BayesianLinearRegressor().fit(x, y, sample_weight=-np.ones(80))
    with pytest.raises(DataError, match="y is constant"):
        BayesianLinearRegressor().fit(x, np.ones(80))
    with pytest.raises(DataError, match="level must lie strictly between 0 and 1"):
        BayesianLinearRegressor().fit(x, y).predict_interval(x, level=95)
