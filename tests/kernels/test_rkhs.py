"""Functions of an RKHS against NumPy, explicit ridge regression and scikit-learn."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import PolynomialFeatures

from credo.core.errors import DataError
from credo.kernels import RBF, Constant, Custom, Matern32, RationalQuadratic
from credo.kernels.rkhs import RKHSFunction, kernel_ridge, minimize, projection, section

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


# -- any convex loss ---------------------------------------------------------------------------------------------------


def loss_of(f, x, y, loss, penalty, w, delta=0.1, level=0.8):
    r, at = y - f(x), f(x)
    losses = {
        "squared": r**2,
        "huber": np.where(np.abs(r) <= delta, r**2 / 2, delta * np.abs(r) - delta**2 / 2),
        "quantile": np.maximum(level * r, (level - 1) * r),
        "logistic": np.logaddexp(0, -y * at),
        "hinge": np.maximum(0, 1 - y * at),
    }
    return w @ losses[loss] + penalty * f.norm() ** 2


def inside(low, value, high, tolerance):
    return np.all(value >= low - tolerance) and np.all(value <= high + tolerance)


OPTIONS = {"huber": {"delta": 0.1}, "quantile": {"level": 0.8}}


@pytest.mark.parametrize("loss", ["squared", "huber", "quantile", "logistic", "hinge"])
@pytest.mark.parametrize("penalty", [0.003, 2.0])
def test_minimize_meets_the_conditions_of_a_minimum(loss, penalty):
    """2λα is minus a subgradient of the loss at every row, and no change of f is better."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2))
    y = np.sign(x[:, 0] * x[:, 1]) if loss in ("logistic", "hinge") else x[:, 0] ** 2 + 0.3 * rng.standard_t(2, size=40)
    w, kernel = rng.uniform(0.5, 2.0, size=40), RBF(0.8)
    f = minimize(kernel, x, y, loss, penalty, weights=w, **OPTIONS.get(loss, {}))
    slope, at, eps = 2 * penalty * f.coefficients / w, f(x), 1e-6
    if loss == "squared":
        np.testing.assert_allclose(slope, 2 * (y - at), atol=1e-8)
    elif loss == "huber":
        np.testing.assert_allclose(slope, np.clip(y - at, -0.1, 0.1), atol=1e-7)
    elif loss == "logistic":
        np.testing.assert_allclose(slope, y / (1 + np.exp(y * at)), atol=1e-9)
    elif loss == "quantile":
        r = y - at
        assert inside(np.where(r > eps, 0.8, -0.2), slope, np.where(r < -eps, -0.2, 0.8), 1e-7)
    else:
        margin = y * at
        assert inside(np.where(margin < 1 - eps, 1.0, 0.0), y * slope, np.where(margin > 1 + eps, 0.0, 1.0), 1e-7)
    best = loss_of(f, x, y, loss, penalty, w)
    for _ in range(10):
        other = RKHSFunction(kernel, x, f.coefficients + 1e-3 * np.abs(f.coefficients).max() * rng.normal(size=40))
        assert loss_of(other, x, y, loss, penalty, w) >= best - 1e-9


def test_minimize_agrees_with_scikit_learn():
    """An offset that is hardly penalized is scikit-learn's free one; C = 1/2λ."""
    from sklearn.svm import SVC

    rng = np.random.default_rng(5)
    x = rng.normal(size=(50, 2))
    y = np.where(x[:, 0] + 0.5 * rng.normal(size=50) > 0.3, 1, 0)
    kernel = RBF(1.0) + Constant(1e4)
    f = minimize(kernel, x, y, "hinge", 0.25)
    theirs = SVC(C=2.0, kernel="precomputed", tol=1e-8).fit(RBF(1.0)(x), y)
    np.testing.assert_allclose(f(x), theirs.decision_function(RBF(1.0)(x)), atol=2e-3)
    assert set(np.flatnonzero(f.coefficients)) == set(theirs.support_)


def test_quantiles_have_their_share_below():
    rng = np.random.default_rng(6)
    x = rng.uniform(0, 3, size=(150, 1))
    y = np.sin(x[:, 0]) + (0.1 + 0.3 * x[:, 0]) * rng.normal(size=150)
    for level in (0.1, 0.5, 0.9):
        f = minimize(RBF(1.0) + Constant(100.0), x, y, "quantile", 0.05, level=level)
        assert abs((y < f(x)).mean() - level) < 0.05


def test_minimize_refuses_what_it_cannot_use(data):
    x, y = data
    for call, said in (
        (lambda: minimize(RBF(), x, y, "absolute"), "loss must be one of squared, logistic"),
        (lambda: minimize(RBF(), x, y, "hinge"), "y must be -1 and 1, or 0 and 1"),
        (lambda: minimize(RBF(), x, y, "hinge", delta=1.0), "delta= is of the loss 'huber', found with 'hinge'"),
        (lambda: minimize(RBF(), x, y, "quantile", level=1.0), "strictly between 0 and 1"),
        (lambda: minimize(RBF(), x, y, "huber", 0.0), "penalty must be one positive number"),
        (lambda: minimize(RBF(), x, y, "huber", delta=0.0), "delta must be positive"),
    ):
        with pytest.raises(DataError, match=said):
            call()
    one = minimize(RBF(), x[:1], [1.0], "hinge", 0.1)
    assert one(x[:1])[0] == pytest.approx(1.0, abs=1e-6)
