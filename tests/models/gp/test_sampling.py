"""Draws from Gaussian processes, at points and as functions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core.errors import DataError
from credo.kernels import RBF, Constant, Exponential, Matern52, RationalQuadratic, White
from credo.kernels.dotproduct import Bilinear, Linear, NeuralNetwork, Polynomial
from credo.kernels.elementary import FromFeatures
from credo.kernels.periodic import Cosine, Periodic
from credo.models.gp import GP, Basis
from credo.models.gp.sampling import sample, sample_functions

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, size=(12, 2))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1]
QUERIES = np.concatenate([RNG.uniform(-3, 3, size=(5, 2)), X[:2]])
DRAWS = 4000


def brute_force(gp, x, y, queries, noise):
    """Mean and covariance of f at the queries by NumPy's inverse."""
    kernel, mean = gp.prior.kernel, gp.prior.mean
    inverse = np.linalg.inv(np.asarray(kernel(x)) + noise * np.eye(len(x)))
    cross = np.asarray(kernel(queries, x))
    want = np.asarray(mean(jnp.asarray(queries))) + cross @ inverse @ (y - np.asarray(mean(jnp.asarray(x))))
    return want, np.asarray(kernel(queries)) - cross @ inverse @ cross.T


def check_moments(draws, mean, covariance, slack=0.0):
    """Mean and every entry of the covariance within 4.5 standard errors, and `slack` for features."""
    draws = np.asarray(draws)
    n, variance = len(draws), np.diag(covariance)
    assert np.all(np.abs(draws.mean(0) - mean) < 4.5 * np.sqrt(variance / n) + 1e-9)
    centered = draws - mean
    found = centered.T @ centered / n
    se = np.sqrt((np.outer(variance, variance) + covariance**2) / n)
    assert np.all(np.abs(found - covariance) < 4.5 * se + slack + 1e-9)


# -- at chosen points --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cholesky", "forward"])
@pytest.mark.parametrize("noise", [False, True])
def test_draws_have_the_moments_of_the_posterior(method, noise):
    gp = GP(Matern52(1.3, 2.0), mean=lambda x: x[:, 0], noise=0.1).condition(X, Y)
    mean, covariance = brute_force(gp, X, Y, QUERIES, 0.1)
    draws = sample(gp, QUERIES, DRAWS, noise=noise, method=method, seed=1)
    assert draws.shape == (DRAWS, len(QUERIES))
    check_moments(draws, mean, covariance + 0.1 * noise * np.eye(len(QUERIES)))


@pytest.mark.parametrize("method", ["cholesky", "forward"])
def test_draws_have_the_moments_of_the_prior(method):
    gp = GP(RBF(0.7, 3.0), mean=2.0)
    draws = sample(gp, QUERIES, DRAWS, method=method, seed=2)
    check_moments(draws, np.full(len(QUERIES), 2.0), np.asarray(gp.kernel(QUERIES)))


@pytest.mark.parametrize("method", ["cholesky", "forward"])
def test_draws_where_everything_is_known_are_the_data(method):
    gp = GP(RBF(1.0), mean=0, noise=1e-12).condition(X, Y)
    draws = sample(gp, np.concatenate([X, X[:1]]), 5, method=method)
    np.testing.assert_allclose(draws, np.broadcast_to(np.append(Y, Y[0]), (5, 13)), atol=1e-4)


def test_the_seed_decides():
    gp = GP(RBF(), noise=0.1).condition(X, Y)
    first, same, other = (np.asarray(sample(gp, QUERIES, 3, seed=s)) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).min() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [({"n": 0}, "n, the number of draws, must be"), ({"n": 2, "method": "magic"}, '"cholesky" or "forward"')],
)
def test_draws_that_make_no_sense(options, message):
    with pytest.raises(DataError, match=message):
        sample(GP(RBF()), QUERIES, **options)


# -- anywhere ----------------------------------------------------------------------------------------------------


def quadratic(x):
    return jnp.concatenate([x, x**2], axis=1)


