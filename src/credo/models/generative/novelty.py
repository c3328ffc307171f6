"""How surprising an input is: the tail probability of its log density under the model's own p(x).

    novelty(x) = P(log p(X) ≤ log p(x)),  X ~ p

by rows drawn from the model with a fixed seed. It is uniform for rows from the model, whatever their dimension, where
log p(x) itself means nothing without a scale. Below the hundredth part of the draws the tail goes on at its rate:
-log p has an exponential tail, for Student-t exactly, P(> t) ∝ e^(-t df/(df + d)), for Gaussians nearly.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.models.densities import Observed

MANY = 8192
QUICK = 2048
TAIL = 0.02
"""The share of the draws from which the rate of the tail is taken."""
PATTERNS = 32
"""So many patterns of missing entries have draws of their own size; beyond, each has fewer."""


def tail_probabilities(
    simulate: Callable[[int, int], tuple[np.ndarray, np.ndarray]],
    log_density: Callable[[Observed], Array],
    rows: Observed,
    heights: Float[Array, " n"],
    n: int = MANY,
) -> Float[np.ndarray, " n"]:
    """P(log p(X) ≤ height) of each row, among rows of which the same entries were seen."""
    heights = np.asarray(heights)
    seen = np.broadcast_to(np.asarray(rows.seen), rows.x.shape)
    drawn = simulate(n, 0)[1]
    if seen.all():
        return _tail(np.asarray(log_density(Observed(drawn, np.ones(drawn.shape, bool), None, True))), heights)
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    out = np.ones(len(heights))
    for i, pattern in enumerate(patterns):
        mine = which.reshape(-1) == i
        if pattern.any():  # a row of which nothing was seen is no surprise
            some = drawn[: n if len(patterns) <= PATTERNS else max(512, n * PATTERNS // len(patterns))]
            shown = np.broadcast_to(pattern, some.shape)
            out[mine] = _tail(np.asarray(log_density(Observed(np.where(shown, some, 0.0), shown))), heights[mine])
    return out


def _tail(draws: Float[np.ndarray, " m"], heights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    draws = np.sort(draws)
    m = len(draws)
    inside = (np.searchsorted(draws, heights + 1e-12 * np.abs(heights), side="right") + 0.5) / (m + 1)
    few = max(8, int(TAIL * m))
    edge = draws[few]
    rate = np.mean(edge - draws[:few])
    if not rate > 0:  # all as likely: there is no tail
        return np.minimum(inside, 1.0)
    with np.errstate(under="ignore"):
        beyond = (few + 0.5) / (m + 1) * np.exp(-np.maximum(edge - heights, 0.0) / rate)
    return np.minimum(np.where(heights < edge, beyond, inside), 1.0)
