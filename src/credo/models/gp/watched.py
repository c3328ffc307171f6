"""A Gaussian process at fixed candidates: each new row updates their predictions in O(n² + nm).

Choosing the next experiment among m candidates, one looks at the same m predictions after every row. With
V = L⁻¹k(X, C) and z = L⁻¹(y - m(X)) kept, new rows with (W, M) of the bordered factor (`exact.extend`) change them by

    c = M⁻¹(k(X', C) - WᵀV),    mean* += cᵀz',    var* -= Σ c²
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, put
from credo.core.belief import Belief
from credo.core.linalg import lapack
from credo.core.predictive import Normal
from credo.models.gp import exact
from credo.models.gp.belief import GP, noise_at
from credo.models.gp.data import Rows


class AtCandidates(Belief):
    """The belief at m candidates: make it with `gp.at(candidates)`, then `condition` and `predict()`."""

    belief: GP
    """The Gaussian process after all rows."""
    points: Float[Array, "m d"]
    half: Float[Array, "m n"]
    """Vᵀ."""
    mean: Float[Array, " m"]
    variance: Float[Array, " m"]

    def statistics(self, *data: Any, **options: Any) -> Rows:
        """As the Gaussian process reads them."""
        return self.belief.statistics(*data, **options)

    def condition_on(self, statistics: Rows) -> "AtCandidates":
        """The same candidates after more rows."""
        after, n = self.belief.condition_on(statistics), self.half.shape[1]
        rows, solved = after.conditioned()
        root, points = np.asarray(solved.root)[n : rows.n, : rows.n], np.asarray(self.points)
        cross = np.asarray(exact.gram(after.prior.kernel, points, rows.cut()[0][n:]))
        change = np.ascontiguousarray(cross - np.asarray(self.half) @ root[:, :n].T)
        lapack.solve_rows_inplace(np.ascontiguousarray(root[:, n:]), change)
        z = np.asarray(solved.root)[: rows.n, n : rows.n].T @ np.asarray(solved.alpha)[: rows.n]  # Lᵀα
        variance = np.maximum(np.asarray(self.variance) - np.square(change).sum(1), 0.0)
        half = np.concatenate([np.asarray(self.half), change], axis=1)
        return AtCandidates(after, self.points, put(half), put(np.asarray(self.mean) + change @ z), put(variance))

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(y | X, what was seen before)."""
        return self.belief.evidence_of(statistics)

    def predict(self) -> Normal:
        """p(y* | data) at the candidates."""
        return Normal(self.mean, noise_at(self.belief.noise_variance(), self.points, None), self.variance)


def watch(gp: GP, x: object) -> AtCandidates:
    """The belief at the candidates x of a Gaussian process that has seen data."""
    rows, solved = gp.conditioned()
    points = gp.queries(x)
    half = np.array(exact.gram(gp.prior.kernel, points, rows.cut()[0]))
    lapack.solve_rows_inplace(np.ascontiguousarray(np.asarray(solved.root)[: rows.n, : rows.n]), half)
    f = exact.predict(gp.prior, rows, solved, points)
    return AtCandidates(gp, put(np.asarray(points)), put(half), f.mean, f.variance)
