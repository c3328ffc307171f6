import numpy as np
import pandas as pd
import pytest

from credo.app.table.prepare import prepare
from credo.app.table.read import Table
from credo.app.table.splits import folds, split, stratified
from credo.errors import DataError


@pytest.fixture
def frame(rng):
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.choice(["u", "v"], 60), "y": rng.normal(size=60)})
    return pd.concat([frame, frame.iloc[:6]], ignore_index=True)


def values(frame, rows):
    return sorted(map(tuple, frame.iloc[rows][["a", "b", "y"]].to_numpy()))


def test_the_split_depends_on_rows_not_on_their_order_their_columns_or_units(frame):
    base = prepare(Table(frame, "t"), "y")
    want = values(frame, split(base, 0.2, 0)[1])
    shuffled = frame.sample(frac=1, random_state=1).reset_index(drop=True)
    assert values(shuffled, split(prepare(Table(shuffled, "t"), "y"), 0.2, 0)[1]) == want
    turned = frame[["y", "b", "a"]].assign(one=1)
    assert values(turned, split(prepare(Table(turned, "t"), "y"), 0.2, 0)[1]) == want
    scaled = frame.assign(a=1000 * frame["a"] + 7)
    rows = split(prepare(Table(scaled, "t"), "y"), 0.2, 0)[1]
    assert values(frame, rows) == want
    assert values(frame, split(base, 0.2, 1)[1]) != want


def test_rows_that_are_the_same_stay_together(frame):
    data = prepare(Table(frame, "t"), "y")
    train, test = split(data, 0.3, 0)
    assert not set(values(frame, train)) & set(values(frame, test))
    parts = folds(data, train, 0)
    assert len(parts) == 5 and sorted(np.concatenate([out for _, out in parts])) == sorted(train)
    for rows, out in parts:
        assert not set(values(frame, rows)) & set(values(frame, out))
        assert sorted([*rows, *out]) == sorted(train)


def test_folds_have_their_share_of_each_class(rng):
    frame = pd.DataFrame({"a": rng.normal(size=100), "y": np.repeat(["no", "yes"], [80, 20])})
    data = prepare(Table(frame, "t"), "y")
    for _, out in folds(data, np.arange(100), 0):
        assert np.sum(data.y[out] == 1) == 4


def test_folds_in_time_are_predicted_from_what_came_before(rng):
    frame = pd.DataFrame({"t": np.arange(50.0), "y": rng.normal(size=50)}).sample(frac=1, random_state=0)
    data = prepare(Table(frame.reset_index(drop=True), "t"), "y", time="t")
    train, test = split(data, 0.2, 0)
    assert data.time[train].max() < data.time[test].min()
    parts = folds(data, train, 0)
    assert len(parts) == 5 and sum(len(out) for _, out in parts) == 20
    for rows, out in parts:
        assert data.time[rows].max() < data.time[out].min()


def test_a_class_with_one_row_stays_to_learn_from():
    train, test = stratified(np.asarray([0, 0, 0, 0, 0, 1.0]), 0.2, seed=0)
    assert 5 in train and len(test) == 1 and sorted([*train, *test]) == list(range(6))


@pytest.mark.parametrize("test", [0.0, 1.0, -0.2, 1.5])
def test_shares_that_are_none(frame, test):
    with pytest.raises(DataError, match="`test` is the share"):
        split(prepare(Table(frame, "t"), "y"), test, 0)


def test_a_share_that_leaves_nothing(frame):
    with pytest.raises(DataError, match=r"test=0.99 leaves \d of 66 rows"):
        split(prepare(Table(frame, "t"), "y"), 0.99, 0)
