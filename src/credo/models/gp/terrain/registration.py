"""`register`: how one map lies on another, with its doubt, and whether both show the same place at all.

    p_a = R(θ) p_b + t,    (x, y, z, θ) ~ N(mean, covariance)

The best poses of a search over all turns and shifts (`search.py`) are climbed by Gauss-Newton on the residuals of
elevation and gradient, each weighted by the variances that both maps state and, as a Student-t has it, less where it is
far off; the one whose residuals are the most probable is taken (`fit_of`). The covariance is Huber's sandwich
c H⁻¹ J H⁻¹, J = Σ s sᵀ over the scores s of cells. Residuals of neighbouring cells are alike, so that cells say less
than their number: c = tr(J⁻¹ J_B)/4 ≥ 1 with J_B of the sums of scores over G blocks of the overlap, times G/(G - 4),
is the design effect (Kish 1965); J_B itself is too noisy to say more than one number. H is Σ J_aᵀ W J_b, with the
slopes of residuals as each map has them (noise of the slopes of one map alone would pass for information), and W the
slope of the weighted residual, which far residuals have little of. Where ground repeats itself, or is alike along a
direction, other poses fit nearly as well: their spread is added to the covariance.

Closure: the z = atanh(ρ) √n_eff of the best pose is the largest of M standard normal numbers between unrelated grounds
with the spectra of the maps, and at one place the larger of that and of a true pose. What ρ that one has is
Beta(κ, 1), with the mean κ/(κ + 1) that the variances of both maps lead one to expect:

    p(z | one place) / p(z | two places) = ρ^κ + Φ(z) κ ρ^(κ-1) (1 - ρ²)/√n_eff / (M φ(z))

with ρ no smaller than its standard error 1/√n_eff, below which nothing is known of it: flat ground says nothing.
"""

import warnings
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy import ndimage
from scipy.special import expit, log_ndtr, logit

from credo.core.checks import check_probabilities, check_real
from credo.core.errors import DataError, MisfitWarning
from credo.models.gp.spatial.grids import Grid
from credo.models.gp.terrain.belief import Images, Terrain, read_cloud
from credo.models.gp.terrain.search import (
    SIDE,
    Candidate,
    apart,
    independent_share,
    rotated,
    rotation,
    search,
    slopes_of,
)

MOST = 6
"""Candidates that are climbed."""
STEPS = 25
CELLS = 6000
"""Cells of the second map that residuals are taken at."""
BLOCKS = 4
"""Along each side of the overlap, whose scores are summed."""
FREEDOM = 4.0
"""Degrees of freedom of residuals."""
HEAVIER = 0.438
"""By how much log t₄(0) is above the mean of log N(r | 0, 1)."""
NEAR = 0.3
"""The share of nine cells of the first map around a cell of the second that must have returns."""
LEAST = 20
"""Cells of an overlap."""
PARAMETERS = 4
RIVAL, LEAST_RIVAL = 1 / 3, 3.0
"""Another pose is a rival if its fit is below the best by less than this share of it, or so many nats."""
ALIKE = 5.0
"""So many poses of the search, which lie side by side, count as one. Between simulated grounds (of other pairs than in
the tests) the largest z is that of all that were looked at, on maps seen well, to a hundredth of them, on poor ones."""


class Registration(eqx.Module):
    """Where the second map lies in the frame of the first: normal (x, y, z, θ), θ counter-clockwise about gravity."""

    mean: Float[np.ndarray, " 4"]
    covariance: Float[np.ndarray, "4 4"]
    z: float
    """atanh(ρ) √n_eff of the gradients in the overlap."""
    log_odds: float
    """log p(z | one place) - log p(z | two places)."""
    overlap: float
    """The share of the second map's cells that lie on the first."""
    poses: float
    """M, the independent poses that were looked at."""
    rivals: int = 0
    """Other poses that fit nearly as well."""

    @property
    def std(self) -> Float[np.ndarray, " 4"]:
        """Of x, y, z and θ."""
        return np.sqrt(np.diag(self.covariance))

    def __repr__(self) -> str:
        pose = ", ".join(f"{n} {m:.4g} ± {s:.2g}" for n, m, s in zip("xyzθ", self.mean, self.std, strict=True))
        return f"Registration({pose}; overlap {self.overlap:.0%}, log odds {self.log_odds:.3g}, {self.rivals} rivals)"

    def transform(self, points: object) -> Float[np.ndarray, "n 3"]:
        """Points of the second map's frame in that of the first."""
        cloud, turn = read_cloud(points), rotation(float(self.mean[3]))
        return np.column_stack([cloud[:, :2] @ turn.T + self.mean[:2], cloud[:, 2] + self.mean[2]])

    def closure_probability(self, prior: float = 0.5) -> float:
        """P(both maps show one place), which before was `prior`."""
        check_probabilities([prior, 1.0 - prior], "prior and 1 - prior")
        return float(expit(self.log_odds + logit(prior)))


