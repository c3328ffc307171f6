"""Agents that learn values of actions from one step at a time.

    agent = QLearning(explore=EpsilonGreedy(0.1), rate=PolynomialDecay(0.8), discount=0.99)
    run = agent.learn(world, steps=200_000, seeds=64)

An agent is a description: it holds no values. Each rule is written twice, compiled for many experiments at once and in
plain Python for environments whose steps are Python; tests hold both against NumPy. Sutton & Barto (2018), chapter 6.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar, SupportsFloat

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from credo.core.checks import ArrayLike, check_count, check_real
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.decide.agents.exploration import EpsilonGreedy, Exploration, Greedy, as_exploration
from credo.decide.agents.value_table import Move, Numbers, Table, TableShape, Whole
from credo.infer.schedules import Harmonic, Schedule, as_schedule

Lists = list[list[float]]
Visits = list[list[int]]
Update = Callable[[int, int, float, int, bool, bool, int, list[float], int], None]
"""(s, a, r, s', done, cut, a', uniforms, t) → values changed in place."""
Memory = dict[str, Array]
Updated = tuple[Table, Memory]
Number = SupportsFloat | None
Rule = Exploration | ArrayLike | None
"""A rule, or the policy to follow: an action for each state, or probabilities."""
Rate = Schedule | float | None


class Agent(eqx.Module):
    """What all agents share: `learn`, and what kind of learner they are."""

    on_policy: ClassVar[bool]
    """Whether the values learned are those of the policy that acts."""
    setting: ClassVar[str] = "episodic and continuing"

    discount: eqx.AbstractVar[float | None]

    def learn(
        self,
        source: Any,
        steps: int | None = None,
        *,
        seeds: int | None = None,
        seed: int | None = None,
        evaluate_every: int | None = None,
        horizon: int | None = None,
        episodes: int = 100,
        resume: Any = None,
    ) -> Any:
        """Acts and learns for `steps` more steps in each of `seeds` independent experiments; returns a `Run`.

        Args:
            source: an MDP (compiled, all experiments at once), or a discrete gymnasium environment or its name. Where
                an MDP has no start, episodes begin anywhere. Or a `Trajectory`: agents that are not bound to their own
                actions (`QLearning`, `ExpectedSARSA`, `DoubleQ`, `Dyna`) learn from what others did.
            steps: of each experiment; of a trajectory its steps are gone through in their order, once where it is not
                given, else again and again.
            seeds: how many experiments; 1 where it is not given.
            seed: which experiments; 0 where it is not given. The same seed gives the same run.
            evaluate_every: evaluate the greedy policy apart from training every so many steps, and at the end.
            horizon: break an episode off after so many steps, and begin anew; the value of going on still counts.
            episodes: of an evaluation in an environment whose probabilities are not known; else it is exact.
            resume: a `Run` to go on from; in an environment a new episode is begun.
        """
        from credo.decide.agents.learning import learn

        return learn(self, source, steps, seeds, seed, evaluate_every, horizon, episodes, resume)

    @property
    def rules(self) -> list[Exploration]:
        """Those of its fields that say how to act."""
        return [rule for rule in vars(self).values() if isinstance(rule, Exploration)]

    def prepared(self, gamma: float, reward_max: float | None, reward_min: float | None = None) -> "Agent":
        """The agent with what it takes from the world filled in."""
        return self


class Tabular(Agent):
    """Agents that keep Q(s, a) and move it towards targets: what acts, how fast it learns, where values begin.

    Without a rule ε is 0.1; without a rate it is ½/(1 + n/100) at the n-th visit of a pair, which on gymnasium's tables
    learns much faster than rates that begin at one: the first targets are worth nothing.
    """

    explore: Exploration
    rate: Schedule
    discount: float | None
    initial: float

    tables: ClassVar[int] = 1
    uniforms: ClassVar[int] = 3
    """How many uniform numbers a step takes: for the action, the successor, the next start, and more."""
    follows: ClassVar[bool] = False
    """Whether the next action is chosen before the update, and taken."""

    def __init__(self, explore: Rule = None, rate: Rate = None, discount: Number = None, initial: float = 0.0) -> None:
        self.explore = EpsilonGreedy(0.1) if explore is None else as_exploration(explore)
        self.rate = Harmonic(0.5, 100.0) if rate is None else as_schedule(rate, "rate")
        if float(self.rate(0)) > 1:
            raise DataError(f"rate must be at most 1, found {float(self.rate(0)):g} at the first visit")
        self.discount = check_discount(discount)
        self.initial = check_real(initial, "initial")

    # ── compiled, for many experiments

    def memory(self, shape: TableShape) -> Memory:
        """What the agent remembers besides values and visits; the first axis is the experiment."""
        return {}

    def update(self, shape: TableShape, table: Table, memory: Memory, move: Move, gamma: Array) -> Updated:
        """Q(s, a) ← Q(s, a) + rate · (r + γ V(s') - Q(s, a)); V(s') is the agent's `bootstrap`, 0 at the end."""
        value, which = self.bootstrap(shape, shape.row(table, move.s2), move)
        target = move.r + gamma * jnp.where(move.done, 0.0, value)
        return shape.nudge(table, move.s, move.a, target, self.rate, which), memory

    def bootstrap(self, shape: TableShape, row: Float[Array, "g w"], move: Move) -> tuple[Numbers, Whole | int]:
        """V(s'), and which table is to learn from it; here maxₐ Q(s', a)."""
        return jnp.max(shape.values(row), axis=1), 0

    # ── in plain Python, for one experiment

    def updater(self, tables: list[Lists], acting: Lists, counts: Visits, gamma: float) -> Update:
        """The same as a closure over lists. `acting` is the table itself where there is one."""
        q = tables[0]
        rate, value_of = self.rate.function(), self.valuer(q, counts)

        def update(s: int, a: int, r: float, s2: int, done: bool, cut: bool, a2: int, u: list[float], t: int) -> None:
            row, seen = q[s], counts[s]
            k = seen[a]
            seen[a] = k + 1
            old = row[a]
            row[a] = old + rate(k) * ((r if done else r + gamma * value_of(s2, a2, t)) - old)

        return update

    def valuer(self, q: Lists, counts: Visits) -> Callable[[int, int, int], float]:
        """(s', a', t) → V(s')."""
        return lambda s2, a2, t: max(q[s2])


class QLearning(Tabular):
    """V(s') = maxₐ Q(s', a): off policy; episodic and continuing. Watkins & Dayan (1992).

    Converges to Q* where all pairs are visited for ever and the rate fulfils Robbins & Monro's conditions.
    """

    on_policy: ClassVar[bool] = False

    def __init__(self, explore: Rule = None, rate: Rate = None, discount: Number = None, initial: float = 0.0) -> None:
        super().__init__(explore, rate, discount, initial)


class OptimisticQ(QLearning):
    """Q-learning from the largest value there can be, r_max/(1 - γ), with greedy actions: what is new looks good.

    Off policy; episodic and continuing. `reward_max` is taken from the world where it is known. Each visit forgets a
    part αₜ of the initial value; with `visits` = T it begins at V_min + (V_max - V_min) ∏_{t<T} (1 - αₜ)⁻¹, which no
    value falls below V_max from in T visits, whatever they pay; V_min = r_min/(1 - γ), or 0 if that is less or not
    known. Even-Dar & Mansour (2001), "Convergence of optimistic and incremental Q-learning".
    """

    reward_max: float | None
    visits: int

    def __init__(
        self,
        explore: Rule = None,
        rate: Rate = None,
        discount: Number = None,
        reward_max: Number = None,
        visits: int = 0,
    ) -> None:
        super().__init__(Greedy() if explore is None else explore, rate, discount)
        self.reward_max = optional(reward_max, "reward_max")
        check_count(visits, "visits", least=0)
        self.visits = int(visits)
        if self.visits and not float(self.rate(0)) < 1:
            raise DataError("a rate of one forgets the initial value at once; take a smaller one, or visits=0")

    def prepared(self, gamma: float, reward_max: float | None, reward_min: float | None = None) -> "OptimisticQ":
        """With its initial value."""
        most = largest_reward(self.reward_max, reward_max, gamma) / (1 - gamma)
        least = min(reward_min or 0.0, 0.0, most * (1 - gamma)) / (1 - gamma)
        kept = math.prod(1 - float(self.rate(t)) for t in range(self.visits))
        return changed(self, initial=least + (most - least) / kept)


class SARSA(Tabular):
    """V(s') = Q(s', a') of the action a' that is taken next: on policy; episodic and continuing.

    Converges to Q* where exploration fades out (εₜ → 0, Σ εₜ = ∞), else to the values of the policy that explores:
    with `explore` an array, of that policy.
    Rummery & Niranjan (1994).
    """

    on_policy: ClassVar[bool] = True
    follows: ClassVar[bool] = True

    def __init__(self, explore: Rule = None, rate: Rate = None, discount: Number = None, initial: float = 0.0) -> None:
        super().__init__(explore, rate, discount, initial)

    def bootstrap(self, shape: TableShape, row: Float[Array, "g w"], move: Move) -> tuple[Numbers, Whole | int]:
        """The value of the next action."""
        return jnp.take_along_axis(shape.values(row), move.a2[:, None], axis=1)[:, 0], 0

    def valuer(self, q: Lists, counts: Visits) -> Callable[[int, int, int], float]:
        """The value of the next action."""
        return lambda s2, a2, t: q[s2][a2]


class ExpectedSARSA(Tabular):
    """V(s') = Σₐ π(a | s') Q(s', a): on policy, or off policy with another `target`; episodic and continuing.

    Without `target` π is the rule that explores; Greedy() makes it Q-learning, an array the given policy whose values
    are learned. van Seijen et al. (2009).
    """

    target: Exploration | None

    def __init__(
        self,
        explore: Rule = None,
        rate: Rate = None,
        discount: Number = None,
        initial: float = 0.0,
        target: Rule = None,
    ) -> None:
        super().__init__(explore, rate, discount, initial)
        self.target = None if target is None else as_exploration(target, "target")

    @property
    def on_policy(self) -> bool:  # type: ignore[override]
        """Where there is no other target."""
        return self.target is None

    def bootstrap(self, shape: TableShape, row: Float[Array, "g w"], move: Move) -> tuple[Numbers, Whole | int]:
        """The mean under the target."""
        rule = self.explore if self.target is None else self.target
        return rule.expect(shape.values(row), shape.visits(row), move.t + 1, move.s2), 0

    def valuer(self, q: Lists, counts: Visits) -> Callable[[int, int, int], float]:
        """The mean under the target."""
        expect = (self.explore if self.target is None else self.target).expecter()
        return lambda s2, a2, t: expect(q[s2], counts[s2], t + 1, s2)


class DoubleQ(Tabular):
    """Two tables: one chooses the best next action, the other says what it is worth; a coin says which learns.

    Off policy; episodic and continuing. Without it a maximum over noisy values is too large. van Hasselt (2010).
    """

    on_policy: ClassVar[bool] = False
    tables: ClassVar[int] = 2
    uniforms: ClassVar[int] = 4  # one for the coin

    def __init__(self, explore: Rule = None, rate: Rate = None, discount: Number = None, initial: float = 0.0) -> None:
        super().__init__(explore, rate, discount, initial)

    def bootstrap(self, shape: TableShape, row: Float[Array, "g w"], move: Move) -> tuple[Numbers, Whole | int]:
        """Q₂(s', argmax Q₁(s', ·)), or the other way round."""
        a = shape.actions
        one, two = row[:, :a], row[:, a : 2 * a]
        second = move.u[3] >= 0.5
        best = jnp.argmax(jnp.where(second[:, None], two, one), axis=1)
        value = jnp.take_along_axis(jnp.where(second[:, None], one, two), best[:, None], axis=1)[:, 0]
        return value, second.astype(jnp.int32)

    def updater(self, tables: list[Lists], acting: Lists, counts: Visits, gamma: float) -> Update:
        """The same in plain Python."""
        one, two = tables
        rate = self.rate.function()

        def update(s: int, a: int, r: float, s2: int, done: bool, cut: bool, a2: int, u: list[float], t: int) -> None:
            mine, other = (two, one) if u[3] >= 0.5 else (one, two)
            row, seen = mine[s], counts[s]
            k = seen[a]
            seen[a] = k + 1
            target = r
            if not done:
                choices = mine[s2]
                target += gamma * other[s2][choices.index(max(choices))]
            row[a] += rate(k) * (target - row[a])
            acting[s][a] = (one[s][a] + two[s][a]) / 2

        return update


def largest_reward(own: float | None, known: float | None, gamma: float) -> float:
    """The reward that optimism hopes for: the agent's own, or what is known of the world."""
    if gamma == 1:
        raise DataError("optimism needs a discount below 1: r_max/(1 - γ) must be finite")
    if own is None and known is None:
        raise DataError("reward_max is missing: the environment does not say how large its rewards can be")
    return known if own is None else own  # type: ignore[return-value]


def check_discount(discount: Number) -> float | None:
    """A number from 0 to 1, or None for the world's own."""
    return None if discount is None else check_real(discount, "discount", 0, 1)


def optional(value: Number, name: str) -> float | None:
    """A plain number, or None."""
    return None if value is None else check_real(value, name)
