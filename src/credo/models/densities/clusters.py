"""Where to begin: moments of columns with gaps, and the centers of clusters of rows."""

import warnings

import numpy as np

from credo.core.arrays import Array

MOST_ROWS = 10_000
"""So many rows are enough to find starting means."""
ITERATIONS = 30
NUDGE = 0.5
"""Starts after the first have their centers moved by so many standard deviations within a cluster."""


def column_moments(x: Array, seen: Array) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the variance of the seen entries of each column; 0 and 1 where nothing is, or nothing varies."""
    x, seen = np.asarray(x), np.asarray(seen)
    count = seen.sum(0)
    mean = np.where(seen, x, 0.0).sum(0) / np.maximum(count, 1)
    variance = (np.where(seen, x - mean, 0.0) ** 2).sum(0) / np.maximum(count, 1)
    return mean, np.where(variance > 0, variance, 1.0)


def clusters(
    rows: np.ndarray, k: int, mean: np.ndarray, variance: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """k centers by k-means++ on standardized rows, and the variance of each column within the clusters."""
    from scipy.cluster.vq import kmeans2  # a tenth of a second

    rng, std = np.random.default_rng(seed), np.sqrt(variance)
    if len(rows) > MOST_ROWS:
        rows = rows[rng.choice(len(rows), MOST_ROWS, replace=False)]
    z = (rows - mean) / std
    if len(np.unique(z, axis=0)) <= k:  # too few to tell k clusters apart
        chosen = z[rng.integers(len(z), size=k)] if len(z) else np.zeros((k, len(mean)))
        return mean + std * (chosen + NUDGE * rng.normal(size=chosen.shape)), variance / k ** (2 / len(mean))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a cluster is empty: its center is as good a start as any
        centers, labels = kmeans2(z, k, iter=ITERATIONS, minit="++", rng=np.random.default_rng(seed))
    within = np.maximum(((z - centers[labels]) ** 2).mean(0), 1e-3)
    moved = NUDGE * np.sqrt(within) * rng.normal(size=(k, len(mean))) if seed else 0.0
    return mean + std * (centers + moved), variance * within
