"""What `learn` does before it climbs: features adapted to the data, and a sensible place to start from.

Features are standardized, the intercept gets the mean and the variance of y (a prior worth one observation),
and the variance of y is split in halves between the noise and the features.
"""

import dataclasses
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.checks import ArrayLike, input_names
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.models.features import Affine, Features, Standardize
from credo.models.linear.belief import Linear
from credo.models.linear.priors import ARD, Intercept, Isotropic, LaplacePrior
from credo.models.linear.statistics import Seen, collect, collect_standardized
from credo.models.noise import KnownNoise, Noise

P = TypeVar("P")

SMALLEST = 1e-240
"""The variance of y whose square, and precision, are still numbers."""


def prepare(belief: Linear, data: tuple[ArrayLike, ...], weights: ArrayLike, noise: ArrayLike) -> tuple[Linear, Seen]:
    """The belief ready to learn, and the statistics of the data under its features."""
    names = input_names(data[0], belief.inputs) if len(data) == 2 else None
    if belief.seen is not None:
        more = belief.statistics(*data, weights=weights, noise=noise) if data else None
        return belief.unconditioned(), belief.seen if more is None else belief._with(more)
    if noise is not None:
        belief = changed(belief, noise=KnownNoise())
    chunks = belief._chunks(data, weights, noise, summed=True)
    has_intercept, by_row = belief.intercept is not None, belief.is_robust or belief.noise_law.joint
    if isinstance(belief.features, Affine) and belief.features.is_identity and not by_row:
        features, center, spread, statistics = collect_standardized(chunks, has_intercept)
        p = statistics.cross.shape[0] - has_intercept
        return started(belief, features, center, spread, p, names or [f"x{i}" for i in range(p)]), statistics
    rows = list(chunks)
    x = rows[0].x if len(rows) == 1 else np.concatenate([c.x for c in rows])
    y = np.concatenate([c.y for c in rows])
    w = np.concatenate([np.ones(len(c.y)) if c.weights is None else c.weights for c in rows])
    adapted = standardized(belief.features, has_intercept).adapt(x, w)
    center = float(np.average(y, weights=w)) if has_intercept else 0.0
    spread = float(np.average((y - center) ** 2, weights=w))
    d = x.shape[1]
    ready = started(belief, adapted, center, spread, adapted.size(d), names or [f"x{i}" for i in range(d)])
    if by_row:
        return ready, ready._from_rows(rows)
    return ready, collect(adapted, rows, ready.reference, has_intercept)


def standardized(features: Features, shifted: bool) -> Affine | Standardize:
    """The features with their columns brought to one scale, so that one prior precision suits them all.

    Without an intercept they are scaled only: shifting would let a constant in. What was given stays.
    """
    shift = None if shifted else np.zeros(())
    if isinstance(features, Affine | Standardize):
        return features if features.shift is not None else dataclasses.replace(features, shift=shift)
    return Standardize(features, shift=shift)


def started(belief: Linear, features: Features, center: float, spread: float, p: int, names: list[str]) -> Linear:
    """The belief with these features and with starting values for the mean and variance of y."""
    if not spread > 0:
        raise DataError("y is constant: there is nothing to learn from it; drop the target or give it some variation")
    if not SMALLEST < spread < 1 / SMALLEST:
        raise DataError(
            f"the squares of y are out of range: its standard deviation is {spread**0.5:.3g}; give y in other units"
        )
    half = spread / 2
    relative = belief.noise_law.integrated  # precisions are then in units of the noise
    intercept = Intercept(np.asarray(center), np.asarray(2.0 if relative else spread))
    return changed(
        belief,
        features=features,
        prior=starting_prior(belief.prior, 1.0 if relative else max(p, 1) / half, p),
        noise=belief.noise_law.adapt(half) if isinstance(belief.noise, Noise) else np.asarray(half),
        intercept=None if belief.intercept is None else intercept,
        inputs=tuple(names),
    )


def starting_prior(prior: P, precision: float | Float[Array, ""], p: int) -> P | Isotropic | ARD | LaplacePrior:
    """The prior with the precision from which `learn` starts, for p features; a Gaussian stays as it is."""
    if isinstance(prior, Isotropic):
        return Isotropic(np.asarray(precision))
    if isinstance(prior, ARD):
        return ARD(np.full(p, precision))
    if isinstance(prior, LaplacePrior):
        return LaplacePrior(1 / np.sqrt(precision))
    return prior
