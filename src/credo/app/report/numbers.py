"""The report of a number or a count: its errors, its intervals, and what to act on."""

import numpy as np
from matplotlib.figure import Figure as Canvas

from credo.app.fit.families.linear import is_robust
from credo.app.fit.tables import Result
from credo.app.plots import predictions as draw
from credo.app.plots.gp import mark_end
from credo.app.plots.style import PAGE, data_uri, new_axes, panels, some, tidy
from credo.app.report import tables, words
from credo.app.report.checks import Checks, check
from credo.app.report.page import Cell, Figure, Row, Section, Table, Text
from credo.app.report.words import count, number, percent
from credo.core.predictive import Predictive
from credo.decide.bayes import decide


def parts(result: Result, loss: tuple[float, float] | None) -> tables.Parts:
    """What the report of a number or a count says in its own words."""
    prediction = result.predict(result.test)
    checks = check(result, prediction)
    target = result.model.target
    python = ["prediction.mean, prediction.interval(0.95), prediction.aleatoric, prediction.epistemic"]
    if loss is not None:
        said = f"credo.losses.Asymmetric(under={loss[0]:g}, over={loss[1]:g})"
        python += ["", f"credo.decide(prediction, {said}).action"]
    return tables.Parts(
        headline=_headline(result, prediction, checks),
        tiles=_tiles(result, prediction, checks),
        warnings=_warnings(result, checks),
        predictions=_predictions(result, prediction),
        checks=[_fit(result, prediction, checks), _calibration(result, prediction, checks)],
        what=lambda _: f"the prediction of {target}",
        amount=number,
        change=target,
        along=target,
        captions=("the prediction", "The predicted mean"),
        decision=[] if loss is None else [_decision(result, prediction, loss)],
        options="" if loss is None else f" --loss {loss[0]:g},{loss[1]:g}",
        python=python,
    )


def _headline(result: Result, prediction: Predictive, checks: Checks) -> list[str]:
    """What was learned, in two or three sentences."""
    error, target, n = result.chosen.scores["rmse"], result.model.target, len(result.y_test)
    said = f"We predict {target} with a typical error of {number(error)}"
    if error < checks.baseline:
        said += f", against {number(checks.baseline)} for always guessing the average"
    said += f" (root mean squared error on {count(n, 'row')} that the model had not seen)."
    if error >= checks.baseline:
        said += (
            f" That is no better than always guessing the average ({number(checks.baseline)}): the columns of this "
            f"table say little about {target}" + (", or the future differs from the past." if checks.echo else ".")
        )
    inside = next(c for c in checks.coverage if c.level == 0.95)
    honest = f"Intervals meant to hold 95 % of the outcomes held {percent(inside.observed)} of them"
    return [said, words.doubt(words.noise_share(prediction)), honest + words.coverage_verdict(inside)]


def _tiles(result: Result, prediction: Predictive, checks: Checks) -> tuple[tuple[str, str, str], ...]:
    scores = result.chosen.scores
    inside = next(c for c in checks.coverage if c.level == 0.95)
    if result.kind == "count":
        second = ("typical miss", number(scores["mae"]), "mean distance from the predicted median")
    else:
        share = percent(scores["r2"]) if "r2" in scores else "–"
        second = ("variance explained", share, "R² on the test rows")
    return (
        ("typical error", number(scores["rmse"]), f"guessing the average: {number(checks.baseline)}"),
        second,
        ("95 % intervals held", percent(inside.observed), "of the test outcomes"),
        ("doubt that is noise", percent(words.noise_share(prediction)), "the rest is ignorance"),
    )


