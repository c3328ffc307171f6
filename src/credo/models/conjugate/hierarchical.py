"""Populations that resemble each other: each learns from the others as much as the data allow.

The probabilities θₖ of r populations are drawn from one Beta(μs, (1 - μ)s) whose mean μ and strength s are
unknown too. Populations with few data are drawn to the common mean. Gelman et al. (2013), section 5.3.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.random as jr
import numpy as np
import scipy.special
from jaxtyping import Float, PRNGKeyArray

from credo.core import predictive
from credo.core.arrays import Array, host, is_traced, namespace, special
from credo.core.belief import Belief
from credo.core.checks import ArrayLike
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.params import positive
from credo.core.predictive import Bernoulli, Interval, Mixture, Predictive
from credo.core.special import log_binomial
from credo.infer.method import Solver
from credo.infer.optimize import at_bound, maximize
from credo.models.conjugate.base import central_interval, check_parameters, check_trials
from credo.models.conjugate.binary import check_successes, expected_binary_entropy
from credo.models.conjugate.quadrature import (
    Hyperparameters,
    HyperPrior,
    Integral,
    PopulationCounts,
    integrate,
    log_likelihood,
    log_likelihood_slope,
)

Data = tuple[ArrayLike, ...]

BOUNDARY_MASS = 1e-6
INTEGRAL_ERROR = 1e-6
NEGLIGIBLE = 1e-12
AT_BOUND = {
    "upper": "the strength ran to its upper bound: the data show no differences between populations",
    "lower": "the strength ran to its lower bound: every population is all successes or all failures",
    "mean": "the mean ran to 0 or 1: all outcomes are the same",
}


class Shrinkage(NamedTuple):
    """How far each population was drawn from its own frequency to the common mean.

    `raw` is successes/trials (the estimate itself where there are no trials), `weight` = E[s/(s + n)] is the
    weight of the common mean in the estimate: 1 is complete pooling, 0 is none.
    """

    raw: Float[Array, " r"]
    estimate: Float[Array, " r"]
    weight: Float[Array, " r"]
    population_mean: Float[Array, ""]

    def __str__(self) -> str:
        lines = ["population       raw  estimate    weight"]
        rows = zip(*(np.asarray(values) for values in self[:3]), strict=True)
        lines += [f"{k:10d}  {raw:8.4f}  {mean:8.4f}  {w:8.4f}" for k, (raw, mean, w) in enumerate(rows)]
        return "\n".join([*lines, f"common mean {float(self.population_mean):.4f}"])


class HierarchicalBernoulli(Belief):
    """n₁ₖ ~ Binomial(nₖ, θₖ), θₖ ~ Beta(μs, (1 - μ)s), μ ~ Beta(a, b), p(s) = c/(c + s)² with c = strength.

    The prior median of the population strength s is c. Data are the successes and trials of the r populations;
    more data of the same populations may follow. The θₖ are integrated in closed form, (μ, s) by
    quadrature, or with `using=EmpiricalBayes()` set to the values that make the data most probable.
    """

    from_data: ClassVar[tuple[str, ...]] = ("seen", "hyper")

    a: Float[Array, ""] = positive(1.0)
    b: Float[Array, ""] = positive(1.0)
    strength: Float[Array, ""] = positive(1.0)
    seen: PopulationCounts | None = None
    hyper: Hyperparameters | None = None

    def __check_init__(self) -> None:
        check_parameters(self, "a", "b", "strength")

    @property
    def _prior(self) -> HyperPrior:
        return HyperPrior(self.a, self.b, self.strength)

    @property
    def _plugged_in(self) -> bool:
        return self.hyper is not None and self.hyper.weights.shape[0] == 1

    def statistics(self, successes: ArrayLike, trials: ArrayLike) -> PopulationCounts:
        """The checked counts of each population."""
        s, n = check_successes(successes, trials)
        if self.seen is not None and s.shape != self.seen.trials.shape:
            raise DataError(
                f"successes must have one entry for each of the {self.seen.trials.shape[0]} populations seen before, "
                f"found {s.shape[0]}; to add a population condition a new belief on all of them"
            )
        return PopulationCounts(s, n, log_binomial(n, s).sum())

    def _total(self, statistics: PopulationCounts) -> PopulationCounts:
        return statistics if self.seen is None else self.seen + statistics

    def condition_on(self, statistics: PopulationCounts) -> "HierarchicalBernoulli":
        """The posterior of (μ, s) given all counts; hyperparameters set by `EmpiricalBayes` stay as they are."""
        total = self._total(statistics)
        hyper = self.hyper if self._plugged_in else _integral(self._prior, total).nodes
        return HierarchicalBernoulli(self.a, self.b, self.strength, total, hyper)

    def evidence_of(self, statistics: PopulationCounts) -> Array:
        """log ∫ p(data | μ, s) p(μ, s | data seen before) dμ ds."""
        total = self._total(statistics)
        if self.hyper is not None and self._plugged_in:
            xp, functions = namespace(self.hyper), special(self.hyper)
            point = functions.logit(self.hyper.mean[0]), xp.log(self.hyper.strength[0])
            before = 0.0 if self.seen is None else log_likelihood(*point, self.seen)
            return log_likelihood(*point, total) - before + statistics.log_orders
        before = 0.0 if self.seen is None else _integral(self._prior, self.seen).log_evidence
        return _integral(self._prior, total).log_evidence - before + statistics.log_orders

    def log_evidence_of(self, statistics: PopulationCounts) -> Array:
        """`evidence_of`, with as many quadrature nodes as it needs."""
        return self.evidence_of(statistics)

    @property
    def hyperparameters(self) -> Hyperparameters:
        """The weighted values of (μ, s) that represent what is believed of them."""
        if self.hyper is not None:
            return self.hyper
        nothing = PopulationCounts(np.zeros(1), np.zeros(1), np.zeros(()))
        return _integral(self._prior, nothing).nodes

    @property
    def population_mean(self) -> Float[Array, ""]:
        """E[μ]."""
        return self.hyperparameters.weights @ self.hyperparameters.mean

    @property
    def population_strength(self) -> Float[Array, ""]:
        """exp E[log s]: a typical strength; E[s] is infinite unless the data bound s from above."""
        hyper, xp = self.hyperparameters, namespace(self)
        return xp.exp(hyper.weights @ xp.log(hyper.strength))

    def _seen(self) -> PopulationCounts:
        if self.seen is None:
            raise DataError("no population has been seen; condition on successes and trials, or predict_new()")
        return self.seen

    def _betas(self) -> tuple[Array, Array, Array]:
        """The posterior of each θₖ as a mixture of g Betas: weights (g,), a and b (g, r)."""
        hyper, seen = self.hyperparameters, self._seen()
        a = (hyper.mean * hyper.strength)[:, None] + seen.successes
        b = ((1 - hyper.mean) * hyper.strength)[:, None] + seen.trials - seen.successes
        return hyper.weights, a, b

    def _new_betas(self) -> tuple[Array, Array, Array]:
        hyper = self.hyperparameters
        return hyper.weights, hyper.mean * hyper.strength, (1 - hyper.mean) * hyper.strength

    @property
    def estimate(self) -> Float[Array, " r"]:
        """E[θₖ] of each population."""
        weights, a, b = self._betas()
        return weights @ (a / (a + b))

    def shrinkage(self) -> Shrinkage:
        """How far each population was drawn from its own frequency to the common mean."""
        estimate, hyper, seen = self.estimate, self.hyperparameters, self._seen()
        weight = hyper.weights @ (hyper.strength[:, None] / (hyper.strength[:, None] + seen.trials))
        some, xp = seen.trials > 0, namespace(self)
        raw = xp.where(some, seen.successes / xp.where(some, seen.trials, 1.0), estimate)
        return Shrinkage(raw, estimate, weight, self.population_mean)

    def credible_interval(self, level: ArrayLike = 0.95) -> Interval:
        """The central interval that holds θₖ with probability `level`, for each population."""
        seen = self._seen()
        return _beta_mixture_interval(self.hyperparameters, seen.successes, seen.trials - seen.successes, level)

    def credible_interval_new(self, level: ArrayLike = 0.95) -> Interval:
        """The central interval of the probability of a population that has not been seen."""
        lower, upper = _beta_mixture_interval(self.hyperparameters, np.zeros(1), np.zeros(1), level)
        return Interval(lower[0], upper[0])

    def predict(self, trials: ArrayLike = None) -> Predictive:
        """The next outcome of each population, or with `trials` (one number, or one each) the successes in so many."""
        weights, a, b = self._betas()
        return _predict(weights, a, b, trials)

    def predict_new(self, trials: ArrayLike = None) -> Predictive:
        """The next outcome, or the successes in `trials`, of a population that has not been seen."""
        return _predict(*self._new_betas(), trials)

    def sample_parameters(self, n: int = 1, *, seed: int = 0) -> Float[Array, "n r"]:
        """n joint draws of the θₖ: of (μ, s) first, then of each population."""
        weights, a, b = self._betas()
        return host(_draw_thetas(jr.split(jr.key(seed), n), weights, a, b))


@jax.jit
def _draw_thetas(keys: jax.Array, weights: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    def draw(key: PRNGKeyArray) -> jax.Array:
        k_node, k_theta = jr.split(key)
        node = jr.choice(k_node, weights.shape[0], p=weights)
        return jr.beta(k_theta, a[node], b[node])

    return jax.vmap(draw)(keys)


@dataclass(frozen=True)
class EmpiricalBayes(Solver):
    """Type-II maximum likelihood: (μ, s) = argmax p(data | μ, s), by L-BFGS-B in (logit μ, log s).

    `weakest` and `strongest` bound the strength s; reaching a bound is warned about.
    """

    starts: int = 5
    weakest: float = 1e-4
    strongest: float = 1e6

    needs: ClassVar[type] = HierarchicalBernoulli
    learns: ClassVar[bool] = False

    def conclude(
        self, belief: HierarchicalBernoulli, statistics: object, data: Data, options: Mapping[str, ArrayLike]
    ) -> HierarchicalBernoulli:
        """`condition`, which chooses the hyperparameters itself."""
        return self.condition(belief, *data, **options)

    def condition(  # type: ignore[override]
        self, belief: HierarchicalBernoulli, successes: ArrayLike, trials: ArrayLike
    ) -> HierarchicalBernoulli:
        """The belief with its hyperparameters set by all the data seen, and conditioned on them."""
        total = belief._total(belief.statistics(successes, trials))
        ones, n = float(total.successes.sum()), float(total.trials.sum())
        lower, upper = np.asarray([[-20.0, np.log(self.weakest)], [20.0, np.log(self.strongest)]])
        pooled = np.log((ones + 0.5) / (n - ones + 0.5))

        def height(point: np.ndarray) -> tuple[float, np.ndarray]:
            return float(log_likelihood(point[0], point[1], total)), log_likelihood_slope(point[0], point[1], total)

        starts = [np.asarray([pooled, v]) for v in np.linspace(lower[1], upper[1], self.starts + 2)[1:-1]]
        u, v = best = maximize(height, starts, lower, upper, tolerance=1e-9)[0].vector
        for coordinate, side in at_bound(best, lower, upper):
            reason = AT_BOUND["mean" if coordinate == 0 else side]
            warnings.warn(f"{reason}; condition without using= to integrate over it", NotConvergedWarning, stacklevel=3)
        hyper = Hyperparameters(scipy.special.expit([u]), np.exp([v]), np.ones(1))
        return HierarchicalBernoulli(belief.a, belief.b, belief.strength, total, hyper)


def _integral(prior: HyperPrior, counts: PopulationCounts) -> Integral:
    result = integrate(prior, counts)
    if not is_traced(result) and (result.border > BOUNDARY_MASS or not result.error < INTEGRAL_ERROR):
        warnings.warn(
            f"the integral over the hyperparameters is uncertain: relative error {float(result.error):.1e}, mass at "
            f"the border {float(result.border):.1e}; use a less extreme prior or using=EmpiricalBayes()",
            NotConvergedWarning,
            stacklevel=4,
        )
    return result


def _predict(weights: Array, a: Array, b: Array, trials: ArrayLike) -> Predictive:
    xp = namespace(weights, a, b)
    if trials is None:
        return Bernoulli(*(xp.tensordot(weights, v, 1) for v in (a / (a + b), expected_binary_entropy(a, b))))
    m = check_trials(trials)
    if m.ndim and m.shape != a.shape[1:]:
        raise DataError(f"trials must be one number, or one for each prediction {a.shape[1:]}, found shape {m.shape}")
    return Mixture(weights, (predictive.BetaBinomial(np.broadcast_to(m, a.shape), a, b, int(m.max())),))


def _beta_mixture_interval(hyper: Hyperparameters, ones: Array, zeros: Array, level: ArrayLike) -> Interval:
    """The central interval of Σ w_g Beta(μ_g s_g + ones, (1 - μ_g) s_g + zeros), for each of r counts."""
    pairs = zip(np.asarray(ones), np.asarray(zeros), strict=True)
    mixtures = [_smooth(hyper, one, zero) for one, zero in pairs]
    return central_interval(lambda q: np.asarray([_mixture_quantile(*parts, q) for parts in mixtures]), level)


def _smooth(hyper: Hyperparameters, ones: float, zeros: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mixture of Betas without the ones that are narrower than the gaps between the nodes.

    The nodes are a grid, (mean × strength). Where the strength is so large that θ all but equals μ, the Betas
    of neighbouring means no longer overlap; there all means of one strength become one Beta with the same
    first two moments, which is exact in the limit of complete pooling.
    """
    k = int(np.sqrt(hyper.weights.shape[0]))
    mean, strength, weights = (np.asarray(x).reshape(k, k) for x in (hyper.mean, hyper.strength, hyper.weights))
    a, b = mean * strength + ones, (1 - mean) * strength + zeros
    if k > 1:
        common = weights.sum(axis=1) @ mean[:, 0]
        step = np.diff(mean[:, 0])[np.clip(np.searchsorted(mean[:, 0], common) - 1, 0, k - 2)]
        total = strength[0] + ones + zeros
        theta = (common * strength[0] + ones) / total
        # A step to the next mean moves θ by step·s/(s + n).
        narrow = np.sqrt(theta * (1 - theta) / (total + 1)) < step * strength[0] / total
        narrow &= (strength[0] > 1) & (weights.sum(axis=0) > NEGLIGIBLE * weights.max())
        row, theta = weights[:, narrow], a[:, narrow] / (a + b)[:, narrow]
        total = row.sum(axis=0)
        first = (row * theta).sum(axis=0) / total
        spread = (row * ((theta - first) ** 2 + theta * (1 - theta) / (a + b + 1)[:, narrow])).sum(axis=0) / total
        merged = first * (1 - first) / spread - 1
        a = np.concatenate([a[:, ~narrow].ravel(), first * merged])
        b = np.concatenate([b[:, ~narrow].ravel(), (1 - first) * merged])
        weights = np.concatenate([weights[:, ~narrow].ravel(), total])
    kept = weights.ravel() > NEGLIGIBLE * weights.max()
    return weights.ravel()[kept] / weights.ravel()[kept].sum(), a.ravel()[kept], b.ravel()[kept]


def _mixture_quantile(weights: np.ndarray, a: np.ndarray, b: np.ndarray, q: float) -> float:
    """The q-quantile of Σ w_g Beta(a_g, b_g): Newton's method in logit θ, kept inside a bracket that shrinks."""
    log_beta = scipy.special.betaln(a, b)
    low, high = -700.0, 40.0
    y = float(scipy.special.logit(weights @ (a / (a + b))))
    for _ in range(120):
        x = scipy.special.expit(y)
        excess = float(weights @ scipy.special.betainc(a, b, x)) - q
        low, high = (low, y) if excess >= 0 else (y, high)
        slope = float(weights @ np.exp(a * np.log(x) + b * np.log1p(-x) - log_beta)) if x < 1 else 0.0
        guess = y - excess / slope if slope > 0 else np.inf
        ahead = guess if low < guess < high else (low + high) / 2
        if abs(ahead - y) <= 1e-13 * max(1.0, abs(y)):
            break
        y = ahead
    return float(scipy.special.expit(y))
