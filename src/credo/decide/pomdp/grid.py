"""The belief MDP on a grid: beliefs whose probabilities are multiples of 1/M are states, those between are averages.

Lovejoy (1991), "Computationally feasible bounds for partially observed Markov decision processes", Operations Research
39. A belief b' that follows is a convex combination of the corners of its simplex in Freudenthal's triangulation; as V
is convex, the value of this MDP is an upper bound of V at every belief of the grid.
"""

import itertools
from math import comb

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.decide.mdp.model import MDP
from credo.decide.pomdp.model import POMDP

LARGEST = 200_000
"""Beliefs of a grid."""


def belief_mdp(pomdp: POMDP, resolution: int) -> MDP:
    """The MDP whose states are the beliefs of the grid, named by their probabilities; it begins near the start."""
    check_count(resolution, "resolution")
    s, a, _ = pomdp.shape
    size = comb(resolution + s - 1, s - 1)
    if size > LARGEST:
        raise DataError(
            f"a grid of resolution {resolution} over {s} states has {size:,} beliefs, more than {LARGEST:,}; lower it"
        )
    counts = compositions(resolution, s)
    beliefs = counts / resolution
    keys = _keys(counts, resolution)
    order = np.argsort(keys)
    matrices = []
    for k in range(a):
        after = np.asarray(beliefs @ pomdp.transitions[k])
        shows = pomdp.observations[k].toarray()
        matrix = sp.csr_array((size, size))
        for column in shows.T:
            joint = after * column
            chance = joint.sum(axis=1)
            rows = np.flatnonzero(chance > 0)
            corners, weights = triangulate(joint[rows] / chance[rows, None], resolution)
            to = order[np.searchsorted(keys[order], _keys(corners, resolution))]
            data = (chance[rows, None] * weights).ravel()
            matrix = matrix + sp.csr_array((data, (np.repeat(rows, s), to.ravel())), shape=(size, size))
        matrices.append(sp.csr_array(matrix))
    corners, weights = triangulate(pomdp.start[None], resolution)
    start = np.zeros(size)
    np.add.at(start, order[np.searchsorted(keys[order], _keys(corners, resolution))].ravel(), weights.ravel())
    over = (beliefs @ pomdp.terminal) == 1
    names = [tuple(row) for row in beliefs.tolist()]
    rewards = beliefs @ pomdp.rewards
    return MDP(matrices, rewards, pomdp.discount, terminal=over, start=start, states=names, actions=pomdp.action_names)


def compositions(total: int, parts: int) -> Int[np.ndarray, "n k"]:
    """All ways to write a number as a sum of so many, in lexicographic order."""
    bars = np.array(list(itertools.combinations(range(total + parts - 1), parts - 1)), dtype=int)
    bars = bars.reshape(-1, parts - 1)
    edges = np.full((len(bars), 1), -1), np.full((len(bars), 1), total + parts - 1)
    return np.diff(np.concatenate([edges[0], bars, edges[1]], axis=1), axis=1) - 1


def triangulate(
    beliefs: Float[np.ndarray, "n s"], resolution: int
) -> tuple[Int[np.ndarray, "n s s"], Float[np.ndarray, "n s"]]:
    """The corners (as multiples of 1/resolution) of the simplex that each belief lies in, and its weights there."""
    n, s = beliefs.shape
    x = resolution * np.cumsum(beliefs[:, ::-1], axis=1)[:, ::-1]
    x[:, 0] = resolution
    near = np.round(x)
    x = np.where(np.abs(x - near) < 1e-9, near, x)  # on the grid, but for rounding
    base = np.floor(x)
    rest = x - base
    order = np.argsort(-rest, axis=1, kind="stable")
    drops = np.take_along_axis(rest, order, axis=1)
    weights = np.empty((n, s))
    weights[:, 1:] = drops[:, : s - 1] - drops[:, 1:]
    weights[:, 0] = 1 - weights[:, 1:].sum(axis=1)
    corners = np.repeat(base[:, None], s, axis=1)
    for k in range(1, s):
        corners[:, k] = corners[:, k - 1]
        corners[np.arange(n), k, order[:, k - 1]] += 1
    counts = corners - np.concatenate([corners[:, :, 1:], np.zeros((n, s, 1))], axis=2)
    # Corners without weight may lie outside of the simplex: any inside will do.
    counts = np.where((weights > 0)[:, :, None], counts, counts[:, :1])
    return counts.astype(int), weights


def _keys(counts: Int[np.ndarray, "*n s"], resolution: int) -> Int[np.ndarray, "*n"]:
    """A number for each composition; Python's integers would be needed from 2⁶³ on, which LARGEST keeps away."""
    weights = (resolution + 1) ** np.arange(counts.shape[-1] - 1)
    return counts[..., 1:] @ weights
