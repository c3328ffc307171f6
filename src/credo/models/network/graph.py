"""What follows from the arrows alone: orders, cycles, ancestors, trails, d-separation, blankets, the moral graph.

A trail is open given Z where each of its colliders (→ v ←) is in Z or has a descendant there, and no other variable of
it is in Z; x and y are d-separated given Z where no trail between them is open. Koller & Friedman (2009), section 3.3.
"""

from collections.abc import Iterable, Iterator, Mapping

from credo.core.errors import DataError

Parents = Mapping[str, tuple[str, ...]]


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
                raise DataError(
                    f"the arrows of a network must not go round in a circle, found {' → '.join(cycle)}; drop one of them"
                )
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
