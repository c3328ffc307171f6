"""Functions of the reproducing kernel Hilbert space: f = Σᵢ αᵢ k(xᵢ, ·).

    ⟨k(x, ·), k(z, ·)⟩ = k(x, z),    so ⟨f, k(x, ·)⟩ = f(x)    and    ‖f‖² = αᵀKα

The representer theorem: whatever the loss, the minimiser of loss(f(x₁), …, f(x_n)) + λ‖f‖² is such a sum over the
data.  Schölkopf & Smola (2002), "Learning with kernels", §2.2 and §4.2; Rasmussen & Williams (2006), §6.1-6.2.
"""

import warnings

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike, Float
from scipy.special import expit

from credo.core.arrays import Array, Numeric, as_float, host, is_traced, namespace
from credo.core.checks import check_positive, check_real, check_vector
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.linalg import cholesky, plus_diagonal, solve
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


LOSSES = ("squared", "logistic", "hinge", "huber", "quantile")
STEPS = 100
"""The most steps of Newton's method, or of the interior point, which take about 10 and 20."""
TOLERANCE = 1e-13
"""Where they have arrived: the Newton decrement, and the gap between primal and dual for each row."""


def minimize(
    kernel: Kernel,
    x: object,
    y: object,
    loss: str = "squared",
    penalty: Numeric = 1.0,
    *,
    weights: object = None,
    delta: float | None = None,
    level: float | None = None,
) -> RKHSFunction:
    """The f that minimises Σᵢ wᵢ ℓ(yᵢ, f(xᵢ)) + λ‖f‖²; by the representer theorem f = Σᵢ αᵢ k(xᵢ, ·).

    | `loss` | ℓ(y, f), r = y - f | y | |
    | --- | --- | --- | --- |
    | "squared" | r² | numbers | kernel ridge regression |
    | "huber" | r²/2 up to \\|r\\| = δ (`delta`, 1), then δ\\|r\\| - δ²/2 | numbers | outliers pull no further |
    | "quantile" | max(τr, (τ - 1)r), τ = `level` (½: the median) | numbers | the τ-quantile of y at x |
    | "logistic" | log(1 + e^-yf) | -1 and 1, or 0 and 1 | f is the log-odds |
    | "hinge" | max(0, 1 - yf) | -1 and 1, or 0 and 1 | a support vector machine |

    There is no offset beside f: add a `Constant` to the kernel for one. At the minimum 2λαᵢ = -wᵢ ∂ℓ/∂f(xᵢ), so rows
    that are fitted well enough have αᵢ = 0. Schölkopf, Herbrich & Smola (2001), "A generalized representer theorem";
    Huber (1964); Koenker & Bassett (1978); Cortes & Vapnik (1995).
    """
    if loss not in LOSSES:
        raise DataError(f"loss must be one of {', '.join(LOSSES)}, found {loss!r}")
    for name, value, owner in (("delta", delta, "huber"), ("level", level, "quantile")):
        if value is not None and loss != owner:
            raise DataError(f"{name}= is of the loss {owner!r}, found with {loss!r}")
    if loss == "squared":
        return kernel_ridge(kernel, x, y, penalty, weights)
    rows = host(kernel.encode(x, "x"))
    targets = np.asarray(check_vector(y, "y", len(rows)))
    size = check_real(penalty, "penalty", 0.0)
    if not size > 0:
        raise DataError(f"penalty must be one positive number, found {penalty!r}; for interpolation use a small one")
    w = np.ones(len(rows)) if weights is None else np.asarray(check_positive(weights, "weights", len(rows)))
    k = np.asarray(kernel.between(rows, rows)) / (2.0 * size)
    if loss in ("logistic", "hinge"):
        targets = _signs(targets)
    by_newton = loss == "logistic"
    slopes = _newton(k, targets, w) if by_newton else _in_box(k, *_dual_of(loss, targets, w, delta, level))
    return RKHSFunction(kernel, rows, slopes / (2.0 * size))


def _signs(y: np.ndarray) -> np.ndarray:
    """Two classes as -1 and 1."""
    found = set(np.unique(y).tolist())
    if not (found <= {-1.0, 1.0} or found <= {0.0, 1.0}):
        raise DataError(f"y must be -1 and 1, or 0 and 1, for two classes, found {sorted(found)[:4]}")
    return np.where(y > 0, 1.0, -1.0)


