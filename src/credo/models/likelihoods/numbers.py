"""Counts and real numbers: Poisson, negative binomial, Student-t."""

from functools import partial
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace, special
from credo.core.checks import ArrayLike, check_counts, check_vector
from credo.core.params import number, positive
from credo.core.special import LOG_2PI, log_rising, softplus
from credo.models.likelihoods.base import Likelihood, Terms, average


class Counts(Likelihood):
    """What likelihoods of counts share: E[y] = μ = e^η; an exposure t adds log t to η."""

    counts: ClassVar[bool] = True

    def encode(self, y: ArrayLike) -> Array:
        """Counts, checked."""
        return check_counts(y, "y")

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """e^η."""
        return namespace(eta).exp(eta)

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """The log of the mean count; all zeros are half a count."""
        xp = namespace(y, w)
        return self, xp.log(xp.maximum(xp.sum(w * y), 0.5) / xp.sum(w))


class Poisson(Counts):
    """y ~ Poisson(e^η)."""

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "..."]:
        """yη - e^η - log y!."""
        with np.errstate(over="ignore"):
            return y * eta - namespace(eta, y).exp(eta) - special(y).gammaln(y + 1)

    def terms(self, z: Float[Array, "*n 1"], y: Float[Array, "*m"]) -> Terms:
        """y - μ and μ."""
        with np.errstate(over="ignore"):
            mu = namespace(z, y).exp(z)
        value = y * z[..., 0] - mu[..., 0] - special(y).gammaln(y + 1)
        return value, y[..., None] - mu, mu[..., None]

    def curvature_slope(self, z: Float[Array, "*n 1"], y: Float[Array, "*m"], spread: Float[Array, "*n 1 1"]) -> Array:
        """μ."""
        return namespace(z, spread).exp(z) * spread[..., 0]


class NegativeBinomial(Counts):
    """E[y] = μ = e^η, Var[y] = μ + αμ²: counts more spread than a Poisson's. Hilbe (2011), NB2.

    log α ~ N(0, 2²) before data; ψ = log α.
    """

    dispersion: Float[Array, "*b"] = positive(0.5)

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "..."]:
        """log Γ(y + r)/(Γ(r) y!) + y log(αμ) - (y + r) log(1 + αμ), r = 1/α."""
        r, log_odds = 1 / self.dispersion, namespace(self).log(self.dispersion) + eta
        return log_rising(r, y) - special(y).gammaln(y + 1) - r * softplus(log_odds) - y * softplus(-log_odds)

    def log_prior(self) -> Float[Array, "*b"]:
        """log α ~ N(0, 2²)."""
        psi = namespace(self).log(self.dispersion)
        return -0.5 * (psi**2 / 4 + LOG_2PI + np.log(4.0)) - psi

    def terms(self, z: Float[Array, "*n 2"], y: Float[Array, "*m"]) -> Terms:
        """With p = σ(log αμ): y - (y + r)p and (y + r)p(1 - p) in η; ψ moves r by -r and log αμ by 1."""
        xp, (r, odds, p, bend) = namespace(z, y), self._parts(z)
        first, second = _rising(0, r, y), _rising(1, r, y)
        soft, total = softplus(odds), r + y
        value = NegativeBinomial(1 / r).log_prob(z[..., 1], y)
        gradient = xp.stack([r * (soft - first) + y - total * p, y - total * p], axis=-1)
        own, cross = r * (first + r * second - soft + 2 * p) - total * bend, r * p - total * bend
        curvature = -xp.stack([own, cross, cross, -total * bend], axis=-1)
        return value, gradient, curvature.reshape(*odds.shape, 2, 2)

    def curvature_slope(self, z: Float[Array, "*n 2"], y: Float[Array, "*m"], spread: Float[Array, "*n 2 2"]) -> Array:
        """The third derivatives, likewise."""
        xp, (r, odds, p, bend) = namespace(z, y), self._parts(z)
        first, second, third = (_rising(order, r, y) for order in range(3))
        twist = (r + y) * bend * (1 - 2 * p)
        own = r * (softplus(odds) - 3 * p + 3 * bend - first - 3 * r * second - r**2 * third) - twist
        cross, both, eta = r * (2 * bend - p) - twist, r * bend - twist, -twist
        s00, s01, s11 = spread[..., 0, 0], spread[..., 0, 1], spread[..., 1, 1]
        by_psi = own * s00 + 2 * cross * s01 + both * s11
        return -xp.stack([by_psi, cross * s00 + 2 * both * s01 + eta * s11], axis=-1)

    def _parts(self, z: Array) -> tuple[Array, Array, Array, Array]:
        """r, log αμ, p and p(1 - p)."""
        odds, expit = z[..., 0] + z[..., 1], special(z).expit
        return namespace(z).exp(-z[..., 0]), odds, expit(odds), expit(odds) * expit(-odds)

    def own_terms(self, psi: Float[Array, "*n 1"]) -> Terms:
        """-ψ²/8."""
        xp, value = namespace(psi), -0.5 * (psi[..., 0] ** 2 / 4 + LOG_2PI + np.log(4.0))
        return value, -psi / 4, xp.full((*psi.shape, 1), 0.25)

    def own_curvature_slope(self, psi: Float[Array, "*n 1"], spread: Float[Array, "*n 1 1"]) -> Float[Array, "*n 1"]:
        """A square has none."""
        return 0 * psi


