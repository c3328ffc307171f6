"""Quantiles of a mixture of negative binomials from a table of its probabilities.

With shape r and mean rate 1/b the probabilities of 0, 1, 2, … follow one from the other,

    p(0) = (b/(1 + b))ʳ,    p(y + 1) = p(y) · (y + r)/(y + 1) · 1/(1 + b),

so that the quantiles of every row cost a few operations for each component and count. A search would invert an
incomplete beta function for each component and step.
"""

import numpy as np
from jaxtyping import Float

FARTHEST = 20_000
"""The largest count that the table may reach."""
SLACK = 1e-12
"""A level may be a probability that the sum reaches only up to rounding."""


def count_quantiles(
    weights: Float[np.ndarray, " k"],
    r: Float[np.ndarray, "k m"],
    b: Float[np.ndarray, "k m"],
    levels: Float[np.ndarray, " q"],
) -> Float[np.ndarray, "q m"] | None:
    """The smallest y with P(Y ≤ y) ≥ level, for every row; None where counts are too large for a table."""
    log_first = r * np.log(b / (1 + b))
    if log_first.min() < -700:
        return None
    p, odds = np.exp(log_first), 1 / (1 + b)
    total = weights @ p
    found = np.full((len(levels), r.shape[1]), np.nan)
    for at in range(FARTHEST + 1):
        found = np.where(np.isnan(found) & (total >= levels[:, None] - SLACK), float(at), found)
        if not np.isnan(found).any():
            return found
        p = p * ((at + r) / (at + 1)) * odds
        total = total + weights @ p
    return None
