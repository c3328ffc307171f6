"""Poisson densities: counts whose rate depends on the component, in columns that are independent given it."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core import predictive
from credo.core.arrays import Array, namespace, special
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.params import constant, positive
from credo.core.pytrees import changed
from credo.core.special import gamma_quantile, log_rising
from credo.models.conjugate import GammaPoisson
from credo.models.densities import base, dirichlet
from credo.models.densities.base import HasPredictive, Inputs, Observed, require_prior
from credo.models.densities.clusters import clusters, column_moments
from credo.models.densities.gamma import gamma_divergence
from credo.models.densities.moments import add_columns, weighted_sums

EVENTS = 1.0
"""The weak prior is worth so many rows as hold one event; its mode is the mean of the data, its mean twice that."""
FLOOR = 1e-10
"""Without a prior so many events are added to those of each component."""


class Gammas(NamedTuple):
    """λ ~ Gamma(shape, rate) for each component and column; as statistics: events, and rows where they were counted."""

    shape: Float[Array, "k d"]
    rate: Float[Array, "k d"]


class Poisson(HasPredictive[Gammas, Gammas]):
    """xⱼ | k ~ Poisson(rateₖⱼ), rate ~ Gamma.  Zucchini, MacDonald & Langrock (2016), section 1.2.

    Args:
        rate: (k, d), or (k,) for one column; None to begin with quantiles of the data.
        prior: "weak" (worth one event, its mode the mean of the data), None, or a `GammaPoisson` that all share.
    """

    weak: bool = eqx.field(static=True)
    rate: Float[Array, "k d"] | None = positive()
    prior: GammaPoisson | Gammas | None = constant()

    def __init__(self, rate: ArrayLike | None = None, *, prior: object = "weak") -> None:
        self.weak, self.prior = base.read_prior(prior, GammaPoisson, Gammas)
        self.k = self.columns = self.rate = None
        if rate is not None:
            self.rate = base.parameter_table(rate, "rate", positive=True)
            self.k, self.columns = self.rate.shape

    def resized(self, k: int, columns: int) -> "Poisson":
        """For so many components and columns; a prior that all share is repeated."""
        new = super().resized(k, columns)
        if isinstance(new.prior, GammaPoisson):
            shape, rate = new.prior.shape, new.prior.rate
            if not bool(shape >= 1):
                raise DataError(f"prior must be a Gamma with shape ≥ 1 so that it has a mode, found {float(shape):g}")
            new = changed(new, prior=Gammas(*(np.broadcast_to(each, (k, columns)).copy() for each in (shape, rate))))
        return new

    def check(self, data: Observed) -> None:
        """Counts are whole numbers ≥ 0."""
        data.refuse(lambda x: (x < 0) | (x != np.round(x)), "whole numbers ≥ 0 (counts)")

    def adapt(self, data: Observed, *, seed: int = 0) -> "Poisson":
        """Rates from k-means on √x, which makes the variance of a count the same everywhere; the weak prior."""
        (k, _), (x, seen), new = self.sizes, data[:2], self.with_prior(data)
        if self.rate is not None:
            return new
        mean = _mean_counts(data)
        root = np.sqrt(np.where(seen, x, mean))
        centers, _ = clusters(root[seen.any(1)], k, *column_moments(root, seen), seed)
        return changed(new, rate=np.maximum(centers, 0.1 * np.sqrt(mean)) ** 2)

    def with_prior(self, data: Observed) -> "Poisson":
        """The weak prior, whose mode is the mean of the data."""
        if self.prior is not None or not self.weak:
            return self
        rows = np.broadcast_to(EVENTS / _mean_counts(data), self.sizes).copy()
        return changed(self, prior=Gammas(np.full(self.sizes, 1 + EVENTS), rows))

    def to_integrate(self) -> "Poisson | None":
        """As it is, where there is a prior."""
        return None if self.prior is None else self

    def without_prior(self) -> "Poisson":
        """Mean counts."""
        return changed(self, prior=None, weak=False)

    def log_prob(self, data: Observed) -> Float[Array, "n k"]:
        """Σⱼ x log λ - λ - log x!."""
        return _log_prob(namespace(self._rate).log(self._rate), self._rate, data)

    def expected_statistics(self, data: Observed, weight: Float[Array, "n k"]) -> Gammas:
        """Σ w x and Σ w over the seen entries."""
        xp = namespace(weight, data)

        def features(x: Array, seen: Array) -> Array:
            return xp.concatenate([xp.where(seen, x, 0.0), seen.astype(x.dtype)], axis=1)

        return Gammas(*xp.split(weighted_sums(weight, features, data.x, data.seen), 2, axis=1))

    def maximize(self, statistics: Gammas) -> "Poisson":
        """(a - 1 + Σx)/(b + n)."""
        if self.prior is not None:
            raised = dirichlet.excess(self.prior.shape) + statistics.shape
            return changed(self, rate=raised / (self.prior.rate + statistics.rate))
        xp, visited = namespace(statistics, self._rate), statistics.rate > base.ALMOST_NONE
        rate = (statistics.shape + FLOOR) / xp.where(visited, statistics.rate, 1.0)
        return changed(self, rate=xp.where(visited, rate, self._rate))

    def log_prior(self) -> Float[Array, ""]:
        """Σ (a - 1) log λ - bλ."""
        logs = namespace(self._rate).log(self._rate)
        if self.prior is None:
            return FLOOR * logs.sum()
        return (dirichlet.excess(self.prior.shape) * logs - self.prior.rate * self._rate).sum()

    def draw(self, key: PRNGKeyArray, statistics: Gammas) -> "Poisson":
        """λ ~ Gamma(a + Σx, b + n)."""
        require_prior(self.prior, "a draw of the parameters")
        q = self.variational_posterior(statistics)
        return changed(self, rate=jnp.maximum(jr.gamma(key, q.shape) / q.rate, jnp.finfo(float).tiny))

    def variational_posterior(self, statistics: Gammas) -> Gammas:
        """Gamma(a + Σx, b + n)."""
        prior = require_prior(self.prior, "variational Bayes")
        return Gammas(prior.shape + statistics.shape, prior.rate + statistics.rate)

    def expected_log_prob(self, q: Gammas, data: Observed) -> Float[Array, "n k"]:
        """Σⱼ x E[log λ] - E[λ] - log x! with E[log λ] = ψ(a) - log b."""
        logs = special(q.shape).digamma(q.shape) - namespace(q.rate).log(q.rate)
        return _log_prob(logs, q.shape / q.rate, data)

    def kl_to_prior(self, q: Gammas) -> Float[Array, ""]:
        """KL(Gamma(a, b) ‖ Gamma(a₀, b₀)), summed."""
        prior = require_prior(self.prior, "variational Bayes")
        return gamma_divergence(*q, *prior).sum()

    def posterior_mean(self, q: Gammas) -> "Poisson":
        """a/b."""
        return changed(self, rate=q.shape / q.rate)

    def log_predictive(self, q: Gammas, data: Observed) -> Float[Array, "n k"]:
        """Negative binomial: Γ(a + x)/(Γ(a) x!) (b/(b + 1))^a (b + 1)^-x, summed over the columns."""
        xp = namespace(q, data)

        def term(a: Array, b: Array, x: Array, s: Array) -> Array:
            value = log_rising(a, x[:, None]) - a * xp.log1p(1 / b) - x[:, None] * xp.log1p(b)
            return xp.where(s[:, None], value, 0.0)

        each = add_columns(term, data.x.shape[1], q.shape, q.rate, data.x, data.seen)
        return each + self.log_base(data)[:, None]

    def log_base(self, data: Observed) -> Float[Array, " n"]:
        """-Σ log x!."""
        return -namespace(data).where(data.seen, special(data.x).gammaln(data.x + 1), 0.0).sum(1)

    def log_marginal(self, before: Gammas, after: Gammas) -> Float[Array, ""]:
        """log Γ(aₙ)/Γ(a) + a log b - aₙ log bₙ."""
        xp = namespace(before, after)
        rising = log_rising(before.shape, after.shape - before.shape)
        return (rising + before.shape * xp.log(before.rate) - after.shape * xp.log(after.rate)).sum()

    def sample_predictive(
        self, rng: np.random.Generator, q: Gammas, which: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n d"]:
        """Counts, each at a rate of its own."""
        return rng.poisson(rng.gamma(q.shape[which]) / q.rate[which]).astype(float)

    def several(self, q: Gammas, n: int, seed: int) -> "Poisson":
        """n·k rates."""
        drawn = gamma_quantile(q.shape, np.random.default_rng(seed).random((n, *q.shape.shape))) / q.rate
        return changed(self, k=n * q.shape.shape[0], rate=drawn.reshape(-1, q.shape.shape[1]))

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """Counts for each."""
        return jr.poisson(key, self._rate[which]).astype(float)

    def predictive(self, probs: Float[Array, "n k"], inputs: Inputs = None) -> predictive.Predictive:
        """A mixture of Poissons for each row; for d > 1 one for each column, of shape (n, d)."""
        (_, d), m = self.sizes, probs.shape[0]
        rate = namespace(self._rate).broadcast_to(self._rate[:, None], (self._rate.shape[0], m, d))
        return predictive.Mixture(probs.T, (predictive.Poisson(rate[:, :, 0] if d == 1 else rate),))

    @property
    def _rate(self) -> Float[Array, "k d"]:
        return self._known(self.rate)


def _mean_counts(data: Observed) -> Float[np.ndarray, " d"]:
    """The mean of each column, above zero."""
    return np.maximum(column_moments(*data[:2])[0], 1 / (1.0 + len(data.x)))


def _log_prob(log_rate: Float[Array, "k d"], rate: Float[Array, "k d"], data: Observed) -> Float[Array, "n k"]:
    xp = namespace(log_rate, rate, data)

    def term(log_rate: Array, rate: Array, x: Array, s: Array) -> Array:
        return xp.where(s[:, None], x[:, None] * log_rate - rate, 0.0)

    orders = xp.where(data.seen, special(data.x).gammaln(data.x + 1), 0.0).sum(1)
    return add_columns(term, data.x.shape[1], log_rate, rate, data.x, data.seen) - orders[:, None]
