"""Which states lead to which: reachability, and the distance of each state from where the rewards are."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int
from scipy.sparse.csgraph import breadth_first_order

from credo.decide.mdp.model import MDP


class Levels(NamedTuple):
    """The states in the order of their distance from the sources; level i is order[bounds[i]:bounds[i + 1]]."""

    order: Int[np.ndarray, " s"]
    bounds: Int[np.ndarray, " levels"]


def successors(world: MDP) -> sp.csr_array:
    """The graph s → s' over all actions, as a csr_array of ones; its transpose leads back."""
    s, a = world.shape
    return sp.csr_array((np.ones(len(world.indices), dtype=np.int8), world.indices, world.indptr[::a]), shape=(s, s))


def reached(graph: sp.csr_array, begin: Bool[np.ndarray, " s"]) -> Bool[np.ndarray, " s"]:
    """The states that can be reached in a graph."""
    out = np.zeros(len(begin), dtype=bool)
    out[_search(graph, begin).order] = True
    return out


def sources(world: MDP) -> Bool[np.ndarray, " s"]:
    """Where values come from: states in which an episode may end or a reward is not the most common one."""
    r = world.rewards
    sample = r.ravel() if r.size <= 10_000 else r.ravel()[:: r.size // 10_000]
    values, counts = np.unique(sample, return_counts=True)
    unusual = (r != values[np.argmax(counts)]).any(axis=1) & ~world.terminal
    return unusual | (world.ends > 0).any(axis=1)


def levels(world: MDP) -> Levels:
    """States by the number of steps to the nearest source; those that cannot get to one come last."""
    found = _search(sp.csr_array(successors(world).T), sources(world))
    s, known = world.shape[0], int(found.bounds[-1])
    if known == s:
        return found
    rest = np.setdiff1d(np.arange(s), found.order, assume_unique=True)
    return Levels(np.concatenate([found.order, rest]), np.append(found.bounds, s))


def _search(graph: sp.csr_array, begin: Bool[np.ndarray, " s"]) -> Levels:
    """Breadth first from several states at once, by a further state that leads to all of them."""
    s = len(begin)
    first = np.flatnonzero(begin)
    if not len(first):
        return Levels(np.zeros(0, dtype=int), np.zeros(1, dtype=int))
    indptr = np.append(graph.indptr, graph.indptr[-1] + len(first))
    indices = np.concatenate([graph.indices, first.astype(graph.indices.dtype)])
    whole = sp.csr_array((np.ones(len(indices), dtype=np.int8), indices, indptr), shape=(s + 1, s + 1))
    order, parent = breadth_first_order(whole, s, directed=True, return_predecessors=True)
    rank = np.empty(s + 1, dtype=int)
    rank[order] = np.arange(len(order))
    above = rank[parent[order[1:]]]
    bounds = [0, len(first)]  # counted without the further state
    while bounds[-1] < len(order) - 1:
        bounds.append(int(np.searchsorted(above, bounds[-1] + 1, side="left")))
    return Levels(order[1:].astype(int), np.array(bounds))
