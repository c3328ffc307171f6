"""Pictures of maps."""

import numpy as np
import pytest

from credo import plots
from credo.errors import DataError
from credo.models.gp.spatial import Grid, Map, Variogram

MADE = Map(
    Grid(np.arange(4.0), np.arange(3.0)), {"mean": np.arange(12.0).reshape(3, 4), "exceeds": np.full((3, 4), 0.2)}
)


def test_a_layer_is_drawn_where_it_is():
    ax = plots.field_map(MADE, points=np.array([[1.0, 1.0]]))
    (image,) = ax.images
    np.testing.assert_allclose(image.get_extent(), [-0.5, 3.5, -0.5, 2.5])
    np.testing.assert_allclose(image.get_array(), MADE.mean)
    assert image.origin == "lower" and ax.get_xlabel() == "x"
    assert plots.field_map(MADE, "exceeds").images[0].get_clim() == (0.0, 1.0)
    with pytest.raises(DataError, match="it has mean, exceeds"):
        plots.field_map(MADE, "sd")


def test_a_variogram_is_drawn_with_the_learned_one():
    found = Variogram(np.array([1.0, 2.0]), np.array([0.5, 0.9]), np.array([10, 20]))
    assert len(plots.variogram(found).lines) == 0
    ax = plots.variogram(found._replace(learned=(np.linspace(0, 2, 5), np.linspace(0.2, 1, 5))), "km")
    assert "km" in ax.get_xlabel() and len(ax.lines) == 2
