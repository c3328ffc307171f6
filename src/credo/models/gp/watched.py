"""A Gaussian process at fixed candidates: each new row updates their predictions in O(n² + nm).

Choosing the next experiment among m candidates, one looks at the same m predictions after every row. With
V = L⁻¹k(X, C) and z = L⁻¹(y - m(X)) kept, new rows with (W, M) of the bordered factor (`exact.extend`) change them by

    c = M⁻¹(k(X', C) - WᵀV),    mean* += cᵀz',    var* -= Σ c²
"""

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.belief import Belief
from credo.core.linalg import solve_lower
from credo.core.predictive import Normal
from credo.models.gp import exact
from credo.models.gp.belief import GP, noise_at
from credo.models.gp.data import Rows


class AtCandidates(Belief):
    """The belief at m candidates: make it with `gp.at(candidates)`, then `condition` and `predict()`."""

    belief: GP
    """The Gaussian process after all rows."""
    points: Float[Array, "m d"]
    half: Float[Array, "n m"]
    """V."""
    mean: Float[Array, " m"]
    variance: Float[Array, " m"]

    def statistics(self, *data: object, **options: object) -> Rows:
        """As the Gaussian process reads them."""
        return self.belief.statistics(*data, **options)

    def condition_on(self, statistics: Rows) -> "AtCandidates":
        """The same candidates after more rows."""
        after, n = self.belief.condition_on(statistics), self.half.shape[0]
        rows, solved = after.conditioned()
        root, alpha = (np.asarray(v)[: rows.n] for v in (solved.root, solved.alpha))
        cross = after.prior.kernel.between(rows.cut()[0][n:], self.points)
        change = solve_lower(root[n:, n : rows.n], cross - root[n:, :n] @ self.half)
        variance = np.maximum(self.variance - (change**2).sum(0), 0.0)
        mean = self.mean + change.T @ (root[:, n : rows.n].T @ alpha)  # Lᵀα
        return AtCandidates(after, self.points, np.concatenate([self.half, change]), mean, variance)

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
    half = solve_lower(np.asarray(solved.root)[: rows.n, : rows.n], gp.prior.kernel.between(rows.cut()[0], points))
    return AtCandidates(gp, points, half, *exact.predict(gp.prior, rows, solved, points))
