"""`acquire`: where to look next, to learn most from an outcome.

The default score is `MutualInformation`: of numbers ½ log(1 + σ²/n) with σ² the ignorance and n the noise at x, so that
where noise varies it is their ratio that counts; of classes, the information about the parameters (BALD). Scores of
classes that look at the outcome's doubt alone:

    Uncertainty   1 - maxₖ pₖ              Lewis & Gale (1994)
    Margin        1 - (p₍₁₎ - p₍₂₎)        Scheffer, Decomain & Wrobel (2001)
    MaxEntropy    -Σ pₖ log pₖ             in `acquisition`

A batch is chosen greedily, so that its members do not say the same thing:

- by information, where the belief knows how its function values covary: by their joint information (`gain`), exactly
- by another score, for `GP` and `Linear`: each choice is believed to come out at its mean (`Believer`) before the next
- by the scores of other beliefs, of classes: each choice maximizes score × distance to those before it, in units of
  the pool's standard deviations, the farthest-first traversal of Gonzalez (1985) weighted by the score

Settles (2012), "Active learning"; Houlsby et al. (2011), "Bayesian active learning for classification".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from credo.core.abilities import HasCovariance, able
from credo.core.arrays import Array, Numeric, namespace
from credo.core.checks import check_count, check_table
from credo.core.errors import DataError
from credo.decide.acquisition.base import Acquisition
from credo.decide.acquisition.checks import Beliefs, Predicts, check_acquisition, is_nothing, single
from credo.decide.acquisition.information import MutualInformation
from credo.decide.acquisition.pending import Believer
from credo.decide.joint_information import choose, joint_doubt, knows_covariance
from credo.decide.losses import classes
from credo.decide.maximize import Box, Over, as_box, maximize
from credo.decide.space import Space
from credo.decide.space.parameters import Value

Table = Float[np.ndarray, "_ d"]
Waiting = Sequence[Any] | Array | None
"""Inputs, or points of a space."""
Picked = tuple[np.ndarray, np.ndarray]
"""Rows of a table by their numbers, and their scores."""
POINTS = 2048
"""Quasi-random points of a space among which batches of classes' scores are chosen."""


class Uncertainty(Acquisition):
    """1 - maxₖ pₖ: the probability that the most probable class is wrong. Lewis & Gale (1994)."""

    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The score of each row."""
        return 1 - classes(single(belief).predict(x), "Uncertainty").probs.max(-1)


class Margin(Acquisition):
    """1 - (p₍₁₎ - p₍₂₎): how close the two most probable classes are. Scheffer, Decomain & Wrobel (2001)."""

    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The score of each row."""
        probs = classes(single(belief).predict(x), "Margin").probs
        ordered = namespace(probs).sort(probs, axis=-1)
        return 1 - (ordered[..., -1] - ordered[..., -2])


@dataclass(frozen=True)
class Acquired:
    """What to look at next, in the order of choice."""

    index: Int[np.ndarray, " n"] | None
    """Rows of the pool; None where points of a space were chosen."""
    x: Float[np.ndarray, "n d"]
    """The inputs; for a space its encoded rows."""
    score: Float[np.ndarray, " n"]
    """The score of each when it was chosen: of a batch by information, what it adds to those before it."""
    points: list[dict[str, Value]] | None = None
    """The points of the space by name."""


def acquire(
    belief: Predicts,
    candidates: Numeric | Space,
    acquisition: Acquisition | None = None,
    n: int = 1,
    *,
    pending: Waiting = None,
    seed: int = 0,
) -> Acquired:
    """The n candidates whose outcomes are worth most to the belief now.

    Args:
        belief: any that predicts.
        candidates: a pool, shape (m, d); or a box, the tuple (lower, upper) of two vectors; or a `Space`, whose
            encoded rows the belief has been conditioned on.
        acquisition: the score; None is `MutualInformation`.
        n: how many, each taking account of those before it.
        pending: inputs whose outcomes are awaited, shape (p, d) (points of the space, for a space).
        seed: of scores that draw, and of the search in a space.
    """
    check_count(n, "n")
    check_count(seed, "seed", 0)
    if acquisition is not None:
        check_acquisition(acquisition)
    if isinstance(candidates, Space) or (isinstance(candidates, tuple) and len(candidates) == 2):
        return _from_space(belief, candidates, acquisition, int(n), pending, seed)
    table = np.asarray(check_table(candidates, "candidates", getattr(belief, "inputs", None)))
    if n > len(table):
        raise DataError(f"n must be at most the number of candidates, {len(table)}, found {n}")
    waiting = _waiting(pending, table.shape[1])
    index, score = from_pool(belief, table, acquisition or MutualInformation(), int(n), waiting, seed)
    return Acquired(index, table[index], score)


