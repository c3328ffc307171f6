"""What follows from the arrows alone: orders, cycles, ancestors, trails, d-separation, blankets, the moral graph.

A trail is open given Z where each of its colliders (→ v ←) is in Z or has a descendant there, and no other variable of
it is in Z; x and y are d-separated given Z where no trail between them is open. Koller & Friedman (2009), section 3.3.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from credo.core.errors import DataError

Parents = Mapping[str, tuple[str, ...]]

MOST_PATHS = 20_000
"""Beginnings of trails that are looked at: their number may grow as two to the power of the arrows."""


def order_of(parents: Parents) -> list[str]:
    """The variables with parents before children; `DataError` that names a cycle where there is one."""
    order: list[str] = []
    done: dict[str, bool] = {}
    for start in parents:
        stack: list[tuple[str, Iterator[str]]] = []
        if start not in done:
            stack.append((start, iter(parents[start])))
            done[start] = False
        while stack:
            name, rest = stack[-1]
            parent = next(rest, None)
            if parent is None:
                done[name] = True
                order.append(name)
                stack.pop()
            elif done.get(parent) is False:
                path = [each for each, _ in stack]
                cycle = [parent, *reversed(path[path.index(parent) :])]
                circle = " → ".join(cycle)
                raise DataError(f"the arrows of a network must not form a cycle, found {circle}; drop one of them")
            elif parent not in done:
                stack.append((parent, iter(parents[parent])))
                done[parent] = False
    return order


def children_of(parents: Parents) -> dict[str, list[str]]:
    """The children of each variable."""
    children: dict[str, list[str]] = {name: [] for name in parents}
    for name, above in parents.items():
        for parent in above:
            children[parent].append(name)
    return children


def ancestors_of(parents: Parents, names: Iterable[str]) -> set[str]:
    """The variables themselves and all from which an arrow leads to them, over any number of steps."""
    found, stack = set(), list(names)
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack.extend(parents[name])
    return found


def markov_blanket(parents: Parents, name: str) -> set[str]:
    """Parents, children, and the other parents of the children."""
    children = children_of(parents)[name]
    return ({*parents[name], *children} | {p for child in children for p in parents[child]}) - {name}


def moral_edges(parents: Parents) -> set[frozenset[str]]:
    """The arrows without their direction, and edges between parents of one child."""
    families = ((*above, name) for name, above in parents.items())
    return {frozenset(pair) for family in families for pair in combinations(family, 2)}


def connected(names: Iterable[str], edges: Collection[frozenset[str]]) -> list[tuple[str, ...]]:
    """The names in groups that edges among them connect, in their order."""
    names, near = list(names), dict[str, list[str]]()
    for edge in edges:
        if len(edge) == 2:
            a, b = edge
            near.setdefault(a, []).append(b)
            near.setdefault(b, []).append(a)
    left, groups = dict.fromkeys(names), []
    for start in names:
        stack, group = [start], set[str]()
        while stack:
            name = stack.pop()
            if name in left:
                del left[name]
                group.add(name)
                stack.extend(near.get(name, ()))
        if group:
            groups.append(tuple(name for name in names if name in group))
    return groups


class Trail(NamedTuple):
    """A path along arrows in any direction; why it is open, or what blocks it."""

    names: tuple[str, ...]
    forward: tuple[bool, ...]
    """Whether each step goes along its arrow."""
    open: bool
    reason: str

    def __str__(self) -> str:
        arrows = [" → " if along else " ← " for along in self.forward]
        path = "".join(name + arrow for name, arrow in zip(self.names, [*arrows, ""], strict=True))
        return f"{path}  {'open' if self.open else 'blocked'}: {self.reason}"


class Separation(NamedTuple):
    """Whether two variables are d-separated, and why: true where they are, printed with the trails."""

    x: str
    y: str
    given: tuple[str, ...]
    separated: bool
    trails: tuple[Trail, ...]
    """Those that are open; where none is, those that are blocked (the shortest ones)."""

    def __bool__(self) -> bool:
        return self.separated

    def __str__(self) -> str:
        given = f" given {', '.join(self.given)}" if self.given else ""
        says = "are d-separated" if self.separated else "are not d-separated"
        why = [f"  {trail}" for trail in self.trails] or ["  no trail connects them"]
        return "\n".join([f"{self.x} and {self.y} {says}{given}:", *why])


def d_separation(parents: Parents, x: str, y: str, given: Collection[str], most: int = 20) -> Separation:
    """The answer by reachability, which takes one pass however many trails there are, and trails as its reason."""
    if x == y or x in given or y in given:
        raise DataError(f"d-separation is asked of two variables that are not given, found {x!r} and {y!r}")
    separated = y not in reachable(parents, x, given)
    found = trails(parents, x, y, given, most, None if separated else True)
    return Separation(x, y, tuple(given), separated, tuple(found[: 5 if separated else most]))


def reachable(parents: Parents, x: str, given: Collection[str]) -> set[str]:
    """All variables to which an open trail leads from x. Koller & Friedman (2009), algorithm 3.1."""
    children, above = children_of(parents), ancestors_of(parents, given)
    found, seen, stack = set(), set(), [(x, True)]  # (variable, whether it was entered from a child)
    while stack:
        name, up = stack.pop()
        if (name, up) in seen:
            continue
        seen.add((name, up))
        if name not in given:
            found.add(name)
            stack.extend((child, False) for child in children[name])
        if (up and name not in given) or (not up and name in above):
            stack.extend((parent, True) for parent in parents[name])
    return found - {x}


def trails(
    parents: Parents, x: str, y: str, given: Collection[str], most: int = 100, wanted: bool | None = None
) -> list[Trail]:
    """Trails from x to y, shorter ones first, at most so many; `wanted` keeps those that are open (or blocked) only."""
    children, above = children_of(parents), ancestors_of(parents, given)
    found: list[Trail] = []
    queue: deque[tuple[tuple[str, ...], tuple[bool, ...]]] = deque([((x,), ())])
    looked = 0
    while queue and len(found) < most and looked < MOST_PATHS:
        names, forward = queue.popleft()
        looked += 1
        if names[-1] == y:
            trail = _judged(names, forward, given, above)
            found += [trail] if wanted is None or trail.open == wanted else []
            continue
        for along, nexts in ((True, children[names[-1]]), (False, parents[names[-1]])):
            if wanted and forward and not _passes(names[-1], forward[-1], along, given, above):
                continue  # no trail through here is open
            queue.extend(((*names, name), (*forward, along)) for name in nexts if name not in names)
    return found


def _passes(name: str, before: bool, after: bool, given: Collection[str], above: Collection[str]) -> bool:
    """Whether influence flows through a variable: entered along an arrow and left against one, it is a collider."""
    return name in above if before and not after else name not in given


def _judged(names: tuple[str, ...], forward: tuple[bool, ...], given: Collection[str], above: Collection[str]) -> Trail:
    inner = [
        (name, before and not after, _passes(name, before, after, given, above))
        for name, before, after in zip(names[1:-1], forward[:-1], forward[1:], strict=True)
    ]
    for name, collider, passes in inner:
        if not passes:
            why = f"the collider {name} is not given, nor is anything below it" if collider else f"{name} is given"
            return Trail(names, forward, False, why)
    awake = [name for name, collider, _ in inner if collider]
    said = [
        f"the collider {name} is given" if name in given else f"below the collider {name} one is given"
        for name in awake
    ]
    return Trail(names, forward, True, "; ".join(said) or "nothing on it is given")
