"""Newton's method for generalized linear models, and Laplace's approximation at the mode it finds.

The unknowns are u = (ψ, vec W): the likelihood's own numbers, unconstrained, and the weights, η = Φ̃W + offset. With
zᵢ = (ψ, ηᵢ) and each row's gradient gᵢ and curvature hᵢ in z, the data contribute

    Σᵢ wᵢ Aᵢᵀgᵢ,    Σᵢ wᵢ AᵢᵀhᵢAᵢ,    Aᵢ = ∂zᵢ/∂u

so that a step costs one weighted Φ̃ᵀDΦ̃. Steps are damped (Levenberg-Marquardt) until they gain: monotone, whatever the
curvature. For canonical links this is iteratively reweighted least squares. Large tables go through NumPy (`host`).
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core import params
from credo.core.arrays import is_traced
from credo.core.linalg import factorize, solve, solve_lower
from credo.infer.laplace import occam
from credo.models.likelihoods import Likelihood

MAX_STEPS = 100
TOLERANCE = 1e-6
"""The climb ends with a step shorter than this many posterior standard deviations."""
SLACK = 1e-12
"""A step may lose this share of the height: rounding."""
LARGE = 2**20
"""Tables with so many entries go through NumPy."""


class Rows(eqx.Module):
    """What a generalized linear model keeps of its data; padding has weight zero."""

    design: Float[Array, "n q"]
    y: Float[Array, " n"]
    weights: Float[Array, " n"]
    offset: Float[Array, " n"]
    likelihood: Likelihood

    def __add__(self, other: "Rows") -> "Rows":
        def both(a: Array, b: Array) -> Array:
            return jnp.concatenate([a, b])

        design, y = both(self.design, other.design), both(self.y, other.y)
        return Rows(design, y, both(self.weights, other.weights), both(self.offset, other.offset), self.likelihood)

    @property
    def width(self) -> int:
        """c, the number of linear predictors."""
        return self.likelihood.width


class Before(eqx.Module):
    """What is believed of u before the rows: N(mean, precision⁻¹); ψ has the likelihood's own prior while `fresh`."""

    mean: Float[Array, " k"]
    precision: Float[Array, "k k"]
    log_scale: Float[Array, ""]
    """The log of the normal density at its mean."""
    fresh: bool = eqx.field(static=True, default=True)

    @classmethod
    def nothing(cls, k: int) -> "Before":
        """No prior: maximum likelihood."""
        return cls(jnp.zeros(k), jnp.zeros((k, k)), jnp.zeros(()), False)

    def log_prob(self, likelihood: Likelihood, u: Float[Array, " k"]) -> Float[Array, ""]:
        """log p(u)."""
        gap = u - self.mean
        return self.log_scale - 0.5 * gap @ self.precision @ gap + self._own(likelihood, u[: size_of(likelihood)])

    def _own(self, likelihood: Likelihood, psi: Float[Array, " s"]) -> Float[Array, ""]:
        slots = params.layout(likelihood)
        if not slots or not self.fresh:
            return jnp.zeros(())
        return params.from_vector(likelihood, slots, psi).log_prior() + params.log_jacobian(slots, psi)

    def slopes(self, likelihood: Likelihood, u: Float[Array, " k"]) -> tuple[Array, Array, Array]:
        """log p(u), its gradient, and its curvature."""
        value, s = self.log_prob(likelihood, u), size_of(likelihood)
        gradient, curvature = -self.precision @ (u - self.mean), self.precision
        if s and self.fresh:
            gradient = gradient.at[:s].add(jax.grad(lambda v: self._own(likelihood, v))(u[:s]))
            curvature = curvature.at[:s, :s].add(-jax.hessian(lambda v: self._own(likelihood, v))(u[:s]))
        return value, gradient, curvature


def size_of(likelihood: Likelihood) -> int:
    """s, how many unconstrained numbers the likelihood has of its own."""
    slots = params.layout(likelihood)
    return slots[-1].stop if slots else 0


def split(rows: Rows, u: Float[Array, " k"]) -> tuple[Array, Array]:
    """ψ and W."""
    s = size_of(rows.likelihood)
    return u[:s], u[s:].reshape(rows.design.shape[1], rows.width)


