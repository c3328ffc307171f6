"""Blocks are left out whole, and nothing near them is learned from."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import credo
from credo import evaluate
from credo.errors import DataError

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 10, (200, 2))


def test_every_row_is_scored_once_and_no_block_is_cut():
    folds = evaluate.spatial_blocks(X, 4, size=2.0, seed=1)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(200))
    block = np.floor((X - X.min(0)) / 2.0).astype(int) @ [100, 1]
    for train, test in folds:
        assert not set(block[train]) & set(block[test])
        assert len(train) + len(test) == 200 and 30 < len(test) < 70


def test_a_buffer_keeps_neighbours_out():
    for train, test in evaluate.spatial_blocks(X, 4, size=2.0, buffer=0.7):
        assert cdist(X[train], X[test]).min() >= 0.7
        assert len(train) < 200 - len(test)


def test_scores_of_blocks_do_not_leak():
    """Of a field without a trend, places far from any are predicted worse than those between others."""
    y = np.sin(2 * X[:, 0]) + np.cos(2 * X[:, 1])
    gp = credo.GP(credo.kernels.RBF(np.asarray(0.8), np.asarray(1.0)), 0.0, noise=0.01)
    random = evaluate.cross_validate(gp, X, y, 4, learn=False, score="rmse").mean["rmse"]
    blocked = evaluate.cross_validate(gp, X, y, folds=evaluate.spatial_blocks(X, 4), learn=False, score="rmse")
    assert blocked.mean["rmse"] > 1.5 * random and len(blocked.scores["rmse"]) == 4


def test_clusters_far_apart_are_cut_into_smaller_blocks():
    towns = np.concatenate([X / 1000, X / 1000 + 50.0])
    folds = evaluate.spatial_blocks(towns)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(400))
    assert all(20 < len(test) < 200 for _, test in folds)
    with pytest.raises(DataError, match="at 2 places, fewer than k=5"):
        evaluate.spatial_blocks(np.repeat(X[:2], 10, axis=0))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 20.0}, "1 blocks of side 20, fewer than k=5"),
        ({"size": 0.0}, "must be positive"),
        ({"buffer": 100.0}, "leaves no rows"),
        ({"k": 1}, "k must be"),
        ({"buffer": -1.0}, "buffer must"),
    ],
)
def test_bad_blocks_are_refused(options, said):
    with pytest.raises(DataError, match=said):
        evaluate.spatial_blocks(X, **options)
