"""`Laplace`: a normal law at the mode, as wide as the log density is flat.

    û = argmax log p(u),    H = -∂² log p(û),    u | data ≈ N(û, H⁻¹)
    log p(data) ≈ log p(û) + k/2 log 2π - ½ log |H|

the last two terms are Occam's factor: how much of the prior the data leave. MacKay (2003), §27.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array, host
from credo.core.errors import DataError, NotConverged
from credo.core.linalg import factorize, inverse, log_determinant, solve_lower, solve_upper
from credo.core.special import LOG_2PI
from credo.infer.importance_sampling import check_by_psis
from credo.infer.method import Approximation
from credo.infer.optimize import CONVERGED, Optimum, maximize
from credo.infer.posterior import NormalApproximation
from credo.infer.target import Target, value_and_grad

FAR = 30.0
"""A coordinate that went so far from its start has probably no mode."""
LONG = 10.0
"""A real number must have gone so far, and have a standard deviation FAR times as long."""
EIGENVALUE_FLOOR = 1e-10


@dataclasses.dataclass(frozen=True)
class Laplace(Approximation):
    """The mode by L-BFGS and Newton steps, and a normal law around it.

    Args:
        curvature: of the log density at the mode. "exact" by automatic differentiation; "diagonal" its diagonal;
            "lowrank" the `rank` sharpest directions of the exact one, the diagonal of the rest; "gauss-newton" drops
            the curvature of the model itself, JᵀWJ, for targets that say what they predict (`Target.outputs`). "full"
            and "last-layer" are the same of a trained network (`Neural`), which predicts as its linearization does.
        rank: of "lowrank".
        max_steps: of the climb.
        tolerance: the largest slope at a mode, relative to the curvature: a Newton step of so many standard deviations.
    """

    curvature: str = "exact"
    rank: int = 10
    max_steps: int = 500
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.curvature not in ("exact", "diagonal", "lowrank", "gauss-newton", "full", "last-layer"):
            known = "'exact', 'diagonal', 'lowrank', 'gauss-newton', 'full' or 'last-layer'"
            raise DataError(f"curvature must be {known}, found {self.curvature!r}")

    def run(self, target: Target, seed: int = 0) -> NormalApproximation:
        """The approximation of a target."""
        if self.curvature in ("full", "last-layer"):
            raise DataError(f"curvature={self.curvature!r} is for networks (Neural); use 'gauss-newton' or 'exact'")
        start = target.check()
        found = climb(target, start, self.max_steps, 1e-5)
        reached, stride, converged = newton(target, found.vector, self.tolerance)
        mode, notes = np.asarray(reached), []
        if not converged:
            notes.append(
                f"The mode was not reached (a Newton step would be {float(stride):.2g} standard deviations"
                f"{'' if found.status == CONVERGED else ', and the climb ran out of steps'}); raise max_steps."
            )
        precision = self._precision(target, mode)
        notes += _far(target, mode - start, np.diagonal(precision))
        # In units in which its diagonal is one: what is flat must not depend on units.
        unit = np.sqrt(np.maximum(np.abs(np.diagonal(precision)), 1e-12))
        values, vectors = np.linalg.eigh(precision / np.outer(unit, unit))
        smallest = float(values[0])
        if not smallest > EIGENVALUE_FLOOR:
            names, direction = target.space.names, vectors[:, 0]
            which = ", ".join(names[i] for i in np.argsort(-np.abs(direction))[:3] if abs(direction[i]) > 0.1)
            notes.append(
                f"The curvature is not positive definite (smallest eigenvalue {smallest:.3g}, mostly {which}): the "
                "data and the prior do not determine it. Give a tighter prior, or use NUTS()."
            )
            precision = np.outer(unit, unit) * ((vectors * np.maximum(values, 1e-6)) @ vectors.T)
        root, evidence, ok = normal_at(host(value_and_grad(target, mode)[0]), precision)
        if not ok:
            raise NotConverged("the curvature at the mode cannot be factorized; use NUTS(), or a tighter prior")
        law = NormalApproximation(target.space, mode, root, evidence, tuple(notes))
        return law if notes else dataclasses.replace(law, notes=check_by_psis(law, target, seed=seed))

    def _precision(self, target: Target, mode: np.ndarray) -> Float[np.ndarray, "k k"]:
        if self.curvature == "gauss-newton":
            if target.outputs is None:
                raise DataError(
                    "curvature='gauss-newton' needs a target that says what it predicts (outputs=); use 'exact'"
                )
            return np.asarray(_gauss_newton(target, mode))
        exact = np.asarray(hessian(target, mode))
        if self.curvature == "exact":
            return exact
        diagonal = np.diagonal(exact)
        if self.curvature == "diagonal":
            return np.diag(diagonal)
        values, vectors = np.linalg.eigh(exact)
        sharp = vectors[:, -self.rank :] * np.sqrt(np.maximum(values[-self.rank :], 0.0))
        low = sharp @ sharp.T
        return low + np.diag(diagonal - np.diagonal(low))


def climb(target: Target, start: np.ndarray, max_steps: int, tolerance: float) -> Optimum:
    """The highest point of the log density that L-BFGS reaches from the start."""

    def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_grad(target, u)
        return float(value), np.asarray(gradient)

    free = np.full(start.shape, np.inf)
    return maximize(objective, [start], -free, free, max_steps, tolerance)[0]


def _far(target: Target, moved: np.ndarray, curvature: np.ndarray) -> list[str]:
    """Which numbers may have no mode: those that went far; real ones if they are far less certain than that."""
    bounded = np.array([s.constraint.kind != "real" for s in target.space.slots for _ in range(s.stop - s.start)])
    flat = (np.abs(moved) > LONG) & (curvature * (FAR * moved) ** 2 < 1.0)
    far = np.where(bounded, np.abs(moved) > FAR, flat)
    return [
        f"{target.space.names[i] or 'θ'} moved by {moved[i]:.3g} on the unconstrained scale: its mode may be at a "
        "bound or at infinity. Give it a prior."
        for i in np.flatnonzero(far)[:3]
    ]


@eqx.filter_jit
def hessian(target: Target, u: Float[Array, " k"]) -> Float[Array, "k k"]:
    """-∂² log p(u), symmetric."""
    h = -jax.hessian(target)(u)
    return 0.5 * (h + h.T)


@eqx.filter_jit
def _gauss_newton(target: Target, u: Float[Array, " k"]) -> Float[Array, "k k"]:
    """Jᵀ(-∂²ℓ)J with J = ∂f/∂u and ℓ(f) the log likelihood of the outputs, and the exact curvature of the rest."""
    outputs, likelihood = target.outputs  # type: ignore[misc]

    def predicted(v: Array) -> Array:
        return outputs(target.space.tree(v), *target.data)

    def by_outputs(f: Array) -> Array:
        return likelihood(f, *target.data)

    at = predicted(u)
    jacobian = jax.jacobian(predicted)(u).reshape(at.size, -1)
    inner = -jax.hessian(lambda f: by_outputs(f.reshape(at.shape)))(at.ravel())
    rest = -jax.hessian(lambda v: target(v) - by_outputs(predicted(v)))(u)
    total = jacobian.T @ inner @ jacobian + rest
    return 0.5 * (total + total.T)


@eqx.filter_jit
def newton(target: Target, u: Float[Array, " k"], tolerance: ArrayLike, most: int = 30) -> tuple[jax.Array, ...]:
    """Newton steps, halved until they gain; the last step in standard deviations, and whether it was short."""

    def step(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        u, _, count = state
        gradient, h = jax.grad(target)(u), -jax.hessian(target)(u)
        factor = factorize(0.5 * (h + h.T))
        half = solve_lower(factor.root, gradient)
        direction = solve_upper(factor.root, half)
        stride = jnp.where(factor.ok, jnp.linalg.norm(half), jnp.inf)
        here = target(u)
        lengths = 0.5 ** jnp.arange(8.0)
        values = jax.lax.map(lambda t: target(u + t * direction), lengths)
        best = jnp.argmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))
        gains = factor.ok & (values[best] > here)
        return jnp.where(gains, u + lengths[best] * direction, u), jnp.where(gains, stride, -stride), count + 1

    first = (jnp.asarray(u), jnp.asarray(jnp.inf), jnp.asarray(0))
    u, stride, _ = jax.lax.while_loop(lambda state: (state[1] > tolerance) & (state[2] < most), step, first)
    stride = jnp.abs(stride)
    # Where no step gains any more, rounding is all that is left of it.
    return u, stride, stride < jnp.maximum(tolerance, 1e-3)


def normal_at(value: Float[Array, ""], precision: Float[Array, "k k"]) -> tuple[Array, Array, Array]:
    """The root of the covariance H⁻¹, log p(û) + k/2 log 2π - ½ log|H|, and whether H could be factorized."""
    factor = factorize(precision)
    covariance = factorize(inverse(factor.root))
    return covariance.root, value + occam(factor.root), factor.ok & covariance.ok


def occam(root: Float[Array, "k k"]) -> Float[Array, ""]:
    """k/2 log 2π - ½ log|H| from the Cholesky factor of H: the log volume of the normal law, without its height."""
    return 0.5 * (len(root) * LOG_2PI - log_determinant(root))
