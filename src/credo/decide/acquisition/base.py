"""`Acquisition`: a score of candidate points, and the little that all of them share.

A score is made ready once for each suggestion (`prepared`: the incumbent, draws of maxima, drawn functions) and is
then a pure function of the belief and of the candidates. What it holds does not change its shape as data come
in, so that one compiled program serves a growing data set.
"""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.decide.acquisition.checks import Beliefs, Points, single
from credo.decide.acquisition.normal_tails import log_softplus

SMALLEST = 1e-30
"""The variance below which a value counts as known: roots and logarithms then keep finite slopes."""


class Acquisition(eqx.Module):
    """A score of candidate points, larger is better."""

    scale: ClassVar[str] = "real"
    """What the score is: `real`, `positive` (it may underflow, `climb` is its logarithm) or already a `log`."""

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "Acquisition":
        """The acquisition with what depends on the belief or on chance filled in; outside jit, once per suggestion.

        Args:
            belief: the belief now.
            seed: of the draws.
            pending: inputs (p, d) whose outcomes are awaited. Scores that look at one point at a time do not see
                them; `Believer` and `LocalPenalization` make any of them do so.
        """
        return self

    @abstractmethod
    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The score of each row: pure, traceable and differentiable in x."""

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """What a maximizer climbs: the logarithm of a score that may underflow, else the score itself."""
        return self(belief, x)

    def log_positive(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The logarithm of a positive form of the score, which factors can multiply: log(1 + eᵃ) of one that is real.

        González, Dai, Hennig & Lawrence (2016), "Batch Bayesian optimization via local penalization", section 2.4.
        """
        score = self.climb(belief, x)
        return log_softplus(score) if self.scale == "real" else score


class Positive(Acquisition):
    """A score that is never negative, or (`scale` is then `log`) the logarithm of one: `climb` is the logarithm."""

    scale: ClassVar[str] = "positive"

    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The score of each row; its logarithm where that is the score."""
        logarithm = self.climb(belief, x)
        return logarithm if self.scale == "log" else namespace(logarithm).exp(logarithm)

    @abstractmethod
    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The logarithm of the score."""


class Moments(NamedTuple):
    """The function at the candidates, large values good: its mean and standard deviation."""

    mean: Float[Array, " m"]
    std: Float[Array, " m"]


class Directed(Acquisition):
    """An acquisition that looks for large outcomes, or for small ones: `maximize=False` turns the mean around."""

    maximize: bool = eqx.field(static=True, default=True, kw_only=True)

    def moments(self, belief: Beliefs, x: Float[Array, "m d"]) -> Moments:
        """The mean and the standard deviation of ±f at each row."""
        prediction = single(belief).predict(x)
        return Moments(self.turned(prediction.mean), deviation(prediction.epistemic))

    def turned(self, value: Array) -> Array:
        """The value, with its sign changed where outcomes are to be small."""
        return value if self.maximize else -value


def deviation(variance: Float[Array, "*m"]) -> Float[Array, "*m"]:
    """√variance, whose slope stays finite where the variance is zero."""
    xp = namespace(variance)
    return xp.sqrt(xp.maximum(variance, SMALLEST))
