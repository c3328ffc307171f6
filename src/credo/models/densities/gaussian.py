"""Gaussian emissions: a mean and a covariance for each state."""

from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from threadpoolctl import threadpool_limits

from credo.core.arrays import put
from credo.core.errors import DataError
from credo.core.linalg import cholesky
from credo.core.params import known, positive, positive_definite, real
from credo.core.pytrees import changed
from credo.models.conjugate import NormalInverseGamma, NormalInverseWishart
from credo.models.conjugate.matrix import MatrixNormalInverseWishart
from credo.models.densities.base import check_weak, column_moments, sizes
from credo.models.densities.gamma import NormalInverseGammas
from credo.models.densities.normal import FLOOR, JOINT, STRENGTH, NormalEmission, check_structure

G = TypeVar("G", bound="Gaussian")

MOST_ROWS = 10_000
"""So many rows are enough to find starting means."""
NUDGE = 0.5
"""Starts after the first have their means moved by so many standard deviations within a cluster."""


class Gaussian(NormalEmission):
    """xₜ | zₜ = k ~ N(meanₖ, Σₖ) in d columns.  Rabiner (1989), section IV.A; Murphy (2012), section 17.5.2.

    Args:
        covariance: the structure of Σ, "full", "diagonal", "tied" (one matrix for all states) or "spherical" (σ²ₖI),
            or its numbers: (k, d, d) full, (k, d) diagonal, (k,) spherical, and (d, d) with structure="tied".
        mean: (k, d), or (k,) for one column; None to begin with k-means.
        prior: "weak", None, a `NormalInverseWishart` (full, tied) or `NormalInverseGamma` (diagonal, spherical) that
            every state shares. The weak one is worth 0.01 rows for the mean, df = d + 2 for the covariance, and
            expects variances of the data's over k^(2/d).
    """

    states: int | None = eqx.field(static=True)
    columns: int | None = eqx.field(static=True)
    structure: str = eqx.field(static=True)
    weak: bool = eqx.field(static=True)
    mean: Float[Array, "k d"] | None = real()
    matrix: Float[Array, "..."] | None = positive_definite()
    variance: Float[Array, "..."] | None = positive()
    prior: Any = known()
    origin: Float[Array, " d"] | None = known()
    floor: Float[Array, " d"] | None = known()

    def __init__(
        self, covariance: Any = "full", *, mean: Any = None, prior: Any = "weak", structure: str | None = None
    ) -> None:
        self.weak, self.prior = isinstance(prior, str), None if isinstance(prior, str) else prior
        self.origin = self.floor = self.matrix = self.variance = self.mean = None
        self.states = self.columns = None
        center = None if mean is None else _at_least_table(mean)
        if center is not None:
            self.mean = put(center)
            self.states, self.columns = center.shape
            self.origin = put(center.mean(0))
        if isinstance(covariance, str):
            self.structure = check_structure(structure or covariance)
        else:
            numbers = np.asarray(covariance, dtype=float)
            self.structure = check_structure(
                structure or {3: "full", 2: "diagonal", 1: "spherical"}.get(numbers.ndim, "")
            )
            _check_covariance(numbers, self.structure, center)
            if self.structure in JOINT:
                self.matrix = put(numbers)
            else:
                self.variance = put(numbers)
        laws: tuple[type, ...] = (NormalInverseWishart, MatrixNormalInverseWishart)
        check_weak(prior, *(laws if self.structure in JOINT else (NormalInverseGamma, NormalInverseGammas)))

    def for_states(self: G, states: int, columns: int) -> G:
        """For so many states and columns; a prior that all states share is repeated for each."""
        new = super().for_states(states, columns)
        if new.covariance is not None and new.covariance.shape != _shape(new.structure, states, columns):
            raise DataError(
                f"the {new.structure} covariance of {states} states and {columns} columns must have shape "
                f"{_shape(new.structure, states, columns)}, found {new.covariance.shape}"
            )
        if isinstance(new.prior, NormalInverseWishart | NormalInverseGamma):
            new = changed(new, prior=_repeated(new.prior, states, columns, new.structure in ("tied", "spherical")))
        return new

    @property
    def coefficients(self) -> Float[Array, "k d 1"]:
        """The means, as a map from the constant 1."""
        return self.mean[:, :, None]  # type: ignore[index]

    def _with_coefficients(self: G, coefficients: Float[Array, "k d p"]) -> G:
        return changed(self, mean=coefficients[:, :, 0])

    def design(self, rows: int, inputs: Any) -> Float[Array, "t 1"]:
        """vₜ = 1: the outcome does not depend on inputs."""
        return jnp.ones((rows, 1))

    def prepare(self: G, x: np.ndarray, seen: np.ndarray, inputs: np.ndarray | None, seed: int) -> G:
        """Means by k-means++ (nudged for seeds > 0), one pooled covariance of the clusters, the weak prior."""
        k, _ = sizes(self)
        mean, variance = column_moments(x, seen)
        law = self.prior
        if law is None and self.weak:
            law = weak_prior(k, mean[:, None], np.full((1, 1), STRENGTH), variance, self.structure)
        centers, within = clusters(np.where(seen, x, mean)[seen.any(1)], k, mean, variance, seed)
        changes: dict[str, Any] = {"prior": law, "origin": put(mean), "floor": put(FLOOR * variance)}
        if self.mean is None:
            changes["mean"] = put(centers)
        if self.covariance is None:
            changes["matrix" if self.structure in JOINT else "variance"] = starting_noise(within, k, self.structure)
        return changed(self, **changes)


