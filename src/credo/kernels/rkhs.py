"""Functions of the reproducing kernel Hilbert space: f = Σᵢ αᵢ k(xᵢ, ·).

    ⟨k(x, ·), k(z, ·)⟩ = k(x, z),    so ⟨f, k(x, ·)⟩ = f(x)    and    ‖f‖² = αᵀKα

The representer theorem: whatever the loss, the minimiser of loss(f(x₁), …, f(x_n)) + λ‖f‖² is such a sum over the
data.  Schölkopf & Smola (2002), "Learning with kernels", §2.2 and §4.2; Rasmussen & Williams (2006), §6.1-6.2.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, is_traced
from credo.core.checks import check_positive, check_vector
from credo.core.errors import DataError
from credo.core.linalg import cholesky, solve
from credo.kernels.base import Kernel


class RKHSFunction(eqx.Module):
    """f = Σᵢ αᵢ k(xᵢ, ·), with its points xᵢ and coefficients αᵢ."""

    kernel: Kernel
    points: Float[Array, "n d"]
    coefficients: Float[Array, " n"]

    def __init__(self, kernel: Kernel, points: Any, coefficients: Any):
        self.kernel = kernel
        self.points = jnp.asarray(kernel.encode(points, "points"))
        self.coefficients = jnp.asarray(check_vector(coefficients, "coefficients", len(self.points)))

    def __call__(self, x: Any) -> Float[Array, " m"]:
        """f(x) at every row of x."""
        rows = jnp.asarray(self.kernel.encode(x, "x", self.points.shape[1]))
        return self.kernel.gram(rows, self.points) @ self.coefficients

    def inner(self, other: Any) -> Float[Array, ""]:
        """⟨f, g⟩ = αᵀK(x, z)β."""
        self._check_same_space(other)
        return self.coefficients @ self.kernel.gram(self.points, other.points) @ other.coefficients

    def norm(self) -> Float[Array, ""]:
        """‖f‖ = √(αᵀKα)."""
        return jnp.sqrt(jnp.maximum(self.inner(self), 0.0))

    def _check_same_space(self, other: Any) -> None:
        if not isinstance(other, RKHSFunction):
            raise DataError(f"a function of an RKHS goes with another one, found {type(other).__name__}")
        same = is_traced(self.kernel, other.kernel) or bool(eqx.tree_equal(self.kernel, other.kernel))
        if not same or self.points.shape[1] != other.points.shape[1]:
            raise DataError(
                f"the functions belong to different spaces: {self.kernel.formula()} of {self.points.shape[1]} columns "
                f"and {other.kernel.formula()} of {other.points.shape[1]}; both need the same kernel"
            )

    def __add__(self, other: Any) -> "RKHSFunction":
        """f + g, on the points of both."""
        self._check_same_space(other)
        points = jnp.concatenate([self.points, other.points])
        return RKHSFunction(self.kernel, points, jnp.concatenate([self.coefficients, other.coefficients]))

    def __mul__(self, factor: Any) -> "RKHSFunction":
        """c·f for a number c."""
        if isinstance(factor, RKHSFunction) or np.ndim(factor):
            raise DataError("a function of an RKHS can be multiplied by one number; for ⟨f, g⟩ use f.inner(g)")
        return RKHSFunction(self.kernel, self.points, self.coefficients * factor)

    __rmul__ = __mul__

    def __neg__(self) -> "RKHSFunction":
        """-f."""
        return self * -1.0

    def __sub__(self, other: Any) -> "RKHSFunction":
        """f - g."""
        return self + (-other)


def section(kernel: Kernel, x: Any) -> RKHSFunction:
    """k(x, ·), the function that evaluates: ⟨f, k(x, ·)⟩ = f(x) for every f in the space; x is one point."""
    if isinstance(x, jax.Array) and x.ndim == 1:
        x = x[None, :]
    rows = jnp.asarray(kernel.encode(x if getattr(x, "ndim", 1) == 2 else [x], "x"))
    if len(rows) != 1:
        raise DataError(f"section needs one point x, found {len(rows)} rows; for several make one function for each")
    return RKHSFunction(kernel, rows, jnp.ones(1))


def kernel_ridge(kernel: Kernel, x: Any, y: Any, penalty: Any, weights: Any = None) -> RKHSFunction:
    """The f that minimises Σᵢ wᵢ(yᵢ - f(xᵢ))² + λ‖f‖²: α = (K + λW⁻¹)⁻¹y.

    The posterior mean of a Gaussian process with noise λ/wᵢ, and for a kernel of finitely many features the same
    function as ridge regression on them.  Saunders, Gammerman & Vovk (1998), "Ridge regression learning algorithm in
    dual variables"; Rasmussen & Williams (2006), §6.2.
    """
    rows = jnp.asarray(kernel.encode(x, "x"))
    targets = jnp.asarray(check_vector(y, "y", len(rows)))
    size = jnp.asarray(penalty, dtype=float)
    if size.ndim or not (is_traced(size) or (float(size) > 0 and np.isfinite(float(size)))):
        raise DataError(f"penalty must be one positive number, found {penalty!r}; for interpolation use a small one")
    noise = size * jnp.ones(len(rows))
    if weights is not None:
        noise = noise / jnp.asarray(check_positive(weights, "weights", len(rows)))
    root = cholesky(kernel.gram(rows, rows) + jnp.diag(noise), "the kernel matrix with the penalty")
    return RKHSFunction(kernel, rows, solve(root, targets))


def projection(function: RKHSFunction, points: Any) -> RKHSFunction:
    """The function nearest to f among Σⱼ βⱼ k(zⱼ, ·): it agrees with f at the points z, β = K(z, z)⁻¹f(z).

    What is left over, f - projection, is orthogonal to every k(zⱼ, ·), so it is zero at the points.
    """
    kernel = function.kernel
    rows = jnp.asarray(kernel.encode(points, "points", function.points.shape[1]))
    root = cholesky(kernel.gram(rows, rows), "the kernel matrix of the points")
    return RKHSFunction(kernel, rows, solve(root, function(rows)))
