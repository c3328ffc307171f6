"""Wrappers that make a score of single points respect points whose outcomes are awaited.

    Believer            the outcomes are believed to be what the belief expects    Ginsbourger et al. (2010)
    LocalPenalization   each pending point keeps others away, as far as the function may still
                        rise from it to its maximum                                González et al. (2016)

Chosen one after the other, each pending the next, they make a batch.
"""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, host, namespace
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.padding import bucket, pad_rows
from credo.core.pytrees import changed
from credo.decide.acquisition.base import SMALLEST, Acquisition, Directed, Positive
from credo.decide.acquisition.batch import Batch
from credo.decide.acquisition.checks import (
    Beliefs,
    Points,
    Predicts,
    around,
    check_number,
    maybe_array,
    single,
    table_or_none,
)
from credo.decide.acquisition.normal_tails import log_cdf
from credo.models.gp.base import padded
from credo.models.noise import KnownNoise

B = TypeVar("B", bound=Predicts)


class Believer(Acquisition):
    """The acquisition under the belief conditioned on its own mean at the pending points (kriging believer).

    Args:
        acquisition: any score.
    """

    acquisition: Acquisition
    belief: Predicts | None = None
    """The belief that has seen the believed outcomes."""

    def __check_init__(self) -> None:
        if isinstance(self.acquisition, Batch):
            raise DataError(f"{type(self.acquisition).__name__} respects pending points itself; pass them to prepared")

    @property
    def scale(self) -> str:  # type: ignore[override]
        """As that of the acquisition."""
        return self.acquisition.scale

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "Believer":
        """With the belief conditioned and the acquisition prepared for it."""
        points = table_or_none(pending, "pending")
        after = single(belief) if points is None else believing(single(belief), points)
        ready = self.acquisition.prepared(after, seed=seed)
        return changed(self, acquisition=ready, belief=after)

    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The score under the belief that was conditioned."""
        return self.acquisition(self._after(), x)

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """What the acquisition climbs, there."""
        return self.acquisition.climb(self._after(), x)

    def _after(self) -> Predicts:
        if self.belief is None:
            raise DataError("Believer has not seen the pending points yet; call prepared(belief, pending=points) first")
        return self.belief


def believing(belief: B, x: Array) -> B:
    """The belief after outcomes at x that are exactly what it expects."""
    if not isinstance(belief, Belief):
        raise DataError(f"pending points need a belief that can be conditioned, found {type(belief).__name__}")
    prediction = host(belief.predict(x))
    known = isinstance(getattr(belief, "noise", None), KnownNoise)
    return belief.condition(x, prediction.mean, **({"noise": prediction.aleatoric} if known else {}))


class LocalPenalization(Directed, Positive):
    """The score times Πⱼ Φ((L |x - xⱼ| - M + μ(xⱼ))/σ(xⱼ)) over the pending points xⱼ.

    A factor is the probability that x lies outside the ball around xⱼ in which, with slopes of at most L, no
    maximum M can be. A score that may be negative is made positive by log(1 + eᵃ) first.

    Args:
        acquisition: any score.
        lipschitz: L; None: the largest slope of the mean at the rows seen and at quasi-random points among them.
        maximum: M; None: the largest mean at those points.
        maximize: False where small outcomes are good.
    """

    acquisition: Acquisition
    lipschitz: Float[Array, ""] | None = eqx.field(converter=maybe_array, default=None)
    maximum: Float[Array, ""] | None = eqx.field(converter=maybe_array, default=None)
    points: Float[Array, "p d"] | None = None
    mask: Bool[Array, " p"] | None = None

    def __check_init__(self) -> None:
        if isinstance(self.acquisition, Batch):
            raise DataError(f"{type(self.acquisition).__name__} respects pending points itself; pass them to prepared")
        check_number(self.lipschitz, "lipschitz", 0.0)
        check_number(self.maximum, "maximum")
        if isinstance(self.acquisition, Directed) and self.acquisition.maximize != self.maximize:
            raise DataError("the acquisition and LocalPenalization must both maximize or both minimize: give maximize=")

    @property
    def scale(self) -> str:  # type: ignore[override]
        """A positive score, or the logarithm of one."""
        return "log" if self.acquisition.scale == "log" else "positive"

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "LocalPenalization":
        """With L and M estimated, the pending points kept, and the acquisition prepared."""
        ready = self.acquisition.prepared(belief, seed=seed)
        lipschitz, maximum = self.lipschitz, self.maximum
        waiting = table_or_none(pending, "pending")
        if lipschitz is None or maximum is None:
            places = around(belief, 512, seed, "give lipschitz= and maximum=")
            filled = np.concatenate([places, np.repeat(places[:1], bucket(len(places)) - len(places), axis=0)])
            slope, top = host(_steepest(padded(single(belief)), filled, 1.0 if self.maximize else -1.0))
            lipschitz = np.maximum(slope, SMALLEST) if lipschitz is None else lipschitz
            maximum = self.turned(top) if maximum is None else maximum
        rows = np.zeros((0, 1)) if waiting is None else np.asarray(waiting)
        size = bucket(len(rows)) if len(rows) else 0
        points, mask = pad_rows(rows, size), np.arange(size) < len(rows)
        return changed(self, acquisition=ready, lipschitz=lipschitz, maximum=maximum, points=points, mask=mask)

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """log score + Σⱼ log Φ(…)."""
        return self.acquisition.log_positive(belief, x) + self.log_penalty(belief, x)

    def log_penalty(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Σⱼ log Φ((L |x - xⱼ| - M + μ(xⱼ))/σ(xⱼ))."""
        if self.points is None or self.mask is None or self.lipschitz is None or self.maximum is None:
            raise DataError("LocalPenalization is not ready; call prepared(belief, pending=points) first")
        if not len(self.mask):
            return np.zeros(x.shape[0])
        mean, std = self.moments(belief, self.points)
        xp = namespace(x, mean, self)
        squared = ((x[:, None, :] - self.points) ** 2).sum(-1)
        gap = self.lipschitz * xp.sqrt(xp.maximum(squared, SMALLEST)) - self.turned(self.maximum) + mean
        return xp.where(self.mask, log_cdf(gap / std), 0.0).sum(1)


@eqx.filter_jit
def _steepest(belief: Predicts, x: Float[Array, "m d"], sign: float) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The largest slope and the largest value of the mean of ±f at the rows x."""
    slopes = jax.grad(lambda v: belief.predict(v).mean.sum())(x)
    return jnp.sqrt((slopes**2).sum(-1)).max(), (sign * belief.predict(x).mean).max()
