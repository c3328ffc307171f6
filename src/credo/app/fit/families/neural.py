"""Neural networks: 50 of them side by side, for tables that are large enough to learn features from."""

import itertools

from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.search import Data
from credo.core.belief import Belief
from credo.core.pytrees import changed
from credo.models.neural import Neural, Stacked
from credo.models.neural.training import MANY, Size

LEAST_ROWS, MOST_ROWS, MOST_INPUTS = 400, 200_000, 200
STEPS, CANDIDATES = 2000, 10
"""Steps with few rows; candidates are trained at once."""
NETWORKS = "networks"
OUTCOMES = {"number": "number", "classes": "classes", "count": "counts"}


class NeuralNetworks(Family):
    """Folds times weight decays, stacked."""

    kinds = ("number", "classes", "count")

    def propose(self, data: Data) -> list[Candidate]:
        """Networks, where rows are neither too few nor too many."""
        n, d = data.size
        if n < LEAST_ROWS or d > MOST_INPUTS or data.prepared.schema.exposure is not None:
            return []
        levels = data.prepared.levels
        about = (
            "neural networks, trained side by side with different weight decays and weighed by how well they predict "
            "rows they have not seen"
        )
        outcome, many = OUTCOMES[data.kind], n > MANY
        belief = Neural(outcome=outcome, classes=levels or None, steps=None if many else STEPS)
        size = Size.of(n)
        # Rows visited by all networks, and a look at all rows every hundred steps; single precision is twice as fast.
        visits = (size.steps if many else STEPS) * size.batch * CANDIDATES * (1 if many else Stacked().folds)
        width = sum(a * b for a, b in itertools.pairwise((d, *size.layers, max(len(levels), 2))))
        seconds = 2.0 + (1e-10 if many else 6e-10) * visits * width + 1e-7 * n * sum(size.layers)
        refused = f"{n:,} rows are more than {MOST_ROWS:,}" if n > MOST_ROWS else ""
        return [Candidate(NETWORKS, about, belief, seconds, refused=refused)]

    def kept(self, belief: Belief) -> Belief:
        """Without the training rows."""
        return changed(belief, seen=None)
