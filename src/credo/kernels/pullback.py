"""Gradients of the common kernels in NumPy: ∂/∂log θ from ∂/∂K, by the chain rule.

A covariance that is looked at a few hundred times is not worth compiling. Kernels made of `FAMILIES` by sums, products
and columns are evaluated here directly, and a derivative by K is pulled back through sums (as it is), products (times
the other factors) and

    stationary   ∂κ/∂log ℓₖ = -2 κ'(r²) (Δₖ/ℓₖ)²
    periodic     ∂κ/∂log ℓ = κ 4 sin²(πΔ/p)/ℓ²,   ∂κ/∂log p = κ 2 (πΔ/p) sin(2πΔ/p)/ℓ².

The tests hold it to what JAX says of the kernels themselves.
"""

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.special import i0e, i1e

from credo.core.pytrees import changed
from credo.kernels.algebra import Product, Sum
from credo.kernels.base import Kernel
from credo.kernels.coregion import Coregionalized
from credo.kernels.dotproduct import Linear
from credo.kernels.inputs import OnColumns
from credo.kernels.periodic import CenteredPeriodic, Periodic
from credo.kernels.stationary import (
    RBF,
    Exponential,
    Matern32,
    Matern52,
    RationalQuadratic,
    Stationary,
    squared_distances,
)

Matrix = Float[np.ndarray, "n n"]
Numbers = Mapping[str, np.ndarray]
"""Hyperparameters in natural units by path."""
Gradient = dict[str, np.ndarray | np.floating]
"""∂/∂log θ by path."""
Pull = Callable[[Matrix, Gradient], None]
"""Adds the gradient by every number of a kernel, given that by K.

That by K may be a triangle: what is made of it are sums against symmetric matrices.
"""

FAMILIES = (RBF, Exponential, Matern32, Matern52, RationalQuadratic, Periodic, CenteredPeriodic, Linear)
"""The kernels that sums and products may be made of."""


def is_supported(kernel: Kernel) -> bool:
    """Whether the kernel is made of `FAMILIES`."""
    if isinstance(kernel, OnColumns | Sum | Product | Coregionalized):
        return all(is_supported(k) for k in kernel.children)
    full_metric = isinstance(kernel, Stationary) and kernel.projection is not None
    return type(kernel) in FAMILIES and not full_metric


class Inputs:
    """The inputs, and the squares of their differences, made once for all looks that ask for them."""

    def __init__(self, x: Float[np.ndarray, "n d"]):
        self.x = x
        self._parts: dict[tuple[int, ...], Inputs] = {}

    def on(self, columns: tuple[int, ...]) -> "Inputs":
        """Some of the columns."""
        if columns not in self._parts:
            self._parts[columns] = Inputs(self.x[:, list(columns)])
        return self._parts[columns]

    @cached_property
    def squares(self) -> Float[np.ndarray, "d n n"]:
        """(xᵢₖ - xⱼₖ)² for each column k."""
        return np.square(self.x.T[:, :, None] - self.x.T[:, None, :])

    @cached_property
    def distances(self) -> Matrix:
        """Their sum, for one lengthscale."""
        return np.asarray(squared_distances(self.x, self.x))


def gram_and_pull(kernel: Kernel, path: str, numbers: Numbers, inputs: Inputs) -> tuple[Matrix, Pull]:
    """k(X, X) of a supported kernel with these numbers, which begin with `path`, and its pull-back."""
    if isinstance(kernel, OnColumns):
        return gram_and_pull(kernel.kernel, f"{path}kernel.", numbers, inputs.on(tuple(kernel.columns)))
    if isinstance(kernel, Sum | Product | Coregionalized):
        several = isinstance(kernel, Coregionalized)
        inner = inputs.on(tuple(range(inputs.x.shape[1] - 1))) if several else inputs
        parts = [gram_and_pull(k, f"{path}{name}.", numbers, inner) for name, k in kernel.inside.items()]
        if several:
            return _coregionalized(parts, path, numbers, inputs.x[:, -1])
        return _sum(parts) if isinstance(kernel, Sum) else _amplified(*_product(parts), path, numbers)
    if isinstance(kernel, Periodic):
        found = _periodic(path, numbers, inputs.x)
        found = _centered(*found, path, numbers, inputs.x.shape[1]) if isinstance(kernel, CenteredPeriodic) else found
        return _amplified(*found, path, numbers)
    if isinstance(kernel, Linear):
        return _amplified(*_linear(kernel, path, numbers, inputs.x), path, numbers)
    assert isinstance(kernel, Stationary)
    return _amplified(*_stationary(kernel, path, numbers, inputs), path, numbers)


def _sum(parts: list[tuple[Matrix, Pull]]) -> tuple[Matrix, Pull]:
    def pull(g: Matrix, out: Gradient) -> None:
        for _, each in parts:
            each(g, out)

    return sum((k for k, _ in parts[1:]), start=parts[0][0]), pull


def _product(parts: list[tuple[Matrix, Pull]]) -> tuple[Matrix, Pull]:
    def but(skip: int, start: Matrix) -> Matrix:
        for i, (k, _) in enumerate(parts):
            start = start if i == skip else start * k
        return start

    def pull(g: Matrix, out: Gradient) -> None:
        for i, (_, each) in enumerate(parts):
            each(but(i, g), out)

    return but(0, parts[0][0]), pull


def _amplified(k: Matrix, inner: Pull, path: str, numbers: Numbers) -> tuple[Matrix, Pull]:
    """s² k."""
    name = f"{path}variance"
    if name not in numbers:
        return k, inner
    scaled = numbers[name] * k

    def pull(g: Matrix, out: Gradient) -> None:
        out[name] = np.vdot(g, scaled)
        inner(g * numbers[name], out)

    return scaled, pull


