"""Factors of a covariance matrix S: the maximum of the likelihood without looking at rows again.

PPCA in closed form: with S = UΛUᵀ, σ² is the mean of the d - l smallest eigenvalues, W = U_l(Λ_l - σ²I)^½.

Factor analysis: given Ψ the best W follows from the l largest eigenvalues θ and vectors U of Ψ^-½SΨ^-½,

    W = Ψ^½ U (Θ - I)^½,    -2/n log p = Σ log ψⱼ + Σⱼ Sⱼⱼ/ψⱼ + Σ_{i≤l, θᵢ>1} (log θᵢ + 1 - θᵢ) + const,

and what is left is a function of d noise variances, climbed by L-BFGS in log ψ with the slope (S - WWᵀ - Ψ)ⱼⱼ/ψⱼ.
Tipping & Bishop (1999); Jöreskog (1967), "Some contributions to maximum likelihood factor analysis".
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.errors import DataError
from credo.infer.optimize import CONVERGED, maximize
from credo.models.factor.expectations import FLOOR

Matrix = Float[np.ndarray, "d d"]
GAIN, SLOPE = 1e-12, 1e-7
"""A climb ends after a step that gains less, relative to the height, or where no slope is larger."""


class Fitted(NamedTuple):
    """W and the noise variances, and how they were found."""

    w: Float[np.ndarray, "d l"]
    noise: Float[np.ndarray, " d"]
    status: str = CONVERGED
    floored: tuple[int, ...] = ()
    """Columns whose noise ended at its floor (Heywood cases)."""


def fit_isotropic(covariance: Matrix, l: int) -> Fitted:
    """PPCA."""
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    d, floor = len(values), FLOOR * values.mean()
    noise = max(values[l:].mean(), floor)
    w = vectors[:, :l] * np.sqrt(np.maximum(values[:l] - noise, 0.0))
    return Fitted(w, np.full(d, noise), floored=tuple(range(d)) if noise == floor else ())


def fit_diagonal(
    covariance: Matrix, l: int, start: Float[np.ndarray, " d"] | None = None, max_steps: int = 500
) -> Fitted:
    """Factor analysis, in units in which each column has variance 1; `start` is one more start of the noise."""
    variance = covariance.diagonal()
    constant = np.flatnonzero(variance <= 0)
    if len(constant):
        raise DataError(f"column {constant[0]} of x is constant: it has no variance to explain; leave it out")
    scale = np.sqrt(variance)
    r = covariance / scale / scale[:, None]
    if l == 0:
        return Fitted(np.zeros((len(r), 0)), variance.copy())

    def height_and_slope(u: np.ndarray) -> tuple[float, np.ndarray]:
        w, theta, psi = _best_loadings(r, u, l)
        height = u.sum() + (1 / psi).sum() + (np.log(theta) + 1 - theta).sum()
        return -0.5 * height, 0.5 * (1 - (w**2).sum(1) - psi) / psi

    d = len(r)
    starts = [np.log(np.clip(each, 5 * FLOOR, 1.0)) for each in _starts(r, l, start, variance)]
    low, high = np.full(d, np.log(FLOOR)), np.zeros(d)
    best = maximize(height_and_slope, starts, low, high, max_steps, SLOPE, GAIN)[0]
    w, _, psi = _best_loadings(r, best.vector, l)
    floored = tuple(int(j) for j in np.flatnonzero(best.vector < low + 1e-3))
    return Fitted(w * scale[:, None], psi * variance, best.status, floored)


def _starts(
    r: Matrix, l: int, start: Float[np.ndarray, " d"] | None, variance: Float[np.ndarray, " d"]
) -> list[np.ndarray]:
    """What the other columns leave of each (Jöreskog's start), and one that was given."""
    d = len(r)
    shrunk = r + 1e-3 * np.eye(d)  # r may be singular
    left = (1 - l / (2 * d)) / np.linalg.inv(shrunk).diagonal()
    return [left] if start is None else [left, start / variance]


def _best_loadings(r: Matrix, u: Float[np.ndarray, " d"], l: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W given Ψ = exp(u), the eigenvalues that it explains (at least 1), and Ψ."""
    from scipy.linalg import eigh

    psi = np.exp(u)
    root = np.sqrt(psi)
    d = len(r)
    theta, vectors = eigh(r / root / root[:, None], subset_by_index=[d - l, d - 1], driver="evr")
    theta = np.maximum(theta, 1.0)
    return root[:, None] * vectors * np.sqrt(theta - 1), theta, psi


# -- how they are read -------------------------------------------------------------------------------------------


def ordered(w: Float[np.ndarray, "d l"], noise: Float[np.ndarray, " d"]) -> Float[np.ndarray, "d l"]:
    """W turned so that WᵀΨ⁻¹W is diagonal, the factor that shows most first, the largest entry of each positive."""
    scaled = w / np.sqrt(noise)[:, None]
    _, _, turn = np.linalg.svd(scaled, full_matrices=False)
    return signed(w @ turn.T)


def signed(w: Float[np.ndarray, "d l"]) -> Float[np.ndarray, "d l"]:
    """The sign of each column such that its largest entry is positive."""
    if not w.shape[1]:
        return w
    top = w[np.abs(w).argmax(0), np.arange(w.shape[1])]
    return w * np.where(top < 0, -1.0, 1.0)


def varimax(w: Float[np.ndarray, "d l"], steps: int = 500) -> Float[np.ndarray, "d l"]:
    """W turned so that the squares in each column vary most: each factor shows in few columns.

    Rows are brought to length 1 meanwhile. Kaiser (1958), "The varimax criterion for analytic rotation".
    """
    d, l = w.shape
    if l < 2:
        return signed(w)
    length = np.linalg.norm(w, axis=1, keepdims=True)
    a = w / np.where(length > 0, length, 1.0)
    turn, last = np.eye(l), 0.0
    for _ in range(steps):
        b = a @ turn
        u, s, vt = np.linalg.svd(a.T @ (b**3 - b * (b**2).sum(0) / d))
        turn = u @ vt
        if s.sum() <= last * (1 + 1e-10):
            break
        last = s.sum()
    turned = w @ turn
    return signed(turned[:, np.argsort(-(turned**2).sum(0), kind="stable")])


def aligned(w: Float[np.ndarray, "d l"], to: Float[np.ndarray, "d l"]) -> Float[np.ndarray, "d l"]:
    """W turned to be as near as it can be to another one (Procrustes). Schönemann (1966)."""
    u, _, vt = np.linalg.svd(w.T @ to)
    return w @ (u @ vt)
