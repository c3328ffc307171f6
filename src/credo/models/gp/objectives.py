"""Hyperparameters by prediction: what is left out of the data is predicted from the rest.

    leave one out    Σᵢ log p(yᵢ | y₋ᵢ, θ) = Σᵢ ½ log Pᵢᵢ - ½ αᵢ²/Pᵢᵢ - ½ log 2π
    k folds          Σ_B log p(y_B | y_rest, θ) = Σ_B ½ log|P_BB| - ½ α_Bᵀ P_BB⁻¹ α_B - |B|/2 log 2π

with P = K⁻¹ and α = P(y - m), so that all of it costs one factorization. Where the kernel is wrong, these can choose
better than the evidence, which believes it; where it is right, the evidence has less variance. Rasmussen & Williams
(2006), §5.4.2, eq. 5.10-5.13; Sundararajan & Keerthi (2001), "Predictive approaches for choosing hyperparameters".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core import params
from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.core.linalg import factorize, inverse, log_determinant, quadratic, solve
from credo.core.special import LOG_2PI
from credo.infer.learning import Evidence, Learned, Objective
from credo.infer.method import Learner
from credo.models.gp import exact
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows, masked
from credo.models.gp.evidence import Priors


class Folds(NamedTuple):
    """The rows of each fold, padded to the same number; `mask` is False on the padding."""

    rows: Int[Array, "k b"]
    mask: Bool[Array, "k b"]


@dataclass(frozen=True)
class LeaveOneOut(Learner):
    """Maximizes Σᵢ log p(yᵢ | y₋ᵢ, θ) + log p(θ) from several starts: `credo.fit(gp, X, y, using=LeaveOneOut())`."""

    needs: ClassVar[type] = GP

    starts: int = 4
    max_steps: int = 200
    tolerance: float = 1e-5

    def learn(self, belief: GP, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest maximum found; `log_evidence` of the report is the objective there."""
        return _learn(self, "each row from all others", belief, (statistics.padded(), None), fixed, priors, seed)


@dataclass(frozen=True)
class KFold(Learner):
    """Maximizes Σ_B log p(y_B | y_rest, θ) + log p(θ) over k random folds B, from several starts."""

    needs: ClassVar[type] = GP

    k: int = 5
    starts: int = 4
    max_steps: int = 200
    tolerance: float = 1e-5

    def learn(self, belief: GP, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest maximum found; `log_evidence` of the report is the objective there."""
        folds = make_folds(statistics.n, self.k, seed)
        what = f"each of {self.k} folds from the others"
        return _learn(self, what, belief, (statistics.padded(), folds), fixed, priors, seed)


def _learn(
    method: LeaveOneOut | KFold,
    what: str,
    belief: GP,
    statistics: tuple[Rows, Folds | None],
    fixed: Sequence[str],
    priors: Priors,
    seed: int,
) -> Learned:
    slots = params.layout(belief, fixed)
    climb = Evidence(method.starts, max_steps=method.max_steps, tolerance=method.tolerance)
    objective = Objective(belief, slots, statistics, dict(priors), prediction_score)
    learned = climb.climb(objective, belief, slots, priors, seed)
    note = f"chosen by predicting {what}: the objective is that log probability plus log prior, not the evidence"
    return learned._replace(notes=[*learned.notes, note])


def prediction_score(gp: GP, statistics: tuple[Rows, Folds | None]) -> Float[Array, ""]:
    """The log probability of what is left out: rows one by one, or folds."""
    rows, folds = statistics
    return leave_one_out_score(gp, rows) if folds is None else fold_score(gp, rows, folds)


def make_folds(n: int, k: int, seed: int) -> Folds:
    """The rows 0 … n - 1 in k folds at random, whose sizes differ by one at most."""
    if not 2 <= k <= n:
        raise DataError(f"k must be a number of folds from 2 to the number of rows ({n}), found {k}")
    parts = np.array_split(np.random.default_rng(seed).permutation(n), k)
    size = len(parts[0])
    index = np.stack([np.pad(part, (0, size - len(part))) for part in parts])
    mask = np.stack([np.arange(size) < len(part) for part in parts])
    return Folds(index, mask)


def leave_one_out_score(gp: GP, rows: Rows) -> Float[Array, ""]:
    """Σᵢ log p(yᵢ | y₋ᵢ) under the prior of the belief; traceable, -inf where the covariance is not definite."""
    precision, alpha, ok = _precision_of(gp, rows)
    own = masked(rows.mask, jnp.diagonal(precision), 1.0)
    value = 0.5 * jnp.sum(jnp.log(own) - jnp.square(alpha) / own) - 0.5 * LOG_2PI * rows.real.sum()
    return jnp.where(ok, value, -jnp.inf)


def fold_score(gp: GP, rows: Rows, folds: Folds) -> Float[Array, ""]:
    """Σ_B log p(y_B | y_rest) under the prior of the belief; traceable, -inf where the covariance is not definite."""
    precision, alpha, ok = (jnp.asarray(v) for v in _precision_of(gp, rows))

    def of(index: Int[Array, " b"], mask: Bool[Array, " b"]) -> tuple[Array, Array]:
        factor = factorize(precision[index][:, index], mask)
        explained = quadratic(factor.root, jnp.where(mask, alpha[index], 0.0))
        return 0.5 * (log_determinant(factor.root) - explained - mask.sum() * LOG_2PI), factor.ok

    values, fine = jax.vmap(of)(*folds)
    return jnp.where(ok & fine.all(), values.sum(), -jnp.inf)


def _precision_of(gp: GP, rows: Rows) -> tuple[Float[Array, "c c"], Float[Array, " c"], Bool[Array, ""]]:
    prior = gp.prior
    return _precision(exact.covariance(prior, rows), exact.residual(prior, rows), rows.real)


@jax.custom_vjp
def _precision(
    covariance: Float[Array, "c c"], residual: Float[Array, " c"], mask: Bool[Array, " c"]
) -> tuple[Float[Array, "c c"], Float[Array, " c"], Bool[Array, ""]]:
    """P = K⁻¹, α = Pr, and whether K was positive definite; differentiable once in reverse."""
    factor = factorize(covariance, mask)
    return inverse(factor.root), solve(factor.root, residual), factor.ok


def _forward(
    covariance: Float[Array, "c c"], residual: Float[Array, " c"], mask: Bool[Array, " c"]
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array]]:
    precision, alpha, ok = _precision(covariance, residual, mask)
    return (precision, alpha, ok), (precision, alpha)


def _backward(saved: tuple[Array, Array], change: tuple[Array, Array, Any]) -> tuple[Array, Array, None]:
    """dP = -P dK P and dα = -P dK α + P dr, transposed: two products instead of the way back through Cholesky."""
    precision, alpha = saved
    by_precision, by_alpha, _ = change
    half = precision @ by_alpha
    outer = half[:, None] * alpha
    inner = precision @ (by_precision + by_precision.T) @ precision
    return -0.5 * (inner + outer + outer.T), half, None


_precision.defvjp(_forward, _backward)
