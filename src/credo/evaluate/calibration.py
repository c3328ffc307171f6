"""Calibration: whether what is said to happen in 90 of 100 cases does happen in 90 of 100 cases.

For real outcomes and counts the probability integral transform and the coverage of intervals, for classes the
reliability diagram, and for whole inference algorithms the ranks of simulation-based calibration.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray
from scipy import stats

from credo.core.arrays import Numeric
from credo.core.checks import check_count, check_vector
from credo.core.errors import DataError
from credo.core.predictive import Bernoulli, Categorical, Predictive
from credo.core.predictive.base import check_levels
from credo.core.predictive.expectation import alone, per_row
from credo.evaluate.scores import check_outcomes

P = TypeVar("P")
D = TypeVar("D")

LEVELS = tuple(np.round(np.arange(0.05, 1.0, 0.05), 2))


def pit(prediction: Predictive, y: Numeric, *, seed: int = 0) -> np.ndarray:
    """The probability integral transform u = F(y), uniform on (0, 1) if the prediction is calibrated.

    For whole numbers u = F(y - 1) + v (F(y) - F(y - 1)) with v uniform, drawn with `seed`.
    Czado, Gneiting & Held (2009), "Predictive model assessment for count data", section 2.1.
    """
    values = check_outcomes(prediction, y)
    each = per_row(alone(prediction))
    upper = np.asarray(each.cdf(values))
    if not prediction.discrete:
        return upper
    lower = np.asarray(each.cdf(values - 1))
    return lower + np.random.default_rng(seed).uniform(size=upper.shape) * (upper - lower)


class CoverageCurve(NamedTuple):
    """How often outcomes fell into the central intervals, level by level."""

    level: np.ndarray
    observed: np.ndarray
    standard_error: np.ndarray
    """√(level (1 - level)/n): the spread of `observed` that chance gives to a calibrated prediction."""


def coverage_curve(prediction: Predictive, y: Numeric, levels: Numeric = LEVELS) -> CoverageCurve:
    """The share of outcomes inside the central interval, for each level."""
    values = check_outcomes(prediction, y)
    wanted = np.atleast_1d(np.asarray(check_levels(levels, "levels")))
    if isinstance(prediction, Categorical):
        raise DataError("coverage_curve needs outcomes that are numbers, found classes; use reliability")
    each = alone(prediction)
    lower = np.asarray(each.quantile(0.5 - wanted / 2))
    upper = np.asarray(each.quantile(0.5 + wanted / 2))
    if lower.ndim == 1:
        lower, upper = lower[:, None], upper[:, None]
    inside = (lower <= np.asarray(values)) & (np.asarray(values) <= upper)
    return CoverageCurve(wanted, inside.mean(axis=1), np.sqrt(wanted * (1 - wanted) / len(values)))


class Reliability(NamedTuple):
    """A reliability diagram: in each bin of stated probability, how often it happened. Empty bins are left out."""

    stated: np.ndarray
    """The mean stated probability in the bin."""
    observed: np.ndarray
    """The share of rows in the bin in which it happened."""
    counts: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    """Ends of the Wilson interval of `observed`."""

    @property
    def error(self) -> float:
        """The expected calibration error Σ_b (n_b/n) |observed_b - stated_b|."""
        return float(np.sum(self.counts * np.abs(self.observed - self.stated)) / np.sum(self.counts))

    @property
    def largest(self) -> float:
        """The maximum calibration error max_b |observed_b - stated_b|; that of a bin of few rows is mostly chance."""
        return float(np.abs(self.observed - self.stated).max())


def reliability(
    prediction: Predictive,
    y: Numeric,
    bins: int = 10,
    level: float = 0.95,
    label: int | None = None,
    *,
    equal: str = "width",
) -> Reliability:
    """The reliability diagram in `bins` bins of stated probability, with Wilson bands of probability `level`.

    The bins have `equal` "width", or equal "count": as many rows in each, up to rows that state the same, which stay
    together. Naeini, Cooper & Hauskrecht (2015), "Obtaining well calibrated probabilities using Bayesian binning".

    For a `Bernoulli` the probability of class 1, or of class `label`; for a `Categorical` that of class `label`,
    or, if there is none, the confidence in the most probable class against being right. Guo et al. (2017),
    "On calibration of modern neural networks"; Wilson (1927) for the bands.
    """
    probs, values = classes_of(prediction, y, "reliability", bins)
    if label is not None and not 0 <= label < probs.shape[1]:
        raise DataError(f"label must be a class from 0 to {probs.shape[1] - 1}, found {label}")
    if label is None and isinstance(prediction, Bernoulli):
        label = 1
    stated = probs.max(axis=1) if label is None else probs[:, label]
    happened = values == (probs.argmax(axis=1) if label is None else label)
    index = _bins_of(stated, bins, equal)
    count = np.bincount(index, minlength=bins)
    filled = count > 0
    count = count[filled]
    observed = np.bincount(index, happened, bins)[filled] / count
    lower, upper = wilson(observed, count, level)
    return Reliability(np.bincount(index, stated, bins)[filled] / count, observed, count, lower, upper)


def classes_of(prediction: Predictive, y: Numeric, what: str, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of every row, and its class."""
    if not isinstance(prediction, Categorical | Bernoulli):
        raise DataError(f"{what} needs a prediction of classes, found {type(prediction).__name__}; use coverage_curve")
    check_count(bins, "bins")
    values = np.asarray(check_outcomes(prediction, y))
    return np.broadcast_to(np.asarray(prediction.probs), (len(values), prediction.probs.shape[-1])), values


