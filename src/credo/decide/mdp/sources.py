"""Worlds from functions, from the tables of gymnasium environments, and gridworlds from drawings.

    ####    '#' wall     '.' or ' ' floor     'S' floor where the episode begins
    #SG#    'G' ends the episode and pays `goal`     'X' ends it and pays `trap`
    ####    '1' … '9' ends it and pays so much

An action moves up, right, down or left; with probability `slip` it goes to one of the two sides instead. Walls and
the edge hold: the agent stays. Entering a cell pays `step_reward`, and the prize of a final cell besides. What all
lines are indented by is not part of the drawing.
"""

import textwrap
from collections.abc import Callable, Hashable, Iterable
from typing import Any, SupportsFloat

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from credo.core.errors import DataError
from credo.decide.mdp.model import MDP, Names, Step
from credo.decide.mdp.outcomes import END, Outcomes

ACTIONS = ("up", "right", "down", "left")
MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])
SIGNS = "#. SGX123456789"
Outcome = tuple[float, int, float, bool]
"""Probability, successor, reward, whether the episode is over."""
Lister = Callable[[int, int], Iterable[Outcome]]


def from_function(states: Names, actions: Names, step: Step, discount: SupportsFloat) -> MDP:
    """Asks `step` about every state and action."""
    if not (isinstance(states, Iterable) and isinstance(actions, Iterable) and callable(step)):
        raise DataError("from_function takes the states, the actions and a function step(state, action)")
    names, moves = list(states), list(actions)
    if not names or not moves or not all(isinstance(each, Hashable) for each in (*names, *moves)):
        raise DataError("states and actions must be lists of at least one name each: numbers, text or tuples")
    number = {state: i for i, state in enumerate(names)}
    if len(number) != len(names):
        raise DataError("states must be distinct")

    def outcomes(i: int, k: int) -> Iterable[Outcome]:
        for outcome in step(names[i], moves[k]):
            prob, state, reward, *done = outcome
            over = bool(done and done[0])
            if state not in number and not over:
                raise DataError(f"step({names[i]!r}, {moves[k]!r}) leads to {state!r}, which is not among the states")
            yield float(prob), number.get(state, -1), float(reward), over

    return _collect(len(names), len(moves), outcomes, discount, states=names, actions=moves)


def from_gymnasium(env: Any, discount: SupportsFloat) -> MDP:
    """Reads `env.unwrapped.P[s][a] = [(probability, s', reward, done), …]`."""
    from gymnasium.spaces import Discrete

    opened = made(env) if isinstance(env, str) else env
    try:
        bare: Any = getattr(opened, "unwrapped", opened)
        name = getattr(getattr(opened, "spec", None), "id", type(bare).__name__)
        for what in ("observation_space", "action_space"):
            space = getattr(bare, what, None)
            if not isinstance(space, Discrete):
                raise DataError(
                    f"the {what} of {name} is {space}, which is not discrete; an MDP has finitely many states and "
                    "actions: divide it into cells, or learn from its steps with an agent"
                )
        table = getattr(bare, "P", None)
        if table is None:
            raise DataError(f"{name} has no table of probabilities (.unwrapped.P); learn from its steps with an agent")
        s, a = int(bare.observation_space.n), int(bare.action_space.n)

        def outcomes(i: int, k: int) -> Iterable[Outcome]:
            return ((float(p), int(j), float(r), bool(done)) for p, j, r, done in table[i][k])

        start = getattr(bare, "initial_state_distrib", None)
        return _collect(s, a, outcomes, discount, start=None if start is None else np.asarray(start, dtype=float))
    finally:
        if isinstance(env, str):
            opened.close()


def made(name: str) -> Any:
    """Gymnasium's environment of that name."""
    import gymnasium

    try:
        return gymnasium.make(name)
    except gymnasium.error.Error as error:
        raise DataError(f"gymnasium cannot make {name!r}: {error}") from None


