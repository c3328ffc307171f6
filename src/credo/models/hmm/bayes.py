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
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core import params
from credo.core.arrays import put
from credo.core.checks import check_count
from credo.core.errors import DataError, NotMonotone
from credo.core.params import known
from credo.core.pytrees import changed
from credo.infer.averaging import Averaged
from credo.infer.em import ROUNDING
from credo.infer.learning import Learned, LocalOptimum
from credo.infer.mcmc.draws import Draws
from credo.infer.mcmc.stacked import diagnosed, evidences, spread_evenly, unstacked
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED, DIVERGED, STOPPED
from credo.infer.progress import Progress
from credo.models.densities import HasDraws, IsConjugate, dirichlet
from credo.models.densities.base import require
from credo.models.hmm import passes
from credo.models.hmm.belief import HMM
from credo.models.hmm.learning import Expected, counted, observed, pseudo_counts
from credo.models.sequences import Sequences


class DrawnHMM(Averaged):
    """The average over HMMs that were drawn; `found` has the draws of all their numbers, where there are more."""

    found: Any = known()


def _refuse(fixed: Sequence[str], priors: Mapping[str, Any]) -> None:
    """`DataError` where something is to be held, or has a prior of another kind."""
    if fixed or priors:
        raise DataError(
            "variational Bayes and PathGibbs integrate over all parameters under the model's own priors, found "
            f"{', '.join([*fixed, *priors])}; use credo.infer.NUTS() to hold some, or for other priors"
        )


def _averaged(drawn: Any, statistics: Sequences, m: int, found: Any) -> DrawnHMM:
    """Some of the drawn HMMs, each after the data: draws from the posterior have equal weights."""
    members = _stacked(_members_of(drawn, m))
    states = _latest_of_each(members, statistics)
    after = _members_of(changed(members, state=states), m)
    return DrawnHMM(put(np.zeros(m)), after, found)


def _members_of(drawn: Any, m: int) -> tuple[HMM, ...]:
    """m of the drawn HMMs, spread evenly over them."""
    return unstacked(drawn, spread_evenly(drawn.start.shape[0], m))


def _stacked(members: tuple[HMM, ...]) -> Any:
    """HMMs with their numbers along a leading axis."""
    return jax.tree.map(lambda *leaves: put(np.stack([np.asarray(v) for v in leaves])), *members)


@eqx.filter_jit
def _latest_of_each(members: Any, data: Sequences) -> Float[Array, "m k"]:
    return jax.lax.map(lambda hmm: hmm.condition_on(data).state, members)


@eqx.filter_jit
def _replaced(hmm: Any, values: dict[str, Array]) -> Any:
    """The HMM with draws of its numbers, along a leading axis."""
    return jax.vmap(lambda v: params.replace(hmm, v))(values)


# -- variational Bayes -------------------------------------------------------------------------------------------


class Believed(NamedTuple):
    """q: pseudo-counts of the Dirichlet laws of start and rows, the emission's law, and what it was made of."""

    starts: Float[Array, " k"]
    rows: Float[Array, "k k"]
    emission: Any
    expected: Expected


class VariationalClimb(NamedTuple):
    """What came of one starting point: q, and the bound at every step."""

    q: Believed
    bounds: tuple[float, ...]
    status: str


