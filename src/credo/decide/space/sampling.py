"""Points of a space that its constraints allow: Sobol points, and a walk where Sobol points hardly ever pass.

Sobol points (scrambled) are rejected where a constraint fails. In a thin polytope nearly all are: then the parameters
in linear constraints come from a hit-and-run walk, Smith (1984), started between vertices found by linear programs.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import linprog

from credo.core.errors import DataError
from credo.decide.space.conditions import active
from credo.decide.space.parameters import Parameter

if TYPE_CHECKING:
    from scipy.stats.qmc import Sobol

    from credo.decide.space.space import Space

Solved = np.ndarray | None
Bounds = list[tuple[float, float | None]]
Linear = tuple[np.ndarray, ...]
"""low ≤ a v ≤ high as (a, low, high, what rounding may add)."""
FIRST = 64
"""The size of the first block of Sobol points."""
LOOK = 4096
"""After so many Sobol points it is known whether the region is thin."""
THIN = 0.01
"""A smaller part of the points than this, and the walk takes over."""
PATIENCE = 16384
"""So many points in a row that fail, and the search ends."""
STEPS = 4
"""Steps of the walk between two points that are kept, for each of its variables."""
EQUAL = 1e-9
"""Two bounds that are closer than this, in the unit cube, make an equation."""
BLOCK = 8
"""Points of the walk that are made at once."""
WALKS = 512
"""So many points of the walk in a row that fail, and the search ends."""


def sample_rows(space: "Space", n: int, seed: int, skip: int) -> np.ndarray:
    """Rows skip, …, skip + n - 1 of the sequence of the seed."""
    if not n:
        return np.empty((0, space.width))
    kept: list[np.ndarray] = []
    have = 0
    for rows in _sequence(space, seed, skip + n):
        kept.append(rows)
        have += len(rows)
        if have >= skip + n:
            break
    return np.concatenate(kept)[skip : skip + n]


def _sequence(space: "Space", seed: int, least: int) -> Iterator[np.ndarray]:
    """Blocks of allowed rows; where they are cut depends on `least`, what they hold does not."""
    from scipy.stats import qmc  # half a second of imports

    sobol = qmc.Sobol(len(space.names), scramble=True, rng=np.random.default_rng(seed))
    if not space.constraints:
        yield _spread(space, sobol.random_base2(max(least - 1, 0).bit_length()))
    tried = found = idle = 0
    involved = np.flatnonzero(np.any(space._linear[0] != 0, axis=0))
    while idle < PATIENCE:
        rows = _spread(space, sobol.random(min(max(FIRST, tried), LOOK)))
        good = space._allowed(rows)
        tried, found, idle = tried + len(rows), found + int(good.sum()), 0 if good.any() else idle + len(rows)
        yield rows[good]
        if tried == FIRST and not found and involved.size and not _relaxed_possible(space, involved):
            raise _impossible(space, "no values within the bounds meet the linear ones")
        if tried == LOOK and found < THIN * LOOK and involved.size:
            yield from _walks(space, sobol, involved, np.random.default_rng([seed, 1]))
    raise _impossible(space, f"{idle} points in a row fail")


def _impossible(space: "Space", why: str) -> DataError:
    told = "; ".join(map(str, space.constraints))
    return DataError(f"no point of the space satisfies the constraints ({told}): {why}; widen bounds or drop one")


def _spread(space: "Space", u: np.ndarray) -> np.ndarray:
    """Rows of points of the unit cube, one coordinate for each parameter."""
    numbers = [parameter.spread(column) for parameter, column in zip(space.parameters, u.T, strict=True)]
    return space._rows(numbers, active(space._rules, numbers))


def _walks(space: "Space", sobol: "Sobol", involved: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Sobol points with their numbers in linear constraints replaced by a walk in what the others leave open."""
    a, low, high, slack = space._linear
    parents = {parent for _, pairs in space._rules for parent, _ in pairs}
    movable = [i for i in involved if space.parameters[i].kind in ("real", "integer") and i not in parents]
    walks: dict[tuple[tuple[int, ...], bytes], Iterator[np.ndarray] | None] = {}
    idle = 0
    while idle < WALKS and movable:
        rows = _spread(space, sobol.random(BLOCK))
        numbers, exists = space._read(rows)
        for j in range(BLOCK):
            free = [i for i in movable if exists[i][j]]
            fixed = [i for i in involved if i not in free and exists[i][j]]
            rest = np.zeros(len(a))
            for i in fixed:
                rest += a[:, i] * space.parameters[i].natural(rows[j : j + 1, space.columns[i]])[0]
            key = (tuple(free), rest.tobytes())
            if key not in walks:
                chosen = [space.parameters[i] for i in free]
                walks[key] = _walk((a[:, free], low - rest, high - rest, slack), chosen, rng)
            walk = walks[key]
            if walk is not None:
                for i, value in zip(free, next(walk), strict=True):
                    numbers[i][j] = value
        moved = space._rows(numbers, exists)
        good = space._allowed(moved)
        idle = 0 if good.any() else idle + BLOCK
        yield moved[good]
    raise _impossible(space, f"{LOOK} points and {WALKS} walks inside the linear ones all fail")


