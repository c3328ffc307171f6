"""Both bounds where the horizon is long: linear systems in place of backups, which move values a step at a time.

With a discount near 1 a backup closes a share 1 - γ of the gap alone. What trials found tells where values come from:

    above   corners and points of the sawtooth are the states of an MDP: a belief that follows is an average of them
    below   vectors are the states of a controller: an action each, then the vector that is best at what follows

The values of both are bounds. Hauskrecht (2000), section 4.4; Ji et al. (2007), "Point-based policy iteration".
"""

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse.linalg import spsolve

from credo.decide.mdp.model import MDP
from credo.decide.mdp.solving import solve
from credo.decide.pomdp.mixed_observability import Blocks
from credo.decide.pomdp.trials import Point, Vector

Rows = Float[np.ndarray, "p n"]
POINTS, LARGEST, ENTRIES = 200, 5_000, 5000
"""Points that are looked at, states × actions × observations, numbers of a controller's vectors: more take seconds."""
PRECISION = 1e-5
"""Of the MDP's values, relative to the gap; what is left is paid for."""


def spread(blocks: Blocks, points: Sequence[Point]) -> Rows:
    """Beliefs of blocks as beliefs over all states."""
    rows = np.zeros((len(points), len(blocks.state)))
    for row, (k, belief, _) in zip(rows, points, strict=True):
        row[blocks.first[k] : blocks.first[k + 1]] = belief
    return rows


def following(blocks: Blocks, beliefs: Rows, action: int) -> Iterator[tuple[int, np.ndarray, Vector, Rows]]:
    """For each observation after an action: from which beliefs it can be, how likely, and the beliefs after it."""
    moved = np.asarray(beliefs @ blocks.transitions[action])
    for o, column in enumerate(blocks.observations[action].toarray().T):
        joint = moved * column
        chance = joint.sum(axis=1)
        rows = np.flatnonzero(chance > 0)
        yield o, rows, chance[rows], joint[rows] / chance[rows, None]


def above(blocks: Blocks, corners: Vector, points: Sequence[Point], gap: float) -> list[Point]:
    """The points and corners with values that agree with each other: no larger ones are needed to average from."""
    points = sorted(points, key=lambda point: point[2] - float(point[1] @ corners[_rows(blocks, point[0])]))[:POINTS]
    n, inside = len(corners), spread(blocks, points)
    beliefs = np.vstack([np.eye(n), inside])
    drops = np.array([value for _, _, value in points]) - inside @ corners
    moves = []
    for a in range(blocks.rewards.shape[1]):
        move = np.zeros((len(beliefs), len(beliefs)))
        for _, rows, chance, after in following(blocks, beliefs, a):
            share, which, lowest = np.zeros(len(rows)), np.zeros(len(rows), dtype=int), np.zeros(len(rows))
            for i, point in enumerate(inside):
                support = np.flatnonzero(point)
                part = (after[:, support] / point[support]).min(axis=1)
                better = drops[i] * part < lowest
                share[better], which[better], lowest[better] = part[better], i, drops[i] * part[better]
            if len(points):
                move[rows, n + which] += chance * share
                after = after - share[:, None] * inside[which]
            move[rows, :n] += chance[:, None] * np.maximum(after, 0.0)
        moves.append(sp.csr_array(move / move.sum(axis=1, keepdims=True)))
    found = solve(MDP(moves, beliefs @ blocks.rewards, blocks.discount), tolerance=PRECISION * gap)
    values = (found.value + found.certificate).tolist()
    sure = [(k, row, 0.0) for k, m in enumerate(blocks.sizes.tolist()) for row in np.eye(m)]
    return [(k, belief, value) for (k, belief, _), value in zip([*sure, *points], values, strict=True)]


def below(
    blocks: Blocks, tables: Sequence[tuple[Rows, np.ndarray]], points: Sequence[Point]
) -> list[tuple[int, Vector, int]]:
    """The vectors that are best at some of the points, each evaluated as a state of the controller they make."""
    home = np.repeat(np.arange(len(tables)), [len(alphas) for alphas, _ in tables])
    first = np.concatenate([[0], np.cumsum([len(alphas) for alphas, _ in tables])])
    table = np.zeros((len(home), len(blocks.state)))
    for k, (alphas, _) in enumerate(tables):
        table[first[k] : first[k + 1], _rows(blocks, k)] = alphas

    def best(beliefs: Rows) -> tuple[Vector, np.ndarray]:
        """The largest value at each belief, and whose it is."""
        scores = np.where(blocks.block[beliefs.argmax(axis=1)][:, None] == home, beliefs @ table.T, -np.inf)
        return scores.max(axis=1), scores.argmax(axis=1)

    beliefs = spread(blocks, points[:POINTS])
    q, chosen = np.array(beliefs @ blocks.rewards), []
    for a in range(q.shape[1]):
        chosen.append(np.full((len(beliefs), blocks.observations[a].shape[1]), -1))
        for o, rows, chance, after in following(blocks, beliefs, a):
            value, which = best(after)
            q[rows, a] += blocks.discount * chance * value
            chosen[a][rows, o] = which
    actions = q.argmax(axis=1)
    witness = {int(v): z for z, v in enumerate(best(beliefs)[1])}
    place = np.concatenate([[0], np.cumsum(blocks.sizes[home])])
    if place[-1] > ENTRIES:
        return []
    data, lines, columns, right = [], [], [], np.concatenate([a.ravel() for a, _ in tables])
    default = first[blocks.block]  # of what is not seen from a witness: any vector is a lower bound
    for v, z in witness.items():
        k, a = int(home[v]), int(actions[z])
        right[place[v] : place[v + 1]] = blocks.rewards[_rows(blocks, k), a]
        moves = sp.coo_array(blocks.transitions[a][_rows(blocks, k)])
        shows = blocks.observations[a].toarray()
        for o in range(shows.shape[1]):
            then = default.copy()
            if chosen[a][z, o] >= 0:
                then[blocks.block == home[chosen[a][z, o]]] = chosen[a][z, o]
            data.append(moves.data * shows[moves.col, o])
            lines.append(place[v] + moves.row)
            columns.append((place[then] + np.arange(len(then)) - blocks.first[blocks.block])[moves.col])
    size = int(place[-1])
    entries = np.concatenate(data), (np.concatenate(lines), np.concatenate(columns))
    ahead = sp.csc_array(sp.coo_array(entries, shape=(size, size)))
    system = sp.csc_array(sp.eye_array(size) - blocks.discount * ahead)
    values = spsolve(system, right)
    values -= np.abs(system @ values - right).max() / (1 - blocks.discount)
    return [(int(home[v]), values[place[v] : place[v + 1]], int(actions[z])) for v, z in witness.items()]


def _rows(blocks: Blocks, k: int) -> slice:
    return slice(int(blocks.first[k]), int(blocks.first[k + 1]))
