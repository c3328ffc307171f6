"""Recalibration against scikit-learn's, closed forms and brute force; and what it refuses."""

import itertools

import equinox as eqx
import numpy as np
import pytest
from scipy import integrate, optimize, special, stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import credo
from credo.core.errors import DataError
from credo.core.predictive import Mixture, Normal
from credo.core.predictive.recalibrated import BetaLevels, RecalibratedCDF, SteppedLevels, Stretched
from credo.evaluate import log_loss, nlpd, pit
from credo.models.linear import Isotropic, Linear

RNG = np.random.default_rng(4)
X = RNG.normal(size=(400, 2))
Y = X @ [1.0, -0.5] + 0.5 * RNG.normal(size=400)
BOLD = Linear(prior=Isotropic(1.0), noise=0.05).condition(X[:60], Y[:60])
"""Whose noise is a fifth of the true one."""
TWO = np.where(X[:, 0] + RNG.logistic(size=400) > 0, "yes", "no")
THREE = np.digitize(X[:, 0] + 0.8 * RNG.normal(size=400), [-0.5, 0.6])


def bold_classes(y: np.ndarray) -> credo.Belief:
    """Learned from labels without noise: too sure of itself."""
    clean = np.where(X[:25, 0] > 0, "yes", "no") if len(set(y)) == 2 else np.digitize(X[:25, 0], [-0.5, 0.6])
    belief = (credo.Logistic if len(set(y)) == 2 else credo.Softmax)(prior=Isotropic(0.1))
    return belief.condition(X[:25], clean, using=credo.infer.MAP())


@pytest.mark.parametrize("how", ["quantile", "temperature", "beta"])
def test_numbers_are_better_calibrated_on_new_rows(how):
    fixed = credo.recalibrated(BOLD, X[60:230], Y[60:230], how)
    new = X[230:], Y[230:]
    before, after = BOLD.predict(new[0]), fixed.predict(new[0])
    assert nlpd(after, new[1]) < nlpd(before, new[1]) - 0.5
    u = np.sort(pit(after, new[1]))
    assert stats.kstest(u, "uniform").pvalue > 0.01
    assert f"recalibrated on 170 rows (how='{how}')" in repr(fixed)


MAPS = {
    "steps": SteppedLevels([0.0, 0.2, 0.7, 1.0], [0.0, 0.4, 0.6, 1.0]),
    "beta": BetaLevels(0.6, 1.8),
}
NORMAL = Normal([1.0, -2.0], [0.5, 1.0], [0.5, 0.25])


@pytest.mark.parametrize("name", MAPS)
def test_a_recalibrated_density_is_one(name):
    """Density, distribution function, quantiles and moments agree; by quadrature."""
    p = RecalibratedCDF(NORMAL, MAPS[name])
    for i, (mean, sd) in enumerate(zip(np.asarray(NORMAL.mean), np.asarray(NORMAL.std), strict=True)):
        one = p[i]
        corners = [mean - 12 * sd, *(float(NORMAL[i].quantile(u)) for u in (0.2, 0.7)), mean + 12 * sd]
        moments = np.zeros(3)
        for a, b in itertools.pairwise(corners):
            y = np.linspace(a + 1e-9, b - 1e-9, 4001)  # the steps' density jumps at the corners
            density = np.exp(np.asarray(one.log_prob(y)))
            moments += [integrate.simpson(y**power * density, x=y) for power in range(3)]
        np.testing.assert_allclose(moments[0], 1.0, rtol=1e-6)
        np.testing.assert_allclose(one.mean, moments[1], rtol=2e-5)
        np.testing.assert_allclose(one.variance, moments[2] - moments[1] ** 2, rtol=2e-4)
    q = np.array([0.03, 0.4, 0.5, 0.93])
    np.testing.assert_allclose(p.cdf(p.quantile(q)), np.tile(q[:, None], 2), rtol=1e-9)
    np.testing.assert_allclose(p.total, p.variance, rtol=1e-12)
    if name == "beta":
        return
    draws = np.asarray(p.sample(4000, seed=1))
    se = draws.std(0) / np.sqrt(4000)
    assert np.all(np.abs(draws.mean(0) - np.asarray(p.mean)) < 4.5 * se)


def test_temperature_of_a_normal_is_its_spread():
    p = Stretched(NORMAL, 1.7)
    want = Normal(NORMAL.mean, 1.7**2 * NORMAL.aleatoric, 1.7**2 * NORMAL.epistemic)
    y = np.array([0.3, -4.0])
    np.testing.assert_allclose(p.log_prob(y), want.log_prob(y), rtol=1e-9)
    np.testing.assert_allclose(p.std, want.std, rtol=1e-6)
    np.testing.assert_allclose(p.epistemic, want.epistemic, rtol=1e-6)


