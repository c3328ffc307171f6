"""The report of a table: what numbers, counts and classes have in common, in the order in which it is read."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from credo.app.fit.costs import check_options, read_costs
from credo.app.fit.families.linear import is_robust
from credo.app.fit.scores import SHOWN, Shown, written
from credo.app.fit.search import CHANCE, lead
from credo.app.fit.tables import Result
from credo.app.plots.comparison import comparison as draw_comparison
from credo.app.plots.comparison import densities as draw_densities
from credo.app.plots.effects import costs as draw_costs
from credo.app.plots.effects import curves as draw_curves
from credo.app.plots.effects import effects as draw_effects
from credo.app.plots.style import PAGE, data_uri, new_axes
from credo.app.report.effects import Effect, curves, effects
from credo.app.report.page import Block, Cell, Code, Figure, Page, Row, Section, Table, Text, Tiles
from credo.app.report.words import count, number, percent
from credo.app.table.prepare import Summary
from credo.decide.losses import Asymmetric
from credo.evaluate.comparison import Comparison
from credo.models.glm import GLM
from credo.models.gp import GP, LatentClasses, LatentGP

SCORE_WORDS = {
    "number": "for RMSE (error), NLPD (surprise) and CRPS (error, doubt included) lower is better",
    "count": "for RMSE and MAE (errors), NLPD (surprise) and deviance (error in proportion to what is expected) lower "
    "is better",
    "classes": "for log loss (surprise) and Brier score (squared error of the probabilities) lower is better; ECE "
    "(calibration error) is small for shares as well, so it ranks nothing",
}
MOST_OPEN = 14
"""Longer tables of columns are folded."""


class Parts(NamedTuple):
    """What a kind of target says in its own words."""

    headline: list[str]
    tiles: tuple[tuple[str, str, str], ...]
    warnings: list[str]
    predictions: Section
    checks: list[Section]
    what: Callable[[Effect], str]
    """Of an effect, what it changes."""
    amount: Callable[[float], str]
    """A change in words."""
    change: str
    """What the picture of effects shows a change of."""
    along: str
    """The axis of the curves."""
    captions: tuple[str, str]
    """What is changed by a column, and what is drawn along one."""
    decision: list[Section]
    options: str
    """What `credo predict` needs to decide as the report does."""
    python: list[str]


def page(
    result: Result, *, command: str = "", loss: tuple[float, float] | None = None, costs: str | None = None
) -> Page:
    """The report. `command` is shown for reproduction; `loss` are the costs of being one too low and one too high.

    For classes `costs` is what each action costs, see `credo.app.fit.costs`.
    """
    from credo.app.report import classes, numbers

    check_options(result.model.target, result.kind, loss, costs)
    if result.kind == "classes":
        matrix = None if costs is None else read_costs(costs, result.prepared.levels)
        parts = classes.parts(result, matrix, costs or "")
    else:
        parts = numbers.parts(result, loss)
    sections = [
        *opening(parts.headline, parts.tiles, parts.warnings),
        parts.predictions,
        _data(result),
        _comparison(result),
        *parts.checks,
        *result.sections(),
        _effects(result, parts),
        *parts.decision,
        _use(parts),
    ]
    made = f"seed {result.seed}, model “{result.model.name}”, {result.seconds:.0f} s."
    return Page(f"Predicting {result.model.target} from {result.source}", tuple(sections), command, made)


def opening(headline: list[str], tiles: tuple[tuple[str, str, str], ...], warnings: list[str]) -> list[Section]:
    """How every report begins: what was found, numbers at a glance, and what to know before relying on it."""
    sections = [Section("headline", "", (Text(tuple(headline), "lead"), Tiles(tiles)))]
    if warnings:
        sections.append(Section("warnings", "Before you rely on it", (Text(tuple(warnings), "list"),)))
    return sections


def asymmetric(costs: tuple[float, float]) -> Asymmetric:
    """The loss of being one too low, one too high."""
    return Asymmetric(under=np.asarray(costs[0]), over=np.asarray(costs[1]))


def _data(result: Result) -> Section:
    prepared = result.prepared
    how = "the latest" if prepared.schema.time is not None else "chosen at random"
    said = (
        f"{prepared.total_rows:,} rows were read and {result.model.rows:,} used: {len(result.train):,} to learn from "
        f"and {len(result.test):,}, {how}, held out for the test. {count(len(prepared.schema.columns), 'column')} "
        f"became {count(prepared.x.shape[1], 'numeric input')}."
    )
    blocks: list[Block] = [Text((said,))]
    if prepared.notes:
        blocks += [Text(("Decisions made on the way",), "heading"), Text(tuple(prepared.notes), "list")]
    return Section("data", "The data", (*blocks, columns(prepared.summaries)))


def columns(summaries: tuple[Summary, ...]) -> Table:
    """The columns of the table, and what became of them."""
    rows = [
        Row((s.name, s.role, s.kind or "–", str(s.missing or "–"), s.detail), "muted" if s.role == "left out" else "")
        for s in summaries
    ]
    return Table(
        ("column", "role", "kind", "missing", "what it holds"),
        tuple(rows),
        left=(0, 1, 2, 4),
        summary=f"All {len(rows)} columns",
        open=len(rows) <= MOST_OPEN,
    )


# -- which model ---------------------------------------------------------------------------------------------------


def _comparison(result: Result) -> Section:
    shown, by_name = SHOWN[result.kind], {each.name: each for each in result.fitted}
    best = {s.key: (min if s.smaller else max)(e.scores.get(s.key, np.nan) for e in result.fitted) for s in shown}

    def cell(s: Shown, scores: dict[str, float]) -> Cell:
        top = s.smaller is not None and scores[s.key] == best[s.key]
        return Cell(written(s, scores.get(s.key)), "best" if top else "")

    rows = {each.name: tuple(cell(s, each.scores) for s in shown) for each in result.fitted}
    marks = {
        e.name for e in result.fitted if is_robust(e.belief) or isinstance(e.belief, GLM | LatentGP | LatentClasses)
    }
    # In the order of the choice; a model that was not judged by rows left out has no bar.
    each = (by_name[row.name] for row in result.comparison.rows)
    judged = {e.name: e.left_out_density for e in each if len(e.left_out)}
    first, *others = _words(result)
    closing = f"Scores: on the test rows; {SCORE_WORDS[result.kind]}, the best are bold."
    starred = " (* approximate)" if marks else ""
    about = (
        "Left out: the mean log density of training rows that were left out in turn, by which the choice was made. "
        f"Evidence: of all training rows{starred}. Of both, higher is better. {closing}"
    )
    names = tuple(s.name for s in shown)
    return Section(
        "comparison",
        "Which model, and how sure of it",
        (
            Text((first,)),
            ranking(result.comparison, judged),
            comparison_table(result.comparison, by_name, names, rows, marks=marks),
            Text((*others, about), "small"),
        ),
    )


def ranking(found: Comparison, left_out: Mapping[str, float] | None = None) -> Figure:
    """The picture of a comparison: by the density of rows that were left out where there are some, else by evidence."""
    ax = new_axes(PAGE, 0.9 + 0.36 * len(left_out or found.rows))
    if left_out:
        alt = "Bars: how far the mean log density of rows left out is behind the best, for each model"
        return Figure(data_uri(draw_densities(left_out, ax=ax)), alt)
    alt = "Bars: how far the log evidence of each model is behind the best"
    return Figure(data_uri(draw_comparison(found, ax=ax)), alt)


def comparison_table(
    found: Comparison,
    by_name: Mapping[str, Any],
    names: tuple[str, ...],
    scores: Mapping[str, tuple[str | Cell, ...]],
    more: tuple[Row, ...] = (),
    marks: Collection[str] = (),
) -> Table:
    """The models that were tried, the best first, each with its scores; `marks` are starred."""
    rows, judged = [], any(len(each.left_out) for each in by_name.values())
    for row in found.rows:
        chosen = row.name == found.best
        each = by_name[row.name]
        density = f"{each.left_out_density:.3f}" if len(each.left_out) else "–"
        rows.append(
            Row(
                (
                    Cell(f"{row.name} (chosen)" if chosen else row.name, note=each.about),
                    *((density,) if judged else ()),
                    f"{row.log_evidence:,.1f}{'*' * (row.name in marks)}",
                    f"{row.probability:.2f}" if row.probability >= 0.005 else "< 0.01",
                    *scores[row.name],
                    f"{each.seconds:.1f}",
                ),
                "chosen" if chosen else "",
            )
        )
    first = ("model", "left out", "log evidence", "prob.") if judged else ("model", "log evidence", "prob.")
    return Table((*first, *names, "s"), (*rows, *more))


def _words(result: Result) -> list[str]:
    """Which model was chosen, how clearly, and with which caveats."""
    by_name, rows = {each.name: each for each in result.fitted}, result.comparison.rows
    best, said = result.chosen, []
    others = [by_name[row.name] for row in rows[1:] if len(by_name[row.name].left_out)]
    if others and len(best.left_out):
        gain, error = lead(best, others[0])
        clear = f"by {number(gain)} ± {number(error)} in log density" if np.isfinite(error) else "clearly"
        how = (
            f"ahead of the next, “{others[0].name}”, {clear}"
            if gain > CHANCE * error
            else (f"hardly ahead of the next, “{others[0].name}”: chance explains the difference")
        )
        said.append(
            f"Of {count(len(rows), 'model')}, “{best.name}” makes rows that it has not seen most probable; it is {how}."
        )
    said.append(
        f"The choice was made on the {count(len(result.y_train), 'training row')} alone, in {len(result.data.folds)} "
        "folds: each was predicted by models learned from the others, hyperparameters and all. The scores on the "
        f"{count(len(result.y_test), 'test row')} had no say in it. The model that was saved is of the chosen kind, "
        f"learned again from all {count(result.model.rows, 'row')}."
    )
    caveat = (
        "Evidence, beside it, is taken at the best hyperparameters, which favours models with many of them: where the "
        "two disagree, rows that were left out count."
    )
    if any(isinstance(each.belief, GP) for each in result.fitted):
        caveat += " Gaussian processes pay half the logarithm of the number of rows for each of theirs (BIC)."
    if any(is_robust(each.belief) for each in result.fitted):
        caveat += " For robust models it is Laplace's approximation."
    if result.kind != "number":
        caveat += " Here it is Laplace's approximation, or a lower bound where classes are told apart almost perfectly."
    return [*said, caveat]


# -- effects -------------------------------------------------------------------------------------------------------


def _effects(result: Result, parts: Parts) -> Section:
    ranked = effects(result)
    changed, drawn = parts.captions
    blocks: list[Block] = [Text(tuple(effect_words(ranked, parts.what, parts.amount)), "list")]
    if len(ranked) > 1:
        blocks.append(
            Figure(
                data_uri(draw_effects(ranked, parts.change)),
                f"Change of {changed} for each column with 95 % intervals",
                f"The change of {changed} when one column goes from its 10th to its 90th percentile (or from its most "
                "common level to another) and the others stay as they are, averaged over rows of the table. Grey: may "
                "be zero.",
            )
        )
    if ranked:
        picture = draw_curves(curves(result, ranked), parts.along, result.prepared.levels)
        blocks.append(
            Figure(
                data_uri(picture),
                f"{drawn} along the most important columns with the doubt about them",
                f"{drawn} along the most important columns, averaged over rows of the table with the others as they "
                "are. Bands are 95 % of the doubt about that; ticks at the bottom are rows of the table.",
            )
        )
    return Section("effects", "What each column contributes", tuple(blocks))


def effect_words(
    ranked: list[Effect], what: Callable[[Effect], str], amount: Callable[[float], str] = number
) -> list[str]:
    """The strongest effects on `what`, and which are not clear."""
    said = []
    for effect in [e for e in ranked if e.clear][:3]:
        way = "raises" if effect.mean > 0 else "lowers"
        low, high = sorted((abs(effect.lower), abs(effect.upper)))
        said.append(
            f"Going from {effect.start} to {effect.end} in {effect.column} {way} {what(effect)} by "
            f"{amount(abs(effect.mean))} on average (95 %: {amount(low)} to {amount(high)})."
        )
    clear = {effect.column for effect in ranked if effect.clear}
    unclear = [name for name in dict.fromkeys(effect.column for effect in ranked) if name not in clear]
    if not said:
        said.append("No column has an effect that can be told from zero.")
    if unclear:
        said.append(f"Not told apart from no effect: {', '.join(unclear[:6])}{', …' if len(unclear) > 6 else ''}.")
    return [*said, "These are associations in the table, not causes."]


# -- acting --------------------------------------------------------------------------------------------------------


def decision(said: list[str], means: dict[str, float], *more: Block) -> Section:
    """What to do about the test rows, and what it would have cost."""
    picture = Figure(data_uri(draw_costs(means)), "Mean cost per test row of acting in several ways")
    return Section("decision", "What to do, when being wrong has a price", (Text(tuple(said)), picture, *more))


def saving(best: float, other: float) -> str:
    """How much less, or more, acting in the best way has cost than in another."""
    change = (other - best) / other
    return f"{percent(change)} less" if change > 0 else f"{percent(-change)} more"


def _use(parts: Parts) -> Section:
    python = [
        "import credo",
        "import pandas as pd",
        "",
        'model = credo.load("model.credo")',
        'prediction = model.predict(pd.read_csv("new.csv"))',
        *parts.python,
    ]
    blocks = (
        Text(("For a new table with the same columns (the target may be missing):",)),
        Code(f"credo predict model.credo new.csv --out predicted.csv{parts.options}"),
        Text(("In Python:",)),
        Code("\n".join(python)),
    )
    return Section("use", "Using the model", blocks)
