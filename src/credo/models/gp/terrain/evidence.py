"""How rough is the ground? The evidence of cells by Vecchia's approximation, and what is learned from it.

Each cell is given the earlier ones (south, then west) of its stencil, of the next ring, and some far away, which know
more of a long scale than more near ones would (Stein, Chi & Welty 2004, "Approximating likelihoods for large spatial
data sets"). What returns differ by within a cell says the noise. Hyperparameters climb the sum over a random part of
the cells, with neighbours from all of them, which is unbiased. A surface that is taken for smoother than it is is too
sure of itself between returns: the kernel is Matérn-1/2 or 3/2, never smoother, whichever has more evidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from credo.core import params
from credo.core.abilities import Ability
from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned, Objective
from credo.infer.method import Learner
from credo.infer.priors import LogScalePenalty, Priors
from credo.kernels import Exponential, InputScales, Matern32
from credo.models.gp.large.vecchia import Neighbourhoods, Trend, conditionals, solved_covariances
from credo.models.gp.large.vecchia import log_evidence as chain
from credo.models.gp.terrain.lattice import COUNT, LOG_WEIGHT, MEAN, SCATTER, WEIGHT, Cells, key_of, place_of
from credo.models.gp.terrain.outliers import MAD
from credo.models.gp.terrain.stencils import stencil

FAR = (4, 16)
"""Cells between a cell and its far neighbours."""
TERMS = 1000
"""The conditionals that hyperparameters are learned from."""
WIDE = 2.0
"""The standard deviation of the log of a lengthscale and of a variance before returns are looked at."""
LOG_2PI = np.log(2.0 * np.pi)
RETURNS = 3.0
"""Of an occupied cell, about, where nobody gives its size."""


class Terms(NamedTuple):
    """Cells with their earlier neighbours, the cell itself last, and the statistics of each cell."""

    x: Float[Array, "s c 2"]
    y: Float[Array, "s c"]
    scale: Float[Array, "s c"]
    """1/W: the noise of a cell's mean is this times that of a return."""
    real: Bool[Array, "s c"]
    table: Float[Array, "s 7"]
    weight: Float[Array, ""]
    """How many cells each of them stands for."""


def earlier(reach: int) -> np.ndarray:
    """Offsets of the cells that a cell is given."""
    near = np.stack(stencil(reach + 1), axis=-1)
    far = [near[np.abs(near).max(1) == 1] * step for step in FAR if step > reach + 1]
    offsets = np.concatenate([near, *far])
    before = (offsets[:, 1] < 0) | ((offsets[:, 1] == 0) & (offsets[:, 0] < 0))
    return np.concatenate([offsets[before], [[0, 0]]])


def terms(terrain: Any, cells: Cells, most: int | None = None) -> Terms:
    """The conditionals of all cells, or of so many at random."""
    n, offsets = cells.key.shape[0], earlier(terrain.reach)
    some = np.arange(n)
    if most is not None and n > most:
        some = np.sort(np.random.default_rng(0).choice(n, most, replace=False))
    ix, iy = place_of(cells.key[some])
    key = key_of(ix[:, None] + offsets[:, 0], iy[:, None] + offsets[:, 1])
    at, real = cells.find(key)
    xp = namespace(cells, terrain)
    x = (xp.stack(place_of(key), axis=-1) + 0.5) * terrain.ground.cell
    table = cells.table[at]
    scale = 1.0 / xp.where(real, table[..., WEIGHT], 1.0)
    return Terms(x, table[..., MEAN], scale, real, cells.table[some], xp.asarray(n / max(len(some), 1)))


def log_evidence(terrain: Any, found: Terms) -> Float[Array, ""]:
    """log p(z) of the returns of these cells, each counted as often as it stands for."""
    ground, table = terrain.ground, found.table
    xp = namespace(ground, found)
    near = Neighbourhoods(found.x, (found.y - ground.mean)[:, :, None], ground.noise * found.scale, found.real)
    k, solved = solved_covariances(ground.kernel, near)
    residuals, d = conditionals(k, near, solved)
    means, _ = chain(residuals, d, Trend.unknown(0), found.weight)
    more = table[:, COUNT] - 1.0
    inside = more * (LOG_2PI + xp.log(ground.noise)) + xp.log(table[:, WEIGHT]) - table[:, LOG_WEIGHT]
    return means - 0.5 * found.weight * (inside + table[:, SCATTER] / ground.noise).sum()


