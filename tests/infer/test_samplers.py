"""One suite for all samplers: moments and quantiles within Monte Carlo error, and what each promises besides."""

import dataclasses
import time
import warnings

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax._src import monitoring
from scipy import stats

from credo.core.errors import DataError, NotConvergedWarning
from credo.infer.laplace import Laplace
from credo.infer.mcmc import chains as chains_module
from credo.infer.mcmc.adaptation import StepSizeAndMetric
from credo.infer.mcmc.hmc import HMC
from credo.infer.mcmc.langevin import MALA, ULA
from credo.infer.mcmc.metropolis import ComponentWise, MetropolisHastings, RandomWalk, Walk, log_acceptance
from credo.infer.mcmc.nuts import NUTS
from credo.infer.mcmc.smc import SMC, Particles, next_temperature
from credo.infer.target import ParameterSpace, Target

COVARIANCE = np.array([[1.0, 0.9], [0.9, 1.5]])
PRECISION = np.linalg.inv(COVARIANCE)
CENTER = np.array([1.0, -2.0])


def gaussian(theta, center):
    gap = theta["x"] - center
    return -0.5 * (gap * (jnp.asarray(PRECISION) * gap).sum(1)).sum()


def gaussian_target(center=CENTER):
    return Target(ParameterSpace.of({"x": np.zeros(2)}), gaussian, (jnp.asarray(center),))


def gamma(theta, shape, rate):
    return (shape - 1) * jnp.log(theta["rate"]) - rate * theta["rate"]


def gamma_target():
    return Target(ParameterSpace.of({"rate": 1.0}, {"rate": "positive"}), gamma, (jnp.asarray(3.0), jnp.asarray(2.0)))


def nearby(key, theta):
    return jax.tree.map(lambda v: v + 1.2 * jr.normal(key, v.shape), theta)


def scaled(key, theta):
    return jax.tree.map(lambda v: v * jnp.exp(jr.normal(key, v.shape)), theta)


def scaled_ratio(theta, new):
    return jnp.log(new["rate"] / theta["rate"])


SAMPLERS = {
    "NUTS": NUTS(warmup=300),
    "HMC": HMC(steps=5, warmup=300),
    "RandomWalk": RandomWalk(draws=4000, warmup=500),
    "RandomWalk fixed": RandomWalk(0.8, draws=4000, warmup=100),
    "ComponentWise": ComponentWise(draws=4000, warmup=300),
    "MetropolisHastings": MetropolisHastings(nearby, draws=4000, warmup=100),
    "MALA": MALA(draws=3000, warmup=500),
    "SMC": SMC(2000),
    "SMC hmc": SMC(2000, move="hmc", moves=3),
}
everyone = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())


def effective(series):
    """How many independent draws a series (chains, draws) is worth."""
    from blackjax.diagnostics import effective_sample_size

    return float(_ess(effective_sample_size, jnp.asarray(series)))


def _ess(function, series):
    return jax.jit(function)(series)


def assert_agrees(found, values, law):
    """Mean, variance and quantiles of draws against a law of SciPy, each within 4.5 standard errors."""
    c = found.chains.shape[0]
    x = np.asarray(values).reshape(c, -1)
    # Particles that descend from one another are not independent.
    share = 0.25 if isinstance(found, Particles) else 1.0
    wanted = {"mean": (x, law.mean()), "variance": ((x - law.mean()) ** 2, law.var())}
    wanted |= {f"{q}": ((x < law.ppf(q)).astype(float), q) for q in (0.05, 0.5, 0.95)}
    for name, (series, want) in wanted.items():
        se = series.std() / np.sqrt(share * effective(series))
        assert abs(series.mean() - want) < 4.5 * se, (name, series.mean(), want, se)


@everyone
def test_a_correlated_gaussian(sampler):
    found = sampler.run(gaussian_target(), seed=1)
    x = np.asarray(found.values["x"])
    for i in range(2):
        assert_agrees(found, x[:, i], stats.norm(CENTER[i], np.sqrt(COVARIANCE[i, i])))
    whitened = (x - CENTER) @ np.linalg.inv(np.linalg.cholesky(COVARIANCE)).T
    assert_agrees(found, (whitened**2).sum(1), stats.chi2(2))  # which the correlation enters