class Climbed(NamedTuple):
    """A pose about the middle of the second map, and what is known there."""

    pose: Float[np.ndarray, " 4"]
    covariance: Float[np.ndarray, "4 4"]
    z: float
    rho: float
    expected: float
    """ρ at one place, if both maps are as good as they say."""
    n_eff: float
    overlap: float
    fit: float
    """log p(residuals | this pose) - log p(residuals | unrelated grounds), of n_eff cells."""


class Residuals(NamedTuple):
    """Of n cells, each of an elevation and two slopes."""

    value: Float[np.ndarray, "n 3"]
    slopes: tuple[Float[np.ndarray, "n 3 4"], Float[np.ndarray, "n 3 4"]]
    """By (x, y, z, θ), as each of the two maps has them."""
    variance: Float[np.ndarray, "n 3"]
    inside: np.ndarray
    """Which cells of the second map they are of."""
    gradients: tuple[Float[np.ndarray, "n 2"], Float[np.ndarray, "n 2"]]
    """Of both, in the frame of the first."""
    heights: Float[np.ndarray, " n"]
    """Elevations of the first."""

    @property
    def slope(self) -> Float[np.ndarray, "n 3 4"]:
        """By (x, y, z, θ), the mean of both."""
        return 0.5 * (self.slopes[0] + self.slopes[1])


def layers_of(image: Images) -> list[Float[np.ndarray, "r c"]]:
    """Elevation, gradient, their variances, and second differences (xx, xy, yy)."""
    along_y, along_x = (np.gradient(image.gradient, image.grid.cell[0], axis=axis) for axis in (0, 1))
    doubt = np.diagonal(image.gradient_covariance, axis1=2, axis2=3)
    first = [image.elevation, *np.moveaxis(image.gradient, 2, 0), image.variance, *np.moveaxis(doubt, 2, 0)]
    return [*first, along_x[..., 0], 0.5 * (along_x[..., 1] + along_y[..., 0]), along_y[..., 1]]


def hessians(xx: np.ndarray, xy: np.ndarray, yy: np.ndarray) -> Float[np.ndarray, "n 2 2"]:
    """Second differences as matrices."""
    return np.stack([xx, xy, xy, yy], axis=-1).reshape(-1, 2, 2)


