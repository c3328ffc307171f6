"""Agents that learn a model of the world and plan with it: R-max, posterior sampling, certainty equivalence with bonus.

Each keeps how often every action led where, and now and then plans anew; between plans it follows the last one.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar
from typing import SupportsFloat as Real

import equinox as eqx
import numpy as np
import scipy.sparse as sp

from credo.core.checks import check_count, check_real
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.decide.agents.belief import WorldBelief
from credo.decide.agents.control import Agent, Number, Rule, check_discount, largest_reward, optional
from credo.decide.agents.engine import State
from credo.decide.agents.environments import Loop, Setting
from credo.decide.agents.exploration import UCB, EpsilonGreedy, Exploration, Greedy, as_exploration
from credo.decide.agents.trajectories import Counts, Sums
from credo.decide.mdp.bellman import direct
from credo.decide.mdp.model import Policy, Vector
from credo.decide.mdp.policy_iteration import howard

Stale = Callable[[int, int, int, int, bool], bool]
"""(visits of the pair just met, at the last plan, steps since, steps before, episode over) → whether to plan anew."""
LARGEST = 5 * 10**7
"""Entries of a table of counts."""
DENSE = 150
"""States up to which policies are evaluated by dense elimination."""


class Planner(Agent):
    """Agents with a model: when they plan, and what they believe while they do."""

    discount: eqx.AbstractVar[float | None]
    on_policy: ClassVar[bool] = False

    @abstractmethod
    def model(self, counts: Counts, sums: Sums, gamma: float, rng: np.random.Generator) -> tuple[Counts, Sums]:
        """The probabilities (the end is the last outcome) and rewards to plan with."""

    @abstractmethod
    def stale(self, states: int, actions: int, gamma: float) -> Stale:
        """When to plan anew."""

    @property
    def acting(self) -> Exploration:
        """How actions follow from the planned values."""
        return Greedy()


def hoeffding_count(epsilon: Real, delta: Real, spread: Real = 1.0) -> int:
    """n ≥ R²/(2ε²) · log(2/δ): from so many independent numbers in a range of width R = `spread` on, their mean is
    within ε of its expectation with probability 1 - δ. Hoeffding (1963)."""
    given = {"epsilon": epsilon, "delta": delta, "spread": spread}
    error, chance, width = (check_real(value, name) for name, value in given.items())
    if not (error > 0 and 0 < chance < 1 and width >= 0):
        found = f"{epsilon!r}, {delta!r} and {spread!r}"
        raise DataError(f"epsilon must be positive, delta a probability and spread a width, found {found}")
    if width / error > 1e100:
        raise DataError(f"no count will do for an error of {error:g} in a range of {width:g}")
    return max(1, math.ceil((width / error) ** 2 / 2 * math.log(2 / chance)))


class RMax(Planner):
    """What was met fewer than m times is taken to pay r_max for ever: the agent goes and looks, or it does well.

    Off policy; episodic and continuing. `known` is m; without it m is the bound of `threshold`, which keeps its promise
    and is larger than what mostly does. Where `reward_min` is not given it is zero, or the least reward of an MDP if
    that is negative. Brafman & Tennenholtz (2002); Kakade (2003), chapter 8.
    """

    discount: float | None
    reward_max: float | None
    reward_min: float | None
    epsilon: float
    delta: float
    known: int | None

    def __init__(
        self,
        epsilon: Real = 0.1,
        delta: Real = 0.05,
        known: int | None = None,
        discount: Number = None,
        reward_max: Number = None,
        reward_min: Number = None,
    ) -> None:
        self.epsilon, self.delta = check_real(epsilon, "epsilon"), check_real(delta, "delta")
        if not (self.epsilon > 0 and 0 < self.delta < 1):
            raise DataError(f"epsilon must be positive and delta a probability, found {epsilon!r} and {delta!r}")
        if known is not None:
            check_count(known, "known")
        self.known = None if known is None else int(known)
        self.discount = check_discount(discount)
        self.reward_max = optional(reward_max, "reward_max")
        self.reward_min = optional(reward_min, "reward_min")

    def prepared(self, gamma: float, reward_max: float | None, reward_min: float | None = None) -> "RMax":
        """With the largest and the least reward."""
        least = min(reward_min, 0.0) if self.reward_min is None and reward_min is not None else self.reward_min
        return changed(self, reward_max=largest_reward(self.reward_max, reward_max, gamma), reward_min=least)

    def threshold(self, states: int, actions: int, gamma: float) -> int:
        """Visits m after which the model of a pair is good enough, with probability 1 - δ for all pairs at once.

        The values of two models that differ by ‖P̂ - P‖₁ ≤ e and |r̂ - r| ≤ d differ by (d + γ e V/2)/(1 - γ) at most,
        V = R/(1 - γ), R = r_max - r_min. With half of ε/2 for each of the terms, d = ε(1 - γ)/4 and
        e = ε(1 - γ)²/(2γR), the plan loses no more than ε where all is known, and

            m = max{2/e² · log((2^(s+1) - 2)·2sa/δ), R²/(2d²) · log(4sa/δ)}.

        Weissman et al. (2003) for the first bound, Hoeffding's inequality for the second; the simulation lemma is
        Kearns & Singh's (2002).
        """
        if self.known is not None:
            return self.known
        if self.reward_max is None:
            raise DataError("reward_max is missing: the known-ness threshold depends on it; give it, or `known`")
        least = 0.0 if self.reward_min is None else self.reward_min
        spread = self.reward_max - least
        if spread <= 0:
            raise DataError(f"reward_max must be above reward_min = {least:g}, found {self.reward_max:g}")
        pairs = states * actions
        far, off = self.epsilon * (1 - gamma) ** 2 / (2 * max(gamma, 1e-300) * spread), self.epsilon * (1 - gamma) / 4
        subsets = (states + 1) * math.log(2) + math.log1p(-(2.0**-states))
        by_state = 2 / min(far, 2.0) ** 2 * (subsets + math.log(2 * pairs / self.delta))
        return max(math.ceil(by_state), hoeffding_count(off, self.delta / (2 * pairs), spread))

    def model(self, counts: Counts, sums: Sums, gamma: float, rng: np.random.Generator) -> tuple[Counts, Sums]:
        """Frequencies where m visits were made; elsewhere r_max/(1 - γ), and the end."""
        states, actions = sums.shape
        seen = counts.sum(axis=2)
        unknown = seen < self.threshold(states, actions, gamma)
        return frequencies(counts, sums, seen, unknown, self.reward_max / (1 - gamma))  # type: ignore[operator]

    def stale(self, states: int, actions: int, gamma: float) -> Stale:
        """When another pair becomes known."""
        m = self.threshold(states, actions, gamma)
        return lambda n, marked, since, length, over: n == m


class ModelBased(Planner):
    """Plans with the frequencies seen so far, and explores as `explore` says.

    Off policy; episodic and continuing. With UCB(c) each pair is paid c/√n more than it was, and what is new
    r_max/(1 - γ): optimism reaches as far as the plan does. Strehl & Littman (2008), MBIE-EB. It plans anew whenever
    the visits of a pair have doubled.
    """

    explore: Exploration
    discount: float | None
    reward_max: float | None

    def __init__(self, explore: Rule = None, discount: Number = None, reward_max: Number = None) -> None:
        self.explore = EpsilonGreedy(0.1) if explore is None else as_exploration(explore)
        self.discount = check_discount(discount)
        self.reward_max = optional(reward_max, "reward_max")

    def prepared(self, gamma: float, reward_max: float | None, reward_min: float | None = None) -> "ModelBased":
        """With the largest reward, which only UCB needs."""
        if not isinstance(self.explore, UCB):
            return self
        return changed(self, reward_max=largest_reward(self.reward_max, reward_max, gamma))

    @property
    def acting(self) -> Exploration:
        """Greedy for UCB, whose bonus is in the plan."""
        return Greedy() if isinstance(self.explore, UCB) else self.explore

    def model(self, counts: Counts, sums: Sums, gamma: float, rng: np.random.Generator) -> tuple[Counts, Sums]:
        """Frequencies, with the bonus."""
        seen = counts.sum(axis=2)
        if not isinstance(self.explore, UCB):
            return frequencies(counts, sums, seen, seen == 0, 0.0)
        most = self.reward_max / (1 - gamma)  # type: ignore[operator]
        prob, rewards = frequencies(counts, sums, seen, seen == 0, most)
        return prob, np.where(seen == 0, most, rewards + self.explore.c / np.sqrt(np.maximum(seen, 1)))

    def stale(self, states: int, actions: int, gamma: float) -> Stale:
        """When visits have doubled."""
        return lambda n, marked, since, length, over: n >= 2 * max(marked, 0.5)


class PosteriorSampling(Planner):
    """Draws a world from what is believed and does what is best in it: Thompson's rule for worlds.

    Off policy; episodic and continuing. A new world at each episode, and within an episode when the visits of a pair
    have doubled or it lasts longer than the one before. `prior` is the Dirichlet weight of each successor, 1/s without;
    rewards are normal about means ~ N(reward, noise/strength). The policy of a run is that of its last draw. Osband,
    Russo & Van Roy (2013); Ouyang et al. (2017).
    """

    discount: float | None
    prior: float | None
    reward: float
    strength: float
    noise: float

    def __init__(
        self, discount: Number = None, prior: Number = None, reward: Real = 0.0, strength: Real = 1.0, noise: Real = 1.0
    ) -> None:
        self.discount = check_discount(discount)
        self.prior = optional(prior, "prior")
        self.reward, self.strength = check_real(reward, "reward"), check_real(strength, "strength")
        self.noise = check_real(noise, "noise")
        self.belief(1, 1)

    def belief(self, states: int, actions: int) -> WorldBelief:
        """Before any experience; the end becomes possible when it was seen."""
        return WorldBelief(states, actions, self.prior, False, self.reward, self.strength, self.noise)

    def model(self, counts: Counts, sums: Sums, gamma: float, rng: np.random.Generator) -> tuple[Counts, Sums]:
        """A draw from the posterior."""
        return self.belief(*sums.shape).add(counts, sums).draw(rng)

    def stale(self, states: int, actions: int, gamma: float) -> Stale:
        """At each episode, at doublings, and when it has lasted longer than the plan before."""
        return lambda n, marked, since, length, over: over or n > 2 * max(marked, 1) or since > length


def frequencies(counts: Counts, sums: Sums, seen: Sums, unknown: np.ndarray, worth: float) -> tuple[Counts, Sums]:
    """n(s, a, s')/n(s, a) and mean rewards; unknown pairs are worth so much, and the end."""
    n = np.maximum(seen, 1)
    prob, rewards = counts / n[:, :, None], sums / n
    prob[unknown] = 0.0
    prob[unknown, -1] = 1.0
    return prob, np.where(unknown, worth, rewards)


def best_values(prob: Counts, rewards: Sums, gamma: float, policy: np.ndarray) -> Sums:
    """Q* of a model by policy iteration from a policy."""
    s, a = rewards.shape
    flat, rows = prob[:, :, :-1].reshape(s * a, s), np.arange(s)
    matrix = flat if s <= DENSE else sp.csr_array(flat)

    def evaluate(policy: Policy, last: Vector) -> Vector:
        step, reward = matrix[rows * a + policy], rewards[rows, policy]
        return np.linalg.solve(np.eye(s) - gamma * step, reward) if s <= DENSE else direct(step, reward, gamma)

    def backup(value: Vector) -> Sums:
        return rewards + gamma * (matrix @ value).reshape(s, a)

    return howard(policy, np.zeros(s), evaluate, backup, lambda v: 1e-10 * (1 + np.abs(v).max()), 1000).q


class PlannerLoop(Loop):
    """One experiment of an agent that plans, in a world or an environment."""

    def __init__(self, agent: Planner, setting: Setting, number: int) -> None:
        super().__init__(setting, number)
        place = setting.place
        if setting.gamma == 1:
            raise DataError(f"{type(agent).__name__} plans with a discount below 1, found 1")
        if place.states * place.actions * (place.states + 1) > LARGEST:
            size = f"{place.states:,} states and {place.actions} actions"
            raise DataError(f"a model of {size} does not fit; take QLearning or Dyna")
        self.agent, self.gamma, self.shape = agent, setting.gamma, (place.states, place.actions)
        self.stale = agent.stale(*self.shape, setting.gamma)
        self.in_world = place.env is None

    def begin(self) -> State:
        """The first plan is made before anything was seen."""
        s, a = self.shape
        self.walk.enter(0)
        self.kept = {
            "table": np.zeros((1, s, 2 * a)),
            "counts": np.zeros((1, s, a, s + 1)),
            "sums": np.zeros((1, s, a)),
            "marked": np.zeros((1, s, a)),
            **{name: np.zeros(1) for name in ("since", "length", "plans")},
        }
        self._plan()
        return self.state()

    def enter(self, state: State, t: int) -> None:
        """Goes on where the state says."""
        super().enter(state, t)
        self.kept = {name: values.copy() for name, values in state.items()}
        self.walk.s, self.walk.age = int(state["s"][0]), int(state["age"][0])
        if not self.in_world:
            self.walk.enter(t)

    def state(self) -> State:
        """What is known of the world, the last plan, and where the walk is."""
        at = {"s": np.full(1, self.walk.s), "age": np.full(1, self.walk.age)}
        return {**{name: values.copy() for name, values in self.kept.items()}, **at, **super().state()}

    def _plan(self) -> None:
        a, kept = self.shape[1], self.kept
        number = int(kept["plans"][0])
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, self.number, number, 3]))
        prob, rewards = self.agent.model(kept["counts"][0], kept["sums"][0], self.gamma, rng)
        table = kept["table"][0]
        table[:, :a] = best_values(prob, rewards, self.gamma, np.argmax(table[:, :a], axis=1))
        kept["marked"][0] = table[:, a:]
        kept["plans"][0] += 1
        kept["length"][0], kept["since"][0] = kept["since"][0] + 1, 0

    def steps(self, draws: list[list[float]], begin: int) -> None:
        """Follows the plan, counts what happens, and plans anew where the agent says so."""
        (s, a), kept, walk, stale = self.shape, self.kept, self.walk, self.stale
        table, counts, sums = kept["table"][0], kept["counts"][0], kept["sums"][0]
        choose = self.agent.acting.chooser()
        q, n, marked = table[:, :a].tolist(), table[:, a:].astype(int).tolist(), kept["marked"][0].tolist()
        since, length = int(kept["since"][0]), int(kept["length"][0])
        for t, u in enumerate(draws, begin):
            at = walk.s
            k = choose(q[at], n[at], u[0], t, at)
            reward, following, done, cut = walk.step(k, u[1], u[2])
            counts[at, k, s if done else following] += 1
            sums[at, k] += reward
            n[at][k] += 1
            since += 1
            if stale(n[at][k], marked[at][k], since, length, done or cut):
                table[:, a:] = n
                kept["since"][0] = since
                self._plan()
                q, marked = table[:, :a].tolist(), kept["marked"][0].tolist()
                since, length = 0, int(kept["length"][0])
        table[:, a:] = n
        kept["since"][0] = since
