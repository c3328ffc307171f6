"""Populations that share a Beta distribution, against brute force on dense grids."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special as sp
import scipy.stats as st

import credo
from credo.core.errors import DataError, NotConvergedWarning
from credo.models.conjugate import BetaBinomial, EmpiricalBayes, HierarchicalBernoulli

RNG = np.random.default_rng(11)
TRIALS = RNG.integers(5, 40, 12)
SUCCESSES = RNG.binomial(TRIALS, RNG.beta(2.0, 5.0, 12))
BELIEF = HierarchicalBernoulli()


class Dense:
    """The posterior of (μ, s) on a dense grid in (logit μ, log s), with SciPy's special functions."""

    def __init__(self, successes, trials, prior=(1.0, 1.0, 1.0), n=(401, 601), box=((-12, 12), (-14, 34))):
        a0, b0, c = prior
        u, v = np.linspace(*box[0], n[0]), np.linspace(*box[1], n[1])
        self.u, self.v = (g.ravel() for g in np.meshgrid(u, v, indexing="ij"))
        self.mean, self.strength = sp.expit(self.u), np.exp(self.v)
        a, b = self.mean * self.strength, sp.expit(-self.u) * self.strength
        log_p = a0 * sp.log_expit(self.u) + b0 * sp.log_expit(-self.u) - sp.betaln(a0, b0)
        log_p += np.log(c) + self.v - 2 * np.log(c + self.strength)
        for s, n_k in zip(successes, trials, strict=True):
            log_p += _rising(a, s) + _rising(b, n_k - s) - _rising(a + b, n_k)
        top = log_p.max()
        cell = (u[1] - u[0]) * (v[1] - v[0])
        self.log_evidence = top + np.log(np.exp(log_p - top).sum() * cell)
        weights = np.exp(log_p - top)
        self.weights = weights / weights.sum()
        self.a, self.b = a, b


def _rising(a, n):
    return np.log(a[:, None] + np.arange(n)).sum(axis=1)  # Γ(a + n)/Γ(a) for a whole n


@pytest.fixture(scope="module")
def dense():
    return Dense(SUCCESSES, TRIALS)


@pytest.fixture(scope="module")
def posterior():
    return BELIEF.condition(SUCCESSES, TRIALS)


def orders(successes, trials):
    return np.log(sp.binom(trials, successes)).sum()


def test_evidence_and_estimates_by_brute_force(dense, posterior):
    np.testing.assert_allclose(
        BELIEF.log_evidence(SUCCESSES, TRIALS), dense.log_evidence + orders(SUCCESSES, TRIALS), rtol=1e-8
    )
    want = [dense.weights @ ((dense.a + s) / (dense.a + dense.b + n)) for s, n in zip(SUCCESSES, TRIALS, strict=True)]
    np.testing.assert_allclose(posterior.estimate, want, rtol=1e-7)
    np.testing.assert_allclose(posterior.population_mean, dense.weights @ dense.mean, rtol=1e-7)
    np.testing.assert_allclose(posterior.population_strength, np.exp(dense.weights @ dense.v), rtol=1e-6)


def test_intervals_hold_their_level_by_brute_force(dense, posterior):
    low, high = posterior.credible_interval(0.9)
    wide = dense.strength < 1e5  # beyond, θ = μ to within the width of a cell
    for k in (0, 5, 11):
        s, n = SUCCESSES[k], TRIALS[k]
        for end, level in ((low[k], 0.05), (high[k], 0.95)):
            inside = sp.betainc(dense.a[wide] + s, dense.b[wide] + n - s, float(end))
            pooled = dense.weights[~wide] @ (dense.mean[~wide] < float(end))
            np.testing.assert_allclose(dense.weights[wide] @ inside + pooled, level, atol=2e-5)
    for end, level in zip(posterior.credible_interval_new(0.9), (0.05, 0.95), strict=True):
        inside = sp.betainc(dense.a[wide], dense.b[wide], float(end))
        pooled = dense.weights[~wide] @ (dense.mean[~wide] < float(end))
        np.testing.assert_allclose(dense.weights[wide] @ inside + pooled, level, atol=2e-5)
    draws = np.asarray(posterior.sample_parameters(4000, seed=1))
    below = (draws <= np.asarray(high)).mean(0)
    assert np.all(np.abs(below - 0.95) < 4.5 * np.sqrt(0.95 * 0.05 / 4000))
    assert np.all(np.abs(draws.mean(0) - posterior.estimate) < 4.5 * draws.std(0) / np.sqrt(4000))


