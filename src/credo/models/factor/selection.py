"""How many factors? The evidence, the BIC and the density of rows left out, side by side.

Of PPCA the evidence is Laplace's approximation of Minka (2000), "Automatic choice of dimensionality for PCA": with the
eigenvalues λ of the covariance, v the mean of the last d - l, and m = dl - l(l + 1)/2,

    log p ≈ log p(U) - n/2 (Σ_{i≤l} log λᵢ + (d - l) log v + d log 2πe) + (m + l)/2 log 2π - ½ log |A| - l/2 log n
    |A| = Π_{i≤l} Π_{j>i} (1/λ̂ⱼ - 1/λ̂ᵢ)(λᵢ - λⱼ) n,    λ̂ⱼ = λⱼ for j ≤ l, v after

All of them need d × d moments only: those of each fold are computed once, and what is left is their sum without one.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.special
from jaxtyping import Float

from credo.core.checks import ArrayLike, check_count, check_table
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.models.conjugate.normal import Moments
from credo.models.factor.low_rank import Parameters, log_likelihood
from credo.models.factor.statistics import Rows

if TYPE_CHECKING:
    from credo.models.factor.belief import FactorModel


class Choice(NamedTuple):
    """A number of factors, and what speaks for it: each is a log probability of all rows, higher is better."""

    l: int
    log_likelihood: float
    bic: float
    """Log likelihood less ½ log n for each free number: an approximation of the log evidence."""
    evidence: float | None
    """Minka's log evidence; None for factor analysis."""
    held_out: float
    """The log density of rows that were left out, a fold at a time."""
    held_out_error: float
    """The standard error of its difference from the best."""


class HowMany(NamedTuple):
    """What `how_many` found."""

    table: tuple[Choice, ...]
    best: int
    """By the evidence (PPCA), or the BIC (factor analysis)."""
    best_held_out: int
    """The fewest factors within a standard error of the highest density of rows left out."""
    advice: str

    def __repr__(self) -> str:
        """The table, and the advice below."""
        head = f"{'l':>3} {'log lik.':>12} {'BIC':>12} {'evidence':>12} {'left out':>12} {'± to best':>10}"
        lines = [
            f"{c.l:>3} {c.log_likelihood:>12.1f} {c.bic:>12.1f} "
            f"{'' if c.evidence is None else f'{c.evidence:.1f}':>12} {c.held_out:>12.1f} {c.held_out_error:>10.1f}"
            for c in self.table
        ]
        return "\n".join([head, *lines, self.advice])


def how_many(belief: "FactorModel", x: ArrayLike, *, most: int | None = None, folds: int = 5, seed: int = 0) -> HowMany:
    """0 … `most` factors compared on complete rows.

    Args:
        belief: a `FactorAnalysis` or `PPCA`; its l is not looked at.
        x: the rows.
        most: the largest number tried; by default at most 20, and for factor analysis as many as d columns determine.
        folds: in which rows are left out in turn.
        seed: of the folds.
    """
    table = np.asarray(check_table(x, "x"))
    n, d = table.shape
    check_count(folds, "folds", 2)
    if n < 2 * folds:
        raise DataError(f"x must have at least {2 * folds} rows for {folds} folds, found {n}")
    which = np.random.default_rng(seed).permutation(n) % folds
    parts = [Moments.of(table[which == i]) for i in range(folds)]
    whole = sum(parts[1:], start=parts[0])
    rests = [sum(rest[1:], start=rest[0]) for rest in (parts[:i] + parts[i + 1 :] for i in range(folds))]
    top = _most(belief, d, n) if most is None else min(most, d - 1)
    choices, by_fold = [], []
    for l in range(top + 1):
        trial = changed(belief, l=l, mean=None, w=None, noise=None)
        p = _fitted(trial, whole)
        log_lik = _log_lik(p, whole)
        scores = np.array([_log_lik(_fitted(trial, rest), part) for rest, part in zip(rests, parts, strict=True)])
        by_fold.append(scores)
        evidence = minka(_eigenvalues(whole), l, n) if belief.isotropic else None
        bic = log_lik - 0.5 * free_numbers(d, l, belief.isotropic) * np.log(n)
        choices.append(Choice(l, log_lik, bic, evidence, float(scores.sum()), 0.0))
    return _summary(choices, np.array(by_fold), belief.isotropic)


