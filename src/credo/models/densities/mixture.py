"""Mixtures of Gaussians as densities: a component whose rows are of several kinds."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core.arrays import Array, namespace, special
from credo.core.checks import ArrayLike, check_count
from credo.core.errors import DataError
from credo.core.params import constant, simplex
from credo.core.predictive import Mixture, Predictive
from credo.core.pytrees import changed
from credo.models.densities import dirichlet
from credo.models.densities.base import Inputs, IsConjugate, Observed, require_prior
from credo.models.densities.clusters import clusters, column_moments
from credo.models.densities.gaussian import Gaussian
from credo.models.densities.normal import Law, Moments


class MixtureStatistics(NamedTuple):
    """How much weight each of the k·c Gaussians has, and their moments."""

    counts: Float[Array, "k c"]
    parts: Moments


class MixtureLaw(NamedTuple):
    """q(θ): the Dirichlet concentrations of the mixing, and the laws of the Gaussians."""

    counts: Float[Array, "k c"]
    parts: Law


class GaussianMixture(IsConjugate[MixtureStatistics, MixtureLaw]):
    """p(x | k) = Σⱼ mixingₖⱼ N(x | μₖⱼ, Σₖⱼ), j = 1 … c.  Rabiner (1989), section IV.A.

    `parts` is a `Gaussian` of k·c components, the c of one k next to each other. Which of these a row came from is
    latent: EM and VB weigh them by their probabilities, Gibbs draws one.

    Args:
        components: c, how many Gaussians each k has.
        covariance: "diagonal" or "full", or numbers (k, c, d) or (k, c, d, d).
        mean: (k, c, d); mixing: (k, c), rows that sum to one; None for a start from the data.
        prior: "weak" (Dirichlet(1.01) for the mixing, the weak prior of `Gaussian` for the parts), None, or what
            `Gaussian` takes.
    """

    components: int = eqx.field(static=True)
    weak: bool = eqx.field(static=True)
    parts: Gaussian
    mixing: Float[Array, "k c"] | None = simplex()
    prior: Float[Array, "k c"] | None = constant()

    def __init__(
        self,
        components: int = 2,
        covariance: ArrayLike = "diagonal",
        *,
        mean: ArrayLike | None = None,
        mixing: ArrayLike | None = None,
        prior: object = "weak",
    ) -> None:
        check_count(components, "components")
        self.k, self.columns, self.components, self.mixing, self.prior = None, None, components, None, None
        self.weak = prior is not None
        if mixing is not None:
            self.mixing = dirichlet.check_rows(mixing, "mixing", components, "components")
            self.k = self.mixing.shape[0]
        if not isinstance(covariance, str):
            numbers = np.asarray(covariance, dtype=float)
            covariance = numbers.reshape(-1, *numbers.shape[2:])
        elif covariance not in ("diagonal", "full"):
            raise DataError(f'covariance must be "diagonal" or "full", or numbers, found {covariance!r}')
        if mean is not None:
            table = np.asarray(mean, dtype=float)
            if table.ndim != 3 or table.shape[1] != components:
                raise DataError(f"mean must have shape (k, {components}, columns), found {table.shape}")
            self.k, _, self.columns = table.shape
            mean = table.reshape(-1, table.shape[2])
        self.parts = Gaussian(covariance, mean=mean, prior=prior)

    def resized(self, k: int, columns: int) -> "GaussianMixture":
        """For so many components and columns."""
        new = super().resized(k, columns)
        prior = dirichlet.as_concentration("weak", k, new.components) if new.weak else None
        return changed(new, prior=prior, parts=new.parts.resized(k * new.components, columns))

    def reordered(self, order: Int[np.ndarray, " k"]) -> "GaussianMixture":
        """The Gaussians of a component move together."""
        within = (order[:, None] * self.components + np.arange(self.components)).ravel()
        return changed(self, mixing=self._mixing[order], parts=self.parts.reordered(within))

    def adapt(self, data: Observed, *, seed: int = 0) -> "GaussianMixture":
        """A cluster for each k, its Gaussians scattered around the center."""
        (k, d), c, parts = self.sizes, self.components, self.parts
        if parts.mean is None:
            x, seen = data[:2]
            mean, variance = column_moments(x, seen)
            centers, within = clusters(np.where(seen, x, mean)[seen.any(1)], k, mean, variance, seed)
            scatter = np.random.default_rng(seed).normal(size=(k, c, d)) * np.sqrt(within)
            parts = changed(parts, mean=(centers[:, None] + scatter).reshape(k * c, d))
        parts = parts.adapt(data, seed=seed)
        mixing = np.full((k, c), 1 / c) if self.mixing is None else self.mixing
        return changed(self, parts=parts, mixing=mixing)

    def log_prob(self, data: Observed) -> Float[Array, "n k"]:
        """log Σⱼ mixingⱼ N(x | μⱼ, Σⱼ)."""
        each = self._each(data)
        return special(each).logsumexp(each, axis=2)

    def expected_statistics(self, data: Observed, weight: Float[Array, "n k"]) -> MixtureStatistics:
        """The weight of k is shared by its Gaussians as they explain the row."""
        return self._share(self._each(data), data, weight)

    def expected_statistics_under(
        self, q: MixtureLaw, data: Observed, weight: Float[Array, "n k"]
    ) -> MixtureStatistics:
        """The same with the Gaussians' probabilities under q: rⱼ ∝ exp(E[log mixingⱼ] + E[log Nⱼ])."""
        return self.posterior_mean(q)._share(self._expected_each(q, data), data, weight)

    def draw_statistics(self, key: PRNGKeyArray, data: Observed, which: Int[Array, " n"]) -> MixtureStatistics:
        """The Gaussian of each row is drawn."""
        (k, _), c = self.sizes, self.components
        k_component, k_parts = jr.split(key)
        mine = jnp.take_along_axis(self._each(data), which[:, None, None], axis=1)[:, 0]
        part = which * c + jr.categorical(k_component, mine)
        counts = jax.ops.segment_sum(data.any_seen[:, 0].astype(data.x.dtype), part, k * c).reshape(k, c)
        return MixtureStatistics(counts, self.parts.draw_statistics(k_parts, data, part))

    def maximize(self, statistics: MixtureStatistics) -> "GaussianMixture":
        """The mode of the mixing and of each Gaussian."""
        mixing = dirichlet.mode(self.prior, statistics.counts, self._mixing)
        return changed(self, mixing=mixing, parts=self.parts.maximize(statistics.parts))

    def log_prior(self) -> Float[Array, ""]:
        """Of the mixing and of the Gaussians."""
        return dirichlet.log_kernel(self.prior, self._mixing) + self.parts.log_prior()

    def draw(self, key: PRNGKeyArray, statistics: MixtureStatistics) -> "GaussianMixture":
        """Mixing and Gaussians from their conjugate posteriors."""
        k_mixing, k_parts = jr.split(key)
        prior = require_prior(self.prior, "a draw of the parameters")
        mixing = dirichlet.draw(k_mixing, prior + statistics.counts)
        return changed(self, mixing=mixing, parts=self.parts.draw(k_parts, statistics.parts))

    def variational_posterior(self, statistics: MixtureStatistics) -> MixtureLaw:
        """(Dirichlet concentrations, the laws of the Gaussians)."""
        prior = require_prior(self.prior, "variational Bayes")
        return MixtureLaw(prior + statistics.counts, self.parts.variational_posterior(statistics.parts))

    def expected_log_prob(self, q: MixtureLaw, data: Observed) -> Float[Array, "n k"]:
        """log Σⱼ exp(E[log mixingⱼ] + E[log Nⱼ]): the bound with the Gaussian's own law at its best."""
        each = self._expected_each(q, data)
        return special(each).logsumexp(each, axis=2)

    def kl_to_prior(self, q: MixtureLaw) -> Float[Array, ""]:
        """KL(q ‖ prior)."""
        prior = require_prior(self.prior, "variational Bayes")
        return dirichlet.divergence(q.counts, prior) + self.parts.kl_to_prior(q.parts)

    def posterior_mean(self, q: MixtureLaw) -> "GaussianMixture":
        """The means of the mixing and of the Gaussians' parameters."""
        return changed(self, mixing=q.counts / q.counts.sum(1, keepdims=True), parts=self.parts.posterior_mean(q.parts))

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """One of the Gaussians, then a row of it."""
        k_component, k_part = jr.split(key)
        chosen = jr.categorical(k_component, jnp.log(self._mixing)[which])
        return self.parts.sample(k_part, which * self.components + chosen)

    def predictive(self, probs: Float[Array, "n k"], inputs: Inputs = None) -> Predictive:
        """A mixture over all Gaussians; the disagreement within one k is noise."""
        weights = (probs[:, :, None] * self._mixing).reshape(probs.shape[0], -1)
        flat = self.parts.predictive(weights)
        assert isinstance(flat, Mixture)
        return Mixture(flat.weights, flat.parts, self.components)

    def _by_k(self, values: Float[Array, "n kc"]) -> Float[Array, "n k c"]:
        return values.reshape(values.shape[0], -1, self.components)

    def _each(self, data: Observed) -> Float[Array, "n k c"]:
        """log mixingⱼ + log Nⱼ."""
        with np.errstate(divide="ignore"):
            return namespace(self._mixing).log(self._mixing) + self._by_k(self.parts.log_prob(data))

    def _expected_each(self, q: MixtureLaw, data: Observed) -> Float[Array, "n k c"]:
        each = dirichlet.expected_log(q.counts) + self._by_k(self.parts.expected_log_prob(q.parts, data))
        # A row with nothing seen says nothing, although E[log mixing] is not a log probability.
        return namespace(each, data).where(data.any_seen[:, :, None], each, -np.log(self.components))

    def _share(self, logs: Float[Array, "n k c"], data: Observed, weight: Float[Array, "n k"]) -> MixtureStatistics:
        """The weights, in shares that are proportional to exp(logs)."""
        shares = special(logs).softmax(logs, axis=2) if isinstance(logs, np.ndarray) else jax.nn.softmax(logs, axis=2)
        each = namespace(shares, weight).where(data.any_seen[:, :, None], shares * weight[:, :, None], 0.0)
        return MixtureStatistics(each.sum(0), self.parts.expected_statistics(data, each.reshape(len(each), -1)))

    @property
    def _mixing(self) -> Float[Array, "k c"]:
        return self._known(self.mixing)
