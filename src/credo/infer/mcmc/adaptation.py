"""The warm-up of samplers: the step size and the metric (mass matrix), learned from the chain itself.

    metric       M⁻¹ = the covariance of the draws of a window, at the end of windows that double in size
    step size    log ε = m - √t/γ · 1/(t + t₀) Σ (α* - αᵢ), and finally the average of log ε with weights t^-κ

αᵢ is the acceptance of step i, α* the target acceptance of the sampler. Nesterov's dual averaging: Hoffman & Gelman
(2014), "The No-U-Turn sampler", §3.2; the covariance: Haario, Saksman & Tamminen (2001), "An adaptive Metropolis
algorithm". What was learned on the way to the posterior is forgotten with its window.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Bool, Float

from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.core.linalg import factorize

FIRST = 20
"""Steps of the first window; each further one is twice as long."""
LAST = 0.1
"""The share of the warm-up, after all windows, in which the step size alone is tuned."""
GAMMA, DELAY, KAPPA = 0.05, 10.0, 0.75
LARGER = 10.0
"""How much larger steps are tried first: long trajectories cost more than a few that are refused."""


class Pace(NamedTuple):
    """What distinguishes the warm-up of random walks: their acceptance is noisy and neighbouring draws are alike."""

    gamma: float = GAMMA
    larger: float = LARGER
    worth_one: float = 1.0
    """How many neighbouring draws are worth an independent one, for the covariance."""


TRAJECTORIES, WALKS = Pace(), Pace(gamma=0.5, larger=1.0, worth_one=10.0)


@runtime_checkable
class Position(Protocol):
    """The state of a chain: where it is, and what a sampler knows there."""

    @property
    def position(self) -> Array:
        """u."""


S = TypeVar("S", bound=Position)
X = TypeVar("X")


class StepSizeAndMetric(NamedTuple):
    """How a sampler moves: ε and L, a root of the inverse mass matrix M⁻¹ = LLᵀ, lower triangular, or its diagonal."""

    step_size: Float[Array, ""]
    inverse_mass_matrix_root: Float[Array, "k *k"]

    def out(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        """Lx."""
        root = self.inverse_mass_matrix_root
        return root * x if root.ndim == 1 else (root * x).sum(1)

    def slope(self, density: Callable[[Array], Array], u: Float[Array, " k"]) -> tuple[Array, Array]:
        """log p(u) and its gradient by x, Lᵀ∂log p(u), where u = u₀ + Lx."""
        root = self.inverse_mass_matrix_root
        value, gradient = jax.value_and_grad(density)(u)
        return value, root * gradient if root.ndim == 1 else gradient @ root


class RunningMoments(NamedTuple):
    """Number, mean and scatter Σ(x - mean)(x - mean)ᵀ (or its diagonal) of draws so far.

    Welford's algorithm, for whole blocks of draws by Chan, Golub & LeVeque (1983).
    """

    number: Any
    mean: Any
    scatter: Any

    @classmethod
    def empty(cls, like: Array) -> "RunningMoments":
        """Of no draws."""
        return cls(jnp.zeros(()), jnp.zeros(like.shape[0]), jnp.zeros_like(like))

    @classmethod
    def of(cls, x: Float[np.ndarray, "n k"]) -> "RunningMoments":
        """Of a block of draws."""
        mean = x.mean(0)
        return cls(len(x), mean, (x - mean).T @ (x - mean))

    def add(self, u: Float[Array, " k"]) -> "RunningMoments":
        """With one more draw."""
        return self.merge(RunningMoments(1, u, 0.0))

    def merge(self, other: "RunningMoments") -> "RunningMoments":
        """With other draws."""
        total, gap = self.number + other.number, other.mean - self.mean
        square = gap[:, None] * gap if self.scatter.ndim == 2 else gap * gap
        scatter = self.scatter + other.scatter + square * (self.number * other.number / total)
        return RunningMoments(total, self.mean + gap * (other.number / total), scatter)


class DualAveraging(NamedTuple):
    """Dual averaging of log ε, of one step size or of several at once."""

    log_step: Float[Array, "..."]
    log_average: Float[Array, "..."]
    error: Float[Array, "..."]
    center: Float[Array, "..."]
    t: Float[Array, ""]

    @classmethod
    def around(cls, step_size: ArrayLike, pace: Pace = TRAJECTORIES) -> "DualAveraging":
        """From this step size on."""
        log_step = jnp.log(step_size)
        return cls(log_step, log_step, jnp.zeros_like(log_step), log_step + jnp.log(pace.larger), jnp.zeros(()))

    def after(self, acceptance: Array, target_acceptance: ArrayLike, pace: Pace = TRAJECTORIES) -> "DualAveraging":
        """After a step that was accepted with this probability."""
        t = self.t + 1
        error = self.error + (target_acceptance - acceptance - self.error) / (t + DELAY)
        log_step = self.center - jnp.sqrt(t) / pace.gamma * error
        log_average = self.log_average + t**-KAPPA * (log_step - self.log_average)
        return DualAveraging(log_step, log_average, error, self.center, t)


def window_ends(steps: int) -> np.ndarray:
    """The steps at which a window ends: 20, 60, 140, …; the last window is as long as it can be."""
    last = steps - max(int(LAST * steps), min(50, steps // 2))
    ends, size = [0], FIRST
    while ends[-1] < last:
        end = ends[-1] + size
        ends.append(end if end + 2 * size <= last else last)
        size *= 2
    return np.asarray(ends[1:])


def adapt(
    begin: Callable[[Float[Array, " k"], StepSizeAndMetric], S],
    move: Callable[[S, StepSizeAndMetric, X], tuple[S, Array]],
    u: Float[Array, " k"],
    first: StepSizeAndMetric,
    inputs: X,
    target_acceptance: float,
    pace: Pace = TRAJECTORIES,
) -> tuple[S, StepSizeAndMetric]:
    """The state and the tuning after a step for each of the inputs: move(state, tuning, input) -> state, acceptance.

    `begin` gives the state at a position, `first` is the tuning of the start, and its step size that of every window.
    """
    number = jax.tree.leaves(inputs)[0].shape[0]
    closes = jnp.asarray(np.isin(np.arange(1, number + 1), window_ends(number)))
    Carry = tuple[Any, Array, DualAveraging, RunningMoments]

    def one(carry: Carry, given: tuple[X, Array]) -> tuple[Carry, None]:
        state, root, averaging, moments = carry
        now, close = given
        state, acceptance = move(state, StepSizeAndMetric(jnp.exp(averaging.log_step), root), now)
        averaging, moments = averaging.after(acceptance, target_acceptance, pace), moments.add(state.position)

        def refit() -> Carry:
            fitted, ok = covariance_root(moments, root, pace)
            fresh = DualAveraging.around(jnp.where(ok, first.step_size, jnp.exp(averaging.log_average)), pace)
            tuning = StepSizeAndMetric(jnp.exp(fresh.log_step), fitted)
            return begin(state.position, tuning), fitted, fresh, RunningMoments.empty(root)

        return jax.lax.cond(close, refit, lambda: (state, root, averaging, moments)), None

    root = first.inverse_mass_matrix_root
    carry = (begin(u, first), root, DualAveraging.around(first.step_size, pace), RunningMoments.empty(root))
    (state, root, averaging, _), _ = jax.lax.scan(one, carry, (inputs, closes))
    return state, StepSizeAndMetric(jnp.exp(averaging.log_average), root)


def covariance_root(moments: RunningMoments, root: Float[Array, "k *k"], pace: Pace) -> tuple[Array, Bool[Array, ""]]:
    """L of the window's covariance, a dense one shrunk by (k/n)² to its diagonal; the old one where nothing moved."""
    n, k = moments.number, moments.mean.shape[0]
    covariance = moments.scatter / jnp.maximum(n - 1, 1)
    if covariance.ndim == 1:
        ok = jnp.all(covariance > 0)
        return jnp.where(ok, jnp.sqrt(jnp.where(ok, covariance, 1.0)), root), ok
    shrink = jnp.minimum((pace.worth_one * k / n) ** 2, 1.0)
    diagonal = jnp.diagonal(covariance)
    scale = jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1.0))
    factor = factorize((1 - shrink) * covariance / jnp.outer(scale, scale) + shrink * jnp.eye(k))
    ok = factor.ok & jnp.all(diagonal > 0)
    return jnp.where(ok, scale[:, None] * factor.root, root), ok


def check_scale(value: object, name: str, k: int) -> Float[np.ndarray, " k"]:
    """One positive number for each coordinate, or one for all."""
    numbers = np.asarray(value, dtype=float)
    if numbers.shape not in ((), (k,)) or not np.all((numbers > 0) & np.isfinite(numbers)):
        raise DataError(f"{name} must be a positive number, or one for each of the {k} coordinates, found {value!r}")
    return np.broadcast_to(numbers, (k,)).copy()