@everyone
def test_a_gamma_law_of_a_positive_number(sampler):
    assert_agrees(*_gamma_draws(sampler))


def _gamma_draws(sampler):
    found = sampler.run(gamma_target(), seed=3)
    values = found.values["rate"]
    assert np.all(np.asarray(values) > 0)
    return found, values, stats.gamma(3.0, scale=0.5)


def test_a_proposal_that_is_not_symmetric_needs_its_ratio():
    sampler = MetropolisHastings(scaled, scaled_ratio, draws=4000, warmup=100)
    assert_agrees(*_gamma_draws(sampler))
    wrong = dataclasses.replace(sampler, log_ratio=None)
    with pytest.raises(AssertionError):
        assert_agrees(*_gamma_draws(wrong))


def test_nuts_on_the_simplex():
    alpha = np.array([2.0, 3.0, 5.0])
    target = Target(
        ParameterSpace.of({"p": np.full(3, 1 / 3)}, {"p": "simplex"}),
        lambda t, a: ((a - 1) * jnp.log(t["p"])).sum(),
        (alpha,),
    )
    found = NUTS(warmup=300).run(target, seed=1)
    p = np.asarray(found.values["p"])
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-12)
    for i in range(3):
        assert_agrees(found, p[:, i], stats.beta(alpha[i], alpha.sum() - alpha[i]))


# -- a funnel: v ~ N(0, s²), xᵢ | v ~ N(0, eᵛ) ------------------------------------------------------------------


def apart(theta, s):
    """The funnel by z = x e^(-v/2)."""
    return -0.5 * (theta["v"] / s) ** 2 - 0.5 * (theta["z"] ** 2).sum()


def together(theta, s):
    v, x = theta["v"], theta["z"]
    return -0.5 * (v / s) ** 2 - 0.5 * (x**2).sum() * jnp.exp(-v) - 0.5 * x.size * v


def funnel(density, s):
    return Target(ParameterSpace.of({"v": 0.0, "z": np.zeros(3)}), density, (jnp.asarray(s),))


@pytest.mark.parametrize("sampler", [NUTS(warmup=300), HMC(steps=5, warmup=300)], ids=["NUTS", "HMC"])
def test_a_funnel_told_apart(sampler):
    found = sampler.run(funnel(apart, 3.0), seed=1)
    v, z = (np.asarray(found.values[name]) for name in "vz")
    assert_agrees(found, v, stats.norm(0, 3))
    x = np.exp(v / 2) * z[:, 0]
    inside = stats.norm.cdf(1 / np.exp(np.linspace(-15, 15, 4001) / 2)) * 2 - 1
    want = np.trapezoid(inside * stats.norm.pdf(np.linspace(-15, 15, 4001), 0, 3), np.linspace(-15, 15, 4001))
    hit = (np.abs(x) < 1).astype(float).reshape(4, -1)
    assert abs(hit.mean() - want) < 4.5 * hit.std() / np.sqrt(effective(hit))


def test_a_funnel_as_it_is():
    wide = NUTS(warmup=300).run(funnel(together, 3.0), seed=1)
    assert "diverged" in wide.verdict
    mild = NUTS(warmup=300, draws=2000, target_acceptance=0.95).run(funnel(together, 0.5), seed=1)
    assert_agrees(mild, mild.values["v"], stats.norm(0, 0.5))


# -- two modes --------------------------------------------------------------------------------------------------


def two_modes(theta, apart):
    low = -0.5 * ((theta + apart) ** 2).sum() + jnp.log(0.3)
    high = -0.5 * ((theta - apart) ** 2).sum() + jnp.log(0.7)
    return jnp.logaddexp(low, high) - jnp.log(2 * jnp.pi)


