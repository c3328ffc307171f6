"""The warm-up of samplers: the step size and the metric (mass matrix), learned from the chain itself.

    metric       M⁻¹ = the covariance of the draws of a window, at the end of windows that double in size
    step size    log ε = m - √t/γ · 1/(t + t₀) Σ (α* - αᵢ), and finally the average of log ε with weights t^-κ

αᵢ is the acceptance of step i, α* the target acceptance of the sampler. Nesterov's dual averaging: Hoffman & Gelman
(2014), "The No-U-Turn sampler", §3.2; the covariance: Haario, Saksman & Tamminen (2001), "An adaptive Metropolis
algorithm". What was learned on the way to the posterior is forgotten with its window.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array, host
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


class StepSizeAndMetric(NamedTuple):
    """How a sampler moves: ε and L, a root of the inverse mass matrix M⁻¹ = LLᵀ, lower triangular, or its diagonal.

    ε is one number, or one for each coordinate of those that are moved one by one.
    """

    step_size: Float[Array, "..."]
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

    number: int
    mean: Float[np.ndarray, " k"]
    scatter: Float[np.ndarray, "k *k"]

    @classmethod
    def of(cls, x: Float[np.ndarray, "n k"], dense: bool = True) -> "RunningMoments":
        """Of a block of draws."""
        mean = x.mean(0)
        gap = x - mean
        return cls(len(x), mean, gap.T @ gap if dense else np.square(gap).sum(0))

    def merge(self, other: "RunningMoments") -> "RunningMoments":
        """With other draws."""
        total, gap = self.number + other.number, other.mean - self.mean
        square = gap[:, None] * gap if self.scatter.ndim == 2 else gap * gap
        scatter = self.scatter + other.scatter + square * (self.number * other.number / total)
        return RunningMoments(total, self.mean + gap * (other.number / total), scatter)


class DualAveraging(NamedTuple):
    """Dual averaging of log ε, of one step size or of several at once; it stays as it is where `aim` is NaN."""

    log_step: Float[Array, "..."]
    log_average: Float[Array, "..."]
    error: Float[Array, "..."]
    center: Float[Array, "..."]
    t: Float[Array, ""]
    aim: Float[Array, ""]
    """The acceptance that is wanted."""
    gamma: Float[Array, ""]

    @classmethod
    def around(cls, step_size: ArrayLike, aim: float = np.nan, pace: Pace = TRAJECTORIES) -> "DualAveraging":
        """From this step size on; without an aim it is held."""
        log_step = np.log(step_size)
        zero, numbers = np.zeros(()), (np.asarray(aim, dtype=float), np.asarray(pace.gamma))
        return cls(log_step, log_step, zero * log_step, log_step + np.log(pace.larger), zero, *numbers)

    def after(self, acceptance: Float[Array, "..."]) -> "DualAveraging":
        """After a step that was accepted with this probability. Traced."""
        t = self.t + 1
        error = self.error + (self.aim - acceptance - self.error) / (t + DELAY)
        log_step = self.center - jnp.sqrt(t) / self.gamma * error
        log_average = self.log_average + t**-KAPPA * (log_step - self.log_average)
        new = self._replace(log_step=log_step, log_average=log_average, error=error, t=t)
        return jax.tree.map(lambda a, b: jnp.where(jnp.isnan(self.aim), b, a), new, self)


Move = Callable[[Float[np.ndarray, "k *k"], DualAveraging, int, bool], tuple[np.ndarray, DualAveraging]]


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
    move: Move, first: StepSizeAndMetric, aim: float, steps: int, pace: Pace = TRAJECTORIES, metric: bool = True
) -> StepSizeAndMetric:
    """The tuning after so many steps: move(root, averaging, steps, exploring) -> their positions, averaging after them.

    `first` is the tuning of the start, and its step size that of every window. A chain is exploring in the first.
    """
    ends = [int(end) for end in window_ends(steps)] if metric and not np.isnan(aim) else []
    root, averaging = np.asarray(first.inverse_mass_matrix_root), DualAveraging.around(first.step_size, aim, pace)
    done = 0
    for end in dict.fromkeys([*ends, steps]):
        moments = None
        while done < end:
            positions, averaging = move(root, averaging, end - done, [end] == ends[:1])
            done += len(positions)
            block = RunningMoments.of(positions, dense=root.ndim == 2)
            moments = block if moments is None else moments.merge(block)
        if moments is not None and end in ends:
            root, ok = covariance_root(moments, root, pace)
            step = first.step_size if ok else np.exp(averaging.log_average)
            averaging = DualAveraging.around(step, aim, pace)
    return StepSizeAndMetric(np.exp(host(averaging.log_average)), root)


def covariance_root(
    moments: RunningMoments, root: Float[np.ndarray, "k *k"], pace: Pace
) -> tuple[Float[np.ndarray, "k *k"], bool]:
    """L of the window's covariance, a dense one shrunk by (k/n)² to its diagonal; the old one where nothing moved."""
    n, k = moments.number, len(moments.mean)
    covariance = moments.scatter / max(n - 1, 1)
    diagonal = covariance if covariance.ndim == 1 else np.diagonal(covariance)
    if not np.all(diagonal > 0):
        return root, False
    scale = np.sqrt(diagonal)
    if covariance.ndim == 1:
        return scale, True
    shrink = min((pace.worth_one * k / n) ** 2, 1.0)
    factor = factorize((1 - shrink) * covariance / np.outer(scale, scale) + shrink * np.eye(k))
    return (scale[:, None] * factor.root, True) if factor.ok else (root, False)


def check_scale(value: object, name: str, k: int) -> Float[np.ndarray, " k"]:
    """One positive number for each coordinate, or one for all."""
    numbers = np.asarray(value, dtype=float)
    if numbers.shape not in ((), (k,)) or not np.all((numbers > 0) & np.isfinite(numbers)):
        raise DataError(f"{name} must be a positive number, or one for each of the {k} coordinates, found {value!r}")
    return np.broadcast_to(numbers, (k,)).copy()
