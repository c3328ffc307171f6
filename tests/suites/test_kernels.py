"""Matérn of any smoothness, periodic, dot-product and non-stationary kernels: one suite, an independent oracle each."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from sklearn.gaussian_process import kernels as sk

from credo.core import params
from credo.core.errors import DataError
from credo.core.params import is_absent
from credo.kernels import (
    RBF,
    Categorical,
    Constant,
    Coregionalized,
    Exponential,
    InputScales,
    Matern32,
    Matern52,
    RationalQuadratic,
    Tanimoto,
    White,
    check_kernel,
)
from credo.kernels.algebra import PolynomialOf, Product
from credo.kernels.dotproduct import Bilinear, Linear, NeuralNetwork, Polynomial
from credo.kernels.matern import Matern, matern
from credo.kernels.nonstationary import Brownian, ChangePoint, Gibbs
from credo.kernels.periodic import CenteredPeriodic, Cosine, LocallyPeriodic, Periodic, SpectralMixture

RNG = np.random.default_rng(7)
X1, Z1 = RNG.normal(size=(9, 1)), RNG.normal(size=(6, 1))
X3, Z3 = RNG.normal(size=(9, 3)), RNG.normal(size=(6, 3))
ROWS = {1: np.r_[RNG.normal(40.0, 3.0, size=(13, 1)), np.full((2, 1), 41.0)], 3: RNG.normal(5.0, 2.0, size=(15, 3))}
MATRIX = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])


def wiggle(x):
    return 0.5 + jnp.square(x[0])


# Every family with its default numbers, and with odd ones for three columns.
DEFAULT = {
    "matern": Matern(),
    "periodic": Periodic(),
    "periodic-ard": Periodic(ard=True),
    "locally": LocallyPeriodic(),
    "cosine": Cosine(),
    "spectral": SpectralMixture(components=3),
    "linear": Linear(),
    "linear-ard": Linear(ard=True),
    "bilinear": Bilinear(),
    "polynomial": Polynomial(3),
    "polynomial-ard": Polynomial(2, ard=True),
    "network": NeuralNetwork(ard=True),
    "gibbs": Gibbs(ard=True),
    "gibbs-function": Gibbs(function=wiggle),
    "changepoint": ChangePoint(RBF(), Linear()),
}
ODD = {
    "matern": Matern([0.5, 2.0, 30.0], 3.0, smoothness=0.7),
    "matern-projection": Matern(2.0, 0.1, [[1.0, -1.0, 0.5]], smoothness=7.3),
    "periodic": Periodic([0.3, 2.0, 9.0], 4.0, [1.0, 0.2, 70.0]),
    "locally": LocallyPeriodic(0.7, 2.0, 0.9, [1.0, 3.0, 0.4]),
    "cosine": Cosine([0.3, 4.0, 1.0], 7.0),
    "spectral": SpectralMixture([0.2, 3.0], RNG.uniform(0.1, 2, (2, 3)), RNG.uniform(0.01, 1, (2, 3))),
    "linear": Linear(2.0, [1.0, 0.1, 9.0], [1.0, -1.0, 3.0]),
    "bilinear": Bilinear(MATRIX, [1.0, 0.0, 2.0]),
    "polynomial": Polynomial(4, 0.3, 2.0, 1.7, 0.4),
    "network": NeuralNetwork(0.01, 3.0, bias=5.0, center=[1.0, 2.0, 3.0]),
    "gibbs": Gibbs([1.0, 0.2, 3.0], 2.0, [0.3, -0.5, 0.1], 0.2),
    "changepoint": ChangePoint(Matern32(0.4), 3.0 * Constant(), 0.2, 0.01, column=2),
}


def apart(x, z):
    """τ, all pairs."""
    return x[:, None, :] - z[None, :, :]


def matern_scipy(r, nu):
    z = np.sqrt(2 * nu) * np.where(r > 0, r, 1.0)
    log = (1 - nu) * np.log(2) - scipy.special.gammaln(nu) + nu * np.log(z) + np.log(scipy.special.kve(nu, z)) - z
    return np.where(r > 0, np.exp(log), 1.0)


def assert_close(got, want, rtol=1e-10):
    np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=rtol * np.abs(want).max())


# ------------------------------------------------------------------------------------------------- every family


@pytest.mark.parametrize("name", [*DEFAULT, "brownian"])
def test_promises_with_default_numbers(name):
    check_kernel(DEFAULT.get(name, Brownian()), columns=1)


@pytest.mark.parametrize("name", [*DEFAULT, "brownian"])
def test_promises_with_adapted_numbers(name):
    adapted = DEFAULT.get(name, Brownian().on(2)).adapt(InputScales.of(ROWS[3], 4.0))
    assert params.learnable(adapted)
    check_kernel(adapted, ROWS[3])


@pytest.mark.parametrize("name", ODD)
def test_promises_with_odd_numbers(name):
    check_kernel(ODD[name], columns=3)


KNOWN = {name: kernel for name, kernel in ODD.items() if not kernel.compiled} | {
    "rbf": RBF([0.5, 2.0, 1.0]) * 3.0,
    "exponential": Exponential(0.7, 2.0, [[1.0, -1.0, 0.5]]),
    "matern52": Matern52([0.5, 2.0, 30.0]),
    "rational": RationalQuadratic(0.3, alpha=0.2),
    "centered": CenteredPeriodic(0.6, 1.3, [0.3, 2.0, 5.0]),
    "algebra": 2.0 * (RBF().on(0, 2) + White(0.3)) ** 2 * Matern32() + Linear().on(1).exp() + 0.5,
    "polynomial-of": PolynomialOf(RBF(0.4), [0.5, 1.0, 2.0]),
    "coregion": Coregionalized([RBF(), Matern32()], [[1.0, 0.2], [0.5, -1.0]], 0.3),
    "tanimoto": Tanimoto(),
    "categorical": Categorical([0.5, 2.0, 1.0]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_numbers_stay_numpys_and_equal_those_of_the_compiled(name):
    kernel, x, z = KNOWN[name], X3, np.r_[Z3, X3[:2]]
    if name == "coregion":
        x, z = (np.c_[v[:, :2], np.arange(len(v)) % 2] for v in (x, z))
    gram, diagonal = kernel.gram(x, z), kernel.diagonal(x)
    assert isinstance(gram, np.ndarray) and isinstance(diagonal, np.ndarray)
    for got, want in ((gram, eqx.filter_jit(type(kernel).gram)(kernel, x, z)), (kernel.between(x, z), gram)):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(diagonal, eqx.filter_jit(type(kernel).diagonal)(kernel, x), rtol=1e-9)


def test_a_large_matrix_is_made_in_chunks():
    x, kernel = np.random.default_rng(3).normal(size=(1500, 2)), Matern52([0.5, 2.0])
    np.testing.assert_allclose(kernel.between(x, x[:900]), kernel.gram(x, x[:900]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ODD)
def test_gradients_are_those_of_finite_differences(name):
    kernel = ODD[name]
    slots = params.layout(kernel)
    u = np.asarray(params.to_vector(kernel, slots))
    weight = jnp.asarray(np.random.default_rng(1).normal(size=(9, 6)))

    @eqx.filter_jit
    def total(u):
        return jnp.sum(weight * params.from_vector(kernel, slots, u).gram(jnp.asarray(X3), jnp.asarray(Z3)))

    got = eqx.filter_jit(jax.grad(total))(jnp.asarray(u))
    h = 1e-5
    want = [float(total(u + h * e) - total(u - h * e)) / (2 * h) for e in np.eye(len(u))]
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7 * max(1.0, np.abs(want).max()))


@pytest.mark.parametrize(("n", "d"), [(5, 1), (50, 2)])
@pytest.mark.parametrize("kernel", [Exponential, lambda length: Matern(length, smoothness=0.5)])
def test_a_row_is_at_no_distance_of_itself_in_compiled_programs(kernel, n, d):
    """XLA rounds x/ℓ - x/ℓ once, to 1e-17: beside it the slope of a rough kernel is 1e17."""

    @jax.jit
    def slopes(length, x, weight):
        return jax.vjp(lambda length: kernel(length).gram(x, x), length)[1](weight)[0]

    rng = np.random.default_rng(n)
    length, x = rng.uniform(0.5, 2.0, size=d), rng.normal(size=(n, d))
    np.testing.assert_allclose(slopes(jnp.asarray(length), x, np.eye(n)), 0.0, atol=1e-12)


@pytest.mark.parametrize("name", [*ODD])
def test_a_factor_multiplies(name):
    kernel = ODD[name]
    assert_close((2.5 * kernel)(X3, Z3), 2.5 * np.asarray(kernel(X3, Z3)), 1e-13)
    variance, bare = kernel.split_variance()
    if not is_absent(variance):
        assert_close(variance * bare(X3, Z3), np.asarray(kernel(X3, Z3)), 1e-13)
        both = kernel * RBF(2.0, 3.0)
        assert isinstance(both, Product) and all(is_absent(k.variance) for k in both.factors)
        assert_close(both(X3, Z3), np.asarray(kernel(X3, Z3)) * np.asarray(RBF(2.0, 3.0)(X3, Z3)), 1e-13)


def test_which_are_stationary():
    stationary = {name for name, k in DEFAULT.items() if k.is_stationary}
    assert stationary == {"matern", "periodic", "periodic-ard", "locally", "cosine", "spectral"}
    for name in stationary:
        k = DEFAULT[name]
        assert_close(k(X3 + 3.7, Z3 + 3.7), np.asarray(k(X3, Z3)), 1e-12)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (Matern(2.0, 4.0, smoothness=0.8), "2² · Matern(ℓ=2, ν=0.8)"),
        (Periodic(0.5, 9.0, 7.0), "3² · Periodic(p=7, ℓ=0.5)"),
        (LocallyPeriodic(period=7.0, decay=90.0), "LocallyPeriodic(p=7, ℓ=1, λ=90)"),
        (Cosine(12.0), "Cosine(p=12)"),
        (SpectralMixture(components=3), "SpectralMixture(3)"),
        (SpectralMixture([1.0], [[2.0]], [[3.0]]), "SpectralMixture(w=[1], μ=array[1, 1], v=array[1, 1])"),
        (Linear(4.0), "2² · Linear"),
        (Linear(lengthscale=[1.0, 2.0]), "Linear(ℓ=[1, 2])"),
        (Bilinear(), "Bilinear"),
        (Polynomial(3, 0.5), "Polynomial(p=3, o=0.5)"),
        (NeuralNetwork(bias=2.0), "NeuralNetwork(ℓ=1, b=2)"),
        (Gibbs(slope=[0.5]), "Gibbs(ℓ=1, w=[0.5])"),
        (Brownian(4.0, 1.0), "2² · Brownian(origin=1)"),
        (ChangePoint(RBF(), Linear(), 3.0, 0.5), "ChangePoint(RBF(ℓ=1) → Linear, x0=3, w=0.5)"),
    ],
)
def test_formulas(kernel, text):
    assert kernel.formula() == text


# ------------------------------------------------------------------------------------------------------- Matérn


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.5, 0.7, 1.0, 1.0001, 1.5, 2.0, 2.5, 3.7, 10.0, 20.0])
def test_matern_is_the_bessel_function(nu):
    r = np.r_[0.0, 10.0 ** np.linspace(-10, 0, 40), np.linspace(0.01, 50, 300)]
    got, want = matern(jnp.asarray(r**2), jnp.asarray(nu)), matern_scipy(r, nu)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)
    seen = want > 1e-280
    np.testing.assert_allclose(np.asarray(got)[seen], want[seen], rtol=1e-11)


@pytest.mark.parametrize(("nu", "peer"), [(0.5, Exponential), (1.5, Matern32), (2.5, Matern52)])
def test_matern_has_the_closed_forms(nu, peer):
    assert_close(Matern(0.7, 2.0, smoothness=nu)(X3, Z3), np.asarray(peer(0.7, 2.0)(X3, Z3)), 1e-12)


def test_matern_tends_to_the_rbf_and_stays_finite():
    rbf = np.asarray(RBF()(X3, Z3))
    gap = [np.abs(np.asarray(Matern(smoothness=nu)(X3, Z3)) - rbf).max() for nu in (10.0, 100.0, 1000.0)]
    assert gap[2] < 1e-3 and gap[1] / gap[2] == pytest.approx(10, rel=0.05) and gap[0] > gap[1]
    far = np.array([[0.0], [1e-160], [1e3], [1e150]])
    assert np.all(np.isfinite(Matern(smoothness=300.0)(far)))


@pytest.mark.parametrize("nu", [0.3, 0.5, 1.0, 1.5, 2.0, 4.2, 19.5])
def test_matern_derivatives(nu):
    s = np.array([1e-4, 0.1, 0.9, 1.3, 4.0, 60.0])
    by_s, by_nu = jax.vmap(jax.grad(matern, (0, 1)), (0, None))(jnp.asarray(s), jnp.asarray(nu))
    z = np.sqrt(2 * nu * s)  # d(z^ν K_ν)/dz = -z^ν K_{ν-1}, dz/ds = ν/z
    want = -np.exp((1 - nu) * np.log(2) - scipy.special.gammaln(nu)) * z ** (nu - 1) * nu * scipy.special.kv(nu - 1, z)
    np.testing.assert_allclose(by_s, want, rtol=1e-10)
    h = 1e-3
    steps = [matern_scipy(np.sqrt(s), nu + k * h) for k in (-2, -1, 1, 2)]
    want = (steps[0] - 8 * steps[1] + 8 * steps[2] - steps[3]) / (12 * h)
    np.testing.assert_allclose(by_nu, want, rtol=1e-7, atol=1e-9)


def test_matern_derivatives_at_zero_and_second_ones():
    zero = jnp.zeros(())
    assert jax.grad(matern)(zero, jnp.asarray(2.5)) == pytest.approx(-5 / 6, rel=1e-12)
    assert jax.grad(matern)(zero, jnp.asarray(0.5)) == 0
    hessian = jax.hessian(lambda p: matern(p[0], p[1]))(jnp.asarray([0.7, 1.3]))
    slope = lambda p: np.asarray(jax.grad(lambda q: matern(q[0], q[1]))(jnp.asarray(p)))  # noqa: E731
    h = 1e-5
    want = [(slope([0.7 + h * a, 1.3 + h * b]) - slope([0.7 - h * a, 1.3 - h * b])) / (2 * h) for a, b in np.eye(2)]
    np.testing.assert_allclose(hessian, want, rtol=1e-6)


# ----------------------------------------------------------------------------------------------------- periodic


def test_periodic_is_mackays():
    length, period = np.array([0.3, 2.0, 9.0]), np.array([1.0, 0.2, 70.0])
    want = 4 * np.exp(-2 * np.sum((np.sin(np.pi * apart(X3, Z3) / period) / length) ** 2, -1))
    assert_close(ODD["periodic"](X3, Z3), want)
    assert_close(Periodic(0.6, 1.0, 1.7)(X1, Z1), sk.ExpSineSquared(0.6, 1.7)(X1, Z1))


def test_periodic_repeats_far_from_zero():
    days = 1.7e9 + np.arange(0.0, 30.0)[:, None]
    k = np.asarray(Periodic(0.5, 1.0, 7.0)(days))
    np.testing.assert_allclose(k, np.asarray(Periodic(0.5, 1.0, 7.0)(days - 1.7e9)), rtol=1e-12)
    np.testing.assert_allclose(k[0, 7::7], 1.0, rtol=1e-12)


def test_locally_periodic_is_the_product():
    parts = Periodic(0.7, 2.0, 0.9) * RBF([1.0, 3.0, 0.4])
    assert_close(ODD["locally"](X3, Z3), np.asarray(parts(X3, Z3)), 1e-12)


def test_cosine_is_a_plane_wave():
    assert_close(ODD["cosine"](X3, Z3), 7 * np.cos(2 * np.pi * np.sum(apart(X3, Z3) / [0.3, 4.0, 1.0], -1)))
    assert np.linalg.matrix_rank(np.asarray(ODD["cosine"](X3)), tol=1e-9) == 2


def test_spectral_mixture_is_that_of_wilson_and_adams():
    k = ODD["spectral"]
    tau = apart(X3, Z3)
    want = np.zeros((9, 6))
    for w, mean, v in zip(*(np.asarray(a) for a in (k.weights, k.means, k.variances)), strict=True):
        want += w * np.prod(np.exp(-2 * np.pi**2 * tau**2 * v) * np.cos(2 * np.pi * tau * mean), -1)
    assert_close(k(X3, Z3), want)


def test_periods_start_in_units_of_the_data():
    scales = InputScales.of(ROWS[3], 4.0)
    np.testing.assert_allclose(Periodic().adapt(scales).period, np.ptp(ROWS[3], axis=0) / 5)
    assert Periodic(period=3.0).adapt(scales).period == 3.0
    assert Cosine().adapt(scales.on((1,))).period.shape == ()
    mixture = SpectralMixture(components=5).adapt(scales)
    assert mixture.means.shape == (5, 3) and float(mixture.weights.sum()) == pytest.approx(4.0)
    slower = SpectralMixture(components=5).adapt(scales._replace(span=10 * scales.span))
    np.testing.assert_allclose(mixture.means, 10 * slower.means)


# -------------------------------------------------------------------------------------------------- dot products


def test_linear_and_bilinear_are_inner_products():
    center, length = np.array([1.0, -1.0, 3.0]), np.array([1.0, 0.1, 9.0])
    assert_close(ODD["linear"](X3, Z3), 2 * ((X3 - center) / length) @ ((Z3 - center) / length).T)
    assert_close((Linear() + 0.49)(X3, Z3), sk.DotProduct(0.7)(X3, Z3))
    center = np.array([1.0, 0.0, 2.0])
    assert_close(ODD["bilinear"](X3, Z3), (X3 - center) @ MATRIX @ (Z3 - center).T)


def test_polynomial_is_a_power():
    u, w = (X3 - 0.4) / 1.7, (Z3 - 0.4) / 1.7
    assert_close(ODD["polynomial"](X3, Z3), 2 * (u @ w.T + 0.3) ** 4)
    assert_close(Polynomial(3, 0.49)(X3, Z3), (sk.DotProduct(0.7) ** 3)(X3, Z3))


@pytest.mark.parametrize("kernel", [NeuralNetwork(0.7, 3.0, bias=0.4, center=0.3), ODD["network"]])
def test_network_is_the_arc_sine(kernel):
    length, bias, center = float(kernel.lengthscale), float(kernel.bias), np.asarray(kernel.center)
    u = np.c_[np.ones(9), (X3 - center) / length]
    w = np.c_[np.ones(6), (Z3 - center) / length]
    sigma = np.diag([bias, 1, 1, 1])
    norm = np.outer(1 + 2 * np.sum(u @ sigma * u, 1), 1 + 2 * np.sum(w @ sigma * w, 1))
    want = 3 * 2 / np.pi * np.arcsin(2 * u @ sigma @ w.T / np.sqrt(norm))
    assert_close(kernel(X3, Z3), want)


def test_network_is_the_limit_of_networks():
    draws = 200_000
    rng = np.random.default_rng(0)
    bias, weight = rng.normal(0, np.sqrt(0.4), draws), rng.normal(0, 1 / 0.7, draws)
    a, b = (scipy.special.erf(bias + weight * v) for v in (0.8, -1.1))
    se = (a * b).std(ddof=1) / np.sqrt(draws)
    k = NeuralNetwork(0.7, bias=0.4)
    assert abs((a * b).mean() - float(k([[0.8]], [[-1.1]])[0, 0])) < 4.5 * se


@pytest.mark.parametrize("kernel", [Linear(), Linear(ard=True), Bilinear(), Polynomial(3), Polynomial(2, ard=True)])
def test_dot_products_start_at_the_data(kernel):
    x = np.random.default_rng(3).normal([100.0, -3.0], [5.0, 0.1], size=(400, 2))
    adapted = kernel.adapt(InputScales.of(x, 4.0))
    np.testing.assert_allclose(adapted.center, x.mean(0))
    typical = x.mean(0) + x.std(0) * np.array([[1.0, -1.0]])
    np.testing.assert_allclose(adapted(typical), 4.0, rtol=1e-10)
    if getattr(kernel, "ard", False):  # lengthscales and an amplitude would say the same
        assert "variance" not in params.learnable(adapted)


# ------------------------------------------------------------------------------------------------ non-stationary


def gibbs(x, z, a, b):
    both = a[:, None, :] ** 2 + b[None, :, :] ** 2
    front = np.prod(np.sqrt(2 * a[:, None, :] * b[None, :, :] / both), -1)
    return front * np.exp(-np.sum(apart(x, z) ** 2 / both, -1))


def test_gibbs_with_a_slope_and_with_a_function():
    length, slope = np.array([1.0, 0.2, 3.0]), np.array([0.3, -0.5, 0.1])
    a, b = (length * np.exp((v - 0.2) @ slope)[:, None] for v in (X3, Z3))
    assert_close(ODD["gibbs"](X3, Z3), 2 * gibbs(X3, Z3, a, b))
    a, b = (np.repeat(0.5 + v[:, :1] ** 2, 3, 1) for v in (X3, Z3))
    assert_close(Gibbs(function=wiggle)(X3, Z3), gibbs(X3, Z3, a, b))
    assert_close(Gibbs(function=lambda x: jnp.exp(x))(X3, Z3), gibbs(X3, Z3, np.exp(X3), np.exp(Z3)))
    assert_close(Gibbs(0.8)(X3, Z3), np.asarray(RBF(0.8)(X3, Z3)), 1e-13)


def test_brownian_is_a_random_walk():
    t = np.array([0.3, 1.0, 2.5, 4.0])[:, None]
    assert_close(Brownian(2.0, 0.1)(t), 2 * np.minimum(t - 0.1, (t - 0.1).T))
    x, z = X1 - 0.2, Z1 - 0.2
    assert_close(Brownian(1.0, 0.2)(X1, Z1), 0.5 * (np.abs(x) + np.abs(z).T - np.abs(x - z.T)))
    adapted = Brownian().adapt(InputScales.of(ROWS[1], 4.0))
    assert float(adapted.origin) < ROWS[1].min()


def test_change_point_mixes_two_kernels():
    x, z = (1 / (1 + np.exp((v[:, 2] - 0.2) / 0.3)) for v in (X3, Z3))
    k1, k2 = Matern32(0.4), RBF(2.0, 3.0)
    want = np.outer(x, z) * np.asarray(k1(X3, Z3)) + np.outer(1 - x, 1 - z) * np.asarray(k2(X3, Z3))
    kernel = ChangePoint(k1, k2, 0.2, 0.3, column=2)
    assert_close(kernel(X3, Z3), want)
    far = np.array([[-50.0], [50.0]])
    assert_close(ChangePoint(2.0 * RBF(), 5.0 * RBF())(far), np.diag([2.0, 5.0]))


# ------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Matern(smoothness=0.0), "smoothness of Matern must be between 0.05 and 1000, found 0"),
        (lambda: Matern(smoothness=1e4), "use RBF"),
        (lambda: Periodic(period=[1.0, 2.0])(X3), r"period of shape \(2,\) for inputs with 3 columns"),
        (lambda: Periodic([1.0, 2.0])(X3), r"lengthscale of shape \(2,\) for inputs with 3 columns"),
        (lambda: LocallyPeriodic(decay=[1.0, 2.0])(X3), r"decay of shape \(2,\)"),
        (lambda: SpectralMixture([1.0]), "found only some"),
        (lambda: SpectralMixture(components=0), "at least 1 component"),
        (lambda: SpectralMixture([1.0], [[1.0]], [[1.0]])(X3), "frequencies for 1 columns, found inputs with 3"),
        (lambda: Linear(center=[1.0, 2.0])(X3), r"center of shape \(2,\)"),
        (lambda: Bilinear(np.diag([1.0, -1.0])), "symmetric positive definite"),
        (lambda: Bilinear(np.array([[1.0, 0.5], [0.0, 1.0]])), "symmetric positive definite"),
        (lambda: Bilinear(np.eye(2))(X3), "matrix for 2 columns, found inputs with 3"),
        (lambda: Polynomial(0), "at least 1, found 0"),
        (lambda: Gibbs(slope=[1.0], function=wiggle), "found both"),
        (lambda: Gibbs(function=lambda x: x[0])([[-1.0], [2.0]]), "must be positive, found -1"),
        (lambda: Brownian()(X3), r"one column, found inputs with 3; use .on\(column\)"),
        (lambda: Brownian().adapt(InputScales.of(X3, 1.0)), "one column"),
        (lambda: ChangePoint(RBF(), RBF(), column=3)(X3), "on column 3, found inputs with 3"),
        (lambda: ChangePoint(RBF(), RBF(), column=3).adapt(InputScales.of(X3, 1.0)), "on column 3, found"),
        (lambda: ChangePoint(RBF(), RBF(), column=-1), "number from 0, found -1"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(DataError, match=words):
        make()
