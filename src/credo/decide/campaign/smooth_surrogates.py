"""How smooth a noisy outcome is: three beliefs about it, that count as far as they explain what was seen.

    rough      squeezed outcomes, c + Matérn-5/2                                       `surrogate.learn_surrogate`
    smooth     squeezed outcomes, c + RBF
    surface    outcomes as they are, b + aᵀu + uᵀAu + RBF: a quadratic response surface, and what it leaves

The rough belief forgets a point within a short distance. Where noise hides the function, a smoother one learns more
from every outcome, if it is true: log p(z | belief), hyperparameters integrated out, says how likely that is. A surface
also explains why outcomes far away are bad, and needs none of them squeezed. Box & Wilson (1951), "On the experimental
attainment of optimum conditions"; MacKay (1992), "Bayesian interpolation".
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.linalg import block_diag

from credo.core import params
from credo.core.arrays import put
from credo.decide.campaign.surrogate import NOISY, Plan, Surrogate, hyper_of, learn, log_squeeze, plan_for
from credo.infer.priors import SharedScale
from credo.kernels import RBF, Matern52
from credo.models.features import Affine, Polynomial
from credo.models.gp import GP
from credo.models.gp.data import Rows, pack
from credo.models.gp.means import Basis

WIDE, AMONG = 8, 0.3
"""Columns from which on the lengthscales of the smooth belief are alike, and how much; no surface is fitted there."""
ROWS_EACH = 3
"""Rows for each coefficient of a surface, below which it is not asked."""
STRONG = float(np.log(20.0))
"""Evidence that is strong in the words of Kass & Raftery (1995), "Bayes factors"."""
STEP = 1e-4
"""Of a difference of slopes."""


class Smoother(NamedTuple):
    """The likelier of the smooth belief and the surface."""

    surrogate: Surrogate
    log_weights: Float[np.ndarray, "2"]
    """log p(what was seen | belief) of the rough one and of this one, up to a constant."""
    surface: dict[str, list[float]] | None = None
    """The hyperparameters of the surface, as JSON: where the next one starts from; None where it was not asked."""
    is_surface: bool = False
    """Whether it has a quadratic response surface."""

    @property
    def is_evident(self) -> bool:
        """Whether there is strong evidence for it against the rough belief."""
        return bool(np.diff(self.log_weights)[0] > STRONG)


def smoother_of(rough: Surrogate, warm: Mapping[str, Any] | None = None, seed: int = 0) -> Smoother:
    """What was seen of a noisy outcome, if it is smoother than `rough` believes.

    Outcomes z that were squeezed to v have the density p(z) = p(v) Π dvᵢ/dzᵢ: so beliefs about either can be compared.

    Args:
        rough: the surrogate after the outcomes.
        warm: `Smoother.surface` of an earlier one.
        seed: of the random starts.
    """
    rows, _ = rough.belief.conditioned()
    x, _, scale, extra = rows.cut()
    (n, d), known = x.shape, not scale.any()
    plan = plan_for(d, NOISY, known, Matern52)
    evidence = log_evidence(rough.belief, plan, plan.objective(rows))
    smooth, height = _weighed(_smooth_plan(d, known), rows, rough.hyper, seed)
    likely = Smoother(rough._replace(belief=smooth.condition_on(rows)), np.asarray([evidence, height]))
    unit = float(np.std(rough.plain))
    if d >= WIDE or n < ROWS_EACH * (d + 1) * (d + 2) // 2 or unit == 0:
        return likely

    standard = pack(x, rough.plain / unit, scale, extra / unit**2)
    surface, around = _weighed(_surface_plan(d, known), standard, warm, seed)
    around -= n * np.log(unit) + log_squeeze(rough.plain)
    if not around > height:
        return likely._replace(surface=hyper_of(surface))
    whole = _magnified(surface, unit**2).condition_on(pack(x, rough.plain, scale, extra))
    return Smoother(rough._replace(belief=whole), np.asarray([evidence, around]), hyper_of(surface), is_surface=True)


def _weighed(plan: Plan, rows: Rows, warm: Mapping[str, Any] | None, seed: int) -> tuple[GP, float]:
    """The prior belief with the likeliest hyperparameters, and its log evidence."""
    objective = plan.objective(rows)
    belief = learn(plan, rows, objective, warm, seed)
    return belief, log_evidence(belief, plan, objective)


def log_evidence(belief: GP, plan: Plan, objective: Any) -> float:
    """log ∫ p(v | θ) p(θ) dθ of outcomes v, around the θ of the belief, up to a constant; see `Plan.objective`.

    With J(log θ) = log p(v | θ) + log p(θ) and S the covariance of the prior, Laplace's approximation at the maximum is
    J - ½ Σ log μᵢ, μᵢ ≥ 1 the eigenvalues of -S^½ ∇²J S^½: by how much data narrow the prior. MacKay (1992).
    """
    top = np.asarray(params.to_vector(belief, plan.slots))
    height, slope = objective.value_and_grad(top)
    bends = [slope - objective.value_and_grad(top + STEP * step)[1] for step in np.eye(len(top))]
    root = block_diag(*(np.linalg.cholesky(plan.priors[s.path].covariance(s.stop - s.start)) for s in plan.slots))
    narrowed = np.linalg.eigvalsh(root.T @ (np.stack(bends) / STEP) @ root)
    return height - 0.5 * float(np.log(np.maximum(narrowed, 1.0)).sum())


@lru_cache(maxsize=64)
def _smooth_plan(d: int, known: bool) -> Plan:
    """RBF, in many columns with lengthscales that are alike."""
    plan = plan_for(d, NOISY, known, RBF)
    if d < WIDE:
        return plan
    usual = plan.priors["kernel.lengthscale"]
    return plan._replace(priors=plan.priors | {"kernel.lengthscale": SharedScale(usual.mode, usual.below, AMONG)})


@lru_cache(maxsize=64)
def _surface_plan(d: int, known: bool) -> Plan:
    """RBF around b + aᵀu + uᵀAu, all coefficients ~ N(0, 1); uᵀu = 1 at a typical point of the unit cube."""
    around = Basis(Polynomial(2).after(Affine(0.5, np.sqrt(d / 12))), 0.0, put(np.ones(())))
    plan = plan_for(d, NOISY, known, RBF)
    return plan._replace(gp=eqx.tree_at(lambda gp: gp.mean, plan.gp, around))


def _magnified(belief: GP, factor: float) -> GP:
    """The prior belief about outcomes whose variance is larger by a factor."""
    return eqx.tree_at(
        lambda gp: (gp.kernel.variance, gp.mean.covariance, gp.noise), belief, replace_fn=lambda v: v * factor
    )
