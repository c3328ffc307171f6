"""`Cells`: what the cells of one column say, as numbers and as dates; each is read at most once.

A number may be written with a decimal point or a decimal comma, and with groups of thousands. Which of the two marks is
the decimal one is decided by all cells of the column that can be read in one way only (3,14 or 1,234,567), else by
those of the other columns of the table; what is left, such as 4,117 alone, is refused: nobody can know.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from credo.core.errors import DataError

MISSING = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "nil", "?", "-", "--", ".", "missing", "#value!"}
)
"""What stands for a missing cell, in lower case."""
DATE_FORMATS = (
    "ISO8601",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%d.%m.%y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%b %d, %Y",
    "%d %B %Y",
    "%B %d, %Y",
    "%b %Y",
    "%Y%m%d",
)
_TIMES = ("", " %H:%M", " %H:%M:%S")
POINT, COMMA = (
    re.compile(rf"[+-]?(?:\d+|[1-9]\d{{0,2}}(?:{group}\d{{3}})+|(?={mark}\d))(?:{mark}\d*)?(?:[eE][+-]?\d+)?")
    for mark, group in ((r"\.", ","), (",", r"\."))
)
"""Numbers as they are written with a decimal point, and with a decimal comma."""


class Numbers(NamedTuple):
    """A column as float64, NaN where there is no finite number; and which cells are neither number nor missing."""

    values: np.ndarray
    unread: np.ndarray


class Dates(NamedTuple):
    """A column as dates without zone."""

    values: pd.Series
    style: str
    """The format that reads every cell."""
    ambiguous: bool
    """Whether another would, too."""


class Marks(NamedTuple):
    """How many cells of a column can be read only with a decimal point, how many only with a decimal comma."""

    point: int
    comma: int
    unclear: str
    """A cell that can be read either way, such as 4,117; one with a comma where there is one."""

    @property
    def decided(self) -> str:
        """The mark that most cells speak for; nothing where none does."""
        return "" if self.point == self.comma == 0 else "," if self.comma > self.point else "."


@dataclass(eq=False)
class Cells:
    """The cells of one column."""

    column: pd.Series
    name: str = ""
    decimal: str = ""
    """The decimal mark, where it is known from elsewhere."""
    _whole: "tuple[Cells, Any] | None" = None
    """The column of which these are some rows."""

    def __len__(self) -> int:
        return len(self.column)

    def some(self, rows: Any) -> "Cells":
        """Some of the cells; what was read of them is not read again."""
        found = Cells(self.column.iloc[rows], self.name, self.decimal)
        found.__dict__ |= {"missing": self.missing[rows], "text": self.text.iloc[rows]}
        found.__dict__["numbers"] = Numbers(self.numbers.values[rows], self.numbers.unread[rows])
        found._whole = (self, rows)
        return found

    @property
    def is_flag(self) -> bool:
        """Whether the cells are typed truth values."""
        return pd.api.types.is_bool_dtype(self.column.dtype)

    @property
    def is_text(self) -> bool:
        """Whether the cells are text (or a mixture that only text can hold)."""
        kind = self.column.dtype
        typed = pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind)
        return not (typed or self.is_flag)

    @cached_property
    def text(self) -> pd.Series:
        """The cells as stripped text; missing ones as the empty text."""
        return self.column.astype(object).where(self.column.notna(), "").astype(str).str.strip()

    @cached_property
    def missing(self) -> np.ndarray:
        """Which cells say nothing."""
        missing = self.column.isna().to_numpy(dtype=bool)
        if not self.is_text:
            return missing
        return missing | np.isin(self.text.str.lower().to_numpy(dtype=object), list(MISSING))

    @cached_property
    def marks(self) -> Marks:
        """What the cells say about the decimal mark."""
        if not self.is_text:
            return Marks(0, 0, "")
        each, counts = np.unique(self.text.to_numpy(dtype=object).astype(str), return_counts=True)
        point, comma, unclear = 0, 0, [""]
        for cell, count in zip(each, counts, strict=True):
            cell = str(cell)
            if "," in cell or "." in cell:
                pointed, with_comma = POINT.fullmatch(cell), COMMA.fullmatch(cell)
                point += int(count) * bool(pointed and not with_comma)
                comma += int(count) * bool(with_comma and not pointed)
                unclear += [cell] if pointed and with_comma else []
        return Marks(point, comma, max(unclear, key=lambda cell: ("," in cell, cell)))

    @cached_property
    def numbers(self) -> Numbers:
        """The cells as numbers."""
        if pd.api.types.is_datetime64_any_dtype(self.column.dtype):
            return Numbers(np.full(len(self), np.nan), ~self.missing)
        if self.is_text:
            values = self._parsed()
        else:
            values = self.column.astype("float64").to_numpy(dtype=float, na_value=np.nan)
        values = np.where(self.missing, np.nan, values)
        finite = np.isfinite(values)
        return Numbers(np.where(finite, values, np.nan), ~finite & ~self.missing)

    def _parsed(self) -> np.ndarray:
        text, marks = self.text, self.marks
        decimal = self.decimal or marks.decided
        if (
            not decimal
            and "," in marks.unclear
            and text[~self.missing].map(lambda cell: POINT.fullmatch(cell) is not None).all()
        ):
            read = [float(_plain(marks.unclear, mark)) for mark in ".,"]
            raise DataError(
                f"the numbers in {self.name!r} can be read in two ways: {marks.unclear!r} is {read[0]:g} or "
                f'{read[1]:g}; say which is meant, decimal="." or decimal=","'
            )
        marked = text.str.contains(r"[.,]", regex=True)
        return _to_float(text.where(~marked, text[marked].map(lambda cell: _plain(cell, decimal or "."))))

    @cached_property
    def dates(self) -> Dates | None:
        """The cells as dates; None where no format reads all that are not missing."""
        if self._whole is not None and self._whole[0].dates is not None:
            return self._whole[0].dates._replace(values=self._whole[0].dates.values.iloc[self._whole[1]])
        return self.dates_as(*(f if f in ("ISO8601", "%b %Y") else f + time for f in DATE_FORMATS for time in _TIMES))

    def dates_as(self, *formats: str) -> Dates | None:
        """The cells as dates in one of these formats."""
        if pd.api.types.is_datetime64_any_dtype(self.column.dtype):
            return Dates(_naive(self.column), "typed", False)
        text = self.text.where(~self.missing)
        present = text[~self.missing]
        if not self.is_text or present.empty or not present.head(20).str.contains(r"\d").all():
            return None
        readings: list[Dates] = []
        for style in formats:
            if _reads(present.head(20), style) is None:
                continue
            parsed = _reads(text, style)
            if parsed is not None and parsed.notna().to_numpy()[~self.missing].all():
                readings.append(Dates(parsed, style, False))
                if style == "ISO8601":
                    break
        if not readings:
            return None
        # 03/04/2021 is two dates; a table in order of time gives away which.
        ordered = [r for r in readings if r.values.dropna().is_monotonic_increasing]
        return (ordered or readings)[0]._replace(ambiguous=len(readings) > 1 and len(ordered) != 1)


def _plain(cell: str, decimal: str) -> str:
    """A number with a decimal point and no groups; what is no number in this writing stays none."""
    if not (COMMA if decimal == "," else POINT).fullmatch(cell):
        return "not a number"
    return cell.replace("." if decimal == "," else ",", "").replace(decimal, ".")


def _to_float(text: pd.Series) -> np.ndarray:
    return np.array(pd.to_numeric(text, errors="coerce"), dtype=float)


def _reads(text: pd.Series, style: str) -> pd.Series | None:
    try:
        return _naive(pd.to_datetime(text, format=style, utc=True))
    except (ValueError, OverflowError, TypeError):
        return None


def _naive(column: pd.Series) -> pd.Series:
    zoned = column.dt.tz is not None
    return column.dt.tz_convert("UTC").dt.tz_localize(None) if zoned else column
