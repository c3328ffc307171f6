"""Counts: beta-binomial, negative binomial, Poisson, and the Dirichlet-multinomial."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, Numeric, as_float, namespace, special
from credo.core.loops import over_nodes, quiet, search_counts
from credo.core.predictive.base import Marginals, Predictive, size_of
from credo.core.special import log_binomial, log_rising


class Count(Predictive):
    """Outcomes 0, 1, 2, …: quantiles by search, entropy by summation."""

    discrete: ClassVar[bool] = True

    def _quantile(self, q: Array) -> Array:
        return search_counts(self.cdf, q, self.mean, self.std)

    @abstractmethod
    def _log_mass(self, y: Array) -> Array:
        """log p(y) for a whole number y ≥ 0."""

    @quiet
    def log_prob(self, y: Numeric) -> Array:
        """log p(y); -inf for what is not a whole number ≥ 0."""
        value, xp = as_float(y), namespace(self, y)
        valid = (value >= 0) & (value == xp.round(value))
        return xp.where(valid, self._log_mass(xp.where(valid, value, 0.0)), -xp.inf)


class BetaBinomial(Count):
    """Successes in `trials` trials whose probability is Beta(a, b).

    p(y) = C(m, y) B(a + y, b + m - y) / B(a, b). Variance of the noise: m ab/((a+b)(a+b+1)).
    """

    trials: Float[Array, "*m"] = eqx.field(converter=as_float)
    a: Float[Array, "*m"] = eqx.field(converter=as_float)
    b: Float[Array, "*m"] = eqx.field(converter=as_float)
    limit: int = eqx.field(static=True)
    """The largest number of trials; the distribution function sums this many terms."""

    @property
    def mean(self) -> Array:
        """m a/(a + b)."""
        return self.trials * self.a / (self.a + self.b)

    @property
    def aleatoric(self) -> Array:
        """E[m θ(1 - θ)]."""
        s = self.a + self.b
        return self.trials * self.a * self.b / (s * (s + 1))

    @property
    def epistemic(self) -> Array:
        """m² Var[θ]."""
        s = self.a + self.b
        return self.trials**2 * self.a * self.b / (s**2 * (s + 1))

    def _log_mass(self, y: Array) -> Array:
        inside, xp = y <= self.trials, namespace(self, y)
        k = xp.where(inside, y, 0.0)
        log_p = log_binomial(self.trials, k) + log_rising(self.a, k) + log_rising(self.b, self.trials - k)
        return xp.where(inside, log_p - log_rising(self.a + self.b, self.trials), -xp.inf)

    def cdf(self, y: Numeric) -> Array:
        """Σ_{j ≤ y} p(j)."""
        top, xp = as_float(y), namespace(self, y)
        axes = [1] * max(top.ndim, len(self.shape))
        counts = np.arange(self.limit + 1, dtype=float).reshape(-1, *axes)
        terms = over_nodes(
            xp, lambda j: xp.where(j <= top, xp.exp(self.log_prob(j)), 0.0), (counts,), max(top.size, size_of(self))
        )
        return xp.minimum(terms.sum(0), 1.0)

    def _draw(self, key: PRNGKeyArray) -> Array:
        k_theta, k_count = jr.split(key)
        theta = jr.beta(k_theta, self.a, self.b)
        return jr.binomial(k_count, self.trials, theta)


class NegativeBinomial(Count):
    """A Poisson count over `exposure` whose rate is Gamma(shape, rate).

    p(y) = Γ(a + y)/(Γ(a) y!) · (b/(b + t))ᵃ (t/(b + t))ʸ with a = shape, b = rate, t = exposure.
    """

    shape_: Float[Array, "*m"] = eqx.field(converter=as_float)
    rate: Float[Array, "*m"] = eqx.field(converter=as_float)
    exposure: Float[Array, "*m"] = eqx.field(converter=as_float)

    @property
    def mean(self) -> Array:
        """t a/b."""
        return self.exposure * self.shape_ / self.rate

    @property
    def aleatoric(self) -> Array:
        """E[t λ] = t a/b: a Poisson's variance is its mean."""
        return self.mean

    @property
    def epistemic(self) -> Array:
        """t² Var[λ] = t² a/b²."""
        return self.exposure**2 * self.shape_ / self.rate**2

    def _log_mass(self, y: Array) -> Array:
        a, b, t = self.shape_, self.rate, self.exposure
        gammaln, xp = special(self, y).gammaln, namespace(self, y)
        return gammaln(a + y) - gammaln(a) - gammaln(y + 1) - a * xp.log1p(t / b) - y * xp.log1p(b / t)

    def cdf(self, y: Numeric) -> Array:
        """I_{b/(b+t)}(a, y + 1)."""
        xp = namespace(self, y)
        top, success = xp.floor(as_float(y)), self.rate / (self.rate + self.exposure)
        inside = special(self, y).betainc(self.shape_, xp.maximum(top, 0.0) + 1, success)
        return xp.where(top < 0, 0.0, inside)

    def _draw(self, key: PRNGKeyArray) -> Array:
        k_rate, k_count = jr.split(key)
        rate = jr.gamma(k_rate, self.shape_) / self.rate
        return jr.poisson(k_count, rate * self.exposure).astype(float)