def _bins_of(stated: np.ndarray, bins: int, equal: str) -> np.ndarray:
    """The number of the bin of each stated probability."""
    if equal not in ("width", "count"):
        raise DataError(f'equal must be "width" or "count" of the bins, found {equal!r}')
    if equal == "width":
        return np.minimum((stated * bins).astype(int), bins - 1)
    first = np.searchsorted(np.sort(stated), stated)  # rows that state less
    return first * bins // len(stated)


def expected_calibration_error(prediction: Predictive, y: Numeric, bins: int = 10, *, equal: str = "width") -> float:
    """Σ_b (n_b/n) |observed_b - stated_b| over the bins of the reliability diagram."""
    return reliability(prediction, y, bins, equal=equal).error


def maximum_calibration_error(prediction: Predictive, y: Numeric, bins: int = 10, *, equal: str = "count") -> float:
    """max_b |observed_b - stated_b| over the bins of the reliability diagram, which here hold equally many rows.

    Naeini, Cooper & Hauskrecht (2015), "Obtaining well calibrated probabilities using Bayesian binning".
    """
    return reliability(prediction, y, bins, equal=equal).largest


class ClasswiseCalibration(NamedTuple):
    """The reliability of every class against the rest: what a diagram of the most probable class hides."""

    diagrams: tuple[Reliability, ...]

    @property
    def errors(self) -> np.ndarray:
        """The expected calibration error of each class."""
        return np.array([diagram.error for diagram in self.diagrams])

    @property
    def error(self) -> float:
        """Their mean, the classwise expected calibration error."""
        return float(self.errors.mean())

    @property
    def largest(self) -> float:
        """The maximum calibration error of all classes and bins."""
        return max(diagram.largest for diagram in self.diagrams)


def classwise_calibration(
    prediction: Predictive, y: Numeric, bins: int = 10, level: float = 0.95, *, equal: str = "width"
) -> ClasswiseCalibration:
    """A reliability diagram of each class, and their errors.

    Kull et al. (2019), "Beyond temperature scaling: obtaining well-calibrated multiclass probabilities with Dirichlet
    calibration".
    """
    classes = classes_of(prediction, y, "classwise_calibration", bins)[0].shape[1]
    each = (reliability(prediction, y, bins, level, label, equal=equal) for label in range(classes))
    return ClasswiseCalibration(tuple(each))


