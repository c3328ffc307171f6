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
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Float, PRNGKeyArray

from credo.core import params
from credo.core.arrays import Array, namespace
from credo.core.pytrees import changed
from credo.core.scan import run
from credo.infer.learning import Learned
from credo.infer.mcmc.draws import Draws
from credo.infer.mcmc.stacked import AveragedDraws, ModelGibbs, learned_average
from credo.infer.variational_bayes import refuse
from credo.models.densities import HasDraws, IsConjugate, dirichlet
from credo.models.densities.base import require
from credo.models.hmm import passes
from credo.models.hmm.belief import HMM
from credo.models.hmm.learning import Expected, counted, observed, pseudo_counts
from credo.models.sequences import Sequences


class DrawnHMM(AveragedDraws):
    """An HMM whose parameters are known by draws: the average over some of them."""


# -- variational Bayes -------------------------------------------------------------------------------------------


class Believed(NamedTuple):
    """q: pseudo-counts of the Dirichlet laws of start and rows, the emission's law, and what it was made of."""

    starts: Float[Array, " k"]
    rows: Float[Array, "k k"]
    emission: object
    expected: Expected


def improve(hmm: HMM, expected: Expected, data: Sequences) -> tuple[Believed, Expected, Float[Array, ""]]:
    """q of the parameters from expected statistics, those under q of the path, and the bound between the two."""
    data = data.trimmed()
    return run(_improved, len(data.real), hmm, expected, data)


def _improved(hmm: HMM, expected: Expected, data: Sequences) -> tuple[Believed, Expected, Float[Array, ""]]:
    prior = pseudo_counts(*hmm._chain, hmm.prior, hmm.sticky)
    starts, rows = prior[0] + expected.starts, prior[1] + expected.transitions
    emission, rows_seen = require(hmm.emission, IsConjugate), observed(data)
    shown = emission.variational_posterior(expected.emission)
    law, matrix = (namespace(a).exp(dirichlet.expected_log(a)) for a in (starts, rows))
    filtered = passes.filter_states(law, matrix, emission.expected_log_prob(shown, rows_seen), data.first)
    log_z = filtered.log_likelihood(data.real)
    gamma, begun, moved = counted(matrix, filtered.probs, data.first, data.real)
    statistics = emission.expected_statistics_under(shown, rows_seen, gamma)
    bound = log_z - dirichlet.divergence(starts, prior[0]) - dirichlet.divergence(rows, prior[1])
    q = Believed(starts, rows, shown, expected)
    return q, Expected(begun, moved, statistics), bound - emission.kl_to_prior(shown)


def center(belief: HMM, q: Believed) -> HMM:
    """The HMM at the mean of q."""
    start, rows = q.starts / q.starts.sum(), q.rows / q.rows.sum(axis=1, keepdims=True)
    emission = require(belief.emission, IsConjugate).posterior_mean(q.emission)
    return changed(belief, start=start, transition=rows, emission=emission)


@eqx.filter_jit
def drawn_from(keys: jax.Array, hmm: HMM, q: Believed) -> HMM:
    """HMMs drawn from q."""

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
        refuse(fixed, priors)
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
