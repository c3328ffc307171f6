"""Gibbs sampling of linear dynamical systems: states given the matrices, matrices given the states, and again.

    z ~ p(z | x, matrices)                              forward filtering, backward sampling
    Σ ~ IW(ν + N, S),  C | Σ ~ MN(M, Σ, V⁻¹)            for y = Cw + e, e ~ N(0, Σ): (F B) with Q, and (H D d) with R

    V = V₀ + Σwwᵀ,   M = (M₀V₀ + Σywᵀ)V⁻¹,   S = S₀ + Σyyᵀ + M₀V₀M₀ᵀ - MVMᵀ

Another basis of the state space gives the same outcomes: hold `emission` (`fixed`) where the matrices are to be read.
Carter & Kohn (1994), "On Gibbs sampling for state space models"; Murphy (2012), section 18.4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core import params
from credo.core.arrays import put
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.linalg import symmetric_part
from credo.core.params import known
from credo.core.pytrees import changed
from credo.infer.averaging import Averaged
from credo.infer.learning import Learned
from credo.infer.mcmc.draws import Draws
from credo.infer.mcmc.stacked import diagnosed, evenly_thinned, evidences, unstacked
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED
from credo.infer.progress import Progress
from credo.models.conjugate.matrix import JointMoments, MatrixNormalInverseWishart, draw_root
from credo.models.lds import compiled_passes
from credo.models.lds.batched_matrices import on_rows, root, root_semidefinite
from credo.models.lds.belief import LDS
from credo.models.lds.kalman import kalman_filter
from credo.models.lds.learning import Regression, collect, completed
from credo.models.lds.simulate import draw_states
from credo.models.sequences import Sequences
from credo.models.state_laws import SmoothedStates

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
    def weak(cls, mean: Any, covariance: Any, precision: float = 1e-2) -> "MatrixPrior":
        """With E[Σ] = covariance, worth two observations of it, and a wide law of C around the mean."""
        k, m = mean.shape
        return cls(mean, put(np.full(m, precision)), covariance, put(np.asarray(k + 2.0)))

    def draw(
        self, key: PRNGKeyArray, sums: Regression, c: Any, covariance: Any, free: tuple[bool, ...], loose: bool
    ) -> tuple[Float[Array, "k m"], Float[Array, "k k"]]:
        """C and Σ given the sums; columns of C that are not free are held, and Σ where it is not `loose`."""
        chosen = jnp.array([i for i, each in enumerate(free) if each], dtype=int)
        held = jnp.array([i for i, each in enumerate(free) if not each], dtype=int)
        known = c[:, held]
        cross = known @ sums.yw[:, held].T
        yy = sums.yy - cross - cross.T + known @ sums.ww[jnp.ix_(held, held)] @ known.T
        if not any(free):
            half = draw_root(key, (self.df + sums.rows)[None], symmetric_part(self.scale + yy)[None])[0]
            return c, half @ half.T if loose else covariance
        yw = sums.yw[:, chosen] - known @ sums.ww[jnp.ix_(held, chosen)]
        law = MatrixNormalInverseWishart(
            self.mean[None][:, :, chosen], jnp.diag(self.precision[chosen])[None], self.df[None], self.scale[None]
        ).update(JointMoments(*(a[None] for a in (sums.rows, sums.ww[jnp.ix_(chosen, chosen)], yw, yy))))
        if loose:
            drawn, covariances = law.draw(key)
            covariance = covariances[0]
        else:
            drawn = law.draw_given(key, root(covariance)[None])
        return c.at[:, chosen].set(drawn[0]), covariance


class DrawnLDS(Averaged):
    """The average over systems that were drawn; `found` has the draws of all their numbers."""

    found: Any = known()


@dataclass(frozen=True)
class StateGibbs(Learner):
    """Draws of the states given the matrices, and of those given the states.

    Args:
        chains: each from a starting point of its own where the belief's was not given.
        draws: kept of each chain.
        warmup: sweeps before the first.
        thin: sweeps for each draw that is kept.
        members: draws over which the belief averages, spread evenly over all.
        fixed: paths that are held, e.g. ("emission",); the start always is.
        dynamics: the prior of (F B) and Q; None is `MatrixPrior.weak` around what the belief has, as for `outcomes`.
        outcomes: the prior of (H D d) and R.
        progress: True for a bar, or a function of the share done and a text.
    """

    needs: ClassVar[type] = LDS
    integrates: ClassVar[bool] = True

    chains: int = 2
    draws: int = 500
    warmup: int = 500
    thin: int = 1
    members: int = 64
    fixed: tuple[str, ...] = ()
    dynamics: MatrixPrior | None = None
    outcomes: MatrixPrior | None = None
    progress: Any = False

    def condition(self, belief: LDS, *data: Any, seed: int = 0, **options: Any) -> DrawnLDS:
        """The belief after the data, averaged over draws; `found` has all of them, with diagnostics."""
        prepared, statistics = belief.prepare(*data, **options)
        found, drawn = self.draw(prepared, statistics, seed)
        states, times = _latest_of_each(drawn, statistics)
        return DrawnLDS(put(np.zeros(self._count())), unstacked(changed(drawn, state=states, time=times)), found)

    def learn(
        self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Mapping[str, Any], seed: int
    ) -> Learned:
        """The belief averaged over draws of its matrices; `fit` then conditions it on the data."""
        if priors:
            raise DataError(
                f"StateGibbs has priors of its own, found {', '.join(priors)}; pass dynamics= and outcomes="
            )
        draws, drawn = changed(self, fixed=(*self.fixed, *fixed)).draw(belief, statistics, seed)
        # `fit` weighs each member by its evidence: draws have that weight already.
        log_weights = -evidences(drawn, statistics)
        notes = [*draws.notes, f"{self._count()} of {self.chains * self.draws} draws kept"]
        average = DrawnLDS(log_weights, unstacked(drawn), draws)
        return Learned(average, CONVERGED, float("nan"), [], {}, notes, (statistics,) * self._count())

    def draw(self, belief: LDS, statistics: Sequences, seed: int = 0) -> tuple[Draws, Any]:
        """All draws with diagnostics, and the systems over which to average, stacked along a leading axis."""
        for name in ("chains", "draws", "thin", "members"):
            check_count(getattr(self, name), name)
        check_count(self.warmup, "warmup", 0)
        if belief._varies():
            raise DataError("StateGibbs needs matrices that are the same at all times; draw with credo.infer.NUTS()")
        held = (*START, *params.expand_paths(belief, self.fixed))
        dynamics, outcomes = _weak(belief)
        priors = (self.dynamics or dynamics, self.outcomes or outcomes)
        length = (self.warmup, self.draws, self.thin)
        others = [belief.restart(statistics, seed + i) for i in range(1, self.chains)]
        values, heights = [], []
        with Progress(self.progress) as show:
            keys = jr.split(jr.key(seed), self.chains)
            for i, each in enumerate([belief, *(belief if other is None else other for other in others)]):
                chain, height = gibbs_chain(keys[i], each, statistics, priors, held, length)
                values.append({path: np.asarray(v) for path, v in chain.items()})
                heights.append(np.asarray(height))
                show((i + 1) / self.chains, f"chain {i + 1} of {self.chains}")
        every = {path: np.concatenate([v[path] for v in values]) for path in values[0]}
        chosen = evenly_thinned(self.chains * self.draws, self._count())
        drawn = _replaced(belief, {path: put(v[chosen]) for path, v in every.items()})
        return diagnosed(belief, every, np.stack(heights)), drawn

    def _count(self) -> int:
        return min(self.members, self.chains * self.draws)


@eqx.filter_jit
def gibbs_chain(
    key: PRNGKeyArray, lds: Any, data: Sequences, priors: Any, held: tuple[str, ...], length: tuple[int, int, int]
) -> tuple[dict[str, Array], Float[Array, " n"]]:
    """The numbers that are not held by path at each draw, and log p(x) under those before it."""
    warmup, draws, thin = length

    def sweep(values: dict[str, Array], key: PRNGKeyArray) -> tuple[dict[str, Array], tuple[dict[str, Array], Array]]:
        after, height = _sweep(key, params.replace(lds, values), data, priors, held)
        values = {path: params.learnable(after)[path] for path in values}
        return values, (values, height)

    free = {path: value for path, value in params.learnable(lds).items() if path not in held}
    _, (every, heights) = jax.lax.scan(sweep, free, jr.split(key, warmup + draws * thin))
    return jax.tree.map(lambda v: v[warmup + thin - 1 :: thin], (every, heights))


def _sweep(key: PRNGKeyArray, lds: Any, data: Sequences, priors: Any, held: tuple[str, ...]) -> tuple[Any, Array]:
    k_states, k_missing, k_dynamics, k_outcomes = jr.split(key, 4)
    given = compiled_passes.filter_inputs(lds, data)
    filtered = kalman_filter(given)
    z = draw_states(k_states, given.system, filtered, given.first, 1)[0]
    nothing = jnp.zeros((*z.shape, z.shape[1]))
    if not data.complete:
        slope, level, noise = completed(given.system, data)
        x = jnp.einsum("tij,tj->ti", slope, z) + level
        x = x + jnp.einsum("tij,tj->ti", on_rows(root_semidefinite)(noise), jr.normal(k_missing, x.shape))
        shown = jnp.broadcast_to(jnp.any(data.seen, axis=1, keepdims=True), x.shape)
        data = changed(data, x=x, seen=shown, complete=True)
    known = SmoothedStates(z, nothing, filtered.increments, nothing)
    sums = collect(given.system, data, known, data.first & data.real)
    new = lds.regressed(lambda *a: priors[0].draw(k_dynamics, *a), sums.dynamics, "dynamics", held)
    new |= lds.regressed(lambda *a: priors[1].draw(k_outcomes, *a), sums.outcomes, "outcomes", held)
    return changed(lds, **new), filtered.log_likelihood


def _weak(lds: Any) -> tuple[MatrixPrior, MatrixPrior]:
    n, p, c = lds.states, lds.outputs, lds.inputs
    dynamics = put(np.zeros((n, n + c)))
    return MatrixPrior.weak(dynamics, lds.process_noise), MatrixPrior.weak(
        put(np.zeros((p, n + c + 1))), lds.observation_noise
    )


@eqx.filter_jit
def _replaced(lds: Any, values: dict[str, Array]) -> Any:
    """The system with draws of its numbers along a leading axis, and copies of the others."""
    m = jax.tree.leaves(values)[0].shape[0]
    copies = jax.tree.map(lambda a: jnp.broadcast_to(a, (m, *a.shape)), lds)
    return jax.vmap(params.replace)(copies, values)


@eqx.filter_jit
def _latest_of_each(drawn: Any, data: Sequences) -> tuple[Any, Any]:
    return jax.lax.map(lambda lds: compiled_passes.latest(lds, data), drawn)
