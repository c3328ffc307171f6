"""A target whose posterior is normal and known, for the methods that should find it exactly."""

import jax.numpy as jnp
import numpy as np
import pytest

from credo.infer.target import ParameterSpace, Target


def gaussian(theta, mean, precision):
    return 1.7 - 0.5 * (theta - mean) @ precision @ (theta - mean)


def normal_target(seed=3, k=4, scale=1.0):
    """The target, its mean, covariance and log evidence; coordinates in units from 1/scale to scale."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(k, k))
    units = scale ** np.linspace(-1, 1, k)
    covariance = (factor @ factor.T + 0.3 * np.eye(k)) * np.outer(units, units)
    mean = 3 * rng.normal(size=k)
    target = Target(
        ParameterSpace.of(np.zeros(k)), gaussian, (jnp.asarray(mean), jnp.asarray(np.linalg.inv(covariance)))
    )
    return target, mean, covariance, 1.7 + 0.5 * k * np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(covariance)[1]


@pytest.fixture(scope="session")
def make_normal():
    return normal_target


@pytest.fixture(scope="session")
def normal():
    return normal_target()
