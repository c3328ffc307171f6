"""Mixtures whose parameters are integrated over: averages of drawn mixtures, and Gibbs sampling.

    zₙ ~ p(z | xₙ, w, θ),    w ~ Dirichlet(α + counts of z),    θ ~ p(θ | x, z),    and again

Components have no names, so every draw is brought into the order in which it agrees best with the draw of highest
posterior density about which row is of which component (a pivot; an assignment problem): averages of a parameter over
draws then mean something. Diebolt & Robert (1994); Marin, Mengersen & Robert (2005), section 3.2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core import params
from credo.core.arrays import Array, special
from credo.core.belief import Belief
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.predictive import Categorical
from credo.core.pytrees import changed
from credo.infer.learning import Learned
from credo.infer.mcmc.draws import Draws
from credo.infer.mcmc.stacked import AveragedDraws, ModelGibbs, learned_average, unstacked
from credo.infer.variational_bayes import refuse
from credo.models.densities import HasDraws, dirichlet
from credo.models.densities.base import require
from credo.models.mixture.belief import Data, Mixture
from credo.models.mixture.rows import Rows

PIVOT_ROWS = 500
"""So many rows tell which component of a draw is which."""


class DrawnMixture(AveragedDraws):
    """A mixture whose parameters are known by draws: the average over some of them."""

    def responsibilities(self, x: ArrayLike, **options: Any) -> Float[np.ndarray, "n k"]:
        """p(component | x, data) for every row."""
        return np.tensordot(self.probabilities, self._each(lambda b: b.responsibilities(x, **options)), 1)

    def clusters(self, x: ArrayLike, **options: Any) -> Categorical:
        """Which component each row is of; where draws disagree about that it is ignorance."""
        each = self._each(lambda b: b.responsibilities(x, **options))
        return Categorical.average(self.probabilities, each)

    def labels(self, x: ArrayLike, **options: Any) -> Int[np.ndarray, " n"]:
        """The most probable component of each row."""
        return self.responsibilities(x, **options).argmax(1)

    def log_density(self, x: ArrayLike, **options: Any) -> Float[np.ndarray, " n"]:
        """log p(x | data) of each row."""
        each = self._each(lambda b: b.log_density(x, **options))
        return special(each).logsumexp(self.log_weights[:, None] + each, axis=0)

    def sample(self, n: int = 1, *, seed: int = 0) -> Float[np.ndarray, "n d"]:
        """n rows, each of a mixture that is drawn first."""
        counts = np.random.default_rng(seed).multinomial(n, np.asarray(self.probabilities))
        drawn = [self._members[i].sample(int(m), seed=seed + i) for i, m in enumerate(counts) if m]
        return np.random.default_rng(seed).permutation(np.concatenate(drawn))

    def condition_on(self, statistics: tuple[Any, ...]) -> "DrawnMixture":
        """More rows make members more or less probable."""
        after = super().condition_on(statistics)
        return changed(self, log_weights=after.log_weights, beliefs=after.beliefs)

    @property
    def _members(self) -> tuple[Any, ...]:
        return self.beliefs

    def _each(self, ask: Any) -> np.ndarray:
        return np.stack([np.asarray(ask(belief)) for belief in self.beliefs])


def averaged(drawn: Mixture, draws: Draws | None = None) -> DrawnMixture:
    """The average over drawn mixtures, whose numbers lie along a leading axis; by mean weight, the largest first."""
    members = unstacked(drawn)
    if members[0].density.exchangeable:
        order = np.argsort(-np.mean([np.asarray(each.weights) for each in members], axis=0), kind="stable")
        members = tuple(each.reordered(order) for each in members)
    return DrawnMixture(np.zeros(len(members)), members, draws)


@dataclass(frozen=True)
class MixtureGibbs(ModelGibbs):
    """Draws of every row's component given the parameters, and of the parameters given the components.

    Args:
        chains, draws, warmup, thin, members, progress: see `credo.infer.mcmc.stacked.ModelGibbs`.
    """

    needs: ClassVar[type] = Mixture
    kind: ClassVar[type[AveragedDraws]] = DrawnMixture

    def learn(
        self, belief: Mixture, statistics: Data, fixed: Sequence[str], priors: Mapping[str, object], seed: int
    ) -> Learned:
        """The belief averaged over draws of its parameters; `fit` then conditions it on the data."""
        refuse(fixed, priors)
        return learned_average(DrawnMixture, *self.draw(belief, statistics, seed=seed), statistics)

    def draw(self, belief: Mixture, statistics: Data, *, seed: int = 0) -> tuple[Draws, Mixture]:
        """Draws of the numbers by path, with diagnostics, and `members` drawn mixtures along a leading axis."""
        if not isinstance(statistics, Rows):
            raise DataError("Gibbs sampling needs all rows in memory; learn a stream by EM() or VariationalBayes()")
        if np.any(statistics.weights != np.round(statistics.weights)):
            raise DataError("Gibbs sampling takes whole weights: a row is of one component, and counts so often")
        if statistics.noise is not None:
            raise DataError("Gibbs sampling does not take noise of rows; learn by EM()")
        plain = changed(belief, learned=False, seen=None)
        data = changed(
            statistics, origin=None if statistics.origin is None else changed(statistics.origin, learned=False)
        )
        repeated = (
            data if np.all(data.weights == 1) else data.cut(np.repeat(np.arange(len(data.x)), data.weights.astype(int)))
        )
        return self.run(plain, sweep, changed(repeated, weights=np.ones(len(repeated.x))), seed)

    def settled(self, belief: Mixture, every: dict[str, np.ndarray], statistics: Rows) -> dict[str, np.ndarray]:
        """Every draw in the order of components that agrees best with the pivot."""
        from scipy.optimize import linear_sum_assignment

        if not belief.density.exchangeable or belief._k == 1:
            return every
        rng, n = np.random.default_rng(0), len(statistics.x)
        rows = statistics.cut(np.sort(rng.choice(n, min(n, PIVOT_ROWS), replace=False)))
        drawn = [
            params.replace(belief, {path: v[i] for path, v in every.items()}) for i in range(len(every["weights"]))
        ]
        heights = [each.log_evidence_of(rows) * n / len(rows.x) + each.log_prior_of_parameters() for each in drawn]
        pivot = drawn[int(np.argmax(heights))].canonical()._responsibilities(rows)
        out: dict[str, list[np.ndarray]] = {path: [] for path in every}
        for each in drawn:
            _, order = linear_sum_assignment(-(pivot.T @ each._responsibilities(rows)))
            for path, value in params.learnable(each.reordered(order)).items():
                out[path].append(np.asarray(value))
        return {path: np.stack(values) for path, values in out.items()}


def sweep(key: PRNGKeyArray, mixture: Mixture, rows: Rows) -> tuple[Belief, Float[Array, ""]]:
    """The components given the parameters, those given the components; and log p(x) under the parameters before."""
    k_which, k_weights, k_latent, k_density = jr.split(key, 4)
    logs = mixture._logs(rows.observed)
    which = jr.categorical(k_which, logs)
    shown = (which[:, None] == jnp.arange(logs.shape[1])) & rows.observed.any_seen
    density = require(mixture.density, HasDraws)
    after = changed(
        mixture,
        weights=dirichlet.draw(k_weights, mixture._alpha + shown.sum(0)),
        density=density.draw(k_density, density.draw_statistics(k_latent, rows.observed, which)),
    )
    return after, special(logs).logsumexp(logs, axis=1).sum()
