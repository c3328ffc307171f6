"""Where could one map lie on another? All turns and shifts at once, by correlation of gradient images.

Slopes know nothing of a common height, and are alike only where the ground is. Of two maps, b turned by θ, with weights
w = 1 - Var/v (Var the doubt of a slope, v the variance of slopes before returns) the correlation at every shift is

    ρ = Σ w_a w_b (g_a - ḡ_a)·(g_b - ḡ_b) / √(Σ w_a w_b |g_a - ḡ_a|² Σ w_a w_b |g_b - ḡ_b|²)

with sums over the overlap, by fast Fourier transforms (Padfield 2012, "Masked object registration in the Fourier
domain"). Between unrelated grounds with the spectra of these two, ρ has variance 1/n_eff: neighbouring slopes are
alike, and

    1/n_eff = Σ_lags tr(C_a(lag) C_b(lag)) / (n tr C_a(0) tr C_b(0))

(Bartlett 1946), so that a large overlap of rough ground says more than a small one of a plane.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import fft, ndimage

from credo.models.gp.terrain.belief import Images

SIDE = 80
"""Cells along the longer side of the images that are searched: finer ones are averaged."""
LEAST = 0.25
"""An overlap is at least this share of the largest that there can be."""


class Slopes(NamedTuple):
    """A gradient image, and how much each cell is to be believed."""

    x: Float[np.ndarray, " c"]
    y: Float[np.ndarray, " r"]
    gradient: Float[np.ndarray, "r c 2"]
    weight: Float[np.ndarray, "r c"]

    @property
    def step(self) -> float:
        """The width of a cell."""
        return float(self.x[1] - self.x[0])

    @property
    def resolution(self) -> tuple[float, float]:
        """How far apart poses must be, in shift and in turn, to be different ones."""
        return 2.0 * self.step, 3.0 * self.step / (0.5 * max(np.ptp(self.x), np.ptp(self.y)) + self.step)

    @property
    def middle(self) -> Float[np.ndarray, " 2"]:
        """Of what is known."""
        total = self.weight.sum()
        return np.array([self.weight.sum(0) @ self.x, self.weight.sum(1) @ self.y]) / total


class Candidate(NamedTuple):
    """A pose worth a closer look: p_a = R(θ)(p_b - middle) + middle + shift."""

    angle: float
    shift: Float[np.ndarray, " 2"]
    z: float
    """atanh(ρ) √n_eff: a standard normal number between unrelated grounds."""


def slopes_of(images: Images, share: int) -> Slopes:
    """The gradient image on cells that each hold so many of the map's along each side, averaged by their precision."""
    own = images.grid.cell[0]
    doubt = 0.5 * np.trace(images.gradient_covariance, axis1=2, axis2=3)
    known = images.gradient[images.seen], doubt[images.seen]
    before = float(known[0].var(0).mean() + known[1].mean()) if images.seen.any() else 0.0
    weight = np.maximum(1.0 - doubt / max(before, np.finfo(float).tiny), 0.0)
    rows, columns = (-(-n // share) for n in weight.shape)
    room = [(0, rows * share - weight.shape[0]), (0, columns * share - weight.shape[1])]

    def summed(values: np.ndarray) -> np.ndarray:
        return np.pad(values, room).reshape(rows, share, columns, share).sum((1, 3))

    total = summed(weight)
    gradient = np.stack([summed(weight * images.gradient[..., i]) for i in range(2)], axis=-1)
    gradient = gradient / np.where(total > 0, total, 1.0)[:, :, None]
    x = images.grid.x[0] + own * (share * np.arange(columns) + 0.5 * (share - 1))
    y = images.grid.y[0] + own * (share * np.arange(rows) + 0.5 * (share - 1))
    return Slopes(x, y, gradient, total / share**2)


def rotation(angle: float) -> Float[np.ndarray, "2 2"]:
    """R(θ), counter-clockwise."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


def rotated(b: Slopes, angle: float) -> Slopes:
    """The image turned around its middle, which becomes the origin, on a square that holds it."""
    step, turn = b.step, rotation(angle)
    corners = np.array([[x, y] for x in (b.x[0], b.x[-1]) for y in (b.y[0], b.y[-1])]) - b.middle
    half = int(np.ceil(np.linalg.norm(corners, axis=1).max() / step)) + 1
    axis = np.arange(-half, half + 1) * step
    places = np.stack(np.meshgrid(axis, axis), -1) @ turn + b.middle  # of row vectors: R(θ)⁻¹
    at = [(places[..., 1] - b.y[0]) / step, (places[..., 0] - b.x[0]) / step]

    def sampled(values: np.ndarray) -> np.ndarray:
        return ndimage.map_coordinates(values, at, order=1)

    weight = sampled(b.weight)
    gradient = np.stack([sampled(b.weight * b.gradient[..., i]) for i in range(2)], axis=-1)
    gradient = gradient / np.where(weight > 1e-9, weight, 1.0)[:, :, None] @ turn.T
    return Slopes(axis, axis, gradient, np.where(weight > 1e-9, weight, 0.0))


def spectra(image: Slopes, shape: tuple[int, int]) -> tuple[Float[np.ndarray, "r c 3"], float]:
    """The autocovariances (xx, xy, yy) of the slopes at all lags, and the sum of the variances."""
    w = image.weight
    g = w[:, :, None] * (image.gradient - _mean(image))
    transformed = [fft.rfft2(v, shape) for v in (g[..., 0], g[..., 1], w)]
    pairs = [(0, 0), (0, 1), (1, 1)]
    sums = [fft.irfft2(transformed[i] * np.conj(transformed[j]), shape) for i, j in pairs]
    count = fft.irfft2(np.abs(transformed[2]) ** 2, shape)
    # Long lags have few pairs: their covariances are divided by all, which makes them small and not wild.
    covariance = np.stack(sums, axis=-1) / max(float(count[0, 0]), 1e-300)
    return covariance, float(covariance[0, 0, 0] + covariance[0, 0, 2])


def _mean(image: Slopes) -> Float[np.ndarray, " 2"]:
    return (image.weight[:, :, None] * image.gradient).sum((0, 1)) / max(float(image.weight.sum()), 1e-300)


def independent_share(a: Slopes, b: Slopes) -> float:
    """n_eff/n for unrelated grounds with the spectra of a and b."""
    shape = tuple(fft.next_fast_len(n + m, real=True) for n, m in zip(a.weight.shape, b.weight.shape, strict=True))
    (ca, va), (cb, vb) = spectra(a, shape), spectra(b, shape)
    both = float((ca * cb * [1.0, 2.0, 1.0]).sum())
    return min(va * vb / both, 1.0) if both > 0 and va * vb > 0 else 1.0


def correlations(a: Slopes, b: Slopes) -> tuple[Float[np.ndarray, "r c"], Float[np.ndarray, "r c"]]:
    """ρ and the weight of the overlap at every shift: (i, j) puts the corner of b on (i, j) of a, minus its size."""
    shape = [fft.next_fast_len(n + m - 1, real=True) for n, m in zip(a.weight.shape, b.weight.shape, strict=True)]

    def columns(image: Slopes, centred: np.ndarray, flip: bool) -> list[np.ndarray]:
        w, g = image.weight, image.gradient - centred
        square = w * (g * g).sum(2)
        out = [w, w * g[..., 0], w * g[..., 1], square]
        return [fft.rfft2(v[::-1, ::-1] if flip else v, shape) for v in out]

    fa, fb = columns(a, _mean(a), False), columns(b, _mean(b), True)

    def both(i: int, j: int) -> np.ndarray:
        full = fft.irfft2(fa[i] * fb[j], shape)
        return full[: a.weight.shape[0] + b.weight.shape[0] - 1, : a.weight.shape[1] + b.weight.shape[1] - 1]

    n = np.maximum(both(0, 0), 1e-9)
    cross = fft.irfft2(fa[1] * fb[1] + fa[2] * fb[2], shape)[: n.shape[0], : n.shape[1]]
    mean_a, mean_b = [both(i, 0) for i in (1, 2)], [both(0, i) for i in (1, 2)]
    cross = cross - sum(p * q for p, q in zip(mean_a, mean_b, strict=True)) / n
    square_a = both(3, 0) - sum(p * p for p in mean_a) / n
    square_b = both(0, 3) - sum(p * p for p in mean_b) / n
    scale = np.sqrt(np.maximum(square_a, 0.0) * np.maximum(square_b, 0.0))
    floor = 1e-6 * scale.max(initial=0.0)
    return np.where(scale > floor, cross / np.where(scale > floor, scale, 1.0), 0.0), n


def search(a: Slopes, b: Slopes, turn: float, shift: float | None, most: int) -> tuple[list[Candidate], float]:
    """The poses with the highest z, each from another turn or shift; and how many independent ones were looked at."""
    count = int(np.ceil(min(turn, np.pi) / (0.5 * b.resolution[1])))
    angles = np.arange(-count, count + 1) * (min(turn, np.pi) / max(count, 1))
    angles = angles[:-1] if turn >= np.pi else angles
    found: list[Candidate] = []
    looked = 0.0
    for angle in angles:
        image = rotated(b, float(angle))
        share = independent_share(a, image)
        rho, n = correlations(a, image)
        dy = a.y[0] - image.y[0] + (np.arange(rho.shape[0]) - image.weight.shape[0] + 1) * a.step
        dx = a.x[0] - image.x[0] + (np.arange(rho.shape[1]) - image.weight.shape[1] + 1) * a.step
        moved = np.stack(np.meshgrid(dx, dy), -1) - b.middle
        allowed = n >= LEAST * n.max()
        if shift is not None:
            allowed &= np.linalg.norm(moved, axis=2) <= shift
        if not allowed.any():
            continue
        z = np.where(allowed, np.arctanh(np.clip(rho, -0.999, 0.999)) * np.sqrt(share * n), -np.inf)
        looked += float(allowed.sum()) * share
        for _ in range(2):
            i, j = np.unravel_index(np.argmax(z), z.shape)
            if not np.isfinite(z[i, j]):
                break
            found.append(Candidate(float(angle), moved[i, j], float(z[i, j])))
            z[max(i - 3, 0) : i + 4, max(j - 3, 0) : j + 4] = -np.inf
    found.sort(key=lambda each: -each.z)
    kept = apart([each.angle for each in found], [each.shift for each in found], b.resolution, most)
    return [found[i] for i in kept], looked


def apart(
    angles: Sequence[float], shifts: Sequence[Float[np.ndarray, " 2"]], near: tuple[float, float], most: int
) -> list[int]:
    """Of poses next to each other the first one; up to so many."""
    kept: list[int] = []
    for i, (angle, shift) in enumerate(zip(angles, shifts, strict=True)):
        if len(kept) < most and not any(
            abs(np.angle(np.exp(1j * (angle - angles[k])))) <= near[1] and np.linalg.norm(shift - shifts[k]) <= near[0]
            for k in kept
        ):
            kept.append(i)
    return kept
