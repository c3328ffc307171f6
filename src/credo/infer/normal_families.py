"""The normal laws that `Variational` chooses among, as functions of one vector of free numbers.

    u = center + A z,  z ~ N(0, I):    meanfield  A = diag(s)        2k numbers
                                       lowrank    A = [diag(s), F]   2k + k·rank
                                       fullrank   A = R C, C lower   2k + k(k - 1)/2

The numbers are measured in a `Standardization`, a guess of mean and covariance: near it the ELBO is about as curved in
each of them, so that gradient steps need no tuning. The entropy, ½ log |AAᵀ| + k/2 log 2πe, is in closed form.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.checks import check_count
from credo.core.errors import DataError, NotConverged
from credo.core.linalg import cholesky, factorize, inverse, log_determinant
from credo.core.special import LOG_2PI
from credo.infer.laplace import FAR, climb, hessian
from credo.infer.optimize import CONVERGED
from credo.infer.target import Target

FAMILIES = ("meanfield", "lowrank", "fullrank")
LEAST_CURVATURE = 1e-6
"""Relative to the largest: flatter directions are taken to be this curved."""


class Standardization(eqx.Module):
    """A guess of the law: where it is, the Cholesky factor of its covariance, deviations given all other numbers."""

    center: Float[Array, " k"]
    root: Float[Array, "k k"]
    scale: Float[Array, " k"]


class Family(eqx.Module):
    """One of the families of normal laws."""

    kind: str = eqx.field(static=True)
    rank: int = eqx.field(static=True, default=0)

    def noises(self, k: int) -> int:
        """The length of z."""
        return k + self.rank if self.kind == "lowrank" else k

    def begin(self, frame: Standardization) -> Float[np.ndarray, " p"]:
        """The free numbers of the law that is nearest to the frame."""
        k = frame.center.shape[0]
        if self.kind != "lowrank":
            return np.zeros(2 * k + (k * (k - 1) // 2 if self.kind == "fullrank" else 0))
        scaled = frame.root / frame.scale[:, None]
        values, vectors = np.linalg.eigh(scaled @ scaled.T)
        wide = vectors[:, ::-1][:, : self.rank] * np.sqrt(np.maximum(values[::-1][: self.rank] - 1.0, 0.01))
        return np.concatenate([np.zeros(2 * k), wide.ravel()])

    def law(self, frame: Standardization, free: Float[Array, " p"]) -> tuple[Array, Array, Array]:
        """The center, A and the entropy of the law with these free numbers."""
        k, xp = frame.center.shape[0], namespace(frame, free)
        center = frame.center + frame.root @ free[:k]
        log_scale, rest = free[k : 2 * k], free[2 * k :]
        constant = 0.5 * k * (1.0 + LOG_2PI)
        if self.kind == "fullrank":
            entries = xp.concatenate([xp.exp(log_scale), rest, np.zeros(1)])
            inner = entries[_places(k)]
            return center, frame.root @ inner, log_scale.sum() + 0.5 * log_determinant(frame.root) + constant
        scale = frame.scale * xp.exp(log_scale)
        if self.kind == "meanfield":
            return center, xp.diag(scale), xp.log(scale).sum() + constant
        factor = frame.scale[:, None] * rest.reshape(k, self.rank)
        small = factor / scale[:, None]
        half = 0.5 * log_determinant(factorize(np.eye(self.rank) + small.T @ small).root)
        return center, xp.concatenate([xp.diag(scale), factor], axis=1), xp.log(scale).sum() + half + constant

    def elbo_gradient(
        self, frame: Standardization, free: Float[Array, " p"], center: Float[Array, " k"], matrix: Float[Array, "k q"]
    ) -> Float[Array, " p"]:
        """The gradient of the ELBO from those of the expected log density by the center and by A."""
        k, xp = frame.center.shape[0], namespace(frame, free, center, matrix)
        widened, by_center = xp.exp(free[k : 2 * k]), frame.root.T @ center
        if self.kind == "fullrank":
            inner = frame.root.T @ matrix
            return xp.concatenate([by_center, xp.diagonal(inner) * widened + 1, inner[np.tril_indices(k, -1)]])
        scale = frame.scale * widened
        by_scale = xp.diagonal(matrix[:, :k]) * scale + 1
        if self.kind == "meanfield":
            return xp.concatenate([by_center, by_scale])
        small = frame.scale[:, None] * free[2 * k :].reshape(k, self.rank) / scale[:, None]
        solved = small @ inverse(factorize(np.eye(self.rank) + small.T @ small).root)
        by_factor = frame.scale[:, None] * (matrix[:, k:] + solved / scale[:, None])
        return xp.concatenate([by_center, by_scale - (small * solved).sum(1), by_factor.reshape(-1)])

    def root(self, matrix: Float[Array, "k q"]) -> Float[Array, "k k"]:
        """The Cholesky factor of AAᵀ; A itself is one but for "lowrank"."""
        return matrix if self.kind != "lowrank" else factorize(matrix @ matrix.T).root

    def restandardize(
        self, frame: Standardization, free: Float[np.ndarray, " p"]
    ) -> tuple[Standardization, Float[np.ndarray, " p"]]:
        """The same law in a frame that fits it: centered, and as wide."""
        k = len(frame.center)
        center, matrix, _ = self.law(frame, free)
        widened = np.exp(free[k : 2 * k])
        if self.kind == "fullrank":
            scale = 1.0 / np.sqrt(np.diagonal(inverse(matrix)))
            return Standardization(center, matrix, scale), np.zeros_like(free)
        rest = free[2 * k :].reshape(k, -1) / widened[:, None]
        root, scale = widened[:, None] * frame.root, widened * frame.scale
        return Standardization(center, root, scale), np.concatenate([np.zeros(2 * k), rest.ravel()])


def _places(k: int) -> np.ndarray:
    """Where the entries of a lower triangle lie: its diagonal, the rest row by row, and a zero at the end."""
    places = np.full((k, k), k + k * (k - 1) // 2)
    places[np.diag_indices(k)] = np.arange(k)
    places[np.tril_indices(k, -1)] = k + np.arange(k * (k - 1) // 2)
    return places


def standardizations(target: Target, start: np.ndarray, max_steps: int = 500) -> list[Standardization]:
    """Guesses of the law: at the mode; at the start as well where the mode is doubtful."""
    best = climb(target, start, max_steps, 1e-4)
    at_mode, proper = _standardization(target, best.vector)
    if proper and best.status == CONVERGED and np.all(np.abs(best.vector - start) < FAR):
        return [at_mode]
    return [at_mode, _standardization(target, start)[0]]


def _standardization(target: Target, u: np.ndarray) -> tuple[Standardization, bool]:
    """As wide as the log density is curved, whatever the sign; whether all curvatures had the right one."""
    curvature = np.asarray(hessian(target, u))
    if not np.all(np.isfinite(curvature)):
        raise NotConverged("the second derivatives of the log density are not finite; use NUTS(), or start elsewhere")
    unit = np.sqrt(np.maximum(np.abs(np.diagonal(curvature)), LEAST_CURVATURE * np.abs(curvature).max() + 1e-300))
    values, vectors = np.linalg.eigh(curvature / np.outer(unit, unit))
    bent = np.maximum(np.abs(values), LEAST_CURVATURE * np.abs(values).max())
    precision = np.outer(unit, unit) * ((vectors * bent) @ vectors.T)
    covariance = inverse(cholesky(0.5 * (precision + precision.T), "the curvature"))
    root = cholesky(covariance, "the covariance of the first guess")
    return Standardization(u, root, 1.0 / np.sqrt(np.diagonal(precision))), bool(values[0] > 0)


def check_family(kind: str, rank: object) -> None:
    """`DataError` where there is no such family."""
    if kind not in FAMILIES:
        raise DataError(f"family must be one of {', '.join(FAMILIES)}, found {kind!r}")
    if kind == "lowrank":
        check_count(rank, "rank")


def factor_analysis(covariance: Float[Array, "k k"], rank: int, steps: int = 1000) -> Float[Array, "k k"]:
    """The covariance FFᵀ + diag(ψ) of the normal law that is nearest to N(0, S) by KL(S ‖ ·), by EM.

    Rubin & Thayer (1982), "EM algorithms for ML factor analysis".
    """
    unit = np.sqrt(np.diagonal(covariance))
    s = covariance / np.outer(unit, unit)
    values, vectors = np.linalg.eigh(s)
    factors = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:] - values[:1], 1e-4))
    noise = np.maximum(1.0 - np.square(factors).sum(1), 1e-2)
    for _ in range(steps):
        scaled = (factors / noise[:, None]).T
        inner = np.linalg.inv(np.eye(rank) + scaled @ factors)
        read = inner @ scaled
        crossed = s @ read.T
        factors = crossed @ np.linalg.inv(inner + read @ crossed)
        noise = np.maximum(1.0 - (factors * crossed).sum(1), 1e-6)
    return np.outer(unit, unit) * (factors @ factors.T + np.diag(noise))
