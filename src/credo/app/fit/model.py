"""`TableModel`: a belief that knows the table it came from; its `answer` is a new table with predictions beside it."""

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
import pandas as pd
from jaxtyping import Float

from credo.app.fit.costs import check_options, read_actions, read_costs
from credo.app.fit.held_out import how_many_strange, rank_among
from credo.app.table.columns import Encoded, Schema, read_exposure
from credo.app.table.read import Table, as_table
from credo.core.abilities import SeesNovelty
from credo.core.arrays import Array, Numeric
from credo.core.belief import Belief
from credo.core.errors import DataError, NoveltyWarning
from credo.core.predictive import Bernoulli, Categorical, Predictive
from credo.core.predictive.expectation import alone
from credo.core.text import counted
from credo.decide.losses import Loss
from credo.evaluate.recalibration import ClassMap, Stretch, corrected


def predict(belief: Belief, x: Numeric, exposure: np.ndarray | None = None) -> Predictive:
    """The prediction of a belief; only counts have an exposure."""
    known: Any = belief
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoveltyWarning)  # answers have a column for it
        return known.predict(x) if exposure is None else known.predict(x, exposure=exposure)


class TableModel(eqx.Module):
    """A belief that knows the table it came from: how columns become numbers, and where it has seen data."""

    schema: Schema
    belief: Belief
    low: Float[Array, " d"]
    high: Float[Array, " d"]
    """The range of each input in the data."""
    name: str = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    kind: str = eqx.field(static=True, default="number")
    """"number", "classes" or "count"."""
    levels: tuple[str, ...] = eqx.field(static=True, default=())
    """The names of the classes, in the order of their probabilities; none for numbers and counts."""
    scores: tuple[tuple[str, float], ...] = eqx.field(static=True, default=())
    """How the same kind of model did on the test part."""
    correction: Stretch | ClassMap | None = None
    """Of its probabilities, where the rows held out asked for one."""
    reference: Float[Array, " h"] | None = None
    """The ignorance about each row held out, by which new rows are strange or not."""

    @property
    def target(self) -> str:
        """The name of what is predicted."""
        return self.schema.target

    def encode(self, table: Any) -> Encoded:
        """The inputs of a new table in numbers."""
        return self.schema.encode(table)

    def predict(self, table: Any) -> Predictive:
        """The prediction for every row of a data frame with the columns of the training table."""
        known = as_table(table)
        encoded = self.encode(known)
        if not encoded.complete.all():
            row = int(np.argmin(encoded.complete))
            count = counted(int((~encoded.complete).sum()), "such row")
            raise DataError(
                f"row {row} has missing inputs ({count}); drop or fill them, or use credo predict, which leaves their "
                "predictions empty"
            )
        return self.predict_numbers(encoded.x, self._exposure(known))

    def _exposure(self, table: Table) -> np.ndarray | None:
        return None if self.schema.exposure is None else read_exposure(table, self.schema.exposure)

    def predict_numbers(self, x: pd.DataFrame, exposure: np.ndarray | None = None) -> Predictive:
        """The prediction for inputs in numbers, as `encode` gives them."""
        found = predict(self.belief, x, exposure)
        return found if self.correction is None else corrected(alone(found), self.correction)

    def outside(self, x: Float[np.ndarray, "n d"]) -> np.ndarray:
        """Which entries lie beyond the range of the data: predictions there are extrapolated."""
        slack = 1e-9 * (self.high - self.low)
        return (x < self.low - slack) | (x > self.high + slack)

    def answer(self, table: Table, level: float = 0.95, loss: Loss | None = None, costs: str | None = None) -> "Answer":
        """The table with columns mean, std, lower, upper, aleatoric and epistemic (variances that add up to std²).

        For classes the columns are class, p(…) of each, entropy, aleatoric and epistemic (which add up to the entropy).
        `novelty` is small for rows like nothing seen: the probability of inputs as surprising, or where the model knows
        nothing of those, of rows held out about which it knew as little. A `loss`, or for classes `costs`, adds the
        column `action`. Names that the table has already get the target's name in front.
        """
        check_options(self.target, self.kind, loss, costs)
        if len(table) == 0:
            raise DataError(f"{table.name} has no rows to predict")
        encoded, exposure = self.encode(table), self._exposure(table)
        x, whole = encoded.x.to_numpy(), encoded.complete
        if exposure is not None:
            whole = whole & ~np.isnan(exposure)
        if not whole.any():
            raise DataError(f"every row of {table.name} has missing inputs: there is nothing to predict")
        prediction = self.predict_numbers(encoded.x[whole], None if exposure is None else exposure[whole])
        values = _classes(self, prediction, costs) if self.levels else numbers_of(prediction, level, loss)
        if isinstance(self.belief, SeesNovelty):
            values["novelty"] = np.asarray(self.belief.novelty(encoded.x[whole]))
        elif self.reference is not None:
            known = predict(self.belief, encoded.x[whole], None if exposure is None else exposure[whole])
            values["novelty"] = rank_among(self.reference, known)
        columns = {}
        for name, column in values.items():
            columns[name] = np.full(len(x), np.nan, dtype=column.dtype if column.dtype == object else float)
            columns[name][whole] = column
        frame, added = beside(table.frame, columns, self.target)
        beyond = self.outside(x[whole])
        each = {c.name: int(beyond[:, self.schema.where(c.name)].any(axis=1).sum()) for c in self.schema.columns}
        each = {name: count for name, count in each.items() if count}
        extrapolated = int(beyond.any(axis=1).sum())
        strange = how_many_strange(values["novelty"], self.reference) if "novelty" in values else 0
        return Answer(frame, added, int((~whole).sum()), each, extrapolated, encoded.unknown, encoded.unread, strange)


class Answer(NamedTuple):
    """A table with its predictions."""

    frame: pd.DataFrame
    """All columns and rows of the table, and the columns of the prediction."""
    added: tuple[str, ...]
    empty: int = 0
    """Rows that have missing inputs and so no prediction."""
    outside: Mapping[str, int] = MappingProxyType({})
    """Per input column, rows beyond the range of the data."""
    extrapolated: int = 0
    unknown: Mapping[str, int] = MappingProxyType({})
    unread: Mapping[str, int] = MappingProxyType({})
    strange: int = 0
    """Rows like hardly anything seen."""
    newer: int = 0
    """Outcomes of a series that the model had not seen, and has taken in first."""


def beside(frame: pd.DataFrame, columns: dict[str, np.ndarray], target: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """A table with more columns, and their names there: with the target's in front where they are taken."""
    taken, prefix = {str(column) for column in frame.columns}, ""
    while any(f"{prefix}{name}" in taken for name in columns):
        prefix = f"{target}_{prefix}"
    added = {f"{prefix}{name}": column for name, column in columns.items()}
    return pd.concat([frame, pd.DataFrame(added, index=frame.index)], axis=1), tuple(added)


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
    for name, column in (
        ("entropy", prediction.entropy()),
        ("aleatoric", prediction.aleatoric),
        ("epistemic", prediction.epistemic),
    ):
        values[name] = np.asarray(column)
    if costs is not None:
        values["action"] = read_actions(read_costs(costs, model.levels), prediction)
    return values
