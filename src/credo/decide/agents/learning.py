"""The course of an experiment: where it takes place, when it is evaluated, what is kept."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from credo.core.checks import check_count
from credo.core.errors import DataError, NotConvergedWarning
from credo.decide.agents.alias_tables import tabulate
from credo.decide.agents.control import Agent, Tabular
from credo.decide.agents.engine import Experiments, State
from credo.decide.agents.environments import Loop, Setting, Source, TabularLoop, open_source
from credo.decide.agents.evaluation import Episodes, Known
from credo.decide.agents.exploration import EpsilonGreedy
from credo.decide.agents.planning import Planner, PlannerLoop
from credo.decide.agents.run import Run
from credo.decide.mdp.model import DISCOUNT

Count = int | None
CURVES = ("scores", "returns", "episodes", "rewards")


def learn(
    agent: Agent,
    source: Any,
    steps: int,
    seeds: Count,
    seed: Count,
    evaluate_every: Count,
    horizon: Count,
    episodes: int,
    resume: Run | None,
) -> Run:
    """See `Agent.learn`."""
    given = {"steps": steps, "seeds": seeds, "evaluate_every": evaluate_every, "horizon": horizon, "episodes": episodes}
    for name, value in given.items():
        if value is not None:
            check_count(value, name)
    place = open_source(source)
    gamma = agent.discount
    if gamma is None:
        gamma = place.world.discount if place.env is None and place.world is not None else DISCOUNT
    if resume is None:
        _check_schedules(agent)
        check_count(seed or 0, "seed", least=0)
        setting = Setting(place, gamma, horizon, seeds or 1, int(seed or 0))
    else:
        setting = _go_on(agent, place, gamma, resume, seeds, seed, horizon)
    done = 0 if resume is None else resume.done
    known = None if place.world is None else Known(place.world, gamma)
    judge = known or Episodes(place.copy(), gamma, episodes, setting.seed)
    every = steps if evaluate_every is None else int(evaluate_every)
    points = sorted({*range((done // every + 1) * every, done + steps, every), done + steps})
    acting = agent.prepared(gamma, place.reward_max, place.reward_min)
    runners = _runners(acting, setting, resume)
    parts = [_follow(runner, state, judge, place.actions, done, points) for runner, state in runners]
    state, curves = ({name: np.concatenate([part[i][name] for part in parts]) for name in parts[0][i]} for i in (0, 1))
    marks = np.asarray(points)
    optimum, gain = (judge.optimum(), judge.gain()) if resume is None else (resume.optimum, resume.gain)
    if resume is not None:
        curves = {name: np.concatenate([getattr(resume, name), curves[name]], axis=1) for name in curves}
        marks = np.concatenate([resume.steps, marks])
    q, visits = _split(state["table"], place.actions)
    scores, returns, ended, rewards = (curves[name] for name in CURVES)
    seed, horizon = setting.seed, setting.horizon
    return Run(agent, q, visits, marks, scores, returns, ended, rewards, optimum, gain, gamma, seed, horizon, state)


def _go_on(agent: Agent, place: Source, gamma: float, run: Run, seeds: Count, seed: Count, horizon: Count) -> Setting:
    """The setting of a run to go on from."""
    if not isinstance(run, Run):
        raise DataError(f"resume must be a Run to go on from, found {type(run).__name__}")
    if type(run.agent) is not type(agent):
        raise DataError(f"the run is of {type(run.agent).__name__}, and cannot go on as {type(agent).__name__}")
    _, states, actions = run.q.shape
    if (states, actions) != (place.states, place.actions):
        found = f"found {place.states} and {place.actions}"
        raise DataError(f"the run is of a world with {states} states and {actions} actions, {found}")
    if gamma != run.gamma:
        raise DataError(f"the run has the discount {run.gamma:g}, and cannot go on with {gamma:g}")
    for name, value, has in (("seeds", seeds, run.seeds), ("seed", seed, run.seed)):
        if value is not None and value != has:
            raise DataError(f"the run has {name} = {has}, and cannot go on with {value}; leave it out")
    return Setting(place, gamma, run.horizon if horizon is None else horizon, run.seeds, run.seed)


def _check_schedules(agent: Agent) -> None:
    """A warning where the learning rate or the exploration cannot lead to the answer."""
    if isinstance(agent, Tabular):
        rule, found = agent.explore, agent.rate.check()
        if isinstance(rule, EpsilonGreedy) and float(rule.epsilon(0)) > 0 and not rule.epsilon.check().sum_diverges:
            says = f"epsilon falls so fast that actions may be tried a few times only: {rule.epsilon.check().says}"
            warnings.warn(says, NotConvergedWarning, 4)
        if not found.holds:
            says = f"the learning rate breaks Robbins and Monro's conditions: {found.says}"
            warnings.warn(says, NotConvergedWarning, 4)


def _runners(agent: Agent, setting: Setting, resume: Run | None) -> Iterator[tuple[Loop | Experiments, State]]:
    """What runs the experiments, each with its state: all at once, or one after the other."""
    place = setting.place
    if isinstance(agent, Tabular) and place.env is None and place.world is not None:
        runner = Experiments(agent, tabulate(place.world), setting.gamma, setting.horizon, setting.seeds, setting.seed)
        yield runner, runner.begin() if resume is None else resume.state
        return
    for number in range(setting.seeds):
        alone: Loop
        if isinstance(agent, Tabular):
            alone = TabularLoop(agent, setting, number)
        elif isinstance(agent, Planner):
            alone = PlannerLoop(agent, setting, number)
        else:
            raise DataError(f"{type(agent).__name__} is not an agent that credo knows how to run")
        yield alone, alone.begin() if resume is None else {k: v[number : number + 1] for k, v in resume.state.items()}


def _follow(
    runner: Loop | Experiments, state: State, judge: Known | Episodes, actions: int, done: int, points: list[int]
) -> tuple[State, State]:
    """The state in the end, and the curves at the points."""
    runner.enter(state, done)
    curves: dict[str, list[np.ndarray]] = {name: [] for name in CURVES}
    for point in points:
        state = runner.advance(state, done, point)
        done = point
        q, _ = _split(state["table"], actions)
        curves["scores"].append(judge.scores(np.argmax(q, axis=2)))
        for name in CURVES[1:]:
            curves[name].append(np.asarray(state[name], dtype=float))
    return state, {name: np.stack(values, axis=1) for name, values in curves.items()}


def _split(table: np.ndarray, actions: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (the mean of the tables) and visits."""
    parts = table.reshape(*table.shape[:2], -1, actions)
    return parts[:, :, :-1].mean(axis=2), parts[:, :, -1]
