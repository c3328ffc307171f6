"""Hyperparameters by Markov chains: `credo.fit(gp, X, y, using=NUTS())` averages over them.

    p(y* | data) = ∫ p(y* | data, θ) p(θ | data) dθ ≈ 1/m Σⱼ p(y* | data, θⱼ),    θⱼ ~ p(θ | data)

What is integrated in closed form stays so: the chains move in the few numbers that `learn` would choose. A number
without a prior counts as flat on the unconstrained scale, 1/θ for a positive one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from credo.core import params
from credo.core.belief import Belief
from credo.core.errors import NotConverged
from credo.infer.averaging import Averaged
from credo.infer.hyper.target import hyper_target
from credo.infer.learning import Learned
from credo.infer.method import Approximation, Learner
from credo.infer.optimize import CONVERGED
from credo.infer.priors import Priors

EXTREME = 300.0
"""A logarithm, or log odds, beyond which a draw is no number to predict with."""


@dataclass(frozen=True)
class _OverDraws(Learner):
    """The belief averaged over draws of its hyperparameters by an approximation of their posterior."""

    integrates: ClassVar[bool] = True

    method: Approximation

    def learn(self, belief: Belief, statistics: object, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The average of the belief over draws of its hyperparameters."""
        target = hyper_target(belief, statistics, fixed, priors)
        found = self.method.run(target, seed)
        vectors = np.asarray(found.vectors(self.method.members, np.random.default_rng(seed)))
        # The space has an order of its own: numbers find their places in the belief by path.
        with np.errstate(all="ignore"):  # draws that run off overflow, and are left out below
            drawn = [params.replace(belief, target.space.tree(vector)) for vector in vectors]
            evidence = np.asarray([member.log_evidence_of(statistics) for member in drawn])
        sound = np.flatnonzero(np.isfinite(evidence) & (np.abs(vectors) < EXTREME).all(axis=1))
        if not len(sound):
            raise NotConverged(
                "no draw of the hyperparameters has a finite evidence: the data do not determine them; give "
                "priors={...}, or hold some with fixed=[...]"
            )
        members = tuple(drawn[i] for i in sound)
        notes = [*found.notes, f"{len(members)} of {found.kept().shape[0]} draws of the hyperparameters kept"]
        flat = [slot.path for slot in target.space.slots if slot.path not in priors]
        notes += [f"{', '.join(flat)} without a prior"] if flat else []
        # Conditioned on the data, each member is weighed by its evidence: draws have that weight already.
        before = Averaged(-evidence[sound], members)
        after = Averaged(np.zeros(len(members)), tuple(member.condition_on(statistics) for member in members))
        doubts = (f"do not trust these draws of the hyperparameters: {found.verdict}",) if found.notes else ()
        return Learned(before, CONVERGED, float("nan"), [], {}, notes, after, doubts)
