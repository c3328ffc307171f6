"""Densities with Gaussian noise around a linear map: x = Mₖv + e, e ~ N(0, Σₖ), v = (u, 1) or just 1.

What `Gaussian` and `Regression` share: four structures of Σ, whitening instead of a solve for each row, missing
entries by conditioning on the seen ones, and the conjugate algebra of `wishart` and `gamma`.

For "full" and "tied" noise with single entries missing, EM is exact; VB takes the missing entries at the mean of
q, so its bound is then an approximation; Gibbs draws them.
"""

from abc import abstractmethod
from types import ModuleType
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray
from numpy.typing import ArrayLike

from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
from credo.core.linalg import factorize
from credo.core.params import constant, positive, positive_definite
from credo.core.predictive import Mixture, Normal, Predictive
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI
from credo.models.conjugate.matrix import (
    JointMoments,
    MatrixNormalInverseWishart,
    log_determinants,
    moved,
    roots,
    solve_triangles,
)
from credo.models.densities import moments, quadratic, student
from credo.models.densities.base import ALMOST_NONE, ENTRIES, HasPredictive, Inputs, Observed, require_prior
from credo.models.densities.gamma import ColumnMoments, NormalInverseGammas
from credo.models.densities.moments import by_rows, condition_coordinates, inverse_roots, lengths, squared_distances

N = TypeVar("N", bound="NormalDensity")
Law = MatrixNormalInverseWishart | NormalInverseGammas
Moments = JointMoments | ColumnMoments

STRUCTURES = ("full", "diagonal", "tied", "spherical")
JOINT = ("full", "tied")
FLOOR = 1e-6
"""Without a prior the scatter of a component gets so much of the data's variance: it counts as a millionth of a row."""
STRENGTH = 0.01
"""So many rows the weak prior is worth, as far as means are concerned."""


