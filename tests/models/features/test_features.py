"""Every family of features: one conformance suite, an independent oracle each, and the refusals."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import pywt
import scipy.interpolate
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import credo
from credo.core.errors import DataError
from credo.models.features import (
    Affine,
    BSpline,
    Bumps,
    Concatenate,
    Custom,
    Daubechies,
    Features,
    Fourier,
    Haar,
    InterceptOnly,
    Polynomial,
    Product,
    Standardize,
    Tensor,
)
from credo.models.features.base import numbers, whole
from credo.models.features.wavelets import RESOLUTION, daubechies_filter, daubechies_tables

X = np.random.default_rng(0).normal([3.0, -1.0], [2.0, 0.5], size=(20, 2))

# What each family makes of two inputs before it has seen data: features, columns, whether it is ready.
FAMILIES = {
    "affine": (Affine(), 2, True),
    "polynomial": (Polynomial(3), 9, True),
    "powers": (Polynomial(3, interactions=False), 6, True),
    "bspline": (BSpline(6), 12, False),
    "bspline0": (BSpline(4, degree=0), 8, False),
    "bumps": (Bumps(5), 10, False),
    "bump": (Bumps(1), 2, False),
    "fourier": (Fourier(2), 8, False),
    "haar": (Haar(3), 14, False),
    "daubechies": (Daubechies(2, vanishing=3), 2 * (5 + 5 + 6), False),
    "custom": (Custom(lambda x: jnp.sin(x @ jnp.ones((2, 3))), 3), 3, True),
    "standardized": (Standardize(Bumps(5)), 10, False),
    "sum": (Affine() + BSpline(6), 14, False),
    "product": (Affine() * Fourier(2), 16, False),
    "tensor": (Tensor(Bumps(5), Fourier(2)), 20, False),
    "on": (BSpline(6).on(1), 6, False),
    "kept": (BSpline(6).keep(0, 7, 3), 3, False),
    "composed": (Polynomial(2).after(Affine(1.0, 2.0) + Fourier(1)), 27, False),
}
family = pytest.mark.parametrize("name", FAMILIES)


@functools.cache
def adapted(name: str) -> tuple[Features, np.ndarray]:
    """The features adapted to X, and their columns there."""
    features = FAMILIES[name][0].adapt(X)
    return features, np.asarray(features(jnp.asarray(X)))


columns_of = eqx.filter_jit(lambda features, x: features(x))


def evaluate(features: Features, x: np.ndarray) -> np.ndarray:
    """The columns at x, compiled as a whole: operation by operation takes longer to compile."""
    return np.asarray(columns_of(features, jnp.asarray(x, dtype=float)))


# Conformance: what every family promises.


@family
def test_size_and_names_count_the_columns(name):
    features, columns = adapted(name)
    names = features.names(["a", "b"])
    assert columns.shape == (20, FAMILIES[name][1])
    assert features.size(2) == FAMILIES[name][0].size(2) == len(names) == columns.shape[1]
    assert len(set(names)) == len(names)


@family
def test_columns_are_finite_numbers_of_double_precision(name):
    _, columns = adapted(name)
    assert columns.dtype == np.float64
    assert np.all(np.isfinite(columns))


@family
def test_jit_equals_eager(name):
    features, columns = adapted(name)
    np.testing.assert_allclose(evaluate(features, X), columns, rtol=1e-12, atol=1e-13)


@family
def test_rows_do_not_see_each_other(name):
    features, columns = adapted(name)
    one_by_one = eqx.filter_jit(lambda f, x: jax.vmap(lambda row: f(row[None])[0])(x))(features, jnp.asarray(X))
    np.testing.assert_allclose(one_by_one, columns, rtol=1e-12, atol=1e-13)
    halves = np.vstack([evaluate(features, X[:10]), evaluate(features, X[10:])])
    np.testing.assert_allclose(halves, columns, rtol=1e-12, atol=1e-13)


@family
def test_gradients_are_finite(name):
    features, _ = adapted(name)

    def loss(both: tuple[Features, jax.Array]) -> jax.Array:
        return jnp.sum(both[0](both[1]) ** 2)

    gradients = eqx.filter_jit(eqx.filter_grad(loss))((features, jnp.asarray(X)))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradients))


@family
def test_adapting_makes_ready_and_happens_once(name):
    raw, _, ready = FAMILIES[name]
    features, _ = adapted(name)
    assert raw.ready is ready
    assert features.ready
    assert eqx.tree_equal(features.adapt(X), features)
    assert eqx.tree_equal(features.adapt(5 + 2 * X), features)


@pytest.mark.parametrize("name", [name for name, (_, _, ready) in FAMILIES.items() if not ready])
def test_features_without_their_numbers_refuse_to_evaluate(name):
    with pytest.raises(DataError, match=r"has no (domain|centers|period) yet; give .* credo.learn / credo.fit"):
        FAMILIES[name][0](jnp.asarray(X))


def test_no_rows_give_no_rows():
    for name in ("affine", "polynomial", "bspline", "tensor", "daubechies"):
        features, _ = adapted(name)
        assert features(jnp.zeros((0, 2))).shape == (0, features.size(2))


# Affine and Standardize.


def test_affine_is_the_inputs_until_adapted_and_then_standard_scores():
    np.testing.assert_array_equal(evaluate(Affine(), X), X)
    np.testing.assert_allclose(adapted("affine")[1], StandardScaler().fit_transform(X), rtol=1e-12)


def test_affine_keeps_the_numbers_that_were_given():
    features = Affine(shift=1).adapt(X)
    np.testing.assert_allclose(evaluate(features, X), (X - 1) / X.std(0), rtol=1e-12)
    features = Affine(scale=[2, 4]).adapt(X)
    np.testing.assert_allclose(evaluate(features, X), (X - X.mean(0)) / [2, 4], rtol=1e-12, atol=1e-14)


def test_constant_columns_get_scale_one():
    x = np.full((7, 2), 0.1)  # its mean rounds, so its standard deviation is not exactly zero
    features = Affine().adapt(x)
    np.testing.assert_array_equal(features.scale, [1, 1])
    np.testing.assert_allclose(evaluate(features, x), 0, atol=1e-15)


def test_standardize_scores_the_columns_of_the_inner_features():
    inner = evaluate(Bumps(5).adapt(X), X)
    np.testing.assert_allclose(adapted("standardized")[1], StandardScaler().fit_transform(inner), rtol=1e-9)
    np.testing.assert_allclose(
        evaluate(Standardize(Polynomial(2), shift=1.0, scale=2.0).adapt(X), X),
        (evaluate(Polynomial(2), X) - 1) / 2,
        rtol=1e-12,
    )


def test_standardize_survives_columns_that_vanish_on_the_data():
    features = Standardize(Bumps(width=0.01, centers=[0.0, 100.0])).adapt(np.linspace(0, 0.02, 5)[:, None])
    assert features.scale is not None and features.scale[1] == 1
    assert np.all(np.isfinite(evaluate(features, np.array([[100.0], [0.0]]))))


# Polynomial.


@pytest.mark.parametrize(("d", "degree"), [(1, 4), (2, 3), (3, 1), (4, 3)])
def test_polynomial_equals_scikit_learn(d, degree):
    x = np.random.default_rng(1).normal(size=(5, d))
    reference = PolynomialFeatures(degree, include_bias=False)
    np.testing.assert_allclose(evaluate(Polynomial(degree), x), reference.fit_transform(x), rtol=1e-12)
    superscripts = str.maketrans({"^": None, " ": "·", "2": "²", "3": "³", "4": "⁴"})
    names = [name.translate(superscripts) for name in reference.get_feature_names_out(list("abcd")[:d])]
    assert Polynomial(degree).names(list("abcd")[:d]) == names


def test_powers_without_interactions():
    powers = evaluate(Polynomial(3, interactions=False), X)
    np.testing.assert_allclose(powers, np.hstack([X, X**2, X**3]), rtol=1e-12)
    names = Polynomial(12, interactions=False).names(["bmi", "age"])
    assert names[:4] == ["bmi", "age", "bmi²", "age²"] and names[-1] == "age¹²"


# BSpline.


@pytest.mark.parametrize(("number", "degree"), [(4, 0), (5, 1), (7, 2), (10, 3), (4, 3), (8, 5)])
def test_bspline_equals_scipy(number, degree):
    low, high = -2.0, 5.0
    step = (high - low) / (number - degree)
    knots = low + step * np.arange(-degree, number + 1)
    x = np.append(np.random.default_rng(2).uniform(low, high, 18), [low, np.nextafter(high, low)])
    want = scipy.interpolate.BSpline.design_matrix(x, knots, degree).toarray()
    got = evaluate(BSpline(number, degree, domain=(low, high)), x[:, None])
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_bspline_derivative_equals_scipy():
    x = np.random.default_rng(3).uniform(0, 1, 20)
    weights = np.random.default_rng(4).normal(size=10)
    knots = np.arange(-3, 11) / 7
    features = BSpline(10, domain=(0, 1))
    slope = jax.jit(jax.vmap(jax.grad(lambda t: features(t[None, None])[0] @ weights)))(jnp.asarray(x))
    want = scipy.interpolate.BSpline(knots, weights, 3).derivative()(x)
    np.testing.assert_allclose(slope, want, rtol=1e-10, atol=1e-10)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    low=st.floats(-1e3, 1e3),
    width=st.floats(1e-3, 1e3),
    places=st.lists(st.floats(-0.5, 1.5), min_size=4, max_size=4),
)
def test_bsplines_sum_to_one_everywhere(low, width, places):
    x = low + width * np.array([*places, 0.0, 1.0])[:, None]
    columns = evaluate(BSpline(6, domain=(low, low + width)), x)
    np.testing.assert_allclose(columns.sum(1), 1, rtol=1e-12)
    assert np.all(columns >= -1e-15)


def test_bspline_is_constant_outside_its_domain():
    features = BSpline(6, domain=[(0, 1), (0, 10)])
    got = evaluate(features, np.array([[-3.0, 12.0], [0.0, 10.0]]))
    np.testing.assert_array_equal(got[0], got[1])


def test_bspline_reads_a_domain_per_column_and_widens_constant_ones():
    x = np.column_stack([np.linspace(-1, 4, 6), np.full(6, 7.0), np.full(6, 1e17)])
    features = BSpline(4).adapt(x)
    np.testing.assert_array_equal(features.domain[:2], [[-1, 4], [6.5, 7.5]])
    assert features.domain[2, 0] < 1e17 < features.domain[2, 1]
    kept = BSpline(4, domain=(0, 1)).adapt(x)
    np.testing.assert_array_equal(kept.domain, [0, 1])
    assert features.names(["bmi", "age", "sex"])[:5] == [*(f"bmi~spline{i}" for i in range(1, 5)), "age~spline1"]


# Bumps.


def test_bumps_by_the_formula():
    centers, width = np.array([[-1.0, 0.0, 2.5], [0.0, 1.0, 4.0]]), np.array([0.5, 2.0])
    want = np.array(
        [[np.exp(-((row[i] - c) ** 2) / (2 * width[i] ** 2)) for i in range(2) for c in centers[i]] for row in X]
    )
    np.testing.assert_allclose(evaluate(Bumps(width=width, centers=centers), X), want, rtol=1e-12)


def test_bumps_choose_centers_and_width():
    features = Bumps(5).adapt(X)
    low, high = X.min(0), X.max(0)
    np.testing.assert_allclose(features.centers, [np.linspace(low[i], high[i], 5) for i in range(2)])
    np.testing.assert_allclose(features.width, (high - low) / 4)
    np.testing.assert_array_equal(Bumps(5, width=0.3).adapt(X).width, 0.3)
    given_centers = Bumps(centers=[0, 1, 4])
    assert given_centers.ready and given_centers.number == 3 and given_centers.width == 2
    lone = Bumps(centers=[1.0])
    assert not lone.ready
    np.testing.assert_array_equal(lone.adapt(X).centers, [1.0])
    np.testing.assert_allclose(Bumps(1).adapt(X).centers[:, 0], (low + high) / 2)
    np.testing.assert_allclose(lone.adapt(X).width, high - low)
    assert Bumps().number == 10 and Bumps().names(["a"])[2] == "a~bump3"


# Fourier.


def test_fourier_by_the_formula():
    period = np.array([7.0, 365.25])
    angle = 2 * np.pi * X / period
    waves = [f(k * angle[:, i]) for i in range(2) for k in (1, 2, 3) for f in (np.sin, np.cos)]
    features = Fourier(3, period=period)
    np.testing.assert_allclose(evaluate(features, X), np.column_stack(waves), rtol=1e-11, atol=1e-13)
    names = features.names(["day", "time"])
    assert names[:2] == ["sin(2π·1·day/7)", "cos(2π·1·day/7)"]
    assert names[-1] == "cos(2π·3·time/365.25)"
    assert Fourier(1).names(["t"]) == ["sin(2π·1·t/period)", "cos(2π·1·t/period)"]


def test_fourier_takes_the_range_as_period_and_is_then_orthogonal():
    x = np.linspace(-1, 3, 33)[:, None]
    features = Fourier(4).adapt(x)
    np.testing.assert_array_equal(features.period, [4.0])
    columns = evaluate(features, x)[:-1]
    np.testing.assert_allclose(columns.T @ columns, 16 * np.eye(8), atol=1e-12)
    np.testing.assert_array_equal(Fourier(4, period=2).adapt(x).period, 2.0)
    np.testing.assert_array_equal(Fourier(4).adapt(np.ones((3, 1))).period, [1.0])


def test_features_are_pytrees_that_vmap_over_their_numbers():
    periods = jnp.array([2.0, 5.0])
    stacked = eqx.filter_vmap(lambda p: Fourier(2, period=p))(periods)
    got = eqx.filter_vmap(lambda f, x: f(x), in_axes=(eqx.if_array(0), None))(stacked, jnp.asarray(X))
    for i, period in enumerate(periods):
        np.testing.assert_allclose(got[i], evaluate(Fourier(2, period=period), X), rtol=1e-12, atol=1e-13)


# Wavelets.


def test_haar_equals_the_inverse_transform_of_unit_coefficients():
    levels, cells = 4, 16
    midpoints = (np.arange(cells) + 0.5)[:, None] / cells
    zero = pywt.wavedec(np.zeros(cells), "haar", level=levels)
    want = []
    for j in range(levels):
        for k in range(2**j):
            unit = [level.copy() for level in zero]
            unit[j + 1][k] = 1.0
            want.append(pywt.waverec(unit, "haar") * np.sqrt(cells))
    got = evaluate(Haar(levels, domain=(0, 1)), midpoints)
    np.testing.assert_allclose(got, np.column_stack(want), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(got.T @ got / cells, np.eye(15), atol=1e-12)  # orthonormal on [0, 1]
    np.testing.assert_allclose(got.sum(0), 0, atol=1e-12)  # and to the constant


def test_haar_at_and_beyond_the_ends_takes_the_outer_cells():
    features = Haar(3, domain=(2, 10))
    outside, edge, cell = evaluate(features, np.array([[-5.0, 99.0], [2.0, 10.0], [2.5, 9.5]]))
    np.testing.assert_array_equal(outside, cell)
    np.testing.assert_array_equal(edge, cell)
    assert features.names(["a"])[:3] == ["a~haar[0,0]", "a~haar[1,0]", "a~haar[1,1]"]


@pytest.mark.parametrize("vanishing", range(2, 11))
def test_daubechies_filter_equals_pywavelets(vanishing):
    np.testing.assert_allclose(daubechies_filter(vanishing), pywt.Wavelet(f"db{vanishing}").rec_lo, rtol=0, atol=1e-13)


def test_daubechies_scaling_function_at_the_integers():
    """The closed form for N = 2: φ(1) = (1 + √3)/2, φ(2) = (1 - √3)/2."""
    phi = daubechies_tables(2)[0, :: 2**RESOLUTION]
    np.testing.assert_allclose(phi, [0, (1 + np.sqrt(3)) / 2, (1 - np.sqrt(3)) / 2, 0], atol=1e-14)


@pytest.mark.parametrize(("vanishing", "tolerance"), [(2, 2e-2), (3, 5e-4), (4, 2e-5)])
def test_daubechies_tables_equal_pywavelets(vanishing, tolerance):
    """PyWavelets' cascade is itself off by about 2^(-level·α) where φ is Hölder-α: hence the tolerances."""
    phi, psi, _ = pywt.Wavelet(f"db{vanishing}").wavefun(level=RESOLUTION)
    np.testing.assert_allclose(daubechies_tables(vanishing), [phi, psi], rtol=0, atol=tolerance)