def _coregionalized(
    parts: list[tuple[Matrix, Pull]], path: str, numbers: Numbers, output: Float[np.ndarray, " n"]
) -> tuple[Matrix, Pull]:
    """Σ_q B_q[i, j] k_q, B_q = A_q A_qᵀ + diag(κ_q); the gradient by A is by A itself, not by its logarithm."""
    loadings, kappa = numbers[f"{path}loadings"], numbers[f"{path}kappa"]
    p = loadings.shape[1]
    own = (output[:, None] == np.arange(p)).astype(float)
    between = [own @ (a @ a.T + np.diag(k)) @ own.T for a, k in zip(loadings, kappa, strict=True)]

    def pull(g: Matrix, out: Gradient) -> None:
        by_loadings, by_kappa = np.empty_like(loadings), np.empty_like(kappa)
        for q, ((k, each), b) in enumerate(zip(parts, between, strict=True)):
            each(g * b, out)
            by = own.T @ (g * k) @ own
            by_loadings[q], by_kappa[q] = (by + by.T) @ loadings[q], by.diagonal() * kappa[q]
        out[f"{path}loadings"], out[f"{path}kappa"] = by_loadings, by_kappa

    return sum((b * k for b, (k, _) in zip(between[1:], parts[1:], strict=True)), start=between[0] * parts[0][0]), pull


def _linear(kernel: Linear, path: str, numbers: Numbers, x: Float[np.ndarray, "n d"]) -> tuple[Matrix, Pull]:
    name = f"{path}lengthscale"
    moved = x - np.asarray(kernel.number("center"))
    if name in numbers:
        moved = moved / numbers[name]

    def pull(g: Matrix, out: Gradient) -> None:
        if name in numbers:
            each = -2.0 * np.einsum("ik,ij,jk->k", moved, g, moved, optimize=True)
            out[name] = _one_or_each(each, numbers[name])

    return moved @ moved.T, pull


def _periodic(path: str, numbers: Numbers, x: Float[np.ndarray, "n d"]) -> tuple[Matrix, Pull]:
    length, period = numbers[f"{path}lengthscale"], numbers[f"{path}period"]
    lengths, periods = np.broadcast_to(length, x.shape[1]), np.broadcast_to(period, x.shape[1])
    angles = [np.pi * (c[:, None] - c[None, :]) / p for c, p in zip(x.T, periods, strict=True)]
    squares = [np.square(np.sin(a) / ell) for a, ell in zip(angles, lengths, strict=True)]
    k = np.exp(-2.0 * sum(squares[1:], start=squares[0]))

    def pull(g: Matrix, out: Gradient) -> None:
        gk = g * k
        by_length = np.asarray([4.0 * np.vdot(gk, s) for s in squares])
        turns = [np.vdot(gk, a * np.sin(2.0 * a)) for a in angles]
        out[f"{path}lengthscale"] = _one_or_each(by_length, length)
        out[f"{path}period"] = _one_or_each(2.0 * np.asarray(turns) / np.square(lengths), period)

    return k, pull


def _centered(k: Matrix, inner: Pull, path: str, numbers: Numbers, d: int) -> tuple[Matrix, Pull]:
    """(κ - c)/(1 - c); ∂c/∂log ℓ = -2ac(I₁(a)/I₀(a) - 1), a = 1/ℓ²."""
    name = f"{path}lengthscale"
    a = 1.0 / np.square(np.broadcast_to(numbers[name], d))
    level = i0e(a).prod()
    centered = (k - level) / (1.0 - level)

    def pull(g: Matrix, out: Gradient) -> None:
        inner(g / (1.0 - level), out)
        each = -2.0 * a * level * (i1e(a) / i0e(a) - 1.0) * np.sum(g * (1.0 - centered)) / (1.0 - level)
        out[name] = out[name] - _one_or_each(each, numbers[name])

    return centered, pull


def _stationary(kernel: Stationary, path: str, numbers: Numbers, inputs: Inputs) -> tuple[Matrix, Pull]:
    length, shape = numbers[f"{path}lengthscale"], f"{path}alpha"
    n, d = inputs.x.shape
    squared = length**-2.0 * inputs.distances if not np.ndim(length) else _scaled(inputs, length)
    own = changed(kernel, alpha=numbers[shape]) if shape in numbers else kernel
    k, slope = (np.asarray(v) for v in own.profile_and_slope(squared))

    def pull(g: Matrix, out: Gradient) -> None:
        weighted = -2.0 * g * slope
        if np.ndim(length):
            out[f"{path}lengthscale"] = length**-2.0 * (inputs.squares.reshape(d, n * n) @ weighted.ravel())
        else:
            out[f"{path}lengthscale"] = np.vdot(weighted, squared)
        if shape in numbers:
            q = 0.5 * squared / numbers[shape]
            out[shape] = np.vdot(g * k, numbers[shape] * (q / (1.0 + q) - np.log1p(q)))

    return k, pull


def _scaled(inputs: Inputs, length: Float[np.ndarray, " d"]) -> Matrix:
    """r² of one lengthscale for each column."""
    n, d = inputs.x.shape
    return (length**-2.0 @ inputs.squares.reshape(d, n * n)).reshape(n, n)


def _one_or_each(each: np.ndarray, like: np.ndarray) -> np.ndarray | np.floating:
    """The gradient by one number for all columns, or by one for each."""
    return each if np.ndim(like) else each.sum()
