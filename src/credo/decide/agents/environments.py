"""Where agents walk a step at a time: known worlds, and environments with gymnasium's `reset` and `step`.

Between two steps of the environment only lists and plain numbers are touched: a NumPy scalar costs more than all of an
update of Q-learning.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from credo.core.errors import DataError
from credo.decide.agents.alias_tables import tabulate
from credo.decide.agents.control import Tabular
from credo.decide.agents.engine import COUNTERS, State, stream
from credo.decide.agents.value_table import TableShape
from credo.decide.mdp import MDP
from credo.decide.mdp.sources import made

BLOCK = 4096
"""Steps for which uniform numbers are drawn at a time."""


@runtime_checkable
class Environment(Protocol):
    """What agents ask of gymnasium's environments."""

    reset: Callable[..., tuple[Any, dict[str, Any]]]
    step: Callable[[Any], tuple[Any, Any, bool, bool, dict[str, Any]]]


@runtime_checkable
class Discrete(Protocol):
    """Gymnasium's spaces of n numbers from `start` on."""

    n: Any
    start: Any


class Source(NamedTuple):
    """Where experience comes from."""

    states: int
    actions: int
    world: MDP | None
    """The probabilities, where they are known; agents do not see them."""
    env: Environment | None
    """None for an MDP."""

    @property
    def reward_max(self) -> float | None:
        """The largest reward that can be paid, where it is known."""
        return None if self.world is None else self.world.reward_range[1]

    @property
    def reward_min(self) -> float | None:
        """The least reward that can be paid, where it is known."""
        return None if self.world is None else self.world.reward_range[0]

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
    env = made(source) if isinstance(source, str) else source
    if not isinstance(env, Environment):
        raise DataError(f"agents learn from an MDP or a gymnasium environment, found {type(source).__name__}")
    states, actions = (_size(env, what) for what in ("observation_space", "action_space"))
    table = getattr(getattr(env, "unwrapped", env), "P", None)
    # The table's own discount is not looked at.
    return Source(states, actions, None if table is None else MDP.from_gymnasium(env, 0.99), env)


def _size(env: Environment, what: str) -> int:
    space = getattr(env, what, None)
    if not isinstance(space, Discrete):
        raise DataError(
            f"the {what} of {type(getattr(env, 'unwrapped', env)).__name__} is {space}, which is not discrete; tabular "
            "agents need finitely many states and actions: divide it into cells with a wrapper"
        )
    if int(space.start) != 0:
        raise DataError(f"the {what} counts from {int(space.start)}; agents count from 0: subtract it with a wrapper")
    return int(space.n)


class Walk:
    """One path through a world or an environment, begun anew where an episode is over, and what it has earned.

    The `COUNTERS` are the discounted return of the episode that is under way, the weight of its next reward, and over
    all episodes the sum of returns, their number, and the sum of rewards.
    """

    def __init__(self, place: Source, seed: int, number: int, horizon: int | None, gamma: float = 1.0) -> None:
        self.place, self.seed, self.number, self.gamma = place, seed, number, gamma
        self.limit = horizon or float("inf")
        self.s, self.age = 0, 0
        self.return_now, self.weight, self.returns, self.episodes, self.rewards = 0.0, 1.0, 0.0, 0.0, 0.0
        if place.env is None and place.world is not None:
            tables = tabulate(place.world)
            self.outcome, self.start = tables.outcome(), tables.begin()

    def enter(self, t: int) -> None:
        """Begins an episode at time t."""
        self.age, self.return_now, self.weight = 0, 0.0, 1.0
        if self.place.env is None:
            self.s = self.start(float(stream(self.seed, self.number, t, first=True).random()))
        else:
            fresh = np.random.SeedSequence([self.seed, self.number, t, 2]).generate_state(1)[0]
            self.s = int(self.place.env.reset(seed=int(fresh))[0])

    def step(self, a: int, u: float, v: float) -> tuple[float, int, bool, bool]:
        """Reward, successor, whether it ended, whether it was broken off; u draws the successor, v the next start."""
        env = self.place.env
        if env is None:
            code, reward = self.outcome(self.s, a, u)
            done, cut, following = code < 0, False, max(code, 0)
        else:
            found, paid, done, cut, _ = env.step(a)
            following, reward, done = int(found), float(paid), bool(done)
        self.age += 1
        self.rewards += reward
        self.return_now += self.weight * reward
        cut = not done and (cut or self.age >= self.limit)
        if done or cut:
            self.returns += self.return_now
            self.episodes += 1
            self.age, self.return_now, self.weight = 0, 0.0, 1.0
            self.s = self.start(v) if env is None else int(env.reset()[0])
        else:
            self.weight *= self.gamma
            self.s = following
        return reward, following, done, cut


