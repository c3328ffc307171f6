"""Conjugate beliefs against quadrature and SciPy, and what all of them must satisfy."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats as st

from credo.core import params, predictive
from credo.core.errors import DataError
from credo.infer import ML
from credo.models.conjugate import (
    BetaBernoulli,
    BetaBinomial,
    Conjugate,
    DirichletCategorical,
    DirichletMultinomial,
    GammaPoisson,
    Hypotheses,
    Moments,
    NormalInverseGamma,
    NormalInverseWishart,
    NormalKnownVariance,
)

RNG = np.random.default_rng(3)
COINS = RNG.integers(0, 2, 12)
TRIALS = RNG.integers(1, 9, 12)
SUCCESSES = RNG.binomial(TRIALS, 0.3)
CLASSES = RNG.integers(0, 3, 12)
COUNTS = RNG.integers(0, 5, (12, 3))
EVENTS = RNG.poisson(3.0, 12)
EXPOSURE = RNG.uniform(0.5, 2.0, 12)
REALS = RNG.normal(1.0, 2.0, 12)
VECTORS = RNG.normal(size=(12, 2)) @ [[1.0, 0.3], [0.0, 0.7]] + [1.0, -1.0]
TABLE = np.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.1], [0.1, 0.5, 0.8]])
PSI = np.array([[2.0, 0.4], [0.4, 1.0]])


class Case(NamedTuple):
    belief: Any
    data: tuple[Any, ...]
    options: dict[str, Any] = {}  # noqa: RUF012


CASES = {
    "Hypotheses": Case(Hypotheses(TABLE, [0.5, 0.3, 0.2]), (CLASSES,)),
    "BetaBernoulli": Case(BetaBernoulli(2.0, 0.7), (COINS,)),
    "BetaBinomial": Case(BetaBinomial(1.5, 3.0), (SUCCESSES, TRIALS), {"trials": 4}),
    "DirichletCategorical": Case(DirichletCategorical([1.5, 2.0, 0.4]), (CLASSES,)),
    "DirichletMultinomial": Case(DirichletMultinomial([1.5, 2.0, 0.4]), (COUNTS,), {"trials": 3}),
    "GammaPoisson": Case(GammaPoisson(2.0, 0.8), (EVENTS, EXPOSURE), {"exposure": 1.5}),
    "NormalKnownVariance": Case(NormalKnownVariance(0.5, 2.0, 3.0), (REALS,)),
    "NormalInverseGamma": Case(NormalInverseGamma(0.5, 2.0, 3.0, 1.5), (REALS,)),
    "NormalInverseWishart": Case(NormalInverseWishart([0.5, -0.5], 1.5, 4.5, PSI), (VECTORS,)),
}
each = pytest.mark.parametrize("name", CASES)
each_conjugate = pytest.mark.parametrize("name", [n for n in CASES if n != "Hypotheses"])


def leaves_close(a, b, rtol=1e-10):
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(left, right, rtol=rtol, atol=1e-12)


def split(data):
    return tuple(d[:5] for d in data), tuple(d[5:] for d in data)


# What every belief promises


@each
def test_two_halves_equal_the_whole(name):
    belief, data, _ = CASES[name]
    first, second = split(data)
    whole = belief.condition(*data)
    leaves_close(belief.condition(*first).condition(*second), whole)
    leaves_close(belief.condition_on(belief.statistics(*first) + belief.statistics(*second)), whole)


@each
def test_evidence_follows_the_chain_rule(name):
    belief, data, _ = CASES[name]
    first, second = split(data)
    chain = belief.log_evidence(*first) + belief.condition(*first).log_evidence(*second)
    np.testing.assert_allclose(chain, belief.log_evidence(*data), rtol=1e-10)


@each
def test_jit_and_vmap_equal_eager(name):
    belief, data, _ = CASES[name]
    halves = [belief.statistics(*part) for part in split(data)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *halves)

    def both(statistics):
        return belief.condition_on(statistics), belief.evidence_of(statistics)

    want = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[both(half) for half in halves])
    leaves_close(eqx.filter_jit(both)(halves[0]), both(halves[0]))
    leaves_close(eqx.filter_vmap(both)(stacked), want)


@each
def test_statistics_of_traced_data_need_no_values(name):
    belief, data, _ = CASES[name]
    traced = jax.jit(lambda *d: belief.statistics(*d))(*[jnp.asarray(d, float) for d in data])
    leaves_close(traced, belief.statistics(*data))


@each
def test_prediction_splits_its_doubt(name):
    belief, data, options = CASES[name]
    p = belief.condition(*data).predict(**options)
    np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic)
    doubt = p.entropy() if isinstance(p, predictive.Bernoulli | predictive.Categorical) else p.variance
    np.testing.assert_allclose(p.total, doubt, rtol=1e-12)
    before = belief.predict(**options)
    assert np.all(p.epistemic >= -1e-12)
    # A surprise can widen the spread, but the share of ignorance in the doubt shrinks.
    assert np.sum(p.epistemic) / np.sum(p.total) < np.sum(before.epistemic) / np.sum(before.total)


@each
def test_prediction_is_the_evidence_of_the_next_outcome(name):
    belief, data, _ = CASES[name]
    posterior = belief.condition(*data)
    one = tuple(d[:1] for d in data)
    options = {"BetaBinomial": {"trials": int(TRIALS[0])}, "GammaPoisson": {"exposure": EXPOSURE[0]}}.get(name, {})
    if name == "DirichletMultinomial":
        options = {"trials": int(COUNTS[0].sum())}
    outcome = one[0][0]
    np.testing.assert_allclose(posterior.predict(**options).log_prob(outcome), posterior.log_evidence(*one), rtol=1e-8)


@each
def test_gradient_of_the_evidence_is_finite_and_right(name):
    belief, data, _ = CASES[name]
    statistics = belief.statistics(*data)
    slots = params.layout(belief)
    start = params.to_vector(belief, slots)

    def evidence(u):
        return params.from_vector(belief, slots, u).evidence_of(statistics)

    slope = np.asarray(jax.jit(jax.grad(evidence))(start))
    step = 1e-5 * np.eye(len(start))
    evaluate = jax.jit(jax.vmap(evidence))
    numeric = (evaluate(start + step) - evaluate(start - step)) / 2e-5
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-6)


@each_conjugate
def test_vocabulary(name):
    belief, data, _ = CASES[name]
    assert isinstance(belief, Conjugate)
    posterior = belief.condition(*data)
    assert posterior.strength > belief.strength
    draws = posterior.sample_parameters(4000, seed=2)
    mean = jax.tree.leaves(posterior.estimate)
    level = jax.tree.leaves(posterior.credible_interval(0.8))
    for i, (draw, want) in enumerate(zip(jax.tree.leaves(draws), mean, strict=True)):
        draw = np.asarray(draw)
        se = draw.std(0, ddof=1) / np.sqrt(len(draw))
        assert np.all(np.abs(draw.mean(0) - want) < 4.5 * se)
        if name == "NormalInverseWishart" and i == 1:
            draw = np.diagonal(draw, axis1=1, axis2=2)
        low, high = level[2 * i : 2 * i + 2]
        for end, tail in ((low, 0.1), (high, 0.9)):
            below = (draw <= end).mean(0)
            assert np.all(np.abs(below - tail) < 4.5 * np.sqrt(0.09 / len(draw)))
    with pytest.raises(DataError, match="write 95 % as 0.95"):
        posterior.credible_interval(95)


@each_conjugate
def test_map_is_the_highest_point_of_the_density(name):
    belief, data, _ = CASES[name]
    posterior = belief.condition(*data)
    mode = posterior.mode()
    top = posterior.log_prob(mode)
    leaves, structure = jax.tree.flatten(mode)
    rng = np.random.default_rng(0)
    for _ in range(20):
        near = [leaf + 0.02 * rng.normal(size=np.shape(leaf)) for leaf in leaves]
        if name.startswith("Dirichlet"):
            near = [near[0] / near[0].sum()]
        if name == "NormalInverseWishart":
            near[1] = (near[1] + near[1].T) / 2
        assert posterior.log_prob(jax.tree.unflatten(structure, near)) < top


@each_conjugate
def test_posterior_density_is_likelihood_times_prior_over_evidence(name):
    # log p(θ | D) - log p(θ) + log p(D) = log p(D | θ), the same for any θ and the product over rows.
    belief, data, _ = CASES[name]
    posterior, evidence = belief.condition(*data), belief.log_evidence(*data)
    theta = {
        "BetaBernoulli": 0.37,
        "BetaBinomial": 0.37,
        "DirichletCategorical": np.array([0.2, 0.3, 0.5]),
        "DirichletMultinomial": np.array([0.2, 0.3, 0.5]),
        "GammaPoisson": 2.2,
        "NormalKnownVariance": 0.9,
        "NormalInverseGamma": (0.9, 1.7),
        "NormalInverseWishart": (np.array([0.7, -0.3]), np.array([[1.0, 0.2], [0.2, 0.6]])),
    }[name]
    likelihood = {
        "BetaBernoulli": lambda: st.bernoulli.logpmf(COINS, theta),
        "BetaBinomial": lambda: st.binom.logpmf(SUCCESSES, TRIALS, theta),
        "DirichletCategorical": lambda: np.log(theta)[CLASSES],
        "DirichletMultinomial": lambda: st.multinomial.logpmf(COUNTS, COUNTS.sum(1), theta),
        "GammaPoisson": lambda: st.poisson.logpmf(EVENTS, theta * EXPOSURE),
        "NormalKnownVariance": lambda: st.norm.logpdf(REALS, theta, np.sqrt(3.0)),
        "NormalInverseGamma": lambda: st.norm.logpdf(REALS, theta[0], np.sqrt(theta[1])),
        "NormalInverseWishart": lambda: st.multivariate_normal.logpdf(VECTORS, *theta),
    }[name]()
    got = posterior.log_prob(theta) - belief.log_prob(theta) + evidence
    np.testing.assert_allclose(got, np.sum(likelihood), rtol=1e-9)


# Closed forms against quadrature and SciPy


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("BetaBernoulli", 0, 1), ("BetaBinomial", 0, 1), ("GammaPoisson", 0, 60), ("NormalKnownVariance", -30, 30)],
)
def test_evidence_and_posterior_mean_by_quadrature(name, low, high):
    belief, data, _ = CASES[name]
    prior = {
        "BetaBernoulli": st.beta(2.0, 0.7),
        "BetaBinomial": st.beta(1.5, 3.0),
        "GammaPoisson": st.gamma(2.0, scale=1 / 0.8),
        "NormalKnownVariance": st.norm(0.5, np.sqrt(2.0)),
    }[name]
    likelihood = {
        "BetaBernoulli": lambda t: st.bernoulli.pmf(COINS, t),
        "BetaBinomial": lambda t: st.binom.pmf(SUCCESSES, TRIALS, t),
        "GammaPoisson": lambda t: st.poisson.pmf(EVENTS, t * EXPOSURE),
        "NormalKnownVariance": lambda t: st.norm.pdf(REALS, t, np.sqrt(3.0)),
    }[name]
    posterior = belief.condition(*data)
    center, scale = float(posterior.estimate), 1e12  # the likelihood is tiny: keep the integrand near 1

    def joint(t, power):
        return scale * t**power * np.prod(likelihood(t)) * prior.pdf(t)

    options = {"points": [center], "epsabs": 0, "epsrel": 1e-11, "limit": 400}
    z, first, second = (scipy.integrate.quad(joint, low, high, args=(k,), **options)[0] for k in range(3))
    np.testing.assert_allclose(belief.log_evidence(*data), np.log(z / scale), rtol=1e-8)
    np.testing.assert_allclose(posterior.estimate, first / z, rtol=1e-8)
    draws = np.asarray(posterior.sample_parameters(4000, seed=1))
    assert abs(np.mean(draws**2) - second / z) < 4.5 * np.std(draws**2) / np.sqrt(4000)
    np.testing.assert_allclose(np.exp(belief.log_prob(0.4)), prior.pdf(0.4), rtol=1e-9)


def test_normal_inverse_gamma_evidence_by_quadrature():
    belief, data, _ = CASES["NormalInverseGamma"]

    u, v = np.linspace(-8, 9, 101)[:, None], np.linspace(-4, 6, 101)
    variance = np.exp(v)
    log_joint = st.invgamma.logpdf(variance, 3.0, scale=1.5) + st.norm.logpdf(u, 0.5, np.sqrt(variance / 2.0)) + v
    for y in data[0][:4]:
        log_joint = log_joint + st.norm.logpdf(y, u, np.sqrt(variance))
    z = np.exp(log_joint).sum() * (u[1, 0] - u[0, 0]) * (v[1] - v[0])
    np.testing.assert_allclose(belief.log_evidence(data[0][:4]), np.log(z), rtol=1e-8)


def test_normal_inverse_gamma_agrees_with_scipy():
    posterior = CASES["NormalInverseGamma"].belief.condition(REALS)
    m, k, a, b = (float(v) for v in (posterior.mean, posterior.strength, posterior.shape, posterior.scale))
    p = posterior.predict()
    oracle = st.t(2 * a, m, np.sqrt(b / a * (1 + 1 / k)))
    np.testing.assert_allclose(p.log_prob(2.3), oracle.logpdf(2.3), rtol=1e-10)
    np.testing.assert_allclose(p.aleatoric, posterior.estimate.variance, rtol=1e-10)
    np.testing.assert_allclose(posterior.estimate.variance, st.invgamma.mean(a, scale=b), rtol=1e-10)
    interval = posterior.credible_interval(0.9)
    np.testing.assert_allclose(interval.variance, st.invgamma.interval(0.9, a, scale=b), rtol=1e-8)
    np.testing.assert_allclose(interval.mean, st.t.interval(0.9, 2 * a, m, np.sqrt(b / (a * k))), rtol=1e-8)
    want = st.invgamma.logpdf(1.3, a, scale=b) + st.norm.logpdf(0.2, m, np.sqrt(1.3 / k))
    np.testing.assert_allclose(posterior.log_prob((0.2, 1.3)), want, rtol=1e-10)
    assert np.isinf(NormalInverseGamma().estimate.variance)


def test_normal_inverse_wishart_agrees_with_scipy():
    belief = CASES["NormalInverseWishart"].belief
    posterior = belief.condition(VECTORS)
    scatter = (VECTORS - VECTORS.mean(0)).T @ (VECTORS - VECTORS.mean(0))
    delta = VECTORS.mean(0) - [0.5, -0.5]
    np.testing.assert_allclose(posterior.scale, PSI + scatter + 1.5 * 12 / 13.5 * np.outer(delta, delta), rtol=1e-10)
    df = float(posterior.df) - 1
    scale = np.asarray(posterior.scale) * (1 + 1 / 13.5) / df
    oracle = st.multivariate_t(np.asarray(posterior.mean), scale, df=df)
    np.testing.assert_allclose(posterior.predict().log_prob(VECTORS[:4]), oracle.logpdf(VECTORS[:4]), rtol=1e-10)
    covariance = np.array([[1.0, 0.2], [0.2, 0.6]])
    want = st.invwishart.logpdf(covariance, 4.5, PSI) + st.multivariate_normal.logpdf(
        [0.1, 0.2], [0.5, -0.5], covariance / 1.5
    )
    np.testing.assert_allclose(belief.log_prob(([0.1, 0.2], covariance)), want, rtol=1e-10)
    np.testing.assert_allclose(posterior.estimate.covariance, np.asarray(posterior.scale) / (16.5 - 3), rtol=1e-10)
    default = NormalInverseWishart([0.0, 0.0])
    np.testing.assert_allclose(default.estimate.covariance, np.eye(2))


def test_one_dimension_of_the_wishart_is_the_gamma():
    wishart = NormalInverseWishart([0.5], 2.0, 6.0, [[3.0]])
    gamma = NormalInverseGamma(0.5, 2.0, 3.0, 1.5)
    np.testing.assert_allclose(wishart.log_evidence(REALS[:, None]), gamma.log_evidence(REALS), rtol=1e-10)
    np.testing.assert_allclose(wishart.predict().cdf([1.0])[0], gamma.predict().cdf(1.0), rtol=1e-10)


def test_predictions_of_counts_agree_with_scipy():
    y = np.arange(6)
    coin = BetaBernoulli(2.0, 0.7)
    np.testing.assert_allclose(
        jax.vmap(coin.predict(trials=5).log_prob)(y), st.betabinom(5, 2.0, 0.7).logpmf(y), rtol=1e-9
    )
    np.testing.assert_allclose(BetaBinomial(2.0, 0.7).predict([5, 2]).mean, [50 / 13.5, 20 / 13.5], rtol=1e-10)
    rates = GammaPoisson(2.0, 0.8).predict([1.0, 2.5])
    want = st.nbinom(2.0, [0.8 / 1.8, 0.8 / 3.3]).logpmf(y[:, None])
    np.testing.assert_allclose(jax.vmap(rates.log_prob)(jnp.stack([y, y], axis=1)), want, rtol=1e-9)
    die, oracle = DirichletCategorical([1.5, 2.0, 0.4]), st.dirichlet_multinomial([1.5, 2.0, 0.4], 4)
    np.testing.assert_allclose(die.predict(trials=4).log_prob([1, 2, 1]), oracle.logpmf([1, 2, 1]), rtol=1e-9)


def test_expected_entropy_of_coin_and_die():
    def entropy(t, a, b):
        return st.bernoulli(t).entropy() * st.beta.pdf(t, a, b)

    for a, b in ((2.0, 0.7), (1.0, 1.0), (30.0, 5.0)):
        want = scipy.integrate.quad(entropy, 0, 1, args=(a, b), epsabs=1e-13, limit=200)[0]
        np.testing.assert_allclose(BetaBernoulli(a, b).predict().aleatoric, want, rtol=1e-8)
        np.testing.assert_allclose(DirichletCategorical([b, a]).predict().aleatoric, want, rtol=1e-8)
    alpha = np.array([1.5, 2.0, 0.4])

    def surprise(t, a):
        return -scipy.special.xlogy(t, t) * st.beta.pdf(t, a, 3.9 - a)

    want = sum(scipy.integrate.quad(surprise, 0, 1, args=(a,), epsabs=1e-13, limit=400)[0] for a in alpha)
    np.testing.assert_allclose(DirichletCategorical(alpha).predict().aleatoric, want, rtol=1e-8)


@pytest.mark.parametrize("name", ["BetaBernoulli", "NormalInverseGamma"])
def test_prior_predictive_simulation(name):
    belief = CASES[name].belief
    theta = belief.sample_parameters(8000, seed=7)
    rng = np.random.default_rng(1)
    if name == "BetaBernoulli":
        p = belief.predict(trials=6)
        draws = rng.binomial(6, np.asarray(theta))
    else:
        p = belief.predict()
        draws = rng.normal(np.asarray(theta.mean), np.sqrt(np.asarray(theta.variance)))
    assert abs(draws.mean() - p.mean) < 4.5 * draws.std() / np.sqrt(8000)
    squares = (draws - float(p.mean)) ** 2
    assert abs(squares.mean() - p.variance) < 4.5 * squares.std() / np.sqrt(8000)


def test_maximum_likelihood():
    np.testing.assert_allclose(BetaBernoulli().condition(COINS, using=ML()).estimate, COINS.mean())
    np.testing.assert_allclose(
        BetaBinomial().condition(SUCCESSES, TRIALS, using=ML()).estimate, SUCCESSES.sum() / TRIALS.sum()
    )
    np.testing.assert_allclose(
        DirichletCategorical([1.0] * 3).condition(CLASSES, using=ML()).estimate, np.bincount(CLASSES, minlength=3) / 12
    )
    np.testing.assert_allclose(
        DirichletMultinomial([1.0] * 3).condition(COUNTS, using=ML()).estimate, COUNTS.sum(0) / COUNTS.sum()
    )
    np.testing.assert_allclose(GammaPoisson().condition(EVENTS, using=ML()).estimate, EVENTS.mean())
    np.testing.assert_allclose(
        GammaPoisson().condition(EVENTS, EXPOSURE, using=ML()).estimate, EVENTS.sum() / EXPOSURE.sum()
    )
    np.testing.assert_allclose(NormalKnownVariance().condition(REALS, using=ML()).estimate, REALS.mean())
    np.testing.assert_allclose(NormalInverseGamma().condition(REALS, using=ML()).estimate, (REALS.mean(), REALS.var()))
    got = NormalInverseWishart([0.0, 0.0]).condition(VECTORS, using=ML()).estimate
    np.testing.assert_allclose(got.covariance, np.cov(VECTORS.T, bias=True))
    with pytest.raises(DataError, match="all values are equal"):
        NormalInverseGamma().condition([1.0, 1.0], using=ML())
    with pytest.raises(DataError, match="span fewer than 2 dimensions"):
        NormalInverseWishart([0.0, 0.0]).condition(VECTORS[:2], using=ML())


def test_map_of_a_flat_prior_is_maximum_likelihood_and_dirichlet_has_minus_one():
    np.testing.assert_allclose(BetaBernoulli().condition(COINS).mode(), COINS.mean())
    np.testing.assert_allclose(BetaBernoulli().condition([0, 0, 0]).mode(), 0.0)
    counts = np.bincount(CLASSES, minlength=3)
    alpha = np.array([2.0, 3.0, 1.5])
    want = (alpha + counts - 1) / (alpha.sum() + 12 - 3)
    np.testing.assert_allclose(DirichletCategorical(alpha).condition(CLASSES).mode(), want)


@pytest.mark.parametrize(
    "belief", [BetaBernoulli(), BetaBernoulli(0.5, 3.0), DirichletCategorical([1.0, 1.0]), GammaPoisson(0.9, 1.0)]
)
def test_map_is_refused_where_there_is_no_mode(belief):
    with pytest.raises(DataError, match=r"use .estimate \(the mean\)"):
        belief.mode()


def test_moments_survive_a_large_mean():
    shifted = REALS + 1e8
    parts = Moments.of(shifted[:5]) + Moments.of(shifted[5:])
    exact = REALS + 1e8 - 1e8  # what is left of the data after rounding
    np.testing.assert_allclose(parts.squares, np.sum((exact - exact.mean()) ** 2), rtol=1e-7)
    near = NormalInverseGamma(1e8, 1.0, 2.0, 1.0).log_evidence(shifted)
    np.testing.assert_allclose(near, NormalInverseGamma(0.0, 1.0, 2.0, 1.0).log_evidence(exact), rtol=1e-7)


def test_evidence_is_accurate_for_a_strong_prior():
    # With a + b = 2e12 pseudo-observations the coin is all but known: log p → Σ log ½.
    np.testing.assert_allclose(BetaBernoulli(1e12, 1e12).log_evidence(COINS), -12 * np.log(2), rtol=1e-11)
    np.testing.assert_allclose(
        GammaPoisson(3e12, 1e12).log_evidence(EVENTS), st.poisson.logpmf(EVENTS, 3.0).sum(), rtol=1e-9
    )


# Hypotheses


def test_hypotheses_by_enumeration():
    belief, (x,), _ = CASES["Hypotheses"]
    prior = np.array([0.5, 0.3, 0.2])
    joint = prior * np.prod(TABLE[x], axis=0)
    posterior = belief.condition(x)
    np.testing.assert_allclose(posterior.probs, joint / joint.sum(), rtol=1e-10)
    np.testing.assert_allclose(belief.log_evidence(x), np.log(joint.sum()), rtol=1e-10)
    p = posterior.predict()
    np.testing.assert_allclose(p.probs, TABLE @ posterior.probs, rtol=1e-10)
    np.testing.assert_allclose(p.aleatoric, posterior.probs @ st.entropy(TABLE, axis=0), rtol=1e-10)
    assert int(np.argmax(posterior.mode())) == int(np.argmax(joint)) and float(posterior.mode().sum()) == 1.0
    most_likely = belief.condition(x, using=ML())
    assert int(np.argmax(most_likely.estimate)) == int(np.argmax(np.prod(TABLE[x], axis=0)))
    np.testing.assert_allclose(most_likely.predict().probs, TABLE[:, int(np.argmax(most_likely.estimate))], rtol=1e-12)
    np.testing.assert_allclose(posterior.log_prob([2, 0]), posterior.log_probs[jnp.asarray([2, 0])])
    np.testing.assert_allclose(posterior.estimate, posterior.probs)
    draws = np.asarray(posterior.sample_parameters(4000, seed=1))
    probs = np.asarray(posterior.probs)
    share = np.bincount(draws, minlength=3) / 4000
    assert np.all(np.abs(share - probs) <= 4.5 * np.sqrt(probs * (1 - probs) / 4000))
    assert belief.credible_set(0.5) == (0,)
    assert belief.credible_set(0.79) == (0, 1)
    assert belief.credible_set(0.99) == (0, 1, 2)


def test_hypotheses_come_back_from_far():
    # After 2000 outcomes one hypothesis is e^-1000 as probable as the other; 2000 more make them even again.
    belief = Hypotheses([[0.6, 0.4], [0.4, 0.6]], names=["heads", "tails"])
    there = belief.condition(np.zeros(4000))
    assert there.log_probs[1] < -1600
    back = there.condition(np.ones(4000))
    np.testing.assert_allclose(back.probs, [0.5, 0.5])
    assert back.names == ("heads", "tails")


def test_impossible_outcomes_are_refused():
    belief = Hypotheses([[1.0, 0.5], [0.0, 0.5], [0.0, 0.0]])
    np.testing.assert_allclose(belief.condition([0, 1]).probs, [0.0, 1.0])
    with pytest.raises(DataError, match="impossible under every hypothesis"):
        belief.condition([2])
    assert belief.log_evidence([2]) == -np.inf


# Bad input


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: BetaBernoulli().condition([0, 1, 2]), "outcomes must hold whole numbers from 0 to 1, found 2"),
        (lambda: BetaBernoulli().condition([0.5]), "whole numbers from 0 to 1"),
        (lambda: BetaBernoulli().condition([]), "outcomes is empty"),
        (lambda: BetaBernoulli(-1.0, 1.0), "a must be finite and > 0"),
        (lambda: BetaBernoulli().predict(trials=0), "trials must be whole numbers ≥ 1"),
        (lambda: BetaBernoulli().predict(trials=1.5), "trials must hold whole numbers"),
        (lambda: BetaBinomial().condition([3], [2]), "the second argument is the number of trials, not of failures"),
        (lambda: BetaBinomial().condition([3], [5, 6]), "same length"),
        (lambda: BetaBinomial().condition([-1], [5]), "successes must hold whole numbers ≥ 0, found -1"),
        (lambda: DirichletCategorical([1.0, 1.0]).condition([0, 2]), "classes must hold whole numbers from 0 to 1"),
        (lambda: DirichletCategorical([1.0]), "at least two classes"),
        (lambda: DirichletCategorical([1.0, 0.0]), "alpha must be finite and > 0"),
        (lambda: DirichletCategorical([1.0, 1.0]).predict(trials=[1, 2]), "trials must be one whole number"),
        (lambda: DirichletMultinomial([1.0, 1.0]).condition([[1, 2, 3]]), "one column for each of the 2 classes"),
        (lambda: DirichletMultinomial([1.0, 1.0]).condition([[1, -2]]), "found -2 at row 0, column 1"),
        (lambda: GammaPoisson().condition([1, -1]), "counts must hold whole numbers ≥ 0, found -1 at row 1"),
        (lambda: GammaPoisson().condition([1, 1], [1.0, 0.0]), "exposure must be positive, found 0 at row 1"),
        (lambda: GammaPoisson().condition([1, 1], [1.0]), "exposure must have one value per row"),
        (lambda: GammaPoisson().predict(exposure=0.0), "exposure must be finite and > 0"),
        (lambda: NormalKnownVariance(noise=0.0), "noise must be finite and > 0"),
        (lambda: NormalInverseGamma().condition([1.0, np.nan]), "y contains NaN at row 1"),
        (lambda: NormalInverseWishart([0.0, 0.0]).condition([[1.0, 2.0, 3.0]]), "X must have 2 columns"),
        (lambda: NormalInverseWishart([0.0, 0.0], df=1.0), "df must be finite and > 1"),
        (lambda: NormalInverseWishart([0.0, 0.0], scale=[[1.0]]), r"scale must have shape \(2, 2\)"),
        (lambda: Hypotheses([[0.5, 0.5], [0.5, 0.4]]), "sum to 1"),
        (lambda: Hypotheses([[0.5], [0.5]], prior=[0.5, 0.5]), "prior must have one value per row"),
        (lambda: Hypotheses([[0.5, 1.0], [0.5, 0.0]], names=["one"]), "names must name the 2 hypotheses"),
        (lambda: Hypotheses(TABLE).condition([3]), "outcomes must hold whole numbers from 0 to 2"),
        (lambda: Hypotheses(TABLE).credible_set(95), "write 95 % as 0.95"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_a_sentence(act, message):
    with pytest.raises(DataError, match=message):
        act()
