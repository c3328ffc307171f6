"""The command `credo network`: what a Bayesian network says of some variables, given what was observed of others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from credo.app.cli.terminal import command_line, echo_table, one_line_errors, refuse, refuse_existing, write_whole

PICTURES = (".png", ".svg", ".pdf")


def network(
    file: Annotated[
        Path | None, typer.Argument(help="The network: .bif, .xmlbif, .xml or .credo.", show_default=False)
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=STATE", help="What was observed; may be repeated.", show_default=False),
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Variable to ask about; may be repeated.", show_default="all of them"),
    ] = None,
    learn: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Learn a network from this table instead.", show_default=False),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="With --learn, a column to leave out; may be repeated.", show_default=False
        ),
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="With --learn: bdeu or bic.", show_default="bdeu, bic where there are numbers")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Picture to write; with --learn, a folder.", show_default="NAME.network.png or credo-NAME"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Ask a Bayesian network: prints probabilities before and after what was observed, and writes a picture.

    With --learn, learn one from a table: writes network.bif, network.credo and report.html.
    """
    with one_line_errors():
        if learn is not None:
            if file is not None or given or ask:
                refuse("--learn takes a table and nothing else to ask; ask the network that it writes")
            _learn(learn, tuple(ignore or ()), score, out, force)
            return
        if file is None or ignore or score:
            refuse("name a network to ask, or a table to learn one from: credo network --learn table.csv")
        picture = out or file.with_suffix(".network.png")
        if picture.suffix.lower() not in PICTURES:
            refuse(f"a picture ends in {', '.join(PICTURES)}, found {picture.name}")
        refuse_existing([picture], force)
        net = read_network(file)
        observed = dict(_observed(each, net.states) for each in given or [])
        names = [net.check_name(name) for name in ask or []]
        after = net.condition(observed) if observed else net
        _print(net, after, observed, names)
        figure: Any = after.plot().figure
        write_whole(picture, lambda path: figure.savefig(path, dpi=150, format=picture.suffix.lower()[1:]))
        typer.echo(f"picture    {picture}")


def _learn(data: Path, ignore: tuple[str, ...], score: str | None, out: Path | None, force: bool) -> None:
    """Writes the network and its report into a folder, and says on the terminal what was found."""
    folder = out or Path(f"credo-{data.name.split('.')[0]}")
    if folder.exists() and not folder.is_dir():
        refuse(f"{folder} is a file; with --learn, --out names a folder")
    refuse_existing([folder / name for name in ("network.bif", "network.credo", "report.html")], force)
    from credo.app.report.networks import learn_network, network_page
    from credo.app.table.read import read_table
    from credo.core.files import save

    learned = learn_network(read_table(data), ignore, score)
    net, edges = learned.network, learned.probabilities
    page = network_page(learned, f"Network of {data.name}", command_line())
    folder.mkdir(parents=True, exist_ok=True)
    written = ["network.credo", "report.html"]
    if len(net.states) == len(net.names):
        write_whole(folder / "network.bif", net.write)
        written.insert(0, "network.bif")
    else:
        typer.echo("note: numbers are not part of the BIF format, network.credo has them", err=True)
    write_whole(folder / "network.credo", lambda path: save(net, path))
    write_whole(folder / "report.html", page.write)
    typer.echo(f"{len(net.names):,} variables, {len(net.edges):,} arrows, {learned.rows:,} rows\n")
    found = sorted(((min(edges[e] + edges[e[::-1]], 1.0), edges[e], e) for e in net.edges), reverse=True)
    rows = [[f"{a} → {b}", f"{both:.2f}", f"{this:.2f}"] for both, this, (a, b) in found]
    echo_table([["arrow", "connected", "this way"], *rows])
    for note in learned.notes:
        typer.echo(f"note: {note}", err=True)
    for name in written:
        typer.echo(f"{name:<14} {folder / name}")


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


def _observed(text: str, states: Mapping[str, object]) -> tuple[str, str | float]:
    """A variable and what it is: a state, or a number where it has no states."""
    name, mark, state = text.partition("=")
    if not (name and mark and state):
        refuse(f"--given must be NAME=STATE, found {text!r}")
    try:
        return name, state if name in states else float(state)
    except ValueError:
        return name, state  # which the network refuses


def _print(net: Any, after: Any, observed: Mapping[str, object], names: list[str]) -> None:
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
