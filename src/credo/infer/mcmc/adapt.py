"""How a Metropolis step learns its length and shape during the warm-up, and stays as it is afterwards.

    log s ← log s + g t^(-0.6) (α - α*)     after step t of a window; α its acceptance probability, α* the aim
    Σ     ← covariance of the draws of the window that ends, shrunk to its diagonal

The windows widen, so that what was learned on the way to the posterior is forgotten.
Haario, Saksman & Tamminen (2001), "An adaptive Metropolis algorithm"; Andrieu & Thoms (2008), §4-5.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core.errors import DataError
from credo.core.linalg import factorize

WINDOWS = (0.1, 0.25, 0.5, 0.8)
"""Where the windows of the warm-up end; after the last one only the length of the step is tuned."""
GAIN, FORGETTING = 3.0, 0.6
SHRINKAGE = 10.0
"""Neighbouring draws are alike: this many are worth one."""


class Gait(NamedTuple):
    """The length of a step and its shape: a lower triangular matrix, or a vector of deviations."""

    log_scale: Float[Array, "..."]
    shape: Float[Array, "..."]


class Cloud(NamedTuple):
    """Number, mean and scatter of the draws of a window."""

    number: Array
    mean: Array
    scatter: Array

    @classmethod
    def empty(cls, shape: Array) -> "Cloud":
        """Of no draws."""
        return cls(jnp.zeros(()), jnp.zeros(shape.shape[0]), jnp.zeros_like(shape))

    def add(self, u: Float[Array, " k"]) -> "Cloud":
        """With one more draw (Welford)."""
        number = self.number + 1
        before = u - self.mean
        mean = self.mean + before / number
        after = u - mean
        product = jnp.outer(before, after) if self.scatter.ndim == 2 else before * after
        return Cloud(number, mean, self.scatter + product)


def robbins_monro(log_scale: Array, acceptance: Array, aim: Any, t: Array) -> Array:
    """The step length after step t ≥ 1 was accepted with this probability."""
    return log_scale + GAIN * t**-FORGETTING * (acceptance - aim)


def adapt(
    move: Callable[..., tuple[Any, Array]], state: Any, key: PRNGKeyArray, gait: Gait, aim: Any, steps: int
) -> tuple[Any, Gait]:
    """State and gait after `steps` of move(key, state, gait) -> (state, acceptance)."""
    ends = np.isin(np.arange(1, steps + 1), [int(share * steps) for share in WINDOWS])
    first = gait.log_scale

    def one(carry: Any, inputs: tuple[PRNGKeyArray, Array]) -> tuple[Any, None]:
        state, gait, cloud, t = carry
        key, end = inputs
        state, acceptance = move(key, state, gait)
        gait = gait._replace(log_scale=robbins_monro(gait.log_scale, acceptance, aim, t))
        cloud = cloud.add(state.position)
        gait, cloud, t = jax.lax.cond(end, lambda: _refit(gait, cloud, first, t), lambda: (gait, cloud, t + 1), *())
        return (state, gait, cloud, t), None

    carry = (state, gait, Cloud.empty(gait.shape), jnp.ones(()))
    (state, gait, _, _), _ = jax.lax.scan(one, carry, (jr.split(key, steps), jnp.asarray(ends)))
    return state, gait


def _refit(gait: Gait, cloud: Cloud, first: Array, t: Array) -> tuple[Gait, Cloud, Array]:
    """The shape of the window's draws; the old gait where they hardly moved."""
    covariance = cloud.scatter / jnp.maximum(cloud.number - 1, 1)
    if covariance.ndim == 1:
        shape, moved = jnp.sqrt(covariance), jnp.all(covariance > 0)
    else:
        weight = cloud.number / (cloud.number + SHRINKAGE * covariance.shape[0])
        diagonal = jnp.diagonal(covariance)
        factor = factorize(weight * covariance + (1 - weight) * jnp.diag(diagonal))
        shape, moved = factor.root, factor.ok & jnp.all(diagonal > 0)
    fitted = Gait(jnp.where(moved, first, gait.log_scale), jnp.where(moved, shape, gait.shape))
    return fitted, Cloud.empty(gait.shape), jnp.ones(())


def check_scale(value: Any, name: str, k: int) -> Float[np.ndarray, " k"]:
    """One positive number for each coordinate, or one for all."""
    numbers = np.asarray(value, dtype=float)
    if numbers.shape not in ((), (k,)) or not np.all((numbers > 0) & np.isfinite(numbers)):
        raise DataError(f"{name} must be a positive number, or one for each of the {k} coordinates, found {value!r}")
    return np.broadcast_to(numbers, (k,)).copy()
