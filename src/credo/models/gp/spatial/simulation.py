"""Draws of a whole field at many places: sequential Gaussian simulation.

In a random order each value is drawn given its nearest measurements and the nearest values drawn before it, which is
Vecchia's approximation of the joint law; O(mk³). Of a few thousand places and a `GP` the joint law itself is drawn
from. Deutsch & Journel (1998), "GSLIB", §V.2.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from credo.core.abilities import DrawsFunctions, able
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.large.base import LargeGP
from credo.models.gp.large.nearest import earlier_of
from credo.models.gp.large.neighbours import Neighbours, NeighboursGP
from credo.models.gp.large.vecchia import conditionals, trend_columns

JOINTLY = 2500
"""Up to so many places are drawn from their joint law."""
NEAR = 40
"""Measurements and earlier values that a value is drawn given."""

SMALL = 1e-9
"""A share of the variance that drawn values may be off by: near ones are nearly equal."""


def simulate(
    belief: Any, x: Float[np.ndarray, "m d"], n: int, seed: int, spare: float = 0.0
) -> Float[np.ndarray, "n m"]:
    """n draws of the function at the rows x.

    `spare` is a variance of its own at each row that is no part of the field: that of a group nobody has seen.
    """
    if isinstance(belief, GP) and len(x) <= JOINTLY:
        return np.asarray(belief.sample(x, n, seed=seed))
    if not isinstance(belief, GP | NeighboursGP) and able(belief, DrawsFunctions):
        return np.asarray(belief.sample_functions(n, seed=seed)(x))
    return _sequentially(_by_neighbours(belief), x, n, np.random.default_rng(seed), spare)


def _by_neighbours(belief: Any) -> NeighboursGP:
    if isinstance(belief, NeighboursGP):
        return belief
    plain = belief.as_gp() if isinstance(belief, LargeGP) else belief.unconditioned()
    return Neighbours(NEAR).form(plain).condition_on(belief.seen)


def _sequentially(belief: NeighboursGP, x: np.ndarray, n: int, rng: np.random.Generator, spare: float) -> np.ndarray:
    order = rng.permutation(len(x))
    places, zeros = x[order], np.zeros(len(x))
    kernel, trend = belief.parts()
    seen = len(belief.seen.x)
    extra = np.full(len(x), SMALL * float(kernel.variance_at(places[:1])[0]) - spare)
    rows = belief.seen + Rows(places, np.asarray(belief.mean.at(places)), zeros, extra, None)
    own = np.arange(seen, seen + len(x))
    index, real = earlier_of(kernel, rows.x, own, NEAR)
    b, d = _conditioned(belief, rows, index, real, own)
    columns = np.asarray(trend_columns(trend, rows.x))
    expected = np.asarray(belief.mean.at(rows.x)) + belief.solved.draw(rng, n) @ columns.T
    left = np.asarray(rows.y) - expected  # of the places: to be drawn
    noise = np.sqrt(np.maximum(d, 0.0))[:, None] * rng.normal(size=(len(x), n))
    left = np.ascontiguousarray(left.T)
    for i, place in enumerate(own):
        left[place] = b[i] @ left[index[i]] + noise[i]
    out = np.empty((n, len(x)))
    out[:, order] = expected[:, seen:] + left[seen:].T
    return out


def _conditioned(
    belief: NeighboursGP, rows: Rows, index: np.ndarray, real: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """b and d: a value given its neighbours is N(b · theirs, d)."""
    values, weights, variances = np.zeros((len(rows.x), 1)), [], []
    for cut, near, k, solved in belief.solved_in_chunks(rows, values, index, real, own):
        weights.append(np.where(real[cut], np.asarray(solved)[:, :, 0], 0.0))
        variances.append(np.asarray(conditionals(k, near, solved)[1]))
    return np.concatenate(weights), np.concatenate(variances)
