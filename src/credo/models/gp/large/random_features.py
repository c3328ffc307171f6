"""`RandomFeatures`: a Gaussian process of a stationary kernel as Bayesian linear regression on random cosines.

    k(x, z) = s² E[cos(ωᵀ(x - z))] ≈ φ(x)ᵀφ(z),   φ = s/√m [cos(ωᵢᵀx), sin(ωᵢᵀx)],   w ~ N(0, I)

The draws behind the frequencies stay the same while hyperparameters are learned: ω moves with the lengthscales. Far
from the data it is as sure as its 2m weights are: too sure. Rahimi & Recht (2007); `kernels.random_fourier` has the
bound of the error (`feature_error_probability`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, host, is_traced
from credo.core.checks import check_count
from credo.core.padding import by_bucket
from credo.core.pytrees import changed
from credo.infer.learning import Learned
from credo.kernels.random_fourier import random_features
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.evidence import Priors
from credo.models.gp.large.base import LargeMethod
from credo.models.gp.large.low_rank import LowRankGP
from credo.models.gp.large.vecchia import split_mean, trend_columns


class Cosines(NamedTuple):
    """φ, followed by the columns of the trend."""

    features: Any
    trend: Any
    d: int

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self.features.size(self.d) + trend_columns(self.trend, np.zeros((1, self.d))).shape[1]

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """φ(x); traceable."""
        return jnp.concatenate([self.features(x), jnp.asarray(trend_columns(self.trend, x))], axis=1)

    def at(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """φ(x), NumPy's where the numbers are known."""
        return self(x) if is_traced(self.features, self.trend, x) else np.asarray(by_bucket(cast(Any, self), x))


class RandomFeaturesGP(LowRankGP):
    """A Gaussian process of finitely many random cosines, and of the columns of its trend."""

    columns: int = eqx.field(static=True, default=0)

    def __init__(self, gp: GP, method: "RandomFeatures"):
        super().__init__(gp, method)
        self.columns = 0

    def frame(self) -> Cosines:
        """The features of the kernel as it is now."""
        kernel, trend = split_mean(self.kernel, self.mean)
        own = random_features(kernel, self.method.m, self.columns, seed=self.method.seed)
        return Cosines(host(own), trend, self.columns)

    def placed(self, rows: Rows) -> "RandomFeaturesGP":
        """Of as many columns as the rows have."""
        return changed(self, columns=rows.x.shape[1])


@dataclass(frozen=True)
class RandomFeatures(LargeMethod):
    """A `GP` of a stationary kernel by m random frequencies: linear regression on 2m columns, O(nm²).

        gp.condition(X, y, using=RandomFeatures(300))         credo.fit(gp, X, y, using=RandomFeatures(300))

    The result is a `RandomFeaturesGP`. The error falls with √m, and is largest where there are no data.
    """

    m: int = 300
    max_steps: int = 60
    seed: int = 0
    """Of the frequencies."""

    belief: ClassVar[type] = RandomFeaturesGP

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.m, "m")

    def learn(self, belief: Any, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest evidence × prior found."""
        belief = self.start(belief, statistics, fixed, priors, seed).placed(statistics)
        learned = self.climb(belief, statistics, fixed, priors, seed, max_steps=self.max_steps)
        return learned._replace(notes=[*learned.notes, f"the evidence of {self.m} random frequencies"])
