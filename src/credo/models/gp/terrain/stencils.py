"""Vecchia's approximation on a lattice: the elevation of a place, given the cells around it.

    h | y_N ~ N(m + kᵀ(K + D)⁻¹(y_N - m), k(0) - kᵀ(K + D)⁻¹k),    D = σ²/W of each cell

N is a fixed stencil of (2r + 1)² cells around the cell of the place; of those, the ones with returns. Where they are
few (in a gap), cells of coarser levels follow, nearest first, without the returns that were taken already: what lies
in such a cell is not all at its middle, which the variance δ of the kernel within it says. The slope is the difference
quotient over two cells, which rough kernels have, too. Vecchia (1988); for images of elevation, gradient and variance
Giubilato, Le Gentil, Vayugundla, Schuster & Vidal-Calleja (2021), "GPGM-SLAM: a robust SLAM system for unstructured
planetary environments with Gaussian process gradient maps".
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core.arrays import Array, is_traced, namespace
from credo.core.linalg import demand, solve_each
from credo.kernels import Kernel
from credo.models.gp import exact
from credo.models.gp.large.base import in_chunks
from credo.models.gp.terrain.lattice import (
    COLUMNS,
    COUNT,
    MEAN,
    SHARE,
    WEIGHT,
    Cells,
    X,
    Y,
    key_of,
    parent_of,
    place_of,
)

Levels = tuple[Cells, ...]
"""The finest first."""
SURFACE = 7
"""h, its slopes along x and y, and the variances: of h, of the slopes, and their covariance."""
FINEST_BLOCK = 8
"""So many places along each side say how much a field varies within a cell."""


class Ground(NamedTuple):
    """What conditionals need of the prior, and of the lattice."""

    kernel: Kernel
    mean: Float[Array, ""]
    noise: Float[Array, ""]
    cell: Float[Array, ""]
    reach: int


class ConditioningSets(NamedTuple):
    """The cells that each of m places is given: its conditioning set, as Vecchia has it."""

    at: Float[Array, "m k 2"]
    y: Float[Array, "m k"]
    variance: Float[Array, "m k"]
    """Of y around the elevation at its place."""
    real: Bool[Array, "m k"]
    taken: Int[Array, "m l"]
    """How many there are of the first level, of the first two, …"""


@cache
def stencil(reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of (2r + 1)² cells, the nearest first."""
    side = np.arange(-reach, reach + 1)
    x, y = (v.ravel() for v in np.meshgrid(side, side))
    order = np.lexsort([x, y, x * x + y * y])
    return x[order], y[order]


def enough(reach: int) -> int:
    """With so many cells of the stencil nothing coarser is asked."""
    return (2 * reach + 1) ** 2 // 2


def displaced(kernel: Kernel, difference: Float[Array, "*m 2"]) -> Float[Array, "*m"]:
    """k of a displacement: the kernel is stationary."""
    flat = difference.reshape(-1, 2)
    return kernel.gram(flat, np.zeros((1, 2)))[:, 0].reshape(difference.shape[:-1])


def around_mean(kernel: Kernel, places: Float[Array, "q 2"]) -> Float[Array, ""]:
    """The variance of the average over places around the value at the origin."""
    middle = np.zeros((1, 2))
    return (
        kernel.gram(places, places).mean()
        - 2.0 * kernel.gram(places, middle).mean()
        + kernel.gram(middle, middle).sum()
    )


def within(ground: Ground, level: int) -> Float[Array, ""]:
    """δ: the variance of the average over a cell of this level around the value at its middle."""
    side = min(SHARE**level, FINEST_BLOCK)
    at = ((np.arange(side) + 0.5) / side - 0.5) * SHARE**level
    return around_mean(ground.kernel, np.stack(np.meshgrid(at, at), -1).reshape(-1, 2) * ground.cell)


