"""The commands of campaigns: `credo optimize`, `ask`, `tell`, `worker`, `credo campaign list|show|export|report`."""

import contextlib
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from credo.app.cli import values as typed
from credo.app.cli.terminal import command_line, one_line_errors, refuse, refuse_existing, write_whole

if TYPE_CHECKING:
    from credo.decide.campaign import Campaign

STORAGE = "campaigns.db"
AT_THE_BENCH = "7d"
"""The lease of a trial that a person does: long enough that it is not offered again over the weekend."""

Store = Annotated[
    str, typer.Option("--storage", help="SQLite file or postgresql:// URL of the record.", envvar="CREDO_STORAGE")
]
Name = Annotated[
    str | None, typer.Option("--name", help="The campaign, where the storage has several.", show_default=False)
]
SpaceFile = Annotated[Path, typer.Argument(help="JSON with the parameters, see the documentation.", show_default=False)]
NewSpace = Annotated[
    Path | None,
    typer.Option("--space", help="Begin the campaign of this JSON file, or go on with it.", show_default=False),
]
Template = Annotated[
    str, typer.Option("--command", help="As in 'python train.py --lr {lr}'; no shell runs it.", show_default=False)
]
Timeout = Annotated[
    str | None, typer.Option(help="A trial that takes longer has failed: 90s, 15m, 2h.", show_default=False)
]
Pattern = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX",
        help="Finds the value in what the command prints.",
        show_default="NAME=NUMBER, or a number alone in the last line",
    ),
]
Workers = Annotated[int, typer.Option(min=1, help="Trials at a time.")]
Lease = Annotated[str, typer.Option(help="After so long without a sign of life a trial is offered to others.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


def optimize(
    space: SpaceFile,
    command: Template,
    budget: Annotated[int, typer.Option(min=1, help="How many trials in all, failures included.")],
    workers: Workers = 1,
    storage: Store = STORAGE,
    name: Annotated[str | None, typer.Option(help="Of the campaign.", show_default="that of the file")] = None,
    goal: Annotated[
        str | None,
        typer.Option(
            metavar="GOAL", help="maximize, minimize, or such as yield=maximize,cost=minimize.", show_default="maximize"
        ),
    ] = None,
    timeout: Timeout = None,
    pattern: Pattern = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the suggestions.", show_default="0")] = None,
    initial: Annotated[
        int | None, typer.Option(min=1, help="Points that cover the space before the model begins.", show_default=False)
    ] = None,
    lease: Lease = "1h",
) -> None:
    """Look for the best parameters of a command: it is run for every trial, and its value read from what it prints.

    Ctrl-C loses nothing; the same command again goes on.
    """
    with one_line_errors():
        from credo.app.campaign import console, desk
        from credo.decide.campaign import Campaign, Problem

        found, settings = desk.plan(space, goal=typed.goal(goal), seed=seed, initial=initial)
        limit, length = typed.seconds(timeout, "--timeout"), typed.seconds(lease, "--lease") or 0.0
        runner = desk.command_of(Problem.of(found, **settings), command, limit, pattern)
        campaign = Campaign(found, storage=storage, name=name or space.stem, lease=length, **settings)
        with contextlib.closing(campaign):
            if campaign.used() >= budget:
                typer.echo(f"note: the campaign has {campaign.used()} trials; a larger --budget goes on", err=True)
            desk.run(campaign, runner, budget, workers, "the same command again goes on")
            console.echo_end(campaign, _where(storage, campaign.name))


def worker(
    command: Template,
    storage: Store = STORAGE,
    name: Name = None,
    space: NewSpace = None,
    budget: Annotated[
        int | None,
        typer.Option(min=1, help="End when the campaign has so many results.", show_default="until stopped"),
    ] = None,
    workers: Workers = 1,
    timeout: Timeout = None,
    pattern: Pattern = None,
    lease: Lease = "1h",
) -> None:
    """Work for a campaign on this machine: ask, run the command, tell, over and over. Any number may do so at once."""
    with one_line_errors():
        from credo.app.campaign import desk

        campaign = _open(storage, name, space, lease)
        with contextlib.closing(campaign):
            runner = desk.command_of(campaign.problem, command, typed.seconds(timeout, "--timeout"), pattern)
            desk.work(campaign, runner, budget, workers)
            typer.echo(f"{campaign.name}: {campaign.summary()}")


def ask(
    n: Annotated[int, typer.Option("-n", min=1, help="How many trials.")] = 1,
    storage: Store = STORAGE,
    name: Name = None,
    space: NewSpace = None,
    lease: Lease = AT_THE_BENCH,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: a JSON list.")] = False,
) -> None:
    """Ask what to try next: the number of the trial, the point, and why."""
    with one_line_errors():
        from credo.app.campaign import console, desk

        with contextlib.closing(_open(storage, name, space, lease)) as campaign:
            trials = campaign.ask(n)
            if as_json:
                typer.echo(json.dumps([desk.as_json(trial) for trial in trials], indent=2))
                return
            for trial in trials:
                console.echo_trial(campaign, trial)


def tell(
    number: Annotated[int, typer.Argument(help="Of the trial.", show_default=False)],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[VALUE | NAME=VALUE ...]", help="What came of it.", show_default=False),
    ] = None,
    failed: Annotated[
        str | None, typer.Option(metavar="REASON", help="Why there is no value.", show_default=False)
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="A result on the way: step=3 value=0.7.")] = False,
    abandon: Annotated[bool, typer.Option("--abandon", help="It will not be done; others may be given it.")] = False,
    noise: Annotated[float | None, typer.Option(help="The variance of the value.", show_default=False)] = None,
    cost: Annotated[float | None, typer.Option(help="What the trial cost.", show_default=False)] = None,
    storage: Store = STORAGE,
    name: Name = None,
    lease: Lease = AT_THE_BENCH,
) -> None:
    """Tell what came of a trial: `credo tell 3 0.7`, `credo tell 3 yield=1.2 cost=3`, `credo tell 3 --failed broke`."""
    with one_line_errors():
        from credo.app.campaign import console

        told = typed.outcomes(values or [])
        if sum([told is not None, failed is not None, abandon]) != 1:
            refuse("tell one of these: a value, --failed 'reason', or --abandon")
        if partial and not isinstance(told, dict):
            refuse("a result on the way is told as --partial step=3 value=0.7")
        if (partial or abandon) and (noise is not None or cost is not None):
            refuse("--noise and --cost go with the value or the failure that ends the trial")
        with contextlib.closing(_open(storage, name, None, lease)) as campaign:
            if abandon:
                trial = campaign.abandon(number)
            elif partial:
                trial = campaign.tell(number, partial=told)
            else:
                trial = campaign.tell(number, told, failed=failed, noise=noise, cost=cost)
            console.echo_told(campaign, trial)


