"""Hyperparameters integrated over by importance sampling, against conjugate answers and quadrature."""

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import special, stats

import credo
from credo.core import params
from credo.core.abilities import DrawsFunctions, HasCovariance, LeavesOneOut, able
from credo.core.arrays import namespace
from credo.core.belief import Belief, Integration
from credo.core.predictive import Mixture, Normal
from credo.errors import DataError, NotConvergedWarning
from credo.evaluate.validation import leave_one_out
from credo.infer import Evidence, HyperGrid, HyperImportance, HyperQuadrature, Integrated
from credo.infer.hyper import hyper_target, hyperparameters, importance
from credo.infer.hyper.importance import choose_integration
from credo.infer.priors import LogNormal, LogScalePenalty
from credo.kernels import RBF

A, B = 2.0, 1.5
Y = np.array([0.7, -1.9, 0.4, 1.2, -0.3])
IG = dist.InverseGamma(A, B)


class Scatter(Belief):
    """y ~ N(0, variance), whose posterior is known under an inverse gamma law."""

    variance: np.ndarray = params.positive(1.0)

    def statistics(self, y):
        return np.asarray(y, float)

    def condition_on(self, statistics):
        return self

    def evidence_of(self, statistics):
        height = len(statistics) * namespace(self).log(2 * np.pi * self.variance)
        return -0.5 * ((statistics**2).sum() / self.variance + height)

    def log_evidence_of(self, statistics):
        return self.evidence_of(statistics)

    def predict(self, m):
        return Normal(np.zeros(m), np.broadcast_to(self.variance, (m,)), np.zeros(m))


class FewScatter(Scatter):
    """One that asks `fit` to integrate, under the inverse gamma law."""

    def integration(self, statistics):
        return Integration(len(statistics), {"variance": IG})


class OwnScatter(Scatter):
    """One whose own prior is the inverse gamma law, in natural units."""

    def log_prior_of_parameters(self):
        return -(A + 1) * namespace(self).log(self.variance) - B / self.variance


def student(y=Y):
    """The exact predictive law: t with 2a' degrees of freedom."""
    a, b = A + len(y) / 2, B + 0.5 * (y**2).sum()
    return stats.t(2 * a, 0, np.sqrt(b / a))


def log_marginal(y=Y):
    a, b, n = A + len(y) / 2, B + 0.5 * (y**2).sum(), len(y)
    return A * np.log(B) - a * np.log(b) + special.gammaln(a) - special.gammaln(A) - 0.5 * n * np.log(2 * np.pi)


EXACT = [
    (HyperImportance(points=256), 1e-2),
    (HyperImportance(), 2.5e-2),
    (HyperQuadrature(), 1e-3),
    (HyperGrid(points=41, width=8.0), 1e-3),
]


@pytest.mark.parametrize(("method", "tolerance"), EXACT, ids=lambda v: type(v).__name__)
def test_an_unknown_variance_is_a_student_t(method, tolerance):
    report = credo.fit(Scatter(), Y, using=method, priors={"variance": IG}, report=True)
    p = report.belief.predict(1)
    at = np.array([0.0, 0.5, 1.5, 3.0])
    np.testing.assert_allclose([p.log_prob(v)[0] for v in at], student().logpdf(at), atol=2 * tolerance)
    np.testing.assert_allclose(p.quantile(0.975), student().ppf(0.975), rtol=3 * tolerance)
    assert report.log_evidence == pytest.approx(log_marginal(), abs=2 * tolerance)
    # E[σ²] = b'/(a' - 1), which a missing Jacobian would make that of a' + 1.
    a, b = A + len(Y) / 2, B + 0.5 * (Y**2).sum()
    assert hyperparameters(report.belief)["variance"].mean == pytest.approx(b / (a - 1), rel=3 * tolerance)


def test_the_models_own_prior_counts():
    p = credo.fit(OwnScatter(), Y, using=HyperImportance(points=256)).predict(1)
    np.testing.assert_allclose(p.quantile(0.975), student().ppf(0.975), rtol=1e-2)
    target = hyper_target(OwnScatter(), Y, (), {})
    u = np.array([0.3])
    want = OwnScatter(np.exp(0.3)).evidence_of(Y) + OwnScatter(np.exp(0.3)).log_prior_of_parameters() + 0.3
    assert float(target(u)) == pytest.approx(float(want))


