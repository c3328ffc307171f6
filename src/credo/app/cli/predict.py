"""The command `credo predict`: a table with the predictions of a saved model beside it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from credo.app.cli import values
from credo.app.cli.fit import SERIES, Costs, Decimal, Loss
from credo.app.cli.terminal import one_line_errors, refuse, refuse_existing, write_whole

if TYPE_CHECKING:
    import pandas as pd


def predict(
    model: Annotated[Path, typer.Argument(help="The model.credo that `credo fit` wrote.", show_default=False)],
    data: Annotated[
        Path | None, typer.Argument(help="A table with the same columns.", show_default="needed unless --horizon")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write: .csv, .tsv or .parquet.", show_default="standard output")
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the interval from lower to upper.")] = 0.95,
    decimal: Decimal = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    loss: Loss = None,
    costs: Costs = None,
    horizon: Annotated[
        int | None,
        typer.Option(help="So many steps after the last outcome.", show_default=False, rich_help_panel=SERIES),
    ] = None,
) -> None:
    """Add predictions to a table: mean, std, lower, upper, aleatoric, epistemic.

    The last two are variances, of noise and of ignorance, and add up to std². For classes: class, p(…) of each, and the
    entropy, which aleatoric and epistemic add up to. Costs, of numbers or of classes, add the column action.
    """
    with one_line_errors():
        prices = values.loss(loss)
        if not 0 < level < 1:
            refuse(f"--level must lie between 0 and 1, found {level:g}; write 95 % as 0.95")
        if out is not None:
            refuse_existing([out], force)
            if out.is_dir():
                refuse(f"{out} is a folder; --out names a file")
        if not model.is_file():
            refuse(f"there is no file {model}")
        from credo.app.fit.model import TableModel
        from credo.app.forecast.model import SeriesModel
        from credo.app.report.words import prediction_remarks
        from credo.app.table.read import read_table
        from credo.core.files import load
        from credo.core.text import counted

        known = load(model)
        table = None if data is None else read_table(data, decimal)
        chosen = None if prices is None else values.asymmetric(prices)
        if isinstance(known, SeriesModel):
            if costs is not None:
                refuse("--costs is for classes; a forecast takes --loss")
            found = known.answer(table, level, chosen, horizon)
        elif not isinstance(known, TableModel):
            refuse(f"{model} holds a {type(known).__name__}, not a model that `credo fit` wrote")
        elif table is None or horizon is not None:
            refuse(f"{model} predicts the rows of a table: give one with the same columns, and no --horizon")
        else:
            found = known.answer(table, level, chosen, costs)
        separator, mark = (",", ".") if table is None else (table.separator, table.mark or ".")
        write_table(found.frame, found.added, out, separator, mark)
        if found.newer:
            taken = f"{counted(found.newer, 'newer outcome')} {'was' if found.newer == 1 else 'were'} taken in"
            typer.echo(f"note: {taken} before forecasting", err=True)
        for remark in prediction_remarks(found, len(found.frame)):
            typer.echo(f"note: {remark}", err=True)
        if out is not None:
            typer.echo(f"wrote {out}: {len(found.frame):,} rows with {', '.join(found.added)}", err=True)


def register(app: typer.Typer) -> None:
    """Give the program this command."""
    app.command()(predict)


def _shown(value: object) -> object:
    """Text of ours that a spreadsheet would take for a formula, quoted."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def write_table(frame: "pd.DataFrame", added: tuple[str, ...], out: Path | None, separator: str, decimal: str) -> None:
    """Cells that were read as text go out as they came in; what is ours in the dialect of the file."""
    if out is not None and out.suffix.lower() in (".parquet", ".pq"):
        write_whole(out, lambda path: frame.to_parquet(path, index=False))
        return
    if out is not None and out.suffix.lower() == ".tsv":
        separator = "\t"
    text = [name for name in added if frame[name].dtype.kind not in "fiub"]
    frame = frame.assign(**{name: frame[name].map(_shown) for name in text})
    options = {"sep": separator, "decimal": decimal, "index": False, "float_format": "%.10g"}
    if out is None:
        frame.to_csv(sys.stdout, lineterminator="\n", **options)
    else:
        write_whole(out, lambda path: frame.to_csv(path, **options))
