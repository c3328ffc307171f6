"""Maximizing a smooth function in a box from several starts: SciPy's L-BFGS-B on a jitted value and gradient.

Type-II likelihoods have several local maxima (Rasmussen & Williams 2006, §5.4.1), so all that are found are
reported, not only the best.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

ValueAndGrad = Callable[[np.ndarray], tuple[float, np.ndarray]]
Box = tuple[np.ndarray, np.ndarray]
Ends = tuple[int, float, float]
Stride = float | np.ndarray
Stop = Callable[[], bool] | None

CONVERGED, STOPPED, DIVERGED = "converged", "stopped", "diverged"

SAME_VALUE = 1e-5
SAME_PLACE = 1e-2
AT_BOUND = 1e-3
FLAT = 1e-3
WALL = 10.0
"""How deep a function falls as the climb sees it, in units of the slope at its start."""


class Optimum(NamedTuple):
    """A local maximum: where, how high, and whether to believe it."""

    vector: np.ndarray
    value: float
    status: str
    steps: int
    found: int = 1
    """How many of the starts ended here."""


def maximize(
    value_and_grad: ValueAndGrad,
    starts: Iterable[np.ndarray],
    lower: np.ndarray,
    upper: np.ndarray,
    max_steps: int = 200,
    tolerance: float = 1e-6,
    gain: float = 1e-14,
    stride: Stride = 1.0,
    stop: Stop = None,
) -> list[Optimum]:
    """The distinct local maxima reached from `starts`, the highest first.

    A climb ends where the largest slope is below `tolerance`, or a step gains less than `gain` times what was
    gained so far, from one on: what an additive constant changes nothing in, such as the units of outcomes.
    `stride` is the length of the first step, one or one for each coordinate: short near a maximum.
    A start where the function or its gradient is not finite ends as "diverged" with value -inf. Once `stop` says so a
    climb ends where it is highest, "stopped", and no other begins.
    """
    found: list[Optimum] = []
    for start in starts:
        if not (found and stop is not None and stop()):
            found.append(_climb(value_and_grad, start, (lower, upper), (max_steps, tolerance, gain), stride, stop))
    return distinct(found)


class _Stop(Exception):
    """The time is up."""


def gradient_differences(value_and_grad: ValueAndGrad, at: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """The Hessian of a function, from central differences of its gradient."""
    ends = [(value_and_grad(at + h)[1], value_and_grad(at - h)[1]) for h in step * np.eye(len(at))]
    hessian = np.asarray([(up - down) / (2 * step) for up, down in ends])
    return 0.5 * (hessian + hessian.T)


def value_differences(values: Callable[[np.ndarray], np.ndarray], at: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """The Hessian of a function of many points at once: f(x ± hᵢ ± hⱼ) - 2f(x) less those of hᵢ and hⱼ alone."""
    k, h = len(at), step * np.eye(len(at))
    i, j = np.tril_indices(k, -1)
    moves = np.concatenate([np.zeros((1, k)), h, h[i] + h[j]])
    found = values(np.concatenate([at + moves, at - moves]))
    bend = found[: len(moves)] + found[len(moves) :] - 2 * found[0]
    hessian = np.diag(bend[1 : k + 1])
    hessian[i, j] = hessian[j, i] = 0.5 * (bend[k + 1 :] - bend[1 + i] - bend[1 + j])
    return hessian / step**2


def _climb(
    value_and_grad: ValueAndGrad, start: np.ndarray, box: Box, ends: Ends, stride: Stride, stop: Stop
) -> Optimum:
    from scipy import optimize  # a tenth of a second, which closed forms need not pay

    (lower, upper), (max_steps, tolerance, gain) = box, ends
    origin = np.clip(start, lower, upper)
    height, slope = value_and_grad(origin)
    if not np.isfinite(height) or not np.all(np.isfinite(slope)):
        return Optimum(origin, -np.inf, DIVERGED, 0)
    # L-BFGS-B begins with a step as long as the gradient, in a box all the way to its walls: make that one stride.
    unit = max(1.0, float(np.max(np.abs(stride * np.asarray(slope)), initial=0.0)))

    highest, top = float(height), origin

    def negative(w: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal highest, top
        if stop is not None and stop():
            raise _Stop
        value, gradient = (height, slope) if not w.any() else value_and_grad(origin + stride * w)
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)) or value < highest - WALL * unit:
            # The line search backs off, by a factor and not to nothing as it would from an endless depth.
            return (height - highest) / unit + WALL, np.zeros_like(w)
        if value > highest:
            highest, top = float(value), origin + stride * w
        return float(height - value) / unit, -stride * np.asarray(gradient, dtype=float) / unit

    low, high = (lower - origin) / stride, (upper - origin) / stride
    options = {"maxiter": max_steps, "maxls": 40, "ftol": gain / unit, "gtol": float(np.min(stride)) * tolerance / unit}
    bounds = list(zip(low, high, strict=True))
    try:
        result = optimize.minimize(negative, 0 * origin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    except _Stop:
        return Optimum(np.clip(top, lower, upper), highest, STOPPED, 0)
    place, value = (
        np.clip(origin + stride * np.asarray(result.x), lower, upper),
        float(height) - float(result.fun) * unit,
    )
    # A line search that cannot improve at the noise floor is convergence, too; one that never improved is not.
    flat = unit * _projected_gradient(result, low, high) < 1e-3 * max(1.0, abs(value))
    done = flat or (result.success and value > height)
    return Optimum(place, value, CONVERGED if done else STOPPED, int(result.nit))


def _projected_gradient(result: "OptimizeResult", lower: np.ndarray, upper: np.ndarray) -> float:
    if result.status == 1:  # out of steps: whatever the gradient says, it was still moving
        return np.inf
    step = np.clip(result.x - result.jac, lower, upper) - result.x
    return float(np.max(np.abs(step), initial=0.0))


def distinct(optima: Sequence[Optimum]) -> list[Optimum]:
    """The optima sorted by height, those at the same place merged and counted."""
    kept: list[Optimum] = []
    for optimum in sorted(optima, key=lambda o: -o.value):
        for i, other in enumerate(kept):
            close = abs(other.value - optimum.value) <= SAME_VALUE * (1 + abs(other.value))
            if close and np.allclose(other.vector, optimum.vector, atol=SAME_PLACE, rtol=SAME_PLACE):
                kept[i] = other._replace(found=other.found + optimum.found)
                break
        else:
            kept.append(optimum)
    return kept


def at_bound(vector: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> list[tuple[int, str]]:
    """The coordinates that lie on a bound, with which one: "lower" or "upper"."""
    low, high = np.flatnonzero(vector - lower < AT_BOUND), np.flatnonzero(upper - vector < AT_BOUND)
    return [(int(i), "lower") for i in low] + [(int(i), "upper") for i in high]


def flat_directions(
    value: Callable[[np.ndarray], float], top: Optimum, lower: np.ndarray, upper: np.ndarray, coordinates: Sequence[int]
) -> list[tuple[int, str]]:
    """Those of the coordinates along which the function stays flat towards a bound: a maximum at infinity.

    Far out the gradient vanishes and the climb ends before the bound; a step of 2 and one of 4 that both change
    the function by less than `FLAT` give it away.
    """
    found: list[tuple[int, str]] = []
    for i in coordinates:
        for side, sign in (("lower", -1.0), ("upper", 1.0)):
            axis = sign * np.eye(len(top.vector))[i]
            steps = [np.clip(top.vector + h * axis, lower, upper) for h in (2.0, 4.0)]
            if all(abs(value(u) - top.value) < FLAT for u in steps):
                found.append((i, side))
    return found