class StudentT(Likelihood):
    """y = η + ε, ε ~ t_df(0, scale²): outliers are expected. `df` is given, not learned.

    scale² ~ InverseGamma(0.01, (0.001 · range)²) before data: of any size, but not below a thousandth of the range of
    y, so that rows which are fitted exactly do not draw it to zero. ψ = log scale.
    """

    df: Float[Array, ""] = number(4.0)
    scale: Float[Array, "*b"] = positive(1.0)
    range: Float[Array, ""] = number(1.0)

    def adapt(self, y: ArrayLike) -> "Likelihood":
        """With the range of y."""
        values = check_vector(y, "y")
        xp = namespace(values)
        width, largest = xp.ptp(values), xp.max(abs(values))
        return StudentT(self.df, self.scale, xp.where(width > 0, width, xp.where(largest > 0, largest, 1.0)))

    def encode(self, y: ArrayLike) -> Array:
        """Real numbers, checked."""
        return check_vector(y, "y")

    def unit(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> Float[Array, ""]:
        """The standard deviation of y."""
        xp = namespace(self, y, w)
        return xp.maximum(xp.sqrt(average((y - average(y, w)) ** 2, w)), 1e-3 * self.range)

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "..."]:
        """The log density of Student's t."""
        xp, gammaln, df = namespace(self, eta, y), special(self).gammaln, self.df
        peak = gammaln(0.5 * (df + 1)) - gammaln(0.5 * df) - 0.5 * xp.log(np.pi * df * self.scale**2)
        return peak - 0.5 * (df + 1) * xp.log1p(((y - eta) / self.scale) ** 2 / df)

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """η."""
        return eta

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """The mean, and most of the deviation, of y."""
        xp, center = namespace(self, y, w), average(y, w)
        spread = xp.sqrt(average((y - center) ** 2, w))
        return StudentT(self.df, xp.maximum(0.7 * spread, 1e-3 * self.range), self.range), center

    def log_prior(self) -> Float[Array, "*b"]:
        """scale² ~ InverseGamma(a, b)."""
        log_scale = namespace(self).log(self.scale)
        return self.own_terms(log_scale[..., None])[0] - log_scale

    def terms(self, z: Float[Array, "*n 2"], y: Float[Array, "*m"]) -> Terms:
        """With t = (y - η)/scale, ∂t/∂ψ = -t and ∂t/∂η = -1/scale, and g(t) the log density but for its scale."""
        xp, (scale, t, g1, g2, _) = namespace(self, z, y), self._parts(z, y)
        value = StudentT(self.df, scale).log_prob(z[..., 1], y)
        gradient = xp.stack([-1 - t * g1, -g1 / scale], axis=-1)
        both = g1 + t * g2
        curvature = -xp.stack([t * both, both / scale, both / scale, g2 / scale**2], axis=-1)
        return value, gradient, curvature.reshape(*t.shape, 2, 2)

    def curvature_slope(self, z: Float[Array, "*n 2"], y: Float[Array, "*m"], spread: Float[Array, "*n 2 2"]) -> Array:
        """The third derivatives, likewise."""
        xp, (scale, t, g1, g2, g3) = namespace(self, z, y), self._parts(z, y)
        own, both = g1 + 3 * t * g2 + t**2 * g3, (2 * g2 + t * g3) / scale**2
        s00, s01, s11 = spread[..., 0, 0], spread[..., 0, 1], spread[..., 1, 1]
        by_psi = t * own * s00 + 2 * own / scale * s01 + both * s11
        return xp.stack([by_psi, own / scale * s00 + 2 * both * s01 + g3 / scale**3 * s11], axis=-1)

    def _parts(self, z: Array, y: Array) -> tuple[Array, Array, Array, Array, Array]:
        """The scale, t, and the derivatives of g(t) = -½(df + 1) log(1 + t²/df)."""
        scale, df = namespace(z).exp(z[..., 0]), self.df
        t = (y - z[..., 1]) / scale
        base, m = df + t**2, df + 1
        return scale, t, -m * t / base, -m * (df - t**2) / base**2, 2 * m * t * (3 * df - t**2) / base**3

    def own_terms(self, psi: Float[Array, "*n 1"]) -> Terms:
        """-2aψ - be^-2ψ and a constant, with a = 0.01 and b = (0.001 · range)²."""
        xp, a, b = namespace(self, psi), 0.01, (1e-3 * self.range) ** 2
        rest = b * xp.exp(-2 * psi)
        value = a * xp.log(b) - special(self).gammaln(a) + np.log(2.0) - 2 * a * psi[..., 0] - rest[..., 0]
        return value, 2 * (rest - a), 4 * rest[..., None]

    def own_curvature_slope(self, psi: Float[Array, "*n 1"], spread: Float[Array, "*n 1 1"]) -> Float[Array, "*n 1"]:
        """-8be^-2ψ."""
        return -8 * (1e-3 * self.range) ** 2 * namespace(self, psi).exp(-2 * psi) * spread[..., 0]


def _rising(order: int, r: Float[Array, "*n"], y: Float[Array, "*m"]) -> Float[Array, "*n"]:
    """The derivatives of log Γ(r + y)/Γ(r) by r: ψ(r + y) - ψ(r), and the same of ψ' and ψ''."""
    functions = special(r, y)
    polygamma = partial(functions.polygamma, order) if order else functions.digamma
    return polygamma(r + y) - polygamma(r)
