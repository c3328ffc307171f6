"""The command line: `credo fit`, `credo predict`; the commands of campaigns are in `campaign_cli`.

Only typer and the standard library are imported before a command runs, so that `credo --help` answers at once.
Every refusal is one line on stderr that begins with "credo:", and exit code 2.
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from credo.app import campaign_cli, plan_cli
from credo.app.terminal import command_line, echo_table, one_line_errors, progress, refuse, refuse_existing, write_whole

if TYPE_CHECKING:
    import pandas as pd

    from credo.app.forecast import SeriesModel
    from credo.app.tables import Table
    from credo.app.workflow import Result, TableModel
    from credo.decide.losses import Loss

Prices = tuple[float, float] | None
"""What it costs to be one too low, one too high."""

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


@app.command()
def fit(
    data: Annotated[Path, typer.Argument(help="The table: CSV in any dialect, TSV or Parquet.", show_default=False)],
    target: Annotated[str, typer.Option(help="The column to predict.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="Folder for model.credo and report.html.", show_default="credo-NAME")
    ] = None,
    test: Annotated[float, typer.Option(help="Share of the rows to hold out for the test.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of the random split.")] = 0,
    time: Annotated[
        str | None,
        typer.Option(
            help="Column with the time: the latest rows are held out; a table of time and target alone is forecast.",
            show_default=False,
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(help="Forecast the target so many steps of --time ahead.", show_default="one season"),
    ] = None,
    log: Annotated[
        bool | None,
        typer.Option(
            "--log/--no-log",
            help="Forecast with a level, trend and season that multiply.",
            show_default="by the evidence",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; may be repeated.", show_default=False)
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="UNDER,OVER", help="Cost of acting on a number one too low, one too high.", show_default=False
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(metavar="auto|number|classes|count", help="What the target is; auto finds out from its column."),
    ] = "auto",
    costs: Annotated[
        str | None,
        typer.Option(
            metavar="ROWS|FILE",
            help="For classes: what each action (row) costs for each true class (column), as in '0,1;20,0'.",
            show_default=False,
        ),
    ] = None,
    exposure: Annotated[
        str | None,
        typer.Option(help="For counts: the column that they are in proportion to, such as time.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing results.")] = False,
) -> None:
    """Learn to predict a column of a table: writes a model and a report in words and pictures."""
    with one_line_errors():
        prices = _parse_loss(loss)
        folder = out or Path(f"credo-{data.name.split('.')[0]}")
        targets = [folder / "model.credo", folder / "report.html"]
        refuse_existing(targets, force)
        if folder.exists() and not folder.is_dir():
            refuse(f"{folder} is a file; --out names a folder")
        from credo.app.tables import read_table

        table = read_table(data)
        if time is not None or horizon is not None:
            other = kind not in ("auto", "number")
            refused: dict[str, Any] = {"--loss": loss, "--costs": costs, "--exposure": exposure, "--kind": other}
            options: dict[str, Any] = {"horizon": horizon, "ignore": ignore or (), "test": test, "seed": seed}
            options["log"] = log
            if _fit_series(table, target, time, folder, refused, options):
                return
        if log is not None:
            refuse("--log and --no-log are for the forecast of a series: name its time by --time, and --horizon")
        options = {"time": time, "ignore": ignore or (), "test": test, "seed": seed, "exposure": exposure}
        _fit_table(table, target, kind, folder, prices, costs, options)


def _fit_table(
    table: "Table", target: str, kind: str, folder: Path, prices: Prices, costs: str | None, options: dict[str, Any]
) -> None:
    """Learns to predict the target from the other columns, and writes model and report."""
    from credo.app.costs import check_options, read_costs
    from credo.app.outcomes import read_outcome
    from credo.app.report.rendering import render
    from credo.app.workflow import run

    outcome = read_outcome(table, target, kind)
    check_options(target, outcome.kind, prices, costs)
    if costs is not None:
        read_costs(costs, outcome.levels)
    with progress() as step:
        result = run(table, target, **options, kind=kind, progress=step)
        step(1, 1, "writing the report")
        page = render(result, command=command_line(), loss=prices, costs=costs)
    _write_results(folder, result.model, page)
    _summary(result, folder)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="The model.credo that `credo fit` wrote.", show_default=False)],
    data: Annotated[
        Path | None, typer.Argument(help="A table with the same columns.", show_default="needed unless --horizon")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write: .csv, .tsv or .parquet.", show_default="standard output")
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the interval from lower to upper.")] = 0.95,
    horizon: Annotated[
        int | None,
        typer.Option(help="For the model of a series: so many steps after the last outcome.", show_default=False),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="UNDER,OVER",
            help="Costs of acting one too low, one too high: adds the column action.",
            show_default=False,
        ),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option(
            metavar="ROWS|FILE",
            help="For classes, what each action (row) costs for each true class (column): adds the column action.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Add predictions to a table: mean, std, lower, upper, aleatoric, epistemic.

    The last two are variances, of noise and of ignorance, and add up to std². For classes: class, p(…) of each, and the
    entropy, which aleatoric and epistemic add up to.
    """
    with one_line_errors():
        prices = _parse_loss(loss)
        if not 0 < level < 1:
            refuse(f"--level must lie between 0 and 1, found {level:g}; write 95 % as 0.95")
        if out is not None:
            refuse_existing([out], force)
            if out.is_dir():
                refuse(f"{out} is a folder; --out names a file")
        if not model.is_file():
            refuse(f"there is no file {model}")
        from credo.app.answers import answer
        from credo.app.report.words import prediction_remarks
        from credo.app.tables import read_table
        from credo.app.workflow import TableModel
        from credo.core.files import load

        known = load(model)
        if type(known).__name__ == "SeriesModel":
            _predict_series(known, data, out, level, horizon, _loss(prices))
            return
        if not isinstance(known, TableModel):
            refuse(f"{model} holds a {type(known).__name__}, not a model that `credo fit` wrote")
        if data is None or horizon is not None:
            refuse(f"{model} predicts the rows of a table: give one with the same columns, and no --horizon")
        table = read_table(str(data))
        found = answer(known, table, level, _loss(prices), costs)
        _write_table(found.frame, found.added, out, table.separator, table.decimal)
        for remark in prediction_remarks(found, len(found.frame)):
            typer.echo(f"note: {remark}", err=True)
        if out is not None:
            typer.echo(f"wrote {out}: {len(found.frame):,} rows with {', '.join(found.added)}", err=True)


