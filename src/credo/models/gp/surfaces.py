"""The log evidence over two hyperparameters, and its local maxima.

Few rows leave several explanations: a short lengthscale and little noise, or a smooth function and all of y noise.
Each is a maximum of the evidence. Rasmussen & Williams (2006), §5.4.1 and figure 5.5.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.infer.learning import Evidence, learn
from credo.infer.optimize import DIVERGED, ValueAndGrad, at_bound, maximize


class Maximum(NamedTuple):
    """A local maximum of the evidence along the two numbers."""

    first: float
    second: float
    log_evidence: float


class Surface(NamedTuple):
    """log p(y | X, θ) on a grid over two numbers of θ, the others held."""

    names: tuple[str, str]
    first: Float[np.ndarray, " p"]
    second: Float[np.ndarray, " q"]
    log_evidence: Float[np.ndarray, "q p"]
    """A row for each value of the second, a column for each of the first."""
    maxima: tuple[Maximum, ...]
    """Those inside the grid, the highest first."""
    logarithmic: tuple[bool, bool]
    """Whether the grid is even in the logarithm of each number."""


def evidence_surface(
    belief: Belief,
    x: object,
    y: object,
    first: str,
    second: str,
    *,
    width: float | int = 3.0,
    points: int = 41,
    ranges: Mapping[str, Sequence[float | int]] | None = None,
    fixed: Iterable[str] = (),
    **options: Any,
) -> Surface:
    """The log evidence around what `learn` chooses, or in given ranges, with its local maxima there.

    Args:
        belief: before the data.
        x: inputs.
        y: outcomes.
        first: the name of a number, e.g. "kernel.lengthscale", "kernel.lengthscale[1]" where there are several.
        second: the name of another.
        width: how far the grid reaches to each side, in unconstrained units: e^±width for a positive number.
        points: of the grid, along each of the two.
        ranges: (lowest, highest) by name instead. If both are given, nothing is learned: the others stay as they are.
        fixed: what `learn` holds.
        options: what else `condition` takes, e.g. `weights=`.
    """
    given = dict(ranges or {})
    if points < 3:
        raise DataError(f"points must be at least 3 along each number, found {points}")
    if first == second:
        raise DataError(f"first and second must be two numbers, found {first!r} twice")
    whole = first in given and second in given
    plain = belief.unconditioned()
    center = plain if whole else learn(plain, x, y, fixed=fixed, **options)
    rows = center.statistics(x, y, **options)
    slots = params.layout(center)
    names = params.coordinate_names(slots)
    pair = _find(names, first), _find(names, second)
    base = np.asarray(params.to_vector(center, slots))
    kinds = [_kind(slots, i) for i in pair]
    axes = [_axis(name, kind, base[i], width, points, given.get(name)) for name, kind, i in
            zip((first, second), kinds, pair, strict=True)]  # fmt: skip
    objective, where = Evidence().objective(center, slots, rows, {}), list(pair)

    def placed(u: np.ndarray) -> np.ndarray:
        vector = base.copy()
        vector[where] = u
        return vector

    def along(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective.value_and_grad(placed(u))
        return value, gradient[where]

    height = np.array([[objective.value(placed(np.array([u, v]))) for u in axes[0]] for v in axes[1]])
    tops = _climb(height, axes, along)
    natural = [_natural(kind, axis) for kind, axis in zip(kinds, axes, strict=True)]
    maxima = [Maximum(float(_natural(kinds[0], u[0])), float(_natural(kinds[1], u[1])), value) for u, value in tops]
    logarithmic = (kinds[0] == "positive", kinds[1] == "positive")
    return Surface((first, second), natural[0], natural[1], height, tuple(maxima), logarithmic)


def _find(names: list[str], name: str) -> int:
    if name not in names:
        raise DataError(f"there is no single number {name!r}; there are: {', '.join(names)}")
    return names.index(name)


def _kind(slots: params.Layout, i: int) -> str:
    slot = next(s for s in slots if s.start <= i < s.stop)
    if slot.constraint.kind not in ("positive", "real"):
        raise DataError(f"evidence_surface takes positive and real numbers, {slot.path!r} is neither")
    return slot.constraint.kind


def _natural(kind: str, u: np.ndarray | float) -> np.ndarray:
    return np.asarray(np.exp(u) if kind == "positive" else u)


def _axis(
    name: str, kind: str, center: float, width: float | int, points: int, given: Sequence[float | int] | None
) -> Float[np.ndarray, " p"]:
    """The grid along one number, in unconstrained units."""
    if given is None:
        return np.linspace(center - width, center + width, points)
    low, high = given
    if not low < high or (kind == "positive" and not low > 0):
        raise DataError(f"ranges[{name!r}] must be (lowest, highest), positive for a positive number, found {given}")
    ends = np.log([low, high]) if kind == "positive" else np.asarray([low, high], dtype=float)
    return np.linspace(ends[0], ends[1], points)


def _climb(height: np.ndarray, axes: list[np.ndarray], value_and_grad: ValueAndGrad) -> list[tuple[np.ndarray, float]]:
    """Where climbs from the summits of the grid end, except on its border."""
    padded = np.pad(np.where(np.isfinite(height), height, -np.inf), 1, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    summits = np.argwhere((height >= windows.max(axis=(2, 3))) & np.isfinite(height))
    starts = [np.asarray([axes[0][i], axes[1][j]]) for j, i in summits]
    lower, upper = np.asarray([a[0] for a in axes]), np.asarray([a[-1] for a in axes])
    found = maximize(value_and_grad, starts, lower, upper) if starts else []
    return [(o.vector, o.value) for o in found if o.status != DIVERGED and not at_bound(o.vector, lower, upper)]
