"""What each column contributes: the change it makes to the prediction, and the curve it follows, with doubt."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from credo.app.report.responses import responses
from credo.app.schema import Column
from credo.app.workflow import Result
from credo.models.glm import GLM
from credo.models.gp import GP
from credo.models.linear import Linear

MOST_CURVES = 6
MIDDLE = (0.025, 0.975)


class Effect(NamedTuple):
    """How the prediction changes when one column goes from one value to another, all else typical."""

    column: str
    start: str
    end: str
    mean: float
    lower: float
    upper: float
    outcome: str = ""
    """Of several classes, the one whose probability changes most."""

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval leaves out zero."""
        return self.lower > 0 or self.upper < 0


class Curve(NamedTuple):
    """The prediction along one column, all else typical, with 95 % of the doubt about the mean.

    For more than two classes `mean`, `lower` and `upper` have a column for the probability of each.
    """

    column: Column
    at: np.ndarray
    """Numbers, dates or the names of levels (of numbers with few values, those values)."""
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    seen: np.ndarray
    """The values of the column in the data; empty where it has only a few levels or values."""


def typical_row(result: Result) -> np.ndarray:
    """The median of numbers and dates, the most common level of everything else."""
    x = result.prepared.x
    row = np.zeros(x.shape[1])
    for column in result.prepared.schema.columns:
        for i in result.prepared.schema.where(column.name):
            values = x.iloc[:, i].to_numpy()
            numeric = column.kind in ("number", "date") and i == result.prepared.schema.where(column.name)[0]
            row[i] = np.median(values) if numeric else 0.0
        if column.kind == "category" and len(column.levels) > 2:
            row[result.prepared.schema.where(column.name)[0]] = 1.0
        elif column.kind == "yes/no":
            i = result.prepared.schema.where(column.name)[0]
            row[i] = np.round(x.iloc[:, i].mean())
    return row


def effects(result: Result) -> list[Effect]:
    """The effect of every column, the largest first; for a category that of each level against the most common.

    None where the model is a constant.
    """
    belief = result.model.belief
    if isinstance(belief, GLM) and belief.features.size(result.prepared.x.shape[1]) == 0:
        return []
    labels, starts, ends = [], [], []
    base = typical_row(result)
    for column in result.prepared.schema.columns:
        for start, end, before, after in _contrasts(result, column, base):
            labels.append((column.name, start, end))
            starts.append(before)
            ends.append(after)
    before, after = np.asarray(starts), np.asarray(ends)
    if isinstance(belief, GLM):
        found = _changes(result, belief, labels, before, after)
    else:
        change, deviation = difference(belief, before, after)
        found = [
            Effect(*label, float(c), float(c - 1.96 * s), float(c + 1.96 * s))
            for label, c, s in zip(labels, change, deviation, strict=True)
        ]
    return sorted(found, key=lambda effect: -abs(effect.mean))


def _changes(
    result: Result, belief: GLM, labels: list[tuple[str, str, str]], before: np.ndarray, after: np.ndarray
) -> list[Effect]:
    """Changes of the expected count, of the probability of the second class, or of that of several which moves most."""
    exposure = typical_exposure(result)
    change = responses(belief, after, exposure) - responses(belief, before, exposure)
    found = []
    for i, label in enumerate(labels):
        each, name = change[:, i], ""
        if each.ndim == 2:
            most = int(np.argmax(np.abs(each.mean(axis=0))))
            each, name = each[:, most], result.model.levels[most]
        lower, upper = (float(v) for v in np.quantile(each, MIDDLE))
        found.append(Effect(*label, float(each.mean()), lower, upper, name))
    return found


def typical_exposure(result: Result) -> float:
    """The median exposure of the rows, 1 where there is none."""
    return 1.0 if result.prepared.exposure is None else float(np.median(result.prepared.exposure))


