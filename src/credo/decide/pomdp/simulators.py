"""Worlds given only as simulators: what planning at the moment of acting asks of a problem whose state is hidden.

A problem of one's own derives from `World` with `begin` and `step`. Ready ones are a POMDP with its probabilities, a
gymnasium environment (its copies are the states), and a `StateSpaceModel`, whose state is continuous.
"""

import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.checks import ArrayLike, check_real
from credo.core.errors import DataError, RepairedWarning
from credo.core.linalg import cholesky
from credo.decide.pomdp.model import POMDP
from credo.decide.pomdp.sampling import Simulator

Generator = np.random.Generator
Policy = Callable[[Any, Generator], Hashable]
"""An action for a state, by its name: what a simulation does beyond the tree."""
TRIES, PATIENCE = 100, 10
"""Draws for each particle that must agree with an observation; and those after which a tenth of them is enough."""
FEWEST, PART = 4, 16
"""A policy is simulated for a lower bound from so many states at least, and from a part of them."""


class Moved(NamedTuple):
    """What happened to many states: where they are, what is seen, what is paid, and whether it is over."""

    states: Any
    seen: Any
    """What can be looked up, one for each."""
    rewards: Float[np.ndarray, " n"]
    over: np.ndarray


class Lookahead(NamedTuple):
    """What an action is expected to be worth, by what is earned at least from where it leads."""

    value: float
    """r(b, a) + γ Σₒ P(o | b, a) floor(bao)."""
    chances: Mapping[Hashable, float]
    """P(o | b, a)."""


