"""The report of a campaign: the best, how sure that is, whether to go on, what matters, what to be careful about."""

import numpy as np

from credo.app.campaign.desk import goals, last_failure, luck, written
from credo.app.plots import campaign as draw
from credo.app.plots.style import PAGE, data_uri, new_axes
from credo.app.report.checks import coverage
from credo.app.report.page import Block, Cell, Code, Figure, Page, Row, Section, Table, Text
from credo.app.report.tables import opening
from credo.app.report.words import count, coverage_verdict, number, percent
from credo.decide.campaign import Best, Campaign, Observations, Problem
from credo.decide.campaign.advice import Advice, front, predicted_optimum
from credo.decide.campaign.model import Model
from credo.decide.campaign.model_slices import center, held, noise_of, slices
from credo.decide.campaign.sensitivity import Importance, importances
from credo.decide.campaign.surrogate import Surrogate
from credo.decide.space.parameters import Integer, Point, Real

MOST_ROWS = 300
MOST_OPEN = 20
MOST_REASONS = 20
FEW = 8
"""Predictions below which their coverage says nothing."""


def page(campaign: Campaign, *, command: str = "") -> Page:
    """The report. `command` is shown for reproduction."""
    problem, seen = campaign.problem, campaign.observations()
    model = campaign.model() if np.isfinite(seen.values).all(axis=1).any() else None
    best = advice = None
    if model is not None and len(problem.signs) == 1:
        best, advice = campaign.best(), campaign.advice()
    came_true = np.zeros(0, bool) if model is None else held(problem, seen, noise_of(model.objectives[0]))
    sections = opening(
        _headline(campaign, best, advice), _tiles(campaign, best, advice), _warnings(campaign, best, came_true)
    )
    if len(seen):
        sections.append(_progress(campaign))
    if model is not None and len(problem.signs) == 1:
        said = [*_optimum(problem, *predicted_optimum(problem, model)), trust(came_true)]
        text = Text(tuple(sentence for sentence in said if sentence))
        sections.append(Section("optimum", "Where the model expects the optimum", (text,)))
    if len(problem.signs) > 1:
        sections.append(_front(campaign))
    if model is not None:
        sections += _learned(campaign, model)
    if len(problem.space.names) > 1 and np.isfinite(seen.values[:, 0]).any():
        sections.append(_parallel(campaign))
    if problem.constraints:
        sections.append(_constraints(problem, seen, best))
    sections += [*_failures(campaign), _trials(campaign)]
    made = f"seed {problem.seed}, record in {campaign.storage.where}."
    return Page(f"{campaign.name}: {goals(problem)}", tuple(sections), command, made)


def place(point: Point) -> str:
    """lr = 0.003, optimizer = adam."""
    return ", ".join(f"{name} = {written(value)}" for name, value in point.items())


# -- how it stands -------------------------------------------------------------------------------------------------


def _headline(campaign: Campaign, best: Best | None, advice: Advice | None) -> list[str]:
    """The best trial or the front, how sure that is, and whether it is worth going on."""
    problem, seen = campaign.problem, campaign.observations()
    done = len(seen) - int(seen.failed.sum())
    if not np.isfinite(seen.values).all(axis=1).any():
        told = f"none of {count(len(seen), 'trial')} that were told gave one" if len(seen) else "nothing was told"
        last = last_failure(campaign)
        return [f"There is no value yet: {told}.", *([f"The last failure: {last}"] if last else [])]
    if best is None or advice is None:
        return _on_the_front(problem, seen, done)
    low, high = best.interval
    there = f"{problem.objectives[0]} = {number(best.value)} at {place(best.point)}"
    believed = (
        f"Without its noise the model believes {number(best.mean)} there, and is 95 % sure that it lies between "
        f"{number(low)} and {number(high)}. {luck(problem, seen, best)}"
    )
    said = f"The best of {count(done, 'trial')} is trial {best.trial}: {there}."
    return [said, believed.strip(), str(advice.message)]


