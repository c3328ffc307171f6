"""Gaussian processes behind a likelihood: classes and counts as smooth functions of all inputs."""

from typing import Any

from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.search import Data, Fitted
from credo.core.params import learnable
from credo.infer.learning import Learned
from credo.models.gp import LatentClasses, LatentGP, choose_latent
from credo.models.likelihoods import Bernoulli, Categorical, Likelihood, Poisson

EXACT_ROWS, MOST_INPUTS = 1000, 100
"""More rows are seen through inducing points: of 1,500 rows and two classes, or counts, learning takes 5.0 CPU s and
the posterior in a fold 1.0; 2.2 and 0.05 with points (of several classes 3.8 and 0.3; 5.3 and 0.03)."""
SECONDS = {"two": 1.0, "several": 1.5, "count": 1.5}
"""To learn from 500 rows; it grows with their cube."""
LARGE_SECONDS = {"two": (12.0, 1.5e-4), "several": (12.0, 1.5e-4), "count": (12.0, 3e-4)}
"""To learn through inducing points, and what a row adds."""
SMOOTH = "smooth function"


class LatentProcesses(Family):
    """One smooth function of all inputs, or one for each of several classes."""

    kinds = ("classes", "count")

    def propose(self, data: Data) -> list[Candidate]:
        """The process that suits the outcome."""
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
        belief = LatentGP(likelihood)
        if n <= EXACT_ROWS:
            return [Candidate(SMOOTH, about, belief, 0.2 + SECONDS[kind] * (n / 500) ** 3)]
        method, why = choose_latent(n, EXACT_ROWS)
        first, more = LARGE_SECONDS[kind]
        return [Candidate(SMOOTH, f"{about}. {why}", belief, first + more * n, lambda: method, approximate=True)]

    def evidence(self, learned: Learned, candidate: Candidate, data: Data, rows: Any) -> float:
        """Of several classes Σ log p(y | X, all other y): their evidence is a regression's, of other numbers than y.

        Geisser & Eddy (1979), "A predictive approach to model selection".
        """
        if not isinstance(learned.belief, LatentClasses):
            return learned.log_evidence
        return float(learned.belief.leave_one_out().log_prob(data.prepared.y[rows]).sum())

    def again(self, best: Fitted) -> Candidate:
        """Hyperparameters of so many rows that a part left out changes nothing stay."""
        if best.rows <= EXACT_ROWS:
            return best.candidate
        known = best.belief.unconditioned()
        held = {"fixed": list(learnable(known))}
        return best.candidate._replace(belief=known, using=None, options=held, seconds=0.5 + 1e-4 * best.rows)
