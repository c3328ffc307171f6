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
from scipy.linalg import lapack

from credo.core.errors import NotPositiveDefinite

Vector = Float[ndarray, " q"]
Matrix = Float[ndarray, "q q"]
Number = ndarray | float


def posterior(gram: Matrix, cross: Vector, precision: Vector) -> tuple[Vector, Matrix, float]:
    """Mean and covariance of the weights by LAPACK's Cholesky, zero where the precision is infinite; and the evidence
    up to what does not depend on the prior, ½ (Σ log αᵢ - log|P₁| + cᵀm).
    """
    on = np.isfinite(precision)
    if not on.all():
        mean, covariance = np.zeros(len(cross)), np.zeros(gram.shape)
        mean[on], covariance[np.ix_(on, on)], worth = posterior(gram[np.ix_(on, on)], cross[on], precision[on])
        return mean, covariance, worth
    matrix = gram.copy()
    np.fill_diagonal(matrix, matrix.diagonal() + precision)
    root, failed = lapack.dpotrf(matrix.T, lower=1, overwrite_a=1)
    if failed:
        raise NotPositiveDefinite(
            "the posterior precision is not positive definite while learning; standardize the features or give the "
            "precision a hyperprior"
        )
    height = 0.5 * np.log(precision).sum() - np.log(root.diagonal()).sum()
    mean, _ = lapack.dpotrs(root, cross, lower=1)
    lower, _ = lapack.dpotri(root, lower=1, overwrite_c=1)
    covariance = lower + lower.T
    np.fill_diagonal(covariance, lower.diagonal())
    return mean, covariance, float(height + 0.5 * cross @ mean)


class Relevance:
    """The posterior under precisions that change; an infinite one has a row of zeros in Σ."""

    def __init__(self, gram: Matrix, cross: Vector, precision: Vector, price: float = 0.0):
        """`gram` and `cross` are those of the data divided by the noise variance."""
        self.gram, self.cross, self.precision, self.price = gram, cross, precision.copy(), price
        self.mean, self.covariance, self.height = posterior(gram, cross, precision)

    @property
    def determined(self) -> Vector:
        """1 - αᵢΣᵢᵢ: how far the data, not the prior, determine each weight; zero where it is off."""
        on = np.isfinite(self.precision)
        return np.where(on, 1 - np.where(on, self.precision, 0.0) * self.covariance.diagonal(), 0.0)

    @property
    def worth(self) -> float:
        """The evidence, up to what does not depend on the prior, less the price of the features that are on."""
        return self.height - self.price * float(np.isfinite(self.precision).sum())

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
