"""How good a policy is, apart from training: exactly where the world is known, else by episodes of its own."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from credo.core.errors import DataError
from credo.decide.agents.alias_tables import start_of
from credo.decide.mdp import MDP, solve
from credo.decide.mdp.bellman import DIRECT, direct

LONGEST = 10_000
"""Steps after which an episode of an evaluation is broken off."""


class Known:
    """Values of policies in a known world, averaged over where episodes begin."""

    def __init__(self, world: MDP, gamma: float) -> None:
        self.world = world if world.discount == gamma else world.altered(world.rewards, gamma)
        self.where, self.chance = start_of(world)

    def scores(self, policies: Int[np.ndarray, "g s"]) -> Float[np.ndarray, " g"]:
        """V^π of the start; minus infinity where a policy without discount never ends."""
        distinct, which = np.unique(policies, axis=0, return_inverse=True)
        s = self.world.shape[0]
        if self.world.discount < 1 and s <= DIRECT:
            most = max(1, 20_000 // s)
            parts = [self._together(distinct[i : i + most]) for i in range(0, len(distinct), most)]
            return np.concatenate(parts)[which.ravel()]
        return np.array([self._alone(policy) for policy in distinct])[which.ravel()]

    def _together(self, policies: Int[np.ndarray, "g s"]) -> Float[np.ndarray, " g"]:
        """One sparse system for all."""
        s, a = self.world.shape
        rows = np.arange(s) * a + policies
        step = sp.block_diag([self.world.matrix[row] for row in rows], format="csr")
        value = direct(step, self.world.rewards.ravel()[rows.ravel()], self.world.discount)
        return value.reshape(-1, s)[:, self.where] @ self.chance

    def _alone(self, policy: Int[np.ndarray, " s"]) -> float:
        try:
            return float(self.world.evaluate(policy)[self.where] @ self.chance)
        except DataError:
            return -np.inf

    def optimum(self) -> float | None:
        """V* of the start; None where the world has no such value."""
        try:
            return float(solve(self.world).value[self.where] @ self.chance)
        except DataError:
            return None

    def gain(self) -> float | None:
        """The best reward per step in the long run, for small worlds without ends where the start does not matter."""
        if self.world.has_ends or self.world.shape[0] > DIRECT:
            return None
        try:
            return float(solve(self.world, criterion="average").gain)
        except DataError:
            return None


class Episodes:
    """Mean discounted returns of episodes in a copy of an environment whose probabilities are not known."""

    def __init__(self, env: Any, gamma: float, episodes: int, seed: int) -> None:
        self.env, self.gamma, self.episodes, self.seed = env, gamma, episodes, seed

    def scores(self, policies: Int[np.ndarray, "g s"]) -> Float[np.ndarray, " g"]:
        """The same seeds for every policy: their differences are less noisy than they are."""
        return np.array([self._score(policy.tolist()) for policy in policies])

    def _score(self, policy: list[int]) -> float:
        total = 0.0
        for episode in range(self.episodes):
            state, _ = self.env.reset(seed=self.seed * 1_000_003 + episode)
            weight = 1.0
            for _ in range(LONGEST):
                state, reward, done, cut, _ = self.env.step(policy[state])
                total += weight * float(reward)
                weight *= self.gamma
                if done or cut:
                    break
        return total / self.episodes

    def optimum(self) -> None:
        """Not known."""

    def gain(self) -> None:
        """Not known."""
