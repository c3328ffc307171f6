"""Evidence and gradient of a Gaussian process in NumPy: what `learn` climbs, with nothing to compile.

A search over kernels looks at dozens of them, a few hundred times each, and compiling one takes longer than all of
its looks; so it does for a fit to a few rows. Kernels made of the families below by sums, products and columns are
evaluated here directly, and the gradient is pulled back by the chain rule,

    ∂log p/∂K = ½(ααᵀ - K⁻¹),    through sums (as it is), products (times the other factors) and

    stationary   ∂κ/∂log ℓₖ = -2 κ'(r²) (Δₖ/ℓₖ)²
    periodic     ∂κ/∂log ℓ = κ 4 sin²(πΔ/p)/ℓ²,   ∂κ/∂log p = κ 2 (πΔ/p) sin(2πΔ/p)/ℓ².

Rasmussen & Williams (2006), eq. 5.9. The tests hold it to the compiled objective.
"""

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float
from scipy.special import i0e, i1e

from credo.core import params
from credo.core.device import aligned_empty
from credo.core.errors import DataError
from credo.core.linalg import evidence_on_host
from credo.infer.priors import LogScalePenalty
from credo.kernels import (
    RBF,
    Exponential,
    Kernel,
    Matern32,
    Matern52,
    OnColumns,
    Product,
    RationalQuadratic,
    Stationary,
    Sum,
)
from credo.kernels.centered import CenteredPeriodic
from credo.kernels.dotproduct import Linear
from credo.kernels.periodic import Periodic
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.means import Constant, Mean, Zero

Matrix = np.ndarray
Gradient = dict[str, Any]
Back = Callable[[Matrix, Gradient], None]
Numbers = Mapping[str, Any]

FEW_ROWS = 256
"""Up to so many rows a look here is no slower than a compiled one."""

FAMILIES = (RBF, Exponential, Matern32, Matern52, RationalQuadratic, Periodic, CenteredPeriodic, Linear)
"""The kernels that sums and products may be made of."""


def is_supported(kernel: Kernel) -> bool:
    """Whether the kernel is made of `FAMILIES`."""
    if isinstance(kernel, OnColumns):
        return is_supported(kernel.kernel)
    if isinstance(kernel, Sum | Product):
        return all(is_supported(k) for k in (kernel.parts if isinstance(kernel, Sum) else kernel.factors))
    return type(kernel) in FAMILIES and getattr(kernel, "projection", None) is None


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


class Sheet(NamedTuple):
    """The data, and what does not depend on hyperparameters: made once for many kernels."""

    inputs: Inputs
    residual: Float[np.ndarray, "n"]
    fixed: Float[np.ndarray, "n n"]
    """The covariance that an uncertain mean adds."""
    scale: Float[np.ndarray, "n"]
    extra: Float[np.ndarray, "n"]
    work: Float[np.ndarray, "n n"]
    lower: Float[np.ndarray, "n n"]
    """-1 below the diagonal, -½ on it, 0 above: turns K⁻¹ - ααᵀ into a lower triangle that sums as ∂log p/∂K does."""

    @classmethod
    def of(cls, gp: GP, rows: Rows) -> "Sheet":
        """From a belief whose mean is settled, and rows."""
        x, y, scale, extra = rows.cut()
        n = len(y)
        fixed, mean = _mean_on_host(gp.mean, rows)
        lower = 0.5 * np.eye(n) - np.tri(n)
        return cls(Inputs(x), y - mean, fixed, scale, extra, aligned_empty((n, n)), lower)


def _mean_on_host(mean: Mean, rows: Rows) -> tuple[Float[np.ndarray, "n n"], Any]:
    """The covariance that an uncertain mean adds, and what it is expected to be; a constant compiles nothing."""
    n = rows.n
    if isinstance(mean, Zero):
        return np.zeros((n, n)), 0.0
    if isinstance(mean, Constant):
        value, variance = (0.0 if v is None else float(v) for v in (mean.value, mean.variance))
        return np.full((n, n), variance), value
    more, expected = _mean_of(mean, rows.x)
    return np.zeros((n, n)) if more is None else np.asarray(more)[:n, :n], np.asarray(expected)[:n]