def test_smc_weighs_two_modes_and_knows_the_evidence():
    target = Target(ParameterSpace.of(np.zeros(2)), two_modes, (jnp.asarray(4.0),))
    found = [SMC(2000).run(target, seed=seed) for seed in range(12)]
    weights = np.array([(np.asarray(f.values)[:, 0] > 0).mean() for f in found])
    evidence = np.array([float(f.log_evidence) for f in found])
    for values, want in ((weights, 0.7), (np.exp(evidence), 1.0)):
        se = values.std(ddof=1) / np.sqrt(len(values))
        assert se < 0.03
        assert abs(values.mean() - want) < 4.5 * se
    assert np.all(np.diff(np.asarray(found[0].temperatures)) > 0)
    assert float(found[0].temperatures[-1]) == 1.0
    assert not found[0].notes


def test_smc_from_laplace_needs_no_stages():
    start = Laplace().run(gaussian_target())
    found = SMC(500).run(gaussian_target(), start=start)
    assert found.temperatures.shape == (1,)
    want = np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(COVARIANCE)[1]
    np.testing.assert_allclose(float(found.log_evidence), want, rtol=1e-6)  # all weights are equal: no noise


def test_the_next_temperature_leaves_the_share_that_was_asked_for():
    gain = np.random.default_rng(0).normal(size=400) * 20
    step = float(next_temperature(jnp.asarray(gain), jnp.asarray(0.1), jnp.asarray(0.5))) - 0.1
    weights = np.exp(step * gain)
    np.testing.assert_allclose(weights.sum() ** 2 / (weights**2).sum() / 400, 0.5, rtol=1e-8)
    assert float(next_temperature(jnp.asarray(gain * 1e-3), jnp.asarray(0.1), jnp.asarray(0.5))) == 1.0


def test_smc_survives_where_the_density_is_zero():
    def half(theta):
        return jnp.where(theta > 0, -0.5 * theta**2, -jnp.inf)

    found = SMC(2000, spread=2.0).run(Target(ParameterSpace.of(1.0), half), seed=2)
    assert np.all(np.asarray(found.values) > 0)
    assert abs(float(found.log_evidence) - np.log(np.sqrt(np.pi / 2))) < 0.15


# -- detailed balance -------------------------------------------------------------------------------------------


def test_metropolis_hastings_is_in_detailed_balance(rng):
    """π(θ) q(θ → θ') α(θ → θ') is the same in both directions, in natural units and with an odd proposal."""
    target, sampler = gamma_target(), MetropolisHastings(scaled, scaled_ratio)
    for u, v in rng.normal(size=(20, 2)):
        flows = []
        for a, b in ((u, v), (v, u)):
            here, there = jnp.asarray([a]), jnp.asarray([b])
            log_alpha = log_acceptance(target(here), target(there), sampler.correction(target.space, here, there))
            theta, new = np.exp(a), np.exp(b)
            flows.append(
                stats.gamma.logpdf(theta, 3, scale=0.5) + stats.lognorm.logpdf(new, 1.0, scale=theta) + log_alpha
            )
        np.testing.assert_allclose(flows[0], flows[1], rtol=1e-10)


@pytest.mark.parametrize("sampler", [RandomWalk(0.8), MetropolisHastings(nearby)], ids=["RandomWalk", "MH"])
def test_a_symmetric_step_accepts_by_the_ratio_of_densities(sampler, rng):
    """The step's own acceptance, recovered from proposals that were accepted, is min(1, π(v)/π(u))."""
    target = gaussian_target()
    tuning = StepSizeAndMetric(jnp.ones(()), 0.8 * jnp.eye(2))
    starts = rng.multivariate_normal(CENTER, COVARIANCE, size=60)
    states = jax.vmap(lambda u: Walk(u, target(u)))(jnp.asarray(starts))
    random = sampler.random_numbers(rng, 60, 2)
    after, info = jax.jit(jax.vmap(lambda r, s: sampler.step(target, r, s, tuning)))(random, states)
    moved = np.any(np.asarray(after.position) != starts, axis=1)
    assert moved.sum() > 15
    law = stats.multivariate_normal(CENTER, COVARIANCE)
    ratio = np.exp(law.logpdf(np.asarray(after.position)) - law.logpdf(starts))
    np.testing.assert_allclose(np.asarray(info.acceptance)[moved], np.minimum(1, ratio)[moved], rtol=1e-9)
    np.testing.assert_allclose(after.density, jax.vmap(target)(after.position), rtol=1e-12)


