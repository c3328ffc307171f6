"""Planning at the moment of acting: search from the belief of now, then act, observe and search again.

    agent = POMCP(seconds=1).begin(pomdp)
    action = agent.act()
    agent = agent.observed(action, observation)

POMCP: Silver & Veness (2010), "Monte-Carlo planning in large POMDPs"; its tree is over actions and observations, states
are drawn from the belief, UCB1 chooses (PO-UCT), and what was searched below the history that came true is kept.
Where probabilities are known the belief is exact, and so is that of every history (`BeliefWorld`); else beliefs are
particles.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from credo.core.checks import check_count, check_real
from credo.core.errors import DataError
from credo.decide.pomdp.belief_world import BeliefWorld
from credo.decide.pomdp.model import POMDP
from credo.decide.pomdp.plan import AlphaPlan, Returns
from credo.decide.pomdp.simulators import FiniteWorld, Generator, GymWorld, Lookahead, Policy, World, check_world

BATCH, PILOTS = 64, 10
"""States drawn from the belief at once, and episodes from which a default policy is chosen."""


class Node:
    """A history: how often it was visited, and for each action worth trying how often, with what mean return.

    `floor` is what is earned at least from here on: by a plan without a search, or by the best action tried.
    """

    __slots__ = ("actions", "children", "counts", "floor", "means", "visits")

    def __init__(self) -> None:
        self.visits, self.floor = 0, -math.inf
        self.actions: list[int] = []
        """None before the first visit; the most promising one last."""
        self.counts: list[int] = []
        self.means: list[float] = []
        self.children: dict[tuple[int, Hashable], Node] = {}

    def open(self, actions: Sequence[int], floor: float) -> None:
        """Takes the actions that are worth trying, and what is earned at least without a search."""
        self.actions, self.counts, self.means = list(actions), [0] * len(actions), [0.0] * len(actions)
        self.floor = floor

    @property
    def value(self) -> float:
        """The mean return of the action tried most often (the robust maximum of Coulom 2006)."""
        return self.means[self.counts.index(max(self.counts))]


class Agent(NamedTuple):
    """An online planner in a world with what it believes; `observed` returns the next one."""

    method: "OnlinePlanner"
    world: World
    belief: Any
    """A `BeliefState`, or particles."""
    seed: int
    root: Node
    """What the search knows of this history already; `act` adds to it."""

    def act(self) -> Hashable:
        """The action that the search from this belief finds best."""
        return self.world.actions[self.choose()]

    def choose(self) -> int:
        """Its number."""
        return self.method.search(self.world, self.belief, np.random.default_rng(self.seed), self.root)

    def observed(self, action: Any, seen: Any) -> "Agent":
        """After an action and what was seen."""
        number, random = self.world.number(action), np.random.default_rng((self.seed, 1))
        after = self.world.updated(self.belief, number, seen, random)
        below = self.root.children.get((number, self.world.code(seen)), Node())
        return self._replace(belief=after, seed=int(random.integers(2**31)), root=below)


@dataclass(frozen=True)
class OnlinePlanner(ABC):
    """Searches from a belief; `seconds` or a number of simulations is spent on each step.

    A POMDP is planned offline first for `beforehand` seconds; `rollout` is a plan of it to take in place of that, or a
    function of a state (of a POMDP its number) and a random generator that names the action to simulate with where a
    search knows no better. Without one, simulators do what has earned most: random actions, or one action for ever.
    """

    seconds: float | None = None
    depth: int = 90
    particles: int = 1000
    """Of beliefs, where probabilities are not known."""
    beforehand: float = 5.0
    rollout: AlphaPlan | Policy | None = None

    def __post_init__(self) -> None:
        check_real(self.seconds or 0.0, "seconds", 0)
        check_real(self.beforehand, "beforehand", 0)
        check_count(self.depth, "depth")
        check_count(self.particles, "particles")

    def begin(self, problem: Any, *, seed: int = 0) -> Agent:
        """The agent at the start of an episode, in a POMDP, a `World` or a gymnasium environment."""
        check_count(seed, "seed", 0)
        world = self.world_of(problem)
        return Agent(self, world, world.believe(self.particles, np.random.default_rng(seed)), seed, Node())

    def play(self, problem: Any, n: int = 10, *, steps: int = 100, seed: int = 0) -> Returns:
        """Discounted returns of n simulated episodes of at most so many steps."""
        check_count(n, "n")
        check_count(steps, "steps")
        check_count(seed, "seed", 0)
        world, each = self.world_of(problem), np.zeros(n)
        stage = FiniteWorld(world.pomdp) if isinstance(world, BeliefWorld) else world  # with hidden states
        for k in range(n):
            random = np.random.default_rng((seed, k, 1))  # not that of an agent
            state, agent = stage.begin(random), self.begin(world, seed=seed + k)
            for t in range(steps):
                action = agent.choose()
                state, seen, reward, over = stage.step(state, action, random)
                each[k] += world.discount**t * reward
                if over:
                    break
                agent = agent.observed(world.actions[action], seen)
        error = float(each.std(ddof=1) / math.sqrt(n)) if n > 1 else math.inf
        return Returns(float(each.mean()), error, each)

    def world_of(self, problem: Any) -> World:
        """A world of a POMDP, of a gymnasium environment or its name, or the world itself."""
        plan = self.rollout if isinstance(self.rollout, AlphaPlan) else None
        if isinstance(problem, POMDP):
            simulated = self.rollout is not None and plan is None
            return FiniteWorld(problem) if simulated else BeliefWorld(problem, self.beforehand, plan)
        if plan is not None and not isinstance(problem, BeliefWorld):
            raise DataError(f"rollout can be a plan only in a POMDP, found {type(problem).__name__}; give a function")
        if isinstance(problem, World):
            check_world(problem)
            return problem
        if isinstance(problem, str) or (hasattr(problem, "reset") and hasattr(problem, "action_space")):
            return GymWorld(problem)
        raise DataError(
            f"online planning takes a POMDP, a World or a gymnasium environment, found {type(problem).__name__}"
        )

    @abstractmethod
    def search(self, world: World, belief: Any, random: Generator, root: Node) -> int:
        """The number of the best action; what is learned of histories goes into the tree below the root."""

    def default(self, world: World, belief: Any, random: Generator) -> Policy | None:
        """What is done where the search knows no better: of several policies the one that earns most, tried briefly.

        A tenth of the time is spent on it at most.
        """
        if self.rollout is not None and not isinstance(self.rollout, AlphaPlan):
            return self.rollout
        states = list(world.draws(belief, PILOTS, random))
        choices, earned = [None, *map(_always, world.actions)], list[float]()
        if world.floor(states[0])[0] > -math.inf:
            return None
        until = self.clock(0.1)
        for policy in choices:
            if not earned or time.monotonic() < until:
                earned.append(sum(world.value(state, self.depth, random, policy) for state in states))
        return choices[earned.index(max(earned))]

    def clock(self, share: float = 1.0) -> float:
        """When to stop, after a share of the time."""
        return math.inf if self.seconds is None else time.monotonic() + share * self.seconds


@dataclass(frozen=True)
class POMCP(OnlinePlanner):
    """Monte-Carlo tree search over histories.

    `exploration` is the constant c of UCB1, Q(h, a) + c √(log N(h) / N(h, a)); None takes three standard deviations of
    what simulations have returned (their range, as Silver & Veness have it, makes too much of a rare disaster). What is
    passed up from a history is not the mean return of all that was tried below, but that of what was tried most: less
    is lost by exploring. Where probabilities are known it is expected:

        Q(h, a) = r(b, a) + γ Σₒ P(o | b, a) V(hao),    V(h) = max(floor(h), maxₐ Q(h, a))

    (the full backups of Keller & Helmert 2013, "Trial-based heuristic tree search"), in which V is a lower bound: what
    a plan earns where the search has not been, so that searching longer does not believe in luck. `simulations` are
    made where there are no `seconds`.
    """

    simulations: int = 1000
    exploration: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.simulations, "simulations")
        check_real(self.exploration or 0.0, "exploration", 0)

    def search(self, world: World, belief: Any, random: Generator, root: Node) -> int:
        """Simulations from states of the belief, until the time or their number is used up."""
        until, done, mean, squares = self.clock(), 0, 0.0, 0.0
        policy = self.default(world, belief, random)
        while (done < self.simulations) if self.seconds is None else (time.monotonic() < until or not done):
            n = BATCH if self.seconds is not None else min(BATCH, self.simulations - done)
            for state in world.draws(belief, n, random):
                if done and time.monotonic() > until:
                    break
                if not root.actions:
                    root.open(world.worth(state), world.floor(state)[0])
                if len(root.actions) == 1:
                    return root.actions[0]
                spread = 3 * math.sqrt(squares / done) if squares > 0 else 1.0  # any will do for returns all alike
                c = spread if self.exploration is None else self.exploration
                total = self._simulate(world, state, root, c, policy, random)
                if not math.isfinite(total):
                    raise DataError(f"the rewards of {type(world).__name__} must be finite, found a return of {total}")
                done, off = done + 1, total - mean
                mean += off / done
                squares += off * (total - mean)
        best = max((k for k, n in enumerate(root.counts) if n), key=lambda k: root.means[k])
        return root.actions[best] if root.means[best] >= root.floor else world.floor(state)[1]

    def _simulate(
        self, world: World, state: Any, node: Node, c: float, policy: Policy | None, random: Generator
    ) -> float:
        """Down the tree, an estimate at its edge, and back up; gives the return of this one simulation."""
        path: list[tuple[Node, int, Hashable, float, Lookahead | None]] = []
        total = 0.0
        for level in range(self.depth):
            if not node.actions:
                node.open(world.worth(state), world.floor(state)[0])
            k = choice(node, c)
            action = node.actions[k]
            ahead = world.lookahead(state, action)
            state, seen, reward, over = world.step(state, action, random)
            path.append((node, k, seen, reward, ahead))
            if over:
                break
            child = node.children.get((action, seen))
            if child is None:
                node.children[action, seen] = Node()
                total = world.value(state, self.depth - level - 1, random, policy)
                break
            node = child
        passed, gained = total, 0.0
        for at, k, seen, reward, ahead in reversed(path):
            total = reward + world.discount * total
            at.visits += 1
            at.counts[k] += 1
            if ahead is None:
                at.means[k] += (reward + world.discount * passed - at.means[k]) / at.counts[k]
                passed = at.value
            else:
                at.means[k] = at.means[k] if at.counts[k] > 1 else ahead.value
                at.means[k] += world.discount * ahead.chances.get(seen, 0.0) * gained
                gained = max(at.means[k] - at.floor, 0.0)
                at.floor += gained
        return total


def choice(node: Node, c: float) -> int:
    """UCB1: what was not tried yet, the most promising first; then the action of the largest upper confidence bound."""
    if node.visits < len(node.actions):
        return len(node.actions) - 1 - node.visits
    logs, best, at = c * math.sqrt(math.log(node.visits)), -math.inf, 0
    for k, (n, mean) in enumerate(zip(node.counts, node.means, strict=True)):
        score = mean + logs / math.sqrt(n)
        if score > best:
            best, at = score, k
    return at


def _always(action: Hashable) -> Policy:
    return lambda state, random: action
