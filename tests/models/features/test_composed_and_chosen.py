import jax.numpy as jnp
import numpy as np

from credo.models.features import Affine, Chosen, Composed, Polynomial, Standardize


def test_composed_features_are_the_outer_of_the_inner():
    x = np.random.default_rng(0).normal(5, 2, (30, 2))
    features = Composed(Polynomial(2), Affine()).adapt(x)
    z = (x - x.mean(0)) / x.std(0)
    want = np.column_stack([z, z[:, 0] ** 2, z[:, 0] * z[:, 1], z[:, 1] ** 2])
    np.testing.assert_allclose(features(jnp.asarray(x)), want, rtol=1e-9, atol=1e-12)
    assert features.names(["a", "b"]) == ["a", "b", "a²", "a·b", "b²"] and features.size(2) == 5 and features.ready


def test_chosen_features_are_columns_of_the_others():
    x = np.random.default_rng(0).normal(size=(30, 2))
    every = Standardize(Polynomial(2)).adapt(x)
    some = Chosen(Standardize(Polynomial(2)), (0, 3)).adapt(x)
    np.testing.assert_allclose(some(jnp.asarray(x)), every(jnp.asarray(x))[:, np.asarray([0, 3])], rtol=1e-12)
    assert some.names(["a", "b"]) == ["a", "a·b"] and some.size(2) == 2
