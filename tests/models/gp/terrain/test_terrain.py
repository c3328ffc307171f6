"""Terrain: a dense Gaussian process on cell means, scans in any order, updates, doubt, outliers."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

import credo
from credo.errors import DataError, MisfitWarning
from credo.kernels import RBF, Exponential, Linear, Matern32
from credo.models.gp.terrain import Images, Terrain
from credo.models.gp.terrain.belief import levelled
from credo.models.gp.terrain.lattice import Cells, merged, parent_of, place_of

CELL, NOISE, MEAN = 0.5, 0.04, 2.0


def matern(d: np.ndarray, length: float = 2.0, variance: float = 1.5) -> np.ndarray:
    r = np.sqrt(3.0) * d / length
    return variance * (1 + r) * np.exp(-r)


def ground(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return MEAN + np.sin(x) + 0.5 * np.cos(1.3 * y + 0.5 * x)


def cloud(n: int, seed: int = 0, side: float = 4.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, side, (n, 2))
    return np.column_stack([xy, ground(*xy.T) + np.sqrt(NOISE) * rng.normal(size=n)])


def terrain(**options) -> Terrain:
    return Terrain(CELL, Matern32(2.0, 1.5), mean=MEAN, noise=NOISE, **options)


class Dense:
    """Cell means and their Gaussian process by a dense solve, without any code of credo."""

    def __init__(self, points: np.ndarray):
        cells: dict[tuple[int, int], list[float]] = {}
        for x, y, z in points:
            cells.setdefault((int(np.floor(x / CELL)), int(np.floor(y / CELL))), []).append(z)
        self.at = (np.array(list(cells)) + 0.5) * CELL
        self.groups = list(cells.values())
        self.y = np.array([np.mean(g) for g in self.groups]) - MEAN
        self.k = matern(cdist(self.at, self.at)) + np.diag([NOISE / len(g) for g in self.groups])

    def predict(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cross = matern(cdist(q, self.at))
        solved = np.linalg.solve(self.k, cross.T)
        return MEAN + solved.T @ self.y, matern(np.zeros(1)) - (cross.T * solved).sum(0)

    def gradient(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the difference quotients over two cells at one place."""
        ends = q + CELL * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        quotient = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]) / (2 * CELL)
        cross = matern(cdist(ends, self.at))
        spread = matern(cdist(ends, ends)) - cross @ np.linalg.solve(self.k, cross.T)
        return quotient @ cross @ np.linalg.solve(self.k, self.y), quotient @ spread @ quotient.T

    def log_evidence(self) -> float:
        """Of all returns, with the full covariance."""
        z = np.concatenate(self.groups) - MEAN
        at = np.repeat(self.at, [len(g) for g in self.groups], axis=0)
        k = matern(cdist(at, at)) + NOISE * np.eye(len(z))
        return float(-0.5 * (z @ np.linalg.solve(k, z) + np.linalg.slogdet(2 * np.pi * k)[1]))


QUERIES = np.random.default_rng(1).uniform(0, 4, (30, 2))


