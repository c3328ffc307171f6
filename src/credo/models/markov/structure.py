"""Which states reach which: the graph of a chain, its communicating classes and their periods.

Norris (1997), "Markov Chains", sections 1.2 and 1.8; Levin & Peres (2017), section 1.3.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, shortest_path

from credo.models.markov.counting import Names


class StateClass(NamedTuple):
    """States that reach each other. A closed class is never left: its states are recurrent, others are transient."""

    states: Names
    closed: bool
    period: int
    """The greatest common divisor of the lengths of its loops; 0 for a state that is never seen again."""


class Part(NamedTuple):
    """A communicating class by the indices of its states."""

    members: Int[np.ndarray, " n"]
    closed: bool
    period: int


def graph_of(transition: Float[np.ndarray, "k k"]) -> csr_matrix:
    """The graph with an edge for every transition that is possible, however improbable."""
    return csr_matrix((transition > 0).astype(float))


def communicating(transition: Float[np.ndarray, "k k"]) -> tuple[Part, ...]:
    """The strongly connected components of the graph, the closed ones first, in the order of their first states."""
    graph = graph_of(transition)
    count, label = connected_components(graph, directed=True, connection="strong")
    sources, targets = graph.nonzero()
    left = np.zeros(count, dtype=bool)
    left[label[sources[label[sources] != label[targets]]]] = True
    order = np.argsort(label, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    parts = [Part(members, not left[label[members[0]]], _period(graph, members)) for members in groups]
    return tuple(sorted(parts, key=lambda part: (not part.closed, part.members[0])))


def _period(graph: csr_matrix, members: Int[np.ndarray, " n"]) -> int:
    """gcd of level(i) + 1 - level(j) over the edges i → j of a class, level = steps from its first state."""
    if len(members) == 1:
        return int(graph[members[0], members[0]])
    inside = graph[members][:, members]
    level = shortest_path(inside, method="D", unweighted=True, indices=0).astype(int)
    sources, targets = inside.nonzero()
    return int(np.gcd.reduce(np.abs(level[sources] + 1 - level[targets])))


def reaching(graph: csr_matrix, targets: Bool[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
    """The states from which some of `targets` can be reached, in no steps or more."""
    seen = targets.copy()
    frontier = targets
    while frontier.any():
        frontier = (graph @ frontier.astype(float) > 0) & ~seen
        seen |= frontier
    return seen


def surely_reaching(transition: Float[np.ndarray, "k k"], targets: Bool[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
    """The states from which `targets` are reached with probability one.

    Those that can not get to a place without return before they meet a target.
    """
    graph = graph_of(np.where(targets[:, None], 0.0, transition))
    lost = ~reaching(graph, targets)
    return ~reaching(graph, lost)
