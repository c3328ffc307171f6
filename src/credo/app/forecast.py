"""What `credo fit` does with a series, without a word printed: from a table with a time column to a forecast.

    read the series ─▶ hold out its end ─▶ learn structural models on the rest ─▶ choose by the evidence
    ─▶ backtest all over the held-out end ─▶ learn the chosen one on the whole series ─▶ SeriesModel

The held-out end has no say in the choice. Where all outcomes are positive, the best model is tried on their logarithms
as well; log p(y) = log p(log y) - Σ log y makes the two comparable.
"""

import time as clock
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from credo.app.forecast_backtest import Backtest, backtest, naive
from credo.app.forecast_calendar import Calendar, Season
from credo.app.forecast_series import Timeline, filled, read_series
from credo.app.schema import Column
from credo.app.tables import Table
from credo.core.checks import check_count
from credo.core.errors import CredoError, DataError, NotConvergedWarning
from credo.core.predictive import Predictive
from credo.evaluate.comparison import Comparison, rank
from credo.infer.learning import learn
from credo.models.structural import AR, Level, Part, Regression, Seasonal, Structural, Trend, integrated_evidence

LEARN_FROM = 3000
"""Of longer series the variances are learned from this many of the latest steps."""
MOST_DUMMIES = 24
"""Longer seasons are waves."""
DEFAULT_HORIZON = 12
IN_LOGS = " (log)"
Progress = Callable[[int, int, str], None]


class Variant(NamedTuple):
    """A structural model to try."""

    name: str
    about: str
    parts: tuple[Part, ...]
    log: bool = False
    """Whether they add up to the logarithm of the outcome."""


class Tried(NamedTuple):
    """A variant after learning on the training part."""

    variant: Variant
    belief: Structural
    """As before any data, with what was learned."""
    log_evidence: float
    backtest: Backtest
    notes: tuple[str, ...]
    seconds: float


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


class Forecasted(NamedTuple):
    """Everything `credo fit` found out about a series."""

    table: str
    series: Timeline
    train: int
    """Steps before the first origin."""
    horizon: int
    tried: tuple[Tried, ...]
    comparison: Comparison
    naive: Backtest
    season: Season | None
    model: SeriesModel
    """The chosen variant, learned again on the whole series."""
    forecast: Predictive
    notes: tuple[str, ...]
    seconds: float

    @property
    def chosen(self) -> Tried:
        """The variant with the highest evidence, as learned on the training part."""
        return next(each for each in self.tried if each.variant.name == self.comparison.best)


def seasons_of(calendar: Calendar, n: int) -> list[Season]:
    """What repeats at least twice in n steps."""
    return [season for season in calendar.seasons() if n >= 2 * season.period]