@pytest.mark.parametrize("vanishing", [2, 3, 6])
def test_daubechies_tables_solve_their_equations(vanishing):
    """Orthonormality of integer shifts, ∫φ = 1, ∫ tᵐψ = 0 for m < N and the refinement equation."""
    phi, psi = daubechies_tables(vanishing)
    unit = 2**RESOLUTION
    t = np.arange(len(phi)) / unit
    for shift in range(3):
        cut = len(phi) - shift * unit
        inner = [a[shift * unit :] @ b[:cut] / unit for a, b in [(phi, phi), (psi, psi), (phi, psi), (psi, phi)]]
        np.testing.assert_allclose(inner, [shift == 0, shift == 0, 0, 0], atol=1e-5)
    assert phi.sum() / unit == pytest.approx(1, abs=1e-12)
    # Integrals of t^m up to (2N - 1)^N are sums of large terms that cancel: compare on that scale.
    moments = [(t / t[-1]) ** m @ psi / unit for m in range(vanishing)]
    np.testing.assert_allclose(moments, 0, atol=1e-6)
    taps = daubechies_filter(vanishing)
    half = len(phi) // 2
    want = sum(np.sqrt(2) * tap * np.pad(phi, (k * unit, 0))[: 2 * half + 1 : 2] for k, tap in enumerate(taps))
    np.testing.assert_allclose(phi[: half + 1], want, atol=1e-11)


