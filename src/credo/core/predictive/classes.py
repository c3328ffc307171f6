"""Classes: Categorical and Bernoulli. Their doubt is an entropy, split into noise and mutual information."""

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jax.scipy import special
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, Numeric, as_float
from credo.core.predictive.base import Predictive


def entropy_of(probs: Array) -> Array:
    """-Σₖ pₖ log pₖ over the last axis, 0 log 0 = 0."""
    return jnp.sum(special.entr(probs), axis=-1)


class Classes(Predictive):
    """Outcomes that are classes 0, 1, …, with probabilities `probs`."""

    discrete: ClassVar[bool] = True

    if TYPE_CHECKING:  # a field of one, a property of the other

        @property
        @abstractmethod
        def probs(self) -> Array:
            """P(y = k) for each class k."""

    @property
    def epistemic(self) -> Array:
        """I[y; θ] = H[y] - E[H[y | θ]]."""
        return self.entropy() - self.aleatoric

    @property
    def variance(self) -> Array:
        """p(1 - p): the variance of each class indicator."""
        return self.mean * (1 - self.mean)

    def entropy(self) -> Array:
        """-Σ pₖ log pₖ."""
        return entropy_of(self.probs)


class Categorical(Classes):
    """P(y = k) = probs[k]; `aleatoric` is E[H[y | θ]], the entropy that remains when θ is known."""

    probs: Float[Array, "*m k"] = eqx.field(converter=as_float)
    aleatoric: Float[Array, "*m"] = eqx.field(converter=as_float)

    @classmethod
    def certain(cls, probs: Numeric) -> "Categorical":
        """The prediction of somebody who knows θ: all doubt is noise."""
        table = as_float(probs)
        return cls(table, entropy_of(table))

    @classmethod
    def average(cls, weights: Float[Array, " s"], probs: Float[Array, "s *m k"]) -> "Categorical":
        """The prediction of s weighted draws of θ: p = Σ wₛ pₛ, aleatoric = Σ wₛ H[pₛ]."""
        return cls(jnp.tensordot(weights, probs, 1), jnp.tensordot(weights, entropy_of(probs), 1))

    @property
    def mean(self) -> Array:
        """The class probabilities."""
        return self.probs

    @property
    def mode(self) -> Array:
        """The most probable class."""
        return jnp.argmax(self.probs, axis=-1)

    def log_prob(self, y: Numeric) -> Array:
        """log probs[y] for class indices y (one, or one per query); -inf for what is not a class."""
        value = jnp.asarray(y, float)
        classes = jnp.arange(self.probs.shape[-1])
        return jnp.log(jnp.sum(jnp.where(classes == value[..., None], self.probs, 0.0), axis=-1))

    def cdf(self, y: Numeric) -> Array:
        """P(Y ≤ y) in the order of the classes."""
        classes = jnp.arange(self.probs.shape[-1])
        return jnp.sum(jnp.where(classes <= jnp.asarray(y)[..., None], self.probs, 0.0), axis=-1)

    def _quantile(self, q: Array) -> Array:
        return jnp.argmax(jnp.cumsum(self.probs, axis=-1) >= q - 1e-12, axis=-1)

    def _draw(self, key: PRNGKeyArray) -> Array:
        return jr.categorical(key, jnp.log(self.probs), axis=-1)


class Bernoulli(Classes):
    """P(y = 1) = prob; `aleatoric` is E[H[y | θ]]."""

    prob: Float[Array, "*m"] = eqx.field(converter=as_float)
    aleatoric: Float[Array, "*m"] = eqx.field(converter=as_float)

    @classmethod
    def certain(cls, prob: Numeric) -> "Bernoulli":
        """The prediction of somebody who knows θ: all doubt is noise."""
        p = as_float(prob)
        return cls(p, entropy_of(jnp.stack([1 - p, p], axis=-1)))

    @classmethod
    def average(cls, weights: Float[Array, " s"], prob: Float[Array, "s *m"]) -> "Bernoulli":
        """The prediction of s weighted draws of θ."""
        return cls(jnp.tensordot(weights, prob, 1), jnp.tensordot(weights, cls.certain(prob).aleatoric, 1))

    @property
    def probs(self) -> Array:
        """(P(y = 0), P(y = 1))."""
        return jnp.stack([1 - self.prob, self.prob], axis=-1)

    @property
    def mean(self) -> Array:
        """P(y = 1)."""
        return self.prob

    def log_prob(self, y: Numeric) -> Array:
        """y log p + (1 - y) log(1 - p); -inf for what is neither 0 nor 1."""
        one = jnp.asarray(y, float)
        log_p = special.xlogy(one, self.prob) + special.xlog1py(1 - one, -self.prob)
        return jnp.where((one == 0) | (one == 1), log_p, -jnp.inf)

    def cdf(self, y: Numeric) -> Array:
        """P(Y ≤ y)."""
        value = jnp.asarray(y, float)
        return jnp.where(value < 0, 0.0, jnp.where(value < 1, 1 - self.prob, 1.0))

    def _quantile(self, q: Array) -> Array:
        return jnp.where(q <= 1 - self.prob, 0.0, 1.0)

    def _draw(self, key: PRNGKeyArray) -> Array:
        return jr.bernoulli(key, self.prob).astype(float)
