"""Draws of a whole field at many places: draws of the prior, conditioned by kriging (Matheron's rule).

    f(s) = f₀(s) + E[f(s) | y] - E[f(s) | y₀],    y₀ = f₀(X) + ε,    f₀ ~ prior,    ε ~ noise

Of a few thousand places and a `GP` the joint law itself is drawn from. f₀ is drawn at the measurements and the places
in a random order, each value given the nearest ones before it, which is Vecchia's approximation and O(mk³): without
noise what is far says next to nothing beside what is near. (With it, it does: values that are drawn given their nearest
measurements and earlier values are off by many standard errors where the field is smooth.)
Journel & Huijbregts (1978), "Mining geostatistics", §VII.A.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from credo.core.abilities import DrawsFunctions, able
from credo.core.linalg import solve
from credo.kernels import Kernel
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.large.base import in_chunks
from credo.models.gp.large.conditioned_draws import ConditionedDraws
from credo.models.gp.large.nearest import earlier_of
from credo.models.gp.large.neighbours import Neighbours, NeighboursGP
from credo.models.gp.large.vecchia import conditionals, trend_columns

JOINTLY = 2500
"""Up to so many places are drawn from their joint law."""
NEAR = 60
"""Earlier values that a value is drawn given."""
SMALL = 1e-9
"""A share of the variance that drawn values may be off by: near ones are nearly equal."""


def simulate(
    belief: Any,
    kernel: Kernel,
    coordinates: int,
    group_variance: float,
    x: Float[np.ndarray, "m d"],
    n: int,
    seed: int,
) -> Float[np.ndarray, "n m"]:
    """n draws of the field, whose kernel of the coordinates this is, at rows x of the belief.

    Rows of a belief that knows groups have their number in a column more.
    """
    if isinstance(belief, GP) and len(x) <= JOINTLY:
        return np.asarray(belief.sample(x, n, seed=seed))
    if not isinstance(belief, GP | NeighboursGP) and able(belief, DrawsFunctions):
        return np.asarray(belief.sample_functions(n, seed=seed)(x))
    rng = np.random.default_rng(seed)
    seen, y, scale, extra = belief.seen.cut()
    both = _prior(kernel, np.concatenate([seen, x])[:, :coordinates], n, rng)
    measured, there = both[: len(seen)], both[len(seen) :]
    if seen.shape[1] > coordinates:
        code = seen[:, -1].astype(int)
        measured += np.sqrt(group_variance) * rng.normal(size=(code.max() + 1, n))[code]
    measured += np.sqrt(float(belief.noise_variance()) * scale + extra)[:, None] * rng.normal(size=measured.shape)
    if isinstance(belief, NeighboursGP):
        weights = belief.solved.draw(rng, n)
        trend = np.asarray(trend_columns(belief.parts()[1], seen))
        left = (y - np.asarray(belief.mean.at(seen)))[:, None] - trend @ weights.T - measured
        return np.asarray(ConditionedDraws(belief, lambda _: there.T, weights, left)(x))
    trend = belief.mean.kernel()
    if trend is not None:
        columns = (np.asarray(trend_columns(trend, v)) for v in (seen, x))
        weights = rng.normal(size=(trend_columns(trend, seen[:1]).shape[1], n))
        measured, there = (v + c @ weights for v, c in zip((measured, there), columns, strict=True))
    left = np.asarray(belief.solved.alpha)[:, None] - np.asarray(solve(belief.solved.root, measured))
    said = [belief.prior.kernel.between(x[cut], belief.seen.x) @ left for cut in in_chunks(len(x), len(seen))]
    return np.asarray(belief.mean.at(x)) + (there + np.concatenate(said)).T


def _prior(kernel: Kernel, x: np.ndarray, n: int, rng: np.random.Generator) -> Float[np.ndarray, "m n"]:
    """n draws of the prior at the rows x, by Vecchia's approximation in a random order."""
    order = rng.permutation(len(x))
    places, zeros, own = x[order], np.zeros(len(x)), np.arange(len(x))
    rows = Rows(places, zeros, zeros, SMALL * np.asarray(kernel.variance_at(places)), None)
    index, real = earlier_of(kernel, places, own, NEAR)
    drawn = np.zeros((len(x), n))  # zeros, since those that are not there have weight zero
    chunks = Neighbours(NEAR).form(GP(kernel, 0.0, 1.0)).solved_in_chunks(rows, zeros[:, None], index, real, own)
    for cut, near, k, solved in chunks:
        b = np.where(real[cut], np.asarray(solved)[:, :, 0], 0.0)
        noise = np.sqrt(np.maximum(np.asarray(conditionals(k, near, solved)[1]), 0.0))
        for i, weights, sd in zip(own[cut], b, noise, strict=True):
            drawn[i] = weights @ drawn[index[i]] + sd * rng.normal(size=n)
    out = np.empty_like(drawn)
    out[order] = drawn
    return out
