"""`Terrain`: what is believed of the ground, as clouds of points come in.

    z = h(x, y) + ε,    h ~ GP(m, k),  ε ~ N(0, σ²/w),    z along gravity

Returns are kept as a Gaussian a cell (`lattice.py`); elevation, slope and variance of every cell with returns are kept
as well, and a scan redoes them only around the cells that it touched (`stencils.py`). A return is taken to say the
elevation of the middle of its cell: how much the ground varies within a cell is part of the noise.

Returns that nothing around them agrees with are set aside and counted (`outliers.py`).
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from credo.core import params
from credo.core.arrays import Array, as_float, is_traced, namespace
from credo.core.belief import Belief
from credo.core.checks import check_count, check_positive, check_real, check_table
from credo.core.errors import DataError
from credo.core.params import given, positive, real
from credo.core.predictive import Normal
from credo.core.pytrees import changed
from credo.kernels import Kernel, Matern32
from credo.kernels.base import show
from credo.models.gp.spatial.grids import MOST_CELLS, Grid, Map
from credo.models.gp.spatial.slopes import Gradient
from credo.models.gp.terrain import evidence, outliers, stencils
from credo.models.gp.terrain.lattice import SPAN, Cells, key_of, merged, place_of

DOWN = (0.0, 0.0, -1.0)
MOST_REACH = 40
"""A stencil of 81 × 81 cells has a covariance of 344 MB."""


class Seen(eqx.Module):
    """What returns have said so far."""

    levels: tuple[Cells, ...]
    """The cells, and the coarser ones."""
    contested: Cells
    """Returns that were set aside, by cell: where they become the majority, they are believed."""
    surface: Float[Array, "n 7"] | None
    """At each cell: elevation, slopes, variances; None of a scan that is not part of a map yet."""
    taken: Int[Array, "n l"] | None
    rejected: Int[Array, ""]
    """How many returns were set aside."""


class Images(NamedTuple):
    """The ground on a grid; the first row is in the south."""

    grid: Grid
    elevation: Float[np.ndarray, "r c"]
    gradient: Float[np.ndarray, "r c 2"]
    """Along x and y, over two cells."""
    variance: Float[np.ndarray, "r c"]
    gradient_covariance: Float[np.ndarray, "r c 2 2"]
    seen: np.ndarray
    """Which cells have returns."""


class Terrain(Belief[Seen], evidence.HasRoughness):
    """The ground under a robot: elevation, slope and their doubt, from clouds of points.

        terrain = credo.fit(credo.Terrain(), cloud)        kernel, noise and mean by evidence
        terrain = terrain.condition(scan)                  milliseconds: only around the scan

    Args:
        cell: the width of a cell; None: about three returns in each.
        kernel: stationary, of two coordinates. None: Matérn-1/2 or 3/2, `fit` takes the one with more evidence.
        mean: the elevation that is expected where nothing was seen.
        noise: the variance of a return around the elevation of its cell.
        reach: the stencil is (2·reach + 1)² cells.
        levels: coarser levels for gaps, each of cells four times as wide.
        gate: returns farther than so many standard deviations from what is around them are set aside; 0 for none.
    """

    kernel: Kernel | None = None
    mean: Float[Array, ""] | None = real(None, unset=0.0)
    noise: Float[Array, ""] | None = positive(None, unset=1.0)
    cell: Float[Array, ""] | None = given(unset=1.0)
    reach: int = eqx.field(default=2, static=True, kw_only=True)
    levels: int = eqx.field(default=2, static=True, kw_only=True)
    gate: float = eqx.field(default=5.0, static=True, kw_only=True)
    free: bool = eqx.field(default=False, static=True, kw_only=True)
    """Whether the kernel is one that nobody has given."""
    seen: Seen | None = eqx.field(default=None, kw_only=True)
    from_data: ClassVar[tuple[str, ...]] = ("seen",)

    def __init__(
        self,
        cell: float | None = None,
        kernel: Kernel | None = None,
        *,
        mean: float | None = None,
        noise: float | None = None,
        reach: int = 2,
        levels: int = 2,
        gate: float | int = 5.0,
    ):
        if kernel is not None and not (isinstance(kernel, Kernel) and kernel.is_stationary):
            raise DataError(f"kernel must be a stationary one of credo.kernels, found {type(kernel).__name__}")
        if cell is not None and not check_real(cell, "cell", 0.0) > 0:
            raise DataError(f"cell, the width of a cell, must be positive, found {cell!r}")
        if noise is not None and not check_real(noise, "noise", 0.0) > 0:
            raise DataError(f"noise, the variance of a return, must be positive, found {noise!r}")
        check_count(reach, "reach")
        if reach > MOST_REACH:
            raise DataError(f"reach must be at most {MOST_REACH}, found {reach}: take larger cells, or more levels")
        check_count(levels, "levels", 0)
        self.cell = None if cell is None else as_float(cell)
        self.kernel, self.free = kernel, kernel is None
        self.mean = None if mean is None else as_float(check_real(mean, "mean"))
        self.noise = None if noise is None else as_float(noise)
        self.reach, self.levels, self.gate = int(reach), int(levels), check_real(gate, "gate", 0.0)
        self.seen = None

    # -- data ------------------------------------------------------------------------------------------------

    @property
    def ground(self) -> stencils.Ground:
        """Its numbers, those that nobody has set at what they mean until then."""
        cell, noise, mean = (params.meaning(self, name) for name in ("cell", "noise", "mean"))
        return stencils.Ground(self.kernel or Matern32(), mean, noise, cell, self.reach)

    @property
    def rejected(self) -> int:
        """How many returns were set aside."""
        return 0 if self.seen is None else int(self.seen.rejected)

    @property
    def returns(self) -> int:
        """How many returns the map is made of."""
        return 0 if self.seen is None else int(self.seen.levels[0].table[:, 0].sum())

    def told(self, *data: Any) -> "Terrain":
        """With a width of cells, a kernel, a noise and a mean in the units of the cloud, where they are not given."""
        if not data or not any(each is None for each in (self.cell, self.kernel, self.mean, self.noise)):
            return self
        return evidence.with_starts(self, read_cloud(data[0]))

    def statistics(
        self, *data: Any, noise: Any = None, weights: Any = None, gravity: Sequence[float | int] = DOWN
    ) -> Seen:
        """The returns of one cloud, shape (n, 3), by cell, those that nothing agrees with set aside.

        Args:
            data: the cloud.
            noise: the variance of each return: as a weight, noise of the belief / its own.
            weights: of the returns: a variance is the belief's noise / weight.
            gravity: where down is in the coordinates of the cloud, which is turned until that is -z.
        """
        if len(data) != 1:
            raise DataError(f"terrain is conditioned on one cloud of points (n, 3), found {len(data)} arguments")
        points = levelled(read_cloud(data[0]), gravity)
        w = np.ones(len(points))
        if noise is not None and weights is not None:
            raise DataError("give noise or weights for the returns, not both: a weight divides the noise")
        if noise is not None:
            own = np.full(len(points), noise) if np.ndim(noise) == 0 else noise
            w = float(self.ground.noise) / np.asarray(check_positive(own, "noise", len(points)))
        if weights is not None:
            w = np.asarray(check_positive(weights, "weights", len(points)))
        key = np.asarray(self.keys(points[:, :2]))
        known = self.seen if self.seen is not None and self.seen.surface is not None else None
        fine = outliers.agreeing(self.ground, points, key, w, self.gate, known)
        cells = [Cells.of(key[fine], points[fine], w[fine])]
        for _ in range(self.levels):
            cells.append(cells[-1].coarser())
        odd = Cells.of(key[~fine], points[~fine], w[~fine])
        outliers.warn_of_rejected(fine)
        return Seen(tuple(cells), odd, None, None, np.asarray((~fine).sum()))

    def keys(self, places: Float[Array, "m 2"]) -> Int[Array, " m"]:
        """The cells that hold places."""
        xp = namespace(places, self.cell)
        at = xp.floor(places / self.ground.cell)
        if not is_traced(at) and np.abs(at).max(initial=0.0) >= SPAN // 4:
            raise DataError(
                f"places are {np.abs(at).max():.3g} cells from the origin, more than a lattice has; make cells larger"
            )
        return key_of(at[:, 0].astype(int), at[:, 1].astype(int))

    def prepare(self, *data: Any, **options: Any) -> tuple["Terrain", Seen]:
        """The belief before any returns, and all of them: those seen and the new ones."""
        scan = self.statistics(*data, **options)
        if self.seen is None:
            return self, scan
        whole = self.condition_on(scan).seen
        assert whole is not None
        return self.unconditioned(), whole

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition_on(self, statistics: Seen) -> "Terrain":
        """The ground after one more scan."""
        if self.seen is None:
            surface, taken = stencils.surface_at(self.ground, statistics.levels, None, statistics.levels[0].key)
            return changed(self, seen=changed(statistics, surface=surface, taken=taken))
        both = [merged(old, new) for old, new in zip(self.seen.levels, statistics.levels, strict=True)]
        levels, new = tuple(each.cells for each in both), both[0].new
        contested = merged(self.seen.contested, statistics.contested).cells
        levels, contested, revised = outliers.revised(
            levels, contested, np.asarray(statistics.contested.key), self.ground.noise
        )
        before, counts = (np.insert(np.asarray(v), new, 0, axis=0) for v in (self.seen.surface, self.seen.taken))
        key = np.union1d(statistics.levels[0].key, revised)
        at = stencils.touched_cells(self.ground, levels, key, counts)
        before[at], counts[at] = stencils.surface_at(self.ground, levels, None, levels[0].key[at])
        rejected = self.seen.rejected + statistics.rejected
        return changed(self, seen=Seen(levels, contested, before, counts, rejected))

    def evidence_of(self, statistics: Seen) -> Float[Array, ""]:
        """log p(z) of the returns that were not set aside, given those before, by Vecchia's approximation."""
        if self.seen is None:
            return evidence.log_evidence(self, evidence.terms(self, statistics.levels[0]))
        whole = merged(self.seen.levels[0], statistics.levels[0]).cells
        first, both = (evidence.terms(self, cells) for cells in (self.seen.levels[0], whole))
        return evidence.log_evidence(self, both) - evidence.log_evidence(self, first)

    def log_evidence_of(self, statistics: Seen) -> Array:
        """`evidence_of`, of cells whose number is known."""
        return np.asarray(self.evidence_of(statistics))

    def objective(self, slots: params.Layout, statistics: Seen, priors: dict[str, Any]) -> Any:
        """The evidence of a random part of the conditionals, with its gradient."""
        return evidence.objective(self, slots, statistics.levels[0], priors)

    def default_priors(self, statistics: Seen) -> dict[str, Any]:
        """Of the lengthscale and the variance: wide, in the units of the cloud."""
        return evidence.default_priors(self)

    def learner(self, priors: dict[str, Any]) -> Any:
        """The rougher or the smoother kernel, whichever has more evidence."""
        return evidence.Roughness()

    # -- predictions -----------------------------------------------------------------------------------------

    def surface(self, places: Float[Array, "m 2"]) -> Float[Array, "m 7"]:
        """Elevation, slopes, and the variances of the three, with the covariance of the slopes."""
        levels = (Cells.none(),) * (self.levels + 1) if self.seen is None else self.seen.levels
        return stencils.surface_at(self.ground, levels, places, self.keys(places))[0]

    def predict(self, places: Any) -> Normal:
        """p(z | x, y) of a new return: doubt of the elevation is epistemic, noise of the return aleatoric."""
        found = self.surface(read_places(places))
        xp = namespace(found)
        return Normal(found[:, 0], xp.broadcast_to(self.ground.noise, found[:, 0].shape) * 1.0, found[:, 3])

    def gradient(self, places: Any) -> Gradient:
        """The slope at places, over two cells: `mean`, `covariance`, `slope`, `aspect` and their doubt."""
        found = np.asarray(self.surface(read_places(places)))
        return Gradient(found[:, 1:3], spread_of(found))

    def grid(self, margin: int = 0) -> Grid:
        """All cells from the most western to the most eastern with returns, and so on, and `margin` around them."""
        cells = self._cells()
        ix, iy = place_of(np.asarray(cells.key))
        x, y = (np.arange(int(v.min()) - margin, int(v.max()) + margin + 1) for v in (ix, iy))
        if len(x) * len(y) > MOST_CELLS:
            raise DataError(f"the map has {len(x)} × {len(y)} cells, more than {MOST_CELLS:,}; give a grid of a part")
        width = float(self.ground.cell)
        return Grid((x + 0.5) * width, (y + 0.5) * width)

    def _cells(self) -> Cells:
        if self.seen is None or not len(self.seen.levels[0].key):
            raise DataError("the terrain has no returns yet; condition it on a cloud of points first")
        return self.seen.levels[0]

    def images(self, grid: Grid | None = None) -> Images:
        """Elevation, gradient and variance on the cells (`grid()`), or on another grid."""
        if grid is not None and not isinstance(grid, Grid):
            raise DataError(f"grid must be a Grid (terrain.grid(), Grid.around(points)), found {type(grid).__name__}")
        cells = grid or self.grid()
        places = cells.places
        key = self.keys(places)
        at, found = self._cells().find(key)
        there, seen = np.asarray(found), self.seen
        assert seen is not None and seen.surface is not None
        out = np.zeros((len(places), stencils.SURFACE))
        known = there.copy()
        if grid is not None:  # only what is at the middle of a cell is known already
            middle = (np.stack(place_of(key), axis=-1) + 0.5) * self.ground.cell
            known &= np.all(np.abs(middle - places) < 1e-6 * self.ground.cell, axis=1)
        out[known] = seen.surface[at[known]]
        out[~known] = self.surface(places[~known])
        shape = cells.shape
        mean, gradient, variance = out[:, 0].reshape(shape), out[:, 1:3].reshape(*shape, 2), out[:, 3].reshape(shape)
        return Images(cells, mean, gradient, variance, spread_of(out).reshape(*shape, 2, 2), there.reshape(shape))

    def map(self, grid: Grid | None = None, *, slope: bool = True) -> Map:
        """Layers "mean", "sd" and, with `slope`, "slope", "slope_sd", "aspect", "aspect_sd", as those of a `Field`."""
        found = self.images(grid)
        layers = {"mean": found.elevation, "sd": np.sqrt(found.variance)}
        if slope:
            flat = Gradient(found.gradient.reshape(-1, 2), found.gradient_covariance.reshape(-1, 2, 2)).layers()
            layers |= {name: values.reshape(found.grid.shape) for name, values in flat.items()}
        return Map(found.grid, layers)

    def __repr__(self) -> str:
        kernel = "a kernel to choose" if self.kernel is None else repr(self.kernel)
        seen = "nothing" if self.seen is None else "?" if is_traced(self.seen) else f"{self.returns} returns"
        return f"Terrain({kernel}, cell={show(self.cell)}, noise={show(self.noise)}, seen {seen})"


