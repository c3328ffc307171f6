"""What an agent has learned, how it got there, and what it needs to go on."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from credo.core.errors import DataError
from credo.decide.agents.control import Agent


class Run(eqx.Module):
    """The experiments of one agent: values, policies, learning curves; the first axis is the seed.

    `scores` are values of the greedy policies at `steps`, from evaluations apart from training (NaN after learning from
    records, which are no place to act in); `returns`, `episodes` and `rewards` are sums over the training up to then.
    """

    agent: Agent
    q: Float[np.ndarray, "g s a"]
    visits: Float[np.ndarray, "g s a"]
    steps: Int[np.ndarray, " e"]
    scores: Float[np.ndarray, "g e"]
    returns: Float[np.ndarray, "g e"]
    """Discounted returns of the episodes that are over, added up."""
    episodes: Float[np.ndarray, "g e"]
    rewards: Float[np.ndarray, "g e"]
    optimum: float | None
    """The value of the best policy, averaged over where episodes begin."""
    gain: float | None
    """The best reward per step in the long run, where nothing ends."""
    gamma: float
    seed: int
    horizon: int | None
    state: dict[str, np.ndarray]

    @property
    def policy(self) -> Int[np.ndarray, "g s"]:
        """The greedy action in each state, for each seed; the first of several."""
        return np.argmax(self.q, axis=2)

    @property
    def value(self) -> Float[np.ndarray, "g s"]:
        """maxₐ Q(s, a)."""
        return self.q.max(axis=2)

    @property
    def seeds(self) -> int:
        """How many experiments."""
        return len(self.q)

    @property
    def done(self) -> int:
        """Steps made in each experiment."""
        return int(self.steps[-1]) if len(self.steps) else 0

    @property
    def shortfall(self) -> Float[np.ndarray, "g e"]:
        """V* - V^π of the evaluated policies: what the policy learned so far lacks."""
        if self.optimum is None:
            raise DataError("the best value is not known: the world's probabilities are not, so there is no shortfall")
        return self.optimum - self.scores

    @property
    def regret(self) -> Float[np.ndarray, "g e"]:
        """What training has cost: k·V* less the returns of its k episodes, or t·gain less the rewards of its t steps.

        The second where nothing ends and nothing is broken off. Returns are noisy: single regrets may fall. Only
        episodes that are over count: the one that is under way adds to neither side until it ends or is broken off, and
        then what it would still have earned counts as lost.
        """
        if self.gain is not None and self.horizon is None:
            return self.gain * self.steps - self.rewards
        if self.optimum is None:
            raise DataError("the best value is not known: the world's probabilities are not, so there is no regret")
        return self.episodes * self.optimum - self.returns

    def resume(self, source: Any, steps: int, **options: Any) -> "Run":
        """The run after more steps: on an MDP just as if it had not been interrupted."""
        if not self.state:
            raise DataError("a run from records does not go on; learn from all of them at once")
        return self.agent.learn(source, steps, resume=self, **options)

    def __str__(self) -> str:
        made = f"{type(self.agent).__name__}: {self.seeds} × {self.done:,} steps"
        if np.isnan(self.scores[:, -1]).any():
            return f"{made} of records"
        last = np.quantile(self.scores[:, -1], [0.25, 0.5, 0.75])
        best = "" if self.optimum is None else f" of {self.optimum:.4g}"
        return f"{made}, value {last[1]:.4g}{best} (quartiles {last[0]:.4g} to {last[2]:.4g})"
