"""Agents in environments whose steps are Python: gymnasium's, or any object with its `reset` and `step`.

Between two steps of the environment only lists and plain numbers are touched: a NumPy scalar costs more than all of an
update of Q-learning.
"""

import copy
from typing import Any, NamedTuple

import numpy as np

from credo.core.errors import DataError
from credo.decide.agents.control import OptimisticQ, QLearning, Tabular
from credo.decide.agents.engine import COUNTERS, stream
from credo.decide.agents.exploration import EpsilonGreedy, first_of
from credo.decide.agents.value_table import Grid
from credo.decide.mdp import MDP

BLOCK = 4096
"""Steps for which uniform numbers are drawn at a time."""


class Source(NamedTuple):
    """Where experience comes from."""

    states: int
    actions: int
    world: MDP | None
    """The probabilities, where they are known; agents do not see them."""
    env: Any
    """None for an MDP."""

    @property
    def reward_max(self) -> float | None:
        """The largest expected reward, where it is known."""
        return None if self.world is None else float(self.world.rewards[~self.world.terminal].max())

    @property
    def reward_min(self) -> float | None:
        """The least reward of an MDP, which pays what is expected; single rewards of environments may be below that."""
        return None if self.world is None or self.env is not None else float(self.world.rewards.min())

    def copy(self) -> Any:
        """Another environment of the same kind, for evaluations."""
        spec = getattr(self.env, "spec", None)
        if spec is None:
            return copy.deepcopy(self.env)
        import gymnasium

        return gymnasium.make(spec)


def open_source(source: Any) -> Source:
    """An MDP, or a discrete environment or its name."""
    if isinstance(source, MDP):
        if source.terminal.all():
            raise DataError("all states of the world are terminal: there is nothing to learn")
        return Source(*source.shape, source, None)
    env = source
    if isinstance(source, str):
        import gymnasium

        try:
            env = gymnasium.make(source)
        except gymnasium.error.Error as error:
            raise DataError(f"gymnasium cannot make {source!r}: {error}") from None
    if not (hasattr(env, "reset") and hasattr(env, "step")):
        raise DataError(f"agents learn from an MDP or a gymnasium environment, found {type(source).__name__}")
    states, actions = (_size(env, what) for what in ("observation_space", "action_space"))
    table = getattr(getattr(env, "unwrapped", env), "P", None)
    # The table's own discount is not looked at.
    return Source(states, actions, None if table is None else MDP.from_gymnasium(env, 0.99), env)


def _size(env: Any, what: str) -> int:
    space: Any = getattr(env, what, None)
    if not hasattr(space, "n") or not hasattr(space, "start"):
        raise DataError(
            f"the {what} of {type(getattr(env, 'unwrapped', env)).__name__} is {space}, which is not discrete; tabular "
            "agents need finitely many states and actions: divide it into cells with a wrapper"
        )
    if int(space.start) != 0:
        raise DataError(f"the {what} counts from {int(space.start)}; agents count from 0: subtract it with a wrapper")
    return int(space.n)


