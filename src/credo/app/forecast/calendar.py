"""The calendar of a series: from dates to equal steps and back, and what may repeat.

Dates are a regular calendar where they are a whole number of steps apart (months of any length, seconds of the clock,
working days); a step without a row is one that nobody observed. Where dates follow no such step the series is refused.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
import pandas as pd

from credo.core.errors import DataError

DAY = 86400
SPARSEST = 4
"""A calendar with more steps than this for every row is no calendar."""
UNITS = {12: "year", 3: "quarter", 1: "month"}
CLOCK = {7 * DAY: "week", DAY: "day", 3600: "hour", 60: "minute", 1: "second"}
PATTERNS = (
    "%Y-%m-%d",
    "%Y-%m",
    "%Y",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%SZ",
)
SHOWN = {"year": "%Y", "month": "%b %Y", "week": "%-d %b %Y", "day": "%-d %b %Y", "working day": "%-d %b %Y"}


class Season(NamedTuple):
    """Something that repeats: its name and its length in steps."""

    name: str
    period: float


class Calendar(eqx.Module):
    """Equal steps of time from the first one on."""

    kind: str = eqx.field(static=True)
    """"months", "seconds", "working days" or "number"."""
    step: float = eqx.field(static=True)
    """How many of them one step is."""
    origin: str = eqx.field(static=True)
    """The time of step 0; a number as text."""
    pattern: str = eqx.field(static=True, default="%Y-%m-%d")
    """How times are written."""

    def slots(self, times: Any) -> np.ndarray:
        """The step of each time; a time between two steps is an error."""
        if self.kind == "number":
            exact = (np.asarray(times, dtype=float) - float(self.origin)) / self.step
        elif self.kind == "months":
            exact = (_months(pd.DatetimeIndex(times)) - _months(pd.DatetimeIndex([self.origin]))) / self.step
        elif self.kind == "working days":
            first = np.datetime64(self.origin, "D")
            exact = np.busday_count(first, np.asarray(times, "datetime64[D]")).astype(float)
        else:
            exact = (pd.DatetimeIndex(times) - pd.Timestamp(self.origin)).total_seconds().to_numpy() / self.step
        whole = np.round(exact)
        off = np.abs(exact - whole) > 0.01
        if off.any():
            row = int(np.argmax(off))
            raise DataError(
                f"the time {np.asarray(times)[row]} does not fall on a step of the series ({self.every()}, counted "
                f"from {self.written(0)})"
            )
        return whole.astype(int)

    def times(self, slots: Any) -> np.ndarray:
        """The time of each step: dates, or numbers."""
        steps = np.asarray(slots)
        if self.kind == "number":
            return float(self.origin) + self.step * steps
        first = pd.Timestamp(self.origin)
        if self.kind == "months":
            at_end = first.is_month_end and first.day > 28
            moved = [first + pd.DateOffset(months=round(self.step * s)) for s in steps]
            moved = [t + pd.offsets.MonthEnd(0) for t in moved] if at_end else moved
            return np.asarray(moved, dtype="datetime64[s]")
        if self.kind == "working days":
            return np.busday_offset(np.datetime64(self.origin, "D"), steps, roll="forward").astype("datetime64[s]")
        return np.asarray(first + pd.to_timedelta(self.step * steps, unit="s"), dtype="datetime64[s]")

    @property
    def unit(self) -> str:
        """What one step is called."""
        if self.kind == "months":
            return UNITS.get(int(self.step), "step")
        if self.kind == "working days":
            return "working day"
        return CLOCK.get(int(self.step), "step") if self.kind == "seconds" else "step"

    def every(self) -> str:
        """How far steps are apart, in words."""
        if self.unit != "step":
            return f"every {self.unit}"
        if self.kind == "number":
            return f"every {self.step:g}"
        if self.kind == "months":
            return f"every {self.step:g} months"
        size, name = next((s, n) for s, n in CLOCK.items() if self.step % s == 0)
        return f"every {self.step / size:g} {name}s"

    def written(self, slot: int) -> str:
        """A step for people."""
        time = self.times([slot])[0]
        if self.kind == "number":
            return f"{time:g}"
        date = pd.Timestamp(time)
        if self.unit == "quarter":
            return f"{date.year} Q{date.quarter}"
        return date.strftime(SHOWN.get(self.unit, "%Y-%m-%d %H:%M" if self.kind == "seconds" else "%b %Y"))

    def when(self, slot: int) -> str:
        """A step in a sentence: in Jan 2002, on 5 Jan 2022, at 17."""
        word = {"year": "in", "quarter": "in", "month": "in", "week": "on", "day": "on", "working day": "on"}
        return f"{word.get(self.unit, 'in' if self.kind == 'months' else 'at')} {self.written(slot)}"

    def cells(self, slots: Any) -> list[str]:
        """Steps as the table writes its times."""
        times = self.times(slots)
        if self.kind == "number":
            return [f"{t:.12g}" for t in times]
        return [pd.Timestamp(t).strftime(self.pattern) for t in times]

    def seasons(self) -> list[Season]:
        """What may repeat, the shortest first."""
        if self.kind == "months":
            return [Season("year", 12 / self.step)] if self.step < 12 and 12 % self.step == 0 else []
        if self.kind == "working days":
            return [Season("week", 5.0), Season("year", 365.25 * 5 / 7)]
        if self.kind == "number":
            return []
        found = [("day", DAY), ("week", 7 * DAY), ("year", 365.25 * DAY)]
        kept = [Season(name, size / self.step) for name, size in found if size >= 3.9 * self.step]
        return [s for s in kept if abs(s.period - round(s.period)) < 1e-9 or s.name == "year"]


def _months(dates: pd.DatetimeIndex) -> np.ndarray:
    return (12 * dates.year + dates.month).to_numpy(dtype=float)


def find_calendar(times: Any, cells: pd.Series | None = None, style: str = "") -> tuple[Calendar, list[str]]:
    """The calendar of distinct times in order, and what must be said about it.

    `cells` and the `style` that reads them (see `Cells.dates`) show how times are written.
    """
    if np.asarray(times).dtype.kind == "f":
        return _of_numbers(np.asarray(times)), []
    dates = pd.DatetimeIndex(times)
    origin, pattern = dates[0].isoformat(), _pattern(cells, style)
    found = _of_months(dates, origin, pattern) or _of_clock(dates, origin, pattern)
    if found is None:
        gap = pd.Series(dates).diff().median()
        raise DataError(
            f"the times follow no regular step (the median distance is {gap}); give one row for each day, month or "
            "other step, e.g. by averaging the rows of each, or leave out `horizon` and `time`"
        )
    return found


def _of_months(dates: pd.DatetimeIndex, origin: str, pattern: str) -> tuple[Calendar, list[str]] | None:
    """Months, where every row lies in a month of its own and most are as many months apart."""
    index = _months(dates).astype(int)
    if not (dates == dates.normalize()).all() or len(np.unique(index)) < len(index):
        return None
    same = len(set(dates.day)) == 1 or bool(dates.is_month_end.all())
    days = np.diff(dates.to_numpy()).astype("timedelta64[D]").astype(int)
    if not same and (np.median(days) < 27 or not days.any() or len(set(days % 7)) == 1):
        return None
    step = math.gcd(*np.diff(index).tolist())
    if (index[-1] - index[0]) // step + 1 > SPARSEST * len(index):
        return None
    said = [] if same else ["The days within the months differ; only the month of each row counts."]
    return Calendar("months", float(step), origin, pattern), said


def _of_clock(dates: pd.DatetimeIndex, origin: str, pattern: str) -> tuple[Calendar, list[str]] | None:
    seconds = np.round(np.diff(dates.to_numpy()).astype("timedelta64[ms]").astype(float) / 1000).astype(int)
    step = math.gcd(*seconds.tolist())
    if step == 0 or seconds.sum() // step + 1 > SPARSEST * len(dates):
        return None
    workdays = step == DAY and bool((dates.day_of_week < 5).all()) and len(dates) >= 10
    if workdays:
        return Calendar("working days", 1.0, origin, pattern), ["No row falls on a weekend: steps are working days."]
    return Calendar("seconds", float(step), origin, pattern), []


def _of_numbers(times: np.ndarray) -> Calendar:
    gaps = np.diff(times)
    step = float(np.min(gaps))
    whole = gaps / step
    if np.any(np.abs(whole - np.round(whole)) > 0.02) or whole.sum() + 1 > SPARSEST * len(times):
        raise DataError(
            f"the times follow no regular step (distances from {gaps.min():g} to {gaps.max():g}); give one row for each"
        )
    return Calendar("number", float((times[-1] - times[0]) / np.round(whole).sum()), repr(float(times[0])))


def _pattern(cells: pd.Series | None, style: str) -> str:
    """How the table writes its times, so that forecasts can be written alike."""
    if cells is not None and len(cells) and isinstance(cells.iloc[0], str):
        text = cells.iloc[0].strip()
        for pattern in (style, *PATTERNS) if "%" in style else PATTERNS:
            try:
                if pd.to_datetime(text, format=pattern).strftime(pattern) == text:
                    return pattern
            except ValueError:
                continue
    return "%Y-%m-%d"
