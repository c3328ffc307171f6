"""Registration: known poses come back within their doubt, closures are as probable as stated, also on real relief."""

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import map_coordinates
from scipy.special import expit

import credo
from credo.errors import DataError, MisfitWarning
from credo.kernels import Exponential, Kernel, Matern32
from credo.models.gp.terrain import Registration, Slopes, Terrain, closure_probability, register
from credo.models.gp.terrain.search import correlations, rotation

FINE, SIDE = 0.1, 200


def surface(rng: np.random.Generator, kernel: Kernel) -> np.ndarray:
    """A draw of the kernel on 20 m × 20 m by circulant embedding."""
    m = 2 * SIDE
    d = np.minimum(np.arange(m), m - np.arange(m)) * FINE
    lags = np.stack(np.meshgrid(d, d), -1).reshape(-1, 2)
    k = np.asarray(kernel.gram(lags, np.zeros((1, 2)))).reshape(m, m)
    root = np.sqrt(np.maximum(np.fft.fft2(k).real, 0.0) / m**2)
    noise = rng.normal(size=(m, m)) + 1j * rng.normal(size=(m, m))
    return np.fft.fft2(root * noise).real[:SIDE, :SIDE]


def look(rng, ground, centre, half, n, noise, pose) -> np.ndarray:
    """A cloud of a square around the centre, in the frame that the pose (x, y, z, θ) takes to that of the ground."""
    xy = centre + rng.uniform(-half, half, (n, 2)) @ rotation(rng.uniform(0, 6)).T
    z = map_coordinates(ground, [xy[:, 1] / FINE - 0.5, xy[:, 0] / FINE - 0.5], order=1, mode="nearest")
    z = z + noise * rng.normal(size=n) - pose[2]
    return np.column_stack([(xy - pose[:2]) @ rotation(pose[3]), z])


def pair(seed: int, kernel: Kernel, half: float, n: int, noise: float, same: bool = True):
    rng = np.random.default_rng(seed)
    grounds = [surface(rng, kernel)] * 2 if same else [surface(rng, kernel) for _ in range(2)]
    pose = np.array([*rng.uniform(-20, 20, 2), rng.uniform(-2, 2), rng.uniform(-np.pi, np.pi)])
    centres = [np.full(2, 10.0), 10.0 + rng.uniform(-0.5, 0.5, 2) * half]
    empty = Terrain(0.2, kernel, mean=0.0, noise=noise**2 + 0.002)
    maps = [
        empty.condition(look(rng, ground, centre, half, n, noise, p))
        for ground, centre, p in zip(grounds, centres, (np.zeros(4), pose), strict=True)
    ]
    return maps[0], maps[1], pose


def off(found: Registration, pose: np.ndarray) -> np.ndarray:
    out = found.mean - pose
    out[3] = np.angle(np.exp(1j * out[3]))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [Matern32(2.0, 1.0), Exponential(4.0, 1.0)])
def test_a_known_pose_comes_back_within_its_doubt(kernel):
    """Squared errors in units of the covariance have expectation 4: here ten of them, each also below four sd."""
    squares = []
    for seed in range(10):
        a, b, pose = pair(seed, kernel, 4.0, 6000, 0.05)
        found = register(a, b)
        error = off(found, pose)
        assert np.all(np.abs(error) < 4 * found.std) and np.all(found.std[2:] < 0.02)
        assert found.closure_probability() > 0.99
        squares.append(error @ np.linalg.solve(found.covariance, error))
    assert 4 - 3 * np.sqrt(8 / 10) < np.mean(squares) < 4 + 3 * np.sqrt(8 / 10)


