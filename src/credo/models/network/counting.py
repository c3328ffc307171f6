"""What rows say of the tables of a network: counts of families, and expected counts where cells are missing.

A family is a variable with its parents. Where all of it was observed, it is counted once and for all. Cells that are
missing in a row and stand in one family, or are connected by such, are *missing together*; given the rest of the row
they are independent of all others, so rows are grouped by what is missing together, not by their whole pattern:

    E[n(x, parents)] = Σ_rows P(x, parents | observed),    log p(rows) = Σ log Σ_missing Π_families p(x | parents)

Numbers are counted by the second moments of z = (1, parents, x) within each joint state of the discrete parents; of a
row in which some are missing these are E[z]E[z]ᵀ + Cov[z], given the others and each joint state that is missing.
Lauritzen (1995), "The EM algorithm for graphical association models with missing data".
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace, special
from credo.core.errors import DataError
from credo.core.special import LOG_2PI
from credo.models.network import frames, graph, linear_gaussian, sampling
from credo.models.network.linear_gaussian import Component, Given
from credo.models.network.nodes import LinearGaussian, Names, Table
from credo.models.network.observed import Observed, restricted, row_keys

if TYPE_CHECKING:
    from credo.models.network.belief import Network

LARGEST = 2**24
"""Cells of a joint table of what is missing together, over its rows."""


class Hidden(NamedTuple):
    """Variables that are missing together, and the states and numbers of the others of their families, a row each."""

    names: Names
    touched: Names
    """The variables in whose families these are, parents first."""
    known: dict[str, Any]
    numbers: dict[str, Any]
    weights: Any
    """How many rows are like this one."""
    where: Any
    """Which row it is, the first of its kind."""

    @property
    def observed(self) -> Observed:
        """As evidence."""
        return Observed(self.known, {}, self.numbers, 0.0, (len(self.weights),))


class Rows(NamedTuple):
    """What is kept of a frame."""

    counts: dict[str, Any]
    """Of each variable over the rows in which its family is complete: a table of counts, or second moments."""
    hidden: tuple[Hidden, ...]
    moments: dict[str, Any]
    """The mean and the variance of each number over the rows that have it."""
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
        elif name not in columns or np.isnan(columns[name]).all():
            raise DataError(
                f"{name!r} is a number and missing in every row: nothing can be learned of it; add its column, or take "
                "it out of the network"
            )
    absent = {m: cells for m, cells in absent_of(network, columns).items() if cells.any()}
    counts = {}
    for name, law in nodes.items():
        there: Any = slice(None)
        if gaps := [absent[m] for m in (*law.parents, name) if m in absent]:
            there = ~np.any(gaps, axis=0)
        family = {m: columns[m][there] for m in (*law.parents, name)}
        counts[name] = count(network, name, family, np.ones(len(family[name])))
    numbers = {m: np.array([np.nanmean(columns[m]), np.nanvar(columns[m])]) for m in network.names if m not in states}
    return Rows(counts, hidden_of(network, columns) if absent else (), numbers, n)


def absent_of(network: "Network", columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Which cells are missing."""
    states = network.states
    return {m: columns[m] == frames.MISSING if m in states else np.isnan(columns[m]) for m in network.names}