def start(rows: Rows, intercept: bool, mean: Float[Array, " k"]) -> Float[Array, " k"]:
    """Where a climb begins: the prior mean, but for ψ and the constant term, which the outcomes suggest."""
    likelihood, constant = rows.likelihood.started(rows.y, rows.weights)
    slots = params.layout(likelihood)
    s = size_of(likelihood)
    u = mean if not slots else mean.at[:s].set(_unconstrained(likelihood, slots))
    if intercept and not likelihood.vector:
        exposure = jnp.sum(rows.weights * jnp.exp(rows.offset)) / jnp.sum(rows.weights)
        u = u.at[s].set(constant - jnp.log(exposure))
    return u


def _unconstrained(likelihood: Likelihood, slots: params.Layout) -> Array:
    values = params.learnable(likelihood)
    return jnp.concatenate([jnp.ravel(params.bijector(s.constraint).inverse(values[s.path])) for s in slots])


# -- the height, its gradient and its curvature ------------------------------------------------------------------


def log_prob_of_row(likelihood: Likelihood, z: Float[Array, " a"], y: Float[Array, ""]) -> Float[Array, ""]:
    """log p(y | z) for one row's z = (ψ, η)."""
    slots = params.layout(likelihood)
    s = size_of(likelihood)
    own = params.from_vector(likelihood, slots, z[:s]) if slots else likelihood
    return own.log_prob(z[s:] if own.vector else z[s], y)


