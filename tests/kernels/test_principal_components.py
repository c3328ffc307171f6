"""Kernel principal components against scikit-learn's and those of written features."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as TheirPCA

import credo
from credo.errors import DataError
from credo.kernels import RBF, Linear, Polynomial, Spectrum, kernel_pca

RNG = np.random.default_rng(4)
X, NEW = RNG.normal(size=(25, 3)), RNG.normal(size=(6, 3))


def same_up_to_sign(found, wanted, rtol=1e-8):
    signs = np.sign((found * wanted).sum(0))
    np.testing.assert_allclose(found * signs, wanted, rtol=rtol, atol=rtol * np.abs(wanted).max())


@pytest.mark.parametrize("kernel", [RBF(0.9), Polynomial(2)])
def test_projections_are_scikit_learns(kernel):
    found = kernel_pca(kernel, X, 4)
    theirs = TheirPCA(4, kernel="precomputed").fit(kernel(X))
    same_up_to_sign(found(X), theirs.transform(kernel(X)))
    same_up_to_sign(found(NEW), theirs.transform(kernel(NEW, X)))
    np.testing.assert_allclose(found.eigenvalues, theirs.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(found(X).var(0), found.eigenvalues / 25, rtol=1e-8)


def test_a_linear_kernel_is_plain_principal_components():
    found, theirs = kernel_pca(Linear(), X, 9), PCA(3).fit(X)
    assert found.directions.shape[1] == 3  # the data vary in three directions
    same_up_to_sign(found(NEW), theirs.transform(NEW))
    np.testing.assert_allclose(found.shares, theirs.explained_variance_ratio_, rtol=1e-8)


def test_strings_files_and_edges(tmp_path):
    found = kernel_pca(Spectrum(2), ["abab", "baba", "xyxy", "yxyx"], 1)
    z = found(["ababa", "xyxyx"])[:, 0]
    assert z[0] * z[1] < 0
    numbers = kernel_pca(RBF(0.9), X)
    again = credo.load(credo.save(numbers, tmp_path / "pca"))
    np.testing.assert_array_equal(again(NEW), numbers(NEW))
    with pytest.raises(DataError, match="at least 2 rows, found 1"):
        kernel_pca(RBF(), X[:1])
    with pytest.raises(DataError, match="do not differ"):
        kernel_pca(RBF(), np.ones((5, 2)))
    with pytest.raises(DataError, match="components must be a whole number"):
        kernel_pca(RBF(), X, 0)
