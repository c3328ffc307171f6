"""EM for linear dynamical systems: expected sums over the states, and two regressions with their residual covariances.

    E    Σ E[wwᵀ], Σ E[ywᵀ], Σ E[yyᵀ]  for (y, w) = (zₜ, (zₜ₋₁, uₜ)) and (xₜ, (zₜ, uₜ, 1)), and the moments of z₁
    M    (F B) = Σ E[ywᵀ] (Σ E[wwᵀ])⁻¹,  Q = E[(y - (F B)w)(y - (F B)w)ᵀ],  the same for (H D d) and R,  and the start

Entries that were not seen enter through their law given the state and the other entries of the row. Shumway & Stoffer
(1982), "An approach to time series smoothing and forecasting using the EM algorithm"; Ghahramani & Hinton (1996).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, namespace
from credo.core.linalg import symmetric_part
from credo.models.lds.batched_matrices import solve_semidefinite
from credo.models.lds.kalman import FilterInputs, SystemMatrices, forward_pass, kalman_smoother
from credo.models.lds.score import masked_inverse
from credo.models.sequences import Sequences
from credo.models.state_laws import SmoothedStates


class Regression(NamedTuple):
    """The sums of a regression of y on w."""

    rows: Float[Array, ""]
    yy: Float[Array, "k k"]
    yw: Float[Array, "k m"]
    ww: Float[Array, "m m"]

    def coefficients(self, given: Float[Array, "k m"], free: tuple[bool, ...]) -> Float[Array, "k m"]:
        """The columns of C that are free, such that y ≈ Cw; the others as given."""
        if not any(free):
            return given
        loose, held = np.flatnonzero(free), np.flatnonzero(np.logical_not(free))
        target = self.yw[:, loose] - given[:, held] @ self.ww[np.ix_(held, loose)]
        return with_columns(given, solve_semidefinite(self.ww[np.ix_(loose, loose)], target.T).T, free)

    def residual(self, c: Float[Array, "k m"]) -> Float[Array, "k k"]:
        """The mean of E[(y - Cw)(y - Cw)ᵀ]."""
        cross = c @ self.yw.T
        return symmetric_part(self.yy - cross - cross.T + c @ self.ww @ c.T) / self.rows

    def maximum(
        self, c: Float[Array, "k m"], covariance: Float[Array, "k k"], free: tuple[bool, ...], loose: bool
    ) -> tuple[Float[Array, "k m"], Float[Array, "k k"]]:
        """The most likely C and covariance of what it leaves; columns that are not free are held."""
        xp, some = namespace(self, c, covariance), self.rows > 0
        safe = self._replace(rows=xp.where(some, self.rows, 1.0))
        found = xp.where(some, safe.coefficients(c, free), c)
        return found, xp.where(some, safe.residual(found), covariance)


def with_columns(c: Float[Array, "k m"], new: Float[Array, "k f"], free: tuple[bool, ...]) -> Float[Array, "k m"]:
    """C with new columns where they are free."""
    both = namespace(c, new).concatenate([c, new], axis=1)
    return both[:, np.where(free, len(free) - 1 + np.cumsum(free), np.arange(len(free)))]


class Expected(NamedTuple):
    """What the M-step needs."""

    dynamics: Regression
    """of zₜ on (zₜ₋₁, uₜ)"""
    outcomes: Regression
    """of xₜ on (zₜ, uₜ, 1)"""
    sequences: Float[Array, ""]
    mean: Float[Array, " n"]
    """Σ E[z] over the first states of the sequences"""
    second: Float[Array, "n n"]
    """Σ E[zzᵀ] over the same"""


def expect(given: FilterInputs, data: Sequences) -> tuple[Expected, Float[Array, ""]]:
    """The expected sums, and log p(x)."""
    filtered, told = forward_pass(given)
    smoothed = kalman_smoother(given, filtered, told, cross=True)
    return collect(given.system, data, smoothed, given.begins & data.real), filtered.log_likelihood


def collect(system: SystemMatrices, data: Sequences, smoothed: SmoothedStates, fresh: Bool[Array, " t"]) -> Expected:
    """The sums from the smoothed moments; `fresh` marks real rows that begin a sequence."""
    assert smoothed.cross is not None
    m, p = smoothed.mean, smoothed.covariance
    follows = (data.real & ~fresh)[1:]
    w = namespace(m, data).concatenate([m[:-1], _inputs(data)[1:]], axis=1)
    spreads = _total(follows, p[1:]), _total(follows, p[:-1]), _total(follows, smoothed.cross[:-1])
    begin = fresh.astype(float)
    second = (begin[:, None] * m).T @ m + _total(fresh, p)
    return Expected(_sums(follows, m[1:], w, *spreads), _outcomes(system, data, m, p), begin.sum(), begin @ m, second)


def _inputs(data: Sequences) -> Float[Array, "t c"]:
    return np.zeros((data.x.shape[0], 0)) if data.inputs is None else data.inputs


def _total(rows: Bool[Array, " t"], p: Float[Array, "t k n"]) -> Float[Array, "k n"]:
    """The sum over some rows."""
    return (rows.astype(float) @ p.reshape(len(p), -1)).reshape(p.shape[1:])


def _sums(rows: Bool[Array, " t"], y: Array, w: Array, yy: Array, ww: Array, yw: Array) -> Regression:
    """Sums for y and w with means and sums of covariances; only the first n entries of w are uncertain."""
    xp, more = namespace(y, w, yw, ww), w.shape[1] - ww.shape[0]
    weight = rows.astype(float)
    weighted = weight[:, None] * w
    return Regression(
        weight.sum(),
        (weight[:, None] * y).T @ y + yy,
        y.T @ weighted + xp.pad(yw, ((0, 0), (0, more))),
        weighted.T @ w + xp.pad(ww, ((0, more), (0, more))),
    )


def _outcomes(system: SystemMatrices, data: Sequences, m: Float[Array, "t n"], p: Float[Array, "t n n"]) -> Regression:
    """Sums of xₜ on (zₜ, uₜ, 1) over rows of which something was seen."""
    xp = namespace(system, data, m, p)
    rows = xp.any(data.seen, axis=1)
    w = xp.concatenate([m, _inputs(data), np.ones((m.shape[0], 1))], axis=1)
    if data.complete:
        outputs = data.x.shape[1]
        return _sums(rows, data.x, w, np.zeros((outputs, outputs)), _total(rows, p), np.zeros((outputs, m.shape[1])))
    slope, level, noise = completed(system, data)
    spread = slope @ p
    yy = _total(rows, spread @ slope.swapaxes(1, 2) + noise)
    return _sums(rows, (slope @ m[:, :, None])[:, :, 0] + level, w, yy, _total(rows, p), _total(rows, spread))


def completed(
    system: SystemMatrices, data: Sequences
) -> tuple[Float[Array, "t p n"], Float[Array, "t p"], Float[Array, "t p p"]]:
    """G, g and Cov e of x = Gz + g + e for each row: seen entries as they are, others given z and those."""
    r = system.observation_noise
    seen = r @ masked_inverse(r, data.seen)  # the noise of each entry from that of the seen ones
    rest = np.eye(r.shape[-1]) - seen
    offset = namespace(system.offset).broadcast_to(system.offset, data.x.shape)
    level = (seen @ data.x[:, :, None] + rest @ offset[:, :, None])[:, :, 0]
    return rest @ system.emission, level, symmetric_part(rest @ r)
