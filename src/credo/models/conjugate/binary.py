"""Outcomes 0 and 1 with an unknown probability: the Beta distribution."""

import equinox as eqx
import jax.random as jr
import numpy as np
import scipy.special
from jaxtyping import Float, PRNGKeyArray

from credo.core import predictive
from credo.core.arrays import Array, as_float, is_traced, namespace, special
from credo.core.checks import ArrayLike, check_counts
from credo.core.errors import DataError
from credo.core.params import positive
from credo.core.predictive import Bernoulli, Interval
from credo.core.predictive.classes import entropy_of
from credo.core.special import log_beta, log_binomial, log_rising
from credo.models.conjugate.base import Conjugate, Statistics, central_interval, check_parameters, check_trials
from credo.models.conjugate.known import Binomial


class BinaryCounts(Statistics):
    """Successes, failures, and the log of the number of orders in which they can have occurred."""

    successes: Float[Array, ""] = eqx.field(converter=as_float)
    failures: Float[Array, ""] = eqx.field(converter=as_float)
    log_orders: Float[Array, ""] = eqx.field(converter=as_float)


class Beta(Conjugate):
    """θ ~ Beta(a, b), p(θ) = θᵃ⁻¹(1 - θ)ᵇ⁻¹/B(a, b): a and b count successes and failures.

    Mean a/(a + b), mode (a - 1)/(a + b - 2), strength a + b. Murphy (2012), section 3.3.
    """

    a: Float[Array, ""] = positive(1.0)
    b: Float[Array, ""] = positive(1.0)

    def __check_init__(self) -> None:
        check_parameters(self, "a", "b")

    @property
    def estimate(self) -> Float[Array, ""]:
        """a/(a + b)."""
        return self.a / self.strength

    @property
    def strength(self) -> Float[Array, ""]:
        """a + b."""
        return self.a + self.b

    def condition_on(self, statistics: BinaryCounts) -> "Beta":
        """Beta(a + successes, b + failures)."""
        return type(self)(self.a + statistics.successes, self.b + statistics.failures)

    def evidence_of(self, statistics: BinaryCounts) -> Array:
        """log B(a + n₁, b + n₀)/B(a, b), plus the log number of orders where the order is not part of the data."""
        ones, zeros = statistics.successes, statistics.failures
        rising = log_rising(self.a, ones) + log_rising(self.b, zeros) - log_rising(self.strength, ones + zeros)
        return rising + statistics.log_orders

    def predict_sum(self, trials: ArrayLike) -> predictive.BetaBinomial:
        """The number of successes in `trials` future outcomes."""
        m, xp = check_trials(trials), namespace(self)
        a, b = xp.broadcast_to(self.a, m.shape), xp.broadcast_to(self.b, m.shape)
        return predictive.BetaBinomial(m, a, b, int(m.max()))

    def _sum_at(self, theta: Float[Array, ""], trials: ArrayLike) -> Binomial:
        m = check_trials(trials)
        a = namespace(theta).broadcast_to(theta, m.shape)
        return Binomial(m, a, 1 - a, int(m.max()))

    def mode(self) -> Array:
        """(a - 1)/(a + b - 2); there is no mode for a < 1, for b < 1, and for a = b = 1."""
        excess = self.a + self.b - 2
        if not is_traced(excess) and not (self.a >= 1 and self.b >= 1 and excess > 0):
            raise DataError(
                f"Beta(a={float(self.a):g}, b={float(self.b):g}) has no mode: it needs a ≥ 1, b ≥ 1 and a + b > 2; "
                "use .estimate (the mean)"
            )
        return (self.a - 1) / excess

    def log_prob(self, theta: ArrayLike) -> Array:
        """log Beta(θ | a, b); -inf outside [0, 1]."""
        t = as_float(theta)
        xp, functions = namespace(self, t), special(self, t)
        inside = (t >= 0) & (t <= 1)
        p = xp.where(inside, t, 0.5)
        density = functions.xlogy(self.a - 1, p) + functions.xlog1py(self.b - 1, -p) - log_beta(self.a, self.b)
        return xp.where(inside, density, -np.inf)

    def credible_interval(self, level: ArrayLike = 0.95) -> Interval:
        """The central interval that holds θ with probability `level`."""
        return beta_interval(self.a, self.b, level)

    def _most_likely(self, statistics: BinaryCounts) -> Array:
        return statistics.successes / (statistics.successes + statistics.failures)

    def _draw_parameters(self, key: PRNGKeyArray) -> Array:
        return jr.beta(key, self.a, self.b)