def test_predictions_by_brute_force(dense, posterior):
    p = posterior.predict(trials=4)
    mass = np.stack([np.exp(p.log_prob(np.full(12, float(y)))) for y in range(5)])
    np.testing.assert_allclose(mass.sum(0), 1.0, rtol=1e-9)
    k = 3
    a, b = dense.a + SUCCESSES[k], dense.b + TRIALS[k] - SUCCESSES[k]
    given = [sp.binom(4, y) * np.exp(_rising(a, y) + _rising(b, 4 - y) - _rising(a + b, 4)) for y in range(5)]
    np.testing.assert_allclose(mass[:, k], np.stack(given) @ dense.weights, rtol=1e-7)
    np.testing.assert_allclose(p.mean, 4 * posterior.estimate, rtol=1e-9)
    np.testing.assert_allclose(p.variance, np.arange(5) ** 2 @ mass - (np.arange(5) @ mass) ** 2, rtol=1e-8)
    new = posterior.predict_new(trials=2)
    a, b = dense.a, dense.b
    want = np.log(dense.weights @ np.exp(_rising(a, 2) - _rising(a + b, 2)))
    np.testing.assert_allclose(new.log_prob(2.0), want, rtol=1e-7)
    one = posterior.predict()
    np.testing.assert_allclose(one.prob, posterior.estimate, rtol=1e-12)
    np.testing.assert_allclose(one.total, one.aleatoric + one.epistemic)
    assert np.all(one.epistemic > 0)
    np.testing.assert_allclose(posterior.predict_new().prob, posterior.population_mean, rtol=1e-10)
    each = posterior.predict(trials=np.arange(1, 13))
    np.testing.assert_allclose(each.mean, np.arange(1, 13) * posterior.estimate, rtol=1e-9)


def test_two_halves_equal_the_whole_and_the_evidence_follows_the_chain_rule(posterior):
    first = SUCCESSES // 2, TRIALS // 2
    rest = SUCCESSES - first[0], TRIALS - first[1]
    half = BELIEF.condition(*first)
    whole = half.condition(*rest)
    np.testing.assert_allclose(whole.estimate, posterior.estimate, rtol=1e-9)
    chain = BELIEF.log_evidence(*first) + half.log_evidence(*rest)
    coefficients = orders(*first) + orders(*rest) - orders(SUCCESSES, TRIALS)
    np.testing.assert_allclose(chain, BELIEF.log_evidence(SUCCESSES, TRIALS) + coefficients, rtol=1e-8)


def test_traced_equals_eager_and_the_evidence_can_be_learned_from():
    statistics = BELIEF.statistics(SUCCESSES, TRIALS)

    def evidence(log_prior):
        a, b, c = jnp.exp(log_prior)
        return HierarchicalBernoulli(a, b, c).evidence_of(statistics)

    value, slope = jax.jit(jax.value_and_grad(evidence))(jnp.zeros(3))
    np.testing.assert_allclose(value, BELIEF.log_evidence(SUCCESSES, TRIALS), rtol=1e-8)
    for i in range(3):
        ends = [HierarchicalBernoulli(*np.exp(h * np.eye(3)[i])).log_evidence(SUCCESSES, TRIALS) for h in (-1e-4, 1e-4)]
        np.testing.assert_allclose(slope[i], (ends[1] - ends[0]) / 2e-4, rtol=1e-4, atol=1e-6)


