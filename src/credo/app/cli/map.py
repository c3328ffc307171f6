"""The command `credo map`: from a table of measurements at places to a map, its report and its files."""

import importlib.util
import re
from pathlib import Path
from typing import Annotated

import typer

from credo.app.cli.fit import Decimal, Seed
from credo.app.cli.terminal import (
    command_line,
    echo_table,
    one_line_errors,
    progress,
    refuse,
    refuse_existing,
    write_together,
)

FIELD, GRID = "The field", "The map"


def map_command(
    data: Annotated[Path, typer.Argument(help="The table: CSV in any dialect, TSV or Parquet.", show_default=False)],
    x: Annotated[str, typer.Option("--x", help="The column with x, or the longitude.", show_default=False)],
    y: Annotated[str, typer.Option("--y", help="The column with y, or the latitude.", show_default=False)],
    value: Annotated[str, typer.Option(help="The column that was measured.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report and the files.", show_default="credo-map-NAME")
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(help="The column with standard errors.", show_default=False, rich_help_panel=FIELD),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="The column with the instrument or campaign: each has an effect of its own.",
            show_default=False,
            rich_help_panel=FIELD,
        ),
    ] = None,
    trend: Annotated[
        str | None,
        typer.Option(
            metavar="constant|linear|quadratic",
            help="What the field varies around.",
            show_default="by the number of measurements",
            rich_help_panel=FIELD,
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="The map goes through the measurements: they have no noise.", rich_help_panel=FIELD
        ),
    ] = False,
    anisotropic: Annotated[
        bool, typer.Option("--anisotropic", help="Distances count by their direction.", rich_help_panel=FIELD)
    ] = False,
    lonlat: Annotated[
        bool | None,
        typer.Option(
            "--lonlat/--plane",
            help="Whether x and y are degrees of longitude and latitude.",
            show_default="by their names",
            rich_help_panel=FIELD,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Map the probability of more than this.", show_default=False, rich_help_panel=GRID),
    ] = None,
    slope: Annotated[bool, typer.Option("--slope", help="Map slope and aspect, too.", rich_help_panel=GRID)] = False,
    cells: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNSxROWS", help="Such as 200x150.", show_default="about 10,000", rich_help_panel=GRID
        ),
    ] = None,
    decimal: Decimal = "",
    seed: Seed = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace existing results.")] = False,
) -> None:
    """Map a quantity measured at scattered places: what it is between them, and how sure that is."""
    with one_line_errors():
        shape = _cells(cells)
        folder = out or Path(f"credo-map-{data.name.split('.')[0]}")
        names = ["report.html", "field.credo", "map.csv", "map.npz"]
        names += ["map.tif"] if importlib.util.find_spec("rasterio") is not None else []
        refuse_existing([folder / name for name in names], force)
        if folder.exists() and not folder.is_dir():
            refuse(f"{folder} is a file; --out names a folder")
        from credo.app.map.run import map_points
        from credo.core.files import save

        with progress() as say:
            result = map_points(
                data,
                x,
                y,
                value,
                error=error,
                group=group,
                trend=trend,
                exact=exact,
                anisotropic=anisotropic,
                lonlat=lonlat,
                threshold=threshold,
                cells=shape,
                slope=slope,
                decimal=decimal,
                seed=seed,
                progress=say,
            )
            say(1.0, "writing the report")
            report = result.page(command=command_line())
        writers = {"report.html": report.write, "field.credo": lambda path: save(result.field, path)}
        writers |= {name: result.map.write for name in names if name.startswith("map.")}
        write_together(folder, writers)
        typer.echo(f"{result.describe()}\n")
        lines = [("left out", "RMSE", "CRPS", "95 % held")]
        for name, scores in result.scores.items():
            lines.append((name, f"{scores['rmse']:.4g}", f"{scores['crps']:.4g}", f"{scores['coverage']:.0%}"))
        echo_table(lines)
        typer.echo(f"\none more measurement would help most at {result.named(result.next[0].place)}")
        for note in result.notes:
            typer.echo(f"note: {note}", err=True)
        typer.echo(f"report  {folder / 'report.html'}\nfiles   {', '.join(names[1:])} in {folder}")


def register(app: typer.Typer) -> None:
    """Give the program this command."""
    app.command("map")(map_command)


def _cells(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+)\s*[x×,]\s*(\d+)\s*", text)
    if match is None:
        refuse(f"--cells takes columns and rows such as 200x150, found {text!r}")
    return int(match.group(1)), int(match.group(2))