def _collect(s: int, a: int, outcomes: Lister, discount: SupportsFloat, **more: Any) -> MDP:
    """Outcomes that end the episode pay, and lead nowhere."""
    found: list[tuple[int, int, float, float]] = []
    for i in range(s):
        for k in range(a):
            for p, j, r, over in outcomes(i, k):
                if not np.isfinite(p) or p < 0:
                    raise DataError(f"state {i}, action {k} has an outcome of probability {p}; it must be ≥ 0")
                found.append((i * a + k, END if over else j, p, r))
    row, following, prob, paid = (np.array(column) for column in zip(*found, strict=True))
    known, over = Outcomes(row, following, prob, paid), following == END
    rewards, ends = (np.bincount(row, w, s * a).reshape(s, a) for w in (prob * paid, np.where(over, prob, 0.0)))
    matrix = sp.csr_array((prob[~over], (row[~over], following[~over])), shape=(s * a, s), dtype=float)
    # Where every action ends the episode and pays nothing, it is over.
    terminal = (np.abs(ends - 1) <= 1e-12).all(axis=1) & (rewards == 0).all(axis=1)
    return MDP(matrix, rewards, discount, ends=ends, terminal=terminal, outcomes=known, **more)


def from_drawing(text: str, slip: float, step_reward: float, discount: SupportsFloat, goal: float, trap: float) -> MDP:
    """The world of a drawing; its states are the cells that are not walls, in reading order."""
    if not isinstance(text, str):
        raise DataError(f"a drawing is text such as 'S..G', found {type(text).__name__}")
    signs = _signs(text)
    if not 0 <= slip <= 1:
        raise DataError(f"slip must be a probability, found {slip}")
    free = signs != "#"
    cells = np.argwhere(free)
    number = np.full(signs.shape, -1)
    number[free] = np.arange(len(cells))
    sign = signs[free]
    prize = np.where(sign == "G", goal, np.where(sign == "X", trap, 0.0))
    digit = np.char.isdigit(sign)
    prize[digit] = sign[digit].astype(float)
    final = digit | (sign == "G") | (sign == "X")
    following = np.stack([_follow(number, cells, move) for move in MOVES], axis=1)
    s, a = following.shape
    k = np.arange(a)
    index = np.stack([following, following[:, (k + 1) % a], following[:, (k - 1) % a]], axis=2)
    prob = np.broadcast_to([1 - slip, slip / 2, slip / 2], (s, a, 3))
    rewards = step_reward + (prob * prize[index]).sum(axis=2)
    prized = np.flatnonzero((prize[index] != 0).any(axis=2))
    there = index.reshape(s * a, 3)[prized]
    chances = np.tile(prob[0, 0], len(prized))
    paid = Outcomes(np.repeat(prized, 3), there.ravel(), chances, step_reward + prize[there].ravel())
    matrix = sp.csr_array((prob.ravel(), index.ravel().astype(np.int32), np.arange(0, 3 * s * a + 1, 3)), (s * a, s))
    matrix.sum_duplicates()
    begin = sign == "S"
    start = begin / begin.sum() if begin.any() else None
    names = map(tuple, cells.tolist())
    known: dict[str, Any] = {"actions": ACTIONS, "cells": cells, "states": names, "outcomes": paid}
    return MDP(matrix, rewards, discount, terminal=final, start=start, **known)


def _signs(text: str) -> np.ndarray:
    lines = textwrap.dedent(text).strip("\n").splitlines()
    if not lines or not any(line.strip() for line in lines):
        raise DataError("the drawing is empty; draw cells such as 'S..G' with '#' for walls")
    width = max(map(len, lines))
    signs = np.array([list(line.ljust(width, "#")) for line in lines])
    unknown = np.argwhere(~np.isin(signs, list(SIGNS)))
    if len(unknown):
        i, j = unknown[0]
        found = f"{str(signs[i, j])!r} in line {i + 1}, column {j + 1}"
        raise DataError(f"the drawing has {found}; known are {' '.join(SIGNS)!r}")
    if (signs == "#").all():
        raise DataError("the drawing has walls only; draw floor as '.'")
    return signs


def _follow(number: Int[np.ndarray, "h w"], cells: Int[np.ndarray, "s 2"], move: Int[np.ndarray, "2"]) -> np.ndarray:
    """The cell that a move leads to, or the same where something is in its way."""
    target = np.clip(cells + move, 0, np.array(number.shape) - 1)
    found = number[target[:, 0], target[:, 1]]
    return np.where(found < 0, np.arange(len(cells)), found)
