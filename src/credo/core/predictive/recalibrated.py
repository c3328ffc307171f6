"""Predictions whose levels were corrected: P(Y ≤ y) = R(F(y)) for a prediction F and an increasing R of [0, 1].

    p(y) = p_F(y) R'(F(y)),    quantiles F⁻¹(R⁻¹(q)),    R(0) = 0, R(1) = 1

If outcomes fell below the 10 % quantile in 20 of 100 cases, R(0.1) = 0.2. Kuleshov, Fenner & Ermon (2018), "Accurate
uncertainties for deep learning using calibrated regression". `Stretched` has its spread corrected instead.
"""

import itertools
from typing import ClassVar, TypeVar

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, Numeric, as_float, namespace, special
from credo.core.loops import counts_near, invert_cdf, over_nodes, quiet
from credo.core.predictive.base import Index, Predictive, size_of
from credo.core.predictive.warped import Warp
from credo.core.pytrees import changed
from credo.core.special import log_beta

P = TypeVar("P", bound="RecalibratedCDF")

EDGE = 1e-15
"""Levels nearer to 0 and 1 are not told apart from it."""

REACH = tuple(np.linspace(-7.9, 7.9, 9))
"""Where panels of the moments' integrals are broken, in standard deviations of a normal."""

NODES, MASSES = np.polynomial.legendre.leggauss(8)


class LevelMap(Warp):
    """An increasing function R of levels in [0, 1]."""

    @property
    def breaks(self) -> Float[Array, " k"]:
        """Levels at which R' jumps."""
        return np.empty(0)

    def inverse(self, z: Array) -> Array:
        """R⁻¹, by search."""
        xp = namespace(self, z)
        return invert_cdf(self, z, xp.zeros(np.shape(z)), xp.ones(np.shape(z)))


class SteppedLevels(LevelMap):
    """Straight lines between (levels, values): an isotonic map that is continuous, with a density of steps."""

    levels: Float[Array, " k"] = eqx.field(converter=as_float)
    values: Float[Array, " k"] = eqx.field(converter=as_float)

    @property
    def breaks(self) -> Float[Array, " k"]:
        """The inner knots."""
        return self.levels[1:-1]

    def __call__(self, y: Array) -> Array:
        """R(p)."""
        return namespace(self, y).interp(y, self.levels, self.values)

    def inverse(self, z: Array) -> Array:
        """R⁻¹(q)."""
        return namespace(self, z).interp(z, self.values, self.levels)

    def log_slope(self, y: Array) -> Array:
        """The logarithm of the slope of the line."""
        xp = namespace(self, y)
        at = xp.clip(xp.searchsorted(self.levels, y, side="right") - 1, 0, len(self.levels) - 2)
        return xp.log(xp.diff(self.values) / xp.diff(self.levels))[at]


class BetaLevels(LevelMap):
    """R is the distribution function of Beta(a, b). Gneiting & Ranjan (2013), "Combining predictive distributions"."""

    a: Float[Array, ""] = eqx.field(converter=as_float)
    b: Float[Array, ""] = eqx.field(converter=as_float)

    def __call__(self, y: Array) -> Array:
        """I_p(a, b)."""
        return special(self, y).betainc(self.a, self.b, y)

    def log_slope(self, y: Array) -> Array:
        """(a - 1) log p + (b - 1) log(1 - p) - log B(a, b)."""
        xp = namespace(self, y)
        return (self.a - 1) * xp.log(y) + (self.b - 1) * xp.log1p(-y) - log_beta(self.a, self.b)


