"""What a point is worth for what it costs, and experiments that come in several fidelities.

    PerCost(x)          = a(x)/E[c(x)]^κ                                      Snoek, Larochelle & Adams (2012), §3.2
    MultiFidelity(x, s) = a(x, 1) · ρ²(x, s)/E[c(x, s)]                       after Huang, Allen, Notz & Miller (2006)

a is a positive score, E[c] the expected cost, s ∈ [0, 1] an input column that says how faithful an experiment is, 1
being the one that matters. With ε the noise of the outcome,

    ρ²(x, s) = cov[f(x, s), f(x, 1)]²/(var f(x, 1) · (var f(x, s) + var ε))

is the squared correlation between what is seen and what is sought: the share of the doubt about f(x, 1) that an outcome
at (x, s) takes away. Huang et al. multiply by the correlation and, for noise, by another factor; its square has both.
"""

from collections.abc import Callable

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.abilities import HasCovariance, KeepsRows
from credo.core.arrays import Array, as_float, namespace
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.decide.acquisition.base import SMALLEST, Acquisition, Positive
from credo.decide.acquisition.checks import (
    Beliefs,
    Points,
    Predicts,
    check_number,
    demand_covariance,
    seen_inputs,
    single,
    table_or_none,
)
from credo.decide.acquisition.improvement import ExpectedImprovement
from credo.decide.acquisition.joint_draws import stacked

Cost = Callable[[Array], Array] | Predicts
"""A function of the rows, or a belief about the logarithm of what they cost."""