def conditioning_sets(ground: Ground, levels: Levels, key: Int[Array, " m"], coarse: bool) -> ConditioningSets:
    """The cells given to places in these cells; only those of the stencil unless `coarse`."""
    xp = namespace(ground, levels, key)
    k = (2 * ground.reach + 1) ** 2
    asked, table, real = _around(levels[0], key, ground.reach)
    at = (xp.stack(place_of(asked), axis=-1) + 0.5) * ground.cell
    variance = ground.noise / xp.where(real, table[..., WEIGHT], 1.0)
    near = ConditioningSets(at, table[..., MEAN], variance, real, real.sum(1)[:, None])
    if not coarse or len(levels) == 1:
        return near
    parts, sought, sums = [near], [asked], [_sums(table, real)]
    for level, cells in enumerate(levels[1:], 1):
        room = k - near.taken[:, -1:]
        asked, table, real = _around(cells, parent_of(key, level), ground.reach)
        rest = _sums(table, real)
        for below, (keys, taken) in enumerate(zip(sought, sums, strict=True)):  # nothing is counted twice
            inside = asked[:, :, None] == parent_of(keys, level - below)[:, None, :]
            rest = rest - inside.astype(float) @ taken
        real = (rest[..., 0] > 0.5) & (near.taken[:, -1:] < enough(ground.reach))
        real = real & (xp.cumsum(real, axis=1) <= room)
        rest = xp.where(real[:, :, None], rest, 0.0)
        weight = xp.where(real, rest[..., 1], 1.0)
        middle = rest[..., 2:] / weight[:, :, None]
        counts = xp.concatenate([near.taken, near.taken[:, -1:] + real.sum(1)[:, None]], axis=1)
        near = ConditioningSets(
            middle[..., 1:], middle[..., 0], ground.noise / weight + within(ground, level), real, counts
        )
        parts.append(near)
        sought.append(asked)
        sums.append(rest)
    whole = [xp.concatenate(each, axis=1) for each in zip(*(part[:4] for part in parts), strict=True)]
    first = xp.argsort(~whole[3], axis=1)[:, :k]  # those that are there
    at, y, variance, real = (
        xp.take_along_axis(v, first.reshape(*first.shape, *(1,) * (v.ndim - 2)), axis=1) for v in whole
    )
    return ConditioningSets(at, y, variance, real, near.taken)


def _around(
    cells: Cells, key: Int[Array, " m"], reach: int
) -> tuple[Int[Array, "m k"], Float[Array, "m k 7"], Bool[Array, "m k"]]:
    """The stencils of these cells: their keys, the statistics, and which have any."""
    (ox, oy), (ix, iy) = stencil(reach), place_of(key)
    asked = key_of(ix[:, None] + ox, iy[:, None] + oy)
    index, real = cells.find(asked)
    table = cells.table[index] if cells.key.shape[0] else namespace(key).zeros((*asked.shape, COLUMNS))
    return asked, table, real


def _sums(table: Float[Array, "m k 7"], real: Bool[Array, "m k"]) -> Float[Array, "m k 5"]:
    """n, W, Wz, Wx and Wy of the cells that are there: what can be taken from a sum again."""
    xp = namespace(table, real)
    weight = table[..., WEIGHT, None]
    each = [table[..., COUNT, None], weight, weight * table[..., MEAN, None], weight * table[..., X : Y + 1]]
    return xp.where(real[:, :, None], xp.concatenate(each, axis=-1), 0.0)


def differences(step: Float[Array, ""]) -> tuple[Float[Array, "5 2"], Float[Array, "5 3"]]:
    """Five places around one, and the weights that make of them its elevation and its slopes."""
    moves = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    return moves * step, namespace(step).column_stack([1.0 - np.abs(moves).sum(1), 0.5 * moves / step])


def given(ground: Ground, near: ConditioningSets, places: Float[Array, "m 2"]) -> Float[Array, "m 7"]:
    """The surface at each place, given its conditioning set."""
    moves, weights = differences(ground.cell)
    k = displaced(ground.kernel, near.at[:, :, None] - near.at[:, None, :])
    around = places[:, None, None, :] + moves - near.at[:, :, None, :]
    return _surface(ground, near, k, displaced(ground.kernel, around) @ weights)


