"""Functions of an RKHS against NumPy, explicit ridge regression and scikit-learn."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import PolynomialFeatures

from credo.core.errors import DataError
from credo.kernels import RBF, Custom, Matern32, RationalQuadratic
from credo.kernels.rkhs import RKHSFunction, kernel_ridge, projection, section

KERNELS = [RBF(0.7, 2.0), Matern32(jnp.array([0.5, 1.5])), RBF(0.8) + RationalQuadratic(1.2, 0.5)]
TIGHT = {"rtol": 1e-10, "atol": 1e-10}


def polynomial(x, z):
    return (1.0 + x @ z) ** 2


def some(rng, kernel, n):
    return RKHSFunction(kernel, rng.normal(size=(n, 2)), rng.normal(size=n))


def objective(f, x, y, penalty, weights=1.0):
    return float((weights * (y - f(x)) ** 2).sum() + penalty * f.inner(f))


@pytest.fixture
def data(rng):
    x = rng.normal(size=(20, 2))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=20)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_kernel_reproduces(rng, kernel):
    f, x = some(rng, kernel, 6), rng.normal(size=(4, 2))
    pairs = list(zip(f.coefficients, f.points, strict=True))
    want = [sum(float(a * kernel.of(p, jnp.asarray(q))) for a, p in pairs) for q in x]
    np.testing.assert_allclose(f(x), want, **TIGHT)
    np.testing.assert_allclose([f.inner(section(kernel, q)) for q in x], want, **TIGHT)
    a, b = section(kernel, x[0]), section(kernel, jnp.asarray(x[1]))
    np.testing.assert_allclose(a.inner(b), kernel(x)[0, 1], **TIGHT)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_it_is_an_inner_product_space(rng, kernel):
    f, g, h = some(rng, kernel, 6), some(rng, kernel, 4), some(rng, kernel, 3)
    x = rng.normal(size=(5, 2))
    np.testing.assert_allclose((2.0 * f + g * 3.0 - h)(x), 2 * f(x) + 3 * g(x) - h(x), **TIGHT)
    np.testing.assert_allclose((2.0 * f + g).inner(h), 2 * f.inner(h) + g.inner(h), **TIGHT)
    np.testing.assert_allclose(f.inner(g), g.inner(f), **TIGHT)
    np.testing.assert_allclose(f.norm() ** 2, f.inner(f), **TIGHT)
    np.testing.assert_allclose((-f).norm(), f.norm(), **TIGHT)
    assert abs(f.inner(g)) <= f.norm() * g.norm()
    assert (f + g).norm() <= f.norm() + g.norm()
    np.testing.assert_allclose((f + g).norm() ** 2 + (f - g).norm() ** 2, 2 * (f.norm() ** 2 + g.norm() ** 2), **TIGHT)
    np.testing.assert_allclose((f - f).norm(), 0, atol=1e-6)
    assert np.all(np.abs(f(x)) <= f.norm() * np.sqrt(kernel.diagonal(jnp.asarray(x))) + 1e-12)


def test_kernel_ridge_is_that_of_scikit_learn(data):
    x, y = data
    kernel = RBF(0.7, 2.0)
    for weights in (None, np.linspace(0.5, 2.0, 20)):
        ours = kernel_ridge(kernel, x, y, 0.3, weights)
        theirs = KernelRidge(alpha=0.3, kernel=lambda a, b: 2.0 * np.exp(-((a - b) ** 2).sum() / (2 * 0.7**2)))
        theirs.fit(x, y, sample_weight=weights)
        new = np.linspace(-1, 1, 10).reshape(5, 2)
        np.testing.assert_allclose(ours(new), theirs.predict(new), rtol=1e-9)


def test_the_dual_is_the_primal_for_polynomial_features(data):
    """(1 + xᵀz)² is the inner product of scaled monomials: ridge regression on those is the same function."""
    x, y = data
    weights = np.linspace(0.5, 2.0, 20)

    def features(rows):
        scale = np.sqrt([1.0, 2.0, 2.0, 1.0, 2.0, 1.0])  # 1, x, z, x², xz, z²
        return PolynomialFeatures(2).fit_transform(rows) * scale

    phi = features(x)
    w = np.linalg.solve(phi.T @ (weights[:, None] * phi) + 0.3 * np.eye(6), phi.T @ (weights * y))
    f = kernel_ridge(Custom(polynomial), x, y, 0.3, weights)
    new = np.linspace(-1, 1, 10).reshape(5, 2)
    np.testing.assert_allclose(f(new), features(new) @ w, rtol=1e-9)
    np.testing.assert_allclose(f.inner(f), w @ w, rtol=1e-9)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 20)], ids=["equal", "weighted"])
def test_no_other_function_has_a_lower_objective(rng, data, weights):
    """The objective is quadratic: moving by h from its minimum costs exactly Σ w h(x)² + λ‖h‖²."""
    x, y = data
    kernel = RBF(0.7, 2.0)
    w = 1.0 if weights is None else weights
    best = kernel_ridge(kernel, x, y, 0.3, weights)
    least = objective(best, x, y, 0.3, w)
    for size in (1e-2, 1.0):
        inside = RKHSFunction(kernel, x, size * rng.normal(size=20))
        anywhere = some(rng, kernel, 5) * size
        for h in (inside, anywhere):
            extra = float((w * h(x) ** 2).sum() + 0.3 * h.inner(h))
            np.testing.assert_allclose(objective(best + h, x, y, 0.3, w), least + extra, rtol=1e-9)
            assert extra > 0


def test_what_the_data_do_not_see_only_costs(rng, data):
    x, y = data
    best = kernel_ridge(RBF(0.7, 2.0), x, y, 0.3)
    g = some(rng, best.kernel, 4)
    unseen = g - projection(g, x)
    np.testing.assert_allclose(unseen(x), 0, atol=1e-8)
    assert unseen.norm() > 0.1
    np.testing.assert_allclose((best + unseen)(x), best(x), atol=1e-8)
    extra = objective(best + unseen, x, y, 0.3) - objective(best, x, y, 0.3)
    np.testing.assert_allclose(extra, 0.3 * unseen.inner(unseen), rtol=1e-6)


def test_projection_is_orthogonal_idempotent_and_nearest(rng):
    kernel = Matern32(0.8)
    f, z = some(rng, kernel, 6), rng.normal(size=(5, 2))
    p = projection(f, z)
    np.testing.assert_allclose(p(z), f(z), **TIGHT)
    np.testing.assert_allclose([(f - p).inner(section(kernel, q)) for q in z], 0, atol=1e-10)
    np.testing.assert_allclose(projection(p, z)(z), p(z), **TIGHT)
    np.testing.assert_allclose(f.inner(f), p.inner(p) + (f - p).inner(f - p), **TIGHT)
    other = p + RKHSFunction(kernel, z, 0.1 * rng.normal(size=5))
    assert (f - other).norm() > (f - p).norm()


def test_a_small_penalty_interpolates(data):
    x, y = data
    np.testing.assert_allclose(kernel_ridge(Matern32(0.8), x, y, 1e-9)(x), y, atol=1e-6)


def test_bad_input_is_refused(rng, data):
    x, y = data
    kernel = RBF(0.7)
    f = some(rng, kernel, 3)
    with pytest.raises(DataError, match="penalty must be one positive number, found 0"):
        kernel_ridge(kernel, x, y, 0.0)
    with pytest.raises(DataError, match="penalty must be one positive number"):
        kernel_ridge(kernel, x, y, [1.0, 2.0])
    with pytest.raises(DataError, match="weights must be positive"):
        kernel_ridge(kernel, x, y, 1.0, -np.ones(20))
    with pytest.raises(DataError, match="one value per row"):
        kernel_ridge(kernel, x, y[:-1], 1.0)
    with pytest.raises(DataError, match="different spaces"):
        f.inner(some(rng, RBF(0.8), 3))
    with pytest.raises(DataError, match="different spaces"):
        f + RKHSFunction(kernel, np.zeros((1, 3)), [1.0])
    with pytest.raises(DataError, match="goes with another one, found float"):
        f + 1.0
    with pytest.raises(DataError, match="use f.inner"):
        f * f
    with pytest.raises(DataError, match="one point x, found 20 rows"):
        section(kernel, x)
    with pytest.raises(DataError, match="one value per row"):
        RKHSFunction(kernel, x, y[:3])
