"""Numbers into sentences: plain, careful, and no surer than the numbers are."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from credo.core.predictive import Predictive

if TYPE_CHECKING:  # the words for numbers serve forecasts as well, which need none of this
    from credo.app.answers import Answer
    from credo.app.report.checks import Checks, Coverage
    from credo.app.report.effects import Effect
    from credo.app.workflow import Result


def number(value: float | int) -> str:
    """Three significant digits, thousands grouped, no needless exponent."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else "–"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size >= 7 or size < -4:
        return f"{value:.2e}"
    return f"{value:,.{max(0, 2 - size)}f}"


def percent(share: float | int) -> str:
    """A share in percent, with a digit more where it would round to all or nothing."""
    if 0 < share < 0.005 or 0.995 <= share < 1:
        return f"{100 * share:.1f} %"
    return f"{100 * share:.0f} %"


def count(n: int, noun: str) -> str:
    """3 rows, 1 row."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def noise_share(prediction: Predictive) -> float:
    """The share of the variance of the predictions that is noise, averaged over the rows."""
    noise, ignorance = np.asarray(prediction.aleatoric), np.asarray(prediction.epistemic)
    with np.errstate(invalid="ignore"):
        return float(np.mean(np.where(np.isinf(noise), 1.0, noise / (noise + ignorance))))


def headline(result: "Result", prediction: Predictive, checks: "Checks") -> list[str]:
    """What was learned, in two or three sentences."""
    scores, target, n = result.chosen.scores, result.model.target, len(result.y_test)
    error = scores["rmse"]
    said = f"We predict {target} with a typical error of {number(error)}"
    if error < checks.baseline:
        said += f", against {number(checks.baseline)} for always guessing the average"
    said += f" (root mean squared error on {count(n, 'row')} that the model had not seen)."
    if error >= checks.baseline:
        said += (
            f" That is no better than always guessing the average ({number(checks.baseline)}): the columns of this "
            f"table say little about {target}" + (", or the future differs from the past." if checks.echo else ".")
        )
    share = noise_share(prediction)
    doubt = (
        f"Noise accounts for {percent(share)} of the doubt in a prediction; the other {percent(1 - share)} is "
        "ignorance that more rows would reduce."
    )
    if share > 0.95:
        doubt += " More rows of the same kind would hardly help; better columns might."
    elif share < 0.5:
        doubt += " More rows would help most."
    inside = next(c for c in checks.coverage if c.level == 0.95)
    honest = f"Intervals meant to hold 95 % of the outcomes held {percent(inside.observed)} of them"
    return [said, doubt, honest + coverage_verdict(inside)]


def coverage_verdict(coverage: "Coverage") -> str:
    """What to make of a coverage."""
    expected = f"({percent(coverage.low)} to {percent(coverage.high)} can be chance)"
    if coverage.off < 0:
        return f" {expected}: the model is too sure of itself. Widen its intervals before you rely on them."
    if coverage.off > 0:
        return f" {expected}: the model is more careful than it needs to be."
    return f" {expected}: its doubt can be taken at face value."


def comparison(result: "Result") -> list[str]:
    """Which model was chosen, how clearly, and with which caveats."""
    rows = result.comparison.rows
    best, others = rows[0], rows[1:]
    said = []
    if others:
        strength = {
            "barely worth mentioning": "barely ahead of",
            "positive": "ahead of",
            "strong": "clearly ahead of",
            "very strong": "far ahead of",
        }[others[0].evidence_against]
        said.append(
            f"Of {count(len(rows), 'model')}, the training rows speak most for “{best.name}”. It is {strength} the "
            f"next, “{others[0].name}”: the data are {_factor(-others[0].log_bayes_factor)} as probable under it."
        )
    said.append(
        f"The choice was made by the evidence of {count(len(result.y_train), 'training row')} alone; the scores on the "
        f"{count(len(result.y_test), 'test row')} had no say in it. The model that was saved is of the chosen kind, "
        f"learned again from all {count(result.model.rows, 'row')}."
    )
    caveat = (
        "Evidence is taken at the best hyperparameters, which favours models with many of them a little: "
        "see that the test scores agree."
    )
    from credo.models.gp import GP

    if any(isinstance(each.belief, GP) for each in result.fitted):
        caveat += " Gaussian processes pay half the logarithm of the number of rows for each of theirs (BIC)."
    if any(row.name.endswith("robust") for row in rows):
        caveat += " For robust models it is Laplace's approximation."
    if result.kind != "number":
        caveat += " Here it is Laplace's approximation, or a lower bound where classes are told apart almost perfectly."
    said.append(caveat)
    return said


def _factor(log: float) -> str:
    if log > 13.8:
        return "more than a million times"
    factor = math.exp(log)
    return f"{factor:.1f} times" if factor < 10 else f"{factor:,.0f} times"


def warnings(result: "Result", checks: "Checks") -> list[str]:
    """What a careful reader should know before using the model."""
    said = []
    rows = f"on the {checks.source} rows"
    for coverage in checks.coverage:
        if coverage.off and coverage.level != 0.95:
            more = "fewer" if coverage.off < 0 else "more"
            said.append(
                f"The {percent(coverage.level)} intervals held {percent(coverage.observed)} of the outcomes, {more} "
                f"than chance explains ({percent(coverage.low)} to {percent(coverage.high)})."
            )
    if checks.spread:
        way = "larger" if checks.spread > 0 else "smaller"
        if result.kind == "count":
            said.append(
                f"Errors are {way}, in proportion to what the model expects of them, where the prediction is larger "
                f"(rank correlation {checks.spread:+.2f} {rows}): counts do not spread as the model believes."
            )
    if checks.spread and result.kind == "number":
        said.append(
            f"Errors are {way} where the prediction is larger (rank correlation {checks.spread:+.2f} {rows}), but the "
            "model has one noise level for all. Intervals are too narrow at one end and too wide at the other; if the "
            "target is positive, try its logarithm."
        )
    if checks.tails:
        from credo.app.workflow import is_robust

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
    said += beyond_and_rival(checks.outside, checks.rival)
    if len(result.y_test) < 30:
        said.append(
            f"The test has only {count(len(result.y_test), 'row')}: its scores are rough, and residuals were checked "
            "on the training rows."
        )
    return said + list(result.notes)


def beyond_and_rival(outside: float, rival: str) -> list[str]:
    """What every kind of report says about test rows beyond the training rows, and a model that did better on them."""
    said = []
    if outside > 0.1:
        said.append(
            f"{percent(outside)} of the test rows lie beyond the range of the training rows in some column; the "
            "scores include that extrapolation."
        )
    if rival:
        said.append(
            f"“{rival}” predicted the test rows better than the chosen model, by more than chance explains. The "
            "evidence and the test disagree; more rows would tell."
        )
    return said


def residuals(checks: "Checks") -> str:
    """A sentence under the residual plot."""
    faults = [
        word for word, bad in (("their size varies", checks.spread), ("their tails are heavy", checks.tails)) if bad
    ]
    if faults:
        return f"Not what independent noise of one size looks like: {' and '.join(faults)}."
    return "No pattern that the model should have caught: no trend in their size, no excess of large ones."


def effects(
    ranked: "list[Effect]", what: "Callable[[Effect], str]", written: Callable[[float], str] = number
) -> list[str]:
    """The strongest effects on `what`, and which are not clear."""
    said = []
    for effect in [e for e in ranked if e.clear][:3]:
        way = "raises" if effect.mean > 0 else "lowers"
        low, high = sorted((abs(effect.lower), abs(effect.upper)))
        said.append(
            f"Going from {effect.start} to {effect.end} in {effect.column} {way} {what(effect)} by "
            f"{written(abs(effect.mean))} (95 %: {written(low)} to {written(high)})."
        )
    clear = {effect.column for effect in ranked if effect.clear}
    unclear = [name for name in dict.fromkeys(effect.column for effect in ranked) if name not in clear]
    if not said:
        said.append("No column has an effect that can be told from zero.")
    if unclear:
        said.append(f"Not told apart from no effect: {', '.join(unclear[:6])}{', …' if len(unclear) > 6 else ''}.")
    return [*said, "These are associations in the table, not causes."]


def prediction_remarks(answer: "Answer", rows: int) -> list[str]:
    """What `credo predict` has to say about a new table."""
    said = []
    if answer.empty:
        said.append(f"{count(answer.empty, 'row')} of {rows:,} with missing inputs left without a prediction")
    for name, n in answer.unread.items():
        said.append(f"{count(n, 'cell')} of {name!r} could not be read and counted as missing")
    for name, n in answer.unknown.items():
        said.append(f"{count(n, 'row')} with a level of {name!r} that was never seen: treated as no level at all")
    if answer.extrapolated:
        worst = sorted(answer.outside, key=lambda name: -answer.outside[name])[:3]
        listed = ", ".join(f"{name} ({answer.outside[name]:,})" for name in worst)
        said.append(f"{count(answer.extrapolated, 'row')} beyond the range of the training data: {listed}")
    return said
