"""Losses: what an action costs once the outcome is known, and the action that costs least on average.

A loss is a formula, `loss(action, outcome)`, elementwise. Its Bayes action minimizes E[L(a, Y)] under a
prediction:

    Squared                 (a - y)²                            mean
    Absolute                |a - y|                             median
    Asymmetric(u, o)        u (y - a)₊ + o (a - y)₊             u/(u + o) quantile
    Pinball(q)              the same with u = q, o = 1 - q      q quantile
    ZeroOne                 1{a ≠ y}                            most probable class
    CostMatrix              C[a, y], or a fixed price to refuse smallest expected cost
    IntervalLoss(level)     width + 2/(1 - level) · miss        central interval
    CustomLoss              any function                        by search

Berger (1985), "Statistical decision theory and Bayesian analysis", section 2.4; Gneiting (2011), "Making and
evaluating point forecasts".
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, Numeric, as_float, host, is_traced, namespace
from credo.core.checks import check_table
from credo.core.errors import DataError
from credo.core.predictive import Bernoulli, Categorical, Interval, Predictive
from credo.core.predictive.base import check_levels
from credo.core.predictive.classes import Classes
from credo.core.predictive.expectation import alone, shortfall
from credo.evaluate.scores import interval_loss


class Loss(eqx.Module):
    """What an action costs when the outcome is known."""

    @abstractmethod
    def __call__(self, action: Any, outcome: Any) -> Array:
        """L(action, outcome), elementwise."""

    @abstractmethod
    def bayes_action(self, prediction: Predictive) -> Any:
        """argmin_a E[L(a, Y)], one action per query."""

    @abstractmethod
    def expected_loss(self, prediction: Predictive, action: Any) -> Array:
        """E[L(action, Y)], one number per query."""

    def least_loss(self, outcome: Any) -> Array:
        """min_a L(a, outcome): what it costs to know the outcome in advance; here nothing."""
        return np.zeros(np.shape(outcome))


class Squared(Loss):
    """(a - y)²; the Bayes action is the mean, its expected loss the variance."""

    def __call__(self, action: Any, outcome: Any) -> Array:
        """(a - y)²."""
        return (as_float(action) - as_float(outcome)) ** 2

    def bayes_action(self, prediction: Predictive) -> Array:
        """E[y]."""
        return self._check(prediction).mean

    def expected_loss(self, prediction: Predictive, action: Any) -> Array:
        """Var[y] + (a - E[y])²."""
        each = self._check(prediction)
        return each.variance + self(action, each.mean)

    def _check(self, prediction: Predictive) -> Predictive:
        each = numeric(prediction, "Squared")
        variance = each.variance
        if not is_traced(variance) and not np.isfinite(variance).all():
            raise DataError(
                "squared loss needs a prediction with a finite variance, found an infinite one "
                "(a Student-t with df ≤ 2); condition on more data, or use Absolute()"
            )
        return each


class Slopes(Loss):
    """under (y - a)₊ + over (a - y)₊: two straight lines that meet where the action is the outcome."""

    @property
    @abstractmethod
    def slopes(self) -> tuple[Any, Any]:
        """(under, over): the price of a unit too little, and of a unit too much."""

    def __call__(self, action: Any, outcome: Any) -> Array:
        """under (y - a)₊ + over (a - y)₊."""
        under, over = self.slopes
        excess = as_float(action) - as_float(outcome)
        xp = namespace(excess)
        return under * xp.maximum(-excess, 0.0) + over * xp.maximum(excess, 0.0)

    def bayes_action(self, prediction: Predictive) -> Array:
        """F⁻¹(under/(under + over))."""
        under, over = self.slopes
        return numeric(prediction, type(self).__name__).quantile(under / (under + over))

    def expected_loss(self, prediction: Predictive, action: Any) -> Array:
        """(under + over) E(a - Y)₊ + under (E[Y] - a)."""
        under, over = self.slopes
        each = numeric(prediction, type(self).__name__)
        a = as_float(action)
        below = shortfall(each, a)
        if not is_traced(below) and not np.isfinite(below).all():
            raise DataError(
                "the expected loss is infinite: the prediction has no mean (a Student-t with df ≤ 1); "
                "condition on more data"
            )
        return (under + over) * below + under * (each.mean - a)


class Absolute(Slopes):
    """|a - y|; the Bayes action is the median."""

    @property
    def slopes(self) -> tuple[Any, Any]:
        """(1, 1)."""
        return 1.0, 1.0


class Asymmetric(Slopes):
    """`under` per unit by which the action falls short of the outcome, `over` per unit by which it exceeds it.

    The Bayes action is the under/(under + over) quantile.
    """

    under: Float[Array, ""] = eqx.field(converter=as_float)
    over: Float[Array, ""] = eqx.field(converter=as_float)

    def __check_init__(self) -> None:
        for name, cost in (("under", self.under), ("over", self.over)):
            if not is_traced(cost) and not (cost.ndim == 0 and 0 < cost < np.inf):
                raise DataError(f"{name} must be a cost greater than zero, found {cost}")

    @property
    def slopes(self) -> tuple[Any, Any]:
        """(under, over)."""
        return self.under, self.over


class Pinball(Slopes):
    """q (y - a)₊ + (1 - q)(a - y)₊, whose Bayes action is the q quantile. Koenker & Bassett (1978)."""

    q: Float[Array, ""] = eqx.field(converter=as_float)

    def __check_init__(self) -> None:
        check_levels(self.q, "q")

    @property
    def slopes(self) -> tuple[Any, Any]:
        """(q, 1 - q)."""
        return self.q, 1 - self.q


class ZeroOne(Loss):
    """1 for the wrong class, 0 for the right one; the Bayes action is the most probable class."""

    def __call__(self, action: Any, outcome: Any) -> Array:
        """1{a ≠ y}."""
        return (as_float(action) != as_float(outcome)).astype(float)

    def bayes_action(self, prediction: Predictive) -> Array:
        """argmaxₖ P(y = k)."""
        return classes(prediction, "ZeroOne").probs.argmax(-1)

    def expected_loss(self, prediction: Predictive, action: Any) -> Array:
        """1 - P(y = a)."""
        return 1 - _pick(classes(prediction, "ZeroOne").probs, action)


class CostMatrix(Loss):
    """`costs[a, k]` for action a when class k is the truth; the Bayes action has the smallest expected cost.

    Where `reject` is a number, the action numbered len(costs) is to refuse to decide, at that price whatever the
    truth. Chow (1970), "On optimum recognition error and reject tradeoff".
    """

    costs: Float[Array, "a k"]
    reject: Float[Array, ""] | None
    names: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(self, costs: Any, reject: Any = None, names: Any = None) -> None:
        self.costs = host(check_table(costs, "costs"))
        self.reject = None if reject is None else as_float(reject)
        if names is not None and (isinstance(names, str | bytes) or not isinstance(names, Iterable)):
            raise DataError(f"names must be a list of the names of actions, found {names!r}")
        self.names = None if names is None else tuple(str(name) for name in names)

    def __check_init__(self) -> None:
        if not is_traced(self.costs) and (self.costs < 0).any():
            raise DataError(
                f"costs must not be negative, found {float(self.costs.min()):g}; subtract the smallest cost of "
                "each class from its column: the decisions stay the same"
            )
        price = self.reject
        if price is not None and not is_traced(price) and not (price.ndim == 0 and 0 <= price < np.inf):
            raise DataError(f"reject must be a cost ≥ 0, found {price}")
        if self.names is not None and len(self.names) != self.costs.shape[0]:
            raise DataError(f"names must hold one name per action ({self.costs.shape[0]}), found {len(self.names)}")

    @property
    def table(self) -> Float[Array, "b k"]:
        """The costs, with a last row for refusing where that is possible."""
        if self.reject is None:
            return self.costs
        xp = namespace(self)
        return xp.concatenate([self.costs, xp.full((1, self.costs.shape[1]), self.reject)])

    def __call__(self, action: Any, outcome: Any) -> Array:
        """C[a, y]."""
        table = namespace(self, action, outcome).asarray(self.table)
        return table[as_float(action).astype(int), as_float(outcome).astype(int)]

    def bayes_action(self, prediction: Predictive) -> Array:
        """argmin_a Σₖ P(y = k) C[a, k]; len(costs) means to refuse."""
        return self._all(prediction).argmin(-1)

    def expected_loss(self, prediction: Predictive, action: Any) -> Array:
        """Σₖ P(y = k) C[a, k]."""
        return _pick(self._all(prediction), action)

    def least_loss(self, outcome: Any) -> Array:
        """min_a C[a, y]."""
        return namespace(self, outcome).asarray(self.table.min(0))[as_float(outcome).astype(int)]

    def name_of(self, action: Any) -> Any:
        """The name of an action, or of each in an array: `names`, its number where there are none, "reject"."""
        labels = [*(self.names or map(str, range(self.costs.shape[0]))), "reject"]
        index = np.asarray(action, int)
        return labels[int(index)] if index.ndim == 0 else [labels[int(i)] for i in index]

    def _all(self, prediction: Predictive) -> Array:
        probs = classes(prediction, "CostMatrix").probs
        if probs.shape[-1] != self.costs.shape[1]:
            raise DataError(
                f"costs must have one column per class: the prediction has {probs.shape[-1]} classes, "
                f"costs {self.costs.shape[1]} columns"
            )
        return probs @ self.table.T


class IntervalLoss(Loss):
    """The interval score as a loss: (u - l) + 2/α (l - y)₊ + 2/α (y - u)₊ for an action (l, u), α = 1 - level.

    The Bayes action is the central interval. Gneiting & Raftery (2007), eq. 43.
    """

    level: Float[Array, ""] = eqx.field(converter=as_float, default=0.95)

    def __check_init__(self) -> None:
        check_levels(self.level, "level")

    def __call__(self, action: Any, outcome: Any) -> Array:
        """Width plus a penalty for each miss."""
        lower, upper = (as_float(end) for end in action)
        return interval_loss(lower, upper, as_float(outcome), self.level)

    def bayes_action(self, prediction: Predictive) -> Interval:
        """The central interval of probability `level`."""
        return numeric(prediction, "IntervalLoss").interval(self.level)

    def expected_loss(self, prediction: Predictive, action: Any) -> Array:
        """(u - l) + 2/α E(l - Y)₊ + 2/α E(Y - u)₊."""
        each = numeric(prediction, "IntervalLoss")
        lower, upper = (as_float(end) for end in action)
        misses = shortfall(each, lower) + shortfall(each, upper) + each.mean - upper
        return upper - lower + 2 / (1 - self.level) * misses


def _pick(costs: Float[Array, "*m a"], action: Numeric) -> Float[Array, "*m"]:
    """costs[a] for one action, or one of each row."""
    xp = namespace(costs, action)
    index = xp.broadcast_to(as_float(action).astype(int), costs.shape[:-1])
    return xp.take_along_axis(costs, index[..., None], axis=-1)[..., 0]


def numeric(prediction: Predictive, what: str) -> Predictive:
    """The prediction, each outcome on its own, if its outcomes are numbers."""
    if isinstance(prediction, Categorical):
        raise DataError(f"{what} needs outcomes that are numbers, found classes; use ZeroOne() or CostMatrix(...)")
    return alone(prediction)


def classes(prediction: Predictive, what: str) -> Classes:
    """The prediction, if its outcomes are classes."""
    if not isinstance(prediction, Categorical | Bernoulli):
        raise DataError(
            f"{what} needs a prediction of classes, found {type(prediction).__name__}; "
            "use Squared(), Absolute() or Asymmetric(...)"
        )
    return prediction