def test_the_quantile_map_is_isotonic_regression_of_the_levels():
    u = np.sort(np.asarray(pit(BOLD.predict(X[60:]), Y[60:])))
    fixed = credo.recalibrated(BOLD, X[60:], Y[60:])
    n = len(u)
    oracle = IsotonicRegression().fit(u, np.arange(1, n + 1) / n)
    knots = np.asarray(fixed.correction.levels)[1:-1]
    want = (n * oracle.predict(knots) + knots) / (n + 1)  # one row says what the belief says
    np.testing.assert_allclose(fixed.correction(knots), want, rtol=1e-12)
    grid = np.linspace(0.01, 0.99, 50)
    ecdf = np.mean(u[:, None] <= grid, axis=0)
    assert np.max(np.abs(np.asarray(fixed.correction(grid)) - ecdf)) < 1.5 / len(knots)


def test_temperature_and_beta_maximize_the_density_of_levels():
    u = np.clip(np.asarray(pit(BOLD.predict(X[60:]), Y[60:])), 1e-12, 1 - 1e-12)
    stretch = credo.recalibrated(BOLD, X[60:], Y[60:], "temperature").correction
    p = BOLD.predict(X[60:])
    want = np.sqrt(np.mean(((Y[60:] - np.asarray(p.mean)) / np.asarray(p.std)) ** 2))  # of normals in closed form
    np.testing.assert_allclose(stretch.factor, want, rtol=1e-6)
    found = credo.recalibrated(BOLD, X[60:], Y[60:], "beta").correction
    for factor in (0.97, 1.03):
        for name in ("a", "b"):
            other = eqx.tree_at(lambda m, n=name: getattr(m, n), found, getattr(found, name) * factor)
            assert np.mean(other.log_slope(u)) < np.mean(found.log_slope(u))


def test_counts():
    rate = np.exp(0.3 * X[:, 0] + 1)
    y = RNG.negative_binomial(3, 3 / (3 + rate))
    belief = credo.PoissonRegression().condition(X[:60], y[:60])
    p = credo.recalibrated(belief, X[60:], y[60:]).predict(X[:3])
    k = np.arange(200.0)[:, None]
    mass = np.exp(np.asarray(p.log_prob(k)))
    np.testing.assert_allclose(mass.sum(0), 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.cumsum(mass, axis=0), p.cdf(k), atol=1e-9)
    np.testing.assert_allclose(p.mean, (mass * k).sum(0), rtol=1e-6)
    assert np.all(np.asarray(p.interval(0.9).width) >= np.asarray(belief.predict(X[:3]).interval(0.9).width))
    assert p.discrete and np.asarray(p.sample(5)).shape == (5, 3)


# -- classes ----------------------------------------------------------------------------------------------------------


class Stated(ClassifierMixin, BaseEstimator):
    """A classifier of scikit-learn whose score is the logit that a belief states: X is that logit."""

    def __init__(self, classes_=(0, 1)):
        self.classes_ = np.asarray(classes_)

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):
        return (X[:, 0] > 0).astype(int)


def test_platt_is_scikit_learns_sigmoid():
    belief = bold_classes(TWO)
    p = np.clip(np.asarray(belief.predict(X[25:]).mean), 1e-12, 1 - 1e-12)
    z, y = special.logit(p)[:, None], (TWO[25:] == "yes").astype(int)
    oracle = CalibratedClassifierCV(FrozenEstimator(Stated()), method="sigmoid").fit(z, y)
    found = credo.recalibrated(belief, X[25:], TWO[25:], "platt")
    np.testing.assert_allclose(found.predict(X[25:]).mean, oracle.predict_proba(z)[:, 1], atol=1e-5)
    assert found.classes == ("no", "yes")


def test_isotonic_is_scikit_learns():
    belief = bold_classes(TWO)
    p, y = np.asarray(belief.predict(X[25:]).mean), (TWO[25:] == "yes").astype(float)
    found = credo.recalibrated(belief, X[25:], TWO[25:], "isotonic").predict(X[25:])
    want = IsotonicRegression(y_min=0, y_max=1).fit(p, y).predict(p)
    np.testing.assert_allclose(found.mean, (len(p) * want + p) / (len(p) + 1), rtol=1e-9)


