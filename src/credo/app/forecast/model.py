"""`SeriesModel`: a belief about a series that knows its calendar and its columns, and answers for times."""

from typing import Any

import equinox as eqx
import numpy as np
import pandas as pd

from credo.app.fit.model import Answer, beside, numbers_of
from credo.app.forecast.calendar import Calendar
from credo.app.forecast.series import read_times
from credo.app.table.columns import Column
from credo.app.table.read import Table
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.decide.losses import Loss
from credo.models.structural import Structural


class SeriesModel(eqx.Module):
    """A belief about a series that knows its calendar and its columns."""

    belief: Structural
    calendar: Calendar
    columns: tuple[Column, ...]
    """How the inputs of the regression are made; none without one."""
    target: str = eqx.field(static=True)
    time: str = eqx.field(static=True)
    name: str = eqx.field(static=True)
    season: int = eqx.field(static=True)
    scores: tuple[tuple[str, float], ...] = eqx.field(static=True, default=())

    @property
    def steps(self) -> int:
        """How many steps the series has."""
        assert self.belief.past is not None
        return len(self.belief.past.y)

    def predict(self, steps: int, inputs: Any = None) -> Predictive:
        """The next `steps` outcomes after the last one that the model has seen."""
        return self.belief.predict(steps, inputs=inputs)

    def answer(
        self, table: Table | None, level: float = 0.95, loss: Loss | None = None, horizon: int | None = None
    ) -> Answer:
        """The rows of a table, and `horizon` steps more, with what the model thinks of their outcomes.

        Outcomes that are newer than those the model has seen are taken in first. For times in the past the answer is
        what the outcome was without its noise, given the whole series.
        """
        if horizon is not None:
            check_count(horizon, "`horizon`")
        if table is None and horizon is None:
            raise DataError("give a table with the times to forecast, or `horizon` with the number of steps")
        frame, slots = self._rows(table)
        inputs = self._inputs(table, slots)
        belief, last, newer = self._newer(table, slots, inputs)
        if horizon:
            if self.columns:
                raise DataError(
                    "the model needs the other columns of every step: give a table with them instead of `horizon`"
                )
            more = last + 1 + np.arange(horizon)
            extra = pd.DataFrame({self.time: self.calendar.cells(more)}, dtype=object)
            frame, slots = pd.concat([frame, extra], ignore_index=True).fillna(""), np.concatenate([slots, more])
        if slots.min() < 0:
            raise DataError(f"the series begins at {self.calendar.written(0)}: there is nothing to say about before")
        ahead = max(int(slots.max()) - last, 0)
        needed = np.zeros(ahead, dtype=bool)
        needed[slots[slots > last] - last - 1] = True
        future = self._complete(inputs[last + 1 : last + 1 + ahead], needed) if ahead else None
        prediction = belief.predict_at(slots, future)
        frame, added = beside(frame, numbers_of(prediction, level, loss), self.target)
        return Answer(frame, added, newer=newer)

    def _rows(self, table: Table | None) -> tuple[pd.DataFrame, np.ndarray]:
        if table is None:
            return pd.DataFrame({self.time: []}, dtype=object), np.zeros(0, dtype=int)
        if self.time not in table.columns:
            raise DataError(f"{table.name} has no column {self.time!r}, which holds the time of the series")
        at, *_ = read_times(table.cells(self.time))
        if pd.isna(at).any():
            raise DataError(f"row {int(np.argmax(pd.isna(at))) + 1} of {table.name} has no time in {self.time!r}")
        return table.frame.reset_index(drop=True), self.calendar.slots(at)

    def _inputs(self, table: Table | None, slots: np.ndarray) -> np.ndarray:
        """The inputs of every step from the first on: those the model has seen, then those of the table."""
        past = self.belief.past
        assert past is not None
        reach = max(int(slots.max(initial=-1)) + 1, self.steps)
        full = np.full((reach, past.inputs.shape[1]), np.nan)
        if self.columns and table is not None:
            rows = [column.encode(table.demand(column.name, "the model")).table for column in self.columns]
            full[slots[slots >= 0]] = np.concatenate(rows, axis=1)[slots >= 0]
        full[: self.steps] = past.inputs
        return full

    def _newer(self, table: Table | None, slots: np.ndarray, inputs: np.ndarray) -> tuple[Structural, int, int]:
        """The belief after the outcomes that it has not seen, the last step with one, and how many there were."""
        known = self.steps
        if table is None or self.target not in table.columns:
            return self.belief, known - 1, 0
        cells, unread = table.cells(self.target).numbers
        if unread.any():
            row = int(np.argmax(unread))
            found = table.frame[self.target].iloc[row]
            raise DataError(f"{self.target!r} must hold numbers, found {found!r} in row {row + 1}")
        fresh = (slots >= known) & ~np.isnan(cells)
        if not fresh.any():
            return self.belief, known - 1, 0
        last = int(slots[fresh].max())
        y = np.full(last + 1 - known, np.nan)
        y[slots[fresh] - known] = cells[fresh]
        rows = self._complete(inputs[known : last + 1], ~np.isnan(y))
        return self.belief.condition(y, inputs=rows, missing=True), last, int(fresh.sum())

    def _complete(self, inputs: np.ndarray, needed: np.ndarray) -> np.ndarray | None:
        """Inputs of steps in a row; those that are not needed may be anything, the others must be there."""
        if not self.columns:
            return None
        if np.isnan(inputs[needed]).any():
            names = ", ".join(column.name for column in self.columns)
            raise DataError(f"the model needs {names} for every step that it forecasts; some cells are missing")
        return np.nan_to_num(inputs, nan=0.0)