@pytest.mark.slow
def test_closures_are_as_probable_as_stated():
    """Pairs of one place and of two, from easy to hopeless; none of those that were used for `ALIKE`."""
    stated, truth = [], []
    for seed in range(24):
        kernel = (Matern32(2.0, 1.0), Exponential(4.0, 1.0), Matern32(1.0, 1.0))[seed % 3]
        same, noise = seed % 2 == 0, (0.05, 0.1, 0.3)[seed // 8]
        a, b, _ = pair(300 + seed, kernel, 3.0, 1500, noise, same)
        stated.append(closure_probability(a, b))
        truth.append(same)
    p, one = np.array(stated), np.array(truth)
    sd = np.sqrt((p * (1 - p)).sum())
    assert abs(p.sum() - one.sum()) < 3 * max(sd, 1.0)
    assert np.all(one[p > 0.95]) and (p > 0.95).sum() >= 6
    assert np.mean((p - one) ** 2) < 0.2


def test_a_registration_is_a_value_with_a_transform(tmp_path):
    a, b, pose = pair(3, Matern32(2.0, 1.0), 3.0, 3000, 0.05)
    found = register(a, b)
    assert np.all(np.abs(off(found, pose)) < 5 * found.std)
    points = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    want = points[:, :2] @ rotation(found.mean[3]).T + found.mean[:2]
    np.testing.assert_allclose(found.transform(points), np.column_stack([want, points[:, 2] + found.mean[2]]))
    again = credo.load(credo.save(found, tmp_path / "pose"))
    np.testing.assert_array_equal(again.covariance, found.covariance)
    np.testing.assert_allclose(found.closure_probability(0.1), expit(found.log_odds - np.log(9)))
    turn = abs(np.angle(np.exp(1j * pose[3])))
    told = register(a, b, turn=min(turn + 0.2, np.pi), shift=60.0)  # what odometry knows lets it look at less
    assert told.poses <= found.poses
    np.testing.assert_allclose(told.mean, found.mean, atol=1e-3)


def test_elevations_tell_poses_apart_whose_slopes_are_alike():
    """Three waves are nearly the same turned by 180°, where more of the maps overlaps."""
    rng, angle, shift = np.random.default_rng(0), -1.2, np.array([2.0, 5.0, -0.7])

    def scan(low, high):
        x, y = rng.uniform(low, high, (4000, 2)).T
        z = 0.8 * np.sin(0.7 * x) + 0.5 * np.cos(1.3 * y + 0.5 * x) + 0.3 * np.sin(2.1 * x - 1.7 * y)
        return np.column_stack([x, y, z + 0.03 * rng.normal(size=4000)])

    first, second = scan((0, 0), (12, 12)), scan((4, 3), (15, 14)) - [*shift[:2], shift[2]]
    second[:, :2] = second[:, :2] @ rotation(angle)
    empty = Terrain(0.25, Matern32(4.0, 0.5), mean=0.0, noise=0.004)
    with pytest.warns(MisfitWarning, match="fit nearly as well"):
        found = register(empty.condition(first), empty.condition(second))
    assert np.all(np.abs(off(found, np.array([*shift, angle]))) < [0.1, 0.1, 0.05, 0.02])
    assert found.closure_probability(0.0) == 0.0 and found.closure_probability(1.0) == 1.0


def overlapping(height, noise=0.03):
    """Two maps of one ground, and the pose of the second."""
    rng, pose = np.random.default_rng(5), np.array([2.0, 5.0, -0.7, -1.2])
    maps = []
    for low, high, p in ((0, 8, np.zeros(4)), (3, 10, pose)):
        xy = rng.uniform(low, high, (1500, 2))
        z = height(*xy.T) + noise * rng.normal(size=1500) - p[2]
        points = np.column_stack([(xy - p[:2]) @ rotation(p[3]), z])
        maps.append(Terrain(0.25, Matern32(4.0, 0.5), mean=0.0, noise=noise**2 + 0.001).condition(points))
    return *maps, pose


@pytest.mark.parametrize("height", [lambda x, y: np.sin(x), lambda x, y: 0.4 * np.sin(1.5 * x) + 0.4 * np.sin(1.5 * y)])
def test_ground_that_repeats_itself_is_said_to(height):
    """A ridge, and an egg crate: the pose is off by metres, which nothing in the maps can know."""
    a, b, pose = overlapping(height)
    with pytest.warns(MisfitWarning, match="other poses fit nearly as well"):
        found = register(a, b)
    assert found.rivals > 0 and found.std[:2].max() > 2 and "rivals" in repr(found)
    assert np.all(np.abs(off(found, pose)) < 4 * found.std)


def test_flat_ground_says_nothing_and_a_map_lies_on_itself():
    a, b, _ = overlapping(lambda x, y: 0 * x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MisfitWarning)
        found = register(a, b)
    assert 0.3 < found.closure_probability() < 0.7 and found.std[:2].max() > 2
    c, _, _ = pair(3, Matern32(2.0, 1.0), 3.0, 1500, 0.05)
    again = register(c, c)
    np.testing.assert_allclose(again.mean, 0.0, atol=1e-6)
    assert again.closure_probability() > 0.99 and again.rivals == 0


@pytest.mark.parametrize("cloud", [[[1.0, 2.0, 3.0]], np.column_stack([np.arange(50.0), np.zeros((50, 2))])])
def test_a_map_of_few_cells_is_not_registered(cloud):
    a = Terrain(0.5).condition(np.random.default_rng(0).uniform(0, 5, (400, 3)))
    with pytest.raises(DataError, match="map_b has"):
        register(a, Terrain(0.5).condition(cloud))


def test_correlations_by_transforms_are_those_of_a_loop():
    rng = np.random.default_rng(0)

    def image(rows: int, columns: int) -> Slopes:
        weight = rng.uniform(size=(rows, columns)) * (rng.uniform(size=(rows, columns)) < 0.8)
        return Slopes(np.arange(columns) * 1.0, np.arange(rows) * 1.0, rng.normal(size=(rows, columns, 2)), weight)

    a, b = image(7, 6), image(5, 4)
    rho, n = correlations(a, b)
    assert rho.shape == (11, 9)
    for i, j in ((5, 4), (4, 3), (7, 5), (2, 4)):
        ga, gb, w = [], [], []
        for r in range(5):
            for c in range(4):
                y, x = i - 4 + r, j - 3 + c
                if 0 <= y < 7 and 0 <= x < 6:
                    ga.append(a.gradient[y, x])
                    gb.append(b.gradient[r, c])
                    w.append(a.weight[y, x] * b.weight[r, c])
        w, ga, gb = np.array(w)[:, None], np.array(ga), np.array(gb)
        ga, gb = (g - (w * g).sum(0) / w.sum() for g in (ga, gb))
        want = (w * ga * gb).sum() / np.sqrt((w * ga * ga).sum() * (w * gb * gb).sum())
        np.testing.assert_allclose([rho[i, j], n[i, j]], [want, w.sum()], rtol=1e-9)


@pytest.mark.slow
def test_closures_on_real_relief():
    """Stations of the example: one is seen again from the other side, one is elsewhere."""
    rover = runpy.run_path(str(Path(__file__).parents[4] / "examples" / "rover.py"))
    rng, ground = np.random.default_rng(0), rover["relief"]()
    stations = [
        rover["look"](ground, *where, rng) for where in ((64.0, 34.0, 1.0), (65.0, 35.5, -1.4), (20.0, 50.0, 0.0))
    ]
    same, other = rover["compare"](stations, [(0, 1), (0, 2)])["gradient maps"]
    assert same.right and same.score > 3.0 and not other.right and other.score < 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a, b: register(a, 3.0), "map_b must be a Terrain"),
        (lambda a, b: register(a, b, turn=0.0), "turn"),
        (lambda a, b: register(a, b, shift=-1.0), "shift"),
        (lambda a, b: register(a, b, shift=0.5), "no overlap"),
        (lambda a, b: register(a, a.unconditioned()), "no returns yet"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_is_said_in_a_sentence(call, words):
    rng = np.random.default_rng(0)
    cloud = np.column_stack([rng.uniform(0, 4, (400, 2)), rng.normal(size=400)])
    empty = Terrain(0.2, Matern32(1.0, 1.0), mean=0.0, noise=0.1)
    with pytest.raises(DataError, match=words):
        call(empty.condition(cloud), empty.condition(np.add(cloud, [100.0, 0.0, 0.0])))
