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
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
import pandas as pd

from credo.app.tables import Table, as_text, dates, is_missing, numbers
from credo.core.errors import DataError

FLAGS = (("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"), ("off", "on"))
MOST_LEVELS = 30
CONTINUOUS = 10
"""A number with more distinct values than this may enter through a curve."""
DAYS = 365.2425
IDENTIFIER = re.compile(
    r"(?:.*[\s_.-])?(?i:id|uuid|guid|index|idx|row|rownum|row_?number|nr|no)|.*[a-z]I[dD]|unnamed\d+"
)


class Period(NamedTuple):
    """Something that repeats: its name, its length in years and how many waves the spacing of the data allows."""

    name: str
    years: float
    order: int


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

    def encode(self, cells: pd.Series, decimal: str) -> "Cells":
        """The numbers of these cells."""
        missing = is_missing(cells)
        unknown = np.zeros(len(cells), dtype=bool)
        if self.kind == "number":
            values, unread = numbers(cells, decimal)
            table = values[:, None]
        elif self.kind == "date":
            table = self._years(cells)[:, None]
            unread = np.isnan(table[:, 0]) & ~missing
        else:
            text = as_text(cells)
            text = text.str.lower() if self.kind == "yes/no" else text
            table = np.stack([(text == level).to_numpy(dtype=float) for level in self.levels], axis=1)
            unknown = ~missing & (table.sum(axis=1) == 0)
            if self.kind == "yes/no" or len(self.levels) == 2:
                table = table[:, 1:]
            unread = np.zeros(len(cells), dtype=bool)
        gap = missing | unread
        if self.fill is not None:
            table = np.where(gap[:, None], self.fill if self.kind in ("number", "date") else 0.0, table)
            table = np.column_stack([table, gap.astype(float)])
        else:
            table = np.where(gap[:, None], np.nan, table)
        return Cells(table, int(unread.sum()), int(unknown.sum()))

    def _years(self, cells: pd.Series) -> np.ndarray:
        parsed = dates(cells) if self.style == "typed" else dates(cells, (self.style,)) or dates(cells)
        if parsed is None:
            return _each_date(cells, self.style, self.origin)
        return years_since(parsed[0], self.origin)

    def to_dates(self, years: np.ndarray) -> np.ndarray:
        """Years since the first date, as dates."""
        days = pd.to_timedelta(np.asarray(years, dtype=float) * DAYS, unit="D")
        return np.asarray(pd.Timestamp(self.origin) + days)


