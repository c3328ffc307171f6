"""Spaces and targets: the map to unconstrained numbers, its Jacobian, and what is said about a bad start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credo.core.errors import DataError
from credo.core.params import log_jacobian
from credo.infer.target import ParameterSpace, Target

CASES = {
    "real": np.array([-1.0, 0.3]),
    "positive": np.array([0.2, 3.0]),
    "unit_interval": np.array([0.1, 0.8]),
    "simplex": np.array([0.2, 0.5, 0.3]),
    "positive_definite": np.array([[2.0, 0.3], [0.3, 0.7]]),
    "ordered_vector": np.array([-1.0, 0.5, 2.0]),
}


def density(theta):
    return sum(-0.5 * jnp.sum(v**2) for v in jax.tree.leaves(theta))


@pytest.fixture(scope="module")
def space():
    return ParameterSpace.of(CASES, {kind: kind for kind in CASES if kind != "real"})


def test_round_trip_of_every_constraint(space):
    back = space.tree(space.vector(CASES))
    for kind, value in CASES.items():
        np.testing.assert_allclose(back[kind], value, rtol=1e-10, atol=1e-12)
    assert space.size == 2 + 2 + 2 + 2 + 3 + 3 == len(space.names)
    np.testing.assert_allclose(space.start(), space.vector(CASES))


def test_any_vector_gives_an_allowed_tree(space, rng):
    tree = jax.jit(jax.vmap(space.tree))(jnp.asarray(2 * rng.normal(size=(50, space.size))))
    assert np.all(tree["positive"] > 0)
    assert np.all((tree["unit_interval"] > 0) & (tree["unit_interval"] < 1))
    np.testing.assert_allclose(tree["simplex"].sum(1), 1.0)
    assert np.all(np.linalg.eigvalsh(tree["positive_definite"]) > 0)
    assert np.all(np.diff(tree["ordered_vector"], axis=1) > 0)


@pytest.mark.parametrize("kind", CASES)
def test_jacobian_is_that_of_autodiff(kind, rng):
    space = ParameterSpace.of(CASES[kind], {"": kind})

    def independent(u):
        v = space.tree(u)
        if kind == "simplex":  # the last probability follows from the others
            return v[:-1]
        return v[np.tril_indices(2)] if kind == "positive_definite" else v

    u = jnp.asarray(rng.normal(size=space.size))
    jacobian = jax.jit(jax.jacobian(independent))(u)
    want = np.linalg.slogdet(np.asarray(jacobian))[1]
    np.testing.assert_allclose(log_jacobian(space.slots, u), want, rtol=1e-9)


def test_target_is_density_plus_jacobian(space):
    u = space.vector(CASES)
    want = density(CASES) + log_jacobian(space.slots, u)
    np.testing.assert_allclose(Target(space, density)(u), want, rtol=1e-10)


def test_nan_at_the_start_says_where():
    target = Target(ParameterSpace.of({"a": 2.0, "b": -1.0}), lambda t: jnp.log(t["b"]) + t["a"])
    with pytest.raises(DataError, match=r"the log density is nan at the start \(a = 2, b = -1\)"):
        target.check()


def test_gradient_that_is_not_finite_says_which_parameter():
    target = Target(ParameterSpace.of({"a": 2.0, "b": 0.0}), lambda t: -jnp.sqrt(t["b"]) - t["a"] ** 2)
    with pytest.raises(DataError, match="the gradient of the log density is not finite in b at the start"):
        target.check()


@pytest.mark.parametrize(
    ("init", "constraints", "message"),
    [
        ({"a": -1.0}, {"a": "positive"}, "init breaks the constraint of 'a': positive, found -1"),
        ({"a": 1.0}, {"b": "positive"}, "constraints name 'b', but init has the numbers: a"),
        ({"a": 1.0}, {"a": "negative"}, "must be one of real, positive"),
        ({"a": "text"}, None, "init must hold numbers only"),
        ({}, None, "init must be numbers"),
    ],
)
def test_bad_input(init, constraints, message):
    with np.errstate(invalid="ignore"), pytest.raises(DataError, match=message):
        Target(ParameterSpace.of(init, constraints), density).check()


def test_density_must_be_one_number():
    with pytest.raises(DataError, match=r"must return one number, found an array of shape \(2,\)"):
        Target(ParameterSpace.of(np.zeros(2)), lambda t: -(t**2)).check()
