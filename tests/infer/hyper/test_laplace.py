"""Laplace's approximation of an integral: exact for normal densities, wherever it is taken."""

import numpy as np
import pytest

from credo.infer.hyper import laplace_evidence

PRECISION = np.array([[2.0, 0.6], [0.6, 0.5]])


def density(u):
    return 1.5 - 0.5 * u @ PRECISION @ u, -PRECISION @ u


@pytest.mark.parametrize("root", [None, np.array([[3.0, 0.0], [0.4, 5.0]])], ids=["plain", "in units of a prior"])
def test_a_normal_density_is_integrated_exactly(root):
    want = 1.5 + np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(PRECISION)[1]
    for at in (np.zeros(2), np.array([0.5, -0.3])):
        found = laplace_evidence(density, at, least=1e-6, root=root)
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_a_flat_direction_is_as_wide_as_allowed():
    def ridge(u):
        return -0.5 * u[0] ** 2, np.array([-u[0], 0.0])

    np.testing.assert_allclose(laplace_evidence(ridge, np.zeros(2), least=0.25), np.log(2 * np.pi) + np.log(2))
