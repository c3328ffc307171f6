"""What `adapt` chooses: every number that nobody has given, and none that somebody has, whatever its value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core import params
from credo.core.params import is_absent
from credo.kernels import (
    RBF,
    Brownian,
    Categorical,
    ChangePoint,
    Constant,
    Cosine,
    Gibbs,
    Kernel,
    Linear,
    LocallyPeriodic,
    Matern52,
    NeuralNetwork,
    Periodic,
    Polynomial,
    White,
)
from credo.kernels.base import InputScales

RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 5.0, (24, 2))
Y = 10.0 * np.sin(X[:, 0])
SCALES = InputScales.of(X, 40.0)

# Each number at what it means until it is given: nobody could tell the two apart by their values.
GIVEN = {
    "lengthscale": RBF(lengthscale=1.0),
    "variance": Matern52(variance=1.0),
    "period": Periodic(period=1.0),
    "decay": LocallyPeriodic(decay=1.0),
    "wave": Cosine(period=1.0),
    "constant": Constant(variance=1.0),
    "white": White(variance=1.0),
    "linear": Linear(variance=1.0, center=0.0),
    "polynomial": Polynomial(offset=1.0, variance=1.0, center=0.0),
    "network": NeuralNetwork(lengthscale=1.0, center=0.0),
    "gibbs": Gibbs(lengthscale=1.0, variance=1.0, center=0.0),
    "change": ChangePoint(RBF(lengthscale=1.0), RBF(), location=0.0, width=1.0),
    "walk": Brownian(variance=1.0, origin=0.0).on(0),
    "category": Categorical(lengthscale=1.0, variance=1.0),
    "product": RBF(variance=1.0) * Periodic(),
    "sum": RBF(lengthscale=1.0) + Constant(1.0),
    "columns": RBF(lengthscale=1.0).on(1),
    "scaled": 1.0 * RBF(),
}


def numbers(kernel: Kernel) -> dict[str, np.ndarray]:
    """All numbers of a kernel by path, None where nobody has set them."""
    flat, _ = jax.tree_util.tree_flatten_with_path(kernel, is_leaf=lambda v: v is None)
    return {jax.tree_util.keystr(path): value for path, value in flat}


@pytest.mark.parametrize("kernel", GIVEN.values(), ids=GIVEN)
def test_what_was_given_stays_and_what_was_not_is_chosen(kernel):
    adapted = kernel.adapt(SCALES)
    before, after = numbers(kernel), numbers(adapted)
    given = {path: value for path, value in before.items() if value is not None}
    assert given
    for path, value in given.items():
        np.testing.assert_array_equal(after[path], value, err_msg=path)
    assert jax.tree.structure(adapted) == jax.tree.structure(params.settled(adapted)), "nothing is left to choose"


@pytest.mark.parametrize("kernel", [RBF(), Matern52(), Periodic(), Linear(), Polynomial(), RBF() * Periodic()], ids=str)
def test_a_kernel_that_was_not_adapted_works_as_its_settled_self(kernel):
    rows = jnp.asarray(X)
    settled = params.settled(kernel)
    assert list(params.learnable(kernel)) == list(params.learnable(settled))
    np.testing.assert_array_equal(kernel.gram(rows, rows), settled.gram(rows, rows))
    np.testing.assert_array_equal(kernel.diagonal(rows), settled.diagonal(rows))
    assert kernel.formula() == settled.formula()


def test_the_amplitude_of_a_product_is_its_own_and_is_chosen_unless_given():
    plain, given = RBF() * Periodic(), RBF(variance=1.0) * Periodic()
    assert plain.variance is None and all(is_absent(k.variance) for k in plain.factors)
    assert float(plain.adapt(SCALES).variance) == 40.0
    assert float(given.adapt(SCALES).variance) == 1.0
    assert float((2.0 * RBF() * (3.0 * Periodic())).variance) == 6.0
    assert is_absent((RBF().exp() * RBF().exp()).variance)


def test_learning_starts_where_the_user_said():
    fixed = ["kernel.lengthscale"]
    kept = credo.learn(credo.GP(RBF(lengthscale=1.0)), X, Y, fixed=fixed)
    assert float(kept.kernel.lengthscale) == 1.0
    prepared, _ = credo.GP(RBF()).prepare(X, Y)
    assert float(prepared.kernel.lengthscale) > 2.0