def test_mala_is_in_detailed_balance(rng):
    """α is min{1, π(v) q(v → u) / (π(u) q(u → v))} with q as documented, here computed by SciPy."""
    target, sampler = gaussian_target(), MALA()
    epsilon, scale = 0.6, np.array([0.7, 1.3])
    tuning = StepSizeAndMetric(jnp.sqrt(2 * epsilon), jnp.asarray(scale))
    starts = rng.multivariate_normal(CENTER, COVARIANCE, size=60)
    states = jax.vmap(lambda u: sampler.begin(target, u, tuning))(jnp.asarray(starts))
    random = sampler.random_numbers(rng, 60, 2)
    after, info = jax.jit(jax.vmap(lambda r, s: sampler.step(target, r, s, tuning)))(random, states)
    moved = np.flatnonzero(np.any(np.asarray(after.position) != starts, axis=1))
    assert len(moved) > 15

    def log_q(u, v):
        drift = u + epsilon * scale**2 * (PRECISION @ (CENTER - u))
        return stats.multivariate_normal(drift, 2 * epsilon * np.diag(scale**2)).logpdf(v)

    law = stats.multivariate_normal(CENTER, COVARIANCE)
    for i in moved:
        u, v = starts[i], np.asarray(after.position[i])
        log_ratio = law.logpdf(v) + log_q(v, u) - law.logpdf(u) - log_q(u, v)
        np.testing.assert_allclose(info.acceptance[i], min(1, np.exp(log_ratio)), rtol=1e-9)
    gradient = (CENTER - np.asarray(after.position)) @ PRECISION
    np.testing.assert_allclose(after.gradient, gradient * scale, rtol=1e-8, atol=1e-12)


# -- known bias -------------------------------------------------------------------------------------------------


def test_the_bias_of_ula_is_known_and_shrinks_with_the_step():
    variance = 0.8
    target = Target(ParameterSpace.of(0.0), lambda u, v: -0.5 * u**2 / v, (jnp.asarray(variance),))
    excess = []
    for step in (0.8, 0.2):
        found = ULA(step, draws=10_000, warmup=100).run(target, seed=1)
        x = np.asarray(found.chains)[..., 0]
        squares = x**2
        se = squares.std() / np.sqrt(effective(squares))
        assert abs(squares.mean() - variance / (1 - step / (2 * variance))) < 4.5 * se
        assert abs(x.mean()) < 4.5 * x.std() / np.sqrt(effective(x))
        excess.append(squares.mean() - variance)
        assert "bias" in found.verdict
    assert excess[0] > 2 * excess[1] > 0


def test_ula_does_not_leave_the_finite_numbers():
    target = Target(ParameterSpace.of(1.0, {"": "positive"}), lambda t: -t - 1 / t)
    found = ULA(5.0, draws=200, warmup=100).run(target)
    assert np.all(np.isfinite(found.kept()))
    assert "not finite" in found.verdict


# -- running them -----------------------------------------------------------------------------------------------


def compiled(action):
    """How many programs an action compiles."""
    names = []

    def listen(name, *_, **__):
        if name == "/jax/core/compile/backend_compile_duration":
            names.append(name)

    monitoring.register_event_duration_secs_listener(listen)
    try:
        action()
    finally:
        monitoring.unregister_event_duration_listener(listen)
    return len(names)


