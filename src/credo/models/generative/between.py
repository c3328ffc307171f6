"""A prior between one covariance for all classes and one for each: normal inverse Wishart, chosen in two stages.

1. Σ₀, the covariance within classes pooled and shrunk to its diagonal D: the posterior mean under an inverse Wishart
   law about D, whose degrees of freedom have the highest evidence of the pooled scatter.
2. Σₖ ~ InverseWishart((ν - d - 1)Σ₀, ν) and μₖ ~ N(m, Σₖ/κ), with (ν, κ) that predict the class of each row from all
   others: a mean of candidates, each weighed by its leave-one-out likelihood. Leaving a row out of its class is a
   rank-one change, so it has a closed form; so has its part in Σ₀.

One stage by evidence would count the data twice, in Σ₀ and in Σₖ. ν → ∞ is linear discriminant analysis, small ν
quadratic. Friedman (1989), "Regularized discriminant analysis"; Srivastava, Gupta & Frigyik (2007).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, logsumexp

from credo.core.linalg import cholesky
from credo.models.conjugate import NormalInverseWishart

EXCESS = np.geomspace(0.5, 3e4, 12)
"""Candidates of ν - d - 1."""
STRENGTHS = np.array([0.03, 0.3, 3.0, 10.0])
"""Candidates of κ, in rows."""
WORTH, SPREAD = 4.0, 1.0
"""Before data the shared covariance is worth four rows for each column, give or take a factor of e."""
WORK = 4e8
"""Multiplications of the second stage; with more rows some stand for all."""


class Between(NamedTuple):
    """What was chosen."""

    prior: NormalInverseWishart
    diagonal: float
    """What share of the pooled covariance is its diagonal alone."""
    excess: float
    """ν - d - 1: how many rows the shared covariance is worth to each class."""
    strength: float
    """κ."""
    loss: float
    """The mean log loss of the classes, each row left out."""


def choose_prior(
    x: Float[np.ndarray, "n d"], codes: Int[np.ndarray, " n"], k: int, alpha: Float[np.ndarray, " k"]
) -> Between:
    """The prior that every class shares, from labelled rows."""
    counts = np.bincount(codes, minlength=k).astype(float)
    center = x.mean(0)
    means = np.stack([x[codes == i].mean(0) if counts[i] else center for i in range(k)])
    rest = x - means[codes]
    m = max(len(x) - int(np.count_nonzero(counts)), 1)
    spread, total = (rest**2).sum(0) / m, ((x - center) ** 2).mean(0)
    unit = np.sqrt(np.where(spread > 0, spread, np.where(total > 0, total, 1.0)))
    z = rest / unit
    scatter = z.T @ z
    free = _free_rows(scatter, m)
    shrunk = (scatter + free * np.eye(len(unit))) / (free + m)
    problem = _Rows((x - center) / unit, codes, counts, (means - center) / unit, z, shrunk, free + m, alpha)
    losses = np.array([[problem.loss(float(a), float(s)) for s in STRENGTHS] for a in EXCESS])
    # The lowest loss of few rows is mostly luck: a mean of all candidates, by how well they predict.
    about = 0.5 * (np.log(EXCESS / (WORTH * x.shape[1])) / SPREAD) ** 2
    weight = np.exp(-len(x) * (losses - losses.min()) - about[:, None])
    weight /= weight.sum()
    excess, strength = np.exp(weight.sum(1) @ np.log(EXCESS)), np.exp(weight.sum(0) @ np.log(STRENGTHS))
    loss = (weight * losses).sum()
    d, scale = x.shape[1], shrunk * np.outer(unit, unit)
    prior = NormalInverseWishart(center, strength, d + 1 + excess, excess * scale)
    return Between(prior, free / (free + m), float(excess), float(strength), float(loss))


def _free_rows(scatter: Float[np.ndarray, "d d"], m: int) -> float:
    """ν₀ - d - 1 of the highest evidence: how many rows the diagonal is worth to the pooled covariance."""
    d, values = len(scatter), np.maximum(np.linalg.eigvalsh(scatter), 0.0)
    candidates = np.geomspace(1e-2, 1e5, 71)
    df = candidates + d + 1

    def log_gammas(df: Float[np.ndarray, " c"]) -> Float[np.ndarray, " c"]:
        return gammaln(0.5 * (df[:, None] - np.arange(d))).sum(1)

    log_dets = np.log(candidates[:, None] + values).sum(1)
    evidence = log_gammas(df + m) - log_gammas(df) + 0.5 * df * d * np.log(candidates) - 0.5 * (df + m) * log_dets
    return float(candidates[np.argmax(evidence)])


class _Rows(NamedTuple):
    """Standardized rows, and what they say of classes under a prior (ν, κ)."""

    x: Float[np.ndarray, "n d"]
    codes: Int[np.ndarray, " n"]
    counts: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k d"]
    residuals: Float[np.ndarray, "n d"]
    pooled: Float[np.ndarray, "d d"]
    worth: float
    """Rows that the pooled covariance is the mean of."""
    alpha: Float[np.ndarray, " k"]

    def loss(self, excess: float, strength: float) -> float:
        """-log P(class of a row | all others), the mean over the rows."""
        (n, d), k = self.x.shape, len(self.counts)
        each = max(50, min(n, int(WORK / (len(EXCESS) * len(STRENGTHS) * k * d * d))))
        some = np.random.default_rng(0).permutation(n)[:each] if each < n else np.arange(n)
        x, codes, residual = self.x[some], self.codes[some], self.residuals[some]
        weight = self.counts[codes] / np.maximum(self.counts[codes] - 1, 1)  # of a residual in the scatter
        share = excess / self.worth * weight  # what the row adds to every class's prior scale
        logs = np.empty((len(some), k))
        for i in range(k):
            logs[:, i] = self._log_predictive(i, excess, strength, x, codes, residual, share)
        taken = self.counts - (codes[:, None] == np.arange(k))
        logs = logs + np.log(self.alpha + taken)
        return float(np.mean(logsumexp(logs, axis=1) - logs[np.arange(len(some)), codes]))

    def _log_predictive(
        self,
        i: int,
        excess: float,
        strength: float,
        x: Float[np.ndarray, "s d"],
        codes: Int[np.ndarray, " s"],
        residual: Float[np.ndarray, "s d"],
        share: Float[np.ndarray, " s"],
    ) -> Float[np.ndarray, " s"]:
        """log t of the rows in class i, each without itself: downdates of rank one or two."""
        d, count = x.shape[1], self.counts[i]
        own = codes == i
        kappa, df = strength + count, d + 1 + excess + count
        mean = count / kappa * self.means[i]
        mine = self.residuals[self.codes == i]
        scale = excess * self.pooled + mine.T @ mine + strength * count / kappa * np.outer(self.means[i], self.means[i])
        root = cholesky(scale, "the scale of a class")
        white = np.linalg.solve(root, np.concatenate([x - mean, residual]).T).T
        a, b = white[: len(x)], white[len(x) :]
        # Ψ' = Ψ - g bbᵀ - c aaᵀ: the row's part in Σ₀, and in its own class.
        c = np.where(own, kappa / np.maximum(kappa - 1, 1e-12), 0.0)
        aa, ab, bb = (a**2).sum(1), (a * b).sum(1), (b**2).sum(1)
        left = np.maximum(1 - share * bb, 1e-12)
        square = aa + share * ab**2 / left
        inside = np.maximum(1 - c * square, 1e-12)
        log_det = 2 * np.log(np.diag(root)).sum() + np.log(left) + np.log(inside)
        kappa, df = kappa - own, df - own
        # The mean without the row: x - m' = κ/(κ - 1) (x - m).
        square = np.where(own, c**2 * square / inside, square)
        doubt = 1 / np.maximum(kappa, 1e-12)
        half = 0.5 * (df - d + 1)
        constant = gammaln(half + 0.5 * d) - gammaln(half) - 0.5 * d * np.log(np.pi) - 0.5 * d * np.log1p(doubt)
        return constant - 0.5 * log_det - (half + 0.5 * d) * np.log1p(square / (1 + doubt))
