"""Episodes of a policy in a known world."""

from typing import Any, NamedTuple, SupportsFloat

import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core.checks import check_count
from credo.decide.mdp.outcomes import of_world


class Paths(NamedTuple):
    """Simulated episodes. After an episode has ended its states and actions are -1 and its rewards 0.

    A terminal state that is entered is reported; an end inside an action, as gymnasium's tables have it, is no state.
    """

    states: Int[np.ndarray, "n steps_and_1"]
    actions: Int[np.ndarray, "n steps"]
    rewards: Float[np.ndarray, "n steps"]
    """What was paid."""
    ended: Bool[np.ndarray, " n"]

    def returns(self, discount: SupportsFloat) -> Float[np.ndarray, " n"]:
        """Σₜ γᵗ rₜ of each episode."""
        return self.rewards @ float(discount) ** np.arange(self.rewards.shape[1])


def simulate(world: Any, policy: np.ndarray, steps: int, n: int, start: np.ndarray, seed: int) -> Paths:
    """Of an MDP: draws all episodes at once, a step at a time."""
    check_count(steps, "steps")
    check_count(n, "n")
    check_count(seed, "seed", 0)
    rng = np.random.default_rng(seed)
    a, outcomes = world.shape[1], of_world(world)
    indptr, total = outcomes.indptr(world.rewards.size), np.cumsum(outcomes.probs)
    before = np.concatenate([[0.0], total])[indptr]
    states = np.full((n, steps + 1), -1)
    actions = np.full((n, steps), -1)
    rewards = np.zeros((n, steps))
    states[:, 0] = rng.choice(len(start), size=n, p=start)
    cumulative = np.cumsum(policy, axis=1) if policy.ndim == 2 else None
    for t in range(steps):
        alive = np.flatnonzero(states[:, t] >= 0)
        alive = alive[~world.terminal[states[alive, t]]]
        if not len(alive):
            break
        now, u, w = states[alive, t], rng.random(len(alive)), rng.random(len(alive))
        chosen = policy[now] if cumulative is None else (w[:, None] >= cumulative[now]).sum(axis=1).clip(max=a - 1)
        row = now * a + chosen
        entry = np.searchsorted(total, before[row] + u * (before[row + 1] - before[row]), side="right")
        entry = np.clip(entry, indptr[row], indptr[row + 1] - 1)
        actions[alive, t], rewards[alive, t] = chosen, outcomes.rewards[entry]
        states[alive, t + 1] = outcomes.following[entry]
    last = states[:, -1]
    return Paths(states, actions, rewards, (last < 0) | world.terminal[last])
