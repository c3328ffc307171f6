"""Experience as data: what was done, what it paid, where it led."""

from typing import Any, SupportsFloat

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core.checks import ArrayLike, check_array, check_count, check_real
from credo.core.errors import DataError
from credo.decide.agents.engine import stream
from credo.decide.agents.environments import BLOCK, Walk, open_source

Counts = Float[np.ndarray, "s a k"]
Sums = Float[np.ndarray, "s a"]
"""Of each state and action; k counts the successors, and the end last."""


class Trajectory(eqx.Module):
    """Steps in their order: in `states` the `actions` were taken, paid `rewards` and led to `following`.

    `done` says where the episode ended (the successor then does not count) and `cut` where it was broken off: the next
    step begins elsewhere, but the world would have gone on. `propensity` is the probability with which each action was
    chosen, without which nothing can be said of other policies; `discount` is that of the world, where it has one.
    """

    states: Int[np.ndarray, " t"]
    actions: Int[np.ndarray, " t"]
    rewards: Float[np.ndarray, " t"]
    following: Int[np.ndarray, " t"]
    done: Bool[np.ndarray, " t"]
    cut: Bool[np.ndarray, " t"]
    propensity: Float[np.ndarray, " t"] | None
    sizes: tuple[int, int] = eqx.field(static=True)
    """How many states and actions there are."""
    discount: float | None = eqx.field(static=True)

    def __init__(
        self,
        states: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        following: ArrayLike,
        done: ArrayLike = None,
        cut: ArrayLike = None,
        *,
        sizes: tuple[int, int],
        propensity: ArrayLike = None,
        discount: SupportsFloat | None = None,
    ) -> None:
        t = check_array(states, "states").size
        if not isinstance(sizes, tuple | list) or len(sizes) != 2:
            raise DataError(f"sizes must be how many states and actions there are, found {sizes!r}")
        for name, size in zip(("states", "actions"), sizes, strict=True):
            check_count(size, f"the number of {name}")
        s, a = (int(n) for n in sizes)
        self.states = _whole(states, "states", t, s)
        self.actions = _whole(actions, "actions", t, a)
        self.rewards = check_array(rewards, "rewards").astype(float)
        self.done = np.zeros(t, bool) if done is None else check_array(done, "done").astype(bool)
        self.cut = np.zeros(t, bool) if cut is None else check_array(cut, "cut").astype(bool)
        for name in ("rewards", "done", "cut"):
            if getattr(self, name).shape != (t,):
                raise DataError(f"{name} must have one entry for each of {t} steps, found {getattr(self, name).shape}")
        if not np.isfinite(self.rewards).all():
            raise DataError(f"rewards must be finite, found {self.rewards[~np.isfinite(self.rewards)][0]}")
        led = check_array(following, "following")
        if led.shape != (t,):
            raise DataError(f"following must have one entry for each of {t} steps, found {led.shape}")
        self.following = _whole(np.where(self.done, 0, led), "following", t, s)
        self.sizes = (s, a)
        self.propensity = None if propensity is None else check_array(propensity, "propensity").astype(float)
        likely = self.propensity
        if likely is not None and (likely.shape != (t,) or not ((likely > 0) & (likely <= 1 + 1e-9)).all()):
            raise DataError(f"propensity must be {t} probabilities greater than 0, found {propensity!r}")
        self.discount = None if discount is None else check_real(discount, "discount", 0, 1)

    def __len__(self) -> int:
        return len(self.states)

    def counts(self) -> Counts:
        """How often each action led from a state to each state; the last entry counts the ends."""
        s, a = self.sizes
        out = np.zeros((s, a, s + 1))
        np.add.at(out, (self.states, self.actions, np.where(self.done, s, self.following)), 1.0)
        return out

    def rewards_summed(self) -> Sums:
        """The sum of what each action paid in each state."""
        out = np.zeros(self.sizes)
        np.add.at(out, (self.states, self.actions), self.rewards)
        return out

    def returns(self, discount: SupportsFloat) -> Float[np.ndarray, " k"]:
        """Σₜ γᵗ rₜ of each episode; the last counts as far as it goes."""
        gamma, out, total, weight = float(discount), [], 0.0, 1.0
        over = self.done | self.cut
        for reward, end in zip(self.rewards.tolist(), over.tolist(), strict=True):
            total += weight * reward
            weight *= gamma
            if end:
                out.append(total)
                total, weight = 0.0, 1.0
        return np.asarray(out if not len(self) or over[-1] else [*out, total])


def collect(
    source: Any, policy: ArrayLike = None, steps: int = 1000, *, horizon: int | None = None, seed: int = 0
) -> Trajectory:
    """Experience from following a policy: actions (s,), probabilities (s, a), or None for actions at random."""
    check_count(steps, "steps")
    check_count(seed, "seed", 0)
    if horizon is not None:
        check_count(horizon, "horizon")
    place = open_source(source)
    chances = policy_probabilities(policy, place.states, place.actions)
    rows = np.cumsum(chances, axis=1).tolist()
    walk = Walk(place, seed, 0, horizon)
    walk.enter(0)
    out: list[tuple[float, ...]] = []
    for block in range(-(-steps // BLOCK)):
        for u in stream(seed, 0, block).random((BLOCK, 3))[: steps - block * BLOCK].tolist():
            s, row = walk.s, rows[walk.s]
            a = min(sum(u[0] >= level for level in row), place.actions - 1)
            out.append((s, a, *walk.step(a, u[1], u[2])))
    states, actions, rewards, following, done, cut = (np.asarray(column) for column in zip(*out, strict=True))
    sizes = (place.states, place.actions)
    gamma = place.world.discount if place.env is None and place.world is not None else None
    known = {"sizes": sizes, "propensity": chances[states, actions], "discount": gamma}
    return Trajectory(states, actions, rewards, np.where(done, 0, following), done, cut, **known)


def policy_probabilities(policy: ArrayLike, s: int, a: int) -> Float[np.ndarray, "s a"]:
    """π(a | s) from actions, from probabilities, or uniform."""
    if policy is None:
        return np.full((s, a), 1 / a)
    given = check_array(policy, "policy")
    if given.shape == (s,) and given.dtype.kind in "iu" and given.min() >= 0 and given.max() < a:
        return np.eye(a)[given]
    if given.shape == (s, a) and given.dtype.kind == "f" and given.min() >= 0 and np.allclose(given.sum(1), 1):
        return given.astype(float)
    raise DataError(
        f"policy must be {s} actions from 0 to {a - 1} or probabilities of the shape {(s, a)}, found {given.dtype} of "
        f"the shape {given.shape}"
    )


def _whole(values: ArrayLike, name: str, t: int, below: int) -> Int[np.ndarray, " t"]:
    given = check_array(values, name)
    if given.shape != (t,) or (given.size and given.dtype.kind not in "iu"):
        raise DataError(f"{name} must be {t} whole numbers, found {given.dtype} of the shape {given.shape}")
    if given.size and (given.min() < 0 or given.max() >= below):
        raise DataError(f"{name} must lie between 0 and {below - 1}, found {given.min()} to {given.max()}")
    return given.astype(np.int64)