campaigns = typer.Typer(help="Look at campaigns: list, show, export, report.", no_args_is_help=True)


@campaigns.command("list")
def list_campaigns(storage: Store = STORAGE) -> None:
    """All campaigns of a storage."""
    with one_line_errors():
        from credo.app.campaign import console, desk
        from credo.decide.campaign import Storage

        desk.demand_storage(storage)
        with contextlib.closing(Storage.open(storage)) as kept:
            console.echo_list(kept)


@campaigns.command()
def show(storage: Store = STORAGE, name: Name = None) -> None:
    """What a campaign is about, its last trials, and the best so far."""
    with one_line_errors():
        from credo.app.campaign import console

        with contextlib.closing(_open(storage, name)) as campaign:
            console.echo_campaign(campaign)


@campaigns.command()
def export(
    out: Annotated[Path, typer.Argument(help="File to write: .csv or .parquet.", show_default=False)],
    storage: Store = STORAGE,
    name: Name = None,
    force: Force = False,
) -> None:
    """Write all trials as a table."""
    with one_line_errors():
        refuse_existing([out], force)
        with contextlib.closing(_open(storage, name)) as campaign:
            campaign.export(out)
            typer.echo(f"wrote {out}: {len(campaign.trials):,} trials")


@campaigns.command()
def report(
    storage: Store = STORAGE,
    name: Name = None,
    out: Annotated[Path | None, typer.Option(help="File to write.", show_default="NAME.html")] = None,
    force: Force = False,
) -> None:
    """Write a page in words and pictures: the best so far, what the model learned, and whether to go on."""
    with one_line_errors(), contextlib.closing(_open(storage, name)) as campaign:
        from credo.app.report.campaign import page
        from credo.decide.campaign.exchange import file_name

        target = out or Path(f"{file_name(campaign.name)}.html")
        refuse_existing([target], force)
        made = page(campaign, command=command_line())
        write_whole(target, made.write)
        typer.echo(f"wrote {target}")


def register(app: typer.Typer) -> None:
    """Give the program these commands."""
    app.command()(optimize)
    app.command()(ask)
    # A negative value is no option.
    app.command(context_settings={"ignore_unknown_options": True})(tell)
    app.command()(worker)
    app.add_typer(campaigns, name="campaign")


def _open(storage: str, name: str | None, space: Path | None = None, lease: str = "1h") -> "Campaign":
    from credo.app.campaign import desk

    length = typed.seconds(lease, "--lease") or 0.0
    return desk.opened(storage, name, length) if space is None else desk.begin(space, storage, name, length)


def _where(storage: str, name: str) -> str:
    return shlex.join((["--storage", storage] if storage != STORAGE else []) + ["--name", name])
