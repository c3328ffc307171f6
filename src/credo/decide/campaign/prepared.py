"""Statements that go straight to the driver, for what every ask and tell does.

SQLAlchemy writes a statement once for the database; from then on only its values are converted. To run one through
SQLAlchemy takes several times what SQLite needs for it, and all other writers wait meanwhile.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa

Values = Mapping[str, Any]
Convert = Callable[[Any], Any]


class Prepared(NamedTuple):
    """A statement in the words of a driver, and the conversions of JSON and the like in both directions."""

    text: str
    places: tuple[str, ...] | None
    """The names of the values in the order of their places; None for a driver that takes them by name."""
    constants: Values
    into: Mapping[str, Convert]
    back: tuple[tuple[int, Convert], ...]


@lru_cache(maxsize=256)
def _prepared(statement: Any, dialect: Any, names: tuple[str, ...]) -> Prepared:
    compiled = statement.compile(dialect=dialect, column_keys=names)
    kinds = {name: bind.type.dialect_impl(dialect) for bind, name in compiled.bind_names.items()}
    into = {name: kind.bind_processor(dialect) for name, kind in kinds.items()}
    back = [_back(column.type, dialect) for column in statement.exported_columns]
    return Prepared(
        str(compiled),
        tuple(compiled.positiontup) if compiled.positional else None,
        {name: value for name, value in compiled.params.items() if name not in names},
        {name: convert for name, convert in into.items() if convert is not None},
        tuple((i, convert) for i, convert in enumerate(back) if convert is not None),
    )


def _back(kind: Any, dialect: Any) -> Convert | None:
    if isinstance(kind, sa.Double):  # SQLite's RETURNING gives 2 for 2.0
        return _float
    return kind.dialect_impl(dialect).result_processor(dialect, None)


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def run(connection: sa.Connection, statement: Any, values: Values) -> list[Any]:
    """The rows that a statement gives back, in the transaction of the connection."""
    ready = _prepared(statement, connection.dialect, tuple(values))
    given = {**ready.constants, **values}
    for name, convert in ready.into.items():
        given[name] = convert(given[name])
    raw: Any = connection.connection.dbapi_connection
    cursor = raw.execute(ready.text, given if ready.places is None else [given[name] for name in ready.places])
    if cursor.description is None:
        return []
    rows = cursor.fetchall()
    if not ready.back:
        return list(rows)
    converted = [list(row) for row in rows]
    for row in converted:
        for i, convert in ready.back:
            row[i] = convert(row[i])
    return converted
