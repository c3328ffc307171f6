"""What decisions about classes cost: a table with a row for each action and a column for each true class.

    "0,1;20,0"    rows apart by semicolons, actions and classes in the order of the classes
    costs.csv     the same with names: the header names the classes, the first column the actions

As in `credo.decide.losses.CostMatrix`, costs[a, k] is the price of action a where the truth is class k.
"""

from pathlib import Path

import numpy as np

from credo.app.table.read import read_table
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.decide.losses import CostMatrix


def zero_one(levels: tuple[str, ...]) -> CostMatrix:
    """Every mistake costs one: the action is the most probable class."""
    return CostMatrix(1 - np.eye(len(levels)), names=levels)


def check_options(target: str, kind: str, loss: object, costs: str | None) -> None:
    """Refuses `loss` for classes and `costs` for numbers."""
    if loss is not None and kind == "classes":
        raise DataError(f"`loss` is for numbers, but {target!r} holds classes; use `costs`")
    if costs is not None and kind != "classes":
        raise DataError(f"`costs` is for classes, but {target!r} is a {kind}; use `loss`")


def read_costs(text: str, levels: tuple[str, ...]) -> CostMatrix:
    """The costs in `text` (rows apart by semicolons) or in the file of that name."""
    path = Path(text)
    if path.is_file():
        return _from_file(path, levels)
    try:
        rows = [[float(cell) for cell in row.split(",")] for row in text.split(";") if row.strip()]
    except ValueError:
        raise DataError(
            f"`costs` takes numbers such as '0,1;20,0' (a row for each action, a column for each true class), or a "
            f"file; found {text!r}"
        ) from None
    return _checked(rows, levels, None)


def _from_file(path: Path, levels: tuple[str, ...]) -> CostMatrix:
    table = read_table(path)
    header = [str(name) for name in table.frame.columns]
    if set(header[1:]) == set(levels) and len(header) == len(levels) + 1:
        actions = tuple(table.cells(header[0]).text)
        names = list(levels)
    elif set(header) == set(levels):
        actions, names = None, list(levels)
    elif header[0] == "column1" and len(header) == len(levels):
        actions, names = None, header
    else:
        raise DataError(
            f"{path} must have a column for each class ({', '.join(levels)}), after one with the names of the actions; "
            f"found the columns {', '.join(header)}"
        )
    columns = [table.cells(name).numbers.values for name in names]
    return _checked(np.stack(columns, axis=1).tolist(), levels, actions)


def _checked(rows: list[list[float]], levels: tuple[str, ...], actions: tuple[str, ...] | None) -> CostMatrix:
    k = len(levels)
    widths = sorted({len(row) for row in rows})
    if widths != [k]:
        found = " and ".join(map(str, widths)) or "no"
        raise DataError(f"`costs` needs a column for each of the {k} classes ({', '.join(levels)}), found {found}")
    costs = np.asarray(rows, dtype=float)
    if not np.all(np.isfinite(costs)):
        raise DataError("`costs` must hold finite numbers in every cell")
    if len(costs) < 2:
        raise DataError("`costs` needs two actions or more (rows), found 1: there is nothing to decide")
    if actions is None:
        actions = levels if len(costs) == k else tuple(f"action {i + 1}" for i in range(len(costs)))
    return CostMatrix(costs, names=actions)


def read_actions(costs: CostMatrix, prediction: Predictive) -> np.ndarray:
    """The name of the best action for each row."""
    return np.asarray(costs.name_of(costs.bayes_action(prediction)), dtype=object)
