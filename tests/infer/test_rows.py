"""Rows in blocks: each once a pass, in random order, wherever they come from."""

import time

import numpy as np
import pytest
from scipy import stats

from credo.core.chunks import chunks
from credo.infer import rows
from credo.infer.rows import RowSource


def sources(tmp_path):
    x, y = np.arange(105.0)[:, None] * [1.0, 10.0], np.arange(105.0)
    on_disk = np.memmap(tmp_path / "x.bin", dtype=float, mode="w+", shape=x.shape)
    on_disk[:] = x
    pieces = [(x[:7], y[:7]), (x[7:60], y[7:60]), (x[60:], y[60:])]
    return {"memory": (x, y), "disk": (on_disk, y), "chunks": chunks(x, y, rows=11), "pieces": pieces}


@pytest.mark.parametrize("kind", ["memory", "disk", "chunks", "pieces"])
def test_every_row_is_read_once_a_pass(kind, tmp_path):
    source = RowSource.of(sources(tmp_path)[kind], 105, 2)
    assert source.in_memory == (kind == "memory")
    counts, tables, outcomes = [], [], []
    for (x, y), count in source.blocks(40, 2, np.random.default_rng(0)):
        time.sleep(1e-3)  # rows stay as they are while others are made ready
        assert len(x) == len(y) == 40
        counts.append(count)
        tables.append(x[:count])
        outcomes.append(y[:count])
    assert counts == [40, 40, 40, 40, 40, 10]
    x, y = np.concatenate(tables), np.concatenate(outcomes)
    np.testing.assert_array_equal(np.sort(y), np.repeat(np.arange(105.0), 2))
    np.testing.assert_array_equal(x, y[:, None] * [1.0, 10.0])
    assert np.any(np.diff(y[:40]) < 0)  # not in the order in which they lie


def test_rows_in_order_are_shuffled(tmp_path):
    """Sorted rows: a block from memory is a sample of all of them, one from a file is made of runs from many places."""
    y = np.sort(np.random.default_rng(3).normal(1.0, 1.0, size=2000))
    (block,), _ = next(RowSource.of(y).blocks(1000, 1, np.random.default_rng(0)))
    assert stats.ks_2samp(block, y).pvalue > 1e-3
    on_disk = np.memmap(tmp_path / "y.bin", dtype=float, mode="w+", shape=y.shape)
    on_disk[:] = y
    (block,), _ = next(RowSource.of(on_disk).blocks(400, 1, np.random.default_rng(0)))
    assert len(np.unique(np.searchsorted(y, block) // 50)) == rows.RUNS


def test_every_order_of_the_rows_is_as_likely():
    """24 orders of 4 rows, given 3 at a time: chi-squared with 23 degrees of freedom."""
    rng = np.random.default_rng(5)
    drawn = [tuple(np.concatenate(list(rows._orders(4, 3, 1, rng)))) for _ in range(4800)]
    counts = np.unique(np.array(drawn), axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert np.sum((counts - 200) ** 2 / 200) < stats.chi2(23).isf(1e-5)


@pytest.mark.parametrize(
    ("n", "size", "passes", "lengths"),
    [(10, 4, 1, [4, 4, 2]), (9, 3, 1, [3, 3, 3]), (5, 8, 1, [5]), (5, 8, 3, [8, 7]), (4, 9, 5, [9, 9, 2])],
)
def test_shuffled_rows_come_so_many_at_a_time(n, size, passes, lengths):
    found = list(rows._orders(n, size, passes, np.random.default_rng(n)))
    assert [len(part) for part in found] == lengths
    for one in np.split(np.concatenate(found), passes):
        np.testing.assert_array_equal(np.sort(one), np.arange(n))
