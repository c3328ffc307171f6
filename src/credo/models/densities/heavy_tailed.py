"""Multivariate Student-t densities: components whose rows have outliers.

    x | k ~ t(νₖ; mₖ, Σₖ),    that is    u ~ Gamma(ν/2, ν/2),  x | u ~ N(m, Σ/u)

EM for the hidden weight u of each row: E[u | x] = (ν + c)/(ν + δ²), δ² the squared distance of the c cells that were
seen, so that rows far out hardly count; what is missing is filled by its law given the rest. Peel & McLachlan (2000),
"Robust mixture modelling using the t distribution"; Liu & Rubin (1995) for missing cells.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core.arrays import Array, namespace, special
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.params import constant, positive, positive_definite, real
from credo.core.predictive import Mixture, StudentT
from credo.core.pytrees import changed
from credo.models.conjugate.matrix import log_determinants, roots
from credo.models.densities.base import ALMOST_NONE, HasStatistics, Inputs, Observed, parameter_table, read_prior
from credo.models.densities.clusters import clusters, column_moments
from credo.models.densities.moments import condition_coordinates, inverse_roots, squared_distances

LEAST, MOST = 0.5, 500.0
"""Degrees of freedom: from heavier than Cauchy's to all but Gaussian."""
START = 10.0
WEAK, FLOOR = 1.0, 1e-6
"""So many rows with the scatter of independent columns each component has beside its own: the weak prior, and none."""
HALVINGS = 60


class WeightedMoments(NamedTuple):
    """Σ r, Σ ru, Σ rux, Σ r(uxxᵀ + Cov) about the origin, and Σ r E[log u - u], of each component."""

    mass: Float[Array, " k"]
    weight: Float[Array, " k"]
    total: Float[Array, "k d"]
    squares: Float[Array, "k d d"]
    logs: Float[Array, " k"]