class _Region(NamedTuple):
    """The polytope {z ∈ [0, 1]^d: ub z ≤ ub_to, eq z = eq_to}."""

    ub: np.ndarray
    ub_to: np.ndarray
    eq: np.ndarray
    eq_to: np.ndarray

    def vertex(self, objective: np.ndarray) -> np.ndarray | None:
        """The minimizer of a linear objective, None where the region is empty."""
        return _solve(objective, *self, bounds=[(0.0, 1.0)] * len(objective))


def _region(linear: Linear, lows: np.ndarray, spans: np.ndarray) -> _Region | None:
    """low ≤ a v ≤ high for v = lows + spans·z, as a region of z; None where a constraint without variables fails."""
    a, low, high, slack = linear
    scaled, low, high = a * spans, low - a @ lows, high - a @ lows
    size = np.max(np.abs(scaled), axis=1, initial=0.0)
    free = size == 0
    if np.any((low > slack)[free]) or np.any((high < -slack)[free]):
        return None
    scaled, low, high = scaled[~free] / size[~free, None], low[~free] / size[~free], high[~free] / size[~free]
    equal = high - low < EQUAL
    above, below = ~equal & np.isfinite(high), ~equal & np.isfinite(low)
    ub, ub_to = np.concatenate([scaled[above], -scaled[below]]), np.concatenate([high[above], -low[below]])
    return _Region(ub, ub_to, scaled[equal], (high[equal] + low[equal]) / 2)


def _solve(
    objective: np.ndarray, *region: np.ndarray, bounds: Bounds, whole: np.ndarray | None = None
) -> np.ndarray | None:
    options = {"primal_feasibility_tolerance": 1e-10}
    found = linprog(objective, *region, bounds=bounds, integrality=whole, method="highs", options=options)
    return found.x


def _relaxed_possible(space: "Space", involved: np.ndarray) -> bool:
    """Whether real numbers between the bounds (and 0 where a parameter may not exist) meet the linear constraints."""
    a, low, high, slack = space._linear
    ends = np.array([space.parameters[i].bounds for i in involved]).reshape(-1, 2)
    sometimes = np.array([bool(space.parameters[i].when) for i in involved], dtype=bool)
    ends[sometimes] = np.stack([np.minimum(ends[sometimes, 0], 0), np.maximum(ends[sometimes, 1], 0)], axis=1)
    region = _region((a[:, involved], low - slack, high + slack, slack), ends[:, 0], ends[:, 1] - ends[:, 0])
    return region is not None and region.vertex(np.zeros(len(involved))) is not None


