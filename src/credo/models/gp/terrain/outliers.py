"""Returns that nothing around them agrees with: flying pixels, reflections, what moves.

A return is set aside if it is more than `gate` standard deviations from what is around it in one of two ways:

- the scan: the median of its cell, of four returns or more, or else of the medians of the cells of its stencil. The
  ground differs from its average over the stencil as the kernel says, and by no less than the residuals of the whole
  scan do (their median absolute deviation);
- the map: the elevation that the cell had before, with its doubt.

Returns inside the gate count fully and those outside not at all, so that clean scans can come in any order. What was
set aside is kept as a Gaussian a cell: where it outweighs what was believed, and agrees with itself, the two change
places. Medians stand up to just under half of outliers around a cell, not to a patch that is wrong throughout; a
return alone in an empty stencil is believed.
"""

import warnings
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import ndimage

from credo.core.arrays import Array
from credo.core.errors import MisfitWarning
from credo.models.gp.terrain.lattice import COUNT, SCATTER, WEIGHT, Cells, key_of, place_of
from credo.models.gp.terrain.stencils import Ground, Levels, around_mean, stencil

if TYPE_CHECKING:
    from credo.models.gp.terrain.belief import Seen

MAJORITY = 4
"""So many returns of one cell are judged by their own median."""
FEWEST = 3
"""Other cells of a stencil that a median is taken of."""
MAD = 1.4826
"""Standard deviations of a normal law in a median absolute deviation."""
AGREE = 9.0
"""Returns that were set aside agree with each other if their variance is below so many times the noise."""
MOSTLY = 0.5
"""With more of a scan set aside there is a warning."""


def around(
    key: Int[np.ndarray, " n"], z: Float[np.ndarray, " n"], reach: int
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """The median around each return; whether it is that of its own cell; and whether there is any."""
    own, inside = np.unique(key, return_inverse=True)
    inside = inside.reshape(-1)
    medians = np.asarray(ndimage.median(z, inside, np.arange(len(own))))
    many = np.bincount(inside) >= MAJORITY
    ox, oy = stencil(reach)
    ix, iy = place_of(own)
    cells = Cells(own, np.zeros((len(own), 7)))
    at, there = cells.find(key_of(ix[:, None] + ox, iy[:, None] + oy))
    near = np.where(there, medians[at], np.inf)  # the ones that are there come first
    near.sort(axis=1)
    count = there.sum(1)
    rows = np.arange(len(own))
    middle = 0.5 * (near[rows, (count - 1) // 2] + near[rows, count // 2])
    some = count > FEWEST
    return np.where(many, medians, middle)[inside], many[inside], (many | some)[inside]


def agreeing(
    ground: Ground,
    points: Float[np.ndarray, "n 3"],
    key: Int[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    gate: float,
    known: "Seen | None",
) -> Bool[np.ndarray, " n"]:
    """Which returns of a scan are believed."""
    z = points[:, 2]
    if gate == 0:
        return np.ones(len(z), bool)
    noise, square = float(ground.noise) / weight, gate * gate
    middle, own, any_around = around(key, z, ground.reach)
    differs = float(around_mean(ground.kernel, np.stack(stencil(ground.reach), axis=-1) * float(ground.cell)))
    rough = (MAD * np.median(np.abs(z - middle)[any_around])) ** 2 if any_around.any() else 0.0
    spread = np.maximum(noise + np.where(own, 0.0, differs), rough)
    fine = ~any_around | (np.square(z - middle) <= square * spread)
    if known is not None and known.surface is not None:
        at, there = known.levels[0].find(key)
        off = np.square(z - known.surface[at, 0]) <= square * (noise + known.surface[at, 3])
        fine &= ~there | off
    return fine


def revised(
    levels: Levels, contested: Cells, fresh: Int[np.ndarray, " k"], noise: Float[Array, ""]
) -> tuple[Levels, Cells, Int[np.ndarray, " r"]]:
    """Cells where what was set aside outweighs what was believed: the two change places. With which cells those are."""
    at, _ = contested.find(fresh)
    odd = contested.table[at]
    where, there = levels[0].find(fresh)
    tight = odd[:, SCATTER] < AGREE * float(noise) * np.maximum(odd[:, COUNT] - 1, 1)
    turn = there & (odd[:, COUNT] >= MAJORITY) & tight
    turn[turn] &= odd[turn, WEIGHT] > levels[0].table[where[turn], WEIGHT]
    if not turn.any():
        return levels, contested, fresh[:0]
    fine, rest = levels[0].table.copy(), contested.table.copy()
    fine[where[turn]], rest[at[turn]] = odd[turn], fine[where[turn]]
    out = [Cells(levels[0].key, fine)]
    for _ in levels[1:]:
        out.append(out[-1].coarser())
    return tuple(out), Cells(contested.key, rest), fresh[turn]


def warn_of_rejected(fine: Bool[np.ndarray, " n"]) -> None:
    """A scan of which most is set aside lies elsewhere, or the map is wrong."""
    if len(fine) and np.mean(~fine) > MOSTLY:
        warnings.warn(
            f"{np.sum(~fine)} of {len(fine)} returns of the scan do not agree with the map and were set aside; is the "
            "pose of the scan right (see terrain.register), or the noise of the belief too small?",
            MisfitWarning,
            stacklevel=5,
        )