class Student(HasStatistics[WeightedMoments]):
    """x | k ~ t with dfₖ degrees of freedom, meanₖ and scale matrixₖ (the covariance is df/(df - 2) of it).

    Args:
        df: degrees of freedom, a number for all components, which is then held; None to learn one for each.
        mean: (k, d), or (k,) for one column; None to begin with clusters.
        scale: (k, d, d), where it is known.
        prior: "weak" is worth one row with independent columns, whose variances are the data's over k^(2/d); None is
            maximum likelihood.
    """

    held: float | None = eqx.field(static=True)
    weak: bool = eqx.field(static=True)
    mean: Float[Array, "k d"] | None = real()
    scale: Float[Array, "k d d"] | None = positive_definite()
    df: Float[Array, " k"] | None = positive(low=LEAST, high=MOST)
    scatter: Float[Array, " d"] | None = constant()
    """Of the row that the prior is worth."""
    origin: Float[Array, " d"] | None = constant()
    """A point amid the data: moments about it do not cancel."""

    def __init__(
        self,
        df: float | int | None = None,
        *,
        mean: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        prior: object = "weak",
    ) -> None:
        if df is not None and not (LEAST <= df <= MOST):
            raise DataError(f"df must lie between {LEAST:g} and {MOST:g}, found {df!r}")
        self.held = None if df is None else float(df)
        self.weak, _ = read_prior(prior)
        self.k = self.columns = self.mean = self.scale = self.df = self.scatter = self.origin = None
        if (mean is None) != (scale is None):
            raise DataError("Student takes mean and scale together, or neither")
        if mean is not None:
            self.mean, self.scale = parameter_table(mean, "mean"), np.asarray(scale, dtype=float)
            self.k, self.columns = self.mean.shape
            if self.scale.shape != (self.k, self.columns, self.columns):
                raise DataError(
                    f"scale must have shape {(self.k, self.columns, self.columns)}, found {self.scale.shape}"
                )
            self.df = np.full(self.k, START if self.held is None else self.held)

    def adapt(self, data: Observed, *, seed: int = 0) -> "Student":
        """Means by k-means++, one pooled scale of the clusters."""
        (k, d), (x, seen) = self.sizes, data[:2]
        mean, variance = column_moments(x, seen)
        changes: dict[str, Any] = {"scatter": variance / k ** (2 / d), "origin": mean}
        if self.mean is None:
            centers, within = clusters(np.where(seen, x, mean)[seen.any(1)], k, mean, variance, seed)
            changes |= {"mean": centers, "scale": np.repeat(np.diag(within)[None], k, 0)}
            changes["df"] = np.full(k, START if self.held is None else self.held)
        return changed(self, **changes)

    def log_prob(self, data: Observed) -> Float[Array, "n k"]:
        """log t of the seen entries."""
        df, xp = self._known(self.df), namespace(self, data)
        log_det, square, _, _ = self._look(data)
        c, gammaln = 1.0 * data.seen.sum(1)[:, None], special(df).gammaln
        half = 0.5 * (df + c)
        value = gammaln(half) - gammaln(0.5 * df) - 0.5 * (c * xp.log(df * np.pi) + log_det)
        return xp.where(data.any_seen, value - half * xp.log1p(square / df), 0.0)

    def _look(self, data: Observed) -> tuple[Array, Array, Array, Array | None]:
        """log |Σₒₒ| and δ² of the seen entries, rows about the origin with what is missing filled, and its Cov·u."""
        xp, origin = namespace(self, data), self._origin
        mean, scale, y = self._known(self.mean) - origin, self._known(self.scale), data.x - origin
        if data.complete:
            root = roots(scale)
            square = squared_distances(inverse_roots(root), mean[:, :, None], y, np.ones((len(y), 1)))
            return log_determinants(root) + xp.zeros_like(square), square, y[:, None], None
        return condition_coordinates(mean, scale, y[:, None], data.seen[:, None])

    def expected_statistics(self, data: Observed, weight: Float[Array, "n k"]) -> WeightedMoments:
        """Moments of the rows, each weighted by E[u]."""
        df, xp, functions = self._known(self.df), namespace(self, data, weight), special(self.df, data.x)
        _, square, filled, rest = self._look(data)
        c, r = 1.0 * data.seen.sum(1)[:, None], xp.where(data.any_seen, weight, 0.0)
        u = (df + c) / (df + square)
        logs = functions.digamma(0.5 * (df + c)) - xp.log(0.5 * (df + square))
        if rest is None:
            y = filled[:, 0]
            squares = xp.stack([(y * w[:, None]).T @ y for w in (r * u).T])
            total = (r * u).T @ y
        else:
            squares = xp.einsum("nk,nki,nkj->kij", r * u, filled, filled) + xp.einsum("nk,nkij->kij", r, rest)
            total = xp.einsum("nk,nki->ki", r * u, filled)
        return WeightedMoments(r.sum(0), (r * u).sum(0), total, squares, (r * (logs - u)).sum(0))

    def maximize(self, statistics: WeightedMoments) -> "Student":
        """The weighted mean and scatter, and the root of the score of ν by bisection; without rows all stay."""
        xp, strength = namespace(self, statistics), WEAK if self.weak else FLOOR
        here = statistics.mass > ALMOST_NONE
        mass, weight = (xp.where(here, each, 1.0) for each in (statistics.mass, statistics.weight))
        mean = statistics.total / weight[:, None]
        about = statistics.squares - weight[:, None, None] * mean[:, :, None] * mean[:, None, :]
        about = 0.5 * (about + about.swapaxes(1, 2)) + strength * xp.diag(self._known(self.scatter))
        df = self._known(self.df)
        if self.held is None:
            df = xp.where(here, _degrees(statistics.logs / mass, xp), df)
        return changed(
            self,
            mean=xp.where(here[:, None], mean + self._origin, self._known(self.mean)),
            scale=xp.where(here[:, None, None], about / (mass + strength)[:, None, None], self._known(self.scale)),
            df=df,
        )

    def log_prior(self) -> Float[Array, ""]:
        """-½ strength (log |Σ| + tr(scatter Σ⁻¹)) of each component: what the rows that it is worth add."""
        root = roots(self._known(self.scale))
        trace = (inverse_roots(root) ** 2 * self._known(self.scatter)).sum((1, 2))
        return -0.5 * (WEAK if self.weak else FLOOR) * (log_determinants(root) + trace).sum()

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """Normal, over the root of a gamma draw."""
        k_normal, k_gamma = jr.split(key)
        half = 0.5 * jnp.asarray(self._known(self.df))[which]
        z = jr.normal(k_normal, (len(which), self.sizes[1])) / jnp.sqrt(jr.gamma(k_gamma, half) / half)[:, None]
        return jnp.asarray(self._known(self.mean))[which] + jnp.einsum(
            "nij,nj->ni", roots(self._known(self.scale))[which], z
        )

    def predictive(self, probs: Float[Array, "n k"], inputs: Inputs = None) -> Mixture:
        """A mixture of t laws for each row; for d > 1 one for each column, of shape (n, d)."""
        (k, d), xp = self.sizes, namespace(probs, self.mean)
        spread = xp.diagonal(self._known(self.scale), axis1=1, axis2=2)
        shape = (k, len(probs), d)
        df = xp.broadcast_to(self._known(self.df)[:, None, None], shape)
        mean, scale = (xp.broadcast_to(each[:, None], shape) for each in (self._known(self.mean), spread))
        each = [a[..., 0] if d == 1 else a for a in (df, mean, scale)]
        return Mixture(probs.T, (StudentT(*each, xp.zeros_like(each[2])),))

    @property
    def _origin(self) -> Float[Array, " d"]:
        return np.zeros(self.sizes[1]) if self.origin is None else self.origin


def _degrees(logs: Float[Array, " k"], xp: Any) -> Float[Array, " k"]:
    """ν with log(ν/2) + 1 - ψ(ν/2) + mean of E[log u - u] = 0, which falls with ν, between `LEAST` and `MOST`."""
    low, high = xp.full(logs.shape, np.log(LEAST)), xp.full(logs.shape, np.log(MOST))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        half = 0.5 * xp.exp(middle)
        more = xp.log(half) + 1 - special(half).digamma(half) + logs > 0
        low, high = xp.where(more, middle, low), xp.where(more, high, middle)
    return xp.exp(0.5 * (low + high))
