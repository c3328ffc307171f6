"""Worlds from functions and from the tables of gymnasium environments."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from credo.core.errors import DataError
from credo.decide.mdp.model import MDP


def from_function(states: Iterable[Any], actions: Iterable[Any], step: Callable[[Any, Any], Any], discount: Any) -> MDP:
    """Asks `step` about every state and action."""
    names, moves = list(states), list(actions)
    number = {state: i for i, state in enumerate(names)}
    if len(number) != len(names):
        raise DataError("states must be distinct")

    def outcomes(i: int, k: int) -> Iterable[tuple[float, int, float, bool]]:
        for outcome in step(names[i], moves[k]):
            prob, state, reward, *done = outcome
            over = bool(done and done[0])
            if state not in number and not over:
                raise DataError(f"step({names[i]!r}, {moves[k]!r}) leads to {state!r}, which is not among the states")
            yield float(prob), number.get(state, -1), float(reward), over

    return _collect(len(names), len(moves), outcomes, discount, states=names, actions=moves)


def from_gymnasium(env: Any, discount: Any) -> MDP:
    """Reads `env.unwrapped.P[s][a] = [(probability, s', reward, done), …]`."""
    import gymnasium

    try:
        made = gymnasium.make(env) if isinstance(env, str) else env
    except gymnasium.error.Error as error:
        raise DataError(f"gymnasium cannot make {env!r}: {error}") from None
    try:
        bare: Any = getattr(made, "unwrapped", made)
        name = getattr(getattr(made, "spec", None), "id", type(bare).__name__)
        for what in ("observation_space", "action_space"):
            space = getattr(bare, what, None)
            if not isinstance(space, gymnasium.spaces.Discrete):
                raise DataError(
                    f"the {what} of {name} is {space}, which is not discrete; an MDP has finitely many states and "
                    "actions: divide it into cells, or learn from its steps with an agent"
                )
        table = getattr(bare, "P", None)
        if table is None:
            raise DataError(f"{name} has no table of probabilities (.unwrapped.P); learn from its steps with an agent")
        s, a = int(bare.observation_space.n), int(bare.action_space.n)

        def outcomes(i: int, k: int) -> Iterable[tuple[float, int, float, bool]]:
            return ((float(p), int(j), float(r), bool(done)) for p, j, r, done in table[i][k])

        start = getattr(bare, "initial_state_distrib", None)
        return _collect(s, a, outcomes, discount, start=None if start is None else np.asarray(start, dtype=float))
    finally:
        if isinstance(env, str):
            made.close()


def _collect(
    s: int, a: int, outcomes: Callable[[int, int], Iterable[tuple[float, int, float, bool]]], discount: Any, **more: Any
) -> MDP:
    """Outcomes that end the episode pay, and lead nowhere."""
    row, column, prob = [], [], []
    rewards, ends = np.zeros((s, a)), np.zeros((s, a))
    for i in range(s):
        for k in range(a):
            for p, j, r, over in outcomes(i, k):
                if not np.isfinite(p) or p < 0:
                    raise DataError(f"state {i}, action {k} has an outcome of probability {p}; it must be ≥ 0")
                rewards[i, k] += p * r
                if over:
                    ends[i, k] += p
                else:
                    row.append(i * a + k)
                    column.append(j)
                    prob.append(p)
    matrix = sp.csr_array((prob, (row, column)), shape=(s * a, s), dtype=float)
    # Where every action ends the episode and pays nothing, it is over.
    terminal = (np.abs(ends - 1) <= 1e-12).all(axis=1) & (rewards == 0).all(axis=1)
    return MDP(matrix, rewards, discount, ends=ends, terminal=terminal, **more)
