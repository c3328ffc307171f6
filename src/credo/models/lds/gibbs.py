"""Gibbs sampling of linear dynamical systems: states given the matrices, matrices given the states, and again.

    z ~ p(z | x, matrices)                              forward filtering, backward sampling
    Σ ~ IW(ν + N, S),  C | Σ ~ MN(M, Σ, V⁻¹)            for y = Cw + e, e ~ N(0, Σ): (F B) with Q, and (H D d) with R

    V = V₀ + Σwwᵀ,   M = (M₀V₀ + Σywᵀ)V⁻¹,   S = S₀ + Σyyᵀ + M₀V₀M₀ᵀ - MVMᵀ

Another basis of the state space gives the same outcomes: hold `emission` (`fixed`) where the matrices are to be read.
Carter & Kohn (1994), "On Gibbs sampling for state space models"; Murphy (2012), section 18.4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core import params
from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.core.linalg import symmetric_part
from credo.core.pytrees import changed
from credo.infer.learning import Learned
from credo.infer.mcmc.draws import Draws
from credo.infer.mcmc.stacked import AveragedDraws, ModelGibbs, learned_average
from credo.models.conjugate.matrix import JointMoments, MatrixNormalInverseWishart, draw_root
from credo.models.lds import passes
from credo.models.lds.batched_matrices import on_rows, root_semidefinite
from credo.models.lds.belief import LDS
from credo.models.lds.kalman import kalman_filter
from credo.models.lds.learning import Regression, completed, sums_of_states, with_columns
from credo.models.lds.simulate import draw_states
from credo.models.sequences import Sequences

START = ("start_mean", "start_covariance")
"""They are not drawn: one sequence says next to nothing of them."""


class MatrixPrior(NamedTuple):
    """Σ ~ IW(df, scale), C | Σ ~ MN(mean, Σ, precision⁻¹), for y = Cw + e, e ~ N(0, Σ); `precision` is diagonal.

    It is a `MatrixNormalInverseWishart` of one map, of which columns may be held.
    """

    mean: Float[Array, "k m"]
    precision: Float[Array, " m"]
    scale: Float[Array, "k k"]
    df: Float[Array, ""]

    @classmethod
    def weak(cls, mean: Array, covariance: Array, precision: float = 1e-2) -> "MatrixPrior":
        """With E[Σ] = covariance, worth two observations of it, and a wide law of C around the mean."""
        k, m = mean.shape
        return cls(mean, np.full(m, precision), covariance, np.asarray(k + 2.0))

    def draw(
        self, key: PRNGKeyArray, sums: Regression, c: Array, covariance: Array, free: tuple[bool, ...], loose: bool
    ) -> tuple[Float[Array, "k m"], Float[Array, "k k"]]:
        """C and Σ given the sums; columns of C that are not free are held, and Σ where it is not `loose`."""
        chosen, held = np.flatnonzero(free), np.flatnonzero(np.logical_not(free))
        known = c[:, held]
        cross = known @ sums.yw[:, held].T
        yy = sums.yy - cross - cross.T + known @ sums.ww[np.ix_(held, held)] @ known.T
        if not any(free):
            half = draw_root(key, (self.df + sums.rows)[None], symmetric_part(self.scale + yy)[None])[0]
            return c, half @ half.T if loose else covariance
        yw = sums.yw[:, chosen] - known @ sums.ww[np.ix_(held, chosen)]
        law = MatrixNormalInverseWishart(
            self.mean[None][:, :, chosen], jnp.diag(self.precision[chosen])[None], self.df[None], self.scale[None]
        ).update(JointMoments(*(a[None] for a in (sums.rows, sums.ww[np.ix_(chosen, chosen)], yw, yy))))
        if loose:
            drawn, covariances = law.draw(key)
            covariance = covariances[0]
        else:
            drawn = law.draw_given(key, root_semidefinite(covariance)[None])
        return with_columns(c, drawn[0], free), covariance


def weak_priors(lds: LDS) -> dict[str, MatrixPrior]:
    """Around the covariances and the offset that a system has; its other matrices are small, or are not."""
    n, p, c = lds.states, lds.outputs, lds.inputs
    level = np.zeros(p) if lds.offset is None else np.asarray(lds.offset)
    return {
        "dynamics": MatrixPrior.weak(np.zeros((n, n + c)), lds.process_noise),
        "outcomes": MatrixPrior.weak(np.column_stack([np.zeros((p, n + c)), level]), lds.observation_noise),
    }


class DrawnLDS(AveragedDraws):
    """The average over systems that were drawn; `posterior` has the draws of all their numbers."""


@dataclass(frozen=True)
class StateGibbs(ModelGibbs):
    """Draws of the states given the matrices, and of those given the states.

    Args:
        chains, draws, warmup, thin, members, progress: see `credo.infer.mcmc.stacked.ModelGibbs`.
        fixed: paths that are held, e.g. ("emission",); the start always is.
        dynamics: the prior of (F B) and Q; None is that of `weak_priors`, as for `outcomes`.
        outcomes: the prior of (H D d) and R.
    """

    needs: ClassVar[type] = LDS
    kind: ClassVar[type[AveragedDraws]] = DrawnLDS

    fixed: tuple[str, ...] = ()
    dynamics: MatrixPrior | None = None
    outcomes: MatrixPrior | None = None

    def learn(
        self, belief: LDS, statistics: Sequences, fixed: Sequence[str], priors: Mapping[str, object], seed: int
    ) -> Learned:
        """The belief averaged over draws of its matrices; `fit` then conditions it on the data."""
        if priors:
            raise DataError(
                f"StateGibbs has priors of its own, found {', '.join(priors)}; pass dynamics= and outcomes="
            )
        held = replace(self, fixed=(*self.fixed, *fixed))
        return learned_average(DrawnLDS, *held.draw(belief, statistics, seed=seed), statistics)

    def draw(self, belief: LDS, statistics: Sequences, *, seed: int = 0) -> tuple[Draws, LDS]:
        """All draws with diagnostics, and the systems over which to average, stacked along a leading axis."""
        if belief._varies():
            raise DataError("StateGibbs needs matrices that are the same at all times; draw with credo.infer.NUTS()")
        held = (*START, *params.expand_paths(belief, self.fixed))
        weak = weak_priors(belief)
        sweep = StateSweep(self.dynamics or weak["dynamics"], self.outcomes or weak["outcomes"], held)
        return self.run(belief, sweep, statistics, seed, held)


class StateSweep(eqx.Module):
    """States given the matrices, missing entries given those, matrices given both; the paths that are `held` stay."""

    dynamics: MatrixPrior
    outcomes: MatrixPrior
    held: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, lds: LDS, data: Sequences) -> tuple[LDS, Float[Array, ""]]:
        """The system after a sweep, and log p(x) under the one before."""
        k_states, k_missing, k_dynamics, k_outcomes = jr.split(key, 4)
        given = passes.filter_inputs(lds, data)
        filtered = kalman_filter(given)
        z = draw_states(k_states, given.system, filtered, given.first, 1)[0]
        if not data.complete:
            slope, level, noise = completed(given.system, data)
            x = jnp.einsum("tij,tj->ti", slope, z) + level
            x = x + jnp.einsum("tij,tj->ti", on_rows(root_semidefinite)(noise), jr.normal(k_missing, x.shape))
            shown = jnp.broadcast_to(jnp.any(data.seen, axis=1, keepdims=True), x.shape)
            data = changed(data, x=x, seen=shown, complete=True)
        dynamics, outcomes = sums_of_states(data, z, data.first & data.real)
        new = lds.regressed(lambda *a: self.dynamics.draw(k_dynamics, *a), dynamics, "dynamics", self.held)
        new |= lds.regressed(lambda *a: self.outcomes.draw(k_outcomes, *a), outcomes, "outcomes", self.held)
        return changed(lds, **new), filtered.log_likelihood
