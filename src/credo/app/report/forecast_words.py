"""A forecast in sentences: what is expected, what the series is made of, and how far to trust it."""

import math

import numpy as np
from scipy.special import bdtr

from credo.app.forecast import Forecasted
from credo.app.forecast_plots import obvious
from credo.app.report.words import count, noise_share, number, percent
from credo.core.predictive import Predictive
from credo.models.structural import Seasonal, Trend

SURE = 0.001
"""Probability below which intervals that held too seldom are not bad luck."""


def near(value: float, width: float) -> str:
    """A number to the digit that its doubt leaves: two significant digits of `width`."""
    if not (math.isfinite(value) and math.isfinite(width) and width > 0):
        return number(value)
    digits = 1 - math.floor(math.log10(width))
    if digits > 8:
        return number(value)
    return f"{round(value, digits):,.{max(digits, 0)}f}"


def headline(result: Forecasted) -> list[str]:
    """What comes next, how that compares with the obvious forecast, and why one is not surer."""
    series, n = result.series, len(result.series.y)
    mean = np.asarray(result.forecast.mean)
    lower, upper = (np.asarray(end) for end in result.forecast.interval(0.95))

    def at(h: int) -> str:
        when = series.calendar.when(n + h)
        width = float(upper[h] - lower[h])
        low, middle, high = (near(float(v), width) for v in (lower[h], mean[h], upper[h]))
        return f"{middle} {when} (95 % sure: between {low} and {high})"

    said = f"We expect {series.target} to be {at(0)}"
    said += f", and {at(result.horizon - 1)}." if result.horizon > 1 else "."
    scores, plain = result.chosen.backtest.scores, result.naive.scores
    gain = 1 - scores.mae / plain.mae if plain.mae else 0.0
    steps = count(min(result.horizon, len(scores.by_horizon)), "step")
    told = f"Over the held-out end of the series, forecasts up to {steps} ahead were off by {number(scores.mae)}"
    if gain > 0:
        told += f" on average, {percent(gain)} less than forecasting the same {obvious(result)} ({number(plain.mae)})."
    else:
        told += f" on average: no better than forecasting the same {obvious(result)} ({number(plain.mae)}), "
        told += "which is simpler."
    last = result.forecast[[result.horizon - 1]]
    doubt = (
        f"Of the doubt about {series.calendar.written(n + result.horizon - 1)}, {percent(noise_share(last))} is noise "
    )
    return [said, told, doubt + "of single outcomes; the rest is how the series may move until then."]


def tiles(result: Forecasted) -> list[tuple[str, str, str]]:
    """Numbers at a glance."""
    scores, plain = result.chosen.backtest.scores, result.naive.scores
    lower, upper = (float(np.asarray(end)[0]) for end in result.forecast.interval(0.95))
    width = upper - lower
    origins = count(len(result.chosen.backtest.origins), "origin")
    return [
        ("next", near(float(result.forecast.mean[0]), width), f"95 %: {near(lower, width)} to {near(upper, width)}"),
        ("error in the backtest", number(scores.mae), f"{obvious(result)}: {number(plain.mae)}"),
        ("MASE", number(scores.mase), f"below 1 is better than naive; {number(plain.mase)} for {obvious(result)}"),
        ("95 % intervals held", percent(scores.covered[-1]), f"of forecasts from {origins}"),
    ]


