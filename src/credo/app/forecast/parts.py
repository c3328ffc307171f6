"""Structural models of a series: which are tried, and what follows from the best.

First a level, a trend, and a trend with forms of the shortest season. Where all outcomes are positive, the best of them
for their logarithms as well, log p(y) = log p(log y) - Σ log y makes the two comparable; where that is better, all of
the first ones on logarithms, for another season may be best there. Last the best with something more.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from credo.app.fit.families.base import Candidate, Family
from credo.core.belief import Belief
from credo.infer.learning import Learned
from credo.models.structural import AR, Level, Part, Regression, Seasonal, Structural, Trend, integrated_evidence
from credo.models.structural.learning import StructuralEvidence

if TYPE_CHECKING:
    from credo.app.fit.search import Fitted
    from credo.app.forecast.calendar import Season

MOST_DUMMIES = 24
"""Longer seasons are waves."""
IN_LOGS = " (log)"


class Parts(Family):
    """Sums of level, trend, seasons and the rest."""

    kinds = ("series",)

    def propose(self, data: Any) -> list[Candidate]:
        """Level or trend, with and without a season."""
        return [in_logs(each) if data.log else each for each in self.first(data)]

    def first(self, data: Any) -> list[Candidate]:
        """The simplest models of what may repeat in the series."""
        return first_candidates(data.seasons)

    def more(self, best: Candidate, data: Any) -> list[Candidate]:
        """The best so far with something more."""
        return further_candidates(best, data.seasons, bool(data.series.columns))

    def follow(self, done: "Sequence[Fitted]", data: Any) -> list[Candidate]:
        """The best on logarithms; all of the first on logarithms where that is better; the best with something more."""
        found: list[Candidate] = []
        simple = {name for each in self.first(data) for name in (each.name, each.name + IN_LOGS)}
        first = [each for each in done if each.name in simple]
        if data.log is None:
            plain = [each for each in first if not each.belief.log]
            found += [in_logs(data.best(plain).candidate)] if plain else []
            if any(each.belief.log for each in first) and data.best(first).belief.log:
                found += [in_logs(each) for each in self.first(data)]
        if any(each.name not in {e.name for e in done} for each in found):
            return found
        best = data.best(first).candidate
        form = best._replace(name=best.name.removesuffix(IN_LOGS))
        more = self.more(form, data)
        return found + [in_logs(each) if best.belief.log else each for each in more]

    def evidence(self, learned: Learned, candidate: Candidate, data: Any, rows: Any) -> float:
        """The evidence with the numbers that were learned integrated over."""
        (y,), options = data.examples(rows, candidate)
        known = learned.belief.unconditioned()
        return integrated_evidence(known, known.statistics(y, **options))

    def kept(self, belief: Belief) -> Belief:
        """All of it: what comes next follows from where the series is."""
        return belief


def uses_inputs(candidate: Candidate) -> bool:
    """Whether the model has a regression on other columns."""
    return any(isinstance(part, Regression) for part in candidate.belief.parts)


def _season_parts(season: "Season") -> list[tuple[str, str, Part]]:
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


def candidate(name: str, about: str, *parts: Part) -> Candidate:
    """A structural model to try."""
    # One belief that comes apart into its parts, not an average over variances.
    return Candidate(name, about, Structural(*parts), 0.5, StructuralEvidence)


def first_candidates(seasons: "Sequence[Season]") -> list[Candidate]:
    """Level or trend, with and without a season."""
    trend = "a level with a slope that may change"
    found = [candidate("level", "a level that wanders", Level()), candidate("trend", trend, Trend())]
    for name, about, part in _season_parts(seasons[0]) if seasons else []:
        found.append(candidate(f"trend + {name}", f"{trend}, and {about}", Trend(), part))
    return found


def in_logs(plain: Candidate) -> Candidate:
    """The same parts for the logarithm of the outcome, in which what multiplies adds up."""
    about = f"{plain.about}; all of them multiply"
    return plain._replace(name=f"{plain.name}{IN_LOGS}", about=about, belief=Structural(*plain.belief.parts, log=True))


def further_candidates(best: Candidate, seasons: "Sequence[Season]", inputs: bool) -> list[Candidate]:
    """The best so far with something more."""
    out, (head, *rest) = [], best.belief.parts
    if isinstance(head, Trend):
        damped = Trend(damped=True)
        out.append(candidate(f"damped {best.name}", "as before, with a slope that fades", damped, *rest))
        if rest:
            out.append(candidate(best.name.replace("trend", "level"), "as before, without a slope", Level(), *rest))
    out.append(candidate(f"{best.name} + AR", "and what lasts a few steps", head, *rest, AR(1)))
    if inputs:
        out.append(candidate(f"{best.name} + inputs", "and the other columns", head, *rest, Regression()))
    for season in seasons[1:]:
        about, waves = f"and 3 waves over the {season.name}", Seasonal(season.period, harmonics=3)
        out.append(candidate(f"{best.name} + {season.name}", about, head, *rest, waves))
    return out
