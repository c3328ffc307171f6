"""From factors to a junction tree: moral graph, elimination order, maximal cliques, messages between them.

A variable is eliminated by connecting its neighbours; it and they are a clique. Which one to eliminate next is chosen
by the edges that this adds (min-fill), by their number, or by their weight log kᵤ log kᵥ where that tree is not small;
the one with fewer cells in all is kept. Sets of variables are the bits of a Python integer, of which `&` and
`bit_count` take nanoseconds. Kjærulff (1990), "Triangulation of graphs"; Koller & Friedman (2009), section 9.4.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

SMALL = 2**13
"""Cells of a tree that are gone through in less time than a smaller tree is looked for."""
Scope = tuple[int, ...]
Reduction = tuple[tuple[int, int, int], ...]
"""Steps (a, r, b): of a table read as shape (a, r, b), sum over the middle axis."""


class Clique(NamedTuple):
    """One clique of a tree: its table has the axes of `scope`, of which those shared with its parent come first."""

    scope: Scope
    shape: tuple[int, ...]
    joined: int
    """How many axes are those shared with the parent: the separator."""
    shared: int
    """How many cells the separator has."""
    parent: int
    """The clique that it sends its message to; -1 for a root."""
    factors: tuple[tuple[int, tuple[int, ...] | None, tuple[int, ...]], ...]
    """Those multiplied here: which, how their axes are permuted (None: not at all), and in which shape."""
    received: tuple[tuple[int, tuple[int, ...]], ...]
    """The children, and the shape in which their messages are multiplied."""
    to_children: tuple[Reduction, ...]
    """How its table is summed down to the separator of each child."""


class Home(NamedTuple):
    """Where the marginal of a variable is read: the smallest table that has it."""

    clique: int
    separator: bool
    steps: Reduction


class Tree(NamedTuple):
    """A junction tree, children before parents."""

    cliques: tuple[Clique, ...]
    homes: tuple[Home | None, ...]
    """Of each variable."""
    cells: int
    """Of all cliques together."""
    largest: Scope


@lru_cache(maxsize=256)
def junction_tree(sizes: tuple[int, ...], scopes: tuple[Scope, ...], query: Scope = ()) -> Tree:
    """The junction tree of factors over variables of so many states; the clique with all of `query` is a root.

    It depends on nothing but the structure, so that it is kept for the next question of the same kind.
    """
    neighbours = _moral((*scopes, query))
    found = _joined(_eliminate(neighbours, sizes, False), sizes)
    if found[0] > SMALL:
        found = min(found, _joined(_eliminate(neighbours, sizes, True), sizes), key=lambda each: each[0])
    cells, cliques, edges = found
    parents, order = _rooted(cliques, edges, sizes, _bits(query))
    return _laid_out(cliques, parents, order, sizes, scopes, cells)


def _bits(scope: Sequence[int]) -> int:
    found = 0
    for i in scope:
        found |= 1 << i
    return found


def members(bits: int) -> Iterator[int]:
    """The variables of a set."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _moral(scopes: Sequence[Scope]) -> dict[int, int]:
    """The neighbours of each variable: those with which it shares a factor."""
    neighbours: dict[int, int] = {}
    for scope in scopes:
        together = _bits(scope)
        for i in scope:
            neighbours[i] = neighbours.get(i, 0) | together
    return {i: bits & ~(1 << i) for i, bits in neighbours.items()}


def _cells(clique: int, sizes: Sequence[int]) -> int:
    return math.prod(sizes[i] for i in members(clique))


def _eliminate(neighbours: dict[int, int], sizes: Sequence[int], weighted: bool) -> list[tuple[int, int]]:
    """A greedy order: each variable with its neighbours at its turn."""
    near = dict(neighbours)
    weight = {i: math.log2(sizes[i]) for i in near}

    def fill(i: int) -> float:
        """What eliminating i adds: edges, or the sum of their weights; and the size of its clique against ties."""
        around, added = near[i], 0.0
        rest = around
        while rest:
            low = rest & -rest
            rest ^= low
            u = low.bit_length() - 1
            missing = rest & ~near[u]
            if missing:
                added += weight[u] * sum(weight[v] for v in members(missing)) if weighted else missing.bit_count()
        return added

    def size(i: int) -> float:
        return weight[i] + sum(weight[v] for v in members(near[i]))

    scores = {i: (fill(i), size(i)) for i in near}
    heap = [(score, i) for i, score in scores.items()]
    heapq.heapify(heap)
    eliminated = []
    while near:
        score, i = heapq.heappop(heap)
        if i not in near or scores[i] != score:
            continue
        around = near.pop(i)
        eliminated.append((i, around))
        changed, gone = around, ~(1 << i)
        for u in members(around):
            added = around & ~near[u] & ~(1 << u)
            for v in members(added):  # those who know both have an edge less to add
                changed |= near[u] & near[v]
            near[u] = (near[u] | around) & ~(1 << u) & gone
        changed &= gone
        for u in members(changed):
            if u in near:
                scores[u] = (fill(u), size(u))
                heapq.heappush(heap, (scores[u], u))
    return eliminated