class Loop:
    """One experiment of a tabular agent in an environment."""

    def __init__(self, agent: Tabular, source: Source, gamma: float, horizon: int | None, seed: int, number: int):
        self.agent, self.source, self.gamma = agent, source, gamma
        self.seed, self.number = seed, number
        self.limit = horizon or float("inf")
        self.plain = type(agent) in (QLearning, OptimisticQ) and isinstance(agent.explore, EpsilonGreedy)

    def begin(self) -> dict[str, np.ndarray]:
        """The state before the first step."""
        grid = Grid(1, self.source.states, self.source.actions, self.agent.tables)
        table = np.zeros((1, grid.states, grid.width))
        table[:, :, : grid.tables * grid.actions] = self.agent.initial
        return {"table": table, **{name: np.full(1, float(name == "weight")) for name in COUNTERS}}

    def enter(self, state: dict[str, np.ndarray], t: int) -> None:
        """Begins an episode at time t, with the values of the state."""
        k, a = self.agent.tables, self.source.actions
        table = state["table"][0]
        self.tables = [table[:, i * a : (i + 1) * a].tolist() for i in range(k)]
        self.counts = table[:, k * a :].astype(int).tolist()
        self.acting = self.tables[0]
        if k > 1:
            self.acting = np.mean([table[:, i * a : (i + 1) * a] for i in range(k)], axis=0).tolist()
        self.choose = self.agent.explore.chooser()
        self.update = self.agent.updater(self.tables, self.acting, self.counts, self.gamma)
        fresh = np.random.SeedSequence([self.seed, self.number, t, 2]).generate_state(1)[0]
        s, _ = self.source.env.reset(seed=int(fresh))
        u = float(stream(self.seed, self.number, t, first=True).random(2)[1])
        self.now = (s, self.choose(self.acting[s], self.counts[s], u, t), t + self.limit - 1)
        state["return_now"], state["weight"] = np.zeros(1), np.ones(1)

    def advance(self, state: dict[str, np.ndarray], begin: int, end: int) -> dict[str, np.ndarray]:
        """Steps begin … end - 1."""
        totals = [float(state[name][0]) for name in COUNTERS]
        for block in range(begin // BLOCK, -(-end // BLOCK)):
            draws = stream(self.seed, self.number, block).random((BLOCK, self.agent.uniforms))
            low, high = max(begin - block * BLOCK, 0), min(end - block * BLOCK, BLOCK)
            if self.plain:
                self._plain_steps(draws[low:high, 0].tolist(), block * BLOCK + low, totals)
            else:
                self._steps(draws[low:high].tolist(), block * BLOCK + low, totals)
        table = np.concatenate([*(np.asarray(q) for q in self.tables), np.asarray(self.counts, dtype=float)], axis=1)
        return {"table": table[None], **{name: np.full(1, total) for name, total in zip(COUNTERS, totals, strict=True)}}

    def _plain_steps(self, draws: list[float], begin: int, totals: list[float]) -> None:
        """`_steps` for Q-learning with ε-greedy actions, written out: calls are most of what an agent costs."""
        step, reset, q, counts = self.source.env.step, self.source.env.reset, self.acting, self.counts
        epsilon_at, rate = self.agent.explore.epsilon.function(), self.agent.rate.function()  # type: ignore[attr-defined]
        gamma, limit, actions = self.gamma, self.limit, self.source.actions
        s, a, last = self.now
        now, weight, returns, episodes, rewards = totals
        for t, u in enumerate(draws, begin):
            row, epsilon = q[s], epsilon_at(t)
            if u < epsilon:
                a = min(int(u / epsilon * actions), actions - 1)
            else:
                top = max(row)
                a = row.index(top) if row.count(top) == 1 else first_of(row, top, (u - epsilon) / (1 - epsilon))
            s2, r, done, cut, _ = step(a)
            seen = counts[s]
            k = seen[a]
            seen[a] = k + 1
            row[a] += rate(k) * ((r if done else r + gamma * max(q[s2])) - row[a])
            rewards += r
            now += weight * r
            weight *= gamma
            s = s2
            if done or cut or t >= last:
                s = reset()[0]
                returns += now
                episodes += 1
                now, weight, last = 0.0, 1.0, t + limit
        self.now = (s, a, last)
        totals[:] = now, weight, returns, episodes, float(rewards)

    def _steps(self, draws: list[Any], begin: int, totals: list[float]) -> None:
        step, reset = self.source.env.step, self.source.env.reset
        choose, update, acting, counts = self.choose, self.update, self.acting, self.counts
        follows, gamma = self.agent.follows, self.gamma
        limit = self.limit
        s, a, last = self.now
        now, weight, returns, episodes, rewards = totals
        a2 = a
        for t, u in enumerate(draws, begin):
            if not follows:
                a = choose(acting[s], counts[s], u[0], t)
            s2, r, done, cut, _ = step(a)
            rewards += r
            now += weight * r
            if done or cut or t >= last:
                following = reset()[0]
                returns += now
                episodes += 1
                now, weight, last, cut = 0.0, 1.0, t + limit, not done
            else:
                following = s2
                weight *= gamma
            if follows:
                then = a2 = choose(acting[following], counts[following], u[0], t + 1)
                if cut:
                    a2 = choose(acting[s2], counts[s2], u[0], t + 1)
                update(s, a, r, s2, done, cut, a2, u, t)
                a = then
            else:
                update(s, a, r, s2, done, cut, a2, u, t)
            s = following
        self.now = (s, a, last)
        totals[:] = now, weight, returns, episodes, float(rewards)
