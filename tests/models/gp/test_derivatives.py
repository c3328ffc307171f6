"""Derivatives: as data, and of what is believed."""

import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core.errors import DataError
from credo.kernels import RBF, Exponential, Matern32, Matern52, RationalQuadratic, White, check_kernel
from credo.kernels.base import InputScales
from credo.kernels.derivative import Differentiated, with_gradients
from credo.kernels.discrete import Categorical
from credo.kernels.dotproduct import Linear
from credo.kernels.matern import Matern
from credo.kernels.nonstationary import Brownian
from credo.kernels.periodic import Periodic
from credo.models.gp import GP, Basis
from credo.models.gp.derivatives import DifferentiatedMean, differentiated, gradient, gradient_covariance
from credo.models.gp.sampling import sample_functions

RNG = np.random.default_rng(7)
X = RNG.uniform(-2, 2, size=(10, 2))
Y = np.sin(X[:, 0]) * np.cos(X[:, 1])
SLOPES = np.stack([np.cos(X[:, 0]) * np.cos(X[:, 1]), -np.sin(X[:, 0]) * np.sin(X[:, 1])], axis=1)
QUERIES = np.concatenate([RNG.uniform(-2, 2, size=(3, 2)), X[:1]])

# Rows with each kind at each of four points, two of them the same.
POINTS = np.array([[0.3, -0.2], [1.0, 0.5], [0.3, -0.2], [-1.0, 2.0]])
ROWS = np.concatenate([np.column_stack([POINTS, np.full(4, kind)]) for kind in (0.0, 1.0, 2.0)])

SMOOTH = {
    "RBF": RBF(jnp.array([0.8, 1.5]), 2.0),
    "projection": RBF(1.5, projection=jnp.array([[0.5, -0.3]])),
    "Matern52": Matern52(1.2, 1.5),
    "Matern32": Matern32(1.2, 1.5),
    "RationalQuadratic": RationalQuadratic(1.1, alpha=0.6),
    "Periodic": Periodic(1.3, period=4.0),
    "sum": RBF(1.0).on(0) * Matern52(1.0).on(1) + Linear(0.5) + 1.0,
}
HIDDEN = {
    "Exponential": Exponential(),
    "White": RBF() + White(0.1),
    "Brownian": RBF().on(0) * Brownian().on(1),
    "Matern": 2.0 * Matern(smoothness=0.8),
    "Matern12": RBF() * Exponential().warp(jnp.tanh),
}


# -- the kernel --------------------------------------------------------------------------------------------------


def test_covariances_of_the_rbf_are_the_closed_forms():
    """With t = x - z: k, k tⱼ/ℓⱼ², -k tᵢ/ℓᵢ² and k (δᵢⱼ/ℓᵢ² - tᵢtⱼ/ℓᵢ²ℓⱼ²)."""
    length, variance = np.array([0.8, 1.5]), 2.0
    found = np.asarray(Differentiated(RBF(jnp.asarray(length), variance))(ROWS))
    want = np.empty_like(found)
    for a, (*x, left) in enumerate(ROWS):
        for b, (*z, right) in enumerate(ROWS):
            t = (np.array(x) - np.array(z)) / length**2
            k = variance * np.exp(-0.5 * np.sum((np.array(x) - np.array(z)) ** 2 / length**2))
            i, j = int(left) - 1, int(right) - 1
            if i < 0 and j < 0:
                want[a, b] = k
            elif i < 0:
                want[a, b] = k * t[j]
            elif j < 0:
                want[a, b] = -k * t[i]
            else:
                want[a, b] = k * ((i == j) / length[i] ** 2 - t[i] * t[j])
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("kernel", "curvature"),
    [
        (RBF(0.5, 2.0), 2.0 / 0.25),
        (Matern52(0.5, 2.0), 5 / 3 * 2.0 / 0.25),
        (Matern32(0.5, 2.0), 3 * 2.0 / 0.25),
        (RationalQuadratic(0.5, 2.0, alpha=0.7), 2.0 / 0.25),
        (Periodic(0.5, 2.0, period=3.0), 2.0 * 4 * np.pi**2 / 9 / 0.25),
        (Matern(0.5, 2.0, smoothness=2.5), 5 / 3 * 2.0 / 0.25),
    ],
    ids=lambda v: type(v).__name__ if not isinstance(v, float) else "",
)
def test_the_variance_of_a_slope(kernel, curvature):
    """-κ''(0): 1/ℓ², 5/3ℓ², 3/ℓ², 1/ℓ², 4π²/p²ℓ²; and a slope is independent of the value at the same place."""
    rows = np.array([[0.4, 0.0], [0.4, 1.0], [0.4, 1.0]])
    gram = np.asarray(Differentiated(kernel)(rows))
    np.testing.assert_allclose(gram, [[2.0, 0, 0], [0, curvature, curvature], [0, curvature, curvature]], rtol=1e-9)


