"""Many rows of evidence at once: one pass for the rows in which the same variables were observed.

Rows with the same cells missing go together, and of them equal rows once, found by one integer each. Columns that the
others separate from the question are left out before, so that more rows are equal.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from credo.core.errors import DataError
from credo.core.predictive import Mixture, Normal, Predictive
from credo.models.network import queries
from credo.models.network.frames import MISSING
from credo.models.network.observed import Observed, row_keys
from credo.models.network.predictions import States

if TYPE_CHECKING:
    from credo.models.network.belief import Network


def predicted_rows(network: "Network", name: str, columns: Mapping[str, np.ndarray], observed: Observed) -> Predictive:
    """The law of one variable for each row of a frame, rows with the same cells missing together."""
    rows = len(next(iter(columns.values())))
    states = network.states
    there = {column: cells != MISSING if column in states else ~np.isnan(cells) for column, cells in columns.items()}
    if name in there and there[name].any():
        raise DataError(
            f"the frame says what {name!r} is at row {int(np.argmax(there[name]))}; leave out the column that is asked"
        )
    pattern, named = row_keys([mask.astype(int) for mask in there.values()], [2] * len(there), rows)
    parts, places = [], []
    for p in range(len(named)):
        inside = np.flatnonzero(pattern == p)
        present = [column for column, mask in there.items() if mask[inside[0]]]
        parts.append(_of_pattern(network, name, {c: columns[c][inside] for c in present}, observed, inside))
        places.append(inside)
    back = np.argsort(np.concatenate(places), kind="stable")
    return parts[0] if len(parts) == 1 else _stacked(parts, back, rows)


def _of_pattern(
    network: "Network", name: str, columns: Mapping[str, np.ndarray], observed: Observed, where: np.ndarray
) -> Predictive:
    """The rows in which the same variables were observed: the equal ones once."""
    clash = [c for c in columns if c in observed.names and c not in observed.soft]
    for c in clash:
        fixed = observed.known[c] if c in observed.known else observed.numbers[c]
        if np.any(columns[c] != fixed):
            row = int(where[np.argmax(columns[c] != fixed)])
            raise DataError(f"{c!r} was observed before, and row {row} of the frame says something else of it")
    columns = {c: v for c, v in columns.items() if c not in clash}
    n = len(where)
    states = network.states
    if name in states and not observed.numbers and all(c in states for c in columns):
        columns = _that_matter(network, name, columns, observed)
    discrete = [c for c in columns if c in states]
    if len(discrete) == len(columns):
        inverse, first = row_keys([columns[c] for c in discrete], [len(states[c]) for c in discrete], n)
    else:
        inverse, first = np.arange(n), np.arange(n)
    soft = {c: v for c, v in observed.soft.items() if c not in columns}
    # A likelihood and a state that is known: the likelihood of that state, a constant of the row.
    for c in columns:
        if c in observed.soft and np.any(np.asarray(observed.soft[c])[columns[c]] == 0):
            raise DataError(f"{c!r} has a state in the frame that soft evidence excludes")
    told = Observed(
        {**observed.known, **{c: columns[c][first] for c in discrete}},
        soft,
        {**observed.numbers, **{c: columns[c][first] for c in columns if c not in states}},
        0.0,
        (len(first),),
    )
    law, total = queries.predicted(network, name, told)
    if not np.all(np.isfinite(total)):
        row = int(where[np.argmax(~np.isfinite(np.asarray(total)[inverse]))])
        raise DataError(f"row {row} of the frame has probability zero under the network; look at it for a mistake")
    return law if len(first) == n and not len(inverse) else law[inverse]


def _that_matter(
    network: "Network", name: str, columns: Mapping[str, np.ndarray], observed: Observed
) -> dict[str, np.ndarray]:
    """The columns that say something of a discrete variable given the others."""
    known = dict.fromkeys(columns, 0)
    blank = Observed({**observed.known, **known}, observed.soft, observed.numbers, 0.0)
    sources = queries.sources_of(network, queries.relevant(network, [name], blank), blank, False)
    found = queries.reached(sources, blank, (name,))
    used = {n for scope, _ in found for n in scope}
    return {c: v for c, v in columns.items() if c in used}


def _stacked(parts: list[Predictive], back: np.ndarray, rows: int) -> Predictive:
    """The predictions of several patterns, in the order of the rows."""
    if all(isinstance(p, States) for p in parts):
        probs = np.concatenate([p.probs for p in parts])[back]  # type: ignore[attr-defined]
        return States.certain_of(probs, parts[0].states)  # type: ignore[attr-defined]
    count = max(len(p.weights) if isinstance(p, Mixture) else 1 for p in parts)
    found = []
    for p in parts:
        inner: Any = p.parts[0] if isinstance(p, Mixture) else p[None]
        weights = p.weights if isinstance(p, Mixture) else np.ones((1, len(p)))
        extra = [(0, count - len(weights)), (0, 0)]
        found.append(
            [np.pad(weights, extra), np.pad(inner.mean, extra, mode="edge"), np.pad(inner.variance, extra, mode="edge")]
        )
    weights, mean, variance = (np.concatenate([f[i] for f in found], axis=1)[:, back] for i in range(3))
    if count == 1:
        return Normal(mean[0], variance[0], np.zeros(rows))
    return Mixture(weights, (Normal(mean, variance, np.zeros_like(mean)),), within=count)
