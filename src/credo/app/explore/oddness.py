"""Rows that the clusters do not explain, and which of their cells are to blame.

A row's score is the probability of a row as improbable as it (`Mixture.anomaly`). Rows are called odd by Benjamini &
Hochberg (1995): of those so called about one in twenty is expected to be no odder than chance makes some rows. A cell
is to blame as far as it is surprising given all other cells of its row.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from credo.app.explore.clusters import Clusters
from credo.app.explore.features import Feature, Features

FALSE = 0.05
"""The share of rows called odd that are expected to be chance."""
SHOWN = 10
"""Rows that are named, with reasons."""


class Blame(NamedTuple):
    """A cell that is surprising given the others of its row."""

    column: str
    found: str
    expected: str
    rarity: float
    """How probable a cell as surprising is."""


class OddRow(NamedTuple):
    """A row that is improbable, and its cells that are, the most surprising first."""

    row: int
    score: float
    blame: tuple[Blame, ...]


class Oddness(NamedTuple):
    """The score of each row, which are called odd, and the oddest with reasons."""

    score: Float[np.ndarray, " n"]
    odd: Bool[np.ndarray, " n"]
    rows: tuple[OddRow, ...]


def find_oddness(features: Features, clusters: Clusters) -> Oddness:
    """The scores of all rows, and reasons for the oddest."""
    x = features.x
    score = np.asarray(clusters.mixture.anomaly(x, missing=True))
    odd = false_discovery(score, FALSE)
    order = np.argsort(score, kind="stable")[: max(min(int(odd.sum()), SHOWN), 1)]
    blames = _blames(features, clusters.mixture, x[order])
    rows = tuple(OddRow(int(row), float(score[row]), blames[i]) for i, row in enumerate(order) if odd[row])
    return Oddness(score, odd, rows)


def false_discovery(score: Float[np.ndarray, " n"], share: float) -> Bool[np.ndarray, " n"]:
    """Which probabilities are so small that of all that are about `share` would be so by chance."""
    order = np.argsort(score, kind="stable")
    below = np.flatnonzero(score[order] <= share * np.arange(1, len(score) + 1) / len(score))
    found = np.zeros(len(score), bool)
    if len(below):
        found[order[: below[-1] + 1]] = True
    return found


def _blames(features: Features, mixture: Any, x: Float[np.ndarray, "m d"]) -> list[tuple[Blame, ...]]:
    """Of each cell the law given the rest of its row: all but one column, a column at a time."""
    each: list[list[Blame]] = [[] for _ in x]
    for i, feature in enumerate(features.parts):
        # A row of zeros more: then only this column is missing in every row, and is the one that is predicted.
        hidden = np.concatenate([x, np.zeros((1, x.shape[1]))])
        hidden[:, i] = np.nan
        p = mixture.predict(hidden, missing=True)
        for row in np.flatnonzero(~np.isnan(x[:, i])):
            each[row].append(_of_cell(feature, p, int(row), x[row, i]))
    return [tuple(sorted(found, key=lambda blame: blame.rarity)[:3]) for found in each]


def _of_cell(feature: Feature, p: Any, row: int, value: float) -> Blame:
    if feature.levels:
        probs = np.asarray(p.probs)[row]
        likely = int(probs.argmax())
        said = f"{feature.levels[likely]} in {probs[likely]:.0%} of such rows"
        return Blame(feature.name, feature.levels[int(value)], said, float(probs[probs <= probs[int(value)]].sum()))
    low = float(np.asarray(p.cdf(np.full(p.shape, value)))[row])
    lower, upper = (shown(feature, float(np.asarray(end)[row])) for end in p.interval(0.9))
    return Blame(feature.name, shown(feature, value), f"{lower} to {upper}", max(2 * min(low, 1 - low), 0.0))


def shown(feature: Feature, value: float) -> str:
    """A standardized number in the units of its column, or the level of a code."""
    if feature.levels:
        return feature.levels[int(value)]
    found = float(feature.natural(np.asarray(value)))
    if feature.origin:
        return f"{feature.date(found):%Y-%m-%d}"
    return f"{found:,.0f}" if 1e4 <= abs(found) < 1e9 else f"{found:.4g}"
