"""RobustGP against quadrature, SciPy and the Gaussian process it becomes without outliers."""

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, gammaln

import credo
from credo.core import params
from credo.kernels import RBF
from credo.models.gp import GP
from credo.models.gp.robust import RobustGP, bound, infer
from credo.models.noise import StudentTNoise

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 6, size=(30, 1))
TRUTH = np.sin(X[:, 0])
Y = TRUTH + 0.1 * RNG.normal(size=30)
QUERIES = np.linspace(0.5, 5.5, 7)[:, None]


def test_the_bound_is_below_the_evidence_by_quadrature_and_near_it():
    belief = RobustGP(RBF(0.7, 2.0), 0.3, StudentTNoise(5.0, 0.4))
    x, y = np.array([[0.0], [0.5]]), np.array([1.0, 0.4])
    k = np.asarray(belief.kernel(x))

    line = np.linspace(-9, 9, 901)
    f = np.stack(np.meshgrid(line, line), axis=-1)
    density = stats.multivariate_normal.pdf(f, [0.3, 0.3], k) * stats.t.pdf(y - f, 5.0, scale=0.4).prod(-1)
    exact = np.log(density.sum() * (line[1] - line[0]) ** 2)
    lower = float(belief.log_evidence(x, y))
    assert exact - 0.3 < lower < exact


def test_the_bound_is_exact_where_the_function_is_known():
    belief = RobustGP(RBF(1.0, 1e-14), 0.3, StudentTNoise(3.0, 0.4))
    y = np.array([1.0, -4.0, 0.3])
    want = stats.t.logpdf(y - 0.3, 3.0, scale=0.4).sum()
    np.testing.assert_allclose(belief.log_evidence(np.arange(3.0)[:, None], y), want, rtol=1e-10)


def test_weights_scale_the_noise_of_a_row():
    belief = RobustGP(RBF(1.0, 1e-14), 0.0, StudentTNoise(3.0, 0.4))
    got = belief.log_evidence([[0.0]], [0.9], weights=[4.0])
    np.testing.assert_allclose(got, stats.t.logpdf(0.9, 3.0, scale=0.2), rtol=1e-10)


def test_the_fixed_point_is_the_formula():
    belief = RobustGP(RBF(1.2, 1.0), 0.0, StudentTNoise(4.0, 0.2))
    after = belief.condition(X, Y)
    noise = 0.04 / np.asarray(after.row_precisions())
    k = np.asarray(belief.kernel(X))
    gain = k @ np.linalg.inv(k + np.diag(noise))
    mean, covariance = gain @ Y, k - gain @ k
    squared = (Y - mean) ** 2 + np.diag(covariance)
    np.testing.assert_allclose(after.row_precisions(), 5.0 / (4.0 + squared / 0.04), rtol=1e-8)
    np.testing.assert_allclose(after.predict(X).mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(after.predict(X).epistemic, np.diag(covariance), rtol=1e-6)
    np.testing.assert_allclose(after.predict(X).aleatoric, 0.04 * 4 / 2, rtol=1e-8)


def test_the_bound_is_highest_at_the_fixed_point():
    belief = RobustGP(RBF(1.2, 1.0), 0.0, StudentTNoise(4.0, 0.2))
    rows = belief.statistics(X, Y)
    found = np.asarray(infer(belief.prior, belief.noise.df, rows).precision)[:30]
    k, best = np.asarray(belief.kernel(X)), float(bound(belief.prior, belief.noise.df, rows))

    def value(precision: np.ndarray) -> float:
        """E log p(y | f, λ) - KL(q(λ) ‖ p(λ)) - KL(q(f) ‖ p(f)), term by term."""
        noise = 0.04 / precision
        log_n = stats.multivariate_normal.logpdf(Y, np.zeros(30), k + np.diag(noise))
        a, b, a0, b0 = 2.5, 2.5 / precision, 2.0, 2.0
        kl = (a - a0) * digamma(a) - gammaln(a) + gammaln(a0) + a0 * np.log(b / b0) + a * (b0 - b) / b
        return float(log_n + np.sum(0.5 * (digamma(a) - np.log(b) - np.log(precision)) - kl))

    np.testing.assert_allclose(best, value(found), rtol=1e-9)
    for factor in (0.97, 1.03):
        assert value(found * factor) < best


def test_the_gradient_at_fixed_weights_is_the_gradient():
    belief = RobustGP(RBF(1.2, 1.0), 0.0, StudentTNoise(4.0, 0.2))
    rows, slots = belief.statistics(X, Y), params.layout(belief)
    u = params.to_vector(belief, slots)
    value = jax.jit(lambda v: params.from_vector(belief, slots, v).evidence_of(rows))
    gradient = jax.jit(jax.grad(lambda v: params.from_vector(belief, slots, v).evidence_of(rows)))(u)
    steps = 1e-4 * np.eye(len(u))
    numeric = [(float(value(u + h)) - float(value(u - h))) / 2e-4 for h in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)


def test_without_tails_it_is_a_gp():
    gp = GP(RBF(1.2, 1.0), 0.0, 0.04)
    belief = RobustGP(RBF(1.2, 1.0), 0.0, StudentTNoise(1e6, 0.2))
    np.testing.assert_allclose(belief.log_evidence(X, Y), gp.log_evidence(X, Y), rtol=1e-4)
    a, b = belief.condition(X, Y).predict(QUERIES), gp.condition(X, Y).predict(QUERIES)
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-5)
    np.testing.assert_allclose(a.variance, b.variance, rtol=1e-4)


