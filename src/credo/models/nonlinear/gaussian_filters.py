"""Gaussian filters and smoothers for non-linear functions: the extended and the unscented Kalman filter.

The state is taken as Gaussian after every step; the two differ in how its moments pass through a function.

With Σᵢⱼ Mᵢⱼ (xᵢ, yᵢ)(xⱼ, yⱼ)ᵀ the joint covariance of z and f(z), X and Y its columns, R the noise and ŷ = E[f(z)],

    S = YMYᵀ + R,    K = XMYᵀS⁻¹,    mean + K(x - ŷ),    covariance (X - KY)M(X - KY)ᵀ + KRKᵀ

which is Joseph's form: rounding cannot make it indefinite where M is not. The smoother goes back with the gain of zₜ on
zₜ₊₁ in place of K. Särkkä & Svensson (2023), "Bayesian Filtering and Smoothing", chapters 7, 8, 13 and 14.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, host, namespace
from credo.core.errors import DataError
from credo.core.gaussian import Gaussian
from credo.core.linalg import log_determinant, solve, solve_lower, symmetric_part
from credo.core.predictive import Normal, Predictive
from credo.core.special import LOG_2PI
from credo.models.nonlinear.laws import Cloud
from credo.models.nonlinear.method import COVARIANCE, FINE, OBSERVE, STEP, StateMethod
from credo.models.nonlinear.model import Dynamics, scaled_root
from credo.models.sequences import Sequences
from credo.models.state_laws import FilteredStates, SmoothedStates

Law = tuple[Array, Array]
Function = Callable[[Array], Array]


class Moments(NamedTuple):
    """E[f(z)], and the joint covariance of z and f(z) as columns X, Y with weights M."""

    mean: Float[Array, " m"]
    x: Float[Array, "n s"]
    y: Float[Array, "m s"]
    middle: Float[Array, "s s"]
    ok: Bool[Array, ""]

    @property
    def covariance(self) -> Float[Array, "m m"]:
        """YMYᵀ."""
        return symmetric_part(self.y @ self.middle @ self.y.T)

    @property
    def cross(self) -> Float[Array, "n m"]:
        """XMYᵀ."""
        return self.x @ self.middle @ self.y.T

    def left(self, gain: Float[Array, "n m"], noise: Float[Array, "m m"]) -> Float[Array, "n n"]:
        """The covariance of z - K(f(z) + noise)."""
        rest = self.x - gain @ self.y
        return symmetric_part(rest @ self.middle @ rest.T + gain @ noise @ gain.T)


class AssumedGaussian(StateMethod[Gaussian]):
    """p(zₜ | x₁…xₜ) ≈ N(mean, covariance)."""

    @abstractmethod
    def moments(self, function: Function, mean: Float[Array, " n"], covariance: Float[Array, "n n"]) -> Moments:
        """The moments of z and f(z) for z ~ N(mean, covariance)."""

    def blank(self, model: Dynamics) -> Gaussian:
        """The law of the first state."""
        return Gaussian(np.zeros(model.states), model.start_covariance)

    def adopt(self, law: Gaussian | Cloud) -> Gaussian:
        """The Gaussian with the same mean and covariance."""
        return law if isinstance(law, Gaussian) else Gaussian(law.mean, law.covariance)

    def run(self, model: Dynamics, before: Gaussian, rows: Sequences) -> tuple[Gaussian, Array, Array]:
        """The law after the last row, log p(xₜ | x₁…xₜ₋₁) and what was wrong with each row."""
        law, (states, status) = host(_filter(self, model, (before.mean, before.covariance), rows))
        return Gaussian(*law), states.increments, status

    def filter(self, model: Dynamics, before: Gaussian, rows: Sequences) -> tuple[FilteredStates, Array]:
        """The law of each row."""
        return host(_filter(self, model, (before.mean, before.covariance), rows)[1])

    def smooth(self, model: Dynamics, before: Gaussian, rows: Sequences) -> tuple[FilteredStates, Array]:
        """p(zₜ | x₁…x_T), back from the last row."""
        states, status = self.filter(model, before, rows)
        mean, covariance, ok = host(_smooth(self, model, (states.mean, states.covariance), rows))
        status = namespace(status, ok).where((status == FINE) & ~ok, COVARIANCE, status)
        return SmoothedStates(mean, covariance, states.increments), status

    def forecast(
        self, model: Dynamics, before: Gaussian, first: Bool[Array, " s"], inputs: Float[Array, "s c"] | None
    ) -> tuple[Predictive, Array]:
        """The outcomes of the next rows: noise is aleatoric, not knowing the state epistemic."""
        return host(_forecast(self, model, (before.mean, before.covariance), first, inputs))


class Extended(AssumedGaussian):
    """f(z) ≈ f(m) + J(z - m) with J the Jacobian at the mean m, by automatic differentiation.

    Exact for linear functions, good where they bend little over a standard deviation of the state, and the fastest.
    Särkkä & Svensson (2023), algorithm 7.4.
    """

    def moments(self, function: Function, mean: Float[Array, " n"], covariance: Float[Array, "n n"]) -> Moments:
        """f(m), and JPJᵀ as columns I, J with weights P."""
        slope = jax.jacfwd(function)(mean)
        return Moments(function(mean), jnp.eye(mean.shape[0]), slope, covariance, jnp.asarray(True))


class Unscented(AssumedGaussian):
    """2n + 1 points m and m ± √(n + λ) Lᵢ, with LLᵀ = P and λ = α²(n + κ) - n.

    The weights are 1/(2(n + λ)) and, of the middle, λ/(n + λ) for means and 1 - α² + β more for covariances. Right to
    the second order of f, where `Extended` is to the first, and no derivatives are taken. By default (α = 1, β = 0,
    κ = 1) no weight is negative and covariances stay positive definite; the popular α = 10⁻³ divides differences by
    10⁻⁶, which costs six digits. Julier & Uhlmann (2004); Wan & van der Merwe (2000).

    Args:
        alpha: how far from the mean the points lie.
        beta: 2 suits a Gaussian state where alpha is small.
        kappa: n + kappa is the squared distance of the points at alpha = 1; 3 - n matches fourth moments.
    """

    alpha: float = eqx.field(static=True)
    beta: float = eqx.field(static=True)
    kappa: float = eqx.field(static=True)

    def __init__(self, alpha: float | int = 1.0, beta: float | int = 0.0, kappa: float | int = 1.0) -> None:
        self.alpha, self.beta, self.kappa = float(alpha), float(beta), float(kappa)
        if not 0 < self.alpha < np.inf:
            raise DataError(f"alpha must be a positive number, found {alpha!r}")
        if not (np.isfinite(self.beta) and np.isfinite(self.kappa)):
            raise DataError(f"beta and kappa must be finite, found {beta!r} and {kappa!r}")

    def moments(self, function: Function, mean: Float[Array, " n"], covariance: Float[Array, "n n"]) -> Moments:
        """Weighted sums over the points."""
        n = mean.shape[0]
        if n + self.kappa <= 0:
            raise DataError(f"kappa must be greater than minus the {n} numbers of the state, found {self.kappa:g}")
        square = self.alpha**2 * (n + self.kappa)
        outer, middle = 1 / (2 * square), 1 - n / square
        free = jnp.diagonal(covariance) > 0
        root, ok = scaled_root(covariance, free)
        spread = jnp.sqrt(square) * jnp.where(free[:, None], root, 0.0)
        x = jnp.concatenate([jnp.zeros((n, 1)), spread, -spread], axis=1)
        values = jax.vmap(function, in_axes=1, out_axes=1)(mean[:, None] + x)
        # Around the middle's value, which loses no digits where its weight is large.
        center = values[:, 0] + outer * (values[:, 1:] - values[:, :1]).sum(1)
        weights = np.full(2 * n + 1, outer)
        weights[0] = middle + 1 - self.alpha**2 + self.beta
        return Moments(center, x, values - center[:, None], jnp.diag(jnp.asarray(weights)), ok)


def _prior(
    method: AssumedGaussian, model: Dynamics, law: Law, fresh: Array, u: Array | None
) -> tuple[Array, Array, Bool[Array, ""], Bool[Array, ""]]:
    """p(zₜ | x₁…xₜ₋₁), whether it is finite and whether its covariance passed; a fresh one begins at the start."""
    start = model.first_mean(u), model.start_covariance
    here = [jnp.where(fresh, s, v) for s, v in zip(start, law, strict=True)]
    moved = method.moments(lambda z: model.advance(z, u), here[0], here[1])
    assert model.process_noise is not None
    mean = jnp.where(fresh, start[0], moved.mean)
    covariance = jnp.where(fresh, start[1], moved.covariance + model.process_noise)
    return mean, covariance, jnp.isfinite(mean).all() & jnp.isfinite(covariance).all(), moved.ok


def _status(finite: Array, shown: Moments, good: Array) -> Array:
    """What was wrong with a row."""
    looks = jnp.isfinite(shown.mean).all() & jnp.isfinite(shown.y).all()
    return jnp.where(~finite, STEP, jnp.where(~looks, OBSERVE, jnp.where(good & shown.ok, FINE, COVARIANCE)))


@eqx.filter_jit
def _filter(
    method: AssumedGaussian, model: Dynamics, before: Law, rows: Sequences
) -> tuple[Law, tuple[FilteredStates, Array]]:
    """The law after the last row; that of each, and what was wrong with it."""

    def update(law: Law, row: Sequences) -> tuple[Law, tuple[Array, ...]]:
        mean, covariance, finite, passed = _prior(method, model, law, row.first, row.inputs)
        shown = method.moments(lambda z: model.outcome(z, row.inputs, row.x.shape[0]), mean, covariance)
        noise = model.observation_noise
        assert noise is not None
        root, definite = scaled_root(shown.covariance + noise, row.seen)
        apart = jnp.where(row.seen, row.x - shown.mean, 0.0)
        gain = solve(root, jnp.where(row.seen, shown.cross, 0.0).T).T
        increment = -0.5 * (
            jnp.square(solve_lower(root, apart)).sum() + log_determinant(root) + row.seen.sum() * LOG_2PI
        )
        law = mean + gain @ apart, shown.left(gain, noise)
        return law, (*law, increment, _status(finite, shown, passed & definite))

    def nothing(law: Law, row: Sequences) -> tuple[Law, tuple[Array, ...]]:
        return law, (*law, jnp.zeros(()), jnp.asarray(FINE))

    law, found = jax.lax.scan(lambda law, row: jax.lax.cond(row.real, update, nothing, law, row), before, rows)
    return law, (FilteredStates(*found[:3]), found[3])


@eqx.filter_jit
def _smooth(method: AssumedGaussian, model: Dynamics, laws: Law, rows: Sequences) -> tuple[Array, ...]:
    """Back in time: what zₜ₊₁ turned out to be, regressed on zₜ."""

    def update(later: Law, here: tuple[Array, Array, Array | None]) -> tuple[Law, tuple[Array, ...]]:
        mean, covariance, u = here
        moved = method.moments(lambda z: model.advance(z, u), mean, covariance)
        assert model.process_noise is not None
        ahead = moved.covariance + model.process_noise
        free = jnp.diagonal(ahead) > 0
        root, definite = scaled_root(ahead, free)
        gain = solve(root, jnp.where(free, moved.cross, 0.0).T).T
        law = mean + gain @ (later[0] - moved.mean), moved.left(gain, model.process_noise + later[1])
        return law, (*law, definite & moved.ok)

    def end(later: Law, here: tuple[Array, Array, Array | None]) -> tuple[Law, tuple[Array, ...]]:
        return here[:2], (*here[:2], jnp.asarray(True))

    last = jnp.roll(rows.first | ~rows.real, -1).at[-1].set(True)
    inputs = None if rows.inputs is None else jnp.roll(rows.inputs, -1, axis=0)

    def step(later: Law, row: tuple[Array, tuple[Array, Array, Array | None]]) -> tuple[Law, tuple[Array, ...]]:
        return jax.lax.cond(row[0], end, update, later, row[1])

    return jax.lax.scan(step, (laws[0][-1], laws[1][-1]), (last, (*laws, inputs)), reverse=True)[1]


@eqx.filter_jit
def _forecast(
    method: AssumedGaussian, model: Dynamics, before: Law, first: Bool[Array, " s"], inputs: Array | None
) -> tuple[Normal, Array]:
    """The outcomes, and what was wrong with each."""

    def ahead(law: Law, row: tuple[Array, Array | None]) -> tuple[Law, tuple[Array, ...]]:
        fresh, u = row
        mean, covariance, finite, passed = _prior(method, model, law, fresh, u)
        shown = method.moments(lambda z: model.outcome(z, u), mean, covariance)
        latent = jnp.maximum(jnp.diagonal(shown.covariance), 0.0)
        return (mean, covariance), (shown.mean, latent, _status(finite, shown, passed))

    _, (mean, latent, status) = jax.lax.scan(ahead, before, (first, inputs))
    assert model.observation_noise is not None
    noise = jnp.broadcast_to(jnp.diagonal(model.observation_noise), mean.shape)
    u = None if inputs is None else inputs[0]
    if eqx.filter_eval_shape(model.shown, jnp.zeros(model.states), u).ndim == 0:
        mean, latent, noise = mean[:, 0], latent[:, 0], noise[:, 0]
    return Normal(mean, noise, latent), status
