"""Gaussian processes: one smooth function of all inputs and, for one or two inputs, a kernel that is searched for."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.search import Data, Fitted
from credo.core.params import layout, learnable
from credo.infer.learning import Learned
from credo.models.gp import GP, KernelSearch, Staged, choose_method

if TYPE_CHECKING:
    from credo.app.report.page import Section

EXACT_ROWS, SEARCHED_ROWS, MOST_INPUTS = 3000, 2000, 30
"""More rows are learned from by an approximation, and no kernel is searched for."""
SEARCH_INPUTS = 2
LARGE_SECONDS = 35.0
"""Of an approximation: it learns from some thousand conditionals, however many rows there are."""
SECONDS = 30.0
"""The time that the search for a kernel, and learning one, may take."""
SMOOTH, SEARCHED = "smooth function", "found structure"


def staged() -> Staged:
    """Learning that ends in time."""
    return Staged(deadline=time.perf_counter() + SECONDS)


def _exact(n: int, d: int, about: str) -> Candidate:
    seconds = min(SECONDS, 0.2 + 0.5 * (n / 500) ** 3 * (1 + d / 10))
    return Candidate(SMOOTH, about, GP(), seconds, staged)


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
        refused = f"{n:,} rows are more than {SEARCHED_ROWS:,}" if n > SEARCHED_ROWS else ""
        found = [self._of_many_rows(data, about) if n > EXACT_ROWS else _exact(n, d, about)]
        schema = data.prepared.schema
        if d <= SEARCH_INPUTS and (schema.time is not None or any(column.continuous for column in schema.columns)):
            about = "a Gaussian process: trends, patterns that repeat and smooth functions, searched for and combined"
            search = KernelSearch(self.seconds)
            found.append(Candidate(SEARCHED, about, GP(), self.seconds, lambda: search, refused=refused))
        return found

    def _of_many_rows(self, data: Data, about: str) -> Candidate:
        """By the approximation that `credo.fit` chooses."""
        exact = Candidate(SMOOTH, about, GP())
        arguments, options = data.examples(data.train, exact)
        gp, rows = exact.belief.prepare(*arguments, **options)
        method, why = choose_method(gp, rows, EXACT_ROWS)
        said = f"{about}. {why}"
        return exact._replace(about=said, seconds=LARGE_SECONDS, using=lambda: method, approximate=True)

    def evidence(self, learned: Learned, candidate: Candidate, data: Data, rows: Any) -> float:
        """The evidence pays ½ log n for each number that was learned (Schwarz 1978), as many were tried."""
        known = learned.belief.unconditioned()
        (x, y), options = data.examples(rows, candidate)
        return float(known.log_evidence(x, y, **options)) - 0.5 * len(layout(known)) * float(np.log(len(y)))

    def again(self, best: Fitted) -> Candidate:
        """The kernel that was found stays; its numbers are learned again, but for those of so many rows that a part
        left out changes nothing."""
        known = best.belief.unconditioned()
        if best.rows > EXACT_ROWS:
            held = {"fixed": list(learnable(known))}
            return best.candidate._replace(belief=known, using=None, options=held, seconds=1.0 + 2e-4 * best.rows)
        seconds = min(best.candidate.seconds, 0.2 + 0.5 * (best.rows / 500) ** 3)
        return best.candidate._replace(belief=known, using=staged, seconds=seconds)

    def sections(self, fitted: Fitted, data: Data, chosen: bool) -> "list[Section]":
        """What the search for a kernel found, whether it was chosen or not."""
        from credo.app.report.families import structure

        return [structure(fitted.belief, data.prepared, SEARCHED, chosen)] if fitted.name == SEARCHED else []
