"""Campaigns on the terminal: trials, the best point, lists; words and small tables."""

from collections.abc import Iterable
from datetime import UTC, datetime

import numpy as np
import typer

from credo.app.campaign.desk import goals, last_failure, luck, written
from credo.app.cli.terminal import echo_table, refuse
from credo.decide.campaign import Campaign, Problem, Storage, Trial
from credo.decide.campaign.advice import front
from credo.decide.space.parameters import Point

SHOWN = 12
"""How many of the last trials `credo campaign show` lists."""


def echo_trial(campaign: Campaign, trial: Trial) -> None:
    """A trial to do: its number, its point, why, and how to tell the result."""
    typer.secho(f"trial {trial.number}", bold=True)
    echo_point(trial.point)
    typer.echo(f"  {campaign.explain(trial)}")
    outcomes = campaign.problem.outcomes
    values = "VALUE" if len(outcomes) == 1 else " ".join(f"{name}=VALUE" for name in outcomes)
    typer.echo(f"  tell: credo tell {trial.number} {values}\n")


def echo_point(point: Point) -> None:
    """A parameter in each line."""
    wide = max(map(len, point))
    for name, value in point.items():
        typer.echo(f"  {name:<{wide}}  {written(value)}")


def echo_told(campaign: Campaign, trial: Trial) -> None:
    """What is on record of a trial now, and how the campaign stands."""
    if trial.state == "pending":
        step, value = trial.partials[-1]
        typer.echo(f"trial {trial.number} is at {value:g} after step {step:g}")
        return
    said = {"failed": f"failed: {trial.reason}", "abandoned": "was abandoned"}.get(trial.state, "")
    typer.echo(f"trial {trial.number} {said or f'gave {trial.outcome}'}")
    typer.echo(campaign.summary())


def echo_end(campaign: Campaign, where: str) -> None:
    """How it ended: the best point or the front, the doubt about it, whether to go on."""
    seen = campaign.observations()
    if not np.isfinite(seen.values).all(axis=1).any():
        refuse(f"none of {len(seen)} trials gave a value; the last one failed: {last_failure(campaign)}")
    typer.echo(f"{campaign.name}: {goals(campaign.problem)}; {campaign.summary()}\n")
    echo_best(campaign)
    typer.echo(f"\nreport  credo campaign report {where}")


def echo_best(campaign: Campaign) -> None:
    """The best point with what is believed of it, or the Pareto front."""
    problem, seen = campaign.problem, campaign.observations()
    if len(problem.signs) > 1:
        rows = front(problem, seen)
        typer.echo(f"Pareto front: {len(rows)} of {len(seen)} trials that none of the others beats in everything")
        if len(rows):
            body = [_row(seen.numbers[i], seen.points[i], problem, seen.values[i]) for i in rows]
            echo_table([("trial", *problem.space.names, *problem.objectives), *body], indent="  ")
        return
    best, name = campaign.best(), problem.objectives[0]
    typer.secho(f"best: {name} = {best.value:.6g} in trial {best.trial}", bold=True)
    echo_point(best.point)
    low, high = best.interval
    typer.echo(f"The model believes {best.mean:.5g} there, 95 % between {low:.5g} and {high:.5g}.")
    if said := luck(problem, seen, best):
        typer.echo(said)
    typer.echo(campaign.advice().message)


def _row(number: object, point: Point, problem: Problem, values: Iterable[float]) -> tuple[str, ...]:
    cells = [written(point.get(name)) for name in problem.space.names]
    return (str(number), *cells, *(written(None if np.isnan(v) else float(v)) for v in values))


def echo_list(storage: Storage) -> None:
    """All campaigns of a storage."""
    entries = storage.campaigns()
    if not entries:
        typer.echo(f"there is no campaign in {storage.where}")
        return
    rows: list[tuple[str, ...]] = [("name", "begun", "done", "failed", "pending", "goal")]
    for entry in entries:
        states = [trial.state for trial in storage.trials(entry.id).trials]
        counts = [str(states.count(state)) for state in ("done", "failed", "pending")]
        goal = ", ".join(f"{sense} {name}" for name, sense in entry.settings.get("goal", {}).items())
        rows.append((entry.name, f"{datetime.fromtimestamp(entry.created, UTC):%Y-%m-%d}", *counts, goal))
    echo_table(rows, left=(0, 1, 5))


def echo_campaign(campaign: Campaign) -> None:
    """A campaign: what it is about, its last trials, the best."""
    problem, seen, trials = campaign.problem, campaign.observations(), campaign.trials
    typer.secho(f"{campaign.name} in {campaign.storage.where}", bold=True)
    typer.echo(f"{goals(problem)}; {campaign.summary()}")
    typer.echo(f"{problem.space!r}\n")
    if not trials:
        typer.echo("no trial yet; `credo ask` gives the first")
        return
    rows: list[tuple[str, ...]] = [("trial", "state", *problem.space.names, *problem.outcomes)]
    for trial in trials[-SHOWN:]:
        values = [(trial.values or {}).get(name) for name in problem.outcomes]
        cells = _row(trial.number, trial.point, problem, [np.nan if v is None else v for v in values])
        rows.append((cells[0], trial.state, *cells[1:]))
    echo_table(rows, left=(1,))
    if len(trials) > SHOWN:
        typer.echo(f"(the last {SHOWN} of {len(trials)}; `credo campaign export` writes all)")
    failures = [trial for trial in trials if trial.state == "failed"][-3:]
    for trial in failures:
        typer.echo(f"trial {trial.number} failed: {' '.join(str(trial.reason).split())}")
    if np.isfinite(seen.values).all(axis=1).any():
        typer.echo("")
        echo_best(campaign)
