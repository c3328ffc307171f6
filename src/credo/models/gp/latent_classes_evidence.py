"""The evidence of the regressed log-odds of `LatentClasses` with its gradient, and how `fit` climbs it.

    ∂ log p(z | X)/∂K = ½ Σ_c (α_cα_cᵀ - A_c⁻¹),   Σ_c A_c⁻¹ = kP + WWᵀ

The concentration ε is the one of a few with which rows that are left out are most probable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from credo.core import params
from credo.core.arrays import as_float
from credo.core.device import blas_threads
from credo.core.errors import NotPositiveDefinite
from credo.core.linalg.lapack import subtract_outer_inplace
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI
from credo.infer.learning import Evidence, Learned
from credo.infer.optimize import DIVERGED
from credo.infer.priors import Priors
from credo.models.gp.data import Rows, pack
from credo.models.gp.evidence import CompiledModel, choose_model
from credo.models.gp.latent_classes import LatentClasses
from credo.models.gp.log_odds import solve_classes

C = TypeVar("C", bound=LatentClasses)

CONCENTRATIONS = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5)
"""ε that are tried: classes that overlap need large ones, for those apart the smallest do."""
FEW = 400
"""Rows on which they are tried, each with hyperparameters of its own."""


@dataclass(frozen=True)
class ClassesEvidence(Evidence):
    """The evidence of the regressed log-odds climbed once, then the concentration by leave-one-out."""

    needs: ClassVar[type] = LatentClasses
    starts: int = 1
    tolerance: float = 1e-2
    gain: float = 1e-2
    flat: bool = False

    def learn(
        self, belief: LatentClasses, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int
    ) -> Learned:
        """The belief at the highest maximum found, with the concentration that predicts best."""
        if belief.chooses and belief.method == "dirichlet":
            few = statistics.at_most(FEW, seed)
            tried = [
                super(ClassesEvidence, self).learn(
                    concentrated(belief, eps, statistics, fixed), few, fixed, priors, seed
                )
                for eps in CONCENTRATIONS
            ]
            belief = max(
                (each.belief for each in tried if each.status != DIVERGED),
                default=belief,
                key=lambda each: float(np.sum(each.condition_on(few).leave_one_out().log_prob(few.y))),
            )
        return super().learn(belief, statistics, fixed, priors, seed)


def concentrated(belief: C, eps: float, rows: Rows, fixed: Sequence[str]) -> C:
    """The belief with another concentration, and with its variances in the units of the log-odds that go with it."""
    other = changed(belief, concentration=as_float(eps))
    ratio = other.regressed(rows.y)[0].var() / belief.regressed(rows.y)[0].var()
    held = set(params.expand_paths(belief, fixed))
    wider = {
        path: value * ratio
        for path, value in params.learnable(belief).items()
        if path.rpartition(".")[2] == "variance" and path not in held
    }
    return params.replace(other, wider)


class LogOddsObjective:
    """log p(z | X, θ) + log p(θ) of the unconstrained vector, with its gradient: ½ Σ_c (α_cα_cᵀ - A_c⁻¹) by K."""

    def __init__(self, belief: LatentClasses, slots: params.Layout, rows: Rows, priors: Mapping[str, Any]):
        self._z, self._noise = (np.asarray(v) for v in belief.regressed(rows.y))
        self._rows, self._mine = rows, np.asarray(belief._is(rows.y))
        nothing = pack(rows.x, np.zeros(rows.n), np.ones(rows.n), np.zeros(rows.n))
        self._model = choose_model(belief, slots, nothing, priors)
        self._covariance = np.zeros((rows.n, rows.n))

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self.value_and_grad(vector)[0]

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient; (-inf, 0) where the covariance is not positive definite."""
        with blas_threads(self._rows.n):
            below_zero, _, more, pull = self._model.forward(vector, self._covariance)
            k = self._covariance
            if isinstance(self._model, CompiledModel):  # which writes the lower triangle
                k = np.tril(k) + np.tril(k, -1).T
            residual = self._z + below_zero[:, None]
            try:
                found = solve_classes(k, residual, tuple(self._noise), self._rows.y, self._mine)
            except NotPositiveDefinite:
                return -np.inf, np.zeros_like(vector)
            quadratic = float((residual * found.alpha).sum())
            value = -0.5 * (quadratic + float(found.log_determinants) + residual.size * LOG_2PI)
            lower = found.more @ found.more.T + residual.shape[1] * found.inverse
            for alpha in found.alpha.T:
                subtract_outer_inplace(lower, np.asarray(alpha))
            slope = pull(lower, -np.asarray(found.alpha).sum(1), np.ones(len(lower)))
        return value + more, slope
