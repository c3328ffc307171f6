"""Counts and real numbers: Poisson, negative binomial, Student-t."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special, stats
from jaxtyping import Float
from scipy.special import gammaln

from credo.core.arrays import Array, is_traced
from credo.core.checks import check_counts, check_vector
from credo.core.params import number, positive
from credo.core.special import log_rising, softplus
from credo.models.likelihoods.base import ClosedForm, Likelihood, Numbers, average


class Counts(Likelihood):
    """What likelihoods of counts share: E[y] = μ = e^η; an exposure t adds log t to η."""

    counts: ClassVar[bool] = True

    def encode(self, y: Any) -> Any:
        """Counts, checked."""
        return check_counts(y, "y")

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """e^η."""
        return jnp.exp(eta)

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """The log of the mean count."""
        return self, jnp.log(average(y, w) + 1e-3)


class Poisson(Counts, ClosedForm):
    """y ~ Poisson(e^η)."""

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """yη - e^η - log y!."""
        return y * eta - jnp.exp(eta) - special.gammaln(y + 1)

    def terms(self, eta: Float[Numbers, " n"], y: Float[Numbers, " n"]) -> tuple[Numbers, Numbers, Numbers]:
        """y - μ and μ."""
        mu = self.curvature_slope(eta, y)
        log_factorial = gammaln(y + 1) if isinstance(eta, np.ndarray) else special.gammaln(y + 1)
        return y * eta - mu - log_factorial, y - mu, mu

    def curvature_slope(self, eta: Float[Numbers, " n"], y: Float[Numbers, " n"]) -> Numbers:
        """μ."""
        with np.errstate(over="ignore"):
            return np.exp(eta) if isinstance(eta, np.ndarray) else jnp.exp(eta)


class NegativeBinomial(Counts):
    """E[y] = μ = e^η, Var[y] = μ + αμ²: counts more spread than a Poisson's. Hilbe (2011), NB2.

    log α ~ N(0, 2²) before data.
    """

    dispersion: Float[Array, ""] = positive(0.5)

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """log Γ(y + r)/(Γ(r) y!) - r log(1 + αμ) + y log(αμ/(1 + αμ)), r = 1/α."""
        r, log_odds = 1 / self.dispersion, jnp.log(self.dispersion) + eta
        rising = _rising(*jnp.broadcast_arrays(r, y)) - special.gammaln(y + 1)
        return rising - r * softplus(log_odds) + y * jax.nn.log_sigmoid(log_odds)

    def log_prior(self) -> Float[Array, ""]:
        """log α ~ N(0, 2²)."""
        return stats.norm.logpdf(jnp.log(self.dispersion), 0.0, 2.0) - jnp.log(self.dispersion)


class StudentT(Likelihood):
    """y = η + ε, ε ~ t_df(0, scale²): outliers are expected. `df` is given, not learned.

    scale² ~ InverseGamma(0.01, (0.001 · range)²) before data: of any size, but not below a thousandth of the range of
    y, so that rows which are fitted exactly do not draw it to zero.
    """

    df: Float[Array, ""] = number(4.0)
    scale: Float[Array, ""] = positive(1.0)
    range: Float[Array, ""] = number(1.0)

    def adapt(self, y: Any) -> "Likelihood":
        """With the range of y."""
        values = jnp.asarray(y) if is_traced(y) else jnp.asarray(check_vector(y, "y"))
        width = jnp.maximum(jnp.ptp(values), 1e-3 * jnp.max(jnp.abs(values)))
        return StudentT(self.df, self.scale, jnp.where(width > 0, width, 1.0))

    def encode(self, y: Any) -> Any:
        """Real numbers, checked."""
        return check_vector(y, "y")

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The log density of Student's t."""
        return stats.t.logpdf(y, self.df, eta, self.scale)

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """η."""
        return eta

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """The mean, and most of the deviation, of y."""
        center = average(y, w)
        spread = jnp.sqrt(average((y - center) ** 2, w))
        return StudentT(self.df, jnp.maximum(0.7 * spread, 1e-3 * self.range), self.range), center

    def log_prior(self) -> Float[Array, ""]:
        """scale² ~ InverseGamma(a, b)."""
        a, b, square = 0.01, (1e-3 * self.range) ** 2, self.scale**2
        log_density = a * jnp.log(b) - special.gammaln(a) - (a + 1) * jnp.log(square) - b / square
        return log_density + jnp.log(2 * self.scale)


# -- log Γ(r + y)/Γ(r) with derivatives that compile quickly ------------------------------------------------------

SHIFT = 8
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)
"""B₂, B₄, … of Stirling's series, good to 1e-14 beyond 8."""


@jax.custom_jvp
def _rising(a: Float[Array, "*n"], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log Γ(a + y)/Γ(a)."""
    return log_rising(a, y)


@jax.custom_jvp
def _slope(a: Float[Array, "*n"], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Its derivative ψ(a + y) - ψ(a)."""
    z, e = a + SHIFT, a + SHIFT + y
    rest = [b / (2 * k) * (e ** (-2 * k) - z ** (-2 * k)) for k, b in enumerate(BERNOULLI, 1)]
    return jnp.log1p(y / z) + y / (2 * z * e) - sum(rest) + _shifted(a, y, 1)


@jax.custom_jvp
def _bend(a: Float[Array, "*n"], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The second, ψ'(a + y) - ψ'(a)."""
    z, e = a + SHIFT, a + SHIFT + y
    rest = [b * (e ** (-2 * k - 1) - z ** (-2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)]
    return -y / (z * e) - y * (z + e) / (2 * (z * e) ** 2) + sum(rest) - _shifted(a, y, 2)


def _twist(a: Float[Array, "*n"], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The third, ψ''(a + y) - ψ''(a)."""
    z, e = a + SHIFT, a + SHIFT + y
    rest = [(2 * k + 1) * b * (e ** (-2 * k - 2) - z ** (-2 * k - 2)) for k, b in enumerate(BERNOULLI, 1)]
    return y * (z + e) / (z * e) ** 2 + z**-3 - e**-3 - sum(rest) + 2 * _shifted(a, y, 3)


def _shifted(a: Array, y: Array, power: int) -> Array:
    """Σ_{j<8} (a + j)^-power - (a + y + j)^-power: what the recurrence takes from the series."""
    j = jnp.arange(float(SHIFT))
    return jnp.sum((a[..., None] + j) ** -power - (a[..., None] + y[..., None] + j) ** -power, axis=-1)


_rising.defjvps(lambda t, _, a, y: _slope(a, y) * t, None)
_slope.defjvps(lambda t, _, a, y: _bend(a, y) * t, None)
_bend.defjvps(lambda t, _, a, y: _twist(a, y) * t, None)
