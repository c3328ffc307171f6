"""Message passing on a junction tree: every marginal, the evidence and the most probable explanation, exactly.

Each clique multiplies the factors assigned to it. *Collect*: from the leaves to the roots, a clique multiplies the
messages of its children and sends the sum (for explanations, the maximum) over what its parent does not have; each
message is divided by its maximum, and the evidence is the product of what was divided out. *Distribute*: back to the
leaves, a clique is multiplied by its parent's sum over the separator divided by its own message, with 0/0 = 0; then
every table is a marginal. Lauritzen & Spiegelhalter (1988); Jensen, Lauritzen & Olesen (1990), the "Hugin" form.

A last axis of all tables, where there is one, runs over rows of evidence.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from credo.core.arrays import Array, is_traced, namespace
from credo.core.errors import DataError
from credo.models.network.triangulation import Reduction, Tree, reduction

LARGEST = 2**28
"""Cells of all cliques together: 2 GiB of float64."""
NARROW = 16
"""Up to so many cells behind the axis that is summed, a product with a 0-1 matrix is faster than NumPy's sum."""
WIDEST = 4096
"""Rows of that matrix."""


class Collected(NamedTuple):
    """The tables of the cliques after the messages went up, what was sent, and log Σ Π factors."""

    tables: list[Any]
    messages: list[Any]
    log_total: Array


def check_size(tree: Tree, names: Sequence[str]) -> None:
    """`DataError` where the tree would not fit into memory."""
    if tree.cells > LARGEST:
        shown = ", ".join(names[i] for i in tree.largest[:6])
        raise DataError(
            f"an exact answer needs {tree.cells:.2g} numbers ({8 * tree.cells / 2**30:.3g} GiB, at most "
            f"{8 * LARGEST / 2**30:g} are used): the largest clique has {len(tree.largest)} variables ({shown}, …), a "
            "width of the network that conditioning on some of them lessens; "
            "or draw: condition(…, using=LikelihoodWeighting()) or NetworkGibbs()"
        )


def collect(tree: Tree, factors: Sequence[Array], rows: tuple[int, ...] = (), largest: bool = False) -> Collected:
    """The messages to the roots. `rows` is the length of the last axis of all factors, () where there is none."""
    xp = namespace(*factors)
    tables: list[Any] = []
    messages: list[Any] = []
    tops = [factor for factor in factors if np.ndim(factor) == len(rows)]  # those of no variable, then of each message
    for clique in tree.cliques:
        parts = []
        for f, turned, shape in clique.factors:
            value = factors[f]
            if turned is not None:
                value = value.transpose(*turned, len(turned)) if rows else value.transpose(turned)
            parts.append(value.reshape(*shape, value.shape[-1]) if rows else value.reshape(shape))
        for child, shape in clique.received:
            parts.append(messages[child].reshape(*shape, *rows))
        table = _product(xp, parts, (*clique.shape, *rows))
        message = table.reshape(clique.shared, -1, *rows)
        message = message.max(1) if largest else _summed(xp, message)
        top = message.max(0)
        messages.append(message / (xp.where(top > 0, top, 1.0) if rows or xp is not np else top or 1.0))
        tables.append(table)
        tops.append(top)
    with np.errstate(divide="ignore"):
        logs = xp.log(xp.stack([xp.broadcast_to(top, rows) for top in tops]) if rows else xp.array(tops))
    return Collected(tables, messages, logs.sum(0))


def _product(xp: Any, parts: list[Any], shape: tuple[int, ...]) -> Any:
    """The product of tables that broadcast to `shape`, small ones first."""
    if not parts:
        return xp.ones(shape)
    parts = sorted(parts, key=np.size)
    product = parts[0]
    for part in parts[1:]:
        product = product * part
    return product if product.shape == shape else xp.broadcast_to(product, shape)


def _summed(xp: Any, table: Any) -> Any:
    """The sum over the second axis."""
    if table.ndim > 2 or xp is not np:
        return table.sum(1)
    return table @ _ones(table.shape[1])


@lru_cache(maxsize=4096)
def _ones(r: int) -> np.ndarray:
    return np.ones(r)


