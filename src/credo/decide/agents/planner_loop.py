"""The course of agents that plan, in a world or an environment, one experiment at a time."""

from typing import Any

import numpy as np

from credo.core.errors import DataError
from credo.decide.agents.engine import COUNTERS, stream
from credo.decide.agents.environments import BLOCK, Source
from credo.decide.agents.planning import LARGEST, Planner, best_values
from credo.decide.agents.trajectories import Walk


class PlannerLoop:
    """One experiment. All that it needs to go on is in its state; in an environment a new episode is begun."""

    def __init__(
        self, agent: Planner, source: Source, gamma: float, horizon: int | None, seed: int, number: int
    ) -> None:
        if gamma == 1:
            raise DataError(f"{type(agent).__name__} plans with a discount below 1, found 1")
        if source.states * source.actions * (source.states + 1) > LARGEST:
            raise DataError(
                f"a model of {source.states:,} states and {source.actions} actions does not fit; take QLearning or Dyna"
            )
        self.agent, self.gamma, self.seed, self.number = agent, gamma, seed, number
        self.shape = (source.states, source.actions)
        self.walk = Walk(source, seed, number, horizon)
        self.stale = agent.stale(*self.shape, gamma)
        self.in_world = source.env is None

    def begin(self) -> dict[str, np.ndarray]:
        """Before the first step; the first plan is made before anything was seen."""
        s, a = self.shape
        self.walk.enter(0)
        state = {
            "table": np.zeros((1, s, 2 * a)),
            "counts": np.zeros((1, s, a, s + 1)),
            "sums": np.zeros((1, s, a)),
            "marked": np.zeros((1, s, a)),
            "since": np.zeros(1),
            "length": np.zeros(1),
            "plans": np.zeros(1),
            "s": np.full(1, self.walk.s),
            "age": np.zeros(1, int),
            **{name: np.full(1, float(name == "weight")) for name in COUNTERS},
        }
        self._plan(state)
        return state

    def enter(self, state: dict[str, np.ndarray], t: int) -> None:
        """Goes on where the state says."""
        self.walk.s, self.walk.age = int(state["s"][0]), int(state["age"][0])
        if not self.in_world:
            self.walk.enter(t)
            state["return_now"], state["weight"] = np.zeros(1), np.ones(1)

    def advance(self, state: dict[str, np.ndarray], begin: int, end: int) -> dict[str, np.ndarray]:
        """Steps begin … end - 1."""
        state = {name: values.copy() for name, values in state.items()}
        for block in range(begin // BLOCK, -(-end // BLOCK)):
            draws = stream(self.seed, self.number, block).random((BLOCK, 3))
            low, high = max(begin - block * BLOCK, 0), min(end - block * BLOCK, BLOCK)
            self._steps(draws[low:high].tolist(), block * BLOCK + low, state)
        state["s"][0], state["age"][0] = self.walk.s, self.walk.age
        return state

    def _plan(self, state: dict[str, np.ndarray]) -> None:
        a = self.shape[1]
        number = int(state["plans"][0])
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, self.number, number, 3]))
        prob, rewards = self.agent.model(state["counts"][0], state["sums"][0], self.gamma, rng)
        table = state["table"][0]
        table[:, :a] = best_values(prob, rewards, self.gamma, np.argmax(table[:, :a], axis=1))
        state["marked"][0] = table[:, a:]
        state["plans"][0] += 1
        state["length"][0], state["since"][0] = state["since"][0] + 1, 0

    def _steps(self, draws: list[Any], begin: int, state: dict[str, np.ndarray]) -> None:
        s, a = self.shape
        table, counts, sums = state["table"][0], state["counts"][0], state["sums"][0]
        choose, step, stale, gamma = self.agent.acting.chooser(), self.walk.step, self.stale, self.gamma
        q, n, marked = table[:, :a].tolist(), table[:, a:].astype(int).tolist(), state["marked"][0].tolist()
        now, weight, returns, episodes, rewards = (float(state[name][0]) for name in COUNTERS)
        since, length = int(state["since"][0]), int(state["length"][0])
        for t, u in enumerate(draws, begin):
            at = self.walk.s
            k = choose(q[at], n[at], u[0], t)
            reward, following, done, cut = step(k, u[1], u[2])
            counts[at, k, s if done else following] += 1
            sums[at, k] += reward
            n[at][k] += 1
            since += 1
            rewards += reward
            now += weight * reward
            weight *= gamma
            over = done or cut
            if over:
                returns, episodes = returns + now, episodes + 1
                now, weight = 0.0, 1.0
            if stale(n[at][k], marked[at][k], since, length, over):
                table[:, a:] = n
                state["since"][0] = since
                self._plan(state)
                q, marked = table[:, :a].tolist(), state["marked"][0].tolist()
                since, length = 0, int(state["length"][0])
        table[:, a:] = n
        state["since"][0] = since
        for name, value in zip(COUNTERS, (now, weight, returns, episodes, rewards), strict=True):
            state[name][0] = value
