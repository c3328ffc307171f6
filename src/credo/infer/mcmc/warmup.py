"""The warm-up of Hamiltonian samplers: the length of a step and the metric, learned from the chain itself.

    metric        the covariance of the draws of a window, at the end of windows that double in size
    step length   log ε = m - √t/γ · 1/(t + t₀) Σ (α* - αᵢ), and finally the average of log ε with weights t^-κ

αᵢ is the acceptance of step i, α* the aim. Nesterov's dual averaging: Hoffman & Gelman (2014), §3.2.
Early windows are short, and their trajectories too, for a metric that is still a guess deserves no long ones.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from credo.core.linalg import factorize
from credo.infer.mcmc.adapt import Cloud
from credo.infer.mcmc.trajectory import State, Steps

FIRST = 20
"""Steps of the first window; each further one is twice as long."""
LAST = 0.1
"""The share of the warm-up, after all windows, in which the step length alone is tuned."""
SHALLOW = 6
"""The depth of trees in the first window."""
GAMMA, DELAY, KAPPA = 0.05, 10.0, 0.75


class Length(NamedTuple):
    """Dual averaging of log ε."""

    log_step: Float[Array, ""]
    log_average: Float[Array, ""]
    error: Float[Array, ""]
    center: Float[Array, ""]
    t: Float[Array, ""]

    @classmethod
    def around(cls, step: Any) -> "Length":
        """From this length on; larger ones are tried first."""
        log_step, zero = jnp.log(step), jnp.zeros(())
        return cls(log_step, log_step, zero, log_step + jnp.log(10.0), zero)

    def after(self, acceptance: Float[Array, ""], aim: Any) -> "Length":
        """After a trajectory with this acceptance."""
        t = self.t + 1
        error = self.error + (aim - acceptance - self.error) / (t + DELAY)
        log_step = self.center - jnp.sqrt(t) / GAMMA * error
        log_average = self.log_average + t**-KAPPA * (log_step - self.log_average)
        return Length(log_step, log_average, error, self.center, t)


def window_ends(steps: int) -> np.ndarray:
    """The steps at which a window ends: 20, 60, 140, …; the last window is as long as it can be."""
    last = steps - max(int(LAST * steps), min(50, steps // 2))
    ends: list[int] = []
    size = FIRST
    while ends[-1:] != [last] and last > 0:
        end = (ends[-1] if ends else 0) + size
        ends.append(end if end + 2 * size <= last else last)
        size *= 2
    return np.asarray(ends)


def warm_up(
    move: Callable[[State, Steps, Any, Array], tuple[State, Array]],
    at: Callable[[Float[Array, " k"], Steps], State],
    u: Float[Array, " k"],
    root: Float[Array, "k *k"],
    chances: Any,
    aim: Any,
    deepest: int,
) -> tuple[State, Steps]:
    """The state and the steps after as many moves as there are chances: move(state, steps, chance, deepest)."""
    number = jax.tree.leaves(chances)[0].shape[0]
    ends = window_ends(number)
    first = np.arange(1, number + 1) <= (ends[0] if len(ends) else 0)
    depths = jnp.asarray(np.where(first, min(SHALLOW, deepest), deepest))
    closes = jnp.asarray(np.isin(np.arange(1, number + 1), ends))
    Carry = tuple[State, Array, Length, Cloud]

    def one(carry: Carry, inputs: tuple[Any, Array, Array]) -> tuple[Carry, None]:
        state, root, length, cloud = carry
        chance, depth, close = inputs
        state, acceptance = move(state, Steps(jnp.exp(length.log_step), root), chance, depth)
        length, cloud = length.after(acceptance, aim), cloud.add(state.position)

        def refit() -> Carry:
            fitted, ok = fitted_root(cloud, root)
            steps = Steps(jnp.exp(length.log_average), fitted)
            fresh = Length.around(jnp.where(ok, 1.0, steps.length))
            return at(state.position, steps), fitted, fresh, Cloud.empty(root)

        return jax.lax.cond(close, refit, lambda: (state, root, length, cloud)), None

    begin = Steps(jnp.ones(()), root)
    carry = (at(u, begin), root, Length.around(begin.length), Cloud.empty(root))
    (state, root, length, _), _ = jax.lax.scan(one, carry, (chances, depths, closes))
    return state, Steps(jnp.exp(length.log_average), root)


def fitted_root(cloud: Cloud, root: Float[Array, "k *k"]) -> tuple[Float[Array, "k *k"], Bool[Array, ""]]:
    """L of the window's covariance, a dense one shrunk by (k/n)² to its diagonal; the old one where nothing moved."""
    n, k = cloud.number, cloud.mean.shape[0]
    covariance = cloud.scatter / jnp.maximum(n - 1, 1)
    if covariance.ndim == 1:
        ok = jnp.all(covariance > 0)
        return jnp.where(ok, jnp.sqrt(jnp.where(ok, covariance, 1.0)), root), ok
    shrink = jnp.minimum((k / n) ** 2, 1.0)
    diagonal = jnp.diagonal(covariance)
    scale = jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1.0))
    correlation = (1 - shrink) * covariance / jnp.outer(scale, scale) + shrink * jnp.eye(k)
    factor = factorize(correlation)
    ok = factor.ok & jnp.all(diagonal > 0)
    return jnp.where(ok, scale[:, None] * factor.root, root), ok