@eqx.filter_jit
def _mean_of(mean: Mean, x: Float[Array, "c d"]) -> tuple[Float[Array, "c c"] | None, Float[Array, " c"]]:
    """On padded rows, so that growing data compile nothing."""
    more = mean.kernel()
    return None if more is None else more.gram(x, x), mean(x)


class TimeUp(Exception):
    """The deadline of an objective has passed."""


class Uncompiled:
    """log p(y | X, θ) + log p(θ) of the unconstrained vector, with its gradient; see the module.

    It remembers the best point it has seen, and raises `TimeUp` once `deadline` (of `time.perf_counter`) has passed.
    """

    def __init__(self, gp: GP, sheet: Sheet, priors: Mapping[str, LogScalePenalty], deadline: Any = np.inf):
        if not is_supported(gp.kernel):
            raise DataError(f"only kernels made of {_listed()} can be evaluated here, found {gp.kernel.formula()}")
        self.slots = params.layout(gp)
        self.start = np.concatenate([np.log(np.ravel(v)) for v in params.learnable(gp).values()])
        self.best = (-np.inf, self.start)
        self.gp, self._sheet, self._deadline = gp, sheet, deadline
        self._kernel = gp.kernel  # attributes of an equinox module take their time
        self._priors = {path: prior.on_host() for path, prior in priors.items()}
        self._given = priors

    @property
    def log_mass(self) -> float:
        """Σ log ∫ exp(log_prob) of the priors: what normalizes them."""
        sizes = {s.path: s.stop - s.start for s in self.slots}
        return sum(sizes[p] * float(v.log_mass) for p, v in self._given.items() if p in sizes)

    @property
    def inputs(self) -> Float[np.ndarray, "n d"]:
        """The inputs of the rows."""
        return self._sheet.inputs.x

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient."""
        if time.perf_counter() > self._deadline and np.isfinite(self.best[0]):
            raise TimeUp
        value, gradient = self.log_evidence(vector)
        log_prior, slope = self.log_prior(vector)
        if np.isfinite(value) and value + log_prior > self.best[0]:
            self.best = (value + log_prior, np.array(vector))
        return value + log_prior, gradient + slope

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        parts, *_ = self._covariance(vector)
        return evidence_on_host(*parts, gradient=False)[0] + self.log_prior(vector)[0]

    def log_evidence(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """log p(y | X, θ) alone, and its gradient."""
        return self.slopes(vector, self._sheet.residual)[:2]

    def slopes(self, vector: np.ndarray, residual: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """log p(residual | X, θ) and its gradients, by the vector and by the residual."""
        sheet = self._sheet
        (covariance, _, weight, work), noise, back = self._covariance(vector)
        value, by_residual = evidence_on_host(covariance, residual, weight, work)
        if not np.isfinite(value):
            return -np.inf, np.zeros_like(vector), by_residual
        by_covariance = np.multiply(sheet.work, sheet.lower, out=sheet.work)
        out: Gradient = {"noise": noise * (by_covariance.diagonal() @ sheet.scale)}
        back(by_covariance, out)
        return value, np.concatenate([np.ravel(out[s.path]) for s in self.slots]), by_residual

    def _covariance(self, vector: np.ndarray) -> tuple[tuple[Matrix, np.ndarray, np.ndarray, Matrix], Any, Back]:
        """What `evidence_on_host` takes: the covariance of the rows and more; the noise; and the way back."""
        sheet, numbers = self._sheet, self._numbers(vector)
        noise = numbers["noise"] if "noise" in numbers else np.asarray(self.gp.noise_variance())
        k, back = _forward(self._kernel, "kernel.", numbers, sheet.inputs)
        covariance = k + sheet.fixed
        covariance.flat[:: len(k) + 1] += noise * sheet.scale + sheet.extra
        return (covariance, sheet.residual, np.ones(len(k)), sheet.work), noise, back

    def residual(self, vector: np.ndarray) -> Float[np.ndarray, "n"]:
        """What the mean of the function leaves of y: noise · α."""
        parts, noise, _ = self._covariance(vector)
        _, by_residual = evidence_on_host(*parts, gradient=False)
        return -(noise * self._sheet.scale + self._sheet.extra) * by_residual

    def _numbers(self, vector: np.ndarray) -> dict[str, Any]:
        return {s.path: np.exp(vector[s.start : s.stop]).reshape(s.shape) for s in self.slots}

    def log_prior(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Σ log p(θ), the penalties of `LogScalePenalty`, and the gradient by log θ."""
        total, slope = 0.0, np.zeros_like(vector)
        for s in self.slots:
            if s.path in self._priors:
                value, slope[s.start : s.stop] = self._priors[s.path](vector[s.start : s.stop])
                total += value
        return total, slope


