"""The dynamics of a hidden state: how it moves and what it shows, each a function of one state.

    zₜ = step(zₜ₋₁, uₜ) + qₜ,  qₜ ~ N(0, Q)      xₜ = observe(zₜ, uₜ) + vₜ,  vₜ ~ N(0, R)      z₁ ~ N(m(u₁), P)

or, for particles, any law that can be drawn from (`transition_sample`) and any likelihood (`log_likelihood`, or an
`observe` that returns a `Predictive`). The input uₜ is None where there are none.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from credo.core.arrays import Array, is_traced
from credo.core.checks import ArrayLike, check_table, check_vector
from credo.core.errors import DataError
from credo.core.linalg import factorize, log_determinant, quadratic
from credo.core.params import positive_definite
from credo.core.predictive import Predictive
from credo.core.special import LOG_2PI
from credo.models.lds.checks import check_semidefinite

Function = Callable[..., Any]
"""What users write, with jax.numpy."""


class Dynamics(eqx.Module):
    """The functions and numbers of a state space model; see `StateSpaceModel`."""

    step: Function | None
    observe: Function | None
    log_likelihood: Function | None
    transition_sample: Function | None
    start_mean: Float[Array, " n"] | Function
    start_covariance: Float[Array, "n n"]
    process_noise: Float[Array, "n n"] | None = positive_definite()
    observation_noise: Float[Array, "p p"] | None = positive_definite()

    @property
    def states(self) -> int:
        """How many numbers a state has."""
        return self.start_covariance.shape[0]

    def first_mean(self, u: Array | None) -> Float[Array, " n"]:
        """E[z₁ | u₁]."""
        if not callable(self.start_mean):
            return self.start_mean
        if u is None:
            raise DataError("start_mean is a function of the inputs of the first row, found none; pass inputs=")
        mean = jnp.atleast_1d(jnp.asarray(self.start_mean(u), float))
        if mean.shape != (self.states,):
            words = f"a state of shape ({self.states},), as start_covariance has"
            raise DataError(f"start_mean(u) must return {words}, found {mean.shape}")
        return mean

    def advance(self, z: Float[Array, " n"], u: Array | None) -> Float[Array, " n"]:
        """E[z' | z, u] = step(z, u)."""
        if self.step is None or self.process_noise is None:
            raise DataError("the model moves by transition_sample alone; pass step with its noise, or use Particles()")
        moved = jnp.atleast_1d(jnp.asarray(self.step(z, u), float))
        if moved.shape != z.shape:
            raise DataError(f"step must return a state of shape {z.shape}, as start_mean has, found {moved.shape}")
        return moved

    def outcome(self, z: Float[Array, " n"], u: Array | None, columns: int | None = None) -> Float[Array, " p"]:
        """E[x | z, u] = observe(z, u), for a Gaussian outcome."""
        shown = self.shown(z, u)
        if isinstance(shown, Predictive) or self.observation_noise is None:
            raise DataError(
                "Extended and Unscented need observe to return numbers, and their observation_noise; "
                "for other outcomes use Particles()"
            )
        mean = jnp.atleast_1d(shown)
        noise = self.observation_noise.shape
        if mean.ndim != 1 or noise != (mean.shape[0], mean.shape[0]):
            raise DataError(
                f"observation_noise must be square with a row for each outcome of observe, found shape {noise} "
                f"for outcomes of shape {mean.shape}"
            )
        _check_columns(mean.shape[0], columns)
        return mean

    def shown(self, z: Float[Array, " n"], u: Array | None) -> Array | Predictive:
        """What `observe` returns: numbers, or a `Predictive`."""
        if self.observe is None:
            raise DataError("the model has no observe, so its outcomes cannot be predicted; pass observe")
        shown = self.observe(z, u)
        return shown if isinstance(shown, Predictive) else jnp.asarray(shown, float)

    def noise_for(self, doing: str) -> Float[Array, "p p"]:
        """R, without which nobody knows what an outcome looks like."""
        if self.observation_noise is None:
            raise DataError(
                f"{doing} needs observation_noise, or an observe that returns a Predictive: "
                "log_likelihood alone does not tell what an outcome looks like"
            )
        return self.observation_noise

    def log_probs(
        self, x: Float[Array, " p"], seen: Bool[Array, " p"], z: Float[Array, "k n"], u: Array | None
    ) -> tuple[Float[Array, " k"], Bool[Array, ""]]:
        """log p(x | z, u) of the entries that were seen, for each of k states; and whether the noise allows it."""
        fine = jnp.asarray(True)
        if self.log_likelihood is not None:
            own = self.log_likelihood
            each = jax.vmap(lambda state: jnp.asarray(own(x, state, u), float))(z)
            if each.shape != z.shape[:1]:
                raise DataError(f"log_likelihood must return one number, found shape {each.shape[1:]}")
            return jnp.where(seen.any(), each, 0.0), fine
        if isinstance(eqx.filter_eval_shape(self.shown, z[0], u), Predictive):
            each = jax.vmap(lambda state: jnp.atleast_1d(_predictive(self.shown(state, u)).log_prob(x)))(z)
            _check_columns(each.shape[1], x.shape[0])
            return jnp.sum(jnp.where(seen, each, 0.0), axis=1), fine
        means = jax.vmap(lambda state: self.outcome(state, u, x.shape[0]))(z)
        assert self.observation_noise is not None
        root, definite = scaled_root(self.observation_noise, seen)
        distance = quadratic(root, jnp.where(seen, x - means, 0.0).T)
        return -0.5 * (distance + log_determinant(root) + seen.sum() * LOG_2PI), definite

    def move(self, key: PRNGKeyArray, z: Float[Array, "k n"], u: Array | None) -> Float[Array, "k n"]:
        """One draw of the next state after each of k states."""
        if self.transition_sample is None:
            means = jax.vmap(lambda state: self.advance(state, u))(z)
            assert self.process_noise is not None
            return means + jr.normal(key, z.shape) @ noise_root(self.process_noise).T
        own, keys = self.transition_sample, jr.split(key, z.shape[0])
        moved = jax.vmap(lambda k, state: jnp.atleast_1d(jnp.asarray(own(k, state, u), float)))(keys, z)
        if moved.shape != z.shape:
            raise DataError(f"transition_sample must return a state of shape {z.shape[1:]}, found {moved.shape[1:]}")
        return moved

    def draw_start(self, key: PRNGKeyArray, n: int, u: Array | None) -> Float[Array, "k n"]:
        """n draws of the first state."""
        return self.first_mean(u) + jr.normal(key, (n, self.states)) @ noise_root(self.start_covariance).T


def _predictive(shown: Array | Predictive) -> Predictive:
    assert isinstance(shown, Predictive)
    return shown


def scaled_root(matrix: Float[Array, "n n"], mask: Bool[Array, " n"]) -> tuple[Float[Array, "n n"], Bool[Array, ""]]:
    """The Cholesky factor of a covariance, and whether it has one; rows outside `mask` are those of the identity.

    Factorized as correlations, so that the jitter of a singular one is small next to each of its variances.
    """
    variance = jnp.diagonal(matrix)
    size = jnp.sqrt(jnp.where(mask & (variance > 0), variance, 1.0))
    factor = factorize(matrix / (size[:, None] * size), mask)
    return size[:, None] * factor.root, factor.ok


def noise_root(covariance: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """L with LLᵀ = the covariance, which may be singular: coordinates without variance have rows of zero."""
    free = jnp.diagonal(covariance) > 0
    return jnp.where(free[:, None], scaled_root(covariance, free)[0], 0.0)


def check_mean(value: ArrayLike | Function) -> Array | Function:
    """The mean of the first state as a vector, or as a function of inputs; a number is a state of one number."""
    if callable(value):
        return value
    if is_traced(value):
        return jnp.atleast_1d(value)
    return np.asarray(check_vector(np.atleast_1d(np.asarray(value)) if np.ndim(value) == 0 else value, "start_mean"))


def check_covariance(value: ArrayLike, name: str, size: int | None) -> Array:
    """A covariance matrix, which may be singular, of the expected size; a number is a matrix of one entry."""
    if is_traced(value):
        return value
    table = np.asarray(check_table([[value]] if np.ndim(value) == 0 and value is not None else value, name))
    k = len(table) if size is None else size
    if table.shape != (k, k):
        what = "a square matrix" if size is None else f"a matrix of shape ({k}, {k}), as the state has {k} numbers"
        raise DataError(f"{name} must be {what}, found shape {table.shape}")
    return check_semidefinite(table, name)


def _check_columns(found: int, expected: int | None) -> None:
    if expected is not None and found != expected:
        raise DataError(f"x must have {found} columns, as observe returns, found {expected}")
