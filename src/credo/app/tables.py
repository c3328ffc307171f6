"""Reading tables as people have them: CSV in any dialect, TSV, Parquet.

Text files are read as text, cell by cell, so that what is written back beside the predictions is what was
there; `numbers`, `dates` and `is_missing` interpret a column. Separator, decimal sign, encoding and a missing
header are found from the file itself.
"""

import csv
import gzip
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from credo.core.errors import DataError

MISSING = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "nil", "?", "-", "--", ".", "missing", "#value!"}
)
"""What stands for a missing cell, in lower case."""

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
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
_SAMPLE = 1 << 18


class Table(NamedTuple):
    """A table as read: text cells from a text file, typed columns from Parquet."""

    frame: pd.DataFrame
    name: str
    separator: str = ","
    decimal: str = "."
    notes: tuple[str, ...] = ()
    """What had to be guessed or repaired, in words."""


def read_table(path: str | Path) -> Table:
    """The table in a CSV, TSV or Parquet file (CSV and TSV may be gzipped)."""
    source = Path(path)
    if source.is_dir():
        raise DataError(f"{source} is a folder; give the file with the table")
    if not source.is_file():
        raise DataError(f"there is no file {source}")
    endings = [suffix.lower() for suffix in source.suffixes]
    if endings and endings[-1] in (".xlsx", ".xls", ".ods"):
        raise DataError(f"{source} is a spreadsheet; save it as CSV first (any separator will do)")
    try:
        if endings and endings[-1] in (".parquet", ".pq"):
            return _read_parquet(source)
        data = gzip.decompress(source.read_bytes()) if ".gz" in endings else source.read_bytes()
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"cannot read {source}: {getattr(error, 'strerror', None) or error}") from None
    return _read_text(data, source)


def _read_parquet(source: Path) -> Table:
    import pyarrow

    try:
        frame = pd.read_parquet(source)
    except (pyarrow.ArrowException, ValueError) as error:
        raise DataError(f"cannot read {source} as Parquet: {str(error).splitlines()[0]}") from None
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    frame.columns = [str(column) for column in frame.columns]
    _check_header(list(frame.columns), source)
    return Table(frame, source.name)


def _read_text(data: bytes, source: Path) -> Table:
    text, notes = _decode(data, source)
    first_line, _, rest = text.partition("\n")
    given = re.fullmatch(r'"?sep=(.)"?', first_line.strip())
    if given:  # Excel writes this line to say which separator follows.
        text = rest
    sample = text[:_SAMPLE]
    separator = given.group(1) if given else sniff_separator(sample)
    rows = list(csv.reader(sample.splitlines()[:200], delimiter=separator))
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if not rows:
        raise DataError(f"{source} is empty")
    header = [cell.strip() for cell in rows[0]]
    decimal = sniff_decimal(rows[1:], separator)
    headless = all(_is_number(cell, decimal) for cell in header)
    if headless:
        header = [f"column{i + 1}" for i in range(len(header))]
        notes.append(f"The file has no header: its columns are called {header[0]} to {header[-1]}.")
    header = [name or f"unnamed{i + 1}" for i, name in enumerate(header)]
    _check_header(header, source)
    if len(rows) == 1 and not headless:
        raise DataError(f"{source} has a header but no rows")
    frame = _parse(text, header, separator, headless, source)
    if separator != ",":
        notes.append(f"Columns are separated by a {SEPARATORS.get(separator, repr(separator))}.")
    if decimal == ",":
        notes.append("Numbers are written with a decimal comma.")
    return Table(frame, source.name, separator, decimal, tuple(notes))


def _decode(data: bytes, source: Path) -> tuple[str, list[str]]:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encodings = ["utf-16"]
    elif b"\x00" in data[:4096]:
        raise DataError(f"{source} is not a text table: it holds binary data; CSV, TSV and Parquet can be read")
    else:
        encodings = ["utf-8-sig", "cp1252", "latin-1"]
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        notes = [] if encoding in ("utf-8-sig", "utf-16") else [f"The file is not UTF-8; it was read as {encoding}."]
        return text.replace("\r\n", "\n").replace("\r", "\n"), notes
    raise DataError(f"{source} cannot be decoded as text; save it as UTF-8")


def _parse(text: str, header: list[str], separator: str, headless: bool, source: Path) -> pd.DataFrame:
    from io import StringIO

    try:
        with warnings.catch_warnings():
            # pandas only warns when rows are longer than the header, and drops the rest.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                StringIO(text),
                sep=separator,
                header=None if headless else 0,
                names=header,
                dtype=str,
                na_filter=False,
                index_col=False,
                skip_blank_lines=True,
                skipinitialspace=True,
            )
    except pd.errors.ParserWarning:
        raise DataError(f"{source} has rows with more cells than the header has columns ({len(header)})") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        reason = " ".join(str(error).split()).replace("Error tokenizing data. C error: ", "")
        raise DataError(f"cannot read {source} as a table: {reason}") from None
    # Short rows come back as missing cells whatever na_filter says.
    return frame.fillna("").astype(object)


def _check_header(header: list[str], source: Path) -> None:
    seen: set[str] = set()
    for name in header:
        if name in seen:
            raise DataError(f"{source} has two columns named {name!r}; rename one of them")
        seen.add(name)


