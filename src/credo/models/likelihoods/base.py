"""What a likelihood is: the density of an outcome given its linear predictor."""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from credo.core.arrays import Array

Numbers = Any
"""Arrays of NumPy or of JAX."""


class Likelihood(eqx.Module):
    """p(y | η) of one row; `eta` has a last axis of `width` where that is more than one."""

    counts: ClassVar[bool] = False
    """Whether outcomes are counts, which may have an exposure."""
    shifts: ClassVar[bool] = True
    """Whether a constant term adds anything; cutpoints are constants themselves."""

    @property
    def vector(self) -> bool:
        """Whether a row has several linear predictors."""
        return False

    @property
    def width(self) -> int:
        """How many linear predictors a row has."""
        return 1

    @abstractmethod
    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """log p(y | η)."""

    @abstractmethod
    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """E[y | η]; for more than two classes their probabilities."""

    def adapt(self, y: Any) -> "Likelihood":
        """The likelihood that knows the classes in y; others stay as they are."""
        return self

    @abstractmethod
    def encode(self, y: Any) -> Any:
        """Outcomes as numbers, checked."""

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """Its numbers, and the constant η, from which a climb starts; traceable. w are the weights of the rows."""
        return self, jnp.zeros(())

    def log_prior(self) -> Float[Array, ""]:
        """log p of its own numbers, in natural units."""
        return jnp.zeros(())


class ClosedForm(Likelihood):
    """A likelihood of one linear predictor and no numbers of its own whose derivatives are written out.

    They are NumPy's where η is, and JAX's otherwise.
    """

    @abstractmethod
    def terms(self, eta: Float[Numbers, " n"], y: Float[Numbers, " n"]) -> tuple[Numbers, Numbers, Numbers]:
        """log p, ∂ log p/∂η and the curvature -∂² log p/∂η² of every row."""

    @abstractmethod
    def curvature_slope(self, eta: Float[Numbers, " n"], y: Float[Numbers, " n"]) -> Numbers:
        """-∂³ log p/∂η³."""


def average(y: Array, w: Array) -> Array:
    """Σwy/Σw."""
    return jnp.sum(w * y) / jnp.maximum(jnp.sum(w), 1e-300)
