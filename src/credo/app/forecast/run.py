"""`fit_series`: from a table with a time column to a forecast, by the same search that serves tables.

read the series ─▶ hold out its end ─▶ search among structural models by their evidence ─▶ backtest all of them
over the held-out end ─▶ learn the chosen one on the whole series ─▶ SeriesModel
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from credo.app.fit import search
from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.search import Data, Judged, SearchResult
from credo.app.forecast.calendar import Calendar, Season
from credo.app.forecast.model import SeriesModel
from credo.app.forecast.parts import Parts, uses_inputs
from credo.app.forecast.series import Timeline, filled, others, read_series
from credo.app.table.read import Table
from credo.core.belief import Belief
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.evaluate.backtesting import Backtest, backtest, naive
from credo.infer.progress import Show

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from credo.app.report.page import Page

LEARN_FROM = 3000
"""Of longer series the variances are learned from this many of the latest steps."""
DEFAULT_HORIZON = 12
MOST_STEPS = 50
"""How many times as far as the past a forecast may reach, beyond which it says nothing."""


def seasons_of(calendar: Calendar, n: int) -> list[Season]:
    """What repeats at least twice in n steps."""
    return [season for season in calendar.seasons() if n >= 2 * season.period]


class SeriesData(Data):
    """The steps of a series, the last of them held out."""

    kind = "series"

    def __init__(self, series: Timeline, source: str, test: float | int, horizon: int | None, log: bool | None):
        if not 0 < test < 1:
            raise DataError(f"`test` is the share of steps to hold out, between 0 and 1, found {test:g}")
        self.series, self.source, n = series, source, len(series.y)
        self.seasons = seasons_of(series.calendar, int(n * (1 - test)))
        self.horizon = _horizon(horizon, series, self.seasons)
        self.everything, self.train = n, n - max(round(n * test), min(self.horizon, n // 4), 1)
        if self.train < 6:
            raise DataError(
                f"test={test:g} leaves {self.train} of {n} steps of {source} to learn from; make it smaller"
            )
        self.size = self.train, len(series.names)
        self.period = round(self.seasons[0].period) if self.seasons and self.seasons[0].period <= n / 4 else 1
        self.inputs = filled(series.inputs)
        self.log = _logs(log, series)
        self.naive, self.unit = naive(series.y, self.train, self.reach, period=self.period)

    @property
    def reach(self) -> int:
        """How far forecasts go in the backtest."""
        return min(self.horizon, self.everything - self.train)

    def examples(self, rows: int, candidate: Candidate) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The first `rows` steps, of many the latest; and the inputs of a regression."""
        late, options = max(rows - LEARN_FROM, 0), dict[str, Any](missing=True)
        if uses_inputs(candidate):
            options["inputs"] = pd.DataFrame(self.inputs[late:rows], columns=list(self.series.names))
        return (self.series.y[late:rows],), options

    def known(self, candidate: Candidate) -> dict[str, Any]:
        """What goes with the whole series: the inputs of a regression."""
        return {"inputs": self.inputs[: self.everything]} if uses_inputs(candidate) else {}

    def judge(self, belief: Belief, candidate: Candidate) -> Judged:
        """Forecasts from origins in the held-out end."""
        known: Any = belief
        found = backtest(
            known.unconditioned(), self.series.y, self.train, self.reach, unit=self.unit, **self.known(candidate)
        )
        scores = found.scores
        return Judged({"mase": scores.mase, "crps": scores.crps, "coverage": scores.covered[-1]}, backtest=found)


