"""What a campaign believes after its record: a surrogate of each outcome, where trials fail, and what they cost.

Failure is an outcome like others: 0 where there is no value and 1 where there is one, and what must stay above ½.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import nnls

from credo.core.arrays import put
from credo.core.errors import DataError
from credo.decide.acquisition import OverBeliefs
from credo.decide.acquisition.base import Acquisition
from credo.decide.acquisition.cost import AffineCost
from credo.decide.acquisition.pending import believing
from credo.decide.campaign.problem import Observations, Problem
from credo.decide.campaign.smooth_surrogates import Smoother, smoother_of
from credo.decide.campaign.surrogate import LABELS, NOISY, RESPONSES, Surrogate, learn_surrogate
from credo.infer.averaging import Averaged
from credo.models.gp import GP


class Model(NamedTuple):
    """What is believed after the record: a surrogate of each objective and constrained outcome, and of success."""

    objectives: tuple[Surrogate, ...]
    constraints: tuple[Surrogate, ...]
    success: Surrogate | None
    """Of 1 where a trial gave a value and 0 where it failed; None while none has."""
    cost: AffineCost | None
    """What a trial costs by its fidelity; None where the problem has none."""
    rows: Float[np.ndarray, "n d"]
    """The encoded points of the trials whose objectives all are known."""
    places: Int[np.ndarray, " n"]
    """Their positions in the record."""
    tried: Float[np.ndarray, "t d"]
    """The encoded points of all trials, those that failed included."""
    smoother: Smoother | None = None
    """The first objective, if it is smoother than its surrogate believes; None where that is not asked."""

    @property
    def hyper(self) -> list[dict[str, Any]]:
        """The hyperparameters of all surrogates: what the next suggestion starts from."""
        out: list[dict[str, Any]] = [
            each.hyper for each in (*self.objectives, *self.constraints, self.success) if each is not None
        ]
        if self.smoother is not None and self.smoother.surface is not None:
            out[0]["surface"] = self.smoother.surface
        return out

    @property
    def beliefs(self) -> tuple[GP, ...]:
        """About the first objective: that of its surrogate, and the smoother one where it is asked."""
        first = self.objectives[0].belief
        return (first,) if self.smoother is None else (first, self.smoother.surrogate.belief)

    def over(self, acquisition: Acquisition) -> Acquisition:
        """The score under all `beliefs`."""
        if self.smoother is None:
            return acquisition
        return OverBeliefs(acquisition, self.beliefs[1:], self.smoother.log_weights)

    def averaged(self) -> Any:
        """The belief about the first objective that trials are compared by: the average of `beliefs`.

        What is smoother than the truth makes neighbours look alike, and one of them the best: without strong evidence
        for the smoother belief it is left out.
        """
        if self.smoother is None or not self.smoother.is_evident:
            return self.beliefs[0]
        return Averaged(put(self.smoother.log_weights), self.beliefs)

    def smoothed(self, warm: Any = None, seed: int = 0) -> "Model":
        """The model that asks the smoother belief, too; `warm` is the first of an earlier `hyper`."""
        if self.smoother is not None:
            return self
        return self._replace(smoother=smoother_of(self.objectives[0], (warm or {}).get("surface"), seed))

    def after(self, pending: Float[np.ndarray, "p d"]) -> "Model":
        """The model if the pending trials came back with what is expected of them."""
        if not len(pending):
            return self

        def later(each: Surrogate) -> Surrogate:
            return each._replace(belief=believing(each.belief, pending))

        objectives, constraints = (tuple(map(later, several)) for several in (self.objectives, self.constraints))
        smoother = self.smoother and self.smoother._replace(surrogate=later(self.smoother.surrogate))
        rows, tried = (np.concatenate([each, pending]) for each in (self.rows, self.tried))
        return self._replace(objectives=objectives, constraints=constraints, rows=rows, tried=tried, smoother=smoother)


def model_of(problem: Problem, seen: Observations, warm: Any = None) -> Model:
    """The model after the record; `warm` is `Model.hyper` of an earlier one, None that of the last one on record."""
    if warm is None:
        warm = next((why["hyper"] for why in reversed(seen.why) if why and "hyper" in why), ())
    rows = problem.space.encode(seen.points)
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
        success = learn_surrogate(rows, (~seen.failed).astype(float), 1.0, None, start, problem.seed, LABELS)
    complete = np.isfinite(values[:, :k]).all(axis=1)
    cost = None if problem.fidelity is None else _cost(problem, seen)
    index = np.flatnonzero(complete)
    model = Model(tuple(surrogates[:k]), tuple(surrogates[k:]), success, cost, rows[complete], index, rows)
    asked = k == 1 and problem.noise is not None and problem.fidelity is None and problem.acquisition is None
    return model.smoothed(warm[0] if len(warm) else None, problem.seed) if asked else model


def fidelity_column(problem: Problem) -> int:
    """The encoded column that is the fidelity."""
    space = problem.space
    return space.owners.index(space.names.index(problem.fidelity or ""))


def _cost(problem: Problem, seen: Observations) -> AffineCost:
    """fixed + slope·fidelity, by least squares where costs were told, else in proportions of 1 to 11."""
    known = np.isfinite(seen.costs)
    column = fidelity_column(problem)
    if known.sum() < 2 or np.ptp(seen.fidelity[known]) == 0:
        return AffineCost(column=column)
    table = np.stack([np.ones(known.sum()), seen.fidelity[known]], axis=1)
    (fixed, slope), _ = nnls(table, seen.costs[known])
    return AffineCost(max(fixed, 1e-3 * max(slope, 1e-9)), slope, column=column)