def test_shrinkage_pulls_small_populations_most(posterior):
    report = posterior.shrinkage()
    np.testing.assert_allclose(report.raw, SUCCESSES / TRIALS)
    assert np.all(np.argsort(-np.asarray(report.weight), kind="stable") == np.argsort(TRIALS, kind="stable"))
    assert np.all((report.weight > 0) & (report.weight < 1))
    moved = (report.estimate - report.raw) * (report.population_mean - report.raw)
    far = np.abs(report.raw - report.population_mean) > 0.1
    assert np.all(moved[far] > 0)
    assert "common mean" in str(report) and len(str(report).splitlines()) == 14


def test_an_overwhelmingly_strong_prior_pools_the_populations():
    pooled = BetaBinomial(1.0, 1.0).condition(SUCCESSES, TRIALS)
    belief = HierarchicalBernoulli(strength=1e12).condition(SUCCESSES, TRIALS)
    np.testing.assert_allclose(belief.estimate, float(pooled.estimate), rtol=1e-6)
    for got, want in zip(belief.credible_interval(0.9), pooled.credible_interval(0.9), strict=True):
        np.testing.assert_allclose(got, float(want), rtol=1e-5)
    np.testing.assert_allclose(
        HierarchicalBernoulli(strength=1e12).log_evidence(SUCCESSES, TRIALS),
        BetaBinomial(1.0, 1.0).log_evidence(SUCCESSES, TRIALS),
        rtol=1e-7,
    )


def test_an_overwhelmingly_weak_prior_leaves_them_alone():
    belief = HierarchicalBernoulli(strength=1e-12).condition(SUCCESSES[:3], TRIALS[:3])
    # So weak that three populations are not enough to speak against it; each keeps nearly its own frequency.
    assert np.all(np.abs(belief.estimate - SUCCESSES[:3] / TRIALS[:3]) < 0.1)


def test_a_population_without_trials_is_a_new_one(posterior):
    belief = BELIEF.condition(np.append(SUCCESSES, 0), np.append(TRIALS, 0))
    np.testing.assert_allclose(belief.estimate[:-1], posterior.estimate, rtol=1e-8)
    np.testing.assert_allclose(belief.estimate[-1], posterior.population_mean, rtol=1e-8)
    report = belief.shrinkage()
    np.testing.assert_allclose(report.weight[-1], 1.0)
    np.testing.assert_allclose(report.raw[-1], belief.estimate[-1])


def test_prior_belief_predicts_a_new_population():
    np.testing.assert_allclose(BELIEF.population_mean, 0.5, rtol=1e-8)
    np.testing.assert_allclose(BELIEF.population_strength, 1.0, rtol=1e-7)
    np.testing.assert_allclose(HierarchicalBernoulli(2.0, 6.0, 3.0).predict_new().prob, 0.25, rtol=1e-8)
    np.testing.assert_allclose(BELIEF.log_evidence([1], [1]), np.log(0.5), rtol=1e-8)


@pytest.mark.parametrize(
    ("successes", "trials"),
    [([0, 0, 0], [5, 9, 2]), ([4, 4], [4, 4]), ([0, 7, 0, 7], [7, 7, 7, 7]), ([300000, 500000], [1000000, 1000000])],
)
def test_extreme_data_by_brute_force(successes, trials):
    if max(trials) < 100:
        dense = Dense(successes, trials, n=(501, 701), box=((-25, 25), (-30, 30)))
        got = BELIEF.log_evidence(successes, trials) - orders(successes, trials)
        np.testing.assert_allclose(got, dense.log_evidence, rtol=1e-7)
    belief = BELIEF.condition(successes, trials)
    low, high = belief.credible_interval(0.95)
    assert np.all((low >= 0) & (low < belief.estimate) & (belief.estimate < high) & (high <= 1))


# Empirical Bayes


