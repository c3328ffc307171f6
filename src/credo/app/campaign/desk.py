"""Between the commands and a campaign: opening one from files and options, reading what people type, running it."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from credo.app.cli.terminal import progress, stoppable
from credo.core.errors import DataError
from credo.decide.campaign import Best, Campaign, Command, Observations, Problem, Trial
from credo.decide.space import Space
from credo.decide.space.as_json import JSON

SETTINGS = ("goal", "outcome_constraints", "noise", "fidelity", "initial", "seed")
"""What the file of a space may hold beside parameters and constraints."""
ENDLESS = 10**9
"""The budget of a worker that was not given one."""
PATIENCE = 10.0
"""For how many seconds, at most, a worker sleeps before it looks whether somebody's lease has run out."""


# -- opening -------------------------------------------------------------------------------------------------------


def plan(path: Path, **options: Any) -> tuple[Space, dict[str, Any]]:
    """The space in a file and the settings of its campaign: the file's, then those options that are given."""
    space, settings = Space.from_json(path, extra=True)
    unknown = sorted(set(settings) - set(SETTINGS))
    if unknown:
        raise DataError(
            f"{path} has the key {unknown[0]!r}; beside parameters and constraints there may be {', '.join(SETTINGS)}"
        )
    space.sample(1)  # nothing is put on record for a space without a point
    return space, settings | {name: value for name, value in options.items() if value is not None}


def begin(path: Path, storage: str, name: str | None, lease: float) -> Campaign:
    """Begin the campaign of a file's space, or go on with it; without a name it is called after the file."""
    space, settings = plan(path)
    return Campaign(space, storage=storage, name=name or path.stem, lease=lease, **settings)


def opened(storage: str, name: str | None, lease: float = 3600.0) -> Campaign:
    """A campaign that is there already."""
    demand_storage(storage)
    return Campaign.open(storage, name, lease=lease)


def demand_storage(storage: str) -> None:
    """`DataError` where a file is to be read that does not exist: opening it would make an empty one."""
    if "://" not in storage and not Path(storage).exists():
        raise DataError(
            f"there is no file {storage}; give --storage, or begin a campaign with `credo ask --space space.json`"
        )


def command_of(problem: Problem, template: str, timeout: float | None, pattern: str | None) -> Command:
    """The command of each trial, checked against the problem."""
    return Command(template, problem.space.names, problem.outcomes, timeout, pattern)


# -- running -------------------------------------------------------------------------------------------------------


def run(campaign: Campaign, command: Command, budget: int, workers: int, again: str) -> None:
    """Trials until the budget is given out; Ctrl-C and SIGTERM lose nothing, `again` says how to go on."""
    with _kept(campaign, again), stoppable(), _shown(campaign, budget) as show:
        campaign.run(command, budget, workers, progress=show)


def work(campaign: Campaign, command: Command, budget: int | None, workers: int) -> None:
    """As `run`, and stay until the results are in: what another machine dropped is done here when its lease is over."""
    most = ENDLESS if budget is None else budget
    pause = min(PATIENCE, campaign.lease / 4)
    with _kept(campaign, "start the worker again to go on"), stoppable(), _shown(campaign, most) as show:
        while True:
            campaign.run(command, most, workers, progress=show)
            if not campaign.pending:
                return
            time.sleep(pause)


@contextmanager
def _kept(campaign: Campaign, again: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        n = len(campaign.observations())
        said = f"{n} result{'s are' if n != 1 else ' is'} safe in {campaign.storage.where}; {again}"
        typer.echo(f"credo: stopped; {said}", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _shown(campaign: Campaign, budget: int) -> Iterator[Any]:
    """A bar on a terminal, a line for every result elsewhere."""
    if sys.stderr.isatty():
        with progress() as step:
            yield lambda share, text: step(campaign.used() / budget, text)
        return
    known = len(campaign.observations())

    def say(share: float, text: str) -> None:
        nonlocal known
        if (n := len(campaign.observations())) != known:
            known = n
            typer.echo(f"{campaign.used()}{'' if budget == ENDLESS else f'/{budget}'}  {text}", err=True)

    yield say


# -- looking -------------------------------------------------------------------------------------------------------


def luck(problem: Problem, seen: Observations, best: Best) -> str:
    """A sentence about a trial that gave more than the one believed best, if there is one."""
    row = seen.incumbent(problem)
    if row is None or problem.signs[0] * (seen.values[row, 0] - best.value) <= 0:
        return ""
    return f"Trial {seen.numbers[row]} gave {seen.values[row, 0]:.5g}, which the model takes for luck."


def written(value: object) -> str:
    """A value of a point or an outcome, short."""
    return f"{value:.5g}" if isinstance(value, float) else "–" if value is None else str(value)


def goals(problem: Problem) -> str:
    """`maximize yield, minimize cost with temperature <= 80`."""
    said = ", ".join(f"{sense} {name}" for name, sense in problem.goal.items())
    kept = " and ".join(f"{b.name} {'<=' if b.at_most else '>='} {b.limit:g}" for b in problem.constraints)
    return f"{said} with {kept}" if kept else said


def last_failure(campaign: Campaign) -> str:
    """Why the trial that failed last did."""
    failed = [trial for trial in campaign.trials if trial.state == "failed"]
    return str(failed[-1].reason) if failed else ""


def as_json(trial: Trial) -> JSON:
    """A trial for programs, without the model's hyperparameters."""
    why = {key: value for key, value in (trial.why or {}).items() if key != "hyper"}
    return {"trial": trial.number, "point": dict(trial.point), "why": why}