@pytest.mark.slow
def test_two_numbers_are_those_of_quadrature():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3, 3, (12, 1)), axis=0)
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=12)
    options = {
        "fixed": ["kernel.variance"],
        "priors": {"kernel.lengthscale": LogNormal(1.0, 0.8), "noise": LogNormal(0.1, 0.8)},
    }
    gp, at = credo.GP(RBF(0.8, 1.0), mean=0.0, noise=0.1), np.array([[0.3], [2.0], [4.5]])
    want = credo.fit(gp, x, y, using=HyperQuadrature(starts=1), report=True, **options)
    got = credo.fit(gp, x, y, using=HyperImportance(points=128), report=True, **options)
    p, q = got.belief.predict(at), want.belief.predict(at)
    np.testing.assert_allclose(p.mean, q.mean, atol=0.02)
    np.testing.assert_allclose(p.std, q.std, rtol=0.02)
    assert got.log_evidence == pytest.approx(want.log_evidence, abs=0.05)
    # The usual number of points is worth enough for the same.
    np.testing.assert_allclose(
        credo.fit(gp, x, y, using=HyperImportance(), **options).predict(at).std, q.std, rtol=0.06
    )


def test_fit_integrates_where_data_are_few_and_learn_never_does():
    few = credo.fit(FewScatter(), Y)
    assert isinstance(few, Integrated)
    assert isinstance(few.predict(2), Mixture)
    assert "averaged over" in repr(few)
    np.testing.assert_allclose(few.predict(1).quantile(0.975), student().ppf(0.975), rtol=3e-2)
    assert type(credo.learn(FewScatter(), Y)) is FewScatter
    assert type(credo.fit(FewScatter(), Y, using=Evidence())) is FewScatter
    assert type(credo.fit(FewScatter(), Y, priors=False)) is FewScatter
    assert type(credo.fit(FewScatter(), np.tile(Y, 20))) is FewScatter
    assert type(credo.fit(Scatter(), Y)) is Scatter  # it has not asked for it
    assert choose_integration(FewScatter(), np.zeros(20), []) == HyperImportance()
    assert choose_integration(FewScatter(), np.zeros(21), []) is None
    # The user's own prior is used for both; the mode is that of `learn`.
    given = credo.fit(FewScatter(), Y, priors={"variance": LogNormal(4.0, 0.01)})
    assert hyperparameters(given)["variance"].mean == pytest.approx(4.0, rel=0.01)
    assert few.variance == pytest.approx(float(credo.learn(FewScatter(), Y).variance))


def test_a_flat_number_is_said_and_points_that_are_worth_little_are_warned_of(monkeypatch):
    report = credo.fit(Scatter(), Y, using=HyperImportance(), report=True)
    assert any("variance without a prior" in note for note in report.notes)
    monkeypatch.setattr(importance, "TOO_FEW", 1e9)
    with pytest.warns(NotConvergedWarning, match="worth .* independent ones: give priors"):
        credo.fit(FewScatter(), Y)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(10, 2))
    return x, x[:, 0] + 0.3 * rng.normal(size=10)


@pytest.fixture(scope="module")
def linear(data):
    priors = {"prior.precision": LogScalePenalty(2.0, 1.0), "noise": LogScalePenalty(0.3, 1.0)}
    return credo.fit(credo.Linear(), *data, using=HyperImportance(points=16, priors=priors))


@pytest.fixture(scope="module")
def gp(data):
    return credo.fit(credo.GP(RBF()), *data, using=HyperImportance(points=8))


def test_its_numbers_are_the_modes(linear, data):
    alone = credo.fit(credo.Linear(), *data)
    assert linear.noise == pytest.approx(float(alone.noise))
    np.testing.assert_allclose(linear.weights.mean, alone.weights.mean)
    assert linear.coefficient_names() == ["intercept", "x0", "x1"]
    # What predicts is asked of every member.
    assert isinstance(linear.coefficients(), Mixture)
    assert np.all(linear.coefficients().std > 0)
    with pytest.raises(AttributeError):
        linear.nothing_of_the_kind()
    assert isinstance(linear.unconditioned(), credo.Linear)
    assert linear.unconditioned().weights is None


