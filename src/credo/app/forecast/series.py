"""From a table with a time column to a series at equal steps, with what is known of the future."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from credo.app.forecast.calendar import Calendar, find_calendar
from credo.app.table.cells import Cells
from credo.app.table.columns import Column
from credo.app.table.detect import detect
from credo.app.table.prepare import Summary
from credo.app.table.read import Table
from credo.app.table.target import read_target
from credo.core.errors import DataError

FEWEST = 8
"""Outcomes below which nothing can be said about what comes next."""


class Timeline(NamedTuple):
    """A series at equal steps."""

    calendar: Calendar
    time: str
    """The name of the time column."""
    target: str
    y: np.ndarray
    """From the first to the last outcome; NaN where there is none."""
    inputs: np.ndarray
    """Of every step, and of those after the last outcome that the table gives; NaN where they do not matter."""
    columns: tuple[Column, ...]
    """How the inputs are made."""
    ahead: int
    """How many steps after the last outcome the table has."""
    summaries: tuple[Summary, ...]
    notes: tuple[str, ...]
    total_rows: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(name for column in self.columns for name in column.parts)


def read_times(cells: Cells) -> tuple[np.ndarray, str, list[str]]:
    """The times of all rows, dates or numbers (NaT and NaN where missing), how they are written, and remarks."""
    name, (values, unread) = cells.name, cells.numbers
    nothing = unread.any() or not np.isfinite(values).any()
    compact = "date" in name.lower() and not nothing and np.all((values > 19000000) & (values < 21000000))
    parsed = Cells(cells.text, name).dates_as("%Y%m%d") if compact else cells.dates if nothing else None
    if parsed is None:
        if nothing:
            raise DataError(f"the time column {name!r} must hold dates or numbers")
        return values, "", []
    said = [f"The dates in {name!r} can be read in two ways; write 2021-12-31 to be sure."] if parsed.ambiguous else []
    return parsed.values.to_numpy(dtype="datetime64[s]"), parsed.style, said


def others(table: Table, target: str, time: str, ignore: Iterable[str]) -> list[str]:
    """The columns besides the target, the time and those to leave out that hold something to learn from."""
    left = [name for name in table.columns if name not in {target, time, *ignore}]
    kinds = {name: detect(table.cells(name))[0] for name in left}
    return [name for name, column in kinds.items() if column is not None and column.kind != "date"]


def read_series(table: Table, target: str, time: str, ignore: Iterable[str] = ()) -> Timeline:
    """The series in a table: rows in the order of time, gaps as steps that nobody observed."""
    left_out = set(ignore)
    for name, role in [(target, "`target`"), (time, "`time`"), *((n, "`ignore`") for n in left_out)]:
        table.demand(name, role)
    if time == target or time in left_out or target in left_out:
        raise DataError("the target, the time column and the columns to ignore must be different ones")
    y = read_target(table.cells(target), "number").y
    at, style, said = read_times(table.cells(time))
    notes = [*table.notes, *said]
    order = _order(at, notes, time)
    y, at = y[order], at[order]
    seen = ~np.isnan(y)
    if seen.sum() < FEWEST:
        raise DataError(f"{table.name} has {int(seen.sum())} outcomes of {target!r}; at least {FEWEST} are needed")
    begin = int(np.argmax(seen))
    order, y, at, seen = order[begin:], y[begin:], at[begin:], seen[begin:]
    if np.ptp(y[seen]) == 0:
        raise DataError(f"the target {target!r} is constant: there is nothing to forecast")
    calendar, said = find_calendar(at, table.cells(time).column.iloc[order], style)
    slots = calendar.slots(at)
    last = int(slots[seen].max())
    ahead = int(slots.max()) - last
    outcomes = np.full(last + 1, np.nan)
    outcomes[slots[slots <= last]] = y[slots <= last]
    notes += said + _gaps(outcomes, calendar)
    columns, inputs, summaries = _inputs(table, order, slots, seen, (last, ahead), (target, time), left_out, notes)
    first = Summary(target, "target", "number", int((~seen).sum()), f"{np.nanmin(y):.4g} to {np.nanmax(y):.4g}")
    span = f"{calendar.written(0)} to {calendar.written(last)}, {calendar.every()}"
    listed = (first, Summary(time, "time", "date" if calendar.kind != "number" else "number", 0, span), *summaries)
    return Timeline(
        calendar, time, target, outcomes, inputs, tuple(columns), ahead, listed, tuple(notes), len(table.frame)
    )


def _order(at: np.ndarray, notes: list[str], time: str) -> np.ndarray:
    """Rows with a time, in its order."""
    known = ~pd.isna(at)
    if not known.all():
        notes.append(f"{int((~known).sum())} rows without a time were dropped.")
    order = np.flatnonzero(known)[np.argsort(at[known], kind="stable")]
    if not np.all(np.diff(order) > 0):
        notes.append("The rows were put in the order of time.")
    repeated = pd.Series(at[order]).duplicated().to_numpy()
    if repeated.any():
        raise DataError(
            f"several rows have the time {at[order][repeated][0]} in {time!r}: a series has one row for each; sum or "
            "average them first, or fit each series by itself"
        )
    return order


def _gaps(outcomes: np.ndarray, calendar: Calendar) -> list[str]:
    missing = np.isnan(outcomes)
    if not missing.any():
        return []
    many = int(missing.sum())
    where = ", ".join(calendar.written(int(i)) for i in np.flatnonzero(missing)[:3])
    return [
        f"{many:,} of {len(outcomes):,} steps ({calendar.every()}) have no outcome (such as {where}): they are treated "
        "as not observed, nothing was filled in."
    ]


def _inputs(
    table: Table,
    order: np.ndarray,
    slots: np.ndarray,
    seen: np.ndarray,
    reach: tuple[int, int],
    roles: tuple[str, str],
    left_out: set[str],
    notes: list[str],
) -> tuple[list[Column], np.ndarray, list[Summary]]:
    """The columns whose past and future are known, in numbers on every step."""
    last, ahead = reach
    columns: list[Column] = []
    tables: list[np.ndarray] = []
    summaries: list[Summary] = []
    for name in (name for name in table.columns if name not in roles):
        cells = table.cells(name).some(order)
        missing = int(cells.missing.sum())
        column, detail, said = (None, "as asked", []) if name in left_out else detect(cells)
        notes += said
        if column is None or column.kind == "date":
            summaries.append(Summary(name, "left out", "", missing, detail))
            continue
        full = np.full((last + 1 + ahead, len(column.parts)), np.nan)
        full[slots] = column.encode(cells).table
        needed = np.concatenate([slots[seen], np.arange(last + 1, last + 1 + ahead)])
        if not ahead or np.isnan(full[needed]).any():
            why = "its future is not in the table" if not ahead else "some of its cells are missing"
            notes.append(f"Column {name!r} was left out: {why}. To use it, add rows with it and an empty {roles[0]!r}.")
            summaries.append(Summary(name, "left out", column.kind, missing, why))
            continue
        columns.append(column)
        tables.append(full)
        summaries.append(Summary(name, "input", column.kind, missing, detail))
    inputs = np.concatenate(tables, axis=1) if tables else np.zeros((last + 1 + ahead, 0))
    return columns, inputs, summaries


def filled(inputs: np.ndarray) -> np.ndarray:
    """Inputs with the mean of their column where they do not matter, because no outcome was observed there."""
    if not inputs.size:
        return inputs
    return np.where(np.isnan(inputs), np.nanmean(inputs, axis=0), inputs)
