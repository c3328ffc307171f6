"""A parameter taken for known: what `using=ML()`, `MAP()` and `PlugIn()` make of a conjugate belief.

    p(y* | data) = p(y* | θ̂)

All the doubt that is left is noise. The predictions whose parameters are known are here as well.
"""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy import special
from jaxtyping import PRNGKeyArray

from credo.core import predictive
from credo.core.abilities import HasPointEstimates
from credo.core.arrays import Array, is_traced
from credo.core.belief import Belief
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.linalg import factorize, log_determinant, quadratic
from credo.core.params import constant
from credo.core.predictive import Normal, Predictive
from credo.core.special import log_binomial


class WithParameter(Belief, HasPointEstimates):
    """A belief about the parameter θ of a likelihood, which can also be taken for known."""

    @property
    @abstractmethod
    def estimate(self) -> Any:
        """E[θ], the Bayes estimate under squared loss."""

    @abstractmethod
    def mode(self) -> Any:
        """The mode of the belief as it stands: argmax p(θ)."""

    @abstractmethod
    def _most_likely(self, statistics: Any) -> Any:
        """argmax p(data | θ)."""

    @abstractmethod
    def predict_at(self, theta: Any, *x: ArrayLike, **options: ArrayLike) -> Predictive:
        """p(y | θ), what `predict` would be if θ were known."""

    def maximum_likelihood(self, *data: ArrayLike, **options: ArrayLike) -> "Known":
        """argmax p(data | θ), what the data say without the belief; what `using=ML()` calls."""
        statistics = self.statistics(*data, **options)
        theta = self._most_likely(statistics)
        if not is_traced(theta) and not all(np.all(np.isfinite(v)) for v in jax.tree.leaves(theta)):
            raise DataError("the likelihood has no maximum: the data say nothing about the parameter")
        return Known(theta, self.condition_on(statistics))

    def maximum_a_posteriori(self, *data: ArrayLike, **options: ArrayLike) -> "Known":
        """argmax p(θ | data); what `using=MAP()` calls."""
        after = self.condition(*data, **options)
        return Known(after.mode(), after)

    def plug_in(self, *data: ArrayLike, **options: ArrayLike) -> "Known":
        """E[θ | data]; what `using=PlugIn()` calls."""
        after = self.condition(*data, **options)
        return Known(after.estimate, after)


class Known(Belief):
    """θ = `estimate`, without ignorance."""

    estimate: Any
    belief: WithParameter = constant()
    """What was believed of θ after the data."""

    def statistics(self, *data: ArrayLike, **options: ArrayLike) -> Any:
        """As the belief keeps them."""
        return self.belief.statistics(*data, **options)

    def condition_on(self, statistics: Any) -> Any:
        """Refused: what is known is not changed by data."""
        raise DataError("a point estimate has no posterior to go on from; condition the model without using=")

    def evidence_of(self, statistics: Any) -> Array:
        """Refused as well."""
        raise DataError("a point estimate has no evidence; ask the model, or predict(…).log_prob(y)")

    def predict(self, *x: ArrayLike, **options: ArrayLike) -> Predictive:
        """p(y | θ̂): all of its doubt is noise."""
        return self.belief.predict_at(self.estimate, *x, **options)


class Binomial(predictive.BetaBinomial):
    """Successes in `trials` trials of known probability a = 1 - b."""

    @property
    def aleatoric(self) -> Array:
        """m a b."""
        return self.trials * self.a * self.b

    @property
    def epistemic(self) -> Array:
        """None."""
        return jnp.zeros_like(self.a)

    def _log_mass(self, y: Array) -> Array:
        k = jnp.minimum(y, self.trials)
        log_p = log_binomial(self.trials, k) + special.xlogy(k, self.a) + special.xlogy(self.trials - k, self.b)
        return jnp.where(y <= self.trials, log_p, -jnp.inf)

    def _draw(self, key: PRNGKeyArray) -> Array:
        return jr.binomial(key, self.trials, self.a)


class Multinomial(predictive.DirichletMultinomial):
    """How `trials` outcomes fall into classes of known probabilities alpha."""

    @property
    def marginals(self) -> Binomial:
        """The count of each class on its own."""
        return Binomial(jnp.full(self.alpha.shape, float(self.trials)), self.alpha, 1 - self.alpha, self.trials)

    def log_prob(self, y: ArrayLike) -> Array:
        """log m!/Πyₖ! + Σ yₖ log αₖ; -inf where the counts do not sum to m."""
        counts = jnp.asarray(y, float)
        valid = jnp.all((counts >= 0) & (counts == jnp.round(counts)), axis=-1)
        counts = jnp.where(valid[..., None], counts, 0.0)
        each = special.xlogy(counts, self.alpha) - special.gammaln(counts + 1)
        log_p = special.gammaln(self.trials + 1.0) + jnp.sum(each, axis=-1)
        return jnp.where(valid & (jnp.sum(counts, axis=-1) == self.trials), log_p, -jnp.inf)

    def _draw(self, key: PRNGKeyArray) -> Array:
        outcomes = jr.categorical(key, jnp.log(self.alpha), shape=(self.trials,))
        return jnp.sum(jax.nn.one_hot(outcomes, self.alpha.shape[0], dtype=float), axis=0)


class MultivariateNormal(predictive.MultivariateT):
    """A vector y ~ N(mean, noise) with known parameters."""

    @property
    def marginals(self) -> Normal:  # type: ignore[override]
        """Each coordinate on its own."""
        return Normal(self.mean, jnp.diag(self.noise), jnp.zeros_like(self.mean))

    def log_prob(self, y: ArrayLike) -> Array:
        """log N(y | mean, noise): one number for a vector (d,), n for a table (n, d)."""
        deviation = jnp.asarray(y, float) - self.mean
        root = factorize(self.noise).root
        distance = quadratic(root, jnp.atleast_2d(deviation).T)
        log_p = -0.5 * (distance + log_determinant(root) + self.mean.shape[0] * jnp.log(2 * jnp.pi))
        return log_p[0] if deviation.ndim == 1 else log_p

    def entropy(self) -> Array:
        """½ log |2πe noise|."""
        return 0.5 * (log_determinant(factorize(self.noise).root) + self.mean.shape[0] * jnp.log(2 * jnp.pi * jnp.e))

    def _draw(self, key: PRNGKeyArray) -> Array:
        return self.mean + factorize(self.noise).root @ jr.normal(key, self.mean.shape)