@everyone
def test_the_same_seed_gives_the_same_draws_and_new_data_compile_nothing(sampler):
    first = sampler.run(gaussian_target(), seed=5)
    again = []
    assert compiled(lambda: again.append(sampler.run(gaussian_target(), seed=5))) == 0
    np.testing.assert_array_equal(first.chains, again[0].chains)
    if not isinstance(sampler, SMC):  # as many stages as the data ask for; the programs are the same
        assert not np.array_equal(first.chains, sampler.run(gaussian_target(), seed=6).chains)
    assert compiled(lambda: sampler.run(gaussian_target(CENTER + 0.3), seed=6)) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (RandomWalk(0.8), RandomWalk(0.7)),
        (MALA(0.4), MALA(0.3)),
        (ULA(0.2), ULA(0.1)),
        (NUTS(), NUTS(target_acceptance=0.9, thin=2)),
    ],
)
def test_another_setting_compiles_nothing(one, other):
    one, other = (dataclasses.replace(s, draws=200, warmup=w, chains=2) for s, w in ((one, 100), (other, 150)))
    one.run(gaussian_target())
    assert compiled(lambda: other.run(gaussian_target())) == 0


def test_thinning_keeps_what_happened_between_draws():
    """Blocks do not end where a group of steps does."""
    every = MetropolisHastings(nearby, draws=2100, warmup=10, chains=1).run(gaussian_target())
    some = MetropolisHastings(nearby, draws=300, thin=7, warmup=10, chains=1).run(gaussian_target())
    np.testing.assert_array_equal(some.chains[0], every.chains[0, 6::7])
    np.testing.assert_allclose(some.acceptance[0], every.acceptance[0].reshape(300, 7).mean(1), rtol=1e-12)


def test_tuning_reaches_the_acceptance_it_aims_at():
    for sampler, aim in ((SAMPLERS["RandomWalk"], 0.234), (SAMPLERS["ComponentWise"], 0.44), (SAMPLERS["MALA"], 0.574)):
        assert abs(sampler.run(gaussian_target(), seed=1).diagnostics.acceptance - aim) < 0.1
    assert abs(SAMPLERS["RandomWalk"].run(gamma_target(), seed=1).diagnostics.acceptance - 0.44) < 0.1


def test_an_interrupted_run_returns_what_it_has(monkeypatch):
    sampler = SAMPLERS["RandomWalk"]
    sampler.run(gaussian_target())  # compiled

    def interrupt(futures):
        time.sleep(0.6)
        raise KeyboardInterrupt

    monkeypatch.setattr(chains_module, "wait", interrupt)
    with pytest.warns(NotConvergedWarning, match=r"Interrupted after [\d,]+ of 4,000,000 draws"):
        found = dataclasses.replace(sampler, draws=2_000_000, chains=2, cores=2).run(gaussian_target())
    assert "Interrupted" in found.verdict
    assert 0 < found.chains.shape[1] < 2_000_000


def test_draws_that_do_not_fit_are_thinned_with_a_warning():
    with pytest.warns(NotConvergedWarning, match="one in 7 is kept"):
        assert RandomWalk(draws=10**7)._kept_one_in(20) == 7
    sampler = dataclasses.replace(SAMPLERS["RandomWalk"], draws=5000, memory=8.0 * 4 * 500 * 2)
    with pytest.warns(NotConvergedWarning, match="one in 10 is kept"):
        found = sampler.run(gaussian_target())
    assert found.chains.shape == (4, 500, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moments = dataclasses.replace(sampler, keep="moments").run(gaussian_target())
    np.testing.assert_allclose(moments.covariance, COVARIANCE, rtol=0.2)


@everyone
def test_nan_at_the_start_names_the_parameter(sampler):
    target = Target(ParameterSpace.of({"a": 0.0, "spread": -1.0}), lambda t: jnp.log(t["spread"]) - t["a"] ** 2)
    with pytest.raises(DataError, match="spread = -1"):
        sampler.run(target)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (MetropolisHastings(lambda key, t: {"x": jnp.zeros(3)}), r"'x' of shape \(2,\), found shape \(3,\)"),
        (MetropolisHastings(lambda key, t: {"y": t["x"]}), "a pytree like θ"),
        (MetropolisHastings(lambda key, t: {"x": t["x"], "y": 0.0}), "1 parts x, found 2"),
        (RandomWalk(-1.0), "scale must be a positive number"),
        (ComponentWise([1.0, 1.0, 1.0]), "one for each of the 2 coordinates"),
    ],
)
def test_bad_settings(sampler, message):
    with pytest.raises(DataError, match=message):
        sampler.run(gaussian_target())
