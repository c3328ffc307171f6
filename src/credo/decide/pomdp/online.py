"""Planning at the moment of acting: search from the belief of now, then act, observe and search again.

    agent = POMCP(seconds=1).begin(pomdp)
    action = agent.act()
    agent = agent.observed(action, observation)

POMCP: Silver & Veness (2010), "Monte-Carlo planning in large POMDPs"; its tree is over actions and observations, states
are drawn from the belief, UCB1 chooses (PO-UCT). Beliefs are exact where probabilities are known, else particles.
"""

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from credo.core.checks import check_count, check_real
from credo.core.errors import DataError, RepairedWarning
from credo.decide.pomdp.belief import BeliefState
from credo.decide.pomdp.plan import Returns
from credo.decide.pomdp.simulators import FiniteWorld, Generator, World, world_of

TRIES = 100
"""Draws for each particle that must agree with an observation."""


class Agent(NamedTuple):
    """An online planner in a world with what it believes; a value: `observed` returns the next one."""

    method: "OnlinePlanner"
    world: World
    belief: Any
    """A `BeliefState`, or particles."""
    seed: int

    def act(self) -> Hashable:
        """The action that the search from this belief finds best."""
        return self.world.actions[self.choose()]

    def choose(self) -> int:
        """Its number."""
        return self.method.search(self.world, self.draws, np.random.default_rng(self.seed))

    def draws(self, n: int, random: Generator) -> Any:
        """States drawn from the belief."""
        if isinstance(self.belief, BeliefState):
            return random.choice(len(self.belief.probs), size=n, p=self.belief.probs)
        return self.world.chosen(self.belief, random.integers(len(self.belief), size=n))

    def observed(self, action: Hashable, seen: Any) -> "Agent":
        """After an action and what was seen."""
        known = self.world.actions
        if action not in known:
            raise DataError(f"there is no action {action!r}; there are {', '.join(str(each) for each in known[:8])}")
        number, random = known.index(action), np.random.default_rng((self.seed, 1))
        if isinstance(self.belief, BeliefState):
            after: Any = self.belief.condition(number, seen)
        else:
            after = particles_after(self.world, self.belief, number, seen, random)
        return self._replace(belief=after, seed=int(random.integers(2**31)))


@dataclass(frozen=True)
class OnlinePlanner(ABC):
    """Searches from a belief; `seconds` or a number of simulations is spent on each step."""

    seconds: float | None = None
    depth: int = 90
    particles: int = 1000
    """Of beliefs, where probabilities are not known."""

    def begin(self, problem: Any, *, seed: int = 0) -> Agent:
        """The agent at the start of an episode, in a POMDP, a `World` or a gymnasium environment."""
        if self.seconds is not None:
            check_real(self.seconds, "seconds", 0)
        check_count(self.depth, "depth")
        check_count(self.particles, "particles")
        world = world_of(problem)
        random = np.random.default_rng(seed)
        if isinstance(world, FiniteWorld):
            return Agent(self, world, world.pomdp.belief(), seed)
        return Agent(self, world, world.begin_many(self.particles, random), seed)

    def play(self, problem: Any, n: int = 10, *, steps: int = 100, seed: int = 0) -> Returns:
        """Discounted returns of n simulated episodes of at most so many steps."""
        check_count(n, "n")
        check_count(steps, "steps")
        world, totals = world_of(problem), []
        for k in range(n):
            random = np.random.default_rng((seed, k))
            state, agent, total = world.begin(random), self.begin(world, seed=seed + k), 0.0
            for t in range(steps):
                action = agent.choose()
                state, seen, reward, over = world.step(state, action, random)
                total += world.discount**t * reward
                if over:
                    break
                agent = agent.observed(world.actions[action], seen)
            totals.append(total)
        each = np.array(totals)
        error = float(each.std(ddof=1) / math.sqrt(n)) if n > 1 else math.inf
        return Returns(float(each.mean()), error, each)

    @abstractmethod
    def search(self, world: World, draws: Any, random: Generator) -> int:
        """The number of the best action; `draws(n, random)` gives states of the belief."""

    def clock(self) -> float:
        """When to stop."""
        return math.inf if self.seconds is None else time.monotonic() + self.seconds


