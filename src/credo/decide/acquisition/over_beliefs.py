"""`OverBeliefs`: a score under several beliefs about the same outcome at once, where data do not say which is right.

    a(x) = Σⱼ wⱼ a(x | beliefⱼ),    Σⱼ wⱼ = 1

Each belief expects its improvement elsewhere; the average goes where they agree. Snoek, Larochelle & Adams (2012),
"Practical Bayesian optimization of machine learning algorithms", section 3.2, where they differ in hyperparameters.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from credo.core.arrays import put
from credo.core.errors import DataError
from credo.decide.acquisition.base import Acquisition


class OverBeliefs(Acquisition):
    """The mean of an acquisition over the belief that is asked and others.

    Args:
        acquisition: a score that is positive, e.g. `NoisyExpectedImprovement()`.
        others: beliefs about the same outcome in the same units.
        log_weights: log wⱼ up to a constant, that of the belief that is asked first; None: all are the same.
    """

    acquisition: Acquisition
    others: tuple[Any, ...]
    log_weights: Float[Array, " m"]
    ready: tuple[Acquisition, ...] | None

    def __init__(self, acquisition: Acquisition, others: Any, log_weights: Any = None):
        self.acquisition, self.others, self.ready = acquisition, tuple(others), None
        m = 1 + len(self.others)
        given = np.zeros(m) if log_weights is None else np.asarray(log_weights, dtype=float)
        if given.shape != (m,) or not np.isfinite(given.max()):
            raise DataError(
                f"log_weights must hold one number for each of the {m} beliefs, found {given}; "
                "-inf leaves a belief out, and one at least must be finite"
            )
        self.log_weights = put(given - np.logaddexp.reduce(given))

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
        return eqx.tree_at(lambda a: a.ready, self, ready, is_leaf=lambda v: v is None)

    def __call__(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The mean score."""
        return jnp.exp(self.climb(belief, x)) if self.scale == "positive" else self.climb(belief, x)

    def climb(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Its logarithm."""
        if self.ready is None:
            raise DataError("OverBeliefs is not ready yet; call prepared(belief) first")
        pairs = zip(self.ready, (belief, *self.others), strict=True)
        logs = jnp.stack([each.climb(about, x) for each, about in pairs])
        return logsumexp(logs + self.log_weights[:, None], axis=0)
