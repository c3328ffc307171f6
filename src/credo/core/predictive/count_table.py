"""Quantiles of counts from a cumulative table of their probabilities.

A search would evaluate a distribution function, which for mixtures of counts is dear, some fifteen times for each row.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

BLOCK = 64
"""The counts whose probabilities are computed at a time."""
FARTHEST = 4096
"""The largest count that the table may reach."""
SLACK = 1e-12
"""A level may be a probability that the sum reaches only up to rounding."""


def count_quantiles(
    masses: Callable[[int], np.ndarray],
    mean: Float[np.ndarray, "*m"],
    std: Float[np.ndarray, "*m"],
    levels: Float[np.ndarray, " q"],
) -> Float[np.ndarray, "q *m"] | None:
    """The smallest y with P(Y ≤ y) ≥ level, for every row; None where counts are too large for a table.

    `masses(y)` are the probabilities of the `BLOCK` counts from y on, shape (BLOCK, *m).
    """
    top = levels.max()
    farthest = np.max(mean + std * np.sqrt(top / (1 - top)), initial=0.0)  # Cantelli's inequality
    if not farthest <= FARTHEST:
        return None
    found, total = np.full((len(levels), *mean.shape), np.nan), np.zeros(mean.shape)
    for start in range(0, int(farthest) + 2, BLOCK):
        table = total + np.cumsum(masses(start), axis=0)
        for i, level in enumerate(levels):
            reached = table >= level - SLACK
            found[i] = np.where(np.isnan(found[i]) & reached[-1], start + np.argmax(reached, axis=0), found[i])
        if not np.isnan(found).any():
            return found
        total = table[-1]
    return None
