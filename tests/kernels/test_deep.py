"""Deep kernels: a kernel of a network's features, whose weights are hyperparameters."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core.errors import NotConvergedWarning
from credo.core.params import learnable
from credo.infer import Evidence
from credo.kernels import RBF, check_kernel
from credo.models.gp import Inducing

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(30, 1))
Y = np.where(X[:, 0] > 0.1, 1.0, -1.0) + 0.1 * RNG.normal(size=30)


def kernel():
    return RBF(1.0).after(eqx.nn.MLP(1, 2, 3, 1, jnp.tanh, key=jax.random.key(0)))


def test_it_is_the_kernel_of_the_features():
    deep = kernel()
    features = np.asarray(deep.map(X))
    want = RBF(1.0).gram(features, features)
    np.testing.assert_allclose(deep.gram(X, X), want, rtol=1e-10)
    np.testing.assert_allclose(deep.diagonal(X), np.ones(30))
    assert learnable(deep)["weights"].shape == (3 + 3 + 6 + 2,)
    check_kernel(deep, columns=1)


def test_its_weights_are_learned_by_the_evidence():
    gp = credo.GP(kernel(), noise=0.05)
    climb = Evidence(starts=1, max_steps=40)
    with pytest.warns(NotConvergedWarning, match="stopped before it converged"):
        learned = credo.learn(gp, X, Y, using=climb, report=True)
    assert learned.log_evidence > float(gp.log_evidence(X, Y)) + 1
    assert not np.allclose(learned.belief.kernel.weights, gp.kernel.weights)
    held = credo.learn(gp, X, Y, using=climb, fixed=["kernel.weights"])
    np.testing.assert_array_equal(held.kernel.weights, gp.kernel.weights)
    inducing = learned.belief.condition(X, Y, using=Inducing(10))
    exact = learned.belief.condition(X, Y)
    np.testing.assert_allclose(inducing.predict(X).mean, exact.predict(X).mean, atol=0.1)