class Cells(NamedTuple):
    """A column in numbers, and how many of its cells could not be read or were of a level never seen."""

    table: np.ndarray
    unread: int
    unknown: int


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

    def encode(self, frame: pd.DataFrame, decimal: str = ".") -> Encoded:
        """The inputs of a table, old or new, in numbers."""
        absent = [column.name for column in self.columns if column.name not in frame.columns]
        if absent:
            near = difflib.get_close_matches(absent[0], [str(c) for c in frame.columns], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            listed = ", ".join(repr(name) for name in absent)
            raise DataError(f"the table lacks the column{'s' * (len(absent) > 1)} {listed}{hint}")
        cells = {column.name: column.encode(frame[column.name], decimal) for column in self.columns}
        x = np.concatenate([each.table for each in cells.values()], axis=1)
        return Encoded(
            pd.DataFrame(x, columns=self.names),
            ~np.isnan(x).any(axis=1),
            {name: each.unread for name, each in cells.items() if each.unread},
            {name: each.unknown for name, each in cells.items() if each.unknown},
        )


def read_exposure(frame: pd.DataFrame, name: str, decimal: str = ".") -> np.ndarray:
    """The exposures of counts, NaN where one is missing; refuses what is not positive."""
    if name not in frame.columns:
        raise DataError(f"the table lacks the column {name!r} with the exposure of each count")
    values, unread = numbers(frame[name], decimal)
    if unread.any() or np.any(values <= 0):
        row = int(np.argmax(unread | (values <= 0)))
        raise DataError(
            f"the exposure {name!r} must hold numbers > 0, found {str(frame[name].iloc[row])!r} in row {row + 1}"
        )
    return values


def years_since(column: pd.Series, origin: str) -> np.ndarray:
    """Dates as years since `origin`; NaN where there is none."""
    days = (column - pd.Timestamp(origin)) / pd.Timedelta(days=1)
    return days.to_numpy(dtype=float, na_value=np.nan) / DAYS


def _each_date(cells: pd.Series, style: str, origin: str) -> np.ndarray:
    """Dates of which some cannot be read: those become NaN, the others stay."""
    text = as_text(cells)
    parsed = pd.to_datetime(text, format="ISO8601" if style == "typed" else style, utc=True, errors="coerce")
    return years_since(parsed.dt.tz_localize(None), origin)


def find_periods(years: np.ndarray) -> tuple[Period, ...]:
    """The calendar periods that are seen at least twice and sampled at least three times."""
    times = np.unique(years[np.isfinite(years)])
    if len(times) < 12:
        return ()
    step, span = float(np.median(np.diff(times))), float(times[-1] - times[0])
    found = []
    for name, length, repeats in (("year", 1.0, 2.0), ("week", 7 / DAYS, 4.0), ("day", 1 / DAYS, 3.0)):
        order = min(4, int((length / step - 1 + 1e-6) / 2 + 0.05))
        if order >= 1 and span >= repeats * length * 0.98:
            found.append(Period(name, length, order))
    return tuple(found)


def nearest(name: str, choices: Sequence[str]) -> str:
    """A hint with the nearest name, or with all of them where none is near."""
    folded = {choice.lower(): choice for choice in reversed(choices)}
    near = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.5)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    shown = ", ".join(choices[:12]) + (", …" if len(choices) > 12 else "")
    return f"the columns are: {shown}"


def check_column(table: Table, name: str, option: str) -> None:
    """Refuses a name that no column has."""
    columns = [str(column) for column in table.frame.columns]
    if name not in columns:
        raise DataError(f"{table.name} has no column {name!r} for {option}; {nearest(name, columns)}")


def read_target(table: Table, target: str) -> np.ndarray:
    """The target as numbers, NaN where it is missing; refuses what is not a number by its first cell."""
    check_column(table, target, "--target")
    cells = table.frame[target]
    if pd.api.types.is_bool_dtype(cells.dtype):
        raise DataError(f"the target {target!r} holds yes/no values, not numbers; use --kind classes")
    values, unread = numbers(cells, table.decimal)
    if unread.any():
        row = int(np.argmax(unread))
        kind = "dates" if dates(cells) is not None else "text"
        raise DataError(
            f"the target {target!r} must hold numbers, found {kind}: {str(cells.iloc[row])!r} in row {row + 1} "
            f"({int(unread.sum())} of {len(cells)} cells); use --kind classes for labels, or leave bad cells empty"
        )
    present = values[~np.isnan(values)]
    if len(present) == 0:
        raise DataError(f"the target {target!r} has no values: there are 0 usable rows")
    if len(present) > 1 and np.ptp(present) == 0:
        raise DataError(f"the target {target!r} is constant ({present[0]:g} in every row): there is nothing to predict")
    return values


def looks_like_identifier(name: str, values: np.ndarray) -> bool:
    """Whether the name says identifier and the numbers are whole and all different."""
    present = values[~np.isnan(values)]
    return (
        IDENTIFIER.fullmatch(name) is not None
        and len(np.unique(present)) == len(present)
        and bool(np.all(present == np.round(present)))
    )


