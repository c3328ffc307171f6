"""Reading tables as people have them: CSV in any dialect, TSV, Parquet, data frames.

Text files are read as text, cell by cell, so that what is written back beside the predictions is what was there;
`Cells` interpret a column. Separator, encoding and a missing header are found from the file itself.
"""

import csv
import difflib
import gzip
import re
import sys
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from credo.app.table.cells import COMMA, POINT, Cells
from credo.core.errors import DataError

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
MARKS = (".", ",")
_SAMPLE = 1 << 18


@dataclass(eq=False)
class Table:
    """A table as read: text cells from a text file, typed columns from Parquet and data frames."""

    frame: pd.DataFrame
    name: str
    separator: str = ","
    decimal: str = ""
    """The decimal mark where it was said; nothing where the cells tell."""
    notes: tuple[str, ...] = ()
    """What had to be guessed or repaired, in words."""
    _cells: dict[str, Cells] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.decimal not in ("", *MARKS):
            raise DataError(f"`decimal` is the decimal mark, a point or a comma, found {self.decimal!r}")

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [str(name) for name in self.frame.columns]

    def cells(self, name: str) -> Cells:
        """The cells of a column; they are read once."""
        found = self._look(name)
        if found.is_text and not found.decimal:
            found.decimal = self.decimal or found.marks.decided or self.mark
        return found

    def _look(self, name: str) -> Cells:
        if name not in self._cells:
            self._cells[name] = Cells(self.frame[name].reset_index(drop=True), name)
        return self._cells[name]

    @cached_property
    def mark(self) -> str:
        """The decimal mark that most columns speak for; nothing where none does."""
        if self.decimal:
            return self.decimal
        decided = [self._look(name).marks.decided for name in self.columns]
        points, commas = decided.count("."), decided.count(",")
        return "" if points == commas == 0 else "," if commas > points else "."

    def demand(self, name: str, role: str) -> Cells:
        """The cells of a column that was named for something; refuses a name that no column has."""
        if name not in self.columns:
            raise DataError(f"{self.name} has no column {name!r} for {role}; {nearest(name, self.columns)}")
        return self.cells(name)


def nearest(name: str, choices: Sequence[str]) -> str:
    """A hint with the nearest name, or with all of them where none is near."""
    folded = {choice.lower(): choice for choice in reversed(choices)}
    near = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.5)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    shown = ", ".join(choices[:12]) + (", …" if len(choices) > 12 else "")
    return f"the columns are: {shown}"


def as_table(data: Any, decimal: str = "") -> Table:
    """A table, a pandas or polars frame, or the path of a file, as a table."""
    if isinstance(data, Table):
        return data
    if isinstance(data, str | Path):
        return read_table(data, decimal)
    frame = data.to_pandas() if hasattr(data, "to_pandas") else data
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"a table is a pandas or polars frame or the path of a file, found {type(data).__name__}")
    return _typed(frame, "the table", decimal)


def read_table(path: str | Path, decimal: str = "") -> Table:
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
            return _read_parquet(source, decimal)
        data = gzip.decompress(source.read_bytes()) if ".gz" in endings else source.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {source}: {getattr(error, 'strerror', None) or error}") from None
    return _read_text(data, source, decimal)


def _read_parquet(source: Path, decimal: str) -> Table:
    import pyarrow

    try:
        frame = pd.read_parquet(source)
    except (pyarrow.ArrowException, ValueError) as error:
        raise DataError(f"cannot read {source} as Parquet: {str(error).splitlines()[0]}") from None
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    return _typed(frame, source.name, decimal)


def _typed(frame: pd.DataFrame, name: str, decimal: str) -> Table:
    frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
    _check_header(list(frame.columns), name)
    return Table(frame, name, decimal=decimal)


def _read_text(data: bytes, source: Path, decimal: str) -> Table:
    text, notes = _decode(data, source)
    first_line, _, rest = text.partition("\n")
    given = re.fullmatch(r'"?sep=(.)"?', first_line.strip())
    if given:  # Excel writes this line to say which separator follows.
        text = rest
    sample = text[:_SAMPLE]
    separator = given.group(1) if given else sniff_separator(sample)
    rows = [row for row in _split(sample.splitlines()[:200], separator) if any(cell.strip() for cell in row)]
    if not rows:
        raise DataError(f"{source} is empty")
    header = [cell.strip() for cell in rows[0]]
    headless = all(POINT.fullmatch(cell) or COMMA.fullmatch(cell) for cell in header)
    if headless:
        header = [f"column{i + 1}" for i in range(len(header))]
        notes.append(f"The file has no header: its columns are called {header[0]} to {header[-1]}.")
    header = [name or f"unnamed{i + 1}" for i, name in enumerate(header)]
    _check_header(header, source)
    if len(rows) == 1 and not headless:
        raise DataError(f"{source} has a header but no rows")
    table = Table(_parse(text, header, separator, headless, source), source.name, separator, decimal)
    if separator != ",":
        notes.append(f"Columns are separated by a {SEPARATORS.get(separator, repr(separator))}.")
    if table.mark == ",":
        notes.append("Numbers are written with a decimal comma.")
    table.notes = tuple(notes)
    return table


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
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        reason = " ".join(str(error).split()).replace("Error tokenizing data. C error: ", "")
        raise DataError(f"cannot read {source} as a table: {reason}") from None
    # Short rows come back as missing cells whatever na_filter says.
    return frame.fillna("").astype(object)


def _check_header(header: list[str], source: object) -> None:
    seen: set[str] = set()
    for name in header:
        if name in seen:
            raise DataError(f"{source} has two columns named {name!r}; rename one of them")
        seen.add(name)


def _split(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Rows of cells, of any length."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        return list(csv.reader(lines, delimiter=separator))
    finally:
        csv.field_size_limit(before)


def sniff_separator(sample: str) -> str:
    """The separator that cuts the first lines into the same number of cells, more than one; else the comma."""
    lines = [line for line in sample.splitlines()[:50] if line.strip()]
    best, best_score = ",", (0.0, 0)
    for separator in SEPARATORS:
        counts = [len(row) for row in _split(lines, separator)]
        if not counts or counts[0] < 2:
            continue
        score = (sum(count == counts[0] for count in counts) / len(counts), counts[0])
        if score > best_score:
            best, best_score = separator, score
    return best