def hidden_of(network: "Network", columns: Mapping[str, np.ndarray], each: bool = False) -> tuple[Hidden, ...]:
    """The rows with missing cells, by which of them are missing together; equal ones once, or `each` of them."""
    states, order = network.states, network.order
    families = {name: {name, *law.parents} for name, law in network.nodes.items()}
    absent, edges = absent_of(network, columns), graph.moral_edges(network.parents)
    rows = np.flatnonzero(np.any(list(absent.values()), axis=0))
    pattern, first = row_keys([absent[c][rows].astype(int) for c in absent], [2] * len(absent), len(rows))
    together: dict[Names, list[np.ndarray]] = {}
    for p in range(len(first)):
        inside = rows[pattern == p]
        for names in graph.connected([c for c in absent if absent[c][inside[0]]], edges):
            together.setdefault(names, []).append(inside)
    found = []
    for names, parts in together.items():
        where = np.concatenate(parts)
        touched = tuple(n for n in order if families[n] & set(names))
        around = {m: None for n in touched for m in families[n]}
        known = [m for m in around if m in states and m not in names]
        numbers = [m for m in around if m not in states and m not in names]
        weights = np.ones(len(where))
        if not numbers and not each:
            inverse, kinds = row_keys([columns[m][where] for m in known], [len(states[m]) for m in known], len(where))
            where, weights = where[kinds], np.bincount(inverse).astype(float)
        cells = np.prod([len(states[m]) for m in names if m in states], dtype=float) * len(where)
        if cells > LARGEST:
            raise DataError(
                f"{', '.join(names[:6])} are missing together in {len(where)} rows: their joint table has {cells:.2g} "
                f"cells, more than the {LARGEST:.2g} that are gone through; drop rows or columns with many of them"
            )
        states_said, numbers_said = ({m: columns[m][where] for m in some} for some in (known, numbers))
        found.append(Hidden(names, touched, states_said, numbers_said, weights, where))
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


class Posterior(NamedTuple):
    """What is missing together given what was observed: an axis for each discrete variable, then rows."""

    discrete: Names
    joint: Any
    """Π_families p(x | parents) up to a factor of each row."""
    log_scale: Any
    """The logarithm of that factor."""
    component: Component
    told: Given
    """The numbers at each joint state of the component's discrete parents."""


def posterior(network: "Network", hidden: Hidden) -> Posterior:
    """Of one group of rows; traceable."""
    states, nodes, observed = network.states, network.nodes, hidden.observed
    discrete = tuple(n for n in hidden.names if n in states)
    joint: Any = np.ones((1,) * (len(discrete) + 1))
    missing, touched = set(hidden.names), hidden.touched
    component = linear_gaussian.component_of(network, tuple(n for n in touched if n not in states), observed)
    told = linear_gaussian.given(network, component, observed)
    top: Any = told.log_density.max(0)
    shape = tuple(len(states[n]) for n in component.discrete)
    factors = [(component.discrete, namespace(top).exp(told.log_density - top).reshape(*shape, -1))]
    for name in touched:
        law, scope = nodes[name], (*nodes[name].parents, name)
        if isinstance(law, Table):
            factors.append((tuple(n for n in scope if n in missing), restricted(scope, law.values, observed)))
    for free, factor in factors:
        axes = sorted(range(len(free)), key=lambda a, free=free: discrete.index(free[a]))  # type: ignore[misc]
        wide = [len(states[n]) if n in free else 1 for n in discrete]
        joint = joint * factor.transpose(*axes, len(free)).reshape(*wide, factor.shape[-1])
    return Posterior(discrete, joint, top, component, told)


def log_likelihood(network: "Network", rows: Rows) -> Array:
    """log p(rows | tables); traceable."""
    xp, total = namespace(network.laws), np.zeros(())
    for name, law in network.nodes.items():
        if isinstance(law, Table):
            total = total + special(law.values).xlogy(rows.counts[name], law.values).sum()
        else:
            total = total + gaussian_score(law, rows.counts[name])
    for hidden in rows.hidden:
        found = posterior(network, hidden)
        whole = found.joint.sum(axis=tuple(range(len(found.discrete))))
        with np.errstate(divide="ignore"):
            total = total + (hidden.weights * (xp.log(whole) + found.log_scale)).sum()
    return total


def gaussian_score(law: LinearGaussian, moments: Array) -> Array:
    """Σ log N(x | mean + weights · parents, v) from moments: -½(n log 2πv + rᵀMr/v), r = (-mean, -weights, 1)."""
    xp = namespace(law, moments)
    r = xp.concatenate([-law.mean[..., None], -law.weights, xp.ones((*law.mean.shape, 1))], axis=-1)
    squares = (r[..., None] * moments * r[..., None, :]).sum((-1, -2))
    return -0.5 * (moments[..., 0, 0] * (LOG_2PI + xp.log(law.variance)) + squares / law.variance).sum()


