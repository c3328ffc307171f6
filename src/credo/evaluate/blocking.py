"""Folds of rows that lie together in space: what is near a test row is a test row, too.

Neighbours are alike, so that a row left out at random is predicted from its twins, and scores say little about places
without any. Blocks of the plane that are left out whole say how well gaps are filled; a `buffer` also keeps rows just
across the border of a block out of what is learned from. Roberts et al. (2017), "Cross-validation strategies for data
with temporal, spatial, hierarchical, or phylogenetic structure".
"""

import numpy as np

from credo.core.arrays import Numeric
from credo.core.checks import check_count, check_real, check_table
from credo.core.errors import DataError

ACROSS = 5
"""Blocks along the longer side of the points where no size is given: about three in each of five folds."""
UNEVEN = 2.0
"""So much more than its fold may the fullest block hold before all are made smaller."""


def spatial_blocks(
    points: Numeric, k: int = 5, *, size: float | None = None, buffer: float = 0.0, seed: int = 0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """k pairs of row numbers to learn from and to score on, by square blocks of the first two columns of the points.

    Args:
        points: coordinates, shape (n, d).
        k: the number of folds; every block is in one of them.
        size: the side of a block; None is a fifth of the longer side of all points, or, where they lie in clusters,
            half of it, a quarter, … until the fullest block is no more than two folds.
        buffer: rows nearer than this to a row that is scored on are not learned from.
        seed: of which block is in which fold.
    """
    check_count(k, "k", least=2)
    check_real(buffer, "buffer", 0.0)
    x = np.asarray(check_table(points, "points"))[:, :2]
    extent = float(np.ptp(x, axis=0).max())
    side = extent / ACROSS if size is None else check_real(size, "size", 0.0)
    if not side > 0:
        raise DataError(f"size, the side of a block, must be positive, found {size!r} for points that span {extent:g}")
    distinct = len(np.unique(x, axis=0))
    if size is None and distinct < k:
        raise DataError(f"the points are at {distinct} places, fewer than k={k}; make k smaller")
    while True:
        places = np.floor((x - x.min(0)) / side * (1 - 1e-12))
        _, block, counts = np.unique(places, axis=0, return_inverse=True, return_counts=True)
        uneven = counts.max() * k > UNEVEN * len(x) and len(counts) < distinct
        if size is not None or not (len(counts) < k or uneven):
            break
        side /= 2
    if len(counts) < k:
        raise DataError(f"the points lie in {len(counts)} blocks of side {side:g}, fewer than k={k}; make size smaller")
    fold, filled = np.zeros(len(counts), dtype=int), np.zeros(k)
    order = np.random.default_rng(seed).permutation(len(counts))
    for each in order[np.argsort(-counts[order], kind="stable")]:  # the largest first, to the emptiest fold
        fold[each] = np.argmin(filled)
        filled[fold[each]] += counts[each]
    which = fold[block.reshape(-1)]
    return [_apart(x, np.flatnonzero(which != i), np.flatnonzero(which == i), buffer) for i in range(k)]


def _apart(x: np.ndarray, train: np.ndarray, test: np.ndarray, buffer: float) -> tuple[np.ndarray, np.ndarray]:
    """The rows to learn from that are at least `buffer` away from those to score on."""
    if buffer > 0:
        from scipy.spatial import cKDTree

        distance, _ = cKDTree(x[test]).query(x[train])
        train = train[distance >= buffer]
    if not len(train):
        raise DataError(f"buffer={buffer:g} leaves no rows to learn from; make it smaller")
    return train, test
