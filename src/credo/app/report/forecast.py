"""The report of a forecast: what is expected, what the series is made of, and how far to trust it."""

import math

import numpy as np
from matplotlib import figure

from credo.app.forecast.run import Forecasted
from credo.app.forecast.series import filled
from credo.app.plots import series as draw
from credo.app.plots.style import data_uri, panels
from credo.app.report.checks import coverage
from credo.app.report.page import Block, Cell, Code, Figure, Page, Row, Section, Table, Text
from credo.app.report.tables import columns, comparison_table, opening, ranking
from credo.app.report.words import count, near, noise_share, number, obvious, percent
from credo.core.predictive import Predictive
from credo.models.structural import Seasonal, Trend

MOST_HORIZONS = 24
MOST_OPEN = 12
RECENT = 5
"""The lower picture shows this many horizons of the past."""


def page(result: Forecasted, *, command: str = "") -> Page:
    """The report. `command` is shown for reproduction."""
    sections = (
        *opening(_headline(result), _tiles(result), _warnings(result)),
        _forecast(result),
        _parts(result),
        _backtest(result),
        _comparison(result),
        _data(result),
        _use(result),
    )
    made = f"model “{result.model.name}”, {result.seconds:.0f} s."
    return Page(f"Forecasting {result.series.target} from {result.source}", sections, command, made)


def _headline(result: Forecasted) -> list[str]:
    """What comes next, how that compares with the obvious forecast, and why one is not surer."""
    series, n = result.series, len(result.series.y)
    mean = np.asarray(result.forecast.mean)
    lower, upper = (np.asarray(end) for end in result.forecast.interval(0.95))

    def at(h: int) -> str:
        width = float(upper[h] - lower[h])
        low, middle, high = (near(float(v), width) for v in (lower[h], mean[h], upper[h]))
        return f"{middle} {series.calendar.when(n + h)} (95 % sure: between {low} and {high})"

    said = f"We expect {series.target} to be {at(0)}"
    said += f", and {at(result.horizon - 1)}." if result.horizon > 1 else "."
    scores, plain = result.chosen.backtest.scores, result.naive.scores
    gain = 1 - scores.mae / plain.mae if plain.mae else 0.0
    steps = count(min(result.horizon, len(scores.by_horizon)), "step")
    told = f"Over the held-out end of the series, forecasts up to {steps} ahead were off by {number(scores.mae)}"
    same = f"forecasting the same {obvious(result.model.season)} ({number(plain.mae)})"
    told += (
        f" on average, {percent(gain)} less than {same}."
        if gain > 0
        else (f" on average: no better than {same}, which is simpler.")
    )
    share = percent(noise_share(result.forecast[[result.horizon - 1]]))
    doubt = f"Of the doubt about {series.calendar.written(n + result.horizon - 1)}, {share} is noise "
    return [said, told, doubt + "of single outcomes; the rest is how the series may move until then."]


def _tiles(result: Forecasted) -> tuple[tuple[str, str, str], ...]:
    scores, plain = result.chosen.backtest.scores, result.naive.scores
    lower, upper = (float(np.asarray(end)[0]) for end in result.forecast.interval(0.95))
    width, name = upper - lower, obvious(result.model.season)
    origins = count(len(result.chosen.backtest.origins), "origin")
    return (
        ("next", near(float(result.forecast.mean[0]), width), f"95 %: {near(lower, width)} to {near(upper, width)}"),
        ("error in the backtest", number(scores.mae), f"{name}: {number(plain.mae)}"),
        ("MASE", number(scores.mase), f"below 1 is better than naive; {number(plain.mase)} for {name}"),
        ("95 % intervals held", percent(scores.covered[-1]), f"of forecasts from {origins}"),
    )


def _warnings(result: Forecasted) -> list[str]:
    """What a careful reader should know."""
    said = list(result.notes)
    scores, plain = result.chosen.backtest.scores, result.naive.scores
    if scores.mae >= plain.mae:
        said.append("The backtest speaks for the obvious forecast: it was at least as good.")
    first = scores.by_horizon[0]
    held = np.arange(first.forecasts) < round(first.covered[-1] * first.forecasts)
    if coverage(held).off < 0:
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


# -- the forecast --------------------------------------------------------------------------------------------------