def row_terms(
    likelihood: Likelihood, psi: Float[Array, " s"], eta: Float[Array, "n c"], y: Float[Array, " n"], w: Array
) -> tuple[Float[Array, ""], Float[Array, "n a"], Float[Array, "n a a"]]:
    """The log likelihood, and each row's weighted gradient and curvature in z."""
    z = jnp.concatenate([jnp.broadcast_to(psi, (eta.shape[0], psi.shape[0])), eta], axis=1)

    def row(z: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
        def height(v: Array) -> Array:
            return w * log_prob_of_row(likelihood, v, y)

        return height(z), jax.grad(height)(z), -jax.hessian(height)(z)

    value, gradient, curvature = jax.vmap(row)(z, y, w)
    return jnp.sum(value), gradient, curvature


def gram(design: Any, h: Any) -> Any:
    """Φ̃ᵀ diag(h) Φ̃; in NumPy as a symmetric product where h allows it, which is half the work."""
    if not isinstance(design, np.ndarray) or h.min() < 0:
        return design.T @ (design * h[:, None])
    half = design * np.sqrt(h)[:, None]
    return half.T @ half


def assemble(design: Any, gradient: Any, curvature: Any, s: int) -> tuple[Any, Any]:
    """Σ Aᵢᵀgᵢ and Σ AᵢᵀhᵢAᵢ, in NumPy where the design is."""
    xp = np if isinstance(design, np.ndarray) else jnp
    q, c = design.shape[1], gradient.shape[1] - s
    slope = xp.concatenate([gradient[:, :s].sum(0), (design.T @ gradient[:, s:]).reshape(-1)])
    blocks = {(a, b): gram(design, curvature[:, s + a, s + b]) for a in range(c) for b in range(a, c)}
    grid = [[blocks[min(a, b), max(a, b)] for b in range(c)] for a in range(c)]
    full = xp.stack([xp.stack(line) for line in grid]).transpose(2, 0, 3, 1).reshape(q * c, q * c)
    if not s:
        return slope, full
    cross = xp.stack([(design.T @ curvature[:, j, s:]).reshape(-1) for j in range(s)])
    return slope, xp.block([[curvature[:, :s, :s].sum(0), cross], [cross.T, full]])


def height(before: Before, rows: Rows, u: Float[Array, " k"]) -> tuple[Array, Array, Array]:
    """log p(y, u), its gradient and its curvature."""
    psi, weights = split(rows, u)
    eta = rows.design @ weights + rows.offset[:, None]
    value, gradient, curvature = row_terms(rows.likelihood, psi, eta, rows.y, rows.weights)
    slope, full = assemble(rows.design, gradient, curvature, psi.shape[0])
    prior, prior_slope, prior_curvature = before.slopes(rows.likelihood, u)
    return value + prior, slope + prior_slope, full + prior_curvature


# -- the climb ---------------------------------------------------------------------------------------------------


class Climb(NamedTuple):
    """Where the climb ended: u, log p(y, u), the curvature there, and the last step in standard deviations."""

    u: Float[Array, " k"]
    value: Float[Array, ""]
    precision: Float[Array, "k k"]
    stride: Float[Array, ""]
    steps: Array

    @property
    def converged(self) -> Array:
        """Whether the last step was short."""
        return self.stride < TOLERANCE


def climb(before: Before, rows: Rows, intercept: bool) -> Climb:
    """The mode of log p(y, u); traceable."""
    if is_traced(before, rows) or not is_large(rows):
        return _climb(before, rows, intercept)
    from credo.models.glm.host import climb_on_host

    return climb_on_host(before, rows, intercept)


def is_large(rows: Rows) -> bool:
    """Whether NumPy is faster for these rows: many, on a CPU."""
    return rows.design.size >= LARGE and rows.design.devices().pop().platform == "cpu"


def propose(slope: Array, curvature: Array, damping: Array) -> tuple[Array, Array, Array]:
    """The step (H + λ diag H)⁻¹g, its length in standard deviations, and whether it could be computed."""
    scale = jnp.abs(jnp.diagonal(curvature))
    factor = factorize(curvature + jnp.diag(damping * jnp.maximum(scale, 1e-8 * jnp.max(scale))))
    half = solve_lower(factor.root, slope)
    return solve(factor.root, slope), jnp.linalg.norm(half), factor.ok


def next_damping(damping: Any, good: Any) -> Any:
    """More after a step that did not gain, less after one that did."""
    xp = jnp if is_traced(damping) else np
    calmer = xp.where(damping > 1e-3, damping / 10, 0.0)
    return xp.where(good, calmer, xp.maximum(10 * damping, 1e-2))


@eqx.filter_jit
def _climb(before: Before, rows: Rows, intercept: bool) -> Climb:
    u = start(rows, intercept, before.mean)
    State = tuple[Array, tuple[Array, Array, Array], Array, Array, Array, Array]

    def unfinished(state: State) -> Array:
        *_, done, count = state
        return ~done & (count < MAX_STEPS)

    def step(state: State) -> State:
        u, here, damping, stride, _, count = state
        change, length, ok = propose(*here[1:], damping)
        there = height(before, rows, u + change)
        good = ok & jnp.isfinite(there[0]) & (there[0] >= here[0] - SLACK * jnp.abs(here[0]))
        undamped = good & (damping == 0.0)
        kept = tuple(jnp.where(good, new, old) for new, old in zip(there, here, strict=True))
        stride = jnp.where(undamped, length, stride)
        place = jnp.where(good, u + change, u)
        return place, kept, next_damping(damping, good), stride, undamped & (length < TOLERANCE), count + 1  # type: ignore[return-value]

    first = (u, height(before, rows, u), jnp.zeros(()), jnp.asarray(jnp.inf), jnp.asarray(False), jnp.asarray(0))
    u, here, _, stride, _, count = jax.lax.while_loop(unfinished, step, first)
    return Climb(u, here[0], here[2], stride, count)


# -- Laplace's approximation -------------------------------------------------------------------------------------


def evidence(before: Before, rows: Rows, intercept: bool) -> Float[Array, ""]:
    """Laplace's evidence with its exact gradient: a Newton step of length zero carries how û depends on the prior."""
    held = jax.tree.map(lambda v: jax.lax.stop_gradient(v) if eqx.is_inexact_array(v) else v, (before, rows))
    found = _climb(held[0], held[1], intercept)
    u = jax.lax.stop_gradient(found.u)
    factor = factorize(jax.lax.stop_gradient(found.precision))
    slope = before.slopes(rows.likelihood, u)[1]
    moved = solve(jax.lax.stop_gradient(factor.root), slope - jax.lax.stop_gradient(slope))
    value, _, precision = height(before, rows, u + moved)
    at_mode = factorize(precision)
    return jnp.where(factor.ok & at_mode.ok, value + occam(at_mode.root), -jnp.inf)