def _season_parts(season: Season) -> list[tuple[str, str, Part]]:
    """A season as a value for each step of it where that is few, and as waves."""
    half = int(season.period // 2)
    out: list[tuple[str, str, Part]] = []
    if season.period <= MOST_DUMMIES and season.period == round(season.period):
        out.append(("season", f"a pattern of {season.period:g} steps that may change", Seasonal(season.period)))
    if season.period > 5:
        for waves in sorted({min(2, half), min(4, half)}):
            about = f"a smooth pattern over the {season.name} of {waves} waves"
            out.append((f"{waves} waves", about, Seasonal(season.period, harmonics=waves)))
    return out


def first_variants(seasons: list[Season]) -> list[Variant]:
    """Level or trend, with and without a season."""
    level = Variant("level", "a level that wanders", (Level(),))
    trend = Variant("trend", "a level with a slope that may change", (Trend(),))
    if not seasons:
        return [level, trend]
    forms = _season_parts(seasons[0])
    seasonal = [
        Variant(f"trend + {name}", f"{trend.about}, and {about}", (*trend.parts, part)) for name, about, part in forms
    ]
    return [level, trend, *seasonal]


def in_logs(variant: Variant) -> Variant:
    """The same parts for the logarithm of the outcome, in which what multiplies adds up."""
    return Variant(f"{variant.name}{IN_LOGS}", f"{variant.about}; all of them multiply", variant.parts, log=True)


def further_variants(best: Variant, seasons: list[Season], inputs: bool) -> list[Variant]:
    """The best so far with something more."""
    out = []
    if isinstance(best.parts[0], Trend):
        damped = (Trend(damped=True), *best.parts[1:])
        out.append(Variant(f"damped {best.name}", "as before, with a slope that fades", damped))
        if len(best.parts) > 1:
            name = best.name.replace("trend", "level")
            out.append(Variant(name, "as before, without a slope", (Level(), *best.parts[1:])))
    out.append(Variant(f"{best.name} + AR", "and what lasts a few steps", (*best.parts, AR(1))))
    if inputs:
        out.append(Variant(f"{best.name} + inputs", "and the other columns", (*best.parts, Regression())))
    for season in seasons[1:]:
        more = Seasonal(season.period, harmonics=3)
        out.append(Variant(f"{best.name} + {season.name}", f"and 3 waves over the {season.name}", (*best.parts, more)))
    return out


def run_forecast(
    table: Table,
    target: str,
    time: str,
    *,
    horizon: int | None = None,
    ignore: Iterable[str] = (),
    test: float = 0.2,
    seed: int = 0,
    log: bool | None = None,
    progress: Progress | None = None,
) -> Forecasted:
    """Learns a forecast of `target` from a table with one row for each step of `time`; see the module's picture.

    `log` says whether to model logarithms; None lets the evidence choose where all outcomes are positive.
    """
    start = clock.perf_counter()
    if not 0 < test < 1:
        raise DataError(f"--test is the share of steps to hold out, between 0 and 1, found {test:g}; write 20 % as 0.2")
    series = read_series(table, target, time, ignore)
    n = len(series.y)
    seasons = seasons_of(series.calendar, int(n * (1 - test)))
    ahead = _horizon(horizon, series, seasons)
    train = _train(n, test, ahead, table.name)
    notes: list[str] = []
    period = round(seasons[0].period) if seasons and seasons[0].period <= n / 4 else 1
    compared, unit = naive(series.y, period, train, min(ahead, n - train))
    say = progress or (lambda done, total, name: None)
    total = len(first_variants(seasons)) + 4 + len(seasons[1:]) + bool(series.columns)

    def attempt(variant: Variant, done: int) -> list[Tried]:
        say(min(done, total - 1), total, variant.name)
        return _try(variant, series, train, min(ahead, n - train), unit, seed, notes)

    tried = _search(seasons, bool(series.columns), _logs(log, series), attempt)
    if not tried:
        raise DataError(f"no model could be learned from {table.name}: {notes[-1]}")
    beliefs = {each.variant.name: each.belief for each in tried}
    comparison = rank(beliefs, [each.log_evidence for each in tried], (series.y[:train],))
    say(total, total + 1, f"{comparison.best}, on the whole series")
    model = _final(next(e for e in tried if e.variant.name == comparison.best), series, period, seed, notes)
    future = filled(series.inputs)[n : n + ahead] if model.columns else None
    return Forecasted(
        table.name,
        series,
        train,
        ahead,
        tuple(tried),
        comparison,
        compared,
        seasons[0] if seasons else None,
        model,
        model.predict(ahead, future),
        tuple(dict.fromkeys(notes)),
        clock.perf_counter() - start,
    )


def _logs(asked: bool | None, series: Timeline) -> bool | None:
    """Whether to model logarithms; None where both can be tried."""
    low = float(np.nanmin(series.y))
    if asked and low <= 0:
        raise DataError(f"--log needs outcomes above zero, found {low:g} in {series.target!r}; leave it out")
    return False if low <= 0 else asked


def _search(
    seasons: list[Season], inputs: bool, log: bool | None, attempt: Callable[[Variant, int], list[Tried]]
) -> list[Tried]:
    """The variants that were tried: the first ones, the best of them on logarithms, and the best with something more.

    Where logarithms are better, the first ones on logarithms, too: another season may be best there.
    """
    tried: list[Tried] = []

    def extend(variants: Iterable[Variant]) -> None:
        for variant in variants:
            if all(each.variant.name != variant.name for each in tried):
                tried.extend(attempt(variant, len(tried)))

    def best() -> Variant:
        return max(tried, key=lambda each: each.log_evidence).variant

    first = first_variants(seasons)
    logs = [in_logs(variant) for variant in first]
    extend(logs if log else first)
    if tried and log is None:
        extend([in_logs(best())])
        extend(logs if best().log else [])
    if tried:
        form = best()._replace(name=best().name.removesuffix(IN_LOGS))
        more = further_variants(form, seasons, inputs)
        extend(map(in_logs, more) if form.log else more)
    return tried


def _horizon(asked: int | None, series: Timeline, seasons: list[Season]) -> int:
    """How far to forecast: as asked, as far as the table has rows, or one season."""
    if asked is not None:
        check_count(asked, "--horizon")
        if series.columns and asked > series.ahead:
            raise DataError(
                f"--horizon {asked} goes beyond the {series.ahead} steps for which the table gives its other columns; "
                f"make it smaller, add rows, or leave them out with --ignore"
            )
        return int(asked)
    if series.ahead:
        return series.ahead
    return min(round(seasons[0].period) if seasons else DEFAULT_HORIZON, max(len(series.y) // 4, 1))


def _train(n: int, test: float, horizon: int, name: str) -> int:
    held_out = max(round(n * test), min(horizon, n // 4), 1)
    if n - held_out < 6:
        raise DataError(f"--test {test:g} leaves {n - held_out} of {n} steps of {name} to learn from; make it smaller")
    return n - held_out


def _learn(
    variant: Variant, y: np.ndarray, inputs: np.ndarray, names: Any, seed: int
) -> tuple[Structural, float, list[str]]:
    """The variant with its numbers learned, its evidence with them integrated over, and what must be said."""
    import pandas as pd

    late = max(len(y) - LEARN_FROM, 0)
    options: dict[str, Any] = {"missing": True}
    if any(isinstance(part, Regression) for part in variant.parts):
        options["inputs"] = pd.DataFrame(inputs[late : len(y)], columns=list(names))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotConvergedWarning)
        belief = learn(Structural(*variant.parts, log=variant.log), y[late:], seed=seed, **options)
    said = [str(w.message) for w in caught if issubclass(w.category, NotConvergedWarning)]
    return belief, integrated_evidence(belief, belief.statistics(y[late:], **options)), said


def _try(
    variant: Variant, series: Timeline, train: int, horizon: int, unit: float, seed: int, notes: list[str]
) -> list[Tried]:
    begin = clock.perf_counter()
    n, inputs = len(series.y), filled(series.inputs)
    regression = any(isinstance(part, Regression) for part in variant.parts)
    try:
        belief, evidence, said = _learn(variant, series.y[:train], inputs, series.names, seed)
        found = backtest(belief, series.y, inputs[:n] if regression else None, train, horizon, unit)
    except CredoError as error:
        notes.append(f"{variant.name!r} could not be learned: {error}")
        return []
    notes += [f"{variant.name!r}: {sentence}." for sentence in said]
    return [Tried(variant, belief, evidence, found, tuple(said), clock.perf_counter() - begin)]


def _final(best: Tried, series: Timeline, season: int, seed: int, notes: list[str]) -> SeriesModel:
    """The chosen variant, learned on the whole series."""
    n, inputs = len(series.y), filled(series.inputs)
    regression = any(isinstance(part, Regression) for part in best.variant.parts)
    belief, _, said = _learn(best.variant, series.y, inputs, series.names, seed)
    notes += [f"On the whole series: {sentence}." for sentence in said]
    if n > LEARN_FROM:
        notes.append(f"The variances were learned from the latest {LEARN_FROM:,} of {n:,} steps.")
    after = belief.condition(series.y, inputs=inputs[:n] if regression else None, missing=True)
    scores = best.backtest.scores
    return SeriesModel(
        after,
        series.calendar,
        series.columns if regression else (),
        series.target,
        series.time,
        best.variant.name,
        season,
        (("mase", scores.mase), ("crps", scores.crps), ("covered", scores.covered[-1])),
    )
