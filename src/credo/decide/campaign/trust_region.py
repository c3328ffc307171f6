"""Trust regions: in many dimensions, look near the best point, and let success say how near.

A region is a box in the unit cube around its best point. Its length doubles after three trials in a row that
improved on the best, halves after max(4, d) that did not, and below 2⁻⁷ the search starts anew from a fresh design.
Eriksson, Pearce, Gardner, Turner & Poloczek (2019), "Scalable global optimization via local Bayesian optimization"
(TuRBO).

Nothing is remembered between suggestions: `replay` rebuilds the region from the record of trials.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from credo.core.checks import ArrayLike, check_count, check_table
from credo.core.errors import DataError

FIRST, SMALLEST, LARGEST = 0.8, 0.5**7, 1.6
"""Lengths: at the start, below which the search starts anew, and at most."""
SUCCESSES = 3
LEAST_FAILURES = 4
LEAST_GAIN = 1e-3
"""An improvement counts where it is more than this share of the range of the design's outcomes."""


@dataclass(frozen=True)
class TrustRegion:
    """A box around the best point.

    Args:
        center: the best point of the region, in the unit cube.
        length: of the box's sides, before they are scaled by lengthscales.
        successes: trials in a row that improved on the best.
        failures: trials in a row that did not.
        best: the outcome at the center, large is good.
        scale: the range of the outcomes that it began with.
    """

    center: tuple[float, ...]
    length: float = FIRST
    successes: int = 0
    failures: int = 0
    best: float = -np.inf
    scale: float = field(default=1.0, compare=False)

    @property
    def is_spent(self) -> bool:
        """Whether the region has shrunk so far that the search should start anew."""
        return self.length < SMALLEST

    def update(self, improved: bool) -> "TrustRegion":
        """The region after a trial."""
        successes, failures = (self.successes + 1, 0) if improved else (0, self.failures + 1)
        length = self.length
        if successes == SUCCESSES:
            length, successes = min(2.0 * length, LARGEST), 0
        elif failures >= max(LEAST_FAILURES, len(self.center)):
            length, failures = length / 2.0, 0
        return replace(self, length=length, successes=successes, failures=failures)

    def after(self, row: Float[np.ndarray, " d"], value: float) -> "TrustRegion":
        """The region after a trial: its state by `update`, its center where the best outcome is; NaN is a failure."""
        moved = self.update(bool(value > self.best + LEAST_GAIN * self.scale))
        return replace(moved, center=_point(row), best=value) if value > self.best else moved

    def box(self, lengthscales: ArrayLike = 1.0) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Its lower and upper corners: side j is length·ℓⱼ/(Πℓ)^(1/d), clipped to the unit cube."""
        center = np.asarray(self.center)
        scales = np.broadcast_to(np.asarray(lengthscales, dtype=float), center.shape)
        if not (np.isfinite(scales) & (scales > 0)).all():
            raise DataError(f"lengthscales must be positive and finite, found {lengthscales}")
        logs = np.log(scales)
        half = 0.5 * self.length * np.exp(logs - logs.mean())
        return np.clip(center - half, 0.0, 1.0), np.clip(center + half, 0.0, 1.0)


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


def replay(rows: ArrayLike, outcomes: ArrayLike, initial: int) -> Standing:
    """Where the search stands after the trials, in the order in which their outcomes became known.

    The first `initial` trials of each search are its design, and its region begins at the best of them; every later
    trial updates the region. A search whose region is spent, or whose design failed throughout, is followed by another.

    Args:
        rows: the points tried, in the unit cube, shape (n, d).
        outcomes: large is good, NaN for a trial that failed, shape (n,).
        initial: the size of a design.
    """
    check_count(initial, "initial")
    if np.size(rows) == 0:
        return Standing(None, 0, initial, 0)
    table = check_table(rows, "rows")
    values = np.asarray(outcomes, dtype=float)
    if values.shape != (len(table),) or np.isinf(values).any():
        raise DataError(
            f"outcomes must hold a number, or NaN for a failure, for each of the {len(table)} rows, found {outcomes!r}"
        )
    region, start, restarts = None, 0, 0
    for at in range(len(table)):
        if region is not None:
            region = region.after(table[at], float(values[at]))
            if not region.is_spent:
                continue
        elif at + 1 - start < initial:
            continue
        else:
            region = first_region(table[start : at + 1], values[start : at + 1])
            if region is not None:
                continue
        region, start, restarts = None, at + 1, restarts + 1
    missing = 0 if region is not None else initial - (len(table) - start)
    return Standing(region, start, missing, restarts)


def first_region(rows: Float[np.ndarray, "n d"], outcomes: Float[np.ndarray, " n"]) -> TrustRegion | None:
    """A region at the best point of a design; None where all of it failed."""
    if np.isnan(outcomes).all():
        return None
    top = int(np.nanargmax(outcomes))
    return TrustRegion(_point(rows[top]), best=float(outcomes[top]), scale=float(outcomes[top] - np.nanmin(outcomes)))


def _point(row: Float[np.ndarray, " d"]) -> tuple[float, ...]:
    return tuple(float(v) for v in row)
