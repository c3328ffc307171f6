"""Positive outcomes whose logarithm is normal: what adds in logarithms multiplies in the outcome's own units."""

from typing import ClassVar

from jaxtyping import Float

from credo.core.arrays import Array, Numeric, as_float, namespace
from credo.core.loops import quiet
from credo.core.predictive.real import Normal
from credo.core.predictive.warped import Warp, Warped


class Logarithm(Warp):
    """g(y) = log y, for y > 0."""

    def __call__(self, y: Array) -> Array:
        """log y."""
        return namespace(y).log(y)

    def inverse(self, z: Array) -> Array:
        """eᶻ."""
        return namespace(z).exp(z)

    def log_slope(self, y: Array) -> Array:
        """-log y."""
        return -namespace(y).log(y)

    def inside(self, y: Array) -> Array:
        """y > 0."""
        return y > 0


class LogNormal(Warped):
    """log y ~ N(location, noise + latent), so that y > 0: the law `Warped` by the logarithm, with its moments closed.

    `noise` and `latent` are variances of log y: of the outcome given the function, and of the function. Of
    y = e^(f + ε) the law of total variance leaves

        E[Var[y | f]] = (e^noise - 1) e^(2·location + noise + 2·latent)
        Var[E[y | f]] = (e^latent - 1) e^(2·location + noise + latent)

    `covariance` is the joint covariance of f at the queries. Johnson, Kotz & Balakrishnan (1994), chapter 14.
    """

    elementwise: ClassVar[bool] = True

    def __init__(
        self, location: Numeric, noise: Numeric, latent: Numeric, covariance: Float[Array, "q q"] | None = None
    ):
        super().__init__(Normal(as_float(location), as_float(noise), as_float(latent), covariance), Logarithm())

    @classmethod
    def of(cls, log: Normal) -> "LogNormal":
        """The law of y from that of log y."""
        return cls(log.mean, log.aleatoric, log.epistemic, log.latent_covariance)

    @property
    def log(self) -> Normal:
        """The law of log y."""
        return self.latent

    @property
    def location(self) -> Array:
        """The mean of log y."""
        return self.latent.mean

    @property
    def scale(self) -> Array:
        """The standard deviation of log y."""
        return self.latent.std

    @property
    @quiet
    def mean(self) -> Array:
        """e^(location + (noise + latent)/2), above the median e^location."""
        return namespace(self).exp(self.location + 0.5 * self.latent.variance)

    @property
    @quiet
    def aleatoric(self) -> Array:
        """E[Var[y | f]]."""
        noise, latent, xp = self.latent.aleatoric, self.latent.epistemic, namespace(self)
        return xp.expm1(noise) * xp.exp(2 * self.location + noise + 2 * latent)

    @property
    @quiet
    def epistemic(self) -> Array:
        """Var[E[y | f]]."""
        noise, latent, xp = self.latent.aleatoric, self.latent.epistemic, namespace(self)
        return xp.expm1(latent) * xp.exp(2 * self.location + noise + latent)

    def entropy(self) -> Array:
        """location + ½ log 2πe(noise + latent)."""
        return self.location + self.latent.entropy()
