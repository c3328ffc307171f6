"""A grid of places, and a map: layers of numbers on it, which other programs can read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from credo.core.checks import check_count, check_real
from credo.core.errors import DataError
from credo.core.files import replacing

CELLS = 10_000
"""About so many cells has a grid where nobody says."""
MOST_CELLS = 4_000_000
BEYOND = 0.03
"""How far a grid goes beyond the points, as a share of their extent."""
LONGEST = 5.0
"""So much longer than the other is a side that may have its unit."""
TURN, POLE = 360.0, 90.0
SQUAREST = 0.05
"""Nearer to a pole cells are not made wider still, in degrees, to look square."""


class Grid(NamedTuple):
    """The middles of cells, west to east and south to north."""

    x: Float[np.ndarray, " c"]
    y: Float[np.ndarray, " r"]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows (along y) and columns (along x)."""
        return len(self.y), len(self.x)

    @property
    def cell(self) -> tuple[float, float]:
        """The width and the height of a cell."""
        return tuple(float(v[1] - v[0]) if len(v) > 1 else 1.0 for v in (self.x, self.y))  # type: ignore[return-value]

    @property
    def places(self) -> Float[np.ndarray, "m 2"]:
        """All places, row after row."""
        return np.stack(np.meshgrid(self.x, self.y), -1).reshape(-1, 2)

    @classmethod
    def around(
        cls,
        points: Float[np.ndarray, "n 2"],
        cells: tuple[int, int] | None = None,
        size: float | None = None,
        lonlat: bool = False,
    ) -> "Grid":
        """A grid that covers the points: so many columns and rows, or cells of this size.

        Degrees end at the poles and after one turn, and a cell looks square where it has cos(latitude) as much height
        as width. Coordinates of different units have as many columns as rows.
        """
        low, high = points.min(0), points.max(0)
        extent = np.where(high > low, high - low, max(float((high - low).max()), 1.0)) * (1 + 2 * BEYOND)
        low, high = (low + high - extent) / 2, (low + high + extent) / 2
        aspect = 1.0
        if lonlat:
            aspect = max(float(np.cos(np.radians(points[:, 1].mean()))), SQUAREST)
            middle = (low[0] + high[0]) / 2
            low = np.maximum(low, [middle - TURN / 2, -POLE])
            high = np.minimum(high, [middle + TURN / 2, POLE])
        extent = high - low
        if cells is not None and size is not None:
            raise DataError("give the number of cells or their size, not both")
        if cells is not None:
            if np.shape(cells) != (2,):
                raise DataError(f"cells are the numbers of columns and rows, found {cells!r}")
            for count in cells:
                check_count(count, "each of cells", 2)
            columns, rows = (int(c) for c in cells)
        elif size is None and not lonlat and not alike(extent):
            columns = rows = int(np.sqrt(CELLS))
        else:
            width = np.sqrt(extent[0] * extent[1] / aspect / CELLS) if size is None else check_real(size, "size", 0.0)
            if not width > 0:
                raise DataError(f"size, the width of a cell, must be positive, found {size!r}")
            columns, rows = (max(int(np.ceil(e)), 2) for e in extent / width / [1.0, aspect])
        if columns * rows > MOST_CELLS:
            raise DataError(f"a grid of {columns} × {rows} cells is more than {MOST_CELLS:,}; make the cells larger")
        steps = extent / [columns, rows]
        return cls(low[0] + steps[0] * (np.arange(columns) + 0.5), low[1] + steps[1] * (np.arange(rows) + 0.5))


def alike(extent: Sequence[float] | np.ndarray) -> bool:
    """Whether coordinates of these extents may have one unit."""
    return bool(1 / LONGEST < extent[0] / extent[1] < LONGEST)


@dataclass(frozen=True)
class Map:
    """What is believed of a field on a grid: layers of shape (rows, columns), the first row in the south."""

    grid: Grid
    layers: Mapping[str, Float[np.ndarray, "r c"]]
    """"mean", "sd" and what else was asked for."""
    names: tuple[str, str] = ("x", "y")
    lonlat: bool = False

    @property
    def mean(self) -> Float[np.ndarray, "r c"]:
        """What is expected of the field."""
        return self.layers["mean"]

    @property
    def sd(self) -> Float[np.ndarray, "r c"]:
        """The standard deviation of the field."""
        return self.layers["sd"]

    @property
    def areas(self) -> Float[np.ndarray, "r c"]:
        """Each cell's share of the area: on the Earth cells grow narrower towards the poles."""
        high = np.cos(np.radians(self.grid.y)) if self.lonlat else np.ones(len(self.grid.y))
        return np.repeat(high[:, None], len(self.grid.x), axis=1) / (high.sum() * len(self.grid.x))

    def exceeds(self, threshold: float | int) -> Float[np.ndarray, "r c"]:
        """P(f > threshold), cell by cell."""
        return exceedance(self.mean, self.sd, threshold)

    def write(self, path: str | Path) -> Path:
        """Writes all layers; the ending says how: .csv (a row for each cell), .npz, or .tif (needs rasterio)."""
        target = Path(path)
        writers = {".csv": self._csv, ".npz": self._npz, ".tif": self._tif, ".tiff": self._tif}
        if target.suffix.lower() not in writers:
            raise DataError(f"a map is written as .csv, .npz or .tif, found {target.name!r}")
        with replacing(target) as beside:
            writers[target.suffix.lower()](beside)
        return target

    def _csv(self, path: Path) -> None:
        table = np.column_stack([self.grid.places, *(np.ravel(layer) for layer in self.layers.values())])
        header = ",".join((*self.names, *self.layers))
        np.savetxt(path, table, fmt="%.10g", delimiter=",", header=header, comments="", encoding="utf-8")

    def _npz(self, path: Path) -> None:
        with path.open("wb") as file:
            np.savez_compressed(file, x=self.grid.x, y=self.grid.y, **self.layers)  # type: ignore[arg-type]

    def _tif(self, path: Path) -> None:
        try:
            import rasterio
            from rasterio.transform import from_origin
        except ModuleNotFoundError:
            raise DataError("a GeoTIFF needs rasterio, which is not installed; write .csv or .npz") from None
        (width, height), (rows, columns) = self.grid.cell, self.grid.shape
        corner = from_origin(self.grid.x[0] - width / 2, self.grid.y[-1] + height / 2, width, height)
        shape = {"width": columns, "height": rows, "count": len(self.layers), "dtype": "float64"}
        place = {"transform": corner, "crs": "EPSG:4326" if self.lonlat else None}
        with rasterio.open(path, "w", driver="GTiff", **shape, **place) as file:
            for band, (name, layer) in enumerate(self.layers.items(), 1):
                file.write(np.flipud(layer), band)  # north is up
                file.set_band_description(band, name)


def exceedance(mean: np.ndarray, sd: np.ndarray, threshold: float | int) -> np.ndarray:
    """P(f > threshold) of normal f; of one that is known, whether it is above."""
    above = np.asarray(mean) - check_real(threshold, "threshold")
    sure = np.asarray(sd) == 0
    return np.where(sure, (above > 0).astype(float), ndtr(above / np.where(sure, 1.0, sd)))
