"""The course of an experiment: where it takes place, when it is evaluated, what is kept."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from credo.core.checks import check_count
from credo.core.errors import DataError, NotConvergedWarning, RepairedWarning
from credo.decide.agents.alias_tables import tabulate
from credo.decide.agents.control import Agent, Tabular
from credo.decide.agents.engine import Experiments, State
from credo.decide.agents.environments import Loop, Setting, Source, TabularLoop, open_source
from credo.decide.agents.evaluation import Episodes, Known
from credo.decide.agents.exploration import EpsilonGreedy
from credo.decide.agents.planning import Planner, PlannerLoop
from credo.decide.agents.run import Run
from credo.decide.agents.trajectories import Trajectory
from credo.decide.mdp.model import DISCOUNT

Count = int | None
CURVES = ("scores", "returns", "episodes", "rewards")


def learn(
    agent: Agent,
    source: Any,
    steps: Count,
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
    if seed is not None:
        check_count(seed, "seed", least=0)
    if isinstance(source, Trajectory):
        if any(given is not None for given in (seeds, evaluate_every, horizon, resume)):
            raise DataError("records are gone through as they are: leave out seeds, evaluate_every, horizon and resume")
        return _from_records(agent, source, len(source) if steps is None else steps, 0 if seed is None else seed)
    if steps is None:
        raise DataError("steps is missing: say how many steps to learn for")
    place = open_source(source)
    for rule in agent.rules:
        rule.check(place.states, place.actions)
    gamma = agent.discount
    if gamma is None:
        gamma = place.world.discount if place.env is None and place.world is not None else DISCOUNT
    if resume is None:
        _check_schedules(agent)
        setting = Setting(place, gamma, horizon, seeds or 1, 0 if seed is None else int(seed))
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


def _from_records(agent: Agent, path: Trajectory, steps: int, seed: int) -> Run:
    """What a tabular agent learns from steps that it did not choose, in their order."""
    name = type(agent).__name__
    if not isinstance(agent, Tabular) or agent.follows:
        remedy = "estimate(trajectory) or WorldBelief" if isinstance(agent, Planner) else "ExpectedSARSA(target=policy)"
        raise DataError(f"{name} learns from actions of its own, and cannot learn from records; take {remedy}")
    if not len(path):
        raise DataError("the trajectory has no steps to learn from")
    _check_schedules(agent)
    (s, a), known = path.sizes, path.counts().sum(axis=2) > 0
    for rule in agent.rules:
        rule.check(s, a)
    if not known.all():
        lost = tuple(int(i) for i in np.argwhere(~known)[0])
        says = f"{int((~known).sum())} of {known.size} pairs of state and action are not in the records, such as {lost}"
        warnings.warn(f"{says}: their values are where they began, {agent.initial:g}", RepairedWarning, stacklevel=4)
    gamma = next((g for g in (agent.discount, path.discount) if g is not None), DISCOUNT)
    agent = agent.prepared(gamma, float(path.rewards.max()), float(path.rewards.min()))
    assert isinstance(agent, Tabular)
    tables = [np.full((s, a), agent.initial).tolist() for _ in range(agent.tables)]
    acting = tables[0] if agent.tables == 1 else np.mean(tables, axis=0).tolist()
    counts = np.zeros((s, a), dtype=int).tolist()
    update = agent.updater(tables, acting, counts, gamma)
    columns = (path.states, path.actions, path.rewards, path.following, path.done, path.cut)
    moves = list(zip(*(column.tolist() for column in columns), strict=True))
    for t, u in enumerate(np.random.default_rng(seed).random((steps, agent.uniforms)).tolist()):
        update(*moves[t % len(moves)], 0, u, t)  # type: ignore[call-arg]
    q, visits, marks = np.asarray([acting]), np.asarray([counts], dtype=float), np.asarray([steps])
    earned = path.returns(gamma)
    sums = (np.nan, earned.sum(), len(earned), path.rewards.sum())
    scores, returns, ended, rewards = (np.array([[value]], dtype=float) for value in sums)
    return Run(agent, q, visits, marks, scores, returns, ended, rewards, None, None, gamma, seed, None, {})


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
