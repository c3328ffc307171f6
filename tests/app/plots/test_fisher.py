"""Fisher's projection as a picture: points are the projected rows, circles the classes'."""

import numpy as np
import pytest

import credo
from credo.errors import DataError
from credo.plots import separation

RNG = np.random.default_rng(0)
CODES = np.repeat([0, 1, 2], 30)
X = RNG.normal(size=(90, 4)) + 3.0 * np.eye(3, 4)[CODES]
Y = np.array(["a", "b", "c"])[CODES]


def test_points_are_the_projected_rows_and_circles_hold_their_classes():
    fisher = credo.Discriminant("tied").condition(X, Y).fisher()
    ax = separation(fisher, X, Y)
    drawn = np.concatenate([np.asarray(each.get_offsets()) for each in ax.collections])
    np.testing.assert_allclose(drawn, fisher(X)[np.argsort(CODES, kind="stable")][:, :2])
    away = [np.hypot(*(fisher(X[i == CODES])[:, :2] - p.center).T) / p.radius for i, p in enumerate(ax.patches)]
    held = [np.mean(each < 1) for each in away]
    assert np.all(np.abs(np.array(held) - 0.95) < 4.5 * np.sqrt(0.95 * 0.05 / 30))
    assert "direction 1" in ax.get_xlabel() and [t.get_text() for t in ax.get_legend().get_texts()] == ["a", "b", "c"]


def test_two_classes_have_one_direction():
    keep = CODES < 2
    fisher = credo.Discriminant("tied").condition(X[keep], Y[keep]).fisher()
    ax = separation(fisher, X[keep], Y[keep], level=0.5)
    assert len(ax.lines) == 2 and ax.get_ylabel() == ""
    with pytest.raises(DataError, match="class of each of the 60 rows"):
        separation(fisher, X[keep], Y)