def _joined(eliminated: list[tuple[int, int]], sizes: Sequence[int]) -> tuple[int, list[int], list[tuple[int, int]]]:
    """The maximal cliques of an elimination, the edges that make a tree of them, and how many cells they have.

    The clique of a variable hangs under that of the first of its neighbours to go next; one that lies in a child of its
    own is that child.
    """
    turn = {i: n for n, (i, _) in enumerate(eliminated)}
    cliques: list[int] = []
    home: dict[int, int] = {}
    above: dict[int, int] = {}
    below: dict[int, list[int]] = {}
    for i, around in eliminated:
        clique = around | 1 << i
        held = next((c for c in below.get(i, []) if clique & ~cliques[c] == 0), None)
        if held is None:
            held = len(cliques)
            cliques.append(clique)
        home[i] = held
        if around:
            above[held] = min(members(around), key=turn.__getitem__)
            below.setdefault(above[held], []).append(held)
        else:
            above.pop(held, None)
    edges = [(c, home[i]) for c, i in above.items()]
    # What was merged into a child hands its other children to it: they name the variable, and `home` knows where it is.
    return sum(_cells(c, sizes) for c in cliques), cliques, edges


def _rooted(
    cliques: list[int], edges: list[tuple[int, int]], sizes: Sequence[int], query: int
) -> tuple[dict[int, int], list[int]]:
    """The parent of each clique, and an order with children first; roots hold the query, or are the largest."""
    around: dict[int, list[int]] = {a: [] for a in range(len(cliques))}
    for a, b in edges:
        around[a].append(b)
        around[b].append(a)
    first = sorted(around, key=lambda a: (query == 0 or query & ~cliques[a] != 0, -_cells(cliques[a], sizes)))
    if query:  # the smallest one that holds it, then the others
        holders = [a for a in around if query & ~cliques[a] == 0]
        first = [min(holders, key=lambda a: _cells(cliques[a], sizes)), *first]
    parents: dict[int, int] = {}
    order: list[int] = []
    for root in first:
        if root in parents:
            continue
        parents[root] = -1
        stack = [root]
        while stack:
            a = stack.pop()
            order.append(a)
            for b in around[a]:
                if b not in parents:
                    parents[b] = a
                    stack.append(b)
    return parents, order[::-1]


def _laid_out(
    cliques: list[int],
    parents: dict[int, int],
    order: list[int],
    sizes: tuple[int, ...],
    scopes: tuple[Scope, ...],
    cells: int,
) -> Tree:
    """The axes of every table: of a clique first what it shares with its parent, in the parent's order."""
    place = {a: i for i, a in enumerate(order)}
    axes: dict[int, Scope] = {}
    shared: dict[int, Scope] = {}
    for a in reversed(order):
        above = axes[parents[a]] if parents[a] >= 0 else ()
        shared[a] = tuple(i for i in above if cliques[a] >> i & 1)
        axes[a] = (*shared[a], *members(cliques[a] & ~_bits(shared[a])))
    assigned: dict[int, list[int]] = {a: [] for a in order}
    holding: dict[int, list[int]] = {}
    by_size = sorted(order, key=lambda a: _cells(cliques[a], sizes))
    for a in by_size:
        for i in members(cliques[a]):
            holding.setdefault(i, []).append(a)
    for f, scope in enumerate(scopes):
        if scope:
            bits = _bits(scope)
            rarest = min((holding[i] for i in scope), key=len)
            assigned[next(a for a in rarest if bits & ~cliques[a] == 0)].append(f)
    children: dict[int, list[int]] = {a: [] for a in order}
    for a in order:
        if parents[a] >= 0:
            children[parents[a]].append(a)
    found = []
    for a in order:
        at = {i: n for n, i in enumerate(axes[a])}
        factors = []
        for f in assigned[a]:
            turned = tuple(sorted(range(len(scopes[f])), key=lambda n, f=f: at[scopes[f][n]]))  # type: ignore[misc]
            still = turned == tuple(range(len(turned)))
            factors.append((f, None if still else turned, _within(axes[a], scopes[f], sizes)))
        found.append(
            Clique(
                axes[a],
                tuple(sizes[i] for i in axes[a]),
                len(shared[a]),
                math.prod(sizes[i] for i in shared[a]),
                place.get(parents[a], -1),
                tuple(factors),
                tuple((place[c], _within(axes[a], shared[c], sizes)) for c in children[a]),
                tuple(_reduction(axes[a], shared[c], sizes) for c in children[a]),
            )
        )
    homes: list[Home | None] = [None] * len(sizes)
    room = [math.inf] * len(sizes)
    for a in order:
        for separator, scope in ((True, shared[a]), (False, axes[a])):
            size = math.prod(sizes[i] for i in scope)
            for i in scope:
                if size < room[i]:
                    room[i], homes[i] = size, Home(place[a], separator, _reduction(scope, (i,), sizes))
    largest = axes[by_size[-1]] if by_size else ()
    return Tree(tuple(found), tuple(homes), cells, largest)


def _reduction(axes: Scope, kept: Scope, sizes: Sequence[int]) -> Reduction:
    """The steps that sum a table over `axes` down to `kept`."""
    inside = set(kept)
    return reduction([sizes[i] for i in axes], [i in inside for i in axes])


def _within(axes: Scope, scope: Scope, sizes: Sequence[int]) -> tuple[int, ...]:
    """The shape in which a table over `scope` meets one over `axes`: length one where it has no axis."""
    inside = set(scope)
    return tuple(sizes[i] if i in inside else 1 for i in axes)


def reduction(shape: Sequence[int], kept: Sequence[bool]) -> Reduction:
    """The steps that sum a table down to the axes that are kept, neighbouring ones at once, the last ones first."""
    groups: list[list[int]] = []  # [whether kept, cells], neighbours of one kind together
    for size, keep in zip(shape, kept, strict=True):
        if groups and groups[-1][0] == keep:
            groups[-1][1] *= size
        else:
            groups.append([int(keep), size])
    steps, after = [], 1
    for n in reversed(range(len(groups))):
        held, cells = groups[n]
        if held:
            after *= cells
        else:
            steps.append((math.prod(g[1] for g in groups[:n]), cells, after))
    return tuple(steps)
