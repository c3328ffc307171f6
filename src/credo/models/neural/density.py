"""The log density of a network's weights, as the methods of `credo.infer` see it.

log p(y, θ) = -½ α ‖θ‖² + Σᵢ log p(yᵢ | f(xᵢ; θ)) + const
"""

import equinox as eqx
from jaxtyping import Float

from credo.core.arrays import Array
from credo.models.neural.network import Architecture
from credo.models.neural.outcomes import Outcome


class Density(eqx.Module):
    """log p(θ) and log p(yᵢ | xᵢ, θ), in the units of the network."""

    precision: Float[Array, ""]
    network: Architecture
    law: Outcome

    def __call__(self, numbers: dict[str, Array], x: Float[Array, "n d"], t: Float[Array, " n"]) -> Float[Array, " n"]:
        """log p(yᵢ | xᵢ, θ) of each row."""
        return self.law.log_prob(self.network(numbers["weights"], x), t)

    def log_prior(self, numbers: dict[str, Array]) -> Float[Array, ""]:
        """log N(θ | 0, 1/precision), up to a constant."""
        return -0.5 * self.precision * (numbers["weights"] ** 2).sum()


def outputs(numbers: dict[str, Array], density: Density, x: Array, t: Array) -> Array:
    """f(x; θ)."""
    return density.network(numbers["weights"], x)


def log_likelihood(f: Array, density: Density, x: Array, t: Array) -> Array:
    """log p(y | f)."""
    return density.law.log_prob(f, t).sum()


def log_joint(numbers: dict[str, Array], density: Density, x: Array, t: Array) -> Array:
    """log p(y, θ)."""
    return density.log_prior(numbers) + density(numbers, x, t).sum()
