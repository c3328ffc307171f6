"""Episodes of a policy in a known world."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core.errors import DataError


class Paths(NamedTuple):
    """Simulated episodes. After an episode has ended its states and actions are -1 and its rewards 0.

    A terminal state that is entered is reported; an end inside an action, as gymnasium's tables have it, is no state.
    """

    states: Int[np.ndarray, "paths n_and_1"]
    actions: Int[np.ndarray, "paths n"]
    rewards: Float[np.ndarray, "paths n"]
    """The expected rewards r(s, a) of what was done."""
    ended: Bool[np.ndarray, " paths"]

    def returns(self, discount: Any) -> Float[np.ndarray, " paths"]:
        """Σₜ γᵗ rₜ of each episode."""
        return self.rewards @ float(discount) ** np.arange(self.rewards.shape[1])


def simulate(world: Any, policy: np.ndarray, n: int, seed: int, start: np.ndarray, paths: int) -> Paths:
    """Draws all episodes at once, a step at a time."""
    for name, count in (("n", n), ("paths", paths)):
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise DataError(f"{name} must be a whole number ≥ 1, found {count!r}")
    rng = np.random.default_rng(seed)
    a = world.shape[1]
    total = np.cumsum(world.probs)
    before = np.concatenate([[0.0], total])[world.indptr]
    states = np.full((paths, n + 1), -1)
    actions = np.full((paths, n), -1)
    rewards = np.zeros((paths, n))
    states[:, 0] = rng.choice(len(start), size=paths, p=start)
    cumulative = np.cumsum(policy, axis=1) if policy.ndim == 2 else None
    for t in range(n):
        alive = np.flatnonzero(states[:, t] >= 0)
        alive = alive[~world.terminal[states[alive, t]]]
        if not len(alive):
            break
        now, u, w = states[alive, t], rng.random(len(alive)), rng.random(len(alive))
        chosen = policy[now] if cumulative is None else (w[:, None] >= cumulative[now]).sum(axis=1).clip(max=a - 1)
        row = now * a + chosen
        actions[alive, t], rewards[alive, t] = chosen, world.rewards[now, chosen]
        going = u >= world.ends[now, chosen]
        level = before[row] + (u - world.ends[now, chosen])
        entry = np.searchsorted(total, level, side="right")
        entry = np.clip(entry, world.indptr[row], np.maximum(world.indptr[row + 1] - 1, world.indptr[row]))
        states[alive[going], t + 1] = world.indices[entry[going]]
    last = np.where((states >= 0).any(axis=1), states.max(axis=1), -1)
    inside = states[:, -1]
    ended = (inside < 0) | world.terminal[np.where(inside < 0, last, inside)]
    return Paths(states, actions, rewards, ended)
