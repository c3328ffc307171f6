"""Neural networks: 25 of them side by side, for tables that are large enough to learn features from."""

from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.search import Data
from credo.core.belief import Belief
from credo.core.pytrees import changed
from credo.models.neural import Neural

LEAST_ROWS, MOST_ROWS, MOST_INPUTS = 400, 200_000, 200
UNITS, STEPS = 50, 2000
NETWORKS = "networks"
OUTCOMES = {"number": "number", "classes": "classes", "count": "counts"}


class NeuralNetworks(Family):
    """One hidden layer, folds times weight decays, stacked."""

    kinds = ("number", "classes", "count")

    def propose(self, data: Data) -> list[Candidate]:
        """Networks, where rows are neither too few nor too many."""
        n, d = data.size
        if n < LEAST_ROWS or d > MOST_INPUTS or data.prepared.schema.exposure is not None:
            return []
        levels = data.prepared.levels
        about = (
            "neural networks with a hidden layer, trained side by side with different weight decays and weighed by how "
            "well they predict rows they have not seen"
        )
        belief = Neural((UNITS,), OUTCOMES[data.kind], classes=levels or None, steps=STEPS)
        # 25 networks on minibatches of 32 rows, and a look at all rows every hundred steps.
        seconds = 2.0 + 1e-8 * STEPS * UNITS * (d + max(len(levels), 2)) * 25 + 2e-6 * n * UNITS
        refused = f"{n:,} rows are more than {MOST_ROWS:,}" if n > MOST_ROWS else ""
        return [Candidate(NETWORKS, about, belief, seconds, refused=refused)]

    def kept(self, belief: Belief) -> Belief:
        """Without the training rows."""
        return changed(belief, seen=None)
