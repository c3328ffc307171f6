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

from credo.core.arrays import Array, namespace
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.large.neighbours import NeighboursGP
from credo.models.gp.large.vecchia import trend_columns


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
    parts = []
    for cut, *_, solved in belief.solved_in_chunks(rows, empty, index, real, own, noisy=False):
        b = solved[:, :, 0] * real[cut]
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
    weights = belief.solved.draw(rng, n)
    expected = np.asarray(belief.mean.at(x)) + weights @ np.asarray(trend_columns(trend, x)).T + np.asarray(prior(x))
    noise = np.sqrt(float(belief.noise_variance()) * scale + extra)[:, None] * rng.normal(size=(len(x), n))
    return ConditionedDraws(belief, prior, weights, y[:, None] - expected.T - noise)
