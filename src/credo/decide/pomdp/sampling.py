"""Many episodes of a POMDP side by side: draws from sparse rows, and Bayes' rule for a sparse matrix of beliefs."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from credo.core.errors import DataError
from credo.decide.pomdp.model import POMDP

Numbers = Int[np.ndarray, " n"]


class Simulator:
    """Draws s' ~ P(s' | s, a) and o ~ P(o | a, s') of many pairs at once."""

    def __init__(self, pomdp: POMDP, seed: int = 0) -> None:
        self.pomdp = pomdp
        self.random = np.random.default_rng(seed)
        self.terminal = pomdp.terminal
        self._moves = np.cumsum(pomdp.moves)
        self._shows = np.cumsum(pomdp.shows)

    def begin(self, n: int, probs: Float[np.ndarray, " s"] | None = None) -> Numbers:
        """States drawn from the start, or from these probabilities."""
        law = self.pomdp.start if probs is None else probs
        return self.random.choice(len(law), size=n, p=law)

    def step(self, states: Numbers, actions: Numbers) -> tuple[Numbers, Numbers, Float[np.ndarray, " n"]]:
        """Next states, what is observed, and rewards."""
        p, s = self.pomdp, len(self.pomdp.start)
        after = self._draw(self._moves, p.move_indptr, p.move_indices, actions * s + states)
        seen = self._draw(self._shows, p.show_indptr, p.show_indices, actions * s + after)
        return after, seen, p.rewards[states, actions]

    def _draw(self, total: np.ndarray, indptr: np.ndarray, indices: np.ndarray, rows: Numbers) -> Numbers:
        """A column of each row: a uniform number between the running sums at the row's ends finds it."""
        low, high = indptr[rows], indptr[rows + 1]
        below = np.where(low > 0, total[low - 1], 0.0)
        at = np.searchsorted(total, below + self.random.random(len(rows)) * (total[high - 1] - below), side="right")
        return indices[np.clip(at, low, high - 1)]


class Filter:
    """b'(s') ∝ P(o | a, s') Σ P(s' | s, a) b(s) for the rows of a sparse matrix of beliefs."""

    def __init__(self, pomdp: POMDP) -> None:
        self.moves = pomdp.transitions
        self.shown = [sp.csr_array(m.T) for m in pomdp.observations]

    def update(self, beliefs: sp.csr_array, actions: Numbers, seen: Numbers) -> sp.csr_array:
        """The beliefs after each has done and seen something."""
        parts, order = [], []
        for a in np.unique(actions):
            rows = np.flatnonzero(actions == a)
            after = sp.csr_array((beliefs[rows] @ self.moves[a]).multiply(self.shown[a][seen[rows]]))
            total = np.asarray(after.sum(axis=1))
            if not (total > 0).all():
                raise DataError("an observation was made that the belief holds for impossible")
            after.data /= np.repeat(total, np.diff(after.indptr))
            parts.append(after)
            order.append(rows)
        back = np.argsort(np.concatenate(order))
        return sp.csr_array(sp.vstack(parts, format="csr")[back])
