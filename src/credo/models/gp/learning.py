"""Learning the hyperparameters of a Gaussian process.

The evidence has several local maxima (Rasmussen & Williams 2006, §5.4.1) and each look at it costs O(n³).
`Staged` looks for them on a part of the rows, where a look is cheap, and climbs the best on all rows.

`HostObjective` computes evidence and gradient in three steps: the covariance (XLA), its factor and inverse (LAPACK),
and the pull-back of ∂log p/∂K = ½(ααᵀ - K⁻¹) to the hyperparameters (XLA). In one program with a callback the same
takes as long, but JAX does not keep such programs on disk, and a new process would compile it again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core import params
from credo.core.arrays import input_names
from credo.core.linalg import evidence_on_host, lapack
from credo.infer.learn import Evidence, Learned
from credo.models.gp import posterior
from credo.models.gp.belief import GP
from credo.models.gp.hyperpriors import TYPICAL_NOISE, scales_of
from credo.models.gp.rows import Rows
from credo.models.linear.priors import KnownNoise


def prepare(belief: GP, data: tuple[Any, ...], weights: Any, noise: Any) -> tuple[GP, Rows]:
    """The belief with starting values in the units of the data, and the rows."""
    if belief.seen is not None:
        more = belief.statistics(*data, weights=weights, noise=noise) if data else None
        return belief.unconditioned(), belief.seen if more is None else belief.seen + more
    if noise is not None:
        belief = eqx.tree_at(lambda b: b.noise, belief, KnownNoise())
    rows = belief.statistics(*data, weights=weights, noise=noise)
    scales, center = scales_of(belief.kernel, rows)
    own = belief.noise
    if not isinstance(own, KnownNoise) and float(own) == 1.0:  # the default
        own = jnp.asarray(2 * TYPICAL_NOISE * scales.variance)
    ready = eqx.tree_at(
        lambda b: (b.kernel, b.mean, b.noise),
        belief,
        (belief.kernel.adapt(scales), belief.mean.adapt(rows.cut()[0], scales, center), own),
    )
    return (ready.named(input_names(data[0])) if hasattr(data[0], "columns") else ready), rows


class Staged(NamedTuple):
    """Short climbs from several starts on a random part of the rows, then one on all of them from the best.

    `using=Evidence(starts=…)` climbs from every start on all rows, and reports every local maximum.
    """

    starts: int = 4
    rows: int = 256
    """The most rows that starts are tried on; of few data a third is used, but at least 64 rows."""
    short: int = 12
    """The steps of a short climb."""
    max_steps: int = 200
    tolerance: float = 1e-3
    gain: float = 1e-8

    def learn(
        self, belief: GP, statistics: Rows, fixed: Sequence[str], priors: Mapping[str, Any], seed: int
    ) -> Learned:
        """The belief at the maximum found."""
        climb = Evidence(self.starts, max_steps=self.max_steps, tolerance=self.tolerance, gain=self.gain)
        n = statistics.n
        part = min(self.rows, max(64, n // 3))
        if n <= 1.5 * part:
            with lapack.quiet_threads(n):
                return _noise_free(climb.learn(belief, statistics, fixed, priors, seed))
        index = np.sort(np.random.default_rng(seed).choice(n, part, replace=False))
        with lapack.quiet_threads(part):
            first = climb._replace(max_steps=self.short).learn(belief, statistics.subset(index), fixed, priors, seed)
        with lapack.quiet_threads(n):
            last = climb._replace(starts=1).learn(first.belief, statistics, fixed, priors, seed)
        found = f"{self.starts} short climbs on {part} of {n} rows; the best went on with all of them"
        return _noise_free(last._replace(notes=[*last.notes, found]))


def _noise_free(learned: Learned) -> Learned:
    """Noise at its lower bound is not a failure: the outcomes of a simulator have none. Said in a note."""
    if learned.at_bound.get("noise") != "lower":
        return learned
    rest = {name: side for name, side in learned.at_bound.items() if name != "noise"}
    note = "the noise ran to its lower bound: the outcomes are fitted exactly, as those of a computation would be"
    return learned._replace(at_bound=rest, notes=[*learned.notes, note])


class HostObjective:
    """log p(y | X, θ) + log p(θ) of the unconstrained vector, with its gradient, through LAPACK."""

    def __init__(self, belief: GP, slots: params.Layout, rows: Rows, priors: Mapping[str, Any]):
        self._about = (belief, slots, rows, dict(priors))
        self._weight = np.asarray(rows.mask, dtype=float)
        self._pace = lapack.Paced()
        self._work = lapack.aligned_empty((rows.capacity, rows.capacity))  # reused: fresh pages cost time

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient."""
        value, by_residual = self._evaluate(vector, True)
        if not np.isfinite(value):
            return value, np.zeros_like(vector)
        gradient = _pull_back(vector, *self._about, jnp.asarray(self._work), by_residual)
        return value, np.asarray(gradient)

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self._evaluate(vector, False)[0]

    def _evaluate(self, vector: np.ndarray, gradient: bool) -> tuple[float, np.ndarray]:
        covariance, residual, log_prior = _push_forward(vector, *self._about)
        arrays = (np.asarray(covariance), np.asarray(residual), self._weight, self._work)
        value, by_residual = self._pace(lambda: evidence_on_host(*arrays, gradient))
        return value + float(log_prior), by_residual


def _outcomes(
    vector: Float[Array, " k"], belief: GP, slots: params.Layout, rows: Rows, priors: dict[str, Any]
) -> tuple[Float[Array, "c c"], Float[Array, " c"], Float[Array, ""]]:
    """The covariance of the outcomes, y - m(X), and log p(θ)."""
    candidate = params.from_vector(belief, slots, vector)
    prior = candidate.prior
    log_prior = params.log_prior(candidate, priors)
    return posterior.covariance(prior, rows), posterior.residual(prior, rows), log_prior


_push_forward: Any = eqx.filter_jit(_outcomes)


@eqx.filter_jit
def _pull_back(
    vector: Float[Array, " k"] | np.ndarray,
    belief: GP,
    slots: params.Layout,
    rows: Rows,
    priors: dict[str, Any],
    lower: Float[Array, "c c"],
    by_residual: Float[Array, " c"] | np.ndarray,
) -> Float[Array, " k"]:
    """∂/∂θ from K⁻¹ - ααᵀ, of which the lower triangle is given."""
    i = jnp.arange(lower.shape[0])
    weight = jnp.where(i[:, None] > i[None, :], -1.0, jnp.where(i[:, None] == i[None, :], -0.5, 0.0))
    _, pull = jax.vjp(lambda u: _outcomes(u, belief, slots, rows, priors), vector)
    return pull((weight * lower, jnp.asarray(by_residual), jnp.ones(())))[0]
