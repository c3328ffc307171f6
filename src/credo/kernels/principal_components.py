"""Kernel principal components: the directions of a kernel's feature space in which data vary most.

    K_c = HKH,  H = I - 11ᵀ/n,    K_c = UΛUᵀ,    zₖ(x) = uₖᵀ k_c(x)/√λₖ

with k_c(x) centred by the means of the data, so that no coordinate of the feature space is ever written down. The
variance of zₖ is λₖ/n. Schölkopf, Smola & Müller (1998), "Nonlinear component analysis as a kernel eigenvalue problem".
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, host
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.kernels.base import Kernel

LEAST = 1e-10
"""A direction has variance if its eigenvalue is larger than this share of the largest."""


class KernelPCA(eqx.Module):
    """The principal components of data in the space of a kernel; called with rows, it gives their coordinates."""

    kernel: Kernel
    points: Float[Array, "n d"]
    directions: Float[Array, "n c"]
    """uₖ/√λₖ."""
    eigenvalues: Float[Array, " c"]
    """λₖ, the largest first."""
    shares: Float[Array, " c"]
    """The share of the whole variance that each has."""
    means: Float[Array, " n"]
    """The mean of each column of K."""

    def __call__(self, x: object) -> Float[Array, "m c"]:
        """z(x) of rows, those of the data or others."""
        rows = self.kernel.encode(x, "x", self.points.shape[1])
        k = self.kernel.between(rows, self.points)
        centred = k - self.means[None, :] - k.mean(1, keepdims=True) + self.means.mean()
        return centred @ self.directions


def kernel_pca(kernel: Kernel, x: object, components: int = 2) -> KernelPCA:
    """The first principal components of rows x; fewer where the data vary in fewer directions.

    The sign of a component is free; here its coordinate that is largest in size is positive.
    """
    check_count(components, "components")
    rows = host(kernel.encode(x, "x"))
    if len(rows) < 2:
        raise DataError("principal components need at least 2 rows, found 1")
    k = np.asarray(kernel.between(rows, rows))
    means = k.mean(0)
    centred = k - means[None, :] - means[:, None] + means.mean()
    values, vectors = np.linalg.eigh(0.5 * (centred + centred.T))
    values, vectors = values[::-1], vectors[:, ::-1]
    # Rows that are all the same to the kernel leave rounding only.
    if not values[0] > 1e-13 * np.abs(k).max():
        raise DataError("the rows do not differ in the space of the kernel: there is no direction in which they vary")
    kept = int(min(components, (values > LEAST * values[0]).sum()))
    top, u = values[:kept], vectors[:, :kept]
    u = u * np.sign(u[np.abs(u).argmax(0), np.arange(kept)])
    return KernelPCA(kernel, rows, u / np.sqrt(top), top, top / np.maximum(values, 0.0).sum(), means)
