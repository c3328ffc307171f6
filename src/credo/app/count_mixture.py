"""`CountMixture`: a mixture of negative binomials whose quantiles come from a table of its probabilities.

For μ = e^η and r = 1/α the probabilities of 0, 1, 2, … follow one from the other,

    p(0) = (r/(r + μ))ʳ,    p(y + 1) = p(y) · (y + r)/(y + 1) · μ/(r + μ),

so that the quantiles of every row cost a few operations per node and count, where the search of `Mixture` inverts an
incomplete beta function at every node and step.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.core.predictive import Interval, Mixture, NegativeBinomial, Predictive
from credo.core.predictive.base import check_levels

FARTHEST = 20_000
"""The largest count that the table may reach; beyond it the search takes over."""


class CountMixture(Mixture):
    """A `Mixture` of one stack of negative binomials."""

    def quantile(self, q: Any) -> Array:
        """The smallest y with P(Y ≤ y) ≥ q; for k levels q the result has k rows."""
        levels = check_levels(q, "q")
        found = self._table(np.atleast_1d(np.asarray(levels)))
        if found is None:
            return super().quantile(q)
        return jnp.asarray(found if levels.ndim else found[0])

    def interval(self, level: Any = 0.95) -> Interval:
        """The central interval that holds y with probability `level`."""
        half = check_levels(level, "level") / 2
        lower, upper = self.quantile(jnp.stack([0.5 - half, 0.5 + half]))
        return Interval(lower, upper)

    def _table(self, levels: np.ndarray) -> np.ndarray | None:
        """The quantiles of every row, shape (k, m); None where counts are too large for a table."""
        (part,) = self.parts
        assert isinstance(part, NegativeBinomial)
        r, b = np.asarray(part.shape_), np.asarray(part.rate) / np.asarray(part.exposure)
        weights = np.asarray(self.weights)
        log_first = r * np.log(b / (1 + b))
        if log_first.min() < -700:
            return None
        p, odds, at = np.exp(log_first), 1 / (1 + b), 0
        total = weights @ p
        found = np.full((len(levels), r.shape[1]), np.nan)
        # The same slack as in the search: q may be a probability that the sum reaches only up to rounding.
        wanted = levels[:, None] - 1e-12
        while True:
            found = np.where(np.isnan(found) & (total >= wanted), float(at), found)
            if not np.isnan(found).any():
                return found
            if at == FARTHEST:
                return None
            p = p * ((at + r) / (at + 1)) * odds
            total, at = total + weights @ p, at + 1

    def __getitem__(self, index: Any) -> "CountMixture":
        """The predictions at some of the queries."""
        return CountMixture(self.weights, super().__getitem__(index).parts)


def with_fast_quantiles(prediction: Predictive) -> Predictive:
    """The same prediction; mixtures of negative binomials as `CountMixture`."""
    if isinstance(prediction, Mixture) and len(prediction.parts) == 1:
        (part,) = prediction.parts
        if isinstance(part, NegativeBinomial) and part.rate.ndim == 2:
            return CountMixture(prediction.weights, prediction.parts)
    return prediction
