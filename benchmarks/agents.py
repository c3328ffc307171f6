"""Tabular agents: compiled experiments against a NumPy loop, and what an agent costs on top of an environment."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import _section, _verdict
from credo.decide.agents import EpsilonGreedy, Harmonic, QLearning
from credo.decide.agents.environments import Setting, TabularLoop, open_source
from credo.decide.agents.evaluation import Known
from credo.decide.mdp import MDP

TITLE = "Learning by doing"
SEEDS = 64
ROOMS = """
S....#....
.....#....
..........
.....#....
.....#....
##.####.##
.....#....
.....#....
..........
.....#...G
"""
AGENT = QLearning(EpsilonGreedy(0.1), Harmonic(0.5, 100.0), discount=0.99, initial=1.0)


def numpy_loop(world: MDP, steps: int, seed: int) -> np.ndarray:
    """Q-learning for all seeds in step, one NumPy call for each operation."""
    rng = np.random.default_rng(seed)
    index, prob = world.padded()
    index = np.where(world.terminal[index], -1, index)
    total = np.cumsum(prob, axis=2)
    # Where nothing ends the last sum must not be passed by rounding.
    total = np.where((world.ends[:, :, None] == 0) & (total >= 1 - 1e-12), 2.0, total)
    index = np.concatenate([index, np.full((*world.shape, 1), -1)], axis=2)
    begin, (s_count, a_count) = int(np.argmax(world.start)), world.shape
    q, n = np.full((SEEDS, s_count, a_count), AGENT.initial), np.zeros((SEEDS, s_count, a_count))
    every, s = np.arange(SEEDS), np.full(SEEDS, begin)
    for _ in range(steps):
        explore = rng.random(SEEDS) < 0.1
        a = np.where(explore, rng.integers(0, a_count, SEEDS), q[every, s].argmax(axis=1))
        s2 = index[s, a, (rng.random(SEEDS)[:, None] >= total[s, a]).sum(axis=1)]
        done = s2 < 0
        target = world.rewards[s, a] + 0.99 * np.where(done, 0.0, q[every, s2].max(axis=1))
        q[every, s, a] += 0.5 / (1 + n[every, s, a] / 100) * (target - q[every, s, a])
        n[every, s, a] += 1
        s = np.where(done, begin, s2)
    return q


@dataclass(frozen=True)
class Experiments:
    """Environment steps a second of 64 seeds together."""

    name: str
    world: Any
    """A function that makes it."""
    steps: int
    least: float = 5e6
    repeats: int = 3

    def run(self) -> str:
        """The task's section of the report."""
        world, few = self.world(), max(self.steps // 20, 1)
        first = _seconds(lambda: AGENT.learn(world, 1, seeds=SEEDS))
        ours, peer, run = 0.0, 0.0, None
        for repeat in range(self.repeats):
            start = time.perf_counter()
            run = AGENT.learn(world, self.steps, seeds=SEEDS, seed=repeat)
            ours = max(ours, SEEDS * self.steps / (time.perf_counter() - start))
            peer = max(peer, SEEDS * few / _seconds(lambda seed=repeat: numpy_loop(world, few, seed)))
        scores = run.scores[:, -1] / run.optimum
        theirs = Known(world, 0.99).scores(numpy_loop(world, few, 0).argmax(axis=2)) / run.optimum
        rows = [
            ["credo", f"{first:.2f} s", f"{ours:.3g}", f"{self.steps:,}", f"{np.median(scores):.3f}"],
            ["NumPy loop", "", f"{peer:.3g}", f"{few:,}", f"{np.median(theirs):.3f}"],
        ]
        bar = f"Bar: at least {self.least:.2g} steps a second: {_verdict(ours >= self.least)} ({ours:.3g})."
        head = ["", "first call", "steps per second", "steps of each seed", "of the best value (median)"]
        note = (
            f"Q-learning, {SEEDS} seeds, {world.shape[0]} states; the value is exact, and its evaluation is timed too."
        )
        return _section(self.name, note, head, rows, bar)


class Recorder:
    """An environment that writes down what is done to it."""

    def __init__(self, env: Any) -> None:
        self.env, self.actions, self.seed = env, [], None

    def reset(self, seed: Any = None) -> Any:
        self.seed = self.seed if seed is None else seed
        return self.env.reset(seed=seed)

    def step(self, a: int) -> Any:
        self.actions.append(a)
        return self.env.step(a)


@dataclass(frozen=True)
class Overhead:
    """Microseconds a step of an agent, less those of the environment with the same actions."""

    name: str
    env: str
    initial: float
    timed: int
    learned: int
    most: float = 3.0
    best: float = 0.98
    repeats: int = 5

    def run(self) -> str:
        """The task's section of the report."""
        import gymnasium

        agent = QLearning(AGENT.explore, AGENT.rate, AGENT.discount, self.initial)
        env = gymnasium.make(self.env)
        source = open_source(env)
        recorder = Recorder(env)
        self._train(agent, source._replace(env=recorder))
        with_agent, alone = np.inf, np.inf
        for _ in range(self.repeats):
            with_agent = min(with_agent, self._train(agent, source))
            alone = min(alone, _seconds(lambda: replay(env, recorder.actions, recorder.seed)))
        micro = 1e6 / self.timed
        cost = (with_agent - alone) * micro
        run = agent.learn(env, self.learned)
        share = run.scores[0, -1] / run.optimum
        rows = [
            ["environment alone", f"{alone * micro:.2f} µs", "", ""],
            ["with the agent", f"{with_agent * micro:.2f} µs", f"{cost:.2f} µs", f"{share:.4f}"],
        ]
        bar = (
            f"Bar: at most {self.most:g} µs more: {_verdict(cost <= self.most)} ({cost:.2f}). "
            f"Bar: {self.best:.0%} of the best value {run.optimum:.4f} after {self.learned:,} steps: "
            f"{_verdict(share >= self.best)} ({share:.2%})."
        )
        head = ["", "a step", "more", "of the best value"]
        return _section(self.name, "The same actions with and without the agent; best of several.", head, rows, bar)

    def _train(self, agent: QLearning, source: Any) -> float:
        loop = TabularLoop(agent, Setting(source, 0.99, None, 1, 0), 0)
        state = loop.begin()
        loop.enter(state, 0)
        return _seconds(lambda: loop.advance(state, 0, self.timed))


def replay(env: Any, actions: list[int], seed: int) -> None:
    """The environment's own loop."""
    env.reset(seed=seed)
    step, reset = env.step, env.reset
    for a in actions:
        _, _, done, cut, _ = step(a)
        if done or cut:
            reset()


def _seconds(function: Any) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def lake() -> MDP:
    """gymnasium's frozen lake, 8 × 8."""
    return MDP.from_gymnasium("FrozenLake8x8-v1", 0.99)


def rooms() -> MDP:
    """A gridworld of four rooms."""
    return MDP.from_drawing(ROOMS, slip=0.2, discount=0.99)


TASKS = [
    Experiments("compiled Q-learning, FrozenLake 8 × 8", lake, 300_000),
    Experiments("compiled Q-learning, gridworld of four rooms", rooms, 300_000),
    Overhead("Q-learning in gymnasium, FrozenLake 8 × 8", "FrozenLake8x8-v1", 1.0, 100_000, 1_000_000),
    Overhead("Q-learning in gymnasium, Taxi", "Taxi-v4", 0.0, 100_000, 300_000),
]
