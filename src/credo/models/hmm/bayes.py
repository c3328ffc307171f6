"""HMMs whose parameters are integrated over: variational Bayes, and Gibbs sampling of paths.

    VariationalBayes   q(path) q(start) q(P) q(θ), the product that is nearest to the posterior; a bound on log p(x)
    PathGibbs          path ~ p(path | x, parameters), parameters ~ p(parameters | path, x), and again

Both need priors: `prior` and `sticky` of the HMM are the Dirichlet laws of start and rows, and the emission has its own
("weak" ones come from the data). Conditioning gives a belief that averages over drawn HMMs, `DrawnHMM`. States have no
names of their own: draws may permute them, which changes no prediction, but makes averages of a parameter over draws
meaningless. MacKay (1997), "Ensemble learning for hidden Markov models"; Beal (2003), chapter 3; Chib (1996).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core import params
from credo.core.arrays import Array, host
from credo.core.checks import ArrayLike, check_count
from credo.core.errors import DataError, NotMonotone
from credo.core.pytrees import changed
from credo.infer.em import ROUNDING
from credo.infer.learning import Learned, LocalOptimum
from credo.infer.mcmc.draws import Draws
from credo.infer.mcmc.stacked import AveragedDraws, ModelGibbs, conditioned_average, learned_average
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED, DIVERGED, STOPPED
from credo.infer.progress import Progress, Show
from credo.models.densities import HasDraws, IsConjugate, dirichlet
from credo.models.densities.base import require
from credo.models.hmm import passes
from credo.models.hmm.belief import HMM
from credo.models.hmm.learning import Expected, counted, observed, pseudo_counts
from credo.models.sequences import Sequences


class DrawnHMM(AveragedDraws):
    """An HMM whose parameters are known by draws: the average over some of them."""


def _refuse(fixed: Sequence[str], priors: Mapping[str, object]) -> None:
    """`DataError` where something is to be held, or has a prior of another kind."""
    if fixed or priors:
        raise DataError(
            "variational Bayes and PathGibbs integrate over all parameters under the model's own priors, found "
            f"{', '.join([*fixed, *priors])}; use credo.infer.NUTS() to hold some, or for other priors"
        )


# -- variational Bayes -------------------------------------------------------------------------------------------


class Believed(NamedTuple):
    """q: pseudo-counts of the Dirichlet laws of start and rows, the emission's law, and what it was made of."""

    starts: Float[Array, " k"]
    rows: Float[Array, "k k"]
    emission: object
    expected: Expected


class VariationalClimb(NamedTuple):
    """What came of one starting point: q, and the bound at every step."""

    q: Believed
    bounds: tuple[float, ...]
    status: str