@pytest.mark.parametrize("name", SMOOTH)
def test_covariances_are_differences_of_the_kernel(name):
    kernel, h = SMOOTH[name], 1e-4
    gram = np.asarray(Differentiated(kernel)(ROWS))

    def shifted(rows, sign):
        step = np.zeros((len(rows), 2))
        for k in range(2):
            step[rows[:, 2] == k + 1, k] = h
        return rows[:, :2] + sign * step

    ends = {(s, t): np.asarray(kernel(shifted(ROWS, s), shifted(ROWS, t))) for s in (1, -1) for t in (1, -1)}
    slope = ROWS[:, 2] > 0
    left, right = slope[:, None], slope[None, :]
    second = (ends[1, 1] - ends[1, -1] - ends[-1, 1] + ends[-1, -1]) / (4 * h * h)
    first = np.where(left, ends[1, 1] - ends[-1, 1], ends[1, 1] - ends[1, -1]) / (2 * h)
    want = np.where(left & right, second, np.where(left | right, first, ends[1, 1]))
    # a Matérn-3/2 has a kink in its second derivative: differences are off by O(h) where points coincide
    np.testing.assert_allclose(gram, want, rtol=2e-3 if name == "Matern32" else 2e-6, atol=2e-6)


@pytest.mark.parametrize("name", ["RBF", "Matern32", "RationalQuadratic", "Periodic", "sum"])
def test_it_is_a_kernel(name):
    check_kernel(Differentiated(SMOOTH[name]), ROWS)


@pytest.mark.parametrize("name", HIDDEN)
def test_rough_kernels_are_refused(name):
    with pytest.raises(DataError, match="of functions that have none.* use a smooth kernel"):
        Differentiated(HIDDEN[name])


def test_kernels_of_labels_are_refused():
    with pytest.raises(DataError, match="of inputs that are not numbers"):
        Differentiated(Categorical(3).on(0) * RBF().on(1))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[0.0, 1.0, 3.0]], "0 the value and 1 … 2 a derivative, found 3 in row 0"),
        ([[0.0, 1.0, 0.0], [0.0, 1.0, 0.5]], "found 0.5 in row 1"),
        ([[0.0]], "found one column"),
    ],
)
def test_rows_that_do_not_say_what_is_observed(x, message):
    with pytest.raises(DataError, match=message):
        Differentiated(RBF())(x)


def test_starts_do_not_see_the_last_column():
    inside, around = RBF(ard=True), Differentiated(RBF(ard=True))
    rows, outcomes = with_gradients(X, Y, SLOPES)
    adapted = around.adapt(InputScales.of(rows, 3.0)).kernel
    want = inside.adapt(InputScales.of(rows[:, :2], 3.0))
    np.testing.assert_array_equal(adapted.lengthscale, want.lengthscale)
    assert adapted.lengthscale.shape == (2,) and len(outcomes) == len(rows)


def test_its_amplitude_is_that_of_the_kernel_inside():
    twice = 2.0 * Differentiated(RBF(0.7, 1.5))
    assert isinstance(twice, Differentiated) and float(twice.kernel.variance) == 3.0
    variance, bare = Differentiated(RBF(0.7, 1.5)).split_variance()
    np.testing.assert_allclose(variance * np.asarray(bare(ROWS)), np.asarray(Differentiated(RBF(0.7, 1.5))(ROWS)))
    assert twice.formula() == "∂(1.73² · RBF(ℓ=0.7))" and not twice.is_stationary


