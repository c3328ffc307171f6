"""Bounds on the value of a POMDP that cost no search: QMDP and the fast informed bound above, blind policies below.

Hauskrecht (2000), "Value-function approximations for partially observable Markov decision processes", JAIR 13. Each is
a table with a row of values for every action; V(b) is at most maxₐ Σ b(s) Q(a, s), and at least that of a blind policy.
"""

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from credo.core.errors import NotConverged
from credo.decide.mdp.solving import solve
from credo.decide.pomdp.model import POMDP, entries_of

if TYPE_CHECKING:
    from credo.decide.pomdp.plan import AlphaPlan

Bound = Float[np.ndarray, "a s"]
TOLERANCE = 1e-9
"""Of the bounds, relative to the largest value there can be."""
SWEEPS = 40
"""Sweeps of the fast informed bound with its choices fixed."""


def qmdp(pomdp: POMDP) -> Bound:
    """Q(a, s) of somebody who sees the state from the next step on."""
    pomdp.check_ending()
    world = pomdp.mdp
    found = solve(world, tolerance=TOLERANCE * _scale(pomdp))
    ceiling = np.where(world.terminal, 0.0, found.value + found.certificate)
    return world.backup(ceiling).T


def fib(pomdp: POMDP) -> Bound:
    """α(a, s) = r(s, a) + γ Σₒ maxₐ' Σₛ' P(o | a, s') P(s' | s, a) α(a', s'): the state is seen one step late.

    Like modified policy iteration: the best a' of every (s, a, o) is held for some sweeps, which cost one action each.
    The residual δ of the last full sweep is paid for, γδ/(1 - γ), so that it is a bound.
    """
    ceiling = alpha = qmdp(pomdp)
    joint = Joint(pomdp)
    gamma, reward = pomdp.discount, pomdp.rewards.T
    small = TOLERANCE * _scale(pomdp)
    if gamma == 1:  # no contraction: from above, every sweep is a bound
        for _ in range(1000):
            backed = reward + joint.backup(alpha)[0]
            change, alpha = float(np.abs(alpha - backed).max()), np.minimum(alpha, backed)
            if change <= small:
                break
        return alpha
    for _ in range(1000):
        future, choice = joint.backup(alpha)
        backed = reward + gamma * future
        change = float(np.abs(backed - alpha).max())
        if gamma * change <= small * (1 - gamma):
            break
        alpha = backed
        held = joint.held(choice)
        for _ in range(SWEEPS):
            alpha = reward + gamma * (held @ alpha.ravel()).reshape(reward.shape)
    excess = gamma * change / (1 - gamma)
    return np.minimum(ceiling, np.where(pomdp.terminal, 0.0, backed + excess))


def blind(pomdp: POMDP) -> Bound:
    """α(a, s) = r(s, a) + γ Σ P(s' | s, a) α(a, s'): the same action for ever, whatever is seen."""
    pomdp.check_ending()
    world = pomdp.mdp
    rows = []
    for a in range(pomdp.shape[1]):
        with np.errstate(all="ignore"):
            try:
                row = world.evaluate(np.full(pomdp.shape[0], a))
            except (ArithmeticError, RuntimeError, ValueError):
                row = np.full(pomdp.shape[0], -np.inf)
        rows.append(np.where(np.isfinite(row), row, -np.inf))
    table = np.stack(rows)
    if not np.isfinite(table).all(axis=1).any():
        raise NotConverged("with a discount of 1 no action ends the episode for sure; give a discount below 1")
    return table


class Joint:
    """P(s', o | s, a) as a sparse matrix: a row for each (a, s, o) that can be, and whose it is."""

    def __init__(self, pomdp: POMDP) -> None:
        s, a, o = pomdp.shape
        self.shape = (a, s)
        pair = np.repeat(np.arange(a * s), np.diff(pomdp.move_indptr))
        # The row of `shows` of this action and successor.
        entry, at = entries_of(pomdp.show_indptr, (pair // s) * s + pomdp.move_indices)
        keys = pair[entry] * o + pomdp.show_indices[at]
        kept, row = np.unique(keys, return_inverse=True)
        self.owner: Int[np.ndarray, " rows"] = kept // o
        probs = pomdp.moves[entry] * pomdp.shows[at]
        coo = sp.coo_array((probs, (row, pomdp.move_indices[entry])), shape=(len(kept), s))
        self.matrix = sp.csr_array(coo)
        """(rows, s')."""
        self.seen: Int[np.ndarray, " rows"] = kept % o
        self._sum = sp.csr_array((np.ones(len(kept)), (self.owner, np.arange(len(kept)))), shape=(a * s, len(kept)))

    def backup(self, alpha: Bound) -> tuple[Bound, Int[np.ndarray, " rows"]]:
        """Σₒ maxₐ' Σₛ' P(s', o | s, a) α(a', s'), and the best a' of each row."""
        scores = self.matrix @ np.ascontiguousarray(alpha.T)
        choice = scores.argmax(axis=1)
        return (self._sum @ scores[np.arange(len(choice)), choice]).reshape(self.shape), choice

    def held(self, choice: Int[np.ndarray, " rows"]) -> sp.csr_array:
        """The backup with these choices, a matrix over (a, s) pairs."""
        a, s = self.shape
        columns = self.matrix.indices + np.repeat(choice, np.diff(self.matrix.indptr)) * s
        moved = sp.csr_array((self.matrix.data, columns, self.matrix.indptr), shape=(len(choice), a * s))
        return sp.csr_array(self._sum @ moved)


def plan_of_bound(pomdp: POMDP, table: Bound, method: str) -> "AlphaPlan":
    """The plan that acts by an upper bound; below it are blind policies."""
    from credo.decide.pomdp.plan import AlphaPlan
    from credo.decide.pomdp.vectors import AlphaVectors

    vectors = AlphaVectors.dense(table, np.arange(len(table)))
    below = np.where(pomdp.start > 0, blind(pomdp), 0.0)  # -inf where a policy never ends, perhaps out of reach
    upper, lower = float((table @ pomdp.start).max()), float((below @ pomdp.start).max())
    note = "the values are an upper bound; what acting by them earns is between the bounds, or below: simulate it"
    return AlphaPlan(pomdp, vectors.actions, upper - lower, 1, "stopped", method, vectors, lower, upper, notes=(note,))


def _scale(pomdp: POMDP) -> float:
    return float(np.abs(pomdp.rewards).max() or 1.0) / max(1 - pomdp.discount, 1e-3)