def detect(name: str, cells: pd.Series, decimal: str) -> tuple[Column | None, str, list[str]]:
    """What a column holds: how to encode it (None: not at all), in a few words, and what must be said about it."""
    missing = is_missing(cells)
    n = int((~missing).sum())
    if pd.api.types.is_bool_dtype(cells.dtype):
        return _detect_flag(name, as_text(cells)[~missing])
    values, unread = numbers(cells, decimal)
    text = as_text(cells)[~missing]
    good = n - int(unread.sum())
    if good == n or (good >= 20 and good >= 0.95 * n):
        written = _compact_dates(name, text)
        if written is not None:
            return _date_column(name, written, "%Y%m%d", False)
        present = values[~np.isnan(values)]
        if len(np.unique(present)) <= 1:
            return None, "constant", [f"Column {name!r} is constant and was left out."]
        if looks_like_identifier(name, values):
            return None, "identifier", [f"Column {name!r} looks like an identifier (all different) and was left out."]
        said = []
        if good < n:
            example = str(cells[unread].iloc[0])
            said = [f"{n - good} cells of {name!r} are not numbers (such as {example!r}); they count as missing."]
        distinct = len(np.unique(present))
        return Column(name, "number", continuous=distinct > CONTINUOUS), f"{distinct} distinct values", said
    parsed = dates(cells)
    if parsed is not None:
        return _date_column(name, *parsed)
    return _detect_flag(name, text)


def _detect_flag(name: str, text: pd.Series) -> tuple[Column | None, str, list[str]]:
    lowered = set(text.str.lower().unique())
    if len(lowered) <= 1:
        return None, "constant", [f"Column {name!r} is constant and was left out."]
    for pair in FLAGS:
        if lowered <= set(pair):
            return Column(name, "yes/no", levels=pair), f"{pair[1]} in {(text.str.lower() == pair[1]).mean():.0%}", []
    counts = text.value_counts()
    if len(counts) == len(text):
        return None, "text", [f"Column {name!r} is text that differs in every row, like a name; it was left out."]
    if len(counts) > MOST_LEVELS or len(counts) > max(2, len(text) // 2):
        said = f"Column {name!r} is text with {len(counts)} different values, too many to learn from; it was left out."
        return None, "text", [said]
    levels = tuple(str(level) for level in counts.index)
    return Column(name, "category", levels=levels), f"{len(levels)} levels", []


def _compact_dates(name: str, text: pd.Series) -> pd.Series | None:
    """Numbers such as 20210131, where the name says date."""
    if not re.search(r"date|day|datum|time", name.lower()) or not text.str.fullmatch(r"(19|20)\d{6}").all():
        return None
    try:
        return pd.to_datetime(text, format="%Y%m%d")
    except ValueError:
        return None


def _date_column(name: str, parsed: pd.Series, style: str, ambiguous: bool) -> tuple[Column | None, str, list[str]]:
    if parsed.dropna().nunique() <= 1:
        return None, "constant", [f"Column {name!r} is constant and was left out."]
    origin = pd.Timestamp(parsed.min())
    years = years_since(parsed, origin.isoformat())
    periods = find_periods(years)
    said = []
    if ambiguous:
        order = "day before month" if style.startswith("%d") else "month before day"
        said = [f"The dates in {name!r} can be read in two ways; {order} was assumed. Write 2021-12-31 to be sure."]
    column = Column(name, "date", style=style, origin=origin.isoformat(), periods=tuple(map(tuple, periods)))  # type: ignore[arg-type]
    return column, f"{origin:%Y-%m-%d} to {parsed.max():%Y-%m-%d}", said


def with_fill(column: Column, cells: pd.Series, decimal: str) -> Column:
    """The same column, with its median to stand in for missing cells."""
    table = column.encode(cells, decimal).table
    middle = float(np.nanmedian(table[:, 0])) if column.kind in ("number", "date") else 0.0
    fields: dict[str, Any] = {f: getattr(column, f) for f in ("levels", "style", "origin", "periods", "continuous")}
    return Column(column.name, column.kind, fill=middle, **fields)