class RecalibratedCDF(Predictive):
    """R(F(y)) of a prediction F of numbers or counts.

    The corrected variance is split as the original is: the map knows of no θ. Levels of F beyond 1e-15 from 0 and 1
    are corrected as those there are.
    """

    elementwise: ClassVar[bool] = False

    inner: Predictive
    levels: LevelMap

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """Whether outcomes are whole numbers."""
        return self.inner.discrete

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the batch of queries."""
        return self.inner.shape

    def _moments(self) -> tuple[Array, Array]:
        """E[y] and Var[y]: sums over counts; for real outcomes ∫ F⁻¹(p) R'(p) dp in panels of p = Φ(z)."""
        xp = namespace(self)
        if self.discrete:
            values, _ = counts_near(self.inner.mean, self.inner.std)
            masses = xp.exp(over_nodes(xp, self.log_prob, (values,), size_of(self)))
        else:
            inside = special().ndtri(np.clip(np.asarray(self.levels.breaks), EDGE, 1 - EDGE))
            edges = np.unique(np.concatenate([REACH, inside]))
            z = np.concatenate([(a + b) / 2 + (b - a) / 2 * NODES for a, b in itertools.pairwise(edges)])
            width = np.concatenate([(b - a) / 2 * MASSES for a, b in itertools.pairwise(edges)])
            p = special().ndtr(z)
            density = width * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
            values = self.inner.quantile(np.clip(p, EDGE, 1 - EDGE))
            masses = (density * xp.exp(self.levels.log_slope(p))).reshape(-1, *[1] * len(self.shape))
        masses = masses / masses.sum(0)
        mean = (masses * values).sum(0)
        return mean, (masses * (values - mean) ** 2).sum(0)

    @property
    def mean(self) -> Array:
        """E[y]."""
        return self._moments()[0]

    @property
    def variance(self) -> Array:
        """Var[y]."""
        return self._moments()[1]

    @property
    def aleatoric(self) -> Array:
        """The share of the variance that is noise in the original prediction."""
        return self.variance * share_of_noise(self.inner)

    @property
    def epistemic(self) -> Array:
        """The rest."""
        return self.variance * (1 - share_of_noise(self.inner))

    @quiet
    def log_prob(self, y: Numeric) -> Array:
        """log p(y) + log R'(F(y)); of counts log [R(F(y)) - R(F(y - 1))]."""
        at = as_float(y)
        xp, own = namespace(self, at), self.inner.log_prob(at)
        if not self.discrete:
            return own + self.levels.log_slope(xp.clip(self.inner.cdf(at), EDGE, 1 - EDGE))
        mass = self.levels(self.inner.cdf(at)) - self.levels(self.inner.cdf(at - 1))
        return xp.where(own == -np.inf, own, xp.log(xp.maximum(mass, 0.0)))

    def cdf(self, y: Numeric) -> Array:
        """R(F(y))."""
        return self.levels(self.inner.cdf(y))

    def _quantile(self, q: Array) -> Array:
        level = self.levels.inverse(q)
        return self.inner._quantile(namespace(level).clip(level, EDGE, 1 - EDGE))

    def _draw(self, key: PRNGKeyArray) -> Array:
        if self.discrete:
            return self._quantile(jr.uniform(key, self.shape, minval=EDGE))
        level = self.inner.cdf(self.inner._draw(key))  # as the original's outcomes do, these covary
        return self._quantile(namespace(level).clip(level, EDGE, 1 - EDGE))

    def marginal(self: P) -> P:
        """Without the covariance between queries."""
        return changed(self, inner=self.inner.marginal())

    def __getitem__(self: P, index: Index) -> P:
        """The predictions at some of the queries."""
        return changed(self, inner=self.inner[index])


class Stretched(Predictive):
    """Deviations from the median, `factor` times as large: P(Y ≤ y) = F(m + (y - m)/T).

    Of a normal, T times its standard deviation. Far out in the tails, where levels are no longer told from 0 and 1, it
    is as exact as at the center.
    """

    elementwise: ClassVar[bool] = False

    inner: Predictive
    factor: Float[Array, ""] = eqx.field(converter=as_float)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the batch of queries."""
        return self.inner.shape

    def _before(self, y: Numeric) -> Array:
        center = self.inner.median
        return center + (as_float(y) - center) / self.factor

    def _after(self, y: Array) -> Array:
        center = self.inner.median
        return center + (y - center) * self.factor

    @property
    def mean(self) -> Array:
        """m + T(E[y] - m)."""
        return self._after(self.inner.mean)

    @property
    def aleatoric(self) -> Array:
        """T² times the original's."""
        return self.inner.aleatoric * self.factor**2

    @property
    def epistemic(self) -> Array:
        """T² times the original's."""
        return self.inner.epistemic * self.factor**2

    def log_prob(self, y: Numeric) -> Array:
        """log p(m + (y - m)/T) - log T."""
        return self.inner.log_prob(self._before(y)) - namespace(self).log(self.factor)

    def cdf(self, y: Numeric) -> Array:
        """F(m + (y - m)/T)."""
        return self.inner.cdf(self._before(y))

    def entropy(self) -> Array:
        """H[y] + log T."""
        return self.inner.entropy() + namespace(self).log(self.factor)

    def _quantile(self, q: Array) -> Array:
        return self._after(self.inner._quantile(q))

    def _draw(self, key: PRNGKeyArray) -> Array:
        return self._after(self.inner._draw(key))

    def marginal(self) -> "Stretched":
        """Without the covariance between queries."""
        return changed(self, inner=self.inner.marginal())

    def __getitem__(self, index: Index) -> "Stretched":
        """The predictions at some of the queries."""
        return changed(self, inner=self.inner[index])


def share_of_noise(prediction: Predictive) -> Array:
    """aleatoric / total, one where there is no doubt at all."""
    total, xp = prediction.total, namespace(prediction)
    return xp.where(total > 0, prediction.aleatoric / xp.where(total > 0, total, 1.0), 1.0)
