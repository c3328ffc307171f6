"""Variational inference against closed forms, quadrature and long chains; importance weights and their k-hat."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from credo.core.errors import DataError
from credo.infer.importance_sampling import importance, pareto_smooth, psis, sobol_points, students
from credo.infer.laplace import Laplace
from credo.infer.mcmc.nuts import NUTS
from credo.infer.quasi_random import normals
from credo.infer.target import ParameterSpace, Target
from credo.infer.variational import Variational


@pytest.fixture(scope="module")
def laws(normal):
    return {
        "fullrank": Variational().run(normal[0]),
        "meanfield": Variational(family="meanfield").run(normal[0]),
        "lowrank": Variational(family="lowrank", rank=1).run(normal[0]),
    }


def test_fullrank_on_a_normal_target_is_exact(normal, laws):
    _, mean, covariance, evidence = normal
    found = laws["fullrank"]
    np.testing.assert_allclose(found.center, mean, atol=1e-3)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-3)
    np.testing.assert_allclose(found.log_evidence, evidence, atol=1e-6)
    assert found.notes == ()


def test_meanfield_has_the_precisions_of_the_diagonal(normal, laws):
    _, mean, covariance, evidence = normal
    found = laws["meanfield"]
    precision = np.linalg.inv(covariance)
    np.testing.assert_allclose(found.center, mean, atol=1e-3)
    np.testing.assert_allclose(found.covariance, np.diag(1 / np.diag(precision)), rtol=1e-3, atol=1e-12)
    gap = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    np.testing.assert_allclose(found.log_evidence, evidence - gap, atol=1e-6)
    assert found.notes  # too narrow, and told so


def test_lowrank_is_the_best_of_its_kind(normal, laws):
    _, _, covariance, evidence = normal
    bounds = [float(laws[family].log_evidence) for family in ("meanfield", "lowrank", "fullrank")]
    assert bounds[0] + 0.01 < bounds[1] < bounds[2] - 0.01
    from scipy.optimize import minimize

    precision = np.linalg.inv(covariance)

    def divergence(v):
        s = np.diag(np.exp(2 * v[:4])) + np.outer(v[4:], v[4:])
        return 0.5 * (np.trace(precision @ s) - 4 - np.linalg.slogdet(precision @ s)[1])

    starts = np.random.default_rng(0).normal(size=(8, 8))
    best = min(minimize(divergence, start).fun for start in starts)
    np.testing.assert_allclose(evidence - bounds[1], best, atol=1e-3)


def gamma(theta, shape, rate):
    return (shape - 1) * jnp.log(theta) - rate * theta


def log_scale_moments(shape, rate):
    """Mean, standard deviation and skewness of log θ, and the log evidence, by quadrature."""

    def moment(power, about=0.0):
        return integrate.quad(lambda u: (u - about) ** power * np.exp(shape * u - rate * np.exp(u)), -12, 6)[0]

    z = moment(0)
    mean = moment(1) / z
    return mean, np.sqrt(moment(2, mean) / z), np.log(z)


@pytest.fixture(scope="module")
def skewed():
    shape, rate = 3.0, 1.5
    return Target(ParameterSpace.of(1.0, {"": "positive"}), gamma, (jnp.asarray(shape), jnp.asarray(rate))), shape, rate


def test_reverse_on_a_constrained_skewed_target(skewed):
    target, shape, rate = skewed
    found = Variational(tolerance=1e-3).run(target)
    # ELBO(m, s) = a m - b exp(m + s²/2) + log s + ½ log 2πe: s² = 1/a, m = log(a/b) - 1/(2a).
    m, s = np.log(shape / rate) - 0.5 / shape, shape**-0.5
    np.testing.assert_allclose(found.center[0], m, atol=2e-3 * s)
    np.testing.assert_allclose(found.root[0, 0], s, rtol=2e-3)
    elbo = shape * m - rate * np.exp(m + 0.5 * s**2) + np.log(s) + 0.5 * np.log(2 * np.pi * np.e)
    np.testing.assert_allclose(found.log_evidence, elbo, atol=1e-3)
    assert found.log_evidence < log_scale_moments(shape, rate)[2]
    assert np.all(found.sample(50) > 0)


def test_forward_matches_the_moments_of_a_skewed_target(skewed):
    target, shape, rate = skewed
    mean, sd, evidence = log_scale_moments(shape, rate)
    assert abs(sd - shape**-0.5) > 0.04  # the reverse divergence is narrower
    found = Variational(direction="forward").run(target)
    np.testing.assert_allclose(found.center[0], mean, atol=0.02 * sd)
    np.testing.assert_allclose(found.root[0, 0], sd, rtol=0.03)
    np.testing.assert_allclose(found.log_evidence, evidence, atol=0.02)


def test_forward_projections(normal):
    target, mean, covariance, _ = normal
    diagonal = Variational(direction="forward", family="meanfield").run(target)
    np.testing.assert_allclose(diagonal.center, mean, atol=0.02)
    np.testing.assert_allclose(jnp.diagonal(diagonal.covariance), np.diag(covariance), rtol=0.05)
    assert np.all(np.asarray(diagonal.covariance)[~np.eye(4, dtype=bool)] == 0)
    factors = Variational(direction="forward", family="lowrank", rank=1).run(target)
    # Factor analysis keeps the variances.
    np.testing.assert_allclose(jnp.diagonal(factors.covariance), np.diag(covariance), rtol=0.05)
    uniqueness = np.asarray(factors.covariance)
    tetrad = uniqueness[0, 1] * uniqueness[2, 3] - uniqueness[0, 2] * uniqueness[1, 3]
    np.testing.assert_allclose(tetrad, 0.0, atol=1e-6)  # one factor


def log_prior(w):
    return -0.5 * w @ w


def log_likelihood(w, x, y):
    return y * (x @ w) - jax.nn.softplus(x @ w)


def logistic(w, x, y):
    return log_prior(w) + log_likelihood(w, x, y).sum()


@functools.cache
def regression(n=200, d=5):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(n, d))
    y = (rng.uniform(size=n) < special.expit(x @ rng.normal(size=d))).astype(float)
    return x, y, Target(ParameterSpace.of(np.zeros(d)), logistic, (jnp.asarray(x), jnp.asarray(y)))


@pytest.fixture(scope="module")
def fitted():
    return Variational().run(regression()[2])


def test_logistic_regression_agrees_with_chains(fitted):
    target = regression()[2]
    chains = NUTS(draws=2000, warmup=500, chains=2).run(target)
    mean, sd = np.asarray(chains.mean), np.asarray(chains.std)
    np.testing.assert_allclose((fitted.center - mean) / sd, 0.0, atol=0.05 + 4.5 / np.sqrt(3500))
    np.testing.assert_allclose(jnp.sqrt(jnp.diagonal(fitted.covariance)), sd, rtol=0.05 + 4.5 / np.sqrt(6000))
    weighted = importance(fitted, target)
    np.testing.assert_allclose((weighted.mean - mean) / sd, 0.0, atol=4.5 / np.sqrt(2500))
    np.testing.assert_allclose(weighted.std, sd, rtol=4.5 / np.sqrt(5000))
    assert fitted.notes == weighted.notes == ()


def test_draws_do_not_decide(fitted):
    again = Variational().run(regression()[2], seed=1)
    sd = jnp.sqrt(jnp.diagonal(fitted.covariance))
    np.testing.assert_allclose((again.center - fitted.center) / sd, 0.0, atol=0.02)
    np.testing.assert_allclose(jnp.diagonal(again.covariance), jnp.diagonal(fitted.covariance), rtol=0.04)
    same = Variational().run(regression()[2])
    np.testing.assert_array_equal(same.root, fitted.root)


def test_new_data_compile_nothing(fitted):
    from jax._src import monitoring

    x, y, target = regression()
    compiled = []

    def listen(name, *_, **__):
        if name == "/jax/core/compile/backend_compile_duration":
            compiled.append(name)

    monitoring.register_event_duration_secs_listener(listen)
    try:
        Variational(max_steps=400).run(Target(target.space, logistic, (jnp.asarray(x), jnp.asarray(1 - y))))
    finally:
        monitoring.unregister_event_duration_listener(listen)
    assert compiled == []


@pytest.mark.parametrize("family", ["fullrank", "meanfield"])
def test_minibatches_agree_with_all_rows(family):
    x, y, target = regression()
    whole = Variational(family=family).run(target)
    found = Variational(family=family, batch=40, passes=2000).run_rows(log_prior, log_likelihood, np.zeros(5), (x, y))
    sd = jnp.sqrt(jnp.diagonal(whole.covariance))
    np.testing.assert_allclose((found.center - whole.center) / sd, 0.0, atol=0.06)
    np.testing.assert_allclose(jnp.sqrt(jnp.diagonal(found.covariance)), sd, rtol=0.06)
    np.testing.assert_allclose(found.log_evidence, whole.log_evidence, atol=0.3)


def test_minibatches_out_of_passes_say_so():
    x, y, _ = regression()
    found = Variational(batch=40, passes=5).run_rows(log_prior, log_likelihood, np.zeros(5), (x, y))
    assert "raise passes" in found.verdict


def test_importance_evidence_and_moments_of_a_skewed_target(skewed):
    target, shape, rate = skewed
    _, _, evidence = log_scale_moments(shape, rate)
    found = importance(Laplace().run(target), target)
    np.testing.assert_allclose(found.log_evidence, evidence, atol=0.02)
    np.testing.assert_allclose(found.mean, shape / rate, rtol=0.03)
    np.testing.assert_allclose(found.std, shape**0.5 / rate, rtol=0.05)
    want = stats.gamma(shape, scale=1 / rate).ppf([0.05, 0.5, 0.95])
    np.testing.assert_allclose(found.quantile([0.05, 0.5, 0.95]), want, rtol=0.05)
    np.testing.assert_allclose(found.sample(4000, seed=1).mean(), shape / rate, rtol=0.08)
    assert found.ess > 2000
    assert found.khat < 0.7


@pytest.mark.parametrize(
    "density",
    [
        pytest.param(lambda t: -jnp.log1p(t**2), id="cauchy"),
        pytest.param(lambda t: jnp.logaddexp(-0.5 * (t - 2.5) ** 2, -0.5 * (t + 2.5) ** 2), id="bimodal"),
    ],
)
def test_khat_flags_what_a_normal_law_cannot_be(density):
    target = Target(ParameterSpace.of(1.0), density)
    found = Variational().run(target)
    assert "use NUTS()" in found.verdict
    assert importance(found, target).khat > 0.7
    assert "misses part of the posterior" in importance(found, target).verdict


def test_smoothed_weights():
    rng = np.random.default_rng(0)
    # w = U^-k has a Pareto tail of shape k.
    for shape in (0.3, 0.9):
        log_weights, khat, _ = pareto_smooth(-shape * np.log(rng.uniform(size=20_000)))
        np.testing.assert_allclose(np.exp(log_weights).sum(), 1.0)
        assert abs(khat - shape) < 4.5 * (1 + shape) / np.sqrt(3 * np.sqrt(20_000))
    log_weights, khat, evidence = pareto_smooth(np.full(100, 2.5))
    assert khat == 0.0 and evidence == 2.5
    np.testing.assert_allclose(log_weights, -np.log(100))
    assert pareto_smooth(np.full(100, -np.inf))[1] == np.inf


@pytest.mark.parametrize("shape", [0.1, 0.5, 0.9])
def test_pareto_smoothing_is_that_of_blackjax(shape):
    from blackjax.diagnostics import psis_weights

    log_ratios = -shape * np.log(np.random.default_rng(1).uniform(size=1000))
    log_weights, khat = psis(log_ratios)
    wanted, its_khat = psis_weights(jnp.asarray(log_ratios))
    np.testing.assert_allclose(khat, its_khat, rtol=1e-8)
    np.testing.assert_allclose(log_weights, wanted, rtol=1e-8)


def test_quasi_random_draws():
    z = normals(512, 6, 0)
    np.testing.assert_allclose(z.mean(0), 0.0, atol=1e-12)
    np.testing.assert_allclose(z.T @ z / 512, np.eye(6), atol=1e-12)
    assert stats.kstest(z[:, 2], "norm").statistic < 0.03
    t, log_density = students(sobol_points(4096, 3, 0))
    np.testing.assert_allclose(log_density[:5], stats.multivariate_t(np.zeros(3), np.eye(3), 8).logpdf(t[:5]))
    assert stats.kstest(t[:, 1], stats.t(8).cdf).statistic < 0.02


def test_what_is_not_determined_is_said():
    found = Variational().run(
        Target(ParameterSpace.of({"a": 0.0, "b": 0.3}), lambda t: -0.5 * t["b"] ** 2 + 0.0 * t["a"])
    )
    assert "The law of a widens without end" in found.verdict


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"family": "banana"}, "family must be one of meanfield, lowrank, fullrank, found 'banana'"),
        ({"family": "lowrank", "rank": 0}, "rank must be a whole number of at least 1, found 0"),
        ({"direction": "sideways"}, "direction must be 'reverse' or 'forward', found 'sideways'"),
        ({"draws": 0}, "draws must be a whole number of at least 1, found 0"),
        ({"tolerance": 0.0}, "tolerance must be a number above 0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(DataError, match=message):
        Variational(**settings).run(Target(ParameterSpace.of(0.0), lambda t: -(t**2)))


def test_bad_rows():
    x, y, _ = regression()
    with pytest.raises(DataError, match=r"same number of rows, found \[100, 200\]"):
        Variational().run_rows(log_prior, log_likelihood, np.zeros(5), (x, y[:100]))
    with pytest.raises(DataError, match="one number for each row"):
        Variational().run_rows(log_prior, lambda w, a, b: log_likelihood(w, a, b).sum(), np.zeros(5), (x, y))
    with pytest.raises(DataError, match="run_rows climbs the ELBO"):
        Variational(direction="forward").run_rows(log_prior, log_likelihood, np.zeros(5), (x, y))
    with pytest.raises(DataError, match="draws must be a whole number of at least 50"):
        importance(
            Laplace().run(Target(ParameterSpace.of(0.0), lambda t: -(t**2))),
            Target(ParameterSpace.of(0.0), lambda t: -(t**2)),
            10,
        )
