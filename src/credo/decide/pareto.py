"""Several objectives at once: the Pareto front, the volume that it dominates, and what lies beyond it.

Every objective is to be made large. y dominates z where y ≥ z in every objective and y > z in one; the front is what
nothing dominates. Its hypervolume is the volume of all that it dominates above a reference point r,

    H(Y) = λ( ∪_{y ∈ Y} [r, y] ).

Zitzler & Thiele (1998), "Multiobjective optimization using evolutionary algorithms: a comparative case study".
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Numeric
from credo.core.checks import check_real, check_table, check_vector

MARGIN = 0.1


class Boxes(NamedTuple):
    """Disjoint boxes [lower, upper], a row each; sides may be infinite."""

    lower: Float[np.ndarray, "b k"]
    upper: Float[np.ndarray, "b k"]


def non_dominated(values: Numeric) -> Bool[np.ndarray, " n"]:
    """Which rows of `values`, shape (n, k), no other row dominates; equal rows are kept together.

    Rows are taken by decreasing sum, ties in lexicographic order, so that none is dominated by a later one; each
    takes away what it dominates. O(n·|front|) comparisons of arrays.
    """
    table = check_table(values, "values")
    order = np.lexsort((*table.T, table.sum(axis=1)))[::-1]
    kept: list[int] = []
    rest, index = table[order], order
    while len(rest):
        first = rest[0]
        below = rest[:, 0] <= first[0]
        for column, value in zip(rest.T[1:], first[1:], strict=True):
            below &= column <= value
        equal = below.nonzero()[0]
        equal = equal[(rest[equal] == first).all(axis=1)]
        kept.extend(index[equal])
        keep = slice(1, None) if below.sum() == 1 else ~below
        rest, index = rest[keep], index[keep]
    mask = np.zeros(len(table), bool)
    mask[kept] = True
    return mask


def front_of(values: Numeric) -> Float[np.ndarray, "f k"]:
    """The rows that nothing dominates, each once, in lexicographic order."""
    table = check_table(values, "values")
    return np.unique(table[non_dominated(table)], axis=0)


def reference_point(values: Numeric, margin: float = MARGIN) -> Float[np.ndarray, " k"]:
    """The worst value of each objective on the front (the nadir) minus `margin` times its range on the front.

    An objective that is constant on the front has its range over all of `values`, and where that is zero too the
    size of the value itself (1 for zero). Ishibuchi, Imada, Setoguchi & Nojima (2018), "How to specify a reference
    point in hypervolume calculation".
    """
    table, margin = check_table(values, "values"), check_real(margin, "margin", 0)
    front = table[non_dominated(table)]
    nadir = front.min(axis=0)
    scale = np.ptp(front, axis=0)
    scale = np.where(scale > 0, scale, np.ptp(table, axis=0))
    scale = np.where(scale > 0, scale, np.where(nadir == 0, 1.0, np.abs(nadir)))
    return nadir - margin * scale


def hypervolume(front: Numeric, reference: Numeric) -> float:
    """H of the rows of `front`, shape (n, k), above `reference`, shape (k,): exact for any number of objectives.

    Rows that are not above the reference in every objective count for nothing, dominated rows change nothing.
    A sweep for k = 2; for more, the volume is the sum of what each row adds to the rows that are better in the last
    objective: a slab with the row's own last value as its height. While, Bradstreet & Barone (2012), "A fast way of
    calculating exact hypervolumes".
    """
    table = check_table(front, "front")
    origin = check_vector(reference, "reference", table.shape[1])
    above = table[(table > origin).all(axis=1)] - origin
    return _volume(above[non_dominated(above)]) if len(above) else 0.0


def _volume(front: Float[np.ndarray, "n k"]) -> float:
    """λ(∪ [0, y]) of rows that are positive and do not dominate each other."""
    k = front.shape[1]
    if k == 1:
        return float(front.max())
    if k == 2:
        return _area(front)
    front = front[np.argsort(front[:, -1], kind="stable")]
    total = 0.0
    for i, row in enumerate(front):
        base, better = row[:-1], front[i + 1 :, :-1]
        shared = 0.0
        if len(better):
            limited = np.minimum(better, base)
            shared = _area(limited) if k == 3 else _volume(limited[non_dominated(limited)])
        total += row[-1] * (float(np.prod(base)) - shared)
    return total


def _area(points: Float[np.ndarray, "n 2"]) -> float:
    """λ(∪ [0, y]) in the plane, of any positive rows: by decreasing first value, each adds what it is higher."""
    points = points[np.argsort(-points[:, 0], kind="stable")]
    highest = np.maximum.accumulate(points[:, 1])
    return float(points[:, 0] @ np.diff(highest, prepend=0.0))


def improvement_boxes(front: Numeric, reference: Numeric) -> Boxes:
    """Disjoint boxes that fill what lies above the reference and is not dominated by the front.

    The hypervolume that an outcome y adds to the front is then a sum of products,

        H(Y ∪ {y}) - H(Y) = Σ_boxes Π_j (min(y_j, upper_j) - lower_j)₊.

    The last objective is swept from the top: between two values of it the front is that of the rows above, in one
    objective less, and a box of it that stays the same from one slab to the next is one box: |front| + 1 in all for
    two objectives, at most 2|front| + 1 for three. Yang, Emmerich, Deutz & Bäck (2019), "Efficient computation of
    expected hypervolume improvement using box decomposition algorithms".
    """
    table = check_table(front, "front")
    origin = check_vector(reference, "reference", table.shape[1])
    above = table[(table > origin).all(axis=1)]
    pairs = _decompose(front_of(above) if len(above) else above, origin)
    return Boxes(*map(np.array, zip(*pairs, strict=True)))


Side = tuple[float, ...]
Pair = tuple[Side, Side]
"""A box: its lower and its upper corner."""


def _decompose(rows: Float[np.ndarray, "n k"], origin: Float[np.ndarray, " k"]) -> list[Pair]:
    """The boxes beyond rows that may dominate each other."""
    least = float(origin[-1])
    if len(origin) == 1:
        return [((max([least, *rows[:, 0].tolist()]),), (np.inf,))]
    if len(origin) == 2:
        return _strips(rows, origin)
    done: list[Pair] = []
    opened: dict[Pair, float] = {}
    for top in [np.inf, *np.unique(rows[:, -1])[::-1].tolist()]:
        slab = _decompose(rows[rows[:, -1] >= top, :-1], origin[:-1])
        still = {box: opened.pop(box, top) for box in slab}
        done += [((*low, top), (*high, begun)) for (low, high), begun in opened.items()]
        opened = still
    return done + [((*low, least), (*high, begun)) for (low, high), begun in opened.items()]


def _strips(rows: Float[np.ndarray, "n 2"], origin: Float[np.ndarray, " 2"]) -> list[Pair]:
    """The boxes in the plane: from the top, a new strip where the first value reaches further than before."""
    out: list[Pair] = []
    reached, least = origin.tolist()
    top = np.inf
    for first, last in rows[np.lexsort((-rows[:, 0], -rows[:, 1]))].tolist():
        if first > reached:
            out.append(((reached, last), (np.inf, top)))
            reached, top = first, last
    return [*out, ((reached, least), (np.inf, top))]
