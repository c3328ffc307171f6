"""Wavelets: a coarse view and the detail that each finer scale adds.

On the line {φ(t - k)} ∪ {2^{j/2} ψ(2ʲt - k) : j ≥ 0} is an orthonormal basis. Here t runs over the domain
scaled to [0, 1], j over `levels` scales and k over the functions whose support meets the domain.
"""

import functools
from math import comb

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, Numeric, namespace
from credo.models.features.base import whole
from credo.models.features.local import OnDomain, check_domain

RESOLUTION = 12  # Daubechies' functions are tabulated every 2^-RESOLUTION


class Haar(OnDomain):
    """Haar wavelets ψ_{j,k}(t) = 2^{j/2} ψ(2ʲt - k), ψ = 1 on [0, ½) and -1 on [½, 1), for j = 0..levels-1.

    They are orthonormal on the domain and, with the intercept, span the functions that are constant on each
    of its 2^levels equal cells. The scaling function is the constant and left to the intercept. Haar (1910).
    """

    levels: int = eqx.field(static=True)
    domain: Float[Array, "*d 2"] | None

    def __init__(self, levels: int = 4, domain: Numeric | None = None):
        self.levels = whole("Haar", "levels", levels, least=1, most=16)
        self.domain = check_domain("Haar", domain)

    def basis(self, t: Float[Array, "n d"]) -> Float[Array, "n d q"]:
        """ψ_{0,0}, ψ_{1,0}, ψ_{1,1}, ψ_{2,0}, ..."""
        j, k = np.array(self._indices()).T
        # The last cell is closed: t = 1 is in it.
        inside = namespace(t).minimum(t, 1.0 - np.finfo(t.dtype).epsneg)
        u = inside[..., None] * 2.0**j - k
        first = (u >= 0) & (u < 0.5)
        second = (u >= 0.5) & (u < 1)
        return 2.0 ** (j / 2) * (first.astype(t.dtype) - second.astype(t.dtype))

    def labels(self) -> list[str]:
        """haar[j,k]."""
        return [f"haar[{j},{k}]" for j, k in self._indices()]

    def _indices(self) -> list[tuple[int, int]]:
        return [(j, k) for j in range(self.levels) for k in range(2**j)]


class Daubechies(OnDomain):
    """Daubechies' wavelets ψ_{j,k}, j = 0..levels-1, and scaling functions φ_{0,k}, with `vanishing` moments.

    φ(t) = √2 Σₖ hₖ φ(2t - k),  ψ(t) = √2 Σₖ (-1)ᵏ h_{2N-1-k} φ(2t - k),  N = vanishing, support [0, 2N - 1].
    Functions that reach over an end of the domain are cut there, so the basis is orthonormal in the interior
    and redundant at the ends; the scaling functions sum to one. The functions are continuous but rough (N = 2
    is not differentiable), and read from a table by linear interpolation, exact at multiples of 2^-12; a
    gradient with respect to x is the table's. Daubechies (1992), chapters 5 and 6. For N = 1 use `Haar`.
    """

    levels: int = eqx.field(static=True)
    vanishing: int = eqx.field(static=True)
    domain: Float[Array, "*d 2"] | None

    def __init__(self, levels: int = 4, vanishing: int = 2, domain: Numeric | None = None):
        self.levels = whole("Daubechies", "levels", levels, least=1, most=16)
        self.vanishing = whole("Daubechies", "vanishing (for 1 use Haar)", vanishing, least=2, most=10)
        self.domain = check_domain("Daubechies", domain)

    def basis(self, t: Float[Array, "n d"]) -> Float[Array, "n d q"]:
        """φ_{0,k} for all k, then ψ_{0,k}, ψ_{1,k}, ..."""
        kind, j, k = np.array(self._indices()).T
        tables = daubechies_tables(self.vanishing)
        xp, last = namespace(t), tables.shape[1] - 1
        place = xp.clip((t[..., None] * 2.0**j - k) * 2**RESOLUTION, 0, last)
        # Both ends of the table are zero, and so is everything beyond them.
        left = xp.minimum(xp.floor(place), last - 1)
        index = left.astype(int) + kind * (last + 1)
        flat = xp.asarray(tables.ravel())
        low, high = flat[index], flat[index + 1]
        return 2.0 ** (j / 2) * (low + (place - left) * (high - low))

    def labels(self) -> list[str]:
        """db2φ[0,k] and db2ψ[j,k], where 2 is the number of vanishing moments."""
        return [f"db{self.vanishing}{'φψ'[kind]}[{j},{k}]" for kind, j, k in self._indices()]

    def _indices(self) -> list[tuple[int, int, int]]:
        """(kind, j, k) of each function: its support is (k, k + 2N - 1) / 2ʲ."""
        before = 2 * self.vanishing - 2
        scaling = [(0, 0, k) for k in range(-before, 1)]
        return scaling + [(1, j, k) for j in range(self.levels) for k in range(-before, 2**j)]


@functools.cache
def daubechies_filter(vanishing: int) -> Float[np.ndarray, "taps"]:
    """The 2N coefficients hₖ of least phase, by spectral factorization.

    |m₀|² = cos²ᴺ(ω/2) P(sin²(ω/2)) with P(y) = Σ_{k<N} C(N-1+k, k) yᵏ; every root y of P gives a pair of
    roots z + 1/z = 2 - 4y, of which the one in the unit circle is kept. Daubechies (1992), section 6.1.
    """
    roots = np.roots([comb(vanishing - 1 + k, k) for k in reversed(range(vanishing))])
    middle = (1 - 2 * roots).astype(complex)
    z = middle + np.sqrt(middle**2 - 1)
    z = np.where(np.abs(z) < 1, z, 1 / z)
    taps = np.poly(np.concatenate([-np.ones(vanishing), z])).real
    return np.sqrt(2) * taps / taps.sum()


@functools.cache
def daubechies_tables(vanishing: int) -> Float[np.ndarray, "2 points"]:
    """φ and ψ at every multiple of 2^-RESOLUTION in [0, 2N - 1], exact up to rounding.

    At the integers φ is the eigenvector v = Mv, Mᵢⱼ = √2 h_{2i-j}, with Σᵢ vᵢ = 1; the refinement equation
    gives the values halfway between known ones. Daubechies (1992), section 6.5.
    """
    taps = daubechies_filter(vanishing)
    last = 2 * vanishing - 1
    row, column = np.indices((last + 1, last + 1))
    lag = 2 * row - column
    refinement = np.where((lag >= 0) & (lag <= last), np.sqrt(2) * taps[np.clip(lag, 0, last)], 0.0)
    equations = np.vstack([refinement - np.eye(last + 1), np.ones(last + 1)])
    phi = np.linalg.lstsq(equations, np.append(np.zeros(last + 1), 1.0))[0]
    for _ in range(RESOLUTION - 1):
        phi = _refined(phi, taps)
    mirrored = taps[::-1] * (-1.0) ** np.arange(last + 1)
    tables = np.stack([_refined(phi, taps), _refined(phi, mirrored)])
    tables[:, [0, -1]] = 0.0  # zero by continuity, up to rounding before
    return tables


def _refined(phi: Float[np.ndarray, "points"], taps: Float[np.ndarray, "taps"]) -> Float[np.ndarray, "finer"]:
    """√2 Σₖ cₖ φ(2t - k) on the grid twice as fine as φ's."""
    last = len(taps) - 1
    step = (len(phi) - 1) // last
    finer = np.zeros(2 * (len(phi) - 1) + 1)
    for k, tap in enumerate(taps):
        finer[k * step : k * step + len(phi)] += np.sqrt(2) * tap * phi
    return finer
