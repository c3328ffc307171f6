"""What is predicted when the state is only known by its probabilities: mixtures whose weights change with time."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy import special, stats
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core.predictive.base import Predictive, integrate_on_grid, invert_cdf, sum_over_counts, to_array
from credo.core.predictive.counts import Count


def shares(weights: Array, components: Array) -> Array:
    """The weights (m, k) with axes for the columns of components (m, d, k): the same for every column of a row."""
    missing = components.ndim - weights.ndim
    return weights.reshape(*weights.shape[:-1], *[1] * missing, weights.shape[-1])


def choose_component(key: PRNGKeyArray, weights: Array, outcomes: Array) -> Array:
    """The outcome (m, d) of one component of outcomes (m, d, k) for each row, drawn with the weights (m, k)."""
    chosen = jr.categorical(key, jnp.log(weights), axis=-1)
    chosen = chosen.reshape(chosen.shape + (1,) * (outcomes.ndim - 1 - chosen.ndim))
    chosen = jnp.broadcast_to(chosen, outcomes.shape[:-1])
    return jnp.take_along_axis(outcomes, chosen[..., None], axis=-1)[..., 0]


class StateMixture(Predictive):
    """p(y) = Σₖ wₖ pₖ(y) at each of m times; the components are the last axis of `weights` (m, k) and of `part`.

    The disagreement of the states' means is ignorance, which knowing the state would remove; where a state is
    itself a mixture of `within` neighbouring components, their disagreement is noise.
    For outcomes of several columns the batch is (m, d) and every question is answered for each column on its own;
    draws of a row share its state.
    """

    weights: Float[Array, "*m k"] = eqx.field(converter=to_array)
    part: Predictive
    within: int = eqx.field(static=True, default=1)

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """Whether outcomes are whole numbers."""
        return self.part.discrete

    @property
    def _shares(self) -> Array:
        return shares(self.weights, self.part.mean)

    def _average(self, values: Array) -> Array:
        return jnp.sum(self._shares * values, axis=-1)

    @property
    def mean(self) -> Array:
        """Σ wₖ meanₖ."""
        return self._average(self.part.mean)

    @property
    def variance(self) -> Array:
        """Σ wₖ (varianceₖ + (meanₖ - mean)²)."""
        return self._average(self.part.variance + (self.part.mean - self.mean[..., None]) ** 2)

    @property
    def aleatoric(self) -> Array:
        """The noise of the states: total - epistemic."""
        return self.variance - self.epistemic

    @property
    def epistemic(self) -> Array:
        """Σ wₛ (meanₛ - mean)² over the states s, and what the components do not know themselves."""
        weights = jnp.broadcast_to(self._shares, self.part.mean.shape)
        shares = weights.reshape(*weights.shape[:-1], -1, self.within)
        mass = shares.sum(-1)
        means = (shares * self.part.mean.reshape(shares.shape)).sum(-1) / jnp.where(mass > 0, mass, 1.0)
        return jnp.sum(mass * (means - self.mean[..., None]) ** 2, axis=-1) + self._average(self.part.epistemic)

    def log_prob(self, y: Any) -> Array:
        """log Σ wₖ pₖ(y)."""
        each = self.part.log_prob(jnp.asarray(y, float)[..., None])
        return special.logsumexp(each, axis=-1, b=jnp.broadcast_to(self._shares, each.shape))

    def cdf(self, y: Any) -> Array:
        """Σ wₖ Fₖ(y)."""
        return self._average(self.part.cdf(jnp.asarray(y, float)[..., None]))

    @eqx.filter_jit
    def entropy(self) -> Array:
        """-Σₖ wₖ ∫ pₖ log p, each on a grid that suits pₖ."""
        everyone = jax.tree.map(lambda leaf: leaf[..., None, :], self.part)

        def integrand(y: Array) -> Array:
            log_p = special.logsumexp(everyone.log_prob(y[..., None]), axis=-1, b=jnp.expand_dims(self._shares, -2))
            density = jnp.exp(self.part.log_prob(y))
            return -jnp.where(density > 0, density * log_p, 0.0)

        rule = sum_over_counts if self.discrete else integrate_on_grid
        return self._average(rule(integrand, self.part.mean, self.part.std))

    def _quantile(self, q: Array) -> Array:
        each = self.part._quantile(q)
        low, high = jnp.min(each, axis=-1), jnp.max(each, axis=-1)
        if self.discrete:
            return invert_cdf(self.cdf, q - 1e-12, low - 1.0, high, discrete=True)
        return invert_cdf(self.cdf, q, low, high)

    def _draw(self, key: PRNGKeyArray) -> Array:
        k_state, k_outcome = jr.split(key)
        return choose_component(k_state, self.weights, self.part._draw(k_outcome))

    def __getitem__(self, index: Any) -> "StateMixture":
        """The predictions at some of the times."""
        where = jnp.asarray(index) if isinstance(index, list) else index
        part = jax.tree.map(lambda leaf: leaf[where], self.part)
        return StateMixture(self.weights[where[0] if isinstance(where, tuple) else where], part, self.within)


class Poisson(Count):
    """y ~ Poisson(rate), the rate being known."""

    rate: Float[Array, "*m"] = eqx.field(converter=to_array)

    @property
    def mean(self) -> Array:
        """λ."""
        return self.rate

    @property
    def aleatoric(self) -> Array:
        """λ: a Poisson's variance is its mean."""
        return self.rate

    @property
    def epistemic(self) -> Array:
        """Zero: the rate is taken as known."""
        return jnp.zeros_like(self.rate)

    def _log_mass(self, y: Array) -> Array:
        return stats.poisson.logpmf(y, self.rate)

    def cdf(self, y: Any) -> Array:
        """Q(⌊y⌋ + 1, λ), the regularized upper incomplete gamma function."""
        top = jnp.floor(jnp.asarray(y, float))
        return jnp.where(top < 0, 0.0, special.gammaincc(jnp.maximum(top, 0.0) + 1, self.rate))

    def _draw(self, key: PRNGKeyArray) -> Array:
        return jr.poisson(key, self.rate).astype(float)