class Setting(NamedTuple):
    """What all experiments of a run share."""

    place: Source
    gamma: float
    horizon: int | None
    seeds: int
    seed: int


class Loop(ABC):
    """One experiment in plain Python; its state, of one entry a field, is all that it needs to go on."""

    uniforms = 3

    def __init__(self, setting: Setting, number: int) -> None:
        self.seed, self.number = setting.seed, number
        self.walk = Walk(setting.place, setting.seed, number, setting.horizon, setting.gamma)

    @abstractmethod
    def begin(self) -> State:
        """The state before the first step."""

    @abstractmethod
    def enter(self, state: State, t: int) -> None:
        """Goes on from a state at time t; in an environment a new episode is begun."""
        for name in COUNTERS:
            setattr(self.walk, name, float(state[name][0]))

    @abstractmethod
    def steps(self, draws: list[list[float]], begin: int) -> None:
        """As many steps as there are draws, from time `begin`."""

    @abstractmethod
    def state(self) -> State:
        """The state after these steps."""
        return {name: np.full(1, float(getattr(self.walk, name))) for name in COUNTERS}

    def advance(self, state: State, begin: int, end: int) -> State:
        """Steps begin … end - 1, from where the last ones ended."""
        for block in range(begin // BLOCK, -(-end // BLOCK)):
            draws = stream(self.seed, self.number, block).random((BLOCK, self.uniforms))
            low, high = max(begin - block * BLOCK, 0), min(end - block * BLOCK, BLOCK)
            self.steps(draws[low:high].tolist(), block * BLOCK + low)
        return self.state()


class TabularLoop(Loop):
    """One experiment of a tabular agent in an environment."""

    def __init__(self, agent: Tabular, setting: Setting, number: int) -> None:
        super().__init__(setting, number)
        self.agent, self.uniforms, self.gamma = agent, agent.uniforms, setting.gamma
        self.shape = TableShape(1, setting.place.states, setting.place.actions, agent.tables)

    def begin(self) -> State:
        """Initial values, no visits."""
        shape = self.shape
        table = np.zeros((1, shape.states, shape.width))
        table[:, :, : shape.tables * shape.actions] = self.agent.initial
        return {"table": table, **super().state()}

    def enter(self, state: State, t: int) -> None:
        """Begins an episode with the values of the state."""
        super().enter(state, t)
        *tables, counts = np.split(state["table"][0], self.shape.tables + 1, axis=1)
        self.tables, self.counts = [table.tolist() for table in tables], counts.astype(int).tolist()
        self.acting = self.tables[0] if len(tables) == 1 else np.mean(tables, axis=0).tolist()
        self.choose = self.agent.explore.chooser()
        self.update = self.agent.updater(self.tables, self.acting, self.counts, self.gamma)
        self.walk.enter(t)
        u = float(stream(self.seed, self.number, t, first=True).random(2)[1])
        self.action = self.choose(self.acting[self.walk.s], self.counts[self.walk.s], u, t, self.walk.s)

    def state(self) -> State:
        """The tables as one."""
        table = np.concatenate([*(np.asarray(q) for q in self.tables), np.asarray(self.counts, dtype=float)], axis=1)
        return {"table": table[None], **super().state()}

    def steps(self, draws: list[list[float]], begin: int) -> None:
        """Choose, step, update; agents that follow their policy choose before they update."""
        walk, step, choose, update = self.walk, self.walk.step, self.choose, self.update
        acting, counts, follows, a = self.acting, self.counts, self.agent.follows, self.action
        for t, u in enumerate(draws, begin):
            s = walk.s
            if not follows:
                a = choose(acting[s], counts[s], u[0], t, s)
            r, s2, done, cut = step(a, u[1], u[2])
            then = a2 = a
            if follows:
                then = a2 = choose(acting[walk.s], counts[walk.s], u[0], t + 1, walk.s)
                if cut:
                    a2 = choose(acting[s2], counts[s2], u[0], t + 1, s2)
            update(s, a, r, s2, done, cut, a2, u, t)
            a = then
        self.action = a