def objective(terrain: Any, slots: params.Layout, cells: Cells, priors: Priors) -> Objective:
    """The evidence of a random part of the cells, and its gradient."""
    bare = changed(terrain.unconditioned(), free=False)
    return Objective(bare, slots, terms(terrain, cells, TERMS), priors, log_evidence)


def default_priors(terrain: Any) -> dict[str, Any]:
    """Of the lengthscale and the variance of one kernel: around what a first look says, a factor of e² wide."""
    known = params.learnable(terrain)
    return {
        path: LogScalePenalty(float(known[path]), WIDE)
        for path in ("kernel.lengthscale", "kernel.variance")
        if path in known and np.ndim(known[path]) == 0
    }


def with_starts(terrain: Any, points: Float[np.ndarray, "n 3"]) -> Any:
    """The belief with what it was not given from a first look at a cloud, by medians."""
    low, high = np.quantile(points[:, :2], [0.01, 0.99], axis=0)
    extent = high - low
    if terrain.cell is None and not extent.max() > 0:
        raise DataError("all points lie above each other: give cell, the width of a cell")
    cell = terrain.cell
    if cell is None:
        width = np.sqrt(extent.max() * max(extent.min(), extent.max() / len(points)) * RETURNS / len(points))
        cell = np.asarray(width)
    told = changed(terrain, cell=cell)
    z, key = points[:, 2], told.keys(points[:, :2])
    order = np.argsort(key, kind="stable")
    step = np.diff(z[order])[np.diff(key[order]) == 0]
    spread = (MAD * np.median(np.abs(z - np.median(z)))) ** 2 or float(z.var()) or 1.0
    noise = 0.01 * spread
    if len(step):  # elevations that are rounded differ by nothing more often than not
        noise = ((MAD * np.median(np.abs(step))) ** 2 or float(np.square(step).mean())) / 2.0
    length = max(0.2 * float(extent.max()), 2.0 * float(cell))
    scales = InputScales(np.zeros(2), np.full(2, length / np.sqrt(2.0)), np.full(2, length), spread)
    return changed(
        told,
        kernel=(terrain.kernel or Matern32()).adapt(scales),
        mean=np.asarray(np.median(z)) if terrain.mean is None else terrain.mean,
        noise=np.asarray(max(noise, 1e-6 * spread)) if terrain.noise is None else terrain.noise,
    )


class HasRoughness(Ability):
    """A ground of unknown roughness, seen through a lattice."""

    in_words: ClassVar[str] = "a ground on a lattice"


@dataclass(frozen=True)
class Roughness(Learner):
    """Learns a `Terrain`: its numbers, and, where nobody gave a kernel, whether it is Matérn-1/2 or 3/2."""

    starts: int = 1
    max_steps: int = 60

    needs: ClassVar[type] = HasRoughness

    def learn(self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief with more evidence."""
        climber = Evidence(starts=self.starts, max_steps=self.max_steps, tolerance=1e-1, gain=1e-6, flat=False)
        if not belief.free:
            return climber.learn(belief, statistics, fixed, priors, seed)
        numbers = {name: getattr(belief.kernel, name) for name in ("lengthscale", "variance")}
        each = [changed(belief, kernel=kind(**numbers)) for kind in (Exponential, Matern32)]
        found = [climber.learn(one, statistics, fixed, priors, seed) for one in each]
        best = max(found, key=lambda one: one.log_evidence)
        ahead = abs(found[0].log_evidence - found[1].log_evidence)
        name = "Matérn-1/2" if best is found[0] else "Matérn-3/2"
        return best._replace(notes=[*best.notes, f"{name}: {ahead:.3g} nats more evidence than the other"])
