"""What kind of thing a target is: a number, one of several classes, or a count; found from its cells, read once.

    classes   truth values, yes/no, text with few levels, or two different numbers
    count     whole numbers of which some are zero, skewed to the right, not large (median ≤ 20, maximum ≤ 1000),
              and at least half as spread as a Poisson's: variance ≥ mean/2
    number    everything else

The rule for counts is careful: grades and scores such as 3, 4, …, 9 are far less spread than counts of that size, years
and identifiers have no zeros, prices are large. What is found is said in the report, and `kind` overrules it.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from credo.app.table.cells import Cells
from credo.app.table.columns import FLAGS
from credo.core.errors import DataError
from credo.core.text import counted

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
    levels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
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


def read_target(cells: Cells, kind: str = "auto") -> Outcome:
    """The target, as what `kind` says or as what it looks like."""
    if kind not in KINDS:
        raise DataError(f"`kind` must be one of {', '.join(KINDS)}, found {kind!r}")
    target = cells.name
    if kind == "classes" or (kind == "auto" and _names_classes(cells)):
        return _classes(cells, kind == "auto")
    y = _numbers(cells)
    if kind == "count":
        bad = (y < 0) | (y != np.round(y)) & ~np.isnan(y)
        if bad.any():
            raise DataError(f'the target {target!r} must hold whole numbers ≥ 0 for kind="count", found {y[bad][0]:g}')
        return Outcome("count", y)
    why = _why_counts(y) if kind == "auto" else ""
    if why:
        said = f"The target {target!r} is taken for a count because {why}; kind number changes that."
        return Outcome("count", y, (), (said,))
    return Outcome("number", y)


def _numbers(cells: Cells) -> np.ndarray:
    """Numbers, NaN where they are missing; refuses what is not a number by its first cell."""
    target = cells.name
    if cells.is_flag:
        raise DataError(f'the target {target!r} holds yes/no values, not numbers; use kind="classes"')
    values, unread = cells.numbers
    if unread.any():
        row = int(np.argmax(unread))
        kind = "dates" if cells.dates is not None else "text"
        raise DataError(
            f"the target {target!r} must hold numbers, found {kind}: {str(cells.column.iloc[row])!r} in row {row + 1} "
            f'({int(unread.sum())} of {len(cells)} cells); use kind="classes" for labels, or leave bad cells empty'
        )
    present = values[~np.isnan(values)]
    if len(present) == 0:
        raise DataError(f"the target {target!r} has no values: there are 0 usable rows")
    if len(present) > 1 and np.ptp(present) == 0:
        raise DataError(f"the target {target!r} is constant ({present[0]:g} in every row): there is nothing to predict")
    return values


def _names_classes(cells: Cells) -> bool:
    """Whether the cells are labels rather than measurements."""
    if cells.is_flag:
        return True
    values, unread = cells.numbers
    if not unread.any():
        return len(np.unique(values[~cells.missing])) == 2
    # A few cells that are no numbers are mistakes in a column of numbers, and dates are not predicted.
    return bool(unread.sum() > 0.5 * (~cells.missing).sum()) and cells.dates is None


def _classes(cells: Cells, guessed: bool) -> Outcome:
    target, missing = cells.name, cells.missing
    if missing.all():
        raise DataError(f"the target {target!r} has no values: there are 0 usable rows")
    numeric = not cells.is_flag and not cells.numbers.unread.any()
    if numeric:
        values = cells.numbers.values
        levels = tuple(f"{v:.15g}" for v in np.unique(values[~missing]))
        text = pd.Series([f"{v:.15g}" for v in values])
    else:
        levels, text = _spellings(cells)
    n = int((~missing).sum())
    if len(levels) < 2:
        raise DataError(
            f"the target {target!r} is constant ({levels[0]} in every row): a class needs another to be told from"
        )
    if len(levels) > MOST_CLASSES or (len(levels) > 2 and len(levels) > n // 2):
        remedy = "merge the rare ones" + (', or use kind="number"' if numeric else "")
        raise DataError(
            f"the target {target!r} has {len(levels)} different values in {counted(n, 'row')}, too many to be classes "
            f"(at most {MOST_CLASSES}, with two rows each or more); {remedy}"
        )
    y = np.full(len(cells), np.nan)
    for i, level in enumerate(levels):
        y[(text == level).to_numpy() & ~missing] = i
    notes = []
    if guessed and numeric:
        notes.append(f"The target {target!r} has two values and is taken for classes; kind number changes that.")
    single = [level for level, count in zip(levels, class_counts(y, levels), strict=True) if count == 1]
    if single:
        listed = ", ".join(map(repr, single))
        notes.append(
            f"Only one row is of class {listed}: next to nothing can be learned about it."
            if len(single) == 1
            else f"Only one row each is of the classes {listed}: next to nothing can be learned about them."
        )
    return Outcome("classes", y, levels, tuple(notes))


def _spellings(cells: Cells) -> tuple[tuple[str, ...], pd.Series]:
    """The levels of text in order, and the text; yes and no in any spelling are (no, yes)."""
    text, missing = cells.text, cells.missing
    present, lowered = text[~missing], text.str.lower()
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