def sniff_separator(sample: str) -> str:
    """The separator that cuts the first lines into the same number of cells, more than one; else the comma."""
    lines = [line for line in sample.splitlines()[:50] if line.strip()]
    best, best_score = ",", (0.0, 0)
    for separator in SEPARATORS:
        counts = [len(row) for row in csv.reader(lines, delimiter=separator)]
        if not counts or counts[0] < 2:
            continue
        score = (sum(count == counts[0] for count in counts) / len(counts), counts[0])
        if score > best_score:
            best, best_score = separator, score
    return best


def sniff_decimal(rows: list[list[str]], separator: str) -> str:
    """The comma where cells look like 3,14 and none like 3.14; else the point."""
    cells = [cell.strip() for row in rows for cell in row]
    if separator == "," and not any("," in cell for cell in cells):
        return "."
    commas = sum(bool(re.fullmatch(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+([eE][+-]?\d+)?", cell)) for cell in cells)
    points = sum(bool(re.fullmatch(r"[+-]?\d+\.\d+([eE][+-]?\d+)?", cell)) for cell in cells)
    return "," if commas > points else "."


def _is_number(cell: str, decimal: str) -> bool:
    try:
        float(cell.strip().replace(decimal, "."))
    except ValueError:
        return False
    return True


def is_missing(column: pd.Series) -> np.ndarray:
    """Which cells say nothing."""
    missing = column.isna().to_numpy(dtype=bool)
    if not is_text(column):
        return missing
    return missing | np.isin(as_text(column).str.lower().to_numpy(dtype=object), list(MISSING))


def is_text(column: pd.Series) -> bool:
    """Whether the cells are text (or a mixture that only text can hold)."""
    return not (
        pd.api.types.is_numeric_dtype(column.dtype)
        or pd.api.types.is_bool_dtype(column.dtype)
        or pd.api.types.is_datetime64_any_dtype(column.dtype)
    )


def as_text(column: pd.Series) -> pd.Series:
    """The cells as stripped text; missing ones as the empty text."""
    return column.astype(object).where(column.notna(), "").astype(str).str.strip()


def numbers(column: pd.Series, decimal: str = ".") -> tuple[np.ndarray, np.ndarray]:
    """The column as float64, NaN where there is no finite number; and which cells are neither number nor missing."""
    missing = is_missing(column)
    if not is_text(column):
        if pd.api.types.is_datetime64_any_dtype(column.dtype):
            return np.full(len(column), np.nan), ~missing
        values = column.astype("float64").to_numpy(dtype=float, na_value=np.nan)
    else:
        text = as_text(column)
        values = _to_float(text.str.replace(",", ".", regex=False) if decimal == "," else text)
        unread = np.isnan(values) & ~missing
        if unread.any():
            # Groups of thousands: 1,234.5 or, with a decimal comma, 1.234,5.
            group = "." if decimal == "," else ","
            pattern = rf"[+-]?\d{{1,3}}(?:{re.escape(group)}\d{{3}})+(?:{re.escape(decimal)}\d+)?"
            grouped = text[unread]
            if grouped.str.fullmatch(pattern).all():
                plain = grouped.str.replace(group, "", regex=False).str.replace(decimal, ".", regex=False)
                values[unread] = _to_float(plain)
    values = np.where(missing, np.nan, values)
    finite = np.isfinite(values)
    return np.where(finite, values, np.nan), ~finite & ~missing


def _to_float(text: pd.Series) -> np.ndarray:
    return np.array(pd.to_numeric(text, errors="coerce"), dtype=float)


def dates(column: pd.Series, formats: tuple[str, ...] = ()) -> tuple[pd.Series, str, bool] | None:
    """The column as dates without zone, the format that reads every cell, and whether another would too.

    None where no format reads all cells that are not missing. `formats` narrows the choice.
    """
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return _naive(column), "typed", False
    if not is_text(column):
        return None
    missing = is_missing(column)
    text = as_text(column).where(~missing)
    present = text[~missing]
    if present.empty or not present.head(20).str.contains(r"\d").all():
        return None
    readings: list[tuple[pd.Series, str]] = []
    for style in formats or _candidate_formats():
        if _reads(present.head(20), style) is None:
            continue
        parsed = _reads(text, style)
        if parsed is not None and parsed.notna().to_numpy()[~missing].all():
            readings.append((parsed, style))
            if style == "ISO8601":
                break
    if not readings:
        return None
    # 03/04/2021 is two dates; a table in order of time gives away which.
    ordered = [r for r in readings if r[0].dropna().is_monotonic_increasing]
    chosen = (ordered or readings)[0]
    return chosen[0], chosen[1], len(readings) > 1 and len(ordered) != 1


def _candidate_formats() -> list[str]:
    return [f if f in ("ISO8601", "%b %Y") else f + time for f in DATE_FORMATS for time in _TIMES]


def _reads(text: pd.Series, style: str) -> pd.Series | None:
    try:
        return _naive(pd.to_datetime(text, format=style, utc=True))
    except (ValueError, OverflowError, TypeError):
        return None


def _naive(column: pd.Series) -> pd.Series:
    zoned = column.dt.tz is not None
    return column.dt.tz_convert("UTC").dt.tz_localize(None) if zoned else column
