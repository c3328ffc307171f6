"""Gaussian processes: one smooth function of all inputs and, for one or two inputs, a kernel that is searched for."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.search import Data, Fitted
from credo.core.params import layout
from credo.infer.learning import Learned
from credo.models.gp import GP, KernelSearch, Staged

if TYPE_CHECKING:
    from credo.app.report.page import Section

MOST_ROWS, MOST_INPUTS = 2000, 30
SEARCH_INPUTS = 2
SECONDS = 30.0
"""The time that the search for a kernel, and learning one, may take."""
SMOOTH, SEARCHED = "smooth function", "found structure"


def staged() -> Staged:
    """Learning that ends in time."""
    return Staged(deadline=time.perf_counter() + SECONDS)


class GaussianProcesses(Family):
    """The Gaussian processes that suit the size of the table."""

    def __init__(self, seconds: float = SECONDS):
        self.seconds = seconds
        """Of the search for a kernel."""

    def propose(self, data: Data) -> list[Candidate]:
        """One of all inputs; and one whose kernel is searched for, where they are few."""
        n, d = data.size
        if n < 8 or d > MOST_INPUTS:
            return []
        about = "a Gaussian process: any smooth function of all inputs, each with a length scale of its own"
        refused = f"{n:,} rows are more than {MOST_ROWS:,}" if n > MOST_ROWS else ""
        seconds = min(SECONDS, 0.2 + 0.5 * (n / 500) ** 3 * (1 + d / 10))
        found = [Candidate(SMOOTH, about, GP(), seconds, staged, refused=refused)]
        schema = data.prepared.schema
        if d <= SEARCH_INPUTS and (schema.time is not None or any(column.continuous for column in schema.columns)):
            about = "a Gaussian process: trends, patterns that repeat and smooth functions, searched for and combined"
            search = KernelSearch(self.seconds)
            found.append(Candidate(SEARCHED, about, GP(), self.seconds, lambda: search, refused=refused))
        return found

    def evidence(self, learned: Learned, candidate: Candidate, data: Data, rows: Any) -> float:
        """The evidence pays ½ log n for each number that was learned (Schwarz 1978), as many were tried."""
        known = learned.belief.unconditioned()
        (x, y), options = data.examples(rows, candidate)
        return float(known.log_evidence(x, y, **options)) - 0.5 * len(layout(known)) * float(np.log(len(y)))

    def again(self, best: Fitted) -> Candidate:
        """The kernel that was found stays; its numbers are learned again."""
        seconds = min(best.candidate.seconds, 0.2 + 0.5 * (best.rows / 500) ** 3)
        return best.candidate._replace(belief=best.belief.unconditioned(), using=staged, seconds=seconds)

    def sections(self, fitted: Fitted, data: Data, chosen: bool) -> "list[Section]":
        """What the search for a kernel found, whether it was chosen or not."""
        from credo.app.report.families import structure

        return [structure(fitted.belief, data.prepared, SEARCHED, chosen)] if fitted.name == SEARCHED else []
