"""`OverBeliefs`: a score under several beliefs about the same outcome at once, where data do not say which is right.

    a(x) = 1/m Σⱼ a(x | beliefⱼ)

Each belief expects its improvement elsewhere; the average goes where they agree. Snoek, Larochelle & Adams (2012),
"Practical Bayesian optimization of machine learning algorithms", section 3.2, where they differ in hyperparameters.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from credo.core.errors import DataError
from credo.decide.acquisition.base import Acquisition


class OverBeliefs(Acquisition):
    """The mean of an acquisition over the belief that is asked and others.

    Args:
        acquisition: a score that is positive, e.g. `NoisyExpectedImprovement()`.
        others: beliefs about the same outcome in the same units.
    """

    acquisition: Acquisition
    others: tuple[Any, ...] = eqx.field(converter=tuple)
    ready: tuple[Acquisition, ...] | None = None

    def __check_init__(self) -> None:
        if self.acquisition.scale == "real":
            name = type(self.acquisition).__name__
            raise DataError(f"OverBeliefs averages scores that are positive, such as ExpectedImprovement, found {name}")

    @property
    def scale(self) -> str:
        """That of the acquisition."""
        return self.acquisition.scale

    def prepared(self, belief: Any, seed: int = 0, pending: Any = None) -> "OverBeliefs":
        """The acquisition, made ready for each belief."""
        ready = tuple(self.acquisition.prepared(each, seed, pending) for each in (belief, *self.others))
        return OverBeliefs(self.acquisition, self.others, ready)

    def __call__(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The mean score."""
        return jnp.exp(self.climb(belief, x)) if self.scale == "positive" else self.climb(belief, x)

    def climb(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Its logarithm."""
        if self.ready is None:
            raise DataError("OverBeliefs is not ready yet; call prepared(belief) first")
        pairs = zip(self.ready, (belief, *self.others), strict=True)
        logs = jnp.stack([each.climb(about, x) for each, about in pairs])
        return logsumexp(logs, axis=0) - jnp.log(len(logs))
