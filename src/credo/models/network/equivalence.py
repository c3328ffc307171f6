"""Graphs that no table can tell apart: the same adjacent pairs and the same colliders i → k ← j with i, j apart.

The class of a graph is drawn as its completed graph (CPDAG): an arrow where all members agree, a line where they do
not. It has all colliders, and what follows from them by Meek's rules, by which no further collider and no circle may
arise. Verma & Pearl (1990), "Equivalence and synthesis of causal models"; Meek (1995); Chickering (2002). The distance
of two classes is the structural Hamming distance of Tsamardinos, Brown & Aliferis (2006).
"""

import numpy as np
from jaxtyping import Bool


def completed(adjacency: Bool[np.ndarray, "d d"]) -> Bool[np.ndarray, "d d"]:
    """The completed graph of a graph (row → column): arrows one way, lines both ways."""
    either = adjacency | adjacency.T
    apart = ~either & ~np.eye(len(adjacency), dtype=bool)
    arrows = np.zeros_like(adjacency)
    for k in range(len(adjacency)):
        parents = np.flatnonzero(adjacency[:, k])
        in_collider = apart[np.ix_(parents, parents)].any(1)
        arrows[parents[in_collider], k] = True
    while True:
        lines = either & ~arrows & ~arrows.T
        found = _meek(arrows, lines, apart)
        if not found.any():
            return arrows | lines
        arrows |= found


def _meek(
    arrows: Bool[np.ndarray, "d d"], lines: Bool[np.ndarray, "d d"], apart: Bool[np.ndarray, "d d"]
) -> Bool[np.ndarray, "d d"]:
    """The lines that must be arrows, by Meek's rules 1 to 3."""
    one, line = arrows.astype(int), lines.astype(int)
    # 1: k → i - j with k, j apart: else a collider at i.  2: i → k → j and i - j: else a circle.
    found = (one.T @ apart.astype(int) > 0) | (one @ one > 0)
    # 3: i - k → j and i - l → j with k, l apart: j → i would make a circle or a collider.
    for i, j in np.argwhere(lines & ~found):
        middle = np.flatnonzero(line[i] & one[:, j])
        found[i, j] = apart[np.ix_(middle, middle)].any()
    return found & lines


def hamming(a: Bool[np.ndarray, "d d"], b: Bool[np.ndarray, "d d"]) -> int:
    """In how many pairs of variables two completed graphs differ: an arrow, a line, its direction, or none."""
    differ = a != b
    return int(np.triu(differ | differ.T).sum())
