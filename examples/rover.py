"""A rover drives over real relief, maps the ground every few metres, and finds out where it has been before.

    python examples/rover.py

The relief is matplotlib's sample elevation model (the Jacksboro fault) as a model of 1:400: a cell of some 83 m is 0.2
m wide here. Each local map is made from a noisy cloud with 4 % gross outliers in the rover's own frame: position,
heading and height are forgotten. All pairs are compared, by `terrain.register` and by raw geometry: iterated closest
points of the clouds from 12 headings, and correlation of raw elevations over the same turns and shifts.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from matplotlib import cbook
from matplotlib.axes import Axes
from matplotlib.colors import LightSource
from matplotlib.figure import Figure
from scipy.ndimage import map_coordinates
from scipy.spatial import cKDTree

import credo
from credo.models.gp import terrain
from credo.models.gp.terrain.search import correlations, independent_share, rotated, rotation
from credo.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, legend, tidy

CELL, SCALE, NOISE, ODD, HALF = 0.2, 400.0, 0.02, 0.04, 5.0
NEAR = 0.6
"""A pose that is off by less is right."""


def relief() -> np.ndarray:
    """Elevations in metres of the model, on cells of 0.2 m."""
    with cbook.get_sample_data("jacksboro_fault_dem.npz") as sample:
        return sample["elevation"].astype(float) / SCALE


class Station(NamedTuple):
    """A place where a local map was made."""

    x: float
    y: float
    heading: float
    cloud: np.ndarray


def look(ground: np.ndarray, x: float, y: float, heading: float, rng: np.random.Generator, n: int = 4000) -> Station:
    """What a scanner on the rover returns, in its own frame."""
    own = rng.uniform(-HALF, HALF, (n, 2))
    world = own @ rotation(heading).T + [x, y]
    z = map_coordinates(ground, [world[:, 1] / CELL, world[:, 0] / CELL], order=1, mode="nearest")
    z = z - map_coordinates(ground, [[y / CELL], [x / CELL]], order=1)[0] + NOISE * rng.normal(size=n)
    odd = rng.uniform(size=n) < ODD
    z[odd] += rng.uniform(-3, 3, odd.sum())
    return Station(x, y, heading, np.column_stack([own, z]))


def traverse(ground: np.ndarray, stations: int, seed: int = 0) -> list[Station]:
    """Twice around a loop, the second time along a neighbouring track and from the other side."""
    rng = np.random.default_rng(seed)
    each = stations // 2
    middle, out = np.array([40.0, 34.0]), []
    for lap, sign in enumerate((1.0, -1.0)):
        for k in range(each):
            angle = 2 * np.pi * (k / each) * sign + 0.3 * lap
            radius = np.array([24.0, 20.0]) + rng.uniform(-1.5, 1.5, 2) * lap
            x, y = middle + radius * [np.cos(angle), np.sin(angle)]
            out.append(look(ground, x, y, angle + sign * np.pi / 2 + rng.normal() * 0.2, rng))
    return out


def local_maps(stations: list[Station]) -> list[credo.Terrain]:
    """A map of each cloud, kernel and numbers learned from the first."""
    first = credo.learn(credo.Terrain(0.25), stations[0].cloud)
    return [first.condition(s.cloud) for s in stations]


def truth(a: Station, b: Station) -> tuple[float, np.ndarray]:
    """The turn and the shift that lay b on a."""
    return b.heading - a.heading, (np.array([b.x - a.x, b.y - a.y])) @ rotation(a.heading)


class Found(NamedTuple):
    """What a method says of a pair: how sure it is, and whether its pose is right."""

    score: float
    right: bool


def judged(score: float, angle: float, shift: np.ndarray, a: Station, b: Station) -> Found:
    """Right if the middle of b, and a point 3 m away from it, are where they belong."""
    turn, move = truth(a, b)
    arm = np.array([3.0, 0.0])
    off = [shift - move, rotation(angle) @ arm + shift - rotation(turn) @ arm - move]
    return Found(score, bool(max(np.linalg.norm(each) for each in off) < NEAR))


def by_maps(maps: list[credo.Terrain], stations: list[Station], i: int, j: int) -> Found:
    """The log odds of `register`."""
    found = terrain.register(maps[i], maps[j])
    return judged(found.log_odds, float(found.mean[3]), found.mean[:2], stations[i], stations[j])


def by_closest_points(stations: list[Station], i: int, j: int, points: int = 400) -> Found:
    """Iterated closest points from 12 headings, with 400 points; the score is minus the error of the best 60 %."""
    a, b = stations[i].cloud, stations[j].cloud[:points]
    tree, best = cKDTree(a), (np.inf, 0.0, np.zeros(2))
    for start in np.arange(12) * np.pi / 6:
        turn, move = rotation(start), np.zeros(3)
        for _ in range(15):
            p = np.column_stack([b[:, :2] @ turn.T, b[:, 2]]) + move
            far, at = tree.query(p)
            good = far <= np.quantile(far, 0.6)
            source, target = b[good], a[at[good]]
            s, t = source.mean(0), target.mean(0)
            u, _, v = np.linalg.svd((source - s)[:, :2].T @ (target - t)[:, :2])
            turn = v.T @ np.diag([1.0, np.sign(np.linalg.det(v.T @ u.T))]) @ u.T
            move = t - np.append(turn @ s[:2], s[2])
        error = float(np.sqrt(np.mean(far[good] ** 2)))
        if error < best[0]:
            best = error, float(np.arctan2(turn[1, 0], turn[0, 0])), move[:2]
    return judged(-best[0], best[1], best[2], stations[i], stations[j])


def raw_image(cloud: np.ndarray, width: float = 0.4) -> terrain.Slopes:
    """Mean elevations of cells, as an image with one channel."""
    n = int(2 * HALF / width)
    cell = np.clip(((cloud[:, :2] + HALF) / width).astype(int), 0, n - 1) @ [1, n]
    count = np.bincount(cell, minlength=n * n)
    z = np.bincount(cell, cloud[:, 2], n * n) / np.maximum(count, 1)
    axis = (np.arange(n) + 0.5) * width - HALF
    image = np.stack([z, np.zeros(n * n)], axis=-1).reshape(n, n, 2)
    return terrain.Slopes(axis, axis, image, (count > 0).astype(float).reshape(n, n))


def by_elevation(stations: list[Station], i: int, j: int) -> Found:
    """The highest correlation of raw elevations over all turns and shifts, in standard deviations as for gradients."""
    a, b = raw_image(stations[i].cloud), raw_image(stations[j].cloud)
    best = (-np.inf, 0.0, np.zeros(2))
    for angle in np.arange(-24, 24) * np.pi / 24:
        image = rotated(b, angle)
        image = image._replace(gradient=image.gradient @ rotation(angle))  # heights are not turned
        rho, n = correlations(a, image)
        share = independent_share(a, image)
        z = np.where(n >= 0.25 * n.max(), np.arctanh(np.clip(rho, -0.999, 0.999)) * np.sqrt(share * n), -np.inf)
        r, c = np.unravel_index(np.argmax(z), z.shape)
        if z[r, c] > best[0]:
            corner = np.array([c, r]) - np.array(image.weight.shape)[::-1] + 1
            moved = np.array([a.x[0] - image.x[0], a.y[0] - image.y[0]]) + corner * a.step
            best = float(z[r, c]), float(angle), moved - rotation(angle) @ b.middle
    return judged(best[0], best[1], best[2], stations[i], stations[j])


def curve(found: list[Found], most: int = 10) -> list[int]:
    """Right closures before the first false one, the second, …, from the surest down."""
    out, right = [], 0
    for each in sorted(found, key=lambda f: -f.score):
        if each.right:
            right += 1
        else:
            out.append(right)
    return (out + [right] * most)[:most]


def compare(stations: list[Station], pairs: list[tuple[int, int]]) -> dict[str, list[Found]]:
    """All methods on all pairs."""
    maps = local_maps(stations)
    return {
        "gradient maps": [by_maps(maps, stations, i, j) for i, j in pairs],
        "raw elevation": [by_elevation(stations, i, j) for i, j in pairs],
        "closest points": [by_closest_points(stations, i, j) for i, j in pairs],
    }


def draw(ground: np.ndarray, stations: list[Station], found: dict[str, list[Found]], left: Axes, right: Axes) -> None:
    """The traverse on the relief with the closures that the maps are sure of, and what each method finds."""
    light = LightSource(315, 45).hillshade(ground, vert_exag=3.0, dx=CELL, dy=CELL)
    left.imshow(light, cmap="gray", extent=(0, CELL * ground.shape[1], 0, CELL * ground.shape[0]), origin="lower")
    said = set()
    for (a, b), each in zip(combinations(stations, 2), found["gradient maps"], strict=True):
        if each.score > 3.0:
            colour, name = (GREEN, "closure") if each.right else (RED, "false")
            left.plot([a.x, b.x], [a.y, b.y], color=colour, linewidth=2.5, label=None if name in said else name)
            said.add(name)
    for k, s in enumerate(stations):
        square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]) * HALF @ rotation(s.heading).T + [s.x, s.y]
        left.plot(*square.T, color=(BLUE, ORANGE)[k // (len(stations) // 2)], linewidth=1.0)
        ahead = s.x + 3 * np.cos(s.heading), s.y + 3 * np.sin(s.heading)
        left.annotate("", ahead, (s.x, s.y), arrowprops={"arrowstyle": "->", "color": INK})
    tidy(left, "x, m", "y, m", grid="")
    legend(left, loc="upper right")
    for (name, each), colour in zip(found.items(), (GREEN, BLUE, GREY), strict=True):
        right.step(range(8), curve(each, 8), where="mid", color=colour, label=name, linewidth=2)
    right.set_ylim(bottom=0)
    tidy(right, "false closures accepted", "right closures found")
    legend(right, loc="lower right")


def main(axes: tuple[Axes, Axes] | None = None) -> None:
    """Compares, prints, and draws: on axes, or into rover.png."""
    ground = relief()
    stations = traverse(ground, 10)
    pairs = list(combinations(range(len(stations)), 2))
    found = compare(stations, pairs)
    print(f"{len(pairs)} pairs of {len(stations)} maps; right closures before the first, second, … false one")
    for name, each in found.items():
        print(f"{name:15} {curve(each)}   {sum(f.right for f in each)} right poses")
    if axes is not None:
        return draw(ground, stations, found, *axes)
    figure = Figure(figsize=(9.4, 4.0), layout="constrained")
    draw(ground, stations, found, *figure.subplots(1, 2))
    figure.savefig("rover.png", dpi=150)
    print("drawn: rover.png")


if __name__ == "__main__":
    main()