def given_lattice(ground: Ground, near: ConditioningSets) -> Float[np.ndarray, "m 7"]:
    """`given` at the middles of cells whose conditioning sets are of the finest level: one covariance serves all."""
    moves, weights = differences(ground.cell)
    at = np.stack(stencil(ground.reach), axis=-1) * ground.cell
    return np.asarray(_surface(ground, near, ground.kernel.between(at, at), ground.kernel.between(at, moves) @ weights))


def _surface(ground: Ground, near: ConditioningSets, k: Array, cross: Array) -> Float[Array, "m 7"]:
    """The surface, from the covariances of the cells it is given and theirs with it: one for all places, or each."""
    moves, weights = differences(ground.cell)
    before = weights.T @ ground.kernel.between(moves, moves) @ weights
    xp = namespace(k, cross, before, near)
    own = xp.where(near.real, near.variance, 1.0)[:, :, None] * np.eye(near.real.shape[1])
    k = xp.where(near.real[:, :, None] & near.real[:, None, :], k, 0.0) + own
    cross = xp.where(near.real[:, :, None], cross, 0.0)
    left = xp.where(near.real, near.y - ground.mean, 0.0)
    solved, ok = solve_each(k, cross)
    solved = demand(solved, ok, exact.NOT_DEFINITE)
    mean = (solved * left[:, :, None]).sum(1)
    variance = before - cross.swapaxes(1, 2) @ solved
    diagonal = xp.maximum(xp.diagonal(variance, axis1=1, axis2=2), 0.0)
    return xp.column_stack([mean[:, 0] + ground.mean, mean[:, 1:], diagonal, variance[:, 1, 2]])


def surface_at(
    ground: Ground, levels: Levels, places: Float[Array, "m 2"] | None, key: Int[Array, " m"]
) -> tuple[Float[Array, "m 7"], Int[Array, "m l"]]:
    """The surface at places in these cells (None: at their middles), and how many cells of each level it is given."""
    xp = namespace(ground, levels, places, key)
    at = (xp.stack(place_of(key), axis=-1) + 0.5) * ground.cell if places is None else places
    if is_traced(ground, levels, places, key):
        near = conditioning_sets(ground, levels, key, True)
        return given(ground, near, at), near.taken
    k = (2 * ground.reach + 1) ** 2
    out, taken = np.zeros((len(key), SURFACE)), np.zeros((len(key), len(levels)), dtype=int)
    for cut in in_chunks(len(key), 4 * k * k):
        near = conditioning_sets(ground, levels, key[cut], False)
        part = given_lattice(ground, near) if places is None else given(ground, near, at[cut])
        count = np.repeat(near.taken, len(levels), axis=1)
        few = np.flatnonzero((near.taken[:, 0] < enough(ground.reach)) & (len(levels) > 1))
        if len(few):
            near = conditioning_sets(ground, levels, key[cut][few], True)
            part[few] = given(ground, near, at[cut][few])
            count[few] = near.taken
        out[cut], taken[cut] = part, count
    return out, taken


def touched_cells(
    ground: Ground, levels: Levels, key: Int[np.ndarray, " m"], taken: Int[np.ndarray, "n l"]
) -> Int[np.ndarray, " s"]:
    """Which cells of the finest level may be given one of these: by the stencil, or by a coarser cell around it."""
    ox, oy = stencil(ground.reach)
    found = []
    for level in range(len(levels)):
        px, py = place_of(np.unique(parent_of(key, level)))
        around = np.unique(key_of(px[:, None] + ox, py[:, None] + oy))
        if level:
            here, there = np.divmod(np.arange(SHARE ** (2 * level)), SHARE**level)
            ax, ay = place_of(around)
            around = np.asarray(key_of(ax[:, None] * SHARE**level + here, ay[:, None] * SHARE**level + there))
        at, real = levels[0].find(around)
        at = at[real]
        found.append(at[taken[at, level - 1] < enough(ground.reach)] if level else at)
    return np.unique(np.concatenate(found))