def spread_of(surface: Float[np.ndarray, "m 7"]) -> Float[np.ndarray, "m 2 2"]:
    """The covariance of the slopes."""
    return surface[:, [4, 6, 6, 5]].reshape(-1, 2, 2)


def read_cloud(points: Any) -> Float[np.ndarray, "n 3"]:
    """A checked cloud of points."""
    cloud = np.asarray(check_table(points, "points"))
    if cloud.shape[1] != 3:
        raise DataError(f"points must have three columns, x, y and z, found shape {cloud.shape}")
    return cloud


def read_places(places: Any) -> Float[Array, "m 2"]:
    """Checked places, x and y."""
    return as_float(check_table(places, "places", 2))


def levelled(points: Float[np.ndarray, "n 3"], gravity: Sequence[float | int]) -> Float[np.ndarray, "n 3"]:
    """The cloud, turned by the smallest rotation that takes the direction of gravity to -z (two reflections)."""
    down = np.asarray(as_float(gravity, "gravity"))
    if down.shape != (3,) or not np.isfinite(down).all() or not down.any():
        raise DataError(f"gravity must be a direction of three numbers, found {gravity!r}")
    a, b = down / np.abs(down).max(), np.array(DOWN)
    a = a / np.linalg.norm(a)
    if np.array_equal(a, b):
        return points
    if np.array_equal(a, -b):
        return points * [1.0, -1.0, -1.0]
    middle = (a + b) / np.linalg.norm(a + b)
    mirrored = points - 2.0 * np.outer(points @ a, a)
    return mirrored - 2.0 * np.outer(mirrored @ middle, middle)
