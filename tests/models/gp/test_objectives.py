"""Hyperparameters by prediction, against models that are fitted again without what is predicted."""

import jax
import numpy as np
import pytest
from scipy import stats

import credo
from credo.core import params
from credo.errors import DataError
from credo.infer.learning import Objective
from credo.infer.priors import LogNormal
from credo.kernels import RBF
from credo.models.gp.means import Constant
from credo.models.gp.objectives import KFold, LeaveOneOut, fold_score, leave_one_out_score, make_folds, prediction_score

PAIRS = {"leave one out": (LeaveOneOut(), None), "folds": (KFold(3), 3)}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(-3, 3, size=(25, 1)), axis=0)
    return x, 2.0 + np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=25)


@pytest.fixture(scope="module")
def gp():
    return credo.GP(RBF(0.7, 1.3), mean=Constant(1.5, 2.0), noise=0.1)


def dense(x, weights):
    """The covariance of the outcomes, in NumPy."""
    return 1.3 * np.exp(-0.5 * (x - x.T) ** 2 / 0.7**2) + 2.0 + np.diag(0.1 / weights)


def left_out(x, y, weights, out):
    """log p(y_out | y_rest) from the conditional of a joint Gaussian."""
    k, rest = dense(x, weights), np.setdiff1d(np.arange(len(y)), out)
    gain = k[np.ix_(out, rest)] @ np.linalg.inv(k[np.ix_(rest, rest)])
    mean = 1.5 + gain @ (y[rest] - 1.5)
    return stats.multivariate_normal.logpdf(y[out], mean, k[np.ix_(out, out)] - gain @ k[np.ix_(rest, out)])


def test_leave_one_out_is_the_sum_over_refits(gp, data):
    x, y = data
    weights = np.linspace(0.5, 2.0, 25)
    rows = gp.statistics(x, y, weights=weights).padded()
    want = sum(left_out(x, y, weights, [i]) for i in range(25))
    assert len(rows.x) > 25  # there is padding, and it does not count
    np.testing.assert_allclose(leave_one_out_score(gp, rows), want, rtol=1e-8)
    np.testing.assert_allclose(jax.jit(lambda: leave_one_out_score(gp, rows))(), want, rtol=1e-8)
    rest = [np.delete(np.arange(25), i) for i in range(3)]
    refits = [gp.condition(x[r], y[r]).predict(x[i : i + 1]).log_prob(y[i : i + 1])[0] for i, r in enumerate(rest)]
    np.testing.assert_allclose(refits, [left_out(x, y, np.ones(25), [i]) for i in range(3)], rtol=1e-8)


@pytest.mark.parametrize("k", [2, 3, 25])
def test_folds_are_the_sum_over_refits(gp, data, k):
    x, y = data
    folds = make_folds(25, k, 4)
    members = [np.asarray(i)[np.asarray(m)] for i, m in zip(*folds, strict=True)]
    assert sorted(np.concatenate(members)) == list(range(25)) and max(map(len, members)) - min(map(len, members)) <= 1
    want = sum(left_out(x, y, np.ones(25), part) for part in members)
    np.testing.assert_allclose(fold_score(gp, gp.statistics(x, y), folds), want, rtol=1e-8)


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_are_those_of_finite_differences(gp, data, name):
    rows, slots = gp.statistics(*data), params.layout(gp)
    priors = {"noise": LogNormal(0.1, 1.0)}
    k = PAIRS[name][1]
    folds = None if k is None else make_folds(25, k, 0)
    objective = Objective(gp, slots, (rows, folds), priors, prediction_score)
    u = np.asarray(params.to_vector(gp, slots)) + np.array([0.3, -0.2, 0.1])
    value, gradient = objective.value_and_grad(u)
    assert value == pytest.approx(objective.value(u), rel=1e-12)
    steps = 1e-5 * np.eye(3)
    want = [(objective.value(u + h) - objective.value(u - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(gradient, want, rtol=1e-6)


@pytest.mark.parametrize("name", PAIRS)
def test_fit_climbs_it_and_says_so(gp, data, name):
    method, k = PAIRS[name]
    report = credo.fit(credo.GP(RBF()), *data, using=method, report=True)
    assert report.status == "converged" and "not the evidence" in report.notes[-1]
    learned, rows = report.belief.unconditioned(), report.belief.seen
    folds = None if k is None else make_folds(25, k, 0)
    priors = credo.GP(RBF()).default_priors(rows)
    slots = params.layout(learned)
    objective = Objective(learned, slots, (rows, folds), priors, prediction_score)
    top = np.asarray(params.to_vector(learned, slots))
    assert report.log_evidence == pytest.approx(objective.value(top), rel=1e-9)
    around = [objective.value(top + h) for h in np.concatenate([0.05 * np.eye(3), -0.05 * np.eye(3)])]
    assert max(around) < report.log_evidence
    by_evidence = credo.fit(credo.GP(RBF()), *data).unconditioned()
    assert objective.value(np.asarray(params.to_vector(by_evidence, slots))) < report.log_evidence


def test_leave_one_out_agrees_with_the_posterior(gp, data):
    after = gp.condition(*data)
    np.testing.assert_allclose(
        leave_one_out_score(gp, after.seen), after.leave_one_out().log_prob(data[1]).sum(), rtol=1e-8
    )


def test_bad_input(data):
    with pytest.raises(DataError, match=r"from 2 to the number of rows \(25\), found 26"):
        credo.fit(credo.GP(RBF()), *data, using=KFold(26))
    with pytest.raises(DataError, match="fit cannot use LeaveOneOut for Linear"):
        credo.fit(credo.Linear(), *data, using=LeaveOneOut())