def test_beta_is_a_logistic_regression_on_two_logarithms():
    belief = bold_classes(TWO)
    p, y = np.clip(np.asarray(belief.predict(X[25:]).mean), 1e-12, 1 - 1e-12), TWO[25:] == "yes"
    n1 = y.sum()
    t = np.where(y, (n1 + 1) / (n1 + 2), 1 / (len(y) - n1 + 2))
    design = np.column_stack([np.log(p), -np.log1p(-p)])
    # A share t of a row happened, the rest did not.
    oracle = LogisticRegression(C=1e12, tol=1e-12, max_iter=10_000).fit(
        np.vstack([design, design]), np.repeat([1, 0], len(p)), sample_weight=np.concatenate([t, 1 - t])
    )
    found = credo.recalibrated(belief, X[25:], TWO[25:], "beta").predict(X[25:])
    assert np.all(oracle.coef_ > 0)
    np.testing.assert_allclose(found.mean, oracle.predict_proba(design)[:, 1], atol=1e-4)


def test_temperature_minimizes_the_log_loss():
    belief = bold_classes(THREE)
    found = credo.recalibrated(belief, X[25:], THREE[25:])
    logs = np.log(np.asarray(belief.predict(X[25:]).probs))

    def loss(t):
        return -np.mean(special.log_softmax(logs / t, axis=1)[np.arange(375), THREE[25:]])

    want = optimize.minimize_scalar(loss, bounds=(0.1, 10), method="bounded").x
    np.testing.assert_allclose(found.correction.temperature, want, rtol=1e-4)
    np.testing.assert_allclose(log_loss(found.predict(X[25:]), THREE[25:]), loss(want), rtol=1e-6)
    assert want > 1


@pytest.mark.parametrize("how", ["temperature", "platt", "beta", "isotonic"])
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_classes_are_better_calibrated_on_new_rows(how, y):
    belief = bold_classes(y)
    fixed = credo.recalibrated(belief, X[25:220], y[25:220], how)
    codes = np.searchsorted(np.unique(y), y[220:])
    before, after = belief.predict(X[220:]), fixed.predict(X[220:])
    assert log_loss(after, codes) < log_loss(before, codes)
    np.testing.assert_allclose(np.asarray(after.probs).sum(-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(after.total, after.entropy(), rtol=1e-9)
    assert type(after) is type(before)


# -- a belief ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["quantile", "temperature", "beta", "platt", "isotonic"])
def test_it_is_a_belief_that_saves(how, tmp_path):
    classes = how in ("platt", "isotonic")
    belief = bold_classes(THREE) if classes else BOLD
    fixed = credo.recalibrated(belief, X[60:], THREE[60:] if classes else Y[60:], how)
    again = credo.load(credo.save(fixed, tmp_path / "fixed"))
    np.testing.assert_array_equal(again.predict(X[:3]).mean, fixed.predict(X[:3]).mean)
    assert isinstance(fixed, credo.Belief)
    if not classes:
        more = fixed.condition(X[60:90], Y[60:90])
        inside = BOLD.condition(X[60:90], Y[60:90])
        np.testing.assert_allclose(
            more.predict(X[:3]).median,
            credo.recalibrated(inside, X[60:], Y[60:], how).belief.predict(X[:3]).median,
            0.2,
        )
        assert eqx.tree_equal(more.belief, inside) and eqx.tree_equal(more.correction, fixed.correction)


def test_mixtures_are_recalibrated_too():
    p = RecalibratedCDF(
        Mixture([0.3, 0.7], (Normal([[0.0, 1.0], [2.0, 3.0]], np.ones((2, 2)), np.zeros((2, 2))),)), MAPS["steps"]
    )
    np.testing.assert_allclose(p.cdf(p.quantile(0.3)), [0.3, 0.3], rtol=1e-9)
    assert np.all(np.isfinite(p.log_prob([0.0, 50.0]))) and len(p[:1]) == 1


def test_what_cannot_be_is_refused():
    with pytest.raises(DataError, match="one of quantile, temperature, beta for a belief about numbers"):
        credo.recalibrated(BOLD, X, Y, "platt")
    with pytest.raises(DataError, match="one of temperature, platt, beta, isotonic for a belief about classes"):
        credo.recalibrated(bold_classes(TWO), X, TWO, "quantile")
    right = np.where(np.asarray(bold_classes(TWO).predict(X).mean) > 0.5, "yes", "no")
    with pytest.warns(credo.errors.NotConvergedWarning, match="the temperature ran to"):
        credo.recalibrated(bold_classes(TWO), X, right)
    with pytest.raises(DataError, match="at least two rows"):
        credo.recalibrated(BOLD, X[:1], Y[:1])
    with pytest.raises(DataError, match="y has 'maybe' at row 0"):
        credo.recalibrated(bold_classes(TWO), X[:2], ["maybe", "no"])
    fixed = credo.recalibrated(BOLD, X[60:], Y[60:])
    with pytest.raises(DataError, match="no evidence of its own"):
        fixed.log_evidence(X, Y)
    with pytest.raises(DataError, match="on rows that it has not seen"):
        credo.fit(fixed, X, Y)