def parts(result: Forecasted, components: dict[str, Predictive]) -> list[str]:
    """What the series is made of; of a model of logarithms in per cent."""
    belief, unit, n = result.model.belief, result.series.calendar.unit, len(result.series.y)
    log, said = belief.log, []
    if log:
        said.append(
            f"The parts multiply (the model is one of the logarithm of {result.series.target}): swings and noise grow "
            "with the level."
        )
    state = belief.state
    assert state is not None
    mean, std = np.asarray(state.mean), np.sqrt(np.diagonal(np.asarray(state.covariance)))
    at = 0
    for name, part in zip(belief.names, belief.parts, strict=True):
        found = np.asarray(components[name].median)[:n]
        if isinstance(part, Trend):
            said.append(_slope(mean[at + 1], std[at + 1], unit, part.damping is not None, log))
        elif isinstance(part, Seasonal):
            recent = found[-max(round(part.period), 2) :]
            moves = "multiplies its level by {} to {}" if log else "moves the outcome from {} to {} around its level"
            swing = moves.format(number(recent.min()), number(recent.max()))
            said.append(f"The season of {part.period:g} {unit}s {swing}.")
        elif name.startswith("regression"):
            said += _effects(part.states, mean[at:], std[at:], log)
        elif name == "level":
            said.append(f"The level is now {number(found[-1])}; it wanders and has no slope.")
        else:
            lasting = _amount(float((np.log(found) if log else found).std()), log)
            said.append(f"What lasts a few {unit}s (AR) has a standard deviation of {lasting}.")
        at += len(part.states)
    if belief.noise is not None:
        scatter = _amount(float(belief.noise) ** 0.5, log)
        said.append(f"Single outcomes scatter around that with a standard deviation of {scatter}.")
    return said


def _amount(value: float, log: bool) -> str:
    """What is added; to a logarithm, the share by which it changes the outcome."""
    return f"{number(100 * math.expm1(value))} %" if log else number(value)


def _slope(slope: float, doubt: float, unit: str, damped: bool, log: bool) -> str:
    fades = ", and the slope fades" if damped else ""
    width = _amount(1.96 * doubt, log)
    if abs(slope) < 1.96 * doubt:
        return (
            f"The trend has no clear direction at the end of the series: {_amount(slope, log)} a {unit}, give or take "
            f"{width}{fades}."
        )
    way, change = ("rising", _amount(slope, log)) if slope > 0 else ("falling", _amount(slope, log).lstrip("-−"))
    return f"At its end the series is {way} by {change} a {unit}, give or take {width}{fades}."


def _effects(names: tuple[str, ...], mean: np.ndarray, std: np.ndarray, log: bool) -> list[str]:
    """The coefficients of the regression."""
    return [
        f"One more of {name} goes with {_amount(m, log)} more of the outcome, give or take {_amount(1.96 * s, log)}."
        for name, m, s in zip(names, mean, std, strict=False)
    ]


def comparison(result: Forecasted) -> list[str]:
    """Which model, and how sure that is."""
    rows = result.comparison.rows
    said = [f"“{rows[0].name}” makes the first {result.train:,} steps most probable ({percent(rows[0].probability)})."]
    close = [row.name for row in rows[1:] if row.probability > 0.05]
    if close:
        said.append(f"Not excluded: {', '.join(f'“{name}”' for name in close)}.")
    return said


def warnings(result: Forecasted) -> list[str]:
    """What a careful reader should know."""
    said = list(result.notes)
    scores, plain = result.chosen.backtest.scores, result.naive.scores
    if scores.mae >= plain.mae:
        said.append("The backtest speaks for the obvious forecast: it was at least as good.")
    first = scores.by_horizon[0]
    held = round(first.covered[-1] * first.forecasts)
    if bdtr(held, first.forecasts, 0.95) < SURE:
        said.append(
            f"One step ahead the 95 % intervals held only {percent(first.covered[-1])} of {first.forecasts} outcomes: "
            "the forecasts are too sure of themselves."
        )
    if result.season is not None and result.train < 3 * result.season.period:
        said.append(f"The series shows fewer than three {result.season.name}s; its season is a first guess.")
    if not result.season and result.series.calendar.seasons():
        said.append("The series is too short to see what repeats in it.")
    if float(np.asarray(result.forecast.interval(0.95).lower).min()) < 0 <= np.nanmin(result.series.y):
        said.append(
            f"No {result.series.target} was ever negative, but the intervals reach below zero: read them as zero."
        )
    return said
