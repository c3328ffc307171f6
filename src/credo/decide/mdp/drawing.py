"""Gridworlds from drawings.

    ####    '#' wall     '.' or ' ' floor     'S' floor where the episode begins
    #SG#    'G' ends the episode and pays `goal`     'X' ends it and pays `trap`
    ####    '1' … '9' ends it and pays so much

An action moves up, right, down or left; with probability `slip` it goes to one of the two sides instead. Walls and
the edge hold: the agent stays. Entering a cell pays `step_reward`, and the prize of a final cell besides. What all
lines are indented by is not part of the drawing.
"""

import textwrap
from typing import Any

import numpy as np
import scipy.sparse as sp

from credo.core.errors import DataError
from credo.decide.mdp.model import MDP

ACTIONS = ("up", "right", "down", "left")
MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])
SIGNS = "#. SGX123456789"


def from_drawing(text: str, slip: Any, step_reward: Any, discount: Any, goal: Any, trap: Any) -> MDP:
    """The world of a drawing; its states are the cells that are not walls, in reading order."""
    signs = _signs(text)
    if not 0 <= float(slip) <= 1:
        raise DataError(f"slip must be a probability, found {slip}")
    free = signs != "#"
    cells = np.argwhere(free)
    number = np.full(signs.shape, -1)
    number[free] = np.arange(len(cells))
    sign = signs[free]
    prize = np.where(sign == "G", float(goal), np.where(sign == "X", float(trap), 0.0))
    digit = np.char.isdigit(sign)
    prize[digit] = sign[digit].astype(float)
    final = digit | (sign == "G") | (sign == "X")
    following = np.stack([_follow(number, cells, move) for move in MOVES], axis=1)
    s, a = following.shape
    k = np.arange(a)
    index = np.stack([following, following[:, (k + 1) % a], following[:, (k - 1) % a]], axis=2)
    prob = np.broadcast_to([1 - float(slip), float(slip) / 2, float(slip) / 2], (s, a, 3))
    rewards = float(step_reward) + (prob * prize[index]).sum(axis=2)
    matrix = sp.csr_array((prob.ravel(), index.ravel().astype(np.int32), np.arange(0, 3 * s * a + 1, 3)), (s * a, s))
    matrix.sum_duplicates()
    begin = sign == "S"
    start = begin / begin.sum() if begin.any() else None
    return MDP(
        matrix,
        rewards,
        discount,
        terminal=final,
        start=start,
        actions=ACTIONS,
        cells=cells,
        states=map(tuple, cells.tolist()),
    )


def _signs(text: str) -> np.ndarray:
    lines = textwrap.dedent(text).strip("\n").splitlines()
    if not lines or not any(line.strip() for line in lines):
        raise DataError("the drawing is empty; draw cells such as 'S..G' with '#' for walls")
    width = max(map(len, lines))
    signs = np.array([list(line.ljust(width, "#")) for line in lines])
    unknown = np.argwhere(~np.isin(signs, list(SIGNS)))
    if len(unknown):
        i, j = unknown[0]
        raise DataError(
            f"the drawing has {str(signs[i, j])!r} in line {i + 1}, column {j + 1}; known are {' '.join(SIGNS)!r}"
        )
    if (signs == "#").all():
        raise DataError("the drawing has walls only; draw floor as '.'")
    return signs


def _follow(number: np.ndarray, cells: np.ndarray, move: np.ndarray) -> np.ndarray:
    """The cell that a move leads to, or the same where something is in its way."""
    target = np.clip(cells + move, 0, np.array(number.shape) - 1)
    found = number[target[:, 0], target[:, 1]]
    return np.where(found < 0, np.arange(len(cells)), found)
