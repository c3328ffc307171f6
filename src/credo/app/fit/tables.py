"""`fit_table`: from a table and the name of a column to the model that predicts it best."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from credo.app.fit.costs import check_options, read_costs
from credo.app.fit.families import FAMILIES, Candidate, Family
from credo.app.fit.held_out import correction_of, reference_of
from credo.app.fit.model import TableModel, predict
from credo.app.fit.scores import score
from credo.app.fit.search import Data, Judged, SearchResult, run
from credo.app.table.prepare import Prepared, prepare
from credo.app.table.read import Table
from credo.app.table.splits import folds, split
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.infer.progress import Show

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from credo.app.report.page import Page


JUDGES = 4000
"""So many rows left out tell candidates apart: of large tables not every fold is learned from."""


class TableData(Data):
    """The rows of a table, some of them held out."""

    def __init__(self, prepared: Prepared, source: str, test: float | int = 0.2, seed: int = 0):
        self.prepared, self.source, self.kind, self.seed = prepared, source, prepared.kind, seed
        self.train, self.test = split(prepared, test, seed)
        self.everything = np.arange(len(prepared.y))
        self.size = len(self.train), prepared.x.shape[1]
        if np.ptp(prepared.y[self.train]) == 0:
            raise DataError(
                f"the target {prepared.schema.target!r} is constant in the {len(self.train)} training rows: there is "
                "nothing to learn"
            )

    def examples(self, rows: np.ndarray, candidate: Candidate) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Inputs and outcomes of these rows, and the exposure of counts."""
        return (self.prepared.x.iloc[rows], self.prepared.labels[rows]), self._exposure(rows)

    def _exposure(self, rows: np.ndarray) -> dict[str, Any]:
        return {} if self.prepared.exposure is None else {"exposure": self.prepared.exposure[rows]}

    def predict(self, belief: Belief, rows: np.ndarray) -> Predictive:
        """The prediction of a belief for some rows."""
        return predict(belief, self.prepared.x.iloc[rows], **self._exposure(rows))

    def judge(self, belief: Belief, candidate: Candidate) -> Judged:
        """The prediction of the rows held out, and its scores."""
        prediction = self.predict(belief, self.test)
        return Judged(score(prediction, self.prepared.y[self.test], self.kind), prediction)

    @cached_property
    def folds(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The rows to learn from, in parts left out in turn, where something can be learned from the others: all of

        them, or as many as are enough to judge by; the latest, of rows in time.
        """
        found = folds(self.prepared, self.train, self.seed)
        kept = [(rows, out) for rows, out in found if len(rows) >= 4 and np.ptp(self.prepared.y[rows]) > 0]
        enough = np.cumsum([len(out) for _, out in reversed(kept)]) - [len(out) for _, out in reversed(kept)] < JUDGES
        return kept[len(kept) - int(enough.sum()) :]

    def held_out(self) -> np.ndarray:
        """The places of the rows held out."""
        return self.test

    def log_density(self, belief: Belief, rows: np.ndarray) -> np.ndarray:
        """log p of each outcome."""
        return np.asarray(self.predict(belief, rows).log_prob(self.prepared.y[rows]))


@dataclass(frozen=True)
class Result(SearchResult):
    """Everything that was found out about a table."""

    data: TableData

    @property
    def prepared(self) -> Prepared:
        """The table in numbers."""
        return self.data.prepared

    @property
    def train(self) -> np.ndarray:
        """The rows to learn from."""
        return self.data.train

    @property
    def test(self) -> np.ndarray:
        """The rows held out."""
        return self.data.test

    @property
    def x_train(self) -> pd.DataFrame:
        """The inputs of the training part."""
        return self.prepared.x.iloc[self.train]

    @property
    def x_test(self) -> pd.DataFrame:
        """The inputs of the test part."""
        return self.prepared.x.iloc[self.test]

    @property
    def y_train(self) -> np.ndarray:
        """The outcomes of the training part."""
        return self.prepared.y[self.train]

    @property
    def y_test(self) -> np.ndarray:
        """The outcomes of the test part."""
        return self.prepared.y[self.test]

    def predict(self, rows: np.ndarray, belief: Belief | None = None) -> Predictive:
        """The prediction of the chosen candidate, as learned on the training part, or of `belief`, for some rows."""
        if belief is None and rows is self.test and self.chosen.prediction is not None:
            return self.chosen.prediction
        return self.data.predict(self.chosen.belief if belief is None else belief, rows)

    def describe(self) -> str:
        """What was learned from what, in a line."""
        what = {"number": "", "count": " (a count)", "classes": f" ({len(self.prepared.levels)} classes)"}[self.kind]
        rows = f"{len(self.train):,} rows to learn from, {len(self.test):,} held out"
        return f"{self.model.target}{what} from {self.source}: {rows}"

    def page(self, *, command: str = "", loss: tuple[float, float] | None = None, costs: str | None = None) -> "Page":
        """The report; `loss` are the costs of being one too low and one too high, `costs` those of actions."""
        from credo.app.report.tables import page

        return page(self, command=command, loss=loss, costs=costs)

    def plot(self) -> "Axes":
        """The outcomes that were held out against what was predicted of them; of classes, how often each came true."""
        from credo.app.plots.classes import reliability_diagram
        from credo.app.plots.predictions import observed_against_predicted

        prediction: Any = self.predict(self.test)
        if self.kind == "classes":
            return reliability_diagram(prediction, self.y_test)
        return observed_against_predicted(prediction, self.y_test)


def fit_table(
    table: Table,
    target: str,
    *,
    time: str | None = None,
    ignore: Iterable[str] = (),
    test: float | int = 0.2,
    seed: int = 0,
    kind: str = "auto",
    exposure: str | None = None,
    loss: object = None,
    costs: str | None = None,
    seconds: float | int | None = None,
    families: Iterable[Family] | None = None,
    progress: Show | bool | None = False,
) -> Result:
    """Learns from a table what predicts its column `target`.

    `time` names a column that orders the rows: the last share `test` of them is then held out, else as many at random.
    `kind` is what the target is, one of `credo.app.table.target.KINDS`; `exposure` names the column that expected
    counts are in proportion to. What is asked for actions later, `loss` or `costs`, is checked before the search.
    """
    prepared = prepare(table, target, time, ignore, kind, exposure)
    check_options(target, prepared.kind, loss, costs)
    if costs is not None:
        read_costs(costs, prepared.levels)
    data = TableData(prepared, table.name, test, seed)
    found = run(data, families or FAMILIES, seconds=seconds, seed=seed, progress=progress)
    x, chosen = prepared.x.to_numpy(), found.chosen
    scores = tuple((key, float(value)) for key, value in chosen.scores.items())
    correction, said = correction_of(chosen.prediction, prepared.y[data.test])
    model = TableModel(
        prepared.schema,
        found.belief,
        x.min(axis=0),
        x.max(axis=0),
        chosen.name,
        len(x),
        prepared.kind,
        prepared.levels,
        scores,
        correction,
        reference_of(chosen.prediction),
    )
    notes = (*found.notes, *([said] if said else []))
    return Result(table.name, found.fitted, found.comparison, model, notes, found.seconds, seed, data)