def _on_the_front(problem: Problem, seen: Observations, done: int) -> list[str]:
    rows = front(problem, seen)
    names = " and ".join(problem.objectives)
    if not len(rows):
        return [f"None of {count(done, 'trial')} keeps all constraints: there is no front of {names} yet."]
    said = [
        f"{count(len(rows), 'trial')} of {done} {'is' if len(rows) == 1 else 'are'} on the Pareto front: no other is "
        f"better in one of {names} without being worse in another."
    ]
    for i, (name, sign) in enumerate(zip(problem.objectives, problem.signs, strict=True)):
        row = rows[int(np.argmax(sign * seen.values[rows, i]))]
        others = [f"{o} = {number(v)}" for o, v in zip(problem.objectives, seen.values[row], strict=True) if o != name]
        said.append(
            f"The {'largest' if sign > 0 else 'smallest'} {name} there is {number(seen.values[row, i])}, with "
            f"{' and '.join(others)}, at {place(seen.points[row])}."
        )
    return said


def _tiles(campaign: Campaign, best: Best | None, advice: Advice | None) -> tuple[tuple[str, str, str], ...]:
    problem, seen, pending = campaign.problem, campaign.observations(), campaign.pending
    counted = ("trials told", str(len(seen)), f"{int(seen.failed.sum())} failed, {len(pending)} pending")
    if best is None or advice is None:
        return (("on the front", str(len(front(problem, seen))), "of the trials"), counted)
    low, high = best.interval
    sense = "largest" if problem.signs[0] > 0 else "smallest"
    return (
        (f"best {problem.objectives[0]}", number(best.value), f"in trial {best.trial}; {sense} is best"),
        ("believed there", number(best.mean), f"95 %: {number(low)} to {number(high)}"),
        ("expected still to gain", number(advice.expected_regret), "the optimum against the best trial"),
        counted,
    )


def _warnings(campaign: Campaign, best: Best | None, came_true: np.ndarray) -> list[str]:
    """What a careful reader should know."""
    problem, seen = campaign.problem, campaign.observations()
    space, said = problem.space, []
    done, failed = len(seen) - int(seen.failed.sum()), int(seen.failed.sum())
    if 0 < done < 3 * len(space.names):
        said.append(
            f"{count(done, 'value')} for {count(len(space.names), 'parameter')} are few: take what the model says "
            "about parameters as a first guess."
        )
    if failed > 0.2 * max(len(seen), 1):
        said.append(f"{failed} of {count(len(seen), 'trial')} failed; see the reasons below before trying more.")
    if problem.constraints and done and not seen.feasible(problem).any():
        said.append("No trial keeps all constraints. What is called best is what the model thinks most likely to.")
    if best is not None:
        said += [
            f"The best {name} is {written(best.point[name])}, the {end} of its range: better values may lie beyond it."
            for name, end in at_the_edge(problem, best.point)
        ]
    if len(came_true) >= FEW and coverage(came_true).off < 0:
        said.append(trust(came_true))
    if seen.warm.any():
        said.append(f"{count(int(seen.warm.sum()), 'result')} come from earlier campaigns or tables.")
    return said


def at_the_edge(problem: Problem, point: Point) -> list[tuple[str, str]]:
    """The numeric parameters of a point within a hundredth of an end of their range."""
    out = []
    for parameter in problem.space.parameters:
        if parameter.name in point and isinstance(parameter, Real | Integer):
            at = float(parameter.columns(parameter.numbers([point[parameter.name]]))[0, 0])
            if not 0.01 < at < 0.99:
                out.append((parameter.name, "lower end" if at < 0.5 else "upper end"))
    return out


def trust(came_true: np.ndarray) -> str:
    """Whether the model's predictions before each trial came true."""
    if len(came_true) < FEW:
        return ""
    covered = coverage(came_true)
    n, share = len(came_true), percent(covered.observed)
    said = f"Of {n} outcomes that the model predicted before their trial, {share} fell into its 95 % intervals"
    return said + coverage_verdict(covered)