class NormalDensity(HasPredictive[Moments, Law]):
    """x | k ~ N(Mₖv, Σₖ); `matrix` holds Σ where it is full or tied, `variance` its diagonal otherwise."""

    structure: str = eqx.field(static=True)
    weak: bool = eqx.field(static=True)
    matrix: Float[Array, "..."] | None = positive_definite()
    variance: Float[Array, "..."] | None = positive()
    prior: Any = constant()
    origin: Float[Array, " d"] | None = constant()
    floor: Float[Array, " d"] | None = constant()

    def _set_noise(self, covariance: "str | ArrayLike", structure: str | None) -> np.ndarray | None:
        """Takes the structure of Σ, or its numbers, of which the structure follows; for constructors."""
        self.k = self.columns = self.matrix = self.variance = self.origin = self.floor = None
        numbers = None if isinstance(covariance, str) else np.asarray(covariance, dtype=float)
        found = covariance if numbers is None else {3: "full", 2: "diagonal", 1: "spherical"}.get(numbers.ndim, "")
        self.structure = str(structure or found)
        if self.structure not in STRUCTURES:
            raise DataError(f"covariance must be one of {', '.join(STRUCTURES)}, or numbers, found {self.structure!r}")
        if numbers is not None:
            setattr(self, self._noise, numbers)
        return numbers

    @property
    def _noise(self) -> str:
        """The field that holds Σ."""
        return "matrix" if self.structure in JOINT else "variance"

    @property
    def covariance(self) -> Float[Array, "..."] | None:
        """Σ as it is stored: (k, d, d) full, (k, d) diagonal, (d, d) tied, (k,) spherical."""
        return self.matrix if self.structure in JOINT else self.variance

    @property
    def _covariances(self) -> Array:
        """Σ of every component: (k, d, d), or its diagonals (k, d)."""
        (k, d), groups = self.sizes, self._groups
        return namespace(groups).broadcast_to(groups, (k, d, d) if self.structure in JOINT else (k, d))

    @property
    @abstractmethod
    def coefficients(self) -> Float[Array, "k d p"]:
        """M, the constant last."""

    @abstractmethod
    def _with_coefficients(self: N, coefficients: Float[Array, "k d p"]) -> N:
        """The same density with another M."""

    @abstractmethod
    def design(self, rows: int, inputs: Inputs) -> Float[Array, "t p"]:
        """v = (u, 1)."""

    def reordered(self: N, order: Int[np.ndarray, " k"]) -> N:
        """A covariance that all share stays."""
        new = super().reordered(order)
        return changed(new, matrix=self.matrix) if self.structure == "tied" else new

    def log_prob(self, data: Observed) -> Float[Array, "n k"]:
        """-½ Σ over the seen entries of log 2πσ² + z², whitened by the Cholesky factor where they covary."""
        if data.noise is not None:
            return self._of_noisy(data)[0]
        (k, d), (y, v, seen), m, covariance = self.sizes, self._centered(data), self._local, self._covariances
        xp = namespace(y, m, covariance)
        if self.structure not in JOINT:
            constant, half = -0.5 * (LOG_2PI + xp.log(covariance)), 0.5 / covariance
            return _sum_entries(constant, half, m, y, v, seen, data.complete)
        if data.complete:
            root = roots(covariance)
            square = squared_distances(inverse_roots(root), m, y, v)
            return xp.where(seen[:, :1], -0.5 * (square + (log_determinants(root) + d * LOG_2PI)), 0.0)
        if quadratic.suits(self, data):
            return quadratic.log_joint(self, data, np.zeros(k))

        def rows(y: Array, v: Array, seen: Array) -> Array:
            log_det, square, _, _ = condition_coordinates(_means(m, v), covariance, y[:, None], seen[:, None])
            return -0.5 * (log_det + square + seen.sum(1, keepdims=True) * LOG_2PI)

        return by_rows(rows, k, d, y, v, seen)

    def expected_statistics(self, data: Observed, weight: Float[Array, "n k"]) -> JointMoments | ColumnMoments:
        """Second moments of (x, v); what is missing of a row by its mean and covariance given the rest."""
        y, v, seen = self._centered(data)
        if data.noise is not None:
            _, mean, rest = self._of_noisy(data)
            return _moments_of(namespace(mean, weight), mean, rest, v, weight * data.any_seen)
        if self.structure not in JOINT:
            return _column_moments(y, v, seen, weight, data.complete)
        weight = weight * data.any_seen
        if data.complete:
            return _joint_moments(y, v, weight)
        return self._imputed_moments(y, v, seen, weight)

    def _imputed_moments(self, y: Array, v: Array, seen: Array, weight: Array) -> JointMoments:
        """Complete rows by two products of matrices, the others one by one."""
        (k, d), m, covariance = self.sizes, self._local, self._covariances
        xp, whole = namespace(y, m, covariance, weight), seen.all(1, keepdims=True)

        def rows(y: Array, v: Array, seen: Array, w: Array) -> JointMoments:
            _, _, mean, rest = condition_coordinates(_means(m, v), covariance, y[:, None], seen[:, None])
            return _moments_of(xp, mean, rest, v, w)

        begin = _joint_moments(y, v, weight * whole)
        return moments.sum_blocks(rows, begin, k, d, y, v, seen, weight * ~whole)

    def expectation(
        self, data: Observed, log_weights: Float[Array, " k"], weight: Float[Array, " n"]
    ) -> tuple[Float[Array, " k"], Moments, Float[Array, ""]]:
        """By features where columns covary and numbers are known: two products of matrices."""
        if self.structure in JOINT and quadratic.suits(self, data):
            return quadratic.expectation(self, data, np.asarray(log_weights), np.asarray(weight))
        return super().expectation(data, log_weights, weight)

    def _of_noisy(self, data: Observed) -> tuple[Array, Array, Array]:
        """log p(x | k), and mean and covariance of each row without its noise Sₙ: x = t + e, t ~ N(m, Σ), e ~ N(0, Sₙ).

        E[t | x] = m + Σ(Σ + Sₙ)⁻¹(x - m). Bovy, Hogg & Roweis (2011), "Extreme deconvolution". What was not seen has
        no part in Σ + Sₙ: its row and column are those of the identity.
        """
        (y, v, seen), m, covariance, d = self._centered(data), self._local, self._covariances, data.x.shape[1]
        xp = namespace(y, m, covariance)
        both = seen[:, None, :, None] & seen[:, None, None, :]
        root = roots(xp.where(both, covariance + data.noise[:, None], np.eye(d)))  # type: ignore[index]
        mean = _means(m, v)
        residual = xp.where(seen[:, None], y[:, None] - mean, 0.0)
        cross = xp.where(seen[:, None, :, None], covariance, 0.0)  # (seen, all)
        whitened = solve_triangles(root, xp.concatenate([residual[..., None], cross], axis=-1))
        z, gain = whitened[..., 0], whitened[..., 1:]
        logs = -0.5 * ((z**2).sum(-1) + log_determinants(root) + seen.sum(1)[:, None] * LOG_2PI)
        found = mean + (gain * z[..., None]).sum(-2)
        return logs, found, covariance - gain.swapaxes(-1, -2) @ gain

    def conditional(self, probs: Float[Array, "n k"], data: Observed, columns: Int[np.ndarray, " m"]) -> Predictive:
        """N(m + ΣₘₒΣₒₒ⁻¹(x - m)ₒ, Σₘₘ - ΣₘₒΣₒₒ⁻¹Σₒₘ) of each component, where columns covary."""
        if self.structure not in JOINT:
            return super().conditional(probs, data, columns)
        n, d = data.x.shape
        noise = np.zeros((n, d, d)) if data.noise is None else data.noise
        noisy, most = data._replace(noise=noise), max(ENTRIES // (self.sizes[0] * d * d), 1)
        each = [self._of_noisy(noisy.cut(slice(i, i + most)))[1:] for i in range(0, n, most)]
        xp = namespace(each)
        mean, rest = (xp.concatenate(parts) for parts in zip(*each, strict=True))
        which = columns if len(columns) > 1 else int(columns[0])
        center = xp.swapaxes((mean + self._origin)[..., which], 0, 1)
        spread = xp.swapaxes(xp.diagonal(rest, axis1=-2, axis2=-1)[..., which], 0, 1)
        return Mixture(probs.T, (Normal(center, xp.maximum(spread, 0.0), xp.zeros_like(spread)),))

    def draw_statistics(self, key: PRNGKeyArray, data: Observed, which: Int[Array, " n"]) -> Moments:
        """The moments, with what is missing of a row drawn given the rest."""
        if data.complete or self.structure not in JOINT:
            return super().draw_statistics(key, data, which)
        (y, v, seen), m, covariance = self._centered(data), self._local, self._covariances

        def row(y: Array, v: Array, seen: Array, which: Array, z: Array) -> Array:
            _, _, mean, rest = condition_coordinates(m[which] @ v, covariance[which], y, seen)
            return jnp.where(seen, mean, mean + factorize(rest, ~seen).root @ z)

        tables = (jnp.asarray(each) for each in (y, v, seen, which, jr.normal(key, y.shape)))
        filled = by_rows(lambda *rows: row(*(a[0] for a in rows))[None], 1, y.shape[1], *tables) + self._origin
        some = jnp.broadcast_to(data.any_seen, seen.shape)
        whole = Observed(jnp.where(some, filled, 0.0), some, data.inputs, complete=True)
        return super().draw_statistics(key, whole, which)

    def maximize(self: N, statistics: Moments) -> N:
        """The mode of the conjugate posterior; a component without weight keeps its parameters if there is no prior."""
        coefficients, noise = self._law.update(statistics).mode()
        if self.prior is None:
            visited = statistics.mass > ALMOST_NONE  # (k,) or (k, d)
            coefficients = _choose(visited, coefficients, self._local)
            # The noise is shared by components where it is tied, by columns where it is spherical.
            shared = tuple(i for i in range(visited.ndim) if noise.shape[i] == 1 and visited.shape[i] > 1)
            noise = _choose(namespace(visited).any(visited, axis=shared, keepdims=True), noise, self._groups)
        return self._with_parameters(coefficients, noise)

    def log_prior(self) -> Float[Array, ""]:
        """log p(M, Σ) of the conjugate prior without its constant; without a prior only the floor's term."""
        return self._law.log_kernel(self._local, self._groups)

    def draw(self: N, key: PRNGKeyArray, statistics: Moments) -> N:
        """(M, Σ) ~ conjugate posterior."""
        require_prior(self.prior, "a draw of the parameters")
        return self._with_parameters(*self._law.update(statistics).draw(key))

    def variational_posterior(self, statistics: Moments) -> Law:
        """The conjugate posterior, about x - origin."""
        require_prior(self.prior, "variational Bayes")
        return self._law.update(statistics)

    def expected_log_prob(self, q: Law, data: Observed) -> Float[Array, "n k"]:
        """½ E[log |Σₒₒ⁻¹|] - ½ log 2π · |o| - ½ E[(x - Mv)ₒᵀΣₒₒ⁻¹(x - Mv)ₒ] over the seen entries o.

        (M, Σ)ₒ is of the same family, with ν - (number of missing entries) degrees of freedom.
        """
        (k, d), (y, v, seen) = self.sizes, self._centered(data)
        xp = namespace(q, y)
        if isinstance(q, NormalInverseGammas):
            constant = xp.broadcast_to(0.5 * (q.expected_log_precision() - LOG_2PI), (k, d))
            half = xp.broadcast_to(0.5 * q.shape / q.scale, (k, d))
            return _sum_entries(constant, half, q.mean, y, v, seen, data.complete, inverse_roots(roots(q.precision)))
        scale, df = xp.broadcast_to(q.scale, (k, d, d)), xp.broadcast_to(q.df, (k,))
        digammas = xp.broadcast_to(q.expected_log_det(), (k, d))
        spread = lengths(inverse_roots(roots(q.precision)), v)
        if data.complete:
            root = roots(scale)
            square = squared_distances(inverse_roots(root), q.mean, y, v)
            constant = digammas.sum(1) - log_determinants(root) - d * np.log(np.pi)
            return xp.where(seen[:, :1], 0.5 * (constant - df * square - d * spread), 0.0)
        partial = xp.concatenate([xp.zeros((k, 1)), xp.cumsum(digammas[:, ::-1], axis=1)], axis=1)

        def rows(y: Array, v: Array, seen: Array, spread: Array) -> Array:
            log_det, square, _, _ = condition_coordinates(_means(q.mean, v), scale, y[:, None], seen[:, None])
            count = seen.sum(1)
            constant = partial[:, count].T - log_det - count[:, None] * np.log(np.pi)
            return 0.5 * (constant - (df - (d - count[:, None])) * square - count[:, None] * spread)

        return by_rows(rows, k, d, y, v, seen, spread)

    def kl_to_prior(self, q: Law) -> Float[Array, ""]:
        """KL(q ‖ prior)."""
        require_prior(self.prior, "variational Bayes")
        return q.divergence(self._law)

    def with_prior(self: N, data: Observed) -> N:
        """The weak prior, where none was given."""
        return self.adapt(data)

    def without_prior(self: N) -> N:
        """Without the floor either: a covariance that is singular then is the likelihood's own."""
        return changed(self, prior=None, weak=False, floor=np.zeros(self.sizes[1]))

    def log_predictive(self, q: Law, data: Observed) -> Float[Array, "n k"]:
        """Student-t: of all seen entries at once with ν - d + 1 degrees of freedom and scale matrix Ψ(1 + r)/df, of
        each column with 2a and b(1 + r)/a, where r = vᵀK⁻¹v.  Murphy (2012), section 4.6.3.9."""
        y, v, seen = self._centered(data)
        if isinstance(q, NormalInverseGammas):
            return student.of_columns(q, y, v, seen, data.complete)
        return student.of_rows(q, y, v, seen, data.complete)

    def log_marginal(self, before: Law, after: Law) -> Float[Array, ""]:
        """The ratio of the normalizers, and (2π)^-½ of each entry."""
        if isinstance(after, NormalInverseGammas):
            entries = 2 * (after.shape - before.shape).sum()  # type: ignore[union-attr]
        else:
            entries = self.sizes[1] * (after.df - before.df).sum()  # type: ignore[union-attr]
        return after.log_normalizer() - before.log_normalizer() - 0.5 * LOG_2PI * entries

    def sample_predictive(
        self, rng: np.random.Generator, q: Law, which: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n d"]:
        """Student-t draws."""
        return np.asarray(self._origin + student.draws(rng, q, which, np.asarray(self.design(len(which), None))))

    def several(self: N, q: Law, n: int, seed: int) -> N:
        """n·k components; a covariance that was shared is repeated."""
        (k, d), (coefficients, noise), xp = self.sizes, q.several(n, seed), namespace(q)
        new = changed(self, k=n * k)
        if self.structure == "tied":
            new = changed(new, structure="full")
        shape = {"full": (n, k, d, d), "tied": (n, k, d, d), "diagonal": (n, k, d), "spherical": (n, k, 1)}
        noise = xp.broadcast_to(noise, shape[self.structure])
        return new._with_parameters(coefficients.reshape(n * k, d, -1), noise.reshape(n * k, *noise.shape[2:]))

    def posterior_mean(self: N, q: Law) -> N:
        """E[M] and E[Σ] under q."""
        return self._with_parameters(*q.average())

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """Mv + e for the component of each row."""
        z = jr.normal(key, (which.shape[0], self.sizes[1]))
        mean = jnp.einsum("tdp,tp->td", self.coefficients[which], self.design(which.shape[0], inputs))
        if self.structure not in JOINT:
            return mean + jnp.sqrt(self._covariances)[which] * z
        return mean + jnp.einsum("tij,tj->ti", roots(self._covariances)[which], z)

    def predictive(self, probs: Float[Array, "n k"], inputs: Inputs = None) -> Predictive:
        """A mixture of normals for each row; for d > 1 one for each column, of shape (n, d)."""
        every, design = self._covariances, self.design(probs.shape[0], inputs)
        xp = namespace(every, self.coefficients, design)
        variance = xp.diagonal(every, axis1=1, axis2=2) if self.structure in JOINT else every
        mean = xp.einsum("kdp,mp->kmd", self.coefficients, design)
        noise = xp.broadcast_to(variance[:, None], mean.shape)
        mean, noise = (mean[:, :, 0], noise[:, :, 0]) if mean.shape[2] == 1 else (mean, noise)
        return Mixture(probs.T, (Normal(mean, noise, xp.zeros_like(noise)),))

    def _centered(self, data: Observed) -> tuple[Float[Array, "n d"], Float[Array, "n p"], Bool[Array, "n d"]]:
        """x - origin, v and what was seen, in the library of the parameters."""
        xp = namespace(self, data)
        return tuple(xp.asarray(a) for a in (data.x - self._origin, self.design(len(data.x), data.inputs), data.seen))

    @property
    def _groups(self) -> Array:
        """Σ with an axis of groups: (g, d, d), or (k, g) of variances."""
        if self.structure in JOINT:
            return self.matrix if self.structure == "full" else self.matrix[None]  # type: ignore[index,return-value]
        return self.variance if self.structure == "diagonal" else self.variance[:, None]  # type: ignore[index,return-value]

    @property
    def _origin(self) -> Float[Array, " d"]:
        """A point amid the data: moments about it do not cancel."""
        return np.zeros(self.sizes[1]) if self.origin is None else self.origin

    @property
    def _local(self) -> Float[Array, "k d p"]:
        """M for x - origin."""
        return moved(self.coefficients, -self._origin)

    @property
    def _law(self) -> Any:
        """The prior about x - origin, or the flat one with the floor."""
        if self.prior is not None:
            return self.prior.shifted(self._origin)
        (k, d), p = self.sizes, self.coefficients.shape[-1]
        floor = np.full(d, FLOOR * 1e-6) if self.floor is None else self.floor
        law = MatrixNormalInverseWishart if self.structure in JOINT else NormalInverseGammas
        return law.flat(k, p, floor, self.structure in ("tied", "spherical"))

    def _with_parameters(self: N, local: Float[Array, "k d p"], noise: Array) -> N:
        new = self._with_coefficients(moved(local, self._origin))
        stored = {"full": noise, "diagonal": noise, "tied": noise[0], "spherical": noise[:, 0]}[self.structure]
        return changed(new, **{self._noise: stored})


def _sum_entries(
    constant: Float[Array, "k d"],
    half: Float[Array, "k d"],
    coefficients: Float[Array, "k d p"],
    y: Float[Array, "n d"],
    v: Float[Array, "t p"],
    seen: Bool[Array, "n d"],
    complete: bool,
    whiten: Float[Array, "k d p p"] | None = None,
) -> Float[Array, "n k"]:
    """Σⱼ seenⱼ (cₖⱼ - hₖⱼ (yⱼ - mₖⱼ·v)² - ½ |Rₖⱼ v|²): one loop over (t, k)."""
    xp, p = namespace(constant, half, coefficients, y), v.shape[1]

    def term(c: Array, h: Array, m: Array, y: Array, s: Array, r: Array | None = None) -> Array:
        mean = sum((v[:, i, None] * m[:, i] for i in range(1, p)), start=v[:, :1] * m[:, 0])
        value = c - h * xp.square(y[:, None] - mean)
        if r is not None:
            value = value - 0.5 * lengths(r, v)
        return value if complete else xp.where(s[:, None], value, 0.0)

    whitened = () if whiten is None else (whiten,)
    total = moments.add_columns(term, y.shape[1], constant, half, coefficients, y, seen, *whitened)
    return xp.where(seen[:, :1], total, 0.0) if complete else total


def _means(coefficients: Float[Array, "k d p"], v: Float[Array, "n p"]) -> Float[Array, "n k d"]:
    """Mₖv of each row."""
    return namespace(coefficients, v).einsum("kdp,np->nkd", coefficients, v)


def _column_moments(y: Array, v: Array, seen: Array, weight: Array, complete: bool) -> ColumnMoments:
    """Weighted sums of 1, vvᵀ, yⱼv and yⱼ² over the seen entries of each column j."""
    xp, (_, d), p = namespace(y, v, seen, weight), y.shape, v.shape[1]
    k = weight.shape[1]
    if xp is np and complete:  # no table of features: products with the rows as they are
        w = weight if seen[:, 0].all() else weight * seen[:, :1]
        vv = np.stack([(w * v[:, i : i + 1]).T @ v for i in range(p)], axis=1)
        xv = np.stack([(w * v[:, i : i + 1]).T @ y for i in range(p)], axis=2)
        vv, mass = np.broadcast_to(vv[:, None], (k, d, p, p)), np.broadcast_to(w.T @ np.ones((len(y), 1)), (k, d))
        return ColumnMoments(mass, vv, xv, w.T @ np.square(y))

    def features(y: Array, v: Array, seen: Array) -> Array:
        s = seen.astype(y.dtype)
        rows, first = y.shape[0], s[:, :1] if complete else s
        pairs = (v[:, :, None] * v[:, None, :]).reshape(rows, 1, p * p)
        parts = [first[:, :, None] * pairs, (s * y)[:, :, None] * v[:, None, :], s * y * y, first]
        return xp.concatenate([part.reshape(rows, -1) for part in parts], axis=1)

    sums = moments.weighted_sums(weight, features, y, v, seen)
    groups = 1 if complete else d
    vv, xv, xx, count = xp.split(sums, np.cumsum([groups * p * p, d * p, d]), axis=1)
    vv = xp.broadcast_to(vv.reshape(k, groups, p, p), (k, d, p, p))
    return ColumnMoments(xp.broadcast_to(count, (k, d)), vv, xv.reshape(k, d, p), xx)


def _joint_moments(y: Float[Array, "n d"], v: Float[Array, "n p"], weight: Float[Array, "n k"]) -> JointMoments:
    """The second moments of (y, v), v's last entry being 1, by their blocks."""
    d, both = y.shape[1], namespace(y, v, weight).concatenate([y, v], axis=1)
    yv = moments.second_moments(both, weight)
    return JointMoments(yv[:, -1, -1], yv[:, d:, d:], yv[:, :d, d:], yv[:, :d, :d])


def _moments_of(xp: ModuleType, mean: Array, rest: Array, v: Array, weight: Array) -> JointMoments:
    """Weighted moments of (x, v) where each component has its own mean and covariance of every row."""
    outer = xp.einsum("rk,rki,rkj->kij", weight, mean, mean) + xp.einsum("rk,rkij->kij", weight, rest)
    vv, xv = xp.einsum("rk,rp,rq->kpq", weight, v, v), xp.einsum("rk,rki,rp->kip", weight, mean, v)
    return JointMoments(weight.sum(0), vv, xv, outer)


def _choose(condition: Array, new: Array, old: Array) -> Array:
    """new where the condition holds; its axes are the first ones."""
    shape = condition.shape + (1,) * (new.ndim - condition.ndim)
    return namespace(condition, new, old).where(condition.reshape(shape), new, old)