def test_daubechies_features_are_the_shifted_and_scaled_functions():
    features = Daubechies(3, vanishing=2, domain=(1, 5))
    x = np.random.default_rng(5).integers(0, 1024, 15) / 1024  # where the tables hold exact values
    phi, psi = (dict(enumerate(row)) for row in daubechies_tables(2))

    def value(table: dict[int, float], j: int, k: int, t: float) -> float:
        return 2 ** (j / 2) * table.get(round((2**j * t - k) * 2**RESOLUTION), 0.0)

    want = [[value(phi, 0, k, t) for k in range(-2, 1)] for t in x]
    for j in range(3):
        for row, t in zip(want, x, strict=True):
            row += [value(psi, j, k, t) for k in range(-2, 2**j)]
    np.testing.assert_allclose(evaluate(features, 1 + 4 * x[:, None]), want, rtol=1e-10, atol=1e-12)
    names = features.names(["a"])
    assert names[0] == "a~db2φ[0,-2]" and names[3] == "a~db2ψ[0,-2]" and names[-1] == "a~db2ψ[2,3]"


@pytest.mark.parametrize("vanishing", [2, 4])
def test_daubechies_wavelets_inside_the_domain_are_orthonormal(vanishing):
    levels = 5
    features = Daubechies(levels, vanishing, domain=(0, 1))
    t = np.arange(2**11)[:, None] / 2**11
    inside = [
        i
        for i, (kind, j, k) in enumerate(features._indices())
        if kind == 1 and k >= 0 and k + 2 * vanishing - 1 <= 2**j
    ]
    columns = evaluate(features, t)[:, inside]
    assert len(inside) > 10
    np.testing.assert_allclose(columns.T @ columns / len(t), np.eye(len(inside)), atol=5e-3)


