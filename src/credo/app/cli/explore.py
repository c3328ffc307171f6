"""The command `credo explore`: what is in a table of which nothing is to be predicted."""

from pathlib import Path
from typing import Annotated

import typer

from credo.app.cli.fit import Decimal
from credo.app.cli.predict import write_table
from credo.app.cli.terminal import command_line, one_line_errors, progress, refuse, refuse_existing, write_whole


def explore(
    data: Annotated[Path, typer.Argument(help="The table: CSV in any dialect, TSV or Parquet.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="Folder for rows.csv and report.html.", show_default="credo-NAME")
    ] = None,
    most: Annotated[int, typer.Option(min=1, max=30, help="Clusters to try.")] = 8,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; may be repeated.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the starting points.")] = 0,
    decimal: Decimal = "",
    force: Annotated[bool, typer.Option("--force", help="Replace existing results.")] = False,
) -> None:
    """Find clusters, factors, missing cells and odd rows of a table: a report, and the table with columns added.

    The columns are cluster, cluster_probability, anomaly (the probability of a row as odd) and odd.
    """
    with one_line_errors():
        folder = out or Path(f"credo-{data.name.split('.')[0]}")
        if folder.exists() and not folder.is_dir():
            refuse(f"{folder} is a file; --out names a folder")
        rows, report = folder / "rows.csv", folder / "report.html"
        refuse_existing([rows, report], force)
        from credo.app.explore import explore as run

        with progress() as say:
            found = run(data, ignore=ignore or (), most=most, seed=seed, decimal=decimal, progress=say)
            say(1.0, "writing the report")
            page = found.page(command=command_line())
        folder.mkdir(parents=True, exist_ok=True)
        write_table(found.frame, found.added, rows, found.table.separator, found.table.mark or ".")
        write_whole(report, page.write)
        for sentence in found.describe():
            typer.echo(sentence)
        for note in found.features.notes:
            typer.echo(f"note: {note}", err=True)
        typer.echo(f"rows    {rows}\nreport  {report}")


def register(app: typer.Typer) -> None:
    """Give the program this command."""
    app.command()(explore)
