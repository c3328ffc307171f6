"""`BayesianBootstrap`: what is not known of parameters, by learning them again from rows weighed at random.

    θᵢ = argmax_θ Σₙ gₙᵢ log p(xₙ | θ) + log p(θ),    g ~ n · Dirichlet(1, …, 1)

Each set of weights is a draw of the distribution that the rows come from, given the rows, and θᵢ what would be learned
from it. Where the model is right the spread of θᵢ is that of Laplace's law as rows grow in number; where it is wrong it
is what the learned parameters would do on other rows. Few rows it takes for all there can be, and is too sure. Members
begin at the parameters learned from all rows, so that each has its components in their order. Rubin (1981), "The
Bayesian bootstrap"; Newton & Raftery (1994), "Approximate Bayesian inference with the weighted likelihood bootstrap".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from credo.core import params
from credo.core.abilities import HasWeightedRows
from credo.infer.averaging import Integrated
from credo.infer.em import EM
from credo.infer.learning import Learned
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED
from credo.infer.priors import Priors
from credo.infer.progress import Progress, Show


@dataclass(frozen=True)
class BayesianBootstrap(Learner):
    """The belief averaged over parameters that are learned, by EM, from rows weighed at random.

    Args:
        members: how often it is learned again.
        starts: of the first climb, from all rows; the others begin where it ends.
        max_steps: passes over the data of each climb.
        progress: True for a bar, or a function of the share done and a text.
    """

    needs: ClassVar[type] = HasWeightedRows
    integrates: ClassVar[bool] = True

    members: int = 64
    starts: int = 6
    max_steps: int = 200
    progress: bool | Show = False

    def learn(self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The average, before and after the data, and the optima of the climbs from all rows."""
        weights, rng = np.asarray(belief.row_weights(statistics)), np.random.default_rng(seed)
        first = EM(self.starts, self.max_steps).learn(belief, statistics, fixed, priors, seed)
        mode, again = first.belief, EM(1, self.max_steps)
        held = tuple(params.expand_paths(mode, fixed))
        members, unfinished = [], 0
        with Progress(self.progress) as show:
            for i in range(self.members):
                drawn = rng.gamma(weights)  # a row of weight w is w rows
                drawn *= weights.sum() / drawn.sum()
                climb = again.climb(mode, mode.reweighted(statistics, drawn), held)
                unfinished += climb.status != CONVERGED
                found: Any = climb.belief
                members.append(found.held())
                show((i + 1) / self.members, f"learned again {i + 1} of {self.members} times")
        after = Integrated(np.zeros(len(members)), tuple(members), mode.condition_on(statistics))
        heights = np.array([float(each.log_evidence_of(statistics)) for each in members])
        notes = [*first.notes, f"learned again from {len(members)} weightings of the rows"]
        if unfinished:
            notes.append(f"{unfinished} of them ended before they converged; raise max_steps")
        # Conditioned on the data each member is weighed by its evidence: these have that weight already.
        return first._replace(belief=Integrated(-heights, tuple(members), mode), conditioned=after, notes=notes)
