"""Automatic relevance determination, one precision at a time: every step is the exact maximum along its axis.

With posterior mean m and covariance Σ, the evidence as a function of the precision αᵢ alone is

    ½ [log αᵢ - log(αᵢ + sᵢ) + qᵢ²/(αᵢ + sᵢ)],        sᵢ = 1/Σᵢᵢ - αᵢ,   qᵢ = mᵢ/Σᵢᵢ

where s is how much of the feature the others leave unexplained and q how much of the outcome it would explain.
It is highest at αᵢ = sᵢ²/(qᵢ² - sᵢ) if qᵢ² > sᵢ and at αᵢ = ∞ otherwise: the feature is switched off, and back on
should the others ever make room for it. Changing αᵢ changes Σ by a matrix of rank one. Ten sweeps do what takes
MacKay's fixed point hundreds of steps. Faul & Tipping (2002), "Analysis of sparse Bayesian learning"; Tipping &
Faul (2003), "Fast marginal likelihood maximisation for sparse Bayesian models".
"""

import math

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

Vector = Float[ndarray, " q"]
Matrix = Float[ndarray, "q q"]


class Relevance:
    """The posterior under precisions that change one at a time; an infinite one has a row of zeros in Σ."""

    def __init__(self, gram: Matrix, cross: Vector, precision: Vector, mean: Vector, covariance: Matrix):
        """`gram` and `cross` are those of the data divided by the noise variance."""
        self.gram, self.cross = gram, cross
        self.precision, self.mean, self.covariance = precision.copy(), mean.copy(), covariance.copy()

    @property
    def determined(self) -> Vector:
        """1 - αᵢΣᵢᵢ: how far the data, not the prior, determine each weight; zero where it is off."""
        on = np.isfinite(self.precision)
        return np.where(on, 1 - np.where(on, self.precision, 0.0) * self.covariance.diagonal(), 0.0)

    def sweep(self, learned: Int[ndarray, " k"], cap: Vector, tolerance: float) -> float:
        """One visit to each of the `learned` coordinates that wants to move, and the largest change.

        Precisions above `cap` count as infinite. Changes are of log α, times how far the data determine the
        weight: the evidence hardly knows the precision of a feature that is almost off.
        """
        s, q = self._all_alone(learned)
        old, best = self.precision[learned], np.array([_best(*each) for each in zip(s, q, cap[learned], strict=True)])
        moved = np.array([_change(*each) for each in zip(old, best, s, strict=True)])
        largest = 0.0
        for i in learned[moved > tolerance].tolist():
            si, qi = self._alone(i)
            new = _best(si, qi, cap[i])
            largest = max(largest, _change(self.precision[i], new, si))
            self._set(i, new, si, qi)
        return largest

    def _all_alone(self, which: Int[ndarray, " k"]) -> tuple[Float[ndarray, " k"], Float[ndarray, " k"]]:
        """s and q of all coordinates, each as if it were the only one to move."""
        on = np.isfinite(self.precision[which])
        s, q = np.empty(len(which)), np.empty(len(which))
        i, j = which[on], which[~on]
        variance, columns = self.covariance.diagonal()[i], self.gram[:, j]
        s[on], q[on] = 1 / variance - self.precision[i], self.mean[i] / variance
        s[~on] = self.gram.diagonal()[j] - np.einsum("ij,ij->j", columns, self.covariance @ columns)
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


def _best(s: float, q: float, cap: float) -> float:
    gain = q * q - s
    return s * s / gain if gain * cap > s * s else math.inf


def _change(old: float, new: float, s: float) -> float:
    """|Δ log α|·s/(α + s); one for a feature that goes on or off."""
    if math.isfinite(old) and math.isfinite(new):
        return abs(math.log(max(new, 1e-300) / old)) * abs(s) / (new + abs(s))
    return 0.0 if old == new else 1.0
