"""From a table as read to inputs and outcomes in numbers, with every decision on the way in words."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from credo.app.table.columns import Coded, Column, Schema, read_exposure
from credo.app.table.detect import detect
from credo.app.table.read import Table
from credo.app.table.target import Outcome, read_target
from credo.core.errors import DataError
from credo.core.text import counted

FEWEST_ROWS = 6
MOSTLY_MISSING = 0.5
DROP_BELOW = 0.1
"""Rows with gaps are left out while they are fewer than this share; beyond it gaps are filled in."""


class Summary(NamedTuple):
    """One column of the table, for people."""

    name: str
    role: str
    """"target", "input", "time", "exposure" or "left out"."""
    kind: str
    missing: int
    detail: str


class Prepared(NamedTuple):
    """A table ready to learn from."""

    schema: Schema
    x: pd.DataFrame
    """The inputs in numbers, a row for each that is used."""
    y: np.ndarray
    """The outcomes; of classes, the place of each among `levels`."""
    rows: np.ndarray
    """Which rows of the table are used."""
    summaries: tuple[Summary, ...]
    notes: tuple[str, ...]
    total_rows: int
    kind: str = "number"
    """What the target is: "number", "classes" or "count"."""
    levels: tuple[str, ...] = ()
    """The names of the classes."""
    exposure: np.ndarray | None = None
    """Of each row, for counts."""

    @property
    def labels(self) -> np.ndarray:
        """What beliefs learn from: the names of classes, or the numbers themselves."""
        return np.asarray(self.levels, dtype=object)[self.y.astype(int)] if self.levels else self.y

    @property
    def time(self) -> np.ndarray | None:
        """The time of each row, in years since the first or in the column's own units."""
        name = self.schema.time
        return None if name is None else self.x[name].to_numpy(dtype=float)


def prepare(
    table: Table,
    target: str,
    time: str | None = None,
    ignore: Iterable[str] = (),
    kind: str = "auto",
    exposure: str | None = None,
) -> Prepared:
    """Detects what the columns hold, drops what cannot be used and says so, and turns the rest into numbers."""
    left_out = set(ignore)
    outcome = read_target(table.demand(target, "`target`"), kind)
    _check_roles(table, target, time, left_out, exposure, outcome.kind)
    y, notes = outcome.y, [*table.notes, *outcome.notes]
    rows = ~np.isnan(y)
    if not rows.all():
        notes.append(f"{counted(int((~rows).sum()), 'row')} without a value of {target!r} {_were(~rows)} dropped.")
    exposed = None if exposure is None else read_exposure(table, exposure)
    if exposed is not None and np.isnan(exposed[rows]).any():
        lacking = rows & np.isnan(exposed)
        notes.append(f"{counted(int(lacking.sum()), 'row')} without an exposure {_were(lacking)} dropped.")
        rows = rows & ~lacking
    if rows.sum() < FEWEST_ROWS:
        raise _too_few(table, rows)
    roles = {target: "target", **({} if exposure is None else {exposure: "exposure"})}
    columns, summaries = _columns(table, rows, roles, time, left_out, notes)
    rows, columns, coded = _fill_or_drop(table, rows, columns, notes)
    if not columns:
        raise DataError(f"{table.name} has no column to predict {target!r} from, besides those left out")
    if rows.sum() < FEWEST_ROWS:
        raise _too_few(table, rows)
    if np.ptp(y[rows]) == 0:
        raise DataError(
            f"the target {target!r} is constant in the {rows.sum()} usable rows: there is nothing to predict"
        )
    schema = Schema(tuple(columns), target, time or _time_of(table, rows, columns, notes), exposure)
    x = schema.assembled(coded).x[rows].reset_index(drop=True)
    _remark_on(y[rows], target, x, outcome, notes)
    first = Summary(target, "target", outcome.kind, int(np.isnan(y).sum()), outcome.detail)
    listed = (first, *(s._replace(role="time") if s.name == schema.time else s for s in summaries))
    return Prepared(
        schema,
        x,
        y[rows],
        rows,
        listed,
        tuple(notes),
        len(table),
        outcome.kind,
        outcome.levels,
        None if exposed is None else exposed[rows],
    )


def _check_roles(
    table: Table, target: str, time: str | None, left_out: set[str], exposure: str | None, kind: str
) -> None:
    """Every column that is named exists and has one role."""
    for name in left_out:
        table.demand(name, "`ignore`")
    if target in left_out:
        raise DataError(f"the target {target!r} cannot be ignored as well; choose one of the two")
    if time is not None:
        table.demand(time, "`time`")
        if time == target or time in left_out:
            raise DataError(f"the time column {time!r} cannot be the target or ignored as well")
    if exposure is not None:
        table.demand(exposure, "`exposure`")
        if exposure in (target, time) or exposure in left_out:
            raise DataError(f"the exposure {exposure!r} cannot be the target, the time or ignored as well")
        if kind != "count":
            found = "classes" if kind == "classes" else f"a {kind}"
            raise DataError(f'`exposure` is for counts, but {target!r} is taken for {found}; use kind="count"')