class AffineCost(eqx.Module):
    """c(x) = fixed + slope·s with s the input in `column`: what a fidelity costs.

    Args:
        fixed: what every experiment costs.
        slope: what one of fidelity 1 costs more than one of fidelity 0.
        column: the input that is the fidelity.
    """

    fixed: Float[Array, ""] = eqx.field(converter=as_float, default=0.1)
    slope: Float[Array, ""] = eqx.field(converter=as_float, default=1.0)
    column: int = eqx.field(static=True, default=-1)

    def __check_init__(self) -> None:
        check_number(self.fixed, "fixed", 1e-12)
        check_number(self.slope, "slope", 0.0)

    def __call__(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The cost of each row."""
        return self.fixed + self.slope * x[:, self.column]


def log_expected_cost(cost: Cost, x: Float[Array, "m d"]) -> Float[Array, " m"]:
    """log E[c(x)]: of a function of the rows its logarithm; of a belief about log c, μ + σ²/2, as c is log-normal."""
    if not isinstance(cost, Predicts):
        spent = cost(x)
        return namespace(spent).log(spent)
    prediction = cost.predict(x)
    return prediction.mean + 0.5 * (prediction.epistemic + prediction.aleatoric)


def _as_cost(value: object) -> Cost:
    if isinstance(value, Predicts) or callable(value):
        return value
    found = type(value).__name__
    raise DataError(f"cost must be a function of the rows or a belief about log cost, found {found}")


class Costly(Positive):
    """What scores per cost share: a positive score, and what an experiment costs."""

    acquisition: Acquisition
    cost: Cost = eqx.field(converter=_as_cost)

    def __check_init__(self) -> None:
        name = type(self).__name__
        if not isinstance(self.acquisition, Acquisition) or self.acquisition.scale == "real":
            raise DataError(
                f"{name} divides a score that is never negative, found {type(self.acquisition).__name__}; "
                "use ExpectedImprovement, ProbabilityOfImprovement or MaxValueEntropySearch"
            )

    def check_cost(self, belief: Beliefs) -> None:
        """`DataError` where a cost at the rows that were seen is not positive."""
        rows = seen_inputs(belief[0] if isinstance(belief, tuple | list) else belief)
        if rows is None or not len(rows) or isinstance(self.cost, Predicts):
            return
        costs = np.asarray(self.cost(rows))
        if costs.shape != (len(rows),):
            raise DataError(f"cost must give one number per row: {len(rows)} are expected, found shape {costs.shape}")
        wrong = ~(np.isfinite(costs) & (costs > 0))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(f"cost must be positive, found {costs[row]:g} at row {row} of those seen")


class PerCost(Costly):
    """The score for each unit of expected cost, a(x)/E[c(x)]^κ.

    Args:
        acquisition: a score that is never negative, or the logarithm of one.
        cost: a function of the rows (m, d) that gives their costs (m,), traceable; or a belief about log cost.
        power: κ: 1 counts cost in full, 0 not at all. Lee et al. (2020) lower it as the budget is used up.
    """

    power: Float[Array, ""] = eqx.field(converter=as_float, default=1.0)

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "PerCost":
        """With the inner score made ready."""
        check_number(self.power, "power", 0.0)
        self.check_cost(belief)
        return changed(self, acquisition=self.acquisition.prepared(belief, seed=seed, pending=pending))

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """log a(x) - κ log E[c(x)]."""
        return self.acquisition.climb(belief, x) - self.power * log_expected_cost(self.cost, x)


class AtTarget(HasCovariance, KeepsRows):
    """A belief as it looks from the fidelity that matters: queries and rows seen have s = 1."""

    belief: Predicts
    column: int = eqx.field(static=True, default=-1)

    def seen_inputs(self) -> Float[Array, "n d"] | None:
        """The rows that were seen, at the target."""
        rows = seen_inputs(self.belief)
        return rows if rows is None else self.moved(rows)

    def moved(self, x: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The rows with fidelity 1."""
        target = np.arange(x.shape[1]) == self.column % x.shape[1]
        return namespace(x).where(target, 1.0, x)

    def predict(self, x: Float[Array, "m d"]) -> Predictive:
        """The prediction at the target."""
        return self.belief.predict(self.moved(x))

    def covariance(self, x: Float[Array, "m d"], z: Float[Array, "q d"] | None = None) -> Float[Array, "m q"]:
        """The covariance at the target."""
        between = demand_covariance(self.belief, "MultiFidelity").covariance
        return between(self.moved(x), self.moved(x if z is None else z))


class MultiFidelity(Costly):
    """The score at fidelity 1, times the share of the doubt there that an outcome at fidelity s removes, per cost.

    Args:
        acquisition: a score of points at fidelity 1 that is never negative; None is `ExpectedImprovement()`.
        cost: a function of the rows, or a belief about log cost; None is `AffineCost(column=column)`.
        column: the input that is the fidelity, in [0, 1].
    """

    column: int = eqx.field(static=True, default=-1)

    def __init__(self, acquisition: Acquisition | None = None, cost: Cost | None = None, column: int = -1):
        self.acquisition = ExpectedImprovement() if acquisition is None else acquisition
        self.cost = AffineCost(column=column) if cost is None else cost
        self.column = column

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "MultiFidelity":
        """With the inner score made ready at the target."""
        demand_covariance(belief, type(self).__name__)
        rows = seen_inputs(belief)
        if rows is not None and len(rows):
            self._check_column(rows)
        self.check_cost(belief)
        target, awaited = AtTarget(single(belief), self.column), table_or_none(pending, "pending")
        awaited = None if awaited is None else target.moved(awaited)
        return changed(self, acquisition=self.acquisition.prepared(target, seed=seed, pending=awaited))

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """log a(x, 1) + log ρ²(x, s) - log E[c(x, s)]."""
        worth = self.acquisition.climb(AtTarget(single(belief), self.column), x)
        shared = self.correlation(belief, x)
        xp = namespace(shared)
        return worth + xp.log(xp.maximum(shared, SMALLEST)) - log_expected_cost(self.cost, x)

    def correlation(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """ρ²(x, s) of each row."""
        known = demand_covariance(belief, type(self).__name__)
        target = AtTarget(known, self.column).moved(x)

        def pair(both: Float[Array, "2 d"]) -> Float[Array, ""]:
            return known.covariance(both[:1], both[1:])[0, 0]

        here, there = known.predict(x), known.predict(target)
        xp = namespace(here, there)
        doubt = xp.maximum(there.epistemic, SMALLEST)
        seen = xp.maximum(here.epistemic + here.aleatoric, SMALLEST)
        return stacked(pair, xp.stack([x, target], axis=1)) ** 2 / (doubt * seen)

    def _check_column(self, rows: Float[np.ndarray, "n d"]) -> None:
        d = rows.shape[1]
        if not -d <= self.column < d:
            raise DataError(f"column must name one of the {d} inputs, found {self.column}")
        fidelity = rows[:, self.column]
        if fidelity.min() < 0 or fidelity.max() > 1:
            raise DataError(
                f"fidelity must lie in [0, 1], found {fidelity.min():g} to {fidelity.max():g} in column {self.column}; "
                "scale it so that 1 is the experiment that matters"
            )
