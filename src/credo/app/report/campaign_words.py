"""A campaign in sentences: the best, how sure that is, whether to go on, and what to be careful about."""

import numpy as np
from scipy import stats

from credo.app.campaign_desk import last_failure, luck, written
from credo.app.importance import Importance
from credo.app.report.checks import Coverage
from credo.app.report.words import count, coverage_verdict, number, percent
from credo.decide.campaign import Best, Campaign, Problem
from credo.decide.campaign.advice import Advice, front
from credo.decide.space.parameters import Integer, Point, Real

FEW = 8
"""Predictions below which their coverage says nothing."""


def place(point: Point) -> str:
    """lr = 0.003, optimizer = adam."""
    return ", ".join(f"{name} = {written(value)}" for name, value in point.items())


def headline(campaign: Campaign, best: Best | None, advice: Advice | None) -> list[str]:
    """The best trial or the front, how sure that is, and whether it is worth going on."""
    problem, seen = campaign.problem, campaign.observations()
    done = len(seen) - int(seen.failed.sum())
    if not np.isfinite(seen.values).all(axis=1).any():
        told = f"none of {count(len(seen), 'trial')} that were told gave one" if len(seen) else "nothing was told"
        last = last_failure(campaign)
        return [f"There is no value yet: {told}.", *([f"The last failure: {last}"] if last else [])]
    if best is None or advice is None:
        return _front(campaign, done)
    name = problem.objectives[0]
    low, high = best.interval
    there = f"{name} = {number(best.value)} at {place(best.point)}"
    said = f"The best of {count(done, 'trial')} is trial {best.trial}: {there}."
    believed = (
        f"Without its noise the model believes {number(best.mean)} there, and is 95 % sure that it lies between "
        f"{number(low)} and {number(high)}."
    )
    return [said, " ".join([believed, luck(problem, seen, best)]).strip(), str(advice.message)]


def _front(campaign: Campaign, done: int) -> list[str]:
    problem, seen = campaign.problem, campaign.observations()
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
        others = [
            f"{other} = {number(seen.values[row, k])}" for k, other in enumerate(problem.objectives) if other != name
        ]
        what = "largest" if sign > 0 else "smallest"
        said.append(
            f"The {what} {name} there is {number(seen.values[row, i])}, with {' and '.join(others)}, "
            f"at {place(seen.points[row])}."
        )
    return said


def tiles(campaign: Campaign, best: Best | None, advice: Advice | None) -> list[tuple[str, str, str]]:
    """Numbers at a glance."""
    problem, seen, pending = campaign.problem, campaign.observations(), campaign.pending
    failed = int(seen.failed.sum())
    counted = ("trials told", str(len(seen)), f"{failed} failed, {len(pending)} pending")
    if best is None or advice is None:
        return [("on the front", str(len(front(problem, seen))), "of the trials"), counted]
    low, high = best.interval
    sense = "largest" if problem.signs[0] > 0 else "smallest"
    return [
        (f"best {problem.objectives[0]}", number(best.value), f"in trial {best.trial}; {sense} is best"),
        ("believed there", number(best.mean), f"95 %: {number(low)} to {number(high)}"),
        ("expected still to gain", number(advice.expected_regret), "the optimum against the best trial"),
        counted,
    ]


def warnings(campaign: Campaign, best: Best | None, held: np.ndarray) -> list[str]:
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
    if len(held) >= FEW and coverage(held).off < 0:
        said.append(trust(held))
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


def coverage(held: np.ndarray) -> Coverage:
    """How many predictions held, and what chance allows 99 % of the time."""
    n = len(held)
    low, high = (float(stats.binom.ppf(q, n, 0.95)) / n for q in (0.005, 0.995))
    return Coverage(0.95, float(held.mean()), low, high)


def trust(held: np.ndarray) -> str:
    """Whether the model's predictions before each trial came true."""
    if len(held) < FEW:
        return ""
    covered = coverage(held)
    said = f"Of {len(held)} outcomes that the model predicted before their trial, {percent(covered.observed)} fell into"
    return f"{said} its 95 % intervals{coverage_verdict(covered)}"


def importance(shares: list[Importance], name: str) -> list[str]:
    """Which parameters matter, and how much is interaction."""
    ranked = sorted(shares, key=lambda each: -each.total)
    if not ranked[0].total:
        return [f"The model sees no change of {name} over the space."]
    top = ranked[0]
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


def optimum(problem: Problem, point: Point, mean: float, std: float) -> list[str]:
    """Where the model expects the most, with its doubt."""
    name = problem.objectives[0]
    what = "largest" if problem.signs[0] > 0 else "smallest"
    said = [
        f"The model expects the {what} {name} at {place(point)}: {number(mean)}, 95 % between "
        f"{number(mean - 1.96 * std)} and {number(mean + 1.96 * std)}."
    ]
    if problem.constraints:
        said.append("That looks at the objective alone, whether or not the constraints would be kept there.")
    return said
