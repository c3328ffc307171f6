"""Laplace's approximation against closed forms and dense formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from credo.core.errors import DataError
from credo.infer.laplace import Laplace
from credo.infer.target import ParameterSpace, Target


def test_normal_target_is_exact(normal):
    target, mean, covariance, want = normal
    found = Laplace().run(target)
    np.testing.assert_allclose(found.center, mean, rtol=1e-8)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-8)
    np.testing.assert_allclose(found.log_evidence, want, rtol=1e-8)
    assert found.verdict == "No sign of trouble."


def test_diagonal_and_lowrank_curvature(normal):
    target, _, covariance, _ = normal
    precision = np.linalg.inv(covariance)
    diagonal = Laplace(curvature="diagonal").run(target)
    np.testing.assert_allclose(diagonal.covariance, np.diag(1 / np.diag(precision)), rtol=1e-8, atol=1e-12)
    values, vectors = np.linalg.eigh(precision)
    sharp = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    want = np.linalg.inv(sharp + np.diag(np.diag(precision) - np.diag(sharp)))
    np.testing.assert_allclose(Laplace(curvature="lowrank", rank=2).run(target).covariance, want, rtol=1e-8)
    full = Laplace(curvature="lowrank", rank=4).run(target)
    np.testing.assert_allclose(full.covariance, covariance, rtol=1e-7)


def outputs(theta, x, y):
    return jnp.exp(theta[0] * x) + theta[1]


def likelihood(f, x, y):
    return -0.5 * jnp.sum((y - f) ** 2) / 0.1


def curved(theta, x, y):
    return likelihood(outputs(theta, x, y), x, y) - 0.5 * theta @ theta


def test_gauss_newton_drops_the_curvature_of_the_model():
    x = np.linspace(0, 1, 8)
    y = np.exp(0.6 * x) + 0.2 + 0.3 * np.sin(9 * x)
    data = (jnp.asarray(x), jnp.asarray(y))
    target = Target(ParameterSpace.of(np.zeros(2)), curved, data, (outputs, likelihood))
    found = Laplace(curvature="gauss-newton").run(target)
    a = float(found.center[0])
    jacobian = np.stack([x * np.exp(a * x), np.ones_like(x)], axis=1)
    want = jacobian.T @ jacobian / 0.1 + np.eye(2)
    np.testing.assert_allclose(np.linalg.inv(found.covariance), want, rtol=1e-7)
    exact = -np.asarray(jax.hessian(target)(found.center))
    assert np.abs(exact - want).max() > 1e-2
    with pytest.raises(DataError, match="needs a target that says what it predicts"):
        Laplace(curvature="gauss-newton").run(Target(ParameterSpace.of(np.zeros(2)), curved, data))


def gamma(theta, shape, rate):
    return (shape - 1) * jnp.log(theta) - rate * theta


def test_gamma_posterior_of_a_positive_number():
    shape, rate = 60.0, 12.0
    found = Laplace().run(
        Target(ParameterSpace.of(1.0, {"": "positive"}), gamma, (jnp.asarray(shape), jnp.asarray(rate)))
    )
    # On the log scale: mode log(a/b), curvature a.
    np.testing.assert_allclose(found.center[0], np.log(shape / rate), rtol=1e-8)
    np.testing.assert_allclose(found.root[0, 0], shape**-0.5, rtol=1e-8)

    def mass(power):
        return integrate.quad(lambda t: t ** (shape - 1 + power) * np.exp(-rate * t), 0, 30)[0]

    np.testing.assert_allclose(found.log_evidence, np.log(mass(0)), atol=1 / (11 * shape))
    mean = mass(1) / mass(0)
    np.testing.assert_allclose(found.mean, mean, rtol=0.02)
    np.testing.assert_allclose(found.std, np.sqrt(mass(2) / mass(0) - mean**2), rtol=0.06)


def ridge(theta):
    return -0.5 * (theta["a"] + theta["b"] - 1.0) ** 2


def test_what_is_not_determined_is_said():
    found = Laplace().run(Target(ParameterSpace.of({"a": 0.0, "b": 0.3}), ridge))
    assert "not positive definite" in found.verdict
    assert "mostly a, b" in found.verdict
    assert np.all(np.isfinite(found.root))


def test_mode_at_infinity_is_said():
    far = Laplace().run(
        Target(ParameterSpace.of({"a": 0.0, "b": 0.0}), lambda t: -jnp.exp(-t["a"]) - 0.5 * t["b"] ** 2)
    )
    assert "a moved by" in far.verdict
    assert "may be at a bound or at infinity" in far.verdict


def test_units_do_not_matter():
    """Numbers of very different sizes, far from the start but well determined: nothing to say."""
    mean, sd = jnp.asarray([1e-4, 2.0, 3e6]), jnp.asarray([1e-5, 1.0, 1e4])
    found = Laplace().run(
        Target(ParameterSpace.of(np.zeros(3)), lambda t, m, s: -0.5 * jnp.sum(((t - m) / s) ** 2), (mean, sd))
    )
    np.testing.assert_allclose(found.center, mean, rtol=1e-6)
    np.testing.assert_allclose(jnp.diagonal(found.root), sd, rtol=1e-6)
    assert found.notes == ()


def test_bad_settings():
    with pytest.raises(DataError, match="curvature must be 'exact'"):
        Laplace(curvature="cubic").run(Target(ParameterSpace.of(0.0), lambda t: -(t**2)))
