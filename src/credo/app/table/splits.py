"""Which rows are held out: for the test, and in turn for the choice between candidates.

Chance decides about rows, not about their numbers: the order of rows and columns and the units of the columns change
nothing. Rows that are the same in every cell stay together, so that nothing is asked that was learned by heart.
"""

import numpy as np

from credo.app.table.prepare import Prepared
from credo.core.errors import DataError

FOLDS = 5


def split(prepared: Prepared, test: float | int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows to learn from and those held out: the latest of a series, else some at random.

    Of every class about the same share is held out, and at least one row stays to learn from.
    """
    if not 0 < test < 1:
        raise DataError(f"`test` is the share of rows to hold out, between 0 and 1, found {test:g}; write 20 % as 0.2")
    n = len(prepared.y)
    count = max(round(n * test), 1)
    if prepared.time is not None:
        order = np.argsort(prepared.time, kind="stable")
        train, held_out = order[: n - count], order[n - count :]
    else:
        groups = identical(prepared)
        first = np.unique(groups, return_index=True)[1]
        kept = stratified(prepared.y[first], test, seed, prepared.kind == "classes")
        train, held_out = (np.flatnonzero(np.isin(groups, part)) for part in kept)
    if len(train) < 4:
        raise DataError(f"test={test:g} leaves {len(train)} of {n} rows to learn from; make it smaller")
    return train, held_out


def identical(prepared: Prepared) -> np.ndarray:
    """For every row its group: rows that are the same in every cell; groups are in the order of what they hold."""
    keys = [prepared.y, *(prepared.x[name].to_numpy() for name in sorted(prepared.x.columns))]
    order = np.lexsort(keys[::-1])
    ordered = np.stack(keys, axis=1)[order]
    group = np.empty(len(order), dtype=int)
    group[order] = np.cumsum(np.r_[0, np.any(ordered[1:] != ordered[:-1], axis=1)])
    return group


def stratified(y: np.ndarray, share: float, seed: int, classes: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the order of their classes, at random within each; every 1/share-th of them is held out."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    count = max(round(len(y) * share), 1)
    held_out = np.zeros(len(y), dtype=bool)
    if not classes:
        held_out[order[:count]] = True
        return np.flatnonzero(~held_out), np.flatnonzero(held_out)
    order = order[np.argsort(y[order], kind="stable")]
    places = ((np.arange(count) + rng.uniform()) * len(y) / count).astype(int)
    held_out[order[places]] = True
    for label in np.unique(y):
        if held_out[y == label].all():
            held_out[np.flatnonzero(y == label)[0]] = False
    if not held_out.any():
        held_out[np.argmax(y == np.argmax(np.bincount(y.astype(int))))] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def folds(prepared: Prepared, rows: np.ndarray, seed: int, k: int = FOLDS) -> list[tuple[np.ndarray, np.ndarray]]:
    """The rows in k pairs of those to learn from and those left out in turn.

    Classes have their share in each. Of rows in time the later half is left out, block by block, and each block
    predicted from what came before it.
    """
    if prepared.time is not None:
        ordered = rows[np.argsort(prepared.time[rows], kind="stable")]
        blocks = np.array_split(ordered, 2 * k)
        return [(np.concatenate(blocks[: k + i]), blocks[k + i]) for i in range(k) if len(blocks[k + i])]
    groups = identical(prepared)[rows]
    names, first = np.unique(groups, return_index=True)
    order = np.random.default_rng(seed).permutation(len(names))
    if prepared.kind == "classes":
        order = order[np.argsort(prepared.y[rows][first][order], kind="stable")]
    fold = np.empty(len(names), dtype=int)
    fold[order] = np.arange(len(names)) % k
    of_row = fold[np.searchsorted(names, groups)]
    return [(rows[of_row != i], rows[of_row == i]) for i in range(k) if np.any(of_row == i) and np.any(of_row != i)]
