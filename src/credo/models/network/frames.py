"""Tables of observations: columns by name, cells as states' indices or numbers, empty cells as missing.

A frame is a data frame (pandas, polars, pyarrow), or a mapping of columns by name, as `Network.sample` returns.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from credo.core.checks import column_names
from credo.core.errors import DataError
from credo.models.network.nodes import Names, Table

if TYPE_CHECKING:
    from credo.models.network.belief import Network

MISSING = -1
UNKNOWN = -2


def columns_of(frame: Any) -> dict[str, np.ndarray]:
    """The columns of a frame by name."""
    named = column_names(frame)
    if isinstance(frame, Mapping):
        found = {str(name): np.asarray(column) for name, column in frame.items()}
    elif named is not None:
        found = {name: np.asarray(frame[label]) for name, label in zip(named, _labels(frame), strict=True)}
    else:
        raise DataError(
            f"a frame must have columns by name (a data frame, or a dict of columns), found a {type(frame).__name__}"
        )
    wrong = [name for name, column in found.items() if column.ndim != 1]
    lengths = {len(column) for name, column in found.items() if name not in wrong}
    if wrong or len(lengths) > 1:
        raise DataError(f"the columns of a frame must be vectors of one length, found {wrong or sorted(lengths)}")
    return found


def is_frame(network: "Network", data: Any) -> bool:
    """Whether data are many rows rather than one case: a data frame, or a vector for each variable.

    Likelihoods of states for every variable are one case.
    """
    if not isinstance(data, Mapping):
        return column_names(data) is not None
    columns = [np.asarray(data[name]) for name in network.names if name in data]
    if len(columns) != len(network.names) or any(c.ndim != 1 for c in columns) or len({len(c) for c in columns}) != 1:
        return False
    states = network.states
    named = zip(network.names, columns, strict=True)
    return any(c.dtype.kind != "f" or len(c) != len(states.get(name, ())) for name, c in named)


def _labels(frame: Any) -> Sequence[Any]:
    return list(getattr(frame, "column_names", None) or frame.columns)


def coded(network: "Network", frame: Any) -> dict[str, np.ndarray]:
    """The columns of a frame that are variables: indices of states with -1 for missing, numbers with NaN for it.

    A column that is no variable is refused, so that a misspelt name is not ignored in silence.
    """
    columns = columns_of(frame)
    unknown = [name for name in columns if name not in network.names]
    if unknown:
        raise DataError(
            f"the frame has the column {unknown[0]!r}, which is no variable of the network "
            f"({', '.join(network.names[:12])}{', …' if len(network.names) > 12 else ''}); rename or drop it"
        )
    nodes = network.nodes
    return {
        name: codes_of(name, column, node.states) if isinstance(node, Table) else numbers_of(name, column)
        for name, column in columns.items()
        for node in [nodes[name]]
    }


class _Codes(dict[object, int]):
    """The index of each state by what a cell may hold; what was not met before is looked at once."""

    def __init__(self, states: Names) -> None:
        super().__init__({state: i for i, state in enumerate(states)})
        self.states = dict(self)

    def __missing__(self, value: object) -> int:
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        self[value] = MISSING if is_missing(value) else self.states.get(text, UNKNOWN)
        return self[value]


def codes_of(name: str, column: np.ndarray, states: Names) -> np.ndarray:
    """Cells as indices of states; None, NaN and the like are missing. Numbers and truth values go by their text."""
    codes = np.fromiter(map(_Codes(states).__getitem__, column.tolist()), int, len(column))
    if len(codes) and codes.min() == UNKNOWN:
        row = int(np.argmin(codes))
        raise DataError(f"{name!r} has the states {', '.join(states)}, found {str(column[row])!r} at row {row}")
    return codes


def numbers_of(name: str, column: np.ndarray) -> np.ndarray:
    """Cells as numbers, NaN where they are missing."""
    try:
        values = [np.nan if is_missing(v) else float(v) for v in column.tolist()]
    except (TypeError, ValueError):
        raise DataError(f"{name!r} is a number, found {column.tolist()[:3]}") from None
    if np.isinf(values).any():
        raise DataError(f"{name!r} must be finite, found infinity at row {int(np.argmax(np.isinf(values)))}")
    return np.array(values, dtype=float)


def is_missing(value: object) -> bool:
    """Whether a cell is empty: None, NaN, pandas' NA, the empty text."""
    return (
        value is None
        or (isinstance(value, float) and value != value)
        or type(value).__name__ in ("NAType", "NaTType")
        or value == ""
    )