@pytest.mark.parametrize("vanishing", [2, 3, 5])
def test_daubechies_scaling_functions_reproduce_polynomials(vanishing):
    """N vanishing moments: the shifts of φ span the polynomials of degree < N (Strang-Fix)."""
    t = np.arange(65)[:, None] / 64
    scaling = evaluate(Daubechies(1, vanishing, domain=(0, 1)), t)[:, : 2 * vanishing - 1]
    np.testing.assert_allclose(scaling.sum(1), 1, rtol=1e-11)
    powers = t ** np.arange(vanishing)
    weights = np.linalg.lstsq(scaling, powers)[0]
    np.testing.assert_allclose(scaling @ weights, powers, atol=1e-9)


# Composition.


def test_sums_and_products_of_columns():
    f, g, h = Affine(), Polynomial(2), Bumps(centers=[-1, 0, 3])
    a, b, c = (evaluate(part, X) for part in (f, g, h))
    np.testing.assert_array_equal(evaluate(f + g + h, X), np.hstack([a, b, c]))
    want = np.einsum("ni,nj,nk->nijk", a, b, c).reshape(20, -1)
    np.testing.assert_allclose(evaluate(f * g * h, X), want, rtol=1e-12)
    np.testing.assert_allclose(evaluate(f * (g * h), X), want, rtol=1e-12)
    np.testing.assert_allclose(
        evaluate((f + g) * h, X), np.hstack([evaluate(f * h, X), evaluate(g * h, X)]), rtol=1e-12
    )
    assert (f * Fourier(1, period=2)).names(["a", "b"])[:2] == ["a·sin(2π·1·a/2)", "a·cos(2π·1·a/2)"]


