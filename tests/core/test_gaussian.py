"""The Gaussian algebra against SciPy, dense formulas, quadrature and Monte Carlo."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from credo.core.errors import DataError, NotPositiveDefinite
from credo.core.gaussian import Gaussian

D = 4
properties = settings(max_examples=25, deadline=None)
reals = st.floats(-3, 3)
means = arrays(np.float64, D, elements=reals)
covariances = arrays(np.float64, (D, D), elements=reals).map(lambda h: h @ h.T + 0.5 * np.eye(D))
gaussians = st.builds(lambda m, c: Gaussian(jnp.asarray(m), jnp.asarray(c)), means, covariances)


def scipy_of(g: Gaussian):
    return scipy.stats.multivariate_normal(np.asarray(g.mean), np.asarray(g.covariance))


def example(seed: int = 0) -> Gaussian:
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(D, D))
    return Gaussian(jnp.asarray(rng.normal(size=D)), jnp.asarray(half @ half.T + 0.2 * np.eye(D)))


@given(gaussians, arrays(np.float64, (3, D), elements=reals))
@properties
def test_log_prob_and_entropy(g, x):
    assert_allclose(g.log_prob(jnp.asarray(x)), scipy_of(g).logpdf(x), rtol=1e-8, atol=1e-8)
    assert_allclose(g.log_prob(jnp.asarray(x[0])), scipy_of(g).logpdf(x[0]), rtol=1e-8, atol=1e-8)
    assert_allclose(g.entropy(), scipy_of(g).entropy(), rtol=1e-9, atol=1e-9)


@given(gaussians, arrays(np.float64, D, elements=reals))
@properties
def test_chain_rule_joint_is_marginal_times_conditional(g, x):
    given_index, rest = [2, 0], [1, 3]
    joint = g.log_prob(jnp.asarray(x))
    marginal = g.marginal(given_index).log_prob(jnp.asarray(x[given_index]))
    conditional = g.conditional(given_index, jnp.asarray(x[given_index])).log_prob(jnp.asarray(x[rest]))
    assert_allclose(marginal + conditional, joint, rtol=1e-8, atol=1e-8)


@given(gaussians)
@properties
def test_conditional_is_a_block_of_the_precision(g):
    precision = np.linalg.inv(g.covariance)
    c = g.conditional([0, 1], jnp.asarray([0.5, -1.0]))
    covariance = np.linalg.inv(precision[2:, 2:])
    mean = g.mean[2:] - covariance @ precision[2:, :2] @ (np.array([0.5, -1.0]) - g.mean[:2])
    assert_allclose(c.covariance, covariance, rtol=1e-8, atol=1e-8)
    assert_allclose(c.mean, mean, rtol=1e-7, atol=1e-7)


@given(gaussians, arrays(np.float64, (2, D), elements=reals), arrays(np.float64, 2, elements=reals))
@properties
def test_observe_is_bayes_rule_in_information_form_and_through_the_joint(g, h, y):
    r = np.array([[0.4, 0.1], [0.1, 0.3]])
    posterior = g.observe(jnp.asarray(h), jnp.asarray(y), jnp.asarray(r))
    precision = np.linalg.inv(g.covariance) + h.T @ np.linalg.solve(r, h)
    information = np.linalg.solve(g.covariance, g.mean) + h.T @ np.linalg.solve(r, y)
    assert_allclose(posterior.covariance, np.linalg.inv(precision), rtol=1e-6, atol=1e-8)
    assert_allclose(posterior.mean, np.linalg.solve(precision, information), rtol=1e-6, atol=1e-7)
    assert np.array_equal(posterior.covariance, posterior.covariance.T)
    stacked = np.vstack([np.eye(D), h])
    noise = np.zeros((D + 2, D + 2))
    noise[D:, D:] = r
    joint = g.affine(jnp.asarray(stacked)) + Gaussian(jnp.zeros(D + 2), jnp.asarray(noise))
    through_joint = joint.conditional([D, D + 1], jnp.asarray(y))
    assert_allclose(posterior.mean, through_joint.mean, rtol=1e-6, atol=1e-7)
    assert_allclose(posterior.covariance, through_joint.covariance, rtol=1e-6, atol=1e-7)


def test_observing_in_two_halves_equals_at_once():
    g, rng = example(), np.random.default_rng(1)
    h, y = jnp.asarray(rng.normal(size=(2, D))), jnp.asarray(rng.normal(size=2))
    once = g.observe(h, y, 0.3 * jnp.eye(2))
    twice = g.observe(h[:1], y[:1], 0.3 * jnp.eye(1)).observe(h[1:], y[1:], 0.3 * jnp.eye(1))
    assert_allclose(once.mean, twice.mean, rtol=1e-10)
    assert_allclose(once.covariance, twice.covariance, rtol=1e-9, atol=1e-12)


def test_a_nearly_exact_observation_keeps_the_covariance_positive():
    g = Gaussian(jnp.zeros(D), 1e8 * example().covariance)
    posterior = g.observe(jnp.eye(D), jnp.ones(D), 1e-8 * jnp.eye(D))
    assert np.linalg.eigvalsh(posterior.covariance)[0] > 0
    assert_allclose(posterior.covariance, 1e-8 * np.eye(D), rtol=1e-4, atol=1e-12)


@given(gaussians, arrays(np.float64, (2, D), elements=reals), arrays(np.float64, 2, elements=reals))
@properties
def test_affine_and_sum(g, a, b):
    image = g.affine(jnp.asarray(a), jnp.asarray(b))
    assert_allclose(image.mean, a @ g.mean + b, rtol=1e-10, atol=1e-10)
    assert_allclose(image.covariance, a @ g.covariance @ a.T, rtol=1e-10, atol=1e-9)
    assert_allclose(g.affine(jnp.asarray(a)).mean, a @ g.mean, rtol=1e-10, atol=1e-10)
    total = g + g
    assert_allclose(total.mean, 2 * g.mean)
    assert_allclose(total.covariance, 2 * g.covariance)


@given(gaussians, gaussians, arrays(np.float64, (3, D), elements=reals))
@properties
def test_product_of_densities(g, h, x):
    product, log_normalizer = g.product(h)
    want = scipy_of(g).logpdf(x) + scipy_of(h).logpdf(x)
    assert_allclose(product.log_prob(jnp.asarray(x)) + log_normalizer, want, rtol=1e-7, atol=1e-7)


def test_product_normalizer_by_quadrature():
    g, h = Gaussian(jnp.asarray([0.3]), jnp.asarray([[0.5]])), Gaussian(jnp.asarray([1.0]), jnp.asarray([[2.0]]))
    grid = np.linspace(-12, 12, 20001)
    integral = np.trapezoid(scipy_of(g).pdf(grid) * scipy_of(h).pdf(grid), grid)
    assert_allclose(g.product(h)[1], np.log(integral), rtol=1e-9)


@given(gaussians, gaussians)
@properties
def test_kl(g, h):
    s1, s2, d = np.asarray(g.covariance), np.asarray(h.covariance), np.asarray(h.mean - g.mean)
    want = 0.5 * (
        np.trace(np.linalg.solve(s2, s1))
        + d @ np.linalg.solve(s2, d)
        - D
        + np.linalg.slogdet(s2)[1]
        - np.linalg.slogdet(s1)[1]
    )
    assert_allclose(g.kl(h), want, rtol=1e-8, atol=1e-8)
    assert_allclose(g.kl(g), 0.0, atol=1e-10)
    assert float(g.kl(h)) >= -1e-10


@given(gaussians)
@properties
def test_mutual_information_is_a_difference_of_entropies(g):
    want = g.marginal([0, 2]).entropy() + g.marginal(3).entropy() - g.marginal([0, 2, 3]).entropy()
    assert_allclose(g.mutual_information([0, 2], 3), want, rtol=1e-8, atol=1e-9)
    assert_allclose(g.mutual_information(3, [0, 2]), want, rtol=1e-8, atol=1e-9)


def test_mutual_information_of_two_correlated_variables():
    g = Gaussian(jnp.zeros(2), jnp.asarray([[1.0, 0.8], [0.8, 1.0]]))
    assert_allclose(g.mutual_information(0, 1), -0.5 * np.log(1 - 0.64), rtol=1e-12)
    assert_allclose(Gaussian.standard(2).mutual_information(0, 1), 0.0, atol=1e-14)


@pytest.mark.parametrize("method", ["draw", "draw_forward"])
@pytest.mark.parametrize("singular", [False, True])
def test_samplers_have_the_right_moments(method, singular):
    g, n = example(), 20_000
    if singular:  # the third coordinate is known, the fourth a copy of the first
        a = jnp.asarray([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [1.0, 0, 0, 0]])
        g = g.affine(a, jnp.asarray([0.0, 0, 7.0, 0]))
    draws = np.asarray(getattr(g, method)(jr.key(0), n))
    assert draws.shape == (n, D)
    if singular:
        assert_allclose(draws[:, 2], 7.0, atol=1e-6)
        assert_allclose(draws[:, 3], draws[:, 0], atol=1e-6)
    mean_se = draws.std(0, ddof=1) / np.sqrt(n)
    assert np.all(np.abs(draws.mean(0) - g.mean) <= 4.5 * mean_se + 1e-6)
    centred = draws - np.asarray(g.mean)
    products = centred[:, :, None] * centred[:, None, :]
    se = products.std(0, ddof=1) / np.sqrt(n)
    assert np.all(np.abs(products.mean(0) - g.covariance) <= 4.5 * se + 1e-6)


def test_the_samplers_agree_with_each_other():
    g = example(3)
    direction = jnp.asarray([0.5, -1.0, 2.0, 0.3])
    a, b = (np.asarray(f(jr.key(k), 4000) @ direction) for k, f in enumerate((g.draw, g.draw_forward)))
    assert scipy.stats.ks_2samp(a, b).pvalue > 1e-3
    exact = scipy.stats.norm(float(direction @ g.mean), float(direction @ g.covariance @ direction) ** 0.5)
    assert scipy.stats.kstest(a, exact.cdf).pvalue > 1e-3
    assert scipy.stats.kstest(b, exact.cdf).pvalue > 1e-3


@pytest.mark.parametrize("method", ["draw", "draw_forward"])
def test_a_point_mass_samples_its_mean(method):
    g = Gaussian(jnp.asarray([1.0, 2.0]), jnp.zeros((2, 2)))
    assert_allclose(getattr(g, method)(jr.key(0), 3), np.tile([1.0, 2.0], (3, 1)))


def test_fields_and_constructors():
    g = example()
    assert g.dimension == D
    assert_allclose(g.variance, np.diag(g.covariance))
    assert_allclose(g.std**2, np.diag(g.covariance), rtol=1e-14)
    again = Gaussian.from_precision(g.mean, jnp.linalg.inv(g.covariance))
    assert_allclose(again.covariance, g.covariance, rtol=1e-9)
    assert_allclose(Gaussian.standard(3).covariance, np.eye(3))
    assert_allclose(Gaussian.standard(3).mean, np.zeros(3))


def test_passes_through_jit_vmap_and_grad():
    g, h, x = example(), example(1), jnp.ones(D)
    assert_allclose(jax.jit(Gaussian.kl)(g, h), g.kl(h), rtol=1e-12)
    slope = jax.jit(jax.grad(lambda q: q.log_prob(x)))(g).mean
    assert_allclose(slope, np.linalg.solve(g.covariance, x - g.mean), rtol=1e-9)
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), g, h)
    entropies = jax.jit(jax.vmap(Gaussian.entropy))(batch)
    assert_allclose(entropies, [g.entropy(), h.entropy()], rtol=1e-12)


def test_bad_arguments_are_named():
    g = example()
    with pytest.raises(DataError, match=r"between 0 and 3, found \[4\]"):
        g.marginal([4])
    with pytest.raises(DataError, match=r"each coordinate once, found \[0, -4\]"):
        g.marginal([0, -4])
    with pytest.raises(DataError, match=r"coordinates \[1\] are in both sets"):
        g.mutual_information([0, 1], [1, 2])
    with pytest.raises(DataError, match="dimension 4 and 2 cannot be added"):
        g + Gaussian.standard(2)
    with pytest.raises(NotPositiveDefinite, match="covariance"):
        Gaussian(jnp.zeros(2), -jnp.eye(2)).draw(jr.key(0), 1)
    with pytest.raises(NotPositiveDefinite, match="precision"):
        Gaussian.from_precision(jnp.zeros(2), -jnp.eye(2))
