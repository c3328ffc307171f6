"""Every kind of prediction against SciPy or brute force, and what all kinds must satisfy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats as st

from credo.core.errors import DataError
from credo.core.predictive import (
    Bernoulli,
    BetaBinomial,
    Categorical,
    DirichletMultinomial,
    Laplace,
    LogNormal,
    Mixture,
    MultivariateT,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
    Warp,
    Warped,
    mixture,
)

MEAN = np.array([-1.0, 0.5, 30.0])
NOISE = np.array([0.3, 1.0, 4.0])
LATENT = np.array([0.2, 2.0, 0.5])
DF = np.array([3.0, 1.5, 40.0])
SCALE = np.sqrt(NOISE + LATENT)
TRIALS, A, B = np.array([5.0, 12.0, 1.0]), np.array([0.7, 2.0, 3.0]), np.array([1.5, 8.0, 0.4])
SHAPE, RATE, EXPOSURE = np.array([0.5, 3.0, 20.0]), np.array([1.0, 0.25, 2.0]), np.array([1.0, 2.0, 0.5])
WEIGHTS = np.array([0.5, 0.3, 0.2])
RATES = np.array([[0.2, 1.0, 6.0], [3.0, 3.5, 4.0], [10.0, 2.0, 40.0]])
PSI = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.2], [0.1, -0.2, 0.5]])
ALPHA = np.array([0.8, 2.0, 3.5])
PROBS = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0], [0.3, 0.4, 0.3]])

LOG_MEAN, LOG_NOISE, LOG_LATENT = np.array([-1.0, 0.5, 3.4]), np.array([0.1, 0.4, 0.02]), np.array([0.2, 0.3, 0.01])


class Logarithm(Warp):
    """The warp whose predictions are `LogNormal`."""

    def __call__(self, y):
        return jnp.log(y)

    def inverse(self, z):
        return jnp.exp(z)

    def log_slope(self, y):
        return -jnp.log(y)

    def inside(self, y):
        return y > 0


KINDS = {
    "normal": Normal(MEAN, NOISE, LATENT),
    "student": StudentT(DF, MEAN, NOISE, LATENT),
    "laplace": Laplace(MEAN, SCALE),
    "lognormal": LogNormal(LOG_MEAN, LOG_NOISE, LOG_LATENT),
    "warped": Warped(Normal(LOG_MEAN, LOG_NOISE, LOG_LATENT), Logarithm()),
    "beta-binomial": BetaBinomial(TRIALS, A, B, 12),
    "negative-binomial": NegativeBinomial(SHAPE, RATE, EXPOSURE),
    "poisson-mixture": Mixture(WEIGHTS, (Poisson(RATES.T),)),
    "multivariate-t": MultivariateT(5.0, MEAN, PSI, 0.3 * PSI),
    "dirichlet-multinomial": DirichletMultinomial(6, ALPHA),
    "categorical": Categorical(PROBS, [0.3, 0.2, 0.9]),
    "bernoulli": Bernoulli([0.2, 0.5, 0.9], [0.4, 0.3, 0.1]),
    "mixture": mixture(
        [0.2, 0.5, 0.3],
        [Normal(MEAN, NOISE, LATENT), Normal(-MEAN, NOISE, LATENT), Laplace(MEAN, NOISE)],
    ),
    "mixture-of-counts": mixture([0.4, 0.6], [BetaBinomial(TRIALS, A, B, 12), BetaBinomial(TRIALS, B, A, 12)]),
}
# The scalar distributions that the kinds should agree with, one per query.
ORACLES = {
    "normal": [st.norm(m, s) for m, s in zip(MEAN, SCALE, strict=True)],
    "student": [st.t(v, m, s) for v, m, s in zip(DF, MEAN, SCALE, strict=True)],
    "laplace": [st.laplace(m, s) for m, s in zip(MEAN, SCALE, strict=True)],
    "lognormal": [
        st.lognorm(np.sqrt(n + f), scale=np.exp(m)) for m, n, f in zip(LOG_MEAN, LOG_NOISE, LOG_LATENT, strict=True)
    ],
    "warped": [
        st.lognorm(np.sqrt(n + f), scale=np.exp(m)) for m, n, f in zip(LOG_MEAN, LOG_NOISE, LOG_LATENT, strict=True)
    ],
    "beta-binomial": [st.betabinom(int(n), a, b) for n, a, b in zip(TRIALS, A, B, strict=True)],
    "negative-binomial": [st.nbinom(a, b / (b + t)) for a, b, t in zip(SHAPE, RATE, EXPOSURE, strict=True)],
    "multivariate-t": [st.t(5.0, m, s) for m, s in zip(MEAN, np.sqrt(1.3 * np.diag(PSI)), strict=True)],
    "dirichlet-multinomial": [st.betabinom(6, a, ALPHA.sum() - a) for a in ALPHA],
    "bernoulli": [st.bernoulli(p) for p in (0.2, 0.5, 0.9)],
}
JOINT = {"multivariate-t", "dirichlet-multinomial"}  # one log_prob for the vector
each_kind = pytest.mark.parametrize("kind", KINDS)
each_oracle = pytest.mark.parametrize("kind", ORACLES)


def pmf(prediction, values):
    table = jnp.broadcast_to(jnp.asarray(values, dtype=float)[:, None], (len(values), 3))
    return np.exp(eqx.filter_jit(lambda p, y: jax.vmap(p.log_prob)(y))(prediction, table))


@each_oracle
def test_log_prob_and_cdf_agree_with_scipy(kind):
    p, oracle = KINDS[kind], ORACLES[kind]
    grid = [0.0, 1.0, 4.0] if p.discrete else [-40.0, -1.3, -0.99999999, 0.0, 0.5, 2.2, 31.0, 200.0]
    for y in grid:
        if kind not in JOINT:
            want = [d.logpmf(y) if p.discrete else d.logpdf(y) for d in oracle]
            np.testing.assert_allclose(p.log_prob(np.full(3, y)), want, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(p.cdf(np.full(3, y)), [d.cdf(y) for d in oracle], rtol=1e-9, atol=1e-12)


@each_oracle
def test_quantiles_moments_and_entropy_agree_with_scipy(kind):
    p, oracle = KINDS[kind], ORACLES[kind]
    for q in (0.001, 0.3, 0.5, 0.77, 0.999):
        np.testing.assert_allclose(p.quantile(q), [d.ppf(q) for d in oracle], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(p.mean, [d.mean() for d in oracle], rtol=1e-10)
    np.testing.assert_allclose(p.variance, [d.var() for d in oracle], rtol=1e-10)
    if kind != "multivariate-t":
        np.testing.assert_allclose(p.entropy(), [d.entropy() for d in oracle], rtol=1e-8)


def test_student_cdf_is_exact_near_the_center_and_for_many_degrees_of_freedom():
    z = np.array([1e-9, 1e-7, 1e-3, 0.9, 1.1, -8.0])
    for df in (0.5, 2.0, 30.0, 1e6):
        p = StudentT(np.full(6, df), np.zeros(6), np.ones(6), np.zeros(6))
        np.testing.assert_allclose(p.cdf(z) - 0.5, st.t.cdf(z, df) - 0.5, rtol=1e-8, atol=1e-16)
    far = StudentT(2.0, 0.0, 1.0, 0.0)
    np.testing.assert_allclose(far.cdf(-1e6), st.t.cdf(-1e6, 2.0), rtol=1e-8)


@each_kind
def test_quantile_inverts_the_cdf(kind):
    p = KINDS[kind]
    if p.discrete:
        for q in (0.05, 0.25, 0.5, 0.9, 0.999):
            y = np.asarray(p.quantile(q), float)
            assert np.all(p.cdf(y) >= q - 1e-9)
            assert np.all(p.cdf(y - 1) < q)
    else:
        for y in (
            np.exp([LOG_MEAN - 0.5, LOG_MEAN + 0.1]) if kind in ("lognormal", "warped") else (MEAN - 2.0, MEAN + 0.1)
        ):
            q = np.asarray(p.cdf(y))
            got = np.array([p.quantile(level)[i] for i, level in enumerate(q)])
            np.testing.assert_allclose(got, y, rtol=1e-8, atol=1e-9)


@each_kind
def test_interval_holds_its_level(kind):
    p = KINDS[kind]
    low, high = p.interval(0.8)
    inside = p.cdf(high) - p.cdf(low - 1 if p.discrete else low)
    assert np.all(inside >= 0.8 - 1e-9)
    if not p.discrete:
        np.testing.assert_allclose(inside, 0.8, rtol=1e-9)
        np.testing.assert_allclose(p.interval(0.8).width, high - low)
    np.testing.assert_array_equal(p.median, p.quantile(0.5))
    np.testing.assert_allclose(p.quantile([0.1, 0.9]), [p.quantile(0.1), p.quantile(0.9)], rtol=1e-12)


@each_kind
def test_total_is_aleatoric_plus_epistemic(kind):
    p = KINDS[kind]
    np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic)
    if kind in ("categorical", "bernoulli"):
        np.testing.assert_allclose(p.total, p.entropy(), rtol=1e-12)
    else:
        np.testing.assert_array_equal(p.variance, p.total)
        np.testing.assert_array_equal(p.std, np.sqrt(p.variance))
    assert p.shape == (3,)
    assert len(p) == 3


@each_kind
def test_samples_have_the_predicted_moments(kind):
    p = KINDS[kind]
    n = 4000
    draws = np.asarray(p.sample(n, seed=1), float)
    assert draws.shape == (n, 3)
    np.testing.assert_array_equal(draws, p.sample(n, seed=1))
    assert np.any(draws != p.sample(n, seed=2))
    for level in (0.2, 0.5, 0.9):  # the fraction below a quantile: finite variance whatever the tails
        at = np.asarray(p.quantile(level), float)
        want = np.asarray(p.cdf(at))
        se = np.sqrt(np.maximum(want * (1 - want), 1e-3) / n)
        assert np.all(np.abs((draws <= at).mean(0) - want) < 4.5 * se)
    if kind not in ("student", "categorical"):  # infinite variance at df = 1.5; probabilities are no mean
        se = draws.std(0, ddof=1) / np.sqrt(n)
        assert np.all(np.abs(draws.mean(0) - p.mean) < 4.5 * se)


@each_kind
def test_indexing_keeps_the_chosen_queries(kind):
    p = KINDS[kind]
    y = np.array([1.0, 0.0, 1.0])
    some = p[1:]
    assert len(some) == 2
    np.testing.assert_allclose(some.mean, p.mean[1:], rtol=1e-12)
    np.testing.assert_allclose(some.total, p.total[1:], rtol=1e-12)
    np.testing.assert_allclose(some.cdf(y[1:]), p.cdf(y)[1:], rtol=1e-12)
    one = p[2]
    assert one.shape == ()
    np.testing.assert_allclose(one.quantile(0.4), p.quantile(0.4)[2], rtol=1e-12)
    with pytest.raises(TypeError, match="single outcome"):
        len(one)


@each_kind
def test_going_through_the_queries_ends(kind):
    p = KINDS[kind]
    each = list(p)
    assert len(each) == len(p) == 3 and all(one.shape == () for one in each)
    np.testing.assert_allclose(each[1].cdf(0.5), p.cdf(np.full(3, 0.5))[1], rtol=1e-12)
    traced = eqx.filter_jit(lambda q: [q[i].total for i in range(3)])(p)
    np.testing.assert_allclose(traced, p.total, rtol=1e-9)
    for outside in (3, -4, [0, 3], np.array([-4, 1])):
        with pytest.raises(IndexError):
            p[outside]
        with pytest.raises(IndexError):  # JAX would take the nearest
            eqx.filter_jit(lambda q, index=outside: q[index].total)(p)
    with pytest.raises((IndexError, TypeError)):
        p[0][0]
    with pytest.raises(TypeError, match="single outcome"):
        list(p[0])
    for one in (p, p[0]):
        with pytest.raises(DataError, match=r"is a distribution, not numbers: take its mean"):
            np.asarray(one)


@each_kind
@pytest.mark.parametrize("level", ["95%", "0.95", [0.5, None], [0.5, "0.9"], [[0.5], [0.5, 0.6]], 0.5j])
def test_levels_that_are_not_numbers_are_refused(kind, level):
    with pytest.raises(DataError, match="level must be a number"):
        KINDS[kind].interval(level)
    with pytest.raises(DataError, match="q must be a number"):
        KINDS[kind].quantile(level)


@each_kind
@pytest.mark.parametrize("level", [95, 0.0, 1.0, -0.1])
def test_levels_outside_the_unit_interval_are_refused(kind, level):
    with pytest.raises(DataError, match="write 95 % as 0.95"):
        KINDS[kind].interval(level)
    with pytest.raises(DataError, match="q must lie strictly between"):
        KINDS[kind].quantile(level)


def questions(p):
    y = jnp.asarray([1.0, 0.0, 1.0])
    return p.mean, p.total, p.epistemic, p.cdf(y), p.log_prob(y), p.quantile(0.3)


@each_kind
def test_jit_and_vmap_equal_eager(kind):
    p = KINDS[kind]
    want = questions(p)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), p)
    compiled, mapped = eqx.filter_jit(lambda one, two: (questions(one), jax.vmap(questions)(two)))(p, stacked)
    for expected, got, rows in zip(want, compiled, mapped, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(rows, np.stack([expected, expected]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["beta-binomial", "negative-binomial", "poisson-mixture", "mixture-of-counts"])
def test_counts_sum_to_one_and_refuse_what_is_not_a_count(kind):
    p = KINDS[kind]
    mass = pmf(p, range(400))
    np.testing.assert_allclose(mass.sum(0), 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.arange(400) @ mass, p.mean, rtol=1e-9)
    entropy = -np.sum(np.where(mass > 0, mass * np.log(np.where(mass > 0, mass, 1.0)), 0.0), axis=0)
    np.testing.assert_allclose(p.entropy(), entropy, rtol=1e-8)
    assert np.all(p.log_prob(np.full(3, 0.5)) == -np.inf)
    assert np.all(p.log_prob(np.full(3, -1.0)) == -np.inf)
    assert np.all(p.cdf(np.full(3, -0.5)) == 0.0)


def test_poisson_mixture_is_a_weighted_sum_of_poissons():
    p = KINDS["poisson-mixture"]
    y = np.array([2, 3, 11])
    np.testing.assert_allclose(p.log_prob(y), np.log(st.poisson.pmf(y[:, None], RATES) @ WEIGHTS), rtol=1e-10)
    np.testing.assert_allclose(p.cdf(y), st.poisson.cdf(y[:, None], RATES) @ WEIGHTS, rtol=1e-10)
    second = (RATES + RATES**2) @ WEIGHTS
    np.testing.assert_allclose(p.total, second - (RATES @ WEIGHTS) ** 2, rtol=1e-10)


def test_multivariate_t_density_and_entropy_agree_with_scipy():
    p = KINDS["multivariate-t"]
    oracle = st.multivariate_t(MEAN, 1.3 * PSI, df=5.0)
    y = MEAN + np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_allclose(p.log_prob(y), oracle.logpdf(y), rtol=1e-10)
    np.testing.assert_allclose(p.log_prob(y[0]), oracle.logpdf(y[0]), rtol=1e-10)
    np.testing.assert_allclose(p.entropy(), oracle.entropy(), rtol=1e-10)
    draws = np.asarray(p.sample(4000, seed=3)) - MEAN
    for i, j in ((0, 1), (1, 2), (0, 2)):
        products = draws[:, i] * draws[:, j]
        se = products.std(ddof=1) / np.sqrt(len(products))
        assert abs(products.mean() - 1.3 * PSI[i, j] * 5 / 3) < 4.5 * se


def test_dirichlet_multinomial_agrees_with_scipy():
    p = KINDS["dirichlet-multinomial"]
    table = np.array([[a, b, 6 - a - b] for a in range(7) for b in range(7 - a)])
    np.testing.assert_allclose(p.log_prob(table), st.dirichlet_multinomial(ALPHA, 6).logpmf(table), rtol=1e-10)
    np.testing.assert_allclose(np.exp(p.log_prob(table)).sum(), 1.0, rtol=1e-10)
    assert p.log_prob([1.0, 1.0, 1.0]) == -np.inf
    uniform = DirichletMultinomial(2, np.ones(3))
    assert uniform.log_prob([-1.0, 1.0, 2.0]) == -np.inf
    assert uniform.log_prob([0.5, 0.5, 1.0]) == -np.inf


def test_a_lognormal_outcome_splits_its_variance_by_the_law_of_total_variance(rng):
    """By simulation: the function is drawn, then the moments of the outcome around it are known."""
    p = LogNormal(0.3, 0.2, 0.4)
    mean = np.exp(0.3 + np.sqrt(0.4) * rng.normal(size=200_000) + 0.1)
    inside = mean**2 * np.expm1(0.2)
    assert abs(inside.mean() - p.aleatoric) < 4.5 * inside.std() / np.sqrt(len(mean))
    apart = (mean - mean.mean()) ** 2
    assert abs(apart.mean() - p.epistemic) < 4.5 * apart.std() / np.sqrt(len(mean))
    assert p.log_prob(-1.0) == -np.inf and p.cdf(0.0) == 0.0
    again = LogNormal.of(p.log)
    np.testing.assert_array_equal(again.mean, p.mean)


def test_a_logarithm_as_warp_is_the_lognormal():
    warped, lognormal = KINDS["warped"], KINDS["lognormal"]
    np.testing.assert_allclose(warped.aleatoric, lognormal.aleatoric, rtol=1e-10)
    np.testing.assert_allclose(warped.epistemic, lognormal.epistemic, rtol=1e-10)
    joint = Warped(Normal(LOG_MEAN, LOG_NOISE, LOG_LATENT, jnp.diag(LOG_LATENT)), Logarithm())
    assert joint.marginal().latent.latent_covariance is None


def test_student_with_two_degrees_of_freedom_has_infinite_variance():
    p = StudentT([2.0, 1.0, 2.5], np.zeros(3), np.ones(3), np.ones(3))
    np.testing.assert_array_equal(np.isinf(p.variance), [True, True, False])
    np.testing.assert_array_equal(np.isinf(p.aleatoric), [True, True, False])
    known = StudentT(1.0, 0.0, 1.0, 0.0)
    assert known.epistemic == 0.0


@pytest.mark.parametrize("kind", [Normal, StudentT, LogNormal])
def test_joint_samples_covary_as_the_latent_function(kind):
    covariance = np.array([[1.0, 0.9, 0.1], [0.9, 1.2, 0.3], [0.1, 0.3, 0.8]])
    noise, latent = np.array([0.1, 0.2, 0.3]), np.diag(covariance)
    df = (np.full(3, 9.0),) if kind is StudentT else ()
    factor = 9 / 7 if kind is StudentT else 1.0
    p = kind(*df, np.zeros(3), noise, latent, jnp.asarray(covariance))
    draws = np.asarray(p.sample(6000, seed=4))
    draws = np.log(draws) if kind is LogNormal else draws
    for i in range(3):
        for j in range(i + 1):
            products = draws[:, i] * draws[:, j]
            want = factor * (covariance[i, j] + (noise[i] if i == j else 0.0))
            assert abs(products.mean() - want) < 4.5 * products.std(ddof=1) / np.sqrt(len(products))
    alone = p[[0, 1]]
    joint = {Normal: "latent_covariance", StudentT: "latent_scale"}.get(kind)
    assert joint is None or getattr(alone, joint) is None
    np.testing.assert_allclose(alone.variance, p.variance[:2])


def test_normal_joint_distribution():
    covariance = jnp.asarray([[1.0, 0.5], [0.5, 2.0]])
    p = Normal([1.0, 2.0], [0.1, 0.2], [1.0, 2.0], covariance)
    np.testing.assert_allclose(p.joint().covariance, covariance + jnp.diag(jnp.asarray([0.1, 0.2])))
    np.testing.assert_allclose(p.joint(noise=False).covariance, covariance)
    np.testing.assert_allclose(p.marginal().joint().covariance, np.diag([1.1, 2.2]))


def test_mixture_of_different_kinds_is_the_weighted_sum_in_the_given_order():
    # Components of one kind are gathered: the weights must follow them.
    parts = [Normal(-1.0, 0.5, 0.5), StudentT(5.0, 2.0, 0.3, 0.1), Normal(4.0, 0.1, 0.1), StudentT(3.0, 0.0, 1.0, 0.0)]
    oracle = [st.norm(-1, 1), st.t(5, 2, np.sqrt(0.4)), st.norm(4, np.sqrt(0.2)), st.t(3, 0, 1)]
    w = np.array([0.1, 0.2, 0.3, 0.4])
    p = mixture(w, parts)
    assert isinstance(p, Mixture)
    assert not p.discrete
    for y in (-3.0, 0.0, 3.9, 8.0):
        np.testing.assert_allclose(
            p.log_prob(y), np.log(sum(a * d.pdf(y) for a, d in zip(w, oracle, strict=True))), rtol=1e-9
        )
        np.testing.assert_allclose(p.cdf(y), sum(a * d.cdf(y) for a, d in zip(w, oracle, strict=True)), rtol=1e-9)
    mean = sum(a * d.mean() for a, d in zip(w, oracle, strict=True))
    second = sum(a * (d.var() + d.mean() ** 2) for a, d in zip(w, oracle, strict=True))
    np.testing.assert_allclose(p.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(p.variance, second - mean**2, rtol=1e-10)
    np.testing.assert_allclose(p.aleatoric, w @ [float(c.aleatoric) for c in parts], rtol=1e-10)

    def integrand(y):
        density = float(sum(a * d.pdf(y) for a, d in zip(w, oracle, strict=True)))
        return -density * np.log(density)

    entropy = scipy.integrate.quad(integrand, -300, 300, points=[-1, 0, 2, 4], limit=500, epsabs=1e-9)[0]
    np.testing.assert_allclose(p.entropy(), entropy, rtol=1e-5)
    quantile = float(p.quantile(0.37))
    np.testing.assert_allclose(p.cdf(quantile), 0.37, rtol=1e-10)


def test_mixture_of_far_apart_components_has_their_entropy_plus_that_of_the_choice():
    p = mixture([0.5, 0.5], [Normal(-1000.0, 1.0, 0.0), Normal(1000.0, 0.25, 0.0)])
    want = np.log(2) + 0.5 * np.log(2 * np.pi * np.e) + 0.25 * np.log(0.25)
    np.testing.assert_allclose(p.entropy(), want, rtol=1e-6)


def test_mixture_of_counts_far_apart():
    p = mixture([0.5, 0.5], [NegativeBinomial(3.0, 1.0, 1.0), NegativeBinomial(1e6, 100.0, 1.0)])
    first = NegativeBinomial(3.0, 1.0, 1.0).entropy() + NegativeBinomial(1e6, 100.0, 1.0).entropy()
    np.testing.assert_allclose(p.entropy(), np.log(2) + first / 2, rtol=1e-6)


def test_classes_mix_into_classes_and_the_disagreement_is_mutual_information():
    first, second = np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([[0.2, 0.8], [0.5, 0.5]])
    w = np.array([0.25, 0.75])
    p = mixture(w, [Categorical.certain(first), Categorical.certain(second)])
    assert isinstance(p, Categorical)
    probs = 0.25 * first + 0.75 * second
    information = sum(a * np.sum(q * np.log(q / probs), axis=1) for a, q in zip(w, (first, second), strict=True))
    np.testing.assert_allclose(p.probs, probs)
    np.testing.assert_allclose(p.epistemic, information, rtol=1e-9, atol=1e-12)
    coins = mixture(w, [Bernoulli.certain(first[:, 1]), Bernoulli.certain(second[:, 1])])
    assert isinstance(coins, Bernoulli)
    np.testing.assert_allclose(coins.epistemic, information, rtol=1e-9, atol=1e-12)
    averaged = Categorical.average(jnp.asarray(w), jnp.stack([first, second]))
    np.testing.assert_allclose(averaged.epistemic, information, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        Bernoulli.average(jnp.asarray(w), jnp.stack([first[:, 1], second[:, 1]])).aleatoric, coins.aleatoric
    )


def test_categorical_answers():
    p = KINDS["categorical"]
    np.testing.assert_allclose(p.log_prob([2, 1, 0]), np.log([0.7, 0.5, 0.3]))
    np.testing.assert_allclose(p.log_prob(1), np.log([0.2, 0.5, 0.4]))
    np.testing.assert_array_equal(p.log_prob([3, -1, 2])[:2], [-np.inf, -np.inf])
    np.testing.assert_allclose(p.cdf([1, 0, 2]), [0.3, 0.5, 1.0])
    np.testing.assert_array_equal(p.quantile(0.3), [1, 0, 0])
    np.testing.assert_array_equal(p.mode, [2, 0, 1])
    np.testing.assert_allclose(p.variance, PROBS * (1 - PROBS))
    draws = np.asarray(p.sample(4000, seed=5))
    frequency = np.stack([(draws == c).mean(0) for c in range(3)], axis=1)
    assert np.all(np.abs(frequency - PROBS) <= 4.5 * np.sqrt(PROBS * (1 - PROBS) / 4000))


def test_bernoulli_gives_no_mass_to_other_outcomes():
    p = Bernoulli.certain([0.0, 1.0, 0.3])
    np.testing.assert_allclose(p.log_prob([0.0, 1.0, 1.0]), [0.0, 0.0, np.log(0.3)])
    np.testing.assert_array_equal(p.log_prob([0.5, 2.0, -1.0]), [-np.inf] * 3)


def test_mixture_refuses_weights_that_do_not_fit():
    with pytest.raises(DataError, match="one entry per component"):
        mixture([1.0], [Normal(0.0, 1.0, 1.0), Normal(0.0, 1.0, 1.0)])
    with pytest.raises(DataError, match="at least one component"):
        mixture([], [])


def test_quantiles_of_mixed_counts():
    rng = np.random.default_rng(0)
    size, mean = rng.uniform(0.5, 4, (3, 5)), rng.uniform(0.1, 30, (3, 5))
    weights = np.asarray([0.2, 0.5, 0.3])
    mixed = Mixture(weights, (NegativeBinomial(size, size / mean, np.ones((3, 5))),))

    def cdf(y):
        return weights @ st.nbinom.cdf(y, size, size / (size + mean))

    for q in (0.025, 0.5, 0.9, 0.975):
        found = np.asarray(mixed.quantile(q))
        assert np.all(cdf(found) >= q - 1e-9) and np.all(cdf(found - 1) < q)
    np.testing.assert_array_equal(mixed.interval(0.9).upper, mixed.quantile([0.05, 0.95])[1])
    np.testing.assert_array_equal(mixed[1:3].quantile(0.5), mixed.quantile(0.5)[1:3])
    np.testing.assert_array_equal(mixed.quantile(0.9), eqx.filter_jit(lambda m: m.quantile(0.9))(mixed))
    large = Mixture(weights, (NegativeBinomial(1e3 * size, size / mean / 10, np.ones((3, 5))),))
    far = np.asarray(large.quantile(0.5))
    assert np.all(large.cdf(far) >= 0.5 - 1e-9) and np.all(large.cdf(far - 1) < 0.5)


def test_weights_that_change_from_query_to_query():
    """As those of hidden states do: p(y) = Σ wₖₘ pₖₘ(y), the columns of a row share a component."""
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(3), 4).T
    mean, var = rng.normal(size=(3, 4, 2)), rng.uniform(0.2, 2, (3, 4, 2))
    p = Mixture(weights, (Normal(mean, var, np.zeros_like(var)),))
    assert p.shape == (4, 2)
    y = rng.normal(size=(4, 2))
    w = weights[:, :, None]
    np.testing.assert_allclose(p.cdf(y), (w * st.norm.cdf(y, mean, np.sqrt(var))).sum(0), rtol=1e-10)
    np.testing.assert_allclose(p.log_prob(y), np.log((w * st.norm.pdf(y, mean, np.sqrt(var))).sum(0)), rtol=1e-10)
    np.testing.assert_allclose(p.variance, (w * (var + mean**2)).sum(0) - (w * mean).sum(0) ** 2, rtol=1e-10)
    several = np.stack([y, y + 1.0, y - 1.0])
    np.testing.assert_allclose(p.log_prob(several), np.stack([p.log_prob(each) for each in several]), rtol=1e-12)
    np.testing.assert_allclose(p.cdf(p.quantile(0.3)), 0.3, rtol=1e-6)
    np.testing.assert_allclose(p[1:, 0].mean, p.mean[1:, 0])
    draws = np.asarray(p.sample(4000, seed=1))
    assert np.all(np.abs(draws.mean(0) - p.mean) < 4.5 * draws.std(0) / np.sqrt(4000))
    both = mixture([0.5, 0.5], [p, Normal(y, np.ones((4, 2)), np.zeros((4, 2)))])
    np.testing.assert_allclose(both.cdf(y), 0.5 * np.asarray(p.cdf(y)) + 0.25, rtol=1e-10)


def test_the_disagreement_of_the_components_of_one_noise_is_noise():
    means = np.array([0.0, 2.0, 5.0, 9.0])
    p = Mixture(np.full(4, 0.25), (Normal(means, np.ones(4), np.zeros(4)),), 2)
    plain = Mixture(p.weights, p.parts)
    np.testing.assert_allclose(p.total, plain.total)
    np.testing.assert_allclose(p.epistemic, np.var([1.0, 7.0]))
    np.testing.assert_allclose(p.aleatoric, 1.0 + (1.0 + 4.0) / 2)


def test_a_mixture_of_mixtures_is_a_mixture():
    inner = mixture([0.3, 0.7], [Normal(0.0, 1.0, 0.5), StudentT(3.0, 1.0, 2.0, 5.0)])
    outer = mixture([0.4, 0.6], [inner, Normal(-2.0, 0.3, 0.1)])
    y = np.linspace(-4, 6, 11)
    want = np.logaddexp(np.log(0.4) + inner.log_prob(y), np.log(0.6) + Normal(-2.0, 0.3, 0.1).log_prob(y))
    np.testing.assert_allclose(outer.log_prob(y), want, rtol=1e-12)
    np.testing.assert_allclose(outer.weights.sum(), 1.0)
    np.testing.assert_allclose(outer.cdf(outer.quantile(0.3)), 0.3, rtol=1e-6)