class Pair:
    """Two maps, ready to be laid on each other."""

    def __init__(self, a: Images, b: Images):
        self._grid, self.width = a.grid, a.grid.cell[0]
        self._layers = layers_of(a)
        self._near = ndimage.uniform_filter(a.seen.astype(float), 3, mode="constant")
        rows = np.flatnonzero(b.seen.ravel())
        if len(rows) > CELLS:
            rows = np.sort(np.random.default_rng(0).choice(rows, CELLS, replace=False))
        self.places = b.grid.places[rows]
        self.middle = self.places.mean(0)
        self._h, gx, gy, self._v, _, _, *bent = (layer.ravel()[rows] for layer in layers_of(b))
        self._g, self._bent = np.column_stack([gx, gy]), hessians(*bent)
        self._c = b.gradient_covariance.reshape(-1, 2, 2)[rows]

    def at(self, pose: Float[np.ndarray, " 4"]) -> Residuals:
        """Residuals where both maps have returns."""
        turn = rotation(float(pose[3]))
        arm = (self.places - self.middle) @ turn.T
        p = arm + self.middle + pose[:2]
        index = np.stack([(p[:, 1] - self._grid.y[0]) / self.width, (p[:, 0] - self._grid.x[0]) / self.width])
        inside = ndimage.map_coordinates(self._near, index, order=1) > NEAR
        index, arm = index[:, inside], arm[inside]
        h, gx, gy, v, vx, vy, *bent = (ndimage.map_coordinates(layer, index, order=1) for layer in self._layers)
        ga, gb = np.column_stack([gx, gy]), self._g[inside] @ turn.T
        swing = np.column_stack([-arm[:, 1], arm[:, 0]])  # ∂p/∂θ
        first = _slopes(ga, hessians(*bent), gb, swing)
        other = _slopes(gb, turn @ self._bent[inside] @ turn.T, ga, swing)
        own = np.einsum("ij,njk,ik->ni", turn, self._c[inside], turn)
        variance = np.column_stack([v + self._v[inside], np.column_stack([vx, vy]) + own])
        value = np.column_stack([h - self._h[inside] - pose[2], ga - gb])
        return Residuals(value, (first, other), np.maximum(variance, 1e-300), inside, (ga, gb), h)


def _slopes(
    own: Float[np.ndarray, "n 2"],
    bent: Float[np.ndarray, "n 2 2"],
    other: Float[np.ndarray, "n 2"],
    swing: Float[np.ndarray, "n 2"],
) -> Float[np.ndarray, "n 3 4"]:
    """How residuals change with the pose, from the gradients and second differences of one map."""
    out = np.zeros((len(own), 3, PARAMETERS))
    out[:, 0, :2], out[:, 0, 2], out[:, 0, 3] = own, -1.0, (own * swing).sum(1)
    out[:, 1:, :2] = bent
    out[:, 1:, 3] = np.einsum("nij,nj->ni", bent, swing) - np.column_stack([-other[:, 1], other[:, 0]])
    return out


def weights_of(found: Residuals) -> tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, "n 3"]]:
    """w = (ν + 1)/(ν + r²/s)/s, and the slope of wr; stated variances are made as wide as the residuals are."""
    ratio = np.square(found.value) / found.variance
    wide = np.maximum(np.median(ratio, axis=0) / 0.4549, 1.0)  # the median of χ² with one degree of freedom
    ratio = ratio / wide
    w = (FREEDOM + 1.0) / (FREEDOM + ratio) / (found.variance * wide)
    return w, w * (FREEDOM - ratio) / (FREEDOM + ratio)


def climb(pair: Pair, start: Candidate) -> Float[np.ndarray, " 4"] | None:
    """Gauss-Newton from a candidate; None where the maps slide off each other."""
    pose = np.array([*start.shift, 0.0, start.angle])
    first = pair.at(pose)
    if first.inside.sum() < LEAST:
        return None
    pose[2] = np.median(first.value[:, 0])
    for _ in range(STEPS):
        found = pair.at(pose)
        if found.inside.sum() < LEAST:
            return None
        w, _ = weights_of(found)
        hessian = np.einsum("nci,nc,ncj->ij", found.slope, w, found.slope)
        score = np.einsum("nci,nc,nc->i", found.slope, w, found.value)
        scale = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
        step = np.linalg.solve(hessian / np.outer(scale, scale) + 1e-9 * np.eye(PARAMETERS), score / scale) / scale
        length = float(np.linalg.norm(step[:2])) / (2.0 * pair.width)
        pose = pose - step / max(length, 1.0)
        if np.all(np.abs(step) * scale < 1e-3):
            break
    return pose


