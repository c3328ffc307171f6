"""Mean functions: what a Gaussian process expects before it has seen data.

A mean may be uncertain, m(x) = φ(x)ᵀw with w ~ N(m₀, S): its weights are integrated out, which adds φ(x)ᵀSφ(z)
to the covariance, and nothing has to be learned. Rasmussen & Williams (2006), §2.7.
"""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, Numeric, as_float, host, is_traced, namespace
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.padding import bucket, pad_rows
from credo.core.params import constant, given, meaning, number
from credo.core.pytrees import changed, plain_methods
from credo.kernels import Constant as ConstantKernel
from credo.kernels import InputScales, Kernel
from credo.kernels.derivative import Differentiated, observed
from credo.kernels.elementary import FromFeatures
from credo.models.features import Features
from credo.models.features.compose import as_features


class Mean(eqx.Module):
    """What is expected at x; zero unless a subclass says otherwise."""

    __getattribute__ = plain_methods

    compiled: ClassVar[bool] = False
    """Whether it is written for JAX alone, and not for arrays of either library."""

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """m(xᵢ)."""
        return namespace(x).zeros(x.shape[0])

    def at(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """m(xᵢ), as NumPy's numbers where they are known."""
        if is_traced(self, x) or not self.compiled:
            return host(self(x))
        return np.asarray(_compiled(self, pad_rows(x, bucket(len(x)))))[: len(x)]

    def kernel(self) -> Kernel | None:
        """The covariance that not knowing the mean adds; None where it is known."""
        return None

    def adapt(self, x: np.ndarray, scales: InputScales, center: float) -> "Mean":
        """The mean with what was left open chosen from the data; `center` is the mean of the outcomes."""
        return self


@eqx.filter_jit
def _compiled(mean: Mean, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    return mean(x)


class Zero(Mean):
    """m(x) = 0."""


class Constant(Mean):
    """m(x) = c with c ~ N(value, variance).

    `learn` sets both from the outcomes where they are not given: a prior worth one observation, as the intercept
    of `credo.Linear`. `variance=0` is a known constant.
    """

    value: Float[Array, ""] | None = given(unset=0.0)
    variance: Float[Array, ""] | None = given(unset=0.0)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """The expected constant."""
        value = meaning(self, "value")
        return namespace(value, x).full(x.shape[0], value)

    def kernel(self) -> Kernel | None:
        """Its variance, everywhere."""
        known = self.variance is None or (not is_traced(self.variance) and float(self.variance) == 0)
        return None if known else ConstantKernel(self.variance)

    def adapt(self, x: np.ndarray, scales: InputScales, center: float) -> "Constant":
        """The mean and the variance of the outcomes."""
        found = {"value": center, "variance": scales.variance}
        return changed(self, **{name: as_float(v) for name, v in found.items() if getattr(self, name) is None})


class Basis(Mean):
    """m(x) = φ(x)ᵀw with w ~ N(mean, S), integrated out. `Basis()` is a linear trend, b + aᵀx.

    `covariance` is S: a number, p variances, or p × p, in units of the features. Where it is None, `learn`
    centers and scales the features and gives every weight the variance of the outcomes.
    """

    features: Features
    mean: Float[Array, "*p"] = number(0.0)
    covariance: Float[Array, "..."] | None = given(unset=1.0)
    intercept: bool = eqx.field(default=True, static=True)
    compiled = True

    def __init__(
        self,
        features: object = None,
        mean: Numeric = 0.0,
        covariance: Numeric | None = None,
        intercept: bool = True,
    ):
        self.features = as_features(features, "Basis")
        self.mean, self.intercept = as_float(mean), intercept
        self.covariance = None if covariance is None else as_float(covariance)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """φ(x)ᵀm₀."""
        phi = self.design(x)
        return phi @ jnp.broadcast_to(self.mean, phi.shape[1:])

    def design(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The rows φ(xᵢ), beginning with one where there is an intercept."""
        if not self.features.ready:
            raise DataError("the basis of the mean still has numbers to choose from the data; use credo.fit")
        phi = self.features(x)
        return jnp.concatenate([jnp.ones((x.shape[0], 1)), phi], axis=1) if self.intercept else phi

    def kernel(self) -> Kernel:
        """φ(x)ᵀSφ(z)."""
        return FromFeatures(Design(self), meaning(self, "covariance"))

    def adapt(self, x: np.ndarray, scales: InputScales, center: float) -> "Basis":
        """Features adapted to the data; weights around zero, the intercept around the mean of the outcomes."""
        features = self.features.adapt(x)
        if self.covariance is not None:
            return Basis(features, self.mean, self.covariance, self.intercept)
        p = features.size(x.shape[1]) + self.intercept
        mean = np.zeros(p) if not np.any(self.mean) else np.broadcast_to(self.mean, (p,))
        if self.intercept and not np.any(self.mean):
            mean = np.concatenate([[center], mean[1:]])
        return Basis(features, mean, np.full(p, scales.variance), self.intercept)


class Design(eqx.Module):
    """The design of a basis as a function of rows, for its kernel."""

    basis: Basis

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The rows φ(xᵢ)."""
        return self.basis.design(x)


class BeliefMean(Mean):
    """m(x) = E[y | x] of another belief, taken as known."""

    belief: Belief = constant()

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """The belief's mean prediction."""
        return self.belief.predict(x).mean


class FunctionMean(Mean):
    """m(x) of a function of the rows (n, d), written with JAX."""

    function: Callable[[Array], Array] = eqx.field(static=True)
    compiled = True

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """f(x)."""
        return jnp.asarray(self.function(x), dtype=float).reshape(x.shape[0])


class DifferentiatedMean(Mean):
    """m(x) where a row asks for the value, ∂m/∂xⱼ where it asks for a derivative: the mean beside `Differentiated`."""

    mean: Mean
    compiled = True

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """m or ∂m/∂xⱼ."""
        return observed(self.mean, x)

    def kernel(self) -> Kernel | None:
        """The covariance of an uncertain mean and its derivatives."""
        kernel = self.mean.kernel()
        return None if kernel is None else Differentiated(kernel)

    def adapt(self, x: np.ndarray, scales: InputScales, center: float) -> "DifferentiatedMean":
        """As the mean inside, from the columns that are inputs."""
        inputs = tuple(range(len(scales.spread) - 1))
        return DifferentiatedMean(self.mean.adapt(x[:, :-1], scales.on(inputs), center))


def as_mean(value: object) -> Mean:
    """A mean from what users write: None is an unknown constant, a number a known one, a belief its mean."""
    if value is None:
        return Constant()
    if isinstance(value, Mean):
        return value
    if isinstance(value, Belief):
        return BeliefMean(value)
    if isinstance(value, Features):
        return Basis(value)
    if isinstance(value, int | float):
        return Zero() if value == 0 else Constant(as_float(value), np.zeros(()))
    if callable(value):
        return FunctionMean(value)
    raise DataError(f"mean must be a number, a function, features, a belief or a Mean, found {type(value).__name__}")
