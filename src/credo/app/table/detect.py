"""What a column holds: numbers, truth values, levels of a category, dates, or nothing to learn from."""

import re

import numpy as np
import pandas as pd

from credo.app.table.cells import Cells, Dates
from credo.app.table.columns import DAYS, FLAGS, Column, Period, years_since

MOST_LEVELS = 30
CONTINUOUS = 10
"""A number with more distinct values than this may enter through a curve."""
IDENTIFIER = re.compile(
    r"(?:.*[\s_.-])?(?i:id|uuid|guid|index|idx|row|rownum|row_?number|nr|no)|.*[a-z]I[dD]|unnamed\d+"
)
Found = tuple[Column | None, str, list[str]]
"""How to encode a column (None: not at all), what it holds in a few words, and what must be said about it."""


def detect(cells: Cells) -> Found:
    """What a column holds."""
    name, n = cells.name, int((~cells.missing).sum())
    if cells.is_flag:
        return _flag_or_category(cells)
    values, unread = cells.numbers
    good = n - int(unread.sum())
    if not (good == n or (good >= 20 and good >= 0.95 * n)):
        return _flag_or_category(cells) if cells.dates is None else _date_column(name, cells.dates)
    compact = _compact_dates(cells)
    if compact is not None:
        return _date_column(name, compact)
    distinct = len(np.unique(values[~np.isnan(values)]))
    if distinct <= 1:
        return _constant(name)
    if looks_like_identifier(name, values):
        return None, "identifier", [f"Column {name!r} looks like an identifier (all different) and was left out."]
    said = []
    if good < n:
        example = str(cells.column[unread].iloc[0])
        said = [f"{n - good} cells of {name!r} are not numbers (such as {example!r}); they count as missing."]
    return Column(name, "number", continuous=distinct > CONTINUOUS), f"{distinct} distinct values", said


def _constant(name: str) -> Found:
    return None, "constant", [f"Column {name!r} is constant and was left out."]


def _flag_or_category(cells: Cells) -> Found:
    name, text = cells.name, cells.text[~cells.missing]
    lowered = text.str.lower()
    if lowered.nunique() <= 1:
        return _constant(name)
    for pair in FLAGS:
        if set(lowered.unique()) <= set(pair):
            return Column(name, "yes/no", levels=pair), f"{pair[1]} in {(lowered == pair[1]).mean():.0%}", []
    counts = text.value_counts()
    if len(counts) == len(text):
        return None, "text", [f"Column {name!r} is text that differs in every row, like a name; it was left out."]
    if len(counts) > MOST_LEVELS or len(counts) > max(2, len(text) // 2):
        said = f"Column {name!r} is text with {len(counts)} different values, too many to learn from; it was left out."
        return None, "text", [said]
    # Of levels that are as frequent as each other the order must not depend on that of the rows.
    levels = tuple(sorted(map(str, counts.index), key=lambda level: (-counts[level], level)))
    return Column(name, "category", levels=levels), f"{len(levels)} levels", []


def _compact_dates(cells: Cells) -> Dates | None:
    """Numbers such as 20210131, where the name says date."""
    text = cells.text[~cells.missing]
    named = re.search(r"date|day|datum|time", cells.name.lower())
    if not named or not text.str.fullmatch(r"(19|20)\d{6}").all():
        return None
    try:
        return Dates(pd.to_datetime(text, format="%Y%m%d"), "%Y%m%d", False)
    except ValueError:
        return None


def _date_column(name: str, dates: Dates) -> Found:
    values = dates.values
    if values.dropna().nunique() <= 1:
        return _constant(name)
    origin = pd.Timestamp(values.min())
    periods = find_periods(years_since(values, origin.isoformat()))
    said = []
    if dates.ambiguous:
        order = "day before month" if dates.style.startswith("%d") else "month before day"
        said = [f"The dates in {name!r} can be read in two ways; {order} was assumed. Write 2021-12-31 to be sure."]
    column = Column(name, "date", style=dates.style, origin=origin.isoformat(), periods=tuple(map(tuple, periods)))  # type: ignore[arg-type]
    return column, f"{origin:%Y-%m-%d} to {values.max():%Y-%m-%d}", said


def looks_like_identifier(name: str, values: np.ndarray) -> bool:
    """Whether the name says identifier and the numbers are whole and all different."""
    present = values[~np.isnan(values)]
    return (
        IDENTIFIER.fullmatch(name) is not None
        and len(np.unique(present)) == len(present)
        and bool(np.all(present == np.round(present)))
    )


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
