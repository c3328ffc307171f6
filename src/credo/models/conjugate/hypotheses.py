"""A finite set of hypotheses, one of which generates the data."""

from collections.abc import Iterable

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, as_float, host, is_traced, namespace, special
from credo.core.checks import ArrayLike, check_probabilities, check_table, check_vector
from credo.core.errors import DataError
from credo.core.params import simplex
from credo.core.predictive import Categorical
from credo.core.predictive.base import check_levels
from credo.core.pytrees import changed
from credo.models.conjugate.base import Statistics
from credo.models.conjugate.categorical import count_indices
from credo.models.conjugate.known import WithParameter

Names = Iterable[str] | None


class OutcomeCounts(Statistics):
    """How often each of m outcomes occurred."""

    counts: Float[Array, " m"] = eqx.field(converter=as_float)


class Hypotheses(WithParameter):
    """p(θ = l | x) ∝ prior[l] Πₖ M[k, l]^nₖ for r hypotheses and m outcomes, M[k, l] = p(x = k | θ = l).

    Data are outcome indices 0 … m - 1. The belief keeps the outcomes seen so far (`counts`) rather than
    a posterior, so a hypothesis that is 10⁻⁴⁰⁰ as probable as another is still not ruled out.
    """

    likelihood: Float[Array, "m r"] = eqx.field(converter=as_float)
    counts: Float[Array, " m"] = eqx.field(converter=as_float)
    names: tuple[str, ...] | None = eqx.field(static=True)
    prior: Float[Array, " r"] = simplex()

    def __init__(
        self,
        likelihood: ArrayLike,
        prior: ArrayLike = None,
        names: Iterable[str] | None = None,
        *,
        counts: ArrayLike = None,
    ) -> None:
        table = check_table(likelihood, "likelihood")
        m, r = table.shape
        self.likelihood = as_float(table)
        self.prior = np.full(r, 1 / r) if prior is None else as_float(check_vector(prior, "prior", r))
        self.names = None if names is None else tuple(str(name) for name in names)
        self.counts = np.zeros(m) if counts is None else as_float(counts)
        if self.names is not None and len(self.names) != r:
            raise DataError(f"names must name the {r} hypotheses, found {len(self.names)} names")
        check_probabilities(self.likelihood.T, "each column of likelihood (one per hypothesis)")
        check_probabilities(self.prior, "prior")

    @property
    def log_probs(self) -> Float[Array, " r"]:
        """log p(θ = l | the outcomes seen)."""
        return special(self).log_softmax(self._log_joint(self.counts))

    @property
    def probs(self) -> Float[Array, " r"]:
        """p(θ = l | the outcomes seen)."""
        return namespace(self).exp(self.log_probs)

    @property
    def estimate(self) -> Float[Array, " r"]:
        """E[1(θ = l)], the probability of each hypothesis."""
        return self.probs

    def _log_likelihood(self, counts: Array) -> Array:
        return special(counts, self).xlogy(counts[:, None], self.likelihood).sum(0)

    def _log_joint(self, counts: Array) -> Array:
        with np.errstate(divide="ignore"):  # a hypothesis that is ruled out
            return namespace(self).log(self.prior) + self._log_likelihood(counts)

    def statistics(self, outcomes: ArrayLike) -> OutcomeCounts:
        """The number of times that each outcome occurs."""
        return OutcomeCounts(count_indices(outcomes, "outcomes", self.likelihood.shape[0]))

    def condition_on(self, statistics: OutcomeCounts) -> "Hypotheses":
        """The posterior: the outcomes are added to those seen before."""
        seen = self.counts + statistics.counts
        log_joint = self._log_joint(seen)
        if not is_traced(log_joint) and not np.any(np.isfinite(log_joint)):
            raise DataError(
                "the outcomes are impossible under every hypothesis with positive prior probability; "
                "give each outcome that can be observed a positive probability in `likelihood`"
            )
        return Hypotheses(self.likelihood, self.prior, self.names, counts=seen)

    def evidence_of(self, statistics: OutcomeCounts) -> Array:
        """log Σₗ p(θ = l) Πₖ M[k, l]^nₖ."""
        joint = self.log_probs + self._log_likelihood(statistics.counts)
        return special(joint).logsumexp(joint)

    def unconditioned(self) -> "Hypotheses":
        """As before any data."""
        return changed(self, counts=np.zeros(self.counts.shape))

    def predict(self) -> Categorical:
        """The next outcome: p(x = k) = Σₗ p(θ = l) M[k, l]; aleatoric = Σₗ p(θ = l) H[M[:, l]]."""
        return Categorical.average(self.probs, self.likelihood.T)

    def predict_at(self, theta: Float[Array, " r"]) -> Categorical:
        """The next outcome where the probabilities of the hypotheses are taken for shares that are known."""
        return Categorical.certain(self.likelihood @ theta)

    def _most_likely(self, statistics: OutcomeCounts) -> Float[Array, " r"]:
        return self._only(self._log_likelihood(statistics.counts))

    def mode(self) -> Float[Array, " r"]:
        """1 for the most probable hypothesis, 0 for the others."""
        return self._only(self.log_probs)

    def _only(self, heights: Float[Array, " r"]) -> Float[Array, " r"]:
        """1 for the highest, 0 for the others."""
        return (np.arange(len(self.prior)) == heights.argmax()) * 1.0

    def log_prob(self, theta: ArrayLike) -> Array:
        """log p(θ) of hypotheses given by index."""
        return self.log_probs[as_float(theta).astype(int)]

    def credible_set(self, level: ArrayLike = 0.95) -> tuple[int, ...]:
        """The fewest hypotheses that hold probability ≥ `level` together, the most probable first."""
        check_levels(level, "level")
        order = np.argsort(-self.log_probs, kind="stable")
        enough = int(np.argmax(np.cumsum(self.probs[order]) >= level - 1e-12))
        return tuple(int(l) for l in order[: enough + 1])

    def sample_parameters(self, n: int = 1, *, seed: int = 0) -> Array:
        """n draws of the index of the hypothesis."""
        return host(jr.categorical(jr.key(seed), self.log_probs, shape=(n,)))