def _warnings(result: Result, checks: Checks) -> list[str]:
    """What a careful reader should know before using the model."""
    said, rows = [], f"on the {checks.source} rows"
    surprise = result.chosen.scores["nlpd"]
    if result.kind == "number" and surprise >= checks.baseline_nlpd:
        said.append(
            f"The chosen model does not beat the baseline: the average of the training rows with their spread gives "
            f"the test rows as much probability (NLPD {number(checks.baseline_nlpd)}, the model {number(surprise)})."
        )
    for coverage in checks.coverage:
        if coverage.off and coverage.level != 0.95:
            more = "fewer" if coverage.off < 0 else "more"
            said.append(
                f"The {percent(coverage.level)} intervals held {percent(coverage.observed)} of the outcomes, {more} "
                f"than chance explains ({percent(coverage.low)} to {percent(coverage.high)})."
            )
    if checks.spread:
        way, how = "larger" if checks.spread > 0 else "smaller", f"(rank correlation {checks.spread:+.2f} {rows})"
        if result.kind == "count":
            said.append(
                f"Errors are {way}, in proportion to what the model expects of them, where the prediction is larger "
                f"{how}: counts do not spread as the model believes."
            )
        else:
            said.append(
                f"Errors are {way} where the prediction is larger {how}, but the model has one noise level for all. "
                "Intervals are too narrow at one end and too wide at the other; if the target is positive, try its "
                "logarithm."
            )
    if checks.tails:
        remedy = " The model expects outliers, but not this many." if is_robust(result.chosen.belief) else ""
        said.append(
            f"Large surprises are {checks.tails:.0f} times as frequent as the model believes (beyond three standard "
            f"deviations, {rows}). Look at those rows: they may be errors in the data.{remedy}"
        )
    if checks.echo:
        kind = "the same" if checks.echo > 0 else "the opposite"
        said.append(
            f"Errors follow each other in time: after a positive one the next tends to be of {kind} sign (correlation "
            f"{checks.echo:+.2f}). The model takes rows as independent, so it is surer than it should be, above all of "
            "averages over time."
        )
    if checks.drift:
        way = "above" if checks.drift > 0 else "below"
        said.append(
            f"Outcomes at the end of the series lie {abs(checks.drift):.1f} standard deviations {way} the forecast on "
            "average: the trend has changed, or the curve extrapolates badly. Forecasts far ahead deserve little trust."
        )
    said += words.beyond_and_rival(checks.outside, checks.rival)
    if len(result.y_test) < 30:
        said.append(
            f"The test has only {count(len(result.y_test), 'row')}: its scores are rough, and residuals were checked "
            "on the training rows."
        )
    return said + list(result.notes)


def _predictions(result: Result, prediction: Predictive) -> Section:
    """The predictions with their doubt: along time, or in the order of the predicted mean."""
    if result.prepared.time is not None:
        drawn: Canvas = _series(result, result.prepared.time)
        said = "Right of the dashed line are rows that the model had not seen; below, that part closer up."
    else:
        order = np.argsort(np.asarray(prediction.mean))
        shown = order[some(len(order), 250)]
        ax = draw.bands(prediction[shown], np.arange(len(shown)) + 1, result.y_test[shown], ax=new_axes(PAGE, 3.9))
        if result.kind == "count":
            # A few rows far out would hide the rest, and no count is negative.
            high = float(np.quantile(np.asarray(prediction.interval(0.95).upper), 0.98))
            ax.set_ylim(bottom=-0.02 * high, top=1.1 * max(high, float(result.y_test.max())))
        drawn = tidy(ax, "test rows, in the order of the prediction", result.model.target).figure  # type: ignore[assignment]
        said = f"{part_of(shown, order)} The dots should fall into the pale band 95 % of the time."
    picture = Figure(
        data_uri(drawn),
        f"Predicted mean of {result.model.target} with the band of doubt about the mean and the band of 95 % of "
        "outcomes, and the observed values",
        f"{said} The strong band is ignorance (epistemic): it shrinks with more rows. The pale band adds noise "
        "(aleatoric), which does not.",
    )
    return Section("predictions", "Predictions and their doubt", (picture,))


def part_of(shown: np.ndarray, every: np.ndarray) -> str:
    """How many of the test rows a picture shows."""
    few = len(shown) < len(every)
    part = f"{len(shown)} of the {len(every)} test rows" if few else f"All {len(every)} test rows"
    return f"{part}; the model had not seen them."


