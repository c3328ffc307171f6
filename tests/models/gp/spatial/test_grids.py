"""Grids cover their points, and what is written can be read again."""

import importlib.util

import numpy as np
import pytest

from credo.core.errors import DataError
from credo.models.gp.spatial import Grid, Map, empirical_variogram

GRID = Grid(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0]))
LAYERS = {"mean": np.arange(6.0).reshape(2, 3), "sd": np.full((2, 3), 0.5)}


def test_a_grid_covers_its_points_with_square_cells():
    points = np.array([[0.0, 0.0], [4.0, 1.0]])
    grid = Grid.around(points)
    assert grid.x[0] < 0 < 4 < grid.x[-1] and 5000 < np.prod(grid.shape) < 20000
    np.testing.assert_allclose(grid.cell[0], grid.cell[1], rtol=0.05)
    assert Grid.around(points, (7, 5)).shape == (5, 7)
    np.testing.assert_allclose(Grid.around(points, size=0.1).cell, 0.1, rtol=0.1)
    for options in ({"cells": (7, 1)}, {"cells": (7, 5), "size": 1.0}, {"size": 0.0}, {"size": 1e-6}):
        with pytest.raises(DataError):
            Grid.around(points, **options)


def test_a_grid_of_a_line_has_it_in_the_middle_and_units_may_differ():
    line = Grid.around(np.array([[0.0, 3.0], [10.0, 3.0]]))
    np.testing.assert_allclose([line.x.mean(), line.y.mean()], [5.0, 3.0])
    assert Grid.around(np.array([[0.0, 0.0], [1e6, 1e-3]])).shape == (100, 100)


def test_degrees_end_at_the_poles_and_after_a_turn():
    world = np.array([[-179.0, -89.0], [179.0, 89.5], [0.0, 0.0]])
    grid = Grid.around(world, lonlat=True)
    (width, height), (x, y) = grid.cell, grid
    assert y[0] - height / 2 >= -90 - 1e-9 and y[-1] + height / 2 <= 90 + 1e-9
    np.testing.assert_allclose(x[-1] - x[0] + width, 360.0)
    areas = Map(grid, {}, lonlat=True).areas  # the share of a sphere above 30° is a quarter
    np.testing.assert_allclose([areas.sum(), areas[y > 30].sum()], [1.0, 0.25], atol=0.01)
    assert np.prod(Grid.around(np.array([[0.0, 89.0], [90.0, 89.9]]), lonlat=True).shape) < 40_000


def test_tables_and_arrays_can_be_read_again(tmp_path):
    made = Map(GRID, LAYERS, ("lon", "lat"))
    table = np.genfromtxt(made.write(tmp_path / "map.csv"), delimiter=",", names=True)
    np.testing.assert_allclose(table["lon"], [1, 2, 3, 1, 2, 3])
    np.testing.assert_allclose(table["lat"], [10, 10, 10, 20, 20, 20])
    np.testing.assert_allclose(table["mean"], np.arange(6.0))
    with np.load(made.write(tmp_path / "map.npz"), allow_pickle=False) as read:
        np.testing.assert_allclose(read["sd"], LAYERS["sd"])
        np.testing.assert_allclose(read["y"], GRID.y)
    with pytest.raises(DataError, match=".csv, .npz or .tif"):
        made.write(tmp_path / "map.xls")
    np.testing.assert_allclose(made.exceeds(0.0)[0, 0], 0.5)
    sure = Map(GRID, LAYERS | {"sd": np.zeros((2, 3))})
    np.testing.assert_allclose(sure.exceeds(2.5), LAYERS["mean"] > 2.5)


def test_a_geotiff_has_north_up(tmp_path):
    made = Map(GRID, LAYERS, lonlat=True)
    if importlib.util.find_spec("rasterio") is None:
        with pytest.raises(DataError, match="needs rasterio"):
            made.write(tmp_path / "map.tif")
        assert not list(tmp_path.iterdir())
        return
    import rasterio

    with rasterio.open(made.write(tmp_path / "map.tif")) as read:
        np.testing.assert_allclose(read.read(1), np.flipud(LAYERS["mean"]))
        assert read.descriptions == ("mean", "sd") and read.crs.to_epsg() == 4326
        np.testing.assert_allclose([read.bounds.left, read.bounds.top], [0.5, 25.0])


def test_a_variogram_is_half_the_mean_square_of_pairs():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(40, 2)), rng.normal(size=40)
    assert empirical_variogram([[1.0, 1.0], [2.0, 2.0], [2.0, 3.0]], y[:3]).distance == [1.0]
    found = empirical_variogram(x, y, classes=4, most=0.8)
    i, j = np.triu_indices(40, 1)
    distance, square = np.linalg.norm(x[i] - x[j], axis=1), 0.5 * (y[i] - y[j]) ** 2
    for c in range(4):
        inside = (distance >= 0.2 * c) & (distance < 0.2 * (c + 1))
        np.testing.assert_allclose(found.gamma[c], square[inside].mean())
        np.testing.assert_allclose(found.distance[c], distance[inside].mean())
        assert found.pairs[c] == inside.sum()
    wild = np.where(np.arange(40) == 3, 100.0, y)
    assert empirical_variogram(x, wild, robust=True).gamma.mean() < 0.3 * empirical_variogram(x, wild).gamma.mean()
    with pytest.raises(DataError, match="three points"):
        empirical_variogram(x[:2], y[:2])
    with pytest.raises(DataError, match="the nearest are 1 apart"):
        empirical_variogram([[1.0, 1.0], [2.0, 2.0], [2.0, 3.0]], y[:3], most=0.5)
    with pytest.raises(DataError, match="one place"):
        empirical_variogram(np.ones((5, 2)), y[:5])