def _dual_of(
    loss: str, y: np.ndarray, w: np.ndarray, delta: float | None, level: float | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(lower, upper, own, y): the slopes β = -wℓ' maximise yᵀβ - ½βᵀ(K/2λ + diag(own))β between lower and upper."""
    if loss == "hinge":
        return np.minimum(y, 0.0) * w, np.maximum(y, 0.0) * w, np.zeros_like(y), y
    if loss == "quantile":
        tau = check_real(0.5 if level is None else level, "level", 0.0, 1.0)
        if not 0 < tau < 1:
            raise DataError(f"level must lie strictly between 0 and 1, found {level!r}")
        return (tau - 1) * w, tau * w, np.zeros_like(y), y
    bend = check_real(1.0 if delta is None else delta, "delta", 0.0)
    if not bend > 0:
        raise DataError(f"delta must be positive, found {delta!r}")
    return -bend * w, bend * w, 1.0 / w, y


def _newton(k: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The slopes β = w y σ(-yf) at the minimum of Σ w log(1 + e^-yf) + ½βᵀKβ, f = Kβ, by Newton's method.

    A step solves (K + W⁻¹)β' = f + β/W through B = I + W^½KW^½. Rasmussen & Williams (2006), algorithm 3.1.
    """
    beta = np.zeros_like(y)

    def height(b: np.ndarray, f: np.ndarray) -> float:
        return float(w @ np.logaddexp(0.0, -y * f) + 0.5 * b @ f)

    f, now = np.zeros_like(y), height(beta, np.zeros_like(y))
    for _ in range(STEPS):
        p = expit(-y * f)
        slope, curve = w * y * p, w * p * (1 - p)
        half = np.sqrt(curve)
        root = cholesky(plus_diagonal(half[:, None] * k * half[None, :], np.ones_like(y)), "B of Newton's method")
        b = curve * f + slope
        step = b - half * solve(root, half * (k @ b)) - beta
        move = k @ step
        decrement = float((slope - beta) @ move)
        if decrement <= TOLERANCE**2 * max(now, 1e-300):
            return slope if decrement <= 0 else beta + step
        length = 1.0
        while height(beta + length * step, f + length * move) > now - 0.25 * length * decrement and length > 1e-8:
            length /= 2
        beta, f = beta + length * step, f + length * move
        now = height(beta, f)
        if length <= 1e-8:  # nothing is gained any more: rounding
            return beta
    _not_converged("Newton's method", decrement)
    return beta


def _in_box(k: np.ndarray, lower: np.ndarray, upper: np.ndarray, own: np.ndarray, y: np.ndarray) -> np.ndarray:
    """argmin ½βᵀQβ - yᵀβ with Q = K + diag(own) and lower ≤ β ≤ upper, by a primal-dual interior point.

    Each step solves (Q + diag(s/(β - l) + t/(u - β))) Δ = …, predictor and corrector with one factor. Mehrotra (1992),
    "On the implementation of a primal-dual interior point method".
    """
    width = upper - lower
    q = plus_diagonal(k, own)
    beta = 0.5 * (lower + upper)
    s = t = np.full_like(y, max(float(np.abs(q @ beta - y).max()), 1e-3))
    scale = max(float(np.abs(y).max()), 1e-300)
    for _ in range(STEPS):
        a, b = beta - lower, upper - beta
        rest = y - q @ beta + s - t
        gap = float(a @ s + b @ t) / (2 * len(y))
        # What rounding leaves of Qβ is the limit where it is large beside y.
        limit = 1e-10 * scale + 1e-13 * float((np.abs(q) @ np.abs(beta)).max())
        if gap <= TOLERANCE * float(np.mean(width)) * scale and np.abs(rest).max() <= limit:
            return _snapped(beta, lower, upper, s, t)
        if gap <= 1e-30 * float(np.mean(width)) * scale:
            break
        root = cholesky(plus_diagonal(q, s / a + t / b), "the system of the interior point")

        def step(aim_s: np.ndarray, aim_t: np.ndarray, root=root, rest=rest, s=s, t=t, a=a, b=b):  # type: ignore[no-untyped-def]
            d = solve(root, rest - s + t + aim_s / a - aim_t / b)
            return d, aim_s / a - s - s / a * d, aim_t / b - t + t / b * d

        zero = np.zeros_like(y)
        d, ds, dt = step(zero, zero)
        far = _longest(a, d, b, s, ds, t, dt)
        after = float((a + far * d) @ (s + far * ds) + (b - far * d) @ (t + far * dt)) / (2 * len(y))
        aim = gap * (after / gap) ** 3
        d, ds, dt = step(aim - d * ds, aim + d * dt)
        far = 0.995 * _longest(a, d, b, s, ds, t, dt)
        beta, s, t = beta + far * d, s + far * ds, t + far * dt
    _not_converged("the interior point", gap)
    return _snapped(beta, lower, upper, s, t)


def _longest(a: Array, d: Array, b: Array, s: Array, ds: Array, t: Array, dt: Array) -> float:
    """The longest step ≤ 1 after which all of a + d, b - d, s + ds and t + dt are ≥ 0."""
    far = 1.0
    for value, change in ((a, d), (b, -d), (s, ds), (t, dt)):
        falls = change < 0
        far = min(far, float(np.min(-value[falls] / change[falls], initial=1.0)))
    return far


def _snapped(beta: Array, lower: Array, upper: Array, s: Array, t: Array) -> np.ndarray:
    """β on the bound where its multiplier is the larger of the two: there αᵢ is what it is exactly."""
    share = 1e-10 * (upper - lower)
    beta = np.where((beta - lower < share) & (s > (beta - lower)), lower, beta)
    return np.where((upper - beta < share) & (t > (upper - beta)), upper, beta)


def _not_converged(what: str, left: float) -> None:
    warnings.warn(
        f"{what} had not arrived after {STEPS} steps (what is left: {left:.1g}); use a larger penalty, or look at the "
        "scale of the kernel",
        NotConvergedWarning,
        stacklevel=4,
    )