def difference(belief: Linear | GP, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of f(after) - f(before), row by row: Var = k(a, a) + k(b, b) - 2 k(a, b)."""
    k = len(before)
    mean = np.asarray(belief.predict(after).mean) - np.asarray(belief.predict(before).mean)
    both = np.concatenate([before, after])
    covariance = np.asarray(belief.covariance(both, both))
    weights = belief.weights if isinstance(belief, Linear) else None
    if weights is not None and weights.noise is not None:
        covariance = covariance * float(weights.noise.parameter)
    diagonal = np.diag(covariance)
    variance = diagonal[:k] + diagonal[k:] - 2 * np.diag(covariance[:k, k:])
    return mean, np.sqrt(np.maximum(variance, 0.0))


def _contrasts(result: Result, column: Column, base: np.ndarray) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
    places = result.prepared.schema.where(column.name)
    values = result.prepared.x.iloc[:, places[0]].to_numpy()

    def with_value(value: float, place: int = places[0]) -> np.ndarray:
        row = base.copy()
        row[place] = value
        return row

    if column.kind == "yes/no":
        return [(*column.levels[:2], with_value(0.0), with_value(1.0))]  # type: ignore[list-item]
    if column.kind == "category":
        common = column.levels[0]
        if len(column.levels) == 2:
            return [(common, column.levels[1], with_value(0.0), with_value(1.0))]
        found = []
        for i, level in enumerate(column.levels[1:], start=1):
            row = with_value(1.0, places[i])
            row[places[0]] = 0.0
            found.append((common, level, base, row))
        return found
    low, high = np.quantile(values, [0.1, 0.9])
    if low == high or len(np.unique(values)) == 2:
        low, high = values.min(), values.max()
    if column.kind == "date":
        shown = [f"{pd.Timestamp(d):%Y-%m-%d}" for d in column.to_dates(np.asarray([low, high]))]
    else:
        shown = [f"{low:.3g}", f"{high:.3g}"]
    return [(shown[0], shown[1], with_value(float(low)), with_value(float(high)))]


def curves(result: Result, ranked: list[Effect]) -> list[Curve]:
    """The curves of the columns with the largest effects."""
    names = list(dict.fromkeys(effect.column for effect in ranked))[:MOST_CURVES]
    by_name = {column.name: column for column in result.prepared.schema.columns}
    return [_curve(result, by_name[name], typical_row(result)) for name in names]


def _curve(result: Result, column: Column, base: np.ndarray) -> Curve:
    schema = result.prepared.schema
    places = schema.where(column.name)
    values = result.prepared.x.iloc[:, places[0]].to_numpy()
    if column.kind == "number" and not column.continuous:
        few = np.unique(values)
        x = np.tile(base, (len(few), 1))
        x[:, places[0]] = few
        at, seen = np.asarray([f"{v:g}" for v in few], dtype=object), np.zeros(0)
    elif column.kind in ("number", "date"):
        low, high = (float(v) for v in np.quantile(values, [0.0, 1.0]))
        grid = np.linspace(low, high, 500 if column.periods else 80)
        x = np.tile(base, (len(grid), 1))
        x[:, places[0]] = grid
        at = column.to_dates(grid) if column.kind == "date" else grid
        seen = column.to_dates(values) if column.kind == "date" else values
    else:
        levels = column.levels
        single = column.kind == "yes/no" or len(levels) == 2
        x = np.tile(base, (len(levels), 1))
        x[:, places[: 1 if single else len(levels)]] = 0.0
        for i in range(len(levels)):
            if not single:
                x[i, places[i]] = 1.0
            elif i == 1:
                x[i, places[0]] = 1.0
        at, seen = np.asarray(levels, dtype=object), np.zeros(0)
    belief = result.model.belief
    if isinstance(belief, GLM):
        each = responses(belief, x, typical_exposure(result))
        lower, upper = np.quantile(each, MIDDLE, axis=0)
        return Curve(column, at, each.mean(axis=0), lower, upper, seen)
    prediction = belief.predict(x)
    mean, doubt = np.asarray(prediction.mean), 1.96 * np.sqrt(np.asarray(prediction.epistemic))
    return Curve(column, at, mean, mean - doubt, mean + doubt, seen)
