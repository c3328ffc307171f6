"""`credo fit` and `credo predict` for series: when a table is one, what is said of it, and answers from its model."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import typer

from credo.app.forecast import Forecasted, SeriesModel
from credo.app.forecast_plots import obvious
from credo.app.forecast_series import others, read_series, read_times
from credo.app.report.words import count, number, percent
from credo.app.schema import check_column
from credo.app.tables import Table, numbers
from credo.app.terminal import echo_table
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.predictive import LogNormal, Normal, Predictive

if TYPE_CHECKING:
    from credo.app.answers import Answer


def is_series(
    table: Table, target: str, time: str | None, horizon: int | None, ignore: Iterable[str], refused: dict[str, Any]
) -> bool:
    """Whether to forecast: where a horizon is asked for, or besides the time and the target there is nothing.

    `refused` are the options that a forecast does not take; with one of them, or where the times follow no regular
    step, the table is what it is without a horizon: rows whose outcome other columns predict.
    """
    given = [option for option, value in refused.items() if value]
    if horizon is not None:
        if time is None:
            raise DataError("--horizon forecasts a series: name the column with its time by --time")
        if given:
            raise DataError(f"{given[0]} does not go with --horizon: a forecast is of a number")
        return True
    columns = {str(column) for column in table.frame.columns}
    if time is None or given or not {time, target} <= columns or others(table, target, time, ignore):
        return False
    try:
        read_series(table, target, time, ignore)
    except DataError:
        return False
    return True


def echo_forecast(result: Forecasted, folder: Path) -> None:
    """The result on the terminal: the comparison, the first steps, and where the files are."""
    series, n = result.series, len(result.series.y)
    typer.echo(
        f"{series.target} from {result.table}: {n:,} steps ({series.calendar.every()}), {result.train:,} to choose by, "
        f"{n - result.train:,} held out\n"
    )
    by_name = {each.variant.name: each.backtest.scores for each in result.tried}
    rows = [("model", "log evidence", "prob", "MASE", "CRPS", "95 % held")]
    for row in result.comparison.rows:
        s = by_name[row.name]
        scores = (number(s.mase), number(s.crps), percent(s.covered[-1]))
        rows.append((row.name, f"{row.log_evidence:.1f}", f"{row.probability:.2f}", *scores))
    plain = result.naive.scores
    rows.append((obvious(result), "", "", number(plain.mase), number(plain.crps), percent(plain.covered[-1])))
    echo_table(rows)
    typer.echo(f"\nchosen by evidence: {result.model.name}; forecast of {result.horizon} steps")
    typer.echo(f"model   {folder / 'model.credo'}\nreport  {folder / 'report.html'}")


def answer_series(
    model: SeriesModel, table: Table | None, horizon: int | None, level: float = 0.95, loss: Any = None
) -> "tuple[Answer, str]":
    """The rows of a table, and `horizon` steps more, with what the model thinks of their outcomes; and a remark.

    Outcomes that are newer than those the model has seen are taken in first. For times in the past the answer is what
    the outcome was without its noise, given the whole series.
    """
    from credo.app.answers import Answer, numbers_of

    if horizon is not None:
        check_count(horizon, "--horizon")
    if table is None and horizon is None:
        raise DataError("give a table with the times to forecast, or --horizon with the number of steps")
    frame, slots = _rows(model, table)
    inputs = _inputs(model, table, slots)
    belief, last, newer = _newer(model, table, slots, inputs)
    if horizon:
        if model.columns:
            raise DataError(
                "the model needs the other columns of every step: give a table with them instead of --horizon"
            )
        more = last + 1 + np.arange(horizon)
        extra = pd.DataFrame({model.time: model.calendar.cells(more)}, dtype=object)
        frame, slots = pd.concat([frame, extra], ignore_index=True).fillna(""), np.concatenate([slots, more])
    if slots.min() < 0:
        raise DataError(f"the series begins at {model.calendar.written(0)}: there is nothing to say about before")
    prediction = _at(model, belief, slots, inputs, last)
    values = numbers_of(prediction, level, loss)
    prefix = f"{model.target}_" if set(values) & set(frame.columns) else ""
    added = tuple(f"{prefix}{name}" for name in values)
    frame = frame.assign(**dict(zip(added, values.values(), strict=True)))
    said = (
        f"{count(newer, 'newer outcome')} {'was' if newer == 1 else 'were'} taken in before forecasting"
        if newer
        else ""
    )
    return Answer(frame, added, 0, {}, 0, {}, {}), said


def _rows(model: SeriesModel, table: Table | None) -> tuple[pd.DataFrame, np.ndarray]:
    if table is None:
        return pd.DataFrame({model.time: []}, dtype=object), np.zeros(0, dtype=int)
    if model.time not in table.frame.columns:
        raise DataError(f"{table.name} has no column {model.time!r}, which holds the time of the series")
    at, *_ = read_times(table.frame[model.time], table.decimal, model.time)
    if pd.isna(at).any():
        raise DataError(f"row {int(np.argmax(pd.isna(at))) + 1} of {table.name} has no time in {model.time!r}")
    return table.frame.reset_index(drop=True), model.calendar.slots(at)


def _inputs(model: SeriesModel, table: Table | None, slots: np.ndarray) -> np.ndarray:
    """The inputs of every step from the first on: those the model has seen, then those of the table."""
    past = model.belief.past
    assert past is not None
    reach = max(int(slots.max(initial=-1)) + 1, model.steps)
    full = np.full((reach, past.inputs.shape[1]), np.nan)
    if model.columns and table is not None:
        for column in model.columns:
            check_column(table, column.name, "the model")
        rows = np.concatenate([c.encode(table.frame[c.name], table.decimal).table for c in model.columns], axis=1)
        full[slots[slots >= 0]] = rows[slots >= 0]
    full[: model.steps] = past.inputs
    return full


def _newer(model: SeriesModel, table: Table | None, slots: np.ndarray, inputs: np.ndarray) -> tuple[Any, int, int]:
    """The belief after the outcomes that it has not seen, the last step with one, and how many there were."""
    known = model.steps
    if table is None or model.target not in table.frame.columns:
        return model.belief, known - 1, 0
    cells, unread = numbers(table.frame[model.target], table.decimal)
    if unread.any():
        row = int(np.argmax(unread))
        raise DataError(
            f"{model.target!r} must hold numbers, found {table.frame[model.target].iloc[row]!r} in row {row + 1}"
        )
    fresh = (slots >= known) & ~np.isnan(cells)
    if not fresh.any():
        return model.belief, known - 1, 0
    last = int(slots[fresh].max())
    y = np.full(last + 1 - known, np.nan)
    y[slots[fresh] - known] = cells[fresh]
    rows = _complete(model, inputs[known : last + 1], ~np.isnan(y))
    return model.belief.condition(y, inputs=rows, missing=True), last, int(fresh.sum())


def _complete(model: SeriesModel, inputs: np.ndarray, needed: np.ndarray) -> np.ndarray | None:
    """Inputs of steps in a row; those that are not needed may be anything, the others must be there."""
    if not model.columns:
        return None
    if np.isnan(inputs[needed]).any():
        names = ", ".join(column.name for column in model.columns)
        raise DataError(f"the model needs {names} for every step that it forecasts; some cells are missing")
    return np.nan_to_num(inputs, nan=0.0)


def _at(model: SeriesModel, belief: Any, slots: np.ndarray, inputs: np.ndarray, last: int) -> Predictive:
    """The outcomes at some steps, of the past and of the future."""
    ahead = max(int(slots.max()) - last, 0)
    needed = np.zeros(ahead, dtype=bool)
    needed[slots[slots > last] - last - 1] = True
    future = _complete(model, inputs[last + 1 : last + 1 + ahead], needed) if ahead else None
    smoothed = belief.smooth(ahead, inputs=future)
    rows = belief.past.inputs if future is None else np.concatenate([belief.past.inputs, future])
    h = np.broadcast_to(belief.system(rows, belief.scales).emission, smoothed.mean.shape)[slots]
    mean, covariance = smoothed.mean[slots], smoothed.covariance[slots]
    doubt = np.einsum("ti,tij,tj->t", h, covariance, h).clip(0.0)
    noise = np.full(len(slots), float(belief.noise))
    return (LogNormal if belief.log else Normal)((h * mean).sum(axis=1), noise, doubt)
