"""What a campaign believes after its record: a surrogate of each outcome, where trials fail, and what they cost.

Failure is an outcome, too: that a trial gives a value has a probability, by a Gaussian process behind a probit.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import nnls

from credo.core.errors import DataError
from credo.decide.acquisition.checks import Beliefs
from credo.decide.acquisition.cost import AffineCost
from credo.decide.acquisition.pending import believing
from credo.decide.campaign.problem import Observations, Problem
from credo.decide.campaign.surrogate import NOISY, RESPONSES, Surrogate, learn_success, learn_surrogate
from credo.decide.campaign.trial import Hyper


class Model(NamedTuple):
    """What is believed after the record: a surrogate of each objective and constrained outcome, and of success."""

    objectives: tuple[Surrogate, ...]
    constraints: tuple[Surrogate, ...]
    success: Surrogate | None
    """Of the probit of success, in whose units 0 is even odds; None while no trial has failed."""
    cost: AffineCost | None
    """What a trial costs by its fidelity; None where the problem has none."""
    rows: Float[np.ndarray, "n d"]
    """The encoded points of the trials whose objectives all are known."""
    places: Int[np.ndarray, " n"]
    """Their positions in the record."""
    tried: Float[np.ndarray, "t d"]
    """The encoded points of all trials, those that failed included."""

    @property
    def beliefs(self) -> Beliefs:
        """About the objective, or about each of several."""
        several = tuple(each.belief for each in self.objectives)
        return several[0] if len(several) == 1 else several

    @property
    def hyper(self) -> list[Hyper]:
        """The hyperparameters of all surrogates: what the next suggestion starts from."""
        return [each.hyper for each in (*self.objectives, *self.constraints, self.success) if each is not None]

    def after(self, pending: Float[np.ndarray, "p d"]) -> "Model":
        """The model if the pending trials came back with what is expected of them."""
        if not len(pending):
            return self

        def later(each: Surrogate) -> Surrogate:
            return each._replace(belief=believing(each.belief, pending))

        objectives, constraints = (tuple(map(later, several)) for several in (self.objectives, self.constraints))
        rows, tried = (np.concatenate([each, pending]) for each in (self.rows, self.tried))
        return self._replace(objectives=objectives, constraints=constraints, rows=rows, tried=tried)


def model_of(problem: Problem, seen: Observations, warm: Sequence[Hyper] | None = None) -> Model:
    """The model after the record; `warm` is `Model.hyper` of an earlier one, None that of the last one on record."""
    if warm is None:
        warm = next((why["hyper"] for why in reversed(seen.why) if why and "hyper" in why), ())
    rows = seen.rows
    values = np.concatenate([seen.values, seen.constraints], axis=1)
    signs = (*problem.signs, *(1.0 for _ in problem.constraints))
    k = len(problem.signs)
    surrogates = []
    for i, sign in enumerate(signs):
        known = np.isfinite(values[:, i])
        if not known.any():
            raise DataError("no trial has come back with a value yet")
        noise = seen.noise[known] if i < k else None
        start = warm[i] if i < len(warm) else None
        usual = NOISY if i < k and problem.noise is not None else RESPONSES
        surrogates.append(learn_surrogate(rows[known], values[known, i], sign, noise, start, problem.seed, usual))
    success = None
    if seen.failed.any():
        start = warm[len(signs)] if len(signs) < len(warm) else None
        success = learn_success(rows, ~seen.failed, start)
    complete = np.isfinite(values[:, :k]).all(axis=1)
    column = problem.fidelity_column
    cost = None if column is None else _cost(column, seen)
    index = np.flatnonzero(complete)
    return Model(tuple(surrogates[:k]), tuple(surrogates[k:]), success, cost, rows[complete], index, rows)


def _cost(column: int, seen: Observations) -> AffineCost:
    """fixed + slope·fidelity, by least squares where costs were told, else in proportions of 1 to 11."""
    known = np.isfinite(seen.costs)
    if known.sum() < 2 or np.ptp(seen.fidelity[known]) == 0:
        return AffineCost(column=column)
    table = np.stack([np.ones(known.sum()), seen.fidelity[known]], axis=1)
    (fixed, slope), _ = nnls(table, seen.costs[known])
    return AffineCost(max(fixed, 1e-3 * max(slope, 1e-9)), slope, column=column)
