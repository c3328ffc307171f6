"""Forecasts from the law of the latest state: of the states, and of outcomes with how they covary over time.

    zₜ₊ₖ ~ N(Fᵏm, Pₖ),    Pₖ = FPₖ₋₁Fᵀ + Q,    Cov(zₜ₊ₖ, zₜ₊ⱼ) = F^(k-j) Pⱼ for j < k

Durbin & Koopman (2012), section 4.11.
"""

import warnings

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.errors import RepairedWarning
from credo.core.padding import bucket, pad_rows
from credo.core.predictive import Normal
from credo.core.scan import is_short, run, scan
from credo.models.lds.batched_matrices import apply, times, transposed
from credo.models.lds.kalman import Law, StateLaw, SystemMatrices, Varying, predict_or_begin

LARGEST_JOINT = 2048
"""Forecasts of more steps come without the covariance between them, which would be 33 MB here and 3.2 GB for ten times
as many."""

Row = tuple[Varying, Array]
Shown = tuple[Array, Array, Array | None]


def laws_ahead(system: SystemMatrices, start: StateLaw, law: StateLaw | None, count: int) -> StateLaw:
    """The laws of the next `count` states; from the start where nothing was seen before."""

    def step(last: Law, row: Row, start: StateLaw, system: SystemMatrices) -> tuple[Law, Law]:
        varying, at = row
        found = predict_or_begin(start, last, system.at(varying), (at == 0) & (law is None))
        return found, found

    rows = (system.varying(), np.arange(count))
    return StateLaw(*scan(step, tuple(start if law is None else law), rows, given=(start, system), blocks=1)[1])


def outcomes_ahead(
    system: SystemMatrices, start: StateLaw, law: StateLaw | None, count: int, joint: bool
) -> tuple[Float[Array, "t p"], Float[Array, "t p"], Float[Array, "t t"] | None]:
    """Means and variances of the next outcomes without noise, and with `joint` how those of one output covary."""
    xp, places = namespace(system, start, law), np.arange(count if joint else 0)

    def step(
        carry: tuple[Array, Array, Array], row: Row, start: StateLaw, system: SystemMatrices, places: Array
    ) -> tuple[tuple[Array, Array, Array], Shown]:
        """Column j of `past` is Cov(zₜ, the outcome at j)."""
        m, p, past = carry
        now, at = system.at(row[0]), row[1]
        m, p = predict_or_begin(start, (m, p), now, (at == 0) & (law is None))
        h, covariances = now.emission, None
        ph = times(p, transposed(h))
        if joint:
            past = xp.where(places == at, ph, times(now.transition, past))
            covariances = apply(transposed(past), h[0])
        return (m, p, past), (apply(h, m) + now.offset, (transposed(ph) * h).sum(axis=1), covariances)

    mean, covariance = start if law is None else law
    nothing: Array = np.zeros((len(mean), len(places)))
    rows, given = (system.varying(), np.arange(count)), (start, system, places)
    means, latent, low = scan(step, (mean, covariance, nothing), rows, given=given, blocks=1)[1]  # nothing is forgotten
    return means, latent.clip(0.0), None if low is None else xp.tril(low) + xp.tril(low, -1).T


def forecast(system: SystemMatrices, start: StateLaw, law: StateLaw | None, steps: int) -> Normal:
    """The next outcomes, (steps,) of one output: noise is aleatoric, doubt about the state epistemic."""
    alone = system.emission.shape[-2] == 1
    joint = alone and steps <= LARGEST_JOINT
    if alone and not joint:
        warnings.warn(
            f"{steps:,} steps are forecast without how they covary, known up to {LARGEST_JOINT:,}: each is right by "
            "itself, but a draw of all of them takes every step on its own",
            RepairedWarning,
            stacklevel=3,
        )
    length = steps if is_short(steps) else bucket(steps)
    varying = (None if a is None else pad_rows(a, length) for a in system.varying())
    mean, latent, covariance = run(outcomes_ahead, steps, system.at(tuple(varying)), start, law, length, joint)
    noise = namespace(system).diagonal(system.observation_noise, axis1=-2, axis2=-1)
    mean, latent = mean[:steps], latent[:steps]
    noise = namespace(noise, mean).broadcast_to(noise, mean.shape)
    covariance = None if covariance is None else covariance[:steps, :steps]
    if alone:
        mean, noise, latent = mean[:, 0], noise[:, 0], latent[:, 0]
    return Normal(mean, noise, latent, covariance)