def choose(belief: "FactorModel", rows: Rows, moments: Moments) -> int:
    """The number of factors by Minka's evidence (PPCA of complete rows), else by the BIC, up to two beyond its top."""
    from credo.models.factor.learning import _ByCovariance, started

    d, n = len(moments.mean), float(moments.count)
    if belief.isotropic and not rows.partial:
        values = _eigenvalues(moments)
        return int(np.argmax([minka(values, l, n) for l in range(_most(belief, d, n) + 1)]))
    heights: list[float] = []
    for l in range(_most(belief, d, n) + 1):
        trial = started(changed(belief, l=l), rows)
        log_lik = _ByCovariance(tolerance=1e-5).learn(trial, rows, (), {}, 0).log_evidence
        heights.append(log_lik - 0.5 * free_numbers(d, l, belief.isotropic) * np.log(n))
        if l > np.argmax(heights) + 1:
            break
    return int(np.argmax(heights))


def free_numbers(d: int, l: int, isotropic: bool) -> int:
    """Of μ, W up to a rotation, and the noise."""
    return d + d * l - l * (l - 1) // 2 + (1 if isotropic else d)


def minka(values: Float[np.ndarray, " d"], l: int, n: float | int) -> float:
    """The log evidence of PPCA with l factors from the eigenvalues of the covariance, the largest first."""
    d = len(values)
    tiny = np.finfo(float).eps * values[0]
    if l >= d or values[l:].mean() <= tiny or (l and values[l - 1] <= tiny):
        return -np.inf
    v, m, i = values[l:].mean(), d * l - l * (l + 1) / 2, np.arange(1, l + 1)
    prior = -l * np.log(2) + (scipy.special.gammaln((d - i + 1) / 2) - (d - i + 1) / 2 * np.log(np.pi)).sum()
    shown = np.where(np.arange(d) < l, values, v)
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.log(1 / shown[None, :] - 1 / shown[:, None]) + np.log(values[:, None] - values[None, :]) + np.log(n)
    pairs = (np.arange(d)[:, None] < l) & (np.arange(d)[:, None] < np.arange(d)[None, :])
    curvature = gaps[pairs].sum()
    if not np.isfinite(curvature):  # two eigenvalues that are the same
        return -np.inf
    fit = -0.5 * n * (np.log(values[:l]).sum() + (d - l) * np.log(v) + d * (1 + np.log(2 * np.pi)))
    return float(prior + fit + 0.5 * (m + l) * np.log(2 * np.pi) - 0.5 * curvature - 0.5 * l * np.log(n))


def _most(belief: "FactorModel", d: int, n: float | int) -> int:
    """As many as there may be: W and Ψ of factor analysis have no more free numbers than a covariance matrix."""
    if belief.isotropic:
        return max(0, min(d - 1, int(n) - 2))
    ledermann = int(np.floor((2 * d + 1 - np.sqrt(8 * d + 1)) / 2 + 1e-9))
    return max(0, min(ledermann, d - 1, int(n) - 2, 20))


def _eigenvalues(moments: Moments) -> Float[np.ndarray, " d"]:
    return np.maximum(np.linalg.eigvalsh(moments.squares / moments.count)[::-1], 0.0)


def _fitted(belief: "FactorModel", moments: Moments) -> Parameters:
    found = belief.fit_covariance(np.asarray(moments.squares / moments.count), None)
    return Parameters(moments.mean, found.w, found.noise)


def _log_lik(p: Parameters, moments: Moments) -> float:
    d = len(p.mean)
    return float(log_likelihood(p, Rows(moments, np.zeros((0, d)), np.zeros((0, d), bool), np.zeros(0))))


def _summary(choices: list[Choice], by_fold: Float[np.ndarray, "c f"], isotropic: bool) -> HowMany:
    top = int(by_fold.sum(1).argmax())
    gap = by_fold - by_fold[top]
    errors = gap.std(1, ddof=1) * np.sqrt(by_fold.shape[1])
    table = tuple(c._replace(held_out_error=float(e)) for c, e in zip(choices, errors, strict=True))
    fewest = int(np.flatnonzero(gap.sum(1) >= -errors)[0])
    by, word = ("evidence", "evidence") if isotropic else ("bic", "BIC")
    best = int(np.argmax([getattr(c, by) for c in table]))
    if best == fewest:
        advice = f"Take {best}: the {word} and the rows that were left out agree."
    else:
        advice = (
            f"The {word} says {best}, rows that were left out say {fewest}: take {fewest} to predict or to fill gaps, "
            f"{best} to interpret."
        )
    return HowMany(table, best, fewest, advice)
