"""The command `credo network`: what a Bayesian network says of some variables, given what was observed of others."""

from pathlib import Path
from typing import Annotated, Any

import typer

from credo.app.cli.terminal import echo_table, one_line_errors, refuse, refuse_existing, write_whole

PICTURES = (".png", ".svg", ".pdf")


def network(
    file: Annotated[Path, typer.Argument(help="The network: .bif, .xmlbif, .xml or .credo.", show_default=False)],
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=STATE", help="What was observed; may be repeated.", show_default=False),
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Variable to ask about; may be repeated.", show_default="all of them"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Picture to write.", show_default="NAME.network.png")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Ask a Bayesian network: prints probabilities before and after what was observed, and writes a picture."""
    with one_line_errors():
        picture = out or file.with_suffix(".network.png")
        if picture.suffix.lower() not in PICTURES:
            refuse(f"a picture ends in {', '.join(PICTURES)}, found {picture.name}")
        refuse_existing([picture], force)
        observed = dict(_observed(each) for each in given or [])
        net = read_network(file)
        names = [net.check_name(name) for name in ask or []]
        after = net.condition(observed) if observed else net
        _print(net, after, observed, names)
        figure: Any = after.plot().figure
        write_whole(picture, lambda path: figure.savefig(path, dpi=150, format=picture.suffix.lower()[1:]))
        typer.echo(f"picture    {picture}")


def register(app: typer.Typer) -> None:
    """Give the program this command."""
    app.command()(network)


def read_network(path: Path) -> Any:
    """The network of a file: a saved one where its name ends in .credo, else BIF or XMLBIF."""
    from credo.models.network import Network

    if path.suffix.lower() != ".credo":
        return Network.read(path)
    from credo.core.files import load

    net = load(path)
    if not isinstance(net, Network):
        refuse(f"{path} holds a {type(net).__name__}, not a network")
    return net


def _observed(text: str) -> tuple[str, str]:
    name, mark, state = text.partition("=")
    if not (name and mark and state):
        refuse(f"--given must be NAME=STATE, found {text!r}")
    return name, state


def _print(net: Any, after: Any, observed: dict[str, str], names: list[str]) -> None:
    """A row for each state of what was asked, before and after what was observed."""
    typer.echo(f"{len(net.names):,} variables, {len(net.edges):,} arrows")
    if observed:
        typer.echo(f"probability of what was observed: {float(after.probability_of_evidence):.6g}")
    before, now = net.marginals(names or None), after.marginals(names or None)
    heads = ["variable", "state", "probability", *(["before"] if observed else [])]
    rows = [heads]
    for name, law in now.items():
        if name in observed and name not in names:
            continue
        for i, (state, p) in enumerate(law.items()):
            rows.append(
                [name if i == 0 else "", state, f"{p:.4f}", *([f"{before[name][state]:.4f}"] if observed else [])]
            )
    echo_table(rows, left=(0, 1))
