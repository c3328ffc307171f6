"""What kind of thing a target is: a number, one of several classes, or a count; found from its column.

    classes   truth values, yes/no, text with few levels, or two different numbers
    count     whole numbers of which some are zero, skewed to the right, not large (median ≤ 20, maximum ≤ 1000),
              and at least half as spread as a Poisson's: variance ≥ mean/2
    number    everything else

The rule for counts is careful: grades and scores such as 3, 4, …, 9 are far less spread than counts of that size, years
and identifiers have no zeros, prices are large. What is found is said in the report, and `--kind` overrules it.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from credo.app.schema import FLAGS, check_column, read_target
from credo.app.tables import Table, as_text, dates, is_missing, numbers
from credo.core.errors import DataError

KINDS = ("auto", "number", "classes", "count")
MOST_CLASSES = 20
LARGEST_COUNT, LARGEST_MEDIAN = 1000, 20
LEAST_SPREAD = 0.5
"""The smallest ratio of variance to mean that is taken for counts; a Poisson's is 1."""


class Outcome(NamedTuple):
    """The target of a table, and what it was taken for."""

    kind: str
    """"number", "classes" or "count"."""
    y: np.ndarray
    """The numbers; for classes the place of each among `levels`. NaN where missing."""
    levels: tuple[str, ...]
    notes: tuple[str, ...]
    """Why it was taken for that, where it was not asked for and is not plain."""

    @property
    def detail(self) -> str:
        """What the column holds, in a few words."""
        if self.kind != "classes":
            return f"{np.nanmin(self.y):.4g} to {np.nanmax(self.y):.4g}"
        shares = class_counts(self.y, self.levels) / np.sum(~np.isnan(self.y))
        order = np.argsort(-shares, kind="stable")
        shown = ", ".join(f"{self.levels[i]} {shares[i]:.0%}" for i in order[:4])
        return f"{len(self.levels)} classes: {shown}" + (", …" if len(order) > 4 else "")


def class_counts(y: np.ndarray, levels: tuple[str, ...]) -> np.ndarray:
    """How many rows each class has."""
    return np.bincount(y[~np.isnan(y)].astype(int), minlength=len(levels))


def read_outcome(table: Table, target: str, kind: str = "auto") -> Outcome:
    """The target, as what `kind` says or as what it looks like."""
    if kind not in KINDS:
        raise DataError(f"--kind must be one of {', '.join(KINDS)}, found {kind!r}")
    check_column(table, target, "--target")
    cells = table.frame[target]
    if kind == "classes" or (kind == "auto" and _names_classes(cells, table.decimal)):
        return _classes(cells, target, table.decimal, kind == "auto")
    y = read_target(table, target)
    if kind == "count":
        _check_counts(y, target)
        return Outcome("count", y, (), ())
    why = _why_counts(y) if kind == "auto" else ""
    if why:
        said = f"The target {target!r} is taken for a count because {why}; --kind number changes that."
        return Outcome("count", y, (), (said,))
    return Outcome("number", y, (), ())


def _names_classes(cells: pd.Series, decimal: str) -> bool:
    """Whether the cells are labels rather than measurements."""
    missing = is_missing(cells)
    if pd.api.types.is_bool_dtype(cells.dtype):
        return True
    values, unread = numbers(cells, decimal)
    if not unread.any():
        return len(np.unique(values[~missing])) == 2
    # A few cells that are no numbers are mistakes in a column of numbers, and dates are not predicted.
    return bool(unread.sum() > 0.5 * (~missing).sum()) and dates(cells) is None


def _classes(cells: pd.Series, target: str, decimal: str, guessed: bool) -> Outcome:
    missing = is_missing(cells)
    values, unread = numbers(cells, decimal)
    numeric = not unread.any() and not pd.api.types.is_bool_dtype(cells.dtype)
    if missing.all():
        raise DataError(f"the target {target!r} has no values: there are 0 usable rows")
    if numeric:
        found = np.unique(values[~missing])
        levels, text = tuple(f"{v:.15g}" for v in found), pd.Series([f"{v:.15g}" for v in values])
    else:
        levels, text = _spellings(as_text(cells), missing)
    n = int((~missing).sum())
    if len(levels) < 2:
        raise DataError(
            f"the target {target!r} is constant ({levels[0]} in every row): a class needs another to be told from"
        )
    if len(levels) > MOST_CLASSES or (len(levels) > 2 and len(levels) > n // 2):
        remedy = "merge the rare ones" if not numeric else "merge the rare ones, or use --kind number"
        raise DataError(
            f"the target {target!r} has {len(levels)} different values in {n:,} rows, too many to be classes (at most "
            f"{MOST_CLASSES}, with two rows each or more); {remedy}"
        )
    y = np.full(len(cells), np.nan)
    for i, level in enumerate(levels):
        y[(text == level).to_numpy() & ~missing] = i
    notes = [f"The target {target!r} has two values and is taken for classes; --kind number changes that."]
    notes = notes if guessed and numeric else []
    single = [level for level, count in zip(levels, class_counts(y, levels), strict=True) if count == 1]
    if single:
        listed = ", ".join(map(repr, single))
        notes.append(
            f"Only one row is of class {listed}: next to nothing can be learned about it."
            if len(single) == 1
            else f"Only one row each is of the classes {listed}: next to nothing can be learned about them."
        )
    return Outcome("classes", y, levels, tuple(notes))


def _spellings(text: pd.Series, missing: np.ndarray) -> tuple[tuple[str, ...], pd.Series]:
    """The levels of text in order, and the text; yes and no in any spelling are (no, yes)."""
    present = text[~missing]
    lowered = text.str.lower()
    for pair in FLAGS:
        if set(lowered[~missing].unique()) == set(pair):
            usual = [str(present[lowered[~missing] == word].mode().iloc[0]) for word in pair]
            return tuple(usual), lowered.map(dict(zip(pair, usual, strict=True)))
    return tuple(sorted(str(level) for level in present.unique())), text


def _why_counts(y: np.ndarray) -> str:
    """What speaks for counts; nothing where something speaks against."""
    present = y[~np.isnan(y)]
    if present.min() != 0 or np.any(present != np.round(present)) or len(np.unique(present)) < 3:
        return ""
    mean, variance, top = float(present.mean()), float(present.var()), float(present.max())
    skewed = np.mean((present - mean) ** 3) > 0
    small = top <= LARGEST_COUNT and np.median(present) <= LARGEST_MEDIAN
    if not skewed or not small or variance < LEAST_SPREAD * mean:
        return ""
    return f"it holds whole numbers from 0 to {top:g}, most of them small (mean {mean:.3g}, variance {variance:.3g})"


def _check_counts(y: np.ndarray, target: str) -> None:
    present = y[~np.isnan(y)]
    bad = (present < 0) | (present != np.round(present))
    if bad.any():
        raise DataError(
            f"the target {target!r} must hold whole numbers ≥ 0 for --kind count, found {present[bad][0]:g}"
        )
