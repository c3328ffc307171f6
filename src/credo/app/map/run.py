"""`map_points`: from a table with two coordinates and a value to a map, its doubt, and where to measure next.

read the columns ─▶ krige ─▶ map ─▶ leave each out, and whole blocks ─▶ ask where one more measurement would help
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credo.app.table.cells import Cells
from credo.app.table.read import Table, as_table
from credo.core.checks import check_real
from credo.core.errors import DataError
from credo.core.predictive import Normal
from credo.core.pytrees import changed
from credo.decide.acquiring import acquire
from credo.decide.acquisition import ExpectedVarianceReduction
from credo.evaluate.blocking import spatial_blocks
from credo.evaluate.scores import score_table
from credo.infer.progress import Progress, Show
from credo.models.gp import GP
from credo.models.gp.spatial import Field, Map, Variogram, kriging

if TYPE_CHECKING:
    from credo.app.report.page import Page

LONGITUDES, LATITUDES = ("lon", "long", "lng", "longitude"), ("lat", "latitude")
FEW, FOLDS = 15, 5
"""Measurements below which blocks are not left out, and into how many parts blocks are dealt."""
OTHER_UNIT = 20.0
"""So much wider than the other is a coordinate that may have another unit."""
CANDIDATES = 900
"""Places of the map that the next measurement is chosen from, and that it is to help."""
NEXT = 3


@dataclass(frozen=True)
class Suggestion:
    """A place to measure next."""

    place: tuple[float, float]
    gain: float
    """By which share it lowers the variance of the map, all places together; NaN where that is not known."""
    sd: float
    """The standard deviation of the field there now."""


@dataclass(frozen=True)
class Mapping:
    """Everything that was found out about a table of measurements."""

    source: str
    value: str
    field: Field
    map: Map
    variogram: Variogram
    left_out: Normal
    """Each measurement as the others predict it."""
    blocked: Normal | None
    """As measurements outside its block predict it; None of few."""
    next: tuple[Suggestion, ...]
    threshold: float | None
    notes: tuple[str, ...]
    seconds: float
    seed: int

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """By what was left out; and of predicting the mean of all."""
        y = self.field.values
        mean = np.full(len(y), y.mean())
        plain = Normal(mean, np.full(len(y), y.var()), np.zeros(len(y)))
        laws = {"each alone": self.left_out, "whole blocks": self.blocked, "the mean everywhere": plain}
        return {name: score_table(law, y) for name, law in laws.items() if law is not None}

    def describe(self) -> str:
        """What was made from what, in a line."""
        rows, columns = self.map.grid.shape
        return f"{self.value} from {self.source}: {len(self.field.values):,} measurements, {columns} × {rows} cells"

    def named(self, place: tuple[float, float]) -> str:
        """lon = 7.2, lat = 51.3, to a tenth of the width of a cell."""
        digits = [max(0, 1 - int(np.floor(np.log10(cell)))) for cell in self.map.grid.cell]
        return ", ".join(f"{name} = {v:.{d}f}" for name, v, d in zip(self.map.names, place, digits, strict=True))

    def page(self, *, command: str = "") -> "Page":
        """The report."""
        from credo.app.report.map import page

        return page(self, command=command)


def map_points(
    data: Any,
    x: str,
    y: str,
    value: str,
    *,
    error: str | None = None,
    group: str | None = None,
    trend: str | None = None,
    exact: bool = False,
    anisotropic: bool = False,
    lonlat: bool | None = None,
    threshold: float | None = None,
    cells: tuple[int, int] | None = None,
    slope: bool = False,
    decimal: str = "",
    seed: int = 0,
    progress: Show | bool | None = False,
) -> Mapping:
    """A map from a table (a frame, or the path of a file) with columns for two coordinates and a value.

    `error` and `group` name columns with standard errors and with what has an effect of its own; `lonlat` None finds
    out from the names of the coordinates; the others are those of `kriging` and `Field.map`.
    """
    begun = time.perf_counter()
    if threshold is not None:
        check_real(threshold, "threshold")
    with Progress(progress) as say:
        table, notes = as_table(data, decimal), list[str]()
        points, values, more = _columns(table, x, y, value, error, group, notes)
        names = x.strip().lower(), y.strip().lower()
        if lonlat is None:
            lonlat = names[0] in LONGITUDES and names[1] in LATITUDES
            if lonlat:
                notes.append(f"{x} and {y} were taken for degrees; distances are kilometres.")
        wide, high = np.ptp(points, axis=0)
        if not lonlat and not anisotropic and min(wide, high) > 0 and max(wide / high, high / wide) > OTHER_UNIT:
            notes.append(
                f"{x} spans {wide:.3g} and {y} {high:.3g}, and a step along either counts the same; if their units "
                "differ, anisotropic learns a scale for each."
            )
        say(0.1, f"learning from {len(values):,} measurements")
        field = kriging(
            points, values, trend=trend, exact=exact, anisotropic=anisotropic, lonlat=lonlat, seed=seed, **more
        )
        field = changed(field, names=(x, y))
        say(0.6, "drawing the map")
        made = field.map(cells, threshold=threshold, slope=slope)
        say(0.75, "leaving measurements out")
        blocked = None
        if len(field.values) >= FEW and len(np.unique(field.points, axis=0)) >= FOLDS:
            folds = [test for _, test in spatial_blocks(_plane(field), FOLDS, seed=seed)]
            blocked = field.left_out(folds)
        left_out = field.left_out()
        say(0.9, "where to measure next")
        chosen = _next(field, made, threshold)
        variogram = field.variogram()
    seconds = time.perf_counter() - begun
    return Mapping(
        table.name, value, field, made, variogram, left_out, blocked, chosen, threshold, tuple(notes), seconds, seed
    )


def _columns(
    table: Table, x: str, y: str, value: str, error: str | None, group: str | None, notes: list[str]
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Points, values, and errors and groups; rows in which one of them is missing are left out, and counted."""
    named = {"x": x, "y": y, "value": value} | ({} if error is None else {"error": error})
    roles = [*named.values()] + ([] if group is None else [group])
    if len({*roles}) < len(roles):
        raise DataError(f"x, y, value, error and group must be different columns, found {', '.join(roles)}")
    numbers = {role: _numbers(table.demand(name, role), table.name, role) for role, name in named.items()}
    present = np.all([np.isfinite(v) for v in numbers.values()], axis=0)
    labels = None
    if group is not None:
        found = table.demand(group, "group")
        labels, present = found.text.to_numpy(dtype=str), present & ~found.missing
    if not present.all():
        notes.append(f"{(~present).sum():,} of {len(present):,} rows were left out: a cell of theirs is missing.")
    if present.sum() < 3:
        raise DataError(f"a map needs three measurements or more, found {present.sum()} in {table.name}")
    more: dict[str, Any] = {}
    if error is not None:
        more["errors"] = numbers["error"][present]
        if more["errors"].min() < 0:
            raise DataError(f"{error!r} has a negative standard error, {more['errors'].min():g}")
    if labels is not None:
        more["groups"] = labels[present]
    return np.column_stack([numbers["x"], numbers["y"]])[present], numbers["value"][present], more