def test_tensor_is_the_product_of_features_on_single_columns():
    f, g = BSpline(4), Fourier(2)
    left, right = Tensor(f, g).adapt(X), (f.on(0) * g.on(1)).adapt(X)
    np.testing.assert_array_equal(evaluate(left, X), evaluate(right, X))
    assert left.names(["a", "b"]) == right.names(["a", "b"])
    assert left.size(2) == right.size(2) == 16


def test_on_selects_columns_in_order():
    x = np.arange(12.0).reshape(4, 3)
    features = Polynomial(2).on(2, 0)
    np.testing.assert_array_equal(evaluate(features, x), evaluate(Polynomial(2), x[:, [2, 0]]))
    assert features.names(["a", "b", "c"]) == ["c", "a", "c²", "c·a", "a²"]
    np.testing.assert_array_equal(BSpline(4).on(1).adapt(x).features.domain, [[1, 10]])


def test_compositions_read_as_they_were_written():
    f, g = BSpline(4, domain=(0, 1)), Affine()
    assert repr(f + g + f) == f"{f!r} + {g!r} + {f!r}"
    assert repr((f + g) * g) == f"({f!r} + {g!r}) * {g!r}"
    assert repr((f * g).on(0, 2) + g.on(1)) == f"({f!r} * {g!r}).on(0, 2) + {g!r}.on(1)"
    assert repr(Tensor(f, g)) == f"Tensor({f!r}, {g!r})"
    assert repr(f) == "BSpline(number=4, degree=3, domain=[0, 1])"
    assert repr(BSpline(4).adapt(np.array([[0, 1, 2.5], [1, 2, 3]]))) == (
        "BSpline(number=4, degree=3, domain=[[0, 1], [1, 2], [2.5, 3]])"
    )
    assert repr(Bumps(7).adapt(X)).endswith("centers=float64[2, 7])")
    assert isinstance(f + g, Concatenate) and isinstance(f * g, Product)


