"""What a pass over sequences says of hidden states: the law of each row, and what each row adds to log p(x)."""

import equinox as eqx
from jaxtyping import Float

from credo.core.arrays import Array, namespace


class FilteredStates(eqx.Module):
    """p(zₜ | x₁…xₜ) for each row: its mean and covariance, and log p(xₜ | x₁…xₜ₋₁)."""

    mean: Float[Array, "t n"]
    covariance: Float[Array, "t n n"]
    increments: Float[Array, " t"]
    """log p(xₜ | x₁…xₜ₋₁)."""

    @property
    def std(self) -> Float[Array, "t n"]:
        """The standard deviation of each number of the state."""
        xp = namespace(self.covariance)
        return xp.sqrt(xp.diagonal(self.covariance, axis1=1, axis2=2))

    @property
    def log_likelihood(self) -> Float[Array, ""]:
        """log p(x₁…x_T) = Σₜ log p(xₜ | x₁…xₜ₋₁); for particles its exponential is an unbiased estimate."""
        return self.increments.sum()


class SmoothedStates(FilteredStates):
    """p(zₜ | x₁…x_T) for each row; the increments are those of the filter."""