KERNELS = {
    "RBF": RBF(1.2, 2.0),
    "Matern52": Matern52(jnp.array([1.0, 2.0])),
    "Exponential": Exponential(2.0),
    "projection": RBF(1.5, projection=jnp.array([[0.5, -0.3]])),
    "RationalQuadratic": RationalQuadratic(1.0, alpha=0.7),
    "sum": RBF(1.0) + Linear(0.5) + 2.0,
    "product with a line": Periodic(1.5, period=3.0).on(0) * Linear(0.5).on(1) * RBF(2.0),
    "line times a sum": (RBF(2.0) + 1.0) * Linear(0.3),
    "warped": RBF(1.0).warp(jnp.tanh),
    "scaled": 3.0 * RBF(1.0).warp(jnp.tanh),
}
EXACT = {
    "Constant": Constant(2.0),
    "Linear": Linear(0.7, jnp.array([1.0, 2.0]), jnp.array([0.3, -0.2])),
    "Bilinear": Bilinear(jnp.array([[1.0, 0.4], [0.4, 0.5]]), jnp.array([0.5, 0.0])),
    "Polynomial": Polynomial(3, offset=0.5, variance=0.2),
    "Cosine": Cosine(jnp.array([2.0, 3.0]), 0.5),
    "FromFeatures": FromFeatures(quadratic, jnp.diag(jnp.array([1.0, 2.0, 0.5, 0.1])) + 0.05),
    "FromFeatures, variances": FromFeatures(quadratic, jnp.array([1.0, 2.0, 0.5, 0.1])),
    "squared line": (Linear(0.5) + 1.0) ** 2,
    "product": Linear(0.5) * Linear(0.2).on(0),
}


