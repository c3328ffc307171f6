"""Kernels on circle, torus and sphere: positive semi-definite, periodic, flat where the Earth is."""

import numpy as np
import pytest

from credo.core.errors import DataError
from credo.kernels import (
    RBF,
    Exponential,
    InputScales,
    Matern,
    Matern32,
    Matern52,
    OnCircle,
    OnSphere,
    Periodic,
    check_kernel,
)
from credo.kernels.manifolds import EARTH

RNG = np.random.default_rng(0)
GLOBE = np.column_stack([RNG.uniform(-180, 180, 120), np.degrees(np.arcsin(RNG.uniform(-1, 1, 120)))])
TIMES = np.column_stack([GLOBE, RNG.uniform(0, 5, 120)])
MEMBERS = {
    "sphere": (OnSphere(Matern32(np.asarray(9000.0))), GLOBE),
    "nested": (OnSphere(Exponential(np.asarray(2e4)) + RBF(np.asarray(3000.0))), GLOBE),
    "smoothness": (OnSphere(Matern(np.asarray(5000.0), smoothness=2.2)), GLOBE),
    "circle": (OnCircle(Matern52(np.asarray(200.0))), GLOBE[:, :1]),
    "torus": (OnCircle(Matern32(np.asarray(100.0)), 360.0), GLOBE),
    "space-time": (OnSphere(Matern32(np.asarray(9000.0))).on(0, 1) * Exponential(np.asarray(2.0)).on(2), TIMES),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_they_are_covariances(name):
    kernel, x = MEMBERS[name]
    k = kernel(x)
    assert np.linalg.eigvalsh(k).min() > -1e-9 * np.trace(k)
    np.testing.assert_allclose(np.diag(k), kernel.variance_at(x))
    if name in ("sphere", "torus"):
        check_kernel(kernel, x[:20])


def test_a_sphere_has_no_seam_and_poles_are_points():
    kernel = OnSphere(Matern32(np.asarray(2000.0)))
    np.testing.assert_allclose(kernel([[180.0, 10.0]], [[-180.0, 10.0]]), 1.0, rtol=1e-9)
    np.testing.assert_allclose(kernel([[0.0, 90.0]], [[77.0, 90.0]]), 1.0, rtol=1e-9)
    np.testing.assert_allclose(OnCircle(RBF())([[1.0]], [[361.0]]), 1.0)


def test_short_distances_are_those_of_the_ground():
    km = EARTH * np.pi / 180
    x = np.array([[10.0, 50.0], [10.0, 50.5], [10.5, 50.0]])
    flat = np.column_stack([x[:, 0] * np.cos(np.radians(50.0)), x[:, 1]]) * km
    kernel = Matern32(np.asarray(40.0))
    np.testing.assert_allclose(OnSphere(kernel)(x[:1], x[1:]), kernel(flat[:1], flat[1:]), rtol=1e-3)


def test_periodic_is_the_rbf_kernel_on_a_circle():
    x = RNG.uniform(0, 3, (10, 1))
    radius = 2.0 / (2 * np.pi)
    want = Periodic(np.asarray(0.7), np.asarray(1.0), np.asarray(2.0))(x)
    np.testing.assert_allclose(OnCircle(RBF(np.asarray(0.7 * radius)), 2.0)(x), want, rtol=1e-9)


def test_starts_are_in_kilometres():
    near = np.column_stack([RNG.uniform(6, 9, 200), RNG.uniform(50, 52, 200)])
    started = OnSphere(Matern32()).adapt(InputScales.of(near, 4.0))
    points = started.map(near)
    typical = np.sqrt(points.var(0).sum())  # as for rows in a plane
    np.testing.assert_allclose(started.kernel.lengthscale, typical, rtol=0.1)
    np.testing.assert_allclose(started.kernel.variance, 4.0)
    assert "sphere(6371)" in started.formula()


def test_what_is_no_manifold_is_refused():
    with pytest.raises(DataError, match="found 3 columns"):
        OnSphere(RBF())(TIMES)
    for make in (lambda: OnSphere(RBF(), 0.0), lambda: OnCircle(RBF(), -1.0)):
        with pytest.raises(DataError, match="finite number of at least"):
            make()
