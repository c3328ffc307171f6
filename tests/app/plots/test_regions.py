"""Pictures of classes over two inputs: colours, lines and points are where the belief and the data say."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import credo
from credo import plots
from credo.app.plots.regions import COLOURS
from credo.errors import DataError
from credo.losses import CostMatrix
from credo.plots import decision_regions, doubt

RNG = np.random.default_rng(2)
X = RNG.normal(size=(60, 3)) + np.array([0.0, 0.0, 5.0])
TWO = np.where(X[:, 0] - X[:, 1] + 0.5 * RNG.normal(size=60) > 0, "up", "down")
THREE = np.argmax(X[:, :2] @ np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 2.0]]) + RNG.gumbel(size=(60, 3)), axis=1)


@pytest.fixture(scope="module")
def two():
    return credo.Logistic().condition(X, TWO)


@pytest.fixture(scope="module")
def three():
    return credo.Softmax().condition(X, THREE)


def grid_of(image, n):
    left, right, bottom, top = image.get_extent()
    across, up = ((np.arange(n) + 0.5) / n * (b - a) + a for a, b in ((left, right), (bottom, top)))
    return np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)


def test_colours_are_the_most_probable_class(three):
    ax = decision_regions(three, X, THREE, grid=12)
    (image,) = ax.images
    at = grid_of(image, 12)
    rows = np.column_stack([at, np.full(144, np.median(X[:, 2]))])
    probs = np.asarray(three.predict(rows).probs)
    base = np.asarray([to_rgb(COLOURS[i]) for i in probs.argmax(1)])
    strength = 0.12 + 0.5 * (probs.max(1) - 1 / 3) / (2 / 3)
    np.testing.assert_allclose(image.get_array().reshape(144, 3), 1 - strength[:, None] * (1 - base), atol=1e-8)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]
    assert [len(line.get_xdata()) for line in ax.lines] == np.bincount(THREE).tolist()
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), X[THREE == 1, :2])
    assert ax.get_title(loc="left") == f"other inputs at their medians: x2 = {np.median(X[:, 2]):.3g}"
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    assert left < X[:, 0].min() and right > X[:, 0].max() and bottom < X[:, 1].min() and top > X[:, 1].max()


def test_lines_are_where_the_probability_is_what_they_say(two):
    ax = decision_regions(two, X, columns=(1, 0), grid=60)
    (lines,) = (c for c in ax.collections if hasattr(c, "levels"))
    np.testing.assert_allclose(lines.levels, [0.1, 0.25, 0.5, 0.75, 0.9])
    middle = lines.get_paths()[2].vertices
    rows = np.column_stack([middle[:, 1], middle[:, 0], np.full(len(middle), np.median(X[:, 2]))])
    np.testing.assert_allclose(two.predict(rows).probs[:, 1], 0.5, atol=0.01)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x1", "x0")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["down", "up"]


def test_costs_move_the_border(two):
    costs = CostMatrix([[0.0, 1.0], [9.0, 0.0]])  # "up" only where its probability is above 0.9
    given = plots.new_axes()
    ax = decision_regions(two, X, TWO, grid=20, loss=costs, ax=given)
    assert ax is given
    at = grid_of(ax.images[0], 20)
    p_up = np.asarray(two.predict(np.column_stack([at, np.full(400, np.median(X[:, 2]))])).probs[:, 1])
    shade = ax.images[0].get_array().reshape(400, 3)
    is_orange = shade[:, 0] > shade[:, 2]
    np.testing.assert_array_equal(is_orange, p_up > 0.9)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["down", "up", "do: down", "do: up"]
    careful = decision_regions(two, X, grid=20, loss=CostMatrix([[0, 1.0], [1.0, 0]], 0.2, ["stop", "go"]))
    assert [t.get_text() for t in careful.get_legend().get_texts()] == ["do: stop", "do: go", "do: reject"]


def test_doubt_side_by_side(two):
    figure = doubt(two, X, TWO, columns=("x0", "x2"), grid=15)
    images = [ax.images[0] for ax in figure.axes[:2]]
    at = grid_of(images[0], 15)
    p = two.predict(np.column_stack([at[:, 0], np.full(225, np.median(X[:, 1])), at[:, 1]]))
    np.testing.assert_allclose(images[0].get_array().ravel(), p.aleatoric, atol=1e-8)
    np.testing.assert_allclose(images[1].get_array().ravel(), np.maximum(p.epistemic, 0), atol=1e-8)
    assert [ax.get_title(loc="left") for ax in figure.axes[:2]] == [
        "noise (aleatoric), nats",
        "ignorance (epistemic), nats",
    ]
    assert "x1 = " in figure.get_suptitle()


def test_refusals(two):
    with pytest.raises(DataError, match="columns must be two different inputs of x0, x1, x2, found"):
        decision_regions(two, X, columns=(0, 0), grid=5)
    with pytest.raises(DataError, match=r"found \('x0', 'size'\)"):
        decision_regions(two, X, columns=("x0", "size"), grid=5)
    with pytest.raises(DataError, match="grid must be a whole number of at least 2"):
        doubt(two, X, grid=1)
    with pytest.raises(DataError, match="y holds 'left', which is not a class of the belief"):
        decision_regions(two, X, np.where(TWO == "up", "up", "left"), grid=5)
    with pytest.raises(DataError, match=r"one class per row of X \(60\), found shape \(3,\)"):
        decision_regions(two, X, TWO[:3], grid=5)
    with pytest.raises(DataError, match="beliefs about classes, found a Normal prediction"):
        decision_regions(credo.Linear().condition(X, X[:, 0]), X, grid=5)
    with pytest.raises(DataError, match="loss must be a loss of classes"):
        decision_regions(two, X, grid=5, loss=[[0, 1], [1, 0]])
