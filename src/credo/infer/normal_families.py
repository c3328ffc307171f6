"""The normal laws that `Variational` chooses among, as functions of one vector of free numbers.

    u = center + A z,  z ~ N(0, I):    meanfield  A = diag(s)        2k numbers
                                       lowrank    A = [diag(s), F]   2k + k·rank
                                       fullrank   A = R C, C lower   2k + k(k - 1)/2

The numbers are measured in a `Standardization`, a guess of mean and covariance: near it the ELBO is about as curved in
each of them, so that gradient steps need no tuning. The entropy, ½ log |AAᵀ| + k/2 log 2πe, is in closed form.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, put
from credo.core.checks import check_count
from credo.core.errors import DataError, NotConverged
from credo.core.linalg import cholesky, factorize, inverse, log_determinant
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
        scaled = np.asarray(frame.root) / np.asarray(frame.scale)[:, None]
        values, vectors = np.linalg.eigh(scaled @ scaled.T)
        wide = vectors[:, ::-1][:, : self.rank] * np.sqrt(np.maximum(values[::-1][: self.rank] - 1.0, 0.01))
        return np.concatenate([np.zeros(2 * k), wide.ravel()])

    def law(self, frame: Standardization, free: Float[Array, " p"]) -> tuple[Array, Array, Array]:
        """The center, A and the entropy of the law with these free numbers."""
        k = frame.center.shape[0]
        center = frame.center + frame.root @ free[:k]
        log_scale, rest = free[k : 2 * k], free[2 * k :]
        constant = 0.5 * k * (1.0 + jnp.log(2 * jnp.pi))
        if self.kind == "fullrank":
            inner = jnp.diag(jnp.exp(log_scale)).at[np.tril_indices(k, -1)].set(rest)
            return center, frame.root @ inner, log_scale.sum() + 0.5 * log_determinant(frame.root) + constant
        scale = frame.scale * jnp.exp(log_scale)
        if self.kind == "meanfield":
            return center, jnp.diag(scale), jnp.log(scale).sum() + constant
        factor = frame.scale[:, None] * rest.reshape(k, self.rank)
        small = factor / scale[:, None]
        half = 0.5 * log_determinant(factorize(jnp.eye(self.rank) + small.T @ small).root)
        return center, jnp.concatenate([jnp.diag(scale), factor], axis=1), jnp.log(scale).sum() + half + constant

    def root(self, matrix: Float[Array, "k q"]) -> Float[Array, "k k"]:
        """The Cholesky factor of AAᵀ; A itself is one but for "lowrank"."""
        return matrix if self.kind != "lowrank" else factorize(matrix @ matrix.T).root

    def restandardize(
        self, frame: Standardization, free: Float[np.ndarray, " p"]
    ) -> tuple[Standardization, Float[np.ndarray, " p"]]:
        """The same law in a frame that fits it: centered, and as wide."""
        k = len(frame.center)
        center, matrix, _ = law_of(self, frame, put(free))
        widened = np.exp(free[k : 2 * k])
        if self.kind == "fullrank":
            scale = 1.0 / jnp.sqrt(jnp.diagonal(inverse(matrix)))
            return Standardization(center, matrix, scale), np.zeros_like(free)
        rest = free[2 * k :].reshape(k, -1) / widened[:, None]
        root, scale = widened[:, None] * np.asarray(frame.root), widened * np.asarray(frame.scale)
        return Standardization(center, put(root), put(scale)), np.concatenate([np.zeros(2 * k), rest.ravel()])


@eqx.filter_jit
def law_of(family: Family, frame: Standardization, free: Float[Array, " p"]) -> tuple[Array, Array, Array]:
    """`Family.law`, compiled."""
    return family.law(frame, free)


@eqx.filter_jit
def elbo_gradient(
    family: Family,
    frame: Standardization,
    free: Float[Array, " p"],
    center: Float[Array, " k"],
    matrix: Float[Array, "k q"],
) -> Float[Array, " p"]:
    """The gradient of the ELBO from those of the expected log density by the center and by A."""
    back = jax.vjp(lambda v: family.law(frame, v), free)[1]
    return back((center, matrix, jnp.ones(())))[0]


def standardizations(target: Target, start: np.ndarray, max_steps: int = 500) -> list[Standardization]:
    """Guesses of the law: at the mode; at the start as well where the mode is doubtful."""
    best = climb(target, start, max_steps, 1e-4)
    at_mode, proper = _standardization(target, best.vector)
    if proper and best.status == CONVERGED and np.all(np.abs(best.vector - start) < FAR):
        return [at_mode]
    return [at_mode, _standardization(target, start)[0]]


def _standardization(target: Target, u: np.ndarray) -> tuple[Standardization, bool]:
    """As wide as the log density is curved, whatever the sign; whether all curvatures had the right one."""
    curvature = np.asarray(hessian(target, put(u)))
    if not np.all(np.isfinite(curvature)):
        raise NotConverged("the second derivatives of the log density are not finite; use NUTS(), or start elsewhere")
    unit = np.sqrt(np.maximum(np.abs(np.diagonal(curvature)), LEAST_CURVATURE * np.abs(curvature).max() + 1e-300))
    values, vectors = np.linalg.eigh(curvature / np.outer(unit, unit))
    bent = np.maximum(np.abs(values), LEAST_CURVATURE * np.abs(values).max())
    precision = np.outer(unit, unit) * ((vectors * bent) @ vectors.T)
    covariance = inverse(cholesky(put(0.5 * (precision + precision.T)), "the curvature"))
    root = cholesky(covariance, "the covariance of the first guess")
    return Standardization(put(u), root, put(1.0 / np.sqrt(np.diagonal(precision)))), bool(values[0] > 0)


def check_family(kind: str, rank: object) -> None:
    """`DataError` where there is no such family."""
    if kind not in FAMILIES:
        raise DataError(f"family must be one of {', '.join(FAMILIES)}, found {kind!r}")
    if kind == "lowrank":
        check_count(rank, "rank")


@eqx.filter_jit
def factor_analysis(covariance: Float[Array, "k k"], rank: int, steps: int = 1000) -> Float[Array, "k k"]:
    """The covariance FFᵀ + diag(ψ) of the normal law that is nearest to N(0, S) by KL(S ‖ ·), by EM.

    Rubin & Thayer (1982), "EM algorithms for ML factor analysis".
    """
    unit = jnp.sqrt(jnp.diagonal(covariance))
    s = covariance / jnp.outer(unit, unit)
    values, vectors = jnp.linalg.eigh(s)
    first = vectors[:, -rank:] * jnp.sqrt(jnp.maximum(values[-rank:] - values[:1], 1e-4))

    def step(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        factors, noise = state
        scaled = (factors / noise[:, None]).T
        inner = inverse(factorize(jnp.eye(rank) + scaled @ factors).root)
        read = inner @ scaled
        factors = s @ read.T @ inverse(factorize(inner + read @ s @ read.T).root)
        return factors, jnp.maximum(1.0 - jnp.sum(factors * (s @ read.T), axis=1), 1e-6)

    begin = (first, jnp.maximum(1.0 - jnp.square(first).sum(1), 1e-2))
    factors, noise = jax.lax.fori_loop(0, steps, step, begin)
    return jnp.outer(unit, unit) * (factors @ factors.T + jnp.diag(noise))
