"""What rows say of the tables of a network: counts of families, and expected counts where cells are missing.

A family is a variable with its parents. Where all of it was observed, it is counted once and for all. Cells that are
missing in a row and stand in one family, or are connected by such, are *missing together*; given the rest of the row
they are independent of all others, so rows are grouped by what is missing together, not by their whole pattern:

    E[n(x, parents)] = Σ_rows P(x, parents | observed),    log p(rows) = Σ log Σ_missing Π_families p(x | parents)

Numbers are counted by the second moments of (1, parents, x) within each joint state of the discrete parents.
Lauritzen (1995), "The EM algorithm for graphical association models with missing data".
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace, special
from credo.core.errors import DataError
from credo.core.special import LOG_2PI
from credo.models.network import frames, graph, queries
from credo.models.network.nodes import LinearGaussian, Names, Node, Table

if TYPE_CHECKING:
    from credo.models.network.belief import Network

LARGEST = 2**24
"""Cells of a joint table of what is missing together, over its rows."""


class Hidden(NamedTuple):
    """Discrete variables that are missing together, and what was observed around them, a row each."""

    names: Names
    known: dict[str, Any]
    """The states of the other discrete variables of their families."""
    numbers: dict[str, Any]
    weights: Any
    """How many rows are like this one."""


class Rows(NamedTuple):
    """What is kept of a frame."""

    counts: dict[str, Any]
    """Of each variable over the rows in which its family is complete: a table of counts, or second moments."""
    hidden: tuple[Hidden, ...]
    moments: dict[str, Any]
    """The mean and the variance of each number over all rows."""
    n: int

    @property
    def whole(self) -> bool:
        """Whether no cell is missing."""
        return not self.hidden


def read_rows(network: "Network", frame: Any) -> Rows:
    """The rows of a frame; a discrete variable that has no column is missing in all of them."""
    return rows_of(network, frames.coded(network, frame))


def rows_of(network: "Network", columns: dict[str, np.ndarray]) -> Rows:
    """The rows of columns that are coded: indices of states, numbers."""
    n = len(next(iter(columns.values()))) if columns else 0
    if not n:
        raise DataError("the frame has no rows; at least one is needed to learn from")
    states, nodes = network.states, network.nodes
    for name in network.names:
        if name in states:
            columns.setdefault(name, np.full(n, frames.MISSING))
        elif name not in columns or np.isnan(columns[name]).any():
            row = int(np.argmax(np.isnan(columns[name]))) if name in columns else 0
            raise DataError(
                f"{name!r} is a number and missing at row {row}: only cells of discrete variables may be missing; "
                "drop such rows or fill them"
            )
    absent = {name: columns[name] == frames.MISSING for name in states}
    counts = {}
    for name, law in nodes.items():
        there = ~np.any([absent[m] for m in (*law.parents, name) if m in states] or [np.zeros(n, bool)], axis=0)
        counts[name] = count(network, name, {m: columns[m][there] for m in (*law.parents, name)}, np.ones(there.sum()))
    numbers = {m: np.array([columns[m].mean(), columns[m].var()]) for m in network.names if m not in states}
    return Rows(counts, _hidden(network, columns, absent), numbers, n)


def _hidden(
    network: "Network", columns: Mapping[str, np.ndarray], absent: Mapping[str, np.ndarray]
) -> tuple[Hidden, ...]:
    """The rows with missing cells, by which of them are missing together."""
    states, families = network.states, {name: {name, *law.parents} for name, law in network.nodes.items()}
    edges = graph.moral_edges(network.parents)
    rows = np.flatnonzero(np.any(list(absent.values()), axis=0)) if absent else np.zeros(0, int)
    pattern, first = row_keys([absent[c][rows].astype(int) for c in absent], [2] * len(absent), len(rows))
    together: dict[Names, list[np.ndarray]] = {}
    for p in range(len(first)):
        inside = rows[pattern == p]
        for names in graph.connected([c for c in absent if absent[c][inside[0]]], edges):
            together.setdefault(names, []).append(inside)
    found = []
    for names, parts in together.items():
        where = np.concatenate(parts)
        around = [m for m in network.names if any(m in f and f & set(names) for f in families.values())]
        known = [m for m in around if m in states and m not in names]
        numbers = {m: columns[m][where] for m in around if m not in states}
        weights = np.ones(len(where))
        if not numbers:
            inverse, kinds = row_keys(
                [columns[m][where] for m in known], [len(states[m]) for m in known], len(where)
            )
            where, weights = where[kinds], np.bincount(inverse).astype(float)
        cells = np.prod([len(states[m]) for m in names], dtype=float) * len(where)
        if cells > LARGEST:
            raise DataError(
                f"{', '.join(names[:6])} are missing together in {len(where)} rows: their joint table has {cells:.2g} "
                f"cells, more than the {LARGEST:.2g} that are gone through; drop rows or columns with many of them"
            )
        found.append(Hidden(names, {m: columns[m][where] for m in known}, numbers, weights))
    return tuple(found)


def count(network: "Network", name: str, columns: Mapping[str, np.ndarray], weights: np.ndarray) -> np.ndarray:
    """The counts of a family that is known in each row: a table, or moments for each state of the discrete parents."""
    law, states = network.nodes[name], network.states
    scope = [m for m in (*law.parents, name) if m in states]
    shape = tuple(len(states[m]) for m in scope)
    code = np.ravel_multi_index([columns[m] for m in scope], shape) if scope else np.zeros(len(weights), int)
    size = int(np.prod(shape))
    if isinstance(law, Table):
        return np.bincount(code, weights=weights, minlength=size).reshape(shape)
    return _moments(_augmented(law, name, columns, states), code, weights, size).reshape(*shape, *_square(law, states))


def _square(law: LinearGaussian, states: Mapping[str, Names]) -> tuple[int, int]:
    k = sum(p not in states for p in law.parents) + 2
    return k, k


def _augmented(
    law: LinearGaussian, name: str, columns: Mapping[str, np.ndarray], states: Mapping[str, Names]
) -> Float[np.ndarray, "n k"]:
    """(1, the parents that are numbers, x)."""
    numbers = [columns[m] for m in (*(p for p in law.parents if p not in states), name)]
    return np.stack([np.ones(len(columns[name])), *numbers], axis=1)


def _moments(z: np.ndarray, code: np.ndarray, weights: np.ndarray, size: int) -> Float[np.ndarray, "c k k"]:
    """Σ w zzᵀ over the rows of each code."""
    out = np.zeros((size, z.shape[1], z.shape[1]))
    for c in np.unique(code):
        rows = code == c
        out[c] = (z[rows] * weights[rows, None]).T @ z[rows]
    return out


def joint_of(network: "Network", laws: Mapping[str, Node], hidden: Hidden) -> tuple[Any, Any]:
    """Π_families p(x | parents) over what is missing (an axis each), then rows; and a log scale of each row."""
    states, m = network.states, len(hidden.weights)
    observed = Observed(hidden.known, {}, {}, 0.0, (m,))
    joint: Any = np.ones((1,) * (len(hidden.names) + 1))
    scale: Any = np.zeros(m)
    for name, law in laws.items():
        scope = tuple(n for n in (*law.parents, name) if n in states)
        free = [n for n in scope if n in hidden.names]
        if not free:
            continue
        if isinstance(law, Table):
            factor = restricted(scope, law.values, observed, False)
        else:
            factor, top = _density(law, name, scope, observed, hidden, states)
            scale = scale + top
        axes = sorted(range(len(free)), key=lambda a, free=free: hidden.names.index(free[a]))  # type: ignore[misc]
        shape = [len(states[n]) if n in free else 1 for n in hidden.names]
        joint = joint * factor.transpose(*axes, len(free)).reshape(*shape, factor.shape[-1])
    return joint, scale


def _density(
    law: LinearGaussian, name: str, scope: Names, observed: Any, hidden: Hidden, states: Mapping[str, Names]
) -> tuple[Any, Any]:
    """p(the number | its parents) over the parents that are missing, then rows."""
    at: Any = lambda value: restricted(scope, value, observed, False)  # noqa: E731
    mean, variance = at(law.mean), at(law.variance)
    for i, parent in enumerate(p for p in law.parents if p not in states):
        mean = mean + at(law.weights[..., i]) * hidden.numbers[parent]
    xp = namespace(mean, variance)
    logs = -0.5 * (LOG_2PI + xp.log(variance) + (hidden.numbers[name] - mean) ** 2 / variance)
    top = logs.max(axis=tuple(range(logs.ndim - 1)))
    return xp.exp(logs - top), top


def log_likelihood(network: "Network", laws: Mapping[str, Node], rows: Rows) -> Array:
    """log p(rows | laws); traceable."""
    xp, total = namespace(laws), np.zeros(())
    for name, law in laws.items():
        if isinstance(law, Table):
            total = total + special(law.values).xlogy(rows.counts[name], law.values).sum()
        else:
            total = total + gaussian_score(law, rows.counts[name])
    for hidden in rows.hidden:
        joint, scale = joint_of(network, laws, hidden)
        whole = joint.sum(axis=tuple(range(len(hidden.names))))
        with np.errstate(divide="ignore"):
            total = total + (hidden.weights * (xp.log(whole) + scale)).sum()
    return total


def gaussian_score(law: LinearGaussian, moments: Array) -> Array:
    """Σ log N(x | mean + weights · parents, v) from moments: -½(n log 2πv + rᵀMr/v), r = (-mean, -weights, 1)."""
    xp = namespace(law, moments)
    r = xp.concatenate([-law.mean[..., None], -law.weights, xp.ones((*law.mean.shape, 1))], axis=-1)
    squares = (r[..., None] * moments * r[..., None, :]).sum((-1, -2))
    return -0.5 * (moments[..., 0, 0] * (LOG_2PI + xp.log(law.variance)) + squares / law.variance).sum()


def expected(network: "Network", laws: Mapping[str, Node], rows: Rows) -> dict[str, np.ndarray]:
    """The counts of every family, those that are not known at their expectation."""
    out = {name: np.array(value, dtype=float) for name, value in rows.counts.items()}
    states = network.states
    for hidden in rows.hidden:
        joint, _ = joint_of(network, laws, hidden)
        axes = tuple(range(len(hidden.names)))
        m = len(hidden.weights)
        share = joint * (hidden.weights / joint.sum(axis=axes))
        share = np.broadcast_to(share, (*share.shape[:-1], m))
        for name, law in laws.items():
            scope = [n for n in (*law.parents, name) if n in states]
            free = [n for n in hidden.names if n in scope]
            if not free:
                continue
            known = [n for n in scope if n not in free]
            own = share.sum(axis=tuple(a for a, n in enumerate(hidden.names) if n not in free)).reshape(-1, m)
            shape = tuple(len(states[n]) for n in known)
            code = np.ravel_multi_index([hidden.known[n] for n in known], shape) if known else np.zeros(m, int)
            size, tail = int(np.prod(shape)), tuple[int, ...]()
            if isinstance(law, Table):
                parts = [np.bincount(code, weights=row, minlength=size) for row in own]
            else:
                z = _augmented(law, name, hidden.numbers, states)
                parts, tail = [_moments(z, code, row, size) for row in own], _square(law, states)
            whole = np.stack(parts).reshape(*(len(states[n]) for n in free), *shape, *tail)
            order = [[*free, *known].index(n) for n in scope]
            out[name] += whole.transpose(*order, *range(len(scope), whole.ndim))
    return out