def _columns(
    table: Table, rows: np.ndarray, roles: dict[str, str], time: str | None, ignore: set[str], notes: list[str]
) -> tuple[list[Column], list[Summary]]:
    columns: list[Column] = []
    summaries: list[Summary] = []
    for name in table.columns:
        if roles.get(name) == "target":
            continue
        cells = table.cells(name)
        missing = int(cells.missing[rows].sum())
        if name in roles:
            summaries.append(Summary(name, "exposure", "number", missing, "expected counts are in proportion to it"))
            continue
        if name in ignore:
            summaries.append(Summary(name, "left out", "", missing, "as asked"))
            continue
        if missing > MOSTLY_MISSING * rows.sum():
            notes.append(f"Column {name!r} is missing in {missing / rows.sum():.0%} of the rows and was left out.")
            summaries.append(Summary(name, "left out", "", missing, "mostly missing"))
            continue
        column, detail, said = detect(cells.some(rows))
        if name == time and (column is None or column.kind not in ("date", "number")):
            found = detail if column is None else column.kind
            raise DataError(f"the time column {name!r} must hold dates or numbers, found: {found}")
        notes += said
        if column is not None:
            columns.append(column)
        role, what = ("left out", "") if column is None else ("input", column.kind)
        summaries.append(Summary(name, role, what, missing, detail))
    return columns, summaries


def _fill_or_drop(
    table: Table, rows: np.ndarray, columns: list[Column], notes: list[str]
) -> tuple[np.ndarray, list[Column], dict[str, Coded]]:
    """The rows and columns that stay, and the columns in numbers."""
    coded = {column.name: column.encode(table.cells(column.name)) for column in columns}
    gap = {name: np.isnan(each.table).any(axis=1) & rows for name, each in coded.items()}
    holey = {name for name, where in gap.items() if where.any()}
    if not holey:
        return rows, columns, coded
    gaps = np.logical_or.reduce([gap[name] for name in holey])
    share, named = gaps.sum() / rows.sum(), ", ".join(repr(name) for name in sorted(holey))
    if share < DROP_BELOW:
        text = f"{counted(int(gaps.sum()), 'row')} ({share:.1%}) with missing inputs ({named}) {_were(gaps)} dropped."
        notes.append(text)
        return rows & ~gaps, columns, coded
    notes.append(
        f"{share:.0%} of the rows have missing inputs. Gaps in {named} were filled with the column's median "
        "(categories: with no level), and a 0/1 column per filled column tells the model where."
    )
    kept = [c.filled(table.cells(c.name).some(rows)) if c.name in holey else c for c in columns]
    again = {c.name: c.encode(table.cells(c.name)) for c in kept if c.name in holey}
    return rows, kept, coded | again


def _time_of(table: Table, rows: np.ndarray, columns: list[Column], notes: list[str]) -> str | None:
    """The only date column, where nearly every row has a date of its own."""
    found = [column.name for column in columns if column.kind == "date"]
    if len(found) != 1 or rows.sum() < 20 or table.cells(found[0]).column[rows].nunique() < 0.95 * rows.sum():
        return None
    notes.append(
        f"Nearly every row has a date of its own in {found[0]!r}, so the table is treated as a series in time: "
        "the latest rows are held out for the test."
    )
    return found[0]


def _remark_on(y: np.ndarray, target: str, x: pd.DataFrame, outcome: Outcome, notes: list[str]) -> None:
    distinct = len(np.unique(y))
    if outcome.kind != "classes" and (distinct <= 2 or (distinct <= 5 and len(y) >= 50)):
        notes.append(
            f"The target {target!r} has only {distinct} different values. It is treated as a {outcome.kind}; if it "
            "names a class, use kind classes."
        )
    gone = [level for i, level in enumerate(outcome.levels) if not np.any(y == i)]
    if gone:
        notes.append(f"No usable row is left of class {', '.join(map(repr, gone))}.")
    repeated = int(x.assign(**{"\0target": y}).duplicated().sum())
    if repeated:
        notes.append(
            f"{counted(repeated, 'row')} {'repeats' if repeated == 1 else 'repeat'} an earlier one exactly. Copies "
            "stay together: what is learned from is not asked again."
        )


def _too_few(table: Table, rows: np.ndarray) -> DataError:
    found = counted(int(rows.sum()), "usable row")
    return DataError(f"{table.name} has {found}; at least {FEWEST_ROWS} are needed")


def _were(mask: np.ndarray) -> str:
    return "was" if mask.sum() == 1 else "were"
