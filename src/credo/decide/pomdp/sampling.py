"""Many episodes of a POMDP side by side: draws from sparse rows, and Bayes' rule for a sparse matrix of beliefs."""

from bisect import bisect_right

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.decide.pomdp.model import POMDP

Numbers = Int[np.ndarray, " n"]


class Rows:
    """Sparse rows of probabilities, of which columns are drawn: a uniform number between the running sums at the row's
    ends finds one."""

    def __init__(self, probs: Float[np.ndarray, " n"], indices: Numbers, indptr: Int[np.ndarray, " rows"]) -> None:
        self.total, self.indices, self.indptr = np.cumsum(probs), indices, indptr
        self._views = tuple(np.ascontiguousarray(each).data for each in (self.total, indices, indptr))

    def draw(self, rows: Numbers, random: np.random.Generator) -> Numbers:
        """A column of each row."""
        low, high = self.indptr[rows], self.indptr[rows + 1]
        below = np.where(low > 0, self.total[low - 1], 0.0)
        at = below + random.random(len(rows)) * (self.total[high - 1] - below)
        return self.indices[np.clip(np.searchsorted(self.total, at, side="right"), low, high - 1)]

    def draw_one(self, row: int, random: np.random.Generator) -> int:
        """A column of one row: a search of a tree takes many, one after the other."""
        total, indices, indptr = self._views
        low, high = indptr[row], indptr[row + 1]
        below = total[low - 1] if low else 0.0
        at = bisect_right(total, below + random.random() * (total[high - 1] - below), low, high)
        return int(indices[min(at, high - 1)])


class Simulator:
    """Draws s' ~ P(s' | s, a) and o ~ P(o | a, s') of many pairs at once, or of one."""

    def __init__(self, pomdp: POMDP, seed: int = 0) -> None:
        check_count(seed, "seed", 0)
        self.random = np.random.default_rng(seed)
        self.start, self.rewards, self.terminal = pomdp.start, pomdp.rewards, pomdp.terminal
        self._moves = Rows(pomdp.moves, pomdp.move_indices, pomdp.move_indptr)
        self._shows = Rows(pomdp.shows, pomdp.show_indices, pomdp.show_indptr)

    def begin(self, n: int) -> Numbers:
        """States drawn from the start."""
        return self.random.choice(len(self.start), size=n, p=self.start)

    def step(self, states: Numbers, actions: Numbers) -> tuple[Numbers, Numbers, Float[np.ndarray, " n"]]:
        """Next states, what is observed, and rewards."""
        s = len(self.start)
        after = self._moves.draw(actions * s + states, self.random)
        return after, self._shows.draw(actions * s + after, self.random), self.rewards[states, actions]

    def step_one(self, state: int, action: int) -> tuple[int, int, float]:
        """The same of one pair."""
        first = action * len(self.start)
        after = self._moves.draw_one(first + state, self.random)
        return after, self._shows.draw_one(first + after, self.random), float(self.rewards[state, action])


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