def _forecast(result: Forecasted) -> Section:
    series, n = result.series, len(result.series.y)
    picture = Figure(
        data_uri(_drawn(result)),
        "The series and its forecast with bands of 50 % and 95 %",
        f"The series of {n:,} steps ({series.calendar.every()}) and {result.horizon} steps of forecast. Half of all "
        "futures stay in the strong band at each time, 95 % in the pale one.",
    )
    mean = np.asarray(result.forecast.mean)
    ends = {level: [np.asarray(end) for end in result.forecast.interval(level)] for level in (0.5, 0.95)}
    width = float(np.min(ends[0.95][1] - ends[0.95][0]))
    rows = []
    for h in range(result.horizon):
        intervals = (" to ".join(near(float(end[h]), width) for end in ends[level]) for level in (0.5, 0.95))
        rows.append(Row((series.calendar.written(n + h), Cell(near(float(mean[h]), width), "best"), *intervals)))
    summary, opened = f"All {len(rows)} steps", len(rows) <= MOST_OPEN
    table = Table((series.time, "mean", "50 %", "95 %"), tuple(rows), summary=summary, open=opened)
    return Section("forecast", "The forecast", (picture, table))


def _drawn(result: Forecasted) -> figure.Figure:
    """The series and its forecast, and below it the recent past again."""
    n, calendar = len(result.series.y), result.series.calendar
    recent = RECENT * result.horizon
    begins = (0, n - recent) if n > 1.5 * recent else (0,)
    figure, axes = panels(len(begins), 3.2 if len(begins) > 1 else 3.8, across=1)
    future = calendar.times(np.arange(n, n + result.horizon))
    for ax, begin in zip(axes, begins, strict=True):
        past = calendar.times(np.arange(begin, n))
        draw.forecast(result.forecast, result.series.y[begin:], past, future, ax=ax)
        ax.set_ylabel(result.series.target, parse_math=False)
    for ax in axes[1:]:
        ax.get_legend().remove()  # type: ignore[union-attr]
    return figure


# -- its parts -----------------------------------------------------------------------------------------------------


def _parts(result: Forecasted) -> Section:
    n = len(result.series.y)
    future = filled(result.series.inputs)[n : n + result.horizon] if result.model.columns else None
    components = result.model.belief.components(result.horizon, inputs=future)
    at = result.series.calendar.times(np.arange(n + result.horizon))
    together = "multiply" if result.model.belief.log else "add up"
    picture = Figure(
        data_uri(draw.parts(components, at, result.horizon)),
        "Each part of the series with 95 % of the doubt about it",
        f"The parts {together} to the forecast. Bands are 95 % of the doubt about each; the grey end is the forecast.",
    )
    said = Text(tuple(part_words(result, components)), "list")
    return Section("parts", "What the series is made of", (said, picture))


def part_words(result: Forecasted, components: dict[str, Predictive]) -> list[str]:
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
            for input_, m, s in zip(part.states, mean[at:], std[at:], strict=False):
                more, doubt = _amount(m, log), _amount(1.96 * s, log)
                said.append(f"One more of {input_} goes with {more} more of the outcome, give or take {doubt}.")
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
    change, width = _amount(slope, log), _amount(1.96 * doubt, log)
    if abs(slope) < 1.96 * doubt:
        found = f"{change} a {unit}, give or take {width}{fades}"
        return f"The trend has no clear direction at the end of the series: {found}."
    way = "rising" if slope > 0 else "falling"
    return f"At its end the series is {way} by {change.lstrip('-−')} a {unit}, give or take {width}{fades}."


# -- how far to trust it -------------------------------------------------------------------------------------------