@dataclass(frozen=True)
class Forecasted(SearchResult):
    """Everything that was found out about a series."""

    data: SeriesData
    forecast: Predictive
    """The next steps."""

    @property
    def series(self) -> Timeline:
        """The series at equal steps."""
        return self.data.series

    @property
    def train(self) -> int:
        """Steps before the first origin."""
        return self.data.train

    @property
    def horizon(self) -> int:
        """How many steps are forecast."""
        return self.data.horizon

    @property
    def naive(self) -> Backtest:
        """The obvious forecast from the same origins."""
        return self.data.naive

    @property
    def season(self) -> Season | None:
        """The shortest period that may repeat."""
        return self.data.seasons[0] if self.data.seasons else None

    def describe(self) -> str:
        """What was learned from what, in a line."""
        n, series = len(self.series.y), self.series
        steps = f"{n:,} steps ({series.calendar.every()}), {self.train:,} to choose by, {n - self.train:,} held out"
        return f"{series.target} from {self.source}: {steps}"

    def verdict(self) -> str:
        """Which candidate was chosen, and how far it looks."""
        return f"{super().verdict()}; forecast of {self.horizon} steps"

    def others(self) -> dict[str, dict[str, float]]:
        """The scores of the obvious forecast."""
        from credo.app.report.words import obvious

        plain = self.naive.scores
        scores = {"mase": plain.mase, "crps": plain.crps, "coverage": plain.covered[-1]}
        return {obvious(self.model.season): scores}

    def page(self, *, command: str = "", loss: tuple[float, float] | None = None, costs: str | None = None) -> "Page":
        """The report."""
        from credo.app.report.forecast import page

        if loss is not None or costs is not None:
            raise DataError("`loss` and `costs` do not go with the report of a forecast")
        return page(self, command=command)

    def plot(self) -> "Axes":
        """The series and its forecast with its bands."""
        from credo.app.plots.series import forecast

        n, times = len(self.series.y), self.series.calendar.times
        return forecast(self.forecast, self.series.y, times(np.arange(n)), times(n + np.arange(self.horizon)))


def is_series(table: Table, target: str, time: str | None, horizon: int | None, ignore: Iterable[str]) -> bool:
    """Whether to forecast: where a horizon is asked for, or besides the time and the target there is nothing.

    Where the times follow no regular step the table is what it is without a horizon: rows whose outcome other columns
    predict.
    """
    if horizon is not None:
        if time is None:
            raise DataError("`horizon` forecasts a series: name the column with its time by `time`")
        return True
    if time is None or not {time, target} <= set(table.columns) or others(table, target, time, ignore):
        return False
    try:
        read_series(table, target, time, ignore)
    except DataError:
        return False
    return True


def fit_series(
    table: Table,
    target: str,
    time: str,
    *,
    horizon: int | None = None,
    ignore: Iterable[str] = (),
    test: float | int = 0.2,
    seed: int = 0,
    log: bool | None = None,
    seconds: float | int | None = None,
    families: Iterable[Family] | None = None,
    progress: Show | bool | None = False,
) -> Forecasted:
    """Learns from a series what comes next.

    `horizon` is how many steps to forecast; None is one season, or as far as the table has rows. `log` asks for, or
    against, models in which parts multiply; None lets the evidence decide.
    """
    series = read_series(table, target, time, ignore)
    data = SeriesData(series, table.name, test, horizon, log)
    found = search.run(data, families or (Parts(),), seconds=seconds, seed=seed, progress=progress)
    chosen, n, notes = found.chosen, data.everything, list(found.notes)
    belief = found.belief
    if n > LEARN_FROM:
        notes.append(f"The variances were learned from the latest {LEARN_FROM:,} of {n:,} steps.")
        belief = belief.unconditioned().condition(series.y, missing=True, **data.known(chosen.candidate))
    columns = series.columns if uses_inputs(chosen.candidate) else ()
    scores = tuple((key, float(value)) for key, value in chosen.scores.items())
    model = SeriesModel(belief, series.calendar, columns, target, time, chosen.name, data.period, scores)
    future = data.inputs[n : n + data.horizon] if columns else None
    forecast = model.predict(data.horizon, future)
    return Forecasted(
        table.name, found.fitted, found.comparison, model, tuple(notes), found.seconds, seed, data, forecast
    )


def _logs(asked: bool | None, series: Timeline) -> bool | None:
    """Whether to model logarithms; None where both can be tried."""
    low = float(np.nanmin(series.y))
    if asked and low <= 0:
        raise DataError(f"`log` needs outcomes above zero, found {low:g} in {series.target!r}; leave it out")
    return False if low <= 0 else asked


def _horizon(asked: int | None, series: Timeline, seasons: list[Season]) -> int:
    """How far to forecast: as asked, as far as the table has rows, or one season."""
    n = len(series.y)
    if asked is not None:
        check_count(asked, "`horizon`")
        if series.columns and asked > series.ahead:
            raise DataError(
                f"horizon={asked} goes beyond the {series.ahead} steps for which the table gives its other columns; "
                f"make it smaller, add rows, or leave them out with `ignore`"
            )
        if asked > MOST_STEPS * n:
            raise DataError(
                f"horizon={asked} is more than {MOST_STEPS} times as far as the {n} steps of {series.target!r}: "
                "nothing is known of that; make it smaller"
            )
        return int(asked)
    if series.ahead:
        return series.ahead
    return min(round(seasons[0].period) if seasons else DEFAULT_HORIZON, max(n // 4, 1))
