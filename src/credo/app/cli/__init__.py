"""The command line: `credo fit`, `predict`, `explore`, `map`, `network`, `plan`, and the commands of campaigns.

Only typer and the standard library are imported before a command runs, so that `credo --help` answers at once.
Every refusal is one line on stderr that begins with "credo:", and exit code 2.
"""

from typing import Annotated

import typer

from credo.app.cli import campaign, explore, fit, map, network, plan, predict
from credo.app.cli.terminal import interruptible

app = typer.Typer(
    name="credo",
    help="Learn from a table, say how sure the predictions are and why, and turn them into decisions.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> bool:
    if wanted:
        from credo import __version__

        typer.echo(f"credo {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


for commands in (fit, predict, explore, map, network, campaign, plan):
    commands.register(app)


def main() -> None:
    """The entry point of `credo`."""
    with interruptible():
        app(prog_name="credo")