def _walk(linear: Linear, parameters: list[Parameter], rng: np.random.Generator) -> Iterator[np.ndarray] | None:
    """Values of the parameters with low ≤ a v ≤ high, uniform in the long run; None where there are none."""
    ends = np.array([parameter.bounds for parameter in parameters]).reshape(-1, 2)
    lows, spans = ends[:, 0], ends[:, 1] - ends[:, 0]
    region = _region(linear, lows, spans)
    if region is None or (parameters and region.vertex(np.zeros(len(parameters))) is None):
        return None
    if not parameters:
        return itertools.repeat(lows)
    middle = np.full(len(parameters), 0.5)
    steps = np.array([span if p.kind == "integer" else 0.0 for p, span in zip(parameters, spans, strict=True)])
    if steps.any() and _nearest_whole(region, middle, steps) is None:
        return None

    def values() -> Iterator[np.ndarray]:
        for z in _hit_and_run(region, len(parameters), rng):
            whole = _nearest_whole(region, z, steps) if steps.any() else z
            at = z if whole is None else whole
            found = np.where(at >= 1, ends[:, 1], lows + at * spans)
            yield np.clip(np.where(steps > 0, np.round(found), found), ends[:, 0], ends[:, 1])

    return values()


def _hit_and_run(region: _Region, d: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """A uniform point on a random chord through the last point, again and again.

    The walk starts at the mean of vertices, and its directions are normal with their spread: they stay inside
    equations, and in a long thin region most of them are along it.
    """
    random = rng.standard_normal((d, d))
    objectives = np.concatenate([np.eye(d), -np.eye(d), random, -random])
    corners = np.array([v for v in map(region.vertex, objectives) if v is not None])
    z = corners.mean(axis=0)
    around = corners - z
    walls = np.concatenate([region.ub, np.eye(d), -np.eye(d)])
    ends = np.concatenate([region.ub_to, np.ones(d), np.zeros(d)])
    still = np.max(np.abs(around)) < EQUAL
    while True:
        for _ in range(0 if still else STEPS * d):
            direction = rng.standard_normal(len(around)) @ around
            rate, room = walls @ direction, np.maximum(ends - walls @ z, 0.0)
            far = np.abs(rate) > 1e-14 * np.max(np.abs(direction))
            reach, ahead = room[far] / rate[far], rate[far] > 0
            back, forth = np.max(reach[~ahead]), np.min(reach[ahead])
            z = np.clip(z + rng.uniform(back, forth) * direction, 0.0, 1.0)
        yield z


def _nearest_whole(region: _Region, z: np.ndarray, steps: np.ndarray) -> np.ndarray | None:
    """The point of the region nearest to z, in the sum of distances, at which zᵢ stepsᵢ is whole where stepsᵢ > 0."""
    d, eye = len(z), np.eye(len(z))
    unit = np.where(steps > 0, steps, 1.0)  # in y = unit·z; the last d of 2d variables bound |z - y/unit|
    program = (
        np.block([[region.ub / unit, np.zeros_like(region.ub)], [eye / unit, -eye], [-eye / unit, -eye]]),
        np.concatenate([region.ub_to, z, -z]),
        np.concatenate([region.eq / unit, np.zeros_like(region.eq)], axis=1),
        region.eq_to,
    )
    bounds: Bounds = [(0.0, u) for u in unit] + [(0.0, None)] * d
    cost, whole = np.repeat([0.0, 1.0], d), np.concatenate([steps > 0, np.zeros(d, bool)])
    found = _solve(cost, *program, bounds=bounds, whole=whole.astype(int))
    if found is not None and not np.all(steps > 0):  # whole numbers exactly, then the others once more
        for i in np.flatnonzero(steps > 0):
            bounds[i] = (np.round(found[i]), np.round(found[i]))
        found = _solve(cost, *program, bounds=bounds)
    return None if found is None else found[:d] / unit
