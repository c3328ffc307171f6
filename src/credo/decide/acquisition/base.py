"""`Acquisition`: a score of candidate points, and the little that all of them share.

A score is made ready once for each suggestion (`prepared`: the incumbent, draws of maxima, drawn functions) and is
then a pure function of the belief and of the candidates. What it holds does not change its shape as data come
in, so that one compiled program serves a growing data set.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core.abilities import HasCovariance
from credo.core.arrays import is_traced
from credo.core.checks import ArrayLike, check_count, check_table
from credo.core.errors import DataError
from credo.core.predictive.base import to_array
from credo.decide.acquisition.normal_tails import log_softplus
from credo.infer.quasi_random import sobol

SMALLEST = 1e-30
"""The variance below which a value counts as known: roots and logarithms then keep finite slopes."""


class Acquisition(eqx.Module):
    """A score of candidate points, larger is better."""

    @property
    def scale(self) -> str:
        """What the score is: `real`, `positive` (it may underflow, `climb` is its logarithm) or already a `log`."""
        return "real"

    def prepared(self, belief: Any, *, seed: int = 0, pending: ArrayLike | None = None) -> "Acquisition":
        """The acquisition with what depends on the belief or on chance filled in; outside jit, once per suggestion.

        Args:
            belief: the belief now.
            seed: of the draws.
            pending: inputs (p, d) whose outcomes are awaited. Scores that look at one point at a time do not see
                them; `Believer` and `LocalPenalization` make any of them do so.
        """
        return self

    @abstractmethod
    def __call__(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The score of each row: pure, traceable and differentiable in x."""

    def climb(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """What a maximizer climbs: the logarithm of a score that may underflow, else the score itself."""
        return self(belief, x)

    def filled(self, **fields: object) -> Any:
        """The acquisition with these fields in place of None, or of what they were."""
        old = lambda a: tuple(getattr(a, name) for name in fields)  # noqa: E731
        return eqx.tree_at(old, self, tuple(fields.values()), is_leaf=lambda v: v is None)

    def log_positive(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The logarithm of a positive form of the score, which factors can multiply: log(1 + eᵃ) of one that is real.

        González, Dai, Hennig & Lawrence (2016), "Batch Bayesian optimization via local penalization", section 2.4.
        """
        score = self.climb(belief, x)
        return log_softplus(score) if self.scale == "real" else score


class Positive(Acquisition):
    """A score that is never negative, or (`scale` is then `log`) the logarithm of one: `climb` is the logarithm."""

    @property
    def scale(self) -> str:
        """A positive score."""
        return "positive"

    def __call__(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The score of each row; its logarithm where that is the score."""
        logarithm = self.climb(belief, x)
        return logarithm if self.scale == "log" else jnp.exp(logarithm)

    @abstractmethod
    def climb(self, belief: Any, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The logarithm of the score."""


class Moments(NamedTuple):
    """The function at the candidates, large values good: its mean and standard deviation."""

    mean: Float[Array, " m"]
    std: Float[Array, " m"]


class Directed(Acquisition):
    """An acquisition that looks for large outcomes, or for small ones: `maximize=False` turns the mean around."""

    maximize: bool = eqx.field(static=True, default=True, kw_only=True)

    def moments(self, belief: Any, x: Float[Array, "m d"]) -> Moments:
        """The mean and the standard deviation of ±f at each row."""
        prediction = belief.predict(x)
        return Moments(self.turned(prediction.mean), deviation(prediction.epistemic))

    def turned(self, value: Any) -> Any:
        """The value, with its sign changed where outcomes are to be small."""
        return value if self.maximize else -value


def deviation(variance: Float[Array, "*m"]) -> Float[Array, "*m"]:
    """√variance, whose slope stays finite where the variance is zero."""
    return jnp.sqrt(jnp.maximum(variance, SMALLEST))


# -- what was seen -----------------------------------------------------------------------------------------------


def seen_inputs(belief: Any) -> np.ndarray | None:
    """The inputs (n, d) of the rows that the belief was conditioned on, None where it does not keep them."""
    rows = getattr(belief, "seen", None)
    return None if rows is None or not hasattr(rows, "cut") else rows.cut()[0]


def demand_inputs(belief: Any, remedy: str) -> np.ndarray:
    """`seen_inputs`, or an error that says what to do without."""
    inputs = seen_inputs(belief)
    if inputs is None or not len(inputs):
        raise DataError(f"the belief ({type(belief).__name__}) has seen no rows, or does not keep them; {remedy}")
    return inputs


def demand_covariance(belief: Any, who: str) -> None:
    """`DataError` unless the belief knows how function values covary."""
    if not isinstance(belief, HasCovariance):
        raise DataError(
            f"{who} needs a belief with covariance(x, z), e.g. credo.GP, found {type(belief).__name__}; "
            "use a score of single points, e.g. ExpectedImprovement or UpperConfidenceBound"
        )


def around(belief: Any, n: int, seed: int, remedy: str) -> np.ndarray:
    """The rows that were seen, and n quasi-random points of the smallest box that holds them."""
    inputs = demand_inputs(belief, remedy)
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    return np.concatenate([inputs, low + sobol(n, inputs.shape[1], seed) * (high - low)])


# -- checks ------------------------------------------------------------------------------------------------------


def check_number(value: Any, name: str, least: float = -np.inf) -> None:
    """`DataError` unless the value is one finite number of at least `least`; None and traced numbers pass."""
    if value is None or is_traced(value):
        return
    found = np.asarray(value)
    if found.shape != () or not np.isfinite(found) or found < least:
        expected = "a finite number" if least == -np.inf else f"a finite number of at least {least:g}"
        raise DataError(f"{name} must be {expected}, found {value!r}")


def check_draws(n: int) -> None:
    """`DataError` unless draws can come in antithetic pairs."""
    check_count(n, "draws", 2)
    if n % 2:
        raise DataError(f"draws come in antithetic pairs and must be an even number, found {n}")


def maybe_array(value: Any) -> Any:
    """Field converter: a number to a float64 array, None stays None."""
    return None if value is None else to_array(value)


def table_or_none(value: Any, name: str) -> Any:
    """Points of shape (p, d) as an array; None and no points are None."""
    if value is None or (not is_traced(value) and np.size(value) == 0):
        return None
    return jnp.asarray(check_table(value, name))
