"""`MatrixPrior` where a covariance or all coefficients are held, and where its scale is singular."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from credo.models.lds import MatrixPrior
from credo.models.lds.learning import Regression

N, K, ROWS = 4000, 2, 30
PRIOR = MatrixPrior(jnp.full((K, 2), 0.3), jnp.asarray([2.0, 3.0]), jnp.eye(K), jnp.asarray(5.0))


@eqx.filter_jit
def many(prior, sums, c, covariance, free, loose):
    return jax.vmap(lambda key: prior.draw(key, sums, c, covariance, free, loose))(jr.split(jr.key(1), N))


def data(rng):
    w, y = rng.normal(size=(ROWS, 2)), rng.normal(size=(ROWS, K))
    return w, y, Regression(*(jnp.asarray(a) for a in (float(ROWS), y.T @ y, y.T @ w, w.T @ w)))


def test_coefficients_given_the_covariance(rng):
    w, y, sums = data(rng)
    covariance = np.array([[1.0, 0.4], [0.4, 0.7]])
    c, same = many(PRIOR, sums, jnp.zeros((K, 2)), jnp.asarray(covariance), (True, True), False)
    np.testing.assert_array_equal(same[0], covariance)
    v = np.diag([2.0, 3.0]) + w.T @ w
    m = (0.3 * np.ones((K, 2)) @ np.diag([2.0, 3.0]) + y.T @ w) @ np.linalg.inv(v)
    flat = np.asarray(c).reshape(N, -1) - m.ravel()
    assert np.all(np.abs(flat.mean(0)) < 4.5 * flat.std(0) / np.sqrt(N))
    products = flat[:, :, None] * flat[:, None]
    want = np.kron(covariance, np.linalg.inv(v))
    assert np.all(np.abs(products.mean(0) - want) < 4.5 * products.std(0) / np.sqrt(N))


def test_the_covariance_given_all_coefficients(rng):
    w, y, sums = data(rng)
    held = np.array([[0.5, -0.2], [0.1, 0.3]])
    c, covariance = many(PRIOR, sums, jnp.asarray(held), jnp.eye(K), (False, False), True)
    np.testing.assert_array_equal(c[0], held)
    rest = y - w @ held.T
    want = (np.eye(K) + rest.T @ rest) / (5 + ROWS - K - 1)
    draws = np.asarray(covariance)
    assert np.all(np.abs(draws.mean(0) - want) < 4.5 * draws.std(0) / np.sqrt(N))


def test_a_singular_scale_gives_draws_that_are_numbers():
    nothing = Regression(*(jnp.asarray(a) for a in (0.0, np.zeros((K, K)), np.zeros((K, 2)), np.zeros((2, 2)))))
    prior = PRIOR._replace(scale=jnp.ones((K, K)))
    c, covariance = many(prior, nothing, jnp.zeros((K, 2)), jnp.eye(K), (True, True), True)
    assert np.isfinite(c).all() and np.isfinite(covariance).all()