def expected(network: "Network", rows: Rows) -> dict[str, np.ndarray]:
    """The counts of every family, those that are not known at their expectation."""
    out = {name: np.array(value, dtype=float) for name, value in rows.counts.items()}
    states, nodes = network.states, network.nodes
    for hidden in rows.hidden:
        found, m = posterior(network, hidden), len(hidden.weights)
        share = found.joint * (hidden.weights / found.joint.sum(axis=tuple(range(len(found.discrete)))))
        share = np.broadcast_to(share, (*share.shape[:-1], m))
        for name in hidden.touched:
            law = nodes[name]
            scope = [n for n in (*law.parents, name) if n in states]
            known = [n for n in scope if n in hidden.known]
            shape = tuple(len(states[n]) for n in known)
            code = np.ravel_multi_index([hidden.known[n] for n in known], shape) if known else np.zeros(m, int)
            kept = [n for n in scope if n not in known] if isinstance(law, Table) else list(found.component.discrete)
            own = share.sum(axis=tuple(a for a, n in enumerate(found.discrete) if n not in kept))
            order = [n for n in found.discrete if n in kept]
            if isinstance(law, Table):
                parts = [np.bincount(code, row, int(np.prod(shape))) for row in own.reshape(-1, m)]
            else:
                own = own.transpose(*map(order.index, kept), len(order))
                order, parts = kept, _expected_moments(law, name, found.told, hidden, own.reshape(-1, m), code, shape)
            whole = np.stack(parts).reshape(*(len(states[n]) for n in order), *shape, *parts[0].shape[1:])
            whole = whole.sum(axis=tuple(a for a, n in enumerate(order) if n not in scope))
            left = [*(n for n in order if n in scope), *known]
            out[name] += whole.transpose(*map(left.index, scope), *range(len(scope), whole.ndim))
    return out


def _expected_moments(
    law: LinearGaussian,
    name: str,
    told: Given,
    hidden: Hidden,
    share: Float[np.ndarray, "c m"],
    code: np.ndarray,
    shape: tuple[int, ...],
) -> list[np.ndarray]:
    """Σ_rows share E[zzᵀ] with z = (1, parents, x) for each state that is missing, and each that is known."""
    m = share.shape[1]
    family = [p for p in (*law.parents, name) if p in hidden.numbers or p in told.names]
    free = [i for i, n in enumerate(family, 1) if n in told.names]
    at = [told.names.index(family[i - 1]) for i in free]
    z = np.ones((m, len(family) + 1))
    for i, n in enumerate(family, 1):
        z[:, i] = hidden.numbers.get(n, 0.0)
    found = []
    for c, row in enumerate(share):
        z[:, free] = told.mean[c][:, at]
        moments = _moments(z, code, row, int(np.prod(shape)))
        covariance = np.broadcast_to(told.covariance[c][:, at][:, :, at], (m, len(at), len(at)))
        for i, j in np.ndindex(len(at), len(at)):
            moments[:, free[i], free[j]] += np.bincount(code, row * covariance[:, i, j], len(moments))
        found.append(moments)
    return found


def filled(network: "Network", columns: Mapping[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The columns with a draw from p(missing | observed) in each cell that is missing."""
    out = {name: column.copy() for name, column in columns.items()}
    for hidden in hidden_of(network, columns, each=True):
        found, m = posterior(network, hidden), len(hidden.where)
        sizes = found.joint.shape[:-1]
        weights = np.broadcast_to(found.joint, (*sizes, m)).reshape(-1, m)
        states = np.unravel_index(sampling.categories(weights.T, rng), sizes) if sizes else ()
        drawn = dict(zip(found.discrete, states, strict=True))
        at = np.zeros(m, int)
        for name in found.component.discrete:
            at = at * len(network.states[name]) + drawn[name]
        drawn |= linear_gaussian.drawn(found.told, at, np.arange(m), rng)
        for name in hidden.names:
            out[name][hidden.where] = drawn[name]
    return out