def negative_log_likelihood(point):
    a, b = np.exp(point)
    return -np.sum(sp.betaln(a + SUCCESSES, b + TRIALS - SUCCESSES) - sp.betaln(a, b))


def test_empirical_bayes_maximizes_the_marginal_likelihood():
    belief = BELIEF.condition(SUCCESSES, TRIALS, using=EmpiricalBayes())
    best = scipy.optimize.minimize(
        negative_log_likelihood, np.log([2.0, 5.0]), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    )
    a, b = np.exp(best.x)
    np.testing.assert_allclose(belief.population_mean, a / (a + b), rtol=1e-6)
    np.testing.assert_allclose(belief.population_strength, a + b, rtol=1e-4)
    np.testing.assert_allclose(belief.estimate, (a + SUCCESSES) / (a + b + TRIALS), rtol=1e-5)
    s = float(belief.population_strength)
    mean = float(belief.population_mean)
    oracle = st.beta(mean * s + SUCCESSES, (1 - mean) * s + TRIALS - SUCCESSES)
    np.testing.assert_allclose(belief.credible_interval(0.9), oracle.interval(0.9), rtol=1e-8)
    # Then it is a product of Beta-binomials.
    more = np.ones(12), np.full(12, 2)
    want = st.betabinom(2, mean * s + SUCCESSES, (1 - mean) * s + TRIALS - SUCCESSES).logpmf(1).sum()
    np.testing.assert_allclose(belief.log_evidence(*more), want, rtol=1e-8)
    after = belief.condition(*more)
    np.testing.assert_allclose(after.population_strength, belief.population_strength)
    np.testing.assert_allclose(after.seen.trials, TRIALS + 2)


def test_empirical_bayes_is_near_full_bayes_with_many_populations():
    rng = np.random.default_rng(5)
    trials = np.full(400, 50)
    successes = rng.binomial(trials, rng.beta(4.0, 16.0, 400))
    full = BELIEF.condition(successes, trials)
    plugged = BELIEF.condition(successes, trials, using=EmpiricalBayes())
    np.testing.assert_allclose(full.population_mean, plugged.population_mean, rtol=0.01)
    np.testing.assert_allclose(full.population_strength, plugged.population_strength, rtol=0.1)
    np.testing.assert_allclose(full.population_mean, 0.2, rtol=0.1)
    np.testing.assert_allclose(full.estimate, plugged.estimate, rtol=0.02)


@pytest.mark.parametrize(
    ("successes", "trials", "message"),
    [
        ([5, 5, 5], [10, 10, 10], "no differences between populations"),
        ([0, 0, 0], [10, 10, 10], "all outcomes are the same"),
        ([0, 10, 0, 10], [10, 10, 10, 10], "all successes or all failures"),
    ],
)
def test_empirical_bayes_warns_at_its_bounds(successes, trials, message):
    with pytest.warns(NotConvergedWarning, match=message):
        BELIEF.condition(successes, trials, using=EmpiricalBayes())


def test_bad_input_is_refused(posterior):
    with pytest.raises(DataError, match="successes must not exceed trials, found 3 of 2"):
        BELIEF.condition([3], [2])
    with pytest.raises(DataError, match="each of the 12 populations seen before, found 2"):
        posterior.condition([1, 1], [2, 2])
    with pytest.raises(DataError, match="no population has been seen"):
        BELIEF.predict()
    with pytest.raises(DataError, match="one for each prediction"):
        posterior.predict(trials=[1, 2])
    with pytest.raises(DataError, match="write 95 % as 0.95"):
        posterior.credible_interval(95)
    with pytest.raises(DataError, match="strength must be finite and > 0"):
        HierarchicalBernoulli(strength=0.0)


def test_a_file_brings_it_back(posterior, tmp_path):
    again = credo.load(credo.save(posterior, tmp_path / "belief"))
    np.testing.assert_array_equal(again.estimate, posterior.estimate)
