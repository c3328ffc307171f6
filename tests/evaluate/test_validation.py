import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.model_selection import KFold

from credo.core.errors import DataError
from credo.evaluate import curves, scores, validation


def test_holdout_covers_every_row_once():
    parts = validation.holdout(53, test=0.2, validation=0.3, seed=4)
    assert [len(p) for p in parts] == [26, 16, 11]
    assert sorted(np.concatenate(parts)) == list(range(53))
    again = validation.holdout(53, test=0.2, validation=0.3, seed=4)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not np.array_equal(parts.test, validation.holdout(53, test=0.2, validation=0.3, seed=5).test)
    assert len(validation.holdout(5, test=0.01, validation=0.0).test) == 1


@pytest.mark.parametrize("table", [np.asarray, pd.DataFrame, lambda x: pl.DataFrame(x), lambda x: x.tolist()])
def test_split_keeps_the_kind_of_table(table):
    x = np.arange(20.0).reshape(10, 2)
    data = table(x)
    (a, y), (b, y_test) = validation.split(data, list(range(10)), test=0.3, seed=1)
    assert type(a) is type(data) and len(a) == 7 and len(b) == 3
    np.testing.assert_array_equal(np.asarray(b)[:, 0], 2 * np.asarray(y_test))
    np.testing.assert_array_equal(np.asarray(a)[:, 0], 2 * np.asarray(y))
    assert len(validation.split(data, list(range(10)), test=0.3, validation=0.2)) == 3


def test_cross_validation_is_what_a_loop_would_do(Regression, line):
    x, y = line
    belief = Regression.prior(3, 10.0, 0.25)
    result = validation.cross_validate(belief, x, y, k=4, seed=2, learn=False, score=["rmse", scores.nlpd])
    want = []
    for train, test in KFold(4, shuffle=True, random_state=2).split(x):
        covariance = np.linalg.inv(np.eye(3) / 10 + x[train].T @ x[train] / 0.25)
        mean = x[test] @ (covariance @ x[train].T @ y[train] / 0.25)
        sd = np.sqrt(0.25 + np.sum(x[test] @ covariance * x[test], axis=1))
        want.append((np.sqrt(np.mean((y[test] - mean) ** 2)), -stats.norm.logpdf(y[test], mean, sd).mean()))
    np.testing.assert_allclose(np.column_stack([result.scores["rmse"], result.scores["nlpd"]]), want, rtol=1e-9)
    assert result.mean["nlpd"] == pytest.approx(np.mean(want, axis=0)[1])
    assert result.standard_error["rmse"] == pytest.approx(np.std(want, axis=0, ddof=1)[0] / 2)
    assert "nlpd" in str(result) and "±" in str(result)


def test_cross_validation_learns_by_default(Regression, line):
    """With the noise far too large, learning it from each training part must help."""
    x, y = line
    belief = Regression.prior(3, 10.0, 25.0)
    kept = validation.cross_validate(belief, x, y, k=3, learn=False)
    learned = validation.cross_validate(belief, x, y, k=3)
    assert set(learned.scores) == set(scores.REAL)
    assert learned.mean["nlpd"] < kept.mean["nlpd"] - 0.5
    fixed = validation.cross_validate(belief, x, y, k=3, fixed=["noise"])
    np.testing.assert_allclose(fixed.scores["nlpd"], kept.scores["nlpd"], rtol=1e-9)


def test_select_chooses_on_validation_rows_and_reports_on_test_rows(Regression, line):
    x, y = line
    beliefs = {"tight": Regression.prior(3, 1e-4, 0.25), "wide": Regression.prior(3, 10.0, 0.25)}
    chosen = validation.select(beliefs, x, y, seed=3, learn=False)
    assert chosen.name == "wide"
    parts = validation.holdout(len(y), seed=3)
    for name, belief in beliefs.items():
        prediction = belief.condition(x[parts.train], y[parts.train]).predict(x[parts.validation])
        assert chosen.validation_scores[name] == pytest.approx(float(scores.nlpd(prediction, y[parts.validation])))
    rest = np.concatenate([parts.train, parts.validation])
    refitted = beliefs["wide"].condition(x[rest], y[rest])
    np.testing.assert_allclose(chosen.belief.mean, refitted.mean, rtol=1e-9)
    want = scores.score_table(refitted.predict(x[parts.test]), y[parts.test])
    assert chosen.test_scores == pytest.approx(want)
    assert validation.select(beliefs, x, y, score="r2", seed=3, learn=False).name == "wide"