def test_custom_labels():
    features = Custom(lambda x: x[:, :1] > 3, 1, labels=["tall"])
    assert features.names(["a", "b"]) == ["tall"]
    np.testing.assert_array_equal(evaluate(features, X)[:, 0], X[:, 0] > 3)
    assert adapted("custom")[0].names(["a", "b"]) == ["custom1", "custom2", "custom3"]


# Refusals.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polynomial(0), "degree to be a whole number of at least 1, found 0"),
        (lambda: BSpline(3, degree=3), r"number \(more than the degree\) .* at least 4, found 3"),
        (lambda: BSpline(degree=-1), "degree to be a whole number of at least 0, found -1"),
        (lambda: BSpline(domain=(1, 0)), r"domain=\(low, high\) with low < high, found \[1.0, 0.0\]"),
        (lambda: BSpline(domain=(0, 1, 2)), r"domain=\(low, high\).*found shape \(3,\)"),
        (lambda: BSpline(domain=3), r"domain with 1 or 2 dimensions, found shape \(\)"),
        (lambda: BSpline(domain=(0, np.inf)), r"finite domain, found \[0, inf\]"),
        (lambda: Bumps(0), "number to be a whole number of at least 1, found 0"),
        (lambda: Bumps(4, centers=[1, 2]), "number=4, found 2 centers; leave number out"),
        (lambda: Bumps(width=-1), "width > 0, found -1"),
        (lambda: Bumps(centers=[2, 2]), "width > 0, found 0"),
        (lambda: Fourier(0), "order to be a whole number of at least 1, found 0"),
        (lambda: Fourier(period=0), "period > 0, found 0"),
        (lambda: Fourier(period="week"), "period to be numbers, found 'week'"),
        (lambda: Haar(0), "levels to be a whole number from 1 to 16, found 0"),
        (lambda: Daubechies(vanishing=1), "for 1 use Haar.* from 2 to 10, found 1"),
        (lambda: Affine(scale=[1, 0]), r"Affine needs scale > 0, found \[1, 0\]"),
        (lambda: Affine(shift=[[1.0]]), r"shift with 0 or 1 dimensions, found shape \(1, 1\)"),
        (lambda: Standardize(Affine(), shift=np.nan), "Standardize needs finite shift, found nan"),
        (lambda: Concatenate(), "Concatenate needs one or more features"),
        (lambda: Affine().on(), "one or more different columns"),
        (lambda: Affine().on(1, 1), r"one or more different columns, found \(1, 1\)"),
        (lambda: Affine().on(-1), "each column to be a whole number of at least 0, found -1"),
        (lambda: Custom(jnp.sin, 2, labels=["a"]), r"a label for each of 2 columns, found \('a',\)"),
        (lambda: whole("BSpline", "number", 2.5, least=1), "number to be a whole number .* found 2.5"),
        (lambda: whole("BSpline", "number", True, least=1), "found True"),
        (lambda: numbers("BSpline", "domain", [[0, 1], [2]]), "domain to be numbers"),
    ],
)
def test_bad_arguments_are_refused_at_construction(make, message):
    with pytest.raises(DataError, match=message):
        make()


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (Affine(shift=[1, 2, 3]), "Affine has shift for 3 columns, found 2; .* one shift for all"),
        (BSpline(domain=[(0, 1)]), "BSpline has domain for 1 columns, found 2"),
        (Bumps(width=1, centers=np.zeros((3, 4))), "Bumps has centers for 3 columns, found 2"),
        (Fourier(period=[1.0]), "Fourier has period for 1 columns, found 2"),
        (Tensor(Affine()), "Tensor has features for 1 inputs, found 2"),
        (Affine().on(2), "column 2 needs at least 3 inputs, found 2"),
        (Custom(lambda x: x, 3), r"must return shape \(20, 3\) for x of shape \(20, 2\), found \(20, 2\)"),
    ],
)
def test_inputs_with_the_wrong_columns_are_refused(features, message):
    with pytest.raises(DataError, match=message):
        features(jnp.asarray(X))