def _backtest(result: Forecasted) -> Section:
    n, plain = len(result.series.y), obvious(result.model.season)
    before = "one season" if result.model.season > 1 else "one step"
    said = (
        f"From each of {len(result.naive.origins)} times in the last {n - result.train:,} steps, which had no say in "
        f"choosing the model, the model forecast what came next from what it had seen until then. “{plain}” repeats "
        f"the outcome of {before} before."
    )
    tests = {result.model.name: result.chosen.backtest, plain: result.naive}
    picture = Figure(
        data_uri(draw.backtest(tests, result.series.calendar.unit)),
        "Left: mean absolute error by how far ahead, for the model and the obvious forecast. Right: how often "
        "intervals held",
        "Left: the error by how far ahead. Right: how often the intervals held; they should follow the dashed lines.",
    )
    names = ("ahead", "forecasts", "MASE", plain, "CRPS", plain, "50 % held", "95 % held")
    about = (
        "MASE: mean absolute error, in units of that of the obvious forecast one step ahead before the first of these "
        f"times. CRPS: error with the doubt included, in units of {result.series.target}. Lower is better, the better "
        "of two is bold."
    )
    blocks = Text((said,)), picture, Table(names, tuple(_horizons(result)), left=()), Text((about,), "small")
    return Section("backtest", "How forecasts would have done", blocks)


def _horizons(result: Forecasted) -> list[Row]:
    ours, plain = result.chosen.backtest.scores, result.naive.scores
    unit = ours.mae / ours.mase if ours.mase else 1.0
    pairs = list(zip(ours.by_horizon, plain.by_horizon, strict=True))
    shown = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), MOST_HORIZONS)).astype(int))
    rows = []
    for a, b in (pairs[int(i)] for i in shown):
        scores = (
            Cell(number(a.mae / unit), "best" * (a.mae <= b.mae)),
            Cell(number(b.mae / unit), "best" * (b.mae < a.mae)),
            Cell(number(a.crps), "best" * (a.crps <= b.crps)),
            Cell(number(b.crps), "best" * (b.crps < a.crps)),
        )
        rows.append(Row((str(a.steps), str(a.forecasts), *scores, percent(a.covered[0]), percent(a.covered[-1]))))
    return rows


def _comparison(result: Forecasted) -> Section:
    found = result.comparison
    said = [
        f"“{found.best}” makes the first {result.train:,} steps most probable ({percent(found.rows[0].probability)})."
    ]
    close = [row.name for row in found.rows[1:] if row.probability > 0.05]
    if close:
        said.append(f"Not excluded: {', '.join(f'“{name}”' for name in close)}.")

    def scores(test: "object") -> tuple[str, ...]:
        s = test.scores  # type: ignore[attr-defined]
        return number(s.mase), number(s.crps), percent(s.covered[-1])

    by_name = {each.name: each for each in result.fitted}
    naive = Row(
        (Cell(obvious(result.model.season), note="the obvious forecast"), "–", "–", *scores(result.naive), "–"), "muted"
    )
    table = comparison_table(
        found, by_name, ("MASE", "CRPS", "95 % held"), {k: scores(v.backtest) for k, v in by_name.items()}, (naive,)
    )
    about = (
        "Evidence: of the steps before the held-out end, with the variances integrated over (Laplace’s approximation); "
        "higher is better. Scores: from the backtest."
    )
    blocks = Text(tuple(said)), ranking(found), table, Text((about,), "small")
    return Section("comparison", "Which model, and how sure of it", blocks)


def _data(result: Forecasted) -> Section:
    series, n = result.series, len(result.series.y)
    said = (
        f"{series.total_rows:,} rows were read: {n:,} steps, {series.calendar.every()}, {result.train:,} of them to "
        f"choose by and {n - result.train:,} held out."
    )
    notes = (Text(tuple(series.notes), "list"),) if series.notes else ()
    return Section("data", "The data", (Text((said,)), *notes, columns(series.summaries)))


def _use(result: Forecasted) -> Section:
    horizon, series = result.horizon, result.series
    inputs = ", inputs=X" if result.model.columns else ""
    blocks: list[Block] = [
        Text(
            (
                "Further steps, or new outcomes first and then what comes after them (a table with "
                f"{series.time} and, where it is known, {series.target}):",
            )
        )
    ]
    if not inputs:
        blocks.append(Code(f"credo predict model.credo --horizon {2 * horizon} --out forecast.csv"))
    python = (
        "import credo",
        "",
        'model = credo.load("model.credo")',
        f"future = model.belief.predict({horizon}{inputs})",
        "future.mean, future.interval(0.95), future.sample(1000)",
        f"model.belief.components(steps={horizon}{inputs})",
    )
    blocks += [
        Code("credo predict model.credo newer.csv --out forecast.csv"),
        Text(("In Python:",)),
        Code("\n".join(python)),
    ]
    return Section("use", "Using the model", tuple(blocks))