@dataclass(frozen=True)
class VariationalBayes(Learner):
    """The product of laws of path and parameters that is nearest to the posterior.

    A product knows nothing of how path and parameters hang together, so it is too sure of both: on a few dozen rows
    95 % intervals were seen to hold 85 %. `PathGibbs` draws both together, and takes longer.

    Args:
        starts: starting points; one where the belief's was given.
        max_steps: passes over the data from each start.
        tolerance: a climb ends when a step gains less than this, relative to 100 + the gain so far: it has no units.
        members: HMMs drawn from q over which `condition` averages.
        progress: True for a bar, or a function of the share done and a text.
    """

    needs: ClassVar[type] = HMM
    integrates: ClassVar[bool] = True

    starts: int = 4
    max_steps: int = 500
    tolerance: float | int = 1e-7
    members: int = 32
    progress: bool | Show = False

    def learn(
        self, belief: HMM, statistics: Sequences, fixed: Sequence[str], priors: Mapping[str, object], seed: int
    ) -> Learned:
        """The belief at the mean of q; `log_evidence` is the bound (ELBO)."""
        best, climbs = self._best(belief, statistics, fixed, priors, seed)
        optima = [
            LocalOptimum(c.bounds[-1], _numbers(_center(belief, c.q)), c.status, 1)
            for c in sorted(climbs, key=lambda climb: -climb.bounds[-1])
        ]
        notes = [
            f"variational Bayes: {c.status} after {len(c.bounds) - 1} steps, ELBO {c.bounds[-1]:.7g}" for c in climbs
        ]
        notes.append("the product of laws is too sure where rows are few, and does not see that: use PathGibbs()")
        return Learned(_center(belief, best.q), best.status, best.bounds[-1], optima, {}, notes)

    def condition(self, belief: HMM, *data: ArrayLike, seed: int = 0, **options: Any) -> AveragedDraws:
        """The belief after the data, averaged over HMMs drawn from q."""
        check_count(self.members, "members")
        prepared, statistics = belief.prepare(*data, **options)
        best, _ = self._best(prepared, statistics, (), {}, seed)
        drawn = host(_drawn_from(jr.split(jr.key(seed), self.members), prepared, best.q))
        return conditioned_average(DrawnHMM, None, drawn, statistics)

    def climb(self, belief: HMM, statistics: Sequences) -> VariationalClimb:
        """From one belief: q, and the bound on log p(x) at every step on the way."""
        expected, _ = host(_expect(belief, statistics))
        bounds: list[float] = []
        status = STOPPED
        for _ in range(int(self.max_steps)):
            q, expected, bound = host(_improve(belief, expected, statistics))
            bounds.append(float(bound))
            if not np.isfinite(bounds[-1]):
                return VariationalClimb(q, (-np.inf,), DIVERGED)
            if len(bounds) > 1:
                gain, size = bounds[-1] - bounds[-2], 1 + abs(bounds[-2])
                if gain < -ROUNDING * size and statistics.complete:
                    raise NotMonotone(
                        f"a step of variational Bayes lowered the bound from {bounds[-2]:.12g} to {bounds[-1]:.12g}, "
                        f"which it cannot: {type(belief.emission).__name__} has a bug"
                    )
                if gain <= self.tolerance * (100 + bounds[-2] - bounds[0]):
                    status = CONVERGED
                    break
        return VariationalClimb(q, tuple(bounds), status)

    def _best(
        self, belief: HMM, statistics: Sequences, fixed: Sequence[str], priors: Mapping[str, object], seed: int
    ) -> tuple[VariationalClimb, list[VariationalClimb]]:
        _refuse(fixed, priors)
        check_count(self.starts, "starts")
        check_count(self.max_steps, "max_steps")
        others = (belief.restart(statistics, seed + i) for i in range(1, int(self.starts)))
        begin = [belief, *(each for each in others if each is not None)]
        climbs: list[VariationalClimb] = []
        with Progress(self.progress) as show:
            for i, each in enumerate(begin):
                climbs.append(self.climb(each, statistics))
                show((i + 1) / len(begin), f"ELBO {climbs[-1].bounds[-1]:.6g}")
        return max(climbs, key=lambda c: c.bounds[-1]), climbs


_expect = eqx.filter_jit(lambda hmm, data: hmm.expect(data))


@eqx.filter_jit
def _improve(hmm: HMM, expected: Expected, data: Sequences) -> tuple[Believed, Expected, Float[Array, ""]]:
    """q of the parameters from expected statistics, those under q of the path, and the bound between the two."""
    prior = pseudo_counts(*hmm._chain, hmm.prior, hmm.sticky)
    starts, rows = prior[0] + expected.starts, prior[1] + expected.transitions
    emission, rows_seen = require(hmm.emission, IsConjugate), observed(data)
    shown = emission.variational_posterior(expected.emission)
    law, matrix = (jnp.exp(dirichlet.expected_log(a)) for a in (starts, rows))
    filtered = passes.filter_states(law, matrix, emission.expected_log_prob(shown, rows_seen), data.first)
    log_z = filtered.log_likelihood(data.real)
    gamma, begun, moved = counted(matrix, filtered.probs, data.first, data.real)
    statistics = emission.expected_statistics_under(shown, rows_seen, gamma)
    bound = log_z - dirichlet.divergence(starts, prior[0]) - dirichlet.divergence(rows, prior[1])
    q = Believed(starts, rows, shown, expected)
    return q, Expected(begun, moved, statistics), bound - emission.kl_to_prior(shown)


