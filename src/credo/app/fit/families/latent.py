"""Gaussian processes behind a likelihood: classes and counts as smooth functions of all inputs."""

from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.search import Data
from credo.models.gp import LatentGP
from credo.models.likelihoods import Bernoulli, Categorical, Likelihood, Poisson

MOST_ROWS, MOST_INPUTS = 1000, 100
SECONDS = {"two": 1.0, "several": 1.5, "count": 1.5}
"""To learn from 500 rows; it grows with their cube."""
SMOOTH = "smooth function"


class LatentProcesses(Family):
    """One smooth function of all inputs, or one for each of several classes."""

    kinds = ("classes", "count")

    def propose(self, data: Data) -> list[Candidate]:
        """The process that suits the outcome, where rows are not too many."""
        (n, d), levels = data.size, data.prepared.levels
        if n < 8 or d > MOST_INPUTS:
            return []
        kind = "count" if data.kind == "count" else "two" if len(levels) == 2 else "several"
        likelihood: Likelihood = Poisson()
        if kind != "count":
            likelihood = Bernoulli(levels) if kind == "two" else Categorical(levels)
        what = {
            "count": "the logarithm of the expected count",
            "two": "the log-odds",
            "several": "the log-odds of each class",
        }
        about = f"a Gaussian process: {what[kind]} may be any smooth function of all inputs"
        refused = f"{n:,} rows are more than {MOST_ROWS:,}" if n > MOST_ROWS else ""
        seconds = 0.2 + SECONDS[kind] * (n / 500) ** 3
        return [Candidate(SMOOTH, about, LatentGP(likelihood), seconds, refused=refused)]