def _numbers(cells: Cells, source: str, role: str) -> np.ndarray:
    found = cells.numbers
    if found.unread.any():
        row = int(np.argmax(found.unread))
        raise DataError(
            f"{cells.name!r} of {source} is the {role}, a column of numbers, found {cells.text.iloc[row]!r} in row "
            f"{row + 1}"
        )
    return found.values


def _plane(field: Field) -> np.ndarray:
    """The points, with longitudes as long as latitudes."""
    points = field.points[:, :2].copy()
    if field.lonlat:
        points[:, 0] *= np.cos(np.radians(points[:, 1].mean()))
    return points


def _next(field: Field, made: Map, threshold: float | None) -> tuple[Suggestion, ...]:
    """Places among the measurements where one more would help most: the whole map, or to tell it from a threshold."""
    places, sd, weights = made.grid.places, made.sd.ravel(), made.areas.ravel()
    if threshold is not None:
        p = made.exceeds(threshold).ravel()
        weights = weights * (p * (1 - p) + 1e-9)
    step = max(int(np.ceil(np.sqrt(len(places) / CANDIDATES))), 1)
    thinned = np.zeros(made.grid.shape, bool)
    thinned[step // 2 :: step, step // 2 :: step] = True
    some = np.flatnonzero(thinned)
    inside = some[_within(field.points[:, :2], places[some])]
    pool = inside if len(inside) else some
    belief, _ = field.alone()
    if isinstance(belief, GP):
        wanted = ExpectedVarianceReduction(field.rows(places[some]), weights[some])
        found = acquire(belief, field.rows(places[pool]), wanted, min(NEXT, len(pool)))
        total = float(np.sum(weights[some] * sd[some] ** 2)) or 1.0
        assert found.index is not None
        best, gains = pool[found.index], found.score / total
    else:
        best, gains = pool[[np.argmax(weights[pool] * sd[pool])]], np.array([np.nan])
    return tuple(
        Suggestion((float(places[i, 0]), float(places[i, 1])), float(gain), float(sd[i]))
        for i, gain in zip(best, gains, strict=True)
    )


def _within(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Which places lie between the points."""
    from scipy.spatial import Delaunay, QhullError

    try:
        return np.asarray(Delaunay(points).find_simplex(places) >= 0)
    except QhullError:  # points on a line
        return np.ones(len(places), bool)
