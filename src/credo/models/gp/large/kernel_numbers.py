"""Members to which the kernel is a vector of numbers: the weights of waves, or its values at the differences of nodes.

Their evidence is a function of those numbers and of the noise, whose slopes JAX pulls back to the hyperparameters.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array
from credo.models.gp.belief import GP
from credo.models.gp.large.base import WeightSpaceGP


class OfKernelNumbers(WeightSpaceGP):
    """A member whose posterior depends on its kernel through a vector."""

    def __init__(self, gp: GP, method: Any):
        """The prior of a `GP`."""
        super().__init__(gp, method)

    @abstractmethod
    def kernel_numbers(self) -> Float[Array, " t"]:
        """The vector; traceable."""


def _parts(u: Array, belief: OfKernelNumbers, slots: params.Layout, priors: Any) -> tuple[Array, Array, Array]:
    own = params.from_vector(belief, slots, u)
    log_prior = jnp.asarray(params.log_prior(own, priors), float)
    return own.kernel_numbers(), jnp.asarray(own.noise_variance()), log_prior


@eqx.filter_jit
def numbers_of(vector: Array, belief: OfKernelNumbers, slots: params.Layout, priors: Any) -> tuple[Array, Array, Array]:
    """The numbers of the kernel, the variance of the noise and the log prior of an unconstrained vector."""
    return _parts(jnp.asarray(vector), belief, slots, priors)


@eqx.filter_jit
def pull_numbers(
    vector: Array, belief: OfKernelNumbers, slots: params.Layout, priors: Any, *slopes: Array
) -> Float[Array, " k"]:
    """∂/∂vector of the log prior and of what has these slopes in the numbers of the kernel and the noise."""
    _, pull = jax.vjp(lambda u: _parts(u, belief, slots, priors), jnp.asarray(vector))
    return pull((*slopes, jnp.ones(())))[0]


@eqx.filter_jit
def known_numbers(belief: OfKernelNumbers) -> Float[Array, " t"]:
    """`kernel_numbers`, compiled."""
    return belief.kernel_numbers()
