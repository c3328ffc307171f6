"""Conjugate beliefs: Bayes' rule is the addition of sufficient statistics to the parameters.

A family p(θ | η) is conjugate to a likelihood p(x | θ) if the posterior is in the family again; then a
belief is its parameters η, which read as pseudo-observations. Murphy (2012), sections 3.3-3.5 and 4.6.
"""

from abc import abstractmethod
from collections.abc import Callable
from operator import add
from typing import TYPE_CHECKING, TypeVar

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray, PyTree

from credo.core.arrays import Array, as_float, host, is_traced
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, check_counts
from credo.core.errors import DataError
from credo.core.predictive import Interval
from credo.core.predictive.base import check_levels
from credo.models.conjugate.known import WithParameter

S = TypeVar("S", bound="Statistics")


class Statistics(eqx.Module):
    """Sufficient statistics: those of two sets of data together are the sum of those of each."""

    def __add__(self: S, other: S) -> S:
        return jax.tree.map(add, self, other)


class Conjugate(WithParameter):
    """A belief about the parameter θ of a likelihood whose posterior stays in the family of the prior."""

    if TYPE_CHECKING:

        @property
        @abstractmethod
        def strength(self) -> Array:
            """How many (pseudo-)observations the belief is worth."""

    else:  # a property or a field: an abstract property would forbid the field
        strength: eqx.AbstractVar[Array]

    @abstractmethod
    def log_prob(self, theta: ArrayLike) -> Array:
        """log p(θ)."""

    @abstractmethod
    def credible_interval(self, level: ArrayLike = 0.95) -> PyTree[Interval]:
        """The central interval that holds θ with probability `level`, for each coordinate on its own."""

    @abstractmethod
    def _draw_parameters(self, key: PRNGKeyArray) -> PyTree[Array]:
        """One draw of θ."""

    def sample_parameters(self, n: int = 1, *, seed: int = 0) -> PyTree[Array]:
        """n draws of θ ~ p(θ)."""
        return host(_draws(self, jr.split(jr.key(seed), n)))


@eqx.filter_jit
def _draws(belief: Conjugate, keys: jax.Array) -> PyTree[Array]:
    return jax.vmap(belief._draw_parameters)(keys)


def check_parameter(
    value: Float[Array, "..."], name: str, above: float = 0.0, remedy: str = "pass a positive number"
) -> None:
    """Refuses a parameter with an entry that is not finite or not greater than `above`."""
    if is_traced(value):
        return
    numbers = as_float(value, name)
    if not np.all(np.isfinite(numbers) & (numbers > above)):
        raise DataError(f"{name} must be finite and > {above:g}, found {numbers.tolist()}; {remedy}")


def check_parameters(belief: Conjugate | Belief, *names: str) -> None:
    """Refuses a belief with a parameter that is not finite and positive."""
    for name in names:
        check_parameter(getattr(belief, name), name)


def central_interval(quantile: Callable[[float], np.ndarray], level: ArrayLike) -> Interval:
    """The quantiles of θ between which it lies with probability `level`, and beyond each of which equally often."""
    half = float(check_levels(level, "level")) / 2
    return Interval(quantile(0.5 - half), quantile(0.5 + half))


def check_trials(trials: ArrayLike) -> np.ndarray:
    """Numbers of future trials: one whole number ≥ 1, or a vector of them."""
    if is_traced(trials):
        raise DataError("trials must be a whole number known before compilation, found a traced value")
    flat = check_counts(np.atleast_1d(np.asarray(trials)), "trials")
    if flat.min() < 1:
        raise DataError(f"trials must be whole numbers ≥ 1, found {flat.min():g}")
    return flat.reshape(np.shape(trials))
