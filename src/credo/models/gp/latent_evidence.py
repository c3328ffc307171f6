"""The approximate evidence of a `LatentGP` with its gradient, and the climb of it that chooses hyperparameters.

Each look at the evidence finds sites (`sites.py`), from those of the last look. With B⁻¹ from L⁻¹, which the last step
to the sites has left behind, its gradient by K costs no more than a factorization:

    ∂ log Z/∂K = ½(ααᵀ - R),   and for Laplace  ½((α + u)(α + u)ᵀ - uuᵀ - R),   R = S^½B⁻¹S^½

Sites need not have settled far while hyperparameters are sought: the evidence is stationary in them.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array
from credo.core.device import blas_threads
from credo.core.errors import NotConvergedWarning
from credo.core.linalg.lapack import square_triangle, subtract_outer_inplace
from credo.infer.learning import Evidence, Learned
from credo.infer.optimize import DIVERGED
from credo.infer.priors import Priors
from credo.models.gp.data import Rows
from credo.models.gp.evidence import CompiledModel, Pull, choose_model
from credo.models.gp.latent import LatentGP
from credo.models.gp.sites import Found, Problem, Start, cavities, find_sites, log_evidence
from credo.models.likelihoods import Likelihood
from credo.models.likelihoods.expectations import expected, tilted

LOOSE, LOOSE_MODE = 1e-3, 1e-2
"""How far sites have settled, in standard deviations of f, while hyperparameters are sought; the steps to Laplace's
mode are Newton's, and the one after 1e-2 would be of about 1e-4."""


@dataclass(frozen=True)
class LatentEvidence(Evidence):
    """The approximate evidence climbed once, and Bayes' rule from the sites of the last look.

    A climb of Laplace's evidence first saves nothing: its looks cost half as much, its top is not EP's, and what the
    climb has learned of the curvature on the way is lost (94 factorizations for 41 on breast cancer, n = 455).
    """

    needs: ClassVar[type] = LatentGP
    starts: int = 1
    tolerance: float = 1e-2
    gain: float = 1e-3
    flat: bool = False

    def learn(self, belief: LatentGP, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest maximum found, after the rows."""
        slots = params.layout(belief, fixed)
        objective = SitesObjective(belief, slots, statistics, priors)
        learned = self.climb(objective, belief, slots, priors, seed)
        if learned.status == DIVERGED:
            return learned
        return learned._replace(conditioned=learned.belief.solved_from(statistics, objective.start))


class Look(NamedTuple):
    """A look at the evidence."""

    value: float
    """With log p(θ); -inf where nothing was found."""
    method: str
    problem: Problem
    found: Found | None
    pull: Pull


class SitesObjective:
    """The approximate evidence + log p(θ) of the unconstrained vector, with its gradient."""

    def __init__(self, belief: LatentGP, slots: params.Layout, rows: Rows, priors: Mapping[str, Any]):
        mine = [s for s in slots if s.path.startswith("likelihood.")]
        free = {s.path for s in slots} - {s.path for s in mine}
        self._own = np.array([i for s in mine for i in range(s.start, s.stop)], dtype=int)
        self._rest = np.setdiff1d(np.arange(slots[-1].stop), self._own)
        kernel_slots = params.layout(belief, [path for path in params.learnable(belief) if path not in free])
        self._model = choose_model(belief, kernel_slots, rows, {p: v for p, v in priors.items() if p in free})
        self._belief, self._rows = belief, rows
        self._covariance = np.zeros((rows.n, rows.n))
        self.start: Start | None = None
        """The sites of the last look, from which the next starts."""

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self._look(vector).value

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient; (-inf, 0) where the covariance is not positive definite."""
        gradient = np.zeros_like(vector)
        look = self._look(vector)
        if look.found is None:
            return -np.inf, gradient
        with blas_threads(self._rows.n):
            lower, by_residual = by_covariance(look.method, look.problem, look.found)
            gradient[self._rest] = look.pull(lower, by_residual, np.ones_like(by_residual))
        if len(self._own):
            gradient[self._own] = self._by_own(vector, look)
        return look.value, gradient

    def _look(self, vector: np.ndarray) -> Look:
        own = self._belief.method
        with blas_threads(self._rows.n), warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)  # of a place that may not be the last
            residual, _, more, pull = self._model.forward(vector[self._rest], self._covariance)
            k: Array = self._covariance
            if isinstance(self._model, CompiledModel):  # which writes the lower triangle
                k = np.tril(k) + np.tril(k, -1).T
            problem = Problem(self._likelihood(vector), self._rows.y, self._rows.extra, self._rows.y - residual, k)
            if not np.all(np.isfinite(k)):
                return Look(-np.inf, "", problem, None, pull)
            method, found = find_sites(own, problem, self.start, LOOSE_MODE if own == "laplace" else LOOSE)
            value = float(log_evidence(method, problem, found))
        if not np.isfinite(value):
            return Look(-np.inf, method, problem, None, pull)
        self.start = Start(found.nu, found.tau, found.now.alpha)
        return Look(value + more + self._log_prior(vector), method, problem, found, pull)

    def _likelihood(self, vector: np.ndarray) -> Likelihood:
        own = self._belief.likelihood
        return own.at(vector[self._own]) if len(self._own) else own

    def _log_prior(self, vector: np.ndarray) -> float:
        return float(self._belief.likelihood.own_terms(vector[self._own])[0]) if len(self._own) else 0.0

    def _by_own(self, vector: np.ndarray, look: Look, step: float = 1e-4) -> np.ndarray:
        """By the likelihood's numbers ψ, in differences: at fixed sites only p(y | f, ψ) moves, but for Laplace."""
        assert look.found is not None
        nu, tau, now, *_ = look.found
        at = cavities(now, nu, tau) if look.method == "ep" else (now.mean, now.variance)

        def fit(moved: np.ndarray) -> float:
            likelihood = self._likelihood(moved)
            if look.method == "laplace":
                return self._look(moved).value - self._log_prior(moved)
            of = tilted if look.method == "ep" else expected
            return float(of(likelihood, look.problem.y, look.problem.offset, *at)[0].sum())

        out = np.asarray(self._belief.likelihood.own_terms(vector[self._own])[1]).copy()
        for j, i in enumerate(self._own):
            ahead, behind = (vector + sign * step * (np.arange(len(vector)) == i) for sign in (1, -1))
            out[j] += (fit(ahead) - fit(behind)) / (2 * step)
        self.start = Start(nu, tau, now.alpha)
        return out


def by_covariance(
    method: str, problem: Problem, found: Found
) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, " n"]]:
    """-2 ∂/∂K, its lower triangle, and ∂/∂residual."""
    now, half = found.now, np.sqrt(found.tau)
    alpha, inverse = np.asarray(now.alpha), np.asarray(now.inverse_root)
    lower = square_triangle(inverse)
    lower *= half
    lower *= half[:, None]
    if method != "laplace":
        subtract_outer_inplace(lower, alpha)
        return lower, -alpha
    third = problem.likelihood.eta_derivatives(now.mean + problem.offset, problem.y)[3]
    s = 0.5 * now.variance * third
    moved = s - half * (inverse.T @ (inverse @ (half * (problem.k @ s))))
    subtract_outer_inplace(lower, alpha + moved)
    subtract_outer_inplace(lower, moved, -1.0)
    return lower, -(alpha + moved)
