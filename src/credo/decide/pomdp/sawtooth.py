"""The upper bound of a point-based plan: convex between the corners of a block and points below the plane through them.

    V̄(b) = Σ b(s) u(s) + min over points i: (v_i - Σ b_i(s) u(s)) minₛ b(s) / b_i(s)

Hauskrecht (2000); called sawtooth by Smith & Simmons (2005). Beside it stands the fast informed bound,
maxₐ Σ b(s) Q(s, a).
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from credo.core.errors import DataError
from credo.decide.pomdp.belief import BeliefState
from credo.decide.pomdp.mixed_observability import Blocks
from credo.decide.pomdp.trials import Point
from credo.decide.pomdp.vectors import INSIDE


class Sawtooth(eqx.Module):
    """Points and corners of every block; sparse, over the states sorted by block."""

    first: Int[np.ndarray, " k_and_1"]
    state: Int[np.ndarray, " n"]
    informed: Float[np.ndarray, "n a"]
    corners: Float[np.ndarray, " n"]
    values: Float[np.ndarray, " p"]
    indptr: Int[np.ndarray, " p_and_1"]
    indices: Int[np.ndarray, " e"]
    weights: Float[np.ndarray, " e"]

    @classmethod
    def of(
        cls,
        blocks: Blocks,
        informed: Float[np.ndarray, "n a"],
        corners: Float[np.ndarray, " n"],
        points: Sequence[Point],
    ) -> "Sawtooth":
        """From points inside the blocks."""
        where = [np.flatnonzero(belief) for _, belief, _ in points]
        lengths = [len(each) for each in where]
        none = np.empty(0)
        return cls(
            blocks.first,
            blocks.state,
            informed,
            corners,
            np.array([value for _, _, value in points], dtype=float),
            np.concatenate([[0], np.cumsum(lengths, dtype=int)]),
            np.concatenate(
                [none.astype(int), *[blocks.first[k] + w for (k, _, _), w in zip(points, where, strict=True)]]
            ),
            np.concatenate([none, *[b[w] for (_, b, _), w in zip(points, where, strict=True)]]),
        )

    @property
    def points(self) -> list[Point]:
        """Each point's block, its belief inside the block, and its value."""
        out = []
        for p, value in enumerate(self.values):
            part = slice(self.indptr[p], self.indptr[p + 1])
            k = int(np.searchsorted(self.first, self.indices[part.start], side="right")) - 1
            belief = np.zeros(self.first[k + 1] - self.first[k])
            belief[self.indices[part] - self.first[k]] = self.weights[part]
            out.append((k, belief, float(value)))
        return out

    def value(self, belief: Any) -> float:
        """What can be earned from a belief on, at most."""
        probs = belief.probs if isinstance(belief, BeliefState) else np.asarray(belief, dtype=float)
        inside = probs[self.state]
        points = sp.csr_array((self.weights, self.indices, self.indptr), shape=(len(self.values), len(self.state)))
        bounds = []
        for k in np.flatnonzero(np.add.reduceat(inside, self.first[:-1]) >= INSIDE):
            rows = slice(self.first[k], self.first[k + 1])
            b, plane = inside[rows], float(inside[rows] @ self.corners[rows])
            bounds += [plane, float((b @ self.informed[rows]).max())]
            mine = points[np.flatnonzero(np.diff(points[:, rows].indptr))][:, rows].toarray()
            if len(mine):
                share = np.divide(b, mine, out=np.full(mine.shape, np.inf), where=mine > 0).min(axis=1)
                values = self.values[np.diff(points[:, rows].indptr) > 0]
                bounds.append(plane + float(np.min((values - mine @ self.corners[rows]) * share)))
        if not bounds:
            raise DataError("belief must be one that can be reached from the start, found one that no block holds")
        return min(bounds)
