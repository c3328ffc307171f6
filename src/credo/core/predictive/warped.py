"""Outcomes that are a monotone function of something normal: g(y) ~ N, everything told in the units of y.

p(y) = N(g(y) | μ, noise + latent) g'(y),    P(Y ≤ y) = Φ((g(y) - μ)/σ),    quantiles g⁻¹(μ + σ Φ⁻¹(q))
"""

from abc import abstractmethod
from typing import ClassVar, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import PRNGKeyArray

from credo.core.arrays import Array, Numeric, as_float, host, namespace
from credo.core.loops import over_nodes, quiet
from credo.core.predictive.base import Index, Predictive, size_of
from credo.core.predictive.real import Normal
from credo.core.pytrees import changed

P = TypeVar("P", bound="Warped")

NODES = 24
"""Points of the Gauss-Hermite rule, for the function and for the noise."""

X, W = np.polynomial.hermite_e.hermegauss(NODES)
W = W / W.sum()


class Warp(eqx.Module):
    """An increasing function z = g(y) of an outcome, elementwise."""

    @abstractmethod
    def __call__(self, y: Array) -> Array:
        """g(y)."""

    @abstractmethod
    def inverse(self, z: Array) -> Array:
        """y with g(y) = z."""

    @abstractmethod
    def log_slope(self, y: Array) -> Array:
        """log g'(y)."""

    def inside(self, y: Array) -> Array:
        """Whether g is defined at y."""
        return namespace(y).ones(np.shape(y), bool)


class Warped(Predictive):
    """g(y) ~ N(mean, noise + latent), for an increasing g.

    `latent` is the law of g(y): its aleatoric part is the noise ε, its epistemic part the function f. The variance of
    y = g⁻¹(f + ε) splits by the law of total variance,

        aleatoric = E[Var[y | f]],    epistemic = Var[E[y | f]],

    with a Gauss-Hermite rule for f and one for ε.
    """

    elementwise: ClassVar[bool] = False

    latent: Normal
    warp: Warp

    @property
    def mean(self) -> Array:
        """E[g⁻¹(f + ε)]; g⁻¹(E[f]) is the median."""
        return self._moments()[0]

    @property
    def aleatoric(self) -> Array:
        """E[Var[y | f]]."""
        return self._moments()[1]

    @property
    def epistemic(self) -> Array:
        """Var[E[y | f]]."""
        return self._moments()[2]

    def _moments(self) -> tuple[Array, Array, Array]:
        """Mean, aleatoric and epistemic variance of y."""
        xp, z = namespace(self), self.latent
        function, noise = xp.sqrt(xp.maximum(z.epistemic, 0.0)), xp.sqrt(z.aleatoric)
        x = X.reshape(-1, *[1] * function.ndim)

        def given(at: Array) -> Array:
            """y for each node of the noise, given one of the function."""
            return self._inverse(z.mean + function * at + noise * x)

        y = over_nodes(xp, given, (x[:, None],), NODES * size_of(self))
        means = xp.tensordot(y, W, ([1], [0]))
        mean = xp.tensordot(W, means, 1)
        aleatoric = xp.tensordot(W, xp.tensordot(xp.square(y - means[:, None]), W, ([1], [0])), 1)
        return mean, aleatoric, xp.tensordot(W, xp.square(means - mean), 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the batch of queries."""
        return self.latent.shape

    def log_prob(self, y: Numeric) -> Array:
        """log N(g(y) | μ, σ²) + log g'(y); -∞ where g is not defined."""
        at, inside = self._within(y)
        z, log_slope = host((self.warp(at), self.warp.log_slope(at)))
        return namespace(self, at).where(inside, self.latent.log_prob(z) + log_slope, -np.inf)

    def cdf(self, y: Numeric) -> Array:
        """Φ((g(y) - μ)/σ)."""
        at, inside = self._within(y)
        return namespace(self, at).where(inside, self.latent.cdf(host(self.warp(at))), 0.0)

    def entropy(self) -> Array:
        """H[z] - E[log g'(y)], z = g(y)."""
        y = self._inverse(self.latent.mean + self.latent.std * X.reshape(-1, *[1] * self.latent.mean.ndim))
        return self.latent.entropy() - namespace(y).tensordot(W, host(self.warp.log_slope(y)), 1)

    def _within(self, y: Numeric) -> tuple[Array, Array]:
        """y, the median in the place of what g is not defined at, and where it is."""
        given = as_float(y)
        inside = host(self.warp.inside(given))
        return namespace(self, given).where(inside, given, self._inverse(self.latent.mean)), inside

    @quiet
    def _inverse(self, z: Array) -> Array:
        return host(self.warp.inverse(z))

    def _quantile(self, q: Array) -> Array:
        return self._inverse(self.latent._quantile(q))

    def _draw(self, key: PRNGKeyArray) -> Array:
        return self.warp.inverse(self.latent._draw(key))

    def marginal(self: P) -> P:
        """Without the covariance between queries."""
        return changed(self, latent=self.latent.marginal())

    def __getitem__(self: P, index: Index) -> P:
        """The predictions at some of the queries."""
        return changed(self, latent=self.latent[index])
