"""Mixtures of Gaussians as emissions: a state that looks different from time to time."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy import special
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from credo.core.arrays import put
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.params import known, simplex
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.models.densities import dirichlet
from credo.models.densities.base import Emission, column_moments, needed, sizes
from credo.models.densities.gaussian import Gaussian, clusters
from credo.models.densities.predictions import StateMixture


class MixtureStatistics(NamedTuple):
    """How much weight each component has, and the moments of the k·c Gaussians."""

    counts: Float[Array, "k c"]
    parts: Any


class GaussianMixture(Emission):
    """p(xₜ | zₜ = k) = Σⱼ mixingₖⱼ N(xₜ | μₖⱼ, Σₖⱼ).  Rabiner (1989), section IV.A.

    `parts` is a `Gaussian` of k·c states, those of a state next to each other. Which component a row came from is
    latent: EM and VB weigh them by their probabilities, Gibbs draws one.

    Args:
        components: c, how many Gaussians each state has.
        covariance: "diagonal" or "full", or numbers (k, c, d) or (k, c, d, d).
        mean: (k, c, d); mixing: (k, c), rows that sum to one; None for a start from the data.
        prior: "weak" (Dirichlet(1.01) for the mixing, the weak prior of `Gaussian` for the parts), None, or what
            `Gaussian` takes.
    """

    states: int | None = eqx.field(static=True)
    columns: int | None = eqx.field(static=True)
    components: int = eqx.field(static=True)
    weak: bool = eqx.field(static=True)
    parts: Gaussian
    mixing: Float[Array, "k c"] | None = simplex()
    prior: Float[Array, "k c"] | None = known()

    def __init__(
        self,
        components: int = 2,
        covariance: Any = "diagonal",
        *,
        mean: Any = None,
        mixing: Any = None,
        prior: Any = "weak",
    ) -> None:
        check_count(components, "components")
        self.states, self.columns, self.components, self.mixing, self.prior = None, None, components, None, None
        self.weak = prior is not None
        if mixing is not None:
            table = dirichlet.check_rows(mixing, "mixing")
            self.mixing, self.states = put(table), table.shape[0]
            if table.shape[1] != components:
                raise DataError(
                    f"mixing must have one column for each of {components} components, found {table.shape[1]}"
                )
        if isinstance(covariance, str):
            if covariance not in ("diagonal", "full"):
                raise DataError(f'covariance must be "diagonal" or "full", or numbers, found {covariance!r}')
            noise: Any = covariance
        else:
            numbers = np.asarray(covariance, dtype=float)
            noise = numbers.reshape(-1, *numbers.shape[2:])
        if mean is not None:
            table = np.asarray(mean, dtype=float)
            if table.ndim != 3 or table.shape[1] != components:
                raise DataError(f"mean must have shape (states, {components}, columns), found {table.shape}")
            self.states, _, self.columns = table.shape
            mean = table.reshape(-1, table.shape[2])
        self.parts = Gaussian(noise, mean=mean, prior=prior)

    def for_states(self, states: int, columns: int) -> "GaussianMixture":
        """For so many states and columns."""
        new = super().for_states(states, columns)
        prior = dirichlet.as_concentration("weak", states, new.components) if new.weak else None
        return changed(new, prior=prior, parts=new.parts.for_states(states * new.components, columns))

    def prepare(self, x: np.ndarray, seen: np.ndarray, inputs: np.ndarray | None, seed: int) -> "GaussianMixture":
        """A cluster for each state, its components scattered around the center."""
        (k, d), c = sizes(self), self.components
        parts = self.parts
        if parts.mean is None:
            mean, variance = column_moments(x, seen)
            centers, within = clusters(np.where(seen, x, mean)[seen.any(1)], k, mean, variance, seed)
            scatter = np.random.default_rng(seed).normal(size=(k, c, d)) * np.sqrt(within)
            parts = changed(parts, mean=put((centers[:, None] + scatter).reshape(k * c, d)))
        parts = parts.prepare(x, seen, inputs, seed)
        mixing = put(np.full((k, c), 1 / c)) if self.mixing is None else self.mixing
        return changed(self, parts=parts, mixing=mixing)

    def log_prob(
        self,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Float[Array, "t k"]:
        """log Σⱼ mixingⱼ N(x | μⱼ, Σⱼ)."""
        each = self._each(self.parts.log_prob(x, seen, complete=complete))
        return special.logsumexp(jnp.log(self._mixing) + each, axis=2)

    def expect(
        self,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        weight: Float[Array, "t k"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> MixtureStatistics:
        """The weight of a state is shared by its components as they explain the row."""
        each = jnp.log(self._mixing) + self._each(self.parts.log_prob(x, seen, complete=complete))
        return self._share(jax.nn.softmax(each, axis=2), x, seen, weight, complete)

    def expect_under(
        self,
        q: Any,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        weight: Float[Array, "t k"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> MixtureStatistics:
        """The same with the components' probabilities under q: rⱼ ∝ exp(E[log mixingⱼ] + E[log Nⱼ])."""
        each = self._expected_each(q, x, seen, complete)
        return self.center(q)._share(jax.nn.softmax(each, axis=2), x, seen, weight, complete)

    def draw_statistics(
        self,
        key: PRNGKeyArray,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        states: Int[Array, " t"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> MixtureStatistics:
        """The statistics for Gibbs: the component of each row is drawn."""
        (k, _), c = sizes(self), self.components
        k_component, k_parts = jr.split(key)
        each = jnp.log(self._mixing) + self._each(self.parts.log_prob(x, seen, complete=complete))
        chosen = jr.categorical(k_component, jnp.take_along_axis(each, states[:, None, None], axis=1)[:, 0])
        which = states * c + chosen
        drawn = seen.any(1).astype(x.dtype)
        counts = jax.ops.segment_sum(drawn, which, k * c).reshape(k, c)
        return MixtureStatistics(counts, self.parts.draw_statistics(k_parts, x, seen, which, complete=complete))

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
        prior = needed(self.prior, "a draw of the parameters")
        mixing = dirichlet.draw(k_mixing, prior + statistics.counts)
        return changed(self, mixing=mixing, parts=self.parts.draw(k_parts, statistics.parts))

    def believe(self, statistics: MixtureStatistics) -> MixtureStatistics:
        """(Dirichlet concentrations, the laws of the Gaussians)."""
        prior = needed(self.prior, "variational Bayes")
        return MixtureStatistics(prior + statistics.counts, self.parts.believe(statistics.parts))

    def expected_log_prob(
        self,
        q: MixtureStatistics,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Float[Array, "t k"]:
        """log Σⱼ exp(E[log mixingⱼ] + E[log Nⱼ]): the bound with the component's own law at its best."""
        return special.logsumexp(self._expected_each(q, x, seen, complete), axis=2)

    def divergence(self, q: MixtureStatistics) -> Float[Array, ""]:
        """KL(q ‖ prior)."""
        return dirichlet.divergence(q.counts, needed(self.prior, "variational Bayes")) + self.parts.divergence(q.parts)

    def center(self, q: MixtureStatistics) -> "GaussianMixture":
        """The means of the mixing and of the Gaussians' parameters."""
        return changed(self, mixing=q.counts / q.counts.sum(1, keepdims=True), parts=self.parts.center(q.parts))

    def sample(
        self, key: PRNGKeyArray, states: Int[Array, " t"], inputs: Float[Array, "t c"] | None = None
    ) -> Float[Array, "t d"]:
        """A component, then an outcome of it."""
        k_component, k_part = jr.split(key)
        chosen = jr.categorical(k_component, jnp.log(self._mixing)[states])
        return self.parts.sample(k_part, states * self.components + chosen)

    def predictive(self, probs: Float[Array, "m k"], inputs: Float[Array, "m c"] | None = None) -> Predictive:
        """A mixture over states and components; the disagreement within a state is noise."""
        weights = (probs[:, :, None] * self._mixing).reshape(probs.shape[0], -1)
        flat = self.parts.predictive(weights)
        assert isinstance(flat, StateMixture)
        return StateMixture(weights, flat.part, self.components)

    def _each(self, values: Float[Array, "t kc"]) -> Float[Array, "t k c"]:
        return values.reshape(values.shape[0], -1, self.components)

    def _expected_each(self, q: Any, x: Array, seen: Array, complete: bool) -> Float[Array, "t k c"]:
        each = self._each(self.parts.expected_log_prob(q.parts, x, seen, complete=complete))
        # A row with nothing seen says nothing, although E[log mixing] is not a log probability.
        return jnp.where(
            seen.any(1)[:, None, None], dirichlet.expected_log(q.counts) + each, jnp.log(1 / self.components)
        )

    def _share(self, shares: Array, x: Array, seen: Array, weight: Array, complete: bool) -> MixtureStatistics:
        each = jnp.where(seen.any(1)[:, None, None], shares * weight[:, :, None], 0.0)
        flat = each.reshape(x.shape[0], -1)
        return MixtureStatistics(each.sum(0), self.parts.expect(x, seen, flat, complete=complete))

    @property
    def _mixing(self) -> Float[Array, "k c"]:
        if self.mixing is None:
            raise DataError("the emission GaussianMixture has no parameters yet; give them, or prepare it with data")
        return self.mixing
