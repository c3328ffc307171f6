"""Automatic relevance determination, one precision at a time: every step is the exact maximum along its axis.

With posterior mean m and covariance Σ, the evidence as a function of the precision αᵢ alone is

    ½ [log αᵢ - log(αᵢ + sᵢ) + qᵢ²/(αᵢ + sᵢ)],        sᵢ = 1/Σᵢᵢ - αᵢ,   qᵢ = mᵢ/Σᵢᵢ

where s is how much of the feature the others leave unexplained and q how much of the outcome it would explain.
It is highest at αᵢ = sᵢ²/(qᵢ² - sᵢ) if qᵢ² > sᵢ and at αᵢ = ∞ otherwise: the feature is switched off, and back on
should the others ever make room for it. With z² = qᵢ²/sᵢ a feature that is on raises the log evidence by
½(z² - 1 - log z²), however little; one that raises it by less than a `price` is switched off as well.

Changing αᵢ changes Σ by a matrix of rank one. A few sweeps do what takes
MacKay's fixed point hundreds of steps. Faul & Tipping (2002), "Analysis of sparse Bayesian learning"; Tipping &
Faul (2003), "Fast marginal likelihood maximisation for sparse Bayesian models".
"""

import math

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from credo.core.arrays import as_float
from credo.core.errors import NotPositiveDefinite
from credo.core.linalg import inverse
from credo.models.linear.posterior import Weights, condition
from credo.models.linear.statistics import Statistics

Vector = Float[ndarray, " q"]
Matrix = Float[ndarray, "q q"]
Number = ndarray | float


class Relevance:
    """The posterior under precisions that change; an infinite one has a row of zeros in Σ."""

    def __init__(self, statistics: Statistics, noise: float, precision: Vector, price: float = 0.0):
        """Under this noise variance; P₁ is factorized without jitter, which would make up for missing noise."""
        self.gram, self.cross = statistics.gram / noise, statistics.cross / noise
        self.precision, self.price = precision.copy(), price
        on = np.isfinite(precision)
        before = Weights(np.zeros(on.sum()), np.diag(np.sqrt(precision[on])))
        after, value, factor = condition(before, as_float(noise), statistics if on.all() else statistics.of_columns(on))
        if not factor.ok or factor.jitter > 0:
            raise NotPositiveDefinite(
                "the posterior precision is not positive definite while learning; standardize the features or give the "
                "precision a hyperprior"
            )
        self.log_evidence, self.mean, self.covariance = float(value), np.zeros(len(on)), np.zeros((len(on), len(on)))
        self.mean[on], self.covariance[np.ix_(on, on)] = after.mean, inverse(factor.root)

    @property
    def determined(self) -> Vector:
        """1 - αᵢΣᵢᵢ: how far the data, not the prior, determine each weight; zero where it is off."""
        on = np.isfinite(self.precision)
        return np.where(on, 1 - np.where(on, self.precision, 0.0) * self.covariance.diagonal(), 0.0)

    @property
    def worth(self) -> float:
        """The log evidence, less the price of the features that are on."""
        return self.log_evidence - self.price * float(np.isfinite(self.precision).sum())

    def move(self, learned: Int[ndarray, " k"], cap: Vector, tolerance: float, together: bool) -> float:
        """Moves the `learned` precisions that want to move, and says how far the farthest went.

        One by one cannot lower the evidence, and keeps the posterior up to date. All `together` is faster and
        as good where features hardly overlap; the posterior is then still that of before. Precisions above `cap`
        count as infinite. Changes are of log α, times how far the data determine the weight: the evidence hardly
        knows the precision of a feature that is almost off.
        """
        s, q = self._all_alone(learned)
        best = _best(s, q, cap[learned], self.price)
        moved = _change(self.precision[learned], best, s)
        if together:
            self.precision[learned] = best
            return float(moved.max(initial=0.0))
        largest = 0.0
        for i in learned[moved > tolerance].tolist():
            si, qi = self._alone(i)
            new = float(_best(si, qi, cap[i], self.price))
            largest = max(largest, float(_change(self.precision[i], new, si)))
            self._set(i, new, si, qi)
        return largest

    def _all_alone(self, which: Int[ndarray, " k"]) -> tuple[Float[ndarray, " k"], Float[ndarray, " k"]]:
        """s and q of all coordinates, each as if it were the only one to move."""
        on = np.isfinite(self.precision[which])
        s, q = np.empty(len(which)), np.empty(len(which))
        i, j = which[on], which[~on]
        variance, columns = self.covariance.diagonal()[i], self.gram[:, j]
        s[on], q[on] = 1 / variance - self.precision[i], self.mean[i] / variance
        s[~on] = self.gram.diagonal()[j] - np.sum(columns * (self.covariance @ columns), axis=0)
        q[~on] = self.cross[j] - self.mean @ columns
        return s, q

    def _alone(self, i: int) -> tuple[float, float]:
        if math.isfinite(self.precision[i]):
            variance = float(self.covariance[i, i])
            return 1 / variance - float(self.precision[i]), float(self.mean[i]) / variance
        row = self.gram[i]
        return float(row[i] - row @ self.covariance @ row), float(self.cross[i] - self.mean @ row)

    def _set(self, i: int, new: float, s: float, q: float) -> None:
        old = float(self.precision[i])
        self.precision[i] = new
        if math.isfinite(old):
            direction = self.covariance[i].copy()
            step = 1 / direction[i] if math.isinf(new) else (new - old) / (1 + (new - old) * direction[i])
            self.mean -= step * self.mean[i] * direction
            self.covariance -= np.outer(step * direction, direction)
            if math.isinf(new):  # what rounding left
                self.mean[i] = self.covariance[i] = self.covariance[:, i] = 0.0
        elif math.isfinite(new):
            direction = -(self.covariance @ self.gram[i])
            direction[i] = 1.0
            self.mean += q / (new + s) * direction
            self.covariance += np.outer(direction / (new + s), direction)


def _best(s: Number, q: Number, cap: Number, price: float) -> ndarray:
    """s²/(q² - s), or infinity where there is no such maximum below the cap, or none worth its price."""
    gain, size = np.square(q) - s, np.square(s)
    on = (np.asarray(s) > 0) & (gain * cap > size)  # s is zero, give or take rounding, where a feature never varies
    z2 = np.where(on, np.square(q) / np.where(on, s, 1.0), 1.0)
    on &= 0.5 * (z2 - 1 - np.log(z2)) > price
    return np.where(on, size / np.where(on, gain, 1.0), np.inf)


def _change(old: Number, new: Number, s: Number) -> ndarray:
    """|Δ log α|·s/(α + s); one for a feature that goes on or off."""
    was, stays = np.isfinite(old), np.isfinite(new)
    before, after = np.where(was & stays, old, 1.0), np.where(was & stays, new, 1.0)
    change = np.abs(np.log(after / before)) * np.abs(s) / (after + np.abs(s))
    return np.where(was != stays, 1.0, change)
