"""Bernoulli densities: columns of yes and no, independent given the component.

    p(x | k) = Πⱼ pₖⱼ^xⱼ (1 - pₖⱼ)^(1 - xⱼ),    pₖⱼ ~ Beta(a, b)

A mixture of them is latent class analysis, and clusters binary images. Bishop (2006), section 9.3.3.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core import predictive
from credo.core.arrays import Array, namespace
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.params import constant, unit_interval
from credo.core.predictive.classes import entropy_of
from credo.core.pytrees import changed
from credo.core.special import gamma_quantile, log_rising
from credo.models.densities import base, dirichlet
from credo.models.densities.base import HasPredictive, Inputs, Observed, require_prior
from credo.models.densities.clusters import clusters, column_moments
from credo.models.densities.moments import weighted_sums

WEAK = dirichlet.WEAK
"""The weak prior: uniform, but for a hundredth of an observation of either that keeps the mode off 0 and 1."""


class Betas(NamedTuple):
    """p ~ Beta(ones, zeros) for each component and column; as statistics: how often each was seen."""

    ones: Float[Array, "k d"]
    zeros: Float[Array, "k d"]


class Bernoulli(HasPredictive[Betas, Betas]):
    """xⱼ | k ~ Bernoulli(probsₖⱼ): cells are 0 or 1.

    Args:
        probs: of a 1, (k, d), or (k,) for one column, between 0 and 1; None to begin with clusters of the rows.
        prior: "weak" (Beta(1.01, 1.01)), None, or the pair (a, b) of a Beta law, both ≥ 1 so that it has a mode.
    """

    weak: bool = eqx.field(static=True)
    probs: Float[Array, "k d"] | None = unit_interval()
    prior: Betas | None = constant()

    def __init__(self, probs: ArrayLike | None = None, *, prior: object = "weak") -> None:
        self.weak, given = base.read_prior(prior, tuple, list, Betas)
        self.k = self.columns = self.probs = self.prior = None
        pair = (WEAK, WEAK) if self.weak else given
        if pair is not None:
            numbers = [np.asarray(each, dtype=float) for each in pair] if len(pair) == 2 else []
            if not numbers or not all(np.all(np.isfinite(each) & (each >= 1)) for each in numbers):
                raise DataError(f"prior must be a pair (a, b) of a Beta law with a mode, both ≥ 1, found {prior!r}")
            self.prior = Betas(*numbers)
        if probs is not None:
            self.probs = base.parameter_table(probs, "probs", positive=True)
            if np.any(self.probs >= 1):
                raise DataError(f"probs must lie between 0 and 1, found {self.probs.max():g}")
            self.k, self.columns = self.probs.shape

    def resized(self, k: int, columns: int) -> "Bernoulli":
        """For so many components and columns; a prior that all share is repeated."""
        new = super().resized(k, columns)
        if new.prior is None:
            return new
        return changed(new, prior=Betas(*(np.broadcast_to(each, (k, columns)).copy() for each in new.prior)))

    def check(self, data: Observed) -> None:
        """Cells are 0 or 1."""
        data.refuse(lambda x: (x != 0) & (x != 1), "0 or 1 (no or yes)")

    def adapt(self, data: Observed, *, seed: int = 0) -> "Bernoulli":
        """Shares of ones in clusters of the rows, drawn towards those of all rows."""
        if self.probs is not None:
            return self
        (k, _), (x, seen) = self.sizes, data[:2]
        mean, variance = column_moments(x, seen)
        centers, _ = clusters(np.where(seen, x, mean)[seen.any(1)], k, mean, variance, seed)
        return changed(self, probs=np.clip(0.8 * centers + 0.2 * mean, 0.02, 0.98))

    def with_prior(self, data: Observed) -> "Bernoulli":
        """Itself: the weak prior does not depend on the data."""
        return self

    def without_prior(self) -> "Bernoulli":
        """Shares."""
        return changed(self, prior=None, weak=False)

    def log_prob(self, data: Observed) -> Float[Array, "n k"]:
        """Σⱼ x log p + (1 - x) log(1 - p)."""
        xp = namespace(self._probs)
        return _log_prob(xp.log(self._probs), xp.log1p(-self._probs), data)

    def expected_statistics(self, data: Observed, weight: Float[Array, "n k"]) -> Betas:
        """How often each component showed 1 and 0 in each column."""
        xp = namespace(weight, data)

        def features(x: Array, seen: Array) -> Array:
            return xp.concatenate([xp.where(seen, x, 0.0), xp.where(seen, 1 - x, 0.0)], axis=1)

        return Betas(*xp.split(weighted_sums(weight, features, data.x, data.seen), 2, axis=1))

    def maximize(self, statistics: Betas) -> "Bernoulli":
        """(a - 1 + ones)/(a + b - 2 + n)."""
        (ones, zeros), xp = self._raised(statistics), namespace(statistics, self._probs)
        found = ones / (ones + zeros)
        if self.prior is None:
            found = xp.where(statistics.ones + statistics.zeros > base.ALMOST_NONE, found, self._probs)
        return changed(self, probs=found)

    def _raised(self, statistics: Betas) -> tuple[Array, Array]:
        a, b = (None, None) if self.prior is None else self.prior
        return statistics.ones + dirichlet.excess(a), statistics.zeros + dirichlet.excess(b)

    def log_prior(self) -> Float[Array, ""]:
        """Σ (a - 1) log p + (b - 1) log(1 - p)."""
        nothing, xp = np.zeros(self.sizes), namespace(self._probs)
        ones, zeros = self._raised(Betas(nothing, nothing))
        return (ones * xp.log(self._probs) + zeros * xp.log1p(-self._probs)).sum()

    def draw(self, key: PRNGKeyArray, statistics: Betas) -> "Bernoulli":
        """p ~ Beta(a + ones, b + zeros)."""
        require_prior(self.prior, "a draw of the parameters")
        q = self.variational_posterior(statistics)
        drawn = dirichlet.draw(key, jnp.stack([q.ones, q.zeros], axis=-1))[..., 0]
        return changed(self, probs=jnp.clip(drawn, 1e-12, 1 - 1e-12))

    def variational_posterior(self, statistics: Betas) -> Betas:
        """Beta(a + ones, b + zeros)."""
        prior = require_prior(self.prior, "variational Bayes")
        return Betas(prior.ones + statistics.ones, prior.zeros + statistics.zeros)

    def expected_log_prob(self, q: Betas, data: Observed) -> Float[Array, "n k"]:
        """Σⱼ x E[log p] + (1 - x) E[log(1 - p)]."""
        logs = dirichlet.expected_log(namespace(q).stack([q.ones, q.zeros], axis=-1))
        return _log_prob(logs[..., 0], logs[..., 1], data)

    def kl_to_prior(self, q: Betas) -> Float[Array, ""]:
        """KL(q ‖ prior)."""
        prior, xp = require_prior(self.prior, "variational Bayes"), namespace(q)
        return dirichlet.divergence(xp.stack([*q], axis=-1), xp.stack([*prior], axis=-1))

    def posterior_mean(self, q: Betas) -> "Bernoulli":
        """a/(a + b)."""
        return changed(self, probs=q.ones / (q.ones + q.zeros))

    def log_predictive(self, q: Betas, data: Observed) -> Float[Array, "n k"]:
        """Columns are independent, so that p is its mean."""
        xp, total = namespace(q), q.ones + q.zeros
        return _log_prob(xp.log(q.ones / total), xp.log(q.zeros / total), data)

    def log_marginal(self, before: Betas, after: Betas) -> Float[Array, ""]:
        """log B(after)/B(before)."""
        ones, zeros = after.ones - before.ones, after.zeros - before.zeros
        each = log_rising(before.ones, ones) + log_rising(before.zeros, zeros)
        return (each - log_rising(before.ones + before.zeros, ones + zeros)).sum()

    def sample_predictive(
        self, rng: np.random.Generator, q: Betas, which: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n d"]:
        """Cells by their mean probabilities."""
        mean = (q.ones / (q.ones + q.zeros))[which]
        return (rng.random(mean.shape) < mean).astype(float)

    def several(self, q: Betas, n: int, seed: int) -> "Bernoulli":
        """n·k components."""
        both = np.stack([q.ones, q.zeros])
        ones, zeros = np.moveaxis(gamma_quantile(both, np.random.default_rng(seed).random((n, *both.shape))), 1, 0)
        probs = np.clip(ones / (ones + zeros), 1e-12, 1 - 1e-12)
        return changed(self, k=n * both.shape[1], probs=probs.reshape(-1, both.shape[2]))

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """Cells for each."""
        return jr.bernoulli(key, jnp.asarray(self._probs)[which]).astype(float)

    def predictive(self, probs: Float[Array, "n k"], inputs: Inputs = None) -> predictive.Bernoulli:
        """P(x = 1), for d > 1 of each column; the entropy within components is noise, between them ignorance."""
        xp = namespace(probs, self._probs)
        within = entropy_of(xp.stack([1 - self._probs, self._probs], axis=-1))
        mean, noise = probs @ self._probs, probs @ within
        return (
            predictive.Bernoulli(mean[:, 0], noise[:, 0]) if self.sizes[1] == 1 else predictive.Bernoulli(mean, noise)
        )

    @property
    def _probs(self) -> Float[Array, "k d"]:
        return self._known(self.probs)


def _log_prob(log_one: Float[Array, "k d"], log_zero: Float[Array, "k d"], data: Observed) -> Float[Array, "n k"]:
    """Two products of matrices."""
    xp = namespace(log_one, log_zero, data)
    ones = xp.where(data.seen, data.x, 0.0)
    return ones @ (log_one - log_zero).T + xp.where(data.seen, 1.0, 0.0) @ log_zero.T
