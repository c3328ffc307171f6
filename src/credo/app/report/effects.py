"""What each column contributes: the change it makes to the prediction, and the curve it follows, with doubt.

Both are averages over rows of the table with that one column set to a value (Friedman 2001, partial dependence), at
draws of what the model does not know: where columns act together, one typical row would say something else than most.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from credo.app.fit.tables import Result
from credo.app.plots.style import some
from credo.app.table.columns import Column
from credo.core.abilities import DrawsMeans
from credo.models.glm import GLM

MOST_CURVES = 6
ROWS, CURVE_ROWS = 100, 40
"""Over how many rows of the table effects and curves are averaged."""
CURVE_DRAWS = 400
MIDDLE = (0.025, 0.975)

Sampler = Callable[[np.ndarray], np.ndarray]
"""Draws of means over the rows of each group."""


class Effect(NamedTuple):
    """How the prediction changes on average when one column goes from one value to another."""

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
    """The prediction along one column, averaged over rows, with 95 % of the doubt about that mean.

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


def effects(result: Result) -> list[Effect]:
    """The effect of every column, the largest first; for a category that of each level against the most common.

    None where the model is a constant.
    """
    belief = result.model.belief
    if isinstance(belief, GLM) and belief.features.size(result.prepared.x.shape[1]) == 0:
        return []
    draw = _sampler(result)
    found = [effect for column in result.prepared.schema.columns for effect in _effects(result, column, draw)]
    return sorted(found, key=lambda effect: -abs(effect.mean))


def _effects(result: Result, column: Column, draw: Sampler) -> list[Effect]:
    labels, values = _ends(result, column)
    draws = _draws(result, column, values, ROWS, draw)
    found = []
    for label, change in zip(labels[1:], np.moveaxis(draws[:, 1:] - draws[:, :1], 1, 0), strict=True):
        name = ""
        if change.ndim == 2:
            most = int(np.argmax(np.abs(change.mean(axis=0))))
            change, name = change[:, most], result.model.levels[most]
        lower, upper = (float(v) for v in np.quantile(change, MIDDLE))
        found.append(Effect(column.name, labels[0], label, float(change.mean()), lower, upper, name))
    return found


def _sampler(result: Result, **options: int | bool) -> Sampler:
    """What draws means of the model."""
    belief = result.model.belief
    assert isinstance(belief, DrawsMeans)
    return belief.mean_sampler(**options)  # type: ignore[arg-type]


def _draws(result: Result, column: Column, values: np.ndarray, most: int, draw: Sampler) -> np.ndarray:
    """Draws of the mean over rows, one for each value of the column: counts for a typical exposure."""
    x, exposure = result.prepared.x.to_numpy(), result.prepared.exposure
    rows = x[some(len(x), most)]
    draws = draw(np.stack([_with(rows, column, result.prepared.schema.where(column.name), v) for v in values]))
    return draws if exposure is None else draws * float(np.median(exposure))


def _with(rows: np.ndarray, column: Column, places: list[int], value: float) -> np.ndarray:
    """The rows with one value in this column; of a level, its number."""
    changed = rows.copy()
    changed[:, places] = 0.0
    if column.kind == "category" and len(column.levels) > 2:
        changed[:, places[int(value)]] = 1.0
    else:
        changed[:, places[0]] = value
    return changed


def _ends(result: Result, column: Column) -> tuple[list[str], np.ndarray]:
    """What a column goes from and to: its 10th and 90th percentile, or its most common level and each other."""
    if column.levels:
        return list(column.levels), np.arange(float(len(column.levels)))
    values = result.prepared.x.iloc[:, result.prepared.schema.where(column.name)[0]].to_numpy()
    ends = np.quantile(values, [0.1, 0.9])
    if ends[0] == ends[1] or len(np.unique(values)) == 2:
        ends = np.asarray([values.min(), values.max()])
    if column.kind == "date":
        return [f"{pd.Timestamp(d):%Y-%m-%d}" for d in column.to_dates(ends)], ends
    return [f"{end:.3g}" for end in ends], ends


def curves(result: Result, ranked: list[Effect]) -> list[Curve]:
    """The curves of the columns with the largest effects."""
    names = list(dict.fromkeys(effect.column for effect in ranked))[:MOST_CURVES]
    by_name = {column.name: column for column in result.prepared.schema.columns}
    draw = _sampler(result, n=CURVE_DRAWS, joint=False)
    return [_curve(result, by_name[name], draw) for name in names]


def _curve(result: Result, column: Column, draw: Sampler) -> Curve:
    values = result.prepared.x.iloc[:, result.prepared.schema.where(column.name)[0]].to_numpy()
    at, seen = np.asarray(column.levels, dtype=object), np.zeros(0)
    grid = np.arange(float(len(column.levels)))
    if column.kind == "number" and not column.continuous:
        grid = np.unique(values)
        at = np.asarray([f"{v:g}" for v in grid], dtype=object)
    elif column.kind in ("number", "date"):
        grid = np.linspace(values.min(), values.max(), 300 if column.periods else 60)
        at, seen = (column.to_dates(v) if column.kind == "date" else v for v in (grid, values))
    # A fine grid needs fewer rows: what makes it fine, a season, is there in every row.
    rows = CURVE_ROWS if len(grid) <= 60 else 8
    draws = _draws(result, column, grid, rows, draw)
    lower, upper = np.quantile(draws, MIDDLE, axis=0)
    return Curve(column, at, draws.mean(axis=0), lower, upper, seen)