def from_pool(belief: Predicts, table: Table, acquisition: Acquisition, n: int, waiting: Table, seed: int) -> Picked:
    """n rows of the table and their scores."""
    if n == 1 and not len(waiting):
        score = scores(acquisition.prepared(belief, seed=seed), belief, table)
        best = np.asarray([int(np.argmax(score))])
        return best, score[best]
    if isinstance(acquisition, MutualInformation) and knows_covariance(belief, table):
        p = len(waiting)
        doubt = joint_doubt(belief, np.concatenate([waiting, table]))
        found = choose(doubt, n, after=range(p), among=range(p, p + len(table)))
        return found.chosen - p, found.gains
    if able(belief, HasCovariance):
        return _believing(belief, table, acquisition, n, waiting, seed)
    return spread(scores(acquisition.prepared(belief, seed=seed), belief, table), table, n, waiting)


def scores(acquisition: Acquisition, belief: Predicts, table: np.ndarray) -> np.ndarray:
    """The score of each row."""
    return np.asarray(acquisition(belief, table))


def spread(score: np.ndarray, table: np.ndarray, n: int, waiting: np.ndarray) -> Picked:
    """argmax s(i) · min_{j ∈ S} |x_i - x_j|, again and again: high scores far from each other.

    s is the score moved and scaled to [0, 1]; S begins with those that wait.
    """
    scale = np.maximum(table.std(axis=0), 1e-300)
    range_ = np.ptp(score)
    weight = (score - score.min()) / range_ if range_ > 0 else np.ones(len(score))
    distance = np.full(len(table), np.inf)
    for x in waiting:
        distance = np.minimum(distance, np.linalg.norm((table - x) / scale, axis=1))
    chosen: list[int] = []
    for _ in range(n):
        value = weight.copy() if np.isinf(distance).all() else weight * distance
        value[chosen] = -np.inf
        chosen.append(int(np.argmax(value)))
        distance = np.minimum(distance, np.linalg.norm((table - table[chosen[-1]]) / scale, axis=1))
    index = np.asarray(chosen, dtype=int)
    return index, score[index]


def _believing(belief: Predicts, table: Table, acquisition: Acquisition, n: int, waiting: Table, seed: int) -> Picked:
    """One after the other, those before believed to come out at their means."""
    index, values = list[int](), list[float]()
    for k in range(n):
        sofar = np.concatenate([waiting, table[index]]) if index else waiting
        score = scores(Believer(acquisition).prepared(belief, seed=seed + k, pending=sofar), belief, table).copy()
        score[index] = -np.inf
        index.append(int(np.argmax(score)))
        values.append(score[index[-1]])
    return np.asarray(index, dtype=int), np.asarray(values)


def _waiting(pending: Waiting, columns: int) -> np.ndarray:
    if is_nothing(pending):
        return np.empty((0, columns))
    return np.asarray(check_table(pending, "pending", columns))


def _from_space(
    belief: Predicts, over: Over, acquisition: Acquisition | None, n: int, pending: Waiting, seed: int
) -> Acquired:
    """By climbing the score, one point after the other; batches of classes from quasi-random points."""
    space = over if isinstance(over, Space) else None
    if isinstance(over, Space):
        place: Space | Box = over
        if pending is not None and not isinstance(pending, list | tuple):
            raise DataError(f"pending must be a list of points of the space, found {type(pending).__name__}")
        waiting = over.encode(pending or ())
    else:
        place = as_box(over)
        waiting = _waiting(pending, len(place.lower))
    kind = acquisition or MutualInformation()
    if (n > 1 or len(waiting)) and not able(belief, HasCovariance):
        table = place.sample_rows(POINTS, seed=seed)
        index, score = from_pool(belief, table, kind, n, waiting, seed)
        return _acquired(space, table[index], score)
    rows, values = waiting, list[float]()
    for k in range(n):
        ready = (Believer(kind) if len(rows) else kind).prepared(belief, seed=seed + k, pending=rows)
        found = maximize(ready, belief, over, avoid=rows if len(rows) else None, seed=seed + k)
        rows = np.concatenate([rows, found.x[None]])
        values.append(float(scores(ready, belief, found.x[None])[0]))
    return _acquired(space, rows[len(waiting) :], np.asarray(values))


def _acquired(space: Space | None, rows: np.ndarray, score: np.ndarray) -> Acquired:
    return Acquired(None, rows, score, None if space is None else space.decode(rows))