def test_select_by_folds_refits_on_all_rows_but_the_test_rows(Regression, line):
    x, y = line
    beliefs = {"tight": Regression.prior(3, 1e-4, 0.25), "wide": Regression.prior(3, 10.0, 0.25)}
    chosen = validation.select(beliefs, x, y, folds=4, seed=3, learn=False)
    parts = validation.holdout(len(y), validation=0.0, seed=3)
    for name, belief in beliefs.items():
        each = validation.cross_validate(belief, x[parts.train], y[parts.train], 4, score="nlpd", learn=False, seed=3)
        assert chosen.validation_scores[name] == pytest.approx(each.mean["nlpd"])
    refitted = beliefs["wide"].condition(x[parts.train], y[parts.train])
    assert chosen.name == "wide" and len(parts.train) == 48
    np.testing.assert_allclose(chosen.belief.mean, refitted.mean, rtol=1e-9)
    assert chosen.test_scores == pytest.approx(scores.score_table(refitted.predict(x[parts.test]), y[parts.test]))
    changed = y.copy()
    changed[parts.test] += 1000
    assert validation.select(beliefs, x, changed, folds=4, seed=3, learn=False)[2] == chosen.validation_scores
    for folds in (1, 49):
        with pytest.raises(DataError, match="folds must be"):
            validation.select(beliefs, x, y, folds=folds, learn=False)


def test_test_rows_do_not_take_part_in_the_choice(Regression, line):
    x, y = line
    beliefs = {"tight": Regression.prior(3, 1e-4, 0.25), "wide": Regression.prior(3, 10.0, 0.25)}
    changed = y.copy()
    changed[validation.holdout(len(y), seed=3).test] += 1000
    before = validation.select(beliefs, x, y, seed=3, learn=False)
    after = validation.select(beliefs, x, changed, seed=3, learn=False)
    assert after.validation_scores == before.validation_scores
    np.testing.assert_array_equal(after.belief.mean, before.belief.mean)
    assert after.test_scores["rmse"] > 900


