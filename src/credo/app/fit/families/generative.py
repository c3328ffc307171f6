"""Generative classifiers: what the rows of each class look like, and so which inputs are like nothing seen."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.search import Data, Fitted
from credo.infer.learning import Learned
from credo.models.generative import Discriminant, NaiveBayes

if TYPE_CHECKING:
    from credo.app.report.page import Section

MOST_INPUTS = 200
BLOCKS = 8
GAUSSIAN, NAIVE = "Gaussian classes", "independent columns"


class GenerativeModels(Family):
    """A density of the inputs for each class."""

    kinds = ("classes",)

    def propose(self, data: Data) -> list[Candidate]:
        """Columns that are independent given the class, and Gaussian classes."""
        (n, d), levels = data.size, data.prepared.levels
        if n < 4 or d > MOST_INPUTS:
            return []
        work = 1e-7 * n * len(levels) * d
        naive = "given the class, each input has a law of its own and says nothing of the others (naive Bayes)"
        gaussian = (
            "the inputs of each class are Gaussian, with covariances between one for all classes and one for each "
            "(discriminant analysis)"
        )
        return [
            Candidate(NAIVE, naive, NaiveBayes(classes=levels), 0.1 + work),
            Candidate(GAUSSIAN, gaussian, Discriminant(classes=levels), 0.3 + work * d),
        ]

    def evidence(self, learned: Learned, candidate: Candidate, data: Data, rows: Any) -> float:
        """Σ log p(a block of classes | its inputs, the blocks before), the first by even odds (Dawid 1984).

        The evidence of the model itself is that of inputs and classes together, which others have not.
        """
        (x, y), _ = data.examples(rows, candidate)
        codes = data.prepared.y[rows].astype(int)
        edges = np.unique(np.linspace(0, len(y), BLOCKS + 1).astype(int))
        total = -float(edges[1]) * np.log(len(data.prepared.levels))
        for end, after in itertools.pairwise(edges[1:]):
            before = candidate.belief.condition(x.iloc[:end], y[:end])
            total += float(before.predict(x.iloc[end:after], draws=0, warn=False).log_prob(codes[end:after]).sum())
        return total

    def sections(self, fitted: Fitted, data: Data, chosen: bool) -> "list[Section]":
        """Which of the rows held out are like nothing seen."""
        from credo.app.report.families import novelty

        return [novelty(fitted.belief, data)] if fitted.name == GAUSSIAN else []
