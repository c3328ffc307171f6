"""Classes: Categorical and Bernoulli. Their doubt is an entropy, split into noise and mutual information."""

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, Numeric, as_float, namespace, special
from credo.core.loops import SLACK, quiet
from credo.core.predictive.base import Predictive

K = TypeVar("K", bound="Classes")


def entropy_of(probs: Array) -> Array:
    """-Σₖ pₖ log pₖ over the last axis, 0 log 0 = 0."""
    return special(probs).entr(probs).sum(-1)


class Classes(Predictive):
    """Outcomes that are classes 0, 1, …, with probabilities `probs`."""

    discrete: ClassVar[bool] = True

    if TYPE_CHECKING:  # a field of one, a property of the other

        @property
        @abstractmethod
        def probs(self) -> Array:
            """P(y = k) for each class k."""

    @classmethod
    @abstractmethod
    def certain(cls: type[K], probs: Numeric) -> K:
        """The prediction of somebody who knows θ: all doubt is noise."""

    @classmethod
    def average(cls: type[K], weights: Float[Array, " s"], probs: Float[Array, "s *m"]) -> K:
        """The prediction of s weighted draws of θ: p = Σ wₛ pₛ, aleatoric = Σ wₛ H[pₛ]."""
        mean = namespace(weights, probs).tensordot
        return cls(mean(weights, probs, 1), mean(weights, cls.certain(probs).aleatoric, 1))

    @property
    def epistemic(self) -> Array:
        """I[y; θ] = H[y] - E[H[y | θ]]."""
        return self.entropy() - self.aleatoric

    @property
    def variance(self) -> Array:
        """p(1 - p): the variance of each class indicator."""
        return self.mean * (1 - self.mean)

    @property
    def mode(self) -> Array:
        """The most probable class."""
        return self.probs.argmax(-1)

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

    @property
    def mean(self) -> Array:
        """The class probabilities."""
        return self.probs

    @quiet
    def log_prob(self, y: Numeric) -> Array:
        """log probs[y] for class indices y (one, or one per query); -inf for what is not a class."""
        xp, value = namespace(self, y), as_float(y)[..., None]
        return xp.log(xp.where(value == xp.arange(self.probs.shape[-1]), self.probs, 0.0).sum(-1))

    def cdf(self, y: Numeric) -> Array:
        """P(Y ≤ y) in the order of the classes."""
        xp, value = namespace(self, y), as_float(y)[..., None]
        return xp.where(xp.arange(self.probs.shape[-1]) <= value, self.probs, 0.0).sum(-1)

    def _quantile(self, q: Array) -> Array:
        return (self.probs.cumsum(-1) >= q[..., None] - SLACK).argmax(-1)

    def _draw(self, key: PRNGKeyArray) -> Array:
        return jr.categorical(key, jnp.log(self.probs), axis=-1)


class Bernoulli(Classes):
    """P(y = 1) = prob; `aleatoric` is E[H[y | θ]]."""

    prob: Float[Array, "*m"] = eqx.field(converter=as_float)
    aleatoric: Float[Array, "*m"] = eqx.field(converter=as_float)

    @classmethod
    def certain(cls, probs: Numeric) -> "Bernoulli":
        """The prediction of somebody who knows θ: all doubt is noise."""
        p = as_float(probs)
        return cls(p, entropy_of(namespace(p).stack([1 - p, p], axis=-1)))

    @property
    def probs(self) -> Array:
        """(P(y = 0), P(y = 1))."""
        return namespace(self).stack([1 - self.prob, self.prob], axis=-1)

    @property
    def mean(self) -> Array:
        """P(y = 1)."""
        return self.prob

    @quiet
    def log_prob(self, y: Numeric) -> Array:
        """y log p + (1 - y) log(1 - p); -inf for what is neither 0 nor 1."""
        one, functions, xp = as_float(y), special(self, y), namespace(self, y)
        log_p = functions.xlogy(one, self.prob) + functions.xlog1py(1 - one, -self.prob)
        return xp.where((one == 0) | (one == 1), log_p, -xp.inf)

    def cdf(self, y: Numeric) -> Array:
        """P(Y ≤ y)."""
        value, xp = as_float(y), namespace(self, y)
        return xp.where(value < 0, 0.0, xp.where(value < 1, 1 - self.prob, 1.0))

    def _quantile(self, q: Array) -> Array:
        return namespace(self, q).where(q <= 1 - self.prob, 0.0, 1.0)

    def _draw(self, key: PRNGKeyArray) -> Array:
        return jr.bernoulli(key, self.prob).astype(float)


def of_classes(probs: Float[Array, "*m k"], aleatoric: Float[Array, "*m"]) -> Bernoulli | Categorical:
    """The prediction of k classes: of two, which of them it is not is the other, a `Bernoulli`."""
    return Bernoulli(probs[..., 1], aleatoric) if probs.shape[-1] == 2 else Categorical(probs, aleatoric)