def test_adapting_to_nothing_is_refused():
    with pytest.raises(DataError, match="Fourier cannot adapt to 0 rows"):
        Fourier().adapt(np.zeros((0, 2)))


def test_features_of_features_are_the_composition():
    inner, outer = Affine().adapt(X), Polynomial(2)
    np.testing.assert_allclose(outer.after(inner)(jnp.asarray(X)), outer(inner(jnp.asarray(X))), rtol=1e-12)
    fresh = BSpline(5).after(Affine()).adapt(X)
    np.testing.assert_allclose(fresh(jnp.asarray(X)), BSpline(5).adapt(inner(X))(inner(X)), atol=1e-12)


def test_kept_columns_are_those_of_the_whole():
    whole = Polynomial(2)
    np.testing.assert_allclose(whole.keep(4, 0)(jnp.asarray(X)), np.asarray(whole(jnp.asarray(X)))[:, [4, 0]])
    assert whole.keep(4, 0).names(["a", "b"]) == ["b²", "a"]
    with pytest.raises(DataError, match="column 5 was chosen, but there are 5"):
        whole.keep(5)(jnp.asarray(X))
    with pytest.raises(DataError, match="one or more different columns"):
        whole.keep(1, 1)


def test_no_features_is_the_constant_term_alone():
    x, y = np.arange(12.0)[:, None], np.array([0, 1, 1] * 4)
    found = credo.fit(credo.Logistic(InterceptOnly()), x, y, report=True)
    np.testing.assert_allclose(found.belief.predict(x).probs[:, 1], found.belief.predict(x).probs[0, 1])
    assert found.belief.coefficient_names() == ["intercept"]
    assert found.log_evidence == found.belief.weight_law().log_evidence