def test_variances_add_up_over_members(linear, gp, data):
    x = data[0][:3]
    for belief in (linear, gp):
        p = belief.predict(x)
        np.testing.assert_allclose(p.variance, p.aleatoric + p.epistemic)
        np.testing.assert_allclose(np.diag(belief.covariance(x)), p.epistemic, rtol=1e-8)
        both = belief.covariance(x, x[:2])
        np.testing.assert_allclose(both, belief.covariance(x)[:, :2])
        joint = belief.predict(x, joint=True).sample(4000, seed=0)
        np.testing.assert_allclose(np.cov(np.asarray(joint).T), belief.covariance(x) + np.diag(p.aleatoric), atol=0.1)


def test_conditioning_in_two_parts_is_conditioning_at_once(data):
    x, y = data
    priors = {"prior.precision": LogScalePenalty(2.0, 1.0), "noise": LogScalePenalty(0.3, 1.0)}
    before = credo.learn(credo.Linear(), x, y, using=HyperImportance(points=16, priors=priors))
    whole, parts = before.condition(x, y), before.condition(x[:4], y[:4]).condition(x[4:], y[4:])
    assert isinstance(parts, Integrated)
    np.testing.assert_allclose(parts.log_weights, whole.log_weights, atol=1e-7)
    np.testing.assert_allclose(parts.predict(x).std, whole.predict(x).std)
    chain = before.log_evidence(x[:4], y[:4]) + before.condition(x[:4], y[:4]).log_evidence(x[4:], y[4:])
    assert float(chain) == pytest.approx(float(before.log_evidence(x, y)))
    # Leaving each row out, weights included, is conditioning on the others.
    left = leave_one_out(before, x, y)
    others = np.arange(10) != 3
    alone = before.condition(x[others], y[others]).predict(x[3:4])
    np.testing.assert_allclose([left.mean[3], left.std[3]], [alone.mean[0], alone.std[0]], rtol=1e-6)


@pytest.mark.slow
def test_functions_and_rows_are_those_of_the_members(gp, data):
    drawn = np.asarray(gp.sample_functions(300, features=128, seed=0)(data[0][:2]))
    p = gp.predict(data[0][:2])
    assert drawn.shape == (300, 2)
    assert np.all(np.abs(drawn.mean(0) - p.mean) < 4.5 * np.sqrt(p.epistemic / 300) + 0.02)
    np.testing.assert_array_equal(gp.seen_inputs(), data[0])
    assert able(gp, DrawsFunctions) and able(gp, HasCovariance) and able(gp, LeavesOneOut)
    assert gp.leave_one_out().mean.shape == (10,)
    again = credo.fit(gp, np.zeros((1, 2)), np.zeros(1))
    assert again.seen.n == 11


def test_what_members_cannot_is_refused_in_a_sentence():
    few = credo.fit(FewScatter(), Y)
    assert not able(few, HasCovariance)
    with pytest.raises(DataError, match="covariances between predictions, which FewScatter does not have"):
        few.covariance(np.zeros((2, 1)))
    with pytest.raises(DataError, match="draws of whole functions"):
        few.sample_functions(2)


def test_it_is_saved_and_loaded(linear, data, tmp_path):
    credo.save(linear, tmp_path / "belief.credo")
    again = credo.load(tmp_path / "belief.credo")
    assert isinstance(again, Integrated)
    np.testing.assert_array_equal(again.predict(data[0]).mean, linear.predict(data[0]).mean)
    assert again.noise == linear.noise


@pytest.mark.parametrize(
    "options", [{"points": 7}, {"points": 0}, {"degrees": 0.0}, {"widest": -1.0}, {"negligible": 2.0}]
)
def test_arguments_are_checked(options):
    with pytest.raises(DataError):
        HyperImportance(**options)
