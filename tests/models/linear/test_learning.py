"""Hyperparameters: MacKay's fixed point, gradient ascent, scikit-learn and brute force agree."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from sklearn.linear_model import ARDRegression, BayesianRidge

import credo
from credo.core.params import replace
from credo.errors import DataError, NotConvergedWarning
from credo.infer import Evidence
from credo.models.features import Affine, Polynomial
from credo.models.linear import (
    ARD,
    FixedPoint,
    InverseGamma,
    Isotropic,
    LaplaceNoise,
    Linear,
    StudentTNoise,
    pruned_features,
)

N, D = 80, 5


@pytest.fixture
def data(rng):
    x = rng.normal(size=(N, D))
    return x, x @ [1.5, -0.7, 0.3, 0.0, 0.0] + 1 + 0.4 * rng.normal(size=N)


def hyperparameters(learned):
    return np.concatenate([np.ravel(v) for v in learned.optima[0].values.values()])


@pytest.mark.parametrize(
    "priors",
    [
        None,
        {"prior.precision": dist.Gamma(3.0, 2.0)},
        {"prior.precision": dist.Gamma(2.0, 1.0), "noise": dist.InverseGamma(5.0, 1.0)},
    ],
    ids=["type-II ML", "Gamma on the precision", "both"],
)
def test_fixed_point_and_gradient_agree(data, priors):
    fixed_point = credo.learn(Linear(), *data, priors=priors, report=True)
    gradient = credo.learn(Linear(), *data, priors=priors, using=Evidence(starts=2, tolerance=1e-8), report=True)
    np.testing.assert_allclose(hyperparameters(fixed_point), hyperparameters(gradient), rtol=1e-4)
    np.testing.assert_allclose(fixed_point.log_evidence, gradient.log_evidence, rtol=1e-10)
    assert fixed_point.status == gradient.status == "converged"
    assert len(fixed_point.optima) == len(gradient.optima) == 1


def test_ard_fixed_point_and_gradient_agree_on_what_matters(data):
    fixed_point = credo.learn(Linear(prior=ARD()), *data, using=FixedPoint(price=0.0), report=True)
    with pytest.warns(NotConvergedWarning):
        gradient = credo.learn(Linear(prior=ARD()), *data, using=Evidence(starts=1, max_steps=500), report=True)
    np.testing.assert_allclose(fixed_point.log_evidence, gradient.log_evidence, atol=1e-3)
    a, b = (np.asarray(r.belief.prior.precision)[:3] for r in (fixed_point, gradient))
    np.testing.assert_allclose(a, b, rtol=1e-3)


def test_the_optimum_is_sklearns(data):
    """Without an intercept and without scaling it is the same model: same α and β, same predictions."""
    x, y = data
    y = y - y.mean()
    peer = BayesianRidge(fit_intercept=False, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-12, max_iter=5000)
    peer.fit(x, y)
    plain = Linear(Affine(np.zeros(D), np.ones(D)), intercept=False)
    belief = credo.fit(plain, x, y)
    np.testing.assert_allclose(belief.noise, 1 / peer.alpha_, rtol=1e-5)
    np.testing.assert_allclose(belief.prior.precision, peer.lambda_, rtol=1e-5)
    mean, std = peer.predict(x, return_std=True)
    np.testing.assert_allclose(belief.predict(x).mean, mean, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(belief.predict(x).std, std, rtol=1e-5)
    exact = replace(plain, {"noise": 1 / peer.alpha_, "prior.precision": peer.lambda_}).condition(x, y)
    np.testing.assert_allclose(exact.predict(x).std, std, rtol=1e-8)


def test_gamma_hyperpriors_are_sklearns_up_to_its_parametrization(data):
    """scikit-learn takes the mode in log α: its Gamma(a, b) is our Gamma(a + 1, b) in natural units."""
    x, y = data
    y = y - y.mean()
    peer = BayesianRidge(fit_intercept=False, alpha_1=2, alpha_2=0.5, lambda_1=3, lambda_2=2, tol=1e-12, max_iter=5000)
    peer.fit(x, y)
    plain = Linear(Affine(np.zeros(D), np.ones(D)), intercept=False)
    # In log β the mode of Gamma(a, b) on β is that of InverseGamma(a - 1, b) on 1/β in natural units.
    priors = {"prior.precision": dist.Gamma(4.0, 2.0), "noise": dist.InverseGamma(1.0, 0.5)}
    belief = credo.fit(plain, x, y, priors=priors)
    np.testing.assert_allclose(belief.noise, 1 / peer.alpha_, rtol=1e-5)
    np.testing.assert_allclose(belief.prior.precision, peer.lambda_, rtol=1e-5)


def test_ard_prunes_what_is_not_there(rng):
    x = rng.normal(size=(300, 12))
    y = x[:, :3] @ [2.0, -1.0, 0.5] + 0.3 * rng.normal(size=300)
    report = credo.fit(Linear(prior=ARD()), x, y, report=True)
    start = 12 / (y.var() / 2)
    gone = pruned_features(report.belief, start)
    assert not gone[:3].any() and gone[3:].sum() >= 4
    assert any(note.startswith(f"pruned {gone.sum()} of 12 features: x") for note in report.notes)
    weights = np.asarray(report.belief.coefficients().mean)[1:]
    assert np.all(np.abs(weights[gone]) < 1e-6)
    peer = ARDRegression().fit(x, y)
    np.testing.assert_allclose(report.belief.predict(x).mean, peer.predict(x), atol=0.1)
    ridge = credo.fit(Linear(), x, y, report=True)
    assert report.log_evidence > ridge.log_evidence


def test_the_note_on_pruning_names_the_columns(rng):
    x = pd.DataFrame(rng.normal(size=(100, 3)), columns=["age", "bmi", "noise"])
    y = x["age"].to_numpy() - 2 * x["bmi"].to_numpy() + 0.1 * rng.normal(size=100)
    report = credo.learn(Linear(prior=ARD()), x, y, report=True)
    assert report.notes == ["pruned 1 of 3 features: noise"]


def test_a_feature_stays_if_it_is_worth_its_price(rng):
    """Dropping any feature that was kept lowers the evidence by more than the price; adding one back gains less."""
    x = rng.normal(size=(120, 8))
    y = x[:, :4] @ [1.0, 0.5, 0.3, 0.2] + rng.normal(size=120)
    for price in (0.0, 1.0, 3.0):
        belief = credo.learn(Linear(prior=ARD()), x, y, using=FixedPoint(price=price))
        alpha = np.asarray(belief.prior.precision)
        best = float(belief.log_evidence(x, y))
        off = alpha.max() if price else np.inf
        for i in range(8):
            if alpha[i] < off:
                without = alpha.copy()
                without[i] = 1e12
                assert best - float(replace(belief, {"prior.precision": without}).log_evidence(x, y)) > price - 1e-6
            else:
                trials = [np.where(np.arange(8) == i, v, alpha) for v in np.geomspace(1, 1e5, 40)]
                gains = [float(replace(belief, {"prior.precision": t}).log_evidence(x, y)) - best for t in trials]
                assert max(gains) <= price + 1e-6
    assert np.sum(alpha < off) < 8


def test_fixed_numbers_stay_and_the_others_adapt(data):
    belief = credo.learn(Linear(noise=0.3), *data, fixed=["noise"])
    assert float(belief.noise) == 0.3
    by_gradient = credo.learn(Linear(noise=0.3), *data, fixed=["noise"], using=Evidence())
    np.testing.assert_allclose(belief.prior.precision, by_gradient.prior.precision, rtol=1e-4)
    held = credo.learn(Linear(prior=Isotropic(2.0), noise=0.3), *data, fixed=["noise", "prior"], report=True)
    assert held.notes == ["there was nothing to learn"]
    with pytest.raises(DataError, match="did you mean 'noise'"):
        credo.learn(Linear(), *data, fixed=["nois"])


def test_a_hyperparameter_at_its_bound_is_said_with_advice(rng):
    x = rng.normal(size=(50, 2))
    y = np.tile([1.0, -1.0], 25)
    x = x - y[:, None] * (y @ x) / (y @ y)  # no linear effect at all
    with pytest.warns(NotConvergedWarning, match=r"prior.precision ran towards its upper bound.*hold it"):
        credo.learn(Linear(), x - x.mean(0), y, using=Evidence(starts=1))
    with pytest.warns(NotConvergedWarning, match=r"prior.precision ran towards its upper bound"):
        credo.fit(Linear(), x - x.mean(0), y)


def test_stopping_early_is_said(data):
    with pytest.warns(NotConvergedWarning, match="stopped before it converged"):
        credo.learn(Linear(), *data, using=Evidence(starts=1, max_steps=1))
    with pytest.warns(NotConvergedWarning, match="stopped before it converged"):
        credo.learn(Linear(), *data, using=FixedPoint(starts=1, max_steps=1))


def test_every_local_optimum_is_reported():
    """A multimodal evidence: two modes of a Student-t location, reached from different starts."""
    import jax

    from credo.core import params
    from credo.core.belief import Belief
    from credo.core.predictive import Normal

    class Bimodal(Belief):
        location: jax.Array = params.real(0.0)

        def statistics(self, y):
            return jnp.asarray(y)

        def condition_on(self, statistics):
            return self

        def evidence_of(self, statistics):
            return jnp.sum(jax.scipy.stats.t.logpdf(statistics, 1.0, self.location, 0.3))

        def predict(self, x):
            return Normal(self.location, 1.0, 0.0)

    report = credo.learn(Bimodal(), [-2.0, -2.1, 3.0, 3.1, 3.2], using=Evidence(starts=16, spread=4.0), report=True)
    assert len(report.optima) >= 2 and sum(o.found for o in report.optima) == 16
    values = [float(o.values["location"]) for o in report.optima]
    assert abs(values[0] - 3.1) < 0.2 and any(abs(v + 2.05) < 0.3 for v in values)
    assert report.optima[0].log_evidence > report.optima[1].log_evidence
    again = credo.learn(Bimodal(), [-2.0, -2.1, 3.0, 3.1, 3.2], using=Evidence(starts=16, spread=4.0), report=True)
    np.testing.assert_array_equal(values, [float(o.values["location"]) for o in again.optima])


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", [InverseGamma(), StudentTNoise(), LaplaceNoise()], ids=["unknown", "student", "laplace"]
)
def test_other_noise_is_learned_to_a_maximum(noise, data):
    x, y = data
    report = credo.learn(Linear(noise=noise), x, y, report=True)
    assert report.status == "converged" and not report.at_bound
    best = float(report.belief.log_evidence(x, y))
    np.testing.assert_allclose(best, report.log_evidence, rtol=1e-10)
    for path, value in report.optima[0].values.items():
        for factor in (0.9, 1.1):
            assert float(replace(report.belief, {path: value * factor}).log_evidence(x, y)) < best


def test_learning_again_uses_all_that_was_seen(data):
    x, y = data
    first = credo.fit(Linear(), x[:40], y[:40])
    again = credo.fit(first, x[40:], y[40:])
    features = first.features
    at_once = credo.fit(Linear(features, intercept=first.intercept), x, y, fixed=[])
    np.testing.assert_allclose(again.seen.n, N)
    np.testing.assert_allclose(again.predict(x).mean, at_once.predict(x).mean, rtol=1e-2)


def test_a_grid_integrates_over_the_hyperparameters(data):
    """One hyperparameter: the average equals brute-force quadrature in log α, and differs from the plug-in."""
    x, y = data
    belief = credo.learn(Linear(), x, y)
    averaged = belief.condition(x, y, using=credo.Grid(points=41, fixed=["noise"], width=5.0, negligible=1e-8))
    u = np.linspace(-6, 6, 61) + np.log(float(belief.prior.precision))
    members = [replace(belief, {"prior.precision": np.exp(v)}) for v in u]
    heights = np.array([float(m.log_evidence(x, y)) for m in members])
    w = np.exp(heights - heights.max())
    w /= w.sum()
    means = np.array([m.condition(x, y).predict(x[:3]).mean for m in members])
    p = averaged.predict(x[:3])
    np.testing.assert_allclose(p.mean, w @ means, rtol=1e-3)
    np.testing.assert_allclose(p.aleatoric + p.epistemic, p.variance)
    by_fit = credo.fit(belief, x, y, using=credo.Grid(points=41, width=5.0, negligible=1e-8), fixed=["noise"])
    np.testing.assert_allclose(by_fit.predict(x[:3]).mean, p.mean, rtol=1e-10)
    with pytest.raises(DataError, match="pass that to fit itself"):
        credo.fit(belief, x, y, using=credo.Grid(fixed=["noise"]))
    both = Linear().condition(x, y, using=credo.Grid())
    plug_in = credo.fit(Linear(), x, y)
    assert np.mean(both.predict(x).variance) > np.mean(plug_in.predict(x).variance)
    with pytest.raises(DataError, match="1 to 4 hyperparameters, found 6"):
        Linear(prior=ARD()).condition(x, y, using=credo.Grid())


def test_the_fixed_point_refuses_what_it_cannot_do(data):
    with pytest.raises(DataError, match="learn cannot use FixedPoint for Linear"):
        credo.learn(Linear(noise=InverseGamma()), *data, using=FixedPoint())
    assert not FixedPoint.applies(Linear(), {"noise": dist.LogNormal(0.0, 1.0)})
    by_gradient = credo.learn(Linear(), *data, priors={"noise": dist.LogNormal(0.0, 0.1)})
    assert float(by_gradient.noise) > float(credo.learn(Linear(), *data).noise)


def test_fit_brings_the_columns_of_any_basis_to_one_scale(rng):
    x = 1000 + 50 * rng.normal(size=(200, 1))
    z = (x[:, 0] - 1000) / 50
    y = z + 0.5 * z**2 + 0.1 * rng.normal(size=200)
    belief = credo.fit(Linear(Polynomial(2)), x, y)
    phi = np.asarray(belief.features(jnp.asarray(x)))
    np.testing.assert_allclose(phi.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(phi.std(0), 1, rtol=1e-9)
    assert np.sqrt(np.mean((belief.predict(x).mean - y) ** 2)) < 0.11
    through_zero = credo.fit(Linear(Polynomial(2), intercept=False), x, y)
    np.testing.assert_allclose(through_zero.predict([[0.0]]).mean, 0, atol=1e-9)
    given = credo.fit(Linear(Affine(1000.0, 50.0)), x, y)
    np.testing.assert_allclose([given.features.shift, given.features.scale], [1000, 50])
