import itertools
import time

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from credo.core.errors import DataError
from credo.decide.pareto import Boxes, front_of, hypervolume, improvement_boxes, non_dominated, reference_point


def brute_mask(values: np.ndarray) -> np.ndarray:
    return np.array([not any((z >= y).all() and (z > y).any() for z in values) for y in values])


def inclusion_exclusion(front: np.ndarray, reference: np.ndarray) -> float:
    """λ(∪ boxes) = Σ over sets of boxes of (-1)^(size + 1) λ(∩ boxes)."""
    total = 0.0
    for size in range(1, len(front) + 1):
        for chosen in itertools.combinations(front, size):
            total -= (-1) ** size * np.prod(np.maximum(np.min(chosen, axis=0) - reference, 0.0))
    return total


tables = st.integers(1, 4).flatmap(
    lambda k: st.lists(st.lists(st.integers(-4, 4), min_size=k, max_size=k), min_size=1, max_size=9)
)


@given(tables)
def test_the_front_is_what_nothing_dominates(rows):
    values = np.array(rows, dtype=float)  # small integers: ties and duplicates everywhere
    np.testing.assert_array_equal(non_dominated(values), brute_mask(values))
    front = front_of(values)
    assert {tuple(row) for row in front} == {tuple(row) for row in values[brute_mask(values)]}
    assert len(front) == len({tuple(row) for row in front})


@given(tables, st.integers(-5, 2))
def test_hypervolume_is_that_of_inclusion_and_exclusion(rows, level):
    values, reference = np.array(rows, dtype=float), np.full(len(rows[0]), float(level))
    got = hypervolume(values, reference)
    assert got == pytest.approx(inclusion_exclusion(values, reference), abs=1e-9)
    assert hypervolume(values[::-1], reference) == pytest.approx(got, abs=1e-9)
    assert hypervolume(values[:, ::-1], reference) == pytest.approx(got, abs=1e-9)
    assert hypervolume(np.concatenate([values, values[:1] + 1.0]), reference) >= got
    lower = hypervolume(values, reference - 1.0)
    assert lower > got if (values > reference - 1.0).all(axis=1).any() else lower == 0


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_hypervolume_against_monte_carlo(k, rng):
    directions = np.abs(rng.normal(size=(40, k)))
    front = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    draws = rng.uniform(size=(200_000, k))
    inside = np.zeros(len(draws), bool)
    for row in front:
        inside |= (draws <= row).all(axis=1)
    p = inside.mean()
    assert abs(hypervolume(front, np.zeros(k)) - p) < 4.5 * np.sqrt(p * (1 - p) / len(draws))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_boxes_say_what_an_outcome_adds(k, rng):
    """Disjoint, clear of what is dominated, and the sum over them is the growth of the hypervolume."""
    front, reference = np.round(rng.uniform(size=(12, k)), 1), np.full(k, 0.05)
    boxes = improvement_boxes(front, reference)
    now = hypervolume(front, reference)
    outcomes = rng.uniform(-0.1, 1.3, size=(60, k))
    for y in outcomes:
        got = np.prod(np.maximum(np.minimum(y, boxes.upper) - boxes.lower, 0.0), axis=1).sum()
        want = hypervolume(np.concatenate([front, y[None]]), reference) - now
        assert got == pytest.approx(want, abs=1e-12)
    inside = ((outcomes[:, None] > boxes.lower) & (outcomes[:, None] < boxes.upper)).all(axis=2).sum(axis=1)
    beyond = np.array([not (front >= y).all(axis=1).any() and (y > reference).all() for y in outcomes])
    np.testing.assert_array_equal(inside, beyond)


def test_boxes_are_few(rng):
    for k, most in ((2, 31), (3, 61)):
        directions = np.abs(rng.normal(size=(30, k)))
        boxes = improvement_boxes(directions / np.linalg.norm(directions, axis=1, keepdims=True), np.zeros(k))
        assert isinstance(boxes, Boxes) and len(boxes.lower) <= most
    alone = improvement_boxes([[-1.0, -1.0]], [0.0, 0.0])  # nothing above the reference: all of it is new
    np.testing.assert_array_equal(alone.lower, [[0.0, 0.0]])
    np.testing.assert_array_equal(alone.upper, [[np.inf, np.inf]])


def test_ten_thousand_rows_are_no_wait(rng):
    scattered = rng.normal(size=(10_000, 3))
    on_the_front = np.abs(scattered) / np.linalg.norm(scattered, axis=1, keepdims=True)
    for values, most in ((scattered, 0.5), (on_the_front, 5.0)):
        began = time.process_time()
        mask = non_dominated(values)
        assert time.process_time() - began < most
        some = rng.choice(10_000, 50, replace=False)
        want = [not ((values >= y).all(axis=1) & (values > y).any(axis=1)).any() for y in values[some]]
        np.testing.assert_array_equal(mask[some], want)


def test_reference_point():
    values = np.array([[0.0, 10.0], [1.0, 0.0], [0.5, 5.0], [-9.0, -9.0]])
    np.testing.assert_allclose(reference_point(values), [-0.1, -1.0])
    np.testing.assert_allclose(reference_point([[1.0, 2.0], [1.0, 0.0]]), [0.9, 1.8])  # one row on the front
    np.testing.assert_allclose(reference_point([[0.0, -4.0]], margin=0.5), [-0.5, -6.0])
    assert hypervolume(values, reference_point(values)) > 0


def test_bad_input():
    with pytest.raises(DataError, match="values must be a table"):
        non_dominated([1.0, 2.0])
    with pytest.raises(DataError, match="values contains NaN at row 1, column 0"):
        non_dominated([[1.0, 2.0], [np.nan, 1.0]])
    with pytest.raises(DataError, match="reference must have one value per row: 2 are expected, found 3"):
        hypervolume([[1.0, 2.0]], [0.0, 0.0, 0.0])
