"""From a table without a target to numbers and codes that a density of rows can take.

    number      standardized; its square root, cube root or logarithm where that takes away a long tail to the right
    few values  a number with at most ten different values, yes/no, a category: codes 0, 1, …
    spike       a number of which a quarter or more of the cells are one value (zero, say): a code that says whether,
                and the number itself where it is another, so that no component shrinks onto the spike
    date        years since the first, a number

A missing cell is NaN in all that became of it: nothing is filled in. A number of nines (-999, 9999) that several cells
have and that lies farther from all others than these from each other is a code for a missing cell.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from credo.app.table.columns import DAYS, Column
from credo.app.table.detect import detect
from credo.app.table.prepare import FEWEST_ROWS, Summary
from credo.app.table.read import Table
from credo.core.errors import DataError

SPIKE = 0.25
"""The share of cells with the same value from which on a number is a spike and a rest."""
SKEWED = 0.6
"""Skewness beyond which powers are tried; the one with the least is taken if it halves it."""
POWERS = {0.5: "square root", 1 / 3: "cube root", 0.0: "logarithm"}
NINES = tuple(sign * (10.0**digits - 1) for digits in range(2, 8) for sign in (1, -1))
"""What people write for a number that is missing."""
TWICE = 2
"""Cells that must have it."""
MOST_COLUMNS = 60
MOSTLY_MISSING = 0.9


class Feature(NamedTuple):
    """One column of the density: numbers, or codes of `levels`."""

    name: str
    """As in reports; the column's, or of a spike `column = value`."""
    column: str
    """The table's column that it is from."""
    values: Float[np.ndarray, " n"]
    """Standardized, or codes; NaN where missing."""
    levels: tuple[str, ...] = ()
    center: float = 0.0
    scale: float = 1.0
    power: float = 1.0
    """It is x to this power, or log(x + shift) where it is 0."""
    shift: float = 0.0
    origin: str = ""
    """The first date, where it is years since that."""

    @property
    def is_number(self) -> bool:
        """Whether it is standardized numbers."""
        return not self.levels

    def natural(self, values: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """Standardized numbers in the units of the column."""
        found = self.center + self.scale * np.asarray(values, dtype=float)
        if self.power == 1:
            return found
        return np.maximum(found, 0.0) ** (1 / self.power) if self.power else np.exp(found) - self.shift

    def date(self, years: float) -> pd.Timestamp:
        """Years since the first date, as one."""
        return pd.Timestamp(self.origin) + pd.Timedelta(days=DAYS * years)


class Features(NamedTuple):
    """A table as columns of a density."""

    parts: tuple[Feature, ...]
    summaries: tuple[Summary, ...]
    notes: tuple[str, ...]
    missing: pd.DataFrame
    """Of every column of the table, also those left out, which cells say nothing."""

    @property
    def x(self) -> Float[np.ndarray, "n d"]:
        """All features side by side."""
        return np.column_stack([part.values for part in self.parts])

    @property
    def numbers(self) -> list[int]:
        """The places of those that are numbers."""
        return [i for i, part in enumerate(self.parts) if part.is_number]


def read_features(table: Table, ignore: Iterable[str] = ()) -> Features:
    """Detects what the columns hold, leaves out what says nothing of rows, and turns the rest into features."""
    left_out = set(ignore)
    for name in left_out:
        table.demand(name, "`ignore`")
    if len(table) < FEWEST_ROWS:
        raise DataError(f"{table.name} has {len(table)} rows; at least {FEWEST_ROWS} are needed")
    parts: list[Feature] = []
    summaries: list[Summary] = []
    notes = [*table.notes]
    missing: dict[str, np.ndarray] = {}
    for name in table.columns:
        cells = table.cells(name)
        missing[name] = cells.missing
        gaps = int(cells.missing.sum())
        if name in left_out:
            summaries.append(Summary(name, "left out", "", gaps, "as asked"))
        elif gaps > MOSTLY_MISSING * len(table):
            notes.append(f"Column {name!r} is missing in {gaps / len(table):.0%} of the rows and was left out.")
            summaries.append(Summary(name, "left out", "", gaps, "mostly missing"))
        else:
            column, detail, said = detect(cells)
            notes += said
            if column is not None:
                coded = column.encode(cells).table
                if column.kind == "number":
                    coded = _without_codes(name, coded[:, 0], notes)[:, None]
                    missing[name] = missing[name] | np.isnan(coded[:, 0])
                    gaps = int(missing[name].sum())
                parts += _features(column, coded, cells.missing, notes)
            role, kind = ("left out", "") if column is None else ("used", column.kind)
            summaries.append(Summary(name, role, kind, gaps, detail))
    if not parts:
        raise DataError(f"{table.name} has no column to explore: all are constant, identifiers or free text")
    if len(parts) > MOST_COLUMNS:
        raise DataError(
            f"{table.name} has {len(parts)} columns to explore, of at most {MOST_COLUMNS}; leave some out by `ignore`"
        )
    return Features(tuple(parts), tuple(summaries), tuple(notes), pd.DataFrame(missing))


def _features(column: Column, table: np.ndarray, missing: np.ndarray, notes: list[str]) -> list[Feature]:
    name = column.name
    if column.kind in ("category", "yes/no"):
        two = column.kind == "yes/no" or len(column.levels) == 2
        codes = table[:, 0] if two else np.where(np.isnan(table).any(1), np.nan, table.argmax(1))
        return [Feature(name, name, np.where(missing, np.nan, codes), column.levels)]
    values = table[:, 0]
    present, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if column.kind == "number" and not column.continuous:
        codes = np.where(np.isnan(values), np.nan, np.searchsorted(present, values))
        return [Feature(name, name, codes, tuple(f"{v:g}" for v in present))]
    top, found = int(counts.argmax()), []
    if column.kind == "number" and counts[top] >= SPIKE * counts.sum():
        spike = present[top]
        codes = np.where(np.isnan(values), np.nan, (values == spike).astype(float))
        found.append(Feature(f"{name} = {spike:g}", name, codes, ("no", "yes")))
        values = np.where(values == spike, np.nan, values)
        share = counts[top] / counts.sum()
        notes.append(
            f"{share:.0%} of the cells of {name!r} are {spike:g}; whether, and how much otherwise, are told apart."
        )
        if np.sum(~np.isnan(values)) < FEWEST_ROWS or len(present) < 3:
            return found
    return [*found, _number(name, column, values, notes)]


def _without_codes(name: str, values: np.ndarray, notes: list[str]) -> np.ndarray:
    """The values with NaN for codes of missing cells."""
    present, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    for end, rest in ((0, present[1:]), (-1, present[:-1])):
        if len(rest) < 2 or present[end] not in NINES or counts[end] < TWICE:
            continue
        if np.abs(rest - present[end]).min() > np.ptp(rest):
            said = f"{present[end]:g}, far from all others: taken as missing."
            notes.append(f"{counts[end]:,} cells of {name!r} are {said}")
            values = np.where(values == present[end], np.nan, values)
    return values


def _number(name: str, column: Column, values: np.ndarray, notes: list[str]) -> Feature:
    """Standardized, by a power of it where a long tail asks for one."""
    power, shift, present = 1.0, 0.0, values[~np.isnan(values)]
    if column.kind == "number" and present.min() >= 0 and _skewness(present) > SKEWED:
        shift = 0.0 if present.min() > 0 else float(present[present > 0].min())
        left = {each: abs(_skewness(_power(present, each, shift))) for each in POWERS}
        best = min(left, key=lambda each: left[each])
        if left[best] < 0.5 * _skewness(present):
            power = best
            notes.append(f"{name!r} has a long tail to the right: clusters and odd rows look at its {POWERS[best]}.")
    z = _power(values, power, shift)
    center, scale = float(np.nanmean(z)), float(np.nanstd(z)) or 1.0
    origin = column.origin if column.kind == "date" else ""
    return Feature(name, name, (z - center) / scale, (), center, scale, power, shift, origin)


def _power(values: np.ndarray, power: float, shift: float) -> np.ndarray:
    return values if power == 1 else values**power if power else np.log(values + shift)


def _skewness(values: np.ndarray) -> float:
    """Of the middle 96 %: a few odd cells have no say."""
    clipped = np.clip(values, *np.quantile(values, [0.02, 0.98]))
    gap = clipped - clipped.mean()
    return float((gap**3).mean() / max((gap**2).mean() ** 1.5, 1e-300))