def clusters(
    rows: np.ndarray, k: int, mean: np.ndarray, variance: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """k centers by k-means++ on standardized rows, and the variance of each column within the clusters."""
    from sklearn.cluster import KMeans

    rng, std = np.random.default_rng(seed), np.sqrt(variance)
    if len(rows) > MOST_ROWS:
        rows = rows[rng.choice(len(rows), MOST_ROWS, replace=False)]
    z = (rows - mean) / std
    if len(np.unique(z, axis=0)) <= k:  # too few to tell k clusters apart
        chosen = z[rng.integers(len(z), size=k)] if len(z) else np.zeros((k, len(mean)))
        return mean + std * (chosen + NUDGE * rng.normal(size=chosen.shape)), variance / k ** (2 / len(mean))
    with threadpool_limits(1):  # threads that wait for each other cost more than so few rows
        found = KMeans(k, n_init=1, random_state=seed).fit(z)
    within = np.maximum(((z - found.cluster_centers_[found.labels_]) ** 2).mean(0), 1e-3)
    centers = found.cluster_centers_ + (NUDGE * np.sqrt(within) * rng.normal(size=(k, len(mean))) if seed else 0.0)
    return mean + std * centers, variance * within


def starting_noise(variance: np.ndarray, k: int, structure: str) -> Array:
    """The same diagonal covariance for every state, as the structure stores it."""
    return put(
        {
            "full": np.broadcast_to(np.diag(variance), (k, len(variance), len(variance))).copy(),
            "diagonal": np.broadcast_to(variance, (k, len(variance))).copy(),
            "tied": np.diag(variance),
            "spherical": np.full(k, variance.mean()),
        }[structure]
    )


def weak_prior(k: int, mean: np.ndarray, precision: np.ndarray, variance: np.ndarray, structure: str) -> Any:
    """A prior that every state shares: M (d, p), K (p, p), and variances of the data's over k^(2/d)."""
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


def _repeated(prior: Any, k: int, d: int, shared: bool) -> Any:
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


def _at_least_table(mean: Any) -> np.ndarray:
    table = np.asarray(mean, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or not np.isfinite(table).all():
        raise DataError(f"mean must be a table of finite numbers (states, columns), found shape {np.shape(mean)}")
    return table


def _check_covariance(numbers: np.ndarray, structure: str, mean: np.ndarray | None) -> None:
    if mean is not None and numbers.shape != _shape(structure, *mean.shape):
        raise DataError(
            f"the {structure} covariance of {mean.shape[0]} states and {mean.shape[1]} columns must have shape "
            f"{_shape(structure, *mean.shape)}, found {numbers.shape}"
        )
    if structure in JOINT:
        for i, matrix in enumerate(numbers if structure == "full" else numbers[None]):
            cholesky(jnp.asarray(matrix), f"covariance of state {i}" if structure == "full" else "covariance")
    elif not np.all((numbers > 0) & np.isfinite(numbers)):
        raise DataError(f"covariance must hold positive variances, found {numbers.min():g}")
