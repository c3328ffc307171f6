"""p(s', r | s, a): what may come of an action, successor and reward together, and how likely an episode is.

A world plans with the expected rewards r(s, a) and keeps whole outcomes only for the pairs of state and action that pay
at random. What simulations and agents see is drawn from the outcomes.
"""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from credo.core.errors import DataError

if TYPE_CHECKING:
    from credo.decide.mdp.model import MDP
    from credo.decide.mdp.paths import Paths

END = -1
"""The successor where an episode ends inside an action."""


class Outcomes(eqx.Module):
    """Outcomes of rows s·a + k (action k of state s): the successor, or `END`, its probability and its reward."""

    row: Int[np.ndarray, " n"]
    following: Int[np.ndarray, " n"]
    probs: Float[np.ndarray, " n"]
    rewards: Float[np.ndarray, " n"]

    def kept(self, which: np.ndarray) -> "Outcomes":
        """Some of them: by flags, or in another order."""
        return jax.tree.map(lambda column: column[which], self)

    def random(self, terminal: np.ndarray, actions: int) -> "Outcomes | None":
        """Those of rows whose rewards differ and that are not of terminal states; None where there are none."""
        likely = self.kept((self.probs > 0) & ~terminal[self.row // actions])
        low, high = np.full((2, len(terminal) * actions), np.inf)
        np.minimum.at(low, likely.row, likely.rewards)
        np.minimum.at(high, likely.row, -likely.rewards)
        differ = (low < -high)[likely.row]
        return likely.kept(differ) if differ.any() else None

    def indptr(self, rows: int) -> Int[np.ndarray, " r"]:
        """Where each row begins, once they are sorted."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.row, minlength=rows))])


def of_transitions(matrix: sp.csr_array, each: Any) -> Outcomes:
    """Where each transition pays its own reward: `each` is the table (rows, s) of them, dense or sparse."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    rewards = np.asarray(each[row, matrix.indices], dtype=float).ravel()
    return Outcomes(row, matrix.indices.astype(np.int64), matrix.data, rewards)


def with_ends(outcomes: Outcomes, ends: Float[np.ndarray, "s a"]) -> Outcomes:
    """The outcomes, and those that end the episode, which pay nothing."""
    last = np.flatnonzero(ends)
    return _joined(outcomes, Outcomes(last, np.full(len(last), END), ends.ravel()[last], np.zeros(len(last))))


def _joined(one: Outcomes, two: Outcomes) -> Outcomes:
    return jax.tree.map(lambda a, b: np.concatenate([a, b]), one, two)


def of_world(world: "MDP") -> Outcomes:
    """All outcomes of a world, sorted by row: those that are kept, and of other rows the transitions and the end."""
    rows = world.rewards.size
    row = np.repeat(np.arange(rows), np.diff(world.indptr))
    last = np.flatnonzero(world.ends)
    both = np.concatenate([row, last])
    following = np.concatenate([world.indices.astype(np.int64), np.full(len(last), END)])
    probs = np.concatenate([world.probs, world.ends.ravel()[last]])
    plain = Outcomes(both, following, probs, world.rewards.ravel()[both])
    if world.gambles is not None:
        plain = _joined(plain.kept(~np.isin(plain.row, world.gambles.row)), world.gambles)
    return plain.kept(np.argsort(plain.row, kind="stable"))


def log_prob(world: "MDP", paths: "Paths", policy: np.ndarray, start: np.ndarray) -> Float[np.ndarray, " n"]:
    """log p(s₀) + Σₜ log π(aₜ | sₜ) + log p(sₜ₊₁, rₜ | sₜ, aₜ) of each episode."""
    s, a = world.shape
    if not all(hasattr(paths, name) for name in ("states", "actions", "rewards")):
        raise DataError(f"episodes are `Paths`, with states, actions and rewards, found {type(paths).__name__}")
    states, actions = np.asarray(paths.states), np.asarray(paths.actions)
    n, steps = actions.shape
    if states.shape != (n, steps + 1) or np.shape(paths.rewards) != (n, steps):
        shapes = f"{states.shape}, {actions.shape} and {np.shape(paths.rewards)}"
        raise DataError(f"episodes have states (n, t + 1), and actions and rewards (n, t), found {shapes}")
    lost = (states[:, 0] < 0).any() or (states[:, :-1][actions >= 0] < 0).any()
    if lost or states.max(initial=-1) >= s or actions.max(initial=-1) >= a:
        raise DataError(f"episodes must be of {s} states and {a} actions, begin in a state, and act only in states")
    known = of_world(world)
    begin = known.indptr(s * a)
    done, t = np.nonzero(actions >= 0)
    at, chosen, paid = states[done, t], actions[done, t], np.asarray(paths.rewards)[done, t]
    row, after = at * a + chosen, states[done, t + 1]
    # All outcomes of the rows that were met, beside the step that met them.
    length = begin[row + 1] - begin[row]
    step = np.repeat(np.arange(len(row)), length)
    entry = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + np.repeat(begin[row], length)
    same = (known.following[entry] == after[step]) & np.isclose(known.rewards[entry], paid[step], rtol=1e-9, atol=1e-12)
    chance = np.bincount(step, np.where(same, known.probs[entry], 0.0), minlength=len(row))
    taken = policy[at, chosen] if policy.ndim == 2 else (policy[at] == chosen).astype(float)
    with np.errstate(divide="ignore"):
        out = np.log(start[states[:, 0]])
        np.add.at(out, done, np.log(taken) + np.log(chance))
    return out
