"""Worlds given only as simulators: what planning at the moment of acting asks of a problem whose state is hidden.

A problem of one's own derives from `World` with `begin` and `step`. Ready ones are a POMDP with its probabilities, a
gymnasium environment (its copies are the states), and a `StateSpaceModel`, whose state is continuous.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.checks import check_real
from credo.core.errors import DataError
from credo.core.linalg import cholesky
from credo.decide.pomdp.bounds import blind, fib
from credo.decide.pomdp.model import POMDP

Generator = np.random.Generator


class Moved(NamedTuple):
    """What happened to many states: where they are, what is seen, what is paid, and whether it is over."""

    states: Any
    seen: Any
    """What can be looked up, one for each."""
    rewards: Float[np.ndarray, " n"]
    over: np.ndarray


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

    def likelihood(self, seen: Hashable, action: int, states: Any) -> Float[np.ndarray, " n"] | None:
        """p(seen | action, state) of states after the action; None: what was drawn must be equal to what is seen."""
        return None

    def begin_many(self, n: int, random: Generator) -> Any:
        """States drawn from the start."""
        return [self.begin(random) for _ in range(n)]

    def step_many(self, states: Any, action: int, random: Generator) -> Moved:
        """`step` for each of many states."""
        each = [self.step(state, action, random) for state in states]
        after, seen, rewards, over = zip(*each, strict=True)
        return Moved(list(after), seen, np.array(rewards, dtype=float), np.array(over, dtype=bool))

    def chosen(self, states: Any, index: np.ndarray) -> Any:
        """Some of many states, by their numbers."""
        return [states[k] for k in index.tolist()] if isinstance(states, list) else states[index]

    def lower(self, states: Any, steps: int, random: Generator) -> tuple[float, int]:
        """What some policy earns from the states on average, and its first action: here random actions, simulated."""
        total, weight, first, left = 0.0, 1.0, int(random.integers(len(self.actions))), states
        n = len(states)
        for t in range(steps):
            moved = self.step_many(left, first if t == 0 else int(random.integers(len(self.actions))), random)
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
        return self.reward_max * (steps if g == 1 else (1 - g**steps) / (1 - g))

    def guess(self, state: Any) -> list[float] | None:
        """What each action may be worth in a state, where something is known of it: a search begins with that."""
        return None

    def value(self, state: Any, steps: int, random: Generator) -> float:
        """An estimate of what a state is worth: one episode of random actions."""
        total, weight = 0.0, 1.0
        for _ in range(steps):
            state, _, reward, over = self.step(state, int(random.integers(len(self.actions))), random)
            total += weight * reward
            weight *= self.discount
            if over or weight < 0.01:
                break
        return total


class FiniteWorld(World):
    """A POMDP with its probabilities; states and observations are numbers."""

    def __init__(self, pomdp: POMDP) -> None:
        self.pomdp, self.actions, self.discount = pomdp, pomdp.action_names, pomdp.discount
        self.reward_max = float(pomdp.rewards.max())
        self._terminal = pomdp.terminal
        self._paid = pomdp.rewards.tolist()
        self._totals = np.cumsum(pomdp.moves), np.cumsum(pomdp.shows)
        self._rows: dict[tuple[int, int], tuple[list[int], list[float]]] = {}
        self._fib, self._blind = fib(pomdp), blind(pomdp)
        self._over = self._terminal.tolist()
        self._floor = self._blind[int((self._blind @ pomdp.start).argmax())]
        ahead = [moves @ self._floor for moves in pomdp.transitions]
        self._ahead = pomdp.rewards + self.discount * np.stack(ahead, axis=1)

    def begin(self, random: Generator) -> int:
        """From the start belief."""
        return int(self.begin_many(1, random)[0])

    def begin_many(self, n: int, random: Generator) -> np.ndarray:
        """From the start belief."""
        return random.choice(len(self.pomdp.start), size=n, p=self.pomdp.start)

    def step(self, state: int, action: int, random: Generator) -> tuple[int, int, float, bool]:
        """By the tables, row after row as they are needed."""
        p, s = self.pomdp, len(self._over)
        after = self._one(0, action * s + state, p.move_indptr, p.move_indices, p.moves, random)
        seen = self._one(1, action * s + after, p.show_indptr, p.show_indices, p.shows, random)
        return after, seen, self._paid[state][action], self._over[after]

    def step_many(self, states: np.ndarray, action: int, random: Generator) -> Moved:
        """All at once."""
        p, s = self.pomdp, len(self._over)
        after = self._many(0, action * s + states, p.move_indptr, p.move_indices, random)
        seen = self._many(1, action * s + after, p.show_indptr, p.show_indices, random)
        return Moved(after, seen, p.rewards[states, action], self._terminal[after])

    def lower(self, states: np.ndarray, steps: int, random: Generator) -> tuple[float, int]:
        """The best of the blind policies."""
        each = self._blind[:, states].mean(axis=1)
        return float(each.max()), int(each.argmax())

    def upper(self, states: np.ndarray, steps: int) -> float:
        """The fast informed bound."""
        return float(self._fib[:, states].mean(axis=1).max())

    def guess(self, state: int) -> list[float]:
        """The action, then the blind policy that is best from the start."""
        return self._ahead[state].tolist()

    def value(self, state: int, steps: int, random: Generator) -> float:
        """Of the blind policy that is best from the start."""
        return float(self._floor[state])

    def _one(
        self, kind: int, row: int, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, random: Generator
    ) -> int:
        known = self._rows.get((kind, row))
        if known is None:
            part = slice(indptr[row], indptr[row + 1])
            known = (indices[part].tolist(), np.cumsum(data[part]).tolist())
            self._rows[kind, row] = known
        columns, sums = known
        if len(columns) == 1:
            return columns[0]
        u = random.random() * sums[-1]
        for column, total in zip(columns, sums, strict=True):
            if u < total:
                return column
        return columns[-1]

    def _many(
        self, kind: int, rows: np.ndarray, indptr: np.ndarray, indices: np.ndarray, random: Generator
    ) -> np.ndarray:
        total, low, high = self._totals[kind], indptr[rows], indptr[rows + 1]
        below = np.where(low > 0, total[low - 1], 0.0)
        at = np.searchsorted(total, below + random.random(len(rows)) * (total[high - 1] - below), side="right")
        return indices[np.clip(at, low, high - 1)]


class GymWorld(World):
    """A gymnasium environment whose observations do not tell its state: states are copies of it.

    The copies draw from generators of their own, which are seeded anew at each step.
    """

    def __init__(self, env: Any, discount: float = 0.95, reward_max: float | None = None) -> None:
        from credo.decide.mdp.sources import made

        self.env = made(env) if isinstance(env, str) else env
        n = getattr(getattr(self.env, "action_space", None), "n", None)
        if n is None:
            raise DataError(f"an environment with a number of actions is needed, found {type(self.env).__name__}")
        self.actions, self.discount = tuple(range(int(n))), check_real(discount, "discount", 0, 1)
        self.reward_max = reward_max

    def begin(self, random: Generator) -> Any:
        """A copy after a reset of its own."""
        env = copy.deepcopy(self.env)
        env.reset(seed=int(random.integers(2**31)))
        return env

    def step(self, state: Any, action: int, random: Generator) -> tuple[Any, Hashable, float, bool]:
        """A step of a copy of the copy."""
        env = copy.deepcopy(state)
        inside = env.unwrapped
        if getattr(inside, "_np_random", None) is not None:
            inside._np_random = np.random.default_rng(int(random.integers(2**63)))
        seen, reward, ended, cut, _ = env.step(action)
        return env, hashable(seen), float(reward), bool(ended or cut)


class StateSpaceWorld(World):
    """A `StateSpaceModel` whose inputs are the actions; particles are its states, `reward(states, input)` pays them.

    What is seen is rounded to multiples of `width` where the search branches on it; beliefs use it as it is.
    """

    def __init__(
        self,
        model: Any,
        inputs: Sequence[Any],
        reward: Callable[[np.ndarray, np.ndarray], Any],
        discount: float = 0.95,
        *,
        width: float = 1.0,
        reward_max: float | None = None,
    ) -> None:
        import jax

        self.model, self.reward, self.reward_max = model, reward, reward_max
        self.inputs = np.atleast_2d(np.asarray(inputs, dtype=float).reshape(len(inputs), -1))
        self.actions, self.discount = tuple(inputs), check_real(discount, "discount", 0, 1)
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
        return np.asarray(self.model.draw_start(_key(random), n))

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
        codes = [tuple(row) for row in np.round(seen / self.width).astype(int).tolist()]
        paid = np.broadcast_to(np.asarray(self.reward(states, u), dtype=float), (n,))
        return Moved(np.asarray(after)[:n], codes, paid, np.zeros(n, dtype=bool))

    def likelihood(self, seen: Any, action: int, states: np.ndarray) -> Float[np.ndarray, " n"]:
        """Of the model."""
        x = np.atleast_1d(np.asarray(seen, dtype=float))
        logs = np.asarray(self._fit(x, np.ones(len(x), dtype=bool), np.asarray(states), self.inputs[action])[0])
        return np.exp(logs - logs.max())


def hashable(seen: Any) -> Hashable:
    """An observation as something that can be looked up."""
    if isinstance(seen, np.ndarray):
        return tuple(hashable(each) for each in seen.tolist()) if seen.ndim else seen.item()
    if isinstance(seen, dict):
        return tuple((key, hashable(value)) for key, value in sorted(seen.items()))
    if isinstance(seen, list | tuple):
        return tuple(hashable(each) for each in seen)
    return seen.item() if isinstance(seen, np.generic) else seen


def world_of(problem: Any) -> World:
    """A world of a POMDP, of a gymnasium environment or its name, or the world itself."""
    if isinstance(problem, World):
        return problem
    if isinstance(problem, POMDP):
        return FiniteWorld(problem)
    if isinstance(problem, str) or (hasattr(problem, "reset") and hasattr(problem, "action_space")):
        return GymWorld(problem)
    raise DataError(
        f"online planning takes a POMDP, a World or a gymnasium environment, found {type(problem).__name__}"
    )


def _key(random: Generator) -> Any:
    import jax.random as jr

    return jr.key(int(random.integers(2**31)))
