"""`answer`: a new table with the predictions of a model beside it."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from credo.app.costs import check_options, read_actions, read_costs
from credo.app.schema import read_exposure
from credo.app.tables import Table
from credo.app.workflow import TableModel
from credo.core.errors import DataError
from credo.core.predictive import Bernoulli, Categorical, Predictive
from credo.decide.losses import Loss


class Answer(NamedTuple):
    """A table with its predictions."""

    frame: pd.DataFrame
    """All columns and rows of the table, and the columns of the prediction."""
    added: tuple[str, ...]
    empty: int
    """Rows that have missing inputs and so no prediction."""
    outside: dict[str, int]
    """Per input column, rows beyond the range of the data."""
    extrapolated: int
    unknown: dict[str, int]
    unread: dict[str, int]


def answer(
    model: TableModel, table: Table, level: float = 0.95, loss: Loss | None = None, costs: str | None = None
) -> Answer:
    """The table with columns mean, std, lower, upper, aleatoric and epistemic (variances that add up to std²).

    For classes the columns are class, p(…) of each, entropy, aleatoric and epistemic (which add up to the entropy).
    A `loss`, or for classes `costs`, adds the column `action`. Names that the table has already get the target's name
    in front.
    """
    check_options(model.target, model.kind, loss, costs)
    encoded = model.schema.encode(table.frame, table.decimal)
    x, whole = encoded.x.to_numpy(), encoded.complete
    if len(x) == 0:
        raise DataError(f"{table.name} has no rows to predict")
    exposure = None
    if model.schema.exposure is not None:
        exposure = read_exposure(table.frame, model.schema.exposure, table.decimal)
        whole = whole & ~np.isnan(exposure)
    if not whole.any():
        raise DataError(f"every row of {table.name} has missing inputs: there is nothing to predict")
    prediction = model.predict_numbers(encoded.x[whole], None if exposure is None else exposure[whole])
    values = _classes(model, prediction, costs) if model.levels else numbers_of(prediction, level, loss)
    taken = {str(column) for column in table.frame.columns}
    prefix = ""
    while any(f"{prefix}{name}" in taken for name in values):
        prefix = f"{model.target}_{prefix}"
    out = table.frame.copy()
    for name, column in values.items():
        full = np.full(len(x), np.nan, dtype=column.dtype if column.dtype == object else float)
        full[whole] = column
        out[f"{prefix}{name}"] = full
    beyond = model.outside(x[whole])
    per_column = {c.name: beyond[:, model.schema.where(c.name)].any(axis=1).sum() for c in model.schema.columns}
    return Answer(
        out,
        tuple(f"{prefix}{name}" for name in values),
        int((~whole).sum()),
        {name: int(count) for name, count in per_column.items() if count},
        int(beyond.any(axis=1).sum()),
        encoded.unknown,
        encoded.unread,
    )


def numbers_of(prediction: Predictive, level: float, loss: Loss | None) -> dict[str, np.ndarray]:
    """The columns that `credo predict` adds for a number."""
    from credo.decide.bayes import decide

    lower, upper = prediction.interval(level)
    values = {
        "mean": prediction.mean,
        "std": prediction.std,
        "lower": lower,
        "upper": upper,
        "aleatoric": prediction.aleatoric,
        "epistemic": prediction.epistemic,
    }
    if loss is not None:
        values["action"] = decide(prediction, loss).action
    return {name: np.asarray(column) for name, column in values.items()}


def _classes(model: TableModel, prediction: Predictive, costs: str | None) -> dict[str, np.ndarray]:
    assert isinstance(prediction, Bernoulli | Categorical)
    probs = np.asarray(prediction.probs)
    values = {"class": np.asarray(model.levels, dtype=object)[probs.argmax(axis=1)]}
    values |= {f"p({level})": probs[:, i] for i, level in enumerate(model.levels)}
    values |= {
        "entropy": np.asarray(prediction.entropy()),
        "aleatoric": np.asarray(prediction.aleatoric),
        "epistemic": np.asarray(prediction.epistemic),
    }
    if costs is not None:
        values["action"] = read_actions(read_costs(costs, model.levels), prediction)
    return values