def sandwich(pair: Pair, found: Residuals) -> Float[np.ndarray, "4 4"]:
    """c H⁻¹ J H⁻¹."""
    w, slope = weights_of(found)
    hessian = np.einsum("nci,nc,ncj->ij", found.slopes[0], slope, found.slopes[1])
    hessian = 0.5 * (hessian + hessian.T)
    scores = np.einsum("nci,nc,nc->ni", found.slope, w, found.value)
    places = pair.places[found.inside]
    low, extent = places.min(0), np.maximum(np.ptp(places, axis=0), pair.width)
    size = extent.max() / BLOCKS * (1 + 1e-9)
    block = ((places - low) // size).astype(int) @ [1, BLOCKS + 1]
    _, block = np.unique(block, return_inverse=True)
    groups = int(block.max()) + 1
    sums = np.stack([np.bincount(block.reshape(-1), column, minlength=groups) for column in scores.T], axis=1)
    more = groups / (groups - PARAMETERS) if groups > 2 * PARAMETERS else 2.0
    scale = 1.0 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    unit = np.outer(scale, scale)
    half = np.linalg.inv(hessian * unit + 1e-9 * np.eye(PARAMETERS))
    each, blocks = scores * scale @ half, sums * scale @ half
    own, together = each.T @ each, more * blocks.T @ blocks
    effect = max(np.trace(np.linalg.pinv(own) @ together) / PARAMETERS, 1.0)
    return effect * own * unit


def looked_at(a: Images, b: Images, pair: Pair, pose: Float[np.ndarray, " 4"]) -> Climbed | None:
    """What the overlap at a pose says."""
    found = pair.at(pose)
    n = int(found.inside.sum())
    if n < LEAST:
        return None
    ga, gb = found.gradients
    w = 1.0 / (found.variance[:, 1:].mean(1) + 0.5 * (ga.var(0).mean() + gb.var(0).mean()))
    ga, gb = (g - (w[:, None] * g).sum(0) / w.sum() for g in (ga, gb))
    doubt, known = float(found.variance[:, 1:].mean()), float(ga.var(0).mean() + gb.var(0).mean())
    expected = known / (doubt + known)
    cross, first, other = ((w[:, None] * p * q).sum() for p, q in ((ga, gb), (ga, ga), (gb, gb)))
    rho = float(np.clip(cross / np.sqrt(max(first * other, 1e-300)), -0.999999, 0.999999))
    share = independent_share(slopes_of(a, 1), rotated(slopes_of(b, 1), float(pose[3])))
    cells = n * b.seen.sum() / len(pair.places)
    n_eff = max(share * cells * w.sum() ** 2 / (w @ w) / n, 4.0)
    z = float(np.arctanh(rho) * np.sqrt(n_eff))
    return Climbed(pose, sandwich(pair, found), z, rho, expected, n_eff, n / len(pair.places), n_eff * fit_of(found))


def fit_of(found: Residuals) -> float:
    """log p(residuals | one place) - log p(residuals | unrelated grounds) of an average cell.

    At one place residuals are Student-t with the stated variances, else normal and as wide as both maps together.
    """
    (ga, gb), v = found.gradients, found.variance
    apart = np.array([2.0 * found.heights.var(), *(ga.var(0) + gb.var(0))]) + v.mean(0)
    told = 0.5 * np.log(apart / v) - 0.5 * (FREEDOM + 1.0) * np.log1p(found.value**2 / v / FREEDOM)
    return float((HEAVIER + told).sum(1).mean())


def register(map_a: Terrain, map_b: Terrain, *, turn: float = np.pi, shift: float | None = None) -> Registration:
    """Where `map_b` lies in the frame of `map_a`.

    Args:
        map_a: a map.
        map_b: one that overlaps it, in another frame with the same gravity.
        turn: how far b may be turned, in radians, to either side; π is any heading.
        shift: how far b may be moved, around its middle; None: anywhere where maps overlap.
    """
    for name, given in (("map_a", map_a), ("map_b", map_b)):
        if not isinstance(given, Terrain):
            raise DataError(f"{name} must be a Terrain, found {type(given).__name__}")
    if not check_real(turn, "turn", 0.0) > 0:
        raise DataError(f"turn, the largest angle in radians, must be positive, found {turn!r}")
    if shift is not None and not check_real(shift, "shift", 0.0) > 0:
        raise DataError(f"shift, how far the map may be moved, must be positive, found {shift!r}")
    a, b = map_a.images(), map_b.images()
    for name, image in (("map_a", a), ("map_b", b)):
        if min(image.seen.shape) < 2 or image.seen.sum() < LEAST:
            raise DataError(
                f"{name} has {image.seen.sum()} cells with returns, {' × '.join(map(str, image.seen.shape))} across; "
                f"{LEAST} cells or more, in both directions, can be registered"
            )
    if not np.isclose(a.grid.cell[0], b.grid.cell[0]):
        b = map_b.images(with_cells(b.grid, a.grid.cell[0]))
    share = max(int(np.ceil(max(*a.elevation.shape, *b.elevation.shape) / SIDE)), 1)
    coarse = [slopes_of(image, share) for image in (a, b)]
    candidates, looked = search(coarse[0], coarse[1], turn, shift, MOST)
    pair = Pair(a, b)
    climbed = list[Climbed]()
    for each in candidates:
        # The search turns around the middle of weights, the climb around that of cells.
        turned_middle = rotation(each.angle) @ (pair.middle - coarse[1].middle) + coarse[1].middle
        pose = climb(pair, each._replace(shift=each.shift + turned_middle - pair.middle))
        seen = None if pose is None else looked_at(a, b, pair, pose)
        if seen is not None:
            climbed.append(seen)
    if not climbed:
        raise DataError(
            f"the maps have no overlap of {LEAST} cells in any pose that is allowed; are they large "
            "enough, and turn and shift not too small?"
        )
    climbed.sort(key=lambda each: -each.fit)
    poses = [each.pose for each in climbed]
    kept = apart([float(p[3]) for p in poses], [p[:2] for p in poses], coarse[1].resolution, MOST)
    best, *others = (climbed[i] for i in kept)
    rivals = [each for each in others if each.fit > best.fit - max(RIVAL * best.fit, LEAST_RIVAL)]
    return _registration(best, rivals, pair.middle, max(looked / ALIKE, 1.0))


def with_cells(grid: Grid, width: float) -> Grid:
    """A grid of the same extent with cells of this width."""
    return Grid(*(np.arange(v[0], v[-1] + 0.5 * width, width) for v in grid))


def log_odds_of(found: Climbed, poses: float) -> float:
    """log p(z | one place) - log p(z | two places)."""
    shape, log_rho = found.expected / (1.0 - found.expected), np.log(max(found.rho, found.n_eff**-0.5))
    normal = -0.5 * (found.z**2 + np.log(2 * np.pi))
    there = np.log(max(shape, 1e-300)) + (shape - 1.0) * log_rho + np.log1p(-(found.rho**2)) - 0.5 * np.log(found.n_eff)
    odds = np.logaddexp(shape * log_rho, there + log_ndtr(found.z) - np.log(poses) - normal)
    return float(np.clip(odds, -500.0, 500.0))


def _registration(best: Climbed, rivals: list[Climbed], middle: Float[np.ndarray, " 2"], poses: float) -> Registration:
    """The pose for turns about the origin, t = middle + shift - R middle, with the spread of its rivals."""
    off = np.array([each.pose - best.pose for each in rivals]).reshape(-1, PARAMETERS)
    angle, off[:, 3] = (np.angle(np.exp(1j * v)) for v in (best.pose[3], off[:, 3]))
    covariance, odds = best.covariance + off.T @ off / (1 + len(off)), log_odds_of(best, poses)
    if rivals and odds > 0:
        warnings.warn(
            f"{len(rivals)} other poses fit nearly as well, the next moved by {np.linalg.norm(off[0, :2]):.3g} and "
            f"turned by {off[0, 3]:.3g}: the ground repeats itself, or is alike along a direction. Their spread is in "
            "the covariance; limit turn and shift to what is possible",
            MisfitWarning,
            stacklevel=3,
        )
    arm = rotation(float(angle)) @ middle
    to = np.eye(PARAMETERS)
    to[:2, 3] = [arm[1], -arm[0]]
    mean = np.array([*(best.pose[:2] + middle - arm), best.pose[2], angle])
    return Registration(mean, to @ covariance @ to.T, best.z, odds, best.overlap, poses, len(rivals))


def closure_probability(
    map_a: Terrain, map_b: Terrain, *, prior: float = 0.5, turn: float = np.pi, shift: float | None = None
) -> float:
    """P(both maps show one place), which before they were compared was `prior`."""
    return register(map_a, map_b, turn=turn, shift=shift).closure_probability(prior)