def _progress(campaign: Campaign) -> Section:
    picture = Figure(
        data_uri(draw.best(campaign, ax=new_axes(PAGE, 3.6))),
        "Results in the order in which they were told and the best so far",
        "Results in the order in which they were told. The line is the best so far; a line that has long been flat is "
        "a reason to stop. Crosses at the bottom are trials that failed.",
    )
    return Section("progress", "Best so far", (picture,))


def _optimum(problem: Problem, point: Point, mean: float, std: float) -> list[str]:
    """Where the model expects the most, with its doubt."""
    what = "largest" if problem.signs[0] > 0 else "smallest"
    said = [
        f"The model expects the {what} {problem.objectives[0]} at {place(point)}: {number(mean)}, 95 % between "
        f"{number(mean - 1.96 * std)} and {number(mean + 1.96 * std)}."
    ]
    if problem.constraints:
        said.append("That looks at the objective alone, whether or not the constraints would be kept there.")
    return said


# -- what the model has learned ------------------------------------------------------------------------------------


def _learned(campaign: Campaign, model: Model) -> list[Section]:
    """For each objective what matters, and the model along each parameter, the most important first."""
    problem = campaign.problem
    found, order = [], list(problem.space.names)
    several = len(problem.objectives) > 1
    for i, (surrogate, name) in enumerate(zip(model.objectives, problem.objectives, strict=True)):

        def mean(rows: np.ndarray, surrogate: Surrogate = surrogate) -> np.ndarray:
            return np.asarray(surrogate.belief.predict(rows).mean)

        shares = importances(problem.space, mean)
        picture = Figure(
            data_uri(draw.importance(shares, ax=new_axes(PAGE, 0.9 + 0.34 * len(shares)))),
            "Share of the variance that each parameter explains by itself and with interactions",
            "Sobol’s indices of the model’s mean over the whole space, each parameter uniform over its range. Strong: "
            "by itself, Var(E[f | x]) / Var f. Pale: with interactions, E[Var(f | the others)] / Var f.",
        )
        said = Text(tuple(importance_words(shares, name)), "list")
        title = f"What matters for {name}" if several else "What matters"
        found.append(Section(_numbered("importance", i), title, (said, picture)))
        if i == 0:
            order = [each.name for each in sorted(shares, key=lambda each: -each.total)]
    point, which = center(campaign)
    for i, (name, curves) in enumerate(zip(problem.objectives, slices(problem, model, point, order), strict=True)):
        picture = Figure(
            data_uri(draw.slice_panels(curves, campaign, i)),
            f"Believed {name} along each parameter with 95 % bands, and the acquisition below",
            f"Slices through {which} (dashed): what the model believes when one parameter changes and the others stay, "
            "with 95 % of its doubt. Dots are trials; they lie elsewhere in the other parameters. Below, in orange, "
            "where it would look next.",
        )
        title = f"The model along each parameter{f': {name}' if several else ''}"
        found.append(Section(_numbered("slices", i), title, (picture,)))
    return found


def _numbered(name: str, i: int) -> str:
    return f"{name}{i + 1 if i else ''}"


def importance_words(shares: list[Importance], name: str) -> list[str]:
    """Which parameters matter, and how much is interaction."""
    ranked = sorted(shares, key=lambda each: -each.total)
    top = ranked[0]
    if not top.total:
        return [f"The model sees no change of {name} over the space."]
    said = [
        f"{top.name} matters most: by itself it explains {percent(top.alone)} of how {name} is believed to vary over "
        f"the space, {percent(top.total)} with its interactions."
    ]
    idle = [each.name for each in ranked if each.total < 0.02]
    if idle:
        said.append(f"{', '.join(idle)} hardly matter{'s' if len(idle) == 1 else ''} (less than 2 %).")
    together = min(sum(each.alone for each in shares), 1.0)
    said.append(
        f"By themselves the parameters explain {percent(together)} in all; the other {percent(1 - together)} is how "
        "they act together."
    )
    return said