def test_leave_one_out_by_brute_force_and_in_closed_form(Regression, line):
    from credo.models.linear import Isotropic, Linear

    x, y = line[0][:12], line[1][:12]
    result = validation.leave_one_out(Regression.prior(3, 10.0, 0.25), x, y)
    K = 10 * x @ x.T + 0.25 * np.eye(12)
    inverse = np.linalg.inv(K)
    mean, variance = y - inverse @ y / np.diag(inverse), 1 / np.diag(inverse)
    np.testing.assert_allclose(result.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(result.std, np.sqrt(variance), rtol=1e-8)
    np.testing.assert_allclose(result.log_density, stats.norm.logpdf(y, mean, np.sqrt(variance)), rtol=1e-8)
    assert result.total == pytest.approx(result.log_density.sum())
    assert result.standard_error == pytest.approx(np.sqrt(12 * np.var(result.log_density, ddof=1)))
    closed = validation.leave_one_out(Linear(prior=Isotropic(0.1), noise=0.25, intercept=None), x, y)
    np.testing.assert_allclose(closed.log_density, result.log_density, rtol=1e-8)


def test_learning_curve_is_what_a_loop_would_do(Regression, line):
    x, y = line
    belief = Regression.prior(3, 10.0, 0.25)
    curve = curves.learning_curve(belief, x, y, sizes=[4, 48], repeats=3, seed=1, score="rmse", learn=False)
    assert curve.scores.shape == (3, 2) and curve.name == "rmse"
    for r in range(3):
        part = validation.holdout(60, 0.2, 0.0, seed=1 + r)
        prediction = belief.condition(x[part.train], y[part.train]).predict(x[part.test])
        assert curve.scores[r, 1] == pytest.approx(float(scores.rmse(prediction, y[part.test])))
    assert curve.mean[1] < curve.mean[0]
    np.testing.assert_allclose(curve.standard_error, curve.scores.std(0, ddof=1) / np.sqrt(3))
    default = curves.learning_curve(belief, x, y, repeats=1, learn=False)
    assert default.sizes[0] == 10 and default.sizes[-1] == 48
    assert np.all(default.standard_error == 0)
    learned = curves.learning_curve(Regression.prior(3, 10.0, 25.0), x, y, sizes=[48], repeats=1)
    assert learned.mean[0] < default.mean[-1] + 0.3


def test_bias_and_variance_add_up_to_the_measured_error():
    """Ridge regression on a fixed design, where bias and variance are known in closed form."""
    rng = np.random.default_rng(0)
    x, q = rng.normal(size=(15, 3)), rng.normal(size=(8, 3))
    w, sigma, ridge = np.array([1.0, -2.0, 0.5]), 0.7, 3.0
    hat = q @ np.linalg.solve(x.T @ x + ridge * np.eye(3), x.T)
    result = curves.bias_variance(
        lambda x, y, q: q @ np.linalg.solve(x.T @ x + ridge * np.eye(3), x.T @ y),
        lambda x: x @ w,
        x,
        sigma**2,
        q,
        repeats=3000,
    )
    bias2 = np.mean((hat @ x @ w - q @ w) ** 2)
    variance = sigma**2 * np.mean(np.sum(hat**2, axis=1))
    se = result.standard_error
    assert abs(result.bias2 - bias2) < 4.5 * se["bias2"] and se["bias2"] < 0.1 * bias2
    assert abs(result.variance - variance) < 4.5 * se["variance"] and se["variance"] < 0.1 * variance
    assert result.noise == pytest.approx(0.49)
    assert abs(result.test_error - (bias2 + variance + 0.49)) < 4.5 * se["test_error"]
    assert abs(result.test_error - result.total) < 4.5 * np.hypot(se["test_error"], se["bias2"] + se["variance"])


def test_bias_variance_with_random_inputs():
    """The mean of n outcomes of a constant: no bias, variance σ²/n."""
    result = curves.bias_variance(
        lambda x, y, q: np.full(len(q), y.mean()),
        lambda x: np.ones(len(x)),
        lambda rng: rng.normal(size=(10, 1)),
        4.0,
        np.zeros((2, 1)),
        repeats=2000,
        seed=1,
    )
    assert abs(result.bias2) < 4.5 * result.standard_error["bias2"]
    assert abs(result.variance - 0.4) < 4.5 * result.standard_error["variance"]


X, Y = np.ones((10, 1)), np.arange(10.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: validation.holdout(10, test=20.0), "write 20 % as 0.2"),
        (lambda b: validation.holdout(2, 0.5, 0.5), "leave no rows of 2"),
        (lambda b: validation.split(X, Y[:4]), "as many rows as each other, found 10, 4"),
        (lambda b: validation.cross_validate(b, X, Y, k=11), "at most the number of rows 10, found 11"),
        (lambda b: validation.cross_validate(b, X, Y, learn=False, fixed=["noise"]), "takes no options of fit"),
        (lambda b: validation.select({}, X, Y), "beliefs must be a dictionary"),
        (lambda b: validation.select({"a": b}, X, Y, score="coverage"), "cannot choose"),
        (lambda b: validation.select({"a": b}, X, Y, test=0.0), "needs test and validation rows"),
        (lambda b: validation.leave_one_out(b, X[:1], Y[:1]), "at least two, found 1"),
        (lambda b: curves.learning_curve(b, X, Y, sizes=[20]), "from 1 to the 8 training rows"),
        (lambda b: curves.learning_curve(b, X, Y, repeats=0), "repeats must be a whole number of at least 1"),
        (
            lambda b: curves.bias_variance(lambda x, y, q: 0.0, lambda x: x[:, 0], X, 1.0, X),
            "one number per test input",
        ),
        (lambda b: curves.bias_variance(lambda x, y, q: 0.0, lambda x: x[:, 0], X, -1.0, X), "variance ≥ 0"),
        (
            lambda b: curves.bias_variance(lambda x, y, q: 0.0, lambda x: x, X, 1.0, X, 2),
            "repeats must be a whole number of at least 3",
        ),
    ],
)
def test_bad_input(Regression, call, message):
    with pytest.raises(DataError, match=message):
        call(Regression.prior(1))