@dataclass(frozen=True)
class VariationalBayes(Learner):
    """The product of laws of path and parameters that is nearest to the posterior.

    Args:
        starts: starting points; one where the belief's was given.
        max_steps: passes over the data from each start.
        tolerance: a climb ends when a step gains less than this, relative to 1 + the size of the bound.
        members: HMMs drawn from q over which `condition` averages.
        progress: True for a bar, or a function of the share done and a text.
    """

    needs: ClassVar[type] = HMM
    integrates: ClassVar[bool] = True

    starts: int = 4
    max_steps: int = 500
    tolerance: Any = 1e-7
    members: int = 32
    progress: Any = False

    def learn(
        self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Mapping[str, Any], seed: int
    ) -> Learned:
        """The belief at the mean of q; `log_evidence` is the bound (ELBO)."""
        best, climbs = self._best(belief, statistics, fixed, priors, seed)
        center = _center(belief, best.q)
        optima = [
            LocalOptimum(c.bounds[-1], {p: np.asarray(v) for p, v in params.learnable(m).items()}, c.status, 1)
            for c, m in sorted(((c, _center(belief, c.q)) for c in climbs), key=lambda pair: -pair[0].bounds[-1])
        ]
        notes = [
            f"variational Bayes: {c.status} after {len(c.bounds) - 1} steps, ELBO {c.bounds[-1]:.7g}" for c in climbs
        ]
        return Learned(center, best.status, best.bounds[-1], optima, {}, notes)

    def condition(self, belief: HMM, *data: Any, seed: int = 0, **options: Any) -> DrawnHMM:
        """The belief after the data, averaged over HMMs drawn from q."""
        check_count(self.members, "members")
        prepared, statistics = belief.prepare(*data, **options)
        best, _ = self._best(prepared, statistics, (), {}, seed)
        drawn = _drawn_from(jr.split(jr.key(seed), self.members), prepared, best.q)
        return _averaged(drawn, statistics, self.members, None)

    def climb(self, belief: HMM, statistics: Sequences) -> VariationalClimb:
        """From one belief: q, and the bound on log p(x) at every step on the way."""
        expected = _first_expected(belief, statistics)
        bounds: list[float] = []
        status = STOPPED
        for _ in range(int(self.max_steps)):
            q, expected, bound = _improve(belief, expected, statistics)
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
                if gain <= self.tolerance * size:
                    status = CONVERGED
                    break
        return VariationalClimb(q, tuple(bounds), status)

    def _best(
        self, belief: HMM, statistics: Sequences, fixed: Sequence[str], priors: Mapping[str, Any], seed: int
    ) -> tuple[VariationalClimb, list[VariationalClimb]]:
        _refuse(fixed, priors)
        check_count(self.starts, "starts")
        check_count(self.max_steps, "max_steps")
        others = (belief.restart(statistics, seed + i) for i in range(1, int(self.starts)))
        begin = [belief, *(each for each in others if each is not None)]
        climbs = []
        with Progress(self.progress) as show:
            for i, each in enumerate(begin):
                climbs.append(self.climb(each, statistics))
                show((i + 1) / len(begin), f"ELBO {climbs[-1].bounds[-1]:.6g}")
        return max(climbs, key=lambda c: c.bounds[-1]), climbs


@eqx.filter_jit
def _first_expected(hmm: Any, data: Sequences) -> Expected:
    return hmm.expect(data)[0]


@eqx.filter_jit
def _improve(hmm: Any, expected: Expected, data: Sequences) -> tuple[Believed, Expected, Float[Array, ""]]:
    """q of the parameters from expected statistics, those under q of the path, and the bound between the two."""
    prior = pseudo_counts(hmm.start, hmm.transition, hmm.prior, hmm.sticky)
    starts, rows = prior[0] + expected.starts, prior[1] + expected.transitions
    emission, rows_seen = require(hmm.emission, IsConjugate), observed(data)
    shown = emission.variational_posterior(expected.emission)
    law, matrix = (jnp.exp(dirichlet.expected_log(a)) for a in (starts, rows))
    filtered = passes.filter_states(law, matrix, emission.expected_log_prob(shown, rows_seen), data.first)
    log_z = jnp.sum(jnp.where(data.real, filtered.increments, 0.0))
    gamma, begun, moved = counted(law, matrix, filtered.probs, data.first, data.real)
    statistics = emission.expected_statistics_under(shown, rows_seen, gamma)
    bound = log_z - dirichlet.divergence(starts, prior[0]) - dirichlet.divergence(rows, prior[1])
    q = Believed(starts, rows, shown, expected)
    return q, Expected(begun, moved, statistics), bound - emission.kl_to_prior(shown)


def _center(belief: HMM, q: Believed) -> HMM:
    start, rows = q.starts / jnp.sum(q.starts), q.rows / jnp.sum(q.rows, axis=1, keepdims=True)
    return changed(
        belief, start=start, transition=rows, emission=require(belief.emission, IsConjugate).posterior_mean(q.emission)
    )


@eqx.filter_jit
def _drawn_from(keys: Array, hmm: Any, q: Believed) -> Any:
    def one(key: PRNGKeyArray) -> Any:
        k_start, k_rows, k_shown = jr.split(key, 3)
        emission = hmm.emission.draw(k_shown, q.expected.emission)
        start, rows = dirichlet.draw(k_start, q.starts), dirichlet.draw(k_rows, q.rows)
        return params.learnable(changed(hmm, start=start, transition=rows, emission=emission))

    values = jax.vmap(one)(keys)
    return jax.vmap(lambda v: params.replace(hmm, v))(values)