def _predict_series(
    model: "SeriesModel", data: Path | None, out: Path | None, level: float, horizon: int | None, loss: "Loss | None"
) -> None:
    """The forecast of a series, for the times of a table or for so many steps."""
    from credo.app.forecast_cli import answer_series
    from credo.app.tables import read_table

    table = None if data is None else read_table(data)
    found, remark = answer_series(model, table, horizon, level, loss)
    separator, decimal = (",", ".") if table is None else (table.separator, table.decimal)
    _write_table(found.frame, found.added, out, separator, decimal)
    if remark:
        typer.echo(f"note: {remark}", err=True)
    if out is not None:
        typer.echo(f"wrote {out}: {len(found.frame):,} rows with {', '.join(found.added)}", err=True)


def _loss(costs: Prices) -> "Loss | None":
    if costs is None:
        return None
    from credo.app.report.rendering import asymmetric

    return asymmetric(costs)


def _parse_loss(text: str | None) -> Prices:
    if text is None:
        return None
    parts = text.replace(";", ",").split(",")
    try:
        under, over = (float(part) for part in parts)
    except ValueError:
        refuse(f"--loss takes two numbers such as 5,1 (one too low costs 5, one too high costs 1), found {text!r}")
    if not (0 < under < float("inf") and 0 < over < float("inf")):
        refuse(f"--loss takes two positive costs, found {text!r}")
    return under, over


def _fit_series(
    table: "Table", target: str, time: str | None, folder: Path, refused: dict[str, Any], options: dict[str, Any]
) -> bool:
    """Forecasts the table where it is a series; False where it is not."""
    from credo.app.forecast_cli import echo_forecast, is_series

    if not is_series(table, target, time, options["horizon"], options["ignore"], refused) or time is None:
        return False
    from credo.app.forecast import run_forecast
    from credo.app.report.forecast_page import render_forecast

    with progress() as step:
        result = run_forecast(table, target, time, **options, progress=step)
        step(1, 1, "writing the report")
        page = render_forecast(result, command=command_line())
    _write_results(folder, result.model, page)
    echo_forecast(result, folder)
    return True


def _write_results(folder: Path, model: "TableModel | SeriesModel", page: str) -> None:
    """Both files are complete before either is put in its place."""
    from credo.core.files import save

    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".credo-", dir=folder) as workshop:
            new = [save(model, Path(workshop) / "model.credo"), Path(workshop) / "report.html"]
            new[1].write_text(page, encoding="utf-8")
            for path in new:
                os.replace(path, folder / path.name)
    except BaseException:
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _write_table(frame: "pd.DataFrame", added: tuple[str, ...], out: Path | None, separator: str, decimal: str) -> None:
    """Cells that were read as text go out as they came in; numbers of ours in the dialect of the file."""
    if out is not None and out.suffix.lower() in (".parquet", ".pq"):
        write_whole(out, lambda path: frame.to_parquet(path, index=False))
        return
    if out is not None and out.suffix.lower() == ".tsv":
        separator = "\t"
    options = {"sep": separator, "decimal": decimal, "index": False, "float_format": "%.10g"}
    if out is None:
        frame.to_csv(sys.stdout, lineterminator="\n", **options)
    else:
        write_whole(out, lambda path: frame.to_csv(path, **options))


def _summary(result: "Result", folder: Path) -> None:
    """The result on the terminal: the comparison, and where the files are."""
    from credo.app.scoring import SHOWN, written

    by_name = {each.name: each for each in result.fitted}
    shown = SHOWN[result.kind]
    lines: list[tuple[str, ...]] = [("model", "log evidence", "prob", *(each.name for each in shown))]
    for row in result.comparison.rows:
        scores = by_name[row.name].scores
        evidence, probability = f"{row.log_evidence:.1f}", f"{row.probability:.2f}"
        lines.append((row.name, evidence, probability, *(written(each, scores.get(each.key)) for each in shown)))
    typer.echo(
        f"{result.model.target}{_what(result)} from {result.table}: {len(result.train):,} rows to learn from, "
        f"{len(result.test):,} held out\n"
    )
    echo_table(lines, bold=1)
    typer.echo(f"\nchosen by evidence: {result.model.name}")
    typer.echo(f"model   {folder / 'model.credo'}\nreport  {folder / 'report.html'}")


def _what(result: "Result") -> str:
    """What the target was taken for, where it is not a number."""
    return {"number": "", "count": " (a count)", "classes": f" ({len(result.prepared.levels)} classes)"}[result.kind]


for commands in (campaign_cli, plan_cli):
    commands.register(app)


def main() -> None:
    """The entry point of `credo`."""
    app(prog_name="credo")


if __name__ == "__main__":
    main()