# -- rows --------------------------------------------------------------------------------------------------------


def test_rows_of_values_and_gradients():
    rows, outcomes = with_gradients([[1.0, 2.0]], [3.0], [[4.0, np.nan], [5.0, 6.0]], where=[[7.0, 8.0], [9.0, 0.0]])
    np.testing.assert_array_equal(rows, [[1, 2, 0], [7, 8, 1], [9, 0, 1], [9, 0, 2]])
    np.testing.assert_array_equal(outcomes, [3, 4, 5, 6])
    rows, outcomes = with_gradients(X, Y, SLOPES)
    np.testing.assert_array_equal(rows[10:13], [[*X[0], 1], [*X[0], 2], [*X[1], 1]])
    np.testing.assert_array_equal(outcomes[10:13], [*SLOPES[0], SLOPES[1, 0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, Y, SLOPES[:3]), r"shape \(10, 2\), found \(3, 2\); .* give where="),
        ((X, Y[:4], SLOPES), "y"),
        ((X, Y, SLOPES, X[:, :1]), "where must have 2 columns"),
    ],
)
def test_rows_that_do_not_fit(arguments, message):
    with pytest.raises(DataError, match=message):
        with_gradients(*arguments)


# -- derivatives as data -----------------------------------------------------------------------------------------