# -- Gibbs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PathGibbs(Learner):
    """Draws of the path given the parameters (forward filtering, backward sampling) and of those given the path.

    Args:
        chains: each from a starting point of its own where the belief's was not given.
        draws: kept of each chain.
        warmup: sweeps before the first.
        thin: sweeps for each draw that is kept.
        members: draws over which the belief averages, spread evenly over all.
        progress: True for a bar, or a function of the share done and a text.
    """

    needs: ClassVar[type] = HMM
    integrates: ClassVar[bool] = True

    chains: int = 2
    draws: int = 500
    warmup: int = 500
    thin: int = 1
    members: int = 64
    progress: Any = False

    def condition(self, belief: HMM, *data: Any, seed: int = 0, **options: Any) -> DrawnHMM:
        """The belief after the data, averaged over draws; `found` has all of them, with diagnostics."""
        prepared, statistics = belief.prepare(*data, **options)
        found, drawn = self.draw(prepared, statistics, seed)
        return _averaged(drawn, statistics, self._members(), found)

    def learn(
        self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Mapping[str, Any], seed: int
    ) -> Learned:
        """The belief averaged over draws of its parameters; `fit` then conditions it on the data."""
        _refuse(fixed, priors)
        found, drawn = self.draw(belief, statistics, seed)
        m = self._members()
        members = _members_of(drawn, m)
        # `fit` weighs each member by its evidence: draws have that weight already.
        log_weights = -evidences(_stacked(members), statistics)
        notes = [*found.notes, f"{m} of {self.chains * self.draws} draws kept"]
        average = DrawnHMM(log_weights, members, found)
        return Learned(average, CONVERGED, float("nan"), [], {}, notes, (statistics,) * m)

    def draw(self, belief: HMM, statistics: Sequences, seed: int = 0) -> tuple[Draws, Any]:
        """Draws of the numbers by path, with diagnostics, and the drawn HMMs stacked along a leading axis."""
        for name in ("chains", "draws", "thin", "members"):
            check_count(getattr(self, name), name)
        check_count(self.warmup, "warmup", 0)
        others = [belief.restart(statistics, seed + i) for i in range(1, self.chains)]
        begin = [belief, *(belief if each is None else each for each in others)]
        values, heights = [], []
        with Progress(self.progress) as show:
            for i, (key, each) in enumerate(zip(jr.split(jr.key(seed), self.chains), begin, strict=True)):
                chain, height = gibbs_chain(key, each, statistics, self.warmup, self.draws, self.thin)
                values.append(chain)
                heights.append(np.asarray(height))
                show((i + 1) / self.chains, f"chain {i + 1} of {self.chains}")
        kept = {path: np.stack([np.asarray(v[path]) for v in values]) for path in values[0]}
        every = {path: put(v.reshape(-1, *v.shape[2:])) for path, v in kept.items()}
        return diagnosed(belief, every, np.stack(heights)), _replaced(belief, every)

    def _members(self) -> int:
        return min(self.members, self.chains * self.draws)


@eqx.filter_jit
def gibbs_chain(
    key: PRNGKeyArray, hmm: Any, data: Sequences, warmup: int, draws: int, thin: int
) -> tuple[dict[str, Array], Float[Array, " n"]]:
    """The learnable numbers by path at each draw, and log p(x) under those before it."""
    free = params.learnable(hmm)

    def sweep(values: dict[str, Array], key: PRNGKeyArray) -> tuple[dict[str, Array], Array]:
        model = params.replace(hmm, values)
        after, height = _sweep(key, model, data)
        return params.learnable(after), height

    def some(values: dict[str, Array], keys: Array) -> tuple[dict[str, Array], tuple[dict[str, Array], Array]]:
        values, heights = jax.lax.scan(sweep, values, keys)
        return values, (values, heights[-1])

    k_warm, k_draw = jr.split(key)
    free, _ = jax.lax.scan(sweep, free, jr.split(k_warm, warmup))
    return jax.lax.scan(some, free, jr.split(k_draw, (draws, thin)))[1]


def _sweep(key: PRNGKeyArray, hmm: Any, data: Sequences) -> tuple[Any, Float[Array, ""]]:
    k_path, k_start, k_rows, k_latent, k_shown = jr.split(key, 5)
    filtered = passes.filter_states(hmm.start, hmm.transition, hmm._log_b(data), data.first)
    path = passes.sample_states(k_path, hmm.transition, filtered.probs, data.first, 1)[0]
    visits = jax.nn.one_hot(path, hmm.start.shape[0])
    begun = jnp.sum(jnp.where((data.first & data.real)[:, None], visits, 0.0), axis=0)
    moved = visits[:-1].T @ jnp.where(data.first[1:, None], 0.0, visits[1:])
    prior = pseudo_counts(hmm.start, hmm.transition, hmm.prior, hmm.sticky)
    emission = require(hmm.emission, HasDraws)
    shown = emission.draw_statistics(k_latent, observed(data), path)
    after = changed(
        hmm,
        start=dirichlet.draw(k_start, prior[0] + begun),
        transition=dirichlet.draw(k_rows, prior[1] + moved),
        emission=emission.draw(k_shown, shown),
    )
    return after, jnp.sum(jnp.where(data.real, filtered.increments, 0.0))
