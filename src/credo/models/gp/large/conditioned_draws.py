"""Draws of functions by nearest rows: draws of the prior, conditioned by kriging.

    f(x) = m(x) + φ(x)ᵀw + g₀(x) + Σ_N bᵢ(x) (yᵢ - m - φᵢᵀw - g₀(xᵢ) - εᵢ),   b = K_NN⁻¹k

with w drawn from what is known of the trend, g₀ from the prior and ε from the noise. Each value has the law of the
prediction, and values at different places hang together as those of the prior do. Journel & Huijbregts (1978), "Mining
geostatistics", §VII.A.
"""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, is_traced, namespace
from credo.core.linalg import demand, solve_upper
from credo.models.gp import exact
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.large.base import in_chunks
from credo.models.gp.large.neighbours import NeighboursGP
from credo.models.gp.large.vecchia import covariances, known_covariances, solutions, trend_columns


class ConditionedDraws(eqx.Module):
    """n functions: call them with rows (m, d) for their values (n, m)."""

    belief: NeighboursGP
    prior: Any
    """g₀."""
    weights: Float[Array, "n p"]
    left: Float[Array, "c n"]
    """Of the rows that were seen, what is left after m, the trend, g₀ and ε."""

    @property
    def n(self) -> int:
        """How many functions these are."""
        return self.weights.shape[0]

    def __call__(self, x: object) -> Float[Array, "n m"]:
        """The values of each function at the rows of x."""
        belief = self.belief
        rows = belief.queries(x)
        trend = trend_columns(belief.parts()[1], rows)
        xp = namespace(rows, belief, trend)
        out = xp.zeros((len(rows), self.n))
        for which, index, real in belief.near_in_groups(rows):
            said = _kriged(belief, rows[which], index, real, self.left)
            if xp is np:
                out[which] = said
            else:
                out = out.at[which].set(said)
        return belief.mean.at(rows) + self.weights @ trend.T + self.prior(rows) + out.T


def _kriged(belief: NeighboursGP, x: Array, index: Any, real: Any, left: Array) -> Float[Array, "m n"]:
    """Σ_N b(x) of what is left."""
    zeros = namespace(x).zeros(len(x))
    rows = belief.seen + Rows(x, zeros, zeros, zeros, None)
    own, empty = belief.seen.n + np.arange(len(x)), namespace(x, rows.x).zeros((len(rows.x), 1))
    traced = is_traced(belief, x, index)
    parts = []
    for cut in [slice(None)] if traced else in_chunks(len(x), (index.shape[1] + 1) ** 2):
        near = belief.neighbourhoods(rows, empty, index[cut], real[cut], own[cut], noisy=False)
        k = (covariances if traced else known_covariances)(belief.parts()[0], near)
        solved, ok = solutions(k, near)
        b = demand(solved, ok, exact.NOT_DEFINITE)[:, :, 0] * real[cut]
        parts.append(namespace(b, left).einsum("sk,skn->sn", b, left[index[cut]]))
    return namespace(parts).concatenate(parts)


def draw(belief: NeighboursGP, n: int, features: int, seed: int, columns: int | None) -> Any:
    """n functions of the belief; of the prior, where nothing was seen."""
    if belief.seen is None:
        return belief.as_gp().sample_functions(n, features=features, seed=seed, columns=columns)
    kernel, trend = belief.parts()
    x, y, scale, extra = belief.seen.cut()
    prior = GP(kernel, 0.0, 1.0).sample_functions(n, features=features, seed=seed, columns=x.shape[1])
    rng = np.random.default_rng(seed)
    phi, solved = np.asarray(trend_columns(trend, x)), belief.solved
    weights = np.zeros((n, phi.shape[1]))
    if phi.shape[1]:
        normal = rng.normal(size=(phi.shape[1], n))
        weights = (np.asarray(solved.mean)[:, None] + np.asarray(solve_upper(solved.root, normal))).T
    noise = np.sqrt(float(belief.noise_variance()) * scale + extra)
    left = (y - np.asarray(belief.mean.at(x)))[:, None] - phi @ weights.T - np.asarray(prior(x)).T
    return ConditionedDraws(belief, prior, weights, left - noise[:, None] * rng.normal(size=(len(x), n)))
