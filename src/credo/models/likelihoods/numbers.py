"""Counts and real numbers: Poisson, negative binomial, Student-t."""

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
        """The log of the mean count."""
        return self, namespace(y, w).log(average(y, w) + 1e-3)


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
        first, second, _ = rising_slopes(r, y)
        soft, total = softplus(odds), r + y
        value = NegativeBinomial(1 / r).log_prob(z[..., 1], y)
        gradient = xp.stack([r * (soft - first) + y - total * p, y - total * p], axis=-1)
        own, cross = r * (first + r * second - soft + 2 * p) - total * bend, r * p - total * bend
        curvature = -xp.stack([own, cross, cross, -total * bend], axis=-1)
        return value, gradient, curvature.reshape(*odds.shape, 2, 2)

    def curvature_slope(self, z: Float[Array, "*n 2"], y: Float[Array, "*m"], spread: Float[Array, "*n 2 2"]) -> Array:
        """The third derivatives, likewise."""
        xp, (r, odds, p, bend) = namespace(z, y), self._parts(z)
        first, second, third = rising_slopes(r, y)
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
        width = xp.maximum(xp.ptp(values), 1e-3 * xp.max(abs(values)))
        return StudentT(self.df, self.scale, xp.where(width > 0, width, 1.0))

    def encode(self, y: ArrayLike) -> Array:
        """Real numbers, checked."""
        return check_vector(y, "y")

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


SHIFT = 8
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)
"""B₂, B₄, … of Stirling's series, good to 1e-14 beyond 8."""


def rising_slopes(a: Float[Array, "*n"], y: Float[Array, "*m"]) -> tuple[Array, Array, Array]:
    """The first three derivatives of log Γ(a + y)/Γ(a) by a: ψ(a + y) - ψ(a), and so on with ψ' and ψ''.

    As in `log_rising`: Stirling's series at a + 8, subtracted term by term, and the recurrence from there.
    """
    xp = namespace(a, y)
    z, e, j = a + SHIFT, a + SHIFT + y, np.arange(float(SHIFT))
    powers = [(2 * k, b, e ** (-2 * k) - z ** (-2 * k)) for k, b in enumerate(BERNOULLI, 1)]
    odd = [(2 * k, b, e ** (-2 * k - 1) - z ** (-2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)]
    even = [(2 * k, b, e ** (-2 * k - 2) - z ** (-2 * k - 2)) for k, b in enumerate(BERNOULLI, 1)]
    low, high = 1 / (a[..., None] + j), 1 / ((a + y)[..., None] + j)
    first = xp.log1p(y / z) + y / (2 * z * e) - sum(b / k * v for k, b, v in powers)
    second = -y / (z * e) - y * (z + e) / (2 * (z * e) ** 2) + sum(b * v for _, b, v in odd)
    third = y * (z + e) / (z * e) ** 2 + z**-3 - e**-3 - sum((k + 1) * b * v for k, b, v in even)
    shifted = [(low**p - high**p).sum(-1) for p in (1, 2, 3)]
    return first + shifted[0], second - shifted[1], third + 2 * shifted[2]
