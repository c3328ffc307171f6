"""Numbers into words: plain, careful, and no surer than the numbers are."""

import math
from typing import TYPE_CHECKING

import numpy as np

from credo.core.predictive import Predictive

if TYPE_CHECKING:  # these words serve the terminal as well, which needs none of this
    from credo.app.fit.model import Answer
    from credo.app.report.checks import Coverage


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
        return f"{min(100 * share, 99.9):.1f} %"
    return f"{100 * share:.0f} %"


def count(n: int, noun: str) -> str:
    """3 rows, 1 row."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def near(value: float, width: float) -> str:
    """A number to the digit that its doubt leaves: two significant digits of `width`."""
    if not (math.isfinite(value) and math.isfinite(width) and width > 0):
        return number(value)
    digits = 1 - math.floor(math.log10(width))
    if digits > 8:
        return number(value)
    return f"{round(value, digits):,.{max(digits, 0)}f}"


def noise_share(prediction: Predictive) -> float:
    """The share of the variance of the predictions that is noise, averaged over the rows."""
    noise, ignorance = np.asarray(prediction.aleatoric), np.asarray(prediction.epistemic)
    with np.errstate(invalid="ignore"):
        return float(np.mean(np.where(np.isinf(noise), 1.0, noise / (noise + ignorance))))


def doubt(share: float) -> str:
    """What the doubt in predictions is made of, and what would help."""
    said = (
        f"Noise accounts for {percent(share)} of the doubt in a prediction; the other {percent(1 - share)} is "
        "ignorance that more rows would reduce."
    )
    if share > 0.95:
        return f"{said} More rows of the same kind would hardly help; better columns might."
    return f"{said} More rows would help most." if share < 0.5 else said


def coverage_verdict(coverage: "Coverage") -> str:
    """What to make of a coverage."""
    expected = f"({percent(coverage.low)} to {percent(coverage.high)} can be chance)"
    if coverage.off < 0:
        return f" {expected}: the model is too sure of itself. Widen its intervals before you rely on them."
    if coverage.off > 0:
        return f" {expected}: the model is more careful than it needs to be."
    if not coverage.low <= coverage.observed <= coverage.high:
        return ": more than chance explains on so many rows, and too little to matter."
    return f" {expected}: its doubt can be taken at face value."


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
            "choice on the training rows and the test disagree; more rows would tell."
        )
    return said


def obvious(season: int) -> str:
    """What the forecast is called that repeats the outcome a season of so many steps before."""
    return "as a season ago" if season > 1 else "as the last one"


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
    if answer.strange:
        said.append(f"{count(answer.strange, 'row')} like hardly anything seen: see the column novelty")
    return said
