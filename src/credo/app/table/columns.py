"""How the columns of a table become numbers: what is detected once, and repeated for every new table.

    number     as it is
    yes/no     0 or 1
    category   a 0/1 column per level, all levels alike (two levels: one column, for the rarer one); a level
               that was never seen is all zeros
    date       years since the first date, with the periods (year, week, day) that the data can show

Under a Gaussian prior no level needs to be left out as a baseline: zeros stand for a level about which nothing
is known. A column whose missing cells are filled in has its median as `fill` and a further 0/1 column that says so.
"""

import difflib
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
import pandas as pd

from credo.app.table.cells import Cells
from credo.app.table.read import Table, as_table
from credo.core.errors import DataError

FLAGS = (("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"), ("off", "on"))
DAYS = 365.2425


class Period(NamedTuple):
    """Something that repeats: its name, its length in years and how many waves the spacing of the data allows."""

    name: str
    years: float
    order: int


class Coded(NamedTuple):
    """A column in numbers, and how many of its cells could not be read or were of a level never seen."""

    table: np.ndarray
    unread: int
    unknown: int


class Column(eqx.Module):
    """One input column and how its cells become numbers."""

    name: str = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    """"number", "yes/no", "category" or "date"."""
    levels: tuple[str, ...] = eqx.field(static=True, default=())
    style: str = eqx.field(static=True, default="")
    """How dates are written."""
    origin: str = eqx.field(static=True, default="")
    """The first date."""
    periods: tuple[tuple[str, float, int], ...] = eqx.field(static=True, default=())
    fill: float | None = eqx.field(static=True, default=None)
    """What stands in for a missing cell; None leaves its row out."""
    continuous: bool = eqx.field(static=True, default=False)

    @property
    def parts(self) -> list[str]:
        """The names of the numeric columns that this one becomes."""
        if self.kind == "category":
            shown = self.levels[1:] if len(self.levels) == 2 else self.levels
            names = [f"{self.name}={level}" for level in shown]
        else:
            names = [self.name]
        return names + ([f"{self.name} missing"] if self.fill is not None else [])

    def encode(self, cells: Cells) -> Coded:
        """The numbers of these cells."""
        missing, unknown, unread = cells.missing, 0, np.zeros(len(cells), dtype=bool)
        if self.kind == "number":
            values, unread = cells.numbers
            table = values[:, None]
        elif self.kind == "date":
            table = self._years(cells)[:, None]
            unread = np.isnan(table[:, 0]) & ~missing
        else:
            text = cells.text.str.lower() if self.kind == "yes/no" else cells.text
            table = np.stack([(text == level).to_numpy(dtype=float) for level in self.levels], axis=1)
            unknown = int(np.sum(~missing & (table.sum(axis=1) == 0)))
            if self.kind == "yes/no" or len(self.levels) == 2:
                table = table[:, 1:]
        gap = missing | unread
        if self.fill is None:
            table = np.where(gap[:, None], np.nan, table)
        else:
            table = np.where(gap[:, None], self.fill if self.kind in ("number", "date") else 0.0, table)
            table = np.column_stack([table, gap.astype(float)])
        return Coded(table, int(unread.sum()), unknown)

    def _years(self, cells: Cells) -> np.ndarray:
        dates = cells.dates
        if dates is None or dates.style != self.style:
            dates = cells.dates_as(self.style) or dates
        if dates is not None:
            return years_since(dates.values, self.origin)
        # Some cannot be read: those become NaN, the others stay.
        style = "ISO8601" if self.style == "typed" else self.style
        parsed = pd.to_datetime(cells.text, format=style, utc=True, errors="coerce")
        return years_since(parsed.dt.tz_localize(None), self.origin)

    def filled(self, cells: Cells) -> "Column":
        """The same column, with its median to stand in for missing cells."""
        middle = float(np.nanmedian(self.encode(cells).table[:, 0])) if self.kind in ("number", "date") else 0.0
        return replace(self, fill=middle)

    def to_dates(self, years: np.ndarray) -> np.ndarray:
        """Years since the first date, as dates."""
        days = pd.to_timedelta(np.asarray(years, dtype=float) * DAYS, unit="D")
        return np.asarray(pd.Timestamp(self.origin) + days)


class Encoded(NamedTuple):
    """A table in numbers; rows with a gap hold NaN and are not `complete`."""

    x: pd.DataFrame
    complete: np.ndarray
    unread: dict[str, int]
    unknown: dict[str, int]


class Schema(eqx.Module):
    """The input columns of a table, the target, and the column that orders it in time, if one does.

    `exposure` names the column that says for how long, or over how much, each count was taken.
    """

    columns: tuple[Column, ...]
    target: str = eqx.field(static=True)
    time: str | None = eqx.field(static=True, default=None)
    exposure: str | None = eqx.field(static=True, default=None)

    @property
    def names(self) -> list[str]:
        """The names of the numeric columns, in order."""
        return [part for column in self.columns for part in column.parts]

    def where(self, name: str) -> list[int]:
        """The places of the numeric columns that the table's column `name` became."""
        start = 0
        for column in self.columns:
            stop = start + len(column.parts)
            if column.name == name:
                return list(range(start, stop))
            start = stop
        raise DataError(f"there is no input column {name!r}")

    def encode(self, data: Any) -> Encoded:
        """The inputs of a table or a data frame, old or new, in numbers."""
        table = as_table(data)
        absent = [column.name for column in self.columns if column.name not in table.columns]
        if absent:
            near = difflib.get_close_matches(absent[0], table.columns, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            listed = ", ".join(repr(name) for name in absent)
            raise DataError(f"the table lacks the column{'s' * (len(absent) > 1)} {listed}{hint}")
        return self.assembled({column.name: column.encode(table.cells(column.name)) for column in self.columns})

    def assembled(self, coded: dict[str, Coded]) -> Encoded:
        """Columns in numbers side by side."""
        x = np.concatenate([coded[column.name].table for column in self.columns], axis=1)
        return Encoded(
            pd.DataFrame(x, columns=self.names),
            ~np.isnan(x).any(axis=1),
            {name: each.unread for name, each in coded.items() if each.unread},
            {name: each.unknown for name, each in coded.items() if each.unknown},
        )


def read_exposure(table: Table, name: str) -> np.ndarray:
    """The exposures of counts, NaN where one is missing; refuses what is not positive."""
    if name not in table.columns:
        raise DataError(f"the table lacks the column {name!r} with the exposure of each count")
    values, unread = table.cells(name).numbers
    if unread.any() or np.any(values <= 0):
        row = int(np.argmax(unread | (values <= 0)))
        found = str(table.frame[name].iloc[row])
        raise DataError(f"the exposure {name!r} must hold numbers > 0, found {found!r} in row {row + 1}")
    return values


def years_since(column: pd.Series, origin: str) -> np.ndarray:
    """Dates as years since `origin`; NaN where there is none."""
    days = (column - pd.Timestamp(origin)) / pd.Timedelta(days=1)
    return days.to_numpy(dtype=float, na_value=np.nan) / DAYS
