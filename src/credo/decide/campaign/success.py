"""Where trials fail: a belief about the chance of success, from counts that nearby trials lend each other.

    P(success | x) = (a + Σᵢ k(x, xᵢ) sᵢ) / (a + b + Σᵢ k(x, xᵢ)),    k(x, x') = exp(-½ r²),   k(x, x) = 1

A Beta(a, b) prior, updated by every trial as far as it is near: at a trial it counts once, far away the prior stands.
Goetschalckx, Poupart & Hoey (2011), "Continuous correlated beta processes".
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core.arrays import bucket, pad_rows, put
from credo.core.predictive import Bernoulli
from credo.core.predictive.classes import entropy_of

PRIOR = 0.5
"""a + b: how many trials the prior is worth."""
NEAR = 0.2
"""The distance at which a trial lends most of its count, in one dimension."""


class Success(eqx.Module):
    """P(success) over encoded rows."""

    x: Float[Array, "c d"]
    won: Float[Array, " c"]
    tried: Float[Array, " c"]
    """One for each trial, zero for padding."""
    reach: Float[Array, ""]
    a: Float[Array, ""]
    b: Float[Array, ""]

    @classmethod
    def of(cls, x: Float[np.ndarray, "n d"], succeeded: np.ndarray) -> "Success":
        """From all trials that were told, those that failed included."""
        n, d = x.shape
        share = (succeeded.sum() + 1.0) / (n + 1.5)  # optimistic: most of a space usually works
        size = bucket(n)
        return cls(
            put(pad_rows(x, size)),
            put(pad_rows(succeeded.astype(float), size)),
            put(pad_rows(np.ones(n), size)),
            jnp.asarray(NEAR * np.sqrt(d)),
            jnp.asarray(PRIOR * share),
            jnp.asarray(PRIOR * (1 - share)),
        )

    def predict(self, x: Any) -> Bernoulli:
        """Whether a trial at each row would succeed; the Beta's spread is what is not known."""
        squares = jnp.square((jnp.asarray(x)[:, None] - self.x) / self.reach).sum(-1)
        near = jnp.exp(-0.5 * squares) * self.tried
        won = self.a + near @ self.won
        total = self.a + self.b + near.sum(1)
        p = won / total
        h = entropy_of(jnp.stack([1 - p, p], axis=-1))
        # E[H] under the Beta, to second order: H(p) - ½ var/(p(1 - p)), with var = p(1 - p)/(total + 1).
        return Bernoulli(p, jnp.maximum(h - 0.5 / (total + 1.0), 0.0))
