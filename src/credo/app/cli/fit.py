"""The command `credo fit`: options, one search for tables and series, one way to write and to print what it found."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from credo.app.cli import values
from credo.app.cli.terminal import (
    command_line,
    echo_table,
    one_line_errors,
    progress,
    refuse,
    refuse_existing,
    write_together,
)

if TYPE_CHECKING:
    from typer import Context

    from credo.app.fit.search import SearchResult
else:
    Context = typer.Context.__base__  # what typer really hands over

NUMBERS, CLASSES, COUNTS, SERIES = ("For numbers", "For classes", "For counts", "For series")

Seed = Annotated[int, typer.Option(min=0, help="Seed of the random split.")]
Decimal = Annotated[
    str, typer.Option(metavar=". or ,", help="The decimal mark of the table.", show_default="found from its cells")
]
Loss = Annotated[
    str | None,
    typer.Option(
        metavar="UNDER,OVER",
        help="Cost of acting on a number one too low, one too high.",
        show_default=False,
        rich_help_panel=NUMBERS,
    ),
]
Costs = Annotated[
    str | None,
    typer.Option(
        metavar="ROWS|FILE",
        help="What each action (row) costs for each true class (column), as in '0,1;20,0'.",
        show_default=False,
        rich_help_panel=CLASSES,
    ),
]


def fit(
    context: Context,
    data: Annotated[Path, typer.Argument(help="The table: CSV in any dialect, TSV or Parquet.", show_default=False)],
    target: Annotated[str, typer.Option(help="The column to predict.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="Folder for model.credo and report.html.", show_default="credo-NAME")
    ] = None,
    test: Annotated[float, typer.Option(help="Share of the rows to hold out for the test.")] = 0.2,
    seconds: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="For the search: 90, 15m, 2h; what takes longer is left out."),
    ] = "60",
    seed: Seed = 0,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; may be repeated.", show_default=False)
    ] = None,
    kind: Annotated[
        str,
        typer.Option(metavar="auto|number|classes|count", help="What the target is; auto finds out from its column."),
    ] = "auto",
    decimal: Decimal = "",
    force: Annotated[bool, typer.Option("--force", help="Replace existing results.")] = False,
    loss: Loss = None,
    costs: Costs = None,
    exposure: Annotated[
        str | None,
        typer.Option(
            help="The column that counts are in proportion to, such as time.",
            show_default=False,
            rich_help_panel=COUNTS,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Column with the time: the latest rows are held out; a table of time and target alone is forecast.",
            show_default=False,
            rich_help_panel=SERIES,
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Forecast the target so many steps of --time ahead.",
            show_default="one season",
            rich_help_panel=SERIES,
        ),
    ] = None,
    log: Annotated[
        bool | None,
        typer.Option(
            "--log/--no-log",
            help="Forecast with a level, trend and season that multiply.",
            show_default="by the evidence",
            rich_help_panel=SERIES,
        ),
    ] = None,
) -> None:
    """Learn to predict a column of a table: writes a model and a report in words and pictures."""
    with one_line_errors():
        prices, limit = values.loss(loss), values.seconds(seconds, "--seconds")
        folder = out or Path(f"credo-{data.name.split('.')[0]}")
        refuse_existing([folder / "model.credo", folder / "report.html"], force)
        if folder.exists() and not folder.is_dir():
            refuse(f"{folder} is a file; --out names a folder")
        from credo.app.fit.auto import search

        acting: dict[str, Any] = {name: value for name, value in (("loss", prices), ("costs", costs)) if value}
        with progress() as say:
            result = search(
                data,
                target,
                time=time,
                horizon=horizon,
                seconds=limit,
                test=test,
                seed=seed,
                kind=kind,
                ignore=ignore or (),
                exposure=exposure,
                log=log,
                decimal=decimal,
                families=context.obj,
                progress=say,
                **acting,
            )
            say(1.0, "writing the report")
            page = result.page(command=command_line(), **acting)
        from credo.core.files import save

        write_together(
            folder, {"model.credo": lambda path: save(result.model, path), "report.html": lambda path: page.write(path)}
        )
        _summary(result, folder)


def register(app: typer.Typer) -> None:
    """Give the program this command."""
    app.command()(fit)


def _summary(result: "SearchResult", folder: Path) -> None:
    """The result on the terminal: the comparison, what to know about it, and where the files are."""
    from credo.app.fit.scores import SHOWN, written

    by_name, shown = {each.name: each for each in result.fitted}, SHOWN[result.kind]
    judged = any(len(each.left_out) for each in result.fitted)
    names = ("left out", "log evidence") if judged else ("log evidence", "prob")
    lines: list[tuple[str, ...]] = [("model", *names, *(each.name for each in shown))]
    for row in result.comparison.rows:
        each = by_name[row.name]
        evidence = f"{row.log_evidence:.1f}"
        density = f"{each.left_out_density:.3f}" if len(each.left_out) else "–"
        first = (density, evidence) if judged else (evidence, f"{row.probability:.2f}")
        lines.append((row.name, *first, *(written(s, each.scores.get(s.key)) for s in shown)))
    for name, scores in result.others().items():
        lines.append((name, "", "", *(written(s, scores.get(s.key)) for s in shown)))
    typer.echo(f"{result.describe()}\n")
    echo_table(lines, bold=1)
    typer.echo(f"\n{result.verdict()}")
    for note in result.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"model   {folder / 'model.credo'}\nreport  {folder / 'report.html'}")
