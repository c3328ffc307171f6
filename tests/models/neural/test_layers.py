"""Layers by NumPy, and networks of one's own: the same as dense ones where they are the same."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core.errors import DataError, FileError
from credo.models.neural import (
    Categories,
    Dropout,
    Ensemble,
    Image,
    LastLayer,
    Network,
    Neural,
    QuantileBins,
    Residual,
    Standardize,
)
from credo.models.neural.network import OwnNetwork

RNG = np.random.default_rng(2)
X = RNG.normal(size=(30, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=30)
KEYS = jax.random.split(jax.random.key(0), 3)


def dense():
    """Two layers of equinox's."""
    first, last = eqx.nn.Linear(2, 3, key=KEYS[0]), eqx.nn.Linear(3, 2, key=KEYS[1])
    return eqx.nn.Sequential([first, eqx.nn.Lambda(jnp.tanh), last]), first, last


def test_layers():
    standard = Standardize.of(np.column_stack([X, np.ones(30)]))
    np.testing.assert_allclose(standard(np.r_[X[0], 1.0])[:2], (X[0] - X.mean(0)) / X.std(0))
    bins = QuantileBins.of(X, 4)
    edges = np.quantile(X[:, 0], [0, 0.25, 0.5, 0.75, 1])
    at = edges[2] + 0.3 * (edges[3] - edges[2])
    np.testing.assert_allclose(bins(np.array([at, 9.0])), [1, 1, 0.3, 0, 1, 1, 1, 1], atol=1e-12)
    flat = QuantileBins(np.array([[0.0, 0.0, 1.0]]))  # a bin without width is a step
    np.testing.assert_array_equal(np.stack([flat(np.array([v])) for v in (-1.0, 0.0, 0.5)]), [[0, 0], [1, 0], [1, 0.5]])
    codes = Categories((1,), (3,), 2, key=KEYS[0])
    np.testing.assert_allclose(codes(np.array([0.5, 2.0])), np.r_[0.5, codes.tables[0][2]])
    np.testing.assert_array_equal(codes(np.array([0.5, 7.0])), [0.5, 0.0, 0.0])
    image = Image((1, 2, 3))(np.arange(6.0))
    np.testing.assert_array_equal(image, np.arange(6.0).reshape(1, 2, 3))
    np.testing.assert_array_equal(Residual(lambda v: 2 * v)(np.ones(2)), [3, 3])
    with pytest.raises(DataError, match="levels must say how many codes"):
        Categories((0, 1), (3,), key=KEYS[0])


def test_a_module_is_the_dense_network_with_its_weights():
    module, first, last = dense()
    own, same = OwnNetwork.of(module), Network((2, 3, 2))
    theta = np.concatenate([np.ravel(v) for v in (first.weight.T, first.bias, last.weight.T, last.bias)])
    np.testing.assert_allclose(own(own.first[None], X)[0], same(theta, X), rtol=1e-12)
    start = own.start(3, np.random.default_rng(0))
    np.testing.assert_array_equal(start[0], own.first)
    np.testing.assert_allclose(np.sort(start[2][:6]), np.sort(own.first[:6]))  # in another order
    assert own.size == same.size
    np.testing.assert_array_equal(own.first[own.last()], np.r_[np.ravel(last.weight), last.bias])
    np.testing.assert_array_equal(own.first[own.last(0)], np.r_[last.weight[0], last.bias[0]])
    assert own.matrices.sum() == 12


def test_a_network_of_ones_own_is_trained(tmp_path):
    module, *_ = dense()
    belief = Neural(network=module, steps=200, batch=8)
    after = belief.condition(X, Y, using=Ensemble(2))
    assert np.std(Y - after.predict(X).mean) < 0.5 * np.std(Y)
    closed = belief.condition(X, Y, using=LastLayer())
    assert np.all(np.asarray(closed.predict(X).epistemic) > 0)
    with pytest.raises(FileError, match="cannot be saved"):
        credo.save(after, tmp_path / "own.credo")


def test_what_cannot_be_is_refused():
    module, *_ = dense()
    for ask, words in (
        (lambda: Neural((3,), network=module), "give layers or a network of your own"),
        (lambda: Neural(network=3), "must be a module that maps a row"),
        (lambda: Neural(network=Image((1, 1, 2))), "must have weights to learn"),
        (lambda: Neural(network=module).condition(X[:, :1], Y), "must take a row of 1 numbers"),
        (lambda: Neural(outcome="counts", network=module).condition(X, np.arange(30)), "must have 1 outputs"),
        (lambda: Neural(network=module).condition(X, Y, using=Dropout(0.1)), "which units a network of your own has"),
        (lambda: OwnNetwork.of(eqx.nn.LayerNorm(2)).last(), "found none in the network"),
    ):
        with pytest.raises(DataError, match=words):
            ask()
