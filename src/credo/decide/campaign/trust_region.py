"""Trust regions: in many dimensions, look near the best point, and let success say how near.

A region is a box in the unit cube around its best point. Its length doubles after three batches in a row that
improved on the best, halves after max(4, d)/q batches of q that did not, and below 2⁻⁷ the search starts anew from
a fresh design. Eriksson, Pearce, Gardner, Turner & Poloczek (2019), "Scalable global optimization via local Bayesian
optimization" (TuRBO).

Nothing is remembered between suggestions: `replay` rebuilds the region from the record of trials.
"""

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from credo.core.checks import check_count, check_table, check_vector
from credo.core.errors import DataError
from credo.infer.quasi_random import sobol

FIRST, SMALLEST, LARGEST = 0.8, 0.5**7, 1.6
"""Lengths: at the start, below which the search starts anew, and at most."""
SUCCESSES = 3
LEAST_FAILURES = 4
LEAST_GAIN = 1e-3
"""An improvement counts where it is more than this share of the best outcome."""
PERTURBED = 20
"""How many coordinates of a candidate differ from the center, on average."""


@dataclass(frozen=True)
class TrustRegion:
    """A box around the best point.

    Args:
        center: the best point of the region, in the unit cube.
        length: of the box's sides, before they are scaled by lengthscales.
        successes: batches in a row that improved on the best.
        failures: batches in a row that did not.
        best: the outcome at the center, large is good.
    """

    center: tuple[float, ...]
    length: float = FIRST
    successes: int = 0
    failures: int = 0
    best: float = -np.inf

    @property
    def is_spent(self) -> bool:
        """Whether the region has shrunk so far that the search should start anew."""
        return self.length < SMALLEST

    def update(self, improved: bool, dimension: int, batch: int = 1) -> "TrustRegion":
        """The region after a batch of `batch` trials in `dimension` dimensions."""
        successes, failures = (self.successes + 1, 0) if improved else (0, self.failures + 1)
        length = self.length
        if successes == SUCCESSES:
            length, successes = min(2.0 * length, LARGEST), 0
        elif failures >= patience(dimension, batch):
            length, failures = length / 2.0, 0
        return replace(self, length=length, successes=successes, failures=failures)

    def after(self, rows: Float[np.ndarray, "q d"], outcomes: Float[np.ndarray, " q"]) -> "TrustRegion":
        """The region after a batch: its state by `update`, its center where the best outcome is; NaN is a failure."""
        top = int(np.argmax(np.where(np.isnan(outcomes), -np.inf, outcomes)))
        value = float(outcomes[top])
        needed = self.best + LEAST_GAIN * abs(self.best) if np.isfinite(self.best) else self.best
        moved = self.update(bool(value > needed), rows.shape[1], len(rows))
        return replace(moved, center=_point(rows[top]), best=value) if value > self.best else moved

    def box(self, lengthscales: Any = 1.0) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Its lower and upper corners: side j is length·ℓⱼ/(Πℓ)^(1/d), clipped to the unit cube."""
        center = np.asarray(self.center)
        scales = np.broadcast_to(np.asarray(lengthscales, dtype=float), center.shape)
        if not (np.isfinite(scales) & (scales > 0)).all():
            raise DataError(f"lengthscales must be positive and finite, found {lengthscales}")
        logs = np.log(scales)
        half = 0.5 * self.length * np.exp(logs - logs.mean())
        return np.clip(center - half, 0.0, 1.0), np.clip(center + half, 0.0, 1.0)


def patience(dimension: int, batch: int = 1) -> int:
    """⌈max(4, d)/q⌉: the batches without improvement after which a region is halved."""
    return -(-max(LEAST_FAILURES, dimension) // batch)


# -- the record --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """Where a search with trust regions stands.

    Args:
        region: where to look next; None while a design is being tried.
        start: the first trial of the present search: what was tried before it belongs to regions given up.
        missing: the trials of the design that are still to be tried.
        restarts: how many regions were given up.
    """

    region: TrustRegion | None
    start: int
    missing: int
    restarts: int


def replay(rows: Any, outcomes: Any, initial: int, batches: Any = 1) -> Standing:
    """Where the search stands after the trials, in the order in which their outcomes became known.

    The first `initial` trials of each search are its design, and its region begins at the best of them; every later
    batch updates the region. A search whose region is spent, or whose design failed throughout, is followed by another.

    Args:
        rows: the points tried, in the unit cube, shape (n, d).
        outcomes: large is good, NaN for a trial that failed, shape (n,).
        initial: the size of a design.
        batches: the batch of each trial, shape (n,), equal numbers next to each other; or the size of every batch.
    """
    check_count(initial, "initial")
    if len(rows) == 0:
        return Standing(None, 0, initial, 0)
    table = check_table(rows, "rows")
    values = np.asarray(outcomes, dtype=float)
    if values.shape != (len(table),) or np.isinf(values).any():
        raise DataError(
            f"outcomes must hold a number, or NaN for a failure, for each of the {len(table)} rows, found {outcomes!r}"
        )
    region, start, restarts = None, 0, 0
    for begin, end in _spans(batches, len(table)):
        if region is not None:
            region = region.after(table[begin:end], values[begin:end])
            if not region.is_spent:
                continue
        elif end - start < initial:
            continue
        else:
            region = first_region(table[start:end], values[start:end])
            if region is not None:
                continue
        region, start, restarts = None, end, restarts + 1
    missing = 0 if region is not None else initial - (len(table) - start)
    return Standing(region, start, missing, restarts)


def first_region(rows: Float[np.ndarray, "n d"], outcomes: Float[np.ndarray, " n"]) -> TrustRegion | None:
    """A region at the best point of a design; None where all of it failed."""
    if np.isnan(outcomes).all():
        return None
    top = int(np.nanargmax(outcomes))
    return TrustRegion(_point(rows[top]), best=float(outcomes[top]))


def _spans(batches: Any, n: int) -> list[tuple[int, int]]:
    """Where each batch begins and ends."""
    if np.ndim(batches) == 0:
        check_count(batches, "batches")
        edges = [*range(0, n, int(batches)), n]
    else:
        labels = check_vector(batches, "batches", n)
        edges = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), n]
    return list(itertools.pairwise(edges))


def _point(row: Float[np.ndarray, " d"]) -> tuple[float, ...]:
    return tuple(float(v) for v in row)


# -- candidates --------------------------------------------------------------------------------------------------


def candidates(region: TrustRegion, n: int, lengthscales: Any = 1.0, seed: int = 0) -> Float[np.ndarray, "n d"]:
    """n points of the region's box for Thompson sampling: few coordinates of each differ from the center.

    Scrambled Sobol points, of which each coordinate is kept with probability min(20/d, 1), at least one, and is the
    center's otherwise: in many dimensions points that differ in all coordinates are all far from the center.
    """
    check_count(n, "n")
    center = np.asarray(region.center)
    d = len(center)
    low, high = region.box(lengthscales)
    rng = np.random.default_rng(seed)
    unit = sobol(n, d, seed)
    moved = rng.random((n, d)) < min(PERTURBED / d, 1.0)
    moved[np.arange(n), rng.integers(d, size=n)] |= ~moved.any(axis=1)
    return np.where(moved, low + unit * (high - low), center)