class World(ABC):
    """A problem as a simulator; states are anything."""

    actions: tuple[Hashable, ...]
    discount: float
    reward_max: float | None = None
    """The largest reward there is, where it is known: what bounds the value from above."""

    @abstractmethod
    def begin(self, random: Generator) -> Any:
        """A state drawn from the start."""

    @abstractmethod
    def step(self, state: Any, action: int, random: Generator) -> tuple[Any, Hashable, float, bool]:
        """A next state, what is seen, the reward, and whether the episode is over; `state` is left as it is."""

    def likelihood(self, seen: Any, action: int, states: Any) -> Float[np.ndarray, " n"] | None:
        """p(seen | action, state) of states after the action; None: what was drawn must be equal to what is seen."""
        return None

    def begin_many(self, n: int, random: Generator) -> Any:
        """States drawn from the start."""
        return [self.begin(random) for _ in range(n)]

    def step_many(self, states: Any, action: int, random: Generator) -> Moved:
        """`step` for each of many states."""
        each = [self.step(state, action, random) for state in states]
        after, seen, rewards, over = zip(*each, strict=True)
        return Moved(list(after), seen, self.checked(np.array(rewards, dtype=float)), np.array(over, dtype=bool))

    def checked(self, rewards: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Rewards, or an error where one cannot be."""
        most = math.inf if self.reward_max is None else self.reward_max
        bad = ~(np.isfinite(rewards) & (rewards <= most + 1e-9 * abs(most)))
        if bad.any():
            must = "finite" if self.reward_max is None else f"finite and at most its reward_max, {most:g}"
            raise DataError(f"the rewards of {type(self).__name__} must be {must}, found {rewards[bad][0]:g}")
        return rewards

    def chosen(self, states: Any, index: np.ndarray) -> Any:
        """Some of many states, by their numbers."""
        return [states[k] for k in index.tolist()] if isinstance(states, list) else states[index]

    def floor(self, state: Any) -> tuple[float, int]:
        """What is earned at least from a state, and by which action; -inf where it is not known."""
        return -math.inf, 0

    def lookahead(self, state: Any, action: int) -> Lookahead | None:
        """One step ahead, where probabilities are known; None where they are not."""
        return None

    def lower(self, states: Any, steps: int, random: Generator, policy: Policy | None) -> tuple[float, int]:
        """What a policy (None: random actions) earns from some of the states, simulated, and its first action."""
        left = self.chosen(states, np.arange(min(len(states), max(FEWEST, len(states) // PART))))
        total, weight, n, first = 0.0, 1.0, len(left), 0
        for t in range(steps):
            action = self.chosen_by(policy, left[0], random)
            first = action if t == 0 else first
            moved = self.step_many(left, action, random)
            total += weight * float(moved.rewards.sum()) / n
            weight *= self.discount
            on = np.flatnonzero(~moved.over)
            if not len(on) or weight < 0.01:
                break
            left = self.chosen(moved.states, on)
        return total, first

    def upper(self, states: Any, steps: int) -> float:
        """What no policy earns more than, on average over the states."""
        if self.reward_max is None:
            raise DataError(
                "DESPOT needs reward_max of the world, the largest reward of a step; set it, or use POMCP()"
            )
        g = self.discount
        longest = steps if g == 1 else (1 - g**steps) / (1 - g)
        return self.reward_max * (longest if self.reward_max > 0 else 1)  # an episode may end after a step

    def worth(self, state: Any) -> Sequence[int]:
        """The actions that may be best in a state, the most promising last; the others are not tried."""
        return range(len(self.actions))

    def value(self, state: Any, steps: int, random: Generator, policy: Policy | None) -> float:
        """An estimate of what a state is worth: one episode by a policy, or by random actions."""
        total, weight = 0.0, 1.0
        for _ in range(steps):
            state, _, reward, over = self.step(state, self.chosen_by(policy, state, random), random)
            total += weight * reward
            weight *= self.discount
            if over or weight < 0.01:
                break
        return total

    def chosen_by(self, policy: Policy | None, state: Any, random: Generator) -> int:
        """The number of a policy's action."""
        return int(random.random() * len(self.actions)) if policy is None else self.number(policy(state, random))

    # ── what is believed: particles, unless more is known

    def believe(self, n: int, random: Generator) -> Any:
        """What is known of the state before anything was done."""
        return self.begin_many(n, random)

    def draws(self, belief: Any, n: int, random: Generator) -> Any:
        """States drawn from a belief."""
        return self.chosen(belief, random.integers(len(belief), size=n))

    def updated(self, belief: Any, action: int, seen: Any, random: Generator) -> Any:
        """The belief after an action and an observation.

        Particles are weighted where there is a likelihood; else those that agree are drawn, joined by what is `nearby`
        where they are few (reinvigoration). Where none agrees, the observation is left out, with a warning.
        """
        n, wanted, found = len(belief), self.code(seen), list[Any]()
        moved = self.step_many(belief, action, random)
        weights = self.likelihood(seen, action, moved.states)
        if weights is not None:
            weights = np.where(moved.over, 0.0, weights)
            if weights.any():
                return self.chosen(moved.states, random.choice(n, size=n, p=weights / weights.sum()))
        for attempt in range(TRIES if weights is None else 0):
            agree = np.flatnonzero([each == wanted for each in moved.seen] & ~moved.over)
            found += [moved.states[k] for k in agree.tolist()]
            if len(found) >= (n if attempt < PATIENCE else n / 10):
                break
            again = [self.nearby(each, random) for each in belief] if attempt >= TRIES // 2 else belief
            moved = self.step_many(again, action, random)
        if found:
            return found[:n] if len(found) >= n else [found[k] for k in random.integers(len(found), size=n).tolist()]
        warnings.warn(
            f"none of {n} particles agrees with the observation {wanted!r}, which the belief leaves out; use more "
            "particles, give the world a likelihood or `nearby`, or a width= where what is seen is continuous",
            RepairedWarning,
            stacklevel=3,
        )
        return moved.states

    def nearby(self, state: Any, random: Generator) -> Any:
        """A state like this one, for particles that have become few; the same one, unless the world knows better."""
        return state

    def code(self, seen: Any) -> Hashable:
        """An observation as the search knows it."""
        return hashable(seen)

    def number(self, action: Any) -> int:
        """The number of an action."""
        for name in (action, hashable(action)):
            with suppress(ValueError):
                return self.actions.index(name)
        known = ", ".join(str(each) for each in self.actions[:8]) + (", …" if len(self.actions) > 8 else "")
        raise DataError(f"there is no action {action!r}; there are {known}")


class FiniteWorld(World):
    """A POMDP taken as a simulator; states and observations are numbers."""

    def __init__(self, pomdp: POMDP) -> None:
        self.pomdp, self.actions, self.discount = pomdp, pomdp.action_names, pomdp.discount
        self.reward_max = float(pomdp.rewards.max())
        self._simulator = Simulator(pomdp)

    def begin(self, random: Generator) -> int:
        """From the start belief."""
        return int(self.begin_many(1, random)[0])

    def begin_many(self, n: int, random: Generator) -> np.ndarray:
        """From the start belief."""
        return random.choice(len(self.pomdp.start), size=n, p=self.pomdp.start)

    def step(self, state: int | np.integer, action: int, random: Generator) -> tuple[int, int, float, bool]:
        """By the tables."""
        self._simulator.random = random
        after, seen, paid = self._simulator.step_one(int(state), action)
        return after, seen, paid, bool(self._simulator.terminal[after])

    def step_many(self, states: np.ndarray, action: int, random: Generator) -> Moved:
        """All at once."""
        self._simulator.random = random
        after, seen, paid = self._simulator.step(np.asarray(states), np.full(len(states), action))
        return Moved(after, seen, paid, self._simulator.terminal[after])

    def likelihood(self, seen: Any, action: int, states: np.ndarray) -> Float[np.ndarray, " n"]:
        """P(o | a, s')."""
        return self.pomdp.observations[action][np.asarray(states)][:, [self.code(seen)]].toarray().ravel()

    def code(self, seen: Any) -> int:
        """The number of an observation, from its name or number."""
        return self.pomdp.observation(seen)

    def number(self, action: Any) -> int:
        """The number of an action, from its name or number."""
        return self.pomdp.action(action)


class GymWorld(World):
    """A gymnasium environment whose observations do not tell its state: states are copies of it.

    The copies draw from generators of their own, which are seeded anew at each step. Where observations are continuous,
    those that fall into the same multiples of `width` are taken for the same.
    """

    def __init__(
        self, env: Any, discount: float = 0.95, reward_max: float | None = None, *, width: float | None = None
    ) -> None:
        from credo.decide.mdp.sources import made

        self.env = made(env) if isinstance(env, str) else env
        space: Any = getattr(self.env, "action_space", None)
        if getattr(space, "n", None) is None or np.ndim(space.n):
            raise DataError(f"an environment with a number of actions is needed, found {space or type(env).__name__}")
        first = int(getattr(space, "start", 0))
        self.actions, self.discount = tuple(range(first, first + int(space.n))), check_real(discount, "discount", 0, 1)
        self.reward_max = reward_max
        self.width = None if width is None else check_real(width, "width", 1e-12)

    def begin(self, random: Generator) -> Any:
        """A copy after a reset of its own."""
        env = copy.deepcopy(self.env)
        env.reset(seed=int(random.integers(2**31)))
        return env

    def step(self, state: Any, action: int, random: Generator) -> tuple[Any, Hashable, float, bool]:
        """A step of a copy of the copy."""
        env = layer = copy.deepcopy(state)
        while layer is not None:  # wrappers may draw, too
            for name, value in vars(layer).items():
                if isinstance(value, Generator):
                    setattr(layer, name, np.random.default_rng(int(random.integers(2**63))))
            layer = None if layer is env.unwrapped else layer.env
        seen, reward, ended, cut, _ = env.step(self.actions[action])
        return env, self.code(seen), float(reward), bool(ended or cut)

    def code(self, seen: Any) -> Hashable:
        """As it can be looked up; in multiples of the width, where there is one."""
        return hashable(seen, self.width)


class StateSpaceWorld(World):
    """A `StateSpaceModel` whose inputs are the actions; particles are its states, `reward(states, input)` pays them.

    What is seen is rounded to multiples of `width` where the search branches on it; beliefs use it as it is. `DESPOT`,
    which moves all scenarios at once, searches it faster than `POMCP`.
    """

    def __init__(
        self,
        model: Any,
        inputs: ArrayLike,
        reward: Callable[[np.ndarray, np.ndarray], Any],
        discount: float = 0.95,
        *,
        width: float = 1.0,
        reward_max: float | None = None,
    ) -> None:
        import jax

        if not len(inputs):
            raise DataError("inputs must have a row for each action, found none")
        self.model, self.reward, self.reward_max = model, reward, reward_max
        self.inputs = np.asarray(inputs, dtype=float).reshape(len(inputs), -1)
        self.actions, self.discount = tuple(map(hashable, inputs)), check_real(discount, "discount", 0, 1)
        self.width = check_real(width, "width", 1e-12)
        self._move = jax.jit(lambda key, states, u: model.move(key, states, u))
        self._show = jax.jit(lambda states, u: jax.vmap(lambda z: model.outcome(z, u))(states))
        self._fit = jax.jit(lambda x, seen, states, u: model.log_probs(x, seen, states, u))
        self._root = np.asarray(cholesky(np.asarray(model.noise_for("planning")), "the noise"))

    def begin(self, random: Generator) -> Any:
        """From the model's start."""
        return self.begin_many(1, random)[0]

    def begin_many(self, n: int, random: Generator) -> np.ndarray:
        """From the model's start."""
        return np.asarray(self.model.draw_start(_key(random), n, None))

    def step(self, state: Any, action: int, random: Generator) -> tuple[Any, Hashable, float, bool]:
        """As many."""
        moved = self.step_many(state[None], action, random)
        return moved.states[0], moved.seen[0], float(moved.rewards[0]), False

    def step_many(self, states: np.ndarray, action: int, random: Generator) -> Moved:
        """Moves, outcomes with their noise, and rewards of where they were."""
        u, n = self.inputs[action], len(states)
        padded = np.concatenate([states, np.repeat(states[:1], -n % 64, axis=0)])  # few sizes to compile for
        after = self._move(_key(random), padded, u)
        means = np.asarray(self._show(after, u))[:n]
        seen = means + random.normal(size=means.shape) @ self._root.T
        paid = np.broadcast_to(np.asarray(self.reward(states, u), dtype=float), (n,))
        codes = list(map(tuple, np.round(seen / self.width).astype(int).tolist()))
        return Moved(np.asarray(after)[:n], codes, self.checked(paid), np.zeros(n, dtype=bool))

    def code(self, seen: Any) -> Hashable:
        """In multiples of the width."""
        x = np.atleast_1d(np.asarray(seen, dtype=float))
        if not np.isfinite(x).all():
            raise DataError(f"what is seen must be finite numbers, found {seen}")
        return hashable(x, self.width)

    def likelihood(self, seen: Any, action: int, states: np.ndarray) -> Float[np.ndarray, " n"]:
        """Of the model."""
        x = np.atleast_1d(np.asarray(seen, dtype=float))
        logs = np.asarray(self._fit(x, np.ones(len(x), dtype=bool), np.asarray(states), self.inputs[action])[0])
        return np.exp(logs - max(float(logs.max()), -1e300))


def check_world(world: World) -> None:
    """An error where a world lacks what a search asks of it; each action is tried once to see."""
    actions, what = getattr(world, "actions", ()), type(world).__name__
    if not isinstance(actions, Sequence) or not actions:
        raise DataError(f"{what} must have actions, a tuple of their names, found {actions!r}")
    check_real(getattr(world, "discount", None), f"discount of {what}", 0, 1)
    if world.reward_max is not None:
        check_real(world.reward_max, f"reward_max of {what}")
    random = np.random.default_rng(0)
    for action, name in enumerate(actions):
        state = world.begin(random)
        before = repr(state)
        step = world.step(state, action, random)
        if not isinstance(step, tuple) or len(step) != 4:
            raise DataError(f"step of {what} must return (state, seen, reward, over), found {step!r} after {name!r}")
        check_real(step[2], f"the reward of {what}")
        if repr(state) != before:
            raise DataError(f"step of {what} must leave the state that it is given as it is, and return another one")
        for part, value in (("an action", name), ("what is seen", step[1])):
            try:
                hash(value)
            except TypeError:
                must = "must be hashable, such as a number, a text or a tuple"
                raise DataError(f"{part} in {what} {must}, found {value!r}") from None


def hashable(seen: Any, width: float | None = None) -> Hashable:
    """An observation as something that can be looked up; real numbers in multiples of the width, where there is one."""
    if isinstance(seen, np.ndarray | np.generic):
        seen = seen.tolist()
    if isinstance(seen, dict):
        return tuple((key, hashable(value, width)) for key, value in sorted(seen.items()))
    if isinstance(seen, list | tuple):
        return tuple(hashable(each, width) for each in seen)
    return round(seen / width) if width is not None and isinstance(seen, float) else seen


def _key(random: Generator) -> Any:
    import jax.random as jr

    return jr.key(int(random.integers(2**31)))