def test_conditioning_on_derivatives_is_bayes_rule():
    """Against NumPy, and the mean is that of values and slopes: a trend with an unknown height."""
    rows, outcomes = with_gradients(X, Y, SLOPES)
    noise = np.where(rows[:, 2] == 0, 0.01, 0.05)
    gp = differentiated(GP(RBF(1.0), mean=Basis(covariance=jnp.array([2.0, 0.5, 0.5]), mean=[1.0, 0.3, 0.0])))
    after = gp.condition(rows, outcomes, noise=noise)
    queries = np.array([[0.1, 0.2, 0.0], [0.1, 0.2, 1.0], [1.0, -1.0, 2.0]])

    def design(rows):  # 1, x₁, x₂ and its derivatives
        value = np.column_stack([np.ones(len(rows)), rows[:, :2]])
        slope = np.eye(3)[rows[:, 2].astype(int)]
        return np.where(rows[:, 2:] == 0, value, slope)

    def covariance(a, b):
        return np.asarray(Differentiated(RBF(1.0))(a, b)) + design(a) @ np.diag([2.0, 0.5, 0.5]) @ design(b).T

    inverse = np.linalg.inv(covariance(rows, rows) + np.diag(noise))
    cross, start = covariance(queries, rows), np.array([1.0, 0.3, 0.0])
    mean = design(queries) @ start + cross @ inverse @ (outcomes - design(rows) @ start)
    variance = np.diag(covariance(queries, queries) - cross @ inverse @ cross.T)
    p = after.predict(queries)
    np.testing.assert_allclose(p.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(p.epistemic, variance, rtol=1e-6)


def test_slopes_and_one_value_recover_a_function():
    x = np.linspace(0, 6, 15)[:, None]
    rows, outcomes = with_gradients(x[:1], [0.0], np.cos(x), where=x)
    gp = differentiated(GP(RBF(1.2), mean=0)).condition(rows, outcomes, noise=np.full(len(rows), 1e-8))
    queries = np.linspace(0, 6, 40)
    p = gp.predict(np.column_stack([queries, np.zeros(40)]))
    np.testing.assert_allclose(p.mean, np.sin(queries), atol=2e-3)
    values = GP(RBF(1.2), mean=0).condition(x[:1], [0.0], noise=[1e-8]).predict(queries[:, None])
    assert np.mean(p.epistemic) < 1e-3 * np.mean(values.epistemic)
    np.testing.assert_allclose(gradient(gp, queries[:, None]).mean[:, 0], np.cos(queries), atol=2e-2)


def test_numbers_are_learned_from_values_and_gradients():
    rows, outcomes = with_gradients(X, Y, SLOPES)
    gp = credo.learn(differentiated(GP(RBF(), noise=1e-4)), rows, outcomes, seed=0)
    assert 0.5 < float(gp.kernel.kernel.lengthscale) < 4.0
    assert isinstance(gp.mean, DifferentiatedMean) and float(gp.mean.mean.variance) > 0
    after = gp.condition(rows, outcomes)
    p = after.predict(np.column_stack([QUERIES, np.zeros(len(QUERIES))]))
    np.testing.assert_allclose(p.mean, np.sin(QUERIES[:, 0]) * np.cos(QUERIES[:, 1]), atol=0.1)


def test_functions_drawn_given_derivatives_have_these_derivatives():
    rows, outcomes = with_gradients(X[:4], Y[:4], SLOPES[:4])
    gp = differentiated(GP(RBF(1.0), mean=0)).condition(rows, outcomes, noise=np.full(len(rows), 1e-10))
    draws = np.asarray(sample_functions(gp, 3)(rows))
    np.testing.assert_allclose(draws, np.broadcast_to(outcomes, draws.shape), atol=1e-3)


# -- derivatives of what is believed -----------------------------------------------------------------------------

BELIEFS = {
    "RBF": GP(RBF(1.0), mean=0, noise=0.05),
    "ARD Matern52, mean": GP(Matern52(jnp.array([1.0, 2.0])), mean=lambda x: x[:, 0] ** 2 * x[:, 1], noise=0.05),
    "sum, uncertain mean": GP(RBF(1.0) + Linear(0.5), mean=Basis(covariance=2.0), noise=0.05),
    "belief": GP(RBF(0.8), mean=credo.Linear().condition(X, Y), noise=0.05),
}


@pytest.mark.parametrize("name", BELIEFS)
def test_gradients_are_differences_of_the_posterior(name):
    gp, h = BELIEFS[name].condition(X, Y), 1e-4
    p, joint = gradient(gp, QUERIES), np.asarray(gradient_covariance(gp, QUERIES))
    assert p.mean.shape == p.epistemic.shape == (4, 2) and joint.shape == (4, 2, 2)
    np.testing.assert_array_equal(p.aleatoric, 0.0)
    np.testing.assert_allclose(p.epistemic, np.diagonal(joint, axis1=1, axis2=2), rtol=1e-9)
    steps = h * np.eye(2)
    around = np.stack([QUERIES + sign * step for step in steps for sign in (1, -1)], axis=1)  # (m, 4, d)
    contrast = np.kron(np.eye(2), [1.0, -1.0]) / (2 * h)
    for i, points in enumerate(around):
        np.testing.assert_allclose(p.mean[i], contrast @ np.asarray(gp.predict(points).mean), rtol=1e-5, atol=1e-6)
        want = contrast @ np.asarray(gp.covariance(points, points)) @ contrast.T
        np.testing.assert_allclose(joint[i], want, rtol=1e-5, atol=2e-6)


def test_gradients_of_the_prior():
    p = gradient(GP(Matern32(0.5, 2.0), mean=lambda x: 3 * x[:, 0]), QUERIES)
    np.testing.assert_allclose(p.mean, np.broadcast_to([3.0, 0.0], (4, 2)), atol=1e-12)
    np.testing.assert_allclose(p.epistemic, 3 * 2.0 / 0.25, rtol=1e-10)


def test_gradients_of_many_rows():
    """From the host size on, LAPACK does it."""
    x = np.random.default_rng(1).uniform(-3, 3, size=(300, 1))
    gp = GP(RBF(1.0), mean=0, noise=0.01).condition(x, np.sin(x[:, 0]))
    queries = np.array([[0.0], [1.0]])
    p = gradient(gp, queries)
    np.testing.assert_allclose(p.mean[:, 0], np.cos(queries[:, 0]), atol=0.1)
    np.testing.assert_allclose(p.epistemic[:, :, None], gradient_covariance(gp, queries), rtol=1e-6)


def test_gradients_where_there_are_none():
    with pytest.raises(DataError, match="there is no derivative to take"):
        gradient(GP(Exponential(), noise=0.1).condition(X, Y), QUERIES)
    with pytest.raises(DataError, match="X must have 2 columns"):
        gradient(GP(RBF(), noise=0.1).condition(X, Y), QUERIES[:, :1])
