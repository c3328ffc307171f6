"""The course of an experiment: where it takes place, when it is evaluated, what is kept."""

import warnings
from typing import Any

import numpy as np

from credo.core.checks import check_count
from credo.core.errors import DataError, NotConvergedWarning
from credo.decide.agents import engine
from credo.decide.agents.alias_tables import tabulate
from credo.decide.agents.control import Agent, Tabular
from credo.decide.agents.environments import Loop, Source, open_source
from credo.decide.agents.evaluation import Episodes, Known
from credo.decide.agents.exploration import EpsilonGreedy
from credo.decide.agents.planner_loop import PlannerLoop
from credo.decide.agents.planning import Planner
from credo.decide.agents.run import Run

DISCOUNT = 0.99
"""In environments, where the agent has none."""
State = dict[str, np.ndarray]


def learn(
    agent: Agent,
    source: Any,
    steps: int,
    seeds: Any,
    seed: Any,
    evaluate_every: Any,
    horizon: Any,
    episodes: int,
    start: Any,
) -> Run:
    """See `Agent.learn`."""
    check_count(steps, "steps")
    for name, value in (("seeds", seeds), ("evaluate_every", evaluate_every), ("horizon", horizon)):
        if value is not None:
            check_count(value, name)
    check_count(episodes, "episodes")
    place = open_source(source)
    gamma = agent.discount
    if gamma is None:
        gamma = place.world.discount if place.env is None and place.world is not None else DISCOUNT
    seed, seeds, horizon = _go_on(agent, place, gamma, seeds, seed, horizon, start)
    if start is None:
        _check_schedules(agent)
    done = 0 if start is None else start.done
    acting = agent.prepared(gamma, place.reward_max, place.reward_min)
    judge = _judge(place, gamma, episodes, seed)
    every = steps if evaluate_every is None else int(evaluate_every)
    points = sorted({*range((done // every + 1) * every, done + steps, every), done + steps})
    parts = [
        _follow(runner, state, judge, place.actions, done, points)
        for runner, state in _runners(acting, place, gamma, horizon, seeds, seed, start)
    ]
    state = {name: np.concatenate([part[0][name] for part in parts]) for name in parts[0][0]}
    curves = {name: np.concatenate([part[1][name] for part in parts]) for name in parts[0][1]}
    marks = np.asarray(points)
    if start is not None:
        curves = {name: np.concatenate([getattr(start, name), curves[name]], axis=1) for name in curves}
        marks = np.concatenate([start.steps, marks])
    q, visits = _split(state["table"], place.actions)
    optimum, gain = (start.optimum, start.gain) if start is not None else (judge.optimum(), judge.gain())
    return Run(
        agent,
        q,
        visits,
        marks,
        **curves,
        optimum=optimum,
        gain=gain,
        gamma=gamma,
        seed=seed,
        horizon=horizon,
        state=state,
    )


def _go_on(
    agent: Agent, place: Source, gamma: float, seeds: Any, seed: Any, horizon: Any, start: Any
) -> tuple[int, int, int | None]:
    """Seed, seeds and horizon, which a run to go on from has already."""
    if start is None:
        number = 0 if seed is None else seed
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
            raise DataError(f"seed must be a whole number ≥ 0, found {seed!r}")
        return int(number), 1 if seeds is None else int(seeds), None if horizon is None else int(horizon)
    if not isinstance(start, Run):
        raise DataError(f"start must be a Run to go on from, found {type(start).__name__}")
    if type(start.agent) is not type(agent):
        raise DataError(f"the run is of {type(start.agent).__name__}, and cannot go on as {type(agent).__name__}")
    if start.q.shape[1:] != (place.states, place.actions):
        raise DataError(
            f"the run is of a world with {start.q.shape[1]} states and {start.q.shape[2]} actions, found "
            f"{place.states} and {place.actions}"
        )
    if gamma != start.gamma:
        raise DataError(f"the run has the discount {start.gamma:g}, and cannot go on with {gamma:g}")
    for name, value, has in (("seeds", seeds, start.seeds), ("seed", seed, start.seed)):
        if value is not None and value != has:
            raise DataError(f"the run has {name} = {has}, and cannot go on with {value}; leave it out")
    return start.seed, start.seeds, start.horizon if horizon is None else int(horizon)


def _check_schedules(agent: Agent) -> None:
    """A warning where the learning rate or the exploration cannot lead to the answer."""
    if isinstance(agent, Tabular):
        rule, found = agent.explore, agent.rate.check()
        if isinstance(rule, EpsilonGreedy) and float(rule.epsilon(0)) > 0 and not rule.epsilon.check().sum_diverges:
            says = f"epsilon falls so fast that actions may be tried a few times only: {rule.epsilon.check().says}"
            warnings.warn(says, NotConvergedWarning, 4)
        if not found.holds:
            warnings.warn(
                f"the learning rate breaks Robbins and Monro's conditions: {found.says}", NotConvergedWarning, 4
            )


def _judge(place: Source, gamma: float, episodes: int, seed: int) -> Known | Episodes:
    if place.world is not None:
        return Known(place.world, gamma)
    return Episodes(place.copy(), gamma, episodes, seed)


class _Compiled:
    """All experiments of a tabular agent in a known world."""

    def __init__(self, agent: Tabular, place: Source, gamma: float, horizon: int | None, seeds: int, seed: int) -> None:
        self.agent, self.gamma, self.horizon, self.seeds, self.seed = agent, gamma, horizon, seeds, seed
        self.tables = tabulate(place.world)  # type: ignore[arg-type]  # a world is there where env is not

    def begin(self) -> State:
        """Before the first step."""
        return engine.begin(self.agent, self.tables, self.seeds, self.seed)

    def enter(self, state: State, t: int) -> None:
        """Everything is in the state."""

    def advance(self, state: State, begin: int, end: int) -> State:
        """Steps begin … end - 1."""
        return engine.advance(self.agent, self.tables, state, self.seed, begin, end, self.gamma, self.horizon)


def _runners(
    agent: Agent, place: Source, gamma: float, horizon: int | None, seeds: int, seed: int, start: Run | None
) -> Any:
    """What runs the experiments, each with its state: all at once, or one after the other."""
    if isinstance(agent, Tabular) and place.env is None:
        runner = _Compiled(agent, place, gamma, horizon, seeds, seed)
        yield runner, runner.begin() if start is None else start.state
        return
    for number in range(seeds):
        alone: Any
        if isinstance(agent, Tabular):
            alone = Loop(agent, place, gamma, horizon, seed, number)
        elif isinstance(agent, Planner):
            alone = PlannerLoop(agent, place, gamma, horizon, seed, number)
        else:
            raise DataError(f"{type(agent).__name__} is not an agent that credo knows how to run")
        yield alone, alone.begin() if start is None else {k: v[number : number + 1] for k, v in start.state.items()}


def _follow(runner: Any, state: State, judge: Any, actions: int, done: int, points: list[int]) -> tuple[State, State]:
    """The state in the end, and the curves at the points."""
    state = dict(state)
    runner.enter(state, done)
    curves: dict[str, list[np.ndarray]] = {name: [] for name in ("scores", "returns", "episodes", "rewards")}
    for point in points:
        state = runner.advance(state, done, point)
        done = point
        q, _ = _split(state["table"], actions)
        curves["scores"].append(judge.scores(np.argmax(q, axis=2)))
        for name in ("returns", "episodes", "rewards"):
            curves[name].append(np.asarray(state[name], dtype=float))
    return state, {name: np.stack(values, axis=1) for name, values in curves.items()}


def _split(table: np.ndarray, actions: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (the mean of the tables) and visits."""
    parts = table.reshape(*table.shape[:2], -1, actions)
    return parts[:, :, :-1].mean(axis=2), parts[:, :, -1]
