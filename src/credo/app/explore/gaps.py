"""Which cells are missing: how many of each column, which together, and where."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from credo.app.explore.features import Features

FEWEST = 5
"""Cells that must be missing, and must be there, before anything is said of where they are missing."""
CHANCE = 0.01
"""All that is said of where cells are missing together is chance in one table of a hundred (Bonferroni)."""
TOGETHER = 0.7
"""The correlation of two columns' gaps from which on they are said to be missing together."""
PATTERNS = 8


class Relation(NamedTuple):
    """The cells of `column` are missing more often where `where`."""

    column: str
    where: str
    p_value: float


class Gaps(NamedTuple):
    """What is missing."""

    columns: dict[str, int]
    """Columns with gaps, and how many."""
    complete: int
    """Rows without gaps."""
    patterns: tuple[tuple[tuple[str, ...], int], ...]
    """Columns that are missing together in so many rows, the most frequent first."""
    relations: tuple[Relation, ...]
    together: tuple[tuple[str, str], ...]


def find_gaps(features: Features) -> Gaps:
    """Counts, patterns, and what gaps have to do with the other columns."""
    missing = features.missing
    counts = missing.sum()
    holey = [str(name) for name in counts.index[counts > 0]]
    shown = missing[holey]
    complete = int((~shown.any(axis=1)).sum()) if holey else len(missing)
    common = shown[shown.any(axis=1)].value_counts().head(PATTERNS)
    patterns = tuple(
        (tuple(name for name, gap in zip(holey, np.atleast_1d(key), strict=True) if gap), int(count))
        for key, count in common.items()
    )
    tested = [name for name in holey if FEWEST <= counts[name] <= len(missing) - FEWEST]
    pairs = [(a, b) for i, a in enumerate(tested) for b in tested[i + 1 :]]
    together = tuple((a, b) for a, b in pairs if np.corrcoef(missing[a], missing[b])[0, 1] > TOGETHER)
    return Gaps({name: int(counts[name]) for name in holey}, complete, patterns, _relations(features, tested), together)


def _relations(features: Features, columns: list[str]) -> tuple[Relation, ...]:
    """Mann & Whitney's test for numbers, a chi-squared test for codes; of each column the clearest two."""
    found: list[Relation] = []
    tests = sum(part.column != column for column in columns for part in features.parts)
    for column in columns:
        gap, each = features.missing[column].to_numpy(dtype=bool), []
        for part in features.parts:
            known = ~np.isnan(part.values)
            if part.column == column or min((gap & known).sum(), (~gap & known).sum()) < FEWEST:
                continue
            where, p = (
                _numbers(part.name, part.values[known], gap[known])
                if part.is_number
                else _codes(part.name, part.levels, part.values[known].astype(int), gap[known])
            )
            if p * tests < CHANCE:
                each.append(Relation(column, where, p))
        found += sorted(each, key=lambda relation: relation.p_value)[:2]
    return tuple(found)


def _numbers(name: str, values: np.ndarray, gap: np.ndarray) -> tuple[str, float]:
    from scipy import stats  # a third of a second

    test = stats.mannwhitneyu(values[gap], values[~gap])
    higher = 2 * test.statistic > gap.sum() * (~gap).sum()
    return f"{name} is {'high' if higher else 'low'}", float(test.pvalue)


def _codes(name: str, levels: tuple[str, ...], codes: np.ndarray, gap: np.ndarray) -> tuple[str, float]:
    from scipy import stats

    table = pd.crosstab(codes, gap).to_numpy()
    if min(table.shape) < 2:
        return "", 1.0
    at = np.unique(codes)[int((table[:, 1] / table.sum(1)).argmax())]
    return f"{name} is {levels[at]}", float(stats.chi2_contingency(table).pvalue)
