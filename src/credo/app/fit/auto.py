"""`credo.auto`: what `credo fit` does, from Python."""

from collections.abc import Iterable
from typing import Any

from credo.app.fit.families import Family
from credo.app.fit.search import SearchResult
from credo.app.fit.tables import fit_table
from credo.app.forecast.run import fit_series, is_series
from credo.app.table.read import as_table
from credo.core.errors import DataError
from credo.infer.progress import Show


def auto(
    frame: Any,
    target: str,
    *,
    time: str | None = None,
    horizon: int | None = None,
    seconds: float | int | None = 60,
    test: float | int = 0.2,
    seed: int = 0,
    kind: str = "auto",
    ignore: Iterable[str] = (),
    exposure: str | None = None,
    log: bool | None = None,
    decimal: str = "",
    families: Iterable[Family] | None = None,
    progress: Show | bool | None = None,
) -> SearchResult:
    """The model that predicts a column of a table best, of all that suit it, and how it was found.

        result = credo.auto(frame, target="rent")
        result.table                        # every model that was tried
        result.model.predict(new_frame)     # a Predictive
        result.report("report.html")        # what `credo fit` writes; result.report() shows it in a notebook

    With a column of times and a number of steps the target is forecast:

        credo.auto(frame, target="sales", time="month", horizon=12).model.predict(12)

    Args:
        frame: a pandas or polars frame, or the path of a CSV, TSV or Parquet file.
        target: the column to predict: numbers, counts, or the names of classes.
        time: a column with dates or numbers: the latest rows are held out; time and target alone are forecast.
        horizon: how many steps of `time` to forecast.
        seconds: the time for the search; what is expected to take longer is left out, and said. None is no limit.
        test: the share of the rows that is held out for the test, which has no say in the choice.
        seed: of the random split.
        kind: what the target is, "number", "classes" or "count"; "auto" finds out from its cells.
        ignore: columns to leave out.
        exposure: for counts, the column that they are in proportion to.
        log: for series, whether level, trend and season multiply; None lets the evidence decide.
        decimal: the decimal mark of numbers in text, where the cells do not tell.
        families: what to try instead of the usual families of models.
        progress: whether to show a bar, or a function to call; None shows one on a terminal.
    """
    return search(
        frame,
        target,
        time=time,
        horizon=horizon,
        seconds=seconds,
        test=test,
        seed=seed,
        kind=kind,
        ignore=ignore,
        exposure=exposure,
        log=log,
        decimal=decimal,
        families=families,
        progress=progress,
    )


def search(
    data: Any,
    target: str,
    *,
    time: str | None,
    horizon: int | None,
    kind: str,
    ignore: Iterable[str],
    exposure: str | None,
    log: bool | None,
    decimal: str,
    loss: object = None,
    costs: str | None = None,
    **options: Any,
) -> SearchResult:
    """`auto`; what is asked for actions later, `loss` or `costs`, is checked before anything is learned."""
    table = as_table(data, decimal)
    if isinstance(ignore, str):
        raise DataError(f"`ignore` lists names of columns, found the text {ignore!r}; write [{ignore!r}]")
    left_out = list(ignore)
    given = {"loss": loss, "costs": costs, "exposure": exposure, "kind": kind not in ("auto", "number")}
    refused = [name for name, value in given.items() if value]
    if time is not None or horizon is not None:
        if horizon is not None and time is not None and refused:
            raise DataError(f"`{refused[0]}` does not go with `horizon`: a forecast is of a number")
        if not refused and is_series(table, target, time, horizon, left_out):
            assert time is not None
            return fit_series(table, target, time, horizon=horizon, ignore=left_out, log=log, **options)
        if horizon is not None:
            raise DataError("`horizon` forecasts a series: name the column with its time by `time`")
    if log is not None:
        raise DataError("`log` is for the forecast of a series: name its time by `time`, and `horizon`")
    asked: dict[str, Any] = {"loss": loss, "costs": costs, "exposure": exposure}
    return fit_table(table, target, time=time, ignore=left_out, kind=kind, **asked, **options)