class Poisson(Count):
    """y ~ Poisson(rate), the rate being known."""

    rate: Float[Array, "*m"] = eqx.field(converter=as_float)

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
        return namespace(self).zeros_like(self.rate)

    def _log_mass(self, y: Array) -> Array:
        functions = special(self, y)
        return functions.xlogy(y, self.rate) - self.rate - functions.gammaln(y + 1)

    def cdf(self, y: Numeric) -> Array:
        """Q(⌊y⌋ + 1, λ), the regularized upper incomplete gamma function."""
        xp = namespace(self, y)
        top = xp.floor(as_float(y))
        return xp.where(top < 0, 0.0, special(self, y).gammaincc(xp.maximum(top, 0.0) + 1, self.rate))

    def _draw(self, key: PRNGKeyArray) -> Array:
        return jr.poisson(key, self.rate).astype(float)


class DirichletMultinomial(Marginals):
    """How `trials` outcomes fall into k classes whose probabilities are Dirichlet(alpha).

    Every question but `log_prob` and `sample` is answered for each class on its own, whose count is
    beta-binomial.
    """

    discrete: ClassVar[bool] = True

    trials: int = eqx.field(static=True)
    alpha: Float[Array, " k"] = eqx.field(converter=as_float)

    @property
    def marginals(self) -> BetaBinomial:
        """The count of each class on its own."""
        m = np.full(self.alpha.shape, float(self.trials))
        return BetaBinomial(m, self.alpha, self.alpha.sum() - self.alpha, self.trials)

    @property
    def mean(self) -> Array:
        """m αₖ/Σα."""
        return self.marginals.mean

    def log_prob(self, y: Numeric) -> Array:
        """log [m! Γ(A)/Γ(A + m) Π Γ(αₖ + yₖ)/(Γ(αₖ) yₖ!)]; -inf where the counts do not sum to m."""
        given, gammaln, xp = as_float(y), special(self, y).gammaln, namespace(self, y)
        valid = xp.all((given >= 0) & (given == xp.round(given)), axis=-1)
        counts, total = xp.where(valid[..., None], given, 0.0), self.alpha.sum()
        each = gammaln(self.alpha + counts) - gammaln(self.alpha) - gammaln(counts + 1)
        log_p = gammaln(self.trials + 1.0) + gammaln(total) - gammaln(total + self.trials) + each.sum(-1)
        return xp.where(valid & (given.sum(-1) == self.trials), log_p, -xp.inf)

    def entropy(self) -> Array:
        """The entropy of each class's count."""
        return self.marginals.entropy()

    def _draw(self, key: PRNGKeyArray) -> Array:
        k_theta, k_counts = jr.split(key)
        theta = jr.dirichlet(k_theta, self.alpha)
        outcomes = jr.categorical(k_counts, jnp.log(theta), shape=(self.trials,))
        return jnp.sum(jax.nn.one_hot(outcomes, self.alpha.shape[0], dtype=float), axis=0)