class Node:
    """A history: how often it was visited, and for each action how often and with what mean return."""

    __slots__ = ("children", "counts", "means", "visits")

    def __init__(self, actions: int, guess: list[float] | None = None) -> None:
        self.visits = 0 if guess is None else actions
        self.counts = [0 if guess is None else 1] * actions
        self.means = [0.0] * actions if guess is None else guess
        self.children: dict[tuple[int, Hashable], Node] = {}


@dataclass(frozen=True)
class POMCP(OnlinePlanner):
    """Monte-Carlo tree search over histories.

    `exploration` is the constant c of UCB1, Q(h, a) + c √(log N(h) / N(h, a)); None takes how far the best return seen
    in this search is above their mean. `simulations` are made where no `seconds` are given.
    """

    simulations: int = 1000
    exploration: float | None = None

    def search(self, world: World, draws: Any, random: Generator) -> int:
        """Simulations from states of the belief, until the time or their number is used up."""
        check_count(self.simulations, "simulations")
        root, until, actions = Node(len(world.actions)), self.clock(), len(world.actions)
        done, mean, high = 0, 0.0, -math.inf
        while (done < self.simulations) if self.seconds is None else (time.monotonic() < until or not done):
            batch = draws(min(64, self.simulations - done) if self.seconds is None else 64, random)
            for state in batch.tolist() if isinstance(world, FiniteWorld) else batch:
                c = self.exploration if self.exploration is not None else max(high - mean, 1e-12)
                total = self._simulate(world, state, root, c if math.isfinite(c) else 1.0, random)
                high, done = max(high, total), done + 1
                mean += (total - mean) / done
            if done >= actions and self.seconds is not None and time.monotonic() > until:
                break
        tried = [k for k in range(actions) if root.counts[k]]
        return max(tried, key=lambda k: root.means[k])

    def _simulate(self, world: World, state: Any, node: Node, c: float, random: Generator) -> float:
        """Down the tree, an estimate at its edge, and the returns back up."""
        path: list[tuple[Node, int]] = []
        rewards: list[float] = []
        tail = 0.0
        for level in range(self.depth):
            action = self._choose(node, c, random)
            state, seen, reward, over = world.step(state, action, random)
            path.append((node, action))
            rewards.append(reward)
            if over:
                break
            child = node.children.get((action, seen))
            if child is None:
                node.children[action, seen] = Node(len(world.actions), world.guess(state))
                tail = world.value(state, self.depth - level - 1, random)
                break
            node = child
        total = tail
        for (at, action), reward in zip(reversed(path), reversed(rewards), strict=True):
            total = reward + world.discount * total
            at.visits += 1
            at.counts[action] += 1
            at.means[action] += (total - at.means[action]) / at.counts[action]
        return total

    def _choose(self, node: Node, c: float, random: Generator) -> int:
        counts = node.counts
        if node.visits < len(counts):
            untried = [k for k, n in enumerate(counts) if not n]
            return untried[int(random.random() * len(untried))]
        logs, best, at = math.log(node.visits), -math.inf, 0
        for k, mean in enumerate(node.means):
            score = mean + c * math.sqrt(logs / counts[k])
            if score > best:
                best, at = score, k
        return at


def particles_after(world: World, particles: Any, action: int, seen: Any, random: Generator) -> Any:
    """Particles after an action and an observation: weighted where there is a likelihood, else those that agree.

    Where none agrees, the observation is left out, with a warning.
    """
    n = len(particles)
    moved = world.step_many(particles, action, random)
    weights = world.likelihood(seen, action, moved.states)
    if weights is not None:
        total = float(np.sum(weights))
        chances = np.full(n, 1 / n) if not total > 0 else np.asarray(weights) / total
        return world.chosen(moved.states, random.choice(n, size=n, p=chances))
    found: list[Any] = []
    wanted = tuple(seen) if isinstance(seen, list) else seen
    for _ in range(TRIES):
        agree = np.flatnonzero([each == wanted for each in moved.seen] & ~moved.over)
        found += [moved.states[k] for k in agree.tolist()]
        if len(found) >= n:
            return found[:n]
        moved = world.step_many(particles, action, random)
    if not found:
        warnings.warn(
            f"none of {n} particles agrees with the observation {wanted!r}, which the belief leaves out; use more "
            "particles, or give the world a likelihood",
            RepairedWarning,
            stacklevel=2,
        )
        return moved.states
    return [found[k] for k in random.integers(len(found), size=n).tolist()]
