"""Gaussian densities: a mean and a covariance for each component."""

from typing import TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.core.linalg import cholesky
from credo.core.params import real
from credo.core.pytrees import changed
from credo.models.conjugate import NormalInverseGamma, NormalInverseWishart
from credo.models.conjugate.matrix import MatrixNormalInverseWishart
from credo.models.densities.base import Inputs, Observed, parameter_table, read_prior
from credo.models.densities.clusters import clusters, column_moments
from credo.models.densities.gamma import NormalInverseGammas
from credo.models.densities.normal import FLOOR, JOINT, STRENGTH, Law, N, NormalDensity

G = TypeVar("G", bound="Gaussian")
Numbers = Array | np.ndarray | float


class Gaussian(NormalDensity):
    """x | k ~ N(meanₖ, Σₖ) in d columns.  Rabiner (1989), section IV.A; Murphy (2012), section 17.5.2.

    Args:
        covariance: the structure of Σ, "full", "diagonal", "tied" (one matrix for all) or "spherical" (σ²ₖI), or its
            numbers: (k, d, d) full, (k, d) diagonal, (k,) spherical, and (d, d) with structure="tied".
        mean: (k, d), or (k,) for one column; None to begin with k-means.
        prior: "weak", None, a `NormalInverseWishart` (full, tied) or `NormalInverseGamma` (diagonal, spherical) that
            every component shares. The weak one is worth 0.01 rows for the mean, df = d + 2 for the covariance, and
            expects variances of the data's over k^(2/d).
    """

    mean: Float[Array, "k d"] | None = real()

    def __init__(
        self,
        covariance: str | ArrayLike = "full",
        *,
        mean: ArrayLike | None = None,
        prior: object = "weak",
        structure: str | None = None,
    ) -> None:
        numbers, self.mean = self._set_noise(covariance, structure), None
        center = None if mean is None else parameter_table(mean, "mean")
        if center is not None:
            self.mean, self.origin = center, center.mean(0)
            self.k, self.columns = center.shape
        if numbers is not None:
            if center is not None:
                self._check_shape(*center.shape)
            _check_covariance(numbers, self.structure)
        laws: tuple[type, ...] = (NormalInverseWishart, MatrixNormalInverseWishart)
        laws = laws if self.structure in JOINT else (NormalInverseGamma, NormalInverseGammas)
        self.weak, self.prior = read_prior(prior, *laws)

    def resized(self: G, k: int, columns: int) -> G:
        """For so many components and columns; a prior that all share is repeated for each."""
        new = super().resized(k, columns)
        new._check_shape(k, columns)
        prior = new.prior
        if isinstance(prior, NormalInverseWishart):
            if prior.mean.shape != (columns,):
                raise DataError(f"prior must be about {columns} columns, found a mean of shape {prior.mean.shape}")
            law = repeated(new.structure, k, prior.mean[:, None], prior.strength, prior.df, prior.scale)
            return changed(new, prior=law)
        if isinstance(prior, NormalInverseGamma):
            mean = np.broadcast_to(prior.mean, (columns, 1))
            return changed(new, prior=repeated(new.structure, k, mean, prior.strength, prior.shape, prior.scale))
        return new

    def _check_shape(self, k: int, d: int) -> None:
        asked = {"full": (k, d, d), "diagonal": (k, d), "tied": (d, d), "spherical": (k,)}[self.structure]
        if self.covariance is not None and self.covariance.shape != asked:
            raise DataError(
                f"the {self.structure} covariance of {k} components and {d} columns must have shape {asked}, found "
                f"{self.covariance.shape}"
            )

    @property
    def coefficients(self) -> Float[Array, "k d 1"]:
        """The means, as a map from the constant 1."""
        return self._known(self.mean)[:, :, None]

    def _with_coefficients(self: G, coefficients: Float[Array, "k d p"]) -> G:
        return changed(self, mean=coefficients[:, :, 0])

    def design(self, rows: int, inputs: Inputs) -> Float[Array, "n 1"]:
        """v = 1: the row does not depend on inputs."""
        return np.ones((rows, 1))

    def adapt(self: G, data: Observed, *, seed: int = 0) -> G:
        """Means by k-means++ (nudged for seeds > 0), one pooled covariance of the clusters, the weak prior."""
        (k, _), (x, seen) = self.sizes, data[:2]
        mean, variance = column_moments(x, seen)
        centers, within = clusters(np.where(seen, x, mean)[seen.any(1)], k, mean, variance, seed)
        new = begun(self, mean[:, None], np.full((1, 1), STRENGTH), variance, within)
        return new if self.mean is not None else changed(new, mean=centers)

    def with_prior(self: G, data: Observed) -> G:
        """The weak prior about the mean of the columns; nothing is known of the parameters."""
        mean, variance = column_moments(*data[:2])
        new = begun(self, mean[:, None], np.full((1, 1), STRENGTH), variance, variance)
        return changed(new, matrix=self.matrix, variance=self.variance)

    def to_integrate(self: G) -> G | None:
        """A weak prior as one that is worth 0.1 rows for the mean, with df = d + 4, and expects the data's variances.

        In an average, df = d + 2 has outcomes of a state that was hardly visited anywhere; and of few rows all may be
        from one state. HMMs of two states, 95 % held at n = 15: 91 % where variances are expected at half the data's,
        94 % at all of it; EM's best setting 76 %.
        """
        law, (k, d) = self.prior, self.sizes
        if law is None or not self.weak:
            return None if law is None else self
        firm = {"precision": 10 * law.precision, "scale": 3 * k ** (2 / d) * law.scale}
        more = {"shape": law.shape + 1} if isinstance(law, NormalInverseGammas) else {"df": law.df + 2}
        return changed(self, prior=changed(law, **firm, **more))

    def units(self) -> dict[str, Array]:
        """Of means, and of the entries of a Cholesky factor below its diagonal, the data's standard deviations."""
        std = np.ones(self.sizes[1]) if self.floor is None else np.sqrt(np.asarray(self.floor) / FLOOR)
        below = std[np.tril_indices(len(std), -1)[0]]
        return {"mean": std, "matrix": np.concatenate([below, np.ones(len(std))])}


