"""Outcomes that are a monotone function of something normal: g(y) ~ N, everything told in the units of y.

p(y) = N(g(y) | μ, noise + latent) g'(y),    P(Y ≤ y) = Φ((g(y) - μ)/σ),    quantiles g⁻¹(μ + σ Φ⁻¹(q))
"""

from abc import abstractmethod
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from credo.core.arrays import Array, Numeric
from credo.core.predictive.base import Index, Predictive
from credo.core.predictive.real import Normal
from credo.core.pytrees import changed

W = TypeVar("W", bound="Warped")

NODES = 24
"""Points of the Gauss-Hermite rule, for the function and for the noise."""

_X, _W = np.polynomial.hermite_e.hermegauss(NODES)
_W = _W / _W.sum()


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
        return jnp.ones(jnp.shape(y), bool)


class Warped(Predictive):
    """g(y) ~ N(mean, noise + latent), for an increasing g.

    `latent` is the law of g(y): its aleatoric part is the noise ε, its epistemic part the function f. The variance of
    y = g⁻¹(f + ε) splits by the law of total variance,

        aleatoric = E[Var[y | f]],    epistemic = Var[E[y | f]],

    with a Gauss-Hermite rule for f and one for ε.
    """

    latent: Normal
    warp: Warp

    @property
    def mean(self) -> Array:
        """E[g⁻¹(f + ε)]; g⁻¹(E[f]) is the median."""
        return _moments(self)[0]

    @property
    def aleatoric(self) -> Array:
        """E[Var[y | f]]."""
        return _moments(self)[1]

    @property
    def epistemic(self) -> Array:
        """Var[E[y | f]]."""
        return _moments(self)[2]

    @property
    def total(self) -> Array:
        """aleatoric + epistemic."""
        _, aleatoric, epistemic = _moments(self)
        return aleatoric + epistemic

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the batch of queries."""
        return self.latent.shape

    def log_prob(self, y: Numeric) -> Array:
        """log N(g(y) | μ, σ²) + log g'(y); -∞ where g is not defined."""
        at, inside = self._within(y)
        return jnp.where(inside, self.latent.log_prob(self.warp(at)) + self.warp.log_slope(at), -jnp.inf)

    def cdf(self, y: Numeric) -> Array:
        """Φ((g(y) - μ)/σ)."""
        at, inside = self._within(y)
        return jnp.where(inside, self.latent.cdf(self.warp(at)), 0.0)

    def entropy(self) -> Array:
        """H[z] - E[log g'(y)], z = g(y)."""
        return _entropy(self)

    def _within(self, y: Numeric) -> tuple[Array, Array]:
        """y, the median in the place of what g is not defined at, and where it is."""
        given = jnp.asarray(y, float)
        inside = self.warp.inside(given)
        return jnp.where(inside, given, self.warp.inverse(self.latent.mean)), inside

    def _quantile(self, q: Array) -> Array:
        return self.warp.inverse(self.latent._quantile(q))

    def _draw(self, key: PRNGKeyArray) -> Array:
        return self.warp.inverse(self.latent._draw(key))

    def marginal(self: W) -> W:
        """Without the covariance between queries."""
        return changed(self, latent=self.latent.marginal())

    def __getitem__(self: W, index: Index) -> W:
        """The predictions at some of the queries."""
        return changed(self, latent=self.latent[index])


@eqx.filter_jit
def _moments(p: Warped) -> tuple[Array, Array, Array]:
    """Mean, aleatoric and epistemic variance of y."""
    function, noise = jnp.sqrt(jnp.maximum(p.latent.epistemic, 0.0)), jnp.sqrt(p.latent.aleatoric)
    x, w = jnp.asarray(_X), jnp.asarray(_W)

    def given(at: Array) -> tuple[Array, Array]:
        """E[y | f] and Var[y | f]."""
        y = p.warp.inverse(p.latent.mean + function * at + noise * x.reshape(-1, *[1] * function.ndim))
        mean = jnp.tensordot(w, y, 1)
        return mean, jnp.tensordot(w, jnp.square(y - mean), 1)

    means, variances = jax.lax.map(given, x)
    mean = jnp.tensordot(w, means, 1)
    return mean, jnp.tensordot(w, variances, 1), jnp.tensordot(w, jnp.square(means - mean), 1)


@eqx.filter_jit
def _entropy(p: Warped) -> Array:
    y = p.warp.inverse(p.latent.mean + p.latent.std * jnp.asarray(_X).reshape(-1, *[1] * p.latent.mean.ndim))
    return p.latent.entropy() - jnp.tensordot(jnp.asarray(_W), p.warp.log_slope(y), 1)
