"""EM for linear dynamical systems: expected sums over the states, and two regressions with their residual covariances.

    E    Σ E[wwᵀ], Σ E[ywᵀ], Σ E[yyᵀ]  for (y, w) = (zₜ, (zₜ₋₁, uₜ)) and (xₜ, (zₜ, uₜ, 1)), and the moments of z₁
    M    (F B) = Σ E[ywᵀ] (Σ E[wwᵀ])⁻¹,  Q = E[(y - (F B)w)(y - (F B)w)ᵀ],  the same for (H D d) and R,  and the start

Entries that were not seen enter through their law given the state and the other entries of the row. Shumway & Stoffer
(1982), "An approach to time series smoothing and forecasting using the EM algorithm"; Ghahramani & Hinton (1996).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from credo.models.lds.kalman import Smoothed, Start, Steps, begins, kalman_filter, rts_smoother
from credo.models.lds.score import masked_inverse
from credo.models.lds.small import solve
from credo.models.sequences import Sequences


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
        loose = jnp.array([i for i, each in enumerate(free) if each], dtype=int)
        held = jnp.array([i for i, each in enumerate(free) if not each], dtype=int)
        target = self.yw[:, loose] - given[:, held] @ self.ww[jnp.ix_(held, loose)]
        return given.at[:, loose].set(solve(self.ww[jnp.ix_(loose, loose)], target.T).T)

    def residual(self, c: Float[Array, "k m"]) -> Float[Array, "k k"]:
        """The mean of E[(y - Cw)(y - Cw)ᵀ]."""
        cross = c @ self.yw.T
        total = self.yy - cross - cross.T + c @ self.ww @ c.T
        return 0.5 * (total + total.T) / self.rows

    def maximum(
        self, c: Float[Array, "k m"], covariance: Float[Array, "k k"], free: tuple[bool, ...], loose: bool
    ) -> tuple[Float[Array, "k m"], Float[Array, "k k"]]:
        """The most likely C and covariance of what it leaves; columns that are not free are held."""
        some = self.rows > 0
        safe = self._replace(rows=jnp.where(some, self.rows, 1.0))
        found = jnp.where(some, safe.coefficients(c, free), c)
        return found, jnp.where(some, safe.residual(found), covariance)


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


def expect(start: Start, steps: Steps, data: Sequences, before: Start | None) -> tuple[Expected, Float[Array, ""]]:
    """The expected sums, and log p(x)."""
    filtered = kalman_filter(start, steps, data.x, data.seen, data.first, before)
    smoothed = rts_smoother(steps, filtered, data.first, cross=True)
    fresh = begins(data.first, before) & data.real
    sums = collect(steps, data, smoothed, fresh)
    return sums, filtered.log_likelihood


def collect(steps: Steps, data: Sequences, smoothed: Smoothed, fresh: Bool[Array, " t"]) -> Expected:
    """The sums from the smoothed moments; `fresh` marks real rows that begin a sequence."""
    m, p = smoothed.mean, smoothed.covariance
    inputs = jnp.zeros((m.shape[0], 0)) if data.inputs is None else data.inputs
    follows = (data.real & ~fresh).astype(float)[1:]
    begin = fresh.astype(float)
    assert smoothed.cross is not None
    dynamics = _sums(
        follows,
        (m[1:], p[1:]),
        (jnp.concatenate([m[:-1], inputs[1:]], axis=1), p[:-1]),
        jnp.einsum("t,tij->ij", follows, smoothed.cross[:-1]),
    )
    return Expected(
        dynamics,
        _outcomes(steps, data, m, p, inputs),
        begin.sum(),
        begin @ m,
        (begin[:, None] * m).T @ m + jnp.einsum("t,tij->ij", begin, p),
    )


def _sums(weight: Float[Array, " t"], y: Any, w: Any, cross: Float[Array, "k n"]) -> Regression:
    """Sums for y and w with means and covariances; only the first n entries of w are uncertain."""
    (my, py), (mw, pw) = y, w
    n = pw.shape[1]
    weighted = weight[:, None] * mw
    ww = (weighted.T @ mw).at[:n, :n].add(jnp.einsum("t,tij->ij", weight, pw))
    yw = (my.T @ weighted).at[:, :n].add(cross)
    return Regression(weight.sum(), (weight[:, None] * my).T @ my + jnp.einsum("t,tij->ij", weight, py), yw, ww)


def _outcomes(steps: Steps, data: Sequences, m: Any, p: Any, inputs: Any) -> Regression:
    """Sums of xₜ on (zₜ, uₜ, 1) over rows of which something was seen."""
    weight = jnp.any(data.seen, axis=1).astype(float)
    w = jnp.concatenate([m, inputs, jnp.ones((m.shape[0], 1))], axis=1)
    if data.complete:
        outputs = data.x.shape[1]
        nothing = jnp.zeros((data.x.shape[0], outputs, outputs))
        return _sums(weight, (data.x, nothing), (w, p), jnp.zeros((outputs, m.shape[1])))
    slope, level, noise = completed(steps, data)
    mean = jnp.einsum("tij,tj->ti", slope, m) + level
    spread = slope @ p
    covariance = spread @ jnp.swapaxes(slope, 1, 2) + noise
    return _sums(weight, (mean, covariance), (w, p), jnp.einsum("t,tij->ij", weight, spread))


def completed(
    steps: Steps, data: Sequences
) -> tuple[Float[Array, "t p n"], Float[Array, "t p"], Float[Array, "t p p"]]:
    """G, g and Cov e of x = Gz + g + e for each row: seen entries as they are, others given z and those."""
    r = steps.observation
    seen = r @ masked_inverse(r, data.seen)  # the noise of each entry from that of the seen ones
    rest = jnp.eye(r.shape[-1]) - seen
    offset = jnp.broadcast_to(steps.offset, data.x.shape)
    level = jnp.einsum("tij,tj->ti", seen, data.x) + jnp.einsum("tij,tj->ti", rest, offset)
    noise = rest @ r
    return rest @ steps.emission, level, 0.5 * (noise + jnp.swapaxes(noise, 1, 2))