@lru_cache(maxsize=4096)
def _folding(r: int, b: int) -> np.ndarray:
    """The 0-1 matrix that sums rows of r·b cells, read as (r, b), over r."""
    return np.tile(np.eye(b), (r, 1))


def reduced(table: np.ndarray, steps: Reduction, rows: tuple[int, ...] = ()) -> np.ndarray:
    """The sum of a table down to some of its axes, as a vector (of rows)."""
    wide = rows[0] if rows else 1
    for a, r, b in steps:
        cells = b * wide
        if cells == 1:
            table = table.reshape(a, r) @ _ones(r)
        elif cells <= NARROW and r * b <= WIDEST and not rows:
            table = table.reshape(a, r * b) @ _folding(r, b)
        else:
            table = table.reshape(a, r, cells).sum(1)
    return table.reshape(-1, *rows)


def calibrate(tree: Tree, factors: Sequence[Array]) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """The marginal of every clique and of every separator (to the parent), up to a factor each, and log Σ Π factors."""
    found = collect(tree, factors)
    tables, messages = found.tables, found.messages
    for n in reversed(range(len(tables))):
        clique = tree.cliques[n]
        for (child, _), steps in zip(clique.received, clique.to_children, strict=True):
            both, sent = reduced(tables[n], steps), messages[child]
            both = both / (both.max() or 1.0)
            ratio = np.divide(both, sent, out=np.zeros_like(both), where=sent > 0)
            table = tables[child].reshape(len(both), -1)
            tables[child] = (table * ratio[:, None]).reshape(tree.cliques[child].shape)
            messages[child] = both
    return tables, messages, float(found.log_total)


def marginals(tree: Tree, factors: Sequence[Array]) -> tuple[list[np.ndarray | None], float]:
    """P(x) of each variable that is in a factor, and log Σ Π factors."""
    tables, separators, log_total = calibrate(tree, factors)
    found: list[np.ndarray | None] = []
    for home in tree.homes:
        if home is None:
            found.append(None)
            continue
        law = reduced(separators[home.clique] if home.separator else tables[home.clique], home.steps)
        found.append(law / (law.sum() or 1.0))
    return found, log_total


def most_probable(tree: Tree, factors: Sequence[Array], count: int) -> tuple[list[int], float]:
    """argmax Π factors over all variables together, and its logarithm: max-product, then back from the roots."""
    found = collect(tree, factors, largest=True)
    chosen = [0] * count
    for n in reversed(range(len(found.tables))):
        clique = tree.cliques[n]
        table = found.tables[n]
        table = table[tuple(chosen[i] for i in clique.scope[: clique.joined])]
        rest = clique.scope[clique.joined :]
        for i, state in zip(rest, np.unravel_index(int(np.argmax(table)), table.shape), strict=True):
            chosen[i] = int(state)
    return chosen, float(found.log_total)


def joint(tree: Tree, factors: Sequence[Array], query: Sequence[int], rows: tuple[int, ...] = ()) -> tuple[Any, Any]:
    """P(query) of the root that holds it, axes in the order of `query` (then rows), and log Σ Π factors."""
    xp = namespace(*factors)
    found = collect(tree, factors, rows)
    n = next(n for n in reversed(range(len(tree.cliques))) if set(query) <= set(tree.cliques[n].scope))
    scope, shape = tree.cliques[n].scope, tree.cliques[n].shape
    left = tuple(i for i in scope if i in set(query))
    kept = tuple(size for i, size in zip(scope, shape, strict=True) if i in left)
    if xp is np:
        table = reduced(found.tables[n], reduction(shape, [i in left for i in scope]), rows).reshape(*kept, *rows)
    else:
        table = found.tables[n].sum(tuple(axis for axis, i in enumerate(scope) if i not in left))
    table = table.transpose(*(left.index(i) for i in query), *([len(query)] if rows else []))
    total = table.sum(tuple(range(len(query))))
    return table / xp.where(total > 0, total, 1.0), found.log_total


def check_possible(log_total: Array, what: str) -> None:
    """`DataError` where evidence has probability zero."""
    if not is_traced(log_total) and not np.all(np.isfinite(log_total)):
        raise DataError(f"{what} has probability zero under the network; look at it for a mistake")