class BetaBernoulli(Beta):
    """A coin: xᵢ ~ Bernoulli(θ), θ ~ Beta(a, b). Data are vectors of 0 and 1."""

    def statistics(self, outcomes: ArrayLike) -> BinaryCounts:
        """How many of the outcomes are 1 and 0."""
        x = check_counts(outcomes, "outcomes", below=2)
        return BinaryCounts(x.sum(), x.shape[0] - x.sum(), np.zeros(()))

    def predict(self, trials: ArrayLike = None) -> predictive.Predictive:
        """The next outcome, Bernoulli(a/(a + b)), or with `trials` the number of ones among so many.

        E[H[θ]] = ψ(a + b + 1) - a/(a+b) ψ(a + 1) - b/(a+b) ψ(b + 1).
        """
        if trials is not None:
            return self.predict_sum(trials)
        return Bernoulli(self.estimate, expected_binary_entropy(self.a, self.b))

    def predict_at(self, theta: Float[Array, ""], trials: ArrayLike = None) -> predictive.Predictive:
        """The next outcome, or the number of ones among `trials`, of a coin that is known."""
        if trials is not None:
            return self._sum_at(theta, trials)
        return Bernoulli(theta, entropy_of(namespace(theta).stack([1 - theta, theta])))


class BetaBinomial(Beta):
    """Rows of (successes, trials): sᵢ ~ Binomial(nᵢ, θ), θ ~ Beta(a, b). The evidence counts orders."""

    def statistics(self, successes: ArrayLike, trials: ArrayLike) -> BinaryCounts:
        """The totals over the rows, and Σ log C(nᵢ, sᵢ)."""
        s, n = check_successes(successes, trials)
        return BinaryCounts(s.sum(), (n - s).sum(), log_binomial(n, s).sum())

    def predict(self, trials: ArrayLike = 1) -> predictive.BetaBinomial:
        """The number of successes in `trials` future trials (one number, or one per query)."""
        return self.predict_sum(trials)

    def predict_at(self, theta: Float[Array, ""], trials: ArrayLike = 1) -> Binomial:
        """The number of successes where θ is known."""
        return self._sum_at(theta, trials)


def expected_binary_entropy(a: Array, b: Array) -> Array:
    """E[H[Bernoulli(θ)]] for θ ~ Beta(a, b)."""
    s, digamma = a + b, special(a, b).digamma
    return digamma(s + 1) - (a * digamma(a + 1) + b * digamma(b + 1)) / s


def beta_interval(a: Array, b: Array, level: ArrayLike) -> Interval:
    """The central interval of Beta(a, b)."""
    return central_interval(lambda q: scipy.special.betaincinv(a, b, q), level)


def check_successes(successes: ArrayLike, trials: ArrayLike) -> tuple[Array, Array]:
    """Two vectors of counts of the same length, successes ≤ trials."""
    s = check_counts(successes, "successes")
    n = check_counts(trials, "trials")
    if s.shape != n.shape:
        raise DataError(f"successes and trials must have the same length, found {len(s)} and {len(n)}")
    if not is_traced(s, n) and np.any(s > n):
        row = int(np.argmax(s > n))
        raise DataError(
            f"successes must not exceed trials, found {s[row]:g} of {n[row]:g} at row {row}; "
            "the second argument is the number of trials, not of failures"
        )
    return s, n