class BrierParts(NamedTuple):
    """The Brier score taken apart: score = reliability - resolution + uncertainty."""

    reliability: float
    """Σ_b (n_b/n)(stated_b - observed_b)²: how far stated probabilities are from what happened; 0 is best."""
    resolution: float
    """How well the probabilities tell rows apart; as large as `uncertainty` for who knows every outcome."""
    uncertainty: float
    """Σ ȳ(1 - ȳ): the score of stating the share of each class for every row."""

    @property
    def score(self) -> float:
        """The Brier score."""
        return self.reliability - self.resolution + self.uncertainty


def brier_decomposition(prediction: Predictive, y: Numeric, bins: int = 10, *, equal: str = "width") -> BrierParts:
    """`brier` as reliability - resolution + uncertainty, over the bins of the reliability diagram.

    What varies within a bin counts for resolution, so that the parts add up exactly. For a `Categorical` the parts
    are sums over the classes, each against the rest. Murphy (1973), "A new vector partition of the probability
    score"; Stephenson, Coelho & Jolliffe (2008), "Two extra components in the Brier score decomposition".
    """
    classes, values = classes_of(prediction, y, "brier_decomposition", bins)
    labels = [1] if isinstance(prediction, Bernoulli) else range(classes.shape[1])
    total = np.zeros(3)
    for label in labels:
        stated, happened = classes[:, label], (values == label).astype(float)
        index = _bins_of(stated, bins, equal)
        count = np.maximum(np.bincount(index, minlength=bins), 1)
        gap = (np.bincount(index, stated, bins) - np.bincount(index, happened, bins)) / count
        share = happened.mean()
        reliability, uncertainty = np.mean(gap[index] ** 2), share * (1 - share)
        total += [reliability, reliability + uncertainty - np.mean((stated - happened) ** 2), uncertainty]
    return BrierParts(*(float(part) for part in total))


