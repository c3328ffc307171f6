"""Positive outcomes whose logarithm is normal: what adds in logarithms multiplies in the outcome's own units."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.scipy import special, stats
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core.predictive.base import Predictive, to_array
from credo.core.predictive.real import Normal


class LogNormal(Predictive):
    """log y ~ N(location, noise + latent), so that y > 0: everything but the fields is in the units of y.

    `noise` and `latent` are variances of log y: of the outcome given the function, and of the function. Of
    y = e^(f + ε) the law of total variance leaves

        E[Var[y | f]] = (e^noise - 1) e^(2·location + noise + 2·latent)
        Var[E[y | f]] = (e^latent - 1) e^(2·location + noise + latent)

    `covariance` is the joint covariance of f at the queries. Johnson, Kotz & Balakrishnan (1994), chapter 14.
    """

    location: Float[Array, "*m"] = eqx.field(converter=to_array)
    noise: Float[Array, "*m"] = eqx.field(converter=to_array)
    latent: Float[Array, "*m"] = eqx.field(converter=to_array)
    covariance: Float[Array, "q q"] | None = None

    @classmethod
    def of(cls, log: Normal) -> "LogNormal":
        """The law of y from that of log y."""
        return cls(log.mean, log.aleatoric, log.epistemic, log.covariance)

    @property
    def log(self) -> Normal:
        """The law of log y."""
        return Normal(self.location, self.noise, self.latent, self.covariance)

    @property
    def scale(self) -> Array:
        """The standard deviation of log y."""
        return jnp.sqrt(self.noise + self.latent)

    @property
    def mean(self) -> Array:
        """e^(location + (noise + latent)/2), above the median e^location."""
        return jnp.exp(self.location + 0.5 * (self.noise + self.latent))

    @property
    def aleatoric(self) -> Array:
        """E[Var[y | f]]."""
        return jnp.expm1(self.noise) * jnp.exp(2 * self.location + self.noise + 2 * self.latent)

    @property
    def epistemic(self) -> Array:
        """Var[E[y | f]]."""
        return jnp.expm1(self.latent) * jnp.exp(2 * self.location + self.noise + self.latent)

    def log_prob(self, y: Any) -> Array:
        """log N(log y | location, noise + latent) - log y; -∞ for y ≤ 0."""
        y = jnp.asarray(y, float)
        log = jnp.log(jnp.where(y > 0, y, 1.0))
        return jnp.where(y > 0, stats.norm.logpdf(log, self.location, self.scale) - log, -jnp.inf)

    def cdf(self, y: Any) -> Array:
        """Φ((log y - location)/scale)."""
        y = jnp.asarray(y, float)
        log = jnp.log(jnp.where(y > 0, y, 1.0))
        return jnp.where(y > 0, stats.norm.cdf(log, self.location, self.scale), 0.0)

    def entropy(self) -> Array:
        """location + ½ log 2πe(noise + latent)."""
        return self.location + self.log.entropy()

    def _quantile(self, q: Array) -> Array:
        return jnp.exp(self.location + self.scale * special.ndtri(q))

    def _draw(self, key: PRNGKeyArray) -> Array:
        return jnp.exp(self.log._draw(key))

    def marginal(self) -> "LogNormal":
        """Without the covariance between queries."""
        return LogNormal(self.location, self.noise, self.latent)