def _series(result: Result, time: np.ndarray) -> Canvas:
    """The whole series, and below it the held-out end with as much before it."""
    column = next(c for c in result.prepared.schema.columns if c.name == result.prepared.schema.time)
    at = column.to_dates(time) if column.kind == "date" else time
    figure, axes = panels(2, 3.2, across=1)
    order, held_out = np.argsort(time, kind="stable"), len(result.test)
    for ax, rows in zip(axes, (order, order[-2 * held_out :]), strict=True):
        rows = rows[some(len(rows), 2000)]
        draw.bands(result.predict(rows), at[rows], result.prepared.y[rows], ax=ax)
        mark_end(ax, at[result.test[0]], "held out from here")
        tidy(ax, column.name if ax is axes[1] else "", result.model.target)
    axes[1].get_legend().remove()  # type: ignore[union-attr]
    return figure


def _fit(result: Result, prediction: Predictive, checks: Checks) -> Section:
    figure, (left, right) = panels(2, 4.0)
    draw.observed_against_predicted(prediction, result.y_test, ax=left)
    draw.residuals(prediction, result.y_test, ax=right)
    faults = [
        said for said, bad in (("their size varies", checks.spread), ("their tails are heavy", checks.tails)) if bad
    ]
    verdict = (
        f"Not what independent noise of one size looks like: {' and '.join(faults)}."
        if faults
        else "No pattern that the model should have caught: no trend in their size, no excess of large ones."
    )
    picture = Figure(
        data_uri(figure),
        "Left: predicted against observed values with intervals. Right: residuals against predictions",
        "Test rows. Left: on the dashed line prediction and outcome agree. Right: what the prediction missed. "
        + verdict,
    )
    return Section("fit", "Observed, predicted, and what is left", (picture,))


def _calibration(result: Result, prediction: Predictive, checks: Checks) -> Section:
    rows = []
    for c in checks.coverage:
        held = Cell(percent(c.observed), "off" if c.off else "")
        rows.append(Row((percent(c.level), held, f"{percent(c.low)} to {percent(c.high)}")))
    return Section(
        "calibration",
        "Can its doubt be trusted?",
        (
            Figure(
                data_uri(draw.calibration(prediction, result.y_test)),
                "Share of outcomes inside intervals against the probability of the intervals",
                narrow=True,
            ),
            Text(
                (
                    "An interval of probability 80 % should hold 80 % of the outcomes. The line should stay in the "
                    "grey band; below it the model is too sure, above it too careful.",
                )
            ),
            Table(("interval", "held", "chance allows"), tuple(rows), left=()),
            Text(("Chance: 99 % of the time, if the model is right and rows are independent.",), "small"),
        ),
    )


def _decision(result: Result, prediction: Predictive, loss: tuple[float, float]) -> Section:
    under, over = loss
    chosen = tables.asymmetric(loss)
    best, mean = decide(prediction, chosen).action, prediction.mean
    actions = {
        "acting on the whole prediction": best,
        "acting on the predicted mean": mean,
        "always acting on the training average": np.full(len(result.y_test), result.y_train.mean()),
    }
    costs = {name: float(np.mean(chosen(action, result.y_test))) for name, action in actions.items()}
    whole, plain = list(costs.values())[:2]
    shift = float(np.mean(best - mean))
    said = [
        f"If acting on a number one unit below {result.model.target} costs {under:g} and one unit above costs {over:g}"
        ", the best number to act on is the one that the outcome stays below with probability "
        f"{percent(under / (under + over))}. It lies {number(abs(shift))} {'above' if shift > 0 else 'below'} the "
        "predicted mean on average."
    ]
    if plain > 0:
        said.append(
            f"On the test rows that cost {tables.saving(whole, plain)}: {number(whole)} a row instead of "
            f"{number(plain)} for acting on the mean."
        )
    return tables.decision(said, costs)