@pytest.mark.parametrize("name", EXACT)
def test_finite_bases_are_exact(name):
    functions = sample_functions(GP(EXACT[name], mean=0), 2, columns=2)
    phi = np.concatenate([np.asarray(basis(jnp.asarray(QUERIES))) for basis in functions.bases], axis=1)
    assert phi.shape[1] <= 100
    np.testing.assert_allclose(phi @ phi.T, np.asarray(EXACT[name](QUERIES)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_random_bases_have_the_covariance_of_the_kernel(name):
    """φ(x)ᵀφ(z) is a mean over m frequencies of something no larger than √(k(x, x) k(z, z))."""
    kernel, features = KERNELS[name], 2048
    functions = sample_functions(GP(kernel, mean=0), 1, columns=2, features=features)
    phi = np.concatenate([np.asarray(basis(jnp.asarray(QUERIES))) for basis in functions.bases], axis=1)
    want = np.asarray(kernel(QUERIES))
    largest = np.sqrt(np.outer(np.diag(want), np.diag(want)))
    assert np.all(np.abs(phi @ phi.T - want) < 4.5 * largest / np.sqrt(features / 2) + 1e-12)


@pytest.mark.parametrize(
    ("kernel", "mean", "slack"),
    [
        (Matern52(1.2, 1.0), 0, 0.05),
        (RBF(1.5, 0.5) + Linear(0.5) + 0.5, lambda x: x[:, 1], 0.03),
        (RBF(1.0, 0.5), Basis(covariance=2.0), 0.03),
        (Linear(0.5) + Polynomial(2), 1.0, 0.0),
    ],
    ids=["Matern52", "sum", "uncertain mean", "finite"],
)
def test_functions_have_the_moments_of_the_posterior(kernel, mean, slack):
    """The mean exactly; the covariance up to random features, 1/√1024 of the prior's: nothing for a finite basis."""
    gp = GP(kernel, mean=mean, noise=0.1).condition(X, Y)
    want, covariance = brute_force(gp, X, Y, QUERIES, 0.1)
    draws = np.asarray(sample_functions(gp, DRAWS, seed=4)(QUERIES))
    assert draws.shape == (DRAWS, len(QUERIES))
    if slack:  # the functions share their features: the variance that counts is theirs
        spread = np.sqrt(np.diag(covariance) + slack)
        assert np.all(np.abs(draws.mean(0) - want) < 4.5 * spread / np.sqrt(DRAWS))
        draws = draws - draws.mean(0) + want
    check_moments(draws, want, covariance, slack)


def test_functions_with_row_noise_and_weights():
    variances = np.linspace(0.01, 1.0, len(X))
    gp = GP(Linear(0.5) + 1.0, mean=0, noise=credo.models.linear.KnownNoise()).condition(X, Y, noise=variances)
    kernel = np.asarray(gp.kernel(QUERIES, X))
    inverse = np.linalg.inv(np.asarray(gp.kernel(X)) + np.diag(variances))
    covariance = np.asarray(gp.kernel(QUERIES)) - kernel @ inverse @ kernel.T
    check_moments(sample_functions(gp, DRAWS)(QUERIES), kernel @ inverse @ Y, covariance)
    weighted = GP(Linear(0.5) + 1.0, mean=0, noise=0.5).condition(X, Y, weights=0.5 / variances)
    check_moments(sample_functions(weighted, DRAWS)(QUERIES), kernel @ inverse @ Y, covariance)


def test_prior_functions_have_the_moments_of_the_prior():
    gp = GP(RBF(1.0, 2.0) + Linear(0.3), mean=lambda x: 3 * x[:, 0])
    draws = sample_functions(gp, DRAWS, columns=2, seed=5)(QUERIES)
    want = np.asarray(gp.kernel(QUERIES))
    check_moments(np.asarray(draws) - 3 * QUERIES[:, 0], np.zeros(len(QUERIES)), want, slack=4.5 * 2.0 / 32)


def test_functions_are_functions():
    """The same x has the same value, alone, among others, in another order, after saving no state."""
    functions = sample_functions(GP(Matern52(), noise=0.1).condition(X, Y), 6)
    together = np.asarray(functions(QUERIES))
    order = np.array([3, 0, 6, 5, 1, 4, 2])
    np.testing.assert_allclose(np.asarray(functions(QUERIES[order])), together[:, order], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(np.asarray(functions(QUERIES[3:4]))[:, 0], together[:, 3], rtol=1e-10, atol=1e-10)
    compiled = eqx.filter_jit(lambda f, x: f(x))(functions, jnp.asarray(QUERIES))
    np.testing.assert_allclose(compiled, together, rtol=1e-10, atol=1e-10)
    assert functions.n == 6
    with pytest.raises((AttributeError, TypeError)):
        functions.x = None


def test_long_tables_are_worked_off_in_parts(monkeypatch):
    functions = sample_functions(GP(RBF(), noise=0.1).condition(X, Y), 2, features=64)
    x = np.random.default_rng(0).normal(size=(50, 2))
    whole = np.asarray(functions(x))
    monkeypatch.setattr("credo.models.gp.sampling.CHUNK", 1)
    np.testing.assert_allclose(np.asarray(functions(x)), whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern52(1.0) + Linear(0.5)], ids=["RBF", "sum"])
def test_functions_go_through_data_without_noise(kernel):
    functions = sample_functions(GP(kernel, mean=0, noise=1e-10).condition(X, Y), 5)
    np.testing.assert_allclose(functions(X), np.broadcast_to(Y, (5, len(Y))), atol=1e-3)
    far = np.asarray(functions(np.array([[30.0, -30.0]])))
    assert far.std() > 0.3  # and know nothing far away


def test_functions_have_slopes():
    functions = sample_functions(GP(Matern52(1.3) + Linear(0.2), noise=0.1).condition(X, Y), 3)
    slope = jax.vmap(jax.jacfwd(lambda row: functions(row[None])[:, 0]))(jnp.asarray(QUERIES))  # at data points too
    h = 1e-5
    for k in range(2):
        step = h * np.eye(2)[k]
        central = (np.asarray(functions(QUERIES + step)) - np.asarray(functions(QUERIES - step))) / (2 * h)
        np.testing.assert_allclose(slope[:, :, k].T, central, rtol=1e-5, atol=1e-6)
    reverse = jax.grad(lambda row: functions(row[None])[1, 0])(jnp.asarray(QUERIES[0]))
    np.testing.assert_allclose(reverse, slope[0, 1], rtol=1e-10)


def test_more_data_than_the_host_size():
    x = np.random.default_rng(1).uniform(-3, 3, size=(300, 1))
    gp = GP(RBF(1.0), mean=0, noise=0.01).condition(x, np.sin(x[:, 0]))
    queries = np.array([[0.0], [1.0]])
    draws, exact = np.asarray(sample_functions(gp, 2000)(queries)), gp.predict(queries)
    se = np.sqrt(np.asarray(exact.epistemic) / 2000)
    assert np.all(np.abs(draws.mean(0) - np.asarray(exact.mean)) < 4.5 * se)
    np.testing.assert_allclose(draws.var(0), exact.epistemic, rtol=4.5 * np.sqrt(2 / 2000))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (NeuralNetwork(), "is not stationary.* use sample"),
        (RBF() + White(0.1), "White has no spectral measure.* use sample"),
        ((RBF() + Linear()) * (Matern52() + Linear()), "basis functions, more than 65536; lower features="),
    ],
    ids=["no measure", "white", "too many"],
)
def test_kernels_without_functions(kernel, message):
    with pytest.raises(DataError, match=message):
        sample_functions(GP(kernel, mean=0), 2, columns=2)


def test_functions_that_make_no_sense():
    with pytest.raises(DataError, match="columns="):
        sample_functions(GP(RBF()), 2)
    with pytest.raises(DataError, match="n, the number of functions"):
        sample_functions(GP(RBF()), 0, columns=1)
    with pytest.raises(DataError, match="features, the number of random features"):
        sample_functions(GP(RBF()), 1, features=0, columns=1)
    with pytest.raises(DataError, match="x must have 2 columns"):
        sample_functions(GP(RBF()).condition(X, Y), 1)(X[:, :1])
