"""Real outcomes: Normal, Student-t, Laplace, and the multivariate Student-t."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, Numeric, as_float, namespace, special
from credo.core.gaussian import Gaussian
from credo.core.linalg import factorize, log_determinant, quadratic
from credo.core.loops import invert_cdf, quiet
from credo.core.predictive.base import Marginals, Predictive, optional_float
from credo.core.special import LOG_2PI, log_beta


class Normal(Predictive):
    """y ~ N(mean, aleatoric + epistemic).

    `latent_covariance` is the joint covariance of the latent function at the queries, where it is known; its
    diagonal is the epistemic variance. For a table of outcomes it is over the table read row by row.
    """

    mean: Float[Array, "*m"] = eqx.field(converter=as_float)
    aleatoric: Float[Array, "*m"] = eqx.field(converter=as_float)
    epistemic: Float[Array, "*m"] = eqx.field(converter=as_float)
    latent_covariance: Float[Array, "q q"] | None = eqx.field(converter=optional_float, default=None)

    @quiet
    def log_prob(self, y: Numeric) -> Array:
        """-½ log 2πv - (y - μ)²/(2v)."""
        v = self.variance
        return -0.5 * (LOG_2PI + namespace(v).log(v) + (as_float(y) - self.mean) ** 2 / v)

    @quiet
    def cdf(self, y: Numeric) -> Array:
        """Φ((y - μ)/√v)."""
        z = (as_float(y) - self.mean) / self.std
        return special(z).ndtr(z)

    @quiet
    def entropy(self) -> Array:
        """½ log 2πe v."""
        return 0.5 * (1 + LOG_2PI + namespace(self).log(self.variance))

    def _quantile(self, q: Array) -> Array:
        return self.mean + self.std * special(q).ndtri(q)

    def _draw(self, key: PRNGKeyArray) -> Array:
        return self.mean + _deviation(key, self.aleatoric, self.epistemic, self.latent_covariance)

    def joint(self, noise: bool = True) -> Gaussian:
        """All outcomes together, or the latent function values where `noise` is False."""
        xp = namespace(self)
        latent = xp.diag(self.epistemic.ravel()) if self.latent_covariance is None else self.latent_covariance
        return Gaussian(self.mean.ravel(), latent + xp.diag(self.aleatoric.ravel()) if noise else latent)

    def marginal(self) -> "Normal":
        """Without the covariance between queries."""
        return Normal(self.mean, self.aleatoric, self.epistemic)


class StudentT(Predictive):
    """y ~ t_df(mean, noise + latent): what remains when an unknown noise variance is integrated out.

    `noise` and `latent` are squared scales; the variances are df/(df - 2) times as large (infinite for
    df ≤ 2). `latent_scale` is the joint scale matrix of the latent function. Murphy (2012), eq. 7.76.
    """

    df: Float[Array, "*m"] = eqx.field(converter=as_float)
    mean: Float[Array, "*m"] = eqx.field(converter=as_float)
    noise: Float[Array, "*m"] = eqx.field(converter=as_float)
    latent: Float[Array, "*m"] = eqx.field(converter=as_float)
    latent_scale: Float[Array, "q q"] | None = eqx.field(converter=optional_float, default=None)

    @property
    def scale(self) -> Array:
        """√(noise + latent)."""
        return namespace(self).sqrt(self.noise + self.latent)

    @property
    def aleatoric(self) -> Array:
        """E[σ²] = noise · df/(df - 2)."""
        return _variance_from_scale(self.df, self.noise)

    @property
    def epistemic(self) -> Array:
        """latent · df/(df - 2)."""
        return _variance_from_scale(self.df, self.latent)

    @quiet
    def log_prob(self, y: Numeric) -> Array:
        """log of (1 + z²/ν)^(-(ν+1)/2) / (√ν B(ν/2, ½) s), z = (y - μ)/s."""
        z = (as_float(y) - self.mean) / self.scale
        return student_log_density(z, self.df) - namespace(z).log(self.scale)

    @quiet
    def cdf(self, y: Numeric) -> Array:
        """P(Y ≤ y), through the regularized incomplete beta function."""
        return student_cdf((as_float(y) - self.mean) / self.scale, self.df)

    @quiet
    def entropy(self) -> Array:
        """(ν+1)/2 · (ψ((ν+1)/2) - ψ(ν/2)) + log(√ν B(ν/2, ½)) + log s."""
        xp, digamma, half = namespace(self), special(self).digamma, self.df / 2
        spread = (half + 0.5) * (digamma(half + 0.5) - digamma(half))
        return spread + xp.log(self.scale) - student_log_density(xp.zeros_like(half), self.df)

    def _quantile(self, q: Array) -> Array:
        return self.mean + self.scale * student_quantile(q, self.df)

    def _draw(self, key: PRNGKeyArray) -> Array:
        k_mix, k_deviation = jr.split(key)
        # Jointly Student-t: one precision for all queries when the belief knows how they covary.
        shape = () if self.latent_scale is not None else self.mean.shape
        mix = 2 * jr.gamma(k_mix, jnp.broadcast_to(self.df.ravel()[0] if shape == () else self.df, shape) / 2)
        scale = jnp.sqrt((self.df if shape else self.df.ravel()[0]) / mix)
        return self.mean + scale * _deviation(k_deviation, self.noise, self.latent, self.latent_scale)

    def marginal(self) -> "StudentT":
        """Without the covariance between queries."""
        return StudentT(self.df, self.mean, self.noise, self.latent)


class Laplace(Predictive):
    """p(y) = exp(-|y - mean|/scale) / (2 scale), the noise of least absolute deviations."""

    mean: Float[Array, "*m"] = eqx.field(converter=as_float)
    scale: Float[Array, "*m"] = eqx.field(converter=as_float)

    @property
    def aleatoric(self) -> Array:
        """2 scale²."""
        return 2 * self.scale**2

    @property
    def epistemic(self) -> Array:
        """Zero: the mean is taken as known."""
        return namespace(self).zeros_like(self.mean)

    @quiet
    def log_prob(self, y: Numeric) -> Array:
        """-|y - μ|/b - log 2b."""
        z = (as_float(y) - self.mean) / self.scale
        xp = namespace(z)
        return -xp.abs(z) - xp.log(2 * self.scale)

    @quiet
    def cdf(self, y: Numeric) -> Array:
        """½ exp((y - μ)/b) below the mean, one minus its mirror image above."""
        z = (as_float(y) - self.mean) / self.scale
        xp = namespace(z)
        tail = 0.5 * xp.exp(-xp.abs(z))
        return xp.where(z > 0, 1 - tail, tail)

    @quiet
    def entropy(self) -> Array:
        """log 2be."""
        return namespace(self).log(2 * self.scale) + 1

    def _quantile(self, q: Array) -> Array:
        xp, side = namespace(self, q), q - 0.5
        return self.mean - self.scale * xp.sign(side) * xp.log1p(-2 * xp.abs(side))

    def _draw(self, key: PRNGKeyArray) -> Array:
        return self.mean + self.scale * jr.laplace(key, self.mean.shape)


class MultivariateT(Marginals):
    """A vector y ~ t_df(mean, noise + latent) with d coordinates that covary.

    Every question but `log_prob`, `entropy` and `sample` is answered for each coordinate on its own.
    """

    df: Float[Array, ""] = eqx.field(converter=as_float)
    mean: Float[Array, " d"] = eqx.field(converter=as_float)
    noise: Float[Array, "d d"] = eqx.field(converter=as_float)
    latent: Float[Array, "d d"] = eqx.field(converter=as_float)

    @property
    def marginals(self) -> StudentT:
        """Each coordinate on its own."""
        xp = namespace(self)
        return StudentT(xp.broadcast_to(self.df, self.mean.shape), self.mean, xp.diag(self.noise), xp.diag(self.latent))

    def log_prob(self, y: Numeric) -> Array:
        """log t_df(y | mean, noise + latent): one number for a vector (d,), n for a table (n, d)."""
        deviation = as_float(y) - self.mean
        root, half, highest = self._shape()
        distance = quadratic(root, deviation.T)
        return highest - half * namespace(distance, half).log1p(distance / self.df)

    def entropy(self) -> Array:
        """The joint entropy of the vector: E[-log p] with E[log(1 + δ/ν)] = ψ((ν+d)/2) - ψ(ν/2)."""
        _, half, highest = self._shape()
        digamma = special(half).digamma
        return half * (digamma(half) - digamma(self.df / 2)) - highest

    def _shape(self) -> tuple[Array, Array, Array]:
        """The factor of the scale matrix, (ν+d)/2, and log p at the mean."""
        root, d = factorize(self.noise + self.latent).root, self.mean.shape[0]
        half = (self.df + d) / 2
        ratio = special(half).gammaln(half) - special(half).gammaln(self.df / 2)
        return root, half, ratio - 0.5 * d * namespace(half).log(self.df * np.pi) - 0.5 * log_determinant(root)

    def _draw(self, key: PRNGKeyArray) -> Array:
        k_mix, k_normal = jr.split(key)
        mix = 2 * jr.gamma(k_mix, self.df / 2)
        root = factorize(self.noise + self.latent).root
        return self.mean + jnp.sqrt(self.df / mix) * (root @ jr.normal(k_normal, self.mean.shape))


def student_log_density(z: Array, df: Array) -> Array:
    """The log density of the standard Student-t, -log √ν B(ν/2, ½) - (ν+1)/2 · log(1 + z²/ν)."""
    xp = namespace(z, df)
    return -log_beta(df / 2, xp.asarray(0.5)) - 0.5 * (xp.log(df) + (df + 1) * xp.log1p(z**2 / df))


def student_cdf(z: Array, df: Array) -> Array:
    """The standard Student-t distribution function."""
    xp = namespace(z, df)
    # Near the center the tail's argument rounds to 1: there the mass between 0 and z is the accurate one.
    near = xp.abs(z) < 1
    a, b = xp.where(near, 0.5, df / 2), xp.where(near, df / 2, 0.5)
    mass = 0.5 * special(a).betainc(a, b, xp.where(near, z**2, df) / (df + z**2))
    return xp.where(near, 0.5 + xp.sign(z) * mass, xp.where(z > 0, 1 - mass, mass))


def student_quantile(q: Array, df: Array) -> Array:
    """The standard Student-t quantile, by a search of the lower tail in log|z|: exact far out, too."""
    xp = namespace(q, df)
    low, high = xp.full(df.shape, -40.0), xp.full(df.shape, 300.0)
    log_z = invert_cdf(lambda u: -student_cdf(-xp.exp(u), df), -xp.minimum(q, 1 - q), low, high)
    return xp.where(q == 0.5, 0.0, xp.sign(q - 0.5) * xp.exp(log_z))


def _variance_from_scale(df: Array, squared_scale: Array) -> Array:
    xp = namespace(df, squared_scale)
    factor = xp.where(df > 2, df / xp.where(df > 2, df - 2, 1.0), xp.inf)
    return xp.where(squared_scale == 0, 0.0, factor * xp.where(squared_scale == 0, 1.0, squared_scale))


def _deviation(key: PRNGKeyArray, noise: Array, latent: Array, covariance: Array | None) -> Array:
    k_latent, k_noise = jr.split(key)
    z = jr.normal(k_latent, latent.shape)
    function = jnp.sqrt(latent) * z if covariance is None else (factorize(covariance).root @ z.ravel()).reshape(z.shape)
    return function + jnp.sqrt(noise) * jr.normal(k_noise, noise.shape)