# -- the record ----------------------------------------------------------------------------------------------------


def _front(campaign: Campaign) -> Section:
    problem, seen = campaign.problem, campaign.observations()
    blocks: list[Block] = []
    rows = [
        Row(
            (
                str(int(seen.numbers[i])),
                *(written(seen.points[i].get(name)) for name in problem.space.names),
                *(Cell(written(float(value)), "best") for value in seen.values[i]),
            )
        )
        for i in front(problem, seen)
    ]
    if len(problem.signs) == 2 and rows:
        alt = "The objectives of all trials against each other and those on the Pareto front"
        said = (
            "A trial on the front is beaten by none in all objectives at once: which of them is best depends on what "
            "you would trade."
        )
        blocks.append(Figure(data_uri(draw.front(campaign)), alt, said, narrow=True))
    if rows:
        blocks.append(Table(("trial", *problem.space.names, *problem.objectives), tuple(rows), left=()))
    return Section("front", "The Pareto front", tuple(blocks))


def _parallel(campaign: Campaign) -> Section:
    picture = Figure(
        data_uri(draw.parallel(campaign)),
        "Parallel coordinates: every trial as a line through its parameters, coloured by its value",
        "Every line is a trial; bright lines are good ones. Where the bright lines run together, the parameter is "
        "settled.",
    )
    return Section("parallel", "All trials at once", (picture,))


def _constraints(problem: Problem, seen: Observations, best: Best | None) -> Section:
    rows = []
    at = next((k for k, n in enumerate(seen.numbers) if best is not None and n == best.trial), None)
    for i, bound in enumerate(problem.constraints):
        values = seen.constraints[:, i]
        known = np.isfinite(values)
        kept = int((bound.slack(values[known]) >= 0).sum())
        there = "–" if at is None or not known[at] else written(float(values[at]))
        broken = at is not None and bool(bound.slack(values[at]) < 0)
        limit = f"{'≤' if bound.at_most else '≥'} {bound.limit:g}"
        rows.append(Row((bound.name, limit, f"{kept} of {int(known.sum())}", Cell(there, "off" if broken else ""))))
    table = Table(("outcome", "limit", "kept in", "at the best trial"), tuple(rows), left=(0, 1))
    return Section("constraints", "Constraints", (table,))


def _failures(campaign: Campaign) -> list[Section]:
    """Reasons, the most frequent first, and the trials that gave them."""
    reasons: dict[str, list[int]] = {}
    for trial in campaign.trials:
        if trial.state == "failed":
            reasons.setdefault(str(trial.reason), []).append(trial.number)
    ranked = sorted(reasons.items(), key=lambda item: -len(item[1]))[:MOST_REASONS]
    rows = [Row((", ".join(map(str, numbers)), reason)) for reason, numbers in ranked]
    table = Table(("trials", "reason"), tuple(rows), left=(0, 1))
    return [Section("failures", "Trials that failed", (table,))] if rows else []


def _trials(campaign: Campaign) -> Section:
    problem, trials = campaign.problem, campaign.trials
    rows = []
    for trial in trials[-MOST_ROWS:]:
        values = trial.values or {}
        cells: tuple[str | Cell, ...] = (
            str(trial.number),
            trial.state,
            *(written(trial.point.get(name)) for name in problem.space.names),
            *(written(values.get(name)) for name in problem.outcomes),
            Cell("", note=campaign.explain(trial)),
        )
        rows.append(Row(cells, "" if trial.state == "done" else "muted"))
    few = len(rows) < len(trials)
    table = Table(
        ("trial", "state", *problem.space.names, *problem.outcomes, "why"),
        tuple(rows),
        left=(1, 2 + len(problem.space.names) + len(problem.outcomes)),
        summary=f"{f'The last {len(rows)} of' if few else 'All'} {len(trials)} trials",
        open=len(rows) <= MOST_OPEN,
    )
    return Section("trials", "Trials", (table, Text(("The space",), "heading"), Code(repr(problem.space))))
