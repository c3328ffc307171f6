"""Campaigns to and from tables: export, and results of earlier campaigns or files as a start."""

import contextlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from credo.core.errors import DataError, RepairedWarning
from credo.core.files import replacing
from credo.decide.campaign.trial import DONE, Outcome, Trial, digest
from credo.decide.space.as_json import JSON

if TYPE_CHECKING:
    from credo.decide.campaign.campaign import Campaign

Table = dict[str, list[object]]
"""Columns by name."""
Results = list[tuple[dict[str, object], Outcome]]


def to_table(campaign: "Campaign") -> Table:
    """Columns of all trials; where a parameter has the name of a column of the record, that one is `trial_…`."""
    trials, problem = campaign.trials, campaign.problem
    written: Mapping[str, Callable[..., object]] = {"why": _reason, "created": _time, "finished": _time}
    points: Table = {name: [trial.point.get(name) for trial in trials] for name in problem.space.names}
    outcomes: Table = {name: [(trial.values or {}).get(name) for trial in trials] for name in problem.outcomes}
    taken = {*points, *outcomes}

    def columns(*names: str) -> Table:
        own = {name: [getattr(trial, name) for trial in trials] for name in names}
        own |= {name: [write(value) for value in own[name]] for name, write in written.items() if name in own}
        return {f"trial_{name}" if name in taken else name: column for name, column in own.items()}

    later = columns("noise", "cost", "reason", "why", "source", "worker", "created", "finished")
    return columns("number", "state") | points | outcomes | later


def file_name(name: str) -> str:
    """The name of a campaign as that of a file in the folder where one is, whatever it holds."""
    return re.sub(r"[^\w. -]", "_", name).strip(". ") or "campaign"


def export(campaign: "Campaign", path: str | Path) -> Path:
    """Write the table as CSV or Parquet, whole or not at all."""
    if not isinstance(path, str | Path):
        raise DataError(f"export takes the path of a file, found {path!r}")
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".csv", ".parquet", ".pq"):
        raise DataError(f"export writes .csv or .parquet, found {target.name!r}")
    with replacing(target) as path:
        _write(campaign, kind, str(path))
    return target


def warm_start(campaign: "Campaign", sources: Iterable[object]) -> None:
    """Record the results of earlier campaigns and tables, once: those that are there already are left out."""
    if not isinstance(sources, Iterable) or isinstance(sources, str | bytes | Mapping):
        raise DataError(f"warm_start takes a list of campaigns and tables, found {type(sources).__name__}")
    there = Counter((trial.source, digest(trial.point)) for trial in campaign.trials)
    for source in sources:
        name, rows = _rows(campaign, source)
        is_new = name not in {known for known, _ in there}
        results, refused = [], 0
        for point, outcome in rows:
            try:
                checked = campaign.problem.space.check(point)
            except DataError:
                refused += 1
                continue
            key = name, digest(checked)
            there[key] -= 1
            if there[key] < 0:
                results.append((checked, outcome))
        if refused and (results or is_new):
            warnings.warn(
                f"{refused} of {len(rows)} results of {name} lie outside of the space and are left out",
                RepairedWarning,
                stacklevel=3,
            )
        if results:
            campaign.storage.add(campaign._id, results, name)


def _rows(campaign: "Campaign", source: object) -> tuple[str, Results]:
    """The name of a source, and its points with their outcomes."""
    from credo.decide.campaign.campaign import Campaign

    if isinstance(source, Campaign):
        told = [trial for trial in source.trials if trial.told]
        found: Results = [(dict(trial.point), _borrowed(campaign, trial, source.name)) for trial in told]
        return f"campaign {source.name}, begun {_time(source.created, 'microseconds')}", found
    records = list(_records(source))
    names = campaign.problem.outcomes
    found = []
    for i, record in enumerate(records):
        missing = [name for name in names if name not in record]
        if missing:
            raise DataError(f"row {i} of the table has no column {missing[0]}; it needs {', '.join(names)}")
        point = {name: record[name] for name in campaign.problem.space.names if not _is_missing(record.get(name))}
        values = {name: None if _is_missing(record[name]) else record[name] for name in names}
        if any(value is not None for value in values.values()):
            given = values if len(names) > 1 else values[names[0]]
            found.append((point, campaign.problem.check_outcome(given, who=f"row {i} of the table")))
    mark = digest({str(i): json.dumps(record, sort_keys=True, default=str) for i, record in enumerate(records)})
    return f"table {mark[:12]}", found


def _borrowed(campaign: "Campaign", trial: Trial, source: str) -> Outcome:
    if trial.state != DONE:
        return Outcome(None, trial.reason, cost=trial.cost)
    names, values = campaign.problem.outcomes, dict(trial.values or {})
    if len(names) == len(values) == 1:  # one objective each: it may be called differently
        values = {names[0]: next(iter(values.values()))}
    missing = [name for name in names if name not in values]
    if missing:
        raise DataError(f"the campaign {source!r} has no outcome {missing[0]}; it has {', '.join(values)}")
    return Outcome({name: values[name] for name in names}, None, trial.noise, trial.cost)


def _records(table: object) -> Iterator[dict[str, object]]:
    """The rows of a data frame (pandas, polars, pyarrow), of a dict of columns or of a list of dicts."""
    for method, options in (("to_dicts", {}), ("to_pylist", {}), ("to_dict", {"orient": "records"})):
        if hasattr(table, method):
            return iter(getattr(table, method)(**options))
    if isinstance(table, Mapping):
        columns = {str(name): list(column) for name, column in table.items()}
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    if isinstance(table, list | tuple) and all(isinstance(row, Mapping) for row in table):
        return (dict(row) for row in table)
    raise DataError(f"warm_start takes campaigns, data frames and lists of dicts, found {type(table).__name__}")


def _is_missing(value: object) -> bool:
    with contextlib.suppress(TypeError, ValueError):
        return value is None or bool(value != value)
    return False


def _reason(why: JSON | None) -> str | None:
    return (why or {}).get("reason")


def _time(seconds: float | None, digits: str = "milliseconds") -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec=digits)


def _shown(value: object) -> object:
    """Text that a spreadsheet would take for a formula, quoted."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _write(campaign: "Campaign", kind: str, name: str) -> None:
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise DataError("export needs pandas: pip install 'credo[campaign]'") from None
    columns = to_table(campaign)
    if kind == ".csv":
        cells = {_shown(column): list(map(_shown, values)) for column, values in columns.items()}
        pd.DataFrame(cells, dtype=object).to_csv(name, index=False)
        return
    typed = {column: _of_one_type(values) for column, values in columns.items()}
    try:
        pd.DataFrame(typed, dtype=object).to_parquet(name, index=False)
    except ImportError:
        raise DataError("Parquet needs pyarrow: pip install 'credo[cli]', or export to .csv") from None


def _of_one_type(column: list[object]) -> list[object]:
    """A column as it is if its values are of one kind, otherwise as text: choices may mix them."""
    kinds = {
        float if isinstance(v, float | int) and not isinstance(v, bool) else type(v) for v in column if v is not None
    }
    return column if len(kinds) <= 1 else [None if value is None else str(value) for value in column]