@pytest.mark.filterwarnings("ignore::credo.errors.MisfitWarning")  # of the Gaussian one
def test_outliers_do_not_move_it():
    bad = Y.copy()
    bad[[3, 11, 17]] += [8.0, -9.0, 300.0]
    belief = RobustGP(RBF(1.2, 1.0), 0.0, StudentTNoise(4.0, 0.1))
    clean, moved = (belief.condition(X, y) for y in (Y, bad))
    assert np.abs(np.asarray(clean.predict(QUERIES).mean - moved.predict(QUERIES).mean)).max() < 0.1
    assert np.all(np.asarray(moved.row_precisions())[[3, 11, 17]] < 0.01)
    gaussian = GP(RBF(1.2, 1.0), 0.0, 0.01)
    shift = gaussian.condition(X, Y).predict(QUERIES).mean - gaussian.condition(X, bad).predict(QUERIES).mean
    assert np.abs(np.asarray(shift)).max() > 1.0


def test_fit_recovers_the_scale_whatever_a_few_outliers_say():
    rng = np.random.default_rng(8)
    x = rng.uniform(0, 6, size=(100, 1))
    y = 50 + 10 * np.sin(x[:, 0]) + 1.5 * rng.standard_t(4, size=100)
    y[:4] += 500
    report = credo.fit(RobustGP(RBF()), x, y, report=True)
    assert report.status == "converged"
    se = 1.5 * np.sqrt((4 + 3) / (2 * 4 * 100))  # 1/√(n I), I(s) = 2ν/((ν + 3)s²)
    assert abs(float(report.belief.noise.scale) - 1.5) < 4.5 * se
    truth = 50 + 10 * np.sin(QUERIES[:, 0])
    p = report.belief.predict(QUERIES)
    assert np.all(np.abs(np.asarray(p.mean) - truth) < 4.5 * np.sqrt(np.asarray(p.epistemic)))


def test_missing_outcomes_are_left_out():
    y = Y.copy()
    y[4] = np.nan
    belief = RobustGP(RBF(1.2, 1.0), 0.0, StudentTNoise(4.0, 0.2))
    keep = np.arange(30) != 4
    a, b = belief.condition(X, y), belief.condition(X[keep], Y[keep])
    np.testing.assert_array_equal(a.predict(QUERIES).mean, b.predict(QUERIES).mean)


def test_bad_input_is_refused():
    with pytest.raises(credo.errors.DataError, match="StudentTNoise"):
        RobustGP(RBF(), noise=0.3)
    with pytest.raises(credo.errors.DataError, match="RobustGP"):
        GP(RBF(), noise=StudentTNoise())
    with pytest.raises(credo.errors.DataError, match="no data"):
        RobustGP().row_precisions()