def begun(density: N, center: np.ndarray, precision: np.ndarray, variance: np.ndarray, within: np.ndarray) -> N:
    """With origin and floor from the data, the weak prior about `center`, and noise of variances `within`."""
    (k, d), structure, prior = density.sizes, density.structure, density.prior
    if prior is None and density.weak:
        scale = variance / k ** (2 / d)  # what is left of the data's within a component
        if structure in JOINT:
            prior = repeated(structure, k, center, precision, d + 2.0, np.diag(scale))
        else:  # each column as an inverse Wishart with d = 1 and df = 3
            half = scale.mean() / 2 if structure == "spherical" else scale / 2
            prior = repeated(structure, k, center, precision, 1.5, half)
    noise = density.covariance
    if noise is None:
        noise = {
            "full": np.broadcast_to(np.diag(within), (k, d, d)).copy(),
            "diagonal": np.broadcast_to(within, (k, d)).copy(),
            "tied": np.diag(within),
            "spherical": np.full(k, within.mean()),
        }[structure]
    new = changed(density, prior=prior, origin=center[:, -1], floor=FLOOR * variance)
    return changed(new, **{density._noise: noise})


def repeated(structure: str, k: int, mean: Numbers, precision: Numbers, df: Numbers, scale: Numbers) -> Law:
    """The law of k components that is the same for each; the mean has shape (d, p)."""

    def wide(values: Numbers, *shape: int) -> Array:
        return np.broadcast_to(np.asarray(values, float), shape).copy()

    d, p = np.shape(mean)
    if structure in JOINT:
        g = 1 if structure == "tied" else k
        laws = wide(precision, k, p, p), wide(df, g), wide(scale, g, d, d)
        return MatrixNormalInverseWishart(wide(mean, k, d, p), *laws)
    g = 1 if structure == "spherical" else d
    return NormalInverseGammas(wide(mean, k, d, p), wide(precision, k, d, p, p), wide(df, k, g), wide(scale, k, g))


def _check_covariance(numbers: np.ndarray, structure: str) -> None:
    if structure in JOINT:
        for i, matrix in enumerate(numbers if structure == "full" else numbers[None]):
            cholesky(matrix, f"covariance of component {i}" if structure == "full" else "covariance")
    elif not np.all((numbers > 0) & np.isfinite(numbers)):
        raise DataError(f"covariance must hold positive variances, found {numbers.min():g}")