def test_with_a_stencil_over_the_whole_map_it_is_the_dense_gaussian_process():
    points = cloud(150)
    dense, belief = Dense(points), terrain(reach=8).condition(points)
    mean, variance = dense.predict(QUERIES)
    p = belief.predict(QUERIES)
    np.testing.assert_allclose(p.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(p.epistemic, variance, rtol=1e-8)
    np.testing.assert_allclose(p.aleatoric, NOISE)
    np.testing.assert_allclose(terrain(reach=8).log_evidence(points), dense.log_evidence(), rtol=1e-10)


def test_it_converges_to_the_dense_one_as_the_stencil_grows():
    points = cloud(150)
    mean, variance = Dense(points).predict(QUERIES)
    off = []
    for reach in (1, 2, 4, 8):
        p = terrain(reach=reach).condition(points).predict(QUERIES)
        off.append([np.abs(p.mean - mean).max(), np.abs(p.epistemic - variance).max()])
    assert np.all(np.diff(np.array(off), axis=0) < 1e-9)
    assert off[1][0] < 0.3 * np.sqrt(variance).max()


@pytest.mark.parametrize("kernel", [Exponential(2.0, 1.5), Matern32(2.0, 1.5) + Exponential(0.5, 0.1)])
def test_slopes_are_difference_quotients_over_two_cells(kernel):
    belief = Terrain(CELL, kernel, mean=MEAN, noise=NOISE, reach=8, levels=0).condition(cloud(150))
    middle = np.array([[1.75, 2.25], [0.25, 3.25]])
    found = belief.gradient(middle)
    for i in range(2):
        move = np.eye(2)[i] * CELL
        both = [belief.predict(middle + sign * move).mean for sign in (1, -1)]
        np.testing.assert_allclose(found.mean[:, i], (both[0] - both[1]) / (2 * CELL), rtol=1e-9, atol=1e-12)
    assert np.all(np.linalg.eigvalsh(found.covariance) > 0)


def test_slopes_and_their_doubt_are_those_of_the_dense_one():
    points = cloud(150)
    found, dense = terrain(reach=8, levels=0).condition(points).gradient(QUERIES), Dense(points)
    for q, mean, covariance in zip(QUERIES, found.mean, found.covariance, strict=True):
        want = dense.gradient(q)
        np.testing.assert_allclose(mean, want[0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(covariance, want[1], rtol=1e-7, atol=1e-9)


def test_two_scans_are_one_and_an_update_is_a_map_from_scratch():
    points = cloud(2400, side=20.0)
    west = points[:, 0] < 11
    parts = [points[west][::2], points[west][1::2], points[~west]]
    belief = terrain()
    for part in parts:
        belief = belief.condition(part)
    whole = terrain().condition(points)
    assert belief.rejected == whole.rejected == 0
    np.testing.assert_array_equal(belief.seen.levels[0].key, whole.seen.levels[0].key)
    for one, other in zip(belief.seen.levels, whole.seen.levels, strict=True):
        np.testing.assert_allclose(one.table, other.table, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(belief.seen.surface, whole.seen.surface, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(belief.seen.taken, whole.seen.taken)


def test_gaps_are_seen_through_coarser_cells():
    points = cloud(6000, side=20.0)
    hole = np.abs(points[:, :2] - 10).max(1) < 3
    inside = np.array([[10.0, 10.0], [9.0, 11.0], [12.0, 8.5]])
    with_levels = terrain().condition(points[~hole]).predict(inside)
    without = terrain(levels=0).condition(points[~hole]).predict(inside)
    assert np.all(with_levels.epistemic < without.epistemic)
    np.testing.assert_allclose(without.mean[:2], MEAN)  # nothing in the stencil: the prior
    mean, variance = Dense(points[~hole]).predict(inside)
    more = with_levels.epistemic - variance  # of a law given less: the variance of what its mean is off by
    assert np.all(more > -1e-9) and np.all(more < 0.3 * variance)
    assert np.all(np.abs(with_levels.mean - mean) < 3 * np.sqrt(more))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [Exponential(3.0, 1.0), Matern32(2.0, 1.0)])
def test_intervals_hold_what_they_say_on_surfaces_drawn_from_the_model(kernel):
    """Cell middles and a dense draw; 95 % intervals of the ground at other cells, within 2 points."""
    rng = np.random.default_rng(0)
    side = 36
    places = (np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2) + 0.5) * CELL
    root = np.linalg.cholesky(np.asarray(kernel.gram(places, places)) + 1e-10 * np.eye(side**2))
    inside = []
    for _ in range(8):
        h = MEAN + root @ rng.normal(size=side**2)
        seen = rng.uniform(size=side**2) < 0.4
        where = rng.choice(np.flatnonzero(seen), 900)
        points = np.column_stack([places[where], h[where] + np.sqrt(NOISE) * rng.normal(size=900)])
        belief = Terrain(CELL, kernel, mean=MEAN, noise=NOISE).condition(points)
        p = belief.predict(places)
        inside.append(np.mean(np.abs(p.mean - h) < 1.96 * np.sqrt(p.epistemic)))
    assert 0.93 < np.mean(inside) < 0.97


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [Exponential(2.0, 1.0), Matern32(2.0, 1.0)])
def test_the_kernel_is_as_rough_as_the_ground_and_numbers_come_back(kernel):
    rng = np.random.default_rng(3)
    side = 40
    places = (np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2) + 0.5) * 0.25
    root = np.linalg.cholesky(np.asarray(kernel.gram(places, places)) + 1e-10 * np.eye(side**2))
    h = 5.0 + root @ rng.normal(size=side**2)
    where = rng.integers(0, side**2, 6000)
    points = np.column_stack([places[where], h[where] + 0.1 * rng.normal(size=6000)])
    belief = credo.fit(Terrain(0.25), points)
    assert type(belief.kernel) is type(kernel)
    assert 0.009 < belief.noise < 0.011
    short = np.asarray(belief.kernel.gram(places[:1], places[1:3])) - float(belief.kernel.variance)
    want = np.asarray(kernel.gram(places[:1], places[1:3])) - 1.0
    np.testing.assert_allclose(short, want, rtol=0.25)  # what differs from cell to cell is well determined


def test_gross_outliers_do_not_move_the_surface():
    rng = np.random.default_rng(5)
    points = cloud(8000, side=20.0)
    odd = rng.uniform(size=8000) < 0.05
    spoilt = points.copy()
    spoilt[odd, 2] += rng.uniform(2.5, 6, odd.sum()) * rng.choice([-1, 1], odd.sum())
    clean, robust = terrain().condition(points), terrain().condition(spoilt)
    naive = terrain(gate=0).condition(spoilt)
    assert 0.97 * odd.sum() < robust.rejected < 1.05 * odd.sum()
    assert clean.rejected <= 2
    moved = [np.abs(b.predict(points[:500, :2]).mean - clean.predict(points[:500, :2]).mean) for b in (robust, naive)]
    assert np.quantile(moved[0], 0.99) < 0.1 and np.quantile(moved[1], 0.5) > 0.1
    later = terrain().condition(points[:4000]).condition(spoilt[4000:])  # against a map that is there already
    assert np.abs(later.predict(points[:500, :2]).mean - clean.predict(points[:500, :2]).mean).max() < 0.2


def test_a_wrong_patch_is_revised_when_returns_outweigh_it():
    points = cloud(3000, side=8.0)
    patch = np.abs(points[:, :2] - 4).max(1) < 1
    wrong = points.copy()
    wrong[patch, 2] += 3.0
    belief = terrain().condition(wrong[::3])
    with pytest.warns(MisfitWarning, match="set aside"):
        again = belief.condition(points[patch])
    for part in (points[patch] + [0, 0, 0.01], points[patch]):
        again = again.condition(part)
    at = np.array([[4.25, 4.25], [3.75, 4.25]])
    assert np.all(np.abs(belief.predict(at).mean - ground(*at.T)) > 2)
    assert np.all(np.abs(again.predict(at).mean - ground(*at.T)) < 0.3)


def test_gravity_turns_the_cloud():
    points = cloud(200)
    plain = terrain().condition(points)
    np.testing.assert_allclose(
        terrain().condition(points[:, [0, 2, 1]] * [1, -1, 1], gravity=[0, 1, 0]).predict(QUERIES).mean,
        plain.predict(QUERIES).mean,
    )
    upside = terrain().condition(points * [1, -1, -1], gravity=[0, 0, 2])
    np.testing.assert_allclose(upside.predict(QUERIES).mean, plain.predict(QUERIES).mean)


@pytest.mark.parametrize("down", [[0.3, -0.2, -1], [3, 4, 5], [0, 9.81, 0], [1e-6, 0, 1], [1e200, 0, -1e200]])
def test_gravity_of_any_length_is_the_shortest_turn(down):
    unit = np.array(down) / np.abs(down).max()
    unit /= np.linalg.norm(unit)
    axis = np.cross(unit, [0.0, 0.0, -1.0])
    turn = np.arctan2(np.linalg.norm(axis), -unit[2])
    points = cloud(30)
    want = Rotation.from_rotvec(axis / np.linalg.norm(axis) * turn).apply(points)
    np.testing.assert_allclose(levelled(points, down), want, atol=1e-7)


def test_elevations_that_are_rounded_are_not_taken_for_exact():
    points = cloud(2000)
    points[:, 2] = np.round(points[:, 2] / 0.8) * 0.8
    belief = Terrain(CELL).condition(points)
    assert 0.02 < belief.noise < 0.4 and belief.rejected < 20


def test_returns_have_weights():
    points = cloud(100)
    twice = terrain().condition(np.concatenate([points, points[:50]]))
    w = np.where(np.arange(100) < 50, 2.0, 1.0)
    for belief in (terrain().condition(points, weights=w), terrain().condition(points, noise=NOISE / w)):
        np.testing.assert_allclose(belief.predict(QUERIES).mean, twice.predict(QUERIES).mean, rtol=1e-10)
        np.testing.assert_allclose(belief.predict(QUERIES).epistemic, twice.predict(QUERIES).epistemic, rtol=1e-9)


def test_another_origin_and_other_units_are_the_same_ground():
    points = cloud(300)
    plain = terrain().condition(points)
    shift = np.array([CELL * 4096, -CELL * 512, 70.0])
    moved = Terrain(CELL, Matern32(2.0, 1.5), mean=MEAN + 70, noise=NOISE).condition(points + shift)
    p, q = plain.predict(QUERIES), moved.predict(QUERIES + shift[:2])
    np.testing.assert_allclose(q.mean - 70, p.mean, rtol=1e-8)
    np.testing.assert_allclose(q.epistemic, p.epistemic, rtol=1e-7)
    feet = 1 / 0.3048
    scaled = Terrain(CELL * feet, Matern32(2.0 * feet, 1.5 * feet**2), mean=MEAN * feet, noise=NOISE * feet**2)
    r = scaled.condition(points * feet).predict(QUERIES * feet)
    np.testing.assert_allclose(r.mean / feet, p.mean, rtol=1e-8)
    np.testing.assert_allclose(r.epistemic / feet**2, p.epistemic, rtol=1e-7)


def test_images_and_maps():
    belief = terrain().condition(cloud(60))
    images = belief.images()
    assert isinstance(images, Images) and images.elevation.shape == images.grid.shape
    found = belief.surface(images.grid.places)
    np.testing.assert_allclose(images.elevation.ravel(), found[:, 0], rtol=1e-9)
    np.testing.assert_allclose(images.variance.ravel(), found[:, 3], rtol=1e-7)
    np.testing.assert_allclose(images.gradient.reshape(-1, 2), found[:, 1:3], rtol=1e-7, atol=1e-9)
    made = belief.map()
    assert set(made.layers) == {"mean", "sd", "slope", "slope_sd", "aspect", "aspect_sd"}
    other = belief.images(made.grid._replace(x=made.grid.x + 0.1))
    np.testing.assert_allclose(other.elevation.ravel(), belief.predict(other.grid.places).mean)


def test_a_file_brings_a_map_back_and_it_grows(tmp_path):
    belief = terrain().condition(cloud(200))
    again = credo.load(credo.save(belief, tmp_path / "ground"))
    more = cloud(200, seed=9)
    np.testing.assert_array_equal(
        again.condition(more).predict(QUERIES).mean, belief.condition(more).predict(QUERIES).mean
    )


def test_cells_add_up():
    points = cloud(500) - [2.0, 2.0, 0.0]
    key = terrain().keys(points[:, :2])
    both = merged(Cells.of(key[:200], points[:200], np.ones(200)), Cells.of(key[200:], points[200:], np.ones(300)))
    whole = Cells.of(key, points, np.ones(500))
    np.testing.assert_array_equal(both.cells.key, whole.key)
    np.testing.assert_allclose(both.cells.table, whole.table, atol=1e-11)
    coarse = whole.coarser()
    column, row = place_of(coarse.key)
    for k, x, y in zip(coarse.key, column, row, strict=True):
        inside = np.all(np.floor(points[:, :2] / (4 * CELL)) == [x, y], axis=1)
        np.testing.assert_allclose(coarse.table[coarse.key == k][0, 2], points[inside, 2].mean())
    assert np.all(np.isin(parent_of(whole.key), coarse.key))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: terrain().condition(np.zeros((3, 2))), "x, y and z"),
        (lambda: terrain().condition([[0, 0, np.nan]]), "contains NaN"),
        (lambda: terrain().condition(np.zeros((0, 3))), "points"),
        (lambda: terrain().condition([[1e30, 0, 0]]), "cells"),
        (lambda: terrain().condition(cloud(5), gravity=[0, 0, 0]), "gravity must be a direction"),
        (lambda: terrain().condition(cloud(5), noise=1.0, weights=np.ones(5)), "not both"),
        (lambda: terrain().condition(cloud(5), noise=-1.0), "noise"),
        (lambda: terrain().condition(cloud(5), noise=[0.1, 0.2]), "one value per row: 5"),
        (lambda: terrain(reach=200), "reach must be at most 40"),
        (lambda: terrain().condition(cloud(5)).map((3, 3)), "grid must be a Grid"),
        (lambda: terrain().condition(cloud(5), cloud(5)), "one cloud"),
        (lambda: terrain().images(), "no returns yet"),
        (lambda: terrain().condition([[0, 0, 0.0], [1e7, 1e7, 0.0]]).images(), "give a grid"),
        (lambda: Terrain().condition([[0, 0, 0.0], [0, 0, 1.0]]), "give cell"),
        (lambda: Terrain(-1.0), "cell"),
        (lambda: Terrain(1.0, Linear()), "stationary"),
        (lambda: Terrain(1.0, RBF(), noise=0.0), "noise"),
        (lambda: terrain().predict([[0.0, 1.0, 2.0]]), "places"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_is_said_in_a_sentence(call, words):
    with pytest.raises(DataError, match=words):
        call()
