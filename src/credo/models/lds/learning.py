"""EM for linear dynamical systems: expected sums over the states, and regressions with their residual covariances.

    E    Σ E[wwᵀ], Σ E[ywᵀ], Σ E[yyᵀ]  for (y, w) = (zₜ, (zₜ₋₁, uₜ)), (xₜ, (zₜ, uₜ, 1)) and (z₁, (1, u₁))
    M    (F B) = Σ E[ywᵀ] (Σ E[wwᵀ])⁻¹,  Q = E[(y - (F B)w)(y - (F B)w)ᵀ],  the same for (H D d), R and (μ₁ B₁), Σ₁

A variance that the data would put at zero stays at a millionth of its size over the number of rows: the M-step is that
of the prior exp(-½ tr ΨΣ⁻¹), Ψ = 10⁻⁶ times the variances of the data, or those that the states' noise begins with.
Entries that were not seen enter through their law given the state and the other entries of the row. Shumway & Stoffer
(1982), "An approach to time series smoothing and forecasting using the EM algorithm"; Ghahramani & Hinton (1996).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from credo.core.abilities import HasExpectations
from credo.core.arrays import Array, namespace
from credo.core.linalg import symmetric_part
from credo.infer.em import EM
from credo.infer.learning import Learned
from credo.infer.priors import Priors
from credo.models.lds.batched_matrices import solve_semidefinite
from credo.models.lds.kalman import FilterInputs, Law, SystemMatrices, back_pass, first_mean, forward_pass
from credo.models.lds.score import masked_inverse
from credo.models.sequences import Sequences

if TYPE_CHECKING:
    from credo.models.lds.belief import LDS

FLOOR = 1e-6
"""So much of a row, of the variance that is typical, every covariance gets in the M-step."""
NEAR = 100.0
"""A variance within this of its floor is there because of it."""


class Floors(NamedTuple):
    """The diagonals Ψ of what the M-step adds to the scatter of each covariance."""

    process_noise: Float[Array, " n"]
    observation_noise: Float[Array, " p"]
    start_covariance: Float[Array, " n"]

    def log_prior(self, lds: "LDS") -> Float[Array, ""]:
        """-½ Σ tr ΨΣ⁻¹."""
        total: Array = np.zeros(())
        for name, floor in self._asdict().items():
            covariance = getattr(lds, name)
            xp = namespace(covariance, floor)
            total = total - 0.5 * xp.trace(solve_semidefinite(covariance, xp.diag(floor)))
        return total


@dataclass(frozen=True)
class SystemEM(EM):
    """`EM` that says which covariances came to rest at their floors."""

    tolerance: float | int = 3e-6

    def learn(
        self, belief: HasExpectations, statistics: object, fixed: Sequence[str], priors: Priors, seed: int
    ) -> Learned:
        """The belief at the highest maximum found."""
        assert isinstance(statistics, Sequences)
        learned = super().learn(belief, statistics, fixed, priors, seed)
        lds, rows = learned.belief, max(statistics.rows, 1)
        for name in ("process_noise", "observation_noise"):
            scale = np.sqrt(NEAR / rows * getattr(lds.floors, name))
            least = np.linalg.eigvalsh(getattr(lds, name) / np.outer(scale, scale)).min()
            if name not in fixed and least < 1:
                learned.at_bound[name] = "lower"
        return learned


class Regression(NamedTuple):
    """The sums of a regression of y on w, where y may be what present coefficients leave (`expect`)."""

    rows: Float[Array, ""]
    yy: Float[Array, "k k"]
    yw: Float[Array, "k m"]
    ww: Float[Array, "m m"]

    def maximum(
        self,
        c: Float[Array, "k m"],
        covariance: Float[Array, "k k"],
        free: tuple[bool, ...],
        loose: bool,
        floor: Float[Array, " k"],
    ) -> tuple[Float[Array, "k m"], Float[Array, "k k"]]:
        """The most likely C and covariance of what it leaves, for sums of what the present C leaves of y.

        Columns that are not free are held. Near the maximum the step from C to the next is small: nothing cancels.
        """
        xp, some = namespace(self, c, covariance), self.rows > 0
        chosen = np.flatnonzero(free)
        step = xp.zeros_like(c)
        if len(chosen):
            found = solve_semidefinite(self.ww[np.ix_(chosen, chosen)], self.yw[:, chosen].T).T
            step = with_columns(step, xp.where(some, found, 0.0), free)
        cross = step @ self.yw.T
        rest = symmetric_part(self.yy - cross - cross.T + step @ self.ww @ step.T) + xp.diag(floor)
        return c + step, xp.where(some, rest / xp.where(some, self.rows, 1.0), covariance)


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
    start: Regression
    """of the first state of each sequence on (1, u₁)"""


class Moved(NamedTuple):
    """What F and B leave of the states that follow another: its mean, and sums of its covariances."""

    mean: Float[Array, "s n"]
    own: Float[Array, "n n"]
    """Σ Cov(q, q) and"""
    with_last: Float[Array, "n n"]
    """Σ Cov(qₜ, zₜ₋₁), over the states that follow another."""


def expect(given: FilterInputs, data: Sequences) -> tuple[Expected, Float[Array, ""]]:
    """The expected sums, of what the present matrices leave of zₜ and xₜ, and log p(x).

    With r and N of the way back and P of the filter the noise q = zₜ - Fzₜ₋₁ - Buₜ has mean Qr and covariance Q - QNQ,
    and Cov(q, zₜ₋₁) = -QNFP: no difference of large numbers, however small Q is. Koopman (1993).
    """
    filtered, told = forward_pass(given)
    found = back_pass(given, filtered, told, lambda found: found)
    f, q, follows = given.system.transition, given.system.process_noise, following_rows(given, data)
    noise = q * follows.sum() - q @ total(follows, found.n[1:]) @ q
    pairs = -q @ total(follows, found.n[1:] @ f @ filtered.covariance[:-1])
    moved = Moved(found.r[1:] @ q, noise, pairs)
    return expected_sums(given, data, (found.mean, found.covariance), moved), filtered.log_likelihood


def following_rows(given: FilterInputs, data: Sequences) -> Bool[Array, " s"]:
    """Which rows from the second on follow another of their sequence."""
    return (data.real & ~(given.begins & data.real))[1:]


def expected_sums(given: FilterInputs, data: Sequences, laws: Law, moved: Moved) -> Expected:
    """The expected sums from the laws (m, P) of all states, and what the dynamics leave."""
    m, p = laws
    xp, h, offset = namespace(given, data, m), given.system.emission, given.system.offset
    follows, fresh = following_rows(given, data), given.begins & data.real
    w = xp.concatenate([m[:-1], driven_by(data)[1:]], axis=1)
    dynamics = _sums(follows, moved.mean, w, (moved.own, moved.with_last, total(follows, p[:-1])))
    rows = xp.any(data.seen, axis=1)
    w = xp.concatenate([m, driven_by(data), np.ones((len(m), 1))], axis=1)
    slope, level, extra = (-h, data.x - offset, 0.0) if data.complete else _left(given.system, data)
    spread = slope @ p
    yy = total(rows, spread @ slope.swapaxes(-1, -2) + extra)
    left = (slope @ m[:, :, None])[:, :, 0] + level
    outcomes = _sums(rows, left, w, (yy, total(rows, spread), total(rows, p)))
    level = xp.broadcast_to(first_mean(given.start, given.system), m.shape)
    w = xp.concatenate([np.ones((len(m), 1)), driven_by(data)], axis=1)
    start = _sums(fresh, m - level, w, (total(fresh, p), np.zeros((m.shape[1], 0)), np.zeros((0, 0))))
    return Expected(dynamics, outcomes, start)


def _left(system: SystemMatrices, data: Sequences) -> tuple[Array, Array, Array]:
    """What Hz + Du + d leaves of x for each row, as a linear function of z and noise."""
    slope, level, noise = completed(system, data)
    return slope - system.emission, level - system.offset, noise


def sums_of_states(data: Sequences, z: Float[Array, "t n"], fresh: Bool[Array, " t"]) -> tuple[Regression, Regression]:
    """The sums of both regressions where the states are known, and every row was seen in full or not at all."""
    xp, follows = namespace(data, z), (data.real & ~fresh)[1:]
    ones = np.ones((len(z), 1))
    dynamics = _sums(follows, z[1:], xp.concatenate([z[:-1], driven_by(data)[1:]], axis=1))
    outcomes = _sums(xp.any(data.seen, axis=1), data.x, xp.concatenate([z, driven_by(data), ones], axis=1))
    return dynamics, outcomes


def driven_by(data: Sequences) -> Float[Array, "t c"]:
    """The inputs of every row, of which there may be none."""
    return np.zeros((data.x.shape[0], 0)) if data.inputs is None else data.inputs


def total(rows: Bool[Array, " t"], p: Float[Array, "t k n"]) -> Float[Array, "k n"]:
    """The sum over some rows."""
    return (rows.astype(float) @ p.reshape(len(p), p.shape[1] * p.shape[2])).reshape(p.shape[1:])


def _sums(rows: Bool[Array, " t"], y: Array, w: Array, spreads: tuple[Array, Array, Array] | None = None) -> Regression:
    """Sums for y and w with means, and sums of the covariances yy, yw, ww; only the first of w are uncertain."""
    xp, weight = namespace(y, w, spreads), rows.astype(float)
    weighted = weight[:, None] * w
    sums = (weight[:, None] * y).T @ y, y.T @ weighted, weighted.T @ w
    if spreads is not None:
        yy, yw, ww = spreads
        more = w.shape[1] - len(ww)
        wide = yy, xp.pad(yw, ((0, 0), (0, more))), xp.pad(ww, ((0, more), (0, more)))
        sums = tuple(a + b for a, b in zip(sums, wide, strict=True))
    return Regression(weight.sum(), *sums)


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
