"""Functions of the reproducing kernel Hilbert space: f = Σᵢ αᵢ k(xᵢ, ·).

    ⟨k(x, ·), k(z, ·)⟩ = k(x, z),    so ⟨f, k(x, ·)⟩ = f(x)    and    ‖f‖² = αᵀKα

The representer theorem: whatever the loss, the minimiser of loss(f(x₁), …, f(x_n)) + λ‖f‖² is such a sum over the
data.  Schölkopf & Smola (2002), "Learning with kernels", §2.2 and §4.2; Rasmussen & Williams (2006), §6.1-6.2.
"""

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array, Numeric, as_float, is_traced, namespace
from credo.core.checks import check_positive, check_vector
from credo.core.errors import DataError
from credo.core.linalg import cholesky, solve
from credo.kernels.base import Kernel


class RKHSFunction(eqx.Module):
    """f = Σᵢ αᵢ k(xᵢ, ·), with its points xᵢ and coefficients αᵢ."""

    kernel: Kernel
    points: Float[Array, "n d"]
    coefficients: Float[Array, " n"]

    def __init__(self, kernel: Kernel, points: object, coefficients: object):
        self.kernel = kernel
        self.points = kernel.encode(points, "points")
        self.coefficients = check_vector(coefficients, "coefficients", len(self.points))

    def __call__(self, x: object) -> Float[Array, " m"]:
        """f(x) at every row of x."""
        rows = self.kernel.encode(x, "x", self.points.shape[1])
        return self.kernel.between(rows, self.points) @ self.coefficients

    def inner(self, other: object) -> Float[Array, ""]:
        """⟨f, g⟩ = αᵀK(x, z)β."""
        beside = self._in_same_space(other)
        return self.coefficients @ self.kernel.between(self.points, beside.points) @ beside.coefficients

    def norm(self) -> Float[Array, ""]:
        """‖f‖ = √(αᵀKα)."""
        squared = self.inner(self)
        xp = namespace(squared)
        return xp.sqrt(xp.maximum(squared, 0.0))

    def _in_same_space(self, other: object) -> "RKHSFunction":
        if not isinstance(other, RKHSFunction):
            raise DataError(f"a function of an RKHS goes with another one, found {type(other).__name__}")
        same = is_traced(self.kernel, other.kernel) or bool(eqx.tree_equal(self.kernel, other.kernel))
        if not same or self.points.shape[1] != other.points.shape[1]:
            raise DataError(
                f"the functions belong to different spaces: {self.kernel.formula()} of {self.points.shape[1]} columns "
                f"and {other.kernel.formula()} of {other.points.shape[1]}; both need the same kernel"
            )
        return other

    def __add__(self, other: object) -> "RKHSFunction":
        """f + g, on the points of both."""
        beside = self._in_same_space(other)
        xp = namespace(self, beside)
        points = xp.concatenate([self.points, beside.points])
        return RKHSFunction(self.kernel, points, xp.concatenate([self.coefficients, beside.coefficients]))

    def __mul__(self, factor: "ArrayLike | RKHSFunction") -> "RKHSFunction":
        """c·f for a number c."""
        if isinstance(factor, RKHSFunction) or np.ndim(factor):
            raise DataError("a function of an RKHS can be multiplied by one number; for ⟨f, g⟩ use f.inner(g)")
        return RKHSFunction(self.kernel, self.points, self.coefficients * factor)

    __rmul__ = __mul__

    def __neg__(self) -> "RKHSFunction":
        """-f."""
        return self * -1.0

    def __sub__(self, other: "RKHSFunction") -> "RKHSFunction":
        """f - g."""
        return self + (-other)


def section(kernel: Kernel, x: object) -> RKHSFunction:
    """k(x, ·), the function that evaluates: ⟨f, k(x, ·)⟩ = f(x) for every f in the space; x is one point."""
    if isinstance(x, Array) and x.ndim == 1:
        x = x[None, :]
    rows = kernel.encode(x if getattr(x, "ndim", 1) == 2 else [x], "x")
    if len(rows) != 1:
        raise DataError(f"section needs one point x, found {len(rows)} rows; for several make one function for each")
    return RKHSFunction(kernel, rows, np.ones(1))


def kernel_ridge(kernel: Kernel, x: object, y: object, penalty: Numeric, weights: object = None) -> RKHSFunction:
    """The f that minimises Σᵢ wᵢ(yᵢ - f(xᵢ))² + λ‖f‖²: α = (K + λW⁻¹)⁻¹y.

    The posterior mean of a Gaussian process with noise λ/wᵢ, and for a kernel of finitely many features the same
    function as ridge regression on them.  Saunders, Gammerman & Vovk (1998), "Ridge regression learning algorithm in
    dual variables"; Rasmussen & Williams (2006), §6.2.
    """
    rows = kernel.encode(x, "x")
    targets, size = check_vector(y, "y", len(rows)), as_float(penalty)
    if size.ndim or not (is_traced(size) or (float(size) > 0 and np.isfinite(float(size)))):
        raise DataError(f"penalty must be one positive number, found {penalty!r}; for interpolation use a small one")
    noise = size * np.ones(len(rows))
    if weights is not None:
        noise = noise / check_positive(weights, "weights", len(rows))
    k = kernel.between(rows, rows)
    root = cholesky(k + namespace(k, noise).diag(noise), "the kernel matrix with the penalty")
    return RKHSFunction(kernel, rows, solve(root, targets))


def projection(function: RKHSFunction, points: object) -> RKHSFunction:
    """The function nearest to f among Σⱼ βⱼ k(zⱼ, ·): it agrees with f at the points z, β = K(z, z)⁻¹f(z).

    What is left over, f - projection, is orthogonal to every k(zⱼ, ·), so it is zero at the points.
    """
    kernel = function.kernel
    rows = kernel.encode(points, "points", function.points.shape[1])
    root = cholesky(kernel.between(rows, rows), "the kernel matrix of the points")
    return RKHSFunction(kernel, rows, solve(root, function(rows)))