def _numbers(belief: HMM) -> dict[str, np.ndarray]:
    return {path: np.asarray(value) for path, value in params.learnable(belief).items()}


def _center(belief: HMM, q: Believed) -> HMM:
    start, rows = q.starts / q.starts.sum(), q.rows / q.rows.sum(axis=1, keepdims=True)
    emission = require(belief.emission, IsConjugate).posterior_mean(q.emission)
    return changed(belief, start=start, transition=rows, emission=emission)


@eqx.filter_jit
def _drawn_from(keys: jax.Array, hmm: HMM, q: Believed) -> HMM:
    def one(key: PRNGKeyArray) -> dict[str, Array]:
        k_start, k_rows, k_shown = jr.split(key, 3)
        emission = require(hmm.emission, HasDraws).draw(k_shown, q.expected.emission)
        start, rows = dirichlet.draw(k_start, q.starts), dirichlet.draw(k_rows, q.rows)
        return params.learnable(changed(hmm, start=start, transition=rows, emission=emission))

    return jax.vmap(lambda values: params.replace(hmm, values))(jax.vmap(one)(keys))


# -- Gibbs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PathGibbs(ModelGibbs):
    """Draws of the path given the parameters (forward filtering, backward sampling) and of those given the path.

    Args:
        chains, draws, warmup, thin, members, progress: see `credo.infer.mcmc.stacked.ModelGibbs`.
    """

    needs: ClassVar[type] = HMM
    kind: ClassVar[type[AveragedDraws]] = DrawnHMM

    def learn(
        self, belief: HMM, statistics: Sequences, fixed: Sequence[str], priors: Mapping[str, object], seed: int
    ) -> Learned:
        """The belief averaged over draws of its parameters; `fit` then conditions it on the data."""
        _refuse(fixed, priors)
        return learned_average(DrawnHMM, *self.draw(belief, statistics, seed=seed), statistics)

    def draw(self, belief: HMM, statistics: Sequences, *, seed: int = 0) -> tuple[Draws, HMM]:
        """Draws of the numbers by path, with diagnostics, and `members` drawn HMMs stacked along a leading axis."""
        return self.run(belief, sweep, statistics, seed)


def sweep(key: PRNGKeyArray, hmm: HMM, data: Sequences) -> tuple[HMM, Float[Array, ""]]:
    """A path given the parameters, those given the path; and log p(x) under the parameters before."""
    k_path, k_start, k_rows, k_latent, k_shown = jr.split(key, 5)
    filtered = passes.filter_states(*hmm._chain, hmm._log_b(data), data.first)
    path = passes.sample_states(k_path, hmm._chain[1], filtered.probs, data.first, 1)[0]
    visits = jax.nn.one_hot(path, len(hmm.states))
    begun = jnp.sum(jnp.where((data.first & data.real)[:, None], visits, 0.0), axis=0)
    moved = visits[:-1].T @ jnp.where(data.first[1:, None], 0.0, visits[1:])
    prior = pseudo_counts(*hmm._chain, hmm.prior, hmm.sticky)
    emission = require(hmm.emission, HasDraws)
    shown = emission.draw_statistics(k_latent, observed(data), path)
    after = changed(
        hmm,
        start=dirichlet.draw(k_start, prior[0] + begun),
        transition=dirichlet.draw(k_rows, prior[1] + moved),
        emission=emission.draw(k_shown, shown),
    )
    return after, filtered.log_likelihood(data.real)
