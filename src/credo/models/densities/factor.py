"""`FactorAnalyser`: a Gaussian of few hidden factors for each component, x | k ~ N(meanₖ, WₖWₖᵀ + Ψₖ).

Full covariances of k components in d columns are kd²/2 numbers, which few rows do not determine; these are kd(l + 2).
The M-step is EM itself: some turns of it on the weighted covariance of each component, from where it is, so that the
likelihood of the whole never falls. Ghahramani & Hinton (1996), "The EM algorithm for mixtures of factor analyzers".
"""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core.arrays import Array, namespace
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.params import constant, positive, real
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.models.conjugate.matrix import JointMoments, log_determinants, roots
from credo.models.conjugate.normal import Moments
from credo.models.densities.base import ALMOST_NONE, HasStatistics, Inputs, Observed, read_prior
from credo.models.densities.clusters import clusters, column_moments
from credo.models.densities.gaussian import Gaussian
from credo.models.densities.moments import inverse_roots
from credo.models.factor.covariance_fit import fit_diagonal
from credo.models.factor.expectations import expect, maximize
from credo.models.factor.low_rank import Parameters
from credo.models.factor.statistics import Rows

TURNS = 3
"""Of EM for the factors in each M-step."""
WEAK, FLOOR = 1.0, 1e-6
"""So many rows with the scatter of independent columns each component has beside its own: the weak prior, and none."""


class FactorAnalyser(HasStatistics[JointMoments]):
    """x | k ~ N(meanₖ, WₖWₖᵀ + Ψₖ) with l factors and a noise variance for each column.

    Args:
        l: factors of each component, fewer than columns.
        prior: "weak" is worth one row with independent columns, whose variances are the data's over k^(2/d); None is
            maximum likelihood.
    """

    l: int = eqx.field(static=True)
    weak: bool = eqx.field(static=True)
    mean: Float[Array, "k d"] | None = real()
    w: Float[Array, "k d l"] | None = real()
    noise: Float[Array, "k d"] | None = positive()
    scatter: Float[Array, " d"] | None = constant()
    """Of the row that the prior is worth."""
    origin: Float[Array, " d"] | None = constant()
    """A point amid the data: moments about it do not cancel."""

    def __init__(self, l: int = 1, *, prior: object = "weak") -> None:
        check_count(l, "l")
        self.k = self.columns = self.mean = self.w = self.noise = self.scatter = self.origin = None
        self.l = int(l)
        self.weak, _ = read_prior(prior)

    def resized(self, k: int, columns: int) -> "FactorAnalyser":
        """For so many components and columns."""
        if self.l >= columns:
            raise DataError(f"l must be less than the {columns} columns, found {self.l}")
        return super().resized(k, columns)

    def adapt(self, data: Observed, *, seed: int = 0) -> "FactorAnalyser":
        """Means by k-means++, and for all components the factors of what is left around them."""
        (k, d), (x, seen) = self.sizes, data[:2]
        mean, variance = column_moments(x, seen)
        rows = np.where(seen, x, mean)[seen.any(1)]
        centers, _ = clusters(rows, k, mean, variance, seed)
        gaps = (((rows[:, None] - centers) ** 2) / variance).sum(2)
        left = rows - centers[gaps.argmin(1)]
        covariance = left.T @ left / max(len(left), 1) + 1e-3 * np.diag(variance)
        found = fit_diagonal(covariance, self.l)
        noise = np.maximum(found.noise, 0.05 * covariance.diagonal())
        scatter = variance / k ** (2 / d)
        if self.mean is not None:
            return changed(self, scatter=scatter, origin=mean)
        wide = {"w": np.repeat(found.w[None], k, 0), "noise": np.repeat(noise[None], k, 0)}
        return changed(self, mean=centers, scatter=scatter, origin=mean, **wide)

    def log_prob(self, data: Observed) -> Float[Array, "n k"]:
        """The Gaussian log density of the seen entries."""
        return self.gaussian.log_prob(data)

    def expected_statistics(self, data: Observed, weight: Float[Array, "n k"]) -> JointMoments:
        """Weighted second moments; what is missing of a row by its mean and covariance given the rest."""
        return self.gaussian.expected_statistics(data, weight)  # type: ignore[return-value]

    def maximize(self, statistics: JointMoments) -> "FactorAnalyser":
        """The weighted means, then turns of EM for the factors; a component without rows keeps its parameters."""
        xp = namespace(self.mean, self.w, self.noise, statistics)
        mass, total, squares = statistics.mass, statistics.xv[:, :, 0], statistics.xx
        visited = mass > ALMOST_NONE
        some = xp.where(visited, mass, 1.0)
        local = total / some[:, None]
        strength, scatter = self._strength, self._known(self.scatter)
        about = squares - some[:, None, None] * local[:, :, None] * local[:, None, :]
        about = about + strength * xp.diag(scatter)

        def one(w: Array, noise: Array, about: Array, count: Array) -> tuple[Array, Array]:
            nothing = np.zeros(len(scatter))
            empty = np.zeros((0, len(scatter)))
            rows = Rows(Moments(count, nothing, about), empty, empty.astype(bool), np.zeros(0))
            p = Parameters(nothing, w, noise)
            for _ in range(TURNS):
                p = maximize(p, expect(p, rows)[0], isotropic=False)._replace(mean=nothing)
            return p.w, p.noise

        tables = (self._known(self.w), self._known(self.noise), about, some + strength)
        w: Array
        noise: Array
        if xp is np:
            w, noise = (np.stack(each) for each in zip(*(one(*row) for row in zip(*tables, strict=True)), strict=True))
        else:
            w, noise = jax.vmap(one)(*tables)
        origin, here = self._known(self.origin), visited[:, None]
        return changed(
            self,
            mean=xp.where(here, local + origin, self.mean),
            w=xp.where(here[:, :, None], w, self.w),
            noise=xp.where(here, noise, self.noise),
        )

    def log_prior(self) -> Float[Array, ""]:
        """-½ strength (log |Σ| + tr(scatter Σ⁻¹)) of each component: what the rows that it is worth add."""
        root = roots(self.covariances)
        whitened = inverse_roots(root)
        trace = (whitened**2 * self._known(self.scatter)).sum((1, 2))
        return -0.5 * self._strength * (log_determinants(root) + trace).sum()

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """One row of each of the components `which`."""
        return self.gaussian.sample(key, which, inputs)

    def predictive(self, probs: Float[Array, "n k"], inputs: Inputs = None) -> Predictive:
        """A mixture of normals for each row and column."""
        return self.gaussian.predictive(probs, inputs)

    @property
    def covariances(self) -> Float[Array, "k d d"]:
        """WWᵀ + Ψ of each component."""
        w, noise = self._known(self.w), self._known(self.noise)
        return w @ w.swapaxes(1, 2) + noise[:, :, None] * np.eye(noise.shape[1])

    @property
    def gaussian(self) -> Gaussian:
        """The same density, its factors multiplied out."""
        mean = self._known(self.mean)
        whole = {"matrix": self.covariances, "mean": mean, "origin": self._known(self.origin)}
        return changed(Gaussian("full", prior=None), k=self.k, columns=self.columns, **whole)

    @property
    def _strength(self) -> float:
        return WEAK if self.weak else FLOOR
