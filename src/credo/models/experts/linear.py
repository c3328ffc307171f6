"""Linear experts y ~ N(wⱼᵀφ + bⱼ, σⱼ²): `Regression` densities, whose numbers are (w, b, log σ²)."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from credo.core import params
from credo.core.arrays import Array, namespace
from credo.core.checks import ArrayLike, check_vector
from credo.core.predictive import Mixture, Normal, Predictive
from credo.core.special import LOG_2PI
from credo.models.densities import Regression
from credo.models.experts.family import ExpertFamily, ExpertRows, mixed_weights


class LinearExperts(ExpertFamily[Any]):
    """A `Regression` of k components and one column."""

    regression: Regression

    @property
    def experts(self) -> Regression:
        """The density."""
        return self.regression

    @property
    def known(self) -> bool:
        """Whether it was given numbers or has learned them."""
        return bool(params.learnable(self.regression))

    def resized(self, k: int) -> "LinearExperts":
        """The same experts, k of them."""
        return LinearExperts(self.regression.resized(k, 1))

    def encode(self, y: ArrayLike, n: int) -> Float[Array, " n"]:
        """Real numbers, checked."""
        return check_vector(y, "y", n)

    def marks(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """As they are."""
        return y

    def adapt(self, rows: ExpertRows, seed: int) -> "LinearExperts":
        """Least squares, split and tilted."""
        return LinearExperts(self.regression.adapt(rows.observed, seed=seed))

    def expected_statistics(self, rows: ExpertRows, shares: Float[Array, "n k"]) -> Any:
        """Weighted moments."""
        return self.regression.expected_statistics(rows.observed, shares)

    def maximize(self, statistics: Any) -> "LinearExperts":
        """Weighted least squares under the conjugate prior."""
        return LinearExperts(self.regression.maximize(statistics))

    def log_prior(self) -> Float[Array, ""]:
        """Of the conjugate prior."""
        return self.regression.log_prior()

    def log_prob(self, rows: ExpertRows) -> Float[Array, "n k"]:
        """log N(y | wⱼᵀφ + bⱼ, σⱼ²)."""
        return self.regression.log_prob(rows.observed)

    def reordered(self, order: Int[np.ndarray, " k"]) -> "LinearExperts":
        """The same experts in another order."""
        return LinearExperts(self.regression.reordered(order))

    @property
    def exchangeable(self) -> bool:
        """Whether the priors of all are the same."""
        return self.regression.exchangeable

    @property
    def constants(self) -> Float[Array, " k"]:
        """Values amid the inputs."""
        return self.regression.coefficients[:, 0, -1]

    @property
    def numbers(self) -> Float[Array, "k a"]:
        """(w, value at the center of the inputs for y - origin, log σ²)."""
        xp = namespace(self._local, self._variances)
        return xp.concatenate([self._local, xp.log(self._variances)[:, None]], axis=1)

    def log_probs(self, numbers: Float[Array, "b a"], rows: ExpertRows) -> Float[Array, "n b"]:
        """-½ (log 2πσ² + e²/σ²)."""
        v = self.regression.design(len(rows.y), rows.phi)
        error = (rows.y - self.regression._origin[0])[:, None] - v @ numbers[:, :-1].T
        return -0.5 * (LOG_2PI + numbers[:, -1] + error**2 * namespace(numbers).exp(-numbers[:, -1]))

    def log_priors(self, numbers: Float[Array, "b k a"]) -> Float[Array, " b"]:
        """Of (w, b, log σ²): the conjugate law's, and dσ² = σ² d log σ²."""
        law, xp, log_variance = self.regression._law, namespace(numbers), numbers[..., -1]
        off = numbers[..., :-1] - law.mean[:, 0]
        square = xp.einsum("bkp,kpq,bkq->bk", off, law.precision[:, 0], off)
        scaled = (law.scale[:, 0] + 0.5 * square) * xp.exp(-log_variance)
        return ((1 - law._power[:, 0]) * log_variance - scaled).sum(1)

    def scores(self, rows: ExpertRows) -> Float[Array, "n k a"]:
        """(e v/σ², ½(e²/σ² - 1)) with e = y - mᵀv."""
        xp, variance = namespace(self, rows), self._variances
        v, error = self._design(rows)
        return xp.concatenate(
            [(error / variance)[..., None] * v[:, None], 0.5 * (error**2 / variance - 1)[..., None]], axis=2
        )

    def curvature(self, rows: ExpertRows, shares: Float[Array, "n k"]) -> Float[np.ndarray, "k a a"]:
        """Second derivatives, in log σ² those of the density of the coefficients and of log σ²."""
        law, variance, (v, error) = self.regression._law, self._variances, self._design(rows)
        k, p = self._local.shape
        out = np.zeros((k, p + 1, p + 1))
        for j in range(k):
            r, off, precision = shares[:, j], self._local[j] - law.mean[j, 0], law.precision[j, 0]
            pull = precision @ off
            cross = (v.T @ (r * error[:, j]) - pull) / variance[j]
            out[j, :p, :p] = ((v * r[:, None]).T @ v + precision) / variance[j]
            out[j, :p, p] = out[j, p, :p] = cross
            out[j, p, p] = (0.5 * (r @ error[:, j] ** 2 + off @ pull) + law.scale[j, 0]) / variance[j]
        return out

    def predict(
        self, numbers: Float[Array, "s k a"], regions: Float[Array, "s m k"], phi: Float[Array, "m p"]
    ) -> Predictive:
        """A mixture of normals."""
        s, k, a = numbers.shape
        xp, each = namespace(numbers, phi), numbers.reshape(s * k, a)
        mean = self.regression._origin[0] + each[:, :-1] @ self.regression.design(len(phi), phi).T
        noise = xp.broadcast_to(xp.exp(each[:, -1:]), mean.shape)
        return Mixture(mixed_weights(regions), (Normal(mean, noise, xp.zeros_like(mean)),), k)

    def answers(self, phi: Float[Array, "m p"]) -> Float[Array, "m k"]:
        """wⱼᵀφ + bⱼ."""
        return self.regression.design(len(phi), phi) @ self.regression.coefficients[:, 0].T

    @property
    def _local(self) -> Float[Array, "k p"]:
        return self.regression._local[:, 0]

    @property
    def _variances(self) -> Float[Array, " k"]:
        return self.regression._covariances[:, 0]

    def _design(self, rows: ExpertRows) -> tuple[Float[Array, "n p"], Float[Array, "n k"]]:
        """v and the errors of each expert."""
        v = self.regression.design(len(rows.y), rows.phi)
        return v, (rows.y - self.regression._origin[0])[:, None] - v @ self._local.T

    def __repr__(self) -> str:
        return f"noise {np.sqrt(np.asarray(self._variances)).round(3)}"
