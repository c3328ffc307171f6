"""Gaussian densities: a mean and a covariance for each component."""

from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from credo.core.arrays import put
from credo.core.errors import DataError
from credo.core.linalg import cholesky
from credo.core.params import real
from credo.core.pytrees import changed
from credo.models.conjugate import NormalInverseGamma, NormalInverseWishart
from credo.models.conjugate.matrix import MatrixNormalInverseWishart
from credo.models.densities.base import Inputs, Observed, check_weak, parameter_table
from credo.models.densities.clusters import clusters, column_moments
from credo.models.densities.gamma import NormalInverseGammas
from credo.models.densities.normal import FLOOR, JOINT, STRENGTH, Law, NormalDensity

G = TypeVar("G", bound="Gaussian")


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
        self.prior, self.mean, self.k, self.columns = prior, None, None, None
        numbers = self._set_noise(covariance, structure)
        center = None if mean is None else parameter_table(mean, "mean")
        if center is not None:
            self.mean = put(center)
            self.k, self.columns = center.shape
            self.origin = put(center.mean(0))
        if numbers is not None:
            _check_covariance(numbers, self.structure, center)
        laws: tuple[type, ...] = (NormalInverseWishart, MatrixNormalInverseWishart)
        check_weak(prior, *(laws if self.structure in JOINT else (NormalInverseGamma, NormalInverseGammas)))

    def resized(self: G, k: int, columns: int) -> G:
        """For so many components and columns; a prior that all share is repeated for each."""
        new = super().resized(k, columns)
        if new.covariance is not None and new.covariance.shape != _shape(new.structure, k, columns):
            raise DataError(
                f"the {new.structure} covariance of {k} components and {columns} columns must have shape "
                f"{_shape(new.structure, k, columns)}, found {new.covariance.shape}"
            )
        if isinstance(new.prior, NormalInverseWishart | NormalInverseGamma):
            new = changed(new, prior=_repeated(new.prior, k, columns, new.structure in ("tied", "spherical")))
        return new

    @property
    def coefficients(self) -> Float[Array, "k d 1"]:
        """The means, as a map from the constant 1."""
        return self.mean[:, :, None]  # type: ignore[index]

    def _with_coefficients(self: G, coefficients: Float[Array, "k d p"]) -> G:
        return changed(self, mean=coefficients[:, :, 0])

    def design(self, rows: int, inputs: Inputs) -> Float[Array, "n 1"]:
        """v = 1: the row does not depend on inputs."""
        return jnp.ones((rows, 1))

    def adapt(self: G, data: Observed, *, seed: int = 0) -> G:
        """Means by k-means++ (nudged for seeds > 0), one pooled covariance of the clusters, the weak prior."""
        (k, _), (x, seen, _) = self.sizes, data.on_host()
        mean, variance = column_moments(x, seen)
        law = self.prior
        if law is None and self.weak:
            law = weak_prior(k, mean[:, None], np.full((1, 1), STRENGTH), variance, self.structure)
        centers, within = clusters(np.where(seen, x, mean)[seen.any(1)], k, mean, variance, seed)
        changes: dict[str, object] = {"prior": law, "origin": put(mean), "floor": put(FLOOR * variance)}
        if self.mean is None:
            changes["mean"] = put(centers)
        if self.covariance is None:
            changes["matrix" if self.structure in JOINT else "variance"] = starting_noise(within, k, self.structure)
        return changed(self, **changes)


def starting_noise(variance: np.ndarray, k: int, structure: str) -> Array:
    """The same diagonal covariance for every component, as the structure stores it."""
    return put(
        {
            "full": np.broadcast_to(np.diag(variance), (k, len(variance), len(variance))).copy(),
            "diagonal": np.broadcast_to(variance, (k, len(variance))).copy(),
            "tied": np.diag(variance),
            "spherical": np.full(k, variance.mean()),
        }[structure]
    )


def weak_prior(k: int, mean: np.ndarray, precision: np.ndarray, variance: np.ndarray, structure: str) -> Law:
    """A prior that every component shares: M (d, p), K (p, p), and variances of the data's over k^(2/d)."""
    (d, p), scale = mean.shape, variance / k ** (2 / len(variance))
    means = np.broadcast_to(mean, (k, d, p))
    if structure in JOINT:
        groups = 1 if structure == "tied" else k
        parts = (
            means,
            np.broadcast_to(precision, (k, p, p)),
            np.full(groups, d + 2.0),
            np.broadcast_to(np.diag(scale), (groups, d, d)),
        )
        return MatrixNormalInverseWishart(*(put(part.copy()) for part in parts))
    # Each column as an inverse Wishart with d = 1 and df = 3.
    scales = np.full((k, 1), scale.mean() / 2) if structure == "spherical" else np.broadcast_to(scale / 2, (k, d))
    columns = (means, np.broadcast_to(precision, (k, d, p, p)), np.full(scales.shape, 1.5), scales)
    return NormalInverseGammas(*(put(part.copy()) for part in columns))


def _repeated(prior: NormalInverseWishart | NormalInverseGamma, k: int, d: int, shared: bool) -> Law:
    if isinstance(prior, NormalInverseWishart):
        if prior.mean.shape != (d,):
            raise DataError(f"prior must be about {d} columns, found a mean of shape {prior.mean.shape}")
        groups = 1 if shared else k
        return MatrixNormalInverseWishart(
            jnp.broadcast_to(prior.mean[:, None], (k, d, 1)),
            jnp.broadcast_to(prior.strength, (k, 1, 1)),
            jnp.broadcast_to(prior.df, (groups,)),
            jnp.broadcast_to(prior.scale, (groups, d, d)),
        )
    groups = 1 if shared else d
    return NormalInverseGammas(
        jnp.broadcast_to(prior.mean, (k, d, 1)),
        jnp.broadcast_to(prior.strength, (k, d, 1, 1)),
        jnp.broadcast_to(prior.shape, (k, groups)),
        jnp.broadcast_to(prior.scale, (k, groups)),
    )


def _shape(structure: str, k: int, d: int) -> tuple[int, ...]:
    return {"full": (k, d, d), "diagonal": (k, d), "tied": (d, d), "spherical": (k,)}[structure]


def _check_covariance(numbers: np.ndarray, structure: str, mean: np.ndarray | None) -> None:
    if mean is not None and numbers.shape != _shape(structure, *mean.shape):
        raise DataError(
            f"the {structure} covariance of {mean.shape[0]} components and {mean.shape[1]} columns must have shape "
            f"{_shape(structure, *mean.shape)}, found {numbers.shape}"
        )
    if structure in JOINT:
        for i, matrix in enumerate(numbers if structure == "full" else numbers[None]):
            cholesky(jnp.asarray(matrix), f"covariance of component {i}" if structure == "full" else "covariance")
    elif not np.all((numbers > 0) & np.isfinite(numbers)):
        raise DataError(f"covariance must hold positive variances, found {numbers.min():g}")
