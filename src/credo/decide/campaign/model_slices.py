"""What the model of a campaign says along each parameter, the others as at one point."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import host
from credo.decide.campaign import Campaign, Observations, Problem
from credo.decide.campaign.advice import front
from credo.decide.campaign.engine import acquisition_of
from credo.decide.campaign.model import Model
from credo.decide.campaign.surrogate import Surrogate
from credo.decide.space.parameters import Integer, Parameter, Point, Real

ACROSS = 81
"""Points along a numeric parameter."""
MOST = 12
"""How many parameters are shown, the most important first."""
WIDE = 1.959964
"""Standard deviations on each side of a 95 % band."""


class Slice(NamedTuple):
    """The belief about an objective along one parameter, in the user's units."""

    parameter: Parameter
    at: list[Any]
    """Values of the parameter."""
    mean: Float[np.ndarray, " m"]
    lower: Float[np.ndarray, " m"]
    upper: Float[np.ndarray, " m"]
    score: Float[np.ndarray, " m"]
    """The acquisition, from 0 to 1, which is its largest value on all slices."""
    here: Any
    """The value at the point that the slices go through."""

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers on an axis rather than names."""
        return isinstance(self.parameter, Real | Integer)


def slices(problem: Problem, model: Model, point: Point, names: list[str]) -> list[list[Slice]]:
    """For each objective, a slice along each of these parameters that exists at the point."""
    space = problem.space
    center = space.encode([point])
    blocks, values = [], []
    shown = [space[name] for name in names if name in point][:MOST]
    for parameter in shown:
        numbers = _numbers(parameter)
        rows = np.repeat(center, len(numbers), axis=0)
        rows[:, space.columns[space.names.index(parameter.name)]] = parameter.columns(numbers)
        blocks.append(space.snap(rows))
        values.append(parameter.values(numbers))
    rows = np.concatenate(blocks)
    ends = np.cumsum([len(block) for block in blocks])[:-1]
    scores = np.split(relative_scores(problem, model, rows), ends)
    out = []
    for surrogate in model.objectives:
        mean, lower, upper = (np.split(each, ends) for each in believed(surrogate, rows))
        here = [point[parameter.name] for parameter in shown]
        out.append([Slice(*part) for part in zip(shown, values, mean, lower, upper, scores, here, strict=True)])
    return out


def center(campaign: Campaign) -> tuple[Point, str]:
    """The point that slices go through: the best, or the most balanced one on the front (Nash's product)."""
    problem, seen = campaign.problem, campaign.observations()
    if len(problem.signs) == 1:
        return campaign.best().point, "the best point"
    rows = front(problem, seen)
    if not len(rows):
        rows = np.flatnonzero(np.isfinite(seen.values).all(axis=1))
    turned = seen.values[rows] * np.asarray(problem.signs)
    worst, reach = turned.min(axis=0), np.ptp(turned, axis=0)
    gains = np.prod((turned - worst) / np.where(reach > 0, reach, 1.0) + 1e-3, axis=1)
    row = rows[int(np.argmax(gains))]
    return seen.points[row], f"trial {seen.numbers[row]}, a compromise on the front"


def _numbers(parameter: Parameter) -> np.ndarray:
    """The numbers of a parameter that are looked at: all of a few, evenly spaced ones of many."""
    if isinstance(parameter, Real | Integer):
        return np.unique(parameter.read(np.linspace(0.0, 1.0, ACROSS)[:, None]))
    return np.arange(parameter.count or 0, dtype=float)


def believed(surrogate: Surrogate, rows: Float[np.ndarray, "m d"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean of the noise-free objective at rows, and the ends of its 95 % band, in the user's units."""
    prediction = host(surrogate.belief.predict(rows))
    mean = surrogate.natural(np.asarray(prediction.mean))
    reach = WIDE * surrogate.scale * np.sqrt(np.maximum(prediction.epistemic, 0.0))
    return mean, mean - reach, mean + reach


def relative_scores(problem: Problem, model: Model, rows: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
    """The acquisition at rows, as a part of its largest value there; of scores without a zero, of their range."""
    acquisition = acquisition_of(problem, model)
    scores = np.asarray(acquisition(model.beliefs, rows))
    if acquisition.scale == "log":
        return np.exp(scores - scores.max())
    low = scores.min() if acquisition.scale == "real" else 0.0
    top = scores.max() - low
    return (scores - low) / top if top > 0 else np.zeros(len(rows))


def held(problem: Problem, seen: Observations, noise: float) -> Bool[np.ndarray, " k"]:
    """Of the outcomes that were predicted before their trial, which fell into the 95 % interval.

    `noise` is the variance of an outcome, in the user's units, which suggestions do not include.
    """
    out = []
    for why, value in zip(seen.why, seen.values[:, 0], strict=True):
        if why and why.get("std") is not None and np.isfinite(value):
            out.append(abs(value - why["mean"]) <= WIDE * np.sqrt(why["std"] ** 2 + noise))
    return np.asarray(out, dtype=bool)


def noise_of(surrogate: Surrogate) -> float:
    """The learned variance of an outcome, in the user's units."""
    return float(surrogate.belief.noise) * surrogate.scale**2