class Free:
    """The same with some of the numbers held: a function of those in `slots` only, as `learn` asks for it."""

    def __init__(self, gp: GP, slots: params.Layout, rows: Rows, priors: Mapping[str, LogScalePenalty]):
        self._whole = Uncompiled(gp, Sheet.of(gp, rows), priors)
        places = {s.path: np.arange(s.start, s.stop) for s in self._whole.slots}
        self._free = np.concatenate([places[s.path] for s in slots])

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient."""
        value, gradient = self._whole.value_and_grad(self._full(vector))
        return value, gradient[self._free]

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self._whole.value(self._full(vector))

    def _full(self, vector: np.ndarray) -> np.ndarray:
        full = self._whole.start.copy()
        full[self._free] = vector
        return full


def _listed() -> str:
    return ", ".join(family.__name__ for family in FAMILIES)


def _forward(kernel: Kernel, path: str, numbers: Numbers, inputs: Inputs) -> tuple[Matrix, Back]:
    """The covariance, and what adds the gradient by every number of the kernel to a dict, given that by K.

    That by K may be a triangle: what is made of it are sums against symmetric matrices.
    """
    x = inputs.x
    if isinstance(kernel, OnColumns):
        return _forward(kernel.kernel, f"{path}kernel.", numbers, inputs.on(tuple(kernel.columns)))
    if isinstance(kernel, Sum):
        return _sum([_forward(k, f"{path}parts.{i}.", numbers, inputs) for i, k in enumerate(kernel.parts)])
    if isinstance(kernel, Product):
        parts = [_forward(k, f"{path}factors.{i}.", numbers, inputs) for i, k in enumerate(kernel.factors)]
        return _amplified(*_product(parts), path, numbers)
    if isinstance(kernel, Periodic):
        found = _periodic(path, numbers, x)
        found = _centered(*found, path, numbers, x.shape[1]) if isinstance(kernel, CenteredPeriodic) else found
        return _amplified(*found, path, numbers)
    if isinstance(kernel, Linear):
        moved = x - np.asarray(kernel.center)
        if kernel.lengthscale is not None:
            moved = moved / numbers[f"{path}lengthscale"]

        def weigh(g: Matrix, out: Gradient) -> None:
            if kernel.lengthscale is not None:
                each = -2.0 * np.einsum("ik,ij,jk->k", moved, g, moved, optimize=True)
                out[f"{path}lengthscale"] = each if np.ndim(kernel.lengthscale) else each.sum()

        return _amplified(moved @ moved.T, weigh, path, numbers)
    assert isinstance(kernel, Stationary)
    return _amplified(*_stationary(kernel, path, numbers, inputs), path, numbers)


def _sum(parts: list[tuple[Matrix, Back]]) -> tuple[Matrix, Back]:
    def back(g: Matrix, out: Gradient) -> None:
        for _, each in parts:
            each(g, out)

    return sum((k for k, _ in parts[1:]), start=parts[0][0]), back


def _product(parts: list[tuple[Matrix, Back]]) -> tuple[Matrix, Back]:
    def but(skip: int, start: Matrix) -> Matrix:
        for i, (k, _) in enumerate(parts):
            start = start if i == skip else start * k
        return start

    def back(g: Matrix, out: Gradient) -> None:
        for i, (_, each) in enumerate(parts):
            each(but(i, g), out)

    return but(0, parts[0][0]), back


def _amplified(k: Matrix, inner: Back, path: str, numbers: Numbers) -> tuple[Matrix, Back]:
    """s² k."""
    name = f"{path}variance"
    if name not in numbers:
        return k, inner
    scaled = numbers[name] * k

    def back(g: Matrix, out: Gradient) -> None:
        out[name] = np.vdot(g, scaled)
        inner(g * numbers[name], out)

    return scaled, back


def _periodic(path: str, numbers: Numbers, x: Matrix) -> tuple[Matrix, Back]:
    length, period = numbers[f"{path}lengthscale"], numbers[f"{path}period"]
    angles = [
        np.pi * (c[:, None] - c[None, :]) / p for c, p in zip(x.T, np.broadcast_to(period, x.shape[1]), strict=True)
    ]
    each = np.broadcast_to(length, x.shape[1])
    squares = [np.square(np.sin(a) / ell) for a, ell in zip(angles, each, strict=True)]
    k = np.exp(-2.0 * sum(squares[1:], start=squares[0]))

    def back(g: Matrix, out: Gradient) -> None:
        gk = g * k
        by_length = np.asarray([4.0 * np.vdot(gk, s) for s in squares])
        by_period = np.asarray(
            [2.0 * np.vdot(gk, a * np.sin(2.0 * a)) / ell**2 for a, ell in zip(angles, each, strict=True)]
        )
        out[f"{path}lengthscale"] = by_length if np.ndim(length) else by_length.sum()
        out[f"{path}period"] = by_period if np.ndim(period) else by_period.sum()

    return k, back


def _centered(k: Matrix, inner: Back, path: str, numbers: Numbers, d: int) -> tuple[Matrix, Back]:
    """(κ - c)/(1 - c); ∂c/∂log ℓ = -2ac(I₁(a)/I₀(a) - 1), a = 1/ℓ²."""
    name = f"{path}lengthscale"
    a = 1.0 / np.square(np.broadcast_to(numbers[name], d))
    level = i0e(a).prod()
    centered = (k - level) / (1.0 - level)

    def back(g: Matrix, out: Gradient) -> None:
        inner(g / (1.0 - level), out)
        each = -2.0 * a * level * (i1e(a) / i0e(a) - 1.0) * np.sum(g * (1.0 - centered)) / (1.0 - level)
        out[name] = out[name] - (each if np.ndim(numbers[name]) else each.sum())

    return centered, back


def _stationary(kernel: Stationary, path: str, numbers: Numbers, inputs: Inputs) -> tuple[Matrix, Back]:
    length = numbers[f"{path}lengthscale"]
    n, d = inputs.x.shape
    squares, precision = inputs.squares.reshape(d, n * n), np.broadcast_to(length**-2.0, d)
    squared = (precision @ squares).reshape(n, n)
    alpha = numbers.get(f"{path}alpha", np.ones(()))
    k, slope = _profile(kernel, squared, float(alpha))

    def back(g: Matrix, out: Gradient) -> None:
        weighted = -2.0 * g * slope()
        if np.ndim(length):
            out[f"{path}lengthscale"] = precision * (squares @ weighted.ravel())
        else:
            out[f"{path}lengthscale"] = np.vdot(weighted, squared)
        if isinstance(kernel, RationalQuadratic):
            q = 0.5 * squared / alpha
            out[f"{path}alpha"] = np.vdot(g * k, alpha * (q / (1.0 + q) - np.log1p(q)))

    return k, back


def _profile(kernel: Stationary, squared: Matrix, alpha: float) -> tuple[Matrix, Callable[[], Matrix]]:
    """κ(r²) and its derivative by r²."""
    if isinstance(kernel, RBF):
        k = np.exp(-0.5 * squared)
        return k, lambda: -0.5 * k
    if isinstance(kernel, RationalQuadratic):
        base = 1.0 + 0.5 * squared / alpha
        k = base**-alpha
        return k, lambda: -0.5 * k / base
    if isinstance(kernel, Matern52):
        r = np.sqrt(5.0 * squared)
        decay = np.exp(-r)
        return (1.0 + r + r**2 / 3.0) * decay, lambda: -5.0 / 6.0 * (1.0 + r) * decay
    if isinstance(kernel, Matern32):
        r = np.sqrt(3.0 * squared)
        decay = np.exp(-r)
        return (1.0 + r) * decay, lambda: -1.5 * decay
    r = np.sqrt(squared)
    k = np.exp(-r)
    return k, lambda: np.where(r > 0, -0.5 * k / np.where(r > 0, r, 1.0), 0.0)
