"""A parameter taken for known: what `using=ML()`, `MAP()` and `PlugIn()` make of a conjugate belief.

    p(y* | data) = p(y* | θ̂)

All the doubt that is left is noise. The predictions whose parameters are known are here as well.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from credo.core import predictive
from credo.core.abilities import HasPointEstimates
from credo.core.arrays import Array, as_float, is_traced, namespace, special
from credo.core.belief import Belief
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.linalg import factorize, log_determinant, quadratic
from credo.core.params import constant
from credo.core.predictive import Normal, Predictive
from credo.core.special import LOG_2PI, log_binomial


class WithParameter(Belief, HasPointEstimates):
    """A belief about the parameter θ of a likelihood, which can also be taken for known."""

    @property
    @abstractmethod
    def estimate(self) -> PyTree[Array]:
        """E[θ], the Bayes estimate under squared loss."""

    @abstractmethod
    def mode(self) -> PyTree[Array]:
        """The mode of the belief as it stands: argmax p(θ)."""

    @abstractmethod
    def _most_likely(self, statistics: PyTree[Array]) -> PyTree[Array]:
        """argmax p(data | θ)."""

    @abstractmethod
    def predict_at(self, theta: PyTree[Array], *x: ArrayLike, **options: ArrayLike) -> Predictive:
        """p(y | θ), what `predict` would be if θ were known."""

    def log_evidence_of(self, statistics: PyTree[Array]) -> Array:
        """`evidence_of`, which needs no compilation."""
        return self.evidence_of(statistics)

    def maximum_likelihood(self, *data: ArrayLike, **options: ArrayLike) -> "Known":
        """argmax p(data | θ), what the data say without the belief; what `using=ML()` calls."""
        statistics = self.statistics(*data, **options)
        with np.errstate(divide="ignore", invalid="ignore"):
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

    estimate: PyTree[Array] = eqx.field(converter=lambda tree: jax.tree.map(as_float, tree))
    belief: WithParameter = constant()
    """What was believed of θ after the data."""

    def statistics(self, *data: ArrayLike, **options: ArrayLike) -> PyTree[Array]:
        """As the belief keeps them."""
        return self.belief.statistics(*data, **options)

    def condition_on(self, statistics: PyTree[Array]) -> "Known":
        """Refused: what is known is not changed by data."""
        raise DataError("a point estimate has no posterior to go on from; condition the model without using=")

    def evidence_of(self, statistics: PyTree[Array]) -> Array:
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
        return np.zeros(self.a.shape)

    def _log_mass(self, y: Array) -> Array:
        xp, xlogy = namespace(self, y), special(self, y).xlogy
        k = xp.minimum(y, self.trials)
        log_p = log_binomial(self.trials, k) + xlogy(k, self.a) + xlogy(self.trials - k, self.b)
        return xp.where(y <= self.trials, log_p, -np.inf)

    def _draw(self, key: PRNGKeyArray) -> Array:
        return jr.binomial(key, self.trials, self.a)


class Multinomial(predictive.DirichletMultinomial):
    """How `trials` outcomes fall into classes of known probabilities alpha."""

    @property
    def marginals(self) -> Binomial:
        """The count of each class on its own."""
        return Binomial(np.full(self.alpha.shape, float(self.trials)), self.alpha, 1 - self.alpha, self.trials)

    def log_prob(self, y: ArrayLike) -> Array:
        """log m!/Πyₖ! + Σ yₖ log αₖ; -inf where the counts do not sum to m."""
        counts = as_float(y)
        xp, functions = namespace(self, counts), special(self, counts)
        valid = xp.all((counts >= 0) & (counts == xp.round(counts)), axis=-1)
        counts = xp.where(valid[..., None], counts, 0.0)
        each = functions.xlogy(counts, self.alpha) - functions.gammaln(counts + 1)
        log_p = functions.gammaln(self.trials + 1.0) + each.sum(-1)
        return xp.where(valid & (counts.sum(-1) == self.trials), log_p, -np.inf)

    def _draw(self, key: PRNGKeyArray) -> Array:
        outcomes = jr.categorical(key, jnp.log(self.alpha), shape=(self.trials,))
        return jnp.sum(jax.nn.one_hot(outcomes, self.alpha.shape[0], dtype=float), axis=0)


class MultivariateNormal(predictive.MultivariateT):
    """A vector y ~ N(mean, noise) with known parameters."""

    @property
    def marginals(self) -> Normal:  # type: ignore[override]
        """Each coordinate on its own."""
        return Normal(self.mean, self.noise.diagonal(), np.zeros(self.mean.shape))

    def log_prob(self, y: ArrayLike) -> Array:
        """log N(y | mean, noise): one number for a vector (d,), n for a table (n, d)."""
        deviation, root = as_float(y) - self.mean, factorize(self.noise).root
        distance = quadratic(root, deviation.reshape(-1, len(self.mean)).T)
        log_p = -0.5 * (distance + log_determinant(root) + len(self.mean) * LOG_2PI)
        return log_p[0] if deviation.ndim == 1 else log_p

    def entropy(self) -> Array:
        """½ log |2πe noise|."""
        return 0.5 * (log_determinant(factorize(self.noise).root) + len(self.mean) * (LOG_2PI + 1))

    def _draw(self, key: PRNGKeyArray) -> Array:
        return self.mean + factorize(self.noise).root @ jr.normal(key, self.mean.shape)