def wilson(share: Numeric, count: Numeric, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval for a probability of which `share` of `count` trials succeeded. Wilson (1927).

    (p̂ + z²/2n ± z √(p̂(1 - p̂)/n + z²/4n²)) / (1 + z²/n) with z the (1 + level)/2 quantile of N(0, 1).
    """
    z = stats.norm.ppf(0.5 + float(check_levels(level, "level")) / 2)
    p, n = np.asarray(share, float), np.asarray(count, float)
    middle = p + z**2 / (2 * n)
    half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)


def chance_shares(count: Numeric, probability: Numeric, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """The central shares of `count` outcomes that chance gives to what has this probability (binomial).

    Bröcker & Smith (2007), "Increasing the reliability of reliability diagrams".
    """
    n, p = np.asarray(count), np.clip(np.asarray(probability, dtype=float), 0.0, 1.0)
    low, high = (np.asarray(stats.binom.ppf(tail, n, p) / n) for tail in (0.5 - level / 2, 0.5 + level / 2))
    return low, high


def uniformity_test(values: Numeric) -> float:
    """The p-value of Kolmogorov and Smirnov's test that values (e.g. of `pit`) are uniform on (0, 1)."""
    u = check_vector(values, "values")
    if np.any((u < 0) | (u > 1)):
        raise DataError(f"values must lie between 0 and 1, found {u[(u < 0) | (u > 1)][0]:g}")
    return float(stats.kstest(u, "uniform").pvalue)


def rank_test(ranks: Numeric, draws: int, bins: int = 20) -> float:
    """The p-value of the χ² test that ranks among `draws` draws are uniform on 0, 1, …, draws.

    The draws + 1 possible ranks fall into `bins` bins as equal as they can be; each bin's expected count follows
    its size.
    """
    values = check_vector(ranks, "ranks")
    check_count(draws, "draws")
    check_count(bins, "bins", least=2)
    if np.any((values < 0) | (values > draws) | (values != np.round(values))):
        raise DataError(f"ranks must be whole numbers from 0 to draws = {draws}")
    possible = draws + 1
    bins = min(bins, possible)
    if len(values) < 5 * bins:
        raise DataError(
            f"the χ² test needs about five ranks per bin: {5 * bins} for bins={bins}, found {len(values)}; "
            "use more repeats or fewer bins"
        )
    of_rank = np.arange(possible) * bins // possible
    expected = np.bincount(of_rank, minlength=bins) * len(values) / possible
    found = np.bincount(of_rank[values.astype(int)], minlength=bins)
    return float(stats.chisquare(found, expected).pvalue)


class Ranks(NamedTuple):
    """The ranks of true parameters among posterior draws: uniform if the inference is right."""

    ranks: np.ndarray
    """Shape (repeats, parameters)."""
    draws: int
    names: tuple[str, ...]

    def p_values(self, bins: int = 20) -> dict[str, float]:
        """`rank_test` for each parameter."""
        return {
            name: rank_test(column, self.draws, bins) for name, column in zip(self.names, self.ranks.T, strict=True)
        }


def simulation_based_calibration(
    sample_prior: Callable[[PRNGKeyArray], P],
    simulate: Callable[[PRNGKeyArray, P], D],
    posterior_draws: Callable[[PRNGKeyArray, D], P],
    repeats: int = 200,
    *,
    seed: int = 0,
) -> Ranks:
    """Draw parameters from the prior, data from them, and rank the parameters among the posterior's draws.

    If θ ~ p(θ), y ~ p(y | θ) and θ₁ … θ_L ~ p(θ | y) then #{l: θ_l < θ} is uniform on 0 … L for every parameter.
    Talts et al. (2018), "Validating Bayesian inference algorithms with simulation-based calibration".

    Args:
        sample_prior: key → parameters, any pytree of numbers.
        simulate: key, parameters → data, whatever `posterior_draws` takes.
        posterior_draws: key, data → the same pytree with a leading axis of L draws; these should be
            nearly independent (thin a chain).
        repeats: how often.
        seed: of everything random.
    """
    check_count(repeats, "repeats")
    rows = []
    draws = 0
    names: tuple[str, ...] = ()
    for each in jr.split(jr.key(seed), repeats):
        k_prior, k_data, k_draws, k_ties = jr.split(each, 4)
        truth = sample_prior(k_prior)
        sample = posterior_draws(k_draws, simulate(k_data, truth))
        expected: object = jax.tree.structure(truth)
        found: object = jax.tree.structure(sample)
        if found != expected:
            raise DataError(
                "posterior_draws must return the structure that sample_prior returns, with a leading axis: "
                f"found {found}, expected {expected}"
            )
        pairs = zip(jax.tree.leaves(truth), jax.tree.leaves(sample), strict=True)
        columns = [(np.ravel(t), np.reshape(s, (np.shape(s)[0], -1))) for t, s in pairs]
        true = np.concatenate([t for t, _ in columns])
        table = np.concatenate([s for _, s in columns], axis=1)
        if len(true) != table.shape[1]:
            raise DataError(
                f"a posterior draw must hold as many numbers as the parameters: {len(true)}, found {table.shape[1]}"
            )
        draws, names = len(table), _leaf_names(truth)
        below, ties = (table < true).sum(axis=0), (table == true).sum(axis=0)
        rows.append(below + np.random.default_rng(np.asarray(jr.key_data(k_ties))).integers(0, ties + 1))
    return Ranks(np.stack(rows), draws, names)


def _leaf_names(tree: object) -> tuple[str, ...]:
    names: list[str] = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        stem = jax.tree_util.keystr(path, simple=True, separator=".") or "parameter"
        size = np.size(leaf)
        names += [stem] if np.ndim(leaf) == 0 else [f"{stem}[{i}]" for i in range(size)]
    return tuple(names)
